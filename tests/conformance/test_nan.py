"""What is hidden cannot leak: NaN and infinity under a mask change nothing, visible ones are a 422 that
says where."""
import json

import numpy as np
import pytest

from serving import ask, compare
from oracle import rng, tensors
from oracle.attention import served

POISONS = (np.nan, np.inf, -np.inf)
B, H, L, S, E, Ev = 2, 2, 9, 70, 8, 5


def draw(seed, *shape):
    return tensors.round_to(rng.normal(seed, int(np.prod(shape))).reshape(shape), "float32")


def body(key, value, **more):
    return {"query": tensors.write(draw(1, B, H, L, E)), "key": tensors.write(key),
            "value": tensors.write(value), "return": ["output", "weights", "logsumexp", "scores"], **more}


def triangle(offset):
    return (np.arange(S) <= np.arange(L)[:, None] + offset).tolist()


# Which keys nobody sees, for each way to hide them.
HIDING = {
    "causal": ({"is_causal": True}, range(L, S)),
    "causal at an offset": ({"is_causal": True, "query_offset": 40}, range(L + 40, S)),
    "window": ({"window": [3, 2], "query_offset": 20}, [*range(0, 17), *range(L + 22, S)]),
    "boolean mask": ({"attn_mask": [j % 3 != 1 for j in range(S)]}, range(1, S, 3)),
    "mask per row": ({"attn_mask": triangle(5)}, range(L + 5, S)),
    "additive -infinity": ({"attn_mask": [None if j % 5 == 2 else 0.5 for j in range(S)]}, range(2, S, 5)),
    "lengths": ({"key_lengths": [33, 33]}, range(33, S)),
    "padding mask": ({"key_padding_mask": [[j in (0, 64, 69) for j in range(S)]] * B,
                      "key_padding_semantics": "hide"}, [0, 64, 69]),
    "token ids": ({"token_ids": [[7 if 20 <= j < 40 else 1 for j in range(S)]] * B, "pad_id": 7},
                  range(20, 40)),
}


@pytest.mark.parametrize("scale", [0.3, 1e5], ids=["normal", "huge scores"])
@pytest.mark.parametrize("poison", POISONS, ids=str)
@pytest.mark.parametrize("way", HIDING)
def test_hidden_changes_nothing(table, way, poison, scale):
    """Huge scores take another path through the library than normal ones."""
    fields, hidden = HIDING[way]
    fields = {**fields, "scale": scale}
    key, value = draw(2, B, H, S, E), draw(3, B, H, S, Ev)
    clean = body(key, value, **fields)
    key[:, :, list(hidden)] = poison
    value[:, :, list(hidden)] = poison
    poisoned = body(key, value, **fields)
    want = table.post("/v1/attention", json.dumps(clean))
    got = table.post("/v1/attention", json.dumps(poisoned))
    assert (want.status_code, got.status_code) == (200, 200), got.text[:500]
    assert got.content == want.content
    if scale < 1:
        compare(got.json(), served(poisoned))


@pytest.mark.parametrize("poison", POISONS, ids=str)
@pytest.mark.parametrize("tensor", ["key", "value", "query"])
def test_visible_is_refused(table, tensor, poison):
    key, value = draw(2, B, H, S, E), draw(3, B, H, S, Ev)
    request = body(key, value, is_causal=True, query_offset="end")
    place = (1, 0, L - 1, 3)
    x = tensors.read(request[tensor]).copy()
    x[place] = poison
    request[tensor] = tensors.write(x)
    problem = ask(table, request, 422)
    assert problem["code"] == "nonfinite_value"
    assert problem["pointer"] == "/" + "/".join(map(str, (tensor, *place)))


def test_partly_hidden_block(table):
    """A key that only the last row may see: hidden to the others inside the same block."""
    key, value = draw(2, B, H, S, E), draw(3, B, H, S, Ev)
    key[:, :, L - 1], value[:, :, L - 1] = np.nan, np.inf
    request = body(key, value, is_causal=True)
    assert ask(table, request, 422)["pointer"].startswith("/key/0/0/8")
    rows = tensors.read(request["query"])[:, :, : L - 1]
    compare(ask(table, {**request, "query": tensors.write(rows)}),
            served({**request, "query": tensors.write(rows)}))


def test_allowed(table):
    """allow_nonfinite: null stands for what is not finite, other rows are as they were."""
    key, value = draw(2, B, H, S, E), draw(3, B, H, S, Ev)
    request = {**body(key, value, is_causal=True), "return": ["output", "weights"]}
    clean = ask(table, request)
    value[:, :, L - 1, 0] = np.nan
    dirty = ask(table, {**request, "value": tensors.write(value), "allow_nonfinite": True})
    compare({"weights": dirty["weights"]}, {"weights": np.array(clean["weights"])})
    for b in range(B):
        for h in range(H):
            assert dirty["output"][b][h][: L - 1] == clean["output"][b][h][: L - 1]
            assert dirty["output"][b][h][L - 1][0] is None


def test_beyond_float32(table):
    problem = ask(table, {"query": [[1, 1e39]]}, 422)
    assert problem["code"] == "nonfinite_value" and problem["pointer"] == "/query/0/1"


X = [[1, 2], [0, 1]]
TINY = [[1e-25, 0], [0, 1e-25]]
# Numbers of the operation that float32 does not hold, though it holds what comes out.
WIDE = {
    "cap": ({"query": X, "softcap": 1e39}, [[0.8929582, 0.1070418], [0.66976155, 0.33023845]]),
    "tiny cap": ({"query": X, "softcap": 1e-46}, [[0.5, 0.5]] * 2),
    "scale": ({"query": TINY, "scale": 1e50}, [[0.73105858, 0.26894142], [0.26894142, 0.73105858]]),
    "negative scale": ({"query": [[1e-30, 0], [0, 1e-30]], "scale": -1e60},
                       [[0.26894142, 0.73105858], [0.73105858, 0.26894142]]),
    "bias": ({"query": {"shape": [2, 1], "dtype": "float64", "data": [1, 2]},
              "attn_mask": {"shape": [2, 2], "dtype": "float64", "data": [-1e300, -1e300, 0, 0]}},
             [[0.5, 0.5], [0.119202922, 0.880797078]]),
}


@pytest.mark.parametrize("what", WIDE)
def test_numbers_beyond_float32(table, what):
    fields, weights = WIDE[what]
    answer = ask(table, {**fields, "return": ["weights"], "explain": True})
    np.testing.assert_allclose(answer["weights"], weights, rtol=1e-6)
    assert answer["diagnostics"]["kept"] == 1


# Answers that float32 does not hold are refused, and not taken for rows that see nothing.
BEYOND = {
    "fill": ({"query": X, "attn_mask": [[False] * 2, [True] * 2], "mask_fill": {"value": -1e39, "mode": "replace"}},
             "/mask_fill/value"),
    "terms": ({"query": [[1e20]], "key": [[0]], "value": [[1]], "score": "dot",
               "position": {"kind": "shaw", "key_table": [[-1e20]]}}, "/query/0"),
    "bias": ({"query": X, "attn_mask": {"shape": [1, 2], "dtype": "float64", "data": [-1e300, -1e300]}}, "/query/0"),
    "outputs": ({"query": [[1], [1]], "key": [[0], [0]], "value": [[3e38], [3e38]],
                 "position": {"kind": "shaw", "key_table": [[0]] * 3, "value_table": [[3e38]] * 3}}, "/query/0"),
}


@pytest.mark.parametrize("what", BEYOND)
def test_answers_beyond_float32(table, what):
    fields, pointer = BEYOND[what]
    assert ask(table, fields, 422)["pointer"] == pointer


def test_sums_within_float32(table):
    """Each part overflows when it is summed before it is divided."""
    tables = {"kind": "shaw", "key_table": [[0]] * 3, "value_table": [[3e38]] * 3}
    answer = ask(table, {"query": [[1], [1]], "key": [[0], [0]], "value": [[0], [0]], "position": tables})
    np.testing.assert_allclose(answer["output"], [[3e38], [3e38]], rtol=1e-6)


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_tokens_are_not_json(table, token):
    answer = table.post("/v1/attention", '{"query":[[1,%s]]}' % token)
    assert answer.status_code == 400 and answer.json()["code"] == "malformed_json"
