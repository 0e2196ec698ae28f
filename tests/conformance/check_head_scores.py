"""What the heads of SmolLM2 and MiniLM do (make check-models): their scores beside NumPy on the attentions of transformers, and
the heads that are known. The models are those that `make models` has fetched."""
import numpy as np
import pytest
import torch
import transformers

from oracle import head_scores
from serving import service

MODELS = service.ROOT / "build" / "models"


@pytest.fixture(scope="module")
def daemon():
    running = service.Daemon("--models-dir", str(MODELS), "--log", "off")
    yield running
    running.stop()


def ask(daemon, model, what, body):
    reply = daemon.post(f"/v1/models/{model}/{what}", body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def reference(name):
    """The model in transformers, with weights widened to float32, and the side of its probes."""
    if name == "minilm":
        return transformers.AutoModel.from_pretrained(MODELS / name, dtype=torch.float32, attn_implementation="eager").eval(), "source"
    kind = transformers.AutoModelForCausalLM
    return kind.from_pretrained(MODELS, gguf_file=f"{name}.gguf", dtype=torch.float32, attn_implementation="eager").eval(), "target"


@pytest.mark.parametrize("name", ["smollm2", "minilm"])
def test_scores_are_those_of_transformers(daemon, name):
    answer = ask(daemon, name, "heads", {"probes": 3, "length": 24, "return": ["probes", "ids"], "scores": [
        "induction", "duplicate_token", "previous_token", "current_token", "first_token", "positional", "entropy", "normalized_entropy"]})
    model, side = reference(name)
    ids = answer["probes"]["ids"]["repeated"][side]
    with torch.no_grad():
        attentions = [layer.double().numpy() for layer in model(torch.tensor(ids), output_attentions=True).attentions]
    assert len(answer["heads"]) == len(attentions) * attentions[0].shape[1]
    for head in answer["heads"]:
        want = head_scores.of_head(attentions[head["layer"]][:, head["head"]], ids, None)
        for score, found in head["probes"].items():
            mean, spread = head_scores.mean_and_spread(want[score])
            assert found["mean"] == pytest.approx(mean, abs=1e-5) and found["spread"] == pytest.approx(spread, abs=1e-5), (head, score)


def best(daemon, score, count):
    heads = ask(daemon, "smollm2", "heads", {"return": "probes", "score": score, "scores": score})["heads"]
    return [((h["layer"], h["head"]), h["probes"][score]["mean"]) for h in heads[:count]]


def test_known_heads_of_smollm2_come_first(daemon):
    induction = best(daemon, "induction", 4)
    assert induction[0][0] == (18, 6) and {head for head, _ in induction} == {(18, 6), (17, 3), (17, 4), (17, 5)} and induction[0][1] > 0.7
    assert best(daemon, "previous_token", 2)[0][0] == (16, 0) and best(daemon, "previous_token", 1)[0][1] > 0.85
    assert best(daemon, "duplicate_token", 1)[0][0] == (14, 3) and best(daemon, "first_token", 1)[0][0] == (18, 8)


def test_a_head_of_smollm2_connects_pronouns_with_their_nouns(daemon):
    first = next(c for c in ask(daemon, "smollm2", "heads", {"return": "templates"})["connects"] if c["does"] == "pronoun to its noun")
    assert (first["layer"], first["head"]) == (13, 8) and first["hits"] >= 8 and first["of"] == 9
    assert first["text"] == f"layer 13, head 8: pronoun to its noun, {first['hits']} of 9 sentences"
    sentence = {"text": "The animal didn't cross the street because it was too tired.", "from": "it", "to": "animal"}
    own = ask(daemon, "smollm2", "heads", {"templates": [{"does": "it", "sentences": [sentence]}], "shipped": False, "return": "templates"})["connects"][0]
    assert (own["layer"], own["head"]) == (13, 8) and own["weight"] == pytest.approx(0.75, abs=0.005)


def test_without_induction_heads_repeats_are_harder(daemon):
    """The loss of a second copy, of which a model without these heads predicts less."""
    heads = [head for head, _ in best(daemon, "induction", 4)]
    ids = ask(daemon, "smollm2", "heads", {"probes": 4, "return": "ids", "seed": 1})["probes"]["ids"]["repeated"]["target"]
    others = np.random.default_rng(1).permutation([(layer, head) for layer in range(30) for head in range(9) if (layer, head) not in heads])[:4].tolist()
    raised = {"first": [], "others": []}
    for row in ids:
        for which, chosen in (("first", heads), ("others", others)):
            ablate = [{"layer": layer, "head": head, "how": "zero"} for layer, head in chosen]
            loss = ask(daemon, "smollm2", "explain", {"token_ids": row, "ablate": ablate, "return": "change"})["change"]["loss"]
            raised[which].append(loss["after"] - loss["before"])
    assert min(raised["first"]) > 0 and np.mean(raised["first"]) > 3 * np.mean(np.abs(raised["others"])), raised
