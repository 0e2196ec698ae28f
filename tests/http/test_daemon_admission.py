"""Admission: memory is for those who send, and what does not fit is refused before it is begun."""
import concurrent.futures
import json
import time

import requests

import pytest
from conftest import PATIENCE
from test_daemon_load import TINY, eventually, ops_metric
from test_daemon_protocol import post, status

MB = 1000000
# The same attention as bytes: 25 MB that take little time to decode, and none to compute.
LARGE = b'{"query":[[1,0],[0,1]]}' + b" " * (25 * MB)


def announce(daemon, length, sent=b""):
    sock = daemon.connect()
    sock.sendall(post(sent, f"Content-Length: {length}"))
    return sock


def close(socks):
    for sock in socks:
        sock.close()


def test_body_beyond_the_share_of_bodies(start):
    daemon = start("--memory-bytes", "64MiB", "--max-body-bytes", "256MiB", "--max-request-bytes", "16MiB")
    never = daemon.raw(post(b"", "Content-Length: 35000000", "Expect: 100-continue"))
    assert status(never) == 413 and b'"setting":"memory_bytes"' in never and b"35000000 bytes" in never
    assert b"100 Continue" not in never
    fits = daemon.raw(post(b"{", "Content-Length: 33000000", "Expect: 100-continue"), timeout=1)
    assert fits.startswith(b"HTTP/1.1 100")


def test_a_body_that_is_here_keeps_its_memory(start):
    """Two requests with 25 MB each do not fit into the half of 64 MiB: one is told to come again."""
    daemon = start("--memory-bytes", "64MiB", "--requests-running", "1", "--workers", "1")
    body = json.dumps({"query": {"shape": [200000, 8], "random": "normal", "seed": 1}, "return": ["output"],
                       "value": {"shape": [200000, 1], "random": "uniform", "seed": 3}}).encode()
    with daemon.connect() as first:
        first.sendall(post(body + b" " * (25 * MB), f"Content-Length: {len(body) + 25 * MB}"))
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
        reply = daemon.raw(post(b"", f"Content-Length: {len(LARGE)}", "Expect: 100-continue"))
        assert status(reply) == 503 and b'"code":"memory_budget"' in reply and b"Retry-After: " in reply
        assert daemon.post("/v1/attention", TINY).status_code == 200
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    assert daemon.post("/v1/attention", LARGE).status_code == 200


def test_announced_bodies_hold_no_memory(start):
    """1,000 clients announce 200 MB each and send nothing: others are served as if they were not there."""
    daemon = start("--memory-bytes", "512MiB")
    socks = [announce(daemon, 200 * MB) for _ in range(1000)]
    try:
        assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 1000)
        assert ops_metric(daemon, "attnd_memory_reserved_bytes") < MB
        assert daemon.post("/v1/attention", TINY).status_code == 200
        assert daemon.post("/v1/attention", LARGE).status_code == 200
    finally:
        close(socks)
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)


def test_trickled_bodies_give_way(start):
    """500 clients announce 20 MB each and stop after 128 KB: that would hold 500 MB, where 32 MiB is there."""
    daemon = start("--memory-bytes", "64MiB", "--max-request-bytes", "16MiB")
    socks = [announce(daemon, 20 * MB, b" " * 131072) for _ in range(500)]
    try:
        assert eventually(lambda: ops_metric(daemon, "attnd_memory_reserved_bytes") > 10 * MB)
        assert ops_metric(daemon, "attnd_memory_reserved_bytes") < 50 * MB, "bodies, and an answer for each"
        assert daemon.post("/v1/attention", TINY).status_code == 200
        # In the first moments they look like honest clients, of which there are too many.
        assert eventually(lambda: daemon.post("/v1/attention", LARGE).status_code == 200)
        for _ in range(5):
            assert daemon.post("/v1/attention", LARGE).status_code == 200
    finally:
        close(socks)
    assert eventually(lambda: ops_metric(daemon, "attnd_memory_reserved_bytes") < 100000)


def test_small_requests_have_their_share(start):
    """All that large requests may have is taken; those that run on the HTTP thread have memory of their own."""
    daemon = start("--memory-bytes", "64MiB", "--requests-running", "4", "--workers", "1", "--max-request-bytes", "60MiB")
    held = []
    try:
        for _ in range(4):
            sock = daemon.connect()
            body = json.dumps({"query": {"shape": [100000, 32], "random": "normal", "seed": 1},
                               "return": ["output"]}).encode()
            sock.sendall(post(body, f"Content-Length: {len(body)}"))
            held.append(sock)
        assert eventually(lambda: ops_metric(daemon, "attnd_memory_reserved_bytes") > 30 * MB)
        for _ in range(20):
            assert daemon.post("/v1/attention", TINY).status_code == 200
    finally:
        close(held)
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)


@pytest.mark.measured
def test_a_flood_of_the_largest_shapes_stays_within_the_budget(start):
    """Each asks for nearly all a request may have: those that fit run, the others get 503 at once or are
    answered later; the process stays within the budget and what it needs besides."""
    daemon = start("--memory-bytes", "128MiB", "--requests-running", "8", "--queue-length", "64")
    before = ops_metric(daemon, "process_resident_memory_bytes")
    body = json.dumps({"query": {"shape": [1, 1700, 64], "random": "normal", "seed": 1}, "return": ["weights"]})
    peak, stop = [before], []

    def watch():
        while not stop:
            peak.append(ops_metric(daemon, "process_resident_memory_bytes"))
            time.sleep(0.01)

    def ask(_):
        reply = requests.post(daemon.url + "/v1/attention", data=body, timeout=PATIENCE)
        if reply.status_code != 200:
            assert reply.json()["code"] in ("memory_budget", "queue_full") and int(reply.headers["Retry-After"]) >= 1
        return reply.status_code

    with concurrent.futures.ThreadPoolExecutor(33) as pool:
        watcher = pool.submit(watch)
        codes = list(pool.map(ask, range(96)))
        stop.append(True)
        watcher.result()
    assert set(codes) <= {200, 503} and codes.count(200) >= 1
    assert max(peak) - before < 128 * 1024 * 1024 + 64 * MB
    assert eventually(lambda: ops_metric(daemon, "attnd_memory_reserved_bytes") < 100000)
