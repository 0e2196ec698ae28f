#!/usr/bin/env python3
"""64 sequences whose lengths differ by a hundred times, as one ragged request, as one padded batch and as 64 requests one after
the other over a kept connection, turn by turn; the medians count. Run by `make bench-ragged`.
"""
import argparse
import http.client
import json
import os
import random
import statistics
import struct
import time
from array import array

from jobs import KIND, Daemon

HEADS, WIDTH, ENTRIES, SHORTEST, LONGEST = 4, 32, 64, 10, 1000
TICKS = os.sysconf("SC_CLK_TCK")
LENGTHS = [round(SHORTEST * (LONGEST / SHORTEST) ** (i / (ENTRIES - 1))) for i in range(ENTRIES)]
random.Random(1).shuffle(LENGTHS)


def rows(seed, count):
    noise = random.Random(seed)
    return array("f", (noise.gauss(0, 1) for _ in range(count * HEADS * WIDTH))).tobytes()


def body(shape, data, **fields):
    """Self-attention as safetensors: reading it costs next to nothing."""
    request = json.dumps({"return": ["output"], "layout": "BLHE"} | fields)
    text = json.dumps({"query": {"dtype": "F32", "shape": shape, "data_offsets": [0, len(data)]}, "__metadata__": {"request": request}}).encode()
    return struct.pack("<Q", len(text)) + text + data


def ways():
    """The requests of each way."""
    parts = [rows(b, n) for b, n in enumerate(LENGTHS)]
    padded = b"".join(part + bytes(4 * HEADS * WIDTH * (LONGEST - n)) for part, n in zip(parts, LENGTHS))
    return {"ragged": [body([sum(LENGTHS), HEADS, WIDTH], b"".join(parts), query_lengths=LENGTHS)],
            "padded": [body([ENTRIES, LONGEST, HEADS, WIDTH], padded, key_lengths=LENGTHS)],
            "single": [body([1, n, HEADS, WIDTH], part) for part, n in zip(parts, LENGTHS)]}


def cpu_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    turns = parser.parse_args().turns
    daemon, sides = Daemon(), ways()
    spent = {name: [] for name in sides}
    work = dict.fromkeys(sides, 0.0)
    try:
        connection = http.client.HTTPConnection(daemon.netloc, timeout=60)
        for turn in range(turns + 1):  # the first one warms up
            for name, bodies in sides.items():
                before, start = cpu_of(daemon.process.pid), time.perf_counter()
                for data in bodies:
                    connection.request("POST", "/v1/attention", data, {"Content-Type": KIND, "Accept": KIND})
                    reply = connection.getresponse()
                    answer = reply.read()
                    assert reply.status == 200, answer[:300]
                if turn:
                    spent[name].append(time.perf_counter() - start)
                    work[name] += cpu_of(daemon.process.pid) - before
    finally:
        daemon.stop()
    print("| way | bytes in | ms | CPU ms | time / ragged | CPU / ragged |\n|---|---|---|---|---|---|")
    middle = {name: statistics.median(x) for name, x in spent.items()}
    for name, bodies in sides.items():
        print(f"| {name} | {sum(map(len, bodies)):,} | {1000 * middle[name]:.1f} | {1000 * work[name] / turns:.1f} "
              f"| {middle[name] / middle['ragged']:.2f}x | {work[name] / work['ragged']:.2f}x |")


main()
