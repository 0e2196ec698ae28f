"""One client's flood and another client: promises P15 and P16 (RESULTS.md says what each promises). Rounds with the flood
alternate with rounds without one, and what counts is the median of the rounds. ATTND_FAULT_FULL=1 as in
test_overload.py; that shares are kept and turns taken is asserted by counters in tests/http/test_tenants.py."""
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import faults
import pytest
from faults import post
from load import quantile
from serving import service
from test_departures import ops
from test_overload import FULL, literal

ROUNDS = 5 if FULL else 1
ONE, OTHER = "oneoneoneoneoneone", "otherotherotherother"
PIECE_S = 1e-3  # what a slot of the pool is kept for


def bearer(key):
    return (f"Authorization: Bearer {key}",) if key else ()


def work(heads, length, key=None):
    return post({"query": literal(1, heads, length, 64), "return": ["logsumexp"], "timeout_ms": 600000}, *bearer(key))


@contextlib.contextmanager
def flood(daemon, connections, request, folder):
    """Yields a function that ends it and says how many answers of each status it got."""
    file = folder / "request"
    file.write_bytes(request)
    command = [sys.executable, str(Path(__file__).with_name("flood.py")), str(daemon.port), str(connections), "127.0.0.2", str(file)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    found = []
    try:
        yield lambda: found[0]
    finally:
        found.append(json.loads(process.communicate()[0]))


class Client:
    """One request after the other from another address, each timed."""

    def __init__(self, daemon):
        self.sock = service.socket.create_connection(("127.0.0.1", daemon.port), service.PATIENCE, ("127.0.0.3", 0))

    def times(self, request, count, pause=0.01):
        seconds = []
        for _ in range(count):
            begin = time.monotonic()
            status, _, body = faults.exchange(self.sock, request)
            seconds.append(time.monotonic() - begin)
            assert status == 200, body[:300]
            time.sleep(pause)
        return seconds


def settle(daemon):
    assert faults.eventually(lambda: ops(daemon, "attnd_queue_running") + ops(daemon, "attnd_queue_waiting") == 0)


SMALL = {"in place": post({"query": [[1, 0], [0, 1]]}), "pooled": work(1, 700)}


@pytest.mark.parametrize("size", SMALL)
def test_p15_small_requests_beside_a_flood_of_long_ones(start, tmp_path, size):
    """Four long ones of one client, 8 x 32,768; another client's small requests take 20 ms more in the 99th of 100."""
    daemon = start("--ops-listen", "127.0.0.1:0", "--log", "off", "--workers", "2", "--requests-running", "4")
    client, request, more = Client(daemon), SMALL[size], []
    client.times(request, 20)
    for _ in range(ROUNDS):
        settle(daemon)
        idle = client.times(request, 300 if FULL else 50)
        with flood(daemon, 4, work(8, 32768), tmp_path):
            assert faults.eventually(lambda: ops(daemon, "attnd_long_waiting") == 2)
            beside = client.times(request, 300 if FULL else 50)
            assert ops(daemon, "attnd_long_running") == 2
        more.append((quantile(beside, 0.99) - quantile(idle, 0.99), quantile(idle, 0.99), quantile(beside, 0.99)))
    found = median(more)
    faults.note("P15 small beside long", flood="4 of 8 x 32768", requests=size, idle_p99_ms=f"{found[1] * 1e3:.1f}",
                beside_p99_ms=f"{found[2] * 1e3:.1f}", more_ms=", ".join(f"{m[0] * 1e3:.1f}" for m in more))
    assert found[0] <= (0.02 if FULL else 1), more


def test_p15_requests_of_a_fifth_of_a_second_beside_a_flood_of_long_ones(start, tmp_path):
    """They take twice their time at most."""
    daemon = start("--ops-listen", "127.0.0.1:0", "--log", "off", "--workers", "2", "--requests-running", "4")
    client, length, ratios = Client(daemon), 2048, []
    while median(client.times(work(4, length), 3)) < 0.2:
        length = length * 5 // 4
    request = work(4, length)
    for _ in range(ROUNDS):
        settle(daemon)
        idle = median(client.times(request, 9 if FULL else 3))
        with flood(daemon, 4, work(8, 32768), tmp_path):
            assert faults.eventually(lambda: ops(daemon, "attnd_long_waiting") == 2)
            beside = median(client.times(request, 9 if FULL else 3))
        ratios.append((beside / idle, idle, beside))
    found = median(ratios)
    faults.note("P15 of 0.2 s beside long", flood="4 of 8 x 32768", idle_ms=f"{found[1] * 1e3:.0f}",
                beside_ms=f"{found[2] * 1e3:.0f}", ratios=", ".join(f"{r[0]:.2f}" for r in ratios))
    assert found[0] <= (2 if FULL else 10), ratios


def test_p16_a_key_beside_300_connections_of_another(start, tmp_path):
    """Once a second it asks, is never refused, and waits for twice its idle time and a piece at most."""
    keys = tmp_path / "keys"
    keys.write_text(f"one:{ONE}\nother:{OTHER}\n")
    keys.chmod(0o600)
    daemon = start("--ops-listen", "127.0.0.1:0", "--log", "off", "--keys-file", str(keys), "--workers", "2",
                   "--requests-running", "4")
    connections, seconds = (300, 10) if FULL else (60, 3)
    client, request, found = Client(daemon), work(8, 1024, OTHER), []
    client.times(request, 3)
    for _ in range(ROUNDS):
        settle(daemon)
        idle = client.times(request, seconds, pause=1)
        with flood(daemon, connections, work(8, 1024, ONE), tmp_path) as ended:
            assert faults.eventually(lambda: ops(daemon, "attnd_queue_waiting") > connections // 2)
            beside = client.times(request, seconds, pause=1)
        assert ended().get("200", 0) > 0
        found.append((quantile(beside, 0.99) - 2 * quantile(idle, 0.99), quantile(idle, 0.99), quantile(beside, 0.99)))
    middle = median(found)
    faults.note("P16 a key beside another's flood", flood=f"{connections} connections of 8 x 1024", asked=ROUNDS * seconds,
                refused=0, idle_p99_ms=f"{middle[1] * 1e3:.0f}", beside_p99_ms=f"{middle[2] * 1e3:.0f}",
                beyond_twice_ms=", ".join(f"{f[0] * 1e3:.0f}" for f in found))
    assert middle[0] <= (PIECE_S if FULL else 5), found
