#!/usr/bin/env python3
"""A long stored run looked at: what a store costs, how long tiles take, how much memory stays, and that every
number is right: at 2,048 tokens against the whole matrix, bit for bit, at full length against float64.

    tests/bench/zoom.py [--tokens 32768] [--looks 200]
"""
import argparse
import io
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import requests

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from oracle import rng  # noqa: E402

BUILD = Path(os.environ.get("BUILD", ROOT / "build"))
WIDTH = 64
TILE_MS = 5.0  # most processor time of a tile of levels 0 and 1
MORE_MIB = 64  # most resident memory beyond query, key and value


class Service:
    def __init__(self):
        self.process = subprocess.Popen([BUILD / "attnd", "--port", "0", "--ops_listen", "", "--log", "off",
                                         "--request_timeout_ms", "1800000"], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split()[4]
        self.session = requests.Session()

    def usage(self):
        """Processor seconds and resident bytes so far."""
        lines = self.session.get(self.url + "/metrics").text.splitlines()
        values = dict(line.split(" ", 1) for line in lines if line.startswith("process_"))
        return float(values["process_cpu_seconds_total"]), float(values["process_resident_memory_bytes"])

    def get(self, path, **headers):
        reply = self.session.get(self.url + path, headers=headers)
        assert reply.status_code in (200, 204), reply.text
        return reply

    def array(self, path):
        return np.load(io.BytesIO(self.get(path, Accept="application/x-npy").content))

    def store(self, n, items):
        def literal(seed):
            return {"shape": [n, WIDTH], "random": "normal", "seed": seed}
        body = {"query": literal(1), "key": literal(2), "value": literal(3), "is_causal": True, "store": True,
                "return": items}
        reply = self.session.post(self.url + "/v1/attention", json=body)
        assert reply.status_code == 200, reply.text
        return "/v1/runs/" + reply.json()["run"]["id"], reply.json()


def tile(service, run, level, y, x):
    """Both planes, hidden cells as 0."""
    reply = service.get(f"{run}/tiles?level={level}&y={y}&x={x}&encoding=f32")
    if reply.status_code == 204:
        return None
    rows, cols = map(int, reply.headers["X-Tile-Shape"].split(","))
    return np.maximum(np.frombuffer(reply.content, "<f4").reshape(2, rows, cols), 0)


def boxes(weights, level):
    side = 1 << level
    return weights.reshape(weights.shape[0] // side, side, weights.shape[1] // side, side)


def exact(service, looks):
    """Random tiles, rows and lists of a run that fits, against the matrix that the service answered."""
    n = 2048
    run, answer = service.store(n, ["weights"])
    whole = np.array(answer["weights"], np.float32)
    for _ in range(looks):
        level = random.randrange(4)
        count = max(1, (n >> level) // 256)
        y, x = random.randrange(count), random.randrange(count)
        got = tile(service, run, level, y, x)
        side = 256 << level
        part = whole[y * side:(y + 1) * side, x * side:(x + 1) * side]
        most = boxes(part, level).max((1, 3))
        assert np.array_equal(most, got[0] if got is not None else 0 * most)
        row = random.randrange(n)
        assert np.array_equal(service.array(f"{run}/weights?rows={row}:{row + 1}")[0], whole[row])
        top = service.get(f"{run}/top-k?rows={row}:{row + 1}&top_k=9").json()
        best = np.argsort(-whole[row], kind="stable")[:min(9, row + 1)]
        assert top["col"] == best.tolist() and np.array_equal(np.float32(top["weight"]), whole[row][best])
    print(f"{n} tokens: {looks} tiles, rows and lists equal the matrix in every bit")


def reference(q, k, row):
    s = k[:row + 1] @ q[row] / np.sqrt(WIDTH)
    w = np.exp(s - s.max())
    return w / w.sum()


def accurate(service, run, n, looks):
    q, k = (rng.normal(seed, n * WIDTH).astype(np.float32).astype(np.float64).reshape(n, WIDTH) for seed in (1, 2))
    worst = 0.0
    for _ in range(looks):
        row = random.randrange(n)
        want = reference(q, k, row)
        got = service.array(f"{run}/weights?rows={row}:{row + 1}")[0]
        assert not got[row + 1:].any()
        worst = max(worst, np.abs(got[:row + 1] - want).max() / want.max())
        top = service.get(f"{run}/top-k?rows={row}:{row + 1}&top_k=5").json()
        assert np.array_equal(np.float32(top["weight"]), got[top["col"]])
        y, x = row // 256, random.randrange(row // 256 + 1)
        cells = tile(service, run, 0, y, x)[0, row % 256]
        assert np.array_equal(cells, got[256 * x:256 * x + len(cells)])
    print(f"{n} tokens: {looks} rows, their lists and tiles; largest difference from float64 {worst:.2e} of the row's "
          "largest weight")
    return worst <= 4e-6


def timed(service, run, looks):
    """Processor milliseconds of a tile by level, the service's part of HTTP included."""
    tiles = service.get(run).json()["sites"][0]["tiles"]
    good = True
    for level, (rows, cols) in enumerate(tiles["levels"]):
        quick = level < 2 or level >= tiles["overview_level"]
        count = looks if quick else 3
        before = service.usage()[0]
        spans = []
        for _ in range(count):
            y, x = random.randrange(-(-rows // 256)), random.randrange(-(-cols // 256))
            timing = service.get(f"{run}/tiles?level={level}&y={y}&x={x}").headers["Server-Timing"]
            spans.append(float(timing.split("compute;dur=")[1].split(",")[0]))
        ms = 1000 * (service.usage()[0] - before) / count
        good &= ms < TILE_MS or not quick
        print(f"  level {level}: {ms:7.2f} ms of processor a tile, {statistics.median(spans):7.2f} ms passed")
    return good


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tokens", type=int, default=32768)
    options.add_argument("--looks", type=int, default=200)
    options = options.parse_args()
    n = options.tokens
    random.seed(1)
    service = Service()
    try:
        exact(service, options.looks)
        service.process.terminate()
        service = Service()
        service.store(64, [])
        cpu, rss = service.usage()
        run, answer = service.store(n, [])
        spent, stored = service.usage()
        good = timed(service, run, options.looks)
        more = (service.usage()[1] - rss - 3 * 4 * n * WIDTH) / 2**20
        print(f"{n} tokens: stored with {spent - cpu:.1f} s of processor, {answer['run']['bytes'] / 2**20:.1f} MiB; resident "
              f"memory grew by {more:.1f} MiB beyond query, key and value")
        good &= accurate(service, run, n, options.looks)
    finally:
        service.process.terminate()
    good &= more < MORE_MIB or n > 32768
    print("all within bounds" if good else "beyond its bounds")
    return not good


if __name__ == "__main__":
    sys.exit(main())
