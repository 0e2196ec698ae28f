#!/usr/bin/env python3
"""The daemon beside a bare libmicrohttpd server that swallows the same bodies and answers as many bytes
(tests/bench/echo.c): one core for the server, one for the load (wrk), turn by turn, medians and ratio.
"""
import argparse
import json
import os
import re
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


class Server:
    """A server pinned to one core; `ready` is found in its first line, which holds http://host:port."""

    def __init__(self, command, core):
        self.process = subprocess.Popen(["taskset", "-c", str(core), *command], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://[\w.:\[\]]+", line)
        if not found:
            sys.exit(f"{command[0]} did not start: {line!r}")
        self.url = found.group(0)

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
    daemon = Server([str(BUILD / "attnd"), "--port", "0", "--ops-listen", "", "--workers", "1", "--log", "off"], cores[0])
    size = answer_size(daemon.url, body)
    echo = Server([str(BUILD / "tests/bench/echo"), str(size)], cores[0])
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
