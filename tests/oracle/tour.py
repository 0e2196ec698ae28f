"""What the routes beside /v1/attention and /v1/masks answer: dry runs, POST /v1/positions, POST /v1/heatmaps.

Dry runs are given in part: what follows from the shapes alone, whatever the implementation needs.
"""
import numpy as np

from . import forms, heatmap, positions, tensors
from .attention import Operands

PADDING = ("<pad>", "[PAD]")  # how labels name padding


def score_width(request, x):
    """Width of the product that makes a score."""
    kind, parameters = forms.score_of(request)
    return {"additive": lambda: parameters["v"].size, "concat": lambda: parameters["v"].size,
            "general": lambda: x.k.shape[-1]}.get(kind, lambda: x.q.shape[-1])()


def projection_operations(request):
    """A multiply-add of the linear layers counts two."""
    p = request.get("projections", {})
    query, key = request["query"], request.get("key", request["query"])
    rows = {n: int(np.prod(tensors.shape_of(x)[:-1])) for n, x in
            (("q", query), ("k", key), ("v", request.get("value", key)), ("o", query))}
    return sum(2 * rows[n] * int(np.prod(tensors.shape_of(p["w_" + n]))) for n in rows if "w_" + n in p)


def dry_run(request):
    """Shapes, cells, operations, bytes of the answer and parameters of an attention request. Beside it a
    recurrent layer of the same width: L D D multiply-adds a batch entry in L steps, where the scores take
    `score_operations` and every position is one step away."""
    x = Operands(request)
    weights = x.places.shape
    rows = weights[:-1]
    cells = int(np.prod(weights))
    output = list(tensors.shape_of(request["query"]))
    output[-1] = x.v.shape[-1] * (x.q.shape[-3] if x.layout == "BLD" else 1)
    if "w_o" in request.get("projections", {}):
        output[-1] = tensors.shape_of(request["projections"]["w_o"])[0]
    L, E = x.q.shape[-2:]
    width = tensors.shape_of(request["query"])[-1] if "projections" in request else x.q.shape[-3] * E
    without = 4 * int(np.prod(output))
    return {"dry_run": {
        "shapes": {"output": output, "weights": list(weights), "logsumexp": list(rows)},
        "cells": cells,
        "operations": 2 * cells * (score_width(request, x) + x.v.shape[-1]) + projection_operations(request),
        "bytes": {"with_weights": without + 4 * cells, "without_weights": without},
        "parameters": forms.count_parameters(request),
        "rnn": {"operations": int(np.prod(x.places.batch, dtype=int)) * L * width * width,
                "score_operations": cells * E, "path_length": L},
        "path_length": 1,
    }}


def position_table(request):
    """(table, parameters) of POST /v1/positions for absolute positions."""
    kind, length, width = request["kind"], request["length"], request["width"]
    if kind == "sinusoidal":
        return positions.sinusoidal(length, width, request.get("layout", "interleaved")), 0
    if kind == "learned":
        return positions.learned(length, width, request["seed"]), length * width
    raise ValueError(f"no table for {kind}")


def curves(table, dims):
    return [{"dim": d, "values": tensors.nested(table[:, d])} for d in dims]


def position_answer(request):
    if request.get("dry_run"):
        count = request["length"] * request["width"] if request["kind"] == "learned" else 0
        return {"dry_run": {"parameters": count}}
    table, parameters = position_table(request)
    answer = {"table": tensors.nested(table)}
    if "dims" in request:
        answer["curves"] = curves(table, request["dims"])
    return {**answer, "parameters": parameters}


def heatmap_answer(request):
    """Heatmaps of given weights [L, S], [H, L, S] or [B, H, L, S] small enough to show each cell."""
    weights = tensors.read(request["weights"])
    labels = request.get("labels", {})
    grid = weights.reshape((1,) * (4 - weights.ndim) + weights.shape)
    heads, warnings = [], []
    for b, h in np.ndindex(*grid.shape[:2]):
        heads.append({"batch": b, "head": h, **one_head(grid[b, h])})
        if padding_mass(grid[b, h], labels) > 0:
            warnings.append({"code": "padding_mass", "where": "labels/key"})
    answer = {"heads": heads, **({"labels": labels} if labels else {}),
              "pool": "max", "transform": "linear", "encoding": "json"}
    return {**answer, **({"warnings": warnings} if warnings else {})}


def one_head(weights):
    whole = heatmap.one(weights, np.ones(weights.shape, bool), (0, weights.shape[0]), (0, weights.shape[1]), (1, 1))
    return {"shape": whole["shape"], "origin": [0, 0], "step": [1, 1],
            "range": [float(weights.min()), float(weights.max())], "max": tensors.nested(whole["max"]),
            "hidden": [], "row_entropy": tensors.nested(whole["row_entropy"]),
            "received": tensors.nested(whole["received"])}


def padding_mass(weights, labels):
    """What words give to the keys that are named as padding."""
    words = [i for i in range(weights.shape[0]) if labels.get("query", [""] * (i + 1))[i] not in PADDING]
    return sum(weights[words, j].sum() for j, name in enumerate(labels.get("key", [])) if name in PADDING)
