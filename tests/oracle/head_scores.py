"""Scores of heads (lib/include/attn/head_scores.h) by NumPy, from matrices of weights."""
import math

import numpy as np


def entropies(p):
    """The entropy of each row in nats."""
    return -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), axis=-1)


def mean_or_none(values):
    return float(np.mean(values)) if len(values) else None


def of_sequence(p, tokens, separators):
    """Scores of one sequence: p [L, S] weights; tokens None for cross attention, separators positions of keys or None. Visible
    keys have weights above 0."""
    L, S = p.shape
    rows = range(L)
    earlier = {i: [j for j in range(i) if tokens[j] == tokens[i]] for i in rows} if tokens is not None else {}
    seen = (p > 0).sum(1)
    h = entropies(p)
    return {
        "induction": mean_or_none([sum(p[i, j + 1] for j in js) for i, js in earlier.items() if js]),
        "duplicate_token": mean_or_none([sum(p[i, j] for j in js) for i, js in earlier.items() if js]),
        "previous_token": mean_or_none([p[i, i - 1] for i in rows if 0 < i <= S]),
        "current_token": mean_or_none([p[i, i] for i in rows if i < S]),
        "next_token": mean_or_none([p[i, i + 1] for i in rows if i + 1 < S]),
        "first_token": mean_or_none([p[i, 0] for i in rows if i > 0]),
        "separator": mean_or_none(p[:, separators].sum(1)) if separators else None,
        "entropy": mean_or_none(h),
        "normalized_entropy": mean_or_none([h[i] / math.log(seen[i]) for i in rows if seen[i] > 1]),
    }


def alike(p, q):
    """1 - the mean Jensen-Shannon divergence / ln 2 of the rows that both have; of a key that one lacks it has the weight 0."""
    rows, keys = min(len(p), len(q)), max(p.shape[1], q.shape[1])
    p, q = (np.pad(m[:rows], ((0, 0), (0, keys - m.shape[1]))) for m in (p, q))
    return 1 - float(np.mean(entropies((p + q) / 2) - (entropies(p) + entropies(q)) / 2)) / math.log(2)


def of_head(weights, tokens, separators):
    """The values of each score over sequences: weights a list of [L, S], tokens a list of ids or None."""
    each = [of_sequence(p, tokens and tokens[b], separators and separators[b]) for b, p in enumerate(weights)]
    values = {name: [one[name] for one in each if one[name] is not None] for name in each[0]}
    return values | {"positional": [alike(p, q) for p, q in zip(weights, weights[1:])]}


def mean_and_spread(values):
    """The mean and the sample standard deviation; None where there are too few values."""
    return [float(np.mean(values)) if values else None, float(np.std(values, ddof=1)) if len(values) > 1 else None]
