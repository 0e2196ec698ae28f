"""GET /v1/runs/{id}/rollout: rows of the attention rollout, against NumPy and against the whole one of /v1/analyses."""
import io

import numpy as np
import pytest
from api_client import ask
from conftest import Daemon
from kept_captures import file_of, save, weights
from oracle.measures import rollout
from safetensors.numpy import load
from test_api_index import document, schema  # noqa: F401, a fixture

AXES = ["layer", "batch", "head"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    service = Daemon("--runs-dir", str(folder), "--max-cells", "1e7")
    yield service, folder
    service.stop()


def get(service, run, query, status=200, **kwargs):
    reply = service.get(f"/v1/runs/{run}/rollout?{query}", **kwargs)
    assert reply.status_code == status, reply.text
    return reply


def rolled(service, run, query):
    return np.array(get(service, run, query).json()["rollout"], np.float64)


def general(w, residual, heads=slice(None)):
    """[layers, H, L, L] -> [L, L] with a share of the residual connection."""
    r = np.eye(w.shape[-1])
    for layer in w:
        a = (1 - residual) * layer[heads].mean(0) + residual * np.eye(w.shape[-1])
        sums = a.sum(1, keepdims=True)
        r = a / np.where(sums == 0, 1, sums) @ r
    return r


MASKS = {
    "plain": [{}] * 4,
    "causal": [{"is_causal": True}] * 4,
    "windows": [{"is_causal": True, "window": [9, 0]}, {"is_causal": True}] * 2,
    "unequal heads": [{"shape": [2, h, 200, 200]} for h in (1, 4, 2)],
    "blind rows": [{"is_causal": True, "query_offset": -20}] * 3,
}


@pytest.mark.parametrize("dtype", ["F32", "F64"])
@pytest.mark.parametrize("name", MASKS)
def test_rows_of_sites(files, name, dtype):
    service, folder = files
    sites = [{"layer": n} | site for n, site in enumerate(MASKS[name])]
    file = file_of(sites, np.random.default_rng(3), L=200, dtype=dtype, spread=1.5)
    run = save(folder, file, 10 + 2 * list(MASKS).index(name) + (dtype == "F64"))
    w = [weights(file, n) for n in range(len(sites))]
    for b in range(2):
        want = np.eye(200)
        for layer in w:
            want = general(layer[b][None], 0.5) @ want
        for query, rows in (("rows=0", [0]), ("rows=199", [199]), ("rows=7,130:135,64", [7, *range(130, 135), 64]),
                            ("rows=0:200", range(200))):
            got = rolled(service, run, f"{query}&batch={b}")
            assert got.shape == (len(rows), 200)
            assert np.abs(got - want[list(rows)]).max() < (1e-12 if dtype == "F64" else 1e-6), query


def test_the_whole_rollout_is_that_of_analyses(files):
    service, folder = files
    file = file_of([{"is_causal": n != 1} for n in range(5)], np.random.default_rng(4), L=150)
    run = save(folder, file, 40)
    whole = ask(service, {"run": run, "analysis": ["rollout"], "heatmap": {"max_cells": 100000}}, "/v1/analyses")
    for b, head in enumerate(whole["rollout"]["heatmap"]["heads"]):
        assert head["shape"] == [150, 150]
        got = rolled(service, run, f"rows=0:150&batch={b}")
        assert np.abs(got - np.array(head["max"])).max() < 2e-7
        assert np.abs(got - rollout(weights(file)[:, b])).max() < 1e-6


def test_options(files, document):  # noqa: F811
    service, folder = files
    file = file_of([{"is_causal": True, "layer": n} for n in range(6)], np.random.default_rng(5), L=40)
    run, w = save(folder, file, 41), weights(file)[:, 1]
    answer = get(service, run, "rows=39&batch=1&from_layer=2&to_layer=5&heads=2,0&residual=0.2").json()
    schema(document, "RunRollout").validate(answer)
    assert answer["layers"] == [2, 3, 4]
    assert np.abs(np.array(answer["rollout"]) - general(w[2:5], 0.2, [2, 0])[39]).max() < 1e-6
    assert np.abs(rolled(service, run, "batch=1&residual=0&heads=mean") - general(w, 0)).max() < 1e-6
    assert np.array_equal(rolled(service, run, "batch=1&residual=1&rows=3:5"), np.eye(40)[3:5])
    assert get(service, run, "rows=3&decimals=2").json()["rollout"][0][0] in [round(n / 100, 2) for n in range(101)]


def test_media_types(files):
    service, folder = files
    file = file_of([{}] * 3, np.random.default_rng(6), L=20)
    run = save(folder, file, 42)
    want = rollout(weights(file)[:, 0])[5:7]
    for accept, read in (("application/x-npy", lambda x: np.load(io.BytesIO(x))),
                         ("application/vnd.safetensors", lambda x: load(x)["rollout"])):
        got = read(get(service, run, "rows=5:7", headers={"Accept": accept}).content)
        assert got.dtype == np.float32 and np.abs(got - want).max() < 1e-6
    assert get(service, run, "rows=5:7", headers={"Accept": "text/plain"}).text.startswith("rollout (2, 20):")


def test_a_layer_axis_in_any_place(files):
    """Two stacks of layers of one kind, and a kind of their own for the others."""
    service, folder = files
    sites = [{"axes": AXES, "layer": 2, "shape": [2, 2, 3, 25, 25], "kind": "encoder", "name": "upper"},
             {"axes": AXES, "layer": 0, "shape": [2, 2, 1, 25, 25], "kind": "encoder"},
             {"kind": "decoder", "shape": [2, 2, 12, 12], "is_causal": True}, {"kind": "decoder", "shape": [2, 2, 12, 12]},
             {"kind": "cross", "shape": [2, 2, 12, 25]}]
    file = file_of(sites, np.random.default_rng(7))
    run = save(folder, file, 43)
    upper, lower = (weights(file, n).reshape(2, 2, -1, 25, 25) for n in (0, 1))
    want = general(upper[:, 1], 0.5) @ general(lower[:, 1], 0.5)
    assert np.abs(rolled(service, run, "kind=encoder&batch=1") - want).max() < 1e-6
    assert np.abs(rolled(service, run, "site=upper&batch=1") - general(upper[:, 1], 0.5)).max() < 1e-6
    assert np.abs(rolled(service, run, "kind=encoder&batch=1&from_layer=1&to_layer=3&rows=9")
                  - (general(upper[:1, 1], 0.5) @ general(lower[1:, 1], 0.5))[9]).max() < 1e-6
    decoder = np.stack([weights(file, 2), weights(file, 3)])
    assert np.abs(rolled(service, run, "kind=decoder") - rollout(decoder[:, 0])).max() < 1e-6
    for query, pointer, word in (("", "/kind", "choose one by kind"), ("kind=cross", "/kind", "self-attention"), ("kind=self", "/kind", "no such layer"),
                                 ("site=4", "/site", "same tokens"), ("site=nine", "/site", "nine"),
                                 ("kind=encoder&from_layer=4", "/from_layer", "no layer"),
                                 ("kind=encoder&to_layer=0", "/to_layer", "no layer"), ("kind=encoder&batch=2", "/batch", "2 batch"),
                                 ("kind=encoder&heads=1", "/heads", "1 head,"), ("kind=encoder&rows=25", "/rows", "25")):
        problem = get(service, run, query, 422).json()
        assert problem["pointer"] == pointer and word in problem["detail"], problem


def test_calls(files):
    service, folder = files
    file = file_of([{"layer": n % 2, "call": n // 2} for n in range(4)], np.random.default_rng(8), L=15)
    run = save(folder, file, 44)
    assert "both layer 0" in get(service, run, "", 422).json()["detail"]
    assert np.abs(rolled(service, run, "call=1") - rollout(weights(file)[2:, 0])).max() < 1e-6


def test_batches_are_no_layers(files):
    service, _ = files
    body = {"query": {"shape": [3, 4, 20, 8], "random": "normal", "seed": 1}, "store": True, "return": []}
    run = ask(service, body)["run"]["id"]
    assert '"layer"' in get(service, run, "", 422).json()["detail"]
    layered = ask(service, body | {"axes": ["layer", "head"]})["run"]["id"]
    w = np.array(ask(service, {k: v for k, v in body.items() if k != "store"} | {"return": ["weights"]})["weights"])
    assert np.abs(rolled(service, layered, "") - rollout(w)).max() < 1e-6


def test_limits(files):
    """max_cells counts what a row reaches: an early row of a causal model little."""
    service, folder = files
    file = file_of([{"is_causal": True}] * 3, np.random.default_rng(9), L=3000, B=1, H=2)
    run = save(folder, file, 45)
    assert rolled(service, run, "rows=100").shape == (1, 3000)
    problem = get(service, run, "rows=2999", 413).json()
    assert problem["limit"]["setting"] == "max_cells" and problem["pointer"] == "/rows" and "fewer layers" in problem["detail"]
    assert get(service, run, "", 422).json()["pointer"] == "/rows"
    assert get(service, run, "rows=2999&from_layer=2").headers["Cache-Control"].endswith("immutable")
