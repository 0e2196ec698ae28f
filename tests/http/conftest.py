"""The daemon under test: started on a free port, stopped with SIGTERM, its exit code checked.

ATTND names the binary (default build/attnd), so that sanitizer builds run the same tests.
"""
import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("ATTND", str(ROOT / "build" / "attnd"))
READY = re.compile(r"^attnd (\S+) listening on (\S+) \(kernels (\w+), (\d+) workers?(?:, operations on (\S+))?\)$")
PATIENCE = float(os.environ.get("ATTN_TEST_PATIENCE", "60"))  # seconds; sanitizers need more
# With more patience, the requests of a daemon have a deadline as long.
SLOW = {"ATTND_REQUEST_TIMEOUT_MS": str(int(1000 * PATIENCE))} if PATIENCE > 60 else {}


def library_version():
    """The version of the libmicrohttpd that the daemon loads."""
    library = ctypes.CDLL("libmicrohttpd.so.12")
    library.MHD_get_version.restype = ctypes.c_char_p
    return tuple(int(part) for part in library.MHD_get_version().decode().split("."))


# From 1.0 on libmicrohttpd checks the framing of requests itself, and answers what it refuses with a page of its own.
STRICT_LIBRARY = library_version() >= (1, 0)
# Version 1.0.1 takes the LF behind a chunk extension for data, and then misses the end of the chunk.
READS_EXTENSIONS = not (1, 0) <= library_version() <= (1, 0, 1)


def clean_environment(extra=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("ATTND_")}
    env.update(extra or {})
    return env


def write_keys(folder, *lines):
    """A keys_file with these lines, which only its owner reads; its path."""
    keys = folder / "keys"
    keys.write_text("".join(f"{line}\n" for line in lines))
    keys.chmod(0o600)
    return str(keys)


def run_attnd(*args, env=None, cwd=None, **kwargs):
    """One run of the binary that ends by itself."""
    return subprocess.run([BINARY, *args], env=clean_environment(env), cwd=cwd, text=True,
                          capture_output=True, timeout=PATIENCE, **kwargs)


class Daemon:
    """A running attnd. url, ops_url, port, version, kernels, workers; log() gives its log lines."""
    prefix = ()  # a program that runs it

    def __init__(self, *args, env=None, cwd=None):
        command = [*self.prefix, BINARY, *args]
        if not any(a in ("--port", "--listen") for a in args):
            command += ["--port", "0"]
        self.process = subprocess.Popen(command, env=clean_environment(SLOW | (env or {})), cwd=cwd, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._stderr = []
        self._reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._reader.start()
        self.ready_line = self._ready().rstrip("\n")
        match = READY.match(self.ready_line)
        assert match, f"not a ready line: {self.ready_line!r}; stderr: {''.join(self._stderr)}"
        self.version, self.url, self.kernels, workers, self.ops_url = match.groups()
        self.workers = int(workers)
        self.pid = self.process.pid
        parts = urlsplit(self.url)
        self.host, self.port = parts.hostname, parts.port
        self.session = requests.Session()
        self.session.trust_env = False

    def _ready(self):
        box = []
        reader = threading.Thread(target=lambda: box.append(self.process.stdout.readline()), daemon=True)
        reader.start()
        reader.join(PATIENCE)
        if not box or not box[0]:
            self.process.kill()
            self._reader.join(2)
            pytest.fail(f"attnd did not start: {''.join(self._stderr)}")
        return box[0]

    def _read_stderr(self):
        for line in self.process.stderr:
            self._stderr.append(line)

    def stderr(self):
        return "".join(self._stderr)

    def log(self, count=1, **where):
        """The log lines whose members equal `where`; waits until there are `count`."""
        end = time.monotonic() + PATIENCE
        while True:
            lines = []
            for line in list(self._stderr):
                if line.startswith("{"):
                    lines.append(json.loads(line))
            found = [entry for entry in lines if all(entry.get(k) == v for k, v in where.items())]
            if len(found) >= count or time.monotonic() > end:
                return found
            time.sleep(0.05)

    def get(self, path, **kwargs):
        kwargs.setdefault("timeout", PATIENCE)
        return self.session.get(self.url + path, **kwargs)

    def post(self, path, body=None, **kwargs):
        kwargs.setdefault("timeout", PATIENCE)
        if body is not None:
            kwargs["json" if isinstance(body, (dict, list)) else "data"] = body
        return self.session.post(self.url + path, **kwargs)

    def request(self, method, path, **kwargs):
        kwargs.setdefault("timeout", PATIENCE)
        return self.session.request(method, self.url + path, **kwargs)

    def connect(self, timeout=None):
        return socket.create_connection((self.host, self.port), timeout or PATIENCE)

    def raw(self, data, timeout=None, half_close=False):
        """Send bytes, return all that comes back until the server closes or `timeout` passes."""
        with self.connect(timeout) as sock:
            sock.sendall(data)
            if half_close:
                sock.shutdown(socket.SHUT_WR)
            received = b""
            try:
                while chunk := sock.recv(65536):
                    received += chunk
            except (TimeoutError, ConnectionResetError):
                pass
            return received

    def metric(self, name, **labels):
        """The value of one sample (sum over those that have all `labels`), from /metrics."""
        total, found = 0.0, False
        for line in self.get("/metrics").text.splitlines():
            match = re.match(r"^(\w+)(?:\{(.*)\})? (\S+)$", line)
            if not match or match.group(1) != name:
                continue
            has = dict(re.findall(r'(\w+)="([^"]*)"', match.group(2) or ""))
            if all(has.get(k) == v for k, v in labels.items()):
                total, found = total + float(match.group(3)), True
        return total if found else None

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self, timeout=None):
        code = self.process.wait(timeout or PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def stop(self, check=True):
        self.session.close()
        if self.process.poll() is None:
            self.signal()
        try:
            code = self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            pytest.fail("attnd did not stop on SIGTERM")
        finally:
            self.process.stdout.close()
        if check:
            assert code == 0, f"exit code {code}; stderr: {self.stderr()[-4000:]}"
        return code


@pytest.fixture(scope="module")
def daemon():
    """One daemon with default settings for the whole test module."""
    service = Daemon()
    yield service
    service.stop()


@pytest.fixture
def start():
    """start(*args, env={...}) -> a Daemon of its own, stopped (exit code 0) after the test."""
    running = []

    def launch(*args, env=None, cwd=None):
        running.append(Daemon(*args, env=env, cwd=cwd))
        return running[-1]

    yield launch
    with contextlib.ExitStack() as ending:  # stops all of them, also when one has not stopped well
        for service in running:
            if service.process.returncode is None:
                ending.callback(service.stop)
