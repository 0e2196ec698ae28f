#!/usr/bin/env python3
"""The daemon beside FastAPI + PyTorch + orjson (service_peer.py) and a bare libmicrohttpd server that swallows the same
bodies and answers as many bytes (echo.c): one core for the server, one for the load (wrk), turn by turn, medians and
ratios; "best" is the best turn of each side, as other guests change a machine's speed within seconds. Then where the
time of one request goes. Run by `make bench-service`; --json FILE keeps the numbers.
"""
import argparse
import json
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import paired

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
NAMES = ("query", "key", "value")
SAFETENSORS = "application/vnd.safetensors"


@dataclass
class Case:
    name: str
    dims: tuple  # H, L, D
    connections: int
    beside: str  # "echo" or "peer": what the JSON rate is compared with
    must: float
    goal: float
    binary_must: float = None  # of the binary rate, beside the peer's JSON


CASES = [Case("H1 L8 D16", (1, 8, 16), 32, "echo", 0.36, 0.6),
         Case("H8 L128 D64", (8, 128, 64), 8, "peer", 4, 8, 40),
         Case("H8 L512 D64", (8, 512, 64), 2, "peer", 4, 6)]


@dataclass
class Form:
    """One way to write a request."""
    body: bytes
    headers: dict
    path: str = "/v1/attention"


@dataclass
class Measured:
    rate: list = field(default_factory=list)
    cpu_ms: list = field(default_factory=list)  # of the server, a request

    def medians(self):
        return statistics.median(self.rate), statistics.median(self.cpu_ms)

    def best(self):
        return max(self.rate)


def forms(dims):
    H, L, D = dims
    tensors = {name: np.random.default_rng(i).standard_normal((1, H, L, D)).astype(np.float32)
               for i, name in enumerate(NAMES)}
    wanted = ["output", "weights"]
    lists = ",".join(f'"{n}":' + re.sub(r"\s", "", nested(t)) for n, t in tensors.items())
    text = "{" + lists + ',"return":' + json.dumps(wanted) + "}"
    blobs = b"".join(t.tobytes() for t in tensors.values())
    header, at = {"__metadata__": {"request": json.dumps({"return": wanted})}}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": t.shape, "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    infer = json.dumps({
        "inputs": [{"name": n, "shape": t.shape, "datatype": "FP32", "parameters": {"binary_data_size": t.nbytes}}
                   for n, t in tensors.items()],
        "outputs": [{"name": n, "parameters": {"binary_data": True}} for n in wanted]}).encode()
    return {
        "JSON": Form(text.encode(), {"Content-Type": "application/json"}),
        "safetensors": Form(struct.pack("<Q", len(head)) + head + blobs,
                            {"Content-Type": SAFETENSORS, "Accept": SAFETENSORS}),
        "Open Inference": Form(infer + blobs, {"Inference-Header-Content-Length": str(len(infer))},
                               "/v2/models/scaled_dot_product_attention/infer"),
    }


def nested(tensor):
    """The shortest text of each float32, as orjson and attnd write it."""
    if tensor.ndim == 1:
        return "[" + ",".join(np.format_float_positional(x, unique=True, trim="0") for x in tensor) + "]"
    return "[" + ",".join(map(nested, tensor)) + "]"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server pinned to one core; it serves once it has printed a line."""

    def __init__(self, core, *command):
        self.port = free_port()
        command = ["taskset", "-c", core, *(self.port if word is ... else word for word in command)]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)
        if not self.process.stdout.readline():
            sys.exit(f"{command} did not start")

    def cpu(self):
        """Seconds of processor time, all threads."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) * 1e-9

    def rest(self):
        """What wrk has asked for and left is still computed, on the core that the next side is measured on."""
        before, now = 0, self.cpu()
        while now - before > 0.01:  # a tenth of the time
            time.sleep(0.1)
            before, now = now, self.cpu()

    def ask(self, form):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{form.path}", form.body, form.headers)
        with urllib.request.urlopen(request) as reply:
            return len(reply.read()), reply.headers.get("Server-Timing", "")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def attnd(core, build=BUILD):
    return Server(core, build / "attnd", "--port", ..., "--ops-listen", "", "--workers", 1, "--log", "off")


def echo(core, size):
    return Server(core, BUILD / "tests/bench/echo", ..., size)


def peer(core):
    return Server(core, sys.executable, ROOT / "tests/bench/service_peer.py", ...)


def run_wrk(server, form, core, seconds, connections):
    """What wrk printed, and the server's processor seconds meanwhile."""
    with tempfile.NamedTemporaryFile(suffix=".body") as body, tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        body.write(form.body)
        body.flush()
        script.write("wrk.method = 'POST'\n" + "".join(f"wrk.headers['{k}'] = '{v}'\n" for k, v in form.headers.items())
                     + f"local file = io.open('{body.name}', 'rb')\nwrk.body = file:read('*a')\nfile:close()\n")
        script.flush()
        before = server.cpu()
        done = subprocess.run(["taskset", "-c", str(core), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s",
                               "--timeout", "120s", "-s", script.name, f"http://127.0.0.1:{server.port}{form.path}"],
                              capture_output=True, text=True)
        return done.stdout + done.stderr, server.cpu() - before


def load(server, form, core, seconds, connections, into):
    """One turn; a server that answers less than once a second for each connection gets more time."""
    while True:
        said, spent = run_wrk(server, form, core, seconds, connections)
        server.rest()
        count = re.search(r"(\d+) requests in", said)
        if not count or "Non-2xx" in said or seconds > 120:
            sys.exit(f"wrk: {said}")
        if int(count.group(1)) >= connections:
            break
        seconds *= 3
    into.rate.append(float(re.search(r"Requests/sec:\s*([\d.]+)", said).group(1)))
    into.cpu_ms.append(spent / int(count.group(1)) * 1e3)


def measure(case, options, cores):
    ways = forms(case.dims)
    daemon, other = attnd(cores[0]), peer(cores[0])
    sizes = {name: daemon.ask(form)[0] for name, form in ways.items()}
    bare = echo(cores[0], sizes["JSON"])
    sides = {"echo": (bare, ways["JSON"]), "peer": (other, ways["JSON"])}
    sides.update({name: (daemon, form) for name, form in ways.items()})
    results = {name: Measured() for name in sides}
    try:
        other.ask(ways["JSON"])
        for _ in range(options.turns):
            for name, (server, form) in sides.items():
                load(server, form, cores[1], options.seconds, case.connections, results[name])
    finally:
        for server in (daemon, other, bare):
            server.stop()
    return [row(case, name, results, len(sides[name][1].body), sizes.get(name, sizes["JSON"])) for name in sides]


def row(case, name, results, bytes_in, bytes_out):
    rate, cpu_ms = results[name].medians()
    made = {"request": case.name, "side": name, "bytes_in": bytes_in, "bytes_out": bytes_out, "rate": rate,
            "cpu_ms": cpu_ms, "cpu_beside_peer": results["peer"].medians()[1] / cpu_ms,
            "beside_peer": rate / results["peer"].medians()[0],
            "beside_echo": rate / results["echo"].medians()[0], "must": None, "goal": None,
            "best_beside_peer": results[name].best() / results["peer"].best(),
            "best_beside_echo": results[name].best() / results["echo"].best()}
    if name == "JSON":
        judge(made, case.beside, case.must, case.goal)
    elif name in ("safetensors", "Open Inference") and case.binary_must:
        judge(made, "peer", case.binary_must, None)
    return made


def judge(made, beside, must, goal):
    made.update(must=must, goal=goal, met=made[f"beside_{beside}"] >= must,
                met_at_best=made[f"best_beside_{beside}"] >= must)


def account(case, turns, cores):
    """Milliseconds of one request after the other, by stage; `http` is the processor time of the bare server."""
    rows = []
    for name, form in forms(case.dims).items():
        daemon = attnd(cores[0])
        size, _ = daemon.ask(form)
        bare = echo(cores[0], size)
        stages = {stage: [] for stage in ("queue", "decode", "compute", "encode")}
        spent = {}
        try:
            for server in (daemon, bare):
                server.ask(form)
                before = server.cpu()
                for _ in range(turns):
                    _, timing = server.ask(form)
                    for stage, ms in re.findall(r"(\w+);dur=([\d.]+)", timing):
                        stages[stage].append(float(ms))
                spent[server] = (server.cpu() - before) / turns * 1e3
        finally:
            daemon.stop()
            bare.stop()
        rows.append({"request": case.name, "side": name, "cpu_ms": spent[daemon], "http_ms": spent[bare],
                     **{f"{stage}_ms": statistics.median(times) for stage, times in stages.items()}})
    return rows


def show(rows, columns):
    lines = [[title for title, _ in columns]] + [[text(r) for _, text in columns] for r in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        print("  ".join(cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))))
    print(flush=True)


def show_rates(rows):
    def verdict(r):
        if r["must"] is None:
            return ""
        missed = "" if r["met"] else "  MISSED, at best met" if r["met_at_best"] else "  MISSED"
        return f"{r['must']:g}x" + (f", goal {r['goal']:g}x" if r["goal"] else "") + missed
    show(rows, [("request", lambda r: r["request"]), ("side", lambda r: r["side"]),
                ("bytes in", lambda r: str(r["bytes_in"])), ("bytes out", lambda r: str(r["bytes_out"])),
                ("requests/s", lambda r: f"{r['rate']:.1f}" if r["rate"] < 1000 else f"{r['rate']:.0f}"),
                ("CPU ms", lambda r: f"{r['cpu_ms']:.3f}"), ("/ peer", lambda r: f"{r['beside_peer']:.2f}x"),
                ("by CPU", lambda r: f"{r['cpu_beside_peer']:.2f}x"),
                ("/ echo", lambda r: f"{r['beside_echo']:.3f}x"), ("best / peer", lambda r: f"{r['best_beside_peer']:.2f}x"),
                ("/ echo", lambda r: f"{r['best_beside_echo']:.3f}x"), ("must", verdict)])


def show_account(rows):
    print("One request after the other, milliseconds: stages by Server-Timing, processor time in all, and that of a bare\n"
          "libmicrohttpd server for the same bytes.")
    names = ("queue", "decode", "compute", "encode", "cpu", "http")
    titles = {"cpu": "CPU in all", "http": "bare HTTP"}
    show(rows, [("request", lambda r: r["request"]), ("side", lambda r: r["side"])]
         + [(titles.get(n, n), lambda r, n=n: f"{r[n + '_ms']:.3f}") for n in names])


def beside(options, cores):
    """Milliseconds of a request on one core, of ours and of another build."""
    other = paired.build_of(options.against, "attnd")
    rows = []
    for case in CASES:
        if options.case and case.name not in options.case:
            continue
        daemons = [attnd(cores[0], build) for build in (BUILD, other)]
        for name, form in forms(case.dims).items():
            def turn(daemon, form=form, case=case):
                into = Measured()
                load(daemon, form, cores[1], options.seconds, case.connections, into)
                return 1e3 / into.rate[0]
            for daemon in daemons:
                turn(daemon)
            rows.append(paired.judge(f"{case.name} {name}", paired.turns(options.turns, *(lambda d=d: turn(d) for d in daemons))))
        for daemon in daemons:
            daemon.stop()
    return paired.show(rows, "ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--case", action="append", help="only these, by name")
    parser.add_argument("--account-turns", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write the numbers here, too")
    parser.add_argument("--against", type=Path, help="beside this build of the daemon instead: a checkout or its build folder")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("two cores are needed: one for the server, one for the load")
    if options.against:
        return beside(options, cores)
    rows, stages = [], []
    for case in CASES:
        if not options.case or case.name in options.case:
            made = measure(case, options, cores)
            show_rates(made)
            rows += made
    if not options.case or CASES[1].name in options.case:
        stages = account(CASES[1], options.account_turns, cores)
        show_account(stages)
    if options.json:
        options.json.write_text(json.dumps({"rates": rows, "stages": stages}, indent=1) + "\n")
    return 1 if any(r["must"] and not r["met"] for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
