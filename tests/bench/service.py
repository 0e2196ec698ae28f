#!/usr/bin/env python3
"""The daemon beside a bare libmicrohttpd server that swallows the same bodies and answers as many bytes
(tests/bench/echo.c): one core for the server, one for the load (wrk), turn by turn, medians and ratio.
"""
import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build"))
# name: H, L, D of the request (JSON numbers), and the ratio ours / echo that must be reached
CASES = {"H1 L8 D16": ((1, 8, 16), 0.18), "H8 L128 D64": ((8, 128, 64), None)}


def body_of(H, L, D):
    """query, key, value as nested JSON arrays of float32 texts."""
    numbers = iter(range(1, 10**9))

    def tensor():
        return [[[[round(((next(numbers) * 2654435761) % 2**32) / 2**31 - 1, 7) for _ in range(D)]
                  for _ in range(L)] for _ in range(H)]]

    return json.dumps({"query": tensor(), "key": tensor(), "value": tensor()}, separators=(",", ":"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server pinned to one core; it serves once it has printed a line."""

    def __init__(self, program, port, core, *arguments):
        self.url = f"http://127.0.0.1:{port}"
        command = ["taskset", "-c", str(core), str(BUILD / program), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if not self.process.stdout.readline():
            sys.exit(f"{program} did not start")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def answer_size(url, body):
    request = urllib.request.Request(url + "/v1/attention", body.encode())
    with urllib.request.urlopen(request) as reply:
        return len(reply.read())


def load(url, script, core, seconds, connections):
    done = subprocess.run(["taskset", "-c", str(core), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s",
                           "-s", script, url + "/v1/attention"], capture_output=True, text=True)
    rate = re.search(r"Requests/sec:\s*([\d.]+)", done.stdout)
    errors = re.search(r"(Non-2xx.*|Socket errors.*)", done.stdout)
    if not rate or (errors and "Non-2xx" in errors.group(0)):
        sys.exit(f"wrk: {done.stdout}{done.stderr}")
    return float(rate.group(1))


def measure(name, dims, options, cores):
    body = body_of(*dims)
    with tempfile.NamedTemporaryFile("w", suffix=".lua", delete=False) as script:
        script.write(f"wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\nwrk.body = '{body}'\n")
    port = free_port()
    daemon = Server("attnd", port, cores[0], "--port", port, "--ops-listen", "", "--workers", 1, "--log", "off")
    size = answer_size(daemon.url, body)
    port = free_port()
    echo = Server("tests/bench/echo", port, cores[0], port, size)
    try:
        turns = [(load(echo.url, script.name, cores[1], options.seconds, options.connections),
                  load(daemon.url, script.name, cores[1], options.seconds, options.connections))
                 for _ in range(options.turns)]
    finally:
        daemon.stop()
        echo.stop()
        os.unlink(script.name)
    bare, mine = (statistics.median(side) for side in zip(*turns))
    print(f"{name:14} {len(body):9} {size:9} {bare:11.0f} {mine:11.0f} {mine / bare:7.3f}x", end="  ")
    return mine / bare


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--connections", type=int, default=32)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("two cores are needed: one for the server, one for the load")
    failed = 0
    print(f"{'request':14} {'bytes in':>9} {'bytes out':>9} {'echo /s':>11} {'attnd /s':>11} {'ratio':>8}  must")
    for name, (dims, must) in CASES.items():
        ratio = measure(name, dims, options, cores)
        bad = must is not None and ratio < must
        failed += bad
        print(f"{must or ''}{'  MISSED' if bad else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
