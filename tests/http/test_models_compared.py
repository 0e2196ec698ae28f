"""The field against of POST /v1/models/{id}/explain: a text beside a second one or beside interventions, by head, cell, loss and logit,
compared with the transformer in NumPy float64 of test_models_explain.py."""
import numpy as np
import pytest
from api_client import array, ask, refused
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_known_models import known  # noqa: F401, a fixture
from test_api_models import path, torch_daemon  # noqa: F401, a fixture
from test_models_explain import OTHER, READ, SOURCE, TARGET, decoder, explain, head, log_softmax, model  # noqa: F401, fixtures
from test_models_stacks import make


def close(got, want, bound=1e-5):
    np.testing.assert_allclose(got, want, atol=bound * max(1, np.abs(want).max()), rtol=0)


def heads_are(heads, first, second):
    """Every head of the answer beside the weights of both sides, [heads, L, S] by (kind, layer)."""
    assert [(h["kind"], h["layer"], h["head"]) for h in heads] == [(kind, layer, n) for kind, layer in first for n in range(len(first[kind, layer]))]
    for h in heads:
        differ = (first[h["kind"], h["layer"]] - second[h["kind"], h["layer"]])[h["head"]]
        close(h["total_variation"], np.abs(differ).sum() / 2 / len(differ))
        close(h["largest"], differ[h["query"], h["key"]])
        close(abs(h["largest"]), np.abs(differ).max())


def logits_are(place, first, second):
    """The tokens of the largest changes of the probability, with logits and log probabilities of both."""
    logs = log_softmax(first), log_softmax(second)
    ids = [token["id"] for token in place["logits"]]
    changes = np.abs(np.exp(logs[0]) - np.exp(logs[1]))
    close(changes[ids], np.sort(changes)[::-1][:len(ids)])
    for key, want in {"text": first, "against": second, "log_probability_text": logs[0], "log_probability_against": logs[1]}.items():
        close([token[key] for token in place["logits"]], want[ids])


def loss(logits):
    return -log_softmax(logits)[np.arange(3), TARGET].mean()


def run(numpy, text, changes=None):
    """Logits and weights of a text."""
    logits = numpy.run([text], changes)[0]
    return logits, {site: w[0] for site, w in numpy.weights.items()}


ZERO = ({"ablate": [{"site": "cross", "layer": 0, "head": 1}]}, {("cross", 0): head(1, np.zeros_like)})
HALF = ({"scale": [{"site": "encoder", "layer": 0, "head": 0, "factor": 0.5}]}, {("encoder", 0): head(0, lambda z: z / 2)})
MEAN = ({"ablate": [{"layer": 0, "head": 0, "how": "mean"}]}, {("decoder", 0): head(0, lambda z: z * 0 + z.mean(1, keepdims=True))})


@pytest.mark.parametrize("mine, against, text", [
    (({}, None), ZERO, None), (ZERO, ({}, None), None), (HALF, MEAN, None), (({}, None), ({}, None), OTHER), (ZERO, HALF, OTHER), (({}, None), MEAN, OTHER)])
def test_texts_and_interventions_beside_numpy(torch_daemon, document, model, mine, against, text):  # noqa: F811
    numpy, name = model
    fields = mine[0] | {"against": against[0] | ({"token_ids": text} if text else {})}
    if not fields["against"] and not mine[0]:
        fields["against"] = {"token_ids": text}
    (first, weights), (second, others) = run(numpy, SOURCE, mine[1]), run(numpy, text or SOURCE, against[1])
    answer = explain(torch_daemon, name, positions=[1, 3], top_k=6, **fields)
    schema(document, "ModelExplanation").validate(answer)
    assert set(answer) == {"tokens", "against"} | ({"change"} if mine[0] else set())
    found = answer["against"]
    assert found["tokens"]["ids"] == READ
    order = [(kind, layer) for kind in ("encoder", "decoder", "cross") for layer in (0, 1)]
    heads_are(found["heads"], {site: weights[site] for site in order}, {site: others[site] for site in order})
    for place, t in zip(found["positions"], (1, 3)):
        assert place["position"] == place["position_against"] == t and len(place["logits"]) == 6
        logits_are(place, first[t], second[t])
    assert found["loss"]["num_tokens"] == found["loss"]["num_tokens_against"] == 3
    assert abs(found["loss"]["text"] - loss(first)) < 1e-5 and abs(found["loss"]["against"] - loss(second)) < 1e-5
    assert np.abs(first - second).max() > 2e-5


def test_a_patch_of_against(torch_daemon, model):  # noqa: F811
    """The other text is that of the request, and only the changed side is patched."""
    numpy, name = model

    def stream(x):
        x = x.copy()
        x[0, 2] = x[1, 3]
        return x
    first = numpy.run([SOURCE])[0]
    second = numpy.run([SOURCE, OTHER], {("encoder", 0, "feed"): stream})[0]
    answer = explain(torch_daemon, name, other_token_ids=OTHER, against={"patch": [{"site": "encoder", "layer": 0, "position": 2, "other_position": 3}]})
    logits_are(answer["against"]["positions"][0], first[3], second[3])


def test_references_are_those_of_both(torch_daemon, model):  # noqa: F811
    numpy, name = model
    seen = []
    numpy.run([[4, 5]], {("encoder", 0): lambda z: seen.append(z[0, :, 0]) or z})
    mean = seen[0].mean(0)
    second = numpy.run([OTHER], {("encoder", 0): head(0, lambda z: z * 0 + mean)})[0]
    answer = explain(torch_daemon, name, reference_token_ids=[4, 5], against={"token_ids": OTHER, "ablate": [{"site": "encoder", "layer": 0, "head": 0, "how": "mean"}]})
    logits_are(answer["against"]["positions"][0], numpy.run([SOURCE])[0][3], second[3])


def test_sources_of_other_lengths(torch_daemon, model):  # noqa: F811
    """The decoder reads the same target, so its own heads are compared; others are not, and a warning says so."""
    numpy, name = model
    first, second = run(numpy, SOURCE), run(numpy, [6, 8, 9, 10, 4, 5])
    answer = explain(torch_daemon, name, against={"token_ids": [6, 8, 9, 10, 4, 5]})
    decodes = [("decoder", 0), ("decoder", 1)]
    heads_are(answer["against"]["heads"], {s: first[1][s] for s in decodes}, {s: second[1][s] for s in decodes})
    assert [(w["code"], w["pointer"]) for w in answer["warnings"]] == [("lengths_differ", "/against")]
    logits_are(answer["against"]["positions"][0], first[0][3], second[0][3])


def of_attention(daemon, where, text):
    answer = ask(daemon, text | {"return": ["weights", "logits"]}, f"{where}/attention")
    return array(answer["logits"])[0].astype(float), {(s["kind"], s["layer"]): array(s["weights"])[0] for s in answer["sites"]}


@pytest.mark.parametrize("other", ["the red runs .", "the car runs . red the"])
def test_a_decoder_alone(daemon, decoder, other):  # noqa: F811
    """Beside the numbers of /attention for each text. Texts of other lengths are compared at their ends."""
    text = "the red car ."
    answer = ask(daemon, {"text": text, "against": {"text": other}, "top_k": 7}, path(decoder, "/explain"))["against"]
    (first, weights), (second, others) = (of_attention(daemon, path(decoder), {"text": x}) for x in (text, other))
    same = len(first) == len(second)
    heads_are(answer["heads"], weights if same else {}, others)
    place = answer["positions"][0]
    assert (place["position"], place["position_against"]) == (len(text.split()), len(other.split()))
    assert (place["token"], place["token_against"]) == (".", other.split()[-1])
    logits_are(place, first[-1], second[-1])
    assert (answer["loss"]["num_tokens"], answer["loss"]["num_tokens_against"]) == (len(text.split()), len(other.split()))


@pytest.mark.parametrize("name, text, other", [("llama", [5, 9, 7, 12], [5, 8, 7, 6]), ("roberta", [0, 9, 7, 2], [0, 8, 8, 2]), ("gemma2", [5, 9, 7, 12, 8, 6], [5, 9, 3, 12, 8, 6])])
def test_models_of_files(known, name, text, other):  # noqa: F811
    answer = ask(known, {"token_ids": text, "against": {"token_ids": other}}, f"/v1/models/{name}/explain")["against"]
    (first, weights), (second, others) = (of_attention(known, f"/v1/models/{name}", {"token_ids": x}) for x in (text, other))
    heads_are(answer["heads"], weights, others)
    logits_are(answer["positions"][0], first[-1], second[-1])


def test_long_texts_are_compared_in_blocks(daemon):
    """Rows of many keys, which are computed in several pieces."""
    words = [f"w{i}" for i in range(40)]
    made = make(daemon, architecture="decoder", target_words=words, num_heads=2, num_layers=1, width=16, seed=3, max_length=700)
    rng = np.random.default_rng(2)
    texts = [" ".join(rng.choice(words, 600)) for _ in range(2)]
    answer = ask(daemon, {"text": texts[0], "against": {"text": texts[1]}}, path(made, "/explain"))["against"]
    (_, weights), (_, others) = (of_attention(daemon, path(made), {"text": x}) for x in texts)
    heads_are(answer["heads"], weights, others)


def test_an_encoder_alone(daemon):
    encoder = make(daemon, architecture="encoder", source_words=["a", "b"], target_words=["x", "y"], num_heads=2, num_layers=1, width=16, seed=3)
    answer = ask(daemon, {"text": "a b", "against": {"text": "b b"}}, path(encoder, "/explain"))["against"]
    assert "loss" not in answer and len(answer["heads"]) == 2 and len(answer["positions"][0]["logits"]) == 5


def test_text(daemon, decoder):  # noqa: F811
    body = {"text": "the red car", "against": {"text": "the red runs", "ablate": [{"layer": 0, "head": 1}]}, "top_k": 2}
    text = daemon.post(path(decoder, "/explain"), body, headers={"Accept": "text/plain"}).text
    lines = text.splitlines()
    assert lines[0].startswith("loss ") and ", against " in lines[0] and lines[1] == "after 3 car, against 3 runs: logit, probability"
    heads = lines[lines.index("heads that differ most: total variation, largest difference") + 1:]
    variations = [float(line.split(": ")[1].split(",")[0]) for line in heads]
    assert len(heads) == 4 and variations == sorted(variations, reverse=True) and " from 3 car to " in text


def test_what_is_refused(daemon, decoder):  # noqa: F811
    for against, pointer in (({}, "/against"), ({"text": ["the", "red"]}, "/against/text"), ({"ablate": [{"layer": 5}]}, "/against/ablate/0/layer"),
                             ({"patch": [{"layer": 0}]}, "/against/patch"), ({"scale": [{"layer": 0, "factor": 2, "position": 9}]}, "/against/scale/0/position")):
        reply = daemon.post(path(decoder, "/explain"), {"text": "the red car", "against": against})
        assert reply.status_code == 422 and reply.json()["pointer"] == pointer, reply.text
    refused(daemon, {"text": "the red car", "positions": [3], "against": {"text": "the"}}, "invalid_value", "/positions/0", "against", path=path(decoder, "/explain"))
    refused(daemon, {"text": "the", "against": {"model": "x"}}, "unknown_field", "/against/model", path=path(decoder, "/explain"))


def test_a_dry_run_counts_both(daemon, decoder):  # noqa: F811
    one, both = (ask(daemon, {"text": "the red car", "dry_run": True} | more, path(decoder, "/explain"))["dry_run"]
                 for more in ({}, {"against": {"text": "the car ."}}))
    assert both["num_cells"] > one["num_cells"] and both["num_operations"] > one["num_operations"]
