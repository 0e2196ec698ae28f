"""Inputs that are described instead of sent: random numbers of a given spread, initial values of weights,
projections of a seed. And encodings of positions that are added to them."""
import math
import zlib

import numpy as np
import pytest
from api_client import ask, close, like_oracle, refused

from oracle import forms, rng


def value(daemon, literal):
    """The elements of a literal, which come back as the value that one weight of 1 multiplies."""
    shape = [literal["shape"][0], 1, literal["shape"][1]]
    body = {"query": {"shape": [shape[0], 1, 1], "fill": "ones"}, "key": {"shape": [shape[0], 1, 1], "fill": "ones"},
            "value": literal | {"shape": shape} if "init" not in literal else None}
    if "init" in literal:  # the value 1 projected by W = the literal, a row of the identity at a time
        n = literal["shape"][1]
        body = {"query": {"shape": [n, 1, n], "data": np.eye(n).reshape(-1).tolist()},
                "projections": {"num_heads": 1, "w_v": literal}}
        return np.array(ask(daemon, body | {"return": "output"})["output"])[:, 0].T
    return np.array(ask(daemon, body | {"return": "output"})["output"])[:, 0]


@pytest.mark.parametrize("literal, centre, factor", [
    ({"random": "normal"}, 0, 1), ({"random": "normal", "std": 0.02}, 0, 0.02), ({"random": "uniform"}, 0, 1),
    ({"random": "uniform", "std": 0.1}, 0.5, 0.1 * math.sqrt(12)),
    ({"init": "xavier_uniform"}, 0.5, 2 * math.sqrt(6 / 96)), ({"init": "xavier_normal"}, 0, math.sqrt(2 / 96)),
    ({"init": "kaiming_uniform"}, 0.5, 2 / math.sqrt(32)),  # as torch.nn.Linear: within 1/sqrt(fan_in)
    ({"init": "kaiming_normal"}, 0, math.sqrt(1 / 3 / 32)),
    ({"init": "kaiming_uniform", "a": 0}, 0.5, 2 * math.sqrt(6 / 32)),  # as torch.nn.init's own default
], ids=str)
def test_spread_of_literals(daemon, literal, centre, factor):
    shape = [64, 32]
    draw = rng.normal if "normal" in literal.get("random", literal.get("init")) else rng.uniform
    expected = factor * (draw(7, 64 * 32) - centre).reshape(shape)
    close(value(daemon, {"shape": shape, "seed": 7} | literal).tolist(), expected, 2e-7)


def test_the_bias_of_a_linear_layer(daemon):
    """nn.Linear(256, 512) draws its bias uniformly within 1/sqrt(256); b_q = b_k give the scores of one vector."""
    bias = {"shape": [512], "init": "kaiming_uniform", "fan_in": 256, "seed": 7}
    body = {"query": {"shape": [1, 256], "fill": "zeros"}, "return": "inputs", "projections": {
        "num_heads": 1, "w_q": {"shape": [512, 256], "fill": "zeros"}, "w_k": {"shape": [512, 256], "fill": "zeros"},
        "b_q": bias, "b_k": bias | {"a": 0}}}
    answer = ask(daemon, body)
    query, key = (np.reshape(answer[name], 512) for name in ("query", "key"))
    draws = 2 * rng.uniform(7, 512) - 1
    close(query.tolist(), draws / 16, 2e-7)
    close(key.tolist(), draws * math.sqrt(6 / 256), 2e-7)
    assert np.abs(query).max() <= 1 / 16 and abs(query.std() * 16 - 1 / math.sqrt(3)) < 0.05


def test_random_tensors_differ_by_their_place(daemon):
    """Without a seed, the seed of a tensor is the CRC-32 of its JSON pointer."""
    body = {name: {"shape": [4, 3], "random": "normal"} for name in ("query", "key", "value")}
    seeds = {name: zlib.crc32(f"/{name}".encode()) for name in body}
    seeded = {name: literal | {"seed": seeds[name]} for name, literal in body.items()}
    assert len(set(seeds.values())) == 3
    assert ask(daemon, body) == ask(daemon, seeded) == ask(daemon, body)
    assert ask(daemon, body) != ask(daemon, body | {"key": body["key"] | {"seed": seeds["query"]}})


def test_fresh_weights_are_not_saturated(daemon):
    """Literals of std 1 make one-hot weights of width 512; those of torch.nn.Linear's spread do not."""
    def entropy(**spread):
        weight = {n: {"shape": [512, 512], "seed": i} | spread for i, n in enumerate(("w_q", "w_k"))}
        body = {"query": {"shape": [10, 512], "random": "normal", "seed": 1}, "analysis": ["entropy"], "return": [],
                "projections": {"num_heads": 8} | weight}
        return ask(daemon, body)["analysis"]["heads"][0]["measures"]["normalized_entropy"]
    assert entropy(random="normal") < 0.1 and entropy(init="kaiming_uniform") > 0.9


@pytest.mark.parametrize("literal, code, pointer, words", [
    ({"random": "normal", "std": -1}, "wrong_type", "/query/std", ["0 or more", "-1"]),
    ({"fill": "ones", "std": 1}, "invalid_value", "/query", ['"std" belongs to "random"']),
    ({"init": "he_normal"}, "invalid_value", "/query/init", ["kaiming_uniform", "he_normal"]),
    ({"init": "xavier_uniform", "a": 1}, "invalid_value", "/query/a", ["kaiming_uniform"]),
    ({"init": "xavier_uniform", "shape": [2, 2, 2]}, "shape_mismatch", "/query/init", ["[fan_out, fan_in]", "found 3"]),
    ({"init": "kaiming_uniform", "shape": [2]}, "shape_mismatch", "/query/init", ["the member fan_in"]),
    ({"init": "kaiming_uniform", "fan_in": 2}, "invalid_value", "/query/fan_in", ["the second, 2"]),
    ({"init": "xavier_uniform", "random": "normal"}, "invalid_value", "/query", ["found 2"]),
], ids=str)
def test_refused_literals(daemon, literal, code, pointer, words):
    refused(daemon, {"query": {"shape": [2, 2]} | literal}, code, pointer, *words)


# --- nested data with an element type ---

def test_nested_data_in_double(daemon):
    """{"dtype": "float64", "data": x.tolist()} of NumPy, in any order of the members."""
    x = np.random.default_rng(3).standard_normal((4, 5))
    flat = ask(daemon, {"query": {"shape": [4, 5], "dtype": "float64", "data": x.reshape(-1).tolist()}, "explain": True})
    for query in ({"dtype": "float64", "data": x.tolist()}, {"data": x.tolist(), "dtype": "float64"}):
        answer = ask(daemon, {"query": query, "explain": True})
        assert answer == flat and answer["diagnostics"]["dtype"] == "float64"
    scores = np.exp(x @ x.T / np.sqrt(5))
    assert np.allclose(answer["output"], scores / scores.sum(-1, keepdims=True) @ x, rtol=0, atol=1e-14)


@pytest.mark.parametrize("query, code, pointer, words", [
    ({"data": [[1, 0], [0]]}, "shape_mismatch", "/query/data/1", ["has 1 number, expected 2"]),
    ({"data": [[1, 0], ["a", 1]]}, "wrong_type", "/query/data", ["string"]),
    ({"data": [[1, 0]], "shape": [1, 2]}, "shape_mismatch", "/query/data", ['without "shape"']),
    ({"dtype": "float64"}, "shape_mismatch", "/query", ['"data"']),
], ids=str)
def test_refused_nested_data(daemon, query, code, pointer, words):
    refused(daemon, {"query": query}, code, pointer, *words)


# --- projections of a seed ---



def normal(seed, *shape):
    return {"shape": list(shape), "random": "normal", "seed": seed}


EMBEDDING = {"shape": [2, 10, 512], "random": "normal", "seed": 1}


def test_fresh_multi_head_attention(daemon):
    """A multi-head attention of width 512 without a matrix: no weight is near 1, and all is as the oracle says."""
    body = {"query": EMBEDDING, "projections": {"num_heads": 8, "seed": 7}, "analysis": ["entropy"]}
    answer = like_oracle(daemon, body, 3e-6)
    assert np.shape(answer["weights"]) == (2, 8, 10, 10) and np.max(answer["weights"]) < 0.5
    assert all(h["measures"]["normalized_entropy"] > 0.9 for h in answer["analysis"]["heads"])


@pytest.mark.parametrize("fields", [
    {"query": normal(1, 3, 8), "projections": {"num_heads": 2, "seed": 5}},
    {"query": normal(1, 3, 8), "key": normal(2, 5, 6), "value": normal(3, 5, 7), "projections": {"num_heads": 2, "seed": 5}},
    {"query": normal(1, 3, 8), "projections": {"num_heads": 4, "num_kv_heads": 2, "seed": -1}},
    {"query": normal(1, 3, 8) | {"dtype": "float64"}, "projections": {"num_heads": 4, "seed": 5, "add_positions": True}},
], ids=["one width", "three widths", "grouped", "float64"])
def test_matrices_of_a_seed(daemon, fields):
    """The answer, its gradients and the count of parameters are those of the same matrices sent."""
    grad = {"grad_output": normal(9, 3, 8)}
    sent = forms.drawn(fields)
    assert like_oracle(daemon, fields) == ask(daemon, sent)
    assert ask(daemon, fields | grad) == ask(daemon, sent | grad)
    mine, theirs = (ask(daemon, f | {"dry_run": True})["dry_run"] for f in (fields, sent))
    assert mine["num_parameters"] == theirs["num_parameters"] == forms.count_parameters(sent)
    assert mine["bytes"]["work"] > theirs["bytes"]["work"]  # the matrices that are yet to be made


def test_parameters_of_a_seed(daemon):
    """Those of torch.nn.MultiheadAttention(512, 8): 4 * 512 * 512 + 4 * 512."""
    dry = ask(daemon, {"query": EMBEDDING, "projections": {"num_heads": 8, "seed": 7}, "dry_run": True})["dry_run"]
    assert dry["num_parameters"] == 1050624


def test_seed_of_v2_is_that_of_dropout(daemon):
    body = {"inputs": [{"name": "query", "shape": [2, 4], "datatype": "FP32", "data": [1, 2, 3, 4, 5, 6, 7, 8]}],
            "outputs": [{"name": "output"}], "parameters": {"num_heads": 2, "dropout_p": 0.5, "seed": 3}}
    out = ask(daemon, body, path="/v2/models/multi_head_attention/infer")["outputs"][0]["data"]
    same = ask(daemon, {"query": [[1, 2, 3, 4], [5, 6, 7, 8]], "projections": {"num_heads": 2}, "dropout_p": 0.5,
                        "seed": 3, "return": "output"})["output"]
    assert np.reshape(out, (2, 4)).tolist() == same


@pytest.mark.parametrize("projections, code, pointer, words", [
    ({"num_heads": 7}, "shape_mismatch", "/projections/num_heads", ["width 512", "7 heads"]),
    ({"num_heads": 8, "w_v": {"shape": [512, 512], "fill": "eye"}}, "invalid_value", "/projections/w_v", ["leave out"]),
    ({"num_heads": 8, "b_o": {"shape": [512], "fill": "ones"}}, "invalid_value", "/projections/b_o", ["leave out"]),
    ({"num_heads": 8, "num_kv_heads": 3}, "shape_mismatch", "/key", ["multiple"]),
], ids=str)
def test_refused_seeds(daemon, projections, code, pointer, words):
    refused(daemon, {"query": EMBEDDING, "projections": projections | {"seed": 7}}, code, pointer, *words)


def test_memory_of_a_seed_is_counted(daemon):
    """Matrices beyond the limit are refused before one of them is made."""
    wide = {"query": {"shape": [1, 200000], "fill": "zeros"}, "projections": {"num_heads": 8, "seed": 7}}
    refused(daemon, wide, "too_large", None, status=413)


# --- encodings added to the inputs ---

CROSS = {"query": normal(1, 2, 4, 8), "key": normal(2, 2, 6, 8), "value": normal(3, 2, 6, 8)}
TABLE = {"kind": "learned", "table": normal(4, 9, 8)}


def plus_encoding(x, positions, table):
    return (np.asarray(x) + np.asarray(table)[positions]).tolist()


def test_x_plus_pe(daemon):
    """The input of a textbook's encoder: position "sinusoidal" is x + pe with the table of /v1/positions."""
    x = [[1, 0, 2, 0], [0, 1, 0, 2], [1, 1, 1, 1]]
    table = ask(daemon, {"kind": "sinusoidal", "length": 3, "width": 4}, path="/v1/positions")["table"]
    body = {"query": x, "position": "sinusoidal"}
    answer = like_oracle(daemon, body)
    close(answer["output"], np.array(ask(daemon, {"query": plus_encoding(x, [0, 1, 2], table)})["output"]))
    assert answer != ask(daemon, {"query": x})


def test_positions_of_queries_and_keys(daemon):
    """Query row i stands at i + query_offset, row j of key and value at j."""
    r = np.random.default_rng(1)
    q, k, v, table = (r.standard_normal(s).round(3) for s in ((3, 4), (5, 4), (5, 4), (9, 4)))
    body = {"query": q.tolist(), "key": k.tolist(), "value": v.tolist(), "query_offset": 6,
            "position": {"kind": "learned", "table": table.tolist()}}
    keys = range(5)
    added = {"query": plus_encoding(q, [6, 7, 8], table), "key": plus_encoding(k, keys, table),
             "value": plus_encoding(v, keys, table)}
    close(ask(daemon, body)["output"], np.array(ask(daemon, added)["output"]))


@pytest.mark.parametrize("fields", [
    CROSS | {"position": "sinusoidal"},
    CROSS | {"position": {"kind": "sinusoidal", "layout": "halves"}, "query_offset": -3, "is_causal": True},
    CROSS | {"position": TABLE, "query_offset": [5, 2]},
    CROSS | {"position": TABLE, "query_offset": "end", "key_lengths": [6, 4]},
    CROSS | {"position": TABLE, "projections": {"num_heads": 2, "seed": 3}, "query_offset": [1, 0]},
    CROSS | {"position": "sinusoidal", "layout": "BLD", "num_heads": 4, "past_key": normal(5, 2, 4, 3, 2),
             "past_value": normal(6, 2, 4, 3, 2), "return": ["output", "present"]},
    {"query": normal(1, 2, 5, 3, 4), "layout": "BLHE", "position": {"kind": "learned", "table": normal(4, 5, 4)}},
    {"query": normal(1, 2, 3, 5, 4), "position": "sinusoidal", "score": "dot"},
    {"query": normal(1, 5, 4) | {"dtype": "float64"}, "position": "sinusoidal", "verify": 3},
    {"query": normal(1, 5, 4) | {"dtype": "bfloat16"}, "position": {"kind": "learned", "table": normal(4, 5, 4)}},
    {"query": normal(1, 1, 5, 4), "key": normal(2, 3, 6, 4), "value": normal(3, 3, 6, 4), "position": "sinusoidal"},
], ids=["sinusoidal", "halves", "offsets", "end", "projections", "cache", "BLHE", "heads", "float64", "bfloat16", "one query"])
def test_encodings(daemon, fields):
    like_oracle(daemon, fields, 2e-6)


def test_encodings_of_projections_are_add_positions(daemon):
    body = CROSS | {"projections": {"num_heads": 2, "seed": 3}, "query_offset": 0}
    added = body | {"projections": body["projections"] | {"add_positions": True}}
    assert ask(daemon, body | {"position": "sinusoidal"}) == ask(daemon, added)


def test_stored_runs_with_encodings(daemon):
    """A run computes its encodings again: its weights, and those of a changed row, are those of the answer."""
    body = {"query": normal(1, 6, 4), "position": {"kind": "learned", "table": normal(4, 7, 4)}, "is_causal": True,
            "query_offset": 1, "store": True}
    answer = ask(daemon, body)
    run = "/v1/runs/" + answer["run"]["id"] if isinstance(answer["run"], dict) else "/v1/runs/" + answer["run"]
    rows = daemon.get(run + "/weights?rows=0:6").json()
    close(rows["weights"], np.array(answer["weights"]))
    what = ask(daemon, {"rows": [2, 5], "hide": [1], "return": ["weights"]}, path=run + "/what-if")
    hidden = ask(daemon, body | {"store": False, "attn_mask": [True, False, True, True, True, True]})
    close(what["weights"], np.array(hidden["weights"])[2:5])


def test_memory_of_encodings_is_counted(daemon):
    body = {"query": normal(1, 2, 100, 64), "dry_run": True}
    plain, added = (ask(daemon, body | p)["dry_run"]["bytes"]["work"] for p in ({}, {"position": "sinusoidal"}))
    assert added - plain >= 3 * 2 * 100 * 64 * 4


@pytest.mark.parametrize("fields, code, pointer, words", [
    ({"position": {"kind": "learned"}}, "invalid_value", "/position/table", ["needs this table"]),
    ({"position": "learned"}, "invalid_value", "/position/table", ["needs this table, of shape [positions, 8]"]),
    ({"position": "relative"}, "invalid_value", "/position/table", ["of shape [1, 2m + 1 (distances -m to m)]"]),
    ({"position": "t5"}, "invalid_value", "/position/table", ["of shape [buckets, 1]"]),
    ({"position": "shaw"}, "invalid_value", "/position/key_table", ["of shape [2m + 1 (distances -m to m), 8]"]),
    ({"position": {"kind": "relative", "table": [[1, 2, 3]] * 2}}, "shape_mismatch", "/position/table", ["[1, 2m + 1", "[2, 3]"]),
    ({"position": {"kind": "learned", "table": normal(4, 9, 7)}}, "shape_mismatch", "/position/table", ["8", "[9, 7]"]),
    ({"position": {"kind": "learned", "table": normal(4, 5, 8)}}, "shape_mismatch", "/position/table", ["6 rows", "5"]),
    ({"position": TABLE, "query_offset": 6}, "shape_mismatch", "/position/table", ["0 to 8", "query 3 has the position 9"]),
    ({"position": TABLE, "query_offset": -1}, "shape_mismatch", "/position/table", ["0 to 8", "query 0 has the position -1"]),
    ({"position": "sinusoidal", "value": normal(3, 2, 6, 3)}, "invalid_value", "/position/kind", ["even width", "3"]),
    ({"position": {"kind": "sinusoidal", "base": 100}}, "invalid_value", "/position/base", ["layout"]),
    ({"position": {"kind": "sinusoidal"}, "projections": {"num_heads": 2, "add_positions": True}}, "invalid_value",
     "/projections/add_positions", ["position adds encodings already"]),
    ({"position": "sinusoidal", "query": normal(1, 1, 4, 8), "query_offset": [0, 1]}, "invalid_value", "/query_offset",
     ["batch entry"]),
], ids=str)
def test_refused_encodings(daemon, fields, code, pointer, words):
    refused(daemon, CROSS | fields, code, pointer, *words)


@pytest.mark.parametrize("position, mirrored", [
    (None, True), ("alibi", True), ("sinusoidal", False), ({"kind": "relative", "table": [[1, 0.5, -1]]}, False),
    ({"kind": "rotary", "layout": "halves"}, False)], ids=str)
def test_a_sentence_read_backwards(daemon, position, mirrored):
    """Distance alone, as ALiBi counts it, cannot tell a sentence from its reverse; a causal mask can."""
    x = np.random.default_rng(8).standard_normal((6, 4)).round(3)
    w = {"num_heads": 1, "w_q": {"shape": [4, 4], "random": "normal", "seed": 1}, "w_k": {"shape": [4, 4], "random": "normal", "seed": 2}}
    body = {"projections": w, "return": "output"} | ({"position": position} if position else {})
    forward, backward = (np.array(ask(daemon, body | {"query": rows.tolist()})["output"]) for rows in (x, x[::-1]))
    assert (np.abs(forward - backward[::-1]).max() < 1e-6) == mirrored
    causal = [np.array(ask(daemon, body | {"is_causal": True, "query": rows.tolist()})["output"]) for rows in (x, x[::-1])]
    assert np.abs(causal[0] - causal[1][::-1]).max() > 0.01
