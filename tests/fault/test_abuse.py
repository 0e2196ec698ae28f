"""Foreign tools that attack: slowhttptest (connections that starve others), varnishtest (byte-exact scripts in
wire/), boofuzz (the request line). ATTND_FAULT_FULL=1 runs them at full size (`make check-faults`)."""
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

import faults
from serving import service

FULL = os.environ.get("ATTND_FAULT_FULL") == "1"
HERE = Path(__file__).parent
BOOFUZZ = faults.ROOT / "build/boofuzz/bin/python"


@pytest.mark.parametrize("script", sorted(HERE.glob("wire/*.vtc")), ids=lambda path: path.stem)
def test_wire(start, script):
    daemon = start("--ops-listen", "", "--log", "off")
    strict = service.STRICT_LIBRARY
    macros = {"attnd": f"{daemon.host} {daemon.port}", "refusal_type": "<undef>" if strict else "application/problem+json",
              "unknown_coding": 400 if strict else 501, "extension": ";x=y" if service.READS_EXTENSIONS else ""}
    done = subprocess.run(["varnishtest", "-t", "60", *(f"-D{name}={value}" for name, value in macros.items()), str(script)],
                          text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert daemon.get("/healthz").status_code == 200
    faults.note("P10 wire", script=script.name, clients=script.read_text().count("\nclient c"))


def test_request_line(start):
    assert BOOFUZZ.exists(), "tests/run makes its environment: environment build/boofuzz tests/fault/requirements.txt"
    daemon = start("--ops-listen", "", "--log", "off")
    begin = time.monotonic()
    done = subprocess.run([BOOFUZZ, HERE / "fuzz_request_line.py", str(daemon.port), *([] if FULL else ["300"])], text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert daemon.get("/healthz").status_code == 200
    assert faults.eventually(lambda: daemon.metric("attnd_requests_in_flight") == 1)
    faults.note("P10 request line", boofuzz=done.stdout.splitlines()[-1], seconds=round(time.monotonic() - begin))


class Bystanders:
    """Clients that ask one small request after the other, each on a connection of its own (bystanders.py, a process)."""

    def __init__(self, daemon, seconds):
        self.process = subprocess.Popen([sys.executable, str(HERE / "bystanders.py"), str(daemon.port), str(seconds)],
                                        env={**os.environ, "PYTHONPATH": str(HERE.parent)}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def are_asking(self):
        return self.process.poll() is None

    def finish(self):
        """What they saw until now: {"asked", "p50_ms", "p99_ms", "faults"}."""
        found = json.loads(self.process.communicate()[0])
        assert self.process.returncode == 0 and found["asked"], found
        return found


MODES = {  # slowhttptest's arguments: headers, bodies and readers that trickle
    "headers": ["-H", "-i", "1", "-x", "24"],
    "bodies": ["-B", "-i", "1", "-x", "24", "-s", "1000000", "-f", "application/json"],
    "readers": ["-X", "-w", "10", "-y", "20", "-n", "5", "-z", "32", "-k", "10"]}


def attack(daemon, mode, count, seconds):
    path = "/openapi.json" if mode == "readers" else "/v1/attention"
    command = ["slowhttptest", "-c", str(count), "-r", str(count // 2), "-l", str(seconds), "-u", daemon.url + path, "-p", "3",
               *MODES[mode]]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard)))


def attacked(victim, daemon, mode, count, seconds):
    """What the bystanders of a daemon see while a victim, it or another one beside it, is attacked, and how many
    connections the victim had: {"open_most", "open_now"}. Whoever the victim is, the same processes share the processors:
    the attacker takes up to one, and a look at the metrics, from here, some milliseconds of another."""
    attacker = attack(victim, mode, count, 2 * seconds)
    bystanders = Bystanders(daemon, seconds)
    open_most, open_now = 0, count
    while bystanders.are_asking() and (FULL or open_most < count / 2 or open_now >= count / 10):
        open_now = victim.metric("attnd_connections")
        open_most = max(open_most, open_now)
        time.sleep(0.5)
    found = bystanders.finish()
    attacker.terminate()
    out = attacker.communicate(timeout=service.PATIENCE)[0]
    assert not found["faults"], found["faults"]
    assert open_most >= count / 2, f"the attack did not happen: {out[-1500:]}"
    return {**found, "open_most": open_most, "open_now": open_now}


@pytest.mark.parametrize("mode", MODES)
def test_slow_clients(start, mode):
    """P9: they do not slow the others down, and are cut off at the deadline. The short form ends once they are."""
    count, seconds, deadline_ms, idle_s = (1000, 30, 10000, 10) if FULL else (200, service.PATIENCE, 4000, 4)
    seconds *= 2 if FULL and mode == "readers" else 1  # first all is sent that the kernel takes, then they are idle
    settings = ("--ops-listen", "127.0.0.1:0", "--log", "off", "--header-timeout-ms", str(deadline_ms),
                "--min-rate-bytes", "65536", "--idle-timeout-s", str(idle_s))
    daemon, neighbour = start(*settings), start(*settings)
    for one in (daemon, neighbour):
        one.session.headers["Connection"] = "close"  # a kept one may be idle for too long where the machine is busy
    before = attacked(neighbour, daemon, mode, count, seconds)
    during = attacked(daemon, daemon, mode, count, seconds)
    assert during["open_now"] < count / 10, "slow connections were still open at the end of the attack"
    cut = daemon.metric("attnd_closed_slow_total")
    if mode != "readers":  # what fits the kernel's buffers is sent; such a connection is idle then
        assert cut >= count / 2, f"{cut} of {count} were cut off"
    faults.note("P9 slow clients", mode=mode, connections=count, open_at_once=int(during["open_most"]), cut_off=int(cut),
                asked=during["asked"], **{k: f"{before[k]:.1f} -> {during[k]:.1f}" for k in ("p50_ms", "p99_ms")})
    most_ms = before["p99_ms"] * 1.5 + 5 if FULL else before["p99_ms"] * 10 + 1000
    assert during["p99_ms"] <= most_ms, (before, during)
