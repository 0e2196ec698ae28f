"""What the routes beside /v1/attention and /v1/masks answer: dry runs, POST /v1/positions, POST /v1/heatmaps.

Dry runs are given in part: what follows from the shapes alone, whatever the implementation needs.
"""
import numpy as np

from . import forms, heatmap, pages, positions, tensors
from .attention import Operands

PADDING = ("<pad>", "[PAD]")  # how labels name padding


def score_width(request, x):
    """Width of the product that makes a score."""
    kind, parameters = forms.score_of(request)
    wide = x.k.shape[-3] if is_mixed(request) else 1  # a mixed query has a part for each key head
    return {"additive": lambda: parameters["v"].size, "concat": lambda: parameters["v"].size,
            "general": lambda: x.k.shape[-1]}.get(kind, lambda: wide * x.q.shape[-1])()


def score_operations(request, x, cells):
    """A multiply-add counts two. A tanh score adds and has a tanh for each element, softcap a tanh for each score;
    the matrices of a form multiply each query and key once. A table of vectors by distance is multiplied by each
    query, or by the weights summed by distance, but a query table by the key of each score."""
    kind, _ = forms.score_of(request)
    width = score_width(request, x)
    entries = int(np.prod(x.places.batch, dtype=int))
    queries, keys = (entries * int(np.prod(t.shape[-3:-1])) for t in (x.q, x.k))
    per_query, per_key = {"additive": (width * x.q.shape[-1], width * x.k.shape[-1]),
                          "concat": (width * x.q.shape[-1], width * x.k.shape[-1]),
                          "general": (x.k.shape[-1] * x.q.shape[-1], 0)}.get(kind, (0, 0))
    each = width * (4 if kind in ("additive", "concat") else 2) + (request.get("softcap", 0) > 0)
    position = forms.position_of(request, scores=True)
    vectors = {n: tensors.shape_of(position[n])[-2:] for n in ("key_table", "value_table", "query_table") if position.get(n) is not None}
    per_query += sum(int(np.prod(shape)) for n, shape in vectors.items() if n != "query_table")
    if "query_table" in vectors:
        each += 2 * width
    H = x.q.shape[-3] if is_mixed(request) else 0  # each mixed query is a sum over the queries of all heads
    return cells * each + 2 * (queries * (per_query + H * x.q.shape[-1]) + keys * per_key)


def is_mixed(request):
    return (request.get("mix") or {}).get("logits") is not None


def value_heads(request, x):
    """How many value heads a head's weights are multiplied by: all of them if weights are mixed, those of its pair's output
    head if one is subtracted, which differ if grouped heads have different outputs; they have the widest group's."""
    H, Hkv, Hv = x.q.shape[-3], x.k.shape[-3], x.v.shape[-3]
    if request.get("subtract") is None:
        return 1 if forms.weight_mix(request, H) is None else Hv
    output = [h // 2 if request["subtract"]["pairs"] == "adjacent" else h % (H // 2) for h in range(H)]
    used = [g // (H // 2 // Hv) for g in output]
    return max(len(set(used[h:h + H // Hkv])) for h in range(0, H, H // Hkv))


def mix_operations(request, x, wanted):
    """Outputs are sums over the heads that they read. So are weights, whose cells are computed for each output head anew."""
    mix = forms.weight_mix(request, x.q.shape[-3])
    if mix is None:
        return 0
    reads = 2 if request.get("subtract") is not None else mix.shape[1]
    matrices = ("weights" in wanted) + ("weights_dropped" in wanted)
    rows = int(np.prod(x.places.batch, dtype=int)) * x.q.shape[-2] * len(mix) * reads
    return rows * (2 * x.v.shape[-1] + matrices * x.k.shape[-2] * (2 + 2 * score_width(request, x)))


def projection_operations(request):
    """A multiply-add of the linear layers counts two."""
    p = request.get("projections", {})
    query, key = request["query"], request.get("key", request["query"])
    rows = {n: int(np.prod(tensors.shape_of(x)[:-1])) for n, x in
            (("q", query), ("k", key), ("v", request.get("value", key)), ("o", query))}
    return sum(2 * rows[n] * int(np.prod(tensors.shape_of(p["w_" + n]))) for n in rows if "w_" + n in p)


def encoding_operations(request):
    """Each element of query, key and value that gets an encoding counts 32; cached rows have theirs."""
    kinds = [position["kind"] for position in forms.positions_of(request)]
    if not (request.get("projections", {}).get("add_positions") or "sinusoidal" in kinds or "learned" in kinds):
        return 0
    query, key = request["query"], request.get("key", request["query"])
    return 32 * sum(int(np.prod(tensors.shape_of(x))) for x in (query, key, request.get("value", key)))


def dry_run(request):
    """Shapes, cells, operations, bytes of the answer and parameters of an attention request. Beside it a
    recurrent layer of the same width: L D D multiply-adds a batch entry in L steps, where the scores take
    `score_operations` and every position is one step away."""
    request = forms.drawn(pages.gathered(request))
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
    shapes = {"output": output, "weights": list(weights), "logsumexp": list(rows)}
    wanted = request.get("return", ["output", "weights"] if cells <= 65536 else ["output"])
    return {"dry_run": {
        "shapes": {name: shape for name, shape in shapes.items() if name in wanted},
        "num_cells": cells,
        "num_operations": score_operations(request, x, cells) + 2 * cells * value_heads(request, x) * x.v.shape[-1]
        + projection_operations(request) + encoding_operations(request) + mix_operations(request, x, wanted),
        "bytes": {"with_weights": without + 4 * cells, "without_weights": without},
        "num_parameters": forms.count_parameters(request),
        "rnn": {"num_operations": int(np.prod(x.places.batch, dtype=int)) * L * width * width,
                "num_score_operations": cells * E, "path_length": L},
        "path_length": 1,
    }}


def absolute_tables(request):
    """Tables of absolute positions by name, one row a position."""
    kind, width = request["kind"], request["width"]
    if "axes" in request:
        at = np.stack([places_of(a) for a in request["axes"]], axis=-1)[:, positions.pair_axes(request["axes"])]
    else:
        at = places_of(request)[:, None]
    known, at = ~np.isnan(at), np.where(np.isnan(at), 0, at)
    length = 1 + np.max(at, where=known, initial=-1)
    if kind == "sinusoidal":
        return {"table": known * positions.sinusoidal(at[:, 0], width, request.get("layout", "interleaved"))}
    if kind == "learned":
        table = positions.learned(int(length), width, request["seed"], request.get("std", 0.02))
        return {"table": known * table[at[:, 0].astype(int)]}
    cosines, sines = positions.turns(request, at, width, length)
    return {"cosines": np.where(known, cosines, 1), "sines": np.where(known, sines, 0)}


def places_of(request, name="positions", length=None):
    """The positions of rows or keys, NaN for None."""
    if name in request:
        return np.array(request[name], float)
    return np.arange(request["length"] if length is None else length, dtype=float)


VECTORS = ("shaw", "disentangled")


def by_distance(request, distance):
    """What distances [L, S] get: biases [H, L, S], or vectors [L, S, E]."""
    if request["kind"] in VECTORS:
        table = tensors.read(request["key_table" if "key_table" in request else "query_table"])
        table = table[request.get("head", 0)] if table.ndim == 3 else table
        if request["kind"] == "shaw":
            return table[positions.clipped(table.T, distance)]
        return table[positions.disentangled_row(table.T, distance, request.get("max_distance"))[1]]
    return positions.bias(request, request.get("num_heads"), distance[None])


def position_tables(request):
    """(tables by name, curves by column, first distance or None) of POST /v1/positions."""
    if request["kind"] in ("sinusoidal", "learned", "rotary"):
        tables = absolute_tables(request)
        return tables, next(iter(tables.values())).T, None
    offset = 0 if "query_positions" in request else request.get("query_offset", 0)
    queries = places_of(request, "query_positions") + offset
    keys = places_of(request, "key_positions", request.get("num_keys", len(queries)))
    distance = keys - queries[:, None]
    known = ~np.isnan(distance)
    table = by_distance(request, np.where(known, distance, 0).astype(np.int64))
    vectors = request["kind"] in VECTORS
    table = np.where(known[..., None] if vectors else known, table, 0)
    L, S, first = len(queries), len(keys), 1 - len(queries) - offset
    row = by_distance(request, np.arange(first, first + (L + S - 1 if L else 0))[None])
    return {"table": table}, row[0].T if vectors else row[:, 0], first


def position_parameters(request):
    """How many numbers are learned, or given."""
    if request["kind"] == "learned":
        given = [p for p in request.get("positions", []) if p is not None]
        return (max(given, default=-1) + 1 if "positions" in request else request["length"]) * request["width"]
    return sum(int(np.prod(tensors.shape_of(request[n]))) for n in ("slopes", "table", "key_table", "query_table", "frequencies") if n in request)


def position_answer(request):
    if request.get("dry_run"):
        return {"dry_run": {"num_parameters": position_parameters(request)}}
    tables, columns, first = position_tables(request)
    answer = {name: tensors.nested(x) for name, x in tables.items()}
    if "dims" in request:
        span = {} if first is None or columns.shape[1] == 0 else {"distances": [first, first + columns.shape[1] - 1]}
        answer["curves"] = [{"dim": d, **span, "values": tensors.nested(columns[d])} for d in request["dims"]]
    return {**answer, "num_parameters": position_parameters(request)}


def heatmap_answer(request):
    """Heatmaps of given weights [L, S], [H, L, S] or [B, H, L, S] small enough to show each cell."""
    weights = tensors.read(request["weights"])
    labels = request.get("labels", {})
    grid = weights.reshape((1,) * (4 - weights.ndim) + weights.shape)
    heads, warnings = [], []
    for b, h in np.ndindex(*grid.shape[:2]):
        title = {"title": request["titles"][h]} if "titles" in request else {}
        heads.append({"batch": b, "head": h, **title, **one_head(grid[b, h])})
        if padding_mass(grid[b, h], labels) > 0:
            warnings.append({"code": "padding_mass", "pointer": "/labels/key"})
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
