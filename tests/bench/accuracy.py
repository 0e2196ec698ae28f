#!/usr/bin/env python3
"""Errors of attention against float64, over seeds and regimes, on each kernel table, at each precision.

    accuracy.py --seeds 64 --torch     beside PyTorch: fused for outputs, unfused for weights
    accuracy.py --seeds 8 --bounds     within the bounds of accuracy_bounds.json (`make test`)

The contract: root-mean-square error <= 1.1 times and maximum <= 1.25 times PyTorch's. The bounds are
these multiples of what PyTorch showed over 64 seeds, fp32 beside its float32, bf16 beside its bfloat16.
fast has bounds of its own: 2e-5 of the range of the values, times the factor on the scores. One seed
decides nothing: PyTorch's two own backends exceed each other on half of them.
"""
import argparse
import json
import sys
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
import tables  # noqa: E402
from oracle import tensors  # noqa: E402
from oracle.attention import softmax_rows  # noqa: E402
from serving import service  # noqa: E402

BOUNDS = Path(__file__).with_name("accuracy_bounds.json")
RMS, MAX = 1.1, 1.25  # allowed multiples of PyTorch's errors
PRECISIONS = ("fp32", "fast", "bf16")
FAST, RANGE = 2e-5, {"output": 4, "weights": 1}  # 4: of the values, normal numbers
# name: heads, L, S, E, Ev, factor on the scores
REGIMES = {
    "normal": (4, 128, 128, 64, 64, 1),
    "logits x 30": (4, 128, 128, 64, 64, 30),
    "rows of 32768": (1, 8, 32768, 64, 64, 1),
    "odd sizes": (3, 37, 101, 23, 19, 1),
}


class Errors:
    """Root mean square and maximum over all values of all seeds."""

    def __init__(self):
        self.squares = self.count = self.max = 0.0

    def add(self, got, want):
        error = np.abs(got.astype(np.float64) - want)
        self.squares += float((error**2).sum())
        self.count += error.size
        self.max = max(self.max, float(error.max()))

    @property
    def rms(self):
        return (self.squares / self.count) ** 0.5


def draw(regime, seed):
    H, L, S, E, Ev, factor = REGIMES[regime]
    r = np.random.default_rng([seed, *map(ord, regime)])
    q, k, v = (r.standard_normal(s).astype(np.float32) for s in ((1, H, L, E), (1, H, S, E), (1, H, S, Ev)))
    return q, k, v, factor / np.sqrt(E)


def truth(q, k, v, scale):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    weights, _ = softmax_rows(scale * (q @ np.swapaxes(k, -1, -2)))
    return {"output": weights @ v, "weights": weights}


def by_torch(precision):
    import torch
    import torch.nn.functional as F

    def run(q, k, v, scale):
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        q, k, v = (torch.from_numpy(x).to(dtype) for x in (q, k, v))
        weights = torch.softmax(q @ k.transpose(-1, -2) * scale, -1)
        output = F.scaled_dot_product_attention(q, k, v, scale=scale)
        return {"output": output.float().numpy(), "weights": weights.float().numpy()}

    return run


def by_service(daemon, precision):
    def run(q, k, v, scale):
        body = {"precision": precision, "query": tensors.write(q), "key": tensors.write(k), "value": tensors.write(v),
                "scale": scale, "return": ["output", "weights"]}
        reply = daemon.post("/v1/attention", body)
        assert reply.status_code == 200, reply.text[:500]
        return {name: np.array(reply.json()[name], np.float64) for name in ("output", "weights")}

    return run


def measure(run, seeds):
    """{(regime, tensor): Errors}"""
    found = {}
    for regime in REGIMES:
        for seed in range(seeds):
            inputs = draw(regime, seed)
            want, got = truth(*inputs), run(*inputs)
            for name in want:
                found.setdefault((regime, name), Errors()).add(got[name], want[name])
    return found


def start(isa):
    return service.Daemon("--ops-listen", "", "--log", "off", env={"ATTN_ISA": isa})


def judge(label, found, allowed):
    """Print one table's errors beside what is allowed; the number of breaches."""
    breaches = 0
    for key, errors in found.items():
        most = allowed[key]
        bad = errors.rms > most[0] or errors.max > most[1]
        breaches += bad
        print(f"{label:11} {key[0]:14} {key[1]:8} rms {errors.rms:.3e} ({errors.rms / most[0] * RMS:.2f}x)"
              f"  max {errors.max:.3e} ({errors.max / most[1] * MAX:.2f}x){'  TOO LARGE' if bad else ''}")
    return breaches


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--torch", action="store_true", help="compare with PyTorch in this run")
    parser.add_argument("--bounds", action="store_true", help="compare with the committed bounds")
    parser.add_argument("--write-bounds", action="store_true", help="commit PyTorch's errors as bounds")
    options = parser.parse_args()
    allowed = {"fast": {(regime, name): (FAST * size[5] * RANGE[name],) * 2 for regime, size in REGIMES.items()
                        for name in RANGE}}
    if options.torch or options.write_bounds:
        for precision in ("fp32", "bf16"):
            peer = measure(by_torch(precision), options.seeds)
            allowed[precision] = {key: (RMS * e.rms, MAX * e.max) for key, e in peer.items()}
            judge(f"torch {precision}", peer, allowed[precision])
    else:
        for key, most in json.loads(BOUNDS.read_text()).items():
            precision, regime, name = key.split("/")
            allowed.setdefault(precision, {})[regime, name] = most
    if options.write_bounds:
        lines = [f'  "{precision}/{regime}/{name}": [{rms:.4g}, {most:.4g}]' for precision in ("fp32", "bf16")
                 for (regime, name), (rms, most) in allowed[precision].items()]
        BOUNDS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return 0
    breaches = 0
    for isa in tables.available() + tables.emulated():
        daemon = start(isa)
        for precision in PRECISIONS:  # in `make test` a quarter of the seeds is enough for those with wide bounds
            seeds = options.seeds // 4 or 1 if options.bounds and precision != "fp32" else options.seeds
            breaches += judge(f"{isa} {precision}", measure(by_service(daemon, precision), seeds), allowed[precision])
        daemon.stop()
    print(f"accuracy: {options.seeds} seeds a regime, {breaches} breaches (multiples are of PyTorch's errors)")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
