"""The console lines of the READMEs get the answers that are printed there, and their tables are the service's."""
import json
import re
import shlex
import subprocess

import numpy as np
import pytest
from documents import ROOT, commands, section

API, WIRE = "server/api/README.md", "server/wire/README.md"
CASES = commands("curl ")
LINES = [command for _, command, _ in CASES]
STORE = next(command for command in LINES if '"store":true' in command)
MODELS = {name: next(command for command in LINES if part in command)  # the lines that make the models of these names
          for name, part in (("$MODEL", "source_words"), ("$ENCODER", '"architecture":"encoder"'), ("$DECODER", '"architecture":"decoder"'))}
JOB = next(command for command in LINES if '"kind":"train"' in command)
EXPERIMENT = next(command for command in LINES if '"kind":"experiment"' in command)


def run(daemon, command):
    """The reply to a curl line that uses -d, -H, -N and -o only, and the file that -o names."""
    if "$RUN" in command:  # the id that the line with "store" answered
        command = command.replace("$RUN", run(daemon, STORE)[0].json()["run"]["id"])
    for name, line in MODELS.items():  # the same of the line that makes a model
        if name in command:
            command = command.replace(name, run(daemon, line)[0].json()["id"])
    if "$JOB" in command:  # and of the one that starts a job
        command = command.replace("$JOB", run(daemon, JOB)[0].json()["id"])
    if "$EXPERIMENT" in command:  # and of an experiment, once it has ended
        job = run(daemon, EXPERIMENT)[0].json()["id"]
        assert "event: done" in daemon.get(f"/v1/jobs/{job}/events").text
        command = command.replace("$EXPERIMENT", job)
    words, headers, body, url, file = shlex.split(command)[1:], {"Accept": "*/*"}, None, None, None
    while words:
        word = words.pop(0)
        if word == "-d":
            body = words.pop(0)
        elif word == "-H":
            name, value = words.pop(0).split(":", 1)
            headers[name] = value.strip()
        elif word == "-o":
            file = words.pop(0)
        elif word == "-N":  # show what comes as it comes
            pass
        else:
            url = word
    assert url.startswith("localhost:8080/"), command
    path = url.removeprefix("localhost:8080")
    reply = daemon.get(path, headers=headers) if body is None else daemon.post(path, body, headers=headers)
    return reply, file


def alike(got, want):
    """Equal but for the last digits of numbers, which kernels may differ in."""
    if isinstance(want, dict):
        return list(got) == list(want) and all(alike(got[k], want[k]) for k in want)
    if isinstance(want, list):
        return len(got) == len(want) and all(map(alike, got, want))
    if isinstance(want, float):
        return bool(np.isclose(got, want, rtol=1e-6, atol=1.2e-7))
    return got == want


@pytest.mark.parametrize("path, command, answer", CASES, ids=[f"{path.parent.relative_to(ROOT)}-{i}" for i, (path, _, _) in enumerate(CASES)])
def test_console_lines(daemon, path, command, answer):
    reply, file = run(daemon, command)
    if file:  # a picture of the kind that the name says
        assert reply.status_code == 200 and answer == "", reply.text
        assert reply.content.startswith({"svg": b"<svg ", "png": b"\x89PNG"}[file.rpartition(".")[2]])
        return
    got = reply.content.decode()
    if "…" in answer:
        start = answer.split("…")[0]
        assert len(start) > 15 and got.startswith(start), got[:300]
    elif reply.headers["Content-Type"] == "application/json":
        assert alike(json.loads(got), json.loads(answer)), got
    else:
        assert got.rstrip("\n") == answer.rstrip("\n")


def test_every_route_has_a_line(daemon):
    asked = {re.search(r"localhost:8080(/[^\s?\"]*)", command).group(1).replace("$MODEL", "model").replace("$DECODER", "model").replace("$JOB", "job").replace("$EXPERIMENT", "job") for command in LINES}
    table = section(WIRE, "The Open Inference Protocol")
    runs = section(API, "Stored runs")
    for path in daemon.get("/openapi.json").json()["paths"]:
        if path.startswith("/v2"):
            assert f"{path}`" in table, path
            continue
        if path == "/v1/runs":  # its body is a file
            assert f"localhost:8080{path}`" in section(API, "Imported runs")
            continue
        if path.startswith("/v1/runs/"):
            assert f"{path.removeprefix('/v1/runs/{id}')}`" in runs, path
            continue
        pattern = re.sub(r"\\{\w+\\}", "[a-z_-]+", re.escape(path))
        assert any(re.fullmatch(pattern, a) for a in asked), path


def test_the_tables_are_those_of_the_service():
    """`make reference` has written them since a row or a sentence of them changed last."""
    subprocess.run([ROOT / "tests" / "tools" / "reference", "--check"], check=True, timeout=120)


def test_how_to_say_it_is_what_the_examples_say():
    subprocess.run([ROOT / "tests" / "tools" / "howto", "--check"], check=True, timeout=120)
