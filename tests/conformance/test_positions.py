"""POST /v1/positions against the oracle: tables, curves, parameters; and against POST /v1/attention, which
uses the same positions."""
import json
import pathlib

import numpy as np
import pytest

from serving import Daemon, ask
from oracle import relations, tensors, tour
from oracle.relations import number_array


def numbers(seed, *shape):
    return {"shape": list(shape), "random": "normal", "seed": seed}


TRANSFORMERS = json.loads(pathlib.Path(__file__).with_name("rotary_tables.json").read_text())
REQUESTS = {
    "sinusoidal": {"kind": "sinusoidal", "length": 60, "width": 32, "dims": [0, 1, 31]},
    "sinusoidal in halves": {"kind": "sinusoidal", "length": 7, "width": 2, "layout": "halves", "dims": [1]},
    "learned": {"kind": "learned", "length": 30, "width": 7, "seed": 3, "dims": [6]},
    "learned, of another deviation": {"kind": "learned", "length": 5, "width": 3, "seed": 3, "std": 1.5},
    "alibi": {"kind": "alibi", "num_heads": 8, "length": 9, "dims": [0, 7]},
    "alibi of twelve heads": {"kind": "alibi", "num_heads": 12, "length": 4, "num_keys": 11, "query_offset": 7},
    "alibi, own slopes": {"kind": "alibi", "slopes": [0.5, 0.25, 3], "length": 5},
    "t5": {"kind": "t5", "table": numbers(1, 32, 3), "length": 150, "num_keys": 160, "dims": [2]},
    "t5 of the past": {"kind": "t5", "table": numbers(1, 16, 2), "length": 8, "bidirectional": False,
                       "max_distance": 20, "query_offset": 30, "num_keys": 40, "dims": [0, 1]},
    "relative": {"kind": "relative", "table": numbers(1, 4, 11), "length": 13, "query_offset": -2, "dims": [3]},
    "shaw": {"kind": "shaw", "key_table": numbers(1, 7, 5), "length": 6, "num_keys": 9, "dims": [0, 4]},
    "shaw of each head": {"kind": "shaw", "key_table": numbers(1, 3, 7, 5), "head": 2, "length": 6, "num_keys": 9, "dims": [0, 4]},
    "shaw of head 0": {"kind": "shaw", "key_table": numbers(1, 3, 7, 5), "length": 6, "query_offset": -1},
    "disentangled": {"kind": "disentangled", "key_table": numbers(1, 6, 5), "length": 9, "num_keys": 7, "query_offset": 1, "dims": [4]},
    "disentangled of each head, buckets": {"kind": "disentangled", "query_table": numbers(1, 2, 16, 3), "head": 1, "max_distance": 40,
                                           "length": 90, "num_keys": 100, "dims": [0, 2]},
    "disentangled at positions": {"kind": "disentangled", "query_table": numbers(1, 8, 3), "max_distance": 12,
                                  "query_positions": [0, None, 300, -5], "key_positions": [2, 9, -9, None, 299]},
    "rotary": {"kind": "rotary", "length": 40, "width": 16, "dims": [0, 7]},
    "rotary of another base": {"kind": "rotary", "length": 3, "width": 2, "base": 100},
    "rotary of other frequencies": {"kind": "rotary", "length": 9, "width": 6, "frequencies": [0.5, 0, -3], "factor": 2},
    "rotary scaling": {"kind": "rotary", "length": 9, "width": 6,
                       "scaling": {"kind": "dynamic", "factor": 2, "original_max_position_embeddings": 4}},
    "sinusoidal at positions": {"kind": "sinusoidal", "positions": [5, -2, None, 5, 1000000], "width": 8, "dims": [0, 7]},
    "learned at positions": {"kind": "learned", "positions": [7, 0, None, 3, 3], "width": 5, "seed": 3, "dims": [4]},
    "rotary at positions": {"kind": "rotary", "positions": [3, None, 0, 3, 77], "width": 6, "factor": 1.5, "dims": [2]},
    "rotary scaling at positions": {"kind": "rotary", "positions": [3, 17, 0], "width": 6,
                                    "scaling": {"kind": "dynamic", "factor": 2, "original_max_position_embeddings": 4}},
    "rotary axes": {"kind": "rotary", "width": 12, "base": 5000000, "dims": [0, 5], "axes": [
        {"num_pairs": 3, "interleaved": True, "positions": [0, 1, 2, 2]}, {"num_pairs": 2, "interleaved": True, "positions": [0, 1, 3, None]},
        {"num_pairs": 1, "interleaved": True, "positions": [0, 1, 2.5, 4]}]},
    "rotary axes of bases": {"kind": "rotary", "width": 10, "axes": [
        {"num_pairs": 3, "positions": [0, 1, 2], "base": 100}, {"num_pairs": 2, "positions": [5, None, -1]}]},
    "alibi at positions": {"kind": "alibi", "num_heads": 3, "query_positions": [4, None, 9], "key_positions": [0, 8, 8, None]},
    "t5 of keys at positions": {"kind": "t5", "table": numbers(1, 32, 3), "length": 4, "query_offset": 3, "key_positions": [90, 0, 5]},
    "relative of queries at positions": {"kind": "relative", "table": numbers(1, 4, 11), "query_positions": [4, 4, -7], "num_keys": 5},
    "shaw at positions": {"kind": "shaw", "key_table": numbers(1, 7, 5), "query_positions": [0, None], "key_positions": [2, 9, -9]},
    "no positions": {"kind": "sinusoidal", "length": 0, "width": 4},
}


@pytest.fixture(scope="module")
def daemon():
    """Tables are made in double whatever the kernels."""
    one = Daemon("--ops-listen", "", "--log", "off")
    yield one
    one.stop()


def check(got, want, name, copied):
    """Equal numbers, keys and nesting: in double, or float32 that was copied."""
    if isinstance(want, dict):
        assert got.keys() == want.keys(), name
        for key in want:
            check(got[key], want[key], f"{name}/{key}", copied)
    elif isinstance(want, list) and want and isinstance(want[0], dict):
        assert len(got) == len(want), name
        for i, part in enumerate(want):
            check(got[i], part, f"{name}/{i}", copied)
    elif copied:
        assert np.array_equal(number_array(got).astype(np.float32), number_array(want).astype(np.float32)), name
    else:
        assert relations.apart(number_array(got), number_array(want), 1e-13) <= 1, name


@pytest.mark.parametrize("name", REQUESTS)
def test_tables(daemon, name):
    request = REQUESTS[name]
    answer = ask(daemon, request, path="/v1/positions")
    check(answer, tour.position_answer(request), "", {"table", "key_table", "query_table"} & request.keys())


@pytest.mark.parametrize("name", REQUESTS)
def test_dry_run(daemon, name):
    request = REQUESTS[name]
    said = ask(daemon, {**request, "dry_run": True}, path="/v1/positions")["dry_run"]
    assert said["num_parameters"] == tour.position_parameters(request)
    tables, _, _ = tour.position_tables(request)
    assert {n: said["shapes"][n] for n in tables} == {n: list(x.shape) for n, x in tables.items()}


@pytest.mark.parametrize("length, width, kind, parameters", [
    (1000, 512, "sinusoidal", 0), (1000, 512, "learned", 512000)])
def test_parameters(daemon, length, width, kind, parameters):
    request = {"kind": kind, "length": length, "width": width, "dry_run": True}
    if kind == "learned":
        request["seed"] = 1
    assert ask(daemon, request, path="/v1/positions")["dry_run"]["num_parameters"] == parameters


@pytest.mark.parametrize("position, fields", [
    ({"kind": "alibi"}, {"num_heads": 6}),
    ({"kind": "t5", "table": numbers(1, 16, 6), "max_distance": 30}, {}),
    ({"kind": "relative", "table": numbers(2, 6, 21)}, {})], ids=["alibi", "t5", "relative"])
def test_biases_of_attention(table, position, fields):
    """A zero query makes the scores the biases."""
    request = {"query": {"shape": [1, 6, 30, 4], "fill": "zeros"}, "key": numbers(3, 1, 6, 50, 4),
               "value": numbers(4, 1, 6, 50, 2), "position": position, "query_offset": 11, "return": ["scores"]}
    biases = ask(table, {**position, **fields, "length": 30, "num_keys": 50, "query_offset": 11},
                 path="/v1/positions")["table"]
    assert np.abs(np.array(ask(table, request)["scores"])[0] - np.array(biases)).max() <= 1e-6


@pytest.mark.parametrize("position", [
    {"kind": "shaw", "key_table": numbers(1, 2, 9, 4)}, {"kind": "disentangled", "key_table": numbers(1, 2, 8, 4), "max_distance": 12},
    {"kind": "disentangled", "query_table": numbers(1, 2, 8, 4), "max_distance": 12}, {"kind": "disentangled", "query_table": numbers(1, 8, 4)}],
    ids=["shaw", "c2p", "p2c", "p2c of all heads"])
def test_vectors_of_attention(table, position):
    """What a position adds to the score of a query and a key is the product of one of them with the vector."""
    body = {"query": numbers(2, 1, 2, 20, 4), "key": numbers(3, 1, 2, 30, 4), "query_offset": 3, "scale": 1, "return": ["scores"]}
    plain, moved = (np.array(ask(table, body | x)["scores"])[0] for x in ({}, {"position": position}))
    by_head = len((position.get("key_table") or position["query_table"])["shape"]) == 3
    name = "query" if "key_table" in position else "key"
    rows = np.float32(tensors.read(body[name]))[0].astype(float)
    for h in range(2):
        vectors = np.array(ask(table, {**position, "length": 20, "num_keys": 30, "query_offset": 3} | ({"head": h} if by_head else {}), path="/v1/positions")["table"])
        want = np.einsum("ie,ije->ij" if name == "query" else "je,ije->ij", rows[h], vectors)
        assert np.abs(moved[h] - plain[h] - want).max() <= 1e-5


def test_rotary_of_attention(table):
    """The cached keys that come back are the keys turned by the table."""
    key = tensors.read(numbers(1, 9, 6))
    empty = {"shape": [0, 6], "dtype": "float32", "data": []}
    body = {"query": numbers(1, 9, 6), "past_key": empty, "past_value": empty, "return": ["present"],
            "position": {"kind": "rotary", "layout": "interleaved"}}
    angles = ask(table, {"kind": "rotary", "length": 9, "width": 6}, path="/v1/positions")
    c, s = np.array(angles["cosines"]), np.array(angles["sines"])
    want = np.stack((key[:, ::2] * c - key[:, 1::2] * s, key[:, ::2] * s + key[:, 1::2] * c), -1).reshape(9, 6)
    assert np.abs(np.array(ask(table, body)["present_key"]) - want).max() <= 1e-6


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_rotary_of_transformers(table, name):
    """check_rotary.py wrote the file with transformers 5."""
    case = TRANSFORMERS[name]
    answer = ask(table, case["body"], path="/v1/positions")
    for part in ("cosines", "sines"):
        assert np.abs(np.array(answer[part]) - np.array(case[part])).max() <= 1e-6


@pytest.mark.parametrize("fields, pointer", [
    ({"kind": "rotary", "length": 3, "width": 4, "frequencies": [1]}, "/frequencies"),
    ({"kind": "rotary", "width": 4, "axes": [{"num_pairs": 1, "positions": [0]}]}, "/width"),
    ({"kind": "rotary", "width": 2, "axes": [{"num_pairs": 1, "positions": [[0]]}]}, "/axes"),
    ({"kind": "rotary", "width": 2, "axes": [{"num_pairs": 1, "positions": [0, 2e12]}]}, "/axes/0/positions/1"),
    ({"kind": "rotary", "width": 2, "length": 1, "axes": [{"num_pairs": 1, "positions": [0]}]}, "/axes"),
    ({"kind": "rotary", "width": 2, "positions": [0], "length": 1}, "/length"),
    ({"kind": "sinusoidal", "width": 2, "positions": [[0]]}, "/positions"),
    ({"kind": "sinusoidal", "width": 2, "positions": [0, 2**41]}, "/positions/1"),
    ({"kind": "learned", "width": 2, "positions": [-1]}, "/positions/0"),
    ({"kind": "learned", "width": 2, "query_positions": [1]}, "/query_positions"),
    ({"kind": "alibi", "num_heads": 2, "query_positions": [0], "query_offset": 1}, "/query_offset"),
    ({"kind": "alibi", "num_heads": 2, "length": 1, "key_positions": [0], "num_keys": 1}, "/num_keys"),
    ({"kind": "alibi", "num_heads": 2, "query_positions": [0], "dims": [0]}, "/dims"),
    ({"kind": "alibi", "num_heads": 2, "key_positions": [0]}, "/length"),
    ({"kind": "rotary", "length": 3, "width": 4, "scaling": {"kind": "yarn"}}, "/scaling/original_max_position_embeddings"),
    ({"kind": "sinusoidal", "length": 3, "width": 4, "factor": 2}, "/factor"),
    ({"kind": "cosine"}, "/kind"),
    ({"kind": "sinusoidal", "length": 3, "width": 5}, "/width"),
    ({"kind": "rotary", "length": 3, "width": 5}, "/width"),
    ({"kind": "sinusoidal", "length": 3, "width": 4, "num_heads": 2}, "/num_heads"),
    ({"kind": "sinusoidal", "length": 3, "width": 4, "dims": [0, 4]}, "/dims/1"),
    ({"kind": "sinusoidal", "length": -1, "width": 4}, "/length"),
    ({"kind": "relative", "length": 3, "table": [[1, 2]]}, "/table"),
    ({"kind": "shaw", "length": 3, "key_table": [[1, 2]] * 4}, "/key_table"),
    ({"kind": "t5", "length": 3, "table": [1, 2]}, "/table"),
    ({"kind": "alibi", "length": 3, "num_heads": 2, "slopes": [1]}, "/num_heads")])
def test_refused(daemon, fields, pointer):
    assert ask(daemon, fields, 422, path="/v1/positions")["pointer"] == pointer
