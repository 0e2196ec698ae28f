"""schemathesis, which none of us wrote, reads openapi.json and asks: what the document allows and forbids,
with all of its checks (no 5xx, documented statuses, media types, headers and schemas, 405 with Allow, negative
data refused), derandomised so that every run asks the same. schemathesis.toml names the legal refusals."""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from serving import service

HERE = Path(__file__).resolve().parent
HALF = "^/v1/(attention|heatmaps|analyses|curves)"  # half of the work
POSTS = "^/v1/(attention|masks|positions|heatmaps)$|/infer$"


def run(daemon, folder, config, *arguments, **env):
    command = [Path(sys.executable).with_name("schemathesis"), "--config-file", HERE / config, "run",
               daemon.url + "/openapi.json", "--checks", "all", "--generation-deterministic", "--workers", "1",
               "--no-color", "--request-timeout", "60", "--suppress-health-check", "all", *arguments]
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE)} | env
    done = subprocess.run(command, env=environment, cwd=folder, text=True, capture_output=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    cases = re.search(r"(\d+) generated", done.stdout)
    operations = re.search(r"Tested: (\d+)", done.stdout)
    assert cases and operations, done.stdout[-2000:]
    return int(cases[1]), int(operations[1])


@pytest.fixture(scope="module")
def daemon():
    running = service.Daemon("--ops-listen", "", "--log", "off", "--jobs-steps", "2")  # jobs that fit their schema end soon
    yield running
    running.stop()


def test_what_the_document_allows_and_forbids(daemon, tmp_path):
    """Both parts run at once and take about equally long. One run alone would leave a second processor idle for minutes.
    schemathesis leaves out the address that it reads the document from."""
    paths = daemon.get("/openapi.json").json()["paths"]
    listed = sum(len(item) for path, item in paths.items() if path != "/openapi.json")

    def part(which):
        folder = tmp_path / which
        folder.mkdir()
        return run(daemon, folder, "schemathesis.toml", "--phases", "examples,coverage,fuzzing", "--max-examples", "8",
                   f"--{which}-path-regex", HALF)

    with ThreadPoolExecutor() as pool:
        cases, operations = (sum(n) for n in zip(*pool.map(part, ["include", "exclude"])))
    assert operations == listed and cases > 1000
    daemon.session.close()  # its connection is as old as the run: the daemon may be closing it, being idle
    assert daemon.get("/healthz").status_code == 200


def test_bodies_whose_shapes_fit_get_200(daemon, tmp_path):
    cases, operations = run(daemon, tmp_path, "schemathesis_consistent.toml", "--phases", "fuzzing", "--mode", "positive",
                            "--max-examples", "40", "--include-path-regex", POSTS, CONSISTENT="1")
    assert operations == 6 and cases >= 200
