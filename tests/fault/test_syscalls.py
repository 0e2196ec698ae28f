"""Calls of the kernel that fail (strace --inject): the service survives each, answers whoever the failure did
not hit, keeps no descriptor and does not spin; and a start-up that cannot have what it needs says so in one
line. EAGAIN is injected only where the kernel could say it: between two edges of epoll it never does."""
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import faults
from faults import get, post
from serving import service

LARGE = {"query": {"shape": [1, 1, 400, 16], "random": "normal", "seed": 1}, "return": ["weights"]}
TINY = {"query": [[1, 0], [0, 1]]}
BINARY = post(LARGE, "Accept: application/vnd.safetensors")  # in pieces: writev or sendmsg
ASKED = [get("/healthz"), post(TINY), post(LARGE), BINARY]


def traced(injections, log):
    """Runs a program, and fails those of its calls; -D keeps the program our child."""
    names = ",".join(i.split(":")[0] for i in injections)
    return ["strace", "-D", "-f", "-q", "-o", log, "-e", f"trace={names}", *(x for i in injections for x in ("-e", f"inject={i}"))]


class Traced(service.Daemon):
    def __init__(self, injections, *args):
        self.file = tempfile.NamedTemporaryFile(prefix="attnd-strace-")
        self.prefix = traced(injections, self.file.name)
        super().__init__("--ops-listen", "", "--log", "off", "--workers", "2", *args)

    def injected(self):
        return Path(self.file.name).read_text().count("(INJECTED)")


def ask(daemon, data):
    with daemon.connect() as sock:
        return faults.exchange(sock, data)


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


CASES = [  # injection, may a client be left without an answer?
    ("accept4:error=EMFILE:when=1+2", False), ("accept4:error=ENFILE:when=2+3", False),
    ("accept4:error=ECONNABORTED:when=1+2", False), ("accept4:error=EINTR:when=1+2", False),
    ("accept4:error=ENOBUFS:when=1+3", False), ("accept4:error=EPROTO:when=1+3", False),
    ("epoll_wait:error=EINTR:when=2+2", False),
    ("recvfrom:error=EINTR:when=1+2", False), ("recvfrom:error=ECONNRESET:when=3+4", True),
    ("recvfrom:error=ETIMEDOUT:when=2+3", True), ("sendto,sendmsg,writev:error=EINTR:when=1+2", False),
    ("sendto,sendmsg,writev:error=EPIPE:when=2+3", True), ("sendto,sendmsg,writev:error=ECONNRESET:when=3+4", True),
    ("sendto,sendmsg,writev:error=ENOBUFS:when=2+3", True), ("getsockopt,ioctl:error=EINVAL:when=1+1", False),
    ("setsockopt:error=ENOBUFS:when=3+1", False)]


@pytest.mark.parametrize("injection, loses", CASES, ids=[case[0] for case in CASES])
def test_call_fails(injection, loses):
    daemon = Traced([injection])
    try:
        wanted, answered, lost = {}, 0, 0
        for i in range(24):
            data = ASKED[i % len(ASKED)]
            try:
                answer = ask(daemon, data)
            except AssertionError as cut:  # only when the failure may hit a client half-way
                assert loses and "cut off" in str(cut), cut
                answer = None
            if answer is None:
                assert loses, f"{data[:40]!r} was not answered"
                lost += 1
                continue
            answered += 1
            status, _, body = answer
            assert status == 200
            assert wanted.setdefault(data, body) == body, "another answer than before"
        assert answered >= 8
        assert daemon.process.poll() is None
        before = cpu_seconds(daemon.pid)
        time.sleep(0.4)
        assert cpu_seconds(daemon.pid) - before < 0.2, "it spins"
        assert len(os.listdir(f"/proc/{daemon.pid}/fd")) < 16, "descriptors are left over"
        assert daemon.injected() > 0, "nothing was injected"
        faults.note("P11 syscalls", call=injection, asked=24, answered=answered, lost=lost, injected=daemon.injected())
    finally:
        assert daemon.stop() == 0


@pytest.mark.parametrize("refused", [1, 2, 5])
def test_connection_that_cannot_be_watched(refused):
    """epoll has no room for the n-th new connection (ENOSPC): it is closed, the others are served."""
    daemon = faults.Fragile("--ops-listen", "", "--log", "off", "--workers", "2")
    try:
        daemon.control["refuse"] = refused
        found = [ask(daemon, ASKED[0]) for _ in range(6)]
        assert [i + 1 for i, answer in enumerate(found) if answer is None] == [refused]
        assert all(answer[0] == 200 for answer in found if answer)
        assert daemon.control["added"] >= 6 and daemon.process.poll() is None
    finally:
        assert daemon.stop() == 0


@pytest.mark.parametrize("call", ["socket", "bind", "listen", "epoll_create1", "eventfd2,pipe2", "clone3,clone"])
def test_start_needs(call):
    """The n-th such call fails: exit code 3 or 5 and one line, or the service comes up as if nothing had been."""
    refused = 0
    for n in range(1, 12):
        log = tempfile.NamedTemporaryFile(prefix="attnd-strace-")
        error = "EAGAIN" if "clone" in call else "EMFILE" if "bind" not in call else "EACCES"
        command = [*traced([f"{call}:error={error}:when={n}"], log.name), service.BINARY, "--port", "0", "--ops-listen",
                   "127.0.0.1:0", "--log", "off", "--workers", "2", "--requests-running", "2"]
        process = subprocess.Popen(command, env=service.clean_environment(), text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        ready = process.stdout.readline()
        if ready:
            process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=service.PATIENCE)
        if ready:
            assert process.returncode == 0 and not err, (n, err)
        else:
            refused += 1
            assert process.returncode in (3, 5), (n, process.returncode, err)
            assert err.startswith("attnd: cannot ") and err.count("\n") == 1, (n, err)
        if not Path(log.name).read_text().count("(INJECTED)"):
            break
    assert refused, "nothing was refused"
    faults.note("P11 start", call=call, error=error, cases=n - 1, refused=refused)


def test_log_that_cannot_be_written():
    """A full disk behind standard error (/dev/full says ENOSPC to every write)."""
    with open("/dev/full", "w") as full:
        process = subprocess.Popen([service.BINARY, "--port", "0", "--ops-listen", ""], text=True, stdout=subprocess.PIPE,
                                   stderr=full, env=service.clean_environment())
        url = service.READY.match(process.stdout.readline().rstrip("\n")).group(2)
        port = int(url.rsplit(":", 1)[1])
        for _ in range(50):
            with service.socket.create_connection(("127.0.0.1", port), service.PATIENCE) as sock:
                assert faults.exchange(sock, post(TINY))[0] == 200
        time.sleep(0.3)
        before = cpu_seconds(process.pid)
        time.sleep(0.4)
        assert cpu_seconds(process.pid) - before < 0.2, "it spins"
        process.terminate()
        assert process.wait(service.PATIENCE) == 0
