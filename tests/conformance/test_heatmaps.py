"""POST /v1/heatmaps: weights that the caller has, against the oracle and against the same heatmap of the
attention that made them."""
import numpy as np
import pytest

from serving import ask
from oracle import rng, tensors, tour
from test_examples import difference
from test_heatmap import BASE, check_map

ROUTE = "/v1/heatmaps"


def weights(*shape):
    scores = rng.normal(11, int(np.prod(shape))).reshape(shape)
    raised = np.exp(2 * scores)
    return tensors.round_to(raised / raised.sum(-1, keepdims=True), "float32")


@pytest.mark.parametrize("shape", [(5, 9), (3, 6, 4), (2, 3, 7, 8), (1, 1)])
def test_small(table, shape):
    """Every cell, as the oracle writes the whole answer."""
    request = {"weights": weights(*shape).tolist(), "labels": {"key": [f"k{j}" for j in range(shape[-1])]}}
    assert difference(ask(table, request, path=ROUTE), tour.heatmap_answer(request), 1e-6) is None


@pytest.mark.parametrize("options", [
    {"max_cells": 200, "pool": "both"}, {"rows": [10, 60], "cols": [3, 44], "max_cells": 400},
    {"heads": [2, 0], "pool": "mean", "max_cells": 900}, {"heads": "mean", "batch": [1], "max_cells": 100}], ids=str)
def test_pooled(table, options):
    w = weights(2, 3, 70, 90)
    answer = ask(table, {"weights": tensors.write(w), "heatmap": options}, path=ROUTE)
    for map_ in answer["heads"]:
        check_map(map_, {"weights": w, "visible": np.ones(w.shape, bool)}, options)


def test_the_heatmap_of_attention(table):
    """The weights of an answer drawn by this route: what /v1/attention draws of them."""
    options = {"max_cells": 3000, "pool": "both"}
    answer = ask(table, {**BASE, "return": ["weights", "heatmap"], "heatmap": options})
    drawn = ask(table, {"weights": answer["weights"], "heatmap": options}, path=ROUTE)
    assert difference(drawn, answer["heatmap"], 2e-6) is None


@pytest.mark.parametrize("labels, warned", [
    ({"key": ["a", "<pad>"]}, 1), ({"key": ["a", "[PAD]"], "query": ["a", "[PAD]"]}, 1), ({"key": ["a", "pad"]}, 0),
    ({"key": ["<pad>", "a"], "query": ["<pad>", "b"]}, 0)])
def test_padding(table, labels, warned):
    """Row 0 gives its mass to both keys, row 1 all to the second; padding may look where it likes."""
    answer = ask(table, {"weights": [[0.5, 0.5], [0, 1]], "labels": labels}, path=ROUTE)
    assert [w["code"] for w in answer.get("warnings", [])] == ["padding_mass"] * warned


@pytest.mark.parametrize("fields, pointer", [
    ({"weights": [1, 2]}, "/weights"), ({}, "/weights"), ({"weights": [[1, None]]}, "/weights/0/1"),
    ({"weights": [[1, 2]], "labels": {"key": ["a"]}}, "/labels/key"),
    ({"weights": [[1, 2]], "titles": ["a", "b"]}, "/titles"),
    ({"weights": [[1, 2]], "heatmap": {"heads": [1]}}, "/heatmap/heads/0"),
    ({"weights": [[1, 2]], "figure": {"name": "x"}}, "/figure/name")])
def test_refused(table, fields, pointer):
    problem = ask(table, fields, 422, path=ROUTE)
    assert problem["pointer"] == pointer or (not fields and problem["pointer"] == ""), problem
