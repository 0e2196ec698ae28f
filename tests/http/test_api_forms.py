"""The forms of attention as fields of POST /v1/attention and POST /v1/masks: names and objects, what goes
with what, refusals with their places, warnings about padding."""
import base64

import numpy as np
import pytest
from api_client import array, ask, close, like_oracle, normal, qkv, refused

X = {"query": normal(3, 4, seed=1)}
HEADS = {"query": normal(2, 3, 8, seed=2)}
ONES = {"shape": [4, 4], "fill": "ones"}


def nan(*shape):
    """A tensor whose last element is NaN."""
    values = np.zeros(shape, np.float32)
    values.flat[-1] = np.nan
    return {"shape": list(shape), "base64": base64.b64encode(values.tobytes()).decode()}


# --- names and objects ---

def test_a_name_is_an_object_of_its_kind(daemon):
    assert ask(daemon, X | {"score": "dot"}) == ask(daemon, X | {"score": {"kind": "dot"}})
    assert ask(daemon, X | {"score": "scaled_dot"}) == ask(daemon, X)
    assert ask(daemon, X | {"score": "dot"}) == ask(daemon, X | {"scale": False})


def test_the_forms_of_the_library_are_those_of_the_document(daemon):
    names = ["scaled_dot", "dot", "additive", "general", "concat"]
    field = daemon.get("/openapi.json").json()["components"]["schemas"]["AttentionRequest"]["properties"]["score"]
    assert field["anyOf"][0] == {"type": "string", "enum": names}
    assert field["anyOf"][1]["properties"]["kind"]["enum"] == names
    problem = refused(daemon, X | {"score": "generall"}, "invalid_value", "/score", 'did you mean "general"')
    assert all(f'"{name}"' in problem["detail"] for name in names)


@pytest.mark.parametrize("extra", [
    {"score": {"kind": "general", "w": normal(4, 4, seed=3)}},
    {"score": {"kind": "concat", "w": normal(3, 8, seed=3), "v": normal(3, seed=4)}, "scale": 2},
    {"position": {"kind": "t5", "table": normal(8, 1, seed=3), "max_distance": 20, "bidirectional": False}},
    {"position": {"kind": "rotary", "layout": "halves", "dims": 2, "base": 50}, "query_offset": 2},
    {"sinks": [0.5], "return": ["weights", "logsumexp"]},
    {"dropout_p": 0.4, "seed": 5, "return": ["output", "weights", "weights_dropped"]},
    {"pattern": {"kind": "strided", "stride": 2, "local": 0}, "is_causal": True},
], ids=str)
def test_forms(daemon, extra):
    like_oracle(daemon, X | extra)


def test_a_name_is_a_form_without_parameters(daemon):
    for field, name in (("position", "alibi"), ("score", "dot")):
        assert ask(daemon, X | {field: name}) == ask(daemon, X | {field: {"kind": name}})


def test_null_is_absent(daemon):
    assert ask(daemon, X | dict.fromkeys(("score", "position", "projections", "pattern", "verify"))) == ask(daemon, X)


def test_explain_names_the_form(daemon):
    told = ask(daemon, X | {"score": {"kind": "general", "w": ONES}, "sinks": [1], "explain": True})["diagnostics"]
    assert (told["score"], told["num_parameters"], told["scale"]) == ("general", 17, 1)


@pytest.mark.parametrize("scale", [{}, {"scale": 0.3}, {"scale": False}], ids=["own", "given", "false"])
@pytest.mark.parametrize("score", [
    "scaled_dot", "dot",
    {"kind": "additive", "w_q": normal(3, 4, seed=3), "w_k": normal(3, 4, seed=4), "v": normal(3, seed=5)},
    {"kind": "general", "w": normal(4, 4, seed=3)},
    {"kind": "concat", "w": normal(3, 8, seed=3), "v": normal(3, seed=4)},
], ids=lambda score: score if isinstance(score, str) else score["kind"])
def test_the_scale_of_explain_makes_the_scores(daemon, score, scale):
    body = X | {"score": score, "return": ["scores"], "explain": True} | scale
    raw, scaled = (ask(daemon, body | {"score_stage": stage}) for stage in ("raw", "scaled"))
    told = raw["diagnostics"]["scale"]
    assert told == scaled["diagnostics"]["scale"]
    close(scaled["scores"], array(raw["scores"]) * told)


# --- projections ---

PROJECTED = {"num_heads": 2, "w_q": normal(8, 8, seed=3), "b_q": normal(8, seed=4), "w_o": normal(5, 8, seed=5)}


def test_projections(daemon):
    body = HEADS | {"projections": PROJECTED, "return": ["output", "weights", "logsumexp", "present"]}
    answer = like_oracle(daemon, body)
    assert array(answer["output"]).shape == (2, 3, 5)
    assert array(answer["weights"]).shape == (2, 2, 3, 3)
    assert array(answer["present_key"]).shape == (2, 2, 3, 4)


def test_projections_with_masks_stages_and_heatmaps(daemon):
    body = HEADS | {"projections": PROJECTED, "is_causal": True, "position": {"kind": "alibi"}, "softcap": 2,
                    "return": ["weights", "scores"], "score_stage": "raw"}
    answer = like_oracle(daemon, body)
    drawn = ask(daemon, body | {"return": ["heatmap"]} | {"score_stage": None})["heatmap"]["heads"]
    for head in drawn:
        assert head["max"] == answer["weights"][head["batch"]][head["head"]]


def test_a_key_may_stand_for_the_value_with_projections(daemon):
    memory = normal(2, 5, 8, seed=9)
    alone = ask(daemon, HEADS | {"key": memory, "projections": {"num_heads": 2}})
    both = ask(daemon, HEADS | {"key": memory, "value": memory, "projections": {"num_heads": 2}})
    assert alone == both
    refused(daemon, X | {"key": X["query"], "return": "output"}, "invalid_value", "/return", "value")


def test_output_before_and_after_the_last_map(daemon):
    """Verification looks at the heads, the answer at what w_o makes of them."""
    body = HEADS | {"projections": PROJECTED}
    checked = ask(daemon, body | {"verify": 20, "return": []})
    assert set(checked) == {"verification"} and checked["verification"]["num_rows"] == 20
    assert checked["verification"]["output_error"] < 1e-5
    whole = ask(daemon, body | {"verify": 20})
    assert whole["verification"] == checked["verification"]
    assert whole["output"] == ask(daemon, body)["output"]


# --- verify ---

def test_verify_looks_at_the_rows_of_the_seed(daemon):
    body = qkv(2, 3, 40, 50, 16) | {"verify": 3, "return": []}
    first = ask(daemon, body)["verification"]
    assert 0 < first["output_error"] < 1e-6 and 0 <= first["logsumexp_error"] < 1e-5
    assert ask(daemon, body | {"seed": 0})["verification"] == first
    assert any(ask(daemon, body | {"seed": s})["verification"] != first for s in range(1, 5))
    more = ask(daemon, body | {"verify": 1000})["verification"]
    assert more["num_rows"] == 1000 and more["output_error"] >= first["output_error"]


# --- what is refused ---

@pytest.mark.parametrize("extra, code, pointer, words", [
    ({"score": 3}, "wrong_type", "/score", ["a name or an object"]),
    ({"score": {}}, "invalid_value", "/score", ["kind"]),
    ({"score": {"kind": "dot", "v": [1]}}, "invalid_value", "/score/v", ['"dot"', "none"]),
    ({"score": {"kind": "general", "v": [1]}}, "invalid_value", "/score/v", ["w"]),
    ({"score": {"kind": "general", "ww": [1]}}, "unknown_field", "/score/ww", ["w"]),
    ({"score": "additive"}, "invalid_value", "/score/w_q", []),
    ({"score": {"kind": "general", "w": [[1, 2], [3]]}}, "shape_mismatch", "/score/w/1", []),
    ({"position": 3}, "wrong_type", "/position", ['a name or an object with "kind"']),
    ({"position": {"kind": "alibi", "table": [[1]]}}, "invalid_value", "/position/table", ["slopes"]),
    ({"position": {"kind": "t5", "table": ONES, "base": 2}}, "invalid_value", "/position/base", []),
    ({"position": {"kind": "rotary", "layout": "pairs"}}, "invalid_value", "/position/layout", ["halves"]),
    ({"position": {"kind": "alibi", "slopes": [1, 2]}}, "shape_mismatch", "/position/slopes", ["1"]),
    ({"pattern": {"kind": "local"}}, "invalid_value", "/pattern/kind", ["radius"]),
    ({"pattern": {"kind": "local", "radius": 1, "size": 2}}, "invalid_value", "/pattern/size", ["radius"]),
    ({"pattern": {"kind": "block", "size": 0}}, "invalid_value", "/pattern/size", ["1 "]),
    ({"projections": {}}, "invalid_value", "/projections", ["num_heads"]),
    ({"projections": {"num_heads": 3}}, "shape_mismatch", "/query", ["divisible"]),
    ({"projections": {"num_heads": 2, "b_q": [1] * 4}}, "invalid_value", "/projections/b_q", ["weight"]),
    ({"projections": {"num_heads": 2, "w_k": [[1, 2]]}}, "shape_mismatch", "/projections/w_k", ["4"]),
    ({"projections": {"num_heads": 2}, "num_heads": 2}, "invalid_value", "/num_heads", ["projections"]),
    ({"projections": {"num_heads": 2}, "layout": "BLHE"}, "invalid_value", "/layout", []),
    ({"sinks": [1, 2]}, "shape_mismatch", "/sinks", ["[1]"]),
    ({"dropout_p": 0.5}, "invalid_value", "/dropout_p", ["seed"]),
    ({"dropout_p": 1, "seed": 1}, "invalid_value", "/dropout_p", ["below 1"]),
    ({"dropout_p": -0.1, "seed": 1}, "invalid_value", "/dropout_p", []),
    ({"seed": 1}, "invalid_value", "/seed", ["dropout_p", "verify"]),
    ({"return": ["weights_dropped"]}, "invalid_value", "/return", ["dropout_p"]),
    ({"verify": 0}, "invalid_value", "/verify", ["1000"]),
    ({"verify": 1001}, "invalid_value", "/verify", ["1000"]),
    ({"dry_run": 1}, "wrong_type", "/dry_run", []),
    ({"return": []}, "invalid_value", "/return", ["verify", "dry_run"]),
])
def test_refused(daemon, extra, code, pointer, words):
    refused(daemon, X | extra, code, pointer, *words)


@pytest.mark.parametrize("extra, pointer", [
    ({"score": {"kind": "general", "w": nan(4, 4)}}, "/score/w/3/3"),
    ({"position": {"kind": "alibi", "slopes": nan(1)}}, "/position/slopes/0"),
    ({"projections": {"num_heads": 1, "w_o": nan(2, 4)}}, "/projections/w_o/1/3"),
    ({"sinks": nan(1)}, "/sinks/0"),
])
def test_parameters_are_finite(daemon, extra, pointer):
    refused(daemon, X | extra, "nonfinite_value", pointer)


def test_a_row_is_blamed_behind_projections(daemon):
    body = {"query": nan(3, 4), "projections": {"num_heads": 2, "w_q": ONES}}
    refused(daemon, body, "nonfinite_value", "/query/2")


def test_a_mask_beside_projections_is_blamed_to_the_number(daemon):
    body = {"query": [[1, 2, 3, 4]] * 3, "projections": {"num_heads": 2, "w_q": ONES},
            "attn_mask": nan(3, 3), "mask_semantics": "additive"}
    refused(daemon, body, "nonfinite_value", "/attn_mask/2/2")


def test_scores_of_a_decoder_state_overflow(daemon):
    """The state has no axis of queries, so the pointer is that of its batch entry."""
    body = {"query": [[1, 1], [1, 1], [3e38, 3e38]], "key": [[[1, 1]], [[1, 1]], [[3e38, 3e38]]], "score": "dot"}
    refused(daemon, body, "nonfinite_value", "/query/2", "overflow")


def test_dropout_of_zero_needs_no_seed(daemon):
    assert ask(daemon, X | {"dropout_p": 0}) == ask(daemon, X)


# --- padding by its labels ---

LABELS = {"query": ["the", "cat", "<pad>"], "key": ["the", "cat", "<pad>"]}


@pytest.mark.parametrize("name", ["<pad>", "[PAD]", "<PAD>", "[pad]"])
def test_weight_on_padding_is_told(daemon, name):
    answer = ask(daemon, X | {"labels": {"key": ["the", name, "cat"]}})
    (warning,) = answer["warnings"]
    assert (warning["code"], warning["pointer"]) == ("padding_mass", "/labels/key")
    mass = array(answer["weights"])[:, 1]
    assert f"{100 * mass.mean():.3g} %" in warning["detail"] and f"({mass.max():.3g})" in warning["detail"]
    assert f'query {mass.argmax()} to key 1, "{name}"' in warning["detail"]


def test_hidden_padding_is_not_told(daemon):
    assert "warnings" in ask(daemon, X | {"labels": LABELS, "return": "logsumexp"})
    assert "warnings" not in ask(daemon, X | {"labels": LABELS, "key_lengths": [2]})
    assert "warnings" not in ask(daemon, X | {"labels": {"query": LABELS["query"]}})
    only_padding_looks = X | {"labels": LABELS, "is_causal": True}
    assert "warnings" not in ask(daemon, only_padding_looks)


def test_heads_that_look_at_padding_are_named(daemon):
    warnings = ask(daemon, qkv(2, 6, 3, 3, 4) | {"labels": LABELS})["warnings"]
    assert [w["code"] for w in warnings] == ["padding_mass"] * 9
    assert "batch entry 1, head 1" in warnings[7]["detail"] and warnings[8]["detail"].startswith("4 more heads")


# --- text ---

def test_text(daemon):
    text = daemon.post("/v1/attention", X | {"dropout_p": 0.5, "seed": 1, "return": ["weights_dropped"], "verify": 4,
                                             "explain": True, "score": "dot"}, headers={"Accept": "text/plain"}).text
    assert "weights_dropped (" in text and "verified: 4 rows in float64" in text
    assert "score: dot, 0 parameters" in text


# --- the same pattern on /v1/masks ---

def test_mask_patterns(daemon):
    pattern = {"kind": "global", "num_keys": 1, "local": 1}
    answer = ask(daemon, {"shape": [5, 6], "masks": [{"kind": "pattern", "pattern": pattern}, {"kind": "causal"}],
                          "query_offset": 1}, "/v1/masks")
    i, j = np.arange(5)[:, None] + 1, np.arange(6)
    close(answer["keep"], ((j < 1) | (i < 1) | (abs(i - j) <= 1)) & (j <= i))
    assert "global" in answer["words"]


def test_queries_before_key_0_are_not_global(daemon):
    """Rows of padding have such positions, with query_offset "end" and short key_lengths."""
    body = {"masks": [{"kind": "pattern", "pattern": {"kind": "global", "num_keys": 1, "local": 0}}], "shape": [4, 3]}
    assert ask(daemon, body | {"query_offset": -2}, "/v1/masks")["keep"] == [
        [True, False, False], [True, False, False], [True, True, True], [True, True, False]]


@pytest.mark.parametrize("item, pointer", [
    ({"kind": "pattern"}, "/masks/0/kind"), ({"kind": "causal", "pattern": {"kind": "block", "size": 2}}, "/masks/0/pattern"),
    ({"kind": "pattern", "pattern": {"kind": "block"}}, "/masks/0/pattern/kind"),
    ({"kind": "pattern", "pattern": {"kind": "block", "size": 2, "radius": 1}}, "/masks/0/pattern/radius"),
    ({"kind": "pattern", "pattern": {"kind": "bloc", "size": 2}}, "/masks/0/pattern/kind"),
])
def test_refused_mask_patterns(daemon, item, pointer):
    refused(daemon, {"shape": [3, 3], "masks": [item]}, "invalid_value", pointer, path="/v1/masks")


def test_patterns_say_what_each_kind_needs(daemon):
    """The sentence of a member begins with the kinds that require it: "strided and global, required: ..."."""
    rows = daemon.get("/openapi.json").json()["components"]["schemas"]["AttentionRequest"]["properties"]["pattern"]["anyOf"][0]["properties"]
    kinds, members = rows["kind"]["enum"], {name: row["description"] for name, row in rows.items() if name != "kind"}
    for kind in kinds:
        needed = [name for name, text in members.items() if kind in text.partition(", required:")[0].split(" and ")]
        ask(daemon, {"query": [[1]], "pattern": {"kind": kind} | dict.fromkeys(needed, 1)})
        for name in members:
            without = [one for one in needed if one != name] + [name] * (name not in needed)
            refused(daemon, {"query": [[1]], "pattern": {"kind": kind} | dict.fromkeys(without, 1)}, "invalid_value",
                    "/pattern/kind" if name in needed else f"/pattern/{name}", name)


def test_masks_of_too_many_batch_entries(daemon):
    """Refused from the shape alone, before the entries take memory."""
    before = daemon.metric("process_resident_memory_bytes")
    problem = refused(daemon, {"shape": [500_000_000, 1, 1]}, "too_large", None, "batch entries", path="/v1/masks",
                      status=413)
    assert problem["limit"]["setting"] == "max_request_bytes"
    assert daemon.metric("process_resident_memory_bytes") < before + (64 << 20)
