"""The requests that tests/tools/record sends: families of them, each drawn from a seed of its own, over all routes.

A request may keep something of its answer under a name (the id of a run); "@name@" in a later path, header or body stands
for it. Where the tests hold good lists of requests already, these are taken from there.
"""
import json
import struct
import zlib
from dataclasses import dataclass, field

import numpy as np
import analyses
import onnx_cases
import random_forms
import random_requests
import test_api_diagnoses
import test_api_jobs
import test_api_models
import test_api_positions
import test_api_runs
import test_gradients
from api_client import normal, qkv
from conftest import ROOT
from oracle import tensors
from oracle.attention import served
from safetensors.numpy import save
from test_api_runs import literal

ATTENTION, MASKS, POSITIONS, HEATMAPS, ANALYSES, CURVES, MODELS, JOBS = (
    "/v1/" + name for name in ("attention", "masks", "positions", "heatmaps", "analyses", "curves", "models", "jobs"))
INFER, HEADS = (f"/v2/models/{name}/infer" for name in ("scaled_dot_product_attention", "multi_head_attention"))
KINDS = {"json": "application/json", "text": "text/plain", "svg": "image/svg+xml", "png": "image/png", "csv": "text/csv",
         "npy": "application/x-npy", "tensors": "application/vnd.safetensors", "events": "text/event-stream",
         "octets": "application/octet-stream"}
TINY = {"query": [[1, 0], [0, 1]]}
WORDS = ["the", "cat", "sat", "on", "the", "mat", ".", "<pad>", "été", "\"quoted\"", "漢字", "😀"]
HEAT = {"heads": [[0], [1], "mean", "all"], "batch": [[0]], "rows": [[0, 3], [1, 5]], "cols": [[0, 4], [2, 6]],
        "max_cells": [1, 6, 20, 100], "pool": ["max", "mean", "both"], "encoding": ["json", "u8", "f16", "f32"],
        "top_k": [1, 3], "top_p": [0.5, 0.9]}
FIGURE = {"title": ["Weights", "Größe <&> \"Zeichen\"", "注意力 😀"], "x_label": ["key"], "y_label": ["query"],
          "value_label": ["weight"], "annotate": ["auto", "none", ".2f", ".1e"],
          "colormap": ["auto", "Blues", "RdBu", "Greys", "viridis", "cividis"], "vmin": [0, -1], "vmax": [1, 2.5],
          "colorbar": [True, False], "tick_rotation": [0, 45, 90], "columns": [1, 2], "per_panel": [1, 3],
          "transpose": [True, False], "theme": ["light", "dark"], "scale": [1, 2]}
ANALYSIS = ["entropy", "confidence", "distance", "positional", "local", "sink", "received", "duplicate", "induction",
            "structure", "blocks", "classes", "patterns", "pairs", "diagnoses", "all"]
FAMILIES = []


@dataclass
class Ask:
    """A request. A body of Python's objects is sent as JSON; `raw` are the bytes of a whole request."""
    path: str
    body: object = None
    accept: str = ""
    headers: dict = field(default_factory=dict)
    method: str = ""
    keep: dict = field(default_factory=dict)  # name -> members of the answer, by dots; or "header NAME"
    raw: bytes = b""

    def __post_init__(self):
        self.method = self.method or ("GET" if self.body is None else "POST")
        given = {"Accept": KINDS.get(self.accept, self.accept)} if self.accept else {}
        if self.body is not None and not isinstance(self.body, bytes):
            self.body = json.dumps(self.body, ensure_ascii=False).encode()
        if self.body is not None:
            given["Content-Type"] = KINDS["json"]
        self.headers = given | self.headers


def family(where):
    """Registers a family: "core" goes to every kernel table, "spread" to one table after the other, "last" in one piece to
    the last one, "guarded" to a daemon with API keys and small limits."""
    def register(make):
        asks = list(make(np.random.default_rng(zlib.crc32(make.__name__.encode()))))
        FAMILIES.append((make.__name__, where, asks))
        return make
    return register


def some(r, choices, share=0.35):
    """Each of the fields or not, with one of its values."""
    return {name: values[r.integers(len(values))] for name, values in choices.items() if r.random() < share}


def heat(r):
    found = some(r, HEAT)
    return found | (some(r, {"transform": ["linear", "sqrt", "log"]}, 0.7) if found.get("encoding") == "u8" else {})


def one_of(r, values):
    return values[r.integers(len(values))]


def labels(L, S):
    return {"query": [WORDS[i % len(WORDS)] for i in range(L)], "key": [WORDS[i % len(WORDS)] for i in range(S)]}


def arrays(body):
    return {name: np.asarray(value, np.float32) for name, value in body.items()}


# --- core: what the kernels compute ---

@family("core")
def random_attention(r):
    for seed in range(45):
        more = some(r, {"decimals": [0, 3, 17], "explain": [True], "verify": [3], "analysis": ["entropy", ["all"]]}, 0.2)
        yield Ask(ATTENTION, random_requests.request(seed) | more)


@family("core")
def forms(r):
    for seed in range(60):
        yield Ask(ATTENTION, random_forms.request(seed) | some(r, {"decimals": [5], "explain": [True]}, 0.15))


@family("core")
def gradients(r):
    for make in test_gradients.CASES.values():
        body = make(r)
        output = served(body | {"return": ["output"]})["output"]
        yield Ask(ATTENTION, body | {"grad_output": test_gradients.draw(r, *output.shape), "return": ["output", "gradients"]})


@family("core")
def precisions(r):
    for L, E, heads in ((5, 16, 1), (64, 64, 2), (200, 32, 4), (130, 128, 1)):
        for precision in ("fp32", "fast", "bf16"):
            yield Ask(ATTENTION, {"query": literal(1, heads, L, E, seed=L), "precision": precision, "explain": True,
                                  "is_causal": bool(r.random() < 0.5), "return": ["output", "logsumexp"], "verify": 5})


def look_at(run, r, looks):
    """The first looks at a stored run, of those by all of its routes."""
    at = f"batch={r.integers(2)}&head={r.integers(4)}"
    stage = one_of(r, ["raw", "scaled", "softcapped", "biased"])
    what_if = {"hide": [0, 5, 17], "batch": 1, "head": 2, "rows": [20, 24]}
    for look, accept in ((f"weights?{at}&rows=7:12&cols=3:40", ""), (f"cells?{at}&row=30&col=20", ""),
                         (f"tiles?{at}&level=1&encoding=f32", "octets"), (f"rows?{at}&rows=11:13", ""),
                         (f"top-k?{at}&rows=4:9&top_k=5", ""), ("", ""), ("what-if", what_if), ("analyses?analysis=all&decimals=6", ""),
                         ("heatmaps?heads=0,2&batch=1&max_cells=60&pool=both", ""), (f"weights?{at}&rows=0:9", "npy"),
                         (f"cells?{at}&row=3&col=1&decimals=2", "text"), (f"tiles?{at}&level=0&x=1&transform=log", "octets"),
                         (f"rows?{at}&rows=0:3", "tensors"), (f"top-k?{at}&top_p=0.7&rows=0:4", "tensors"),
                         ("analyses?analysis=entropy,sink", "text"), ("heatmaps?heads=mean&title=The+mean&theme=dark", "svg"),
                         (f"weights?{at}&stage={stage}&rows=2:5&cols=0:30", ""),
                         ("what-if", {"hide": [1], "rows": [0, 2], "return": ["weights_before", "output_before"]}))[:looks]:
        path = f"/v1/runs/@{run}@/{look}".rstrip("/")
        yield Ask(path, accept) if look == "what-if" else Ask(path, accept=accept)


def stored(r, names, looks):
    for name in names:
        run = "run " + name
        yield Ask(ATTENTION, test_api_runs.MASKED | test_api_runs.FORMS[name] | {"store": True, "return": []},
                  keep={run: "run.id"})
        yield from look_at(run, r, looks)


@family("core")
def runs(r):
    yield from stored(r, ["causal", "additive score", "alibi", "shaw", "rotary", "float64", "cache"], 7)


@family("core")
def models(r):
    yield Ask(f"{MODELS}/en-fr/generate", {"text": "the big red car that she loves did not sleep .", "return": ["weights"]})
    yield Ask(f"{MODELS}/en-fr/attention", {"text": ["a cat will watch us", "the car"], "return": ["weights", "logits"]})
    yield Ask(f"{MODELS}/en-fr/generate", {"text": "the red car", "num_beams": 4, "heatmap": {"heads": "mean"}})
    yield Ask(f"{MODELS}/en-fr/generate", {"text": "the red car", "stream": True, "decimals": 3})
    for name in test_api_models.CASES | test_api_models.TRANSFORMERS:
        yield Ask(f"{MODELS}/{name}/attention", {"token_ids": [[4, 5, 6], [7, 0, 0]], "target_token_ids": [[4, 5], [6, 7]],
                                                 "return": ["weights", "logits"]})
        yield Ask(f"{MODELS}/{name}/generate", {"tokens": ["s4", "s9", "s7"], "max_length": 6, "num_beams": int(r.integers(1, 4))})


# --- spread: what the tables have in common ---

@family("spread")
def examples(r):
    for path in sorted((ROOT / "config" / "examples").glob("*.json")):
        yield Ask(f"/v1/examples/{path.stem}")
        for case in json.loads(path.read_text())["cases"]:
            yield Ask(case["path"], case["request"], case.get("accept", ""))


@family("spread")
def onnx(r):
    for case in onnx_cases.cases():
        yield Ask(ATTENTION, case.request())


@family("spread")
def attention_answers(r):
    """Everything else that /v1/attention answers: items, kinds of media, heatmaps, analyses, dry runs."""
    for n in range(150):
        L, S, H = (int(x) for x in r.integers(1, 9, 3))
        body = {"query": normal(1, H, L, 4, seed=n), "key": normal(1, H, S, 4, seed=n + 500), "value": normal(1, H, S, 3, seed=n + 900)}
        body |= some(r, {"is_causal": [True], "window": [[2, 1]], "labels": [labels(L, S)], "decimals": [2, 6],
                         "explain": [True], "analysis": [["entropy", "sink"], "diagnoses", "patterns"],
                         "score_stage": ["scaled"], "allow_nonfinite": [True], "key_lengths": [[S - 1]]}, 0.2)
        if "score_stage" in body or r.random() < 0.6:
            body["return"] = one_of(r, [["output", "scores"], ["scores", "weights", "heatmap"], ["logsumexp", "scores"]])
        accept = one_of(r, ["json", "json", "text", "tensors", "svg", "png", "csv"])
        if r.random() < 0.7 or accept in ("svg", "png", "csv"):
            body |= {"heatmap": heat(r), "figure": some(r, FIGURE, 0.15)}
        yield Ask(ATTENTION, body | some(r, {"dry_run": [True]}, 0.1), accept)
    for item in ("output", "weights", "logsumexp"):
        yield Ask(ATTENTION, qkv(2, 2) | {"return": item}, "npy")
    yield Ask(ATTENTION, {"query": literal(1, 2, 400, 8, seed=3), "is_causal": True}, headers={"Accept-Encoding": "gzip"})


@family("spread")
def masks(r):
    for n in range(50):
        L, S = (int(x) for x in r.integers(2, 9, 2))
        kinds = [{"kind": "causal"}, {"kind": "window", "window": [int(r.integers(-1, 4)), 1]},
                 {"kind": "padding", "key_lengths": [S - 1]}, {"kind": "padding", "token_ids": [5] * (S - 1) + [0], "pad_id": 0},
                 {"kind": "padding", "key_padding_mask": [True] * (S - 1) + [False], "key_padding_semantics": one_of(r, ["keep", "hide"])},
                 {"kind": "values", "attn_mask": (r.random((L, S)) < 0.7).tolist()},
                 {"kind": "values", "attn_mask": [[None if x < 0.2 else round(x, 3) for x in row] for row in r.random((L, S)).tolist()]},
                 {"kind": "values", "attn_mask": r.integers(0, 2, (L, S)).tolist(), "mask_semantics": one_of(r, ["keep", "hide"])},
                 *({"kind": "pattern", "pattern": pattern} for pattern in (
                     {"kind": "local", "radius": 1}, {"kind": "strided", "stride": 3, "local": 1}, {"kind": "block", "size": 2},
                     {"kind": "global", "num_keys": 1, "local": 1}))]
        body = {"shape": [L, S] if n % 3 else [1, 2, L, S], "masks": [one_of(r, kinds) for _ in range(r.integers(1, 4))]}
        body |= some(r, {"query_offset": [1, -2, "end"], "labels": [labels(L, S)], "dry_run": [True]}, 0.2)
        accept = one_of(r, ["json", "json", "text", "svg", "png", "csv", "tensors"])
        yield Ask(MASKS, body | ({"figure": some(r, FIGURE, 0.15)} if accept in ("svg", "png") else {}), accept)
    for shape in ([300, 300], [2, 8, 300, 300]):
        yield Ask(MASKS, {"masks": [{"kind": "causal"}], "shape": shape})


@family("spread")
def positions(r):
    bases = test_api_positions.BIASES + [
        {"kind": "sinusoidal", "width": 8}, {"kind": "sinusoidal", "width": 6, "layout": "halves"},
        {"kind": "learned", "width": 5, "seed": 3, "std": 0.5}, {"kind": "rotary", "width": 8, "base": 100},
        {"kind": "shaw", "key_table": normal(5, 3, seed=2)}]
    for n in range(55):
        body = bases[n % len(bases)] | {"length": int(r.integers(1, 12))}
        own = {"num_keys": [3, 9], "query_offset": [4, -5]} if "width" not in body else {}
        accept = one_of(r, ["json", "json", "text", "svg", "png", "csv", "npy", "tensors"])
        body |= some(r, own | {"dims": [[0], [1, 0]], "decimals": [2, 9], "dry_run": [True]}, 0.3)
        yield Ask(POSITIONS, body | ({"figure": some(r, FIGURE, 0.15)} if accept in ("svg", "png") else {}), accept)


@family("spread")
def heatmaps(r):
    for n in range(60):
        shape = one_of(r, [(6, 7), (2, 6, 7), (2, 2, 6, 7), (2, 1, 2, 6, 7)])
        weights = np.round(analyses.weights(*shape, seed=n), 6)
        body = {"weights": weights.tolist(), "heatmap": heat(r)} | some(r, {"labels": [labels(6, 7)], "decimals": [3]}, 0.3)
        if len(shape) == 3:
            body |= some(r, {"titles": [["First", "Zweiter"]]})
        if n % 8 == 7:
            body["weights"] = tensors.write(weights - 0.2, one_of(r, ["float16", "bfloat16", "float64"]))
        accept = one_of(r, ["json", "json", "text", "svg", "svg", "png", "csv", "npy"])
        yield Ask(HEATMAPS, body | {"figure": some(r, FIGURE, 0.25)} | some(r, {"dry_run": [True]}, 0.06), accept)


@family("spread")
def analyses_of_weights(r):
    yield Ask(ANALYSES, {"weights": analyses.chapter().tolist(), "labels": {"key": analyses.SENTENCE, "query": analyses.SENTENCE},
                         "classes": [{"name": "nouns", "keys": [1, 5]}]})
    for accept in ("json", "text"):
        for make in test_api_diagnoses.NAMES.values():
            yield Ask(ANALYSES, {"weights": np.asarray(make()).tolist(), "decimals": 6}, accept)
    for n in range(55):
        shape = one_of(r, [(8, 8), (3, 8, 8), (2, 2, 8, 8), (2, 1, 2, 8, 8)])
        body = {"weights": analyses.weights(*shape, seed=n).tolist(), "decimals": 7}
        body["analysis"] = one_of(r, ["all", ["rollout"], *([one_of(r, ANALYSIS), one_of(r, ANALYSIS)] for _ in range(6))])
        body |= some(r, {"is_causal": [True], "labels": [labels(8, 8)], "ids": [{"key": [1, 2, 3, 4, 1, 2, 3, 4]}], "radius": [1],
                         "segments": [{"key": [0, 0, 0, 1, 1, 1, 2, 2]}], "top_k": [0, 2], "key_lengths": [[7]],
                         "other": [analyses.weights(*shape, seed=n + 1).tolist()]}, 0.25)
        if len(shape) == 4 and r.random() < 0.5:
            body |= {"grad_output": normal(*shape[:-1], 3, seed=n), "value": normal(*shape[:-2], 8, 3, seed=n), "analysis": ["gradient"]}
        accept = one_of(r, ["json", "json", "json", "text", "svg", "png", "csv"])
        yield Ask(ANALYSES, body | some(r, {"heatmap": [{}, heat(r)], "dry_run": [True]}, 0.15), accept)


@family("spread")
def diagnoses(r):
    """Attention whose parts are scaled so that its diagnoses have different causes."""
    for size in (0.02, 0.1, 1, 5, 40):
        for alike in (0, 1):
            key = (normal(24, 8, seed=2) if not alike else (np.array(normal(1, 8, seed=2)) + 0.01 * np.array(normal(24, 8, seed=3))).tolist())
            body = {"query": (size * np.array(normal(24, 8, seed=1))).tolist(), "key": key, "value": key, "return": [],
                    "analysis": ["diagnoses", "entropy", "scores"]}
            yield Ask(ATTENTION, body)
            yield Ask(ATTENTION, body | {"is_causal": True, "sinks": [1.0]}, "text")


@family("spread")
def curves(r):
    for n in range(30):
        values = normal(3, 7, seed=n)
        values[0][2] = None
        body = {"values": values if n % 3 else values[1]} | some(r, {
            "x": [[1, 2, 4, 5, 8, 9, 11]], "markers": [True], "decimals": [1, 4]}, 0.5)
        body |= some(r, {"names": [["a", "b", "c"]]}, 0.5) if n % 3 else {}
        yield Ask(CURVES, body | {"figure": some(r, FIGURE, 0.2)}, one_of(r, ["json", "text", "svg", "svg", "png", "csv"]))


@family("spread")
def containers(r):
    """safetensors in and out."""
    own = {"Content-Type": KINDS["tensors"]}
    for n in range(24):
        body = arrays(qkv(B=2, H=2, L=4, S=6, E=8, seed=n))
        options = some(r, {"is_causal": [True], "return": [["output", "weights", "logsumexp"]], "query_offset": ["end"], "explain": [True],
                           "score": [{"kind": "general"}], "heatmap": [{}]})
        if "score" in options:
            body["score.w"] = np.asarray(normal(8, 8, seed=n), np.float32)
        body = {k: v.astype([np.float32, np.float16, np.float64][n % 3]) for k, v in body.items()}
        yield Ask(ATTENTION, save(body, {"request": json.dumps(options)}), one_of(r, ["json", "tensors", "text"]), own)
    yield Ask(MASKS, save({"masks.0.attn_mask": np.tril(np.ones((3, 3), bool))}, {"request": '{"masks":[{"kind":"values"}],"shape":[3,3]}'}),
              "tensors", own)
    whole = save(arrays(qkv()), {"request": '{"is_causl":true}'})
    for wrong in (whole, whole[:40], whole[:-4], b"\x08\0\0\0\0\0\0\0notjson!", struct.pack("<Q", 2**60) + b"{}",
                  save({"query": np.ones((2, 2), np.int64)}), save({"query": np.full((2, 2), np.nan, np.float32)}),
                  save({"qery": np.ones((2, 2), np.float32)}), save({"query": np.ones((2, 2), np.float32)}, {"request": "{"})):
        yield Ask(ATTENTION, wrong, "tensors", own)


def infer(given, outputs, parameters, binary_in=False, binary_out=False, path=INFER):
    """Tensors as a request of the Open Inference Protocol."""
    names = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "int64": "INT64", "bool": "BOOL"}
    inputs, blob = [], b""
    for name, x in given.items():
        entry = {"name": name, "shape": list(x.shape), "datatype": names[x.dtype.name]}
        entry |= {"parameters": {"binary_data_size": x.nbytes}} if binary_in else {"data": x.reshape(-1).tolist()}
        inputs, blob = inputs + [entry], blob + (x.tobytes() if binary_in else b"")
    document = json.dumps({"id": "a-1", "inputs": inputs, "parameters": parameters,
                           "outputs": [{"name": n, "parameters": {"binary_data": binary_out}} for n in outputs]}).encode()
    headers = {"Content-Type": KINDS["octets"], "Inference-Header-Content-Length": str(len(document))} if binary_in else {}
    return Ask(path, document + blob, headers=headers)


@family("spread")
def inference(r):
    for n in range(36):
        given = arrays(qkv(2, 2, 3, 4, 4, seed=n))
        given = {k: v.astype([np.float32, np.float64, np.float16][n % 3 if n % 2 else 0]) for k, v in given.items()}
        if r.random() < 0.3:
            given["key_lengths"] = np.array([3, 4])
        outputs = one_of(r, [["output"], ["logsumexp", "output", "weights"], ["scores", "output"]])
        yield infer(given, outputs, some(r, {"is_causal": [True], "scale": [0.5], "window": ["[1,0]"], "decimals": [4], "softcap": [3]}),
                    bool(n % 2), bool(r.random() < 0.5), INFER if n % 5 else INFER.replace("/infer", "/versions/1/infer"))
    for bias in (False, True):
        given = arrays({"query": normal(1, 3, 8, seed=1), "w_q": normal(8, 8, seed=2)} | ({"b_q": normal(8, seed=3)} if bias else {}))
        yield infer(given, ["output", "weights"], {"num_heads": 2}, bias, bias, HEADS)
        yield infer(given, ["output"], {"num_heads": 5}, bias, bias, HEADS.replace("/infer", "/versions/1/infer"))
    query = arrays(TINY)
    for ask in (infer(query, ["nothing"], {}), infer(query, ["output"], {"is_causl": True}), infer(query, ["output"], {"softcap": -1}),
                infer({"qery": query["query"]}, ["output"], {}), infer(query, ["output"], {"return": "output"}), infer({}, ["output"], {}),
                infer(query, ["output"], {}, path="/v2/models/another/infer"), infer(query, ["output"], {"window": "[2"})):
        yield ask
    for document in (b"", b"[]", {}, {"inputs": [{"name": "query", "shape": [2], "datatype": "FP31", "data": [1, 2]}]},
                     {"inputs": [{"name": "query", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3]}]},
                     {"inputs": [{"name": "query", "shape": [2, 2], "datatype": "FP32"}]}):
        yield Ask(INFER, document)


def parameters_of(test):
    """The lists of values that a test is given."""
    for mark in test.pytestmark:
        yield from (getattr(item, "values", item) for item in mark.args[1])


# --- last: what goes on over several requests ---

@family("last")
def runs_of_every_form(r):
    yield from stored(r, [n for n in test_api_runs.FORMS if n not in ("projections", "by head", "concat", "relative", "additive")], 3)
    yield from stored(r, ["by head", "projections"], 18)
    for query, *_ in parameters_of(test_api_runs.test_refusals):
        yield Ask("/v1/runs/@run plain@" + query)
    for body in ({"hide": [300]}, {"hide": None}, {"hid": [1]}, {"hide": [0], "rows": [5, 2]}, {"hide": [0], "head": 9}):
        yield Ask("/v1/runs/@run plain@/what-if", body)
    yield Ask("/v1/runs/@run fill@/what-if", {"hide": [0]})
    for more in ({"heatmap": {}}, {"other_run": "@run causal@"}, {"is_causal": True}):
        yield Ask(ANALYSES, {"run": "@run plain@", "decimals": 6} | more)
    yield Ask("/v1/runs/@run plain@/tiles?level=1", keep={"run tag": "header ETag"})
    yield Ask("/v1/runs/@run plain@/tiles?level=1", headers={"If-None-Match": "@run tag@"})
    yield Ask("/v1/runs/@run plain@/heatmaps?heads=0&batch=0&scale=2", accept="png")
    yield Ask(ATTENTION, TINY | {"store": True, "heatmap": {}}, "svg", keep={"drawn": "header X-Run-Id"})
    for path in ("@drawn@", "@drawn@/weights", "@drawn@/heatmaps"):
        yield Ask("/v1/runs/" + path, accept="*/*")
    for method in ("DELETE", "GET", "DELETE", "PUT"):
        yield Ask("/v1/runs/@drawn@", method=method)


@family("last")
def made_models(r):
    kinds = [{}, {"architecture": "transformer", "num_layers": 2, "norm": "after", "positions": "relative"}, {"padding": "read", "positions": "learned"},
             *({"attention": a, "positions": p} for a, p in (("additive", "shaw"), ("general", "alibi"), ("concat", "none"), ("local", "none"), ("none", "learned")))]
    for n, kind in enumerate(kinds):
        made = f"{MODELS}/made-@model {n}@"
        yield Ask(MODELS, test_api_models.SMALL | kind, keep={f"model {n}": "id"})
        yield Ask(made)
        yield Ask(f"{made}/attention", {"text": "the blue car", "target_text": "la voiture"} | some(r, {
            "sites": ["cross", ["encoder", "cross"]], "return": [["weights", "heatmap", "logits"]], "heads": [[0]], "decimals": [4]}))
        yield Ask(f"{made}/attention", {"text": "the red car", "heatmap": {"heads": "mean"}}, one_of(r, ["text", "svg", "csv", "png"]))
        yield Ask(f"{made}/generate", {"text": "the red car .", "max_length": 5} | some(r, {"num_beams": [3], "length_penalty": [0.5], "return": [[], "weights"]}),
                  one_of(r, ["json", "text", "svg", "csv"]))
        yield Ask(f"{made}/generate", {"text": "the red car", "max_length": 4} | some(r, {"heatmap": [{"heads": "mean"}], "return": [[]]}), "events")
        yield Ask(f"{made}/{one_of(r, ['attention', 'generate'])}", {"text": "the red car", "dry_run": True}, one_of(r, ["json", "text"]))
    for body in ({"text": "the", "stream": True, "num_beams": 2}, {"text": ["the", "car"], "stream": True}, {"text": "the", "num_beams": 65},
                 {"text": "the", "max_length": 513}, {"texts": "the"}, {"text": "the", "stream": 1}):
        yield Ask(f"{MODELS}/made-@model 0@/generate", body)
    yield Ask(MODELS)
    for method in ("DELETE", "GET", "DELETE"):
        yield Ask(f"{MODELS}/made-@model 0@", method=method)


@family("last")
def jobs(r):
    short = {"num_steps": 6, "num_scored_pairs": 4, "num_pairs": 60, "num_validation_pairs": 10, "evaluate_every": 3}
    tasks = [test_api_jobs.TASK | short | more for more in ({}, {"task": "reverse", "architecture": "transformer"}, {
        "task": "sort", "attention": "additive", "positions": "learned", "guidance": 0.5, "schedule": "cosine"}, {"diversity": 0.1, "smoothing": 0.1})]
    settings = {"scale": {"widest": 16}, "parameters": {"width": 64}, "permutation": {"num_words": 5, "num_permutations": 3}, "heads": {"num_sentences": 5, "specimen": 4}}
    tasks += [{"kind": "experiment", "experiment": name, "settings": s} for name, s in settings.items()]
    for n, body in enumerate(tasks):
        job = f"{JOBS}/job-@job {n}@"
        yield Ask(JOBS, body, keep={f"job {n}": "id"})
        yield Ask(f"{job}/events")
        yield Ask(job, keep={f"name {n}": "pictures.0"})
        yield Ask(f"{job}/events", headers={"Last-Event-ID": "999999"})
        if body["kind"] == "train":
            yield Ask(f"{MODELS}/trained-@job {n}@")
            yield Ask(f"{MODELS}/trained-@job {n}@/attention", {"tokens": ["1", "2"], "target_tokens": ["1"], "return": ["weights", "logits"]})
        for accept in ("json", "text", "csv") if body["kind"] == "experiment" else ("json",):
            yield Ask(f"{job}/result", accept=accept)
            yield Ask(f"{job}/pictures/@name {n}@", accept={"json": "svg", "text": "png"}.get(accept, accept))
    yield Ask(JOBS)
    for n in range(len(tasks)):
        yield Ask(f"{JOBS}/job-@job {n}@", method="DELETE")
    yield Ask(f"{JOBS}/job-@job 0@", method="DELETE")
    yield Ask("/metrics")
    yield Ask("/v2/models/stats")


def thinned(asks, share):
    """Of the requests those that keep something, and an even share of the others."""
    return [(n, ask) for n, ask in enumerate(asks) if ask.keep or int((n + 1) * share) > int(n * share)]


def plan(count, tables):
    """The requests of each daemon, by name, in the order in which they are sent. `count` of them: an even share of the
    families, or further requests of attention; None: the families, and at least 2,000."""
    size = sum(len(asks) * (len(tables) if where == "core" else 1) for _, where, asks in FAMILIES)
    share = 1 if count is None else min(1, count / size)
    found = {table: [] for table in (*tables, "guarded")}
    for name, where, asks in FAMILIES:
        for n, ask in thinned(asks, share):
            there = {"core": tables, "spread": [tables[n % len(tables)]], "last": tables[-1:], "guarded": ["guarded"]}[where]
            for table in there:
                found[table].append((f"{name}/{n}", ask))
    for n in range((2000 if count is None else count) - size):
        found[tables[n % len(tables)]].append((f"more/{n}", Ask(ATTENTION, random_forms.request(1000 + n))))
    return found
