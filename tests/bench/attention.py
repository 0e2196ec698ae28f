#!/usr/bin/env python3
"""Attention beside PyTorch in the same run: both pinned to the same core, turn by turn, medians and ratios.

The C side is tests/bench/bench_attention.c:
    bench_attention --case B,H,L,S,E,Ev,causal,want --threads n --seconds s
prints the median of one call in milliseconds; want: 1 output, 3 output and weights. PyTorch's time includes its Python call, about 4 microseconds.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

DRIVER = Path(os.environ.get("BUILD", "build")) / "tests" / "bench" / "bench_attention"
OUTPUT, WEIGHTS = 1, 3  # what is asked for
# name: B, H, L, S, E, Ev, causal, want; and the ratio PyTorch / ours that must be reached
CASES = {
    "H8 L128 D64": ((1, 8, 128, 128, 64, 64, 0, OUTPUT), None),
    "H8 L512 D64": ((1, 8, 512, 512, 64, 64, 0, OUTPUT), 0.5),
    "H8 L2048 D64": ((1, 8, 2048, 2048, 64, 64, 0, OUTPUT), None),
    "H8 L2048 D128": ((1, 8, 2048, 2048, 128, 128, 0, OUTPUT), None),
    "H8 L2048 D64 causal": ((1, 8, 2048, 2048, 64, 64, 1, OUTPUT), None),
    "H12 L1024 D64 with weights": ((1, 12, 1024, 1024, 64, 64, 0, WEIGHTS), None),
    "H32 L1 S4096 D128 (decode)": ((1, 32, 1, 4096, 128, 128, 0, OUTPUT), None),
    "H1 L16 D64": ((1, 1, 16, 16, 64, 64, 0, OUTPUT), None),
}


def ours(case, threads, seconds, isa):
    environment = dict(os.environ, **({"ATTN_ISA": isa} if isa else {}))
    done = subprocess.run([str(DRIVER), "--case", ",".join(map(str, case)), "--threads", str(threads),
                           "--seconds", str(seconds)], env=environment, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{DRIVER}: {done.stderr}")
    return float(done.stdout.split()[0])


def peer(case, seconds):
    B, H, L, S, E, Ev, causal, want = case
    q, k, v = torch.randn(B, H, L, E), torch.randn(B, H, S, E), torch.randn(B, H, S, Ev)

    def fused():
        F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))

    def unfused():
        torch.softmax(q @ k.transpose(-1, -2) / E**0.5, -1) @ v

    run = unfused if want == WEIGHTS else fused
    times = []
    end = time.perf_counter() + seconds
    with torch.inference_mode():
        run()
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--isa", help="kernel table; default the best")
    parser.add_argument("--only", help="cases whose name contains this")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[: options.threads]
    os.sched_setaffinity(0, cores)  # the driver inherits it
    torch.set_num_threads(options.threads)
    failed = 0
    print(f"{options.threads} thread(s) on core(s) {cores}; milliseconds, medians of {options.turns} turns")
    print(f"{'case':28} {'PyTorch':>10} {'attn':>10} {'ratio':>7}  must")
    for name, (case, must) in CASES.items():
        if options.only and options.only not in name:
            continue
        turns = [(peer(case, options.seconds), ours(case, options.threads, options.seconds, options.isa))
                 for _ in range(options.turns)]
        theirs, mine = (statistics.median(side) for side in zip(*turns))
        bad = must is not None and theirs / mine < must
        failed += bad
        print(f"{name:28} {theirs:10.4f} {mine:10.4f} {theirs / mine:6.2f}x  {must or '':>4}{'  MISSED' if bad else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
