"""More than the service can do: promises P1 to P5 (RESULTS.md says what each promises). ATTND_FAULT_FULL=1 runs
them at full size and holds the times to the promise; otherwise they are short and patient with other load."""
import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import faults
import load
from faults import get, post
from load import quantile
from serving import service

FULL = os.environ.get("ATTND_FAULT_FULL") == "1"
MIB, CLIENTS = 1 << 20, 32 if FULL else 16
OVERHEAD = 96 * MIB  # P1: program, libraries, stacks, connections, and what the C library keeps


def literal(*shape, seed=1):
    return {"shape": list(shape), "random": "normal", "seed": seed}


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status_bytes(daemon, name):
    lines = Path(f"/proc/{daemon.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


class Watch:
    """Asks for health and metrics on the operations port as long as it is open (watch.py)."""

    def __init__(self, daemon):
        self.command = [sys.executable, str(Path(__file__).with_name("watch.py")), daemon.ops_url.rsplit(":", 1)[1]]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        found = json.loads(self.process.communicate()[0])
        assert self.process.returncode == 0
        self.times, self.bad = found["times"], found["bad"]

    def check(self, what):
        """P5."""
        assert not self.bad and self.times
        faults.note("P5 health and metrics", while_=what, asked=len(self.times),
                    p50_ms=f"{quantile(self.times, .5) * 1e3:.1f}", p99_ms=f"{quantile(self.times, .99) * 1e3:.1f}",
                    most_ms=f"{max(self.times) * 1e3:.1f}")
        assert max(self.times) < 0.1 if FULL else quantile(self.times, 0.99) < 3


def numbers(count, width):
    """A body of that many numbers, 9 bytes each."""
    row = "[" + ",".join(["0.1234567"] * width) + "]"
    return ('{"query":[' + ",".join([row] * (count // width)) + '],"return":["logsumexp"]}').encode()


def test_p1_memory_stays_within_the_budget(start):
    """Many clients at once, each with a request of nearly the largest size that is legal."""
    budget = (512 if FULL else 256) * MIB
    daemon = start("--ops-listen", "127.0.0.1:0", "--log", "off", "--memory-bytes", str(budget), "--max-cells", "1e9")
    side = 2300 if FULL else 1500
    wide = {"query": literal(1, 1, side, 16), "return": ["weights"]}
    largest = [
        post(wide, "Accept: application/vnd.safetensors"),
        post({**wide, "decimals": 3}),
        post(numbers((10 if FULL else 4) * MIB // 9, 1024)),
        post({"query": literal(1, 4, 1024, budget // 32 // 4 // 4 // 1024), "return": ["output"]},
             "Accept: application/vnd.safetensors"),
        post({**wide, "heatmap": {}, "return": ["scores"]}, "Accept-Encoding: gzip"),
    ]
    for request in largest:
        alone = asyncio.run(load.steadily(daemon.port, lambda i, n: request, 1, 0.001))
        assert alone[0].status == 200, (request[:300], alone[0].status, alone[0].body[:300])
    with Watch(daemon) as watch:
        answers = asyncio.run(load.steadily(daemon.port, lambda i, n: largest[(i + n) % len(largest)], CLIENTS,
                                            30 if FULL else 5, keep=4096))
    peak = status_bytes(daemon, "VmHWM")
    refused = [a for a in answers if a.status == 503]
    assert {a.status for a in answers} <= {200, 503}, {a.status for a in answers}
    assert len(refused) < len(answers) and refused, "some are served, and some cannot be"
    for a in refused:
        assert json.loads(a.body)["code"] in ("memory_budget", "queue_full") and int(a.headers["retry-after"]) >= 1
    faults.note("P1 memory", budget_MiB=budget // MIB, clients=CLIENTS, requests=len(answers), refused=len(refused),
                peak_rss_MiB=peak // MIB, overhead_allowed_MiB=OVERHEAD // MIB)
    assert peak <= budget + OVERHEAD, f"{peak / MIB:.0f} MiB"
    watch.check("P1")
    assert faults.eventually(lambda: daemon.metric("attnd_memory_reserved_bytes") < 1 * MIB)
    assert asyncio.run(load.steadily(daemon.port, lambda i, n: largest[0], 1, 0.001))[0].status == 200


def test_p1_what_can_never_fit_is_413(start):
    daemon = start("--ops-listen", "", "--log", "off", "--memory-bytes", str(64 * MIB))
    for body in ({"query": literal(1, 1, 9000, 16), "return": ["weights"]}, {"query": literal(40, MIB)}):
        reply = daemon.post("/v1/attention", body)
        problem = reply.json()
        assert reply.status_code == 413 and problem["limit"]["setting"] in ("max_request_bytes", "memory_bytes"), problem
        assert "Retry-After" not in reply.headers
    announced = daemon.raw(b"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000000\r\n"
                           b"Expect: 100-continue\r\n\r\n")
    assert announced.startswith(b"HTTP/1.1 413 ") and b"100 Continue" not in announced


WORK = post({"query": literal(1, 8, 512, 64), "return": ["logsumexp"]})


def test_p2_refusals_are_cheap_and_goodput_stays(start, monkeypatch):
    """Four times as many requests as can be served. Others may take the processors meanwhile, so goodput is held to
    what the daemon does in a second of processor time; that of the clock is noted beside it."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:  # the load has a core of its own
        monkeypatch.setattr(service.Daemon, "prefix", ("taskset", "-c", str(cores[0])))
    daemon = start("--ops-listen", "127.0.0.1:0", "--log", "off", "--workers", "1", "--requests-running", "1",
                   "--queue-length", "8", "--in-place-bytes", "0")
    if len(cores) > 1:
        os.sched_setaffinity(0, set(cores[1:]))
    try:
        seconds = 20 if FULL else 4
        asyncio.run(load.steadily(daemon.port, lambda i, n: WORK, 4, 1))
        rounds = []
        for _ in range(3 if FULL else 1):
            begin = cpu_seconds(daemon.pid)
            peak = asyncio.run(load.steadily(daemon.port, lambda i, n: WORK, 4, seconds / 2))
            middle, served = cpu_seconds(daemon.pid), sum(a.status == 200 for a in peak)
            answers = asyncio.run(load.at_rate(daemon.port, WORK, 8 * served / seconds, seconds, 64))
            end, good = cpu_seconds(daemon.pid), sum(a.status == 200 for a in answers)
            rounds.append((2 * served / seconds, answers, good / (end - middle) / (served / (middle - begin))))
        with Watch(daemon) as watch:
            asyncio.run(load.at_rate(daemon.port, WORK, 8 * served / seconds, seconds, 64))
    finally:
        os.sched_setaffinity(0, set(cores))
    ratios = []
    for capacity, answers, ratio in rounds:
        assert {a.status for a in answers} <= {200, 503}, {a.status for a in answers}
        begin = min(a.at for a in answers)
        good = sum(a.status == 200 and a.at + a.seconds <= begin + seconds for a in answers) / seconds
        refused = [a for a in answers if a.status == 503]
        assert len(refused) > (len(answers) / 2 if FULL else 0), "this was no overload"
        assert all(json.loads(a.body)["code"] == "queue_full" and int(a.headers["retry-after"]) >= 1 for a in refused)
        ratios.append((ratio, quantile([a.seconds for a in refused], 0.99)))
        faults.note("P2 overload", capacity=f"{capacity:.0f}/s", offered=f"{len(answers) / seconds:.0f}/s",
                    refused=len(refused), refusal_p50_ms=f"{quantile([a.seconds for a in refused], .5) * 1e3:.1f}",
                    refusal_p99_ms=f"{ratios[-1][1] * 1e3:.1f}", goodput=f"{good:.0f}/s ({100 * good / capacity:.0f} %)",
                    goodput_of_processor=f"{100 * ratio:.0f} %")
    watch.check("P2")
    assert max(r[0] for r in ratios) >= (0.9 if FULL else 0.5), ratios
    assert min(r[1] for r in ratios) <= (0.05 if FULL else 3), ratios


def test_p2_refusals_read_no_body(start):
    """Decided from the header: the client is told though it has sent nothing of its body."""
    daemon = start("--ops-listen", "", "--log", "off", "--max-body-bytes", "1MiB")
    for line, headers, status in [("POST /nowhere", (), 404), ("PUT /v1/attention", (), 405),
                                  ("POST /v1/attention", ("Content-Type: text/csv",), 415),
                                  ("POST /v1/attention", ("Accept: image/gif",), 406), ("POST /v1/attention", (), 413)]:
        head = [f"{line} HTTP/1.1", "Host: localhost", "Content-Length: 90000000", "Expect: 100-continue", *headers]
        with daemon.connect() as sock:
            answer = faults.exchange(sock, "\r\n".join(head).encode() + b"\r\n\r\n")
        assert answer[0] == status, answer
    assert daemon.metric("attnd_request_body_bytes_total") == 0


def long_work(ms, **fields):
    return post({"query": literal(200000, 64), "return": ["logsumexp"], "timeout_ms": ms, **fields})


def test_p3_queue_is_bounded_in_length_and_time(start):
    """What waits too long is answered at its own time, not when a worker is free, and is never begun."""
    daemon = start("--log", "off", "--ops-listen", "127.0.0.1:0", "--workers", "1", "--requests-running", "1",
                   "--queue-length", "20")
    own = 400 if FULL else 3000  # longer than it takes all to arrive

    async def run():
        holder = load.Connection(daemon.port)
        first = asyncio.create_task(holder.ask(long_work(600000)))
        while (await load.Connection(daemon.port).ask(get("/metrics"))).body.count(b"attnd_queue_running 1") == 0:
            await asyncio.sleep(0.02)
        waiting = [asyncio.create_task(load.Connection(daemon.port).ask(long_work(own))) for _ in range(30)]
        answers = await asyncio.gather(*waiting)
        assert not first.done(), "it has held the worker all the while"
        first.cancel()
        holder.close()
        return answers

    answers = asyncio.run(run())
    full = [a for a in answers if a.status == 503]
    expired = [a for a in answers if a.status == 504]
    assert len(full) == 10 and len(expired) == 20, [(a.status, round(a.seconds, 2)) for a in answers]
    assert all(own / 1e3 <= a.seconds < (own / 1e3 + 0.25 if FULL else 60) for a in expired)
    assert all("compute;dur=0.000" in a.headers["server-timing"] for a in expired), "expired work was begun"
    assert daemon.metric("attnd_expired_in_queue_total") == 20
    faults.note("P3 queue", length=20, expired=20, refused=10, timeout_ms=own,
                answered_after_ms=f"{min(a.seconds for a in expired) * 1e3:.0f} to {max(a.seconds for a in expired) * 1e3:.0f}")


def test_p4_retry_after_grows_with_the_load(start):
    """An integer of at least 1 on every 503, more where more is waited for, not the same for all."""
    found = {}
    for length in (1, 64):
        daemon = start("--log", "off", "--ops-listen", "", "--workers", "1", "--requests-running", "1",
                       "--queue-length", str(length))
        work = post({"query": literal(1, 8, 1600, 64), "return": ["logsumexp"]})

        async def run():
            await asyncio.gather(*(load.Connection(daemon.port).ask(work) for _ in range(2)))  # what one takes
            work_for_long = long_work(600000)  # so that none has been done when the last comes
            clients = [load.Connection(daemon.port) for _ in range(length + 41)]
            tasks = [asyncio.create_task(client.ask(work_for_long)) for client in clients]
            while sum(task.done() and task.result().status == 503 for task in tasks) < 20:
                await asyncio.sleep(0.01)
            for client, task in zip(clients, tasks):
                if not task.done():
                    task.cancel()
                client.close()
            return [task.result() for task in tasks if task.done() and not task.cancelled()]

        refused = [a for a in asyncio.run(run()) if a.status == 503]
        found[length] = [int(a.headers["retry-after"]) for a in refused]
        assert min(found[length]) >= 1
    low, high = (sum(found[n]) / len(found[n]) for n in found)
    faults.note("P4 Retry-After", refused=sum(map(len, found.values())), queue_1=sorted(set(found[1])),
                queue_64=sorted(set(found[64])))
    assert high > low and len(set(found[64])) > 1, found
