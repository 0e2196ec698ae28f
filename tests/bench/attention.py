#!/usr/bin/env python3
"""Attention beside PyTorch in the same run: both pinned to the same cores, turn by turn, medians and ratios.

The C side is tests/bench/bench_attention.c. PyTorch's time includes its Python call, about 4 microseconds.
The avx2 rows compare with PyTorch held to AVX2 (ATEN_CPU_CAPABILITY=avx2), in a process of its own.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

DRIVER = Path(os.environ.get("BUILD", "build")) / "tests" / "bench" / "bench_attention"
OUTPUT, WEIGHTS, GRADIENTS = 1, 3, 257  # what is asked for
# name: B, Hq, Hkv, L, S, E, Ev, causal, want; and the ratio PyTorch / ours that must be reached
CASES = {
    "H8 L128 D64": ((1, 8, 8, 128, 128, 64, 64, 0, OUTPUT), 1.15),
    "H8 L512 D64": ((1, 8, 8, 512, 512, 64, 64, 0, OUTPUT), 1.15),
    "H8 L2048 D64": ((1, 8, 8, 2048, 2048, 64, 64, 0, OUTPUT), 1.15),
    "H8 L2048 D128": ((1, 8, 8, 2048, 2048, 128, 128, 0, OUTPUT), 1.15),
    "H8 L2048 D64 causal": ((1, 8, 8, 2048, 2048, 64, 64, 1, OUTPUT), 1.15),
    "H12 L1024 D64 with weights": ((1, 12, 12, 1024, 1024, 64, 64, 0, WEIGHTS), 1.15),
    "H8 L2048 D64 with weights": ((1, 8, 8, 2048, 2048, 64, 64, 0, WEIGHTS), 1.15),
    "H8 L512 D64 with gradients": ((1, 8, 8, 512, 512, 64, 64, 0, GRADIENTS), 1.0),
    "H32 L1 S4096 D128 decode": ((1, 32, 32, 1, 4096, 128, 128, 0, OUTPUT), 1.0),
    "H32/8 L1 S4096 D128 decode": ((1, 32, 8, 1, 4096, 128, 128, 0, OUTPUT), 1.15),
    "H1 L16 D64": ((1, 1, 1, 16, 16, 64, 64, 0, OUTPUT), 1.15),
}
LONG = (1, 1, 1, 65536, 65536, 64, 64, 0, OUTPUT)


def ours(case, threads, seconds, isa):
    """Median milliseconds and peak megabytes."""
    environment = dict(os.environ, **({"ATTN_ISA": isa} if isa else {}))
    done = subprocess.run([str(DRIVER), "--case", ",".join(map(str, case)), "--threads", str(threads),
                           "--seconds", str(seconds)], env=environment, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{DRIVER}: {done.stderr}")
    return tuple(map(float, done.stdout.split()))


def peer(case, seconds):
    B, Hq, Hkv, L, S, E, Ev, causal, want = case
    grads = want == GRADIENTS
    q, k, v = (torch.randn(*s, requires_grad=grads) for s in ((B, Hq, L, E), (B, Hkv, S, E), (B, Hkv, S, Ev)))
    grad = torch.randn(B, Hq, L, Ev)

    def fused():
        out = F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=Hq != Hkv)
        if grads:
            torch.autograd.grad(out, (q, k, v), grad)

    def unfused():
        torch.softmax(q @ k.transpose(-1, -2) / E**0.5, -1) @ v

    run = unfused if want == WEIGHTS else fused
    times = []
    end = time.perf_counter() + seconds
    with torch.enable_grad() if grads else torch.inference_mode():
        run()
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def compare(options, name, case, must):
    turns = [(peer(case, options.seconds), ours(case, options.threads, options.seconds, options.isa)[0])
             for _ in range(options.turns)]
    theirs, mine = (statistics.median(side) for side in zip(*turns))
    row = {"case": name, "pytorch_ms": theirs, "attn_ms": mine, "ratio": theirs / mine, "must": must,
           "missed": theirs / mine < must}
    print(f"{name:28} {theirs:10.4f} {mine:10.4f} {row['ratio']:6.2f}x  {must:4}{'  MISSED' if row['missed'] else ''}",
          flush=True)
    return row


def growth(options):
    """Two threads beside one, and a row of 65,536 keys: memory, and time beside a quarter of the work."""
    rows = {}
    case = CASES["H8 L512 D64"][0]
    if len(os.sched_getaffinity(0)) >= 2:
        one, two = (statistics.median(ours(case, n, options.seconds, options.isa)[0] for _ in range(options.turns))
                    for n in (1, 2))
        rows["two_threads"] = one / two
        print(f"two threads, H8 L512 D64: {one / two:.2f}x of one (must 1.85x)")
    half = tuple(32768 if n == 65536 else n for n in LONG)
    (short, _), (long, megabytes) = (ours(c, options.threads, 0, options.isa) for c in (half, LONG))
    rows |= {"long_growth": long / short, "long_megabytes": megabytes}
    print(f"L 65,536 output only: {megabytes:.0f} MB in all (must 200), {long / short:.2f}x the time of L 32,768 "
          f"(must 4.2x)")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--isa", help="kernel table; default the best; with avx2 PyTorch is held to AVX2, too")
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--json", help="also write the table to this file")
    options = parser.parse_args()
    if options.isa == "avx2" and os.environ.get("ATEN_CPU_CAPABILITY") != "avx2":
        held = dict(os.environ, ATEN_CPU_CAPABILITY="avx2", MKL_ENABLE_INSTRUCTIONS="AVX2", ONEDNN_MAX_CPU_ISA="AVX2")
        os.execve(sys.executable, [sys.executable, *sys.argv], held)
    everything = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(everything)[: options.threads])  # the driver inherits it
    torch.set_num_threads(options.threads)
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    print(f"{model or platform.processor()}, {options.threads} thread(s), kernels {options.isa or 'best'}; milliseconds, "
          f"medians of {options.turns} turns")
    print(f"{'case':28} {'PyTorch':>10} {'attn':>10} {'ratio':>7}  must")
    chosen = {n: c for n, c in CASES.items() if not options.only or options.only in n}
    rows = [compare(options, name, *case) for name, case in chosen.items()]
    os.sched_setaffinity(0, everything)
    table = {"processor": model, "threads": options.threads, "isa": options.isa, "cases": rows}
    if not options.only:
        table |= growth(options)
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1) + "\n")
    return any(row["missed"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
