#!/usr/bin/env python3
"""Runs of whole models: what an import costs beside cp, how long looks take, and that cells are right.

    tests/bench/runs.py [--against FOLDER] [--rounds 5] [--small]

A capture of 12 layers x 12 heads x 8,192 tokens x 64 in F16 is copied, adopted and posted. Tiles are timed by level
for stored runs of 8, 32 and 131 thousand tokens. --against names the folder of another build (its attnd answers the
same requests in turn, as far as it knows them). Every figure is a median; times are milliseconds at the client.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import requests

import paired

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 64
CELL_ERROR = 4e-6  # of the row's largest weight


class Service:
    def __init__(self, attnd, folder, *more):
        self.folder = folder
        self.process = subprocess.Popen(
            [attnd, "--port", "0", "--ops_listen", "", "--log", "off", "--request_timeout_ms", "1800000",
             "--runs_dir", folder, "--runs_bytes", "64G", *more], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().split()
        if len(line) < 5:
            sys.exit(f"{attnd} did not start")
        self.url = line[4]
        self.session = requests.Session()

    def get(self, path, **headers):
        reply = self.session.get(self.url + path, headers=headers)
        assert reply.status_code in (200, 202, 204), reply.text
        return reply

    def timed(self, path, **headers):
        start = time.perf_counter()
        self.get(path, **headers)
        return 1000 * (time.perf_counter() - start)

    def anonymous(self):
        """MB of resident memory that is not of mapped files."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1000

    def store(self, tokens, heads):
        def literal(seed):
            return {"shape": [1, heads, tokens, WIDTH], "random": "normal", "seed": seed}
        start = time.perf_counter()
        reply = self.session.post(self.url + "/v1/attention", json={
            "query": literal(1), "key": literal(2), "is_causal": True, "store": True, "return": []})
        assert reply.status_code == 200, reply.text
        return "/v1/runs/" + reply.json()["run"]["id"], time.perf_counter() - start

    def stop(self):
        self.process.terminate()
        self.process.wait()


def levels_of(description):
    return (description["sites"][0] if isinstance(description["sites"][0], dict) else description)["tiles"]["levels"]


# --- imports ---

def copied(source, folder):
    """Seconds of cp and fsync."""
    target = Path(folder) / "copy"
    start = time.perf_counter()
    shutil.copyfile(source, target)
    with open(target, "rb+") as file:
        os.fsync(file.fileno())
    span = time.perf_counter() - start
    target.unlink()
    return span


def posted(service, source):
    start = time.perf_counter()
    with open(source, "rb") as file:
        reply = service.session.post(service.url + "/v1/runs", data=file,
                                     headers={"Content-Type": "application/vnd.safetensors"})
    assert reply.status_code == 201, reply.text
    return time.perf_counter() - start, reply.json()["id"]


def adopted(service, source, **more):
    start = time.perf_counter()
    reply = service.session.post(service.url + "/v1/runs", json={"file": source.name, **more})
    assert reply.status_code == 201, reply.text
    return time.perf_counter() - start, reply.json()["id"]


def imports(service, source, rounds):
    spans = {"cp": [], "copied by name": [], "mapped by name": [], "posted": []}
    for _ in range(rounds):
        spans["cp"].append(copied(source, service.folder))
        for name, call in (("copied by name", lambda: adopted(service, source, copy=True)),
                           ("mapped by name", lambda: adopted(service, source)),
                           ("posted", lambda: posted(service, source))):
            span, one = call()
            spans[name].append(span)
            service.session.delete(service.url + "/v1/runs/" + one)
    base, good = spans.pop("cp"), True
    print(f"import of {source.stat().st_size / 1e6:.0f} MB: cp and fsync {statistics.median(base):.3f} s")
    for name, most in (("copied by name", 1.5), ("mapped by name", 1.5), ("posted", 3)):
        ratio = statistics.median(b / a for a, b in zip(base, spans[name], strict=True))
        good &= ratio <= most
        print(f"  {name}: {statistics.median(spans[name]):.3f} s, {ratio:.2f} times cp (at most {most})")
    return good


def operands(source):
    """{name: array} of the capture, mapped."""
    with open(source, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__")
    whole = np.memmap(source, np.uint8, "r", 8 + size)
    return {name: whole[slice(*t["data_offsets"])].view(np.float16).reshape(t["shape"]) for name, t in header.items()}


def cells(service, run, tensors, count):
    """Largest difference of random cells from float64, relative to the largest weight of their row."""
    worst = 0.0
    sites = len(tensors) // 2
    for _ in range(count):
        site = random.randrange(sites)
        q, k = tensors[f"sites.{site}.query"], tensors[f"sites.{site}.key"]
        head, row = random.randrange(q.shape[1]), random.randrange(q.shape[2])
        col = random.randrange(row + 1)
        scores = k[0, head, :row + 1].astype(np.float64) @ q[0, head, row].astype(np.float64) / np.sqrt(q.shape[3])
        want = np.exp(scores - scores.max())
        want /= want.sum()
        got = service.get(f"{run}/cells?site={site}&head={head}&row={row}&col={col}&fields=weight").json()["weight"]
        worst = max(worst, abs(got - want[col]) / want.max())
    return worst


def whole_model(folder, options):
    captures = Path(folder) / "captures"
    captures.mkdir(mode=0o700)
    tokens = 1024 if options.small else 8192
    source = captures / "model.safetensors"
    subprocess.run([sys.executable, ROOT / "lib/runs/examples/capture_numpy.py", "--layers", "12", "--heads", "12", "--tokens",
                    str(tokens), "--width", "64", "--dtype", "F16", source], check=True)
    source.chmod(0o600)
    runs = Path(folder) / "imported"
    runs.mkdir()
    service = Service(options.attnd, str(runs), "--captures_dir", str(captures))
    try:
        good = imports(service, source, options.rounds)
        _, one = adopted(service, source)
        run = "/v1/runs/" + one
        top = len(levels_of(service.get(run).json())) - 1
        first = service.timed(f"{run}/tiles?site=7&head=5&level=0&y=0&x=0")
        overview = service.timed(f"{run}/tiles?site=7&head=5&level={top}")
        spans = [service.timed(f"{run}/tiles?site={random.randrange(12)}&head={random.randrange(12)}&level=0"
                               f"&y={random.randrange(tokens // 256)}&x={random.randrange(tokens // 256)}")
                 for _ in range(200)]
        print(f"  first tile of level 0 {first:.1f} ms, topmost tile {overview:.0f} ms (at most 1000); 200 tiles of level 0: "
              f"p50 {statistics.median(spans):.1f}, largest {max(spans):.1f} ms (at most 100)")
        worst = cells(service, run, operands(source), 200 if options.small else 2000)
        print(f"  cells over all sites: largest difference from float64 {worst:.1e} of the row's largest weight (at most "
              f"{CELL_ERROR:.0e}); memory besides mapped pages {service.anonymous():.0f} MB (at most 200)")
        good &= overview <= 1000 and max(first, *spans) <= 100 and worst <= CELL_ERROR and service.anonymous() <= 200
        atlas = service.session.get(service.url + f"{run}/atlas?max_side=64")
        if atlas.status_code == 200:
            spans = [service.timed(f"{run}/atlas?max_side=64") for _ in range(3)]
            print(f"  atlas of 144 heads: first {atlas.elapsed.total_seconds():.1f} s, again {min(spans):.0f} ms, "
                  f"{len(atlas.content) / 1000:.0f} KB")
        rolled = service.session.get(service.url + f"{run}/rollout?rows={tokens - 1}")
        if rolled.status_code == 200:
            print(f"  rollout of one row through 12 layers: {rolled.elapsed.total_seconds():.2f} s")
        return good
    finally:
        service.stop()


# --- stored runs ---

def tiles(name, service, run, levels, looks):
    for level in range(levels):
        shape = levels_of(service.get(run).json())[level]
        spans = sorted(service.timed(f"{run}/tiles?level={level}&y={random.randrange(-(-shape[0] // 256))}"
                                     f"&x={random.randrange(-(-shape[1] // 256))}") for _ in range(looks))
        print(f"  {name}: level {level}: p50 {statistics.median(spans):7.1f}, p95 {spans[int(0.95 * (looks - 1))]:7.1f} ms")


def metrics(name, service, run, stored):
    start = time.perf_counter()
    reply = service.get(run + "/analyses", Prefer="respond-async")
    if reply.status_code == 202:
        job = reply.headers["Location"]
        while service.get(job).json()["state"] in ("queued", "running"):
            time.sleep(0.05)
    span = time.perf_counter() - start
    again = service.timed(run + "/analyses")
    print(f"  {name}: stored in {stored:.1f} s; metrics in {span:.1f} s ({'a job' if reply.status_code == 202 else 'at once'}), "
          f"{span / stored:.2f} times the store; again {again:.0f} ms")


def stored_runs(folder, options):
    builds = [("this build", options.attnd)] + ([("the other", paired.build_of(options.against, "attnd") / "attnd")] if options.against else [])
    sizes = [(2048, 8, 5)] if options.small else [(8192, 8, 20), (32768, 8, 10), (131072, 1, 5)]
    services = []
    for i, (name, attnd) in enumerate(builds):
        runs = Path(folder) / f"runs{i}"
        runs.mkdir()
        services.append((name, Service(attnd, str(runs))))
    try:
        for tokens, heads, looks in sizes:
            print(f"{tokens} tokens, {heads} heads:")
            for name, service in services:
                run, span = service.store(tokens, heads)
                tiles(name, service, run, len(levels_of(service.get(run).json())), looks)
                if tokens <= 8192 or not options.small and tokens == 32768:
                    metrics(name, service, run, span)
    finally:
        for _, service in services:
            service.stop()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--against")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--small", action="store_true", help="short sequences, to try the program itself")
    options = options.parse_args()
    options.attnd = Path(os.environ.get("BUILD", ROOT / "build")) / "attnd"
    random.seed(1)
    with tempfile.TemporaryDirectory(dir=options.attnd.parent) as folder:
        good = whole_model(folder, options)
        stored_runs(folder, options)
    print("all within bounds" if good else "beyond its bounds")
    return not good


if __name__ == "__main__":
    sys.exit(main())
