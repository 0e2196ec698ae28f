#!/usr/bin/env python3
"""Passes and training steps of this build beside another one (`make bench-models AGAINST=folder`, a checkout or its
build folder), on one thread, its processor time (paired.py)."""
import argparse
import os
import sys

import paired
from model_cases import CASES, DRIVER, ours

ROUNDS = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--pairs", type=int, default=paired.PAIRS)
    options = parser.parse_args()
    other = paired.build_of(options.folder, "tests/bench/bench_models") / "tests/bench/bench_models"
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    rows = []
    for name, case in CASES.items():
        rounds = paired.turns(options.pairs, lambda: ours(case, ROUNDS), lambda: ours(case, ROUNDS, other))
        for i, what in enumerate(("forward", "gradients", "step")):
            rows.append(paired.judge(f"{name}, {what}", [tuple(turn[i] for turn in turns) for turns in rounds]))
    return paired.show(rows, "ms")


if __name__ == "__main__":
    sys.exit(main())
