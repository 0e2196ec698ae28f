"""POST /v1/analyses and `analysis` of /v1/attention: sizes, forms of the answer and their schemas, stored runs; every
refusal has its place. What is diagnosed: test_api_diagnoses.py."""
import json

import numpy as np
import pytest
from analyses import PATH, SENTENCE, analysed, chapter, found, weights
from api_client import ask, refused
from conftest import ROOT
from test_api_index import document, schema  # noqa: F401, a fixture

TEXT = {"Accept": "text/plain"}


# --- layers, sizes ---

@pytest.mark.parametrize("shape", [[0, 1, 3, 3], [0, 2, 1, 3, 3], [2, 0, 1, 3, 3], [1, 0, 3, 3], [0, 3, 3]], ids=str)
@pytest.mark.parametrize("mask", [{}, {"is_causal": True}, {"key_lengths": []}, {"is_causal": True, "query_offset": 2}], ids=str)
@pytest.mark.parametrize("more", [{"ids": {"key": [0, 0, 1]}}, {"segments": {"key": [0, 0, 1]}}, {"labels": {"key": list("abc"), "query": list("abc")}},
                                  {"classes": [{"name": "a", "keys": [1]}]}], ids=lambda more: next(iter(more)))
def test_weights_without_entries(daemon, shape, mask, more):
    reply = daemon.post(PATH, {"weights": {"shape": shape, "data": []}} | mask | more)
    if reply.status_code == 422:  # one length a batch entry; segments are those of keys from query_offset on
        assert reply.json()["pointer"] in {"/key_lengths", "/segments/query"}
    else:
        assert reply.status_code == 200 and reply.json()["heads"] == []


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
    assert all(h["num_rows"] == 0 and h["measures"]["entropy"] is None and h["pattern"]["name"] == "none"
               for h in answer["heads"])


@pytest.mark.parametrize("shape", [(0, 1, 2, 2), (1, 0, 1, 2, 2), (0, 1, 1, 2, 2)])
@pytest.mark.parametrize("lengths", [False, True])
def test_nothing_to_analyse_by_tokens(daemon, shape, lengths):
    """One length a batch entry, also where there is no layer."""
    mask = {"key_lengths": [2] * shape[-4]} if lengths else {"is_causal": True}
    body = {"weights": {"shape": list(shape), "data": []}, "labels": {"query": ["a", "b"], "key": ["a", "b"]}}
    assert ask(daemon, {**body, **mask}, PATH)["heads"] == []


# --- forms of the answer ---

BODIES = [
    {"weights": weights(2, 3, 6, 6).tolist()},
    {"weights": weights(2, 2, 3, 6, 6).tolist(), "other": weights(2, 2, 3, 6, 6, seed=1).tolist(), "is_causal": True,
     "analysis": ["all", "rollout"], "heatmap": {"pool": "both"}, "decimals": 3},
    {"weights": weights(3, 4, 8).tolist(), "other": weights(2, 4, 8).tolist(), "analysis": "pairs"},
    {"weights": weights(4, 5, 8).tolist(), "grad_output": weights(4, 5, 3).tolist(), "top_k": 0,
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


@pytest.mark.parametrize("fields, missing", [
    ({}, {"duplicate", "induction", "structure", "blocks", "scores", "classes", "pairs"}),
    ({"labels": {"key": list("ab,aba")}}, {"blocks", "scores", "pairs"}),
    ({"ids": {"key": [1, 2, 3, 1, 2, 1]}, "segments": {"key": [0, 0, 0, 1, 1, 1]}, "classes": [{"name": "c", "keys": [2]}]},
     {"scores", "pairs"})])
def test_items_without_what_they_need(daemon, document, fields, missing):  # noqa: F811
    names = ["entropy", "duplicate", "induction", "structure", "blocks", "scores", "classes", "pairs"]
    answer = analysed(daemon, weights(1, 6, 6), analysis=names, **fields)
    schema(document, "Analyses").validate(answer)
    assert set(answer["omitted"]) == missing and all(answer["omitted"].values())
    text = daemon.post(PATH, {"weights": weights(1, 6, 6).tolist(), "analysis": names} | fields, headers=TEXT).text
    assert {line.split()[0] for line in text.splitlines() if "is left out: it needs" in line} == missing


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
    reply = daemon.get(f"/v1/runs/{run}/analyses")
    assert reply.status_code == 200 and reply.json() == answer["analysis"]
    schema(document, "Analysis").validate(reply.json())
    assert "immutable" in reply.headers["Cache-Control"]
    again = daemon.get(f"/v1/runs/{run}/analyses", headers={"If-None-Match": reply.headers["ETag"]})
    assert again.status_code == 304
    part = daemon.get(f"/v1/runs/{run}/analyses?analysis=entropy,sink&top_k=2&decimals=2").json()
    assert set(part) == {"heads", "legend", "caveat"} and "entropy" in part["legend"]
    assert "patterns" not in part and "head 0" in daemon.get(f"/v1/runs/{run}/analyses", headers=TEXT).text


@pytest.mark.parametrize("query, pointer", [("analysis=rollout", "/analysis"), ("layer=1", "/layer"),
                                            ("radius=-1", "/radius"), ("analyses=all", "/analyses")])
def test_metrics_refusals(daemon, query, pointer):
    run, _ = stored(daemon)
    reply = daemon.get(f"/v1/runs/{run}/analyses?{query}")
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


def test_products_with_gradients_have_no_entropy(daemon):
    body = {"weights": [[1, 0], [0.2, 0.8]], "grad_output": [[1, 0], [0, 1]], "value": [[1, 2], [3, 4]],
            "analysis": ["gradient"]}
    for heads in ("all", "mean"):
        (shown,) = ask(daemon, body | {"heatmap": {"heads": heads}}, PATH)["gradient"]["heatmap"]["heads"]
        assert shown["row_entropy"] == [None, None] and shown["max"][1] == pytest.approx([0.4, 3.2], rel=1e-6)


def test_sums_of_floats_are_no_sink(daemon):
    for seed in range(20):
        body = {"query": {"shape": [9, 4], "random": "normal", "seed": seed}, "return": [], "analysis": ["sink"]}
        (head,) = ask(daemon, body)["analysis"]["heads"]
        assert head["measures"]["sink_logit_mass"] == 0


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
