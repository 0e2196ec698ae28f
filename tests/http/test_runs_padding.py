"""Padding of stored runs: rows of padding are answered as any others, and no measure counts them. What a padded sequence
measures is what it measures alone."""
import numpy as np
import pytest
from api_client import ask
from captured import store
from oracle.captures import File, write

RNG = np.random.default_rng(11)
REAL, LONG = 7, 12  # tokens of the sequence, alone and padded
QUERY, KEY = (3 * RNG.standard_normal((1, 2, LONG, 8)).astype(np.float32) for _ in range(2))
WORDS = "the cat , saw the dog .".split()
KEEP = np.arange(LONG) < REAL
LOW = np.float32(np.finfo(np.float32).min)
# How a capture says which tokens are padding: its members and its tensors.
WAYS = {
    "both lengths": ({"key_lengths": [REAL], "query_lengths": [REAL]}, {}),
    "key lengths": ({"key_lengths": [REAL]}, {}),
    "booleans": ({}, {"attn_mask": ("BOOL", KEEP.reshape(1, 1, 1, LONG))}),
    "booleans of keys": ({}, {"attn_mask": ("BOOL", KEEP)}),
    "-infinity": ({}, {"attn_mask": ("F32", np.where(KEEP, 0, -np.inf).reshape(1, 1, 1, LONG))}),
    "bias": ({}, {"attn_bias": ("F32", np.where(KEEP, 0, -np.inf).reshape(1, 1, 1, LONG))}),
}


def post(daemon, n=LONG, tensors=None, texts=None, front=False, **members):
    """A site of the sequence alone, or with padding behind or in front of it."""
    at = slice(LONG - REAL if front else 0, None) if n == LONG else slice(REAL)
    roll = LONG - REAL if front else 0
    parts = {f"sites.0.{name}": ("F32", np.roll(x, roll, 2)[:, :, :n] if n == LONG else x[:, :, at])
             for name, x in (("query", QUERY), ("key", KEY))}
    parts |= {f"sites.0.{name}": x for name, x in (tensors or {}).items()}
    run = {"version": 2, "sites": [members]} | ({"texts": texts} if texts else {})
    return store(daemon, write(File(run, parts)))


def get(daemon, run, what):
    reply = daemon.get(f"/v1/runs/{run['id']}/{what}")
    assert reply.status_code == 200, reply.text
    return reply.json()


def same(got, want, at=""):
    """Equal but for rounding: padded sums have other pieces."""
    if isinstance(want, dict):
        assert set(got) == set(want), at
        for name in want:
            same(got[name], want[name], f"{at}/{name}")
    elif isinstance(want, list):
        assert len(got) == len(want), at
        for i, pair in enumerate(zip(got, want)):
            same(*pair, f"{at}/{i}")
    elif isinstance(want, float):
        assert got == pytest.approx(want, abs=1e-5), at
    else:
        assert got == want, at


def measures(daemon, run):
    """All that is measured of a run."""
    metrics, heads = get(daemon, run, "analyses?analysis=all"), get(daemon, run, "heads")
    analysis = ask(daemon, {"run": run["id"], "analysis": "all"}, "/v1/analyses")
    return {"metrics": metrics, "heads": heads["heads"], "analysis": {k: analysis[k] for k in ("heads", "pairs", "diagnoses")}}


def alone(daemon, **members):
    texts = [{"tokens": WORDS}] if "query_text" in members else None
    return post(daemon, REAL, texts=texts, **members)


LABELLED = {"query_text": 0, "key_text": 0}


@pytest.mark.parametrize("labels", [{}, LABELLED], ids=["plain", "labelled"])
@pytest.mark.parametrize("members", [{}, {"is_causal": True}], ids=["all", "causal"])
@pytest.mark.parametrize("way", WAYS)
def test_a_padded_sequence_measures_what_it_measures_alone(daemon, way, members, labels):
    more, tensors = WAYS[way]
    texts = [{"tokens": WORDS + ["[PAD]"] * (LONG - REAL)}] if labels else None
    run = post(daemon, tensors=tensors, texts=texts, **members, **labels, **more)
    got, want = measures(daemon, run), measures(daemon, alone(daemon, **members, **labels))
    for answer in (got, want):  # the class of [PAD] is there, and it has no weight
        for head in answer["metrics"]["heads"] + answer["analysis"]["heads"]:
            classes = head.get("classes", [])
            assert all(c["mass"] == 0 for c in classes if c["name"] == "special tokens")
            head["classes"] = [c for c in classes if c["name"] != "special tokens"]
    same(got, want)


@pytest.mark.parametrize("kind", ["self", "cross"])
def test_cross_attention_has_its_lengths(daemon, kind):
    """Without lengths of queries, all rows of cross-attention count."""
    run = post(daemon, tensors=WAYS["booleans"][1], kind=kind)
    assert {h["num_rows"] for h in get(daemon, run, "analyses")["heads"]} == {REAL if kind == "self" else LONG}
    run = post(daemon, tensors=WAYS["booleans"][1], kind=kind, query_lengths=[5])
    assert {h["num_rows"] for h in get(daemon, run, "analyses")["heads"]} == {5}


def test_two_texts_are_no_self_attention(daemon):
    texts = [{"tokens": ["x"] * LONG}] * 2
    run = post(daemon, tensors=WAYS["booleans"][1], texts=texts, query_text=0, key_text=1)
    assert {h["num_rows"] for h in get(daemon, run, "analyses")["heads"]} == {LONG}


def test_a_mask_by_rows_names_no_rows(daemon):
    mask = np.broadcast_to(KEEP, (1, 1, LONG, LONG)).copy()
    assert {h["num_rows"] for h in get(daemon, post(daemon, tensors={"attn_mask": ("BOOL", mask)}), "analyses")["heads"]} == {LONG}


def test_padding_in_front(daemon):
    mask = {"attn_mask": ("BOOL", np.roll(KEEP, LONG - REAL).reshape(1, 1, 1, LONG))}
    run = post(daemon, tensors=mask, front=True)
    got, want = get(daemon, run, "heads")["heads"], get(daemon, alone(daemon), "heads")["heads"]
    for a, b in zip(got, want, strict=True):
        assert a["num_rows"] == b["num_rows"] == REAL
        for name in ("entropy", "confidence", "distance", "previous_token", "gini", "top_share"):
            assert a["measures"][name] == pytest.approx(b["measures"][name], abs=1e-5), name


def eye(at):
    """Queries and keys [1, 1, 6, 6] with which row i looks at key at[i]."""
    q, k = np.zeros((1, 1, 6, 6), np.float32), np.eye(6, dtype=np.float32).reshape(1, 1, 6, 6)
    q[0, 0, np.arange(6), at] = 300
    return {"sites.0.query": ("F32", q), "sites.0.key": ("F32", k)}


def smallest(daemon):
    """Real rows look at the token before, rows of padding at key 0."""
    site = {"key_lengths": [3], "query_lengths": [3], "scale": 1}
    return store(daemon, write(File({"version": 2, "sites": [site]}, eye([0, 0, 1, 0, 0, 0]))))


def test_what_padding_receives_and_gives(daemon):
    run = smallest(daemon)
    [head] = get(daemon, run, "analyses")["heads"]
    assert head["num_rows"] == 3 and head["measures"]["previous_token"] == 1
    [of_heads] = get(daemon, run, "heads")["heads"]
    assert of_heads["num_rows"] == 3 and of_heads["measures"]["previous_token"] == 1
    [drawn] = get(daemon, run, "heatmaps")["heads"]
    assert drawn["received"] == [2, 1, 0, 0, 0, 0] and drawn["max"][3:] == [[1, 0, 0, 0, 0, 0]] * 3
    edges = get(daemon, run, "top-k?axis=key&cols=0&top_k=6")
    assert sorted(edges["row"]) == [0, 1, 2] and edges["weight"][:2] == [1, 1]
    assert get(daemon, run, "weights?rows=3:6")["weights"] == [[1, 0, 0, 0, 0, 0]] * 3


@pytest.mark.parametrize("cells", [1, 4, 9])
def test_pooled_heatmaps_leave_padding_out(daemon, cells):
    reply = daemon.get(f"/v1/runs/{smallest(daemon)['id']}/heatmaps", params={"max_cells": cells})
    assert reply.status_code == 200, reply.text
    assert sum(reply.json()["heads"][0]["received"]) == 3


def test_heads_are_compared_without_padding(daemon):
    """Two heads that differ in rows of padding alone are equal."""
    one, two = eye([0, 0, 1, 0, 0, 0]), eye([0, 0, 1, 2, 2, 2])
    parts = {name: ("F32", np.concatenate([one[name][1], two[name][1]], 1)) for name in one}
    site = {"key_lengths": [3], "query_lengths": [3], "scale": 1}
    run = store(daemon, write(File({"version": 2, "sites": [site]}, parts)))
    [pair] = get(daemon, run, "analyses?analysis=pairs")["pairs"]
    assert pair["cosine"][0][1] == 1 and pair["js"][0][1] == 0
    other = store(daemon, write(File({"version": 2, "sites": [site]}, one)))
    second = store(daemon, write(File({"version": 2, "sites": [site]}, two)))
    answer = ask(daemon, {"run": other["id"], "other_run": second["id"], "heatmap": {}}, "/v1/analyses")
    [compared] = answer["comparison"]["heads"]
    assert (compared["cosine"], compared["js"], compared["total_variation"]) == (1, 0, 0)
    assert [h["received"] for h in answer["comparison"]["difference"]["heads"]] == [[0] * 6]


def test_layers_have_their_own_padding(daemon):
    q, k = (np.stack([eye(at)[f"sites.0.{name}"][1] for at in ([0, 0, 1, 0, 0, 0], [0, 0, 1, 2, 3, 4])])
            for name in ("query", "key"))
    site = {"axes": ["layer", "batch", "head"], "key_lengths": [3, 6], "query_lengths": [3, 6], "scale": 1}
    run = store(daemon, write(File({"version": 2, "sites": [site]}, {"sites.0.query": ("F32", q), "sites.0.key": ("F32", k)})))
    for layer, rows in ((0, 3), (1, 6)):
        [head] = ask(daemon, {"run": run["id"], "layer": layer, "analysis": "all"}, "/v1/analyses")["heads"]
        assert head["num_rows"] == rows and head["measures"]["previous_token"] == 1


@pytest.mark.parametrize("extra", [{}, {"target_text": ["Le chat était fatigué.", "J'aime la pizza"]}], ids=["text", "pair"])
def test_a_model_and_its_stored_run_agree(daemon, extra):
    """A batch of two sequences, the second one padded: its answer and its run measure the same."""
    body = {"text": ["The cat sat on the mat because it was too tired.", "I like pizza"], "return": [], "analysis": "all",
            "store": True}
    answer = ask(daemon, body | extra, "/v1/models/en-fr-text/attention")
    compared = 0
    for analysis in answer["analyses"]:
        for site in answer["run"]["sites"]:
            if site["kind"] != analysis["kind"]:
                continue
            got = [h for h in get(daemon, answer["run"], f"analyses?site={site['site']}")["heads"]
                   if h["batch"] == analysis["sequence"]]
            want = [h for h in analysis["heads"] if h["layer"] == site["layer"]]
            for a, b in zip(got, want, strict=True):
                assert (a["num_rows"], a["pattern"]["name"]) == (b["num_rows"], b["pattern"]["name"]), (site["name"], b["head"])
                shared = set(a["measures"]) & set(b["measures"])
                assert len(shared) > 20
                for name in shared:
                    assert a["measures"][name] == pytest.approx(b["measures"][name], abs=1e-5), (site["name"], name)
                compared += 1
    assert compared >= 8
