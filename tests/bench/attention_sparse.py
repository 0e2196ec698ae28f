#!/usr/bin/env python3
"""Sparse patterns: their time beside full attention, beside PyTorch's scaled_dot_product_attention with the same mask of
booleans, and beside FlexAttention with the same mask function, compiled.

The goal is a time within twice the share of visible cells times the time of full attention. Packing keys and values
takes a time of its own, which small shares do not reach. All sides take short turns one after another. One thread is
timed by the processor's time of its process.
"""
import argparse
import json
import os
import statistics
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tables  # noqa: E402
from attention_cases import ours, sparse_cases  # noqa: E402
from timing import time_calls  # noqa: E402

WITHIN = 2  # the goal: at most so many times the share of visible cells times the time of full attention

SEES = {  # of the query at i and the key at j, as attn/mask.h defines them
    "local": lambda i, j, radius, _: (i - j).abs() <= radius,
    "strided": lambda i, j, stride, local: ((i - j) % stride == 0) | ((i - j).abs() <= local),
    "block": lambda i, j, size, _: i // size == j // size,
    "global": lambda i, j, keys, local: (i < keys) | (j < keys) | ((i - j).abs() <= local),
}


def flex_attention(sees, length, qkv):
    """A call of FlexAttention, compiled, or the reason why there is none."""
    try:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        blocks = create_block_mask(lambda b, h, i, j: sees(i, j), None, None, length, length, device="cpu")
        compiled = torch.compile(flex_attention)
        compiled(*qkv, block_mask=blocks)
    except Exception as problem:  # an old PyTorch, no compiler, or an unsupported processor
        return f"not run: {type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"
    return lambda: compiled(*qkv, block_mask=blocks)


def peers(heads, length, pattern):
    kind, *sizes = pattern
    at = torch.arange(length)

    def sees(i, j):
        return SEES[kind](i, j, *sizes)

    mask = sees(at[:, None], at[None])
    qkv = [torch.randn(1, heads, length, 64) for _ in range(3)]
    masked = F.scaled_dot_product_attention(*qkv, attn_mask=mask)
    flex = flex_attention(sees, length, qkv)
    if callable(flex) and not torch.allclose(flex(), masked, atol=1e-4):
        flex = "not run: its result differs from that of the mask"
    return lambda: F.scaled_dot_product_attention(*qkv, attn_mask=mask), flex


def measure(options, name, case, pattern):
    _, heads, _, length, *_ = case.shape
    masked, flex = peers(heads, length, pattern)
    turns = {"full": [], "attn": [], "masked": [], "flex": []}
    kept = 0.0
    for _ in range(options.turns):
        turns["full"].append(ours(case, options.threads, options.seconds, options.isa)[1])
        *times, kept = ours(case, options.threads, options.seconds, options.isa, pattern=pattern)
        turns["attn"].append(times[1])
        turns["masked"].append(time_calls(masked, options.seconds)[1])
        if callable(flex):
            turns["flex"].append(time_calls(flex, options.seconds)[1])
    ms = {name: min(all_ms) for name, all_ms in turns.items() if all_ms}
    share = statistics.median(a / f for a, f in zip(turns["attn"], turns["full"]))
    return {"case": name, "kept": kept, **{f"{side}_ms": value for side, value in ms.items()}, "of_full": share, "over_kept": share / kept,
            "beside_masked": ms["masked"] / ms["attn"], "flex": flex if isinstance(flex, str) else None}


def line(row):
    flex = row["flex"] or f"{row['flex_ms']:9.2f} {row['flex_ms'] / row['attn_ms']:6.1f}x"
    met = "" if row["over_kept"] <= WITHIN else "  beyond the goal"
    return (f"{row['case']:28}{100 * row['kept']:6.2f} %{row['full_ms']:9.2f}{row['attn_ms']:9.2f}{100 * row['of_full']:7.2f} %"
            f"{row['over_kept']:7.2f}x{row['masked_ms']:10.2f} {row['beside_masked']:6.1f}x  {flex}{met}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--isa", help="kernel table; default the best")
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--json", help="also write the table to this file")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    torch.set_num_threads(options.threads)
    print(f"sparse patterns, {options.threads} thread(s), kernels {options.isa or tables.available()[-1]}; smallest milliseconds "
          f"of {options.turns} turns")
    print(f"{'case':28}{'kept':>8}{'full':>9}{'attn':>9}{'of full':>9}{'/ kept':>8}{'mask':>10}{'':>8}{'Flex':>11}")
    rows = []
    with torch.inference_mode():
        for name, case, pattern in sparse_cases():
            if options.only and options.only not in name:
                continue
            rows.append(measure(options, name, case, pattern))
            print(line(rows[-1]), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
