"""/v1/analyses as safetensors and npy: the numbers of the JSON as tensors, and matrices that are not pooled unasked."""
import io
import json

import numpy as np
import pytest
from api_client import ask
from safetensors import safe_open
from safetensors.numpy import load, save

PATH = "/v1/analyses"
SAFETENSORS = {"Accept": "application/vnd.safetensors"}
NPY = {"Accept": "application/x-npy"}
rng = np.random.default_rng(8)


def stochastic(*shape, causal=True):
    w = rng.random(shape).astype(np.float32)
    if causal:
        w *= np.tri(*shape[-2:], dtype=np.float32)
    return w / w.sum(-1, keepdims=True)


def binary(daemon, body, tmp_path):
    reply = daemon.post(PATH, body, headers=SAFETENSORS)
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"] == "application/vnd.safetensors"
    (tmp_path / "a").write_bytes(reply.content)
    with safe_open(tmp_path / "a", "numpy") as opened:
        return load(reply.content), json.loads(opened.metadata()["response"])


def npy(daemon, body):
    reply = daemon.post(PATH, body, headers=NPY)
    assert reply.status_code == 200, reply.text
    return np.load(io.BytesIO(reply.content))


def rollout(layers):
    """R_0 = I, R_l = N(mean_h A_l + I) R_(l-1)."""
    R = np.eye(layers.shape[-1])
    for layer in layers.astype(np.float64):
        A = layer.mean(-3) + np.eye(layers.shape[-1])
        R = A / A.sum(-1, keepdims=True) @ R
    return R


@pytest.mark.parametrize("shape", [(6, 6), (3, 6, 6), (2, 3, 6, 6), (4, 2, 3, 6, 6)], ids=str)
def test_numbers_are_those_of_the_json(daemon, tmp_path, shape):
    body = {"weights": stochastic(*shape).tolist(), "is_causal": True, "labels": {"key": list("abcab.")},
            "segments": {"key": [0, 0, 0, 1, 1, 1]}}
    answer = ask(daemon, body, PATH)
    tensors, rest = binary(daemon, body, tmp_path)
    lead = (1,) * (4 - len(shape)) + shape[:-2] if len(shape) < 5 else shape[:-2]
    layered = len(shape) == 5
    assert tensors["num_rows"].shape == lead and tensors["num_rows"].dtype == np.int64
    for i, head in enumerate(answer["heads"]):
        place = tuple(np.unravel_index(i, lead))
        assert place == ((head["layer"],) if layered else ()) + (head["batch"], head["head"])
        for kind in ("measures", "uniform"):
            for name, value in head[kind].items():
                got = tensors[f"{kind}.{name}"][place]
                assert np.isnan(got) if value is None else np.isclose(got, value, rtol=1e-6, atol=1e-9), name
        assert np.allclose(tensors["blocks"][place], np.array(head["blocks"], float), rtol=1e-6)
        assert tensors["num_rows"][place] == head["num_rows"]
        assert rest["heads"][i] == {k: v for k, v in head.items() if k not in ("measures", "uniform", "num_rows", "blocks")}
    assert {n.split(".", 1)[1] for n in tensors if n.startswith("measures.")} == set(answer["heads"][0]["measures"])
    if "pairs" in answer:
        for name in ("js", "cosine", "centered_cosine"):
            want = np.array([p[name] for p in answer["pairs"]], float).reshape(*lead, lead[-1])
            assert np.allclose(tensors[f"pairs.{name}"], want, rtol=1e-5, atol=1e-6)
    for name in ("diagnoses", "legend", "caveat"):
        assert rest[name] == answer[name]
    assert rest["cells"] == {}


def test_rollout_is_a_matrix_and_never_pooled_unasked(daemon, tmp_path):
    w = stochastic(3, 1, 2, 300, 300)
    body = save({"weights": w}, {"request": json.dumps({"is_causal": True, "analysis": ["rollout", "entropy"]})})
    kind = {"Content-Type": "application/vnd.safetensors"}
    want = rollout(w[:, 0])
    reply = daemon.post(PATH, body, headers=kind | SAFETENSORS)
    got = load(reply.content)
    assert got["rollout"].shape == (1, 300, 300) and got["rollout"].dtype == np.float32
    assert np.abs(got["rollout"][0] - want).max() < 1e-6
    alone = daemon.post(PATH, body, headers=kind | NPY)
    assert np.array_equal(np.load(io.BytesIO(alone.content)), got["rollout"][0])
    asked = save({"weights": w}, {"request": json.dumps({"is_causal": True, "analysis": ["rollout"], "heatmap": {"max_cells": 900}})})
    pooled = np.load(io.BytesIO(daemon.post(PATH, asked, headers=kind | NPY).content))
    assert pooled.shape == (30, 30) and np.isclose(pooled[7, 3], want[70:80, 30:40].max(), rtol=1e-5)


def test_rollout_of_a_batch_in_json_weights(daemon, tmp_path):
    w = stochastic(2, 3, 2, 5, 5, causal=False)
    tensors, rest = binary(daemon, {"weights": w.tolist(), "analysis": "rollout"}, tmp_path)
    assert np.abs(tensors["rollout"] - np.stack([rollout(w[:, b]) for b in range(3)])).max() < 1e-6
    assert list(tensors) and "measures.entropy" not in tensors
    assert rest["rollout"]["legend"].startswith("R_0 = I") and "heatmap" not in rest["rollout"]
    assert rest["cells"]["rollout"]["step"] == [1, 1] and len(rest["cells"]["rollout"]["heads"]) == 3


def test_views_are_whole_matrices(daemon, tmp_path):
    a, b = stochastic(2, 3, 250, 250), stochastic(2, 3, 250, 250)
    body = {"weights": a.tolist(), "other": b.tolist(), "is_causal": True, "heatmap": {}, "analysis": ["entropy"]}
    tensors, rest = binary(daemon, body, tmp_path)
    assert np.array_equal(tensors["heatmap"], a)
    assert np.abs(tensors["difference"] - (a.astype(float) - b)).max() < 1e-7
    assert np.array_equal(npy(daemon, body), tensors["difference"].reshape(6, 250, 250))
    answer = ask(daemon, body, PATH)
    assert rest["comparison"]["heads"] == answer["comparison"]["heads"] and "difference" not in rest["comparison"]
    for i, head in enumerate(answer["comparison"]["heads"]):
        n, h = divmod(i, 3)
        assert np.isclose(tensors["comparison.js"][n, h, h], head["js"], rtol=1e-5)
    part = body | {"heatmap": {"heads": [2, 0], "batch": [1], "rows": [10, 20], "cols": "5:9"}}
    tensors, rest = binary(daemon, part, tmp_path)
    assert np.array_equal(tensors["heatmap"], a[1:, [2, 0], 10:20, 5:9])
    assert [(p["batch"], p["head"]) for p in rest["cells"]["heatmap"]["heads"]] == [(1, 2), (1, 0)]
    both = binary(daemon, body | {"heatmap": {"pool": "both", "max_cells": 3000}}, tmp_path)[0]
    assert both["heatmap"].shape == both["heatmap.mean"].shape and both["heatmap"].shape[:2] == (2, 3)


def test_gradient(daemon, tmp_path):
    w = stochastic(2, 4, 4, causal=False)
    grad, value = rng.standard_normal((2, 4, 5)), rng.standard_normal((2, 4, 5))
    body = {"weights": w.tolist(), "grad_output": grad.tolist(), "value": value.tolist(), "analysis": ["gradient"]}
    tensors, rest = binary(daemon, body, tmp_path)
    want = w * (grad @ value.swapaxes(-1, -2))
    assert np.abs(tensors["gradient"][0] - want).max() < 1e-5
    assert rest["gradient"]["heads"] == ask(daemon, body, PATH)["gradient"]["heads"]
    assert np.abs(npy(daemon, body) - want).max() < 1e-5


def test_a_stored_run(daemon, tmp_path):
    body = {"query": {"shape": [1, 2, 70, 8], "random": "normal", "seed": 1}, "is_causal": True}
    reply = daemon.post("/v1/attention", body | {"store": True, "return": ["weights"]}, headers=SAFETENSORS)
    run = reply.headers["X-Run-Id"]
    tensors, rest = binary(daemon, {"run": run, "heatmap": {}}, tmp_path)
    assert np.array_equal(tensors["heatmap"], load(reply.content)["weights"])
    assert tensors["measures.score_max"].shape == (1, 2) and "omitted" not in rest


def test_memory_is_counted_first(start):
    daemon = start("--max-request-bytes", "60000000")
    body = {"weights": {"shape": [4, 1000, 1000], "fill": "eye"}, "analysis": ["entropy"], "heatmap": {}}
    for accept in (SAFETENSORS, NPY):
        reply = daemon.post(PATH, body, headers=accept)
        assert reply.status_code == 413 and reply.json()["limit"]["setting"] == "max_request_bytes"
    assert daemon.post(PATH, body).status_code == 200
