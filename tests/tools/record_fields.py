"""The requests of tests/tools/record that use every field: bodies which together hold all fields of each route, as every
media type and with one value after the other wrong; query parameters likewise; runs that are imported, looked at by all
routes and ordered as jobs; models of each kind; jobs of each kind."""
import copy
import json

import numpy as np
import test_api_jobs
import test_api_models
import test_captures_bad
from api_client import normal
from oracle import captures
from oracle.random_captures import capture
from record_requests import (ANALYSES, ATTENTION, CURVES, HEADS, HEATMAPS, INFER, JOBS, KINDS, MASKS, MODELS, POSITIONS, TINY, Ask, arrays, family, infer,
                             labels)

RUNS = "/v1/runs"
PICTURE = {"title": "Weights\nof two heads", "x_label": "key", "y_label": "query", "value_label": "weight", "annotate": ".2f",
           "colormap": "viridis", "vmin": 0, "vmax": 1, "colorbar": True, "tick_rotation": 45, "columns": 2, "per_panel": 1, "transpose": False,
           "width": 500, "height": 300, "aspect": "auto", "theme": "dark", "scale": 2}
HEAT = {"heads": [0, 1], "batch": [0], "rows": [0, 3], "cols": [0, 4], "max_cells": 30, "pool": "both", "encoding": "u8", "transform": "sqrt",
        "of": "weights", "top_k": 2, "top_p": 0.5}
QKV = {"query": normal(2, 2, 3, 4, seed=1), "key": normal(2, 2, 4, 4, seed=2), "value": normal(2, 2, 4, 2, seed=3)}
ROW = {"query": normal(3, 4, seed=1), "key": normal(4, 4, seed=2), "value": normal(4, 4, seed=3)}
WEIGHTS = [[[0.6, 0.4, 0], [0.2, 0.7, 0.1], [0, 0.3, 0.7]], [[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]]
THREE = {"query": ["the", "cat", "."], "key": ["the", "cat", "."]}

ATTENTIONS = [
    QKV | {"attn_mask": [[True, True, False, True]] * 3, "is_causal": True, "window": [2, 1], "query_offset": "end", "key_lengths": [4, 3], "softcap": 2.5,
           "scale": 0.5, "sinks": [0.1, -0.2], "enable_gqa": True, "layout": "BHLE", "precision": "fp32", "labels": labels(3, 4), "decimals": 4,
           "return": ["output", "weights", "logsumexp", "scores", "heatmap", "inputs", "weighted_values", "row_sums"], "score_stage": ["raw", "biased", "probs"],
           "full": True, "allow_nonfinite": True, "explain": True, "verify": 4, "timeout_ms": 60000, "analysis": ["entropy", "sink"], "heatmap": HEAT},
    QKV | {"past_key": normal(2, 2, 2, 4, seed=4), "past_value": normal(2, 2, 2, 2, seed=5), "token_ids": [[5, 6, 7, 8, 9, 0]] * 2, "pad_id": 0, "scale": normal(1, 3, seed=7),
           "attn_bias": normal(2, 1, 3, 6, seed=6), "mask_fill": {"value": -5, "mode": "replace"}, "position": {"kind": "rotary", "layout": "halves", "base": 100, "dims": 2},
           "return": ["output", "present", "weights_dropped"], "dropout_p": 0.2, "seed": 3, "store": True, "axes": ["batch", "head"]},
    ROW | {"key_padding_mask": [True, True, True, False], "key_padding_semantics": "keep", "grad_output": normal(3, 4, seed=7), "average_attn_weights": True,
           "projections": {"num_heads": 2, "num_kv_heads": 2, "w_q": normal(4, 4, seed=8), "b_q": normal(4, seed=9), "w_k": normal(4, 4, seed=10), "b_k": normal(4, seed=11),
                           "w_v": normal(4, 4, seed=12), "b_v": normal(4, seed=13), "w_o": normal(4, 4, seed=14), "b_o": normal(4, seed=15), "add_positions": True}},
    ROW | {"projections": {"num_heads": 2, "seed": 4}, "position": {"kind": "learned", "table": normal(6, 4, seed=5)}, "attn_mask": [[0, 1, 1, 1]] * 3, "mask_semantics": "keep"},
    QKV | {"score": {"kind": "additive", "w_q": normal(3, 4, seed=4), "w_k": normal(3, 4, seed=5), "v": normal(3, seed=6), "b": normal(3, seed=7)},
           "position": {"kind": "alibi", "slopes": [0.5, 0.25]}, "grad_output": normal(2, 2, 3, 2, seed=8), "grad_logsumexp": normal(2, 2, 3, seed=9), "return": ["gradients", "gradients.scores"]},
    QKV | {"score": {"kind": "general", "w": normal(4, 4, seed=4)}, "position": {"kind": "t5", "table": normal(8, 2, seed=5), "max_distance": 20, "bidirectional": False}},
    QKV | {"score": {"kind": "concat", "w": normal(3, 8, seed=4), "v": normal(3, seed=5)}, "position": {"kind": "relative", "table": normal(2, 5, seed=6)}},
    QKV | {"position": {"kind": "shaw", "key_table": normal(5, 4, seed=4), "value_table": normal(5, 2, seed=5)}, "pattern": {"kind": "strided", "stride": 2, "local": 1}},
    QKV | {"position": {"kind": "disentangled", "key_table": normal(2, 8, 4, seed=4), "query_table": normal(8, 4, seed=5), "max_distance": 9}},
    QKV | {"pattern": {"kind": "global", "num_keys": 1, "local": 1}}, QKV | {"pattern": {"kind": "block", "size": 2}},
    ROW | {"position": {"kind": "sinusoidal", "layout": "halves", "dropout_p": 0.2, "seed": 3}, "layout": "BLD", "num_heads": 2, "num_kv_heads": 1,
           "query": normal(1, 3, 8, seed=1), "key": normal(1, 4, 4, seed=2), "value": normal(1, 4, 6, seed=3), "pattern": {"kind": "local", "radius": 1}},
    {"query": {"shape": [1, 2, 4, 8], "random": "uniform", "seed": 5, "dtype": "float64"}, "key": {"shape": [1, 2, 4, 8], "fill": "eye"},
     "value": {"shape": [1, 2, 4, 3], "data": normal(24, seed=2)}, "heatmap": {"of": "value_norm"}, "figure": PICTURE},
    {"query": normal(3, 4, seed=1), "decimals": 2, "dry_run": True, "store": True},
]
BODIES = {
    ATTENTION: ATTENTIONS,
    MASKS: [{"masks": [{"kind": "causal"}, {"kind": "window", "window": [1, 1]}, {"kind": "pattern", "pattern": {"kind": "block", "size": 2}},
                       {"kind": "padding", "token_ids": [[5, 6, 0]], "pad_id": 0}, {"kind": "padding", "key_lengths": [2]},
                       {"kind": "padding", "key_padding_mask": [[True, True, False]], "key_padding_semantics": "keep"},
                       {"kind": "values", "attn_mask": [[1, 0, 1]] * 3, "mask_semantics": "keep"}],
             "shape": [1, 3, 3], "query_offset": 1, "combine": "and", "as": "additive", "mask_fill": {"value": -4, "mode": "replace"}, "full": True,
             "labels": THREE, "figure": PICTURE, "timeout_ms": 60000},
            {"masks": [{"kind": "causal"}], "token_ids": [[5, 6, 0], [7, 0, 0]], "pad_id": 0, "as": "hide_numbers"},
            {"masks": [{"kind": "causal"}], "against": [{"kind": "window", "window": [1, 0]}], "shape": [3, 3], "as": "difference"},
            {"masks": [{"kind": "causal"}], "shape": [2, 3, 3], "as": "keep_numbers"}, {"masks": [{"kind": "causal"}], "shape": [4, 4], "dry_run": True}],
    POSITIONS: [{"kind": "sinusoidal", "length": 4, "width": 6, "layout": "halves", "dims": [0, 3], "decimals": 4, "full": True, "figure": PICTURE, "timeout_ms": 60000},
                {"kind": "learned", "length": 4, "width": 3, "seed": 3, "std": 0.5}, {"kind": "rotary", "length": 4, "width": 4, "base": 50},
                {"kind": "alibi", "length": 3, "num_keys": 4, "query_offset": 1, "num_heads": 2}, {"kind": "alibi", "length": 3, "slopes": [0.5, 0.1]},
                {"kind": "t5", "length": 3, "num_keys": 4, "query_offset": -1, "table": normal(8, 2, seed=1), "max_distance": 20, "bidirectional": False},
                {"kind": "relative", "length": 3, "num_keys": 4, "table": normal(2, 5, seed=1)}, {"kind": "shaw", "length": 3, "key_table": normal(5, 3, seed=1)},
                {"kind": "sinusoidal", "length": 4, "width": 6, "dry_run": True}],
    HEATMAPS: [{"weights": WEIGHTS, "labels": THREE, "titles": ["one", "two"], "heatmap": {k: v for k, v in HEAT.items() if k not in ("batch", "cols")}, "figure": PICTURE,
                "decimals": 3, "timeout_ms": 60000}, {"weights": WEIGHTS, "heatmap": {"heads": "mean", "encoding": "u8", "transform": "log", "pool": "mean"}},
               {"weights": WEIGHTS, "dry_run": True}],
    ANALYSES: [{"weights": WEIGHTS, "other": WEIGHTS[::-1], "analysis": "all", "is_causal": True, "query_offset": 0, "labels": THREE, "ids": {"query": [4, 5, 6], "key": [4, 5, 6]},
                "classes": [{"name": "nouns", "keys": [1]}], "segments": {"query": [0, 0, 1], "key": [0, 0, 1]}, "radius": 1, "top_k": 2,
                "heatmap": {"heads": "mean"}, "figure": PICTURE, "decimals": 4, "timeout_ms": 60000},
               {"weights": [WEIGHTS], "grad_output": normal(1, 2, 3, 2, seed=1), "value": normal(1, 2, 3, 2, seed=2), "analysis": ["gradient", "entropy"],
                "attn_mask": [[1, 1, 0], [1, 1, 1], [1, 1, 1]], "mask_semantics": "keep", "key_lengths": [3], "window": [2, 2]},
               {"weights": [[WEIGHTS], [WEIGHTS]], "analysis": ["rollout"], "pattern": {"kind": "local", "radius": 2}},
               {"weights": WEIGHTS, "key_padding_mask": [True, True, False], "key_padding_semantics": "keep", "analysis": ["entropy", "pairs"]},
               {"weights": WEIGHTS, "token_ids": [7, 8, 0], "pad_id": 0, "analysis": "diagnoses"}, {"weights": WEIGHTS, "dry_run": True}],
    CURVES: [{"values": normal(3, 5, seed=1), "x": [1, 2, 4, 8, 9], "names": ["a", "b", "c"], "titles": ["one"], "markers": False,
              "figure": PICTURE | {"per_panel": 3, "height": 500}, "decimals": 3, "full": True, "timeout_ms": 60000}],
}
MEDIA = ("json", "text", "csv", "npy", "tensors", "svg", "png", "events")


def without_picture(body):
    return {k: v for k, v in body.items() if k != "figure"}


@family("spread")
def every_medium(r):
    for path, bodies in BODIES.items():
        for body in bodies:
            for accept in MEDIA:
                yield Ask(path, body if accept in ("svg", "png") else without_picture(body), accept)
            yield Ask(path, without_picture(body) | {"dry_run": True, "store": True} if path == ATTENTION else without_picture(body) | {"dry_run": True}, "text")


WRONG = {bool: ("yes", 2), int: ("7", -1, 1e300, 0.5), float: ("7", -1, 1e300, True), str: ("sideways", 5, ""), list: ({}, [], "some"), dict: ([], "some", {}, {"kind": "sideways"})}


def places(value, depth=3):
    """(holder, key) of every member, and of the first item of lists, whose members are not deeper than this."""
    keys = list(value) if isinstance(value, dict) else [0] if isinstance(value, list) and value and depth else []
    for key in keys:
        yield value, key
        yield from places(value[key], depth - 1)


def each_wrong(body, fixed=(), null=True):
    """Copies of the body, each with one value of another type, out of its range, not among its words, null, or with a name
    that is misspelt. Members that are `fixed` stay."""
    count = len(list(places(body)))
    for n in range(count):
        holder, key = list(places(body))[n]
        if holder is body and key in fixed:
            continue
        for wrong in (*WRONG.get(type(holder[key]), ()), *((None,) if null else ())):
            other = copy.deepcopy(body)
            inside, key = list(places(other))[n]
            inside[key] = wrong
            yield other
        if isinstance(key, str):
            other = copy.deepcopy(body)
            inside, key = list(places(other))[n]
            inside[key + "x"] = inside.pop(key)
            yield other


@family("spread")
def every_field_wrong(r):
    for path, bodies in BODIES.items():
        for body in bodies:
            for wrong in each_wrong(body):
                yield Ask(path, wrong)


@family("spread")
def every_input_of_inference(r):
    own = {k: np.asarray(v, np.float32) for k, v in ATTENTIONS[0].items() if k in ("query", "key", "value", "sinks")}
    own |= {"attn_mask": np.array(ATTENTIONS[0]["attn_mask"]), "key_padding_mask": np.ones((2, 4), bool), "key_lengths": np.array([4, 3]),
            "attn_bias": np.asarray(normal(2, 1, 3, 4, seed=6), np.float32)}
    past = {k: np.asarray(v, np.float32) for k, v in ATTENTIONS[1].items() if k in ("query", "key", "value", "past_key", "past_value")}
    heads = {k: np.asarray(v, np.float32) for k, v in ATTENTIONS[2]["projections"].items() if k[:2] in ("w_", "b_")}
    heads |= arrays({k: [ROW[k]] for k in ("query", "key", "value")})
    parameters = {"is_causal": True, "scale": 0.5, "softcap": 2.0, "window": "[2,1]", "query_offset": 1, "decimals": 4, "key_padding_semantics": "keep", "num_heads": 2}
    for binary in (False, True):
        for path, given in ((INFER, own), (INFER, past), (HEADS, heads)):
            more = {} if path == INFER else {"num_heads": 2}
            for names in ([], *([name] for name in given if name != "query")):
                some = {k: v for k, v in given.items() if k not in names}
                yield infer(some, ["output", "weights", "logsumexp"], more | {"key_padding_semantics": "keep"} if "key_padding_mask" in some else more, binary, binary, path)
            for name in given:
                yield infer(given | {name: given[name].reshape(-1)[:-1]}, ["output"], more, binary, binary, path)
                yield infer(given | {name: given[name].astype(np.float16)}, ["output"], more, binary, binary, path)
    for name, value in parameters.items():
        for x in (value, "sideways", -1, 1e300, [1], None):
            yield infer(arrays(QKV), ["output"], {name: x})
    whole = json.loads(infer(arrays(TINY), ["output"], {"scale": 1.0}).body)
    for wrong in each_wrong(whole):
        yield Ask(INFER, wrong)


# --- stored runs: all looks, with each parameter ---

LOOKS = {
    "": {},
    "weights": {"batch": "0", "head": "0", "heads": "all", "rows": "0:2", "cols": "0:2", "stage": "raw", "hidden": "true", "decimals": "3", "full": "true"},
    "tiles": {"batch": "0", "head": "0", "level": "0", "y": "0", "x": "0", "pool": "mean", "encoding": "u8", "transform": "sqrt", "vmin": "0", "vmax": "0.5", "range_of": "head",
              "normalize": "row", "against": "uniform", "colormap": "viridis"},
    "rows": {"batch": "0", "head": "0", "heads": "mean", "rows": "1", "decimals": "3", "full": "true"},
    "top-k": {"batch": "0", "head": "0", "heads": "0", "rows": "0:2", "cols": "1", "axis": "key", "top_k": "2", "top_p": "0.5", "decimals": "3"},
    "cells": {"batch": "0", "head": "0", "row": "1", "col": "0", "fields": "words,weight", "decimals": "3"},
    "analyses": {"analysis": "all", "radius": "1", "top_k": "2", "decimals": "3"},
    "heatmaps": {"heads": "mean", "batch": "0", "rows": "0:2", "cols": "0:2", "max_cells": "4", "pool": "both", "encoding": "u8", "transform": "log", "top_k": "1", "top_p": "0.5",
                 "of": "value_norm", "title": "A", "titles": "B", "x_label": "C", "y_label": "D", "value_label": "E", "annotate": ".1f", "colormap": "Greys", "vmin": "0",
                 "vmax": "1", "colorbar": "false", "tick_rotation": "90", "columns": "1", "per_panel": "1", "transpose": "true", "width": "400", "height": "300", "aspect": "equal",
                 "theme": "dark", "scale": "1", "decimals": "2"},
    "atlas": {"sites": "0", "batch": "0", "heads": "0", "max_side": "8", "pool": "mean", "transform": "sqrt"},
    "heads": {"sites": "0", "batch": "0", "heads": "0", "decimals": "3"},
    "rollout": {"rows": "1", "batch": "0", "call": "0", "from_layer": "0", "to_layer": "0", "heads": "0", "residual": "0.3", "decimals": "3", "full": "true"},
    "flow": {"rows": "1", "batch": "0", "call": "0", "from_layer": "0", "to_layer": "0", "heads": "0", "residual": "0.3", "decimals": "3", "full": "true"},
}
SITES = {"site": "0", "layer": "0", "kind": "self", "stack": "text"}
WHAT_IF = {"hide": [0], "site": "0", "layer": 0, "kind": "self", "batch": 0, "head": 0, "rows": "0:2",
           "return": ["weights", "output", "removed", "output_before", "weights_before"], "decimals": 3, "timeout_ms": 60000}
CAPTURED = {"Content-Type": KINDS["tensors"]}


def imported(name, file):
    return Ask(RUNS, file, headers=CAPTURED, keep={name: "id"})


def address(run, look, parameters=()):
    query = "&".join(f"{k}={v}" for k, v in dict(parameters).items())
    return f"{RUNS}/@{run}@" + (f"/{look}" if look else "") + (f"?{query}" if query else "")


def layers_of_a_model():
    """Two layers of self-attention in one text of a causal model, and an axis of three layers in another stack."""
    r = np.random.default_rng(7)
    file = captures.File({"version": 2, "model": "small", "texts": [{"tokens": ["[CLS]", "the", "cat", "sat", "."], "ids": [1, 2, 3, 4, 5], "special": [0]}], "sites": []}, {})
    for n in range(3):
        shape, more = ((1, 2, 5, 4), {"layer": n, "is_causal": True, "stack": "text"}) if n < 2 else ((3, 1, 2, 5, 4), {"axes": ["layer", "batch", "head"], "stack": "vision"})
        file.sites.append({"name": f"blocks.{n}", "query_text": 0 if n < 2 else [0] * 3, "key_text": 0 if n < 2 else [0] * 3} | more)
        for part in ("query", "key", "value"):
            file.tensors[f"sites.{n}.{part}"] = ("F32", r.standard_normal(shape).astype(np.float32))
    return captures.write(file)


def long_run(name):
    """A run of 1,100 tokens, which has an overview."""
    return Ask(ATTENTION, {"query": {"shape": [1, 2, 1100, 8], "random": "normal", "seed": 3}, "is_causal": True, "store": True, "return": []}, keep={name: "run.id"})


@family("last")
def every_look(r):
    yield imported("layers run", layers_of_a_model())
    yield long_run("long run")
    for run, choice in (("layers run", {"stack": "text", "layer": "1"}), ("layers run", {"site": "2", "layer": "1"}), ("long run", {})):
        for look, parameters in LOOKS.items():
            rows = {"rows": "0:3"} if look in ("rollout", "flow") else {}
            # a rollout goes through all layers, an atlas takes all sites, and a long flow is refused
            choice_here = {k: v for k, v in choice.items() if not (look in ("rollout", "flow") and k == "layer" or look in ("atlas", "heads") and k == "site")}
            base = rows | (choice_here if look else {}) | ({"row": "2", "col": "1"} if look == "cells" else {})
            for accept in (*MEDIA[:7], "octets"):
                yield Ask(address(run, look, base), accept=accept)
            for name, value in (SITES | parameters | {"unknown": "1"}).items() if look else {"unknown": "1"}.items():
                for x in (value, "sideways", "-1", "1e300", "", "0,1", "1:3", "7"):
                    yield Ask(address(run, look, base | {name: x}))
            for name in parameters:
                yield Ask(f"{address(run, look)}?{name}=0&{name}=0")
            if len(parameters) > 4:
                yield Ask(address(run, look, base | {k: v for k, v in parameters.items() if k not in ("heads", "top_p", "range_of", "normalize", "against")}), accept="json")
    for wrong in each_wrong(WHAT_IF):
        yield Ask(address("layers run", "what-if"), wrong)
    for accept in MEDIA:
        yield Ask(address("layers run", "what-if"), WHAT_IF, accept)
    yield Ask(address("long run", "what-if"), WHAT_IF | {"heads": "0,1", "head": None, "layer": None, "kind": None})
    for run in ("layers run", "long run"):
        for more in ({}, {"site": 0}, {"layer": 1, "stack": "text"}, {"kind": "self"}, {"analysis": ["rollout"]}, {"other_run": f"@{run}@"}, {"site": 9}, {"run": 5},
                     {"analysis": ["rollout"], "stack": "text"}):
            yield Ask(ANALYSES, {"run": f"@{run}@", "analysis": ["entropy", "patterns", "value_norm"], "decimals": 6} | more)


@family("last")
def looks_as_jobs(r):
    prefer = {"Prefer": "respond-async, wait=0"}
    for look, query in (("analyses", {"analysis": "all"}), ("heatmaps", {"max_cells": "50"}), ("atlas", {}), ("heads", {}), ("rollout", {"rows": "5"}), ("flow", {"rows": "5"})):
        yield Ask(address("long run", look, query), headers=prefer, keep={f"look {look}": "id"})
        yield Ask(f"{JOBS}/job-@look {look}@/events")
        yield Ask(f"{JOBS}/job-@look {look}@")
        yield Ask(f"{JOBS}/job-@look {look}@/result")
        yield Ask(address("long run", look, query))
        yield Ask(f"{JOBS}/job-@look {look}@", method="DELETE")
    for path, body in ((ATTENTION, {"query": {"shape": [1, 2, 1300, 8], "random": "normal", "seed": 3}, "store": True}),
                       (f"{MODELS}/en-fr/attention", {"text": "the red car", "store": True})):
        yield Ask(path, body, headers=prefer, keep={"stored as a job": "id"})
        yield Ask(f"{JOBS}/job-@stored as a job@/events")
        yield Ask(f"{JOBS}/job-@stored as a job@", keep={"run of a job": "run"})
        yield Ask(address("run of a job", ""))
        yield Ask(address("run of a job", "rows", {"rows": "1"}))
    for headers in ({"Prefer": "wait=x"}, {"Prefer": "respond-async, wait=100"}, {"Prefer": "handling=strict"}):
        yield Ask(address("long run", "heads"), headers=headers)
    for body in (TINY | {"store": True}, TINY | {"store": True}, TINY | {"store": True, "scale": 3}):
        yield Ask(ATTENTION, body, headers={"Idempotency-Key": "one"}, keep={"repeated run": "run.id"})
    yield Ask(ATTENTION, TINY, headers={"Idempotency-Key": "x" * 129})


@family("last")
def captures_in_and_out(r):
    for seed in range(24):
        run = f"capture {seed}"
        yield imported(run, captures.write(capture(seed)))
        for look, parameters in (("", {}), ("weights", {"site": "0", "rows": "0:2"}), ("rows", {"site": "0", "rows": "0"}), ("top-k", {"site": "0", "top_k": "2"}),
                                 ("cells", {"site": "0", "row": "0", "col": "0"}), ("tiles", {"site": "0", "level": "0"}),
                                 ("analyses", {"site": "0", "analysis": "all", "decimals": "6"}), ("heatmaps", {"site": "0", "heads": "mean"}), ("atlas", {}), ("heads", {}), ("rollout", {"rows": "0"}),
                                 ("flow", {"rows": "0"})):
            yield Ask(address(run, look, parameters), accept="text" if look and seed % 4 == 3 else "")
        yield Ask(address(run, "what-if"), {"site": "0", "hide": [0], "rows": [0, 1]})
        yield Ask(address(run, ""), method="DELETE")
    for name, (file, _) in test_captures_bad.CASES.items():
        if len(file) < 100_000:
            yield Ask(RUNS, file, headers=CAPTURED)
    yield Ask(RUNS, {"file": "capture.safetensors"}, keep={"adopted run": "id"})
    yield Ask(address("adopted run", "weights", {"rows": "0:2"}))
    yield Ask(address("adopted run", ""), method="DELETE")
    for body in ({"file": "capture.safetensors", "copy": True}, {"file": "capture.safetensors", "copy": False}, {"file": "none.safetensors"}, {"file": "../capture.safetensors"},
                 *each_wrong({"file": "capture.safetensors", "copy": True}), {}):
        yield Ask(RUNS, body)
    for query in ("?limit=2", "?limit=0", "?limit=1001", "?limit=x", "?after=sideways", "?unknown=1"):
        for path in (RUNS, MODELS, JOBS):
            if not (path == RUNS and query == "?limit=2"):  # ids are random, and so is which are the first
                yield Ask(path + query)


# --- models and jobs ---

SENTENCE = {"text": "the blue car", "target_text": "la voiture", "target_begin": True, "target_end": False, "hide": [1], "offset_unit": "utf16", "sites": ["encoder", "cross"],
            "layers": [0], "heads": [0, 1], "return": ["weights", "heatmap", "logits", "encoder_output", "states", "inputs"], "steps": ["embedding", "lstm"], "dropout_p": 0.1,
            "seed": 2, "analysis": ["entropy", "patterns"], "store": False, "heatmap": {"heads": "mean"}, "figure": {"theme": "dark"}, "decimals": 3, "timeout_ms": 60000}
SEARCH = {"text": "the red car", "hide": [0], "offset_unit": "codepoints", "num_beams": 2, "max_length": 4, "length_penalty": 0.5, "num_alternatives": 2, "return": ["weights"],
          "heatmap": {"heads": "mean"}, "figure": {"theme": "dark"}, "decimals": 3, "timeout_ms": 60000}
SIZES = {"width": 16, "num_heads": 2, "num_layers": 2, "feed_forward": 24, "norm": "after", "max_length": 24, "seed": 3, "dropout_p": 0.2, "embedding_std": 0.5, "shared": True,
         "source_language": "english", "target_language": "french", "architecture": "transformer", "attention": "global", "num_global_keys": 1, "radius": 2, "positions": "relative", "reach": 4}


def kinds_of_models():
    """Each attention, position and rule of both architectures."""
    scores = ("multihead", "dot", "additive", "general", "concat", "local", "strided", "block", "global", "none")
    for architecture in ("seq2seq", "transformer"):
        for attention in scores:
            yield {"architecture": architecture, "attention": attention, "radius": 2, "stride": 2, "block_size": 2, "num_global_keys": 1}
        for positions in ("sinusoidal", "learned", "relative", "shaw", "alibi", "none"):
            yield {"architecture": architecture, "positions": positions, "reach": 3, "num_layers": 2}
    yield {"padding": "read"}
    yield {"architecture": "transformer", "norm": "after", "num_layers": 2}


@family("last")
def every_model(r):
    for n, kind in enumerate(kinds_of_models()):
        known = [k for k in kind if k in ("architecture", "attention", "positions", "num_layers", "padding", "norm", "reach")]
        own = {"local": ["radius"], "strided": ["radius", "stride"], "block": ["block_size"], "global": ["radius", "num_global_keys"]}.get(kind.get("attention"), [])
        made, ask_with = f"{MODELS}/made-@any model@", {"text": "the blue car", "target_text": "la voiture", "decimals": 5}
        yield Ask(MODELS, test_api_models.SMALL | {k: kind[k] for k in known + own}, keep={"any model": "id"})
        yield Ask(made)
        for more in ({"return": ["weights", "logits", "encoder_output", "inputs"]}, {"return": "states"}, {"return": "weights", "dropout_p": 0.2, "seed": 3},
                     {"analysis": "all"}, {"analysis": ["rollout"]}, {"return": ["weights"], "heads": "mean", "hide": [0]}, {"dry_run": True},
                     {"return": ["logits"], "target_begin": False}, {"text": ["the car", "the"], "target_text": ["la", "la voiture"], "return": ["weights", "states"]}):
            yield Ask(f"{made}/attention", ask_with | more)
        yield Ask(f"{made}/attention", ask_with | {"store": True, "return": []}, keep={"run of a model": "run.id"})
        yield Ask(address("run of a model", "analyses", {"analysis": "all", "site": "0"}))
        yield Ask(address("run of a model", "rollout", {"rows": "0", "kind": "encoder"}))
        yield Ask(f"{made}/attention", ask_with | {"return": ["weights", "logits"]}, ("text", "tensors", "svg", "csv")[n % 4])
        for more in ({"num_alternatives": 2}, {"num_beams": 2, "return": "weights"}, {"dry_run": True}, {"stream": True, "num_alternatives": 1}, {"text": ["the", "red car"]}):
            yield Ask(f"{made}/generate", {"text": "the red car", "max_length": 4, "decimals": 5} | more)
        yield Ask(f"{made}/generate", {"text": "the red car", "max_length": 4, "store": True}, keep={"run of a model": "run.id"})
        yield Ask(address("run of a model", ""))
        yield Ask(made, method="DELETE")
    for query in ("", "?side=source", "?side=target&ids=0:9", "?side=left", "?ids=4", "?ids=9:3", "?ids=x", "?id=3"):
        yield Ask(f"{MODELS}/en-fr/vocabulary{query}")
        yield Ask(f"{MODELS}/en-fr-text/vocabulary{query}", accept="text")
    for text in ("The cat sat on the mat.", "I jumped; Ünïcode 漢字 😀", ""):
        yield Ask(f"{MODELS}/en-fr-text/generate", {"text": text, "num_alternatives": 2, "decimals": 6})
        yield Ask(f"{MODELS}/en-fr-text/attention", {"text": text, "target_text": "Le chat", "analysis": "all", "offset_unit": "utf16", "decimals": 6})


@family("last")
def every_field_of_models(r):
    yield Ask(MODELS, test_api_models.SMALL, keep={"field model": "id"})
    for body, route in ((SENTENCE, "attention"), (SEARCH, "generate")):
        for accept in MEDIA:
            yield Ask(f"{MODELS}/made-@field model@/{route}", body if accept in ("svg", "png") else without_picture(body), accept)
        for given in ({"tokens": ["the", "car"]}, {"token_ids": [4, 5]}, {"token_ids": [[4, 5], [4, 0]], "token_mask": [[True, True], [True, False]]}):
            taken = {k: v for k, v in body.items() if k not in ("text", "hide", "num_beams", "target_text")}
            yield Ask(f"{MODELS}/made-@field model@/{route}", taken | given)
        for wrong in each_wrong(without_picture(body) | ({} if route == "attention" else {"stream": False})):
            yield Ask(f"{MODELS}/made-@field model@/{route}", wrong)
    for wrong in each_wrong({"source_words": ["the", "car"], "target_words": ["la"]} | SIZES):
        yield Ask(MODELS, wrong, keep={"other model": "id"})
        yield Ask(f"{MODELS}/made-@other model@", method="DELETE")
    for wrong in each_wrong({"source_vocabulary": 9, "target_vocabulary": 8, "width": 8, "num_heads": 2, "attention": "strided", "stride": 2, "radius": 1, "padding": "read"}):
        yield Ask(MODELS, wrong, keep={"other model": "id"})
        yield Ask(f"{MODELS}/made-@other model@", method="DELETE")
    yield Ask(f"{MODELS}/made-@field model@", method="DELETE")


TRAIN = {"kind": "train", "task": "copy", "large": False, "shortest": 1, "longest": 4, "skew": 1.5, "num_symbols": 6, "num_pairs": 40, "num_validation_pairs": 8, "minimum": 1,
         "subwords": 0, "architecture": "transformer", "attention": "multihead", "positions": "learned", "width": 8, "num_heads": 2, "num_layers": 1, "feed_forward": 8,
         "norm": "after", "dropout_p": 0.1, "attention_dropout_p": 0.1, "seed": 2, "num_steps": 4, "batch_tokens": 60, "rate": 0.01, "schedule": "constant", "warmup": 2, "decay": 0.01,
         "clip": 1, "smoothing": 0.1, "guidance": 0, "diversity": 0, "evaluate_every": 2, "patience": 1, "checkpoint_every": 2, "num_scored_pairs": 4, "store": True, "shared": True}
LEARNT = {"width": 16, "num_steps": 4, "num_pairs": 60, "shortest": 2, "longest": 5, "num_scored_pairs": 4, "batch_tokens": 100}
EXPERIMENTS = {"scale": {"widest": 16, "num_keys": 8, "num_queries": 8, "seed": 2}, "permutation": {"num_words": 5, "num_permutations": 3, "width": 8, "seed": 2},
               "parameters": {"width": 64, "score_width": 16, "num_heads": 4, "positions": 50, "model_width": 32, "num_layers": 1, "source_words": 30, "target_words": 20},
               "heads": {"num_sentences": 5, "specimen": 4}, "copy": LEARNT | {"num_symbols": 6}, "attentions": LEARNT}


@family("last")
def every_job(r):
    fields = {"task": "reverse", "architecture": "seq2seq", "norm": "before", "feed_forward": 0}
    trained = [TRAIN, TRAIN | fields | {"attention": "local", "radius": 2, "positions": "none", "schedule": "cosine", "diversity": 0.1},
               TRAIN | {"task": "en-fr", "longest": 5, "guidance": 0.5, "attention": "strided", "stride": 2, "radius": 1},
               TRAIN | {"task": "en-fr-text", "longest": 5, "subwords": 20, "attention": "block", "block_size": 2, "store": False},
               TRAIN | fields | {"task": "sort", "attention": "additive", "schedule": "inverse-root", "positions": "sinusoidal"},
               TRAIN | fields | {"attention": "none", "store": False}]
    trained = [{k: v for k, v in body.items() if body["architecture"] == "transformer" or k not in ("norm", "feed_forward")} for body in trained]
    bodies = trained + [{"kind": "experiment", "experiment": name, "settings": settings, "full": False, "shared": True} for name, settings in EXPERIMENTS.items()]
    for n, body in enumerate(bodies):
        job, name = f"{JOBS}/job-@any job {n}@", f"picture {n}"
        yield Ask(JOBS, body, keep={f"any job {n}": "id"})
        yield Ask(f"{job}/events")
        yield Ask(job, keep={name: "pictures.0", f"run of job {n}": "run"})
        for accept in ("json", "text", "csv"):
            steady = body.get("experiment") not in ("copy", "attentions")  # whose tables hold times
            if steady:
                yield Ask(f"{job}/result", accept=accept)
                yield Ask(f"{job}/pictures/@{name}@", accept={"json": "svg", "text": "png"}.get(accept, accept))
        yield Ask(f"{job}/pictures/none")
        if body.get("store"):
            yield Ask(address(f"run of job {n}", ""))
            yield Ask(address(f"run of job {n}", "weights", {"site": "0", "rows": "0:2"}))
        if body["kind"] == "train":
            yield Ask(f"{MODELS}/trained-@any job {n}@")
        yield Ask(f"{job}/cancel", b"")
        yield Ask(job, method="DELETE")
        yield Ask(f"{job}/cancel", b"")
    for body in (TRAIN, {"kind": "experiment", "experiment": "scale", "settings": EXPERIMENTS["scale"], "full": False, "shared": True}):
        for wrong in each_wrong(body, null=False):
            yield Ask(JOBS, wrong, keep={"other job": "id"})
            yield Ask(f"{JOBS}/job-@other job@", method="DELETE")
    for query in ("?limit=1", "?after=sideways"):
        yield Ask(JOBS + query)


CODES = ("malformed_json", "bad_request", "unauthorized", "forbidden", "not_found", "method_not_allowed", "not_acceptable", "request_timeout", "request_in_progress", "gone",
         "run_changed", "precondition_failed", "too_large", "target_too_long", "unsupported_media_type", "expectation_failed", "misdirected_request", "key_reused",
         "unknown_field", "wrong_type", "invalid_value", "shape_mismatch", "unsupported_dtype", "mask_semantics", "nonfinite_value", "quota_exceeded", "header_too_long",
         "internal_error", "damaged", "not_supported", "queue_full", "memory_budget", "draining", "storage_failed", "deadline_exceeded", "version_not_supported", "storage_full", "none")


@family("spread")
def documents(r):
    for path in ("/problems", *(f"/problems/{code}" for code in CODES), "/", "/docs", "/web/api.d.ts", "/v1/examples", "/v1/examples/causal"):
        for accept in ("json", "text/html", "text"):
            yield Ask(path, accept=accept)
    for path in ("/v1/models", "/v1/models/en-fr", "/v1/jobs", "/v1/runs", "/version", "/healthz", "/readyz", "/openapi.json"):
        yield Ask(path, accept="text")
