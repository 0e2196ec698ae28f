#!/usr/bin/env python3
"""Attention with reduced products beside PyTorch in the same run: fast beside its float32, bf16 beside its bfloat16.

One thread, both pinned to one core, turn by turn; medians and the median of the turns' ratios. The C side is
tests/bench/bench_attention.c; PyTorch is timed by the processor time of this process.
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
SHAPE = (1, 8, 2048, 64)
CASE = "1,8,8,2048,2048,64,64,0,1"
# precision: PyTorch's type, the ratio PyTorch / ours that must be reached, and the goal
ROWS = {"fp32": (torch.float32, 1.15, 1.35), "fast": (torch.float32, 2.5, 4), "bf16": (torch.bfloat16, 1.3, 2)}


def ours(precision, seconds, isa):
    environment = dict(os.environ, **({"ATTN_ISA": isa} if isa else {}))
    done = subprocess.run([str(DRIVER), "--case", CASE, "--seconds", str(seconds), "--precision", precision],
                          env=environment, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{DRIVER}: {done.stderr}")
    return float(done.stdout.split()[0])


def peer(dtype, seconds):
    q, k, v = (torch.randn(*SHAPE, dtype=dtype) for _ in range(3))
    times = []
    end = time.perf_counter() + seconds
    with torch.inference_mode():
        F.scaled_dot_product_attention(q, k, v)
        while time.perf_counter() < end or len(times) < 3:
            start = time.process_time()
            F.scaled_dot_product_attention(q, k, v)
            times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1, help="of each turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--isa", help="kernel table; default the best")
    options = parser.parse_args()
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # the driver inherits it
    torch.set_num_threads(1)
    print(f"H8 L2048 D64, kernels {options.isa or 'best'}; milliseconds, medians of {options.turns} turns")
    print(f"{'precision':10} {'PyTorch':>18} {'attn':>10} {'ratio':>7}  must  goal")
    missed = False
    for precision, (dtype, must, goal) in ROWS.items():
        turns = [(peer(dtype, options.seconds), ours(precision, options.seconds, options.isa))
                 for _ in range(options.turns)]
        theirs, mine = (statistics.median(side) for side in zip(*turns))
        ratio = statistics.median(t / m for t, m in turns)
        missed |= ratio < must
        name = str(dtype).removeprefix("torch.")
        print(f"{precision:10} {name:>8} {theirs:9.3f} {mine:10.3f} {ratio:6.2f}x  {must:4}  {goal:4}"
              f"{'  MISSED' if ratio < must else ''}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
