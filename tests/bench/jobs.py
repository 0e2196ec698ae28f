#!/usr/bin/env python3
"""Requests beside training: H8 L128 D64 at 50 a second, from the time they were due to the last byte of their answer, on a
daemon that does nothing else and while two jobs train; run by run in turns, the median of the runs counts. Ends with 1
when the 99th percentile grows by more than the bound, or when the jobs' memory passes what was reserved. Run by `make
bench-jobs`.
"""
import argparse
import http.client
import json
import math
import os
import random
import statistics
import struct
import subprocess
import sys
import threading
import time
from array import array
from pathlib import Path
from queue import Queue
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
RATE, CLIENTS, BOUND_MS = 50, 8, 5.0
SHAPE = [1, 8, 128, 64]
KIND = "application/vnd.safetensors"
JOB = {"kind": "train", "num_pairs": 5000, "num_validation_pairs": 200, "num_steps": 100000, "evaluate_every": 500, "batch_tokens": 1024, "num_scored_pairs": 0}


class Daemon:
    def __init__(self):
        self.process = subprocess.Popen([BUILD / "attnd", "--port", "0", "--ops-listen", "", "--log", "off"],
                                        stdout=subprocess.PIPE, text=True)
        self.netloc = urlsplit(self.process.stdout.readline().split()[4]).netloc

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.netloc, timeout=60)
        connection.request(method, path, body)
        reply = connection.getresponse()
        data = reply.read()
        connection.close()
        assert reply.status < 300, data
        return json.loads(data or b"null")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def body():
    """Query, key and value as safetensors: reading them costs next to nothing."""
    noise, size = random.Random(1), 4 * math.prod(SHAPE)
    header = {name: {"dtype": "F32", "shape": SHAPE, "data_offsets": [i * size, (i + 1) * size]}
              for i, name in enumerate(("query", "key", "value"))}
    text = json.dumps(header | {"__metadata__": {"request": '{"return":["output"]}'}}).encode()
    return struct.pack("<Q", len(text)) + text + array("f", (noise.gauss(0, 1) for _ in range(3 * size // 4))).tobytes()


def client(daemon, due, took):
    connection = http.client.HTTPConnection(daemon.netloc, timeout=60)
    while (when := due.get()) is not None:
        time.sleep(max(0, when - time.monotonic()))
        connection.request("POST", "/v1/attention", BODY, {"Content-Type": KIND, "Accept": KIND})
        reply = connection.getresponse()
        assert reply.read() and reply.status == 200
        took.append(1e3 * (time.monotonic() - when))
    connection.close()


BODY = body()


def measure(daemon, seconds):
    """Milliseconds of each request, sorted."""
    due, took, start = Queue(), [], time.monotonic() + 0.1
    threads = [threading.Thread(target=client, args=(daemon, due, took)) for _ in range(CLIENTS)]
    for i in range(int(RATE * seconds)):
        due.put(start + i / RATE)
    for thread in threads:
        due.put(None)
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(took)


def percentile(took, share):
    return took[min(len(took) - 1, int(share * len(took)))]


def train(daemon):
    """Two jobs, once both have made steps."""
    jobs = [daemon.ask("POST", "/v1/jobs", json.dumps(JOB))["id"] for _ in range(2)]
    while not all(daemon.ask("GET", f"/v1/jobs/{job}").get("step", 0) > 0 for job in jobs):
        time.sleep(0.1)
    return jobs


def stop(daemon, jobs):
    """Their steps, and whether they kept to their memory."""
    ended = []
    for job in jobs:
        daemon.ask("POST", f"/v1/jobs/{job}/cancel")
        while (now := daemon.ask("GET", f"/v1/jobs/{job}"))["state"] == "running":
            time.sleep(0.05)
        ended.append(now)
        daemon.ask("DELETE", f"/v1/jobs/{job}")
    return sum(j["step"] for j in ended), all(j["peak_bytes"] <= j["reserved_bytes"] for j in ended)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    daemon, idle, beside, within = Daemon(), [], [], True
    measure(daemon, 2)
    for run in range(options.runs):
        alone = measure(daemon, options.seconds)
        jobs = train(daemon)
        busy = measure(daemon, options.seconds)
        steps, kept = stop(daemon, jobs)
        within = within and kept
        idle.append(percentile(alone, 0.99))
        beside.append(percentile(busy, 0.99))
        print(f"run {run + 1}: idle p50 {percentile(alone, 0.5):.2f} p99 {idle[-1]:.2f} ms; beside two jobs p50 "
              f"{percentile(busy, 0.5):.2f} p99 {beside[-1]:.2f} ms, {steps} steps of training meanwhile", flush=True)
    daemon.stop()
    more = statistics.median(beside) - statistics.median(idle)
    print(f"median p99: idle {statistics.median(idle):.2f} ms, beside two jobs {statistics.median(beside):.2f} ms: {more:+.2f} ms "
          f"(bound {BOUND_MS:+.0f}); memory {'within' if within else 'beyond'} what was reserved")
    sys.exit(more > BOUND_MS or not within)


if __name__ == "__main__":
    main()
