"""Models of one stack: an encoder that answers a class of each token, and a decoder that goes on with its text: where they
look, their states, stored runs and rollout; sampling beside a loop in NumPy; what is refused."""
import numpy as np
import pytest
from api_client import array, ask, refused
from oracle import rng
from test_api_models import path

WORDS = ["the", "red", "car", "runs", "."]
CLASSES = ["determiner", "adjective", "noun", "verb", "mark"]
SMALL = {"width": 16, "num_heads": 4, "num_layers": 2, "seed": 5, "embedding_std": 1}
LLAMA = {"positions": "rotary", "activation": "silu", "gated": True, "norm_kind": "rms", "norm_epsilon": 1e-6, "num_kv_heads": 2,
         "rotary_base": 500, "bias": False, "embedding_scale": 1, "tied": True, "embedding_std": 0.3}
BERT = {"positions": "learned", "activation": "gelu", "norm": "after", "embedding_norm": True, "norm_epsilon": 1e-12}


def make(daemon, **fields):
    reply = daemon.post("/v1/models", SMALL | fields)
    assert reply.status_code == 201, reply.text
    return reply.json()


@pytest.fixture(scope="module", params=[{}, BERT], ids=["plain", "bert"])
def encoder(daemon, request):
    return make(daemon, architecture="encoder", source_words=WORDS, target_words=CLASSES, **request.param)


@pytest.fixture(scope="module", params=[{}, LLAMA], ids=["plain", "llama"])
def decoder(daemon, request):
    return make(daemon, architecture="decoder", target_words=WORDS, **request.param)


def look(daemon, model, **fields):
    return ask(daemon, fields, path(model, "/attention"))


def test_descriptions(daemon, encoder, decoder):
    assert encoder["architecture"] == "encoder" and decoder["architecture"] == "decoder"
    assert encoder["sites"] == [{"kind": "encoder", "num_layers": 2, "num_heads": 4}]
    assert decoder["sites"] == [{"kind": "decoder", "num_layers": 2, "num_heads": 4}]
    assert encoder["source"]["vocabulary"] == encoder["target"]["vocabulary"] == decoder["target"]["vocabulary"] == 9
    assert "source" not in decoder
    if decoder["positions"] == "rotary":
        assert {key: decoder[key] for key in LLAMA if key != "embedding_std"} == {key: value for key, value in LLAMA.items() if key != "embedding_std"}
        assert "output_projection" not in decoder["num_parameters"]["parts"]
    else:
        assert not {"activation", "gated", "norm_kind", "tied", "bias"} & decoder.keys()
    words = daemon.get(path(decoder, "/vocabulary")).json()
    assert "source" not in words and words["target"]["words"][4:] == WORDS


def test_an_encoder_sees_all_tokens(daemon, encoder):
    answer = look(daemon, encoder, text=["the red car runs", "the car"], **{"return": ["weights", "logits", "encoder_output"]})
    assert "target" not in answer and [len(s["tokens"]) for s in answer["source"]] == [4, 2]
    weights = array(answer["sites"][1]["weights"])
    assert weights.shape == (2, 4, 4, 4)
    np.testing.assert_allclose(weights[0].sum(-1), 1, atol=1e-5)
    assert (weights[0, :, 0, 3] > 0).all() and (weights[1, :, :2, 2:] == 0).all()
    assert array(answer["logits"]).shape == (2, 4, 9) and array(answer["encoder_output"]).shape == (2, 4, 16)
    alone = look(daemon, encoder, text="the car", **{"return": "logits"})
    np.testing.assert_allclose(array(alone["logits"])[0], array(answer["logits"])[1, :2], atol=1e-5)


def test_a_decoder_sees_no_later_token(daemon, decoder):
    answer = look(daemon, decoder, text="the red car", **{"return": ["weights", "logits"]})
    assert "source" not in answer
    assert answer["target"][0]["tokens"] == ["the", "red", "car", "<eos>"]
    weights = array(answer["sites"][0]["weights"])[0]
    assert weights.shape == (4, 4, 4) and (np.triu(weights, 1) == 0).all()
    logits = array(answer["logits"])[0]
    longer = look(daemon, decoder, tokens=["the", "red", "car", "runs"], **{"return": "logits"})
    np.testing.assert_allclose(array(longer["logits"])[0, :4], logits, atol=1e-5)
    bare = look(daemon, decoder, token_ids=[1, 4, 5, 6], target_begin=False, **{"return": "logits"})
    np.testing.assert_allclose(array(bare["logits"])[0], logits, atol=1e-5)


def test_states_and_inputs(daemon, encoder, decoder):
    for model, side in (encoder, "source"), (decoder, "target"):
        answer = look(daemon, model, text="the red car", **{"return": ["states", "inputs"]})
        assert {state["side"] for state in answer["states"]} == {side}
        steps = [state["step"] for state in answer["states"]]
        assert ("embedding_norm" in steps) == (model.get("embedding_norm", False)) and ("norm" in steps) == (model["norm"] == "before")
        rows = 3 if side == "source" else 4
        assert all(array(state["values"]).shape == (1, rows, 16) for state in answer["states"])
        assert array(answer["sites"][1]["query"]).shape == array(answer["sites"][1]["key"]).shape == (1, 4, rows, 4)
        dry = look(daemon, model, text="the red car", dry_run=True, **{"return": ["states", "inputs", "logits"]})["dry_run"]["shapes"]
        assert dry[f"states.{side}"] == [len(steps), 1, rows, 16] and dry["logits"] == [1, rows, 9]


def test_hidden_tokens(daemon, encoder):
    weights = array(look(daemon, encoder, text="the red car", hide=[1])["sites"][0]["weights"])[0]
    assert (weights[:, :, 1] == 0).all() and (weights[:, :, [0, 2]] > 0).all()


def test_analyses_and_runs(daemon, encoder, decoder):
    for model, kind in (encoder, "encoder"), (decoder, "decoder"):
        answer = look(daemon, model, text="the red car", analysis=["rollout"], store=True, **{"return": "weights"})
        assert [a["kind"] for a in answer["analyses"]] == [kind] and "rollout" in answer["analyses"][0]
        run = answer["run"]["id"]
        described = daemon.get(f"/v1/runs/{run}").json()
        assert len(described["texts"]) == 1 and {site["kind"] for site in described["sites"]} == {kind}
        stored = daemon.get(f"/v1/runs/{run}/weights?site=1&heads=all").json()
        np.testing.assert_allclose(np.squeeze(array(stored["weights"])), np.squeeze(array(answer["sites"][1]["weights"])), atol=1e-6)


def generate(daemon, model, **fields):
    return ask(daemon, fields, path(model, "/generate"))


def continued(daemon, model, text, ids):
    """Logits of each step that led to the ids, and the weights of the last layer."""
    words = ["<pad>", "<bos>", "<eos>", "<unk>"] + WORDS
    answer = look(daemon, model, token_ids=[1] + [words.index(w) for w in text.split()] + ids, target_begin=False,
                  **{"return": ["logits", "weights"]})
    first = len(text.split())
    return array(answer["logits"])[0, first:], array(answer["sites"][1]["weights"])[0][:, first:]


def test_generation_goes_on_with_the_text(daemon, decoder):
    answer = generate(daemon, decoder, text="the red", max_length=4, num_alternatives=2, **{"return": "weights"})["sequences"][0]
    ids = answer["target"]["ids"]
    logits, weights = continued(daemon, decoder, "the red", ids[:-1])
    logits[:, :2] = -np.inf
    assert ids == logits.argmax(-1).tolist()
    assert [step["id"] for step in answer["steps"]] == ids
    np.testing.assert_allclose(array(answer["weights"]), weights, atol=1e-5)
    assert answer["source"]["tokens"] == ["the", "red"]
    shorter = generate(daemon, decoder, text=["the red", "car"], max_length=4)["sequences"]
    assert [s["target"]["ids"] for s in shorter][0] == ids
    assert shorter[1]["target"]["ids"] == generate(daemon, decoder, text="car", max_length=4)["sequences"][0]["target"]["ids"]
    tokens = shorter[0]["target"]["tokens"]
    assert shorter[0]["heatmap"]["labels"] == {"query": tokens, "key": ["<bos>", "the", "red"] + tokens[:-1]}


def sample(logits, temperature, top_k, top_p, min_p, uniform):
    """One draw, as server/api/README.md defines it."""
    order = np.lexsort((np.arange(2, 9), -logits[2:])) + 2
    weights = np.exp((logits[order].astype(float) - logits.max()) / temperature)[:top_k]
    kept = weights[:1 + np.searchsorted(np.cumsum(weights), top_p * weights.sum() * (1 - 1e-12))]
    kept = kept[kept >= min_p * kept[0]]
    return int(order[min(np.searchsorted(np.cumsum(kept), uniform * kept.sum(), side="right"), len(kept) - 1)])


@pytest.mark.parametrize("way", [{}, {"temperature": 0.5}, {"temperature": 4}, {"top_k": 3}, {"top_p": 0.7}, {"temperature": 2, "top_k": 5, "top_p": 0.8},
                                 {"min_p": 0.4}, {"temperature": 4, "top_k": 6, "top_p": 0.9, "min_p": 0.6}])
def test_sampling_is_that_of_a_loop(daemon, decoder, way):
    seen = set()
    for seed in range(12):
        ids = generate(daemon, decoder, text="the", max_length=5, seed=seed, **{"return": []}, **way)["sequences"][0]["target"]["ids"]
        logits, _ = continued(daemon, decoder, "the", ids[:-1])
        stream = int(rng.bits(seed, np.uint64(0)))
        wanted = [sample(row, way.get("temperature", 1), way.get("top_k", 9), way.get("top_p", 1), way.get("min_p", 0), float(rng.uniform(stream, 1, t)[0]))
                  for t, row in enumerate(logits)]
        assert ids == wanted
        seen |= set(ids)
    assert len(seen) > (2 if way else 4)


def penalised(logits, ids, prompt, way):
    """Logits after `ids`, the first `prompt` of which are the prompt: transformers' processors, and OpenAI's formula."""
    z = logits.astype(float)
    for v in set(ids):
        z[v] = z[v] * way.get("repetition_penalty", 1) if z[v] < 0 else z[v] / way.get("repetition_penalty", 1)
    for v in set(ids[prompt:]):
        z[v] -= way.get("presence_penalty", 0) + way.get("frequency_penalty", 0) * ids[prompt:].count(v)
    n = way.get("no_repeat_ngram_size", 0)
    for i in range(len(ids) - n + 1 if n else 0):
        if ids[i:i + n - 1] == ids[len(ids) - n + 1:]:
            z[ids[i + n - 1]] = -np.inf
    return z


PENALTIES = [{"repetition_penalty": 1.5}, {"repetition_penalty": 0.6}, {"frequency_penalty": 2}, {"presence_penalty": 3}, {"no_repeat_ngram_size": 1},
             {"no_repeat_ngram_size": 2}, {"repetition_penalty": 2, "frequency_penalty": -0.5, "presence_penalty": 1, "no_repeat_ngram_size": 3}]


@pytest.mark.parametrize("way", PENALTIES)
def test_penalties_are_those_of_a_loop(daemon, decoder, way):
    """Greedy and drawn; each token is the largest logit, or the draw of the logits, after the penalties."""
    free = set()
    for text in ("the", "the red the red", "car the car"):
        prompt = 1 + len(text.split())
        for seed in (None, 3, 4):
            more = {} if seed is None else {"seed": seed, "temperature": 3}
            answer = generate(daemon, decoder, text=text, max_length=6, num_alternatives=3, **more, **way)["sequences"][0]
            ids = answer["target"]["ids"]
            logits, _ = continued(daemon, decoder, text, ids[:-1])
            before = [1, *(4 + WORDS.index(word) for word in text.split())]
            stream = int(rng.bits(seed or 0, np.uint64(0)))
            for t, row in enumerate(logits):
                z = penalised(row, before + ids[:t], prompt, way)
                if seed is None:
                    assert ids[t] == 2 + int(np.argmax(z[2:])), (text, t)
                else:
                    assert ids[t] == sample(z, 3, 9, 1, 0, float(rng.uniform(stream, 1, t)[0])), (text, t)
                chances = z - z.max() - np.log(np.exp(z - z.max()).sum())
                told = answer["steps"][t]
                assert abs(np.log(told["probability"]) - chances[ids[t]]) < 1e-4
                assert all(a["probability"] > 0 for a in told["alternatives"])
            whole = generate(daemon, decoder, text=text, max_length=6, **more)["sequences"][0]["target"]["ids"]
            free.add(whole == ids)
    assert False in free  # the penalty changes a text


def test_all_tokens_are_forbidden(daemon, decoder):
    """no_repeat_ngram_size 1: when each token was taken once, the text ends there, as a stream, too."""
    body = {"text": "the red car", "max_length": 9, "no_repeat_ngram_size": 1, "num_alternatives": 9}
    answer = generate(daemon, decoder, **body)["sequences"][0]
    ids = answer["target"]["ids"]
    assert len(ids) == len(set(ids)) and not set(ids) & {4 + WORDS.index(word) for word in ("the", "red", "car")}
    assert all(step["probability"] > 0 for step in answer["steps"])
    events = daemon.post(path(decoder, "/generate"), body | {"stream": True}).text
    assert events.count("event: token") == len(ids) and "event: done" in events


def test_tokens_that_stop(daemon, decoder):
    free = generate(daemon, decoder, text="the red", max_length=6, **{"return": []})["sequences"][0]["target"]["tokens"]
    word = next(token for token in free if token in WORDS)
    for stop in {"stop_tokens": [word]}, {"stop_token_ids": [4 + WORDS.index(word)]}:
        sequence = generate(daemon, decoder, text="the red", max_length=6, **stop, **{"return": []})["sequences"][0]
        assert sequence["ended"] and sequence["target"]["tokens"] == free[:free.index(word) + 1]
        assert sequence["text"].split() == [t for t in free[:free.index(word)]]


def test_a_stored_generation(daemon, decoder):
    answer = generate(daemon, decoder, text="the red", max_length=3, seed=3, store=True)
    ids = answer["sequences"][0]["target"]["ids"]
    run = daemon.get(f"/v1/runs/{answer['run']['id']}").json()
    assert len(run["texts"]) == 1 and run["texts"][0]["ids"] == [1, 4, 5] + ids
    _, weights = continued(daemon, decoder, "the red", ids[:-1])
    stored = daemon.get(f"/v1/runs/{answer['run']['id']}/weights?site=1&heads=all").json()
    np.testing.assert_allclose(np.squeeze(array(stored["weights"]))[:, 2:], weights, atol=1e-5)


def test_a_stream(daemon, decoder):
    whole = generate(daemon, decoder, text="the red", max_length=3)["sequences"][0]
    events = daemon.post(path(decoder, "/generate"), {"text": "the red", "max_length": 3, "stream": True}).text
    assert events.count("event: token") == len(whole["target"]["ids"])
    assert "event: start" in events and "event: done" in events


def test_text_and_pictures(daemon, encoder, decoder):
    for model in encoder, decoder:
        for what in ["/attention"] + ["/generate"] * (model is decoder):
            for media in "text/plain", "image/svg+xml", "image/png":
                reply = daemon.post(path(model, what), {"text": "the red car"}, headers={"Accept": media})
                assert reply.status_code == 200 and reply.content, reply.text


@pytest.mark.parametrize("what, fields, code, pointer", [
    ("encoder/generate", {"text": "the"}, "invalid_value", None),
    ("encoder/attention", {"text": "the", "target_text": "noun"}, "invalid_value", "/target_text"),
    ("encoder/attention", {"text": "the", "target_end": False}, "invalid_value", "/target_end"),
    ("encoder/attention", {"text": "the", "sites": "cross"}, "invalid_value", "/sites"),
    ("decoder/attention", {"text": "the", "target_text": "the"}, "invalid_value", "/target_text"),
    ("decoder/attention", {"text": "the", "hide": [0]}, "invalid_value", "/hide"),
    ("decoder/attention", {"text": "the", "return": "encoder_output"}, "invalid_value", "/return"),
    ("decoder/attention", {}, "invalid_value", "/text"),
    ("decoder/generate", {"text": "the", "temperature": 2}, "invalid_value", "/temperature"),
    ("decoder/generate", {"text": "the", "min_p": 0.5}, "invalid_value", "/min_p"),
    ("decoder/generate", {"text": "the", "seed": 1, "min_p": 1.5}, "invalid_value", "/min_p"),
    ("decoder/generate", {"text": "the", "seed": 1, "num_beams": 2}, "invalid_value", "/num_beams"),
    ("decoder/generate", {"text": "the", "repetition_penalty": 0}, "invalid_value", "/repetition_penalty"),
    ("decoder/generate", {"text": "the", "presence_penalty": 1, "num_beams": 2}, "invalid_value", "/num_beams"),
    ("decoder/generate", {"text": "the", "no_repeat_ngram_size": 0}, "invalid_value", "/no_repeat_ngram_size"),
    ("decoder/generate", {"text": "the", "stop_tokens": ["lorry"]}, "invalid_value", "/stop_tokens/0"),
    ("decoder/generate", {"text": "the", "stop_token_ids": [9]}, "invalid_value", "/stop_token_ids/0"),
])
def test_refusals(daemon, encoder, decoder, what, fields, code, pointer):
    model, route = what.split("/")
    where = path({"encoder": encoder, "decoder": decoder}[model], f"/{route}")
    refused(daemon, fields, code, pointer, path=where)


@pytest.mark.parametrize("fields, pointer", [
    ({"architecture": "decoder", "target_words": WORDS, "source_words": WORDS}, "/source_words"),
    ({"architecture": "decoder", "target_words": WORDS, "attention": "additive"}, "/attention"),
    ({"architecture": "encoder", "source_words": WORDS, "target_words": WORDS, "num_kv_heads": 3}, "/num_kv_heads"),
    ({"architecture": "encoder", "source_words": WORDS, "target_words": CLASSES + ["x"], "tied": True}, "/tied"),
    ({"source_words": WORDS, "target_words": CLASSES, "gated": True}, "/gated"),
])
def test_models_that_cannot_be(daemon, fields, pointer):
    reply = daemon.post("/v1/models", SMALL | fields)
    assert reply.status_code in (400, 422) and reply.json()["pointer"] == pointer, reply.text


def test_pooled_classes(daemon):
    model = make(daemon, architecture="encoder", source_words=WORDS, target_words=CLASSES, head="pooled")
    assert array(look(daemon, model, text=["the red car", "the"], **{"return": "logits"})["logits"]).shape == (2, 9)
    assert look(daemon, model, text="the red car", dry_run=True, **{"return": "logits"})["dry_run"]["shapes"] == {"logits": [1, 9]}
