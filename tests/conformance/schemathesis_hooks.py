"""What schemathesis (test_schemathesis.py) must be told: how safetensors and NumPy's bodies look,
and, with CONSISTENT=1, bodies whose shapes fit together, in place of what the schemas alone would give."""
import io
import json
import os
import struct
import zipfile

import numpy as np
import schemathesis
from hypothesis import strategies as st

PATIENT_MS = 60000
SIZES = st.integers(1, 4)
NUMBERS = st.one_of(st.integers(-9, 9), st.floats(-100, 100, width=32))


def nested(draw, *shape):
    """Numbers in nested lists, or one of the other forms of a tensor."""
    form = draw(st.sampled_from(["lists", "lists", "data", "random", "fill"]))
    if form == "random":
        literal = {"shape": list(shape), "random": draw(st.sampled_from(["normal", "uniform"])),
                   "seed": draw(st.integers(0, 2**31))}
        return literal | ({"std": draw(st.floats(0, 4))} if draw(st.booleans()) else {})
    if form == "fill":
        return {"shape": list(shape), "fill": draw(st.sampled_from(["zeros", "ones", "arange"]))}
    flat = draw(st.lists(NUMBERS, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    if form == "data":
        return {"shape": list(shape), "data": flat}

    def nest(values, dims):
        if len(dims) == 1:
            return values
        step = len(values) // dims[0]
        return [nest(values[i * step:(i + 1) * step], dims[1:]) for i in range(dims[0])]
    return nest(flat, list(shape))


def maybe(draw, body, **fields):
    """Each of the fields, or not."""
    for name, strategy in fields.items():
        if draw(st.booleans()):
            body[name] = draw(strategy) if isinstance(strategy, st.SearchStrategy) else strategy


@st.composite
def attention(draw):
    lead = draw(st.sampled_from([[], [1], [2], [1, 2], [2, 3]]))
    queries, keys, width, values = (draw(SIZES) for _ in range(4))
    body = {"query": nested(draw, *lead, queries, width), "key": nested(draw, *lead, keys, width),
            "value": nested(draw, *lead, keys, values)}
    maybe(draw, body, is_causal=st.booleans(), scale=st.floats(0.1, 4), softcap=st.floats(1, 50),
          decimals=st.integers(0, 17), explain=st.booleans(), dry_run=st.booleans(),
          window=st.tuples(st.integers(0, 3), st.integers(0, 3)).map(list),
          score=st.sampled_from(["dot", "scaled_dot"]),
          **{"return": st.lists(st.sampled_from(["output", "weights", "logsumexp", "scores"]), min_size=1, unique=True)})
    if draw(st.booleans()):
        body["attn_mask"] = draw(st.lists(st.lists(st.booleans(), min_size=keys, max_size=keys),
                                          min_size=queries, max_size=queries))
    return body


@st.composite
def masks(draw):
    queries, keys = draw(SIZES), draw(SIZES)
    kinds = st.sampled_from([
        {"kind": "causal"}, {"kind": "window", "window": [1, 1]}, {"kind": "padding", "key_lengths": [keys]},
        {"kind": "values", "attn_mask": [[True] * keys] * queries}])
    body = {"shape": [queries, keys], "masks": draw(st.lists(kinds, min_size=1, max_size=3))}
    maybe(draw, body, combine="and",
          labels=st.just({"query": ["a"] * queries, "key": ["b"] * keys}))
    return body


@st.composite
def positions(draw):
    kind = draw(st.sampled_from(["sinusoidal", "rotary", "alibi"]))
    length, half = draw(SIZES), draw(SIZES)
    if kind == "alibi":
        return {"kind": kind, "length": length, "num_heads": draw(SIZES)}
    body = {"kind": kind, "length": length, "width": 2 * half}
    maybe(draw, body, dims=st.lists(st.integers(0, half - 1), min_size=1, unique=True))
    if kind == "sinusoidal":
        maybe(draw, body, layout=st.sampled_from(["interleaved", "halves"]))
    return body


@st.composite
def heatmaps(draw):
    rows, cols = draw(SIZES), draw(SIZES)
    weights = draw(st.lists(st.lists(st.floats(0, 1, width=32), min_size=cols, max_size=cols),
                            min_size=rows, max_size=rows))
    body = {"weights": weights}
    maybe(draw, body, labels=st.just({"query": ["q"] * rows, "key": ["k"] * cols}),
          heatmap=st.fixed_dictionaries({}, optional={
              "pool": st.sampled_from(["max", "mean", "both"]), "encoding": st.sampled_from(["json", "u8", "f16", "f32"]),
              "max_cells": st.integers(1, 100)}))
    if body.get("heatmap", {}).get("encoding") == "u8":
        maybe(draw, body["heatmap"], transform=st.sampled_from(["linear", "sqrt", "log"]))
    return body


@st.composite
def inference(draw):
    queries, keys, width, values = (draw(SIZES) for _ in range(4))

    def tensor(name, *shape):
        count = int(np.prod(shape))
        return {"name": name, "datatype": draw(st.sampled_from(["FP32", "FP64"])), "shape": list(shape),
                "data": draw(st.lists(NUMBERS, min_size=count, max_size=count))}
    body = {"inputs": [tensor("query", queries, width), tensor("key", keys, width), tensor("value", keys, values)]}
    types = draw(st.sampled_from(["FP32", "FP64"]))
    for entry in body["inputs"]:
        entry["datatype"] = types
    maybe(draw, body, id=st.text(max_size=10),
          parameters=st.fixed_dictionaries({}, optional={
              "is_causal": st.booleans(), "binary_data_output": st.booleans(), "scale": st.floats(0.1, 4)}),
          outputs=st.lists(st.sampled_from(["output", "weights", "logsumexp"]), unique=True).map(
              lambda names: [{"name": name} for name in names]))
    return body


CONSISTENT = {
    "/v1/attention": attention(), "/v1/masks": masks(), "/v1/positions": positions(), "/v1/heatmaps": heatmaps(),
    "/v2/models/{model}/infer": inference(), "/v2/models/{model}/versions/{version}/infer": inference(),
}


@st.composite
def safetensors(draw):
    """A well-formed body: two or three float32 tensors by field name, and perhaps other fields."""
    header, blob = {}, b""
    for name in draw(st.lists(st.sampled_from(["query", "key", "value", "attn_bias", "weights"]),
                              min_size=1, max_size=3, unique=True)):
        shape = [draw(SIZES), draw(SIZES)]
        data = np.array(draw(st.lists(NUMBERS, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])), "<f4")
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(blob), len(blob) + data.nbytes]}
        blob += data.tobytes()
    if draw(st.booleans()):
        header["__metadata__"] = {"request": json.dumps({"is_causal": draw(st.booleans())})}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + blob


@st.composite
def numpy_file(draw):
    out = io.BytesIO()
    np.save(out, np.array(draw(st.lists(st.lists(NUMBERS, min_size=2, max_size=2), min_size=1, max_size=3)), "<f4"))
    return out.getvalue()


@st.composite
def numpy_archive(draw):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))) as archive:
        for name in draw(st.lists(st.sampled_from(["query", "key", "value", "weights"]), min_size=1, max_size=3, unique=True)):
            archive.writestr(name + ".npy", draw(numpy_file()))
        if draw(st.booleans()):
            archive.writestr("request.json", json.dumps({"is_causal": draw(st.booleans())}))
    return out.getvalue()


schemathesis.openapi.media_type("application/vnd.safetensors", safetensors())
schemathesis.openapi.media_type("application/x-npy", numpy_file())
schemathesis.openapi.media_type("application/x-npz", numpy_archive())
schemathesis.openapi.media_type("application/octet-stream", st.binary(max_size=200))


def axes(schema):
    """How deep lists of lists are."""
    return 1 + axes(schema["items"]) if schema["type"] == "array" else 0


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Tensors are sent as lists of at most two axes. To draw deeper lists for each field of each case takes more than
    half of the run's time. CONSISTENT and other tests send tensors with more axes."""
    schemas = raw_schema["components"]["schemas"]
    for name in ("TensorList", "BiasTensorList", "MaskTensorList", "FlagTensorList", "BooleanTensorList", "V2Data"):
        schemas[name]["oneOf"] = [way for way in schemas[name]["oneOf"] if axes(way) <= 2]


def lengthen(holder, name, least):
    """A deadline that a busy machine may miss is put off: missing it is a legal 504."""
    value = holder.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < least:
        holder[name] = least


@schemathesis.hook
def before_call(context, case, kwargs):
    if isinstance(case.body, dict):
        lengthen(case.body, "timeout_ms", PATIENT_MS)
        if isinstance(case.body.get("parameters"), dict):
            lengthen(case.body["parameters"], "timeout", PATIENT_MS * 1000)


if os.environ.get("CONSISTENT"):
    @schemathesis.hook
    def before_generate_body(context, strategy):
        return CONSISTENT.get(context.operation.path, strategy)

    @schemathesis.hook
    def map_case(context, case):
        """Of the two types of body the hook makes JSON; the header of the other one is left out. The tensors are
        those of attention itself. An Idempotency-Key drawn twice with two bodies would be refused."""
        if case.operation.path in CONSISTENT:
            case.media_type = "application/json"
            if "model" in (case.path_parameters or {}):
                case.path_parameters["model"] = "scaled_dot_product_attention"
            if case.headers:
                case.headers.pop("Inference-Header-Content-Length", None)
                case.headers.pop("Idempotency-Key", None)
        return case
