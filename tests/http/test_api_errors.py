"""Every way in which the fields of POST /v1/attention can be wrong: status, code, pointer, words."""
import base64
import re

import numpy as np
import pytest
from api_client import ask, normal, qkv, refused

GOOD = qkv()


@pytest.mark.parametrize("extra, code, pointer, words", [
    # unknown fields name the nearest known one, nested ones too
    ({"qery": 1}, "unknown_field", "/qery", ["query"]),
    ({"is_casual": True}, "unknown_field", "/is_casual", ["is_causal"]),
    ({"heatmap": {"pol": "max"}}, "unknown_field", "/heatmap/pol", ["pool"]),
    ({"labels": {"keys": ["a"]}}, "unknown_field", "/labels/keys", ["key"]),
    ({"mask_fill": {"value": 1, "mode": "add", "valu": 2}}, "unknown_field", "/mask_fill/valu", ["value"]),
    # types and ranges
    ({"is_causal": 1}, "wrong_type", "/is_causal", []),
    ({"is_causal": "yes"}, "wrong_type", "/is_causal", []),
    ({"softcap": -1}, "invalid_value", "/softcap", ["-1"]),
    ({"softcap": "30"}, "wrong_type", "/softcap", []),
    ({"scale": "yes"}, "wrong_type", "/scale", ["a number, true, false, or a tensor"]),
    ({"scale": "auto"}, "wrong_type", "/scale", []),
    ({"precision": "fp16"}, "invalid_value", "/precision", ["bf16"]),
    ({"precision": "bf16", "grad_output": [[1]]}, "invalid_value", "/precision", ["fp32"]),
    ({"decimals": 18}, "invalid_value", "/decimals", ["17"]),
    ({"decimals": -1}, "invalid_value", "/decimals", []),
    ({"decimals": 1.5}, "wrong_type", "/decimals", []),
    ({"timeout_ms": 0}, "invalid_value", "/timeout_ms", []),
    ({"layout": "BHSD"}, "invalid_value", "/layout", ["BHLE"]),
    ({"mask_semantics": "drop", "attn_mask": [1, 0, 1, 0, 1]}, "invalid_value", "/mask_semantics", ["keep"]),
    ({"score_stage": "final", "return": ["scores"]}, "invalid_value", "/score_stage", ["probs"]),
    ({"return": ["ouput"]}, "invalid_value", "/return/0", ["output"]),
    ({"return": ["output", 3]}, "wrong_type", "/return/1", []),
    ({"return": []}, "invalid_value", "/return", ["heatmap"]),
    ({"query_offset": 1.5}, "wrong_type", "/query_offset", []),
    ({"query_offset": "start"}, "invalid_value", "/query_offset", ["end"]),
    ({"query_offset": [0, 1]}, "shape_mismatch", "/query_offset", ["2"]),
    ({"query_offset": []}, "shape_mismatch", "/query_offset", []),
    ({"window": [1]}, "invalid_value", "/window", ["two"]),
    ({"window": [-2, 0]}, "invalid_value", "/window/0", ["-1"]),
    ({"window": [0, 1, 2]}, "invalid_value", "/window", []),
    ({"window": 3}, "wrong_type", "/window", []),
    ({"mask_fill": {"mode": "add"}}, "invalid_value", "/mask_fill", ["value"]),
    ({"mask_fill": {"value": -1e9, "mode": "set"}}, "invalid_value", "/mask_fill/mode", ["replace"]),
    ({"mask_fill": "-1e9"}, "wrong_type", "/mask_fill", ["a number or an object with \"value\", \"mode\""]),
    ({"mask_fill": True}, "wrong_type", "/mask_fill", ["a number or an object"]),
    ({"mask_fill": -1e39, "is_causal": True}, "invalid_value", "/mask_fill/value", ["float32"]),
    # one field without the other: the text names both
    ({"mask_semantics": "keep"}, "invalid_value", "/mask_semantics", ["mask_semantics", "attn_mask"]),
    ({"key_padding_semantics": "keep"}, "invalid_value", "/key_padding_semantics", ["key_padding_mask"]),
    ({"key_padding_mask": [True] * 5}, "mask_semantics", "/key_padding_mask", ["key_padding_semantics", "hide"]),
    ({"token_ids": [1, 2, 3, 0, 0]}, "invalid_value", "/token_ids", ["token_ids", "pad_id"]),
    ({"pad_id": 0}, "invalid_value", "/pad_id", ["pad_id", "token_ids"]),
    ({"key": None}, "invalid_value", "/value", ["value", "key"]),
    ({"value": None, "return": "output"}, "invalid_value", "/return", ["output", "value"]),
    ({"past_key": normal(2, 4)}, "invalid_value", "/past_key", ["past_key", "past_value"]),
    ({"past_value": normal(2, 4)}, "invalid_value", "/past_value", ["past_value", "past_key"]),
    ({"score_stage": "raw"}, "invalid_value", "/score_stage", ["score_stage", "return"]),
    ({"num_heads": 2}, "invalid_value", "/num_heads", ["num_heads", "BLD"]),
    ({"num_kv_heads": 2}, "invalid_value", "/num_kv_heads", ["num_kv_heads", "num_heads"]),
    ({"layout": "BLD"}, "invalid_value", "/layout", ["BLD", "num_heads"]),
    # masks
    ({"attn_mask": [1, 0, 1, 0, 1]}, "mask_semantics", "/attn_mask", ["keep", "hide", "additive", "nonzero"]),
    ({"attn_mask": [[0.0] * 5] * 3}, "mask_semantics", "/attn_mask", ["keep", "hide"]),
    ({"attn_mask": [1, 0.5, 0, 0, 1], "mask_semantics": "keep"}, "invalid_value", "/attn_mask/1", ["0.5"]),
    ({"attn_mask": [1, True, 0, 0, 1]}, "wrong_type", "/attn_mask/1", []),
    ({"attn_mask": [[True] * 4] * 3}, "shape_mismatch", "/attn_mask", ["[3, 4]", "[3, 5]"]),
    ({"attn_mask": [[True] * 5] * 2}, "shape_mismatch", "/attn_mask", ["[2, 5]", "[3, 5]"]),
    ({"attn_bias": [[True] * 5] * 3}, "wrong_type", "/attn_bias/0/0", []),
    ({"attn_bias": [[0.0] * 6] * 3}, "shape_mismatch", "/attn_bias", ["6"]),
    ({"key_padding_mask": [True] * 4, "key_padding_semantics": "keep"}, "shape_mismatch", "/key_padding_mask", ["4"]),
    ({"key_lengths": [6]}, "invalid_value", "/key_lengths/0", ["6", "5"]),
    ({"key_lengths": [1, 2]}, "shape_mismatch", "/key_lengths", ["2"]),
    ({"key_lengths": [1.5]}, "invalid_value", "/key_lengths/0", []),
    ({"token_ids": [1, 2, 3], "pad_id": 0}, "shape_mismatch", "/token_ids", ["3", "5"]),
    ({"token_ids": [[1, 2, 3, 4, 0.5]], "pad_id": 0}, "invalid_value", "/token_ids/0/4", []),
    # labels
    ({"labels": {"key": ["a"]}}, "shape_mismatch", "/labels/key", ["5", "1"]),
    ({"labels": {"query": ["a", "b", "c", "d"]}}, "shape_mismatch", "/labels/query", ["3", "4"]),
    ({"labels": {"query": "abc"}}, "wrong_type", "/labels/query", []),
    ({"labels": {"query": ["a", 1, "c"]}}, "wrong_type", "/labels/query/1", []),
    # heatmaps
    ({"heatmap": {"rows": [0, 4]}}, "invalid_value", "/heatmap/rows", ["3"]),
    ({"heatmap": {"rows": [2, 2]}}, "invalid_value", "/heatmap/rows", []),
    ({"heatmap": {"cols": [-1, 2]}}, "invalid_value", "/heatmap/cols", ["[-1, 2]"]),
    ({"heatmap": {"cols": [1]}}, "invalid_value", "/heatmap/cols", []),
    ({"heatmap": {"heads": [1]}}, "invalid_value", "/heatmap/heads/0", ["1"]),
    ({"heatmap": {"heads": []}}, "invalid_value", "/heatmap/heads", []),
    ({"heatmap": {"heads": "first"}}, "invalid_value", "/heatmap/heads", ["mean"]),
    ({"heatmap": {"batch": [1]}}, "invalid_value", "/heatmap/batch/0", []),
    ({"heatmap": {"batch": []}}, "invalid_value", "/heatmap/batch", []),
    ({"heatmap": {"max_cells": 0}}, "invalid_value", "/heatmap/max_cells", []),
    ({"heatmap": {"pool": "min"}}, "invalid_value", "/heatmap/pool", ["max"]),
    ({"heatmap": {"encoding": "png"}}, "invalid_value", "/heatmap/encoding", ["u8"]),
    ({"heatmap": {"transform": "sqrt"}}, "invalid_value", "/heatmap/transform", ["u8"]),
    ({"heatmap": {"top_k": 0}}, "invalid_value", "/heatmap/top_k", []),
    ({"heatmap": {"top_p": 1.5}}, "invalid_value", "/heatmap/top_p", ["1"]),
    ({"heatmap": True}, "wrong_type", "/heatmap", []),
])
def test_refused(daemon, extra, code, pointer, words):
    refused(daemon, GOOD | extra, code, pointer, *words)


def test_query_is_required(daemon):
    refused(daemon, {"key": GOOD["key"], "value": GOOD["value"]}, "invalid_value", "", "query")


@pytest.mark.parametrize("name, value, pointer", [
    ("key", normal(5, 3), "/key"),
    ("value", normal(4, 4), "/value"),
    ("key", normal(1, 5, 4), "/key"),
    ("query", normal(4), "/query"),
    ("query", 3, "/query"),
    ("query", [[1, 2], [3]], "/query/1"),
    ("query", [[1, 2], [3, "x"]], "/query/1/1"),
    ("query", [[1, 2], [3, None]], "/query/1/1"),
    ("query", [[1, 2], [3, True]], "/query/1/1"),
])
def test_tensors_that_do_not_fit(daemon, name, value, pointer):
    reply = daemon.post("/v1/attention", GOOD | {name: value})
    assert reply.status_code == 422 and reply.json()["pointer"] == pointer, reply.text


def test_unequal_ranks_say_what_to_send(daemon):
    body = {"query": normal(8, 16), "key": normal(8, 20, 16), "value": normal(8, 20, 16)}
    problem = refused(daemon, body, "shape_mismatch", "/key")
    assert "rank" in problem["detail"]


def test_head_counts(daemon):
    refused(daemon, qkv(B=1, H=4, Hkv=3), "shape_mismatch", "/key")
    refused(daemon, qkv(B=1, H=4, Hkv=2) | {"enable_gqa": False}, "shape_mismatch", "/key", "4", "2", "enable_gqa")
    body = {"query": normal(1, 3, 6), "layout": "BLD", "num_heads": 4}
    refused(daemon, body, "shape_mismatch", "/query", "4", "6")


def test_cache_shapes(daemon):
    body = qkv(B=1, H=2) | {"past_key": normal(1, 3, 2, 4), "past_value": normal(1, 3, 2, 4)}
    refused(daemon, body, "shape_mismatch", "/past_key")
    body = qkv(B=1, H=2) | {"past_key": normal(1, 2, 2, 4), "past_value": normal(1, 2, 3, 4)}
    refused(daemon, body, "shape_mismatch", "/past_value")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_visible_nonfinite_values(daemon, name, bad):
    x = np.array(GOOD[name], np.float32)
    x[1, 2] = bad
    spelled = {"shape": list(x.shape), "base64": base64.b64encode(x.tobytes()).decode()}
    refused(daemon, GOOD | {name: spelled}, "nonfinite_value", f"/{name}/1/2")


def test_numbers_beyond_float32(daemon):
    text = '{"query":[[1,1e39]]}'
    refused(daemon, text, "nonfinite_value", "/query/0/1")


def test_scores_that_overflow(daemon):
    big = [[3e38, 3e38]]
    problem = daemon.post("/v1/attention", {"query": big, "key": big, "value": [[1, 2]], "scale": 1}).json()
    assert (problem["status"], problem["code"]) == (422, "nonfinite_value")


def test_too_many_cells_are_told_in_numbers(start):
    daemon = start(env={"ATTND_MAX_CELLS": "1000"})
    ask(daemon, {"query": {"shape": [31, 2], "fill": "ones"}})
    problem = refused(daemon, {"query": {"shape": [32, 2], "fill": "ones"}}, "too_large", None, "1024", status=413)
    assert problem["limit"] == {"value": 1000, "setting": "max_cells"}
    refused(daemon, {"shape": [32, 32]}, "too_large", None, "1024", path="/v1/masks", status=413)


def test_skipped_cells_are_within_the_limit(start):
    """A window leaves 128 of 2,048 keys: what the pass computes counts, and not the whole matrix."""
    daemon = start(env={"ATTND_MAX_CELLS": "1e6"})
    body = {"query": {"shape": [2048, 2], "random": "normal"}, "return": ["output"]}
    window = body | {"window": [127, 0], "is_causal": True}
    assert len(ask(daemon, window)["output"]) == 2048
    assert ask(daemon, window | {"dry_run": True})["dry_run"]["fits"]
    refused(daemon, body, "too_large", None, "4.194e+06", status=413)
    assert not ask(daemon, body | {"dry_run": True})["dry_run"]["fits"]
    refused(daemon, window | {"window": [1900, 0]}, "too_large", None, "are computed", status=413)
    refused(daemon, window | {"heatmap": {}}, "too_large", None, "4.194e+06", status=413)


def test_too_many_bytes_are_told_in_numbers(start):
    daemon = start(env={"ATTND_MAX_REQUEST_BYTES": "16MiB"})
    body = {"query": {"shape": [4096, 2], "fill": "ones"}}
    assert "omitted" in ask(daemon, body)
    problem = refused(daemon, body | {"return": "weights"}, "too_large", None, status=413)
    assert problem["limit"] == {"value": 16 << 20, "setting": "max_request_bytes"}
    results = int(re.search(r"results \((\d+) bytes\)", problem["detail"]).group(1))
    assert 4096 * 4096 * 4 <= results < 4096 * 4096 * 5
    assert "heatmap" in ask(daemon, body | {"return": "heatmap"})


@pytest.mark.parametrize("path, extra, pointer, text", [
    ("/v1/attention", {"scale": "auto"}, "/scale", "expected a number, true, false, or a tensor, found"),
    ("/v1/attention", {"window": [1]}, "/window", "window must be a list of two integers, found a list of 1"),
    ("/v1/attention", {"window": []}, "/window", "found a list of 0"),
    ("/v1/attention", {"labels": {"query": ["a", "b"]}}, "/labels/query", "expected 3 names (one a query), found 2"),
    ("/v1/attention", {"query": [[1.0, 2.0, 3.0, 4.0]], "labels": {"query": ["a", "b"]}}, "/labels/query",
     "expected 1 name (one a query), found 2"),
    ("/v1/attention", {"key": {"shape": [1], "data": []}}, "/key/data", "needs 1 element, data has 0"),
    ("/v1/heatmaps", {"titles": ["a", "b"]}, "/titles", "expected 1 title (one a head), found 2"),
    ("/v1/positions", {"kind": "alibi", "slopes": [0.5], "num_heads": 3, "length": 2}, "/num_heads",
     "expected 1, the heads of slopes, found 3"),
])
def test_counts_and_choices_are_worded(daemon, path, extra, pointer, text):
    base = {"/v1/attention": GOOD, "/v1/heatmaps": {"weights": [[1.0]]}, "/v1/positions": {}}[path]
    problem = daemon.post(path, {**base, **extra}).json()
    assert problem["pointer"] == pointer and text in problem["detail"], problem


def test_one_hidden_row_is_worded_like_one(daemon):
    one = ask(daemon, {"query": [[1, 0], [0, 1]], "attn_mask": [[True, False], [False, False]]})
    two = ask(daemon, {"query": [[1, 0], [0, 1]], "attn_mask": [[False, False], [False, False]]})
    texts = [w["detail"] for answer in (one, two) for w in answer["warnings"] if w["code"] == "hidden_rows"]
    assert texts == ["1 row of 2 sees no key: query 1. Its output and weights are zeros unless mask_fill is set",
                     "2 rows of 2 see no key: query 0, query 1. Their output and weights are zeros unless mask_fill is set"]


def test_one_odd_row_is_worded_like_one(daemon):
    one = ask(daemon, {"weights": [[1.5, -0.5], [0.5, 0.6]]}, path="/v1/heatmaps")
    texts = [w["detail"] for w in one["warnings"]]
    assert texts[0].startswith("1 row of 2 does not sum to 1"), texts
    assert texts[1].startswith("2 weights are negative or above 1"), texts
    single = ask(daemon, {"weights": [[1.5, 0.0], [0.5, 0.5]]}, path="/v1/heatmaps")
    assert single["warnings"][1]["detail"].startswith("1 weight is negative or above 1")


def test_a_deadline_of_the_inference_protocol_is_named_where_it_stands(daemon):
    tensor = {"datatype": "FP32", "shape": [600, 64], "data": [1] * (600 * 64)}
    body = {"inputs": [tensor | {"name": name} for name in ("query", "key", "value")], "parameters": {"timeout": 1}}
    problem = daemon.post("/v2/models/scaled_dot_product_attention/infer", body).json()
    assert (problem["code"], problem["pointer"]) == ("deadline_exceeded", "/parameters/timeout"), problem


@pytest.mark.parametrize("method, path, body, words", [
    ("GET", "/v1/attention", None, "send a body (curl: -d"),
    ("POST", "/v1/attention", b"\x10" + bytes(7) + b"{}", "Content-Type, such as application/vnd.safetensors"),
])
def test_the_next_step_is_told(daemon, method, path, body, words):
    assert words in daemon.request(method, path, data=body).json()["detail"]


def test_only_what_there_is_is_promised(daemon):
    paths = daemon.get("/openapi.json").json()["paths"]
    assert any("repository/models" in path for path in paths) == ("model_repository" in daemon.get("/v2").json()["extensions"])
    assert "length_required" not in daemon.get("/metrics").text
