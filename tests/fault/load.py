"""Load from one thread: many connections at once, each answer with its status, headers and time."""
import asyncio
import time
from collections import namedtuple

Answer = namedtuple("Answer", "status headers body seconds at")


class Connection:
    """Keeps its connection while the server does."""

    def __init__(self, port):
        self.port, self.writer = port, None

    async def ask(self, data, patience=120):
        """An Answer; its status is 0 when the connection closed before one."""
        begin = time.monotonic()
        try:
            return await asyncio.wait_for(self._ask(data, begin), patience)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return Answer(0, {}, b"", time.monotonic() - begin, begin)

    async def _ask(self, data, begin):
        if not self.writer:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writer.write(data)
        await self.writer.drain()
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in head[1:] if line)}
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Answer(int(head[0].split(" ", 2)[1]), headers, body, time.monotonic() - begin, begin)

    def close(self):
        if self.writer:
            self.writer.close()
        self.writer = None


async def steadily(port, make, clients, seconds, pause=0, keep=None):
    """Closed loop: each client asks, and again as soon as it is answered. Of bodies only `keep` bytes are kept."""
    end, answers = time.monotonic() + seconds, []

    async def client(i):
        connection, n = Connection(port), 0
        while n == 0 or time.monotonic() < end:
            answer = await connection.ask(make(i, n))
            answers.append(answer._replace(body=answer.body[:keep]))
            n += 1
            if pause:
                await asyncio.sleep(pause)
        connection.close()

    await asyncio.gather(*(client(i) for i in range(clients)))
    return answers


async def at_rate(port, data, rate, seconds, connections):
    """Open loop: `rate` requests a second, whatever becomes of them, over connections that are reused."""
    free, tasks, answers = [Connection(port) for _ in range(connections)], [], []

    async def one():
        connection = free.pop() if free else Connection(port)
        answers.append(await connection.ask(data))
        free.append(connection)

    begin, n = time.monotonic(), 0
    while (now := time.monotonic()) - begin < seconds:
        while n < (now - begin) * rate:
            tasks.append(asyncio.create_task(one()))
            n += 1
        await asyncio.sleep(0.002)
    await asyncio.gather(*tasks)
    for connection in free:
        connection.close()
    return answers


def quantile(values, q):
    found = sorted(values)
    return found[min(len(found) - 1, int(q * len(found)))] if found else float("nan")
