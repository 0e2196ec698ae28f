"""What makes weights of the biased scores of a row, in NumPy float64, from the papers: softmax (Vaswani et al. 2017,
eq. 1), sigmoid (Ramapuram et al. 2024), ReLU and its square (Wortsman et al. 2023; So et al. 2021), sparsemax
(Martins and Astudillo 2016) and entmax (Peters et al. 2019; Correia et al. 2019).

A hidden cell, of score -infinity, has the weight 0."""
import numpy as np

from . import tensors

POINTWISE = ("sigmoid", "relu", "relu_squared")
KINDS = ("softmax", *POINTWISE, "sparsemax", "entmax")


def normalizer_of(request):
    field = request.get("normalizer", "softmax")
    if isinstance(field, str):
        return {"kind": field}
    return field | ({"bias": [field["bias"]]} if isinstance(field.get("bias"), float) else {})


def softmax_rows(scores):
    """(weights, logsumexp) over the last axis; a row of -infinity alone gives zeros and -infinity."""
    if scores.shape[-1] == 0:
        return np.zeros(scores.shape), np.full(scores.shape[:-1], -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    shifted = np.exp(scores - np.where(np.isneginf(top), 0.0, top))
    total = shifted.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        logsumexp = (np.log(total) + np.where(np.isneginf(top), 0.0, top))[..., 0]
    return shifted / np.where(total == 0, 1.0, total), logsumexp


def pointwise(field, scores):
    """Weights [.., H, L, S] of kinds in which a weight depends on its own score alone."""
    if field["kind"] == "sigmoid":
        bias = tensors.read(field["bias"]) if field.get("bias") is not None else np.zeros(1)
        with np.errstate(over="ignore"):
            return 1 / (1 + np.exp(-(scores + bias[:, None, None])))
    seen = np.maximum(np.isfinite(scores).sum(-1, keepdims=True), 1)
    power = 2 if field["kind"] == "relu_squared" else 1
    divisor = field.get("divisor", "keys")
    return np.maximum(scores, 0) ** power / (seen if divisor == "keys" else divisor)


def sparsemax_rows(scores):
    """Martins and Astudillo (2016), algorithm 1: sort, and find how many scores are in the support."""
    z = -np.sort(-scores, axis=-1)
    k = np.arange(1, z.shape[-1] + 1)
    sums = np.cumsum(np.where(np.isneginf(z), 0, z), axis=-1)
    support = np.where(np.isneginf(z), False, 1 + k * np.where(np.isneginf(z), 0, z) > sums).sum(-1, keepdims=True)
    threshold = (np.take_along_axis(sums, np.maximum(support, 1) - 1, axis=-1) - 1) / np.maximum(support, 1)
    return np.maximum(scores - threshold, 0)


def entmax_rows(scores, alpha):
    """Peters et al. (2019), algorithm 2: bisection for the threshold of (alpha - 1) times the scores."""
    z = (alpha - 1) * scores
    top = np.where(np.isneginf(z.max(-1, keepdims=True)), 0.0, z.max(-1, keepdims=True))
    low, high = top - 1, top - float(scores.shape[-1]) ** (1 - alpha)
    for _ in range(200):
        middle = (low + high) / 2
        large = (np.maximum(z - middle, 0) ** (1 / (alpha - 1))).sum(-1, keepdims=True) >= 1
        low, high = np.where(large, middle, low), np.where(large, high, middle)
    return np.maximum(z - low, 0) ** (1 / (alpha - 1))


def weights_of(field, scores):
    """Weights of kinds whose rows sum to 1; a row of -infinity alone gives zeros."""
    if scores.shape[-1] == 0:
        return np.zeros(scores.shape)
    if field["kind"] == "sparsemax":
        return sparsemax_rows(scores)
    return entmax_rows(scores, field.get("alpha", 1.5))


def by_row(numbers, rows, has_heads):
    """Numbers [H], or broadcast to the logsumexp's shape, as [.., H, L, 1]; `rows` is [.., H, L]. One head: [L], too."""
    x = tensors.read(numbers)
    if x.ndim == 1 and len(x) == rows[-2]:
        x = x[:, None]
    elif x.ndim > 1 and not has_heads:
        x = x[..., None, :]
    while x.ndim > len(rows) and x.shape[0] == 1:
        x = x[0]
    return np.broadcast_to(x, rows)[..., None]


def with_sinks(function, sinks, scores):
    """function(scores) with a logit a row [.., H, L, 1] that takes mass and gives no value: rows sum to 1 less its mass."""
    if sinks is None:
        return function(scores)
    weights, *rest = function(np.concatenate((scores, sinks), axis=-1))
    return weights[..., :-1], *rest


def normalized(request, scores, sinks):
    """(weights, logsumexp) of the biased scores. The logsumexp of other kinds than softmax is null: -infinity here."""
    field = normalizer_of(request)
    none = np.full(scores.shape[:-1], -np.inf)
    if field["kind"] == "softmax":
        return with_sinks(softmax_rows, sinks, scores)
    if field["kind"] in POINTWISE:
        return pointwise(field, scores), none
    return with_sinks(lambda x: (weights_of(field, x),), sinks, scores)[0], none
