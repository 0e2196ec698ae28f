"""Value-weighted attention (Kobayashi et al. 2020): the norm of weight times value, as cells of heatmaps and
as measures."""
import numpy as np
import pytest
from api_client import array, ask, close, refused

from oracle import forms, rng, tensors
from oracle.attention import attention


def normal(seed, *shape):
    return {"shape": list(shape), "random": "normal", "seed": seed}


QKV = {"query": normal(1, 2, 4, 5, 8), "key": normal(2, 2, 2, 7, 8), "value": normal(3, 2, 2, 7, 3)}
HEADS = {"query": normal(1, 2, 6, 16), "projections": {"num_heads": 4, "seed": 7}, "is_causal": True}
OF = {"heatmap": {"of": "value_norm"}, "return": []}


def expected(body):
    """||a_ij v_j||, or with w_o ||a_ij v_j W_o^h||, as [B, H, L, S]: every product and its norm by itself."""
    body = forms.drawn(body)
    found = attention(body)
    weights, value = found["weights"], found["present_value"]
    value = np.repeat(value, weights.shape[1] // value.shape[1], axis=1)
    products = weights[..., None] * value[:, :, None]  # [B, H, L, S, Ev]
    w_o = body.get("projections", {}).get("w_o")
    if w_o is not None:
        Ev = value.shape[-1]
        w_o = tensors.read(w_o)
        products = np.stack([products[:, h] @ w_o[:, h * Ev:(h + 1) * Ev].T for h in range(weights.shape[1])], 1)
    return np.linalg.norm(products, axis=-1)


def cells(heatmap):
    heads = heatmap["heads"]
    return array([h["max"] for h in heads]).reshape(max(h["batch"] for h in heads) + 1, -1, *heads[0]["shape"])


@pytest.mark.parametrize("body", [
    QKV, QKV | {"dropout_p": 0.5, "seed": 1, "sinks": [1, 0, 2, -1]},
    QKV | {"past_key": normal(4, 2, 2, 3, 8), "past_value": normal(5, 2, 2, 3, 3)},
    HEADS, HEADS | {"position": "sinusoidal"},
    {"query": normal(1, 2, 6, 16), "projections": {"num_heads": 4, "num_kv_heads": 2, "w_k": normal(2, 8, 16),
                                                   "w_v": normal(3, 6, 16)}},
    {n: x | {"dtype": "float64"} for n, x in QKV.items()},
], ids=["grouped", "dropout and sinks", "cache", "projections", "positions", "without w_o", "float64"])
def test_cells(daemon, body):
    answer = ask(daemon, body | OF)["heatmap"]
    assert answer["of"] == "value_norm"
    close(cells(answer).tolist(), expected(body), 2e-6)
    assert "of" not in ask(daemon, body | {"heatmap": {}})["heatmap"]


def entropy(c):
    r = c / c.sum(-1, keepdims=True)
    return -(r * np.log(np.where(r > 0, r, 1))).sum(-1)


def test_rows_of_a_heatmap(daemon):
    """received is a sum of cells, row_entropy that of the row divided by its sum, and hidden cells stay hidden."""
    head = ask(daemon, HEADS | OF)["heatmap"]["heads"][5]
    want = expected(HEADS)[1, 1]
    close(head["received"], want.sum(0), 2e-6)
    close(head["row_entropy"], entropy(want), 2e-6)
    assert head["hidden"] == [[i, i + 1, 6] for i in range(5)]


def test_measures(daemon):
    """The three measures, and beside them their values under uniform attention."""
    answer = ask(daemon, HEADS | {"analysis": ["value_norm", "sink"], "return": []})["analysis"]
    want = expected(HEADS)
    keep = np.tril(np.ones((6, 6)))
    norms = want / np.where(keep > 0, attention(forms.drawn(HEADS))["weights"], 1)
    even = norms * keep / keep.sum(-1, keepdims=True)
    for head in answer["heads"]:
        for name, all_ in (("measures", want), ("uniform", even)):
            c, m = all_[head["batch"], head["head"]], head[name]
            close([m["value_norm"], m["value_entropy"], m["value_first_token"]],
                  [c.sum(-1).mean(), entropy(c).mean(), (c / c.sum(-1, keepdims=True))[1:, 0].mean()], 1e-5)
    assert {"value_norm", "value_entropy", "value_first_token"} <= set(answer["legend"])
    assert "2004.10102" in answer["legend"]["value_norm"]["paper"]
    assert "value_norm" not in ask(daemon, HEADS | {"analysis": "all", "return": []})["analysis"]["heads"][0]["measures"]


def test_a_sink_with_a_short_value(daemon):
    """A head that rests on its first token, whose value is nearly 0: the weights show a sink, the norms do not."""
    body = {"query": [[1], [1], [1], [1]], "key": [[4], [0], [0], [0]], "value": [[0.001], [1], [1], [1]]}
    measures = ask(daemon, body | {"analysis": ["value_norm", "sink"]})["analysis"]["heads"][0]["measures"]
    assert measures["first_token"] > 0.9 and measures["value_first_token"] < 0.02


def test_hidden_values_do_not_matter(daemon):
    body = {"query": [[1], [2]], "key": [[1], [2], [3]], "value": [[1], [2], [3]], "attn_mask": [True, True, False],
            "analysis": ["value_norm"]} | OF
    clean = ask(daemon, body)
    dirty = body | {"value": {"shape": [3, 1], "dtype": "float32", "base64": tensors.write(
        np.array([[1], [2], [np.inf]]))["base64"]}}
    assert ask(daemon, dirty) == clean


def test_stored_runs(daemon):
    """A run keeps the projected values, not w_o: its cells are ||a_ij v_j||."""
    run = ask(daemon, HEADS | {"store": True, "return": []})["run"]
    run = run["id"] if isinstance(run, dict) else run
    without = {n: x for n, x in forms.drawn(HEADS)["projections"].items() if n not in ("w_o", "b_o")}
    want = expected(HEADS | {"projections": without})
    answer = daemon.get(f"/v1/runs/{run}/heatmaps?of=value_norm").json()
    close(cells(answer).tolist(), want, 2e-6)
    for head in (daemon.get(f"/v1/runs/{run}/analyses?analysis=value_norm").json()["heads"][0],
                 ask(daemon, {"run": run, "analysis": ["value_norm"]}, path="/v1/analyses")["heads"][0]):
        close([head["measures"]["value_norm"]], [want[0, 0].sum(-1).mean()], 1e-5)


def test_runs_without_values(daemon):
    run = ask(daemon, {"query": normal(1, 3, 4), "key": normal(2, 5, 4), "store": True, "return": []})["run"]
    run = run["id"] if isinstance(run, dict) else run
    problem = daemon.get(f"/v1/runs/{run}/heatmaps?of=value_norm").json()
    assert problem["code"] == "invalid_value" and "stored run that has them" in problem["detail"]
    assert "values" in daemon.get(f"/v1/runs/{run}/analyses?analysis=value_norm").json()["omitted"]["value_norm"]


def test_given_weights_have_no_values(daemon):
    answer = ask(daemon, {"weights": [[1, 0], [0.5, 0.5]], "analysis": ["value_norm"]}, path="/v1/analyses")
    assert "POST /v1/attention" in answer["omitted"]["value_norm"]


def test_picture(daemon):
    body = HEADS | {"heatmap": {"of": "value_norm", "heads": [0], "batch": [0]}}
    svg = daemon.post("/v1/attention", body, headers={"Accept": "image/svg+xml"}).text
    assert "norm of weight × value" in svg


def test_cost_is_counted(daemon):
    long = {"query": normal(1, 4, 1024, 64), "dry_run": True, "return": []}
    plain, norms = (ask(daemon, long | {"heatmap": {"of": of}})["dry_run"] for of in ("weights", "value_norm"))
    assert norms["bytes"]["work"] - plain["bytes"]["work"] >= 4 * 1024 * 8
    assert norms["num_operations"] > plain["num_operations"]


def test_stages_are_not_drawn_beside(daemon):
    body = QKV | {"heatmap": {"of": "value_norm"}, "return": ["scores"], "score_stage": ["raw", "probs"]}
    reply = daemon.post("/v1/attention", body, headers={"Accept": "image/svg+xml"})
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/score_stage")


SHAW = {"kind": "shaw", "key_table": normal(4, 3, 8), "value_table": normal(5, 3, 3)}


@pytest.mark.parametrize("path, body, pointer, words", [
    ("/v1/heatmaps", {"weights": [[1, 0], [0.5, 0.5]], "heatmap": {"of": "value_norm"}}, "/heatmap/of", ["values"]),
    ("/v1/attention", {"query": [[1]], "key": [[1]]} | OF, "/heatmap/of", ["with value"]),
    ("/v1/attention", QKV | {"heatmap": {"of": "value_norm", "top_p": 0.5}}, "/heatmap/top_p", ["top_k"]),
    ("/v1/attention", QKV | {"position": SHAW} | OF, "/position/value_table", ["value_norm"]),
    ("/v1/attention", QKV | {"position": SHAW, "analysis": ["value_norm"]}, "/position/value_table", ["value_norm"]),
], ids=["given weights", "no values", "top_p", "shaw", "shaw analysis"])
def test_refusals(daemon, path, body, pointer, words):
    refused(daemon, body, "invalid_value", pointer, *words, path=path)
