#!/usr/bin/env python3
"""Attention beside PyTorch and ONNX Runtime in the same run: pinned to the same cores, in short turns, case after
case and then again.

Each side is given twice: the median of its turns' medians, beside the median of the turns' ratios, and the smallest
of all its calls. On a machine whose speed other guests change within seconds the second pair says what the code does
when nobody disturbs it. A row is missed by its medians; "at best" marks those whose smallest calls reach the must.

The C side is tests/bench/bench_attention.c. One thread is timed by the processor's time of its process, so that
others on the machine count little; more threads by the clock. The peers' times include a Python call, about
4 microseconds. With --isa avx2 the peers are held to AVX2 (ATEN_CPU_CAPABILITY=avx2 and the like) as well;
ONNX Runtime has no such switch and is left out there.
"""
import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path

import onnx
import onnxruntime
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tables  # noqa: E402
from attention_cases import CASES, GRADIENTS, HALF, LONG, OUTPUT, WEIGHTS, ours  # noqa: E402
from timing import time_calls  # noqa: E402

AVX2 = 1.0, 1.2  # of each row where both sides have AVX2 and no more


def peer(case, seconds):
    B, Hq, Hkv, L, S, E, Ev, causal = case.shape
    grads = case.want == GRADIENTS
    q, k, v = (torch.randn(*s, dtype=getattr(torch, case.dtype), requires_grad=grads)
               for s in ((B, Hq, L, E), (B, Hkv, S, E), (B, Hkv, S, Ev)))
    grad = torch.randn(B, Hq, L, Ev)

    def fused():
        out = F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=Hq != Hkv)
        if grads:
            torch.autograd.grad(out, (q, k, v), grad)

    def unfused():
        torch.softmax(q @ k.transpose(-1, -2) / E**0.5, -1) @ v

    run = unfused if case.want == WEIGHTS else fused
    with torch.enable_grad() if grads else torch.inference_mode():
        return time_calls(run, seconds)


def onnx_session(case):
    """ONNX Runtime's multi-head attention; None where it has no such operator."""
    B, Hq, Hkv, L, S, E, Ev, causal = case.shape
    if case.want != OUTPUT or Hq != Hkv or case.precision != "fp32" or os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
        return None
    tensor = onnx.helper.make_tensor_value_info
    shapes = {"q": (B, L, Hq * E), "k": (B, S, Hq * E), "v": (B, S, Hq * Ev)}
    node = onnx.helper.make_node("MultiHeadAttention", list(shapes), ["o"], domain="com.microsoft", num_heads=Hq,
                                 unidirectional=causal)
    graph = onnx.helper.make_graph([node], "attention", [tensor(n, 1, s) for n, s in shapes.items()],
                                   [tensor("o", 1, (B, L, Hq * Ev))])
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {name: torch.randn(*shape).numpy() for name, shape in shapes.items()}
    return lambda: session.run(None, feed)


def measure(options, case, session):
    """One turn of each side: its median and its smallest milliseconds."""
    return (*peer(case, options.seconds), *(time_calls(session, options.seconds) if session else (0, 0)),
            *ours(case, options.threads, options.seconds, options.isa)[:2])


def judge(name, case, must, goal, turns):
    torch_ms, torch_least, onnx_ms, onnx_least, mine, least = zip(*turns)
    row = {"case": name, "must": must, "goal": goal, "ratio": statistics.median(t / m for t, m in zip(torch_ms, mine)),
           "smallest_ratio": min(torch_least) / min(least)}
    for side, medians, smallest in (("pytorch", torch_ms, torch_least), ("onnxruntime", onnx_ms, onnx_least),
                                    ("attn", mine, least)):
        row |= {f"{side}_ms": statistics.median(medians) or None, f"{side}_smallest_ms": min(smallest) or None}
    limit = case.microseconds / 1e3 or float("inf")
    row["missed"] = row["ratio"] < must or row["attn_ms"] >= limit
    row["missed_at_best"] = row["smallest_ratio"] < must or row["attn_smallest_ms"] >= limit
    return row


def line(row):
    def side(kind):
        return " ".join(f"{row[f'{peer}{kind}_ms']:9.4f}" if row[f"{peer}{kind}_ms"] else f"{'':9}"
                        for peer in ("pytorch", "onnxruntime", "attn"))

    return (f"{row['case']:27}{side('')} {row['ratio']:6.2f}x{side('_smallest')} {row['smallest_ratio']:6.2f}x"
            f"  {row['must']:4} {row['goal']:4}"
            + ("" if not row["missed"] else "  MISSED" if row["missed_at_best"] else "  MISSED, at best met"))


def growth(options):
    """Two threads beside one, and a row of 65,536 keys: memory, and time beside a quarter of the work."""
    rows = {}
    case = CASES["H8 L512 D64"]
    if len(os.sched_getaffinity(0)) >= 2:
        turns = [[ours(case, n, options.seconds, options.isa) for n in (1, 2)] for _ in range(options.turns)]
        rows["two_threads"] = statistics.median(one[0] / two[0] for one, two in turns)
        rows["two_threads_smallest"] = min(one[1] for one, _ in turns) / min(two[1] for _, two in turns)
        print(f"two threads, H8 L512 D64: {rows['two_threads']:.2f}x of one, smallest {rows['two_threads_smallest']:.2f}x "
              f"(must 1.85x)")
    pairs = [[ours(c, options.threads, 0, options.isa) for c in (HALF, LONG)] for _ in range(2)]
    megabytes = max(long[2] for _, long in pairs)
    short, long = (min(side[1] for side in both) for both in zip(*pairs))
    rows |= {"long_growth": long / short, "long_megabytes": megabytes}
    print(f"L 65,536 output only: {megabytes:.0f} MB in all (must 200), {long / short:.2f}x the time of L 32,768 "
          f"(must 4.2x)")
    return rows


def asked(options, best):
    """What this table is asked: by name the case and its bounds. Beside a better one: avx512 its outputs, avx2 all but
    reduced products."""
    table = options.isa or best
    for name, case in CASES.items():
        if options.only and options.only not in name:
            continue
        if table != best and (case.precision != "fp32" or (table == "avx512" and case.want != OUTPUT)):
            continue
        bounds = AVX2 if table == "avx2" else case.tiles if table == "amx" else case.floats
        yield name, case._replace(microseconds=case.microseconds if table == best else 0), *bounds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each turn")
    parser.add_argument("--turns", type=int, default=10)
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
    best = tables.available()[-1]
    if options.isa == best:
        options.isa = None  # asked for by name it computes even what it would leave to another
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    print(f"{model or platform.processor()}, {options.threads} thread(s), kernels {options.isa or best}; milliseconds of "
          f"{options.turns} turns; ratio: PyTorch / attn")
    print(f"{'':27}{'medians':>10}{'':28}{'smallest calls':>19}")
    sides = f"{'PyTorch':>9} {'ONNX Rt.':>9} {'attn':>9} {'ratio':>7}"
    print(f"{'case':27}{sides}{sides}  must goal")
    cases = list(asked(options, best))
    sessions = [onnx_session(case) for _, case, *_ in cases]
    rounds = [[measure(options, case, session) for (_, case, *_), session in zip(cases, sessions)]
              for _ in range(options.turns)]
    rows = [judge(*row, turns) for row, turns in zip(cases, zip(*rounds))]
    print(*map(line, rows), sep="\n", flush=True)
    os.sched_setaffinity(0, everything)
    table = {"processor": model, "threads": options.threads, "isa": options.isa or best, "cases": rows}
    if not options.only and table["isa"] == best:
        table |= growth(options)
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1) + "\n")
    return any(row["missed"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
