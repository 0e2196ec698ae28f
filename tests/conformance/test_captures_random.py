"""Random captures (lib/runs/FORMAT.md) posted to the service: cells, rows, tiles of all levels, strongest keys and
logsumexp of every site against float64, for runs in memory and in files."""
import pytest

import captured
import tables
from oracle import captures
from oracle.random_captures import capture
from serving import Daemon

SEEDS = tables.share(range(120))
PLACES = ["directory", *(f"memory, {table}" for table in tables.available())]


@pytest.fixture(scope="module", params=PLACES)
def daemon(request, tmp_path_factory):
    where, _, table = request.param.partition(", ")
    files = ("--runs-dir", str(tmp_path_factory.mktemp("runs"))) if where == "directory" else ()
    running = Daemon("--log", "off", *files, env={"ATTN_ISA": table} if table else None)
    assert running.kernels == (table or running.kernels)
    yield running
    running.stop()


@pytest.mark.parametrize("block", range(0, len(SEEDS), 20))
def test_random_captures(daemon, block):
    for seed in SEEDS[block:block + 20]:
        try:
            captured.check(daemon, captures.write(capture(seed)), seed)
        except AssertionError as fault:
            pytest.fail(f"seed {seed}, {fault}", pytrace=False)
