"""The oracle before it judges: against the ONNX cases, against published numbers, and its random numbers."""
import numpy as np
import pytest

import onnx_cases
from oracle import heatmap, rng, tensors
from oracle.attention import attention, served

CASES = onnx_cases.cases()


def test_count():
    assert len(CASES) == 93


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_onnx(case):
    case.check(served(case.request()))


def test_article():
    answer = attention({"query": [[1, 0, 0], [0, 1, 0]], "key": [[1, 2, 3], [4, 5, 6]],
                        "value": [[0, 1, 0], [1, 0, 1]], "is_causal": True})
    assert np.allclose(answer["output"], [[0, 1, 0], [0.84967455, 0.15032545, 0.84967455]], atol=5e-9)


def test_splitmix():
    """The first outputs of SplitMix64 from state 1234567, as published with its reference code."""
    want = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert rng.bits(1234567, np.arange(4)).tolist() == want


def test_normal_moments():
    x = rng.normal(3, 200000)
    assert abs(x.mean()) < 0.01 and abs(x.std() - 1) < 0.01 and abs((x**4).mean() - 3) < 0.1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tensors_round_trip(dtype):
    x = tensors.round_to(rng.normal(5, 24).reshape(2, 3, 4), dtype)
    assert (tensors.read(tensors.write(x, dtype)) == x).all()


def test_heatmap_by_hand():
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])
    visible = np.tril(np.ones((3, 3), bool))
    made = heatmap.one(weights, visible, (0, 3), (0, 3), (2, 2))
    assert made["shape"] == [2, 2]
    assert np.allclose(made["max"], [[1, 0], [0.3, 0.5]])
    assert np.allclose(made["mean"], [[2 / 3, 0], [0.25, 0.5]])
    assert made["hidden"] == [[0, 1, 2]]
    assert np.allclose(made["received"], [2.5, 0.5])
    entropy = -(0.2 * np.log(0.2) + 0.3 * np.log(0.3) + 0.5 * np.log(0.5))
    assert np.allclose(made["row_entropy"], [np.log(2) / 2, entropy])
