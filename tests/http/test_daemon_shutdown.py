"""SIGTERM: what was accepted is answered, what comes later is told, and the process leaves with 0."""
import json
import select
import signal
import threading
import time

import pytest
import requests

from conftest import PATIENCE
from test_daemon_load import LITERAL, QUERY, eventually, ops_metric, send_work, work
from test_daemon_protocol import head, post, read_one, status

TINY = '{"query":[[1,0],[0,1]]}'


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_daemon_stops(start, number):
    daemon = start()
    daemon.get("/healthz")
    idle = [daemon.connect() for _ in range(20)]
    daemon.signal(number)
    assert daemon.wait() == 0
    for sock in idle:
        sock.close()


def answered(socks):
    """Those that have an answer waiting."""
    return select.select(socks, [], [], 0)[0]


def test_drain_finishes_what_was_accepted(start):
    """Requests that run and wait, and one whose last byte comes when all else has been seen, so that it does not end
    before that."""
    daemon = start("--workers", "1", "--requests-running", "1", "--drain-ms", "600000", "--request-timeout-ms", "600000",
                   "--header-timeout-ms", "600000", "--queue-target-ms", "60000")
    begin = time.monotonic()
    assert daemon.post("/v1/attention", work(n=3000)).status_code == 200
    took = time.monotonic() - begin
    body = work(n=int(3000 * max(1, 1 / took) ** 0.5)).encode()  # about a second each
    socks = []
    for sent in (body, body, body, body[:-1]):
        sock = daemon.connect()
        sock.sendall(post(sent, f"Content-Length: {len(body)}"))
        socks.append(sock)
    open_ones = [daemon.connect() for _ in range(20)]
    for sock in open_ones:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(read_one(sock)) == 200
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") + len(answered(socks)) >= 4)
    daemon.signal()
    assert eventually(lambda: requests.get(daemon.ops_url + "/readyz", timeout=PATIENCE).status_code == 503)
    early = answered(socks)
    assert requests.get(daemon.ops_url + "/healthz", timeout=PATIENCE).status_code == 200
    served = 0
    for sock in open_ones:  # those that come before the service refuses are served
        sock.sendall(post(TINY.encode(), f"Content-Length: {len(TINY)}"))
        refused = read_one(sock)
        assert head(refused)["connection"] == "close"
        if status(refused) != 200:
            break
        served += 1
        time.sleep(0.05)
    assert status(refused) == 503 and b'"code":"draining"' in refused and "retry-after" in head(refused)
    with pytest.raises(OSError):
        daemon.connect(2)
    socks[-1].sendall(body[-1:])
    for sock in socks:
        reply = read_one(sock)
        assert status(reply) == 200 and (sock in early or head(reply)["connection"].lower() == "close")
        sock.close()
    for sock in open_ones:
        sock.close()
    assert daemon.wait() == 0
    assert len(daemon.log(5 + served, status=200, route="/v1/attention")) == 5 + served


def test_drain_is_bounded(start):
    daemon = start("--drain-ms", "500", "--requests-running", "1", "--workers", "1")
    running = send_work(daemon)
    assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
    waiting = send_work(daemon)
    assert eventually(lambda: ops_metric(daemon, "attnd_queue_waiting") == 1)
    daemon.signal()
    for sock in (running, waiting):
        reply = read_one(sock)
        assert status(reply) == 503 and b'"code":"draining"' in reply
        sock.close()
    assert daemon.wait() == 0


@pytest.mark.parametrize("body", [LITERAL, QUERY])
def test_drain_reaches_a_literal_that_is_being_filled(start, body):
    daemon = start("--drain-ms", "1000", "--workers", "1", "--memory-bytes", "8GiB", "--max-request-bytes", "4GiB")
    with daemon.connect() as sock:
        sock.sendall(post(body, f"Content-Length: {len(body)}"))
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
        begin = time.monotonic()
        daemon.signal()
        reply = read_one(sock)
        assert status(reply) == 503 and b'"code":"draining"' in reply
    assert daemon.wait() == 0
    assert time.monotonic() - begin < 1 + PATIENCE / 10


def test_second_signal_forces_the_end(start):
    daemon = start()
    sock = send_work(daemon)
    assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
    daemon.signal()
    assert eventually(lambda: requests.get(daemon.ops_url + "/readyz", timeout=PATIENCE).status_code == 503)
    daemon.signal()
    assert daemon.wait() == 6
    sock.close()


def test_load_across_a_stop_loses_nothing(start):
    """Clients with open connections hammer the daemon while it stops: every request that reached it
    gets one whole answer; a connection may end only between answers."""
    daemon = start()
    answers, broken = [], []
    stopping = threading.Event()

    def client(number):
        body = [TINY, work(n=300), work(n=1500)][number % 3].encode()
        data = post(body, f"Content-Length: {len(body)}")
        try:
            sock = daemon.connect()
        except OSError:
            return
        with sock:
            while True:
                try:
                    sock.sendall(data)
                    first = sock.recv(1, 2)  # MSG_PEEK
                except OSError:
                    first = b""
                if not first:
                    if not stopping.is_set():
                        broken.append("closed before the stop")
                    return
                try:
                    reply = read_one(sock)
                except (AssertionError, OSError) as error:
                    broken.append(repr(error))
                    return
                answers.append(status(reply))
                if head(reply).get("connection", "").lower() == "close":
                    return

    threads = [threading.Thread(target=client, args=(i,)) for i in range(30)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: answers.count(200) > 100)
    stopping.set()
    daemon.signal()
    for thread in threads:
        thread.join(PATIENCE)
    assert daemon.wait() == 0
    assert broken == []
    assert set(answers) <= {200, 503} and answers.count(200) > 100
    logged = daemon.log(len(answers), route="/v1/attention")
    assert [entry for entry in logged if entry["status"] not in (200, 503)] == []
    assert len(logged) == len(answers)


def test_stop_during_an_upload(start):
    daemon = start("--drain-ms", "600000", "--header-timeout-ms", "600000")
    with daemon.connect() as sock:
        sock.sendall(post(b'{"query":', "Content-Length: 23"))
        assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 1)
        daemon.signal()
        assert eventually(lambda: requests.get(daemon.ops_url + "/readyz", timeout=PATIENCE).status_code == 503)
        sock.sendall(b"[[1,0],[0,1]]}")
        assert status(read_one(sock)) == 200, "an upload that had begun is an accepted request"
    assert daemon.wait() == 0


def test_log_is_complete_json_at_the_end(start):
    daemon = start()
    for _ in range(50):
        daemon.get("/healthz")
    assert daemon.stop() == 0
    lines = [json.loads(line) for line in daemon.stderr().splitlines()]
    assert len([entry for entry in lines if entry.get("route") == "/healthz"]) == 50


def test_stop_right_after_the_start(start):
    for _ in range(5):
        daemon = start()
        begin = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - begin < PATIENCE / 4


def test_drain_delay_serves_on_while_readiness_is_gone(start):
    delay = PATIENCE / 20
    daemon = start("--drain-delay-ms", str(round(delay * 1000)))
    ready = daemon.ops_url + "/readyz"
    kept = daemon.connect()
    kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status(read_one(kept)) == 200
    begin = time.monotonic()
    daemon.signal()
    assert eventually(lambda: requests.get(ready, timeout=PATIENCE).status_code == 503)

    def in_time():
        return time.monotonic() < begin + 0.95 * delay

    served = 0
    try:
        while time.monotonic() < begin + 0.75 * delay:
            with daemon.connect() as fresh:
                fresh.sendall(post(TINY.encode(), f"Content-Length: {len(TINY)}"))
                reply = read_one(fresh)
            if in_time():
                assert status(reply) == 200 and head(reply)["connection"].lower() == "close"
                served += 1
        kept.sendall(post(TINY.encode(), f"Content-Length: {len(TINY)}"))
        reply = read_one(kept)
        if in_time():
            assert status(reply) == 200
    except (OSError, AssertionError):  # this process was kept from its turn until the delay was over
        if in_time():
            raise
    kept.close()
    assert daemon.wait() == 0
    assert time.monotonic() > begin + 0.95 * delay and served > 0


def test_second_signal_ends_the_drain_delay(start):
    daemon = start("--drain-delay-ms", "600000")
    daemon.signal()
    assert eventually(lambda: requests.get(daemon.ops_url + "/readyz", timeout=PATIENCE).status_code == 503)
    daemon.signal()
    assert daemon.wait() == 6
