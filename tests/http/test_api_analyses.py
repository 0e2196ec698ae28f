"""POST /v1/analyses and `analysis` of /v1/attention: each diagnosis fires on a crafted case and is silent on its
neighbour, heads get the names that they deserve, answers match their schemas, every refusal has its place."""
import json

import numpy as np
import pytest
from api_client import ask, refused
from conftest import ROOT
from test_api_index import document, schema  # noqa: F401, a fixture

PATH = "/v1/analyses"
TEXT = {"Accept": "text/plain"}
RNG = np.random.default_rng


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def weights(*shape, size=2.0, seed=0):
    return softmax(size * RNG(seed).standard_normal(shape))


def analysed(daemon, p, **fields):
    return ask(daemon, {"weights": np.asarray(p).tolist()} | fields, PATH)


def attended(daemon, q, k, **fields):
    body = {"query": np.asarray(q).tolist(), "key": np.asarray(k).tolist(), "value": np.asarray(k).tolist(),
            "return": [], "analysis": ["diagnoses", "entropy"]}
    return ask(daemon, body | fields)["analysis"]


def found(answer, code):
    """The one diagnosis with this code."""
    said = [d for d in answer["diagnoses"] if d["code"] == code]
    assert len(said) == 1, [d["code"] for d in answer["diagnoses"]]
    assert said[0]["text"].endswith((".", "?")) and len(said[0]["text"]) < 767
    return said[0]


def codes(answer):
    return {d["code"] for d in answer["diagnoses"]}


def heads(diagnosis):
    return [h["head"] for h in diagnosis["heads"]]


# --- near-uniform attention and its causes ---

def vectors(n, width, size, seed):
    return size * RNG(seed).standard_normal((n, width))


UNIFORM = ("near_uniform", "near_uniform_scores", "near_uniform_keys", "near_uniform_task")


def uniform_codes(answer):
    return codes(answer) & set(UNIFORM)


def test_scores_without_spread(daemon):
    q, k = vectors(24, 16, 0.1, 1), vectors(24, 16, 0.1, 2)
    said = found(attended(daemon, q, k), "near_uniform_scores")
    assert heads(said) == [0] and "learning rate" in said["text"]
    n = said["numbers"]
    assert n["normalized_entropy"] > 0.98 and n["score_spread"] < 0.1 and n["expected_spread"] < 0.5
    np.testing.assert_allclose(n["query_length"], np.sqrt((q ** 2).sum(1).mean()), rtol=1e-5)
    np.testing.assert_allclose(n["key_length"], np.sqrt((k ** 2).sum(1).mean()), rtol=1e-5)
    apart = np.sqrt(((k - k.mean(0)) ** 2).sum(1).mean())
    np.testing.assert_allclose(n["key_difference"], apart / n["key_length"], rtol=1e-5)
    np.testing.assert_allclose(n["expected_spread"], n["query_length"] * apart / 4 / 4, rtol=1e-5)
    assert uniform_codes(attended(daemon, 20 * q, 20 * k)) == set()
    assert uniform_codes(attended(daemon, 10 * q, 10 * k, scale=0.001)) == {"near_uniform_scores"}


def test_keys_that_are_alike(daemon):
    q, common = vectors(24, 16, 3, 1), vectors(1, 16, 3, 2)
    k = common + vectors(24, 16, 0.02, 3)
    said = found(attended(daemon, q, k), "near_uniform_keys")
    assert "embeddings" in said["text"] and said["numbers"]["key_difference"] < 0.1
    assert uniform_codes(attended(daemon, q, common + vectors(24, 16, 3, 3))) == set()


def test_nothing_to_attend_to(daemon):
    """Long queries and different keys in subspaces that have nothing to do with each other."""
    q, k = vectors(24, 16, 3, 1), vectors(24, 16, 3, 2)
    q[:, 8:], k[:, :8] = 0, 0
    said = found(attended(daemon, q, k), "near_uniform_task")
    assert "task" in said["text"] and said["numbers"]["expected_spread"] > 0.5
    k[:, :8] = vectors(24, 8, 3, 5)
    assert uniform_codes(attended(daemon, q, k)) == set()


def test_each_head_has_its_cause(daemon):
    small, long, other = vectors(24, 8, 0.05, 1), vectors(24, 8, 3, 2), vectors(24, 8, 3, 3)
    alike = vectors(1, 8, 3, 4) + vectors(24, 8, 0.01, 5)
    answer = attended(daemon, [[small, long, long]], [[small, alike, other]])
    assert heads(found(answer, "near_uniform_scores")) == [0] and heads(found(answer, "near_uniform_keys")) == [1]
    assert uniform_codes(answer) == {"near_uniform_scores", "near_uniform_keys"}


def test_hidden_keys_have_no_say(daemon):
    """Keys are alike but for one, which no query sees."""
    q, k = vectors(12, 8, 3, 1), vectors(1, 8, 3, 2) + vectors(12, 8, 0.01, 3)
    k[11] = 1000
    assert uniform_codes(attended(daemon, q, k, key_lengths=[11])) == {"near_uniform_keys"}


def test_weights_alone_cannot_tell_the_cause(daemon):
    even = np.full((8, 8), 1 / 8)
    said = found(analysed(daemon, even), "near_uniform")
    assert "cannot tell" in said["text"] and set(said["numbers"]) == {"normalized_entropy"}
    even[:, 0] += 0.5
    assert uniform_codes(analysed(daemon, even / even.sum(1, keepdims=True))) == set()


def test_a_causal_mask_is_not_uniformity(daemon):
    """Entropies are compared with what each row can see."""
    even = np.tril(np.ones((8, 8))) / np.arange(1, 9)[:, None]
    assert "near_uniform" in codes(analysed(daemon, even, is_causal=True))
    assert "near_uniform" not in codes(analysed(daemon, even))


def test_learned_scores_leave_the_cause_open(daemon):
    zero = np.zeros((4, 8)).tolist()
    answer = attended(daemon, vectors(6, 8, 1, 1), vectors(6, 8, 1, 2),
                      score={"kind": "additive", "w_q": zero, "w_k": zero, "v": [1, 1, 1, 1]})
    said = found(answer, "near_uniform")
    assert said["numbers"]["score_spread"] == 0


# --- saturation, sinks ---

def test_saturated_softmax(daemon):
    """The chapter's: dot products of width 512 that nobody divides by sqrt(512) spread by 22.6."""
    q, k = vectors(40, 512, 1, 1), vectors(40, 512, 1, 2)
    said = found(attended(daemon, q, k, scale=False), "saturated_softmax")
    assert 20 < said["numbers"]["score_spread"] < 25 and "divided" in said["text"]
    answer = attended(daemon, q, k)
    assert "saturated_softmax" not in codes(answer)


def test_saturated_weights(daemon):
    hard = np.full((2, 6, 6), 0.001) + np.eye(6) * 0.994
    assert heads(found(analysed(daemon, hard), "saturated_softmax")) == [0, 1]
    soft = np.full((2, 6, 6), 0.01) + np.eye(6) * 0.94
    assert "saturated_softmax" not in codes(analysed(daemon, soft))


def test_sink_heads(daemon):
    p = weights(3, 12, 12, size=0.5)
    p[1] = 0.3 * p[1]
    p[1, :, 0] += 0.7
    said = found(analysed(daemon, p), "sink_heads")
    assert heads(said) == [1] and said["numbers"]["sink"] > 0.7
    np.testing.assert_allclose(said["numbers"]["sink_rate"], 1 / 3, rtol=1e-6)
    p[1, :, [0, 5]] = p[1, :, [5, 0]]  # a favourite key that is not the first is none
    assert "sink_heads" not in codes(analysed(daemon, p))


def test_short_causal_rows_are_no_sink(daemon):
    """Of 4 rows under a causal mask the first key has half of the weight whatever the head does."""
    even = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    assert even[:, 0].mean() > 0.3
    assert "sink_heads" not in codes(analysed(daemon, even, is_causal=True))
    sink = np.tril(np.full((16, 16), 1e-3))
    sink[:, 0] = 1 - sink[:, 1:].sum(1)
    assert heads(found(analysed(daemon, sink, is_causal=True), "sink_heads")) == [0]


# --- heads that are alike ---

def test_head_collapse(daemon):
    """One pattern, four times, with a little noise; as a causal mask makes all heads alike, without its share."""
    base, noise = 1.5 * RNG(1).standard_normal((16, 16)), RNG(2).standard_normal((4, 16, 16))
    hidden = np.triu(np.full((16, 16), -np.inf), 1)
    said = found(analysed(daemon, softmax(base + 0.1 * noise + hidden), is_causal=True), "head_collapse")
    assert heads(said) == [0, 1, 2, 3] and said["numbers"]["mean_centered_cosine"] > 0.9
    assert said["numbers"]["pairs"] == 6 and "diversity" in said["text"]
    diverse = analysed(daemon, softmax(0.3 * noise + hidden), is_causal=True)
    assert diverse["pairs"][0]["mean_cosine"] > 0.85  # the plain cosine would nearly cry
    assert not codes(diverse) & {"head_collapse", "similar_heads"}


def test_similar_heads(daemon):
    p = weights(4, 10, 10)
    p[3] = 0.97 * p[1] + 0.03 * p[0]
    said = found(analysed(daemon, p), "similar_heads")
    assert heads(said) == [1, 3] and said["numbers"]["pairs"] == 1
    assert "head_collapse" not in codes(analysed(daemon, p))
    assert "similar_heads" not in codes(analysed(daemon, weights(4, 10, 10)))


def test_one_head_cannot_collapse(daemon):
    answer = analysed(daemon, weights(1, 6, 6))
    assert "pairs" not in answer and not codes(answer) & {"head_collapse", "similar_heads"}


# --- masks, memory ---

def test_weights_that_do_not_keep_to_their_mask(daemon):
    p = weights(2, 6, 6)
    p[0] = np.tril(p[0])
    p[0] /= p[0].sum(1, keepdims=True)
    said = found(analysed(daemon, p, is_causal=True), "mask_leak")
    assert heads(said) == [1]
    np.testing.assert_allclose(said["numbers"]["hidden_mass"], np.triu(p[1], 1).sum() / 6, rtol=1e-5)
    assert "mask_leak" not in codes(analysed(daemon, p[:1], is_causal=True))


def test_what_the_mask_linter_says(daemon):
    upper = np.triu(np.ones((5, 5), bool))
    p = softmax(np.where(upper, RNG(1).standard_normal((5, 5)), -np.inf))
    answer = analysed(daemon, p, attn_mask=upper.tolist())
    assert "causal" in found(answer, "mask_not_causal")["text"]
    assert [w["code"] for w in answer["warnings"]] == ["mask_not_causal"]
    assert "mask_not_causal" not in codes(analysed(daemon, p.T, attn_mask=upper.T.tolist()))


def test_weights_that_look_causal(daemon):
    p = np.tril(weights(8, 8)) / np.tril(weights(8, 8)).sum(1, keepdims=True)
    answer = analysed(daemon, p)
    assert [w["code"] for w in answer["warnings"]] == ["looks_causal"]
    assert "warnings" not in analysed(daemon, p, is_causal=True)
    p[0, 1] = 0.1
    assert "warnings" not in analysed(daemon, p)


def test_memory_of_the_full_matrix(daemon):
    """256 MiB are worth a word. This daemon holds none of it."""
    body = {"query": {"shape": [8192, 2], "random": "normal", "seed": 1}, "return": [],
            "analysis": ["diagnoses"], "window": [64, 0]}
    said = found(ask(daemon, body)["analysis"], "memory")
    assert said["numbers"] == {"bytes_a_layer": 2 ** 28, "layers": 1}
    assert "256 MiB a layer" in said["text"] and said["heads"] == []
    body["query"]["shape"] = [4096, 2]
    assert "memory" not in codes(ask(daemon, body)["analysis"])


# --- names of patterns ---

SENTENCE = ["The", "cat", "sat", "on", "the", "mat", ".", "<pad>"]


def patterns(daemon, p, **fields):
    return [(h["pattern"]["name"], h["pattern"]["shape"]) for h in analysed(daemon, p, **fields)["heads"]]


def chapter():
    """The four heads of the chapter's picture."""
    n = len(SENTENCE)
    near = np.eye(n) * 0.4 + np.eye(n, k=1) * 0.3 + np.eye(n, k=-1) * 0.3
    nouns, structure, full_stop = np.zeros((n, n)), np.eye(n) * 0.5, np.zeros((n, n))
    nouns[:, [1, 5]] = 0.5
    structure[0, 4] = structure[4, 0] = 0.5
    structure[1, 5] = structure[5, 1] = 0.25
    full_stop[:, -2] = 1
    return np.stack([h / h.sum(1, keepdims=True) for h in (near, nouns, structure, full_stop)])


def test_the_chapters_heads_have_their_names(daemon):
    names = patterns(daemon, chapter(), labels={"key": SENTENCE, "query": SENTENCE},
                     classes=[{"name": "nouns", "keys": [5, 1, 5]}])
    assert names == [("adjacent", "diagonal"), ("nouns", "vertical"), ("structural", "diagonal"),
                     ("punctuation", "vertical")]


def shifted(n, k, share=0.9):
    """Most weight on the token at offset k, where there is one."""
    p = np.full((n, n), (1 - share) / n)
    for i in range(n):
        p[i, min(max(i + k, 0), n - 1)] += share
    return p


NAMES = {
    "previous token": lambda: shifted(20, -1), "current token": lambda: shifted(20, 0),
    "next token": lambda: shifted(20, 1), "offset -3": lambda: shifted(40, -3),
    "uniform": lambda: np.full((8, 8), 1 / 8), "heterogeneous": lambda: weights(12, 12, size=1.5),
    "first token": lambda: 0.3 * weights(12, 12) + 0.7 * np.eye(12)[0], "single key": lambda: 0.3 * weights(
        12, 12) + 0.7 * np.eye(12)[4],
    "local": lambda: softmax(np.where(np.abs(np.subtract.outer(range(24), range(24))) <= 2,
                                      RNG(4).standard_normal((24, 24)), -9)),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(daemon, name):
    assert [n for n, _ in patterns(daemon, NAMES[name]())] == [name]


def test_induction_and_duplicates(daemon):
    """Random tokens twice: an induction head looks behind the first copy, a duplicate head at it."""
    n, ids = 20, list(range(10)) * 2
    induction, duplicate = weights(n, n, size=0.3), weights(n, n, size=0.3)
    for i in range(10, n):
        induction[i] = 0.1 * induction[i] + 0.9 * np.eye(n)[i - 9]
        duplicate[i] = 0.1 * duplicate[i] + 0.9 * np.eye(n)[i - 10]
    answer = analysed(daemon, [induction, duplicate], ids={"key": ids})
    assert [h["pattern"]["name"] for h in answer["heads"]] == ["induction", "duplicate token"]
    assert answer["heads"][0]["measures"]["induction"] > 0.9 > answer["heads"][1]["measures"]["induction"]
    assert [n for n, _ in patterns(daemon, [induction, duplicate], ids={"key": list(range(n))})] == [
        "heterogeneous", "heterogeneous"]


def test_blocks(daemon):
    segments = [0] * 6 + [1] * 6
    same = np.equal.outer(segments, segments)
    p = softmax(np.where(same, RNG(2).standard_normal((12, 12)), -4))
    answer = analysed(daemon, p, segments={"key": segments})
    assert (answer["heads"][0]["pattern"]["name"], answer["heads"][0]["pattern"]["shape"]) == ("block", "block")
    assert "block_mass" not in analysed(daemon, p)["heads"][0]["measures"]


# --- layers, sizes ---

def test_twelve_layers_of_twelve_heads(daemon):
    """An overview of 12 x 12 heads over 512 tokens, and all measures of as many heads, in under 1 MB each."""
    def previous(n):
        p = np.zeros((12, 1, 12, n, n), np.float32)
        p[..., :, :] = np.eye(n, k=-1)
        p[:, :, :, 0, 0] = 1
        p[7, 0, 3] = 1 / n
        return p
    p = previous(512)
    from safetensors.numpy import save
    kind = {"Content-Type": "application/vnd.safetensors"}
    for fields in ({}, {"heatmap": {"encoding": "u8"}}, {"heatmap": {"pool": "both"}}):
        reply = daemon.post("/v1/heatmaps", save({"weights": p}, {"request": json.dumps(fields)}), headers=kind)
        assert reply.status_code == 200 and len(reply.content) < 1e6, len(reply.content)
        maps = reply.json()["heads"]
        assert [(m["layer"], m["batch"], m["head"]) for m in maps] == [(n // 12, 0, n % 12) for n in range(144)]
        assert all(min(m["shape"]) >= 8 for m in maps)
    reply = daemon.post(PATH, save({"weights": previous(96)}, {"request": "{}"}), headers=kind)
    assert reply.status_code == 200 and len(reply.content) < 1e6, len(reply.content)
    answer = reply.json()
    odd = [h for h in answer["heads"] if h["pattern"]["name"] != "previous token"]
    assert [(h["layer"], h["batch"], h["head"], h["pattern"]["name"]) for h in odd] == [(7, 0, 3, "uniform")]
    assert found(answer, "near_uniform")["heads"] == [{"layer": 7, "batch": 0, "head": 3}]
    collapsed = [d for d in answer["diagnoses"] if d["code"] == "head_collapse"]
    assert len(collapsed) == 12 and collapsed[0]["heads"][0] == {"layer": 0, "batch": 0, "head": 0}
    assert collapsed[3]["text"].startswith("Layer 3: the 12 heads have collapsed")


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 4, 4), (2, 0, 4, 4), (0, 2, 3, 4, 4)])
def test_nothing_to_analyse(daemon, shape):
    answer = ask(daemon, {"weights": {"shape": list(shape), "data": []}, "heatmap": {}}, PATH)
    rank3 = (1, 1, 1) + shape
    assert len(answer["heads"]) == np.prod(rank3[-5:-2])
    assert all(h["rows"] == 0 and h["measures"]["entropy"] is None and h["pattern"]["name"] == "none"
               for h in answer["heads"])


# --- forms of the answer ---

BODIES = [
    {"weights": weights(2, 3, 6, 6).tolist()},
    {"weights": weights(2, 2, 3, 6, 6).tolist(), "other": weights(2, 2, 3, 6, 6, seed=1).tolist(), "is_causal": True,
     "analysis": ["all", "rollout"], "heatmap": {"pool": "both"}, "decimals": 3},
    {"weights": weights(3, 4, 8).tolist(), "other": weights(2, 4, 8).tolist(), "analysis": "pairs"},
    {"weights": weights(4, 5, 8).tolist(), "grad_output": weights(4, 5, 3).tolist(), "top_keys": 0,
     "value": weights(2, 8, 3).tolist(), "labels": {"key": list("ab.cdab,")}, "classes": [{"name": "c", "keys": []}]},
    {"weights": np.full((2, 5, 5), 0.2).tolist(), "segments": {"key": [0, 0, 1, 1, 1]}, "dry_run": True},
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_answers_match_their_schema(daemon, document, body):  # noqa: F811
    schema(document, "AnalysesRequest").validate(body)
    answer = ask(daemon, body, PATH)
    schema(document, "Analyses").validate(answer)
    if not body.get("dry_run"):
        assert daemon.post(PATH, body).json() == answer
        assert "Jain and Wallace" in answer["caveat"]
        used = set(answer["heads"][0]["measures"])
        assert used <= set(answer["legend"]) and all(answer["legend"][name]["formula"] for name in used)


def test_attention_matches_its_schema(daemon, document):  # noqa: F811
    body = {"query": weights(2, 3, 6, 4).tolist(), "analysis": ["all"], "labels": {"key": list("abc.ef")}}
    schema(document, "AttentionRequest").validate(body)
    answer = ask(daemon, body)
    schema(document, "Attention").validate(answer)
    assert {"scores", "pairs"} & set(answer["analysis"]) == {"pairs"}
    assert answer["analysis"]["heads"][0]["measures"]["score_spread"] > 0


def test_items_that_are_asked_for(daemon):
    p = weights(2, 6, 6)
    answer = analysed(daemon, p, analysis=["entropy", "sink"])
    assert set(answer) == {"heads", "legend", "caveat"}
    assert set(answer["heads"][0]["measures"]) == {
        "entropy", "normalized_entropy", "effective_tokens", "participation", "first_token", "sink", "sink_key",
        "sink_logit_mass"}
    assert analysed(daemon, p, analysis=["all"]) == analysed(daemon, p)
    assert analysed(daemon, p, analysis=[])["heads"][0]["measures"] == {}


def test_text(daemon):
    text = daemon.post(PATH, {"weights": chapter().tolist(), "labels": {"key": SENTENCE}, "heatmap": {}},
                       headers=TEXT).text
    assert "head 3: punctuation (vertical): looks at punctuation: 100 % of its weight, 8 times their share" in text
    assert "\nsaturated_softmax: Head 3: the softmax is saturated" in text and "entropy " in text
    assert "Jain and Wallace" in text and "heatmap, batch 0, head 2" in text


def test_pictures(daemon):
    """The difference, of which blue and red say the sign; else the weights."""
    body = {"weights": weights(2, 4, 4).tolist(), "other": weights(2, 4, 4, seed=1).tolist(),
            "figure": {"title": "What changed"}}
    for accept, start in (("image/svg+xml", b"<svg"), ("image/png", b"\x89PNG"), ("text/csv", b"")):
        reply = daemon.post(PATH, body, headers={"Accept": accept})
        assert reply.status_code == 200 and reply.headers["Content-Type"].startswith(accept), reply.text[:200]
        assert start in reply.content[:200]
    svg = daemon.post(PATH, body, headers={"Accept": "image/svg+xml"}).text
    assert "What changed" in svg and "\u2212" in svg or "-0" in svg
    rows = daemon.post(PATH, body, headers={"Accept": "text/csv"}).text
    assert "-0." in rows
    single = daemon.post(PATH, {"weights": body["weights"]}, headers={"Accept": "text/csv"}).text
    assert "-0." not in single


# --- stored runs ---

def stored(daemon, seed=1, **fields):
    body = {"query": weights(2, 3, 6, 4, seed=seed).tolist(), "key": weights(2, 3, 8, 4, seed=seed + 1).tolist(),
            "value": weights(2, 3, 8, 4).tolist(), "is_causal": True, "query_offset": "end", "analysis": ["all"],
            "labels": {"query": list("abcdef"), "key": list("xyabc.ef")}}
    answer = ask(daemon, body | {"store": True, "return": ["weights"]} | fields)
    return answer["run"]["id"], answer


def test_metrics_of_a_run(daemon, document):  # noqa: F811
    run, answer = stored(daemon)
    reply = daemon.get(f"/v1/runs/{run}/metrics")
    assert reply.status_code == 200 and reply.json() == answer["analysis"]
    schema(document, "Analysis").validate(reply.json())
    assert "immutable" in reply.headers["Cache-Control"]
    again = daemon.get(f"/v1/runs/{run}/metrics", headers={"If-None-Match": reply.headers["ETag"]})
    assert again.status_code == 304
    part = daemon.get(f"/v1/runs/{run}/metrics?analysis=entropy,sink&top_keys=2&decimals=2").json()
    assert set(part) == {"heads", "legend", "caveat"} and "entropy" in part["legend"]
    assert "patterns" not in part and "head 0" in daemon.get(f"/v1/runs/{run}/metrics", headers=TEXT).text


@pytest.mark.parametrize("query, pointer", [("analysis=rollout", "/analysis/0"), ("layer=1", "/layer"),
                                            ("radius=-1", "/radius"), ("analyses=all", "/analyses")])
def test_metrics_refusals(daemon, query, pointer):
    run, _ = stored(daemon)
    reply = daemon.get(f"/v1/runs/{run}/metrics?{query}")
    assert reply.status_code in (400, 422) and reply.json()["pointer"] == pointer, reply.text


def test_runs_as_operands(daemon, document):  # noqa: F811
    """A run beside the same weights as a tensor: equal measures, nothing between them."""
    run, answer = stored(daemon)
    other, second = stored(daemon, seed=5)
    body = {"run": run, "other_run": other, "heatmap": {}}
    schema(document, "AnalysesRequest").validate(body)
    both = ask(daemon, body, PATH)
    schema(document, "Analyses").validate(both)
    assert both["heads"] == answer["analysis"]["heads"] and both["pairs"] == answer["analysis"]["pairs"]
    a, b = np.array(answer["weights"]), np.array(second["weights"])
    for n, h in enumerate(both["comparison"]["difference"]["heads"]):
        np.testing.assert_allclose(h["max"], (a - b)[divmod(n, 3)], atol=1e-7)
        assert h["hidden"] == [[i, i + 3, 8] for i in range(5)]
    same = ask(daemon, {"run": run, "other": answer["weights"]}, PATH)["comparison"]
    for n, h in enumerate(same["heads"]):
        assert abs(h["js"]) < 1e-7 and h["total_variation"] < 1e-7 and h["nearest"]["head"] == n % 3


@pytest.mark.parametrize("body, status, pointer", [
    ({"run": "0" * 32}, 404, None), ({"run": None}, 422, "/weights"), ({"weights": [[1]], "run": "0" * 32}, 422, "/weights"),
    ({"weights": [[1]], "other": [[1]], "other_run": "0" * 32}, 422, "/other"),
    ({"weights": [[1]], "other_run": "0" * 32}, 404, None),
])
def test_operands_that_are_not_there(daemon, body, status, pointer):
    reply = daemon.post(PATH, body)
    assert (reply.status_code, reply.json().get("pointer")) == (status, pointer), reply.text


def test_a_run_has_its_own_mask(daemon):
    run, _ = stored(daemon)
    refused(daemon, {"run": run, "is_causal": True}, "invalid_value", "/is_causal", "run", path=PATH)


# --- refusals ---

P = weights(2, 2, 4, 4).tolist()


@pytest.mark.parametrize("body, code, pointer, words", [
    ({"weights": [1, 2]}, "shape_mismatch", "/weights", ["rank 1"]),
    ({"weights": np.zeros((1,) * 6).tolist()}, "shape_mismatch", "/weights", ["rank 6"]),
    ({"weights": P, "other": weights(2, 2, 4, 5).tolist()}, "shape_mismatch", "/other", ["(1, 2, 4, 4)", "1, 2, 4, 5"]),
    ({"weights": P, "other": weights(2, 3, 4, 4).tolist(), "attn_mask": np.ones((2, 4, 4), bool).tolist()}, "shape_mismatch",
     "/other", ["2 heads"]),
    ({"weights": P, "classes": [{"name": "a", "keys": [0]}, {"name": "b", "keys": [1, 4]}]}, "invalid_value",
     "/classes/1/keys/1", ["4 is outside", "4 keys"]),
    ({"weights": P, "classes": [{"keys": [0]}]}, "invalid_value", "/classes/0", ["name"]),
    ({"weights": P, "ids": {"key": [1, 2, 3]}}, "shape_mismatch", "/ids/key", ["[4] or [2, 4]", "[3]"]),
    ({"weights": P, "ids": {"key": [1, 2, 3, 4], "query": [[1]]}}, "shape_mismatch", "/ids/query", ["[1, 1]"]),
    ({"weights": P, "segments": {"key": [0, 0, 1]}}, "shape_mismatch", "/segments/key", ["4 numbers", "3"]),
    ({"weights": P, "segments": {"key": [0, 0, 1, 32]}}, "invalid_value", "/segments/key", ["0 to 31", "32"]),
    ({"weights": P, "labels": {"key": ["a"]}}, "shape_mismatch", "/labels/key", []),
    ({"weights": P, "attn_mask": [[1, 0, 0, 0]] * 4}, "mask_semantics", "/attn_mask", []),
    ({"weights": P, "grad_output": P}, "invalid_value", "/grad_output", ["value"]),
    ({"weights": P, "analysis": ["gradient"]}, "invalid_value", "/analysis", ["grad_output"]),
    ({"weights": P, "grad_output": P, "value": weights(2, 3, 4, 4).tolist()}, "shape_mismatch", "/value", ["[2, 3, 4, 4]"]),
    ({"weights": P, "grad_output": weights(2, 2, 3, 4).tolist(), "value": P}, "shape_mismatch", "/grad_output", ["[2, 2, 4, Ev]"]),
    ({"weights": weights(2, 4, 5).tolist(), "analysis": ["rollout"]}, "shape_mismatch", "/weights", ["4", "5"]),
    ({"weights": P, "analysis": ["entropies"]}, "invalid_value", "/analysis/0", ["entropy"]),
    ({"weights": P, "radius": -1}, "invalid_value", "/radius", []),
    ({"weights": P, "heatmap": {"heads": [2]}}, "invalid_value", "/heatmap/heads/0", []),
    ({"weights": P, "wieghts": P}, "unknown_field", "/wieghts", ["weights"]),
], ids=lambda x: x if isinstance(x, str) else "")
def test_refusals(daemon, body, code, pointer, words):
    refused(daemon, body, code, pointer, *words, path=PATH)


def test_attention_has_no_rollout(daemon):
    refused(daemon, {"query": [[1]], "analysis": ["rollout"]}, "invalid_value", "/analysis/0")


def test_limits(start):
    daemon = start("--max-cells", "100")
    problem = refused(daemon, {"weights": weights(11, 10).tolist()}, "too_large", "/weights", path=PATH, status=413)
    assert problem["limit"] == {"value": 100, "setting": "max_cells"}


def test_the_example_is_what_it_says():
    """The worked example holds the chapter's four heads."""
    example = json.loads((ROOT / "config/examples/head-patterns.json").read_text())
    np.testing.assert_allclose(np.array(example["cases"][0]["request"]["weights"]), chapter(), atol=1e-9)
