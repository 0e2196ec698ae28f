"""The `heatmap` object of POST /v1/attention, cell by cell against NumPy."""
import base64
import io

import numpy as np
import pytest
from api_client import array, ask, attention, normal, qkv
from oracle import heatmap as oracle

BODY = qkv(B=2, H=3, L=11, S=14, E=4) | {"is_causal": True, "query_offset": 1, "return": "heatmap"}


def drawn(daemon, options, body=None):
    return ask(daemon, (body or BODY) | {"heatmap": options})["heatmap"]


def expected_of(body, head, mean=False):
    """The oracle's heatmap for one of the answer's."""
    whole = attention(body)
    weights, visible = whole["weights"], whole["visible"]
    if mean:
        weights, visible = weights.mean(1)[head["batch"]], visible.any(1)[head["batch"]]
    elif weights.ndim == 4:
        weights, visible = weights[head["batch"], head["head"]], visible[head["batch"], head["head"]]
    return weights, visible


def spans(head, weights):
    """rows and cols that the cells of a heatmap cover."""
    out = []
    for axis in (0, 1):
        a, n = head["origin"][axis], head["shape"][axis] * head["step"][axis]
        out.append((a, min(a + n, weights.shape[axis])))
    return out


def check(body, head, pool="max", rows=None, cols=None, mean=False):
    weights, visible = expected_of(body, head, mean)
    rows, cols = rows or (0, weights.shape[0]), cols or (0, weights.shape[1])
    assert head["origin"] == [rows[0], cols[0]]
    want = oracle.one(weights, visible, rows, cols, head["step"])
    assert head["shape"] == want["shape"] and head["hidden"] == want["hidden"]
    for plane in ("max", "mean"):
        assert (plane in head) == (pool in (plane, "both"))
        if plane in head:
            assert np.abs(array(head[plane]) - want[plane]).max() < 1e-6
    assert np.allclose(array(head["row_entropy"]), want["row_entropy"], atol=2e-6, equal_nan=True)
    assert np.allclose(array(head["received"]), want["received"], atol=2e-6)
    shown = array(head["mean" if pool == "mean" else "max"])
    for row, a, b in head["hidden"]:
        shown[row, a:b] = np.nan
    if not np.isnan(shown).all():
        assert head["range"] == [np.nanmin(shown), np.nanmax(shown)]


def test_unpooled(daemon):
    answer = drawn(daemon, {})
    assert (answer["pool"], answer["transform"], answer["encoding"]) == ("max", "linear", "json")
    assert [(h["batch"], h["head"]) for h in answer["heads"]] == [(b, h) for b in range(2) for h in range(3)]
    assert "labels" not in answer
    for head in answer["heads"]:
        assert head["shape"] == [11, 14] and head["step"] == [1, 1] and "top" not in head
        check(BODY, head)


def test_cells_are_the_weights_themselves(daemon):
    answer = ask(daemon, BODY | {"return": ["weights", "heatmap"]})
    for head in answer["heatmap"]["heads"]:
        assert head["max"] == answer["weights"][head["batch"]][head["head"]]


@pytest.mark.parametrize("pool", ["max", "mean", "both"])
@pytest.mark.parametrize("cells", [600, 200, 60, 6, 1])
def test_pooled(daemon, pool, cells):
    answer = drawn(daemon, {"pool": pool, "max_cells": cells})
    assert answer["pool"] == pool
    assert sum(h["shape"][0] * h["shape"][1] for h in answer["heads"]) <= max(cells, 6)
    for head in answer["heads"]:
        check(BODY, head, pool)
        if pool == "both":
            assert head["mean_range"][1] <= head["range"][1]


def test_selection(daemon):
    answer = drawn(daemon, {"heads": [2, 0], "batch": [1], "rows": [3, 9], "cols": [2, 14], "max_cells": 40})
    assert [(h["batch"], h["head"]) for h in answer["heads"]] == [(1, 2), (1, 0)]
    for head in answer["heads"]:
        check(BODY, head, rows=(3, 9), cols=(2, 14))


def test_mean_over_heads(daemon):
    answer = drawn(daemon, {"heads": "mean"})
    assert [(h["batch"], h["head"]) for h in answer["heads"]] == [(0, "mean"), (1, "mean")]
    whole = attention(BODY)["weights"].mean(1)
    for head in answer["heads"]:
        assert np.abs(array(head["max"]) - whole[head["batch"]]).max() < 1e-6


def test_rank_two_has_one_heatmap(daemon):
    body = qkv() | {"return": "heatmap"}
    heads = ask(daemon, body)["heatmap"]["heads"]
    assert [(h["batch"], h["head"]) for h in heads] == [(0, 0)]
    check(body, heads[0])


@pytest.mark.parametrize("encoding, dtype", [("f32", "<f4"), ("f16", "<f2")])
def test_packed_reals(daemon, encoding, dtype):
    plain, packed = drawn(daemon, {"pool": "both"}), drawn(daemon, {"pool": "both", "encoding": encoding})
    assert packed["encoding"] == encoding
    for a, b in zip(plain["heads"], packed["heads"]):
        for plane in ("max", "mean"):
            cells = np.frombuffer(base64.b64decode(b[plane]), dtype).reshape(b["shape"])
            assert np.array_equal(cells, np.array(a[plane], np.float32).astype(dtype))


@pytest.mark.parametrize("transform", ["linear", "sqrt", "log"])
@pytest.mark.parametrize("pool", ["max", "mean", "both"])
def test_packed_bytes(daemon, transform, pool):
    options = {"pool": pool, "max_cells": 300}
    plain = drawn(daemon, options)
    packed = drawn(daemon, options | {"encoding": "u8", "transform": transform})
    assert (packed["encoding"], packed["transform"]) == ("u8", transform)
    for a, b in zip(plain["heads"], packed["heads"]):
        for plane in [p for p in ("max", "mean") if p in a]:
            low, high = a["mean_range"] if pool == "both" and plane == "mean" else a["range"]
            cells = np.frombuffer(base64.b64decode(b[plane]), np.uint8).reshape(b["shape"])
            want = oracle.quantise(array(a[plane]), low, high, transform)
            assert np.abs(cells.astype(int) - want.astype(int)).max() <= 1


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_k": 3}, {"top_p": 0.5}, {"top_p": 1}, {"top_k": 2, "top_p": 0.9}])
def test_edges(daemon, options):
    for head in drawn(daemon, options)["heads"]:
        weights, visible = expected_of(BODY, head)
        want = oracle.edges(weights, visible, options.get("top_k", 0), options.get("top_p", 0))
        got = head["top"]
        if options.get("top_p") == 1:  # where the sum reaches 1 is a matter of rounding
            got, want = [e for e in got if e[2] > 1e-5], [e for e in want if e[2] > 1e-5]
        assert [e[:2] for e in got] == [e[:2] for e in want]
        assert np.allclose([e[2] for e in got], [e[2] for e in want], atol=1e-6)


def test_hidden_is_not_zero(daemon):
    """A weight that underflows to 0 is not hidden; a masked one is."""
    body = {"query": [[100.0]], "key": [[1.0], [-1.0], [1.0]], "value": [[1], [2], [3]], "scale": 1,
            "attn_mask": [[True, True, False]], "return": "heatmap"}
    head = ask(daemon, body)["heatmap"]["heads"][0]
    assert head["max"] == [[1, 0, 0]] and head["hidden"] == [[0, 2, 3]]


def test_fully_hidden_rows(daemon):
    body = qkv() | {"attn_mask": [[False] * 5, [True] * 5, [True] * 5], "return": "heatmap"}
    head = ask(daemon, body)["heatmap"]["heads"][0]
    assert head["hidden"] == [[0, 0, 5]] and head["row_entropy"][0] is None
    check(body, head)


def test_labels_come_back(daemon):
    labels = {"query": ["the", "cat", "sat"], "key": ["le", "chat", "était", "as\"sis", "."]}
    answer = ask(daemon, qkv() | {"labels": labels, "heatmap": {"rows": [1, 3]}})
    assert answer["heatmap"]["labels"] == labels
    only = ask(daemon, qkv() | {"labels": {"key": labels["key"]}, "heatmap": {}})
    assert only["heatmap"]["labels"] == {"key": labels["key"]}


def test_a_heatmap_object_asks_for_one(daemon):
    assert list(ask(daemon, qkv() | {"heatmap": {}})) == ["output", "weights", "heatmap"]
    assert list(ask(daemon, qkv() | {"heatmap": {}, "return": []})) == ["heatmap"]
    assert list(ask(daemon, qkv() | {"heatmap": {}, "return": ["output"]})) == ["output", "heatmap"]


@pytest.mark.parametrize("shape", [[1, 1, 3000, 8], [2, 16, 700, 8], [1, 500, 40, 4]])
@pytest.mark.parametrize("pool", ["max", "both"])
@pytest.mark.parametrize("encoding", ["json", "f32"])
def test_defaults_stay_below_a_megabyte(daemon, shape, pool, encoding):
    body = {"query": {"shape": shape, "random": "normal", "seed": 1}, "return": "heatmap", "is_causal": True,
            "heatmap": {"pool": pool, "encoding": encoding}}
    reply = daemon.post("/v1/attention", body)
    assert reply.status_code == 200, reply.text
    assert 100_000 < len(reply.content) < 2**20


def test_entropy_at_large_logits(daemon):
    """The unshifted form loses four digits here."""
    body = {"query": normal(4, 8, seed=1), "key": normal(9, 8, seed=2), "value": normal(9, 8, seed=3), "scale": 30,
            "return": "heatmap"}
    head = ask(daemon, body)["heatmap"]["heads"][0]
    want = oracle.row_entropy(attention(body)["weights"], attention(body)["visible"], 1)
    assert np.allclose(array(head["row_entropy"]), want, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("path, body", [
    ("/v1/attention", {"query": {"shape": [0, 2, 3], "fill": "zeros"}, "heatmap": {"heads": "mean"}, "return": ["heatmap"]}),
    ("/v1/heatmaps", {"weights": {"shape": [0, 2, 2], "fill": "zeros"}})])
def test_no_heads_as_npy(daemon, path, body):
    reply = daemon.post(path, body, headers={"Accept": "application/x-npy"})
    assert reply.status_code == 200 and np.load(io.BytesIO(reply.content)).shape == (0, 0, 0)


@pytest.mark.parametrize("transform", ["linear", "sqrt", "log"])
@pytest.mark.parametrize("pool", ["max", "mean", "both"])
def test_bytes_of_signed_values(daemon, transform, pool):
    """Both sides of a difference are bent alike, around 128."""
    a, b = (np.abs(normal(10, 10, seed=s)) for s in (1, 2))
    body = {"weights": a.tolist(), "other": b.tolist(), "analysis": ["entropy"]}
    options = {"pool": pool, "max_cells": 25}
    plain = ask(daemon, body | {"heatmap": options}, "/v1/analyses")["comparison"]["difference"]["heads"][0]
    packed = ask(daemon, body | {"heatmap": options | {"encoding": "u8", "transform": transform}},
                 "/v1/analyses")["comparison"]["difference"]["heads"][0]
    for plane in ("max", "mean") if pool == "both" else (pool,):
        low, high = plain["mean_range" if pool == "both" and plane == "mean" else "range"]
        cells = array(plain[plane])
        assert low == -high and high == pytest.approx(np.abs(cells).max())
        t = np.abs(cells) / high
        bent = {"linear": t, "sqrt": np.sqrt(t), "log": np.log1p(255 * t) / np.log(256)}[transform]
        got = np.frombuffer(base64.b64decode(packed[plane]), np.uint8).reshape(cells.shape)
        assert np.abs(got - (127.5 + 127.5 * np.sign(cells) * bent)).max() <= 0.501
    same = ask(daemon, body | {"other": body["weights"], "heatmap": {"encoding": "u8", "transform": transform}}, "/v1/analyses")
    same = same["comparison"]["difference"]["heads"][0]
    assert same["range"] == [0, 0] and str(same["range"][0]) == "0" and set(base64.b64decode(same["max"])) == {128}
