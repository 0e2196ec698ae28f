"""Heatmap data against the oracle: cells, hidden runs, entropy, received mass, edges, encodings."""
import base64

import numpy as np
import pytest

from serving import ask
from oracle import heatmap, tensors
from oracle.attention import attention

QUERY = {"shape": [2, 3, 37, 16], "random": "normal", "seed": 1}
KEY = {"shape": [2, 3, 53, 16], "random": "normal", "seed": 2}
VALUE = {"shape": [2, 3, 53, 4], "random": "normal", "seed": 3}
BASE = {"query": QUERY, "key": KEY, "value": VALUE, "return": ["heatmap"]}
CAUSAL = {**BASE, "is_causal": True, "query_offset": 9, "key_lengths": [50, 12]}
CLOSE = {"atol": 2e-6, "rtol": 2e-5}


def cells(map_, name, encoding):
    shape = map_["shape"]
    if encoding == "json":
        return np.array(map_[name], np.float64).reshape(shape)
    stored = {"u8": np.uint8, "f16": np.float16, "f32": np.float32}[encoding]
    return np.frombuffer(base64.b64decode(map_[name]), stored).reshape(shape)


def check_map(map_, whole, options):
    """One heatmap of an answer against exact weights."""
    b, h = map_["batch"], map_["head"]
    weights, visible = whole["weights"][b], whole["visible"][b]
    if h == "mean":
        weights, visible = weights.mean(0), visible.any(0)
    else:
        weights, visible = weights[h], visible[h]
    rows = options.get("rows", [0, weights.shape[0]])
    cols = options.get("cols", [0, weights.shape[1]])
    want = heatmap.one(weights, visible, rows, cols, map_["step"])
    pool = options.get("pool", "max")
    assert map_["origin"] == [rows[0], cols[0]]
    assert map_["shape"] == want["shape"]
    assert map_["hidden"] == want["hidden"]
    for name in ("max", "mean"):
        if pool in (name, "both"):
            assert np.allclose(cells(map_, name, "json"), want[name], **CLOSE), name
        else:
            assert name not in map_
    assert np.allclose(map_["received"], want["received"], **CLOSE)
    if h != "mean":  # the entropy of an average is checked in the library's own tests
        entropy = [np.nan if x is None else x for x in map_["row_entropy"]]
        assert np.allclose(entropy, want["row_entropy"], equal_nan=True, atol=1e-5, rtol=1e-5)
    seen = np.ones(want["shape"], bool)
    for row, a, z in want["hidden"]:
        seen[row, a:z] = False
    shown = want["mean"] if pool == "mean" else want["max"]
    if seen.any():
        assert np.allclose(map_["range"], [shown[seen].min(), shown[seen].max()], **CLOSE)


OPTIONS = [
    {},
    {"max_cells": 500},
    {"max_cells": 6},
    {"pool": "mean", "max_cells": 300},
    {"pool": "both", "max_cells": 1000, "heads": [2, 0]},
    {"heads": "mean", "batch": [1], "max_cells": 200},
    {"rows": [5, 30], "cols": [7, 20], "pool": "both"},
    {"rows": [36, 37], "max_cells": 10, "heads": [1]},
]


@pytest.mark.parametrize("request_", [BASE, CAUSAL], ids=["open", "masked"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_cells(table, request_, options):
    answer = ask(table, {**request_, "heatmap": options})["heatmap"]
    whole = attention(request_)
    batches = options.get("batch", [0, 1])
    heads = {"all": [0, 1, 2], "mean": ["mean"]}.get(str(options.get("heads", "all")), options.get("heads"))
    assert [(m["batch"], m["head"]) for m in answer["heads"]] == [(b, h) for b in batches for h in heads]
    assert answer["pool"] == options.get("pool", "max")
    count = sum(m["shape"][0] * m["shape"][1] for m in answer["heads"])
    if "max_cells" in options:
        assert count <= max(options["max_cells"], len(answer["heads"]))
    for map_ in answer["heads"]:
        check_map(map_, whole, options)


@pytest.mark.parametrize("encoding, transform", [
    ("u8", "linear"), ("u8", "sqrt"), ("u8", "log"), ("f16", "linear"), ("f32", "linear")])
def test_encodings(table, encoding, transform):
    plain = ask(table, {**CAUSAL, "heatmap": {"max_cells": 1200}})["heatmap"]
    options = {"max_cells": 1200, "encoding": encoding, "transform": transform}
    coded = ask(table, {**CAUSAL, "heatmap": options})["heatmap"]
    assert coded["encoding"] == encoding and coded["transform"] == transform
    for a, b in zip(plain["heads"], coded["heads"]):
        exact = np.float32(cells(a, "max", "json"))
        got = cells(b, "max", encoding)
        if encoding == "f32":
            assert (got == exact).all()
        elif encoding == "f16":
            assert (got == exact.astype(np.float16)).all()
        else:
            want = heatmap.quantise(exact.astype(np.float64), *a["range"], transform)
            assert np.abs(got.astype(int) - want).max() <= 1


@pytest.mark.parametrize("options", [{"top_k": 3}, {"top_p": 0.5}], ids=str)
def test_edges(table, options):
    answer = ask(table, {**CAUSAL, "heatmap": options})["heatmap"]
    whole = attention(CAUSAL)
    for map_ in answer["heads"]:
        weights, visible = (whole[n][map_["batch"], map_["head"]] for n in ("weights", "visible"))
        want = heatmap.edges(weights, visible, **options)
        assert [e[:2] for e in map_["top"]] == [e[:2] for e in want]
        assert np.allclose([e[2] for e in map_["top"]], [e[2] for e in want], **CLOSE)


def test_under_one_megabyte(table):
    answer = table.post("/v1/attention", {
        "query": {"shape": [1, 4, 700, 8], "random": "normal", "seed": 1}, "return": ["heatmap"],
        "heatmap": {"pool": "both"}})
    assert answer.status_code == 200 and len(answer.content) <= 1_000_000


def test_random_literals(table):
    """The service's random tensors are the oracle's, to the bit of float32."""
    spec = {"shape": [3, 50], "random": "normal", "seed": 987654321}
    answer = ask(table, {"query": spec, "key": spec, "value": spec, "return": ["present"],
                         "past_key": {"shape": [0, 50], "dtype": "float32", "data": []},
                         "past_value": {"shape": [0, 50], "dtype": "float32", "data": []}})
    served = np.array(answer["present_key"], np.float32)
    assert np.abs(served - tensors.read(spec).astype(np.float32)).max() <= 2.4e-7
