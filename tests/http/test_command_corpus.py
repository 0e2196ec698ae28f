"""`attnd corpus`: its two formats say the same, and the lines of the READMEs are what it prints."""
import json
import subprocess

import pytest

from conftest import BINARY
from documents import commands


def corpus(*options, code=0):
    done = subprocess.run([BINARY, "corpus", *options], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout if not code else done.stderr


@pytest.mark.parametrize("task", ["en-fr", "en-fr-text", "copy", "reverse", "sort"])
def test_formats_agree(task):
    lines = corpus("--task", task, "--count", "30", "--split=held-out").splitlines()
    objects = [json.loads(line) for line in corpus("--task", task, "--count", "30", "--split=held-out", "--format=json").splitlines()]
    assert len(lines) == len(objects) == 30
    for line, pair in zip(lines, objects):
        source, target, links = line.split("\t")
        assert source.split() == pair["source"] and target.split() == pair["target"]
        for kind, mark in (("sure", "-"), ("possible", "?")):
            found = [[int(n) for n in link.split(mark)] for link in links.split() if mark in link]
            assert found == pair[kind]


@pytest.mark.parametrize("command, answer", [line[1:] for line in commands("build/attnd corpus ")])
def test_readme_lines(command, answer):
    assert corpus(*command.split()[2:]) == answer


@pytest.mark.parametrize("options", [["--count", "x"], ["--longest", "61"], ["--task", "none"], ["--sead", "1"], ["--count"]])
def test_wrong_options(options):
    assert corpus(*options, code=2).startswith("attnd corpus: ")
