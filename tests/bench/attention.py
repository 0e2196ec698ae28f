#!/usr/bin/env python3
"""Attention beside PyTorch and ONNX Runtime in the same run: pinned to the same cores, turn by turn, medians, ratios.

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
import subprocess
import sys
import time
from pathlib import Path

import onnx
import onnxruntime
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tables  # noqa: E402

DRIVER = Path(os.environ.get("BUILD", "build")) / "tests" / "bench" / "bench_attention"
OUTPUT, WEIGHTS, GRADIENTS = 1, 3, 257  # what is asked for
# name: B, Hq, Hkv, L, S, E, Ev, causal, want; the ratio PyTorch / ours that must be reached, and the goal
CASES = {
    "H8 L128 D64": ((1, 8, 8, 128, 128, 64, 64, 0, OUTPUT), 1.15, 1.35),
    "H8 L512 D64": ((1, 8, 8, 512, 512, 64, 64, 0, OUTPUT), 1.15, 1.35),
    "H8 L2048 D64": ((1, 8, 8, 2048, 2048, 64, 64, 0, OUTPUT), 1.15, 1.35),
    "H8 L2048 D128": ((1, 8, 8, 2048, 2048, 128, 128, 0, OUTPUT), 1.15, 1.35),
    "H8 L2048 D64 causal": ((1, 8, 8, 2048, 2048, 64, 64, 1, OUTPUT), 1.15, 1.35),
    "H12 L1024 D64 with weights": ((1, 12, 12, 1024, 1024, 64, 64, 0, WEIGHTS), 4, 8),
    "H8 L2048 D64 with weights": ((1, 8, 8, 2048, 2048, 64, 64, 0, WEIGHTS), 4, 8),
    "H8 L512 D64 with gradients": ((1, 8, 8, 512, 512, 64, 64, 0, GRADIENTS), 1.5, 2.5),
    "H32 L1 S4096 D128 decode": ((1, 32, 32, 1, 4096, 128, 128, 0, OUTPUT), 1.4, 2.5),
    "H32/8 L1 S4096 D128 decode": ((1, 32, 8, 1, 4096, 128, 128, 0, OUTPUT), 1.4, 2.5),
    "H1 L16 D64": ((1, 1, 1, 16, 16, 64, 64, 0, OUTPUT), 1.15, 1.35),
}
AVX2 = 1.0, 1.2  # must and goal of each row where both sides have AVX2 and no more
TILES = {"H8 L128 D64": (1.3, 2.5), "H8 L512 D64": (1.8, 2.5), "H8 L2048 D64": (1.8, 2.5), "H8 L2048 D128": (1.8, 2.5),
         "H8 L2048 D64 causal": (1.8, 3)}  # of rows that the matrix unit computes
LONG = (1, 1, 1, 65536, 65536, 64, 64, 0, OUTPUT)


def ours(case, threads, seconds, isa):
    """Median and smallest milliseconds, peak megabytes."""
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
    with torch.enable_grad() if grads else torch.inference_mode():
        return time_median(run, seconds)


def time_median(run, seconds):
    """Milliseconds of a call: of this process's processor time where one thread works."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times = []
    run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = clock()
        run()
        times.append(clock() - start)
    return 1e3 * statistics.median(times)


def onnx_session(case):
    """ONNX Runtime's multi-head attention; None where it has no such operator."""
    B, Hq, Hkv, L, S, E, Ev, causal, want = case
    if want != OUTPUT or Hq != Hkv or onnx_held():
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


def onnx_held():
    return os.environ.get("ATEN_CPU_CAPABILITY") == "avx2"


def compare(options, name, case, must, goal):
    session = onnx_session(case)
    turns = [(peer(case, options.seconds), time_median(session, options.seconds) if session else 0,
              ours(case, options.threads, options.seconds, options.isa)[0]) for _ in range(options.turns)]
    torch_ms, onnx_ms, mine = (statistics.median(side) for side in zip(*turns))
    ratio = statistics.median(t / m for t, _, m in turns)
    row = {"case": name, "pytorch_ms": torch_ms, "onnxruntime_ms": onnx_ms or None, "attn_ms": mine, "ratio": ratio,
           "onnxruntime_ratio": onnx_ms / mine if session else None, "must": must, "goal": goal, "missed": ratio < must}
    other = f"{onnx_ms:10.4f} {onnx_ms / mine:6.2f}x" if session else f"{'':10} {'':7}"
    print(f"{name:28} {torch_ms:10.4f} {other} {mine:10.4f} {ratio:6.2f}x  {must:4} {goal:4}"
          f"{'  MISSED' if row['missed'] else ''}", flush=True)
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
    (short, *_), (long, _, megabytes) = (ours(c, options.threads, 0, options.isa) for c in (half, LONG))
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
          f"medians of {options.turns} turns; ratios: a peer's time / attn's")
    print(f"{'case':28} {'PyTorch':>10} {'ONNX Rt.':>10} {'ratio':>7} {'attn':>10} {'ratio':>7}  must goal")
    chosen = {n: c for n, c in CASES.items() if not options.only or options.only in n}
    isa = options.isa or tables.available()[-1]
    rows = [compare(options, name, case, *(AVX2 if isa == "avx2" else TILES.get(name, bounds) if isa == "amx" else bounds))
            for name, (case, *bounds) in chosen.items()]
    os.sched_setaffinity(0, everything)
    table = {"processor": model, "threads": options.threads, "isa": options.isa, "cases": rows}
    if not options.only:
        table |= growth(options)
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1) + "\n")
    return any(row["missed"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
