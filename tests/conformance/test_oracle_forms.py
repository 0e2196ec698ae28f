"""The oracle of the further forms before it judges: numbers worked out by hand, and identities."""
import math

import numpy as np
import pytest

from oracle import forms, positions, relations, tensors
from oracle.attention import attention
from oracle.masks import pattern_keep

STATES = [[1, 0], [0, 1], [-1, 1]]


def scores(**fields):
    return attention({"query": [[1, 0, 2]], "key": STATES, "value": STATES, **fields})["raw"][0]


def test_additive():
    """W_q q = (-1, 0.5), W_k k = (1, 0), (-1, 2), (-2, 2)."""
    got = scores(score={"kind": "additive", "w_q": [[1, 0, -1], [0.5, 1, 0]], "w_k": [[1, -1], [0, 2]],
                        "v": [1, -0.5]})
    tanh = math.tanh
    assert np.allclose(got, [-0.5 * tanh(0.5), tanh(-2) - 0.5 * tanh(2.5), tanh(-3) - 0.5 * tanh(2.5)])


def test_general():
    """W [2, 3] turns q = (1, 0, 2) into (7, 16) = (1 + 6, 4 + 12)."""
    assert scores(score={"kind": "general", "w": [[1, 2, 3], [4, 5, 6]]}).tolist() == [7, 16, 9]


def test_concat_is_additive_with_the_matrix_split():
    w = np.arange(10.0).reshape(2, 5) / 10
    concat = scores(score={"kind": "concat", "w": w.tolist(), "v": [1, 2]})
    additive = scores(score={"kind": "additive", "w_q": w[:, 2:].tolist(), "w_k": w[:, :2].tolist(), "v": [1, 2]})
    assert np.allclose(concat, additive)
    assert math.isclose(concat[0], math.tanh(0.2 + 0.8 + 0) + 2 * math.tanh(0.7 + 1.8 + 0.5), rel_tol=1e-6)


@pytest.mark.parametrize("kind, scale", [("scaled_dot", 1 / math.sqrt(2)), ("dot", 1)])
def test_default_scale(kind, scale):
    answer = attention({"query": STATES, "score": kind})
    assert np.allclose(answer["scaled"], scale * answer["raw"])


def test_alibi_slopes():
    assert positions.alibi_slopes(8).tolist() == [2.0**-h for h in range(1, 9)]
    assert positions.alibi_slopes(1).tolist() == [2.0**-8]
    want = [2.0**-h for h in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    assert np.allclose(positions.alibi_slopes(12), want)


@pytest.mark.parametrize("distance, both, past", [
    (0, 0, 0), (-1, 1, 1), (1, 17, 0), (-7, 7, 7), (-8, 8, 8), (-15, 9, 15), (-16, 10, 16), (16, 26, 0),
    (-32, 12, 21), (-64, 14, 26), (-127, 15, 31), (-128, 15, 31), (128, 31, 0), (10**6, 31, 0)])
def test_t5_buckets(distance, both, past):
    """32 buckets up to 128: with both sides each has 8 exact ones and 8 that double every 2."""
    assert positions.t5_bucket(distance, 32, 128, True) == both
    assert positions.t5_bucket(distance, 32, 128, False) == past


def test_relative_biases():
    distance = np.arange(4) - np.arange(4)[:, None]
    got = positions.bias({"kind": "relative", "table": [[10, 20, 30]]}, 1, distance[None])
    assert got[0].tolist() == [[20, 30, 30, 30], [10, 20, 30, 30], [10, 10, 20, 30], [10, 10, 10, 20]]
    got = positions.bias({"kind": "alibi", "slopes": [0.5]}, 1, distance[None])
    assert got[0, 0].tolist() == [0, -0.5, -1, -1.5] and got[0, 3].tolist() == [-1.5, -1, -0.5, 0]


@pytest.mark.parametrize("layout, want", [
    ("interleaved", [math.cos(1) - 2 * math.sin(1), math.sin(1) + 2 * math.cos(1),
                     3 * math.cos(0.01) - 4 * math.sin(0.01), 3 * math.sin(0.01) + 4 * math.cos(0.01)]),
    ("halves", [math.cos(1) - 3 * math.sin(1), 2 * math.cos(0.01) - 4 * math.sin(0.01),
                math.sin(1) + 3 * math.cos(1), 2 * math.sin(0.01) + 4 * math.cos(0.01)])])
def test_rotary(layout, want):
    turned = positions.rotate(np.array([[1.0, 2, 3, 4]]), np.array([1]), {"layout": layout})
    assert np.allclose(turned, [want])


def test_rotary_scores_depend_on_distance():
    x = np.random.default_rng(1).standard_normal((9, 6))
    position = {"layout": "halves", "base": 100}
    near, far = (positions.rotate(x, first + np.arange(9), position) for first in (0, 1000))
    assert np.allclose(near @ near.T, far @ far.T)


def test_rotary_turns_leading_coordinates():
    x = np.arange(12.0).reshape(2, 6)
    turned = positions.rotate(x, np.array([3, 4]), {"layout": "interleaved", "dims": 2})
    assert (turned[:, 2:] == x[:, 2:]).all() and (turned[:, :2] != x[:, :2]).all()


def test_shaw():
    """One query at place 1 of two keys: distances -1 and 0."""
    answer = attention({"query": [[2, 3]], "key": [[1, 0], [0, 1]], "value": [[1, 0], [0, 1]],
                        "query_offset": 1, "scale": False,
                        "position": {"kind": "shaw", "key_table": [[1, 1], [0, 0], [9, 9]],
                                     "value_table": [[0, 4], [2, 0], [9, 9]]}})
    assert answer["raw"].tolist() == [[2 + 5, 3]]
    w = 1 / (1 + math.exp(-4))
    assert np.allclose(answer["output"], [[w + 2 * (1 - w), 4 * w + (1 - w)]])


def test_sink():
    answer = attention({"query": [[0.0], [0.0]], "key": [[1], [1], [1]], "value": [[3], [3], [3]], "sinks": [0],
                        "attn_mask": [[True, True, True], [False, False, False]]})
    assert np.allclose(answer["weights"], [[0.25] * 3, [0] * 3])
    assert np.allclose(answer["output"], [[2.25], [0]])
    assert np.allclose(answer["logsumexp"], [math.log(4), 0])
    assert answer["hidden_rows"] == 1


def test_dropout():
    weights = np.full((2, 3, 50, 40), 1 / 40)
    dropped = forms.dropped(weights, 0.25, 7)
    assert set(np.round(np.unique(dropped) * 40, 12)) == {0, round(4 / 3, 12)}
    assert abs((dropped == 0).mean() - 0.25) < 0.01
    row = forms.dropped(weights[:1, :1, :1], 0.25, 7)
    assert (row == dropped[:1, :1, :1]).all(), "a cell's fate is its place in the whole"


def test_projections_by_hand():
    answer = attention({"query": [[1, 0], [0, 1]], "projections": {
        "num_heads": 2, "w_q": [[0, 1], [1, 0]], "b_q": [1, 0], "w_v": [[1, 0], [0, 2]], "b_v": [0, 1],
        "w_o": [[1, 1], [0, 1], [1, 0]], "b_o": [0, 0, 5]}})
    # Head 0: q = (1, 2), k = (1, 0), v = (1, 0); head 1: q = (1, 0), k = (0, 1), v = (1, 3).
    assert np.allclose(answer["raw"], [[[1, 0], [2, 0]], [[0, 1], [0, 0]]])
    h0 = [1 / (1 + math.exp(-1)), 1 / (1 + math.exp(-2))]
    h1 = [1 + 2 / (1 + math.exp(-1)), 2]
    assert np.allclose(answer["output"], [[a + b, b, a + 5] for a, b in zip(h0, h1)])


@pytest.mark.parametrize("pattern, row", [
    ({"kind": "local", "radius": 1}, [0, 1, 1, 1, 0, 0, 0]),
    ({"kind": "strided", "stride": 3, "local": 0}, [0, 0, 1, 0, 0, 1, 0]),
    ({"kind": "strided", "stride": 2, "local": 1}, [1, 1, 1, 1, 1, 0, 1]),
    ({"kind": "block", "size": 2}, [0, 0, 1, 1, 0, 0, 0]),
    ({"kind": "global", "num_keys": 1, "local": 0}, [1, 0, 1, 0, 0, 0, 0]),
    ({"kind": "global", "num_keys": 3, "local": 0}, [1] * 7)])
def test_patterns(pattern, row):
    """The row at place 2 of seven keys."""
    assert pattern_keep(pattern, 2, np.arange(7)).astype(int).tolist() == row


def test_sinusoidal():
    table = positions.sinusoidal(3, 4)
    assert np.allclose(table[2], [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)])
    assert np.allclose(positions.sinusoidal(3, 4, "halves")[2], table[2][[0, 2, 1, 3]])
    long = positions.sinusoidal(50, 16)
    assert np.allclose(long[9:], long[:-9] @ positions.shift(long[9]).T)


def test_learned():
    table = positions.learned(300, 64, 3)
    assert abs(table.std() - 0.02) < 0.0005 and (table == positions.learned(300, 64, 3)).all()


def test_parameters():
    spec = {"shape": [512, 512], "random": "normal", "seed": 1}
    assert forms.count_parameters({"score": "dot"}) == 0
    assert forms.count_parameters({"score": {"kind": "general", "w": spec}}) == 262144
    concat = {"kind": "concat", "w": {"shape": [512, 1024], "fill": "ones"}, "v": {"shape": [512], "fill": "ones"}}
    assert forms.count_parameters({"score": concat}) == 524800
    assert forms.count_parameters({"projections": {"num_heads": 2, "w_q": spec, "b_q": [0.0] * 512}}) == 262656


def relation(kind, got, earlier=None, **more):
    return relations.fault({"kind": kind, **more}, {"x": got}, {"x": earlier}, 1e-7)


def test_relations_hold_and_fail():
    a, b = [[1, 2], [3, 4]], [[3, 4], [1, 2]]
    assert relation("equal", a, a, at=["/x"]) is None and relation("equal", a, b, at=["/x"])
    assert relation("different", a, b, at=["/x"]) is None and relation("different", a, a, at=["/x"])
    swap = {"at": {"/x": [0]}, "order": [1, 0]}
    assert relation("permuted", b, a, **swap) is None and relation("permuted", a, a, **swap)
    assert relation("not_permuted", a, a, **swap) is None and relation("not_permuted", b, a, **swap)
    table = positions.sinusoidal(9, 4).tolist()
    assert relation("shifted", table, at="/x", by=3) is None
    assert relation("shifted", [row[::-1] for row in table], at="/x", by=3)
    assert relation("product", 6, at="/x", times=7, **{"is": 42}) is None
    assert relation("product", 6, at="/x", times=7, **{"is": 41})
    assert relation("deviation", [0, 2], at="/x", within=0.1, **{"is": 1}) is None
    assert relation("deviation", [0, 3], at="/x", within=0.1, **{"is": 1})


def test_shapes_of_tensors():
    for spec in ([[1, 2, 3]], {"shape": [4, 5], "fill": "ones"}, tensors.write(np.zeros((2, 0)))):
        assert tensors.shape_of(spec) == tensors.read(spec).shape
