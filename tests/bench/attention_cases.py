"""The cases of `make bench-attention`, and a turn of ours."""
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

DRIVER = Path(os.environ.get("BUILD", "build")) / "tests" / "bench" / "bench_attention"
OUTPUT, WEIGHTS, GRADIENTS = 1, 3, 257  # what is asked for
FLOATS, TILES = (1.15, 1.35), (1.8, 2.5)  # PyTorch / ours that must be reached, and the goal


class Case(NamedTuple):
    shape: tuple  # B, Hq, Hkv, L, S, E, Ev, causal
    want: int
    floats: tuple  # must and goal without the matrix unit
    tiles: tuple  # with it
    precision: str = "fp32"
    dtype: str = "float32"  # PyTorch's
    microseconds: float = 0  # that ours must stay below


def square(heads, length, width, causal=0):
    return (1, heads, heads, length, length, width, width, causal)


CASES = {
    "H8 L128 D64": Case(square(8, 128, 64), OUTPUT, FLOATS, (1.3, 2.5)),
    "H8 L512 D64": Case(square(8, 512, 64), OUTPUT, FLOATS, TILES),
    "H8 L2048 D64": Case(square(8, 2048, 64), OUTPUT, FLOATS, TILES),
    "H8 L2048 D128": Case(square(8, 2048, 128), OUTPUT, FLOATS, TILES),
    "H8 L2048 D64 causal": Case(square(8, 2048, 64, 1), OUTPUT, FLOATS, (1.8, 3)),
    "H12 L1024 D64 with weights": Case(square(12, 1024, 64), WEIGHTS, (4, 8), (4, 8)),
    "H8 L2048 D64 with weights": Case(square(8, 2048, 64), WEIGHTS, (4, 8), (4, 8)),
    "H8 L512 D64 with gradients": Case(square(8, 512, 64), GRADIENTS, (1.5, 2.5), (1.5, 2.5)),
    "H32 L1 S4096 D128 decode": Case((1, 32, 32, 1, 4096, 128, 128, 0), OUTPUT, (1.4, 2.5), (1.4, 2.5)),
    "H32/8 L1 S4096 D128 decode": Case((1, 32, 8, 1, 4096, 128, 128, 0), OUTPUT, (1.4, 2.5), (1.4, 2.5)),
    "H8 L2048 D64 fast": Case(square(8, 2048, 64), OUTPUT, FLOATS, (2.5, 4), "fast"),
    "H8 L2048 D64 bf16": Case(square(8, 2048, 64), OUTPUT, (1.3, 2), (1.3, 2), "bf16", "bfloat16"),
    "H1 L16 D64": Case(square(1, 16, 64), OUTPUT, FLOATS, FLOATS, microseconds=2),
}
LONG, HALF = (Case(square(1, length, 64), OUTPUT, FLOATS, FLOATS) for length in (65536, 32768))


# Sparse patterns as the driver's kind and two numbers, with the positions on which they are timed (one batch entry,
# heads of width 64, output only).
SPARSE = {
    4096: (8, [("strided", 64, 16), ("block", 64, 0), ("block", 256, 0), ("global", 16, 64), ("local", 64, 0)]),
    16384: (2, [("strided", 128, 128), ("block", 1024, 0), ("global", 64, 256), ("local", 256, 0)]),
}


def sparse_cases():
    """The name, the case and the pattern of each."""
    for length, (heads, patterns) in SPARSE.items():
        for kind, *sizes in patterns:
            name = f"H{heads} L{length} {kind} {' '.join(str(n) for n in sizes if n)}"
            yield name, Case(square(heads, length, 64), OUTPUT, FLOATS, FLOATS), (kind, *sizes)


def ours(case, threads, seconds, isa, driver=DRIVER, pattern=None):
    """Median and smallest milliseconds, peak megabytes, share of visible cells."""
    environment = dict(os.environ, **({"ATTN_ISA": isa} if isa else {}))
    done = subprocess.run([str(driver), "--case", ",".join(map(str, (*case.shape, case.want))), "--threads", str(threads),
                           "--seconds", str(seconds), "--precision", case.precision,
                           *(["--pattern", ",".join(map(str, pattern))] if pattern else [])],
                          env=environment, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{driver}: {done.stderr}")
    return tuple(map(float, done.stdout.split()))
