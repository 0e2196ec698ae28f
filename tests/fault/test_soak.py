"""The service in bad company: thousands of mixed requests over 200 connections beside 1,000 idle ones,
after which nothing may be left over; and SIGTERM under load, which loses no accepted request."""
import asyncio
import json
import os
import random
import resource
import select
import signal
import threading
import time
from pathlib import Path

import pytest

from faults import note
from serving import service

CONNECTIONS, IDLE = 200, 1000
REQUESTS = int(os.environ.get("ATTND_SOAK_REQUESTS", "10000"))
BODY_LIMIT = 262144


def post(body, headers="", path="/v1/attention"):
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{headers}\r\n").encode() + body


def valid(r):
    L, S, E = r.choice([1, 3, 8, 40]), r.choice([1, 7, 64]), r.choice([2, 8, 16])

    def literal(n, width):
        return {"shape": [n, width], "random": "normal", "seed": r.randrange(10**6)}

    body = {"query": literal(L, E), "key": literal(S, E), "value": literal(S, E)}
    if r.random() < 0.3:
        body["is_causal"] = True
    if r.random() < 0.2:
        body["heatmap"] = {"max_cells": 64}
    if r.random() < 0.1:
        body["query"]["shape"] = [2, 400, E]
        body["key"]["shape"] = body["value"]["shape"] = [2, S, E]
    return post(json.dumps(body).encode()), {200}


def malformed(r):
    text = r.choice([
        b"{", b"[]", b"nonsense", b'{"query":[[1,2],[3]]}', b'{"query":[[NaN]]}', b'{"query":[[1e99]]}',
        b'{"qury":[[1]]}', b'{"query":[[1,2]],"key":[[1,2,3]],"value":[[1]]}', b"\x00\xff\xfe", b"",
        b'{"query":[[1]],"query":[[1]]}', b"[" * 500, b'{"query":[[1]],"attn_mask":[[1]]}'])
    return post(text), {400, 422}


def oversized(r):
    """Declared too large, with Expect so that the refusal comes before any body."""
    head = f"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nContent-Length: {BODY_LIMIT * 50}\r\nExpect: 100-continue\r\n\r\n"
    return head.encode(), {413}


def other(r):
    path, codes = r.choice([("/healthz", {200}), ("/nowhere", {404}), ("/v1/examples", {200}),
                            ("/v1/attention", {405}), ("/metrics", {200})])
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), codes


async def read_reply(reader):
    """(status, may this connection go on?); IncompleteReadError when the server closed."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status = int(head.split(" ", 2)[1])
    fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    body = await reader.readexactly(int(fields.get("content-length", 0)))
    return status, "close" not in fields.get("connection", ""), body


class Client:
    """One of the connections: sends its share of the requests, one after the other."""

    def __init__(self, port, seed, share):
        self.port, self.r, self.share = port, random.Random(seed), share
        self.writer = None
        self.faults = []

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def close(self):
        if self.writer:
            self.writer.close()
            try:
                await self.writer.wait_closed()
            except OSError:
                pass
        self.writer = None

    async def abandon(self):
        """Leave half-way: in the headers, in the body, or before the answer is read."""
        whole, _ = valid(self.r)
        cut = self.r.choice([10, len(whole) - 20, len(whole)])
        self.writer.write(whole[:cut])
        await self.writer.drain()
        if self.r.random() < 0.5:
            self.writer.transport.abort()  # a reset, not a farewell
            self.writer = None
        else:
            await self.close()

    async def one(self):
        if not self.writer:
            await self.open()
        kind = self.r.choices([valid, malformed, oversized, other, None], [66, 12, 4, 6, 12])[0]
        if not kind:
            await self.abandon()
            return
        data, codes = kind(self.r)
        self.writer.write(data)
        await self.writer.drain()
        status, goes_on, _ = await asyncio.wait_for(read_reply(self.reader), 120)
        if status not in codes and status != 503:
            self.faults.append(f"{data[:80]!r}: {status}, not {codes}")
        if not goes_on:
            await self.close()

    async def run(self):
        for _ in range(self.share):
            try:
                await self.one()
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError) as fault:
                self.faults.append(repr(fault))
                await self.close()
        await self.close()
        return self.faults


async def storm(port, requests, seed):
    clients = [Client(port, seed * 1000 + i, requests // CONNECTIONS) for i in range(CONNECTIONS)]
    return [fault for faults in await asyncio.gather(*(c.run() for c in clients)) for fault in faults]


def idle_connections(daemon, n):
    """Connections that have been served once and then stay."""
    found = []
    for _ in range(n):
        sock = daemon.connect()
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        found.append(sock)
    for sock in found:
        assert sock.recv(4096).startswith(b"HTTP/1.1 200")
    return found


def state(daemon):
    found = {  # first, since asking opens the connection that asks
        "in_flight": daemon.metric("attnd_requests_in_flight"),
        "waiting": daemon.metric("attnd_queue_waiting"),
        "reserved": daemon.metric("attnd_memory_reserved_bytes"),
    }
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    rss = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    descriptors = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    return {**found, "descriptors": descriptors, "rss_kib": int(rss.split()[1])}


def settled(daemon, like, most_kib=float("inf")):
    """The state once it looks like `like` again, and holds at most that, or when patience ends; kept memory goes back
    at rest."""
    time.sleep(3)
    end = time.monotonic() + service.PATIENCE
    while True:
        now = state(daemon)
        alike = all(now[k] == like[k] for k in like if k != "rss_kib")
        if time.monotonic() > end or alike and now["rss_kib"] <= most_kib:
            return now
        time.sleep(0.2)


def answered(socks):
    """How many sockets have an answer waiting."""
    return len(select.select(socks, [], [], 0)[0])


@pytest.fixture
def descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_nothing_is_left_over(descriptors, start):
    daemon = start("--ops-listen", "", "--log", "off", "--max-body-bytes", str(BODY_LIMIT),
                   "--idle-timeout-s", "600", "--queue-length", "4096")
    idle = idle_connections(daemon, IDLE)
    try:
        first = state(daemon)
        asyncio.run(storm(daemon.port, 2000, seed=1))  # buffers and arenas reach their size
        before = settled(daemon, first)
        faults = asyncio.run(storm(daemon.port, REQUESTS, seed=2))
        most_kib = before["rss_kib"] * 1.1 + 4096
        after = settled(daemon, first, most_kib)
        assert not faults, f"{len(faults)} faults, the first: {faults[:3]}"
        for name in ("descriptors", "in_flight", "waiting", "reserved"):
            assert after[name] == first[name], f"{name}: {first} -> {after}"
        assert after["rss_kib"] <= most_kib, f"{before} -> {after}"
        note("P14 soak", requests=REQUESTS, idle=IDLE, rss_KiB=" -> ".join(str(s["rss_kib"]) for s in (first, before, after)))
        assert daemon.post("/v1/attention", {"query": [[1.0]]}).json()["output"] == [[1]]
        for sock in idle[:: IDLE // 20]:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert sock.recv(4096).startswith(b"HTTP/1.1 200"), "an idle connection was dropped"
    finally:
        for sock in idle:
            sock.close()


SLOW = json.dumps({"query": {"shape": [1, 4, 600, 64], "random": "normal", "seed": 1}, "return": ["logsumexp"]})


def test_sigterm_loses_nothing(start):
    """Every request that was sent in full before SIGTERM is answered; later ones are refused plainly."""
    daemon = start("--ops-listen", "", "--log", "off", "--workers", "2", "--drain-ms", "300000")
    socks = []
    for _ in range(40):
        sock = daemon.connect(timeout=60)
        sock.sendall(post(SLOW.encode()))
        socks.append(sock)
    deadline = time.monotonic() + 30
    while daemon.metric("attnd_requests_in_flight") - 1 + answered(socks) < len(socks):
        assert time.monotonic() < deadline, "the requests were not taken in"
        time.sleep(0.01)
    replies = [None] * len(socks)

    def read(i):
        data = b""
        try:
            while chunk := socks[i].recv(65536):
                data += chunk
                head, _, body = data.partition(b"\r\n\r\n")
                length = [h for h in head.split(b"\r\n") if h.lower().startswith(b"content-length:")]
                if length and len(body) >= int(length[0].split(b":")[1]):
                    break
        except OSError:
            pass
        replies[i] = data

    readers = [threading.Thread(target=read, args=(i,)) for i in range(len(socks))]
    for thread in readers:
        thread.start()
    daemon.signal(signal.SIGTERM)
    for thread in readers:
        thread.join()
    assert daemon.wait() == 0, daemon.stderr()[-2000:]
    lost = [data[:60] for data in replies if not data.startswith(b"HTTP/1.1 200")]
    assert not lost, f"{len(lost)} of {len(socks)} lost: {lost[:3]}"
    for sock in socks:
        sock.close()
