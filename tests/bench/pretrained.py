#!/usr/bin/env python3
"""Known models beside those who run them too, on one thread, all pinned to one core: SmolLM2 and MiniLM, as `make models`
has fetched them. Each side is a process that answers one pass at a time (bench_pretrained.c, pretrained_peer.py), and the
turns of the sides alternate, so that neighbours of a busy machine hit all of them. Times are processor time; a ratio is the
median of the ratios within a turn. A side that cannot be had is named.

What is compared: our passes keep queries, keys and statistics of rows of every layer, from which every weight of every head
can be read; `eager` returns all weights, the others none. All compute the logits of the last token alone."""
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("BUILD", "build"))
PEERS = Path(os.environ["PEERS"])
DRIVER = BUILD / "tests" / "bench" / "bench_pretrained"
TURNS = int(os.environ.get("TURNS", 5))
LLAMA = PEERS / "npm" / "node_modules" / "@node-llama-cpp" / "linux-x64" / "bins" / "linux-x64"

# file, peers, lines that are asked, peers that a row is judged by with the ratio that it must reach
MODELS = [
    ("smollm2.gguf", ("sdpa", "eager", "llama"),
     [("prefill 128", {"sdpa": 1.3, "eager": 1.3}), ("prefill 512", {"sdpa": 1.3, "eager": 1.3}),
      ("prefill 2048", {"sdpa": 1.3, "eager": 3}), ("decode 128 32", {"llama": 1})]),
    ("minilm", ("bert-sdpa", "bert-eager", "ort", "openvino"),
     [("prefill 15", {"ort": 1.6, "openvino": 1.6, "bert-sdpa": 1.6, "bert-eager": 2.5}),
      ("prefill 106", {"ort": 1.6, "openvino": 1.6, "bert-sdpa": 1.6, "bert-eager": 2.5}),
      ("prefill 392", {"ort": 1.6, "openvino": 1.6, "bert-sdpa": 1.6, "bert-eager": 2.5})]),
]


class Side:
    """A process that answers lines."""

    def __init__(self, command):
        self.said = tempfile.TemporaryFile("w+")  # a pipe that nobody reads would fill
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True)

    def ask(self, line):
        try:
            print(line, file=self.process.stdin, flush=True)
            while True:
                answer = self.process.stdout.readline()
                if not answer:
                    return None
                try:
                    return float(answer)
                except ValueError:  # what a library says
                    continue
        except BrokenPipeError:
            return None

    def pin(self, core):
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})

    def end(self):
        self.process.stdin.close()
        self.process.kill()
        return self.process.wait()


def command_of(side, path):
    if side == "attn":
        return [str(DRIVER), str(path)]
    return [sys.executable, str(HERE / "pretrained_peer.py"), side, str(path), *([str(LLAMA)] if side == "llama" else [])]


def speed(line, milliseconds):
    """Tokens a second; milliseconds for passes of texts that are shorter than a second."""
    what, n, *_ = line.split()
    return f"{1e3 / milliseconds * (int(n) if what == 'prefill' else 1):.4g}"


def start(path, peers):
    sides, missing = {}, []
    for name, side in {name: Side(command_of(name, path)) for name in ("attn", *peers)}.items():
        if side.ask("prefill 8") is None:
            side.said.seek(0)
            said = side.said.read().strip().splitlines()
            if name == "attn":
                sys.exit(said[-1])
            missing.append(f"{name}: {said[-1] if said else 'ended'}")
        else:
            sides[name] = side
    for side in sides.values():
        side.pin(max(os.sched_getaffinity(0)))
    return sides, missing


def row(sides, line, musts):
    answers = {name: side.ask(line) for name, side in sides.items()}  # warm
    able = [name for name, answer in answers.items() if answer is not None]
    turns = [{name: sides[name].ask(line) for name in (able if t % 2 else able[::-1])} for t in range(TURNS)]
    cells, missed = [], 0
    for name in sides:
        if name not in able:
            cells.append("")
            continue
        text = speed(line, statistics.median(turn[name] for turn in turns))
        if name != "attn":
            ratio = statistics.median(turn[name] / turn["attn"] for turn in turns)
            must = musts.get(name)
            missed += must is not None and ratio < must
            text += f", {ratio:.2f}x" + (f" (must {must}x{', missed' if ratio < must else ''})" if must else "")
        cells.append(text)
    print(f"| {line} | " + " | ".join(cells) + " |", flush=True)
    return missed


def measure(path, peers, lines):
    sides, missing = start(path, peers)
    print(f"\n| {path.name}, tokens/s | " + " | ".join(sides) + " |\n|---|" + "---|" * len(sides), flush=True)
    missed = sum(row(sides, line, musts) for line, musts in lines)
    print(f"\nMost resident of attn: {sides['attn'].ask('memory') / 1e3:.0f} MB")
    for text in missing:
        print(f"not run: {text}")
    for side in sides.values():
        side.end()
    return missed


def main():
    folder, missed = BUILD / "models", 0
    os.environ["OMP_NUM_THREADS"] = "1"
    for name, peers, lines in MODELS:
        if (folder / name).exists():
            missed += measure(folder / name, peers, lines)
        else:
            print(f"not run: {name} is not in {folder}; `make models` fetches it")
    print(f"\n{missed} of the musts missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
