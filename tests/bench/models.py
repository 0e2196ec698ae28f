#!/usr/bin/env python3
"""The textbook's AttentionSeq2Seq beside PyTorch in the same run: one thread, both pinned to one core, turn by turn,
medians of processor time. A step is forward, loss, backward and Adam (torch.optim.Adam as it is by default, and with
fused=True), gradients zeroed. Each turn of a side is a process of its own, whose most resident bytes are printed too.
The C side is tests/bench/bench_models.c."""
import math
import os
import resource
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from model_cases import CASES, ask, ours

TURNS, ROUNDS = 3, 15


class Heads(nn.Module):
    def __init__(self, D, H, dropout):
        super().__init__()
        self.H, self.dropout = H, nn.Dropout(dropout)
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(D, D) for _ in range(4))

    def split(self, x):
        return x.view(x.size(0), -1, self.H, x.size(-1) // self.H).transpose(1, 2)

    def forward(self, x, memory):
        q, k, v = self.split(self.W_q(x)), self.split(self.W_k(memory)), self.split(self.W_v(memory))
        w = self.dropout(F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1))
        return self.W_o((w @ v).transpose(1, 2).contiguous().view(x.shape))


class AttentionSeq2Seq(nn.Module):
    def __init__(self, source, target, D, H, layers, dropout=0.1):
        super().__init__()
        between = dropout if layers > 1 else 0
        self.D, self.dropout = D, nn.Dropout(dropout)
        self.src_embedding, self.tgt_embedding = nn.Embedding(source, D), nn.Embedding(target, D)
        angle = torch.arange(5000.0)[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
        self.register_buffer("pe", torch.stack([angle.sin(), angle.cos()], -1).reshape(1, 5000, D))
        self.encoder_lstm = nn.LSTM(D, D // 2, layers, batch_first=True, bidirectional=True, dropout=between)
        self.encoder_attention, self.encoder_norm = Heads(D, H, dropout), nn.LayerNorm(D)
        self.decoder_lstm = nn.LSTM(D, D, layers, batch_first=True, dropout=between)
        self.cross_attention, self.cross_norm = Heads(D, H, dropout), nn.LayerNorm(D)
        self.output_projection = nn.Linear(D, target)

    def embed(self, table, ids):
        return self.dropout(table(ids) * math.sqrt(self.D) + self.pe[:, :ids.size(1)])

    def forward(self, source, target):
        x, _ = self.encoder_lstm(self.embed(self.src_embedding, source))
        x = self.encoder_norm(x + self.dropout(self.encoder_attention(x, x)))
        y, _ = self.decoder_lstm(self.embed(self.tgt_embedding, target))
        return self.output_projection(self.cross_norm(y + self.dropout(self.cross_attention(y, x))))


def timed(run):
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times) * 1e3


def peer(case):
    """What a process of its own prints: milliseconds of a forward pass, of gradients, of a step with the default Adam
    and with the fused one; most resident kilobytes before the fused one."""
    D, layers, B, S, T, source, target = case
    model = AttentionSeq2Seq(source, target, D, 8, layers)
    x, y = torch.randint(3, source, (B, S)), torch.randint(3, target, (B, T))

    def forward():
        with torch.no_grad():
            model.eval()(x, y)

    def gradients():
        model.train().zero_grad(set_to_none=False)
        F.cross_entropy(model(x, y).reshape(-1, target), y.reshape(-1)).backward()

    def step(adam):
        gradients()
        adam.step()

    gradients()
    plain = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = [timed(forward), timed(gradients), timed(lambda: step(plain))]
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    del plain
    fused = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    print(*times, timed(lambda: step(fused)), resident)


def measure(name, case):
    """One turn after another; the median of each number of each side."""
    turns = [(ask([sys.executable, __file__, name]), ours(case, ROUNDS)) for _ in range(TURNS)]
    (forward, gradients, plain, fused, resident), (*ours, own) = (
        [statistics.median(column) for column in zip(*(t[side] for t in turns))] for side in (0, 1))
    for what, theirs, mine in (("forward", forward, ours[0]), ("forward and backward", gradients, ours[1]),
                               ("step, Adam", plain, ours[2]), ("step, PyTorch's Adam fused", fused, ours[2])):
        print(f"| {name} | {what} | {theirs:.1f} | {mine:.1f} | {theirs / mine:.2f}x |")
    print(f"| {name} | most resident, MB | {resident / 1024:.0f} | {own / 1024:.0f} | {resident / own:.2f}x |")


def main():
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if len(sys.argv) > 1:
        peer(CASES[sys.argv[1]])
        return
    print("| model | | PyTorch | attn | PyTorch / attn |\n|---|---|---|---|---|")
    for name, case in CASES.items():
        measure(name, case)


if __name__ == "__main__":
    main()
