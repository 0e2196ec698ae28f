"""What textbooks on attention compute, asked for as they write it."""
import base64
import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from api_client import array, ask, close, normal, qkv, refused

from oracle import rng

WORKED = {"query": [[1, 0, 0], [0, 1, 0]], "key": [[1, 2, 3], [4, 5, 6]], "value": [[0, 1, 0], [1, 0, 1]]}
STAGES = ["raw", "scaled", "softcapped", "biased", "probs"]


# --- the default call, with scale=True ---

def test_scale_true_is_the_scale_of_the_form(daemon):
    assert ask(daemon, WORKED | {"scale": True}) == ask(daemon, WORKED)
    assert ask(daemon, WORKED | {"scale": False}) == ask(daemon, WORKED | {"scale": 1})
    dot = WORKED | {"score": "dot"}
    assert ask(daemon, dot | {"scale": True}) == ask(daemon, dot)


def test_the_worked_sum_is_exact(daemon):
    """0.5 * [100, 5] + 0.5 * [1000, 6] = [550, 5.5], of float32 numbers."""
    answer = ask(daemon, {"query": [[0, 0, 10], [0, 10, 0], [10, 10, 0]],
                          "key": [[10, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]],
                          "value": [[1, 0], [10, 0], [100, 5], [1000, 6]]})
    assert answer["output"][0] == [550, 5.5] and answer["output"][2][0] == 5.5
    assert answer["weights"][0][2:] == [0.5, 0.5]


# --- what the scores are made of, and the terms of the output ---

@pytest.mark.parametrize("fields", [
    {}, {"is_causal": True, "position": {"kind": "rotary", "layout": "halves"}}, {"position": "sinusoidal"},
    {"past_key": normal(2, 2, 3, 4, seed=7), "past_value": normal(2, 2, 3, 6, seed=8)},
    {"layout": "BLHE"}, {"precision": "bf16"}], ids=str)
def test_inputs_are_answered(daemon, fields):
    """The scores are products of the answered query and key, and the output sums the answered values."""
    body = qkv(B=2, H=4, Hkv=2, Ev=6) | fields
    if fields.get("layout"):
        body |= {name: np.swapaxes(body[name], 1, 2).tolist() for name in ("query", "key", "value")}
    if "position" in fields:
        body = qkv(B=2, H=4, Hkv=2, L=5) | fields
    if fields.get("position") == "sinusoidal":
        body |= {"value": body["key"]}
    answer = ask(daemon, body | {"return": ["inputs", "scores", "weights", "output"], "score_stage": "raw"})
    q, k, v, weights = (array(answer[name]) for name in ("query", "key", "value", "weights"))
    assert q.shape == (2, 4, len(weights[0][0]), 4) and k.shape[:2] == v.shape[:2] == (2, 2)
    rough = 5e-2 if "precision" in fields else 2e-6  # the products of bf16 round their factors
    raw = q @ np.repeat(k, 2, 1).swapaxes(-1, -2)
    visible = array(answer["scores"]) > -np.inf if fields.get("is_causal") else np.ones(raw.shape, bool)
    close(np.where(visible, raw, 0), np.where(visible, array(answer["scores"]), 0), rough)
    output = weights @ np.repeat(v, 2, 1)
    close(array(answer["output"]), output if not fields.get("layout") else output.swapaxes(1, 2), rough)
    if not fields:
        for name, tensor in (("query", q), ("key", k), ("value", v)):
            assert np.array_equal(tensor.astype(np.float32), np.array(body[name], np.float32))


@pytest.mark.parametrize("shape, fields, want", [
    ((2, 4), {}, (2, 4)), ((3, 2, 4), {}, (3, 2, 4)), ((2, 4), {"projections": {"num_heads": 2, "seed": 1}}, (2, 2, 2)),
    ((3, 2, 4), {"projections": {"num_heads": 2, "seed": 1}}, (3, 2, 2, 2)), ((2, 4), {"layout": "BLD", "num_heads": 2}, (2, 2, 2)),
])
def test_inputs_have_the_head_axis_of_the_weights(daemon, shape, fields, want):
    answer = ask(daemon, {"query": normal(*shape), "return": ["inputs", "weights"]} | fields)
    assert {*answer} == {"query", "key", "value", "weights"}
    assert [np.shape(answer[name]) for name in ("query", "key", "value")] == [want] * 3
    assert np.shape(answer["weights"])[:-2] == want[:-2]


def test_inputs_of_projections_and_of_random_numbers(daemon):
    x, w = normal(3, 4), normal(4, 4, seed=5)
    answer = ask(daemon, {"query": x, "projections": {"num_heads": 2, "w_q": w}, "return": "inputs"})
    close(array(answer["query"]), (array(x) @ array(w).T).reshape(3, 2, 2).swapaxes(0, 1))
    close(array(answer["key"]), array(x).reshape(3, 2, 2).swapaxes(0, 1))
    drawn = ask(daemon, {"query": {"shape": [2, 3], "random": "normal", "seed": 4}, "return": ["inputs"]})
    assert list(drawn) == ["query", "key", "value"] and drawn["key"] == drawn["query"] == drawn["value"]
    close(drawn["query"], rng.normal(4, 6).reshape(2, 3))
    keys = {"query": x, "key": x, "return": ["inputs", "weights"]}
    assert list(ask(daemon, keys)) == ["weights", "query", "key"]


@pytest.mark.parametrize("fields", [{}, {"is_causal": True}, {"dropout_p": 0.5, "seed": 3}])
def test_weighted_values_are_the_terms_of_the_output(daemon, fields):
    worked = ask(daemon, {"query": [[0, 0, 10]], "key": [[10, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]],
                          "value": [[1, 0], [10, 0], [100, 5], [1000, 6]], "return": "weighted_values"})
    assert worked["weighted_values"][0][2:] == [[50, 2.5], [500, 3]]
    body = qkv(B=2, H=4, Hkv=2, Ev=6) | fields
    names = ["output", "weights", "weighted_values"] + ["weights_dropped"] * ("seed" in fields)
    answer = ask(daemon, body | {"return": names})
    weights = array(answer["weights_dropped" if "seed" in fields else "weights"])
    close(array(answer["weighted_values"]), weights[..., None] * np.repeat(array(body["value"]), 2, 1)[:, :, None])
    close(array(answer["weighted_values"]).sum(-2), answer["output"])
    shapes = ask(daemon, body | {"return": ["inputs", "weighted_values"], "dry_run": True})["dry_run"]
    assert shapes["shapes"]["weighted_values"] == [2, 4, 3, 5, 6] and shapes["shapes"]["key"] == [2, 2, 5, 4]
    assert shapes["bytes"]["result"] == 4 * (2 * 4 * 3 * 5 * 6 + 2 * 4 * 3 * 4 + 2 * 2 * 5 * (4 + 6))


def test_row_sums(daemon):
    body = qkv(B=2, H=2) | {"is_causal": True, "return": ["row_sums", "weights"]}
    answer = ask(daemon, body)
    close(answer["row_sums"], array(answer["weights"]).sum(-1))
    close(answer["row_sums"], np.ones((2, 2, 3)))
    sunk = ask(daemon, body | {"sinks": [0, 9], "return": "row_sums"})["row_sums"]
    assert np.all(array(sunk) < 1) and np.all(array(sunk)[:, 1] < 0.1)
    assert ask(daemon, WORKED | {"key_lengths": [0], "return": ["row_sums"]})["row_sums"] == [0, 0]
    deep = ask(daemon, WORKED | {"attn_mask": [[[True, False], [True, True]]], "return": ["row_sums"]})
    assert deep["row_sums"] == [[1, 1]]
    state = {"query": normal(2, 4), "key": normal(2, 5, 4, seed=1), "score": "dot", "return": "row_sums"}
    close(ask(daemon, state)["row_sums"], [1, 1])


@pytest.mark.parametrize("position", [{"kind": "sinusoidal"}, {"kind": "learned", "table": normal(40, 8, seed=9)}], ids=str)
def test_dropout_of_encoded_inputs(daemon, position):
    body = {"query": normal(2, 40, 8), "position": position, "return": ["inputs", "weights", "output"]}
    whole = ask(daemon, body)
    dropping = position | {"dropout_p": 0.25, "seed": 5}
    answer = ask(daemon, body | {"position": dropping})
    q, k, v = (array(answer[name]) for name in ("query", "key", "value"))
    kept = rng.uniform(5, 2 * 40 * 8).reshape(2, 40, 8) >= 0.25
    close(q, np.where(kept, array(whole["query"]) / 0.75, 0))
    assert np.array_equal(q, k) and np.array_equal(q, v) and 0.2 < np.mean(q == 0) < 0.3
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(8)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    close(answer["weights"], weights / weights.sum(-1, keepdims=True))
    # the run that is stored, and projections, see the same elements
    run = ask(daemon, body | {"position": dropping, "store": True})["run"]["id"]
    stored = daemon.get(f"/v1/runs/{run}/weights?batch=1").json()["weights"]
    assert np.array_equal(array(stored).astype(np.float32), array(answer["weights"])[1].astype(np.float32))
    projected = ask(daemon, body | {"position": dropping, "projections": {"num_heads": 1}})
    close(array(projected["query"])[:, 0], q)
    # three tensors that are sent separately are dropped separately
    other = ask(daemon, body | {"key": body["query"], "value": body["query"], "position": dropping})
    assert np.array_equal(array(other["query"]), q)
    assert len({np.array(other[name]).tobytes() for name in ("query", "key", "value")}) == 3


def test_dropout_of_encoded_inputs_is_refused(daemon):
    body = {"query": [[1, 2], [3, 4]]}
    half = {"kind": "sinusoidal", "dropout_p": 0.5, "seed": 1}
    for position, pointer, word in [({"dropout_p": 0.5}, "dropout_p", "needs seed"), ({"seed": 1}, "seed", "dropout_p"),
                                    ({"dropout_p": 1, "seed": 1}, "dropout_p", "below 1")]:
        refused(daemon, body | {"position": {"kind": "sinusoidal"} | position}, "invalid_value", f"/position/{pointer}", word)
    refused(daemon, body | {"position": {"kind": "alibi", "dropout_p": 0.5, "seed": 1}}, "invalid_value",
            "/position/dropout_p", "does not belong")
    for extra in ({}, {"projections": {"num_heads": 1}}):
        refused(daemon, body | extra | {"position": half, "grad_output": [[1, 1], [1, 1]]}, "invalid_value",
                "/position/dropout_p", "gradients")


def test_weighted_values_of_other_shapes(daemon):
    state = {"query": normal(2, 4), "key": normal(2, 5, 4, seed=1), "value": normal(2, 5, 3, seed=2), "score": "dot"}
    answer = ask(daemon, state | {"return": ["inputs", "weighted_values", "output"]})
    assert array(answer["weighted_values"]).shape == (2, 5, 3)
    close(answer["query"], state["query"], 1e-7)
    close(array(answer["weighted_values"]).sum(-2), answer["output"])
    hidden = np.array(normal(2, 5, 3, seed=2), np.float32)
    hidden[:, 4] = np.nan
    sent = {"shape": [2, 5, 3], "base64": base64.b64encode(hidden.tobytes()).decode()}
    masked = ask(daemon, state | {"value": sent, "key_lengths": [4, 4], "return": "weighted_values"})
    assert array(masked["weighted_values"])[:, 4].tolist() == [[0, 0, 0]] * 2
    refused(daemon, {"query": [[1]], "key": [[1]], "return": "weighted_values"}, "invalid_value", "/return", "value")
    tables = {"kind": "shaw", "key_table": [[1], [1], [1]], "value_table": [[1], [1], [1]]}
    refused(daemon, {"query": [[1], [2]], "position": tables, "return": "weighted_values"}, "invalid_value",
            "/position/value_table", "depend on the query")


# --- every step from scores to weights in one answer ---

def test_a_list_of_stages(daemon):
    body = qkv(B=2, H=2) | {"is_causal": True, "query_offset": "end", "softcap": 3, "return": ["weights", "scores"]}
    answer = ask(daemon, body | {"score_stage": STAGES})
    assert list(answer) == ["weights", "scores"] and list(answer["scores"]) == STAGES
    for stage in STAGES:
        assert answer["scores"][stage] == ask(daemon, body | {"score_stage": stage})["scores"]
    assert answer["scores"]["probs"] == answer["weights"]
    one = ask(daemon, body | {"score_stage": ["scaled"]})["scores"]
    assert one == {"scaled": answer["scores"]["scaled"]}
    refused(daemon, body | {"score_stage": []}, "invalid_value", "/score_stage", "empty")
    shapes = ask(daemon, body | {"score_stage": ["raw", "biased"], "dry_run": True})["dry_run"]["shapes"]
    assert shapes["scores/raw"] == shapes["scores/biased"] == [2, 2, 3, 5] and "scores" not in shapes


def test_stages_as_text_and_with_gradients(daemon):
    body = WORKED | {"return": "scores", "score_stage": ["raw", "scaled"]}
    text = daemon.post("/v1/attention", body, headers={"Accept": "text/plain"}).text
    assert text.startswith("scores/raw (2, 2):\n[[1. 4.]\n [2. 5.]]\nscores/scaled (2, 2):\n")
    both = ask(daemon, body | {"grad_output": [[1, 0, 0], [0, 1, 0]]})
    assert both["scores"] == ask(daemon, body)["scores"]
    assert both["gradients"]["query"] == ask(daemon, WORKED | {"grad_output": [[1, 0, 0], [0, 1, 0]]})["gradients"]["query"]


def picture(daemon, body):
    reply = daemon.post("/v1/attention", body, headers={"Accept": "image/svg+xml"})
    assert reply.status_code == 200, reply.text
    root = ET.fromstring(reply.text)
    return root, ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]


def test_stages_are_drawn_side_by_side(daemon):
    body = WORKED | {"is_causal": True, "score_stage": ["raw", "scaled", "biased", "probs"]}
    root, texts = picture(daemon, body)
    titles = ["raw", "scaled", "biased", "probs"]
    assert [t for t in texts if t in titles] == titles
    assert {"5.00", "2.31", "0.58", "0.85"} <= set(texts)  # values in the cells of each panel
    places = [t for t in root.iter("{http://www.w3.org/2000/svg}text") if "".join(t.itertext()) in titles]
    assert len({t.get("y") for t in places}) == 1
    assert sorted({float(t.get("x")) for t in places}) == [float(t.get("x")) for t in places]
    heads = picture(daemon, qkv(B=1, H=2, L=14, S=14) | {"score_stage": ["scaled", "probs"]})[1]
    ranges = [t for t in heads if " to " in t]
    assert [t.split(":")[0] for t in ranges] == ["scaled, head 0", "probs, head 0", "scaled, head 1", "probs, head 1"]
    assert ranges[0].split(": ")[1].startswith("-") and not ranges[1].split(": ")[1].startswith("-")
    text = daemon.post("/v1/attention", WORKED | {"score_stage": ["raw"]})
    assert text.status_code == 422  # only pictures show stages that return does not name


# --- weights alone ---

def test_weights_need_no_value(daemon):
    alone = {n: WORKED[n] for n in ("query", "key")}
    answer = ask(daemon, alone)
    assert answer == {"weights": ask(daemon, WORKED)["weights"]}
    assert ask(daemon, alone | {"return": ["scores", "logsumexp"]}) == \
        ask(daemon, WORKED | {"return": ["scores", "logsumexp"]})
    assert "output" not in ask(daemon, alone | {"dry_run": True})["dry_run"]["shapes"]
    refused(daemon, alone | {"return": "output"}, "invalid_value", "/return", "value")
    refused(daemon, alone | {"grad_output": [[1, 1, 1]] * 2}, "invalid_value", "/grad_output", "value")
    refused(daemon, alone | {"verify": 3}, "invalid_value", "/verify", "value")


# --- arrays of integers, as np.array([[1, 0, 0], ..]) is ---

@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_integers_are_numbers(daemon, dtype):
    typed = {n: {"shape": [2, 3], "dtype": dtype, "data": np.ravel(x).tolist()} for n, x in WORKED.items()}
    assert ask(daemon, typed) == ask(daemon, WORKED)
    archive = io.BytesIO()
    np.savez(archive, **{n: np.array(x, dtype) for n, x in WORKED.items()})
    reply = daemon.post("/v1/attention", data=archive.getvalue(), headers={"Content-Type": "application/x-npz"})
    assert reply.json() == ask(daemon, WORKED)


# --- masks as textbooks write them ---

def test_a_mask_of_numbers_as_conditions(daemon):
    mask = [[0, 0], [-1e9, 0]]
    detail = refused(daemon, WORKED | {"attn_mask": mask, "mask_semantics": "keep"}, "invalid_value",
                     "/attn_mask/1/0", "additive", "numpy.where", "nonzero")["detail"]
    assert "-1e+09" in detail
    dots = np.array([[1.0, 4], [2, 5]]) / np.sqrt(3)
    dots = np.where(mask, dots, -1e9)
    want = np.exp(dots - dots.max(-1, keepdims=True))
    want /= want.sum(-1, keepdims=True)
    filled = ask(daemon, WORKED | {"attn_mask": mask, "mask_fill": {"value": -1e9, "mode": "replace"}})
    assert [w["code"] for w in filled["warnings"]] == ["mask_not_causal", "low_numbers", "fill_unused"]
    booleans = np.array(mask, bool)
    answer = ask(daemon, WORKED | {"attn_mask": booleans.tolist()})
    assert answer == ask(daemon, WORKED | {"attn_mask": mask, "mask_semantics": "nonzero"})
    close(array(answer["weights"])[1], want[1])
    assert answer["weights"][0] == [0, 0]  # a row without keys; NumPy divides two equal numbers


def test_axes_of_length_1_in_front(daemon):
    mask = np.tril(np.ones((2, 2), bool))
    every = {"return": ["output", "weights", "logsumexp", "scores", "gradients", "gradients.scores"]}
    grad = np.ones((2, 3)).tolist()
    want = ask(daemon, WORKED | every | {"attn_mask": mask.tolist(), "grad_output": grad})
    of_inputs = {name: want["gradients"][name] for name in ("query", "key", "value")}
    for axes in (1, 2):
        deep = WORKED | every | {"attn_mask": mask.reshape([1] * axes + [2, 2]).tolist(), "grad_output": grad}
        answer = ask(daemon, deep)
        answer["gradients.scores"] = answer["gradients"].pop("scores")
        assert answer["gradients"] == of_inputs
        for name in ("output", "weights", "logsumexp", "scores"):
            assert answer[name] == np.reshape(want[name], [1] * axes + list(np.shape(want[name]))).tolist()
        assert answer["gradients.scores"] == np.reshape(want["gradients"]["scores"], [1] * axes + [2, 2]).tolist()
        shapes = ask(daemon, deep | {"dry_run": True})["dry_run"]["shapes"]
        assert shapes["output"] == [1] * axes + [2, 3] and shapes["gradients/scores"] == [1] * axes + [2, 2]
        again = ask(daemon, deep | {"grad_output": np.ones([1] * axes + [2, 3]).tolist()})
        assert again["gradients"]["query"] == of_inputs["query"]
        rows = [ask(daemon, deep | {"grad_logsumexp": np.reshape([1, 2], shape).tolist()}) for shape in ([2], [1] * axes + [2])]
        assert rows[0] == rows[1] and rows[0]["gradients"]["query"] != of_inputs["query"]
    refused(daemon, WORKED | {"attn_mask": [mask.tolist()] * 2}, "shape_mismatch", "/attn_mask", "more axes")
    batch = qkv(B=2)
    padding = np.arange(5) < np.array([[3], [5]])
    assert ask(daemon, batch | {"attn_mask": padding[:, None, None].tolist()}) == \
        ask(daemon, batch | {"attn_mask": padding[:, None].tolist()})
    refused(daemon, batch | {"attn_mask": np.ones((2, 2, 3, 5), bool).tolist()}, "shape_mismatch", "/attn_mask")
    bias = normal(1, 2, 2)
    got = ask(daemon, WORKED | {"attn_bias": bias, "grad_output": WORKED["value"]})["gradients"]["attn_bias"]
    flat = ask(daemon, WORKED | {"attn_bias": bias[0], "grad_output": WORKED["value"]})["gradients"]["attn_bias"]
    assert got == [flat]


@pytest.mark.parametrize("field", ["attn_mask", "attn_bias"])
def test_negative_infinity_of_python(daemon, field):
    """json.dumps writes -Infinity; NaN and Infinity are refused."""
    written = '{"query": [[1, 0], [0, 1]], "%s": [[0, %s], [0, 0]]}'
    headers = {"Content-Type": "application/json"}
    got = daemon.post("/v1/attention", data=written % (field, "-Infinity"), headers=headers)
    assert got.json() == ask(daemon, {"query": [[1, 0], [0, 1]], field: [[0, None], [0, 0]]})
    for other in ("Infinity", "NaN"):
        reply = daemon.post("/v1/attention", data=written % (field, other), headers=headers)
        assert (reply.status_code, reply.json()["code"]) == (400, "malformed_json")
    masks = '{"masks": [{"kind": "values", "attn_mask": [[0, -Infinity], [0, 0.5]]}], "shape": [2, 2]}'
    if field == "attn_mask":
        assert daemon.post("/v1/masks", data=masks, headers=headers).json()["keep"] == [[True, False], [True, True]]


def test_a_causal_mask_as_numbers(daemon):
    body = {"masks": [{"kind": "causal"}], "shape": [3, 3]}
    answer = ask(daemon, body | {"as": "additive"}, "/v1/masks")
    assert answer["additive"] == [[0, None, None], [0, 0, None], [0, 0, 0]] and "keep" not in answer
    assert answer["words"] == ask(daemon, body, "/v1/masks")["words"]
    text = daemon.post("/v1/masks", body | {"as": "additive"}, headers={"Accept": "text/plain"}).text
    assert text.startswith("additive (3, 3):\n[[  0. -inf -inf]\n [  0.   0. -inf]\n [  0.   0.   0.]]\n")
    picture = daemon.post("/v1/masks", body | {"as": "additive"}, headers={"Accept": "image/svg+xml"}).text
    marks = daemon.post("/v1/masks", body, headers={"Accept": "image/svg+xml"}).text
    assert "✓" in marks and "✓" not in picture and "hidden by the mask" in picture
    biased = {"masks": [{"kind": "values", "attn_mask": [[0.5, None], [-2, 0]]}], "shape": [2, 2], "as": "additive"}
    drawn = daemon.post("/v1/masks", biased, headers={"Accept": "image/svg+xml"}).text
    assert ">0.5<" in drawn and ">-2.0<" in drawn.replace("−", "-")
    large = ask(daemon, {"masks": [{"kind": "causal"}], "shape": [300, 300], "as": "additive"}, "/v1/masks")
    assert "runs" in large["keep"] and large["omitted"]["additive"]["num_values"] == 90000


@pytest.mark.parametrize("mask", [
    [[0, 0, 1], [0, 1, 1], [1, 1, 1]],
    [[0, -1e9, 0.5], [-2, 0, 1e-40], [3, 1e30, -0.0]],
    [[0, None, 2], [None, 0, None], [0, 0, 0]],
], ids=["0 and 1", "numbers", "null"])
def test_all_but_0_attends(daemon, mask):
    """numpy.where(mask, scores, -1e9), in which -inf counts as true."""
    fill = {"mask_fill": {"value": -1e9, "mode": "replace"}}
    numbers = np.array([[-np.inf if x is None else x for x in row] for row in mask])
    body = {"query": normal(3, 4), "key": normal(3, 4, seed=1), "return": ["weights", "scores", "heatmap"]}
    for more in ({}, fill):
        got = ask(daemon, body | more | {"attn_mask": mask, "mask_semantics": "nonzero"})
        assert got == ask(daemon, body | more | {"attn_mask": (numbers != 0).tolist()})
    q, k = np.array(body["query"]), np.array(body["key"])
    close(got["scores"], np.where(numbers, q @ k.T / 2, -1e9))
    built = ask(daemon, {"masks": [{"kind": "values", "attn_mask": mask, "mask_semantics": "nonzero"}], "shape": [3, 3]},
                "/v1/masks")
    assert built["keep"] == (numbers != 0).tolist() and "additive" not in built
    assert built["words"].startswith("masks/0/attn_mask: numbers [3, 3], all but 0 = attend, hides ")
    weights = {"weights": (np.ones((3, 3)) / 3).tolist(), "analysis": ["entropy"]}
    assert ask(daemon, weights | {"attn_mask": mask, "mask_semantics": "nonzero"}, "/v1/analyses") == \
        ask(daemon, weights | {"attn_mask": (numbers != 0).tolist()}, "/v1/analyses")


def test_scores_of_ones_own(daemon):
    """softmax(scores + (1 - mask) * -1e9), with a unit matrix as key."""
    scores, mask = np.float32([[1, 2, 3], [0, 2, 3.2], [4, 0, 1]]), np.float32([[0, 1, 0], [0, 0, 0], [1, 1, 0]])
    body = {"query": scores.tolist(), "key": {"shape": [3, 3], "fill": "eye"}, "scale": False,
            "attn_mask": mask.tolist(), "mask_semantics": "keep", "mask_fill": -1e9, "return": ["scores", "weights"]}
    answer = ask(daemon, body)
    want = scores + (1 - mask) * np.float32(-1e9)
    assert answer["scores"] == want.tolist()
    weights = np.exp(np.float64(want) - want.max(-1, keepdims=True))
    close(answer["weights"], weights / weights.sum(-1, keepdims=True))


def test_all_but_0_attends_whatever_the_type(daemon):
    """Integers that a double rounds are not 0, and a boolean is what it says."""
    body = {"query": normal(2, 3), "mask_semantics": "nonzero"}
    want = ask(daemon, {"query": body["query"], "attn_mask": [[True, False], [True, True]]})
    for dtype, values in [("int64", [2**62 + 1, 0, -1, 3]), ("float64", [1e-300, 0, -1, 3]), ("bool", [1, 0, 1, 1]),
                          ("float16", [6e-8, -0.0, -1, 3]), ("uint8", [255, 0, 2, 1])]:
        data = base64.b64encode(np.array(values).astype(dtype).tobytes()).decode()
        mask = {"shape": [2, 2], "dtype": dtype, "base64": data}
        assert ask(daemon, body | {"attn_mask": mask}) == want, dtype
    for bad in (np.nan, np.inf):
        data = base64.b64encode(np.array([1, 0, bad, 1], "<f4").tobytes()).decode()
        refused(daemon, body | {"attn_mask": {"shape": [2, 2], "dtype": "float32", "base64": data}}, "nonfinite_value",
                "/attn_mask/1/0", "NaN" if np.isnan(bad) else "infinity")


def test_a_mask_of_conditions_in_a_stored_run(daemon):
    mask = np.where(np.eye(4), -7, 0).tolist()
    body = {"query": normal(4, 3), "attn_mask": mask, "mask_semantics": "nonzero"}
    run = ask(daemon, body | {"store": True, "return": []})["run"]["id"]
    assert daemon.get(f"/v1/runs/{run}/weights").json()["weights"] == np.eye(4).tolist()
    assert not daemon.get(f"/v1/runs/{run}/cells?row=0&col=1").json()["visible"]
    diagonal = {"query": normal(4, 3), "attn_mask": np.eye(4, dtype=bool).tolist(), "store": True, "return": []}
    same = ask(daemon, diagonal)["run"]["id"]
    metrics, want = (daemon.get(f"/v1/runs/{r}/analyses?analysis=entropy").json() for r in (run, same))
    assert metrics["heads"] == want["heads"] and metrics["heads"][0]["measures"]["entropy"] == 0


SMALLEST = [-65504, -3.3895313892515355e38, -3.4028234663852886e38, -1e9, -10000]


@pytest.mark.parametrize("low", SMALLEST)
def test_the_smallest_number_hides_its_key(daemon, low):
    """transformers adds finfo.min where it means -infinity."""
    body = {"query": normal(4, 3), "return": ["weights", "heatmap"], "analysis": ["entropy"]}
    mask = np.where(np.tril(np.ones((4, 4), bool)), 0.25, low).tolist()
    hidden = ask(daemon, body | {"attn_mask": mask, "mask_semantics": "finite_min"})
    infinite = [[x if x > -1 else None for x in row] for row in mask]
    assert hidden == ask(daemon, body | {"attn_mask": infinite})
    assert "warnings" not in hidden
    added = ask(daemon, body | {"attn_mask": mask})
    assert [w["code"] for w in added["warnings"]] == ["low_numbers"]
    assert added["weights"] == hidden["weights"] or low == -10000
    assert added["heatmap"]["heads"][0]["hidden"] != hidden["heatmap"]["heads"][0]["hidden"]


def test_a_row_of_low_numbers_alone_has_weights(daemon):
    body = {"query": [[1, 0], [0, 1]], "return": ["weights"], "decimals": 2}
    answer = ask(daemon, body | {"attn_mask": [[-10000, -10000], [0, -10000]]})
    assert answer["weights"] == [[0.67, 0.33], [1, 0]]
    (warning,) = [w["detail"] for w in answer["warnings"] if w["code"] == "low_numbers"]
    assert "in a row that has far higher numbers" in warning
    assert "a row of such numbers alone spreads its weight over them" in warning


def test_numbers_above_the_smallest_are_added(daemon):
    mask = [[0, -9999], [-3.5, 0]]
    body = {"query": [[1, 0], [0, 1]], "attn_mask": mask}
    assert ask(daemon, body | {"mask_semantics": "finite_min"}) == ask(daemon, body)


def test_a_finite_min_mask_of_a_stored_run(daemon):
    body = {"query": normal(4, 3), "attn_mask": np.where(np.eye(4), 0, -65504).tolist(), "mask_semantics": "finite_min"}
    run = ask(daemon, body | {"store": True, "return": []})["run"]["id"]
    assert daemon.get(f"/v1/runs/{run}/weights").json()["weights"] == np.eye(4).tolist()
    for j in range(4):
        assert daemon.get(f"/v1/runs/{run}/cells?row=0&col={j}").json()["visible"] == (j == 0)


# --- gradients of the scores ---

def gradient_of_scores(q, k, v, g, scale, keep=None):
    z = np.einsum("...ie,...je->...ij", q, k) * scale
    if keep is not None:
        z = np.where(keep, z, -np.inf)
    p = np.exp(z - z.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = np.einsum("...ie,...je->...ij", g, v)
    return p * (dp - (p * dp).sum(-1, keepdims=True))


@pytest.mark.parametrize("shape", [{}, {"B": 2}, {"B": 2, "H": 4, "Hkv": 2, "L": 40, "S": 70}], ids=str)
def test_gradients_of_scores(daemon, shape):
    body = qkv(**shape) | {"scale": 0.7}
    g = normal(*np.shape(body["query"])[:-1], 4, seed=9)
    q, k, v = (np.array(body[n]) for n in ("query", "key", "value"))
    if "Hkv" in shape:
        k, v = np.repeat(k, 2, 1), np.repeat(v, 2, 1)
    answer = ask(daemon, body | {"grad_output": g})
    close(answer["gradients"]["scores"], gradient_of_scores(q, k, v, np.array(g), 0.7))
    only = ask(daemon, body | {"grad_output": g, "return": "gradients.scores"})
    assert only == {"gradients": {"scores": answer["gradients"]["scores"]}}
    named = ask(daemon, body | {"grad_output": g, "return": "gradients"})
    assert "scores" not in named["gradients"] and named["gradients"]["query"] == answer["gradients"]["query"]
    causal = ask(daemon, body | {"grad_output": g, "is_causal": True, "return": "gradients.scores"})
    keep = np.tril(np.ones((q.shape[-2], k.shape[-2]), bool))
    close(causal["gradients"]["scores"], gradient_of_scores(q, k, v, np.array(g), 0.7, keep))


def test_the_gradient_vanishes_for_large_scores(daemon):
    body = {"query": normal(4, 64, seed=1), "grad_output": normal(4, 64, seed=2), "return": "gradients.scores"}
    large, small = (abs(array(ask(daemon, body | {"scale": s})["gradients"]["scores"])).max() for s in (16, 0.125))
    assert large < 1e-5 < small  # 0 but for the rounding of float32


def test_large_gradients_of_scores_are_omitted(daemon):
    body = {"query": {"shape": [300, 2], "random": "normal"}, "grad_output": {"shape": [300, 2], "fill": "ones"}}
    answer = ask(daemon, body)
    assert "scores" not in answer["gradients"] and set(answer["omitted"]) == {"weights", "gradients.scores"}
    named = ask(daemon, body | {"return": "gradients.scores"})
    assert np.shape(named["gradients"]["scores"]) == (300, 300)
    shapes = ask(daemon, body | {"return": "gradients.scores", "dry_run": True})["dry_run"]["shapes"]
    assert shapes["gradients/scores"] == [300, 300]


def test_gradients_of_scores_through_projections(daemon):
    x, w = normal(5, 8, seed=3), np.eye(8).tolist()
    body = {"query": x, "projections": {"num_heads": 2, "w_q": w}, "grad_output": normal(5, 8, seed=4)}
    got = ask(daemon, body)["gradients"]["scores"]
    heads = [np.array(t).reshape(5, 2, 4).transpose(1, 0, 2) for t in (x, body["grad_output"])]
    close(got, gradient_of_scores(heads[0], heads[0], heads[0], heads[1], 0.5))


# --- the state of a decoder as one query ---

SCORES = {
    "additive": lambda r: {"kind": "additive", "w_q": r(6, 5), "w_k": r(6, 4), "v": r(1, 6)},
    "concat": lambda r: {"kind": "concat", "w": r(6, 9), "v": r(6)},
    "general": lambda r: {"kind": "general", "w": r(4, 5)},
    "dot": lambda r: {"kind": "dot"},
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("heads", [(), (2,)], ids=["", "heads"])
def test_a_decoder_state_is_one_query(daemon, kind, heads):
    numbers = iter(range(100))
    score = SCORES[kind](lambda *shape: normal(*shape, seed=next(numbers)))
    width = 4 if kind == "dot" else 5
    state, memory, value = normal(3, *heads, width, seed=50), normal(3, *heads, 7, 4, seed=51), normal(3, *heads, 7, 2, seed=52)
    body = {"key": memory, "value": value, "score": score, "return": ["output", "weights", "logsumexp", "scores"],
            "grad_output": normal(3, *heads, 2, seed=53), "grad_logsumexp": normal(3, *heads, seed=54)}
    got = ask(daemon, body | {"query": state})
    def grown(x):
        return np.expand_dims(np.array(x), -2).tolist()
    grads = {"grad_output": grown(body["grad_output"]), "grad_logsumexp": np.array(body["grad_logsumexp"])[..., None].tolist()}
    want = ask(daemon, body | {"query": grown(state)} | grads)
    for name, axis in (("output", -2), ("weights", -2), ("logsumexp", -1), ("scores", -2)):
        assert got[name] == np.squeeze(array(want[name]), axis).astype(np.float32).tolist() or \
            np.array_equal(array(got[name]), np.squeeze(array(want[name]), axis))
    assert np.shape(got["output"]) == (3, *heads, 2) and np.shape(got["weights"]) == (3, *heads, 7)
    gradients, reference = got["gradients"], want["gradients"]
    assert np.array_equal(array(gradients["query"]), np.squeeze(array(reference["query"]), -2))
    assert gradients["key"] == reference["key"]
    for name in score:
        if name != "kind":
            assert gradients["score"][name] == reference["score"][name]
            assert np.shape(gradients["score"][name]) == np.shape(score[name])


def test_a_mask_for_one_query(daemon):
    score = SCORES["general"](lambda *shape: normal(*shape))
    body = {"query": normal(3, 5), "key": normal(3, 7, 4), "score": score}
    keep = (np.arange(7) < np.array([[2], [5], [7]])).tolist()
    assert ask(daemon, body | {"attn_mask": keep}) == ask(daemon, body | {"key_lengths": [2, 5, 7]})
    shapes = ask(daemon, body | {"dry_run": True})["dry_run"]["shapes"]
    assert shapes["weights"] == [3, 7]
    bias = ask(daemon, body | {"value": normal(3, 7, 2), "attn_bias": normal(3, 7), "grad_output": normal(3, 2)})
    assert np.shape(bias["gradients"]["attn_bias"]) == (3, 7)


def test_what_is_no_decoder_state(daemon):
    body = {"query": normal(3, 4), "key": normal(3, 7, 4), "value": normal(3, 7, 4)}
    refused(daemon, body, "shape_mismatch", "/key", "same rank")
    score = {"kind": "general", "w": normal(4, 4)}
    refused(daemon, body | {"query": normal(2, 4), "score": score}, "shape_mismatch", "/key", "same rank")
    poisoned = body["query"][:2] + [[1e39, 0, 0, 0]]
    reply = daemon.post("/v1/attention", body | {"query": poisoned, "score": score})
    assert reply.json()["pointer"] == "/query/2/0"


def test_a_vector_as_a_linear_layer_has_it(daemon):
    score = SCORES["additive"](lambda *shape: normal(*shape))
    body = {"query": normal(2, 5), "key": normal(3, 4), "score": score}
    assert ask(daemon, body) == ask(daemon, body | {"score": score | {"v": score["v"][0]}})
    refused(daemon, body | {"score": score | {"v": normal(2, 6)}}, "shape_mismatch", "/score/v", "[6]")


# --- the mean of the heads ---

@pytest.mark.parametrize("heads", [1, 2, 8])
def test_average_attn_weights(daemon, heads):
    body = {"query": normal(2, 5, 8), "projections": {"num_heads": heads}, "return": ["output", "weights"]}
    each, mean = ask(daemon, body), ask(daemon, body | {"average_attn_weights": True})
    assert mean["output"] == each["output"]
    assert np.shape(mean["weights"]) == (2, 5, 5)
    want = np.float32(each["weights"]).astype(np.float64).mean(1).astype(np.float32)
    assert np.array_equal(np.float32(mean["weights"]), want)
    shapes = ask(daemon, body | {"average_attn_weights": True, "dry_run": True})["dry_run"]["shapes"]
    assert shapes["weights"] == [2, 5, 5]


def test_average_needs_weights(daemon):
    refused(daemon, {"query": normal(2, 4), "average_attn_weights": True, "return": "output"}, "invalid_value",
            "/average_attn_weights", "weights")
    flat = {"query": normal(2, 4)}
    assert ask(daemon, flat | {"average_attn_weights": True}) == ask(daemon, flat)


# --- the names of other libraries ---

@pytest.mark.parametrize("name, here", [
    ("q", "query"), ("k", "key"), ("v", "value"), ("mask", "attn_mask"), ("attention_mask", "attn_mask"),
    ("causal", "is_causal"), ("dropout", "dropout_p"), ("pad_idx", "pad_id"), ("heads", "num_heads"),
    ("need_weights", "return"), ("values", "value"), ("queries", "query"), ("keys", "key"), ("m", "attn_mask"),
    ("M", "attn_mask"), ("return_attention_weights", "return"), ("return_scores", "return"), ("encoder_outputs", "key"),
    ("decoder_hidden", "query"), ("xticklabels", "labels"), ("yticklabels", "labels"), ("softmax_scale", "scale"),
    ("sliding_window", "window"), ("window_size", "window"), ("local_window_size", "window"),
    ("logits_soft_cap", "softcap"), ("attn_logit_softcapping", "softcap"), ("s_aux", "sinks"),
    ("learnable_sink", "sinks"), ("head_sink", "sinks"), ("attn_sink", "sinks"), ("return_lse", "return"),
    ("return_softmax_lse", "return"), ("q_offset", "query_offset"), ("cache_seqlens", "key_lengths"),
    ("seqlens_k", "key_lengths"), ("nonpad_kv_seqlen", "key_lengths"), ("key_value_seq_lengths", "key_lengths"),
    ("block_tables", "block_table"), ("kv_layout", "block_layout"), ("context_lens", "key_lengths"),
    ("kv_heads", "num_kv_heads"), ("mask_value", "mask_fill"), ("rope", "position"), ("rotary", "position"),
    ("alibi", "position"), ("segment_ids", "document_ids"), ("prefix_length", "prefix_lengths"), ("topk_indices", "top_k_indices"),
])
def test_other_names_of_fields(daemon, name, here):
    refused(daemon, WORKED | {name: 1}, "unknown_field", f"/{name}", f'here it is called "{here}", because')


@pytest.mark.parametrize("path, name, here", [
    ("/v1/jobs", "d_model", "width"), ("/v1/jobs", "learning_rate", "rate"), ("/v1/jobs", "epochs", "num_steps"), ("/v1/jobs", "steps", "num_steps"), ("/v1/jobs", "pairs", "num_pairs"), ("/v1/jobs", "scored", "num_scored_pairs"),
    ("/v1/jobs", "dropout", "dropout_p"), ("/v1/jobs", "attention_dropout", "attention_dropout_p"), ("/v1/models", "dropout", "dropout_p"),
    ("/v1/models/en-fr/generate", "prompt", "text"), ("/v1/models/en-fr/attention", "input", "text"),
    ("/v1/models", "src_vocab_size", "source_vocabulary"), ("/v1/models", "tgt_vocab_size", "target_vocabulary"),
    ("/v1/positions", "max_len", "length"), ("/v1/positions", "d_model", "width"), ("/v1/curves", "y", "values"),
    ("/v1/curves", "label", "names"), ("/v1/curves", "legend", "names"), ("/v1/heatmaps", "xticklabels", "labels"),
    ("/v1/masks", "mask", "masks"), ("/v1/positions", "keys", "num_keys"), ("/v1/models", "layers", "num_layers"),
    ("/v1/models", "global_keys", "num_global_keys"), ("/v1/jobs", "layers", "num_layers"), ("/v1/jobs", "global_keys", "num_global_keys"),
    ("/v1/models/en-fr/generate", "beams", "num_beams"), ("/v1/models/en-fr/generate", "alternatives", "num_alternatives"),
    ("/v1/models/en-fr/attention", "num_layers", "layers"),
    ("/v1/models/en-fr/attention", "target_ids", "target_token_ids"),
    ("/v1/models/en-fr/attention", "source_mask", "token_mask"), ("/v1/models/en-fr/generate", "attention_mask", "token_mask"),
])
def test_other_names_elsewhere(daemon, path, name, here):
    refused(daemon, {name: 1}, "unknown_field", f"/{name}", f'it is called "{here}"', "because", path=path)


@pytest.mark.parametrize("path, name, advice", [
    ("/v1/attention", "causal_mask", '"is_causal": true'), ("/v1/attention", "look_ahead_mask", "attn_mask"),
    ("/v1/attention", "is_training", "dropout_p is above 0"), ("/v1/attention", "dtype", '"dtype": "float64"'),
    ("/v1/attention", "xlabel", '"figure": {"x_label": ..}'), ("/v1/heatmaps", "ylabel", '"figure": {"y_label": ..}'),
    ("/v1/heatmaps", "cmap", '"figure": {"colormap": ..}'), ("/v1/heatmaps", "colour_bar", '"figure": {"colorbar": ..}'), ("/v1/curves", "title", '"figure": {"title": ..}'),
    ("/v1/positions", "figsize", '"figure": {"width": .., "height": ..}'),
    ("/v1/positions", "dropout", "position of /v1/attention takes dropout_p"),
    ("/v1/masks", "kind", '"masks": [{"kind": "causal"}]'), ("/v1/masks", "is_causal", '"masks": [{"kind": "causal"}]'),
    ("/v1/masks", "attn_mask", '"masks": [{"kind": "values", "attn_mask": ..}]'),
    ("/v1/attention", "alibi_slopes", '"position": {"kind": "alibi", "slopes": ..}'),
    ("/v1/attention", "rope_theta", '"position": {"kind": "rotary", "layout": .., "base": ..}'),
    ("/v1/attention", "rope_scaling", '"position": {"kind": "rotary", "layout": .., "scaling": ..}'),
    ("/v1/attention", "position_ids", "query_positions and key_positions"),
    ("/v1/attention", "cache_position", "query_offset is the position of the first query"),
    ("/v1/attention", "cu_seqlens_q", "cu_seqlens holds the sums of queries and then of keys, [2, B + 1]"),
    ("/v1/attention", "past_key_values", "past_key and past_value"),
])
def test_names_without_a_field_of_the_same_meaning(daemon, path, name, advice):
    refused(daemon, {name: 1}, "unknown_field", f"/{name}", f'"{name}" is not a field here; ', advice, path=path)


@pytest.mark.parametrize("name, advice", [
    ("attn_weights", '"return": ["output", "weights"]'), ("attention_weights", '"return": ["output", "weights"]'),
    ("softmax", "the softmax over the keys unless normalizer"), ("query_padding_mask", "padding queries need no mask"),
    ("query_padding_mask", "padding queries need no mask"), ("past_key_value", "past_key and past_value"),
])
def test_no_field_of_another_meaning_is_suggested(daemon, name, advice):
    answer = refused(daemon, WORKED | {name: 1}, "unknown_field", f"/{name}", advice)
    assert "did you mean" not in answer["detail"]


@pytest.mark.parametrize("kind, name, advice", [
    ({"kind": "rotary", "layout": "halves"}, "rope_theta", 'here it is called "base"'),
    ({"kind": "rotary", "layout": "halves"}, "inv_freq", 'here it is called "frequencies"'),
    ({"kind": "rotary", "layout": "halves"}, "rope_scaling", 'here it is called "scaling"'),
    ({"kind": "rotary", "layout": "halves"}, "mrope_section", "is an object of the list axes"),
    ({"kind": "alibi"}, "alibi_slopes", 'here it is called "slopes"'),
])
def test_other_names_of_positions(daemon, kind, name, advice):
    refused(daemon, WORKED | {"position": kind | {name: 1}}, "unknown_field", f"/position/{name}", advice)


@pytest.mark.parametrize("fields, pointer, code, advice", [
    ({"normalizer": "linear"}, "/normalizer", "invalid_value", "linear attention carries a state"),
    ({"normalizer": {"kind": "retention"}}, "/normalizer/kind", "invalid_value", "linear attention carries a state"),
    ({"score": "linear"}, "/score", "invalid_value", "linear attention carries a state"),
    ({"score": "stick_breaking"}, "/score", "invalid_value", "the scores of the keys behind it"),
    ({"normalizer": "stick_breaking"}, "/normalizer", "invalid_value", "the scores of the keys behind it"),
    ({"normalizer": "sinkhorn"}, "/normalizer", "invalid_value", "doubly stochastic weights"),
    ({"normalizer": {"kind": "doubly_stochastic"}}, "/normalizer/kind", "invalid_value", "doubly stochastic weights"),
    ({"score": "GLA"}, "/score", "invalid_value", "linear attention carries a state"),
    ({"normalizer": "recurrent"}, "/normalizer", "invalid_value", "linear attention carries a state"),
    ({"linear_attention": True}, "/linear_attention", "unknown_field", "linear attention carries a state"),
    ({"normalizer": "stick-breaking"}, "/normalizer", "invalid_value", "the scores of the keys behind it"),
    ({"score": "StickBreaking"}, "/score", "invalid_value", "the scores of the keys behind it"),
    ({"score": "doubly-stochastic"}, "/score", "invalid_value", "doubly stochastic weights"),
    ({"doubly_stochastic": True}, "/doubly_stochastic", "unknown_field", "doubly stochastic weights"),
    ({"normalizer": "slot"}, "/normalizer", "invalid_value", "exchange query and key"),
    ({"normalizer": {"kind": "softmax", "axis": "queries"}}, "/normalizer/axis", "unknown_field", "exchange query and key"),
])
def test_attention_that_stays_out_is_named(daemon, fields, pointer, code, advice):
    refused(daemon, WORKED | fields, code, pointer, advice)


@pytest.mark.parametrize("masks, pointer", [(["causal"], "/masks/0"), ("causal", "/masks"), ({"kind": "causal"}, "/masks")])
def test_masks_that_are_no_list_of_objects(daemon, masks, pointer):
    refused(daemon, {"masks": masks, "shape": [2, 2]}, "wrong_type", pointer, 'such as "masks": [{"kind": "causal"}], found',
            path="/v1/masks")


@pytest.mark.parametrize("name", ["float64", "fp64", "double"])
def test_double_precision_is_named(daemon, name):
    refused(daemon, WORKED | {"precision": name}, "invalid_value", "/precision", '"dtype": "float64"', "whole operation float64")
    body = {name: WORKED[name] for name in ("key", "value")}
    query = {"shape": [2, 3], "dtype": "float64", "data": sum(WORKED["query"], [])}
    answer = ask(daemon, body | {"query": query, "explain": True})
    assert answer["diagnostics"]["dtype"] == "float64"
    weights = np.exp(np.array(WORKED["query"]) @ np.array(WORKED["key"]).T / np.sqrt(3))
    assert np.allclose(answer["weights"], weights / weights.sum(-1, keepdims=True), rtol=0, atol=1e-15)


@pytest.mark.parametrize("name, advice", [("result", 'here it is called "output"'), ("mask", "POST /v1/masks")])
def test_other_names_of_results(daemon, name, advice):
    refused(daemon, WORKED | {"return": [name]}, "invalid_value", "/return/0", advice)


@pytest.mark.parametrize("name, here", [("W1", "w_k"), ("W2", "w_q")])
def test_other_names_of_matrices(daemon, name, here):
    refused(daemon, WORKED | {"score": {"kind": "additive", name: [[1]]}}, "unknown_field", f"/score/{name}",
            f'here it is called "{here}"', "differently")


@pytest.mark.parametrize("name, here", [("bahdanau", "additive"), ("multiplicative", "general"), ("luong", "general")])
def test_other_names_of_scores(daemon, name, here):
    refused(daemon, WORKED | {"score": name}, "invalid_value", "/score", f'here it is called "{here}", because')


def test_other_names_of_pictures(daemon):
    refused(daemon, WORKED | {"figure": {"cmap": "Blues"}}, "unknown_field", "/figure/cmap", '"colormap"')
    refused(daemon, WORKED | {"figure": {"colour_bar": False}}, "unknown_field", "/figure/colour_bar", 'here it is called "colorbar"')
