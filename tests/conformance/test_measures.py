"""Every measure of POST /v1/analyses equals the NumPy oracle's, on every kind of mask, of weights that the caller
has and of attention that was just computed; distances of heads, rollout, gradient x attention, differences."""
import numpy as np
import pytest

from oracle.attention import served
from oracle.normalizers import KINDS, POINTWISE, normalized
from oracle.measures import Head, cosine, js, rollout
from serving import Daemon


@pytest.fixture(scope="module")
def daemon():
    running = Daemon("--ops-listen", "", "--log", "off")
    yield running
    running.stop()


RNG = np.random.default_rng
L = S = 9
TOKENS = [3, 1, 4, 1, 5, 9, 3, 1, 4]
SEGMENTS = [0, 0, 0, 1, 1, 1, 2, 2, 2]
CLASSES = {"a": [0, 4, 5], "b": [8]}


def softmax(scores):
    top = np.max(scores, -1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def causal(L, S, offset=0):
    return np.arange(S)[None, :] <= np.arange(L)[:, None] + offset


def window(L, S, left, right, offset=0):
    away = np.arange(S)[None, :] - np.arange(L)[:, None] - offset
    return (away >= -left) & (away <= right)


def random_keep(seed, *shape):
    keep = RNG(seed).random(shape) > 0.4
    keep[..., 2, :] = False  # a row that sees nothing
    return keep


FULL = np.ones((L, S), bool)
PAD = FULL & (np.arange(S) < 6)
KEEP = random_keep(5, 2, 3, L, S)
# name: (fields, visible, offset)
MASKS = {
    "full": ({}, FULL, 0),
    "causal": ({"is_causal": True}, causal(L, S), 0),
    "causal from 2": ({"is_causal": True, "query_offset": 2}, causal(L, S, 2), 2),
    "padding": ({"key_lengths": [6, 9]}, np.stack([PAD, FULL])[:, None], 0),
    "padding mask": ({"key_padding_mask": [[1] * 6 + [0] * 3] * 2, "key_padding_semantics": "keep"}, PAD, 0),
    "window": ({"window": [2, 1]}, window(L, S, 2, 1), 0),
    "causal window": ({"is_causal": True, "window": [3, -1]}, causal(L, S) & window(L, S, 3, S), 0),
    "pattern": ({"pattern": {"kind": "strided", "stride": 3, "local": 1}},
                (np.subtract.outer(np.arange(L), np.arange(S)) % 3 == 0) | window(L, S, 1, 1), 0),
    "boolean, hidden rows": ({"attn_mask": KEEP.tolist()}, KEEP, 0),
    "boolean of all heads": ({"attn_mask": KEEP[0, 0].tolist()}, KEEP[0, 0], 0),
    "all hidden": ({"attn_mask": np.zeros((L, S), bool).tolist()}, np.zeros((L, S), bool), 0),
}


def close(got, expected, tolerance=2e-6):
    assert set(got) == set(expected), set(got) ^ set(expected)
    for name, value in expected.items():
        if np.isnan(value):
            assert got[name] is None, (name, got[name])
        else:
            assert got[name] is not None and abs(got[name] - value) <= tolerance * max(1, abs(value)), \
                (name, got[name], value)


def close_array(got, expected, tolerance=2e-6):
    got = np.array([[np.nan if v is None else v for v in row] for row in got], float)
    np.testing.assert_allclose(got, np.asarray(expected, float), rtol=tolerance, atol=tolerance)


def ask(daemon, path, body):
    reply = daemon.post(path, body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def spread(visible, B=2, H=3):
    return np.broadcast_to(visible, (B, H, L, S))


def scores_of(seed, visible, size=2.0):
    s = (size * RNG(seed).standard_normal(visible.shape)).astype(np.float32)
    return np.where(visible, s.astype(np.float64), -np.inf)


def check_head(got, head):
    own, even = head.all()
    for name in ("positional_offset", "positional_share", "positional_mass", "sink_logit_mass"):
        even.pop(name)
    assert got["num_rows"] == len(head.rows)
    close(got["measures"], own)
    close(got["uniform"], even)
    if "classes" in head.extra:
        masses, uniform = head.class_mass(), head.uniform().class_mass()
        for c in got["classes"]:
            close({"mass": c["mass"], "uniform": c["uniform"]},
                  {"mass": masses[c["name"]], "uniform": uniform[c["name"]]})
            if uniform[c["name"]] > 0 and not np.isnan(masses[c["name"]]):
                close({"lift": c["lift"]}, {"lift": masses[c["name"]] / uniform[c["name"]]}, 1e-5)
    if "segments" in head.extra:
        close_array(got["blocks"], head.blocks())
    alpha, seen = head.alpha()
    received = head.p[head.rows].sum(0)
    for top in got["top_keys"]:
        close({"mass": top["mass"], "mean": top["mean"]},
              {"mass": received[top["key"]], "mean": alpha[top["key"]]})
    masses = [top["mass"] for top in got["top_keys"]]
    assert masses == sorted(masses, reverse=True) and len(masses) == min(5, (seen > 0).sum())
    if masses:
        assert masses[-1] >= np.sort(received[seen > 0])[::-1][len(masses) - 1] - 1e-6


@pytest.mark.parametrize("name", MASKS)
def test_weights_of_a_caller(daemon, name):
    fields, visible, offset = MASKS[name]
    visible = spread(visible)
    p = softmax(scores_of(1, visible)).astype(np.float32)
    queries = [TOKENS[i + offset] if i + offset < S else -99 for i in range(L)]
    segments = {"key": SEGMENTS, "query": SEGMENTS}
    answer = ask(daemon, "/v1/analyses", {
        "weights": p.astype(float).tolist(), "ids": {"key": TOKENS}, "radius": 1, "segments": segments,
        "classes": [{"name": n, "keys": k} for n, k in CLASSES.items()], **fields})
    kinds = [next((c for c, keys in enumerate(CLASSES.values()) if j in keys), -1) for j in range(S)]
    kind_of = [kinds[i + offset] if i + offset < S else -1 for i in range(L)]
    for h in answer["heads"]:
        check_head(h, Head(p[h["batch"], h["head"]], visible[h["batch"], h["head"]], offset, radius=1,
                           tokens=(queries, TOKENS), kinds=(kind_of, kinds), classes=CLASSES,
                           segments=(SEGMENTS, SEGMENTS, 3)))
    assert len(answer["heads"]) == 6


@pytest.mark.parametrize("name", MASKS)
def test_attention_itself(table, name):
    """The same of queries and keys, where hidden cells and scores are known."""
    fields, visible, offset = MASKS[name]
    visible = spread(visible)
    q, k, v = (RNG(i).standard_normal((2, 3, n, 4)).astype(np.float32) for i, n in ((1, L), (2, S), (3, S)))
    answer = ask(table, "/v1/attention", {
        "query": q.astype(float).tolist(), "key": k.astype(float).tolist(), "value": v.astype(float).tolist(),
        "return": ["output"], "analysis": ["all"], **fields})["analysis"]
    scores = np.where(visible, q.astype(float) @ np.swapaxes(k.astype(float), -1, -2) / 2, -np.inf)
    p = softmax(scores)
    for h in answer["heads"]:
        at = h["batch"], h["head"]
        check_head(h, Head(p[at], visible[at], offset, scores=scores[at]))


@pytest.mark.parametrize("fields, cells", [
    ({"sinks": [0.5, -1, 2]}, lambda s: s),
    ({"attn_bias": RNG(8).standard_normal((L, S)).tolist()}, lambda s: s + RNG(8).standard_normal((L, S))),
    ({"position": {"kind": "alibi", "slopes": [1, 0.5, 0.25]}}, lambda s: s - np.abs(
        np.subtract.outer(np.arange(L), np.arange(S))) * np.array([1, 0.5, 0.25])[:, None, None]),
    ({"softcap": 1.5}, lambda s: 1.5 * np.tanh(s / 1.5)),
], ids=["sinks", "additive", "alibi", "softcap"])
def test_scores_that_are_changed(daemon, fields, cells):
    q, k = (RNG(i).standard_normal((1, 3, n, 4)).astype(np.float32) for i, n in ((1, L), (2, S)))
    answer = ask(daemon, "/v1/attention", {
        "query": q.astype(float).tolist(), "key": k.astype(float).tolist(), "value": k.astype(float).tolist(),
        "return": [], "analysis": ["all"], "is_causal": True, **fields})["analysis"]
    visible = np.broadcast_to(causal(L, S), (1, 3, L, S))
    scores = np.where(visible, cells(q.astype(float) @ np.swapaxes(k.astype(float), -1, -2) / 2), -np.inf)
    if "sinks" in fields:
        column = np.broadcast_to(np.array(fields["sinks"])[None, :, None, None], (1, 3, L, 1))
        p = softmax(np.concatenate([scores, column], -1))[..., :-1]
    else:
        p = softmax(scores)
    for h in answer["heads"]:
        at = h["batch"], h["head"]
        check_head(h, Head(p[at], visible[at], scores=scores[at]))


@pytest.mark.parametrize("fields", [
    {"mix": {"weights": RNG(9).standard_normal((6, 4)).tolist()}}, {"mix": {"weights": (-np.eye(4)).tolist()}},
    {"subtract": {"lambda": 0.75, "pairs": "adjacent"}}, {"subtract": {"lambda": [0.25, 1.5], "pairs": "halves"}, "is_causal": True},
], ids=["mix", "negative", "adjacent", "halves"])
def test_negative_weights(daemon, fields):
    """Measures of mixed heads are those of the weights above 0, as a warning says; a row without one does not count. Scores are
    those of single heads and have no measures."""
    q, k = (RNG(i).standard_normal((1, 4, n, 4)).astype(np.float32) for i, n in ((1, L), (2, S)))
    body = {"query": q.astype(float).tolist(), "key": k.astype(float).tolist(), "return": ["weights"], **fields}
    body["value"] = {"shape": [1, 2 if "subtract" in fields or len(fields["mix"]["weights"]) == 6 else 4, S, 4], "fill": "ones"}
    answer = ask(daemon, "/v1/attention", body | {"analysis": ["all"]})
    assert any(w["code"] == "row_sums" and "negative weights as 0" in w["detail"] for w in answer["warnings"])
    p = np.maximum(served(body)["weights"], 0)
    assert len(answer["analysis"]["heads"]) == p.shape[1]
    for h in answer["analysis"]["heads"]:
        head = Head(p[h["batch"], h["head"]], causal(L, S) if "is_causal" in fields else np.ones((L, S), bool))
        check_head(h, head)
        assert bool(head.rows) == bool(p[h["batch"], h["head"]].any())
    alone = ask(daemon, "/v1/attention", body | {"analysis": ["scores"]})["analysis"]
    assert "mixed weights are of several" in alone["omitted"]["scores"] and alone["heads"][0]["measures"] == {}


@pytest.mark.parametrize("kind", KINDS)
def test_normalizers(daemon, kind):
    """Rows that need not sum to 1: entropies are those of shares, masses those of the weights, and a warning says so."""
    q, k = (RNG(i).standard_normal((1, 3, n, 4)).astype(np.float32) for i, n in ((1, L), (2, S)))
    answer = ask(daemon, "/v1/attention", {
        "query": q.astype(float).tolist(), "key": k.astype(float).tolist(), "value": k.astype(float).tolist(),
        "return": [], "analysis": ["all"], "heatmap": {}, "is_causal": True, "normalizer": kind})
    visible = np.broadcast_to(causal(L, S), (1, 3, L, S))
    scores = np.where(visible, q.astype(float) @ np.swapaxes(k.astype(float), -1, -2) / 2, -np.inf)
    p, _ = normalized({"normalizer": kind}, scores, None)
    for h in answer["analysis"]["heads"]:
        at = h["batch"], h["head"]
        check_head(h, Head(p[at], visible[at], scores=scores[at]))
    for m in answer["heatmap"]["heads"]:
        for found, row in zip(m["row_entropy"], p[m["batch"], m["head"]]):
            share = row[row > 0] / row.sum() if row.sum() > 0 else row[:0]
            assert (found is None) == (share.size == 0)
            assert found is None or abs(found + (share * np.log(share)).sum()) <= 1e-5
    codes = [w["code"] for w in answer.get("warnings", []) if w["pointer"] == "/normalizer"]
    assert codes == (["row_sums"] if kind in POINTWISE else [])


def test_cross_attention_with_labels(daemon):
    """Labels tell which tokens are equal, which are punctuation, which are special."""
    query, key = ["die", "Katze", ".", "<pad>"], ["[CLS]", "the", "cat", ",", "the", ".", "[PAD]"]
    p = softmax(scores_of(4, np.ones((4, 7), bool))).astype(np.float32)
    answer = ask(daemon, "/v1/analyses", {"weights": p.astype(float).tolist(), "labels": {"query": query, "key": key}})
    classes = {"punctuation": [3, 5], "special tokens": [0, 6]}
    kinds = [1, 2, 3, 0, 2, 0, 1]  # of the keys; row i is of the kind of key i
    head = Head(p, np.ones((4, 7), bool), tokens=(query, key), kinds=(kinds[:4], kinds), classes=classes)
    check_head(answer["heads"][0], head)
    assert [t["label"] for t in answer["heads"][0]["top_keys"]] == [
        key[t["key"]] for t in answer["heads"][0]["top_keys"]]


def test_lengths_that_need_several_pieces(daemon):
    """More rows and keys than one block holds, and more offsets than are looked at."""
    n = 700
    p = softmax(scores_of(6, np.ones((n, n), bool), 3)).astype(np.float32)
    p[:, :] = np.where(np.arange(n)[:, None] % 3 == 0, np.eye(n, k=-100, dtype=np.float32) * 0.9 + 0.1 * p, p)
    answer = ask(daemon, "/v1/analyses", {"weights": p.astype(float).tolist(), "analysis": ["all"]})
    check_head(answer["heads"][0], Head(p, np.ones((n, n), bool)))


# --- heads beside heads ---

@pytest.mark.parametrize("name", ["full", "causal", "padding", "boolean, hidden rows"])
def test_distances_of_heads(daemon, name):
    fields, visible, offset = MASKS[name]
    visible = spread(visible)
    p = softmax(scores_of(2, visible)).astype(np.float32)
    answer = ask(daemon, "/v1/analyses", {"weights": p.astype(float).tolist(), "analysis": ["pairs"], **fields})
    assert [e["batch"] for e in answer["pairs"]] == [0, 1]
    for entry in answer["pairs"]:
        heads = [Head(p[entry["batch"], h], visible[entry["batch"], h]) for h in range(3)]
        for measure, f in (("js", js), ("cosine", cosine), ("centered_cosine", lambda a, b: cosine(a, b, True))):
            matrix = [[f(a, b) for b in heads] for a in heads]
            close_array(entry[measure], matrix)
            pairs = [matrix[i][j] for i in range(3) for j in range(i + 1, 3)]
            assert abs(entry["mean_" + measure] - np.nanmean(pairs)) < 2e-6


def test_random_causal_heads_are_not_alike(daemon):
    """The plain cosine of causal heads is high by construction; without the mask's share it is not."""
    visible = np.broadcast_to(causal(32, 32), (6, 32, 32))
    p = softmax(scores_of(3, visible, 0.3))
    answer = ask(daemon, "/v1/analyses", {"weights": p.tolist(), "is_causal": True})
    entry = answer["pairs"][0]
    assert entry["mean_cosine"] > 0.9 and abs(entry["mean_centered_cosine"]) < 0.1
    assert not any(d["code"] in ("head_collapse", "similar_heads") for d in answer["diagnoses"])


def test_two_operands(daemon):
    a, b = (softmax(scores_of(s, np.ones((2, 3, L, S), bool))).astype(np.float32) for s in (1, 2))
    b[:, 2] = a[:, 0]  # the third head of b is the first of a
    answer = ask(daemon, "/v1/analyses", {"weights": a.astype(float).tolist(), "other": b.astype(float).tolist()})
    seen = np.ones((L, S), bool)
    for n, head in enumerate(answer["comparison"]["heads"]):
        at, h = divmod(n, 3)
        first = Head(a[at, h], seen)
        others = [Head(b[at, g], seen) for g in range(3)]
        near = int(np.argmin([js(first, o) for o in others]))
        close({k: head[k] for k in ("js", "cosine", "centered_cosine", "total_variation")},
              {"js": js(first, others[h]), "cosine": cosine(first, others[h]),
               "centered_cosine": cosine(first, others[h], True),
               "total_variation": np.abs(a[at, h].astype(float) - b[at, h]).sum() / 2 / L})
        assert head["nearest"]["head"] == near and abs(head["nearest"]["js"] - js(first, others[near])) < 2e-6
        assert h != 0 or near == 2
    for n, head in enumerate(answer["comparison"]["difference"]["heads"]):
        at, h = divmod(n, 3)
        close_array(head["max"], a[at, h].astype(float) - b[at, h])
        most = np.abs(a[at, h] - b[at, h]).max()
        np.testing.assert_allclose(head["range"], [-most, most], rtol=1e-6)
        np.testing.assert_allclose(head["received"], (a[at, h].astype(float) - b[at, h]).sum(0), atol=1e-6)


def test_a_pooled_difference_keeps_the_sign(daemon):
    a, b = (softmax(scores_of(s, np.ones((8, 8), bool))).astype(np.float32) for s in (3, 4))
    answer = ask(daemon, "/v1/analyses", {"weights": a.astype(float).tolist(), "other": b.astype(float).tolist(),
                                          "heatmap": {"max_cells": 16}, "analysis": []})
    cells = (a.astype(float) - b).reshape(4, 2, 4, 2).transpose(0, 2, 1, 3).reshape(4, 4, 4)
    largest = np.take_along_axis(cells, np.abs(cells).argmax(-1)[..., None], -1)[..., 0]
    close_array(answer["comparison"]["difference"]["heads"][0]["max"], largest)


def test_rollout(daemon):
    p = softmax(scores_of(5, np.broadcast_to(causal(L, L), (4, 2, 3, L, L))))
    answer = ask(daemon, "/v1/analyses", {"weights": p.tolist(), "is_causal": True, "analysis": ["rollout"]})
    heads = answer["rollout"]["heatmap"]["heads"]
    assert [(h["batch"], h["head"]) for h in heads] == [(0, 0), (1, 0)]
    for h in heads:
        close_array(h["max"], rollout(p[:, h["batch"]]))
    assert answer["heads"][7]["layer"] == 1 and answer["heads"][7]["batch"] == 0 and answer["heads"][7]["head"] == 1


def test_rollout_of_a_long_text(daemon):
    """More rows than go through the layers together."""
    p = softmax(scores_of(5, np.ones((2, 1, 2, 150, 150), bool), 3))
    answer = ask(daemon, "/v1/analyses", {"weights": p.tolist(), "analysis": ["rollout"]})
    close_array(answer["rollout"]["heatmap"]["heads"][0]["max"], rollout(p[:, 0]))


def test_gradient_times_attention(daemon):
    """dA = dO V^T, with grouped heads; the sum of A * dA is <O, dO>."""
    p = softmax(scores_of(7, np.broadcast_to(causal(L, S), (2, 4, L, S))))
    value, grad = RNG(8).standard_normal((2, 2, S, 5)), RNG(9).standard_normal((2, 4, L, 5))
    body = {"weights": p.tolist(), "is_causal": True, "grad_output": grad.tolist(), "value": value.tolist(),
            "analysis": ["gradient"]}
    wide = np.repeat(value, 2, axis=1)
    product = p * (grad @ np.swapaxes(wide, -1, -2))
    answer = ask(daemon, "/v1/analyses", body)["gradient"]
    for n, h in enumerate(answer["heads"]):
        at = divmod(n, 4)
        out = (p[at] @ wide[at]) * grad[at]
        close({k: h[k] for k in ("sum", "importance", "magnitude")},
              {"sum": out.sum(), "importance": abs(out.sum()), "magnitude": np.abs(product[at]).sum()}, 5e-6)
    for h in answer["heatmap"]["heads"]:
        close_array(h["max"], product[h["batch"], h["head"]], 5e-6)
    mean = ask(daemon, "/v1/analyses", body | {"heatmap": {"heads": "mean"}})["gradient"]["heatmap"]["heads"]
    for h in mean:
        close_array(h["max"], np.maximum(product, 0).mean(1)[h["batch"]], 5e-6)


@pytest.mark.parametrize("workers", ["1", "3"])
def test_the_number_of_threads_does_not_show(start, workers, worker_answers={}):
    p = softmax(scores_of(6, np.broadcast_to(causal(300, 300), (1, 4, 300, 300)))).astype(np.float32)
    body = {"weights": p.astype(float).tolist(), "other": p[:, ::-1].astype(float).tolist(), "is_causal": True,
            "heatmap": {"max_cells": 400}}
    worker_answers[workers] = start("--workers", workers).post("/v1/analyses", body).content
    assert len(set(worker_answers.values())) == 1
