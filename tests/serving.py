"""How Python tests reach the daemon, and how answers are compared with the oracle."""
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
from oracle import tensors

# The daemon under test is started as the HTTP tests start it.
_spec = importlib.util.spec_from_file_location(
    "service", Path(__file__).resolve().parent / "http" / "conftest.py")
service = importlib.util.module_from_spec(_spec)
sys.modules["service"] = service
_spec.loader.exec_module(service)

# Per unit of magnitude, for float32 results of well-conditioned inputs against float64.
FLOAT32 = 4e-6
FLOAT64 = 1e-13


def ask(daemon, body, status=200, path="/v1/attention"):
    answer = daemon.post(path, json.dumps(body))
    assert answer.status_code == status, f"{answer.status_code}: {answer.text[:600]}"
    return answer.json()


def as_array(got, want, name):
    """A served tensor as float64, null as -infinity; its nesting must be that of `want`."""
    if want.size == 0:
        assert got == tensors.nested(want), f"{name}: {got} for shape {want.shape}"
        return want
    x = np.array(got, dtype=object)
    assert x.shape == want.shape, f"{name}: shape {x.shape}, not {want.shape}"
    return np.where(x == None, -np.inf, x).astype(np.float64)  # noqa: E711, element by element


def compare(answer, wanted, bound=FLOAT32):
    """Served tensors against the oracle's (name -> array); returns the largest error per unit."""
    worst = 0.0
    for name, want in wanted.items():
        want = np.asarray(want, np.float64)
        got = as_array(answer[name], want, name)
        hidden = np.isneginf(want)
        assert (np.isneginf(got) == hidden).all(), f"{name}: other cells are null"
        if not (~hidden).any():
            continue
        error = np.abs(got[~hidden] - want[~hidden]).max()
        unit = max(1.0, np.abs(want[~hidden]).max())
        assert error <= bound * unit, f"{name}: off by {error}, allowed {bound * unit}"
        worst = max(worst, error / unit)
    return worst
