"""The models that are timed, and how the C side (bench_models.c) is asked for its times."""
import os
import subprocess
import sys
from pathlib import Path

DRIVER = Path(os.environ.get("BUILD", "build")) / "tests" / "bench" / "bench_models"
# width, layers, batch, source and target lengths, vocabularies
CASES = {"D128, 1 layer, 64 x 12 -> 13": (128, 1, 64, 12, 13, 200, 200),
         "D256, 2 layers, 4 x 30 -> 25": (256, 2, 4, 30, 25, 10000, 8000)}


def ask(command):
    """The numbers that a command prints."""
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr}")
    return tuple(map(float, done.stdout.split()))


def ours(case, rounds, driver=DRIVER):
    """Milliseconds of a forward pass, of gradients and of a step, medians of `rounds`; most resident kilobytes."""
    return ask([str(driver), ",".join(map(str, (*case, rounds)))])
