"""A daemon whose allocations and watched sockets fail on command (tests/fault/failing.c), and what it may answer then."""
import json
import mmap
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from serving import service

ROOT = Path(__file__).resolve().parents[2]
FIELDS = ("count", "first", "last", "failed", "live", "added", "refuse")
FOREVER = 2**62


def build():
    """The preloaded library, compiled when its source is newer."""
    source, library = ROOT / "tests/fault/failing.c", ROOT / "build/tests/fault/failing.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        library.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-fPIC", "-fno-builtin", "-Wall", "-Wextra", "-Werror",
                        "-shared", str(source), "-o", str(library), "-ldl"], check=True)
    return str(library)


class Control:
    """The page that is shared with the preloaded library."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile(prefix="attnd-fault-")
        self.file.write(bytes(8 * len(FIELDS)))
        self.file.flush()
        self.page = mmap.mmap(self.file.fileno(), 8 * len(FIELDS))

    def environment(self):
        return {"LD_PRELOAD": build(), "FAULT_CONTROL": self.file.name, "ATTN_KEEP_BYTES": "0"}

    def __getitem__(self, name):
        return struct.unpack_from("q", self.page, 8 * FIELDS.index(name))[0]

    def __setitem__(self, name, value):
        struct.pack_into("q", self.page, 8 * FIELDS.index(name), value)

    def arm(self, n, times=1):
        """The n-th allocation from now on fails, and `times` - 1 after it."""
        self["first"] = 0
        self["count"] = self["failed"] = 0
        self["last"] = n + times - 1
        self["first"] = n

    def disarm(self):
        """How many allocations have failed since arm()."""
        self["first"] = 0
        return self["failed"]


class Fragile(service.Daemon):
    """A daemon with such a page."""

    def __init__(self, *args, env=None):
        self.control = Control()
        super().__init__(*args, env={**self.control.environment(), **(env or {})})


def exchange(sock, data):
    """(status, headers, body) of one answer; None when the connection closed before a byte of it."""
    try:
        sock.sendall(data)
        received = b""
        while b"\r\n\r\n" not in received:
            chunk = sock.recv(65536)
            if not chunk:
                assert not received, f"cut off: {received[:200]!r}"
                return None
            received += chunk
        head, body = received.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
        length = int(headers["content-length"])
        while len(body) < length:
            chunk = sock.recv(65536)
            assert chunk, f"cut off after {len(body)} of {length} bytes"
            body += chunk
        assert len(body) == length, "bytes behind the answer"
        return int(lines[0].split(" ", 2)[1]), headers, body
    except (ConnectionResetError, BrokenPipeError):
        return None


def post(body, *headers, path="/v1/attention"):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path, *headers):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers]).encode() + b"\r\n\r\n"


def plainly_refused(answer):
    """A 503 that a client can act upon."""
    status, headers, body = answer
    if status != 503 or int(headers.get("retry-after", 0)) < 1:
        return False
    problem = json.loads(body)
    return problem["status"] == 503 and problem["code"] == "memory_budget" and bool(problem["detail"])


def eventually(condition, patience=service.PATIENCE):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def note(name, **figures):
    """A line of figures for tests/fault/RESULTS.md, in build/test/faults.txt."""
    path = ROOT / "build/test/faults.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(f"{name}: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in figures.items()) + "\n")
