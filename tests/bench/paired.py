"""Two builds beside each other: turns of one and the other alternate, and what counts is the ratio inside a pair, whose
median has an interval that holds it with 95 % (order statistics: no shape of the distribution is taken for granted)."""
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

PAIRS = 15
WORSE = 1.03  # a row fails when its whole interval lies above this


def interval(ratios):
    """Ranks k and n + 1 - k hold the median with at least 95 %."""
    ordered, n = sorted(ratios), len(ratios)
    k = 1
    while 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n <= 0.05:
        k += 1
    return ordered[k - 1], ordered[n - k]


def build_of(folder, *targets):
    """The build folder of a checkout, made when need be, or the folder itself."""
    folder = Path(folder).resolve()
    if (folder / "Makefile").exists():
        plain = {k: v for k, v in os.environ.items() if k not in ("BUILD", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "AGAINST")}
        made = subprocess.run(["make", "--no-print-directory", "-s", f"-j{os.cpu_count()}", *(f"build/{t}" for t in targets)],
                              cwd=folder, env=plain, stdout=subprocess.DEVNULL)
        if made.returncode:
            sys.exit(f"{folder} cannot be built")
        folder /= "build"
    for target in targets:
        if not (folder / target).exists():
            sys.exit(f"{folder / target} is not there: a checkout, or its build folder, was expected")
    return folder


def turns(pairs, new, old):
    """Each round both sides, in changing order, and the new one once more: [(new, old, new again)]. A side is a function
    that takes a turn and returns its time."""
    rounds = []
    for i in range(max(pairs, PAIRS)):
        if i % 2:
            before = old()
            now = new()
        else:
            now = new()
            before = old()
        rounds.append((now, before, new()))
    return rounds


def judge(name, rounds):
    """A row: ratios above 1 are slower than the other build, or than itself."""
    ratios, itself = [n / o for n, o, _ in rounds], [again / n for n, _, again in rounds]
    row = {"row": name, "pairs": len(rounds), "new": statistics.median(n for n, *_ in rounds),
           "old": statistics.median(o for _, o, _ in rounds), "ratio": statistics.median(ratios), "interval": interval(ratios),
           "itself": statistics.median(itself), "itself_interval": interval(itself)}
    row["failed"] = row["interval"][0] > WORSE
    return row


def show(rows, unit):
    width = max(len(row["row"]) for row in rows)
    print(f"{'':{width}}  {'old':>9} {'new':>9} {unit:9} {'new / old':>9}  {'95 %':15}  {'new / new':>9}  95 %")
    for row in rows:
        low, high = row["interval"]
        print(f"{row['row']:{width}}  {row['old']:9.4g} {row['new']:9.4g} {'':9} {row['ratio']:9.3f}  {low:6.3f} … {high:6.3f}  "
              f"{row['itself']:9.3f}  {row['itself_interval'][0]:.3f} … {row['itself_interval'][1]:.3f}"
              + ("  SLOWER" if row["failed"] else ""), flush=True)
    failed = sum(row["failed"] for row in rows)
    print(f"{len(rows)} rows of {rows[0]['pairs']} pairs, {failed} with the whole interval above {WORSE}")
    return 1 if failed else 0
