"""tests/run: one file often, and which tests `make quick` chooses."""
import os
import re
import subprocess

import pytest

from conftest import ROOT

RUN = ROOT / "tests" / "run"
FLAKY = """
from pathlib import Path
def test_every_third_time_fails():
    count = Path({count!r})
    count.write_text(count.read_text() + "x")
    assert len(count.read_text()) % 3
"""


def run(*words, **variables):
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "BUILD")}
    return subprocess.run([RUN, *words], cwd=ROOT, env=environment | variables, capture_output=True, text=True)


def test_failures_of_a_repeated_file_are_counted(tmp_path):
    count, file = tmp_path / "count", tmp_path / "test_flaky.py"
    count.write_text("")
    file.write_text(FLAKY.format(count=str(count)))
    done = run(ONLY=str(file), TIMES="6")
    assert done.stdout.endswith("4 passed, 2 failed\n") and done.returncode == 1, done.stdout[-2000:]
    assert count.read_text() == 6 * "x"


@pytest.mark.parametrize("only, times", [("tests/http/test_nowhere.py", "2"), ("tests/run", "2"), ("tests/http/test_runner.py", "often"),
                                         ("tests/http/test_runner.py", "0")])
def test_what_cannot_be_repeated_is_said(only, times):
    done = run(ONLY=only, TIMES=times)
    assert done.returncode == 2 and "tests/unit/test_pool.c" in done.stderr and only in done.stderr


def rooms():
    return sorted({str(path.parent.relative_to(ROOT)) for top in ("lib", "server") for path in (ROOT / top).rglob("*.c")} | {"server"})


@pytest.mark.parametrize("room", rooms())
def test_quick_knows_http_tests_of_each_room(room):
    function = re.search(r"^http_tests_of\(\) \{.*?^\}$", RUN.read_text(), re.M | re.S)[0]
    patterns = subprocess.run(["bash", "-c", f"set -f; {function}; http_tests_of {room}/any.c"], capture_output=True, text=True, check=True).stdout.split()
    assert patterns
    for pattern in patterns:
        assert list((ROOT / "tests" / "http").glob(f"test_{pattern}.py")), pattern
