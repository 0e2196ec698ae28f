"""/v1/models: the outputs of the encoder beside the textbook's formulas in NumPy, source tokens that are hidden, tokens that
the model adds itself, unknown words, and offsets for browsers."""
import json

import numpy as np
import pytest
from api_client import array, ask, refused
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_models import SMALL, TORCH, make, path, torch_daemon  # noqa: F401, a fixture

from oracle.layers import attend, norm, read_both_ways, softmax
from oracle.tensors import write_bits

ENFR = {"id": "en-fr"}


@pytest.fixture(scope="module")
def model(daemon):
    return make(daemon)


@pytest.fixture(scope="module")
def transformer(daemon):
    return make(daemon, architecture="transformer", num_layers=2)


# --- encode(), decode(), src_mask ---

def encode(p, ids, keep, positions):
    """encode() of the textbook: embedding, positions, bidirectional LSTM, self-attention with src_mask, layer norm."""
    x = p["src_embedding.weight"][ids] * np.sqrt(p["src_embedding.weight"].shape[1]) + positions[:len(ids)]
    (x,), _ = read_both_ways(p, x, 1)
    projections = [(p[f"encoder_attention.{w}.weight"], p[f"encoder_attention.{w}.bias"]) for w in ("W_q", "W_k", "W_v", "W_o")]
    return norm(x + attend(x, x, projections, 2, keep), p, "encoder_norm")


@pytest.mark.parametrize("hidden", [[], [1], [0, 2]])
def test_the_encoder_is_the_textbooks(torch_daemon, document, hidden):  # noqa: F811
    p = {k.removeprefix("dot/p/"): v.astype(np.float64) for k, v in TORCH.items() if k.startswith("dot/p/")}
    ids = [4, 7, 9, 5]
    keep = np.array([i not in hidden for i in range(len(ids))])
    body = {"token_ids": ids, "target_token_ids": [5], "token_mask": keep.tolist(), "return": "encoder_output"}
    answer = ask(torch_daemon, body, "/v1/models/dot/attention")
    schema(document, "ModelAttention").validate(answer)
    want = encode(p, ids, keep, p["pos_encoding.position_embeddings.weight"])
    assert np.abs(array(answer["encoder_output"])[0] - want).max() < 1e-5
    assert answer["source"][0].get("hidden_tokens", []) == hidden


@pytest.mark.parametrize("kind", ["model", "transformer"])
def test_decode_sees_the_source_through_the_mask(daemon, request, kind):
    """hide and token_mask are one; no site looks at a hidden token; what is seen is renormalised."""
    made = request.getfixturevalue(kind)
    body = {"text": ["the red car .", "the car"], "target_text": ["la voiture", "la"], "return": ["weights", "logits", "encoder_output"]}
    hidden = ask(daemon, body | {"hide": [[1, 3], []]}, path(made, "/attention"))
    masks = [[[True, False, True, False], [True, True, False, False]], [[[[True, False, True, False]]], [[[True] * 4]]]]
    masks.append(write_bits(np.array(masks[0])))
    for mask in masks:  # [B, S], the textbook's [B, 1, 1, S], and bits
        assert ask(daemon, body | {"token_mask": mask}, path(made, "/attention")) == hidden
    assert [s.get("hidden_tokens") for s in hidden["source"]] == [[1, 3], None]
    whole = ask(daemon, body, path(made, "/attention"))
    for some, all_ in zip(hidden["sites"], whole["sites"]):
        w = array(some["weights"])[0]
        if some["kind"] != "decoder":
            assert (w[..., [1, 3]] == 0).all() and np.allclose(w[..., :3, :].sum(-1), 1, atol=1e-5)
        assert np.abs(array(some["weights"])[1] - array(all_["weights"])[1]).max() < 1e-6  # nothing of the second is hidden
    assert hidden["logits"][0] != whole["logits"][0]
    rows = ["hide", [[1, 3], []], "token_mask", [[False, True, True, True], [True] * 4]]
    both = ask(daemon, body | dict(zip(rows[::2], rows[1::2])), path(made, "/attention"))
    assert both["source"][0]["hidden_tokens"] == [0, 1, 3]


def test_a_hidden_end_is_a_shorter_text(daemon, transformer):
    long = ask(daemon, {"text": "the red car .", "target_text": "la", "hide": [2, 3], "return": "logits"}, path(transformer, "/attention"))
    short = ask(daemon, {"text": "the red", "target_text": "la", "return": "logits"}, path(transformer, "/attention"))
    assert np.abs(array(long["logits"]) - array(short["logits"])).max() < 1e-5


@pytest.mark.parametrize("beams", [1, 3])
def test_generation_without_some_words(daemon, model, transformer, beams):
    for made in (model, transformer):
        body = {"text": ["the red car", "red"], "hide": [[1], []], "num_beams": beams, "max_length": 5, "return": "weights"}
        answer = ask(daemon, body, path(made, "/generate"))
        assert (array(answer["sequences"][0]["weights"])[..., 1] == 0).all()
        assert answer["sequences"][0]["source"]["hidden_tokens"] == [1] and "hidden_tokens" not in answer["sequences"][1]["source"]


def test_hiding_the_noun_changes_the_translation(daemon):
    plain, without = (ask(daemon, {"text": "the red car", "return": []} | more, path(ENFR, "/generate"))["sequences"][0]["text"]
                      for more in ({}, {"hide": [2]}))
    assert plain == "la voiture rouge" and "voiture" not in without


def test_a_source_that_is_hidden_whole(daemon, model):
    answer = ask(daemon, {"text": "the red", "target_text": "la", "hide": [0, 1]}, path(model, "/attention"))
    assert answer["warnings"] == [{"code": "nothing_visible", "pointer": "/hide", "detail": "all tokens of source 0 are hidden: its weights are 0"}]
    assert all((array(s["weights"]) == 0).all() for s in answer["sites"])


@pytest.mark.parametrize("fields, code, pointer, words", [
    ({"hide": [3]}, "invalid_value", "/hide/0", ["0 to 2", "found 3"]),
    ({"hide": [0, -1]}, "invalid_value", "/hide/1", ["found -1"]),
    ({"hide": [[0], [1]]}, "shape_mismatch", "/hide", ["1 list", "found 2"]),
    ({"hide": 1}, "wrong_type", "/hide", ["a list of integers"]),
    ({"hide": ["red"]}, "wrong_type", "/hide/0", ["an integer"]),
    ({"token_mask": [True, False]}, "shape_mismatch", "/token_mask", ["[1, 3]"]),
    ({"token_mask": [1, 0, 1]}, "wrong_type", "/token_mask/0", ["true or false"]),
    ({"token_mask": {"shape": [3], "encoding": "bits", "base64": "DQ=="}}, "invalid_value", "/token_mask", ["behind its last element"]),
    ({"token_mask": {"shape": [3], "encoding": "bits"}}, "invalid_value", "/token_mask", ["the bits are missing"]),
    ({"offset_unit": "utf8"}, "invalid_value", "/offset_unit", ["utf16"]),
])
def test_refusals(daemon, model, fields, code, pointer, words):
    for what in ("/attention", "/generate"):
        refused(daemon, {"text": "the red car"} | fields, code, pointer, *words, path=path(model, what))


def test_a_token_mask_is_described_as_booleans(daemon):
    schemas = daemon.get("/openapi.json").json()["components"]["schemas"]
    for name in ("ModelAttentionRequest", "ModelGenerationRequest"):
        row = schemas[name]["properties"]["token_mask"]
        assert row["anyOf"][0] == {"$ref": "#/components/schemas/BooleanTensor"}
    assert {"type": "array", "items": {"type": "boolean"}} in schemas["BooleanTensorList"]["oneOf"]
    assert "number" not in json.dumps(schemas["BooleanTensorList"])


def test_without_attention_nothing_can_be_hidden(daemon):
    made = make(daemon, attention="none")
    refused(daemon, {"text": "the red car", "hide": [0]}, "invalid_value", "/hide", "no attention", path=path(made, "/generate"))
    daemon.request("DELETE", path(made))


def test_memory_for_hidden_tokens_suffices(daemon):
    made = make(daemon, width=64, num_layers=2, architecture="transformer")
    for body in ({"token_ids": [[4] * 300] * 2, "target_token_ids": [[4] * 300] * 2, "return": ["logits", "encoder_output"]},
                 {"token_ids": [[4] * 300] * 2, "num_beams": 8, "max_length": 20}):
        what = "/generate" if "num_beams" in body else "/attention"
        body |= {"hide": [[1, 7], list(range(0, 300, 2))]}
        assert daemon.post(path(made, what), body).status_code == 200
    daemon.request("DELETE", path(made))


def test_the_cost_names_the_outputs_of_the_encoder(daemon, model):
    said = ask(daemon, {"text": "the red car", "target_text": "la", "return": "encoder_output", "dry_run": True}, path(model, "/attention"))["dry_run"]
    assert said["shapes"]["encoder_output"] == [1, 3, SMALL["width"]]


def test_the_encoder_in_text(daemon, model):
    text = daemon.post(path(model, "/attention"), {"text": "the red", "target_text": "la", "return": "encoder_output"},
                       headers={"Accept": "text/plain"}).text
    assert "encoder_output" in text


@pytest.mark.parametrize("fields, tensors, heats", [
    ({}, [], True),
    ({"return": "logits"}, ["logits (1, 2, 10)"], False),
    ({"return": ["logits", "weights"]}, ["weights.encoder.0 (1, 2, 2, 2)", "weights.encoder.1 (1, 2, 2, 2)", "weights.decoder.0 (1, 2, 2, 2)",
     "weights.decoder.1 (1, 2, 2, 2)", "weights.cross.0 (1, 2, 2, 2)", "weights.cross.1 (1, 2, 2, 2)", "logits (1, 2, 10)"], False),
    ({"return": "weights", "sites": "cross", "layers": [1], "heads": [1]}, ["weights.cross.1 (1, 1, 2, 2)"], False),
    ({"return": ["weights", "heatmap"], "sites": "cross", "layers": [0]}, ["weights.cross.0 (1, 2, 2, 2)"], True),
    ({"return": "weights", "sites": "cross", "layers": [0], "heatmap": {"heads": "mean"}}, ["weights.cross.0 (1, 2, 2, 2)"], True),
    ({"return": [], "analysis": "entropy"}, [], False),
])
def test_text_has_what_return_names(daemon, transformer, fields, tensors, heats):
    body = {"text": "the red", "target_text": "la", "decimals": 3} | fields
    text = daemon.post(path(transformer, "/attention"), body, headers={"Accept": "text/plain"}).text
    assert [line[:-1] for line in text.splitlines() if line.endswith("):")] == tensors
    assert ("┌" in text) == heats
    if "weights" in fields.get("return", []):
        values = ask(daemon, body | {"decimals": 3}, path(transformer, "/attention"))["sites"][-1]["weights"]
        assert f"{values[0][-1][-1][0]:.3f}".rstrip("0") in text


# --- tokens that the model adds itself ---

def test_a_second_begin_is_warned_of(daemon, model):
    for target in ({"target_token_ids": [1, 4]}, {"target_tokens": ["<bos>", "la"]}):
        answer = ask(daemon, {"text": "the"} | target, path(model, "/attention"))
        warning, = answer["warnings"]
        assert warning["code"] == "begin_given" and warning["pointer"] == "/" + next(iter(target)) and "<bos>" in warning["detail"]
        assert answer["target"][0]["tokens"] == ["<bos>", "la", "<eos>"]
    many = ask(daemon, {"text": ["the", "the"], "target_token_ids": [[4, 0], [4, 1]]}, path(model, "/attention"))
    assert [w["pointer"] for w in many["warnings"]] == ["/target_token_ids/1"]
    assert "warnings" not in ask(daemon, {"text": "the", "target_tokens": ["la"]}, path(model, "/attention"))


def test_the_end_may_be_given(daemon, model):
    body = {"text": "the red", "return": ["weights", "logits"]}
    plain = ask(daemon, body | {"target_token_ids": [4, 5]}, path(model, "/attention"))
    assert ask(daemon, body | {"target_token_ids": [4, 5, 2]}, path(model, "/attention")) == plain
    assert ask(daemon, body | {"target_tokens": ["la", "voiture", "<eos>"]}, path(model, "/attention")) == plain
    assert ask(daemon, body | {"target_token_ids": [2]}, path(model, "/attention"))["target"][0] == {"tokens": ["<eos>"], "ids": [2]}
    assert daemon.post(path(model, "/attention"), body | {"target_token_ids": [4] * 511 + [2]}).status_code == 200
    refused(daemon, body | {"target_token_ids": [4] * 512}, "invalid_value", "/target_token_ids", "511", path=path(model, "/attention"))


@pytest.mark.parametrize("kind", ["model", "transformer"])
def test_a_target_as_it_stands(daemon, request, kind):
    """A target of 4 x 25 has 25 rows, and they are the rows of the same target with its end."""
    made = request.getfixturevalue(kind)
    ids = np.random.default_rng(3).integers(4, 10, (4, 25))
    ids[2, 24] = 2  # a target that brings its end token
    body = {"token_ids": np.random.default_rng(4).integers(4, 8, (4, 30)).tolist(), "target_token_ids": ids.tolist(),
            "return": ["weights", "logits", "states", "heatmap"]}
    whole, bare = (ask(daemon, body | more, path(made, "/attention")) for more in ({}, {"target_end": False}))
    assert array(whole["logits"]).shape == (4, 26, 10) and array(bare["logits"]).shape == (4, 25, 10)
    assert np.abs(array(bare["logits"]) - array(whole["logits"])[:, :25]).max() < 1e-6
    for b, target in enumerate(bare["target"]):
        assert target["ids"] == ids[b].tolist() and len(target["tokens"]) == 25
        assert (target["tokens"][-1] == "<eos>") == (b == 2)
    for some, all_ in zip(bare["sites"], whole["sites"]):
        got, want = array(some["weights"]), array(all_["weights"])
        rows, cols = got.shape[2:]
        assert (rows, cols) == {"encoder": (30, 30), "decoder": (25, 25), "cross": (25, 30)}[some["kind"]]
        assert np.abs(got - want[:, :, :rows, :cols]).max() < 1e-6
        if some["kind"] == "decoder":
            assert some["heatmaps"][0]["labels"] == {"query": bare["target"][0]["tokens"], "key": ["<bos>", *bare["target"][0]["tokens"][:-1]]}
    for some, all_ in zip(bare["states"], whole["states"]):
        got = array(some["values"])
        assert got.shape[1] == (30 if some["side"] == "source" else 25)
        assert np.abs(got - array(all_["values"])[:, :got.shape[1]]).max() < 1e-6


def test_a_target_as_it_stands_of_every_length(daemon, model, transformer):
    for made in (model, transformer):
        asked = {"text": ["the red", "the", "red"], "target_token_ids": [[4, 5, 0], [4, 0, 0], [4, 5, 6]], "return": ["logits", "weights"], "analysis": "entropy"}
        answer = ask(daemon, asked | {"target_end": False}, path(made, "/attention"))
        assert [t["ids"] for t in answer["target"]] == [[4, 5], [4], [4, 5, 6]] and array(answer["logits"]).shape == (3, 3, 10)
        assert {(a["sequence"], a["heads"][0]["num_rows"]) for a in answer["analyses"] if a["kind"] == "cross"} == {(0, 2), (1, 1), (2, 3)}
        text = ask(daemon, {"text": "the", "target_text": "la voiture", "target_end": False}, path(made, "/attention"))["target"][0]
        assert text == {"tokens": ["la", "voiture"], "ids": [4, 5], "offsets": [[0, 2], [3, 10]]}
    long = {"text": "the", "target_token_ids": [4] * 512, "target_end": False, "return": []}
    assert ask(daemon, long, path(model, "/attention"))["target"][0]["ids"] == [4] * 512
    refused(daemon, long | {"target_token_ids": [4] * 513}, "invalid_value", "/target_token_ids", "512", "found 513", path=path(model, "/attention"))
    refused(daemon, {"text": "the", "target_end": False}, "invalid_value", "/target_end", "target_text", path=path(model, "/attention"))
    refused(daemon, {"text": "the", "target_end": 1}, "wrong_type", "/target_end", path=path(model, "/attention"))
    shapes = ask(daemon, {"text": "the", "target_token_ids": [4, 5], "target_end": False, "return": ["weights", "logits"], "dry_run": True}, path(model, "/attention"))["dry_run"]["shapes"]
    assert shapes["logits"] == [1, 2, 10] and shapes["cross"][2] == 2


@pytest.mark.parametrize("kind", ["model", "transformer"])
def test_a_target_that_is_read_alone(daemon, request, kind):
    """decode(tgt, encoder_output): <bos> and the tokens as a target give the rows of the ordinary request without them."""
    made = request.getfixturevalue(kind)
    ids = np.random.default_rng(5).integers(4, 10, (2, 6))
    body = {"token_ids": [[4, 5, 6, 7], [5, 6, 0, 0]], "return": ["weights", "logits", "states", "heatmap"]}
    plain = ask(daemon, body | {"target_token_ids": ids.tolist()}, path(made, "/attention"))
    alone = ask(daemon, body | {"target_token_ids": np.insert(ids, 0, 1, 1).tolist(), "target_begin": False}, path(made, "/attention"))
    assert "warnings" not in alone and alone["logits"] == plain["logits"] and alone["states"] == plain["states"]
    assert [s["weights"] for s in alone["sites"]] == [s["weights"] for s in plain["sites"]]
    assert [t["ids"] for t in alone["target"]] == np.insert(ids, 0, 1, 1).tolist()
    for s in alone["sites"]:
        labels = s["heatmaps"][0]["labels"]
        if s["kind"] != "encoder":
            assert labels["query"] == alone["target"][0]["tokens"] and labels["query"][0] == "<bos>"
        if s["kind"] == "decoder":
            assert labels["key"] == labels["query"]
    without = ask(daemon, body | {"target_token_ids": ids.tolist(), "target_begin": False}, path(made, "/attention"))
    assert array(without["logits"]).shape == (2, 6, 10)
    assert np.abs(array(without["logits"]) - array(plain["logits"])[:, 1:]).max() > 1e-4  # <bos> was not read


def test_what_a_target_read_alone_allows(daemon, model):
    body = {"text": "the red", "target_token_ids": [1, 4, 2], "target_begin": False}
    both = ask(daemon, body | {"return": "logits"}, path(model, "/attention"))
    assert both == ask(daemon, body | {"return": "logits", "target_end": False}, path(model, "/attention"))
    assert both["target"][0]["tokens"] == ["<bos>", "la", "<eos>"] and array(both["logits"]).shape == (1, 3, 10)
    refused(daemon, body | {"target_end": True}, "invalid_value", "/target_end", "target alone", path=path(model, "/attention"))
    refused(daemon, {"text": "the", "target_begin": False}, "invalid_value", "/target_begin", "target_token_ids", path=path(model, "/attention"))
    long = {"text": "the", "target_begin": False, "return": []}
    assert len(ask(daemon, long | {"target_token_ids": [4] * 512}, path(model, "/attention"))["target"][0]["ids"]) == 512
    refused(daemon, long | {"target_token_ids": [4] * 513}, "invalid_value", "/target_token_ids", "512", path=path(model, "/attention"))
    ragged = ask(daemon, {"text": ["the", "red"], "target_text": ["la voiture", "rouge"], "target_begin": False, "analysis": "entropy"},
                 path(model, "/attention"))
    assert [(a["sequence"], a["heads"][0]["num_rows"]) for a in ragged["analyses"] if a["kind"] == "cross"] == [(0, 2), (1, 1)]


def test_a_generated_answer_ends_with_the_end(daemon):
    made, = ask(daemon, {"text": "the red car"}, path(ENFR, "/generate"))["sequences"]
    assert made["ended"] and made["target"]["tokens"] == ["la", "voiture", "rouge", "<eos>"] and made["target"]["ids"][-1] == 2
    assert made["text"] == "la voiture rouge" and made["heatmap"]["labels"]["query"] == made["target"]["tokens"]
    forced = ask(daemon, {"text": "the red car", "target_token_ids": made["target"]["ids"]}, path(ENFR, "/attention"))
    assert forced["target"][0] == made["target"]  # what was generated can be posted back
    cut, = ask(daemon, {"text": "the red car", "max_length": 2}, path(ENFR, "/generate"))["sequences"]
    assert not cut["ended"] and cut["target"]["tokens"] == ["la", "voiture"]


# --- unknown words, offsets ---

def test_positions_of_unknown_words(daemon, model):
    answer = ask(daemon, {"text": ["a red plane", "the car"], "target_text": ["un avion rouge", "la voiture"]}, path(model, "/attention"))
    assert [s.get("unknown") for s in answer["source"]] == [[0, 2], None]
    assert [s.get("unknown") for s in answer["target"]] == [[0, 1], None]
    assert ask(daemon, {"text": "a red plane"}, path(model, "/generate"))["sequences"][0]["source"]["unknown"] == [0, 2]


@pytest.mark.parametrize("unit, size", [(None, lambda s: len(s.encode())), ("bytes", lambda s: len(s.encode())),
                                        ("codepoints", len), ("utf16", lambda s: len(s.encode("utf-16-le")) // 2)])
def test_offsets_by_unit(daemon, model, unit, size):
    text = "The 🚗 l’été café 𝒳 red"
    body = {"text": text, "target_text": "la 🚗 été"} | ({"offset_unit": unit} if unit else {})
    answer = ask(daemon, body, path(model, "/attention"))
    for sequence, whole in ((answer["source"][0], text), (answer["target"][0], body["target_text"])):
        at = 0
        for token, (begin, end) in zip(sequence["tokens"], sequence["offsets"]):
            if token == "<eos>":
                assert begin == end == size(whole)
                continue
            at = whole.lower().replace("’", "'").index(token, at)
            assert (begin, end) == (size(whole[:at]), size(whole[:at + len(token)])), token
            at += len(token)
    made = ask(daemon, {k: v for k, v in body.items() if k != "target_text"}, path(model, "/generate"))["sequences"][0]
    assert made["source"] == answer["source"][0]


# --- alternatives ---

@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("which", ["en-fr", "made"])
def test_alternatives_are_the_softmax_of_the_logits(daemon, model, document, which, beams):  # noqa: F811
    made = ENFR if which == "en-fr" else model
    body = {"text": ["the red car sleeps .", "the car"], "num_alternatives": 4, "num_beams": beams, "max_length": 9, "return": []}
    answer = ask(daemon, body, path(made, "/generate"))
    schema(document, "ModelGeneration").validate(answer)
    for text, sequence in zip(body["text"], answer["sequences"]):
        ids = sequence["target"]["ids"]
        forced = ask(daemon, {"text": text, "target_token_ids": ids, "return": "logits"}, path(made, "/attention"))
        logits = array(forced["logits"])[0]
        p = softmax(logits)
        assert [(s["token"], s["id"]) for s in sequence["steps"]] == list(zip(sequence["target"]["tokens"], ids))
        for t, step in enumerate(sequence["steps"]):
            assert abs(step["probability"] - p[t, ids[t]]) < 1e-5
            best = [2 + v for v in np.argsort(-p[t, 2:], kind="stable")[:4]]  # pad and begin are never taken
            assert [a["probability"] for a in step["alternatives"]] == pytest.approx(p[t, best].tolist(), abs=1e-5)
            assert all(abs(a["probability"] - p[t, a["id"]]) < 1e-5 for a in step["alternatives"])
        if beams == 1:
            assert [s["alternatives"][0]["id"] for s in sequence["steps"]] == ids
            assert sum(np.log([s["probability"] for s in sequence["steps"]])) == pytest.approx(sequence["score"], abs=1e-4)


def test_alternatives_in_text_and_their_bounds(daemon, model):
    text = daemon.post(path(ENFR, "/generate"), {"text": "the red car", "num_alternatives": 2, "return": []}, headers={"Accept": "text/plain"}).text
    lines = text.splitlines()
    assert lines[0] == "la voiture rouge" and [line.split()[0] for line in lines[1:5]] == ["la", "voiture", "rouge", "<eos>"]
    assert all(line.count(",") == 1 for line in lines[1:5])
    few, = ask(daemon, {"text": "the", "num_alternatives": 64, "max_length": 2}, path(model, "/generate"))["sequences"]
    assert all(len(s["alternatives"]) == 8 for s in few["steps"])  # 10 ids without pad and begin
    refused(daemon, {"text": "the", "num_alternatives": 65}, "invalid_value", "/num_alternatives", "64", path=path(model, "/generate"))
    plain = ask(daemon, {"text": "the", "max_length": 2}, path(model, "/generate"))["sequences"][0]
    assert plain == {k: v for k, v in few.items() if k != "steps"}


def test_memory_for_alternatives_suffices(daemon):
    made = make(daemon, source_words=None, target_words=None, source_vocabulary=100, target_vocabulary=100, width=32)
    body = {"token_ids": [[4] * 10] * 8, "num_beams": 8, "max_length": 100, "num_alternatives": 64, "return": []}
    for more in ({}, {"num_beams": 1}, {"num_beams": 1, "token_ids": [4, 5], "stream": True}):
        reply = daemon.post(path(made, "/generate"), body | more)
        assert reply.status_code == 200 and "event: error" not in reply.text
    daemon.request("DELETE", path(made))


# --- the vocabulary ---

def test_the_vocabulary(daemon, model, document):  # noqa: F811
    whole = daemon.get(path(model, "/vocabulary")).json()
    schema(document, "ModelVocabulary").validate(whole)
    specials = ["<pad>", "<bos>", "<eos>", "<unk>"]
    assert whole == {"special": {"pad": 0, "begin": 1, "end": 2, "unknown": 3},
                     "source": {"vocabulary": 8, "ids": [0, 8], "words": specials + SMALL["source_words"]},
                     "target": {"vocabulary": 10, "ids": [0, 10], "words": specials + SMALL["target_words"]}}
    page = daemon.get(path(model, "/vocabulary?side=target&ids=4:6")).json()
    assert page == {"special": whole["special"], "target": {"vocabulary": 10, "ids": [4, 6], "words": ["la", "voiture"]}}
    assert daemon.get(path(model, "/vocabulary?ids=7:10")).json()["source"] == {"vocabulary": 8, "ids": [7, 8], "words": ["."]}
    assert daemon.get(path(model, "/vocabulary?ids=8:9")).json()["source"] == {"vocabulary": 8, "ids": [8, 8], "words": []}
    text = daemon.get(path(model, "/vocabulary?side=source&ids=3:6"), headers={"Accept": "text/plain"}).text
    assert text == "source: 8 ids\n3\t<unk>\n4\tthe\n5\tred\n"


def test_the_vocabulary_of_the_built_in_model(daemon):
    words = daemon.get(path(ENFR, "/vocabulary")).json()
    for side in ("source", "target"):
        ids = {word: i for i, word in enumerate(words[side]["words"])}
        assert len(ids) == words[side]["vocabulary"]
        field = "tokens" if side == "source" else "target_tokens"
        some = words[side]["words"][4:40]
        answer = ask(daemon, {"text": "the", "target_text": "la"} | {field: some} | ({"text": None} if side == "source" else {"target_text": None}),
                     path(ENFR, "/attention"))
        assert answer[side][0]["ids"][:len(some)] == [ids[w] for w in some]


@pytest.mark.parametrize("query, pointer, words", [
    ("ids=4:4", "/ids", ["0 <= from < to <= 10"]), ("ids=0:11", "/ids", ["found 0:11"]), ("side=both", "/side", ["source"]),
    ("page=1", "/page", ["ids"])])
def test_refused_vocabularies(daemon, model, query, pointer, words):
    problem = daemon.get(path(model, f"/vocabulary?{query}"))
    assert problem.status_code == 422 and problem.json()["pointer"] == pointer, problem.text


def test_a_vocabulary_without_words(daemon):
    made = make(daemon, source_words=None, source_vocabulary=9)
    assert daemon.get(path(made, "/vocabulary")).json()["source"] == {"vocabulary": 9, "ids": [0, 9]}
    assert daemon.get(path(made, "/vocabulary?side=source"), headers={"Accept": "text/plain"}).text == "source: 9 ids without words\n"
    daemon.request("DELETE", path(made))
    assert daemon.get(path(made, "/vocabulary")).status_code == 404
