"""Requests from public reports of faults of other programs, with the numbers that are right or the words of the refusal.
Cases that are worked examples (rolled caches, draft trees, frequencies) are not repeated here."""
import numpy as np
import pytest
from api_client import ask, refused

from oracle import tensors

PLAIN = {"query": [[1, 0], [0, 1]]}
LOW = -3.4028235e38


def test_a_logsumexp_with_a_gradient(daemon):
    """Each row of grad_output is the same in all value elements, so that only grad_logsumexp reaches the scores."""
    answer = ask(daemon, PLAIN | {"key": PLAIN["query"], "value": [[1], [1]], "grad_output": [[1], [1]], "grad_logsumexp": [1, 2],
                                  "return": ["weights", "gradients.scores"]})
    weights = np.exp(np.eye(2) / np.sqrt(2))
    weights /= weights.sum(-1, keepdims=True)
    assert np.allclose(answer["weights"], weights, rtol=0, atol=1e-7)
    assert np.allclose(answer["gradients"]["scores"], weights * [[1], [2]], rtol=0, atol=1e-6)


@pytest.mark.parametrize("n, fields", [(220000, {"is_causal": True}), (314437, {})])
def test_a_window_over_many_keys(daemon, n, fields):
    """Hidden cells do not count in the limits."""
    body = {"query": {"shape": [n, 8], "random": "normal"}, "window": [127, 0], "return": ["logsumexp"]} | fields
    said = ask(daemon, body | {"dry_run": True})["dry_run"]
    assert said["fits"] and said["num_cells"] == n * n and said["num_computed_cells"] < n * (2 * 128 + 128)
    assert len(ask(daemon, body)["logsumexp"]) == n


def test_masks_are_combined_by_or(daemon):
    ways = [{"kind": "causal"}, {"kind": "values", "attn_mask": [[True, True], [False, False]]}]
    refused(daemon, {"masks": ways, "combine": "or", "shape": [2, 2]}, "invalid_value", "/combine", "any_of", path="/v1/masks")
    some = ask(daemon, {"masks": [{"kind": "any_of", "any_of": ways}], "shape": [2, 2]}, path="/v1/masks")
    assert some["keep"] == [[True, True], [True, True]]
    every = ask(daemon, {"masks": ways, "shape": [2, 2]}, path="/v1/masks")
    assert every["keep"] == [[True, False], [False, False]]


def test_two_finite_masks_of_one_row(daemon):
    answer = ask(daemon, {"query": [[1, 0]], "key": [[1, 0], [0, 1]], "value": [[1], [3]], "attn_mask": [[LOW, LOW]],
                          "attn_bias": [[LOW, 0]], "return": ["weights", "output"]})
    assert answer["weights"] == [[0, 1]] and answer["output"] == [[3]]


@pytest.mark.parametrize("fields, pointer, says", [
    ({"key": [], "value": []}, "/key", '{"shape": [0, E], "data": []}'),
    ({"past_key": [[1, 0]] * 2, "past_value": [[1, 0]] * 2, "attn_mask": [[True, False], [True, True]]}, "/attn_mask",
     "the 2 cached ones first: send [.., 2, 4]"),
    ({"query": {"shape": [2, 2, 3, 4], "random": "normal"}, "attn_mask": {"shape": [4, 3, 3], "dtype": "bool", "data": [True] * 36}},
     "/attn_mask", "send [B, H, L, S], here [2, 2, 3, 3]"),
    ({"query": {"shape": [1, 3, 2, 5, 4], "random": "normal"}, "attn_mask": {"shape": [3, 5, 5], "dtype": "bool", "data": [True] * 75}},
     "/attn_mask", "send [3, 1, 5, 5]"),
])
def test_shapes_to_send(daemon, fields, pointer, says):
    refused(daemon, PLAIN | fields, "shape_mismatch", pointer, says)


@pytest.mark.parametrize("offset, rows", [(-2, [[0], [0], [0, 1, 2], [0, 1]]), (2, [[0, 2], [0], [0], [0]])])
def test_queries_before_the_first_global_position(daemon, offset, rows):
    """Queries at negative positions are not among the first positions."""
    mask = {"kind": "pattern", "pattern": {"kind": "global", "num_keys": 1, "local": 0}}
    keep = ask(daemon, {"masks": [mask], "shape": [4, 3], "query_offset": offset}, path="/v1/masks")["keep"]
    assert [[j for j in range(3) if row[j]] for row in keep] == rows


def test_the_table_of_the_kernels_is_named(daemon):
    """Small operations are computed by the table ref, so a step and its prefill may differ in the last bit."""
    few, many = (ask(daemon, {"query": {"shape": [n, 64], "random": "normal"}, "return": ["logsumexp"], "explain": True})
                 ["diagnostics"]["kernel"] for n in (2, 200))
    assert few == "ref" and many


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_scale_of_a_hidden_row(daemon, bad):
    """What is hidden may hold anything: the scale of a row without keys, but not of one that sees a key, and no sink."""
    seen = [[True, False], [False, False], [True, True]]
    body = {"query": [[1, 0], [0, 1], [2, 1]], "key": [[1, 0], [0, 1]], "value": [[1], [3]], "attn_mask": seen, "grad_output": [[1]] * 3,
            "return": ["output", "weights", "logsumexp", "gradients"]}
    scale = lambda *numbers: tensors.write(np.array([numbers], np.float32), "float32")  # noqa: E731
    answer = ask(daemon, body | {"scale": scale(0.5, bad, 2)})
    assert answer == ask(daemon, body | {"scale": scale(0.5, 0, 2)})
    assert answer["weights"][1] == [0, 0] and answer["gradients"]["scale"][0][1] == 0
    refused(daemon, body | {"scale": scale(0.5, 1, bad)}, "nonfinite_value", "/scale/0/2", "finite number")
    refused(daemon, body | {"sinks": scale(0.5, bad, 2)}, "nonfinite_value", "/sinks/0/1", "finite number")
    filled = body | {"scale": scale(0.5, bad, 2), "mask_fill": -1e9, "return": ["weights"]}
    del filled["grad_output"]
    refused(daemon, filled, "nonfinite_value", "/scale/0/1", "finite number")
