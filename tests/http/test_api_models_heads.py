"""/v1/models/{id}/heads: scores and what heads connect, beside NumPy on the weights that /attention answers."""
import json
import re
from pathlib import Path

import numpy as np
import pytest
from api_client import ask, refused
from oracle import head_scores
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_models import path

WORDS = ["the", "red", "car", "did", "not", "stop", "because", "it", "was", "old", ".", ",", "a", "dog", "saw", "man"]
SIZES = {"source_words": WORDS, "target_words": WORDS, "width": 16, "num_heads": 2, "num_layers": 2, "seed": 9}
MODELS = [{}, {"architecture": "transformer"}, {"architecture": "encoder"}, {"architecture": "decoder"}, {"architecture": "decoder", "num_kv_heads": 1},
          {"architecture": "transformer", "attention": "local", "radius": 2}]
SITES = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}
TEMPLATES = Path(__file__).resolve().parents[2] / "config" / "head-templates.json"


def make(daemon, **fields):
    reply = daemon.post("/v1/models", fields)
    assert reply.status_code == 201, reply.text
    return reply.json()


def made(daemon, fields):
    kind = fields.get("architecture")
    left_out = {"decoder": ["source_words"], None: ["num_layers"]}.get(kind, [])
    return make(daemon, **{key: value for key, value in (SIZES | fields).items() if key not in left_out})


def weights_of(daemon, model, batch):
    """The weights of each head, by site, layer and head, for lists of ids."""
    found = {}
    both = "source" in batch and "target" in batch
    for b in range(len(next(iter(batch.values())))):
        body = {"return": "weights"}
        if "source" in batch:
            body["token_ids"] = batch["source"][b]
        if "target" in batch:
            body |= {"target_token_ids" if both else "token_ids": batch["target"][b], "target_begin": False}
        for site in ask(daemon, body, path(model, "/attention"))["sites"]:
            for h, w in enumerate(site["weights"][0]):
                found.setdefault((site["kind"], site["layer"], h), []).append(np.array(w))
    return found


def separators_of(ids):
    """The positions of separators: those of full stop, comma and <eos>."""
    marks = {WORDS.index(".") + 4, WORDS.index(",") + 4, 2}
    return [[i for i, one in enumerate(row) if one in marks] for row in ids]


@pytest.mark.parametrize("fields", MODELS, ids=lambda f: "-".join(map(str, f.values())) or "seq2seq")
def test_scores_of_probes_are_those_of_the_weights(daemon, document, fields):  # noqa: F811
    model = made(daemon, fields)
    answer = ask(daemon, {"probes": 3, "length": 7, "seed": 5, "return": ["probes", "ids"]}, path(model, "/heads"))
    schema(document, "ModelHeads").validate(answer)
    ids = answer["probes"]["ids"]
    repeated, separated = (weights_of(daemon, model, ids[kind]) for kind in ("repeated", "separated"))
    assert len(answer["heads"]) == len(repeated) > 0
    for head in answer["heads"]:
        place = (head["site"], head["layer"], head["head"])
        keys = SITES[head["site"]][1]
        tokens = ids["repeated"][keys] if head["site"] != "cross" else None
        want = head_scores.of_head(repeated[place], tokens, None)
        want["separator"] = head_scores.of_head(separated[place], None, separators_of(ids["separated"][keys]))["separator"]
        same_scores(head["probes"], want)


def same_scores(found, values):
    for name, numbers in values.items():
        mean, spread = head_scores.mean_and_spread(numbers)
        assert found.get(name, {}).get("mean") == pytest.approx(mean, abs=2e-6), name
        assert found.get(name, {}).get("spread") == pytest.approx(spread, abs=2e-6), name


def test_a_repeated_probe_repeats_different_tokens(daemon):
    for model in ("en-fr", "en-fr-text"):
        ids = ask(daemon, {"probes": 2, "return": ["ids"]}, f"/v1/models/{model}/heads")["probes"]["ids"]["repeated"]
        for side, first in (("source", 0), ("target", 1)):
            for row in ids[side]:
                half = row[first:first + 48]
                assert row[first + 48:] == half and len(set(half)) == 48 and min(half) > 3
        assert ids["source"][0] != ids["source"][1]


def test_without_length_probes_are_as_long_as_the_model_allows(daemon):
    model = made(daemon, {"architecture": "decoder"})
    assert ask(daemon, {"return": "ids"}, path(model, "/heads"))["probes"]["length"] == len(WORDS) - 2  # not . and ,
    refused(daemon, {"length": 15}, "invalid_value", "/length", "the model has 14 different tokens", path=path(model, "/heads"))
    short = made(daemon, {"architecture": "encoder", "max_length": 11})
    assert ask(daemon, {"return": "ids"}, path(short, "/heads"))["probes"]["length"] == 5


@pytest.mark.parametrize("fields", MODELS[1:4], ids=lambda f: f["architecture"])
def test_scores_of_texts_are_those_of_the_weights(daemon, fields):
    model = made(daemon, fields)
    texts = ["the red car did not stop .", "it was old , because the man saw it .", "a dog"]
    answer = ask(daemon, {"text": texts, "scores": ["previous_token", "current_token", "first_token", "separator", "entropy", "induction", "positional"],
                          "score": "entropy"}, path(model, "/heads"))
    decodes = fields["architecture"] == "decoder"
    ids = [[1] * decodes + [WORDS.index(word) + 4 for word in text.split()] for text in texts]
    side = "target" if decodes else "source"
    batch = {side: ids} | ({"target": [[1]] * 3} if fields["architecture"] == "transformer" else {})
    weights = weights_of(daemon, model, batch)
    scored = [head for head in answer["heads"] if "texts" in head]
    assert {(h["site"], h["layer"], h["head"]) for h in scored} == {place for place in weights if place[0] == ("decoder" if decodes else "encoder")}
    for head in scored:
        want = head_scores.of_head(weights[head["site"], head["layer"], head["head"]], ids, separators_of(ids))
        same_scores(head["texts"], {name: want[name] for name in head["texts"]})
        assert set(head["texts"]) == {"previous_token", "current_token", "first_token", "separator", "entropy", "induction", "positional"}
    means = [head["probes"]["entropy"]["mean"] for head in answer["heads"]]
    assert means == sorted(means, reverse=True)


def connected(weights, tokens, offsets, start, end):
    """Whether the largest weight of the word at `start` is that of the word at `end`, and this weight. Sub-words that go on end
    with @@; the first token does not count."""
    words = np.cumsum([0] + [not token.endswith("@@") for token in tokens[:-1]])
    here, there = ([i for i, (a, b) in enumerate(offsets) if a < span[1] and b > span[0]] for span in (start, end))
    row = weights[here].mean(0)
    row[0] = 0
    sums = {}
    for i, weight in enumerate(row):
        sums.setdefault("from" if i in here else "to" if i in there else words[i], []).append(weight)
    sums = {name: sum(list_) for name, list_ in sums.items()}
    return max(sums, key=sums.get) == "to", sums["to"]


def test_what_heads_connect_is_in_the_weights(daemon):
    shipped = {template["does"]: template["sentences"] for template in json.loads(TEMPLATES.read_text())["templates"]}
    sentences = shipped["pronoun to its noun"] + shipped["item of a list to the item before"]
    body = {"templates": [{"does": "one", "sentences": sentences}], "shipped": False, "return": "templates", "top": 9}
    answer = ask(daemon, body, "/v1/models/en-fr-text/heads")
    assert set(answer) == {"connects"}
    hits, weights = np.zeros(4), np.zeros(4)
    for sentence in sentences:
        text, word, other = (sentence[name] for name in ("text", "from", "to"))
        out = ask(daemon, {"text": text, "target_text": "le", "return": "weights", "sites": "encoder"}, "/v1/models/en-fr-text/attention")
        source = out["source"][0]
        for h, matrix in enumerate(out["sites"][0]["weights"][0]):
            start, end = [m.start() for m in re.finditer(rf"\b{word}\b", text)][-1], re.search(rf"\b{other}\b", text).start()
            hit, weight = connected(np.array(matrix), source["tokens"], source["offsets"], (start, start + len(word)), (end, end + len(other)))
            hits[h] += hit
            weights[h] += weight / len(sentences)
    found = {c["head"]: c for c in answer["connects"]}
    assert hits.max() > 0 and [c["hits"] for c in answer["connects"]] == sorted((int(n) for n in hits if n), reverse=True)
    for h in range(4):
        if hits[h]:
            assert found[h]["weight"] == pytest.approx(weights[h], abs=1e-6) and found[h]["hits"] == hits[h] and found[h]["of"] == 15
            assert found[h]["text"] == f"encoder layer 0, head {h}: one, {int(hits[h])} of 15 sentences"


def test_every_sentence_of_the_service_can_be_read(daemon):
    shipped = json.loads(TEMPLATES.read_text())["templates"]
    body = {"templates": shipped, "shipped": False, "return": "templates", "top": 1}
    own = ask(daemon, body, "/v1/models/en-fr-text/heads")["connects"]
    assert own == ask(daemon, {"return": "templates", "top": 1}, "/v1/models/en-fr-text/heads")["connects"]
    counts = {template["does"]: len(template["sentences"]) for template in shipped}
    assert own and all(one["of"] == counts[one["does"]] for one in own)
    for template in shipped:  # what a model that reads from left to right sees
        for s in template["sentences"]:
            assert s["text"].index(s["to"]) < s["text"].rindex(s["from"]) and len(counts) == len(shipped)


def test_sentences_that_a_model_cannot_read_are_left_out(daemon):
    model = made(daemon, {"architecture": "encoder", "max_length": 10})
    found = ask(daemon, {"return": "templates"}, path(model, "/heads"))["connects"]
    assert all(one["of"] < 6 for one in found)


def test_text_csv_and_pictures(daemon):
    where = "/v1/models/en-fr-text/heads"
    body = {"probes": 2, "length": 8, "score": "positional"}
    answer = ask(daemon, body | {"return": "probes", "sites": "encoder"}, where)
    means = {head["head"]: head["probes"]["positional"]["mean"] for head in answer["heads"]}
    text = daemon.post(where, body, headers={"Accept": "text/plain"}).text
    best = max(means, key=means.get)
    assert "2 probes of 2 x 8 random tokens, seed 0" in text and f"positional          encoder 0.{best} {means[best]:.3f}" in text
    rows = daemon.post(where, body, headers={"Accept": "text/csv"}).text.split()
    assert rows[0] == "batch,head,query,0,1,2,3" and [float(x) for x in rows[1].split(",")[3:]] == pytest.approx([means[h] for h in range(4)])
    for accept, start in (("image/png", b"\x89PNG"), ("image/svg+xml", b"<")):
        reply = daemon.post(where, body, headers={"Accept": accept})
        assert reply.status_code == 200 and reply.content.startswith(start)
    none = {"templates": [{"does": "x", "sentences": [{"text": "The cat sleeps.", "from": "sleeps", "to": "cat"}]}], "shipped": False, "return": "templates"}
    assert daemon.post(where, none, headers={"Accept": "text/plain"}).text in (
        "no head connects the words of a template\n", "".join(f"{c['text']}\n" for c in ask(daemon, none, where)["connects"]))


def test_equal_requests_have_equal_bytes_and_a_dry_run_fits(daemon):
    where = "/v1/models/en-fr/heads"
    body = {"probes": 2, "length": 9, "seed": 3, "text": "the cat sleeps ."}
    assert daemon.post(where, body).content == daemon.post(where, body).content
    dry = ask(daemon, body | {"dry_run": True}, where)["dry_run"]
    assert dry["fits"] and dry["num_cells"] > 0 and dry["num_operations"] > 0


@pytest.mark.parametrize("body, code, pointer, detail", [
    ({"templates": [{"does": "x", "sentences": [{"text": "the cat sleeps", "from": "dog", "to": "cat"}]}]}, "invalid_value", "/templates/0/sentences/0/from", "a word of the sentence"),
    ({"templates": [{"does": "x", "sentences": [{"text": "the cat sleeps", "from": "cat"}]}]}, "invalid_value", "/templates/0/sentences/0", "is required"),
    ({"templates": [{"does": "x", "sentences": [{"text": "cat the cat", "from": "the", "to": "cat"}]}]}, "invalid_value", "/templates/0/sentences/0/to", "first one"),
    ({"text": ["the cat", ""]}, "invalid_value", "/text/1", "at least one token"), ({"text": ""}, "invalid_value", "/text", "at least one token"),
    ({"text": []}, "invalid_value", "/text", "at least one text"), ({"length": 400}, "invalid_value", "/length", "longer than the 512 tokens"),
    ({"probes": 65}, "invalid_value", "/probes", "64"), ({"return": "texts"}, "invalid_value", "/return", "needs the field text"), ({"sites": "decoder"}, "invalid_value", "/sites", "no site decoder"),
    ({"scores": ["entropy"], "score": "induction"}, "invalid_value", "/score", "not among"), ({"scores": []}, "invalid_value", "/scores", "empty"), ({"return": []}, "invalid_value", "/return", "empty"),
])
def test_what_is_refused(daemon, body, code, pointer, detail):
    refused(daemon, body, code, pointer, detail, path="/v1/models/en-fr/heads")


def test_models_without_words_or_attention(daemon):
    numbers = make(daemon, architecture="decoder", target_vocabulary=30, width=16, num_heads=2, num_layers=1, seed=1)
    answer = ask(daemon, {}, path(numbers, "/heads"))
    assert set(answer) == {"probes", "heads"}
    refused(daemon, {"text": "a"}, "invalid_value", "/text", "its tokens are numbers", path=path(numbers, "/heads"))
