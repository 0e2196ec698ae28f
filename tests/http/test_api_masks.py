"""POST /v1/masks: each kind, their combination, both forms of the answer, every error."""
import numpy as np
import pytest
from api_client import ask, attention, normal, qkv, refused
from oracle.masks import runs

MASKS = "/v1/masks"
CAUSAL = {"kind": "causal"}


def build(daemon, **body):
    return ask(daemon, body, MASKS)


def causal(L, S, offset=0):
    return np.arange(S) <= np.arange(L)[:, None] + offset


def test_causal(daemon):
    answer = build(daemon, masks=[CAUSAL], shape=[3, 3])
    assert list(answer) == ["shape", "keep", "kept", "words"]
    assert answer["shape"] == [3, 3] and answer["keep"] == causal(3, 3).tolist()
    assert answer["kept"] == 6 / 9 and "causal" in answer["words"]


@pytest.mark.parametrize("offset, number", [(2, 2), (-1, -1), ("end", 2)])
def test_query_offset(daemon, offset, number):
    assert build(daemon, masks=[CAUSAL], shape=[3, 5], query_offset=offset)["keep"] == causal(3, 5, number).tolist()


def test_one_offset_a_batch_entry(daemon):
    keep = build(daemon, masks=[CAUSAL], shape=[2, 3, 5], query_offset=[0, 2])["keep"]
    assert keep == [causal(3, 5).tolist(), causal(3, 5, 2).tolist()]


def test_window(daemon):
    keep = np.array(build(daemon, masks=[{"kind": "window", "window": [1, 2]}], shape=[6, 6])["keep"])
    distance = np.arange(6) - np.arange(6)[:, None]
    assert np.array_equal(keep, (distance >= -1) & (distance <= 2))


@pytest.mark.parametrize("mask", [
    {"key_padding_mask": [[True, True, False], [True, False, False]], "key_padding_semantics": "keep"},
    {"key_padding_mask": [[0, 0, 1], [0, 1, 1]], "key_padding_semantics": "hide"},
    {"key_lengths": [2, 1]},
    {"token_ids": [[4, 5, 0], [6, 0, 0]], "pad_id": 0},
])
def test_padding(daemon, mask):
    keep = build(daemon, masks=[{"kind": "padding"} | mask], shape=[2, 2, 3])["keep"]
    assert keep == [[[True, True, False]] * 2, [[True, False, False]] * 2]


@pytest.mark.parametrize("mask, want", [
    ({"attn_mask": [[True, False], [True, True]]}, [[True, False], [True, True]]),
    ({"attn_mask": [[1, 0], [1, 1]], "mask_semantics": "keep"}, [[True, False], [True, True]]),
    ({"attn_mask": [[0, 1], [0, 0]], "mask_semantics": "hide"}, [[True, False], [True, True]]),
    ({"attn_mask": [[0, None], [0, 0]], "mask_semantics": "additive"}, [[True, False], [True, True]]),
])
def test_values(daemon, mask, want):
    answer = build(daemon, masks=[{"kind": "values"} | mask], shape=[2, 2])
    assert answer["keep"] == want and "additive" not in answer


def test_additive_parts_are_summed(daemon):
    masks = [{"kind": "values", "attn_mask": [[0.5, None, 2], [0, 0, 0.25]]},
             {"kind": "values", "attn_mask": [1, 1, 1], "mask_semantics": "additive"}, CAUSAL]
    answer = build(daemon, masks=masks, shape=[2, 3], query_offset=1)
    assert answer["keep"] == [[True, False, False], [True, True, True]]
    assert answer["additive"] == [[1.5, None, None], [1, 1, 1.25]]


def test_the_additive_part_means_the_same_to_attention(daemon):
    masks = [{"kind": "values", "attn_mask": [[0.5, -1, 2, 0, 0.1]] * 3}, {"kind": "padding", "key_lengths": [4]}]
    additive = build(daemon, masks=masks, shape=[3, 5])["additive"]
    body = qkv()
    split = ask(daemon, body | {"attn_mask": [[0.5, -1, 2, 0, 0.1]] * 3, "key_lengths": [4]})
    assert ask(daemon, body | {"attn_mask": additive, "mask_semantics": "additive"}) == split


def test_token_ids_alone(daemon):
    answer = build(daemon, token_ids=[[7, 8, 0], [9, 0, 0]], pad_id=0)
    assert answer["shape"] == [2, 3, 3]
    assert answer["keep"] == [[[True, True, False]] * 3, [[True, False, False]] * 3]
    one = build(daemon, token_ids=[7, 8, 0], pad_id=0, masks=[CAUSAL], combine="and")
    assert one["shape"] == [3, 3]
    assert one["keep"] == (causal(3, 3) & [True, True, False]).tolist()


def test_no_mask_hides_nothing(daemon):
    assert build(daemon, shape=[1, 2, 2, 2]) | {"words": ""} == {
        "shape": [1, 2, 2, 2], "keep": [[[[True] * 2] * 2] * 2], "kept": 1, "words": ""}


def test_a_mask_a_head(daemon):
    mask = [[[True, True]], [[True, False]]]
    keep = build(daemon, masks=[{"kind": "values", "attn_mask": mask}], shape=[1, 2, 2, 2])["keep"]
    assert keep == [[[[True, True]] * 2, [[True, False]] * 2]]


def test_masks_agree_with_attention(daemon):
    body = qkv(B=2, H=2) | {"is_causal": True, "window": [2, 1], "key_lengths": [4, 5], "query_offset": 1}
    answer = build(daemon, shape=[2, 2, 3, 5], query_offset=1, masks=[
        CAUSAL, {"kind": "window", "window": [2, 1]}, {"kind": "padding", "key_lengths": [4, 5]}])
    visible = attention(body)["visible"]
    assert np.array_equal(answer["keep"], visible)
    assert answer["kept"] == pytest.approx(visible.mean(), abs=1e-12)


def test_large_masks_come_as_runs(daemon):
    answer = build(daemon, masks=[CAUSAL, {"kind": "window", "window": [3, 3]}], shape=[2, 8, 300, 300])
    parts = answer["keep"]["runs"]
    assert [(p["batch"], p["head"]) for p in parts] == [(None, None)]
    distance = np.arange(300) - np.arange(300)[:, None]
    keep = (distance >= -3) & (distance <= 0)
    assert parts[0]["runs"] == runs(keep) and answer["kept"] == pytest.approx(keep.mean(), abs=1e-12)


def test_runs_of_batch_entries_that_differ(daemon):
    answer = build(daemon, masks=[{"kind": "padding", "key_lengths": [300, 7]}], shape=[2, 4, 200, 300])
    parts = answer["keep"]["runs"]
    assert [(p["batch"], p["head"]) for p in parts] == [(0, None), (1, None)]
    assert parts[1]["runs"] == [[i, 0, 7] for i in range(200)]


def test_runs_of_heads_that_differ(daemon):
    rng = np.random.default_rng(3)
    mask = rng.random((3, 200, 200)) < 0.5
    answer = build(daemon, masks=[{"kind": "values", "attn_mask": mask.tolist()}], shape=[1, 3, 200, 200])
    parts = answer["keep"]["runs"]
    assert [(p["batch"], p["head"]) for p in parts] == [(None, h) for h in range(3)]
    for h in range(3):
        assert parts[h]["runs"] == runs(mask[h])


def test_a_large_additive_mask_is_said_to_be_left_out(daemon):
    mask = {"kind": "values", "attn_mask": {"shape": [300], "random": "normal", "seed": 1}}
    answer = build(daemon, masks=[mask], shape=[300, 300])
    assert answer["omitted"]["additive"]["num_values"] == 90000
    assert "omitted" not in build(daemon, masks=[CAUSAL], shape=[300, 300])


# --- head axes ---

@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 1, 3)])
@pytest.mark.parametrize("kind", ["keep", "additive"])
def test_a_mask_without_the_axis_of_one_head(daemon, shape, kind):
    keep = np.random.default_rng(5).random(shape) < 0.6
    keep[..., :1] = True
    mask = keep if kind == "keep" else np.where(keep, 0.5, -2)
    projected = {"query": normal(2, 3, 4), "projections": {"num_heads": 1, "seed": 3}, "return": ["output", "weights"]}
    four_axes = {"query": normal(2, 1, 3, 4)}
    for body in (projected, four_axes):
        got, want = (ask(daemon, body | {"attn_mask": m.tolist()}) for m in (mask, mask[:, None]))
        assert got == want and np.shape(got["weights"]) == (2, 1, 3, 3) and "warnings" not in got
        assert got != ask(daemon, body)
    answers = [build(daemon, masks=[{"kind": "values", "attn_mask": m.tolist()}], shape=[2, 1, 3, 3]) for m in (mask, mask[:, None])]
    assert answers[0]["keep"] == answers[1]["keep"] and answers[0].get("additive") == answers[1].get("additive")


def test_more_batch_axes_and_one_head(daemon):
    keep = np.random.default_rng(6).random((2, 3, 4, 5)) < 0.5
    values = [{"kind": "values", "attn_mask": m.tolist()} for m in (keep, keep[:, :, None])]
    answers = [build(daemon, masks=[m], shape=[2, 3, 1, 4, 5])["keep"] for m in values]
    assert answers[0] == answers[1] == keep[:, :, None].tolist()
    # [2, 1, L, S] is aligned as NumPy does it: the axis of 2 stands at the batch axis of length 2
    keep = keep[:, :1]
    assert build(daemon, masks=[{"kind": "values", "attn_mask": keep.tolist()}], shape=[3, 2, 1, 4, 5])["keep"] == (
        np.broadcast_to(keep, (3, 2, 1, 4, 5)).tolist())


@pytest.mark.parametrize("body, mask", [({"query": normal(2, 3, 4)}, (2, 1, 1, 3)),
                                        ({"query": normal(2, 1, 3, 4)}, (2, 1, 3)),
                                        ({"query": normal(2, 1, 3, 4)}, (2, 3, 3))])
def test_a_stored_run_keeps_such_a_mask(daemon, body, mask):
    keep = np.random.default_rng(7).random(mask) < 0.5
    keep[..., 0] = True
    answer = ask(daemon, body | {"attn_mask": keep.tolist(), "return": "weights", "store": True})
    for b in range(2):
        whole = daemon.get(f"/v1/runs/{answer['run']['id']}/weights?batch={b}").json()["weights"]
        assert np.array_equal(whole, np.reshape(answer["weights"], (2, 3, 3))[b])


@pytest.mark.parametrize("shape, mask, words", [
    ((2, 4, 3, 6), (2, 6), "axis 2 from the right is 2, expected 1 or 3. If its axes are [B, S], send [B, 1, 1, S], here [2, 1, 1, 6]"),
    ((2, 4, 3, 6), (2, 3, 6), "expected 1 or 4. If its axes are [B, L, S], send [B, 1, L, S], here [2, 1, 3, 6]"),
    ((2, 4, 3, 6), (2, 1, 6), "If its axes are [B, L, S], send [B, 1, L, S], here [2, 1, 1, 6]"),
    ((2, 3, 6), (2, 6), "If its axes are [B, S], send [B, 1, S], here [2, 1, 6]"),
    ((2, 5, 4, 3, 6), (2, 5, 3, 6), "send [batch.., 1, L, S], here [2, 5, 1, 3, 6]"),
])
def test_axes_that_a_mask_lacks(daemon, shape, mask, words):
    values = {"kind": "values", "attn_mask": np.ones(mask, bool).tolist()}
    refused(daemon, {"masks": [values], "shape": list(shape)}, "shape_mismatch", "/masks/0/attn_mask", words, path=MASKS)
    there = [int(n) for n in words.split("here [")[1].strip("]").split(",")]
    assert build(daemon, masks=[values | {"attn_mask": np.ones(there, bool).tolist()}], shape=list(shape))["kept"] == 1


@pytest.mark.parametrize("shape, mask, words", [((1, 6), (2, 6), "axis 2 from the right is 2, expected 1"),
                                                ((5, 6), (2, 6), "axis 2 from the right is 2, expected 1 or 5"),
                                                ((2, 4, 3, 6), (2, 5), "axis 1 from the right is 5, expected 1 or 6")])
def test_axes_that_fit_nowhere(daemon, shape, mask, words):
    values = {"kind": "values", "attn_mask": np.ones(mask, bool).tolist()}
    problem = refused(daemon, {"masks": [values], "shape": list(shape)}, "shape_mismatch", "/masks/0/attn_mask", path=MASKS)
    assert problem["detail"].endswith(words)


def test_labels(daemon):
    labels = {"query": ["a", "b"], "key": ["x", "y", "z"]}
    assert build(daemon, shape=[2, 3], labels=labels)["labels"] == labels


def test_warnings(daemon):
    lower = np.tril(np.ones((3, 3), bool))
    answer = build(daemon, masks=[{"kind": "values", "attn_mask": (~lower).tolist()}], shape=[3, 3])
    codes = {w["code"] for w in answer["warnings"]}
    assert "hidden_rows" in codes and "mask_not_causal" in codes
    pointers = {w["pointer"] for w in answer["warnings"]}
    assert any("/masks/0" in p for p in pointers)


@pytest.mark.parametrize("body, code, pointer, words", [
    ({}, "invalid_value", "/shape", ["shape", "token_ids"]),
    ({"shape": [3]}, "shape_mismatch", "/shape", ["[L, S]"]),
    ({"shape": [3, -1]}, "invalid_value", "/shape/1", ["-1"]),
    ({"shape": "3x3"}, "wrong_type", "/shape", []),
    ({"shape": [2, 2], "token_ids": [1, 2], "pad_id": 0}, "invalid_value", "/shape", ["shape", "token_ids"]),
    ({"token_ids": [1, 2]}, "invalid_value", "/token_ids", ["pad_id"]),
    ({"shape": [2, 2], "pad_id": 0}, "invalid_value", "/pad_id", ["token_ids"]),
    ({"token_ids": [[[1]]], "pad_id": 0}, "shape_mismatch", "/token_ids", ["[B, S]"]),
    ({"shape": [2, 2], "combine": "or"}, "invalid_value", "/combine", ["and"]),
    ({"shape": [2, 2], "mask": []}, "unknown_field", "/mask", ["masks"]),
    ({"shape": [2, 2], "masks": [{"kind": "diagonal"}]}, "invalid_value", "/masks/0/kind", ["causal"]),
    ({"shape": [2, 2], "masks": [{}]}, "invalid_value", "/masks/0", ["kind"]),
    ({"shape": [2, 2], "masks": [{"kind": "causal", "windw": 1}]}, "unknown_field", "/masks/0/windw", ["window"]),
    ({"shape": [2, 2], "masks": [CAUSAL, {"kind": "causal", "window": [0, 0]}]}, "invalid_value", "/masks/1/window",
     ["window", "causal"]),
    ({"shape": [2, 2], "masks": [{"kind": "window"}]}, "invalid_value", "/masks/0/kind", ["window"]),
    ({"shape": [2, 2], "masks": [{"kind": "window", "window": [-3, 0]}]}, "invalid_value", "/masks/0/window/0", ["-1"]),
    ({"shape": [2, 2], "masks": [{"kind": "values"}]}, "invalid_value", "/masks/0/kind", ["attn_mask"]),
    ({"shape": [2, 2], "masks": [{"kind": "padding"}]}, "invalid_value", "/masks/0/kind", ["key_lengths"]),
    ({"shape": [2, 2], "masks": [{"kind": "padding", "key_lengths": [1], "token_ids": [1, 2], "pad_id": 2}]},
     "invalid_value", "/masks/0/kind", ["exactly one"]),
    ({"shape": [2, 2], "masks": [CAUSAL, {"kind": "values", "attn_mask": [1, 0]}]}, "mask_semantics",
     "/masks/1/attn_mask", ["keep", "hide"]),
    ({"shape": [2, 2], "masks": [{"kind": "padding", "key_padding_mask": [1, 0]}]}, "mask_semantics",
     "/masks/0/key_padding_mask", ["keep", "hide"]),
    ({"shape": [2, 2], "masks": [{"kind": "padding", "token_ids": [1, 2]}]}, "invalid_value", "/masks/0/token_ids",
     ["pad_id"]),
    ({"shape": [2, 2], "masks": [{"kind": "values", "attn_mask": [True] * 3}]}, "shape_mismatch",
     "/masks/0/attn_mask", ["[3]", "[2, 2]"]),
    ({"shape": [2, 2], "masks": [{"kind": "padding", "key_lengths": [3]}]}, "invalid_value",
     "/masks/0/key_lengths/0", ["3"]),
    ({"shape": [2, 2], "query_offset": [1, 2, 3]}, "shape_mismatch", "/query_offset", ["3"]),
    ({"shape": [2, 2], "labels": {"key": ["a"]}}, "shape_mismatch", "/labels/key", ["2", "1"]),
    ({"shape": [2, 2], "masks": [CAUSAL] * 16}, "invalid_value", "/masks", ["15"]),
    ({"shape": [1000000, 1000000]}, "too_large", None, ["1e+12"]),
])
def test_refused(daemon, body, code, pointer, words):
    refused(daemon, body, code, pointer, *words, path=MASKS, status=413 if code == "too_large" else 422)


def test_values_are_pointed_to_attn_mask(daemon):
    item = {"kind": "values", "values": [[True, False], [True, True]]}
    refused(daemon, {"masks": [item], "shape": [2, 2]}, "unknown_field", "/masks/0/values",
            'here it is called "attn_mask", because', path="/v1/masks")
    item["attn_mask"] = item.pop("values")
    assert ask(daemon, {"masks": [item], "shape": [2, 2]}, "/v1/masks")["keep"] == item["attn_mask"]


@pytest.mark.parametrize("repeat", [1, 200])
def test_two_finite_masks_that_overflow_together_hide(daemon, repeat):
    """Padding and a causal mask of finfo.min, added: as -infinity, on the table `ref` and beyond its size."""
    low = -3.4028235e38
    body = {"query": {"shape": [1, 8], "random": "normal"}, "key": {"shape": [3 * repeat, 8], "random": "normal"},
            "value": {"shape": [3 * repeat, 8], "random": "normal"}, "return": ["output", "weights", "heatmap"]}
    once = [[low, 0, 0] * repeat]
    both = ask(daemon, body | {"attn_mask": once, "attn_bias": once})
    null = ask(daemon, body | {"attn_mask": [[None, 0, 0] * repeat]})
    assert {w["code"] for w in both.pop("warnings")} == {"low_numbers", "mask_sums"}
    assert both == null
    blind = ask(daemon, body | {"attn_mask": [[low] * 3 * repeat], "attn_bias": [[low] * 3 * repeat]})
    assert not np.any(blind["weights"]) and "hidden_rows" in {w["code"] for w in blind["warnings"]}
    dry = {"grad_output": {"shape": [1, 8], "fill": "ones"}, "return": ["gradients"]}
    found = ask(daemon, body | dry | {"attn_mask": once, "attn_bias": once})["gradients"]
    assert found["attn_mask"] == found["attn_bias"] and found["attn_mask"][0][0] == 0 != found["attn_mask"][0][1]


@pytest.mark.parametrize("body, mask, words", [
    ({"query": {"shape": [2, 2, 3, 3], "fill": "ones"}}, (4, 3, 3), "send [B, H, L, S], here [2, 2, 3, 3]"),
    ({"query": {"shape": [2, 3, 4, 5, 2], "fill": "ones"}}, (3, 5, 5), "send [3, 1, 5, 5]"),
    ({"query": {"shape": [2, 4], "fill": "ones"}, "past_key": {"shape": [3, 4], "fill": "ones"},
      "past_value": {"shape": [3, 4], "fill": "ones"}}, (2, 2), "the 3 cached ones first: send [.., 2, 5]"),
])
def test_refused_shapes_say_what_to_send(daemon, body, mask, words):
    refused(daemon, body | {"attn_mask": {"shape": mask, "dtype": "bool", "fill": "ones"}}, "shape_mismatch", "/attn_mask",
            words)


def test_runs_are_booleans(daemon):
    runs_ = {"shape": [1, 1], "runs": [{"runs": [[0, 0, 1]]}]}
    refused(daemon, {"query": runs_}, "unsupported_dtype", "/query/runs", "a tensor of numbers")
    refused(daemon, {"query": [[1]], "attn_mask": runs_ | {"dtype": "float32"}}, "unsupported_dtype", "/attn_mask/runs", "dtype bool")


def test_no_keys_need_a_shape(daemon):
    body = {"query": [[1, 0], [0, 1]]}
    refused(daemon, body | {"key": [], "value": []}, "shape_mismatch", "/key", '{"shape": [0, E], "data": []}')
    empty = {"shape": [0, 2], "data": []}
    assert ask(daemon, body | {"key": empty, "value": empty})["output"] == [[0, 0], [0, 0]]


# --- runs, as attn_mask reads them ---

@pytest.mark.parametrize("masks", [
    [CAUSAL], [CAUSAL, {"kind": "values", "attn_mask": {"shape": [1, 3, 200, 300], "dtype": "bool", "fill": "eye"}}],
    [{"kind": "window", "window": [3, 3]}, {"kind": "padding", "key_lengths": [300, 7]}]], ids=["causal", "heads", "lengths"])
def test_the_runs_of_an_answer_are_a_mask(daemon, masks):
    shape = [2, 3, 200, 300]
    answer = build(daemon, masks=masks, shape=shape)
    mask = {"shape": answer["shape"], "runs": answer["keep"]["runs"]}
    again = build(daemon, masks=[{"kind": "values", "attn_mask": mask}], shape=shape)
    def spread(keep):
        return {(b, h): part["runs"] for part in keep["runs"] for b in ([part["batch"]] if part["batch"] is not None else range(2))
                for h in ([part["head"]] if part["head"] is not None else range(3))}
    assert again["kept"] == answer["kept"] and spread(again["keep"]) == spread(answer["keep"])


@pytest.mark.parametrize("shape, tensor, want", [
    ([2, 3], [{"runs": [[0, 0, 2], [0, 2, 3], [1, 1, 2]]}], [[1, 1, 1], [0, 1, 0]]),
    ([2, 1, 2], [{"runs": [[0, 1, 2]], "batch": 1}, {"batch": 0, "runs": []}], [[[0, 0]], [[0, 1]]]),
    ([1, 2, 1, 2], [{"head": 1, "batch": None, "runs": [[0, 0, 1]]}], [[[[0, 0]], [[1, 0]]]]),
    ([2, 2], [], [[0, 0], [0, 0]])])
def test_runs_are_a_tensor(daemon, shape, tensor, want):
    asked = [1] * (4 - len(shape)) + shape if len(shape) != 3 else [shape[0], 1, *shape[1:]]
    mask = {"shape": shape if len(shape) != 3 else asked, "runs": tensor}
    answer = build(daemon, masks=[{"kind": "values", "attn_mask": mask}], shape=asked)
    assert np.array_equal(np.reshape(answer["keep"], np.shape(want)), np.array(want, bool))


@pytest.mark.parametrize("runs_, pointer, words", [
    ([{"runs": [[0, 1, 4]]}], "/runs/0/runs/0", "an index from 1 to 3"), ([{"runs": [[2, 0, 1]]}], "/runs/0/runs/0", "from 0 to 1"),
    ([{"runs": [[1, 0, 1], [0, 0, 1]]}], "/runs/0/runs/1", "from 1 to 1"),
    ([{"runs": [[0, 0, 2], [0, 1, 2]]}], "/runs/0/runs/1", "from 2 to 3"), ([{"runs": []}, {"runs": []}], "/runs/1", "once"),
    ([{"batch": 1, "runs": []}], "/runs/0/batch", "from 0 to 0"), ([{"rows": []}], "/runs/0/rows", "batch, head and runs"),
    ([{"head": None}], "/runs/0", "the member runs"), ([[0, 0, 1]], "/runs/0", "an object such as"), ("", "/runs", "a list of runs")])
def test_refused_runs(daemon, runs_, pointer, words):
    problem = daemon.post("/v1/attention", {"query": [[1], [2]], "key": [[1]] * 3, "value": [[1]] * 3,
                                            "attn_mask": {"shape": [2, 3], "runs": runs_}}).json()
    assert problem["status"] == 422 and problem["pointer"] == "/attn_mask" + pointer and words in problem["detail"], problem


def test_tables_of_other_heads_are_refused_in_words(daemon):
    body = {"query": {"shape": [1, 2, 3, 2], "fill": "ones"}}
    table = {"shape": [3, 3, 2], "fill": "ones"}
    refused(daemon, body | {"position": {"kind": "shaw", "key_table": table}}, "shape_mismatch", "/position/key_table",
            "[2, 2m + 1 (distances -m to m), 2] with one of each head; found [3, 3, 2]")


# --- any_of, all_of, not, and masks by a table ---

PREFIX = {"kind": "prefix", "prefix_lengths": [2]}
WINDOW = {"kind": "window", "window": [0, 0]}


def nested(mask, depth):
    return {"kind": "not", "not": nested(mask, depth - 1)} if depth else mask


@pytest.mark.parametrize("mask, want", [
    ({"kind": "any_of", "any_of": [CAUSAL, PREFIX]}, ["110", "110", "111"]),
    ({"kind": "all_of", "all_of": [CAUSAL, PREFIX]}, ["100", "110", "110"]),
    ({"kind": "not", "not": CAUSAL}, ["011", "001", "000"]),
    ({"kind": "not", "not": [CAUSAL]}, ["011", "001", "000"]),
    ({"kind": "any_of", "any_of": [WINDOW, {"kind": "not", "not": {"kind": "any_of", "any_of": [CAUSAL, PREFIX]}}]}, ["101", "011", "001"]),
    (nested(CAUSAL, 15), ["011", "001", "000"]),
    ({"kind": "documents", "document_ids": [9007199254740993, 9007199254740992, 9007199254740993]}, ["101", "010", "101"]),
    (PREFIX, ["110"] * 3),
    ({"kind": "tree", "parents": [2, -1, -1]}, ["101", "010", "001"]),
    ({"kind": "top_k", "top_k_indices": [[2, 0], [-1, 1], [-1, -1]]}, ["101", "010", "000"]),
    ({"kind": "top_k", "top_k_indices": [0]}, ["100"] * 3),
    ({"kind": "pattern", "pattern": {"kind": "block_causal", "size": 2}}, ["110", "110", "111"]),
])
def test_rules(daemon, mask, want):
    keep = [[c == "1" for c in row] for row in want]
    assert build(daemon, masks=[mask], shape=[3, 3])["keep"] == keep
    fields = {name: value for name, value in mask.items() if name != "kind"}
    answer = ask(daemon, {"query": {"shape": [3, 1], "fill": "zeros"}, "return": ["weights"], **fields})
    assert (np.array(answer["weights"]) > 0).tolist() == keep


def test_rules_by_batch_entry(daemon):
    """A query stands at key i + query_offset; one before the first key, or behind the last, has no document."""
    body = {"shape": [2, 2, 3], "query_offset": [-1, 2]}
    documents = {"kind": "documents", "document_ids": [[4, 5, 4], [6, 6, 6]]}
    assert build(daemon, masks=[documents], **body)["keep"] == [[[False] * 3, [True, False, True]], [[True] * 3, [False] * 3]]
    tree = {"kind": "tree", "parents": [-1, 0, 0]}
    assert build(daemon, masks=[tree], **body)["keep"] == [[[False] * 3, [True, False, False]], [[True, False, True], [False] * 3]]
    prefix = {"kind": "prefix", "prefix_lengths": [0, 3]}
    assert build(daemon, masks=[prefix], **body)["keep"] == [[[False] * 3] * 2, [[True] * 3] * 2]


@pytest.mark.parametrize("mask, pointer, word", [
    ({"kind": "any_of"}, "/masks/0/kind", "needs any_of"),
    ({"kind": "any_of", "any_of": []}, "/masks/0/any_of", "one mask or more"),
    ({"kind": "not", "not": [CAUSAL, CAUSAL]}, "/masks/0/not", "expected one mask, found 2"),
    ({"kind": "all_of", "all_of": [CAUSAL, {"kind": "window"}]}, "/masks/0/all_of/1/kind", "[left, right]"),
    ({"kind": "any_of", "any_of": [{"kind": "values", "attn_mask": [[0.5, 0]]}]}, "/masks/0/any_of/0/attn_mask", "added to the scores"),
    (nested(CAUSAL, 16), "/masks/0" + 16 * "/not" + "/kind", "at most 16"),
    ({"kind": "tree", "parents": [1, 0]}, "/masks/0/parents/0", "lead back"),
    ({"kind": "tree", "parents": [-1, 1]}, "/masks/0/parents/1", "lead back"),
    ({"kind": "tree", "parents": [-1, 2]}, "/masks/0/parents/1", "found 2"),
    ({"kind": "tree", "parents": [-2, 0]}, "/masks/0/parents/0", "found -2"),
    ({"kind": "top_k", "top_k_indices": [[0], [2]]}, "/masks/0/top_k_indices/1/0", "found 2"),
    ({"kind": "prefix", "prefix_lengths": [3]}, "/masks/0/prefix_lengths/0", "found 3"),
])
def test_refused_rules(daemon, mask, pointer, word):
    refused(daemon, {"masks": [mask], "shape": [2, 2]}, "invalid_value", pointer, word, path=MASKS)


@pytest.mark.parametrize("mask", [
    {"kind": "documents", "document_ids": [1, 1, 1]}, {"kind": "tree", "parents": [-1]},
    {"kind": "prefix", "prefix_lengths": [1, 1, 1]}, {"kind": "top_k", "top_k_indices": [[0], [1], [0]]},
])
def test_rules_of_other_shapes(daemon, mask):
    (name,) = mask.keys() - {"kind"}
    refused(daemon, {"masks": [mask], "shape": [2, 2]}, "shape_mismatch", f"/masks/0/{name}", "expected", path=MASKS)


def test_rules_are_skipped(daemon):
    """Of 16 documents in order a sixteenth of the cells is computed, give or take the tiles at their ends."""
    body = {"query": {"shape": [2048, 8], "random": "normal"}, "document_ids": [j // 128 for j in range(2048)], "dry_run": True}
    said = ask(daemon, body)["dry_run"]
    assert 2048 * 128 <= said["num_computed_cells"] <= 2048 * 256 and "document" in said["mask"]
    chosen = {"query": body["query"], "top_k_indices": [[i // 512] for i in range(2048)], "dry_run": True}
    assert ask(daemon, chosen)["dry_run"]["num_computed_cells"] <= 2048 * 64
