"""Work that ends early: clients that leave, deadlines, a shutdown: promises P6 to P8 (RESULTS.md says what each
promises). ATTND_FAULT_FULL=1 as in test_overload.py."""
import asyncio
import os
import signal
import threading
import time

import faults
import load
from faults import get, post
from load import quantile
from serving import service
from test_overload import FULL, cpu_seconds, literal

LONG = post({"query": literal(200000, 32), "return": ["logsumexp"]})  # far longer than any test
SHORT = post({"query": literal(1, 4, 300, 32), "return": ["logsumexp"]})


def ops(daemon, name):
    return sum(float(line.split()[1]) for line in service.requests.get(daemon.ops_url + "/metrics",
               timeout=service.PATIENCE).text.splitlines() if line.startswith(name + " "))


def test_p6_work_of_clients_that_left_stops(start):
    """Dropped while it waits, stopped while it runs; memory returns and the processor rests."""
    clients = 1000 if FULL else 200
    daemon = start("--ops-listen", "127.0.0.1:0", "--log", "off", "--workers", "2", "--queue-length", "4096",
                   "--header-timeout-ms", "600000", "--request-timeout-ms", "600000")
    assert ops(daemon, "attnd_memory_reserved_bytes") < 1 << 20
    socks = []
    for i in range(clients):
        socks.append(daemon.connect())
        socks[-1].sendall(LONG if i % 4 else LONG[:-20])  # every fourth leaves within its body
    assert faults.eventually(lambda: ops(daemon, "attnd_requests_in_flight") == clients)
    assert faults.eventually(lambda: ops(daemon, "attnd_queue_running") > 0)
    begin = time.monotonic()
    for i, sock in enumerate(socks):
        if i % 2:  # with a reset
            sock.setsockopt(service.socket.SOL_SOCKET, service.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.close()
    assert faults.eventually(lambda: ops(daemon, "attnd_requests_in_flight") == 0)
    took = time.monotonic() - begin
    assert faults.eventually(lambda: ops(daemon, "attnd_queue_running") + ops(daemon, "attnd_queue_waiting") == 0)
    assert faults.eventually(lambda: ops(daemon, "attnd_memory_reserved_bytes") < 1 << 20)
    before = cpu_seconds(daemon.pid)
    time.sleep(1)
    idle = cpu_seconds(daemon.pid) - before
    faults.note("P6 clients that left", clients=clients, all_stopped_after_ms=f"{took * 1e3:.0f}",
                processor_afterwards=f"{100 * idle:.0f} %")
    assert idle < 0.2, "it is still busy"
    assert took < (2 if FULL else 20)
    assert asyncio.run(load.Connection(daemon.port).ask(SHORT)).status == 200


def test_p7_deadlines_are_kept(start):
    """504 not before timeout_ms and at most 10 ms after it, for work that runs."""
    daemon = start("--ops-listen", "", "--log", "off", "--workers", "1", "--requests-running", "1")
    late = []
    for i in range(60 if FULL else 10):
        wanted = (60 + 23 * (i % 10)) / 1000
        body = {"query": literal(1, 1, 32000, 64), "return": ["logsumexp"], "timeout_ms": round(wanted * 1000)}
        answer = asyncio.run(load.Connection(daemon.port).ask(post(body)))
        assert answer.status == 504 and faults.json.loads(answer.body)["code"] == "deadline_exceeded", answer
        late.append(answer.seconds - wanted)
    faults.note("P7 deadlines", requests=len(late), late_p50_ms=f"{quantile(late, .5) * 1e3:.1f}",
                late_p90_ms=f"{quantile(late, .9) * 1e3:.1f}", most_ms=f"{max(late) * 1e3:.1f}")
    assert min(late) >= -0.002, "before its time"
    assert quantile(late, 0.5) < (0.01 if FULL else 1), late
    assert asyncio.run(load.Connection(daemon.port).ask(SHORT)).status == 200


def test_p8_shutdown_under_load_fails_nobody(start):
    """From SIGTERM on: accepted requests are answered, later ones are told 503 and that the connection ends, nobody
    is cut off, the exit code is 0."""
    clients, served, told, cut = 32, [], [], []
    daemon = start("--ops-listen", "127.0.0.1:0", "--log", "off", "--workers", "2")

    async def client():
        connection, n = load.Connection(daemon.port), 0
        while True:
            fresh = connection.writer is None
            answer = await connection.ask(SHORT)
            if answer.status == 200:
                served.append(answer)
            elif answer.status == 503:
                told.append(answer)
            elif not fresh:  # nothing listens any more for a new connection: the proxy in front sees that
                cut.append(answer)
            if connection.writer is None and answer.status != 200 or fresh and answer.status == 0:
                return
            await asyncio.sleep(0.001 * (n % 7))
            n += 1

    async def run():
        tasks = [asyncio.create_task(client()) for _ in range(clients)]
        await asyncio.sleep(3 if FULL else 0.5)
        while len(served) <= clients:
            await asyncio.sleep(0.01)
        daemon.signal(signal.SIGTERM)
        await asyncio.gather(*tasks)

    asyncio.run(run())
    code = daemon.wait()
    faults.note("P8 drain", clients=clients, served=len(served), told_503=len(told), cut_off=len(cut), exit_code=code)
    assert code == 0 and not cut and len(served) > clients
    assert all(a.headers["connection"] == "close" and int(a.headers["retry-after"]) >= 1 for a in told)


def test_p8_second_signal_forces(start):
    daemon = start("--ops-listen", "", "--log", "off", "--drain-ms", "600000")
    with daemon.connect() as sock:
        sock.sendall(LONG)
        assert faults.eventually(lambda: daemon.metric("attnd_requests_in_flight") == 2)
        daemon.signal(signal.SIGTERM)
        time.sleep(0.5)
        assert daemon.process.poll() is None, "it waits for the request"
        begin = time.monotonic()
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 6
        assert time.monotonic() - begin < 5
