"""query_positions and key_positions: rolled caches, trees, padding on the left; runs, cells and words that follow."""
import json

import numpy as np
import pytest
from api_client import ask, refused
from safetensors.numpy import load, save

ROTARY = {"kind": "rotary", "layout": "halves"}
# Two keys that were rotated at positions 8 and 9, and the token at 10.
ROLLED = {"query": [[1, 0]], "key": [[1, 0]], "value": [[3]], "past_key": [[-0.1455, 0.98936], [-0.91113, 0.41212]],
          "past_value": [[1], [2]], "position": ROTARY, "return": ["weights"], "decimals": 4}
TREE = {"query": [[1, 0], [1, 0]], "past_key": [[1, 0]], "past_value": [[1]], "key": [[1, 0], [1, 0]], "value": [[2], [3]],
        "attn_mask": [[True, True, False], [True, False, True]], "position": ROTARY, "return": ["weights"], "decimals": 4}
PADDED = {"query": [[[1, 0], [0, 1], [1, 1]], [[1, 0], [0, 1], [1, 1]]],
          "position": {"kind": "learned", "table": [[1, 0], [0, 1], [2, 2]]}, "is_causal": True, "return": ["output"],
          "key_padding_mask": [[0, 1, 1], [1, 1, 1]], "key_padding_semantics": "keep", "decimals": 3}
OWN = {"query_positions": [[None, 0, 1], [0, 1, 2]], "key_positions": [[None, 0, 1], [0, 1, 2]]}


def positions(*values, n=6):
    """A tensor of positions as an object, None as the smallest integer."""
    return {"shape": [n], "dtype": "int64", "data": [-2**63 if v is None else v for v in values]}


def test_a_rolled_cache(daemon):
    answer = ask(daemon, ROLLED | {"query_positions": [10], "key_positions": [8, 9, 10]})
    assert answer["weights"] == [[0.1758, 0.3457, 0.4785]] and "warnings" not in answer
    raw = ROLLED | {"past_key": [[1, 0], [1, 0]], "position": ROTARY | {"past": "raw"}, "return": ["weights", "present"]}
    answer = ask(daemon, raw | {"query_positions": [10], "key_positions": [8, 9, 10]})
    assert answer["weights"] == [[0.1758, 0.3457, 0.4785]]
    assert answer["present_key"] == [[1, 0], [1, 0], [1, 0]]


def test_siblings_of_a_draft_tree(daemon):
    answer = ask(daemon, TREE | {"query_positions": [1, 1], "key_positions": [0, 1, 1]})
    assert answer["weights"] == [[0.4194, 0.5806, 0], [0.4194, 0, 0.5806]] and "warnings" not in answer
    assert "position_tree" in str(ask(daemon, TREE)["warnings"])


def test_padding_on_the_left(daemon):
    answer = ask(daemon, PADDED | OWN)
    assert answer["output"][0] == [[0, 0], [1, 1], [1, 1.804]]
    assert [w["code"] for w in answer["warnings"]] == ["hidden_rows"]


@pytest.mark.parametrize("position", ["alibi", {"kind": "relative", "table": [[0.1, 0.2, 0.4]]},
                                      {"kind": "shaw", "key_table": [[1, 0], [0, 1], [1, 1]]}, ROTARY | {"layout": "interleaved"},
                                      {"kind": "disentangled", "query_table": [[1, 0], [0, 1], [1, 1], [0, 0]]},
                                      "sinusoidal", {"kind": "learned", "table": [[1, 0], [0, 1], [1, 1], [0, 0]]}])
def test_what_the_default_counts(daemon, position):
    """The positions that are there without the fields, sent, are the same bytes."""
    body = {"query": [[1, 0.5], [0, 1], [1, 1]], "key": [[1, 1], [0, 1], [0.5, 0]], "value": [[1, 0], [2, 1], [3, 1]],
            "query_offset": 1, "position": position, "return": ["output", "weights", "logsumexp"]}
    if position == {"kind": "learned", "table": [[1, 0], [0, 1], [1, 1], [0, 0]]}:
        body["query_offset"] = 0
    i = body["query_offset"]
    plain = {n: x for n, x in ask(daemon, body).items() if n != "warnings"}
    assert ask(daemon, body | {"query_positions": [i, i + 1, i + 2], "key_positions": [0, 1, 2]}) == plain
    assert ask(daemon, body | {"query_positions": [[i, i + 1, i + 2]]}) == plain


def test_words(daemon):
    said = ask(daemon, ROLLED | {"query_positions": [10], "key_positions": [8, None, 10], "explain": True})
    assert said["diagnostics"]["position"] == "rotary: queries at 10 to 10, keys at 8 to 10, 1 without a position"
    assert ask(daemon, ROLLED | {"explain": True})["diagnostics"]["position"] == "rotary: queries at i + 2, keys at j"
    assert "position" not in ask(daemon, {"query": [[1, 0]], "explain": True})["diagnostics"]


@pytest.mark.parametrize(("field", "value", "code", "pointer", "says"), [
    ("query_positions", [1, 2], "shape_mismatch", "/query_positions", "positions of the 1 queries, [1] or [1, 1]"),
    ("key_positions", [[1], [2]], "shape_mismatch", "/key_positions", "found [2, 1]"),
    ("key_positions", [1, 2, 2**40 + 1], "invalid_value", "/key_positions/2", "within ±2^40, found 1099511627777"),
    ("key_positions", [1, 2, 0.5], "invalid_value", "/key_positions/2", "expected an integer"),
    ("key_positions", [1, 2, True], "wrong_type", "/key_positions/2", "an integer or null"),
    ("key_positions", {"shape": [3], "dtype": "uint8", "data": [1, 2, 3]}, "unsupported_dtype", "/key_positions", "int32 or int64"),
])
def test_errors(daemon, field, value, code, pointer, says):
    refused(daemon, ROLLED | {field: value}, code, pointer, says)


def test_errors_of_encodings(daemon):
    refused(daemon, {"query": [[1, 0]], "query_positions": [0]}, "invalid_value", "/query_positions", "send position, too")
    refused(daemon, PADDED | {"query_positions": [0, 1, 3]}, "shape_mismatch", "/position/table",
            "query 2 has the position 3")
    refused(daemon, ROLLED | {"position": "alibi", "projections": {"num_heads": 1}, "key_positions": [0, 1]},
            "shape_mismatch", "/key_positions", "3 keys")
    refused(daemon, ROLLED | {"position": {"kind": "alibi", "past": "raw"}}, "invalid_value", "/position/past", "does not belong to the kind")


BODY = {"query": {"shape": [2, 2, 6, 4], "random": "normal", "seed": 1}, "value": {"shape": [2, 2, 6, 4], "random": "normal", "seed": 2},
        "key": {"shape": [2, 2, 6, 4], "random": "normal", "seed": 3}, "key_positions": positions(4, 4, None, 9, 0, 2),
        "query_positions": [[0, 1, 2, 3, 4, 5], [5, 4, 3, None, 1, 0]], "is_causal": True}
KINDS = ["alibi", {"kind": "t5", "table": [[0.3, 0.1], [0.2, -0.4], [-0.5, 0.6], [0.7, 0.2]]},
         {"kind": "shaw", "key_table": [[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0]], "value_table": [[1, 0, 1, 0]] * 3},
         {"kind": "disentangled", "key_table": [[[1, 0, 0, 1], [0, 1, 1, 0]]] * 2, "query_table": [[1, 1, 0, 0], [0.5, 0, 1, 0]]},
         ROTARY, "sinusoidal"]


@pytest.mark.parametrize("position", KINDS)
def test_runs_hold_them(start, tmp_path, position):
    """Weights, rows, what-if and one cell of a stored run, and weights of its file, read by another process."""
    daemon = start("--runs-dir", str(tmp_path))
    body = BODY | {"position": position, "return": ["weights"]}
    answer = ask(daemon, body | {"store": True})
    weights, run = np.array(answer["weights"], np.float32), answer["run"]["id"]

    def look(path):
        reply = daemon.get(f"/v1/runs/{run}/{path}")
        assert reply.status_code == 200, reply.text
        return reply.json()

    for b in range(2):
        assert (np.array(look(f"weights?batch={b}&heads=all&rows=0:6")["weights"], np.float32) == weights[b]).all()
    removed = daemon.post(f"/v1/runs/{run}/what-if", {"hide": [0], "batch": 1, "head": 1, "rows": "2:6", "return": ["weights"]}).json()
    hidden = ask(daemon, body | {"key_padding_mask": [False] + [True] * 5, "key_padding_semantics": "keep"})
    assert np.allclose(np.array(removed["weights"]).reshape(4, 6), np.array(hidden["weights"])[1, 1, 2:], atol=1e-6)
    if position != "sinusoidal":
        cell = look("cells?row=4&col=3&batch=0&head=1")
        assert cell["distance"] == 5 and cell["visible"]
        assert look("cells?row=4&col=2&batch=0&head=1")["distance"] is None
    daemon.stop()
    daemon = start("--runs-dir", str(tmp_path))
    assert (np.array(look("weights?batch=1&heads=all&rows=0:6")["weights"], np.float32) == weights[1]).all()


def test_captures(daemon):
    """A file of one's own with positions of one's own."""
    x = np.random.default_rng(5).standard_normal((1, 2, 5, 4)).astype(np.float32)
    at = np.array([[3, 1, 4, 1, -2**63]], np.int64)
    site = {"name": "a", "position": {"kind": "alibi"}, "query_positions": "at", "key_positions": "at"}
    file = save({"sites.0.query": x, "sites.0.key": x, "at": at}, {"run": json.dumps({"version": 2, "sites": [site]})})
    run = daemon.post("/v1/runs", data=file, headers={"Content-Type": "application/vnd.safetensors"})
    assert run.status_code == 201, run.text
    got = daemon.get(f"/v1/runs/{run.json()['id']}/weights?heads=all&rows=0:5").json()["weights"]
    own = [None if v == -2**63 else int(v) for v in at[0]]
    body = {"query": x.tolist(), "position": "alibi", "query_positions": own, "key_positions": own, "return": ["weights"]}
    assert np.allclose(got, ask(daemon, body)["weights"][0], atol=1e-6)
    assert load(file)["at"].tolist() == at.tolist()


def test_a_batch_shares_its_keys(daemon):
    """Keys of one entry for all, turned by the positions of each entry."""
    q = {"shape": [3, 4, 8], "random": "normal", "seed": 1}
    k = {"shape": [1, 5, 8], "random": "normal", "seed": 2}
    own = [[0, 1, 2, 3, 4], [5, 5, 5, 5, 5], [9, 7, 5, None, 1]]
    body = {"query": q, "key": k, "value": k, "position": ROTARY, "return": ["weights"]}
    together = ask(daemon, body | {"key_positions": own})["weights"]
    for b in range(3):
        assert ask(daemon, body | {"key_positions": own[b]})["weights"][b] == together[b]
