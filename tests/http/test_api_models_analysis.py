"""`analysis` of /v1/models/{id}/attention beside /v1/analyses, to which the weights of the same model are posted."""
import numpy as np
import pytest
from api_client import array, ask, refused
from test_api_analyses_tensors import rollout
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_models import make, path

TEXTS, TARGETS = ["the red car .", "the car"], ["la voiture rouge .", "la voiture"]
KINDS = [{}, {"architecture": "transformer", "num_layers": 3}, {"architecture": "transformer", "num_layers": 2, "attention": "local", "radius": 1},
         {"attention": "strided", "radius": 0, "stride": 2}, {"attention": "block", "block_size": 2},
         {"architecture": "transformer", "num_layers": 1, "attention": "global", "num_global_keys": 1, "radius": 1}]
PATTERNS = {"local": {"kind": "local", "radius": 1}, "strided": {"kind": "strided", "stride": 2, "local": 0},
            "block": {"kind": "block", "size": 2}, "global": {"kind": "global", "num_keys": 1, "local": 1}}


def same(analysis, other):
    """The two answers agree, apart from numbers of rounding size."""
    if isinstance(other, dict):
        assert set(analysis) == set(other), (set(analysis) ^ set(other))
        for name in other:
            same(analysis[name], other[name])
    elif isinstance(other, list):
        assert len(analysis) == len(other)
        for one, two in zip(analysis, other):
            same(one, two)
    elif isinstance(other, float):
        assert analysis == pytest.approx(other, abs=1e-5)
    else:
        assert analysis == other


@pytest.mark.parametrize("hide", [None, [[1], []]])
@pytest.mark.parametrize("fields", KINDS, ids=lambda f: f.get("architecture", "seq2seq") + f.get("attention", ""))
def test_one_call_is_the_analysis_of_the_weights(daemon, document, fields, hide):  # noqa: F811
    made = make(daemon, **fields)
    body = {"text": TEXTS, "target_text": TARGETS} | ({"hide": hide} if hide else {})
    answer = ask(daemon, body | {"analysis": "all"}, path(made, "/attention"))
    schema(document, "ModelAttention").validate(answer)
    assert all("weights" not in site for site in answer["sites"])
    layers = made["num_layers"] if fields.get("architecture") else 1
    kinds = [site["kind"] for site in made["sites"]]
    assert [(a["kind"], a["sequence"]) for a in answer["analyses"]] == [(kind, b) for kind in kinds for b in (0, 1)]
    weights = ask(daemon, body | {"return": "weights"}, path(made, "/attention"))
    for analysis in answer["analyses"]:
        kind, b = analysis.pop("kind"), analysis.pop("sequence")
        source, target = (answer[side][b]["tokens"] for side in ("source", "target"))
        rows, cols = source if kind == "encoder" else target, ["<bos>", *target[:-1]] if kind == "decoder" else source
        own = [[[[row[:len(cols)] for row in head[:len(rows)]] for head in site["weights"][b]]] for site in weights["sites"] if site["kind"] == kind]
        assert len(own) == layers
        asked = {"weights": own, "labels": {"query": rows, "key": cols}, "is_causal": kind == "decoder"}
        if "attention" in fields:
            asked["pattern"] = PATTERNS[fields["attention"]]
        if hide and kind != "decoder":
            asked |= {"key_padding_mask": [i not in hide[b] for i in range(len(cols))], "key_padding_semantics": "keep"}
        other = ask(daemon, asked, "/v1/analyses")
        codes = {d["code"] for d in analysis["diagnoses"]}
        other["diagnoses"] = [d for d in other["diagnoses"] if d["code"] in codes]  # warnings of its own mask are among them
        other.pop("warnings", None)
        same(analysis, other)
    daemon.request("DELETE", path(made))


def test_sites_narrow_the_analysis(daemon):
    body = {"text": "the red car", "analysis": ["patterns", "entropy"], "sites": "cross"}
    answer = ask(daemon, body, "/v1/models/en-fr/attention")
    analysis, = answer["analyses"]
    assert analysis["kind"] == "cross" and [h["head"] for h in analysis["heads"]] == [0, 1, 2, 3]
    assert {"entropy", "effective_tokens"} <= set(analysis["heads"][0]["measures"]) and "pattern" in analysis["heads"][0]
    assert "pairs" not in analysis
    both = ask(daemon, body | {"return": ["weights", "logits"], "heatmap": {"heads": "mean"}}, "/v1/models/en-fr/attention")
    assert both["analyses"] == answer["analyses"] and "weights" in both["sites"][0] and "logits" in both
    text = daemon.post("/v1/models/en-fr/attention", body, headers={"Accept": "text/plain"}).text
    assert text.startswith("analysis of cross\nlayer 0, head 0: ")
    svg = daemon.post("/v1/models/en-fr/attention", body, headers={"Accept": "image/svg+xml"})
    assert svg.status_code == 200 and svg.text.startswith("<svg ")


@pytest.mark.parametrize("fields", [{}, {"attention": "local", "radius": 1}, {"attention": "additive", "norm": "after"}])
def test_rollout_of_the_encoder(daemon, document, fields):  # noqa: F811
    """The layers' weights multiplied in NumPy, for each sequence of a batch over its own tokens, one of them hidden."""
    made = make(daemon, architecture="transformer", num_layers=3, **fields)
    body = {"text": TEXTS, "target_text": TARGETS, "hide": [[1], []], "return": "weights", "analysis": ["rollout"]}
    answer = ask(daemon, body, path(made, "/attention"))
    schema(document, "ModelAttention").validate(answer)
    assert [(a["kind"], a["sequence"]) for a in answer["analyses"]] == [("encoder", 0), ("encoder", 1)]
    layers = np.stack([array(s["weights"]) for s in answer["sites"] if s["kind"] == "encoder"])  # [layers, B, H, S, S]
    for b, analysis in enumerate(answer["analyses"]):
        S = len(answer["source"][b]["tokens"])
        head, = analysis["rollout"]["heatmap"]["heads"]
        want = rollout(layers[:, b, :, :S, :S])
        assert np.abs(array(head["max"]) - want).max() < 1e-6 and np.allclose(want.sum(-1), 1)
        assert analysis["rollout"]["heatmap"]["labels"]["key"] == answer["source"][b]["tokens"]
        assert analysis["rollout"]["legend"].startswith("R_0 = I")
    both = ask(daemon, body | {"analysis": ["all", "rollout"], "heatmap": {"heads": [1], "rows": [0, 2]}}, path(made, "/attention"))
    assert [a["kind"] for a in both["analyses"] if "rollout" in a] == ["encoder", "encoder"] and len(both["analyses"]) == 6
    assert array(both["analyses"][0]["rollout"]["heatmap"]["heads"][0]["max"]).shape == (2, 4)
    assert both["analyses"][0]["pairs"]
    text = daemon.post(path(made, "/attention"), body | {"return": []}, headers={"Accept": "text/plain"}).text
    assert text.count("\nrollout\nheatmap, batch 0, head 0:") == 2
    daemon.request("DELETE", path(made))


def test_memory_and_cost_of_a_rollout(daemon):
    made = make(daemon, width=64, num_layers=4, architecture="transformer", num_heads=8)
    for size in ({"token_ids": [[4] * 150] * 2, "target_token_ids": [[4]] * 2}, {"token_ids": [[4] * 3] * 60, "target_token_ids": [[4]] * 60}, {"token_ids": [4] * 400}):
        size |= {"analysis": "rollout"}
        assert daemon.post(path(made, "/attention"), size).status_code == 200
        said, plain = (ask(daemon, size | {"dry_run": True} | more, path(made, "/attention"))["dry_run"] for more in ({}, {"analysis": "entropy", "sites": "encoder"}))
        S, B = np.array(size["token_ids"]).shape[-1], np.array(size["token_ids"]).size // np.array(size["token_ids"]).shape[-1]
        assert said["num_operations"] - plain["num_operations"] >= 4 * B * 2 * S ** 3
    daemon.request("DELETE", path(made))


def test_what_is_refused(daemon):
    refused(daemon, {"text": "the", "analysis": "gradient"}, "invalid_value", "/analysis", "rollout", path="/v1/models/en-fr/attention")
    refused(daemon, {"text": "the", "analysis": "rollout"}, "invalid_value", "/analysis", "expected a transformer", path="/v1/models/en-fr/attention")
    deep = make(daemon, architecture="transformer")
    refused(daemon, {"text": "the", "analysis": "rollout", "sites": "cross"}, "invalid_value", "/analysis", "encoder", path=path(deep, "/attention"))
    long = {"text": ["the red car", "the"], "target_text": ["la", "la"], "analysis": "rollout", "heatmap": {"rows": [1, 3]}, "return": []}
    refused(daemon, long, "invalid_value", "/heatmap/rows", path=path(deep, "/attention"))
    daemon.request("DELETE", path(deep))
    made = make(daemon, attention="none")
    assert ask(daemon, {"text": "the", "analysis": "all"}, path(made, "/attention"))["analyses"] == []
    daemon.request("DELETE", path(made))


def test_memory_for_analyses_suffices(daemon):
    made = make(daemon, width=64, num_layers=4, architecture="transformer", num_heads=8)
    for size in ({"token_ids": [[4] * 150] * 2, "target_token_ids": [[4] * 120] * 2}, {"token_ids": [[4] * 5] * 40, "target_token_ids": [[4]] * 40},
                 {"token_ids": [4] * 40}):
        asked = daemon.post(path(made, "/attention"), size | {"analysis": "all"})
        assert asked.status_code == 200, asked.text[:300]
        said = ask(daemon, size | {"analysis": "all", "dry_run": True}, path(made, "/attention"))["dry_run"]
        plain = ask(daemon, size | {"dry_run": True}, path(made, "/attention"))["dry_run"]
        assert said["num_operations"] > plain["num_operations"]
    daemon.request("DELETE", path(made))
