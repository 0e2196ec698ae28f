"""`attnd experiment`: every experiment at a small setting, its files, and its numbers beside NumPy and closed forms."""
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from conftest import BINARY, ROOT
from oracle import rng
from picture import Picture

SCHEMA = json.loads((ROOT / "server/api/schemas.json").read_text())["Findings"]
README = (ROOT / "README.md").read_text()
SMALL = {
    "parameters": [],
    "scale": ["--widest", "64", "--keys", "16", "--queries", "40"],
}


def experiment(*options, code=0):
    done = subprocess.run([BINARY, "experiment", *map(str, options)], capture_output=True, text=True, timeout=600)
    assert done.returncode == code, done.stderr
    return done.stdout if not code else done.stderr


class Found:
    def __init__(self, folder, name, options):
        self.printed = experiment(name, *options, "--quiet", "--out", folder)
        self.json = json.loads((folder / f"{name}.json").read_text())
        self.folder, self.name = folder, name

    def table(self, index=0):
        """{column: [its entries]}"""
        table = self.json["tables"][index]
        return {c["name"]: [row[i] for row in table["rows"]] for i, c in enumerate(table["columns"])}

    def without_times(self):
        tables = [[[cell for cell, column in zip(row, t["columns"]) if not column["measured"]] for row in t["rows"]] for t in self.json["tables"]]
        return tables, [p for p in self.json["pictures"] if "measured" not in p["title"]]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Each experiment's findings, run once."""
    runs = {}

    def run(name):
        if name not in runs:
            runs[name] = Found(tmp_path_factory.mktemp(name), name, SMALL[name])
        return runs[name]
    return run


def test_the_list_is_complete():
    listed = re.findall(r"^  (\w+) +(.+)$", experiment(), re.M)
    assert sorted(name for name, _ in listed) == sorted(SMALL)
    section = README.split("\n## Experiments\n")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.M)) == sorted(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_tables_and_json(found, name):
    run = found(name)
    Draft202012Validator(SCHEMA).validate(run.json)
    assert run.json["experiment"] == name
    for table in run.json["tables"]:
        assert table["rows"] and all(len(row) == len(table["columns"]) for row in table["rows"])
        assert table["title"] in run.printed
        assert len({c["name"] for c in table["columns"]}) == len(table["columns"])
    assert run.printed.rstrip().endswith(run.json["closing"])


@pytest.mark.parametrize("name", SMALL)
def test_pictures(found, name):
    run = found(name)
    assert run.json["pictures"] and len({p["name"] for p in run.json["pictures"]}) == len(run.json["pictures"])
    for number, said in enumerate(run.json["pictures"]):
        stem = f"{name}-{said['name']}" if number else name
        picture = Picture((run.folder / f"{stem}.svg").read_bytes())
        assert picture.title == said["title"] and not picture.outside()
        assert len(picture.groups) == len(said["panels"] or [None])
        assert (run.folder / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        for cells in said.get("cells", []):
            assert len(cells) == len(said["rows"] or cells) and {len(row) for row in cells} == {len(said["columns"] or cells[0])}


@pytest.mark.parametrize("name", SMALL)
def test_the_same_again(found, name, tmp_path):
    assert Found(tmp_path, name, SMALL[name]).without_times() == found(name).without_times()


def test_parameters_are_those_of_the_formulas(found):
    classes, parts = found("parameters").table(0), found("parameters").table(1)
    assert classes["parameters"] == classes["by formula"] == [0, 262144, 524800, 262400, 197376, 1050624, 1050624, 0, 512000]
    # bidirectional, then one way: 4 gates of input, state and two biases, a layer and direction
    lstm = 2 * 2 * 4 * 128 * (256 + 128 + 2), 2 * 4 * 256 * (256 + 256 + 2)
    want = [10000 * 256, 8000 * 256, lstm[0], 4 * (256 ** 2 + 256), lstm[1], 4 * (256 ** 2 + 256), 512, 512, 8000 * 257]
    assert parts["parameters"] == [*want, sum(want)]


def test_scale_beside_numpy(found):
    """Every column, computed again from the same random numbers in float64."""
    table = found("scale").table()
    L, S, rows = 40, 16, 0
    draw = lambda stream, *shape: rng.normal(int(rng.bits(1, stream)), int(np.prod(shape))).reshape(shape).astype(np.float32).astype(float)
    values, upstream = draw(2, S, 64), draw(3, L, 64)
    for d in (4, 8, 16, 32, 64):
        query, key = draw(0, L, d), draw(1, S, d)
        for scale in (1, d ** -0.5):
            scores = scale * query @ key.T
            p = np.exp(scores - scores.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            dp = upstream @ values.T
            norms = np.linalg.norm(p * (dp - (p * dp).sum(1, keepdims=True)), axis=1)
            entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(1)
            want = {"d": d, "deviation of scores": scores.std(), "largest weight": p.max(1).mean(), "saturated rows": 100 * (p.max(1) >= 0.99).mean(),
                    "effective keys": np.exp(entropy).mean(), "gradient, mean": norms.mean(), "gradient, median": np.median(norms)}
            for column, number in want.items():
                assert table[column][rows] == pytest.approx(number, rel=2e-5, abs=1e-6), (d, scale, column)
            rows += 1
    assert rows == len(table["d"])


def test_scale_keeps_the_gradient(found):
    table = found("scale").table()
    plain, scaled = table["gradient, median"][0::2], table["gradient, median"][1::2]
    assert plain[-1] < plain[0] / 4 and min(scaled) > scaled[0] / 2
    assert table["saturated rows"][-2] > 10 and max(table["saturated rows"][1::2]) == 0


def test_readme_lines(tmp_path):
    section = README.split("\n## Experiments\n")[1].split("\n## ")[0]
    command, answer = re.search(r"^\$ build/attnd experiment (\w+) --quiet --out found\n(.*?)^…", section, re.M | re.S).groups()
    assert experiment(command, "--quiet", "--out", tmp_path).startswith(answer)


@pytest.mark.parametrize("options, said", [
    (["none"], 'there is no "none"; there are'),
    (["scale", "--widest", "3"], "--widest must be a whole number from 8 to 16384, found 3"),
    (["scale", "--keys", "2.5"], "--keys must be a whole number"),
    (["scale", "--bogus"], "unknown option --bogus"),
    (["parameters", "--heads", "7"], "--width must be even and a multiple of the heads"),
])
def test_wrong_options(options, said):
    assert said in experiment(*options, code=2)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be" in experiment("parameters", "--out", tmp_path / "file" / "x", code=1)


def test_help_has_the_profile(tmp_path):
    assert re.search(r"--keys +keys \(64\)", experiment("scale", "--help"))
    assert re.search(r"--keys +keys \(256\)", experiment("scale", "--full", "--help"))
