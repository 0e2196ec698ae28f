"""Bodies that come in at the same time take turns: nobody waits for a client that pauses, nobody is kept out for
long, and every answer is that of its own body."""
import base64
import concurrent.futures
import json
import struct
import time

from conftest import PATIENCE
from test_daemon_load import eventually, ops_metric, send_work
from test_daemon_protocol import post, read_one, status


def body_of(number, rows=1000):
    """Whatever is attended to, the output is `number`; some 350 KB at 1,000 rows."""
    def tensor(values, width):
        raw = struct.pack(f"<{len(values)}f", *values)
        return {"shape": [rows, width], "base64": base64.b64encode(raw).decode()}
    query = tensor([(i * 7 + number) % 11 / 11 for i in range(rows * 64)], 64)
    return json.dumps({"query": query, "value": tensor([number] * rows, 1), "key": query, "return": ["output"],
                       "window": [2, 0]}).encode()


def request_of(number, rows=1000):
    body = body_of(number, rows)
    return post(body, f"Content-Length: {len(body)}")


def test_paused_uploads_hold_nobody_up(daemon):
    whole = request_of(1)
    paused = [daemon.connect() for _ in range(4)]
    try:
        for sock in paused:
            sock.sendall(whole[:len(whole) // 2])
        assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 4)
        begin = time.monotonic()
        for _ in range(3):
            with daemon.connect() as sock:
                sock.sendall(whole)
                assert status(read_one(sock)) == 200
        assert time.monotonic() - begin < PATIENCE / 4
        for sock in paused:
            sock.sendall(whole[len(whole) // 2:])
            assert status(read_one(sock)) == 200
    finally:
        for sock in paused:
            sock.close()


def test_bodies_at_the_same_time_are_not_mixed_up(daemon):
    def ask(number):
        reply = daemon.request("POST", "/v1/attention", data=body_of(number, 200 + number * 37 % 1500))
        assert reply.status_code == 200
        return {round(row[0], 3) for row in reply.json()["output"]}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(1, 97))) == [{number} for number in range(1, 97)]


def test_busy_workers_keep_bodies_out_only_for_a_while(start):
    """The queue's own rules decide about requests that wait for long, so their bodies have to come in."""
    daemon = start("--requests-running", "1", "--workers", "1")
    held = [send_work(daemon)]
    try:
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
        held.append(send_work(daemon))
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_waiting") == 1)
        for number in range(5):
            held.append(daemon.connect())
            held[-1].sendall(request_of(number))
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_waiting") == 6)
    finally:
        for sock in held:
            sock.close()
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)


def test_stop_while_bodies_wait(start):
    daemon = start("--requests-running", "1", "--workers", "1", "--drain-ms", "200")
    held = [send_work(daemon) for _ in range(2)]
    try:
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_waiting") == 1)
        for number in range(8):
            held.append(daemon.connect())
            held[-1].sendall(request_of(number))
        assert daemon.stop() == 0
    finally:
        for sock in held:
            sock.close()


def test_clients_that_leave_while_they_wait(start):
    daemon = start("--requests-running", "1", "--workers", "1")
    whole = request_of(1)
    held = [send_work(daemon) for _ in range(2)]
    try:
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_waiting") == 1)
        for cut in range(1, 21):
            with daemon.connect() as sock:
                sock.sendall(whole[:len(whole) * cut // 20])
    finally:
        for sock in held:
            sock.close()
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    with daemon.connect() as sock:
        sock.sendall(whole)
        assert status(read_one(sock)) == 200
