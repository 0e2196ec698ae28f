"""Gradients over HTTP, on every kernel table: along random directions they are the central differences of
the oracle's loss, sum(output * grad_output) + sum(logsumexp * grad_logsumexp) in float64."""
import copy

import numpy as np
import pytest

from serving import ask
from oracle import tensors
from oracle.attention import served
from oracle.forms import SCORE_KINDS

STEP = 1e-5
BOUND = 2e-5  # of the sum of magnitudes that make up the derivative: float32 gradients


def draw(r, *shape, size=1.0):
    return (size * r.standard_normal(shape)).astype(np.float32).astype(np.float64).tolist()


def base(r, E=6, Ek=None, Hkv=2, L=5, S=7):
    return {"query": draw(r, 2, 4, L, E), "key": draw(r, 2, Hkv, S, Ek or E), "value": draw(r, 2, Hkv, S, 3)}


def projected(r, **more):
    body = {"query": draw(r, 2, 5, 8), "key": draw(r, 2, 6, 8), "value": draw(r, 2, 6, 8)}
    maps = {"num_heads": 4, "num_kv_heads": 2, "w_q": draw(r, 8, 8), "b_q": draw(r, 8), "w_k": draw(r, 4, 8),
            "w_v": draw(r, 6, 8), "b_v": draw(r, 6), "w_o": draw(r, 5, 12), "b_o": draw(r, 5)}
    return {**body, "projections": {**maps, **more}}


CASES = {
    "plain": lambda r: base(r),
    "one key/value head, causal": lambda r: {**base(r, Hkv=1), "is_causal": True, "query_offset": "end"},
    "keys shared by the batch": lambda r: {**base(r), "key": draw(r, 1, 2, 7, 6), "value": draw(r, 1, 2, 7, 3)},
    "self-attention": lambda r: {"query": draw(r, 9, 4)},
    "bias": lambda r: {**base(r), "attn_bias": draw(r, 4, 5, 7)},
    "bias of keys": lambda r: {**base(r), "attn_bias": draw(r, 2, 1, 1, 7), "window": [2, 1]},
    "mask": lambda r: {**base(r), "attn_mask": draw(r, 5, 7)},
    "mask of keys, bias": lambda r: {**base(r), "attn_mask": draw(r, 2, 1, 1, 7), "attn_bias": draw(r, 4, 5, 1),
                                     "mask_semantics": "finite_min", "is_causal": True, "query_offset": 2},
    "mask and replaced scores": lambda r: {**base(r), "attn_mask": draw(r, 1, 4, 1, 7), "softcap": 2,
                                           "is_causal": True, "mask_fill": {"value": -2, "mode": "replace"}},
    "softcap, scale, sinks": lambda r: {**base(r), "softcap": 1.5, "scale": 0.8, "sinks": draw(r, 4)},
    "sigmoid": lambda r: {**base(r), "normalizer": {"kind": "sigmoid", "bias": draw(r, 4)}},
    "sigmoid, a bias of all heads, softcap": lambda r: {
        **base(r), "normalizer": {"kind": "sigmoid", "bias": draw(r, 1)}, "softcap": 2, "is_causal": True},
    "relu": lambda r: {**base(r), "normalizer": {"kind": "relu"}, "attn_bias": draw(r, 4, 5, 7), "is_causal": True},
    "relu_squared, dropout": lambda r: {**base(r), "normalizer": {"kind": "relu_squared", "divisor": 3},
                                        "dropout_p": 0.4, "seed": 5},
    "sparsemax": lambda r: {**base(r), "normalizer": {"kind": "sparsemax"}, "attn_bias": draw(r, 4, 5, 7)},
    "entmax, sinks, softcap": lambda r: {**base(r), "normalizer": {"kind": "entmax"}, "sinks": draw(r, 4),
                                         "softcap": 2, "is_causal": True, "query_offset": 1},
    "entmax, shaw, dropout": lambda r: {**base(r), "normalizer": {"kind": "entmax", "alpha": 1.2}, "dropout_p": 0.3,
                                        "seed": 3, "position": {"kind": "shaw", "key_table": draw(r, 7, 6),
                                                                "value_table": draw(r, 7, 3)}},
    "sinks and scales of queries": lambda r: {**base(r), "softcap": 1.5, "sinks": draw(r, 4, 5), "scale": draw(r, 1, 5)},
    "sinks and scales of rows": lambda r: {**base(r), "sinks": draw(r, 2, 1, 5), "scale": draw(r, 2, 4, 5), "dropout_p": 0.2,
                                           "seed": 3, "attn_mask": draw(r, 5, 7)},
    "scales of heads, additive": lambda r: {**base(r), "scale": [0.0, -0.5, 1.0, 2.0], "is_causal": True, "score": {
        "kind": "additive", "w_q": draw(r, 9, 6), "w_k": draw(r, 9, 6), "v": draw(r, 9)}},
    "scales of one sequence": lambda r: {"query": draw(r, 9, 4), "scale": draw(r, 9), "sinks": draw(r, 1, 9)},
    "scales, shaw": lambda r: {**base(r), "scale": draw(r, 4, 1), "position": {
        "kind": "shaw", "key_table": draw(r, 7, 6)}},
    "scales, projections": lambda r: projected(r) | {"scale": draw(r, 4, 5), "sinks": draw(r, 2, 1, 1)},
    "mix, rotary": lambda r: {**base(r), "mix": {"logits": draw(r, 4, 4)}, "is_causal": True, "query_offset": 2,
                              "position": {"kind": "rotary", "layout": "halves", "frequencies": [0.75, 0.125, 0.5]}},
    "mix, softcap, alibi, bias by head": lambda r: {
        **base(r, Hkv=4), "mix": {"logits": draw(r, 4, 4)}, "softcap": 2, "attn_bias": draw(r, 4, 5, 7),
        "position": {"kind": "alibi", "slopes": draw(r, 4)}, "scale": draw(r, 4, 5), "sinks": draw(r, 4)},
    "mix, sparsemax": lambda r: {**base(r, Hkv=1), "mix": {"logits": draw(r, 4, 4)}, "normalizer": {"kind": "sparsemax"}},
    "mix, BLD, cache": lambda r: {"query": draw(r, 2, 5, 8), "key": draw(r, 2, 4, 8), "value": draw(r, 2, 4, 8),
                                  "layout": "BLD", "num_heads": 2, "past_key": draw(r, 2, 2, 3, 4),
                                  "past_value": draw(r, 2, 2, 3, 4), "mix": {"logits": draw(r, 2, 2)}},
    "mix, keys shared by the batch": lambda r: {**base(r), "key": draw(r, 1, 2, 7, 6), "value": draw(r, 1, 2, 7, 3),
                                                "mix": {"logits": draw(r, 4, 4)}},
    "mix, projections": lambda r: projected(r) | {"mix": {"logits": draw(r, 4, 4)}},
    "mixed weights": lambda r: {**base(r), "mix": {"weights": draw(r, 6, 4)}, "is_causal": True, "query_offset": 2},
    "mixed weights and logits, one value head": lambda r: {
        **base(r), "value": draw(r, 2, 1, 7, 5), "mix": {"logits": draw(r, 4, 4), "weights": draw(r, 3, 4)},
        "softcap": 2, "attn_bias": draw(r, 4, 5, 7), "sinks": draw(r, 4), "dropout_p": 0.3, "seed": 3},
    "mixed weights, sparsemax, more output heads": lambda r: {
        **base(r), "value": draw(r, 2, 4, 7, 3), "mix": {"weights": draw(r, 8, 4)}, "normalizer": {"kind": "sparsemax"}},
    "mixed weights, BLD, cache, learned": lambda r: {
        "query": draw(r, 2, 5, 8), "key": draw(r, 2, 4, 8), "value": draw(r, 2, 4, 8), "layout": "BLD", "num_heads": 2,
        "past_key": draw(r, 2, 2, 3, 4), "past_value": draw(r, 2, 2, 3, 4), "mix": {"weights": draw(r, 2, 2)},
        "position": {"kind": "learned", "table": draw(r, 9, 8)}},
    "mixed weights, projections": lambda r: projected(r) | {"mix": {"weights": draw(r, 4, 4)}},
    "mixed weights, values of one entry": lambda r: {
        **base(r), "key": draw(r, 1, 2, 7, 6), "value": draw(r, 1, 2, 7, 3), "mix": {"weights": draw(r, 2, 4)}},
    "subtract, adjacent": lambda r: {**base(r), "value": draw(r, 2, 2, 7, 12), "is_causal": True, "query_offset": 1,
                                     "subtract": {"lambda": draw(r, 2), "pairs": "adjacent"}},
    "subtract, halves, one lambda, rotary": lambda r: {
        **base(r), "value": draw(r, 2, 1, 7, 12), "subtract": {"lambda": draw(r, 1), "pairs": "halves"},
        "position": {"kind": "rotary", "layout": "halves", "frequencies": [0.75, 0.125, 0.5]}, "scale": draw(r, 4, 5)},
    "subtract, BLHE, each key head, tiles": lambda r: {
        "query": draw(r, 150, 4, 6), "key": draw(r, 150, 4, 6), "value": draw(r, 150, 2, 12), "layout": "BLHE",
        "is_causal": True, "subtract": {"lambda": [0.5, 0.75], "pairs": "halves"}},
    "subtract, BLD": lambda r: {"query": draw(r, 2, 5, 16), "key": draw(r, 2, 7, 8), "value": draw(r, 2, 7, 8), "layout": "BLD",
                                "num_heads": 4, "num_kv_heads": 2, "subtract": {"lambda": [0.5], "pairs": "adjacent"}},
    "dropout": lambda r: {**base(r), "dropout_p": 0.4, "seed": 5},
    "pages": lambda r: {"query": draw(r, 2, 4, 5, 6), "key": draw(r, 4, 3, 2, 6), "value": draw(r, 4, 3, 2, 3),
                        "block_table": [[2, 0, 2], [1, 3, -1]], "key_lengths": [7, 4], "sinks": draw(r, 4)},
    "pages, HND, BLHE": lambda r: {"query": draw(r, 2, 5, 4, 6), "key": draw(r, 4, 2, 3, 6), "value": draw(r, 4, 2, 3, 3), "layout": "BLHE",
                                   "block_layout": "HND", "block_table": [[2, 0, 2], [1, 2, -1]], "key_lengths": [8, 5],
                                   "is_causal": True, "query_offset": "end", "position": {"kind": "rotary", "layout": "halves"}},
    "cache": lambda r: {**base(r), "past_key": draw(r, 2, 2, 3, 6), "past_value": draw(r, 2, 2, 3, 3)},
    "replaced scores": lambda r: {**base(r), "is_causal": True, "mask_fill": {"value": -2, "mode": "replace"}},
    "BLD": lambda r: {"query": draw(r, 2, 5, 12), "key": draw(r, 2, 7, 6), "value": draw(r, 2, 7, 4),
                      "layout": "BLD", "num_heads": 4, "num_kv_heads": 2},
    "additive": lambda r: {**base(r, Ek=5), "score": {"kind": "additive", "w_q": draw(r, 9, 6),
                                                      "w_k": draw(r, 9, 5), "v": draw(r, 9), "b": draw(r, 9)}},
    "general": lambda r: {**base(r, Ek=5), "score": {"kind": "general", "w": draw(r, 5, 6, size=0.4)}},
    "concat": lambda r: {**base(r, Ek=5), "score": {"kind": "concat", "w": draw(r, 9, 11), "v": draw(r, 9)}},
    "alibi": lambda r: {**base(r), "position": {"kind": "alibi", "slopes": draw(r, 4)}},
    "t5": lambda r: {**base(r), "position": {"kind": "t5", "table": draw(r, 8, 4), "max_distance": 9}},
    "relative": lambda r: {**base(r), "position": {"kind": "relative", "table": draw(r, 4, 5)}},
    "shaw": lambda r: {**base(r), "position": {"kind": "shaw", "key_table": draw(r, 7, 6),
                                               "value_table": draw(r, 7, 3)}},
    "shaw of each head": lambda r: {**base(r), "position": {"kind": "shaw", "key_table": draw(r, 4, 7, 6),
                                                            "value_table": draw(r, 4, 7, 3)}},
    "disentangled": lambda r: {**base(r), "position": {"kind": "disentangled", "key_table": draw(r, 6, 6),
                                                       "query_table": draw(r, 6, 6)}},
    "disentangled of each head, buckets": lambda r: {
        **base(r, S=17), "query_positions": [3, 1, None, 12, 9], "softcap": 2, "is_causal": True, "query_offset": 6,
        "position": {"kind": "disentangled", "key_table": draw(r, 4, 8, 6), "query_table": draw(r, 4, 8, 6), "max_distance": 9}},
    "disentangled, cache": lambda r: {
        **base(r), "past_key": draw(r, 2, 2, 3, 6), "past_value": draw(r, 2, 2, 3, 3),
        "position": {"kind": "disentangled", "query_table": draw(r, 4, 6)}},
    "disentangled, keys of one entry": lambda r: {
        **base(r), "key": draw(r, 1, 2, 7, 6), "value": draw(r, 1, 2, 7, 3),
        "position": {"kind": "disentangled", "query_table": draw(r, 4, 4, 6)}},
    "disentangled, projections, sparsemax": lambda r: {
        **projected(r), "normalizer": {"kind": "sparsemax"}, "position": {"kind": "disentangled", "query_table": draw(r, 4, 4, 2)}},
    "rotary": lambda r: {**base(r), "position": {"kind": "rotary", "layout": "halves"}, "query_offset": 2},
    "rotary frequencies": lambda r: {**base(r), "query_offset": 2, "position": {
        "kind": "rotary", "layout": "interleaved", "start": 1, "factor": 1.3,
        "frequencies": [0.75, 0.125]}},
    "rotary frequencies, raw cache": lambda r: {
        **base(r), "past_key": draw(r, 2, 2, 3, 6), "past_value": draw(r, 2, 2, 3, 3), "query_positions": [3, 1, None, 5, 9],
        "position": {"kind": "rotary", "layout": "halves", "past": "raw",
                     "frequencies": [0.75, 0.125, 0]}},
    "rotary scaling": lambda r: {**base(r), "position": {
        "kind": "rotary", "layout": "halves", "scaling": {"kind": "yarn", "factor": 4, "original_max_position_embeddings": 16}}},
    "rotary axes": lambda r: {**base(r), "position": {
        "kind": "rotary", "layout": "halves", "frequencies": [0.75, 0.125, 0.5], "axes": [
            {"num_pairs": 2, "interleaved": True, "query_positions": [0, 1, 2, 0.5, None], "key_positions": [[3, 1, 0, 2, 5, 1, 1], [1] * 7]},
            {"num_pairs": 1, "interleaved": True, "query_positions": [0, 1, 2, 3, 4], "key_positions": [1, None, 2, 0, 1, 2, 7]}]}},
    "rotary axes of bases": lambda r: {"query": draw(r, 2, 7, 6), "position": {
        "kind": "rotary", "layout": "interleaved", "axes": [{"num_pairs": 1, "positions": [0, 0, 1, 1, 2, 2, 3]},
                                                            {"num_pairs": 2, "positions": [0, 1, 0, 1, 0, 1, 0], "base": 100}]}},
    "rotary and alibi": lambda r: {**base(r), "query_offset": 2, "position": [
        {"kind": "rotary", "layout": "halves", "dims": 4, "frequencies": [0.75, 0.125]}, {"kind": "alibi", "slopes": draw(r, 4)}]},
    "shaw and rotary": lambda r: {**base(r), "position": [
        {"kind": "shaw", "key_table": draw(r, 7, 6), "value_table": draw(r, 7, 3)}, {"kind": "rotary", "layout": "halves"}]},
    "t5 and learned": lambda r: {**base(r), "value": draw(r, 2, 2, 7, 6), "position": [
        {"kind": "t5", "table": draw(r, 8, 4), "max_distance": 9}, {"kind": "learned", "table": draw(r, 9, 6)}]},
    "relative and learned, projections": lambda r: {**projected(r), "query_offset": 3, "position": [
        {"kind": "learned", "table": draw(r, 8, 8)}, {"kind": "relative", "table": draw(r, 4, 5)}]},
    "learned": lambda r: {**base(r, Hkv=4), "value": draw(r, 2, 4, 7, 6), "query_offset": 3,
                          "position": {"kind": "learned", "table": draw(r, 9, 6)}},
    "learned, keys of one entry": lambda r: {
        **base(r), "key": draw(r, 1, 2, 7, 6), "value": draw(r, 1, 2, 7, 6), "is_causal": True,
        "position": {"kind": "learned", "table": draw(r, 8, 6)}},
    "learned, self-attention": lambda r: {"query": draw(r, 3, 5, 4), "query_offset": [0, 2, 1],
                                          "position": {"kind": "learned", "table": draw(r, 7, 4)}},
    "learned, BLD, cache": lambda r: {"query": draw(r, 2, 5, 8), "key": draw(r, 2, 4, 8), "value": draw(r, 2, 4, 8),
                                      "layout": "BLD", "num_heads": 2, "past_key": draw(r, 2, 2, 3, 4),
                                      "past_value": draw(r, 2, 2, 3, 4),
                                      "position": {"kind": "learned", "table": draw(r, 9, 8)}},
    "learned, BLHE, additive": lambda r: {
        "query": draw(r, 2, 5, 3, 4), "key": draw(r, 2, 6, 3, 4), "value": draw(r, 2, 6, 3, 4), "layout": "BLHE",
        "score": {"kind": "additive", "w_q": draw(r, 5, 4), "w_k": draw(r, 5, 4), "v": draw(r, 5)},
        "position": {"kind": "learned", "table": draw(r, 6, 4)}},
    "sinusoidal": lambda r: {**base(r), "value": draw(r, 2, 2, 7, 4), "position": {"kind": "sinusoidal"}},
    "projections": lambda r: projected(r),
    "projections with positions": lambda r: projected(r, add_positions=True),
    "projections of learned positions": lambda r: {
        **projected(r), "position": {"kind": "learned", "table": draw(r, 8, 8)}, "query_offset": 3},
    "projections of one learned sequence": lambda r: {
        "query": draw(r, 2, 5, 8), "position": {"kind": "learned", "table": draw(r, 8, 8)}, "query_offset": 2,
        "projections": {"num_heads": 2, "w_q": draw(r, 8, 8), "w_o": draw(r, 8, 8)}},
    "projections of one sequence": lambda r: {k: v for k, v in projected(r).items() if k not in ("key", "value")},
}


def by_group(body):
    """The body with two kinds of position as two members, as gradients have them."""
    if not isinstance(body.get("position"), list):
        return body
    first, second = body["position"]
    if first["kind"] in SCORE_KINDS:
        first, second = second, first
    return {**body, "position": first, "score_position": second}


def loss(body, grads):
    if "score_position" in body:
        body = {**body, "position": [body["position"], body["score_position"]]}
    found = served({**body, "return": [*grads]})
    return sum(float((np.where(np.isneginf(found[k]), 0, found[k]) * grad).sum()) for k, grad in grads.items())


def place(body, path):
    for name in path[:-1]:
        body = body[name]
    return body


def gradients_of(answer, path=()):
    for name, value in answer.items():
        if isinstance(value, dict):
            yield from gradients_of(value, (*path, name))
        else:
            yield (*path, name), np.array(value, np.float64)


LOSSES = (("output",), ("output", "logsumexp"), ("logsumexp",))
# only softmax has a logsumexp
TRIALS = [(n, of) for n in CASES for of in LOSSES if "normalizer" not in CASES[n](np.random.default_rng(0)) or of == ("output",)]


@pytest.mark.parametrize("name, of", TRIALS, ids=[f"{n}-{'+'.join(of)}" for n, of in TRIALS])
def test_differences(table, name, of):
    r = np.random.default_rng(len(name))
    body = CASES[name](r)
    grads = {k: np.asarray(draw(r, *x.shape)) for k, x in served({**body, "return": [*of]}).items()}
    answer = ask(table, {**body, **{f"grad_{k}": x.tolist() for k, x in grads.items()}, "return": ["gradients"]})
    assert set(answer) <= {"gradients", "warnings"}
    body = by_group(body)
    found = dict(gradients_of(answer["gradients"]))
    floats = {("query",), ("key",), ("value",), ("past_key",), ("past_value",), ("sinks",), ("scale",), ("attn_bias",),
              ("attn_mask",)}
    wanted = {p for p in floats if not isinstance(body.get(p[0], 0), (int, float))}
    for name in ("score", "position", "score_position", "normalizer", "mix", "subtract", "projections"):
        wanted |= {(name, k) for k, v in body.get(name, {}).items() if isinstance(v, list) and k != "axes"}
    assert set(found) == wanted
    for path, gradient in found.items():
        value = np.array(place(body, path)[path[-1]], np.float64)
        assert gradient.shape == value.shape, path
        direction = r.standard_normal(value.shape)
        ends = []
        for sign in (1, -1):
            moved = copy.deepcopy(body)
            spelled = tensors.write(value + sign * STEP * direction, "float64")
            place(moved, path)[path[-1]] = spelled
            ends.append(loss(moved, grads))
        difference = (ends[0] - ends[1]) / (2 * STEP)
        scale = 1 + np.abs(gradient * direction).sum()
        assert abs((gradient * direction).sum() - difference) <= BOUND * scale, path


def test_hidden_cells_of_a_mask_have_no_gradient(table):
    """A number that hides its key moves nothing. Boolean masks and masks of 0 and 1 have no gradient."""
    body = {"query": [[1, 0], [0, 1]], "grad_output": [[1, 0], [0, 1]], "return": ["gradients"], "decimals": 4}

    def of_mask(**mask):
        return ask(table, {**body, **mask})["gradients"].get("attn_mask")

    assert of_mask(attn_mask=[[0.5, 0], [0, 0.25]]) == [[0.1772, -0.1772], [-0.2005, 0.2005]]
    assert of_mask(attn_mask=[[0.5, None], [0, 0.25]]) == [[0, 0], [-0.2005, 0.2005]]
    assert of_mask(attn_mask=[[0.5, -1e9], [0, 0.25]], mask_semantics="finite_min") == [[0, 0], [-0.2005, 0.2005]]
    assert of_mask(attn_mask=[[True, False], [True, True]]) is None
    assert of_mask(attn_mask=[[1, 0], [1, 1]], mask_semantics="keep") is None
    assert of_mask(attn_mask=[[2, 0], [1, 1]], mask_semantics="nonzero") is None


@pytest.mark.parametrize("sent, read, request_of", [
    ((2, 5, 5), (2, 1, 5, 5), lambda r: {"query": draw(r, 2, 5, 8), "projections": {"num_heads": 1, "w_q": draw(r, 8, 8)}}),
    ((2, 1, 1, 5), (2, 1, 5), lambda r: {"query": draw(r, 2, 5, 8)}),
    ((1, 5, 5), (5, 5), lambda r: {"query": draw(r, 5, 8)}),
    ((2, 3), (2, 1, 3), lambda r: {"query": draw(r, 2, 4), "key": draw(r, 2, 3, 4), "value": draw(r, 2, 3, 4), "score": "dot"}),
], ids=["without the axis of one head", "with an axis of heads", "with an axis more", "without the axis of one query"])
def test_the_gradient_of_a_mask_has_the_shape_that_was_sent(table, sent, read, request_of):
    r = np.random.default_rng(6)
    body = request_of(r) | {"attn_mask": draw(r, *sent), "return": ["gradients"]}
    body["grad_output"] = draw(r, *np.shape(body["query"]))
    long = body | {"attn_mask": np.reshape(body["attn_mask"], read).tolist()}
    if len(sent) == 2:
        long |= {k: np.array(body[k])[:, None].tolist() for k in ("query", "grad_output")}
    found, want = (ask(table, b)["gradients"]["attn_mask"] for b in (body, long))
    assert np.shape(found) == sent and np.abs(found).max() > 0.01
    assert np.array_equal(found, np.reshape(want, sent))
    assert tuple(ask(table, body | {"dry_run": True})["dry_run"]["shapes"]["gradients/attn_mask"]) == sent


def test_what_is_beside_gradients_does_not_change(table):
    r = np.random.default_rng(1)
    body = projected(r)
    alone = ask(table, body)
    both = ask(table, {**body, "grad_output": draw(r, 2, 5, 5)})
    assert both.pop("gradients") and both == alone


@pytest.mark.parametrize("body, pointer, word", [
    ({"return": ["gradients"]}, "/return", "grad_output"),
    ({"scale": [1, 2, 3]}, "/scale", "[1, 2]"),
    ({"scale": [[1, None]]}, "/scale/0/1", "number"),
    ({"scale": [[1], [2]]}, "/scale", "logsumexp's, [2]"),
    ({"sinks": [[[1, 2, 3]]]}, "/sinks", "[1, 2]"),
    ({"sinks": [[1, None]]}, "/sinks/0/1", "number"),
    ({"grad_logsumexp": [1]}, "/grad_logsumexp", "logsumexp's shape [2]"),
    ({"grad_logsumexp": [[1, 2]]}, "/grad_logsumexp", "logsumexp's shape [2]"),
    ({"grad_logsumexp": [1, 2], "precision": "bf16"}, "/precision", "fp32"),
    ({"grad_output": [[1, 2], [3, 4]]}, "/grad_output", "[2, 3]"),
    ({"grad_output": [[1, 2, 3]]}, "/grad_output", "[2, 3]"),
    ({"grad_output": [[1, 2, 1e39], [1, 2, 3]]}, "/grad_output/0/2", "float32"),
    ({"grad_output": [[1, 2, 3e38], [1, 2, 3e38]], "query": [[3e18], [1]], "key": [[1], [2]]}, "/grad_output",
     "overflow"),
])
def test_refusals(table, body, pointer, word):
    request = {"query": [[1], [2]], "key": [[1], [1]], "value": [[1, 2, 3], [4, 5, 6]], **body}
    problem = ask(table, request, status=422)
    assert problem["pointer"] == pointer and word in problem["detail"], problem
