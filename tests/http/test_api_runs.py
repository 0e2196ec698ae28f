"""Stored runs: every part of the exact weights afterwards, bit for bit those of the answer that held them all;
the store's limits; files that other processes and Python read."""
import base64
import json
import os
import re
import signal
import subprocess
import time

import numpy as np
import pytest
from api_client import ask, normal, qkv, refused
from conftest import PATIENCE
from safetensors import safe_open
from safetensors.numpy import load as load_tensors
from test_api_index import document, schema  # noqa: F401, a fixture
from test_daemon_load import eventually

SAFETENSORS = {"Accept": "application/vnd.safetensors"}
NPY = {"Accept": "application/x-npy"}
ID = re.compile(r"^[0-9a-f]{32}$")


def npy(reply):
    import io
    assert reply.status_code == 200, reply.text
    return np.load(io.BytesIO(reply.content))


class Stored:
    """A run beside the weights that were answered with it."""

    def __init__(self, daemon, body, **more):
        whole = daemon.post("/v1/attention", body | {"return": ["weights", "output", "logsumexp"]} | more,
                            headers=SAFETENSORS)
        assert whole.status_code == 200, whole.text
        self.tensors = load_tensors(whole.content)
        weights = self.tensors["weights"]
        self.weights = weights.reshape((-1,) + weights.shape[-3:] if weights.ndim > 3 else
                                       (1,) * (4 - weights.ndim) + weights.shape)
        if weights.ndim == 3 and body.get("layout", "BHLE") == "BHLE":
            self.weights = weights.reshape(weights.shape[0], 1, *weights.shape[1:])
        reply = daemon.post("/v1/attention", body | {"store": True, "return": []} | more)
        assert reply.status_code == 200, reply.text
        self.answer = reply.json()
        self.id = self.answer["run"]["id"]
        assert ID.match(self.id) and self.answer["run"]["bytes"] > 0
        self.daemon, self.path = daemon, "/v1/runs/" + self.id

    def get(self, what="", **kwargs):
        return self.daemon.get(self.path + what, **kwargs)

    def json(self, what="", **kwargs):
        reply = self.get(what, **kwargs)
        assert reply.status_code == 200, reply.text
        return reply.json()


def literal(*shape, seed, dtype="float32"):
    return {"shape": list(shape), "random": "normal", "seed": seed, "dtype": dtype}


MASKED = {"query": literal(2, 4, 60, 16, seed=1), "key": literal(2, 2, 300, 16, seed=2),
          "value": literal(2, 2, 300, 6, seed=3)}
rng = np.random.default_rng(5)
FORMS = {
    "plain": {},
    "causal": {"is_causal": True, "query_offset": "end"},
    "booleans": {"attn_mask": (rng.random((60, 300)) < 0.6).tolist()},
    "by head": {"attn_mask": (rng.random((4, 1, 300)) < 0.6).astype(int).tolist(), "mask_semantics": "hide"},
    "additive": {"attn_mask": [[None if x < 0.3 else round(x, 3) for x in row] for row in rng.random((60, 300)).tolist()]},
    "padding": {"key_lengths": [200, 7], "attn_bias": literal(4, 60, 300, seed=9)},
    "tokens": {"token_ids": (rng.integers(0, 4, (2, 300))).tolist(), "pad_id": 0},
    "window": {"window": [20, 3], "query_offset": [100, 220], "softcap": 3},
    "pattern": {"pattern": {"kind": "strided", "stride": 7, "local": 2}},
    "fill": {"is_causal": True, "mask_fill": {"value": -2.5, "mode": "replace"}},
    "additive score": {"score": {"kind": "additive", "w_q": literal(5, 16, seed=4), "w_k": literal(5, 16, seed=5),
                                 "v": literal(5, seed=6)}},
    "general": {"score": {"kind": "general", "w": literal(16, 16, seed=4)}, "scale": 0.1},
    "concat": {"score": {"kind": "concat", "w": literal(5, 32, seed=4), "v": literal(5, seed=6)}},
    "alibi": {"position": {"kind": "alibi"}, "sinks": [0.5, 1, -1, 2]},
    "sigmoid": {"normalizer": {"kind": "sigmoid", "bias": [-3, -5, 0, 1.5]}},
    "relu_squared": {"normalizer": "relu_squared", "is_causal": True, "query_offset": "end"},
    "entmax": {"normalizer": {"kind": "entmax", "alpha": 1.3}, "sinks": [0.5, 1, -1, 2]},
    "mix": {"mix": {"logits": literal(4, 4, seed=9)}, "is_causal": True, "query_offset": "end"},
    "mix, rotary": {"mix": {"logits": literal(4, 4, seed=9)}, "position": {"kind": "rotary", "layout": "halves"}},
    "mixed weights": {"mix": {"logits": literal(4, 4, seed=9), "weights": literal(4, 4, seed=10)}, "is_causal": True, "query_offset": "end"},
    "mixed weights, alibi": {"mix": {"weights": literal(6, 4, seed=10)}, "position": "alibi", "sinks": [0.5, 1, -1, 2]},
    "subtract": {"subtract": {"lambda": [0.5, 0.75], "pairs": "adjacent"}, "is_causal": True, "query_offset": "end"},
    "subtract, halves": {"subtract": {"lambda": 0.25, "pairs": "halves"}, "position": {"kind": "rotary", "layout": "halves"}},
    "scales": {"scale": literal(1, 60, seed=9), "sinks": literal(2, 1, 60, seed=10)},
    "scales, strided": {"scale": literal(2, 4, 60, seed=9), "softcap": 3, "pattern": {"kind": "strided", "stride": 20, "local": 2}},
    "t5": {"position": {"kind": "t5", "table": literal(8, 4, seed=4), "max_distance": 30}},
    "relative": {"position": {"kind": "relative", "table": literal(4, 9, seed=4)}},
    "shaw": {"position": {"kind": "shaw", "key_table": literal(9, 16, seed=4), "value_table": literal(9, 6, seed=5)}},
    "shaw of each head": {"position": {"kind": "shaw", "key_table": literal(4, 9, 16, seed=4), "value_table": literal(4, 9, 6, seed=5)}},
    "disentangled": {"position": {"kind": "disentangled", "key_table": literal(4, 20, 16, seed=4), "query_table": literal(20, 16, seed=5)}},
    "disentangled buckets": {"position": {"kind": "disentangled", "query_table": literal(4, 16, 16, seed=5), "max_distance": 40},
                             "is_causal": True, "query_offset": "end"},
    "rotary": {"position": {"kind": "rotary", "layout": "halves"}},
    "rotary frequencies": {"position": {"kind": "rotary", "layout": "interleaved", "start": 4, "factor": 0.75,
                                        "frequencies": literal(5, seed=4)}},
    "rotary scaling": {"position": {"kind": "rotary", "layout": "halves", "scaling": {
        "kind": "longrope", "factor": 8, "original_max_position_embeddings": 100, "short_factor": [1] * 8,
        "long_factor": [1, 1.5, 2, 3, 4, 6, 8, 9]}}},
    "rotary yarn": {"position": {"kind": "rotary", "layout": "halves", "scaling": {
        "kind": "yarn", "factor": 8, "original_max_position_embeddings": 100, "truncate": False}}},
    "rotary axes": {"position": {"kind": "rotary", "layout": "halves", "axes": [
        {"num_pairs": 4, "interleaved": True, "query_positions": [list(range(60)), [9] * 60], "key_positions": [[None, *range(299)], [*range(300)]]},
        {"num_pairs": 3, "interleaved": True, "query_positions": [i / 8 for i in range(60)], "key_positions": [j / 4 for j in range(300)]}]}},
    "rotary axes of bases": {"position": {"kind": "rotary", "layout": "interleaved", "start": 2, "axes": [
        {"num_pairs": 3, "query_positions": [0] * 60, "key_positions": [j // 20 for j in range(300)], "base": 100},
        {"num_pairs": 4, "query_positions": [*range(60)], "key_positions": [j % 20 for j in range(300)], "base": 1000}]}},
    "rotary and alibi": {"position": [{"kind": "rotary", "layout": "halves", "dims": 8}, "alibi"], "query_offset": "end"},
    "t5 and sinusoidal": {"position": [{"kind": "t5", "table": literal(8, 4, seed=4), "max_distance": 30}, "sinusoidal"]},
    "axes and shaw": {"position": [{"kind": "shaw", "key_table": literal(9, 16, seed=4), "value_table": literal(9, 6, seed=5)},
                                   {"kind": "rotary", "layout": "halves", "axes": [
                                       {"num_pairs": 5, "query_positions": [*range(60)], "key_positions": [j / 4 for j in range(300)]}]}],
                      "query_positions": [*range(240, 300)]},
    "dropout": {"dropout_p": 0.3, "seed": 4},
    "cache": {"past_key": literal(2, 2, 11, 16, seed=7), "past_value": literal(2, 2, 11, 6, seed=8), "is_causal": True},
    "float64": {"query": literal(2, 4, 60, 16, seed=1, dtype="float64"), "is_causal": True},
    "float16": {"query": literal(2, 4, 60, 16, seed=1, dtype="float16")},
    "BLD": {"query": literal(2, 60, 64, seed=1), "key": literal(2, 300, 32, seed=2), "value": literal(2, 300, 12, seed=3),
            "layout": "BLD", "num_heads": 4, "num_kv_heads": 2},
    "projections": {"query": literal(2, 60, 16, seed=1), "key": literal(2, 300, 16, seed=2),
                    "value": literal(2, 300, 16, seed=3),
                    "projections": {"num_heads": 4, "w_q": literal(16, 16, seed=4), "w_o": literal(16, 16, seed=5),
                                    "add_positions": True}},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_bit_for_bit(daemon, form):
    run = Stored(daemon, MASKED | FORMS[form])
    whole = run.weights
    B, H, L, S = whole.shape
    for b, h in ((0, 0), (B - 1, H - 1)):
        at = f"batch={b}&head={h}"
        part = npy(run.get(f"/weights?{at}&rows=7:40&cols=3:250", headers=NPY))
        assert part.dtype == whole.dtype and np.array_equal(part, whole[b, h, 7:40, 3:250])
        rows = load_tensors(run.get(f"/rows?{at}&rows=11:13", headers=SAFETENSORS).content)
        assert np.array_equal(rows["weights"], whole[b, h, 11:13])
        lse = run.tensors["logsumexp"].reshape(B, -1, L)[b, h % 4, 11:13]
        if "subtract" in FORMS[form] or "weights" in FORMS[form].get("mix", ()):  # it is that of each head before
            lse = np.full(2, np.nan)
        assert np.allclose(rows["logsumexp"], lse, rtol=2e-7, atol=1e-6, equal_nan=True)
        top = load_tensors(run.get(f"/top-k?{at}&rows=4:6&top_k=5", headers=SAFETENSORS).content)
        assert np.array_equal(top["weight"], whole[b, h].astype(np.float32)[top["row"], top["col"]])
        for tile in range(2):
            reply = run.get(f"/tiles?{at}&level=0&y=0&x={tile}&encoding=f32")
            cells = whole[b, h, :, 256 * tile:256 * tile + 256].astype(np.float32)
            if reply.status_code == 204:
                assert not cells.any()
                continue
            planes = np.frombuffer(reply.content, "<f4").reshape(2, *cells.shape)
            hidden = np.isneginf(planes[0])
            assert np.array_equal(np.where(hidden, 0, planes[0]), cells) and np.array_equal(planes[0], planes[1])
    for q, k in ((0, 0), (59, 100), (30, S - 1)):
        cell = run.json(f"/cells?batch={B - 1}&head=1&row={q}&col={k}")
        assert cell["weight"] == pytest.approx(float(whole[B - 1, 1, q, k]), rel=1e-7, abs=0)
        assert cell["visible"] == (cell["hidden_by"] == [] or form == "fill")
        row = whole[B - 1, 1, q]
        if cell["visible"]:
            assert cell["rank"] == 1 + int((row > row[k]).sum()) + int((row[:k] == row[k]).sum()) or form != "plain"


def pyramid(weights, visible, level):
    """Max and mean of the visible cells of each 2^level square, -inf where there is none."""
    side = 1 << level
    R, C = (-(-n // side) for n in weights.shape)
    grow = [(0, R * side - weights.shape[0]), (0, C * side - weights.shape[1])]
    seen = np.pad(visible, grow).reshape(R, side, C, side)
    boxes = np.pad(weights, grow).reshape(R, side, C, side)
    most = np.where(seen, boxes, -np.inf).max((1, 3)).astype(np.float32)
    with np.errstate(invalid="ignore"):
        mean = np.where(seen, boxes, 0).sum((1, 3), dtype=np.float64) / seen.sum((1, 3))
    return most, np.where(np.isneginf(most), -np.inf, mean)


@pytest.fixture(scope="module")
def long(daemon):
    """2,100 queries and keys: levels 0 to 4, of which 3 and 4 come from the overview."""
    return Stored(daemon, {"query": literal(2100, 8, seed=11), "is_causal": True,
                           "pattern": {"kind": "global", "num_keys": 3, "local": 700}})


def all_tiles(run, level, shape, encoding):
    planes = np.full((2, *shape), -np.inf, np.float32)
    hidden = 0
    for y in range(-(-shape[0] // 256)):
        for x in range(-(-shape[1] // 256)):
            reply = run.get(f"/tiles?level={level}&y={y}&x={x}&encoding={encoding}&transform=linear")
            if reply.status_code == 204:
                assert reply.headers["X-Tile-Hidden"] == "all" and not reply.content
                hidden += 1
                continue
            assert reply.status_code == 200 and reply.headers["Content-Type"] == "application/octet-stream"
            rows, cols = map(int, reply.headers["X-Tile-Shape"].split(","))
            kind = "<f4" if encoding == "f32" else "u1"
            cells = np.frombuffer(reply.content, kind).reshape(2, rows, cols)
            if encoding == "u8":
                ranges = [list(map(float, reply.headers[f"X-Tile-{p}-Range"].split(","))) for p in ("Max", "Mean")]
                cells = np.stack([np.where(c == 0, -np.inf, lo + c / 255 * (hi - lo))
                                  for c, (lo, hi) in zip(cells, ranges, strict=True)])
            planes[:, 256 * y:256 * y + rows, 256 * x:256 * x + cols] = cells
    return planes, hidden


def test_the_pyramid(long):
    weights = long.weights[0, 0]
    i, j = np.indices(weights.shape)
    visible = (j <= i) & ((j < 3) | (i < 3) | (abs(i - j) <= 700))
    levels = long.json()["sites"][0]["tiles"]
    assert levels["levels"] == [[2100, 2100], [1050, 1050], [525, 525], [263, 263], [132, 132]]
    assert levels["overview_level"] == 3
    for level, shape in enumerate(levels["levels"]):
        planes, hidden = all_tiles(long, level, shape, "f32")
        most, mean = pyramid(weights, visible, level)
        assert np.array_equal(planes[0], most), level
        seen = np.isfinite(most)
        assert np.allclose(planes[1][seen], mean[seen], rtol=1e-7) and np.isneginf(planes[1][~seen]).all()
        if level < 2:
            assert hidden > 0


def test_octets(long):
    planes, _ = all_tiles(long, 2, (525, 525), "f32")
    coarse, _ = all_tiles(long, 2, (525, 525), "u8")
    seen = np.isfinite(planes)
    assert np.array_equal(seen, np.isfinite(coarse))
    assert np.abs(planes[seen] - coarse[seen]).max() <= 1.5 / 255


def test_headers_let_clients_keep_tiles(long):
    first = long.get("/tiles?level=3")
    assert re.fullmatch(r"private, max-age=\d+, immutable", first.headers["Cache-Control"])
    tag = first.headers["ETag"]
    assert re.fullmatch(r'W/"[^"]+"', tag) and first.headers["Content-Encoding"] == "gzip"
    plain = long.get("/tiles?level=3", headers={"Accept-Encoding": "identity"})
    assert plain.headers["ETag"] == tag[2:] and "Content-Encoding" not in plain.headers
    assert plain.content == first.content
    again = long.get("/tiles?level=3", headers={"If-None-Match": tag})
    assert again.status_code == 304 and not again.content and again.headers["ETag"] == tag
    assert long.get("/tiles?level=4").headers["ETag"] != tag
    assert long.get("/tiles?level=3&encoding=f32").headers["ETag"] != tag
    part = long.get("/weights?rows=0:2&cols=0:2")
    assert "immutable" in part.headers["Cache-Control"]
    kept = long.get("/weights?rows=0:2&cols=0:2", headers={"If-None-Match": part.headers["ETag"]})
    assert kept.status_code == 304


def test_answers_have_their_schemas(daemon, document):  # noqa: F811
    run = Stored(daemon, qkv(2, 2, 5, 6, 4) | {"labels": {"query": list("abcde"), "key": list("uvwxyz")}, "is_causal": True})
    schema(document, "Attention").validate(run.answer)
    described = run.json()
    schema(document, "Run").validate(described)
    site = described["sites"][0]
    assert [described["texts"][site[side]]["tokens"] for side in ("query_text", "key_text")] == [list("abcde"), list("uvwxyz")]
    assert described["sites"][0]["mask"] == "causal: query i sees keys 0 to i"
    for what, name in (("weights?rows=0:2", "RunWeights"), ("weights?stage=raw", "RunWeights"), ("rows", "RunRows"),
                       ("top-k", "RunEdges"), ("cells?row=1&col=3", "RunCell"),
                       ("heatmaps?heads=0,1&pool=both", "Heatmaps")):
        schema(document, name).validate(run.json("/" + what))
    body = {"hide": [1]}
    schema(document, "RunWhatIfRequest").validate(body)
    schema(document, "RunWhatIf").validate(daemon.post(run.path + "/what-if", body).json())
    cell = run.json("/cells?row=1&col=3&head=1")
    assert (cell["row"], cell["query_label"], cell["col"], cell["key_label"]) == (1, "b", 3, "x")
    assert cell["hidden_by"] == ["is_causal"] and not cell["visible"] and cell["rank"] == 0 and cell["num_visible_keys"] == 2
    assert cell["biased"] is None and cell["weight"] == 0
    assert sum(cell["products"]) == pytest.approx(cell["raw"], rel=1e-5)
    texts = [run.get(f"/cells?row={row}&col=3", headers={"Accept": "text/plain"}).text.strip() for row in (0, 1)]
    assert "hidden by is_causal" in texts[1]
    assert [text.split("; ")[-1] for text in texts] == ["the row sees 1 key", "the row sees 2 keys"]


def test_heatmap_is_that_of_attention(daemon):
    body = qkv(2, 3, 30, 40, 4) | {"window": [9, 4], "labels": {"query": [f"q{i}" for i in range(30)]}}
    options = {"heads": [1, 2], "rows": [3, 20], "cols": [0, 33], "max_cells": 50, "pool": "both", "top_k": 2}
    want = daemon.post("/v1/attention", body | {"return": [], "heatmap": options}).json()["heatmap"]
    run = Stored(daemon, body)
    query = "heads=1,2&rows=3:20&cols=0:33&max_cells=50&pool=both&top_k=2"
    assert run.json("/heatmaps?" + query) == want
    one = run.get("/heatmaps?heads=mean&batch=0&title=The+mean", headers={"Accept": "image/svg+xml"})
    assert one.status_code == 200 and one.text.startswith("<svg") and "The mean" in one.text


def test_top_p(daemon):
    run = Stored(daemon, {"query": literal(20, 8, seed=3), "key": literal(50, 8, seed=4), "value": literal(50, 2, seed=5)})
    got = run.json("/top-k?top_p=0.8")
    for r in range(20):
        keys = [k for i, k in zip(got["row"], got["col"], strict=True) if i == r]
        order = np.argsort(-run.weights[0, 0, r], kind="stable")
        mass = np.cumsum(run.weights[0, 0, r][order])
        assert keys == order[:int(np.searchsorted(mass, 0.8)) + 1].tolist()


@pytest.mark.parametrize("normalizer, words", [
    ("sigmoid", "; 1 / (1 + e^-(1.5 + bias 0)) = 0.817575; rank 1 of 3"), ("relu", "; max(0, 1.5) / 3 = 0.5; rank 1 of 3"),
    ({"kind": "relu_squared", "divisor": 2}, "; max(0, 1.5)^2 / 2 = 1.125; rank 1 of 3"),
    ("sparsemax", "; max(0, 1.5 - threshold 0.75) = 0.75; rank 1 of 3")])
def test_a_cell_of_another_normalizer(daemon, normalizer, words):
    run = Stored(daemon, {"query": [[1, 0]], "key": [[1, 0], [1.5, 0], [0, 1]], "value": [[4], [0], [4]], "scale": 1,
                          "normalizer": normalizer})
    cell = run.json("/cells?row=0&col=1")
    assert cell["words"] == "q . k = 1.5" + words
    assert cell["logsumexp"] is None and cell["row_max"] is None
    assert run.json()["sites"][0]["normalizer"] == (normalizer if isinstance(normalizer, str) else normalizer["kind"])


# --- what if ---

@pytest.mark.parametrize("form", ["causal", "booleans", "by head", "padding", "window", "alibi", "shaw", "rotary", "cache",
                                  "shaw of each head", "disentangled", "disentangled buckets",
                                  "rotary frequencies", "rotary scaling", "rotary axes", "rotary and alibi", "axes and shaw", "additive score", "float64", "BLD", "sigmoid",
                                  "relu_squared", "entmax", "mix", "mix, rotary", "mixed weights", "mixed weights, alibi", "subtract",
                                  "subtract, halves"])
def test_what_if_is_a_run_with_that_mask(daemon, form):
    body = MASKED | FORMS[form]
    run = Stored(daemon, body)
    S, hide = run.weights.shape[-1], [0, 5, 17, 5]
    head = min(2, run.weights.shape[1] - 1)
    padding = [k in hide for k in range(S)]
    got = load_tensors(daemon.post(run.path + "/what-if", {"hide": hide, "batch": 1, "head": head, "rows": [20, 31], "return": [
        "weights", "output", "removed", "weights_before", "output_before"]}, headers=SAFETENSORS).content)
    direct = load_tensors(daemon.post("/v1/attention", body | {
        "key_padding_mask": padding, "key_padding_semantics": "hide", "return": ["weights", "output"]},
        headers=SAFETENSORS).content)
    output = direct["output"]
    if form == "BLD":
        output = output.reshape(2, 60, 4, -1).transpose(0, 2, 1, 3)
    assert np.array_equal(got["weights"], direct["weights"][1, head, 20:31])
    assert np.array_equal(got["output"], output[1, head, 20:31])
    assert np.array_equal(got["weights_before"], run.weights[1, head, 20:31])
    before = run.weights[1, head, 20:31][:, sorted(set(hide))].astype(np.float64).sum(1)
    assert np.allclose(got["removed"], before, rtol=1e-12 if form == "float64" else 1e-7, atol=0)


@pytest.mark.parametrize("shape", [
    {"attn_mask": [1, 3, 5], "query": [3, 4]}, {"attn_bias": [1, 1, 3, 5], "query": [3, 4]}, {"attn_mask": [1, 1, 3, 5], "query": [2, 3, 4]},
    {"attn_mask": [2, 1, 3, 5], "query": [2, 3, 4]}, {"attn_mask": [2, 3, 5], "query": [2, 1, 3, 4]},
    {"attn_mask": [2, 1, 1, 5], "query": [2, 2, 3, 4]}, {"attn_bias": [1, 1, 2, 3, 5], "query": [2, 3, 4]},
    {"attn_bias": [2, 3, 1], "query": [2, 2, 3, 4]}, {"key_padding_mask": [1, 5], "query": [3, 4]},
    {"key_padding_mask": [1, 1, 5], "query": [3, 4]}, {"key_padding_mask": [6, 5], "query": [2, 3, 1, 3, 4]},
    {"key_padding_mask": [1, 3, 5], "query": [2, 3, 1, 3, 4]}], ids=str)
def test_what_if_broadcasts_masks_as_the_run(daemon, shape):
    """Masks of more and fewer axes than the weights: each batch entry and head has its own part of them."""
    r = np.random.default_rng(5)
    (name, axes), query = next(iter(shape.items())), shape["query"]
    values = r.normal(size=axes) if name == "attn_bias" else r.random(axes) < 0.6
    body = {"query": r.normal(size=query).tolist(), name: values.tolist(), "store": True, "return": ["weights"]}
    body |= {part: r.normal(size=query[:-2] + [5, 4]).tolist() for part in ("key", "value")}
    answer = ask(daemon, body | ({"key_padding_semantics": "keep"} if name == "key_padding_mask" else {}))
    weights = np.reshape(answer["weights"], (-1, query[-3] if len(query) > 3 else 1, 3, 5))
    for batch, heads in enumerate(weights):
        for head, want in enumerate(heads):
            got = ask(daemon, {"hide": [], "batch": batch, "head": head, "return": ["weights_before", "weights"]},
                      f"/v1/runs/{answer['run']['id']}/what-if")
            assert got == {"weights_before": want.tolist(), "weights": want.tolist()}


def test_what_if_refuses(daemon):
    run = Stored(daemon, MASKED | FORMS["fill"])
    problem = daemon.post(run.path + "/what-if", {"hide": [0]}).json()
    assert problem["pointer"] == "/hide" and "mask_fill" in problem["detail"]
    run = Stored(daemon, MASKED)
    for hide, status in (([300], 422), ([0, -1], 422), (None, 422)):
        reply = daemon.post(run.path + "/what-if", {"hide": hide})
        assert (reply.status_code, reply.json()["pointer"]) == (status, f"/hide/{len(hide) - 1}" if hide else "")


# --- queries ---

@pytest.mark.parametrize(("what", "status", "pointer", "words"), [
    ("/weights?rows=5:2", 422, "/rows", "5:2"), ("/weights?rows=0:61", 422, "/rows", "from:to"),
    ("/weights?cols=0:301", 422, "/cols", "<= 300"), ("/weights?head=4", 422, "/head", "4 heads"),
    ("/weights?batch=2", 422, "/batch", "2 batch"), ("/weights?layer=1", 422, "/layer", "no such site"),
    ("/weights?site=decoder", 422, "/site", "attention"), ("/weights?rwos=1:2", 422, "/rwos", "rows"),
    ("/weights?head=1&head=2", 400, "/head", "twice"), ("/weights?rows=0:1&rows=3", 400, "/rows", "rows=0:1,3"), ("/weights?head=one", 422, "/head", "integer"),
    ("/tiles?level=9", 422, "/level", "2 levels"), ("/tiles?y=1", 422, "/y", "expected 0, the only one, found 1"),
    ("/tiles?encoding=f16", 422, "/encoding", "u8"), ("/cells?row=1", 422, "/col", "\"col\" is required"),
    ("/cells?row=60&col=0", 422, "/row", "60"), ("/cells?row=0&col=300", 422, "/col", "300"),
    ("/cells?q=1&col=0", 422, "/q", "called \"row\""), ("/cells?row=1&k=0", 422, "/k", "called \"col\""),
    ("/cells?query=1&col=0", 422, "/query", "called \"row\""), ("/cells?row=1&key=0", 422, "/key", "called \"col\""),
    ("/top-k?top_k=0", 422, "/top_k", "1"), ("/top-k?k=3", 422, "/k", "called \"top_k\""),
    ("/top-k?p=0.5", 422, "/p", "called \"top_p\""), ("/analyses?top_keys=3", 422, "/top_keys", "called \"top_k\""), ("/heatmaps?heads=9", 422, "/heads", "9"), ("/heatmaps?figure=x", 422, "/figure", "title="),
], ids=str)
def test_refusals(daemon, what, status, pointer, words):
    run = Stored(daemon, MASKED)
    reply = run.get(what)
    problem = reply.json()
    assert reply.status_code == status and problem.get("pointer") == pointer, problem
    assert words in problem["detail"]


def test_every_number_of_a_cell_is_rounded(daemon):
    text = Stored(daemon, MASKED).get("/cells?row=3&col=1&decimals=2").text
    numbers = re.findall(r"-?\d+\.(\d+)", text.split('"words"')[0])
    assert numbers and all(len(digits) <= 2 for digits in numbers), text


def test_unknown_ids(daemon):
    for name in ("0" * 32, "nothing", "../../etc/passwd", "A" * 32, "0" * 31):
        reply = daemon.get("/v1/runs/" + name)
        assert reply.status_code == 404, name
    refused(daemon, {"query": [[1]], "store": 1}, "wrong_type", "/store")


def test_deleted_is_gone(daemon):
    run = Stored(daemon, MASKED)
    assert daemon.request("DELETE", run.path).status_code == 204
    for what in ("", "/weights", "/tiles"):
        assert run.get(what).status_code == 410
    assert daemon.request("DELETE", run.path).status_code == 404
    assert daemon.request("PUT", run.path).headers["Allow"] == "GET, HEAD, DELETE, OPTIONS"


@pytest.mark.parametrize("body", [
    MASKED, MASKED | FORMS["padding"], {"query": literal(3, 2, seed=1), "labels": {"query": ["a", "b", "c"], "key": ["d", "e", "f"]}},
    {"query": literal(1, 2, 3, 1500, 4, seed=1)}], ids=range(4))
def test_storing_answers_what_get_answers(daemon, document, body):  # noqa: F811
    answer = daemon.post("/v1/attention", body | {"store": True, "return": []})
    schema(document, "Attention").validate(answer.json())
    run = answer.json()["run"]
    assert list(run) == list(daemon.get("/v1/runs/" + run["id"]).json())
    assert run == daemon.get("/v1/runs/" + run["id"]).json()
    binary = daemon.post("/v1/attention", body | {"store": True}, headers=SAFETENSORS)
    assert binary.status_code == 200 and binary.headers["X-Run-Id"]


def test_equal_requests_have_ids_of_their_own(daemon):
    assert Stored(daemon, MASKED).id != Stored(daemon, MASKED).id


# --- the store ---

SMALL = {"query": literal(64, 512, seed=1), "store": True, "return": []}  # about 130 KB


@pytest.mark.parametrize("files", [False, True], ids=["memory", "directory"])
def test_budget_and_use(start, tmp_path, files):
    """The least recently used run goes first, and one that cannot fit is refused."""
    where = ("--runs_dir", str(tmp_path)) if files else ()
    daemon = start("--runs_bytes", "600000", *where)
    ids = []
    for _ in range(3):
        ids.append(daemon.post("/v1/attention", SMALL).json()["run"]["id"])
        time.sleep(0.02)
    assert daemon.get("/v1/runs/" + ids[0]).status_code == 200  # now the second is the oldest
    for _ in range(2):
        ids.append(daemon.post("/v1/attention", SMALL).json()["run"]["id"])
    status = [daemon.get("/v1/runs/" + i).status_code for i in ids]
    assert status[0] == 200 and status[1] == 410 and status[-1] == 200
    large = daemon.post("/v1/attention", {"query": literal(64, 4096, seed=1), "store": True})
    assert large.status_code == 413 and large.json()["limit"]["setting"] == "runs_bytes"
    assert daemon.metric("attnd_runs") == status.count(200)
    assert daemon.metric("attnd_runs_evicted_total") == status.count(410)


@pytest.mark.parametrize("files", [False, True], ids=["memory", "directory"])
def test_time_to_live(start, tmp_path, files):
    daemon = start("--runs-ttl-ms", "1000", *(("--runs-dir", str(tmp_path)) if files else ()))
    path = "/v1/runs/" + daemon.post("/v1/attention", SMALL).json()["run"]["id"]
    assert eventually(lambda: daemon.metric("attnd_runs_expired_total") == 1)
    assert daemon.get(path).status_code == 410
    assert not list(tmp_path.glob("*.safetensors"))


def test_memory_is_counted_and_given_back(start):
    daemon = start()
    before = daemon.metric("attnd_memory_reserved_bytes")
    paths = ["/v1/runs/" + daemon.post("/v1/attention", SMALL).json()["run"]["id"] for _ in range(4)]
    assert daemon.metric("attnd_memory_reserved_bytes") - before > 4 * 2 * 64 * 512
    for path in paths:
        daemon.request("DELETE", path)
    assert daemon.metric("attnd_memory_reserved_bytes") - before < 100_000


def test_python_opens_a_run(start, tmp_path):
    daemon = start("--runs_dir", str(tmp_path))
    run = Stored(daemon, {"query": literal(40, 8, seed=1), "key": literal(50, 8, seed=2), "value": literal(50, 3, seed=3),
                          "attn_mask": (rng.random((40, 50)) < 0.7).tolist()})
    file = tmp_path / f"{run.id}.safetensors"
    assert file.stat().st_mode & 0o777 == 0o600
    with safe_open(str(file), "numpy") as opened:
        meta = opened.metadata()
        described = json.loads(meta["run"])
        site, = described["sites"]
        q, k = (opened.get_tensor(site[name]).astype(float) for name in ("query", "key"))
        mask, = site["masks"]
        keep = np.unpackbits(opened.get_tensor(mask["values"]), axis=1, bitorder="little")[:, :50].astype(bool)
    assert described["version"] == 2 and site["name"] == "attention" and mask["kind"] == "bits"
    scores = np.where(keep, q @ k.T / np.sqrt(8), -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    assert np.abs(weights - run.weights[0, 0]).max() < 1e-6


def test_replicas_share_a_directory(start, tmp_path):
    one, other = (start("--runs_dir", str(tmp_path)) for _ in range(2))
    run = Stored(one, MASKED | FORMS["booleans"])
    there = npy(other.get(run.path + "/weights?head=3", headers=NPY))
    assert np.array_equal(there, run.weights[0, 3])
    here, there = run.json(), other.get(run.path).json()
    assert abs(here.pop("expires_ms") - there.pop("expires_ms")) < 10000 and here == there  # each has its own clock
    assert other.request("DELETE", run.path).status_code == 204
    assert run.get().status_code == 410 and other.get(run.path).status_code == 410


def test_another_kernel_table(start, tmp_path):
    """A run is looked at with the table that made it, whichever the daemon computes with itself."""
    for theirs, ours in (("ref", "auto"), ("auto", "ref")):
        maker, viewer = (start("--runs_dir", str(tmp_path), "--isa", isa) for isa in (theirs, ours))
        run = Stored(maker, MASKED | FORMS["causal"])
        assert np.array_equal(npy(viewer.get(run.path + "/weights?head=2", headers=NPY)), run.weights[0, 2])
        site = viewer.get(run.path).json()["sites"][0]
        assert site["kernel"] == maker.kernels and site["exact"]


def test_broken_files_are_no_runs(start, tmp_path):
    daemon = start("--runs_dir", str(tmp_path))
    run = Stored(daemon, MASKED)
    whole = (tmp_path / f"{run.id}.safetensors").read_bytes()
    for n, content in enumerate((b"", b"no run", whole[:100], whole[:-1], whole + b"x")):
        name = f"{n:032x}"
        (tmp_path / f"{name}.safetensors").write_bytes(content)
        reply = daemon.get("/v1/runs/" + name)
        assert (reply.status_code, reply.json()["code"]) == (500, "damaged"), reply.text
    (tmp_path / ("f" * 32 + ".safetensors")).write_bytes(whole)
    assert daemon.get("/v1/runs/" + "f" * 32).status_code == 200


def test_killed_while_storing(start, tmp_path):
    """A writer that dies leaves nothing that is ever read, and what it leaves is cleaned away."""
    reader = start("--runs_dir", str(tmp_path))
    kept = Stored(reader, MASKED)
    body = json.dumps({"query": literal(1, 1, 4000, 2048, seed=1), "window": [1, 0], "store": True, "return": []})
    torn = 0
    for _ in range(6):
        writer = start("--runs_dir", str(tmp_path), "--log", "off")
        sender = subprocess.Popen(["curl", "-s", "-o", "/dev/null", "-d", body, writer.url + "/v1/attention"])
        end = time.monotonic() + PATIENCE
        while not list(tmp_path.glob("*.part")) and sender.poll() is None and time.monotonic() < end:
            time.sleep(0.0005)
        os.kill(writer.pid, signal.SIGKILL)
        writer.process.wait()
        sender.wait()
        torn += len(list(tmp_path.glob("*.part")))
        for file in tmp_path.glob("*.safetensors"):
            assert reader.get("/v1/runs/" + file.name[:32]).status_code == 200
    assert torn > 0
    assert eventually(lambda: not list(tmp_path.glob("*.part")))
    assert kept.get("/weights?rows=0:1").status_code == 200


def test_refuses_to_start_without_its_directory(tmp_path):
    from conftest import run_attnd
    ended = run_attnd("--port", "0", "--runs_dir", str(tmp_path / "none"))
    assert ended.returncode == 2 and "runs_dir" in ended.stderr


def test_all_weights_of_a_long_run_are_asked_for(daemon):
    run = Stored(daemon, {"query": literal(300, 8, seed=1), "return": [], "heatmap": {}})
    for what in ("/weights", "/rows"):
        problem = run.get(what).json()
        assert problem["pointer"] == "/rows" and "90000" in problem["detail"], problem
        assert run.get(what + "?rows=0:300").status_code == 200
    assert run.get("/weights?cols=0:300").status_code == 200


@pytest.mark.parametrize("accept", ["application/json", "image/svg+xml", "image/png", "text/csv", "text/plain"])
def test_the_id_is_in_the_header_too(daemon, accept):
    reply = daemon.post("/v1/attention", {"query": [[1, 0], [0, 1]], "store": True, "heatmap": {}}, headers={"Accept": accept})
    assert reply.status_code == 200
    assert daemon.get(f"/v1/runs/{reply.headers['X-Run-Id']}").status_code == 200
    assert "X-Run-Id" not in daemon.post("/v1/attention", {"query": [[1]]}).headers


def test_vectors_of_a_cell_are_the_inputs(daemon):
    run = Stored(daemon, {"query": [[0.1, 0.2]], "return": ["weights"]})
    assert '"query":[0.1,0.2],"key":[0.1,0.2]' in run.get("/cells?row=0&col=0").text
