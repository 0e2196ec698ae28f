"""Inputs that are described instead of sent: random numbers of a given spread, initial values of weights."""
import math

import numpy as np
import pytest
from api_client import ask, close, refused

from oracle import rng


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
    ({"init": "xavier_uniform", "random": "normal"}, "invalid_value", "/query", ["found 2"]),
], ids=str)
def test_refused_literals(daemon, literal, code, pointer, words):
    refused(daemon, {"query": {"shape": [2, 2]} | literal}, code, pointer, *words)
