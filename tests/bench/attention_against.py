#!/usr/bin/env python3
"""Attention of this build beside another one (`make bench-attention AGAINST=folder`, a checkout or its build folder): the
cases of `make bench-attention`, sparse patterns too, on every table of this processor, one thread, its processor time (paired.py)."""
import argparse
import os
import sys
from pathlib import Path

import paired
from attention_cases import CASES, DRIVER, ours, sparse_cases

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tables  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=0.1, help="of each turn")
    parser.add_argument("--pairs", type=int, default=paired.PAIRS)
    parser.add_argument("--only", help="cases whose name contains this")
    options = parser.parse_args()
    other = paired.build_of(options.folder, "tests/bench/bench_attention") / "tests/bench/bench_attention"
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    best, rows = tables.available()[-1], []
    for table in reversed([name for name in tables.available() if name != "ref"]):
        for name, case, pattern in [*((name, case, None) for name, case in CASES.items()), *sparse_cases()]:
            if (options.only and options.only not in name) or (table != best and case.precision != "fp32"):
                continue
            isa = None if table == best else table  # asked for by name it computes even what it would leave to another

            def turn(driver, case=case, pattern=pattern, isa=isa):
                return ours(case, 1, options.seconds, isa, driver, pattern)[0]

            rows.append(paired.judge(f"{table} {name}", paired.turns(options.pairs, lambda: turn(DRIVER), lambda: turn(other))))
    if "amx" not in tables.available():
        print("not run: amx")
    return paired.show(rows, "ms")


if __name__ == "__main__":
    sys.exit(main())
