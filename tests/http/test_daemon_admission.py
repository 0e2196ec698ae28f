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


def slow(rows, width):
    """Attention that takes seconds: a softcap is a tanh for each cell."""
    return json.dumps({"query": {"shape": [rows, width], "random": "normal", "seed": 1}, "softcap": 30,
                       "return": ["logsumexp"], "timeout_ms": 600000}).encode()


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
    with daemon.connect() as fits:
        fits.sendall(post(b"", "Content-Length: 33000000", "Expect: 100-continue"))
        assert fits.recv(100).startswith(b"HTTP/1.1 100")


def test_a_body_that_is_here_keeps_its_memory(start):
    """Two requests with 25 MB each do not fit into the half of 64 MiB: one is told to come again."""
    daemon = start("--memory-bytes", "64MiB", "--requests-running", "1", "--workers", "1")
    body = slow(40000, 16)
    with daemon.connect() as first:
        first.sendall(post(body + b" " * (25 * MB), f"Content-Length: {len(body) + 25 * MB}"))
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
        reply = daemon.raw(post(b"", f"Content-Length: {len(LARGE)}", "Expect: 100-continue"))
        assert status(reply) == 503 and b'"code":"memory_budget"' in reply and b"Retry-After: " in reply
        assert daemon.post("/v1/attention", TINY).status_code == 200
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    assert daemon.post("/v1/attention", LARGE).status_code == 200


BUSY = {"query": {"shape": [200000, 16], "random": "normal", "seed": 1}, "return": ["logsumexp"], "timeout_ms": 600000}


def busy(daemon, clients, waiting):
    """Connections whose requests run or wait; they stop when these are closed."""
    socks = []
    body = json.dumps(BUSY).encode()
    for _ in range(clients):
        socks.append(daemon.connect())
        socks[-1].sendall(post(body, f"Content-Length: {len(body)}"))
    assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1
                      and ops_metric(daemon, "attnd_queue_waiting") == waiting)
    return socks


def test_a_place_is_promised_with_the_header(start):
    """The queue fills up while a long body comes in: it is not refused for that; one that begins now is, at once."""
    daemon = start("--requests-running", "1", "--workers", "1", "--queue-length", "1", "--max-request-bytes", "256MiB",
                   "--request-timeout-ms", "600000")
    first = busy(daemon, 1, 0)
    with daemon.connect() as upload:
        upload.sendall(post(b"", f"Content-Length: {len(LARGE)}", "Expect: 100-continue"))
        assert upload.recv(100).startswith(b"HTTP/1.1 100"), "its header has been looked at"
        second = busy(daemon, 1, 1)
        refused = daemon.raw(post(b"", f"Content-Length: {len(LARGE)}", "Expect: 100-continue"))
        assert status(refused) == 503 and b'"code":"queue_full"' in refused
        upload.sendall(LARGE)
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_waiting") == 2)
        close(first + second)
        upload.settimeout(PATIENCE)
        assert upload.recv(100).startswith(b"HTTP/1.1 200")


def test_a_promise_that_is_not_kept_keeps_no_place(start):
    """Those that announced and left: as many others have places as before."""
    daemon = start("--requests-running", "1", "--workers", "1", "--queue-length", "2", "--request-timeout-ms", "600000")
    for _ in range(5):
        socks = [announce(daemon, 20 * MB, b" " * 100000) for _ in range(4)]
        assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 4)
        close(socks)
        assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    held = busy(daemon, 1, 0)
    with daemon.connect() as upload:
        upload.sendall(post(b"", f"Content-Length: {len(LARGE)}", "Expect: 100-continue"))
        assert upload.recv(100).startswith(b"HTTP/1.1 100")
        held += busy(daemon, 2, 2)
        upload.sendall(LARGE)
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_waiting") == 3)
    close(held)


@pytest.mark.parametrize("binary", [False, True])
def test_the_time_of_the_inference_protocol_counts_in_the_queue(start, binary):
    daemon = start("--requests-running", "1", "--workers", "1", "--in-place-bytes", "0", "--request-timeout-ms", "600000")
    query = {"name": "query", "shape": [1, 2], "datatype": "FP32"}
    head = {"parameters": {"timeout": 300000}, "inputs": [query | ({"parameters": {"binary_data_size": 8}} if binary else {"data": [1, 0]})]}
    text = json.dumps(head).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))} if binary else {}
    held = busy(daemon, 1, 0)
    reply = requests.post(daemon.url + "/v2/models/scaled_dot_product_attention/infer", data=text + bytes(8 if binary else 0), headers=headers,
                          timeout=PATIENCE)
    assert reply.status_code == 504 and reply.elapsed.total_seconds() >= 0.3, reply.text
    assert ops_metric(daemon, "attnd_expired_in_queue_total") == 1
    close(held)


def test_announced_bodies_hold_no_memory(start):
    """1,000 clients announce 200 MB each and send nothing: others are served as if they were not there."""
    daemon = start("--memory-bytes", "512MiB", "--header-timeout-ms", "600000")
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
    body = slow(60000, 40)
    with daemon.connect() as held:
        held.sendall(post(body, f"Content-Length: {len(body)}"))
        assert eventually(lambda: ops_metric(daemon, "attnd_memory_reserved_bytes") > 30 * MB)
        refused = daemon.post("/v1/attention", json.loads(body))
        assert refused.status_code == 503 and refused.json()["code"] == "memory_budget"
        for _ in range(20):
            assert daemon.post("/v1/attention", TINY).status_code == 200
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)


def numbers(*shape):
    return {"shape": list(shape), "random": "uniform", "seed": 1}


HUNGRY = {  # whose work, or answer, needs more than 12 MiB
    "attention": ("/v1/attention", "*/*", {"query": numbers(1, 1, 1400, 8), "return": ["weights"]}),
    "inference protocol": ("/v2/models/scaled_dot_product_attention/infer", "*/*", {"inputs": [
        {"name": "query", "shape": [1, 1, 1400, 1], "datatype": "FP32", "data": [0.5] * 1400}],
        "outputs": [{"name": "weights"}]}),
    "masks": ("/v1/masks", "*/*", {"shape": [1400, 1400], "masks": [
        {"kind": "pattern", "pattern": {"kind": "strided", "stride": 2, "local": 1}}]}),
    "positions": ("/v1/positions", "*/*", {"kind": "sinusoidal", "length": 4000, "width": 64, "layout": "interleaved"}),
    "heatmaps": ("/v1/heatmaps", "*/*", {"weights": numbers(8, 512, 512), "heatmap": {"max_cells": 262144}}),
    "heatmaps, PNG": ("/v1/heatmaps", "image/png", {"weights": numbers(1, 190, 190), "figure": {"scale": 4}}),
    "curves": ("/v1/curves", "*/*", {"values": numbers(4, 60000)}),
    "analyses": ("/v1/analyses", "*/*", {"weights": numbers(8, 512, 512), "heatmap": {"max_cells": 262144}}),
}
RUN_PATHS = ["weights?head=0&cols=0:1300", "rows?head=0&rows=0:1300", "heatmaps?max_cells=1048576"]


def hungry(daemon, run):
    """Each name of HUNGRY and of RUN_PATHS with its answer."""
    for name, (path, accept, body) in HUNGRY.items():
        yield name, daemon.post(path, json.dumps(body), headers={"Accept": accept})
    for path in RUN_PATHS:
        yield path, daemon.get(f"/v1/runs/{run}/{path}")


def store(daemon):
    return daemon.post("/v1/attention", {"query": numbers(1, 1, 1300, 4), "return": ["logsumexp"],
                                         "store": True}).json()["run"]["id"]


def test_every_route_asks_for_its_memory_first(start):
    """What does not fit now is 503, and 200 when there is room; what one request may not have is 413, which says how
    many bytes it needs."""
    daemon = start("--memory-bytes", "512MiB", "--workers", "2", "--request-timeout-ms", "600000")
    run = store(daemon)
    for name, reply in hungry(daemon, run):
        assert reply.status_code == 200, (name, reply.text[:300])
    before = ops_metric(daemon, "attnd_memory_reserved_bytes")
    held = busy(daemon, 1, 0)
    assert eventually(lambda: ops_metric(daemon, "attnd_memory_reserved_bytes") > before + 20 * MB)  # it has got all
    need = ops_metric(daemon, "attnd_memory_reserved_bytes") + 6 * MB
    close(held)
    # A sixteenth is for the HTTP thread.
    daemon = start("--memory-bytes", str(int(need * 16 / 15)), "--max-request-bytes", str(int(need)),
                   "--requests-running", "2", "--workers", "2", "--request-timeout-ms", "600000")
    run = store(daemon)
    held = busy(daemon, 1, 0)
    try:
        assert eventually(lambda: ops_metric(daemon, "attnd_memory_reserved_bytes") > need - 8 * MB)
        for name, reply in hungry(daemon, run):
            assert reply.status_code == 503, (name, reply.text[:300])
            problem = reply.json()
            assert problem["code"] == "memory_budget" and problem["limit"]["setting"] == "memory_bytes", (name, problem)
            assert int(reply.headers["Retry-After"]) >= 1, (name, problem)
    finally:
        close(held)
    daemon = start("--memory-bytes", "512MiB", "--max-request-bytes", "12MiB")
    run = store(daemon)
    for name, reply in hungry(daemon, run):
        assert reply.status_code == 413, (name, reply.text[:300])
        problem = reply.json()
        assert problem["limit"]["setting"] == "max_request_bytes" and "bytes" in problem["detail"], (name, problem)
        assert "Retry-After" not in reply.headers


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
