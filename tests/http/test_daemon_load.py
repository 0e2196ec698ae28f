"""Overload, slow and vanishing clients, memory: what the daemon refuses, and what it survives."""
import concurrent.futures
import json
import socket
import time

import pytest
import requests

from conftest import PATIENCE
from test_daemon_protocol import head, post, read_one, status

TINY = '{"query":[[1,0],[0,1]]}'


def work(n=200000, **fields):
    """A short body that asks for n * n cells; the default runs for far longer than any test."""
    tensor = {"shape": [n, 64], "random": "normal", "seed": 1}
    return json.dumps({"query": tensor, "key": {**tensor, "seed": 2}, "return": ["output"],
                       "value": {"shape": [n, 1], "random": "uniform", "seed": 3}, **fields})


def send_work(daemon, **fields):
    """Start a long request on a connection of its own; the caller closes it."""
    body = work(**fields).encode()
    sock = daemon.connect()
    sock.sendall(post(body, f"Content-Length: {len(body)}"))
    return sock


# Few bytes that ask for a gigabyte of elements, which takes seconds to fill.
# A gigabyte of random numbers: of a bias, which are drawn while the body is decoded, and of a query, afterwards.
LITERAL = b'{"query":[[1,0]],"attn_bias":{"shape":[16000,16000],"random":"normal","seed":1}}'
QUERY = (b'{"query":{"shape":[4000000,64],"random":"normal","seed":1},"key":{"shape":[1,64],"random":"normal"},'
         b'"value":[[1]],"return":["logsumexp"]}')


def eventually(condition, patience=PATIENCE):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def ops_metric(daemon, name):
    for line in requests.get(daemon.ops_url + "/metrics", timeout=PATIENCE).text.splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    return None


def test_deadline_while_running(daemon):
    """The other tests need a request that runs until it is stopped."""
    reply = daemon.post("/v1/attention", work(timeout_ms=1500))
    assert reply.status_code == 504 and reply.json()["code"] == "deadline_exceeded"


def test_full_queue_refuses_with_retry_after(start):
    daemon = start("--requests-running", "1", "--queue-length", "2", "--workers", "1", "--max-envelope-bytes", "4096")
    held = [send_work(daemon)]
    try:
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
        held += [send_work(daemon) for _ in range(2)]
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_waiting") == 2)
        reply = daemon.post("/v1/attention", work())
        problem = reply.json()
        assert reply.status_code == 503 and problem["code"] == "queue_full"
        assert int(reply.headers["Retry-After"]) >= 1
        assert problem["limit"] == {"value": 2, "setting": "queue_length"}
        early = daemon.raw(post(b"", "Content-Length: 5000000", "Expect: 100-continue"))
        assert status(early) == 503, "a long upload must be refused before it begins"
        assert daemon.post("/v1/attention", TINY).status_code == 200, "small requests still run in place"
        never = daemon.post("/v1/attention", {"query": [[1]], "labels": {"query": ["x" * 5000]}})
        assert (never.status_code, never.json()["limit"]["setting"]) == (413, "max_envelope_bytes"), "not a matter of the queue"
        assert daemon.get("/healthz").status_code == 200
    finally:
        for sock in held:
            sock.close()
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    assert daemon.post("/v1/attention", TINY).status_code == 200


def test_deadline_while_waiting(start):
    daemon = start("--requests-running", "1", "--workers", "1",
                   "--queue-target-ms", "60000")  # however late one comes, the queue is not standing
    held = send_work(daemon)
    try:
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            begin = time.monotonic()
            replies = list(pool.map(lambda _: requests.post(daemon.url + "/v1/attention", data=work(timeout_ms=1000),
                                                            timeout=PATIENCE), range(3)))
            took = time.monotonic() - begin
        assert [reply.status_code for reply in replies] == [504] * 3
        assert {reply.json()["code"] for reply in replies} == {"deadline_exceeded"}
        assert took < 1 + PATIENCE / 6, "those that wait are answered at their own deadline, not one after another"
        assert ops_metric(daemon, "attnd_expired_in_queue_total") == 3
    finally:
        held.close()
    assert daemon.post("/v1/attention", TINY).status_code == 200


@pytest.mark.parametrize("body", [LITERAL, QUERY])
def test_deadline_reaches_a_literal_that_is_being_filled(start, body):
    daemon = start("--requests-running", "1", "--workers", "1", "--request-timeout-ms", "500",
                   "--memory-bytes", "8GiB", "--max-request-bytes", "4GiB")
    begin = time.monotonic()
    reply = daemon.post("/v1/attention", body)
    assert reply.status_code == 504 and reply.json()["code"] == "deadline_exceeded"
    assert time.monotonic() - begin < 0.5 + PATIENCE / 6
    assert daemon.post("/v1/attention", TINY).status_code == 200


def test_literal_beyond_the_request_is_refused_before_it_is_filled(start):
    daemon = start("--max-request-bytes", "512MiB", "--memory-bytes", "1GiB")
    begin = time.monotonic()
    reply = daemon.post("/v1/attention", LITERAL)
    assert reply.status_code == 413 and reply.json()["limit"]["setting"] == "max_request_bytes"
    assert time.monotonic() - begin < PATIENCE / 6


def test_vanished_clients_stop_their_work(start):
    daemon = start("--requests-running", "1", "--workers", "1")
    socks = [send_work(daemon) for _ in range(5)]
    assert eventually(lambda: ops_metric(daemon, "attnd_queue_waiting") == 4)
    for sock in socks:
        sock.close()
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 0)
    assert ops_metric(daemon, "attnd_queue_waiting") == 0
    assert ops_metric(daemon, "attnd_client_gone_total") == 5
    assert len(daemon.log(5, status=499)) == 5
    assert daemon.post("/v1/attention", TINY).status_code == 200


def test_reset_clients_stop_their_work(start):
    import struct
    daemon = start("--half-close-is-gone", "false")
    sock = send_work(daemon)
    assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)


def test_request_beyond_its_own_memory(start):
    daemon = start("--memory-bytes", "256MiB", "--max-request-bytes", "8MiB")
    reply = daemon.post("/v1/attention", json.dumps({"query": {"shape": [4000000], "zeros": True}}))
    assert reply.status_code in (413, 422)
    reply = daemon.post("/v1/attention", work(n=40000, timeout_ms=20000))
    assert reply.status_code == 413 and reply.json()["limit"]["setting"] == "max_request_bytes"


def test_unfinished_header_is_cut_off(start):
    daemon = start("--header-timeout-ms", "700")
    with daemon.connect() as partial, daemon.connect() as half_line, daemon.connect() as trickle, \
            daemon.connect() as silent:
        partial.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        half_line.sendall(b"GET /heal")
        trickle.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        end = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < end:
                trickle.sendall(b"y")
                time.sleep(0.1)
            pytest.fail("a header that trickles in must be cut off")
        except OSError:
            pass
        for sock in (partial, half_line):
            reply = b"".join(iter(lambda: sock.recv(65536), b""))
            assert status(reply) == 408 and head(reply)["connection"] == "close"
            assert b'"code":"request_timeout"' in reply
        silent.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(read_one(silent)) == 200, "a connection that has sent nothing may wait"
    assert ops_metric(daemon, "attnd_closed_slow_total") == 3


def test_stalled_and_trickling_bodies_are_cut_off(start):
    daemon = start("--header-timeout-ms", "700", "--min-rate-bytes", "1000")
    with daemon.connect() as stalled, daemon.connect() as trickle:
        stalled.sendall(post(b"[1,", "Content-Length: 100000"))
        trickle.sendall(post(b"[1,", "Content-Length: 100000"))
        end = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < end:
                trickle.sendall(b"1")
                time.sleep(0.1)
            pytest.fail("a body that trickles in must be cut off")
        except OSError:
            pass
        assert status(b"".join(iter(lambda: stalled.recv(65536), b""))) == 408
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    assert len(daemon.log(2, status=408)) == 2


def test_much_at_first_does_not_pay_for_silence(start):
    """50 KB at once would be 50 s at the slowest rate; silence is bounded by the grace all the same."""
    daemon = start("--header-timeout-ms", "700", "--min-rate-bytes", "1000")
    with daemon.connect(PATIENCE) as sock:
        sock.sendall(post(b" " * 50000, "Content-Length: 100000"))
        begin = time.monotonic()
        assert status(b"".join(iter(lambda: sock.recv(65536), b""))) == 408
        assert time.monotonic() - begin < 20


def test_slow_reader_is_cut_off(start):
    daemon = start("--header-timeout-ms", "700", "--min-rate-bytes", "4GiB")
    body = b'{"query":{"shape":[1,1500,64],"random":"normal","seed":1},"return":["weights"]}'
    with daemon.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(post(body, f"Content-Length: {len(body)}"))
        assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
        assert eventually(lambda: ops_metric(daemon, "attnd_closed_slow_total") == 1)


def test_closing_behind_a_partial_header_is_noticed(start):
    daemon = start("--header-timeout-ms", "600000", "--idle-timeout-s", "600")
    for data in (b"", b"GET /he", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        for _ in range(20):
            with daemon.connect() as sock:
                sock.sendall(data)
    assert eventually(lambda: ops_metric(daemon, "attnd_connections") <= 1)


def test_idle_connections_are_closed_after_their_time(start):
    daemon = start("--idle-timeout-s", "1")
    with daemon.connect() as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read_one(sock)
        assert sock.recv(100) == b""


def test_active_beside_a_thousand_idle_connections(start):
    daemon = start("--idle-timeout-s", "3600", "--queue-target-ms", "60000", "--request-timeout-ms", "600000")
    idle = [daemon.connect() for _ in range(1000)]
    try:
        bodies = [TINY, work(n=200), "{", '{"query":1}']
        wanted = [200, 200, 400, 422]

        def client(seed):
            with requests.Session() as session:
                got = [session.post(daemon.url + "/v1/attention", data=bodies[(seed + i) % 4],
                                    timeout=PATIENCE).status_code for i in range(8)]
            return got == [wanted[(seed + i) % 4] for i in range(8)]

        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            assert all(pool.map(client, range(200)))
        assert eventually(lambda: ops_metric(daemon, "attnd_connections") >= 1000)
        for sock in idle[::100]:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert status(read_one(sock)) == 200
    finally:
        for sock in idle:
            sock.close()
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    assert eventually(lambda: ops_metric(daemon, "attnd_connections") <= 2)


def test_connection_limit_leaves_the_operations_port_open(start):
    daemon = start("--connections", "8")
    socks = [daemon.connect() for _ in range(12)]
    try:
        for _ in range(3):
            assert requests.get(daemon.ops_url + "/healthz", timeout=PATIENCE).status_code == 200
    finally:
        for sock in socks:
            sock.close()

    def served():
        try:
            return daemon.get("/healthz").status_code == 200
        except requests.ConnectionError:  # it has not seen yet that the others are gone
            return False

    assert eventually(served)


def test_health_answers_while_all_workers_are_busy(start):
    daemon = start("--workers", "1", "--requests-running", "2")
    socks = [send_work(daemon) for _ in range(4)]
    try:
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") >= 1
                          and ops_metric(daemon, "attnd_queue_waiting") >= 2)
        times = []
        for url in (daemon.url, daemon.ops_url):
            for path in ("/healthz", "/metrics"):
                begin = time.monotonic()
                assert requests.get(url + path, timeout=PATIENCE).status_code == 200
                times.append(time.monotonic() - begin)
        assert max(times) < PATIENCE / 10
    finally:
        for sock in socks:
            sock.close()


WIDTHLESS = {"shape": [1000, 0], "data": []}


@pytest.mark.parametrize("path, body, queued", [
    ("/v1/attention", {"query": [[1, 0], [0, 1]]}, False),
    ("/v1/attention", {"query": WIDTHLESS, "position": {"kind": "alibi"}, "softcap": 5, "dropout_p": 0.1, "seed": 1},
     True),
    ("/v1/attention", {"query": {"shape": [400, 0], "data": []}, "return": ["logsumexp"]}, False),
    ("/v1/heatmaps", {"weights": [[1]]}, False),
    ("/v1/heatmaps", {"weights": {"shape": [1000000, 0], "data": []}}, True),
    ("/v1/analyses", {"weights": [[1]], "analysis": ["entropy"]}, False),
    ("/v1/analyses", {"weights": {"shape": [1000000, 0], "data": []}}, True),
])
def test_what_has_no_width_is_work_all_the_same(start, path, body, queued):
    """The thread that answers everybody does small work only: the others wait for a worker."""
    daemon = start()
    assert daemon.post(path, body).status_code == 200
    assert (daemon.log(1, route=path)[0]["queue_ms"] > 0) == queued


def test_abandoned_uploads_return_their_memory(start):
    daemon = start()
    for _ in range(200):
        with daemon.connect() as sock:
            sock.sendall(post(b"[1,2,", "Content-Length: 1000000"))
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    assert eventually(lambda: ops_metric(daemon, "attnd_memory_reserved_bytes") < 100000)
    assert eventually(lambda: ops_metric(daemon, "attnd_connections") <= 1)
    assert ops_metric(daemon, "attnd_closed_slow_total") == 0, "noticed, not timed out"
