"""`analysis` of /v1/models/{id}/attention beside /v1/analyses, to which the weights of the same model are posted."""
import pytest
from api_client import ask, refused
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_models import make, path

TEXTS, TARGETS = ["the red car .", "the car"], ["la voiture rouge .", "la voiture"]
KINDS = [{}, {"architecture": "transformer", "layers": 3}, {"architecture": "transformer", "layers": 2, "attention": "local", "radius": 1},
         {"attention": "strided", "radius": 0, "stride": 2}, {"attention": "block", "block_size": 2},
         {"architecture": "transformer", "layers": 1, "attention": "global", "global_keys": 1, "radius": 1}]
PATTERNS = {"local": {"kind": "local", "radius": 1}, "strided": {"kind": "strided", "stride": 2, "local": 0},
            "block": {"kind": "block", "size": 2}, "global": {"kind": "global", "keys": 1, "local": 1}}


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
    layers = made["layers"] if fields.get("architecture") else 1
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


def test_what_is_refused(daemon):
    refused(daemon, {"text": "the", "analysis": "rollout"}, "invalid_value", "/analysis", "entropy", path="/v1/models/en-fr/attention")
    made = make(daemon, attention="none")
    assert ask(daemon, {"text": "the", "analysis": "all"}, path(made, "/attention"))["analyses"] == []
    daemon.request("DELETE", path(made))


def test_memory_for_analyses_suffices(daemon):
    made = make(daemon, width=64, layers=4, architecture="transformer", num_heads=8)
    for size in ({"token_ids": [[4] * 150] * 2, "target_ids": [[4] * 120] * 2}, {"token_ids": [[4] * 5] * 40, "target_ids": [[4]] * 40},
                 {"token_ids": [4] * 40}):
        asked = daemon.post(path(made, "/attention"), size | {"analysis": "all"})
        assert asked.status_code == 200, asked.text[:300]
        said = ask(daemon, size | {"analysis": "all", "dry_run": True}, path(made, "/attention"))["dry_run"]
        plain = ask(daemon, size | {"dry_run": True}, path(made, "/attention"))["dry_run"]
        assert said["operations"] > plain["operations"]
    daemon.request("DELETE", path(made))
