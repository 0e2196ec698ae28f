"""Encoders and decoders alone, trained by a job and by the command: their scores beside those of a loop in NumPy over the
logits, where their heads look, and what a decoder goes on with."""
import json
import math
import re
import subprocess

import numpy as np
import pytest
from api_client import array, ask, refused
from conftest import BINARY, Daemon
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_jobs import PROMPT, ended, post

SENTENCES = {"longest": 8, "num_pairs": 600, "num_validation_pairs": 60, "num_scored_pairs": 25}
SIZES = {"width": 32, "num_heads": 4, "batch_tokens": 400, "evaluate_every": 40, "warmup": 20, "rate": 0.01, "seed": 5}
ENCODER = SENTENCES | SIZES | {"architecture": "encoder", "task": "word-classes", "num_steps": 120}
DECODER = SENTENCES | SIZES | {"architecture": "decoder", "task": "en-fr", "num_steps": 120, "num_layers": 2}
KINDS = {"encoder": ENCODER, "decoder": DECODER}




def held_out(kind):
    """The sentences that a model is scored on, each with its words and, for an encoder, their classes."""
    wanted = KINDS[kind]
    done = subprocess.run([BINARY, "corpus", "--task", wanted["task"], "--split", "held-out", "--count", str(wanted["num_scored_pairs"]),
                           "--longest", str(wanted["longest"]), "--format", "json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return list(map(json.loads, done.stdout.splitlines()))


@pytest.fixture(scope="module")
def daemon():
    service = Daemon(*PROMPT)
    yield service
    service.stop()


def job_of(daemon, document, kind):  # noqa: F811
    job = ended(daemon, post(daemon, KINDS[kind] | {"kind": "train"}))
    schema(document, "Job").validate(job)
    assert job["state"] == "done", job
    return job


@pytest.fixture(scope="module")
def encoder(daemon, document):  # noqa: F811
    return job_of(daemon, document, "encoder")


@pytest.fixture(scope="module")
def decoder(daemon, document):  # noqa: F811
    return job_of(daemon, document, "decoder")


def model(job, what=""):
    return f"/v1/models/{job['model']}{what}"


def look(daemon, job, words, wanted):
    return ask(daemon, {"tokens": words, "return": wanted}, model(job, "/attention"))


def scores_of(rows):
    """num_words, right and loss of rows of logits, each with the id that was expected."""
    rows = list(rows)
    losses = [np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[wanted] for logits, wanted in rows]
    return {"num_words": len(rows), "right": np.mean([logits.argmax() == wanted for logits, wanted in rows]), "loss": np.mean(losses)}


def test_scores_of_an_encoder(daemon, encoder):
    """They are those of its logits for the held-out sentences, whose classes it has learnt."""
    classes = daemon.get(model(encoder, "/vocabulary")).json()["target"]["words"]
    rows = []
    for sentence in held_out("encoder"):
        logits = array(look(daemon, encoder, sentence["source"], "logits")["logits"])[0]
        rows += zip(logits, map(classes.index, sentence["target"]), strict=True)
    assert encoder["scores"] == pytest.approx(scores_of(rows), rel=1e-4)
    assert encoder["scores"]["right"] > 0.8 and encoder["validation"]["right"] > 0.8


def test_scores_of_a_decoder(daemon, decoder):
    """They are those of its logits for the held-out sentences; its perplexity is far below that of guessing."""
    rows = []
    for sentence in held_out("decoder"):
        answer = look(daemon, decoder, sentence["source"], "logits")
        rows += zip(array(answer["logits"])[0], answer["target"][0]["ids"], strict=True)
    assert decoder["scores"] == pytest.approx(scores_of(rows), rel=1e-4)
    vocabulary = daemon.get(model(decoder)).json()["target"]["vocabulary"]
    assert math.exp(decoder["scores"]["loss"]) < vocabulary / 3 and decoder["scores"]["right"] > 5 / vocabulary


def test_heads_of_an_encoder_look_at_all_words(daemon, encoder):
    answer = look(daemon, encoder, ["the", "boy", "sleeps", "."], "weights")
    weights = array(answer["sites"][0]["weights"])[0]
    assert "target" not in answer and weights.shape == (4, 4, 4) and (weights > 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_heads_of_a_decoder_look_at_no_later_word(daemon, decoder):
    answer = look(daemon, decoder, ["the", "boy", "sleeps"], "weights")
    assert "source" not in answer and [site["kind"] for site in answer["sites"]] == ["decoder"] * 2
    for site in answer["sites"]:
        weights = array(site["weights"])[0]
        assert weights.shape == (4, 4, 4) and (np.triu(weights, 1) == 0).all() and (np.tril(weights) > 0).sum() == 40
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_a_decoder_goes_on_with_a_text(daemon, decoder):
    """Each new word is the likeliest one after all those before it."""
    words = daemon.get(model(decoder, "/vocabulary")).json()["target"]["words"]
    begin, pad = words.index("<bos>"), words.index("<pad>")
    made = ask(daemon, {"text": "the boy", "max_length": 6, "return": []}, model(decoder, "/generate"))["sequences"][0]
    assert made["source"]["tokens"] == ["the", "boy"] and made["target"]["ids"]
    answer = ask(daemon, {"token_ids": [begin, words.index("the"), words.index("boy"), *made["target"]["ids"][:-1]], "target_begin": False,
                          "return": "logits"}, model(decoder, "/attention"))
    logits = array(answer["logits"])[0, 2:]
    logits[:, [begin, pad]] = -np.inf
    assert made["target"]["ids"] == logits.argmax(-1).tolist()
    assert made["text"].replace(" ", "") == "".join(words[i] for i in made["target"]["ids"] if words[i] != "<eos>")


def test_a_job_of_an_encoder_needs_a_word_for_each_word(daemon):
    refused(daemon, ENCODER | {"kind": "train", "task": "en-fr"}, "invalid_value", "/task", "word-classes", path="/v1/jobs")


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_trains_the_same(encoder, decoder, tmp_path, kind):
    """It prints and logs the scores of the job, and the perplexity; `attnd score` finds them again."""
    job = {"encoder": encoder, "decoder": decoder}[kind]
    options = [part for name, value in KINDS[kind].items() for part in (f"--{name.replace('_', '-')}", str(value))]
    done = subprocess.run([BINARY, "train", *options, "--quiet", "--out", str(tmp_path / "m"), "--log", str(tmp_path / "log")],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    *steps, logged = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert [line["step"] for line in steps] == [40, 80, 120] and steps[-1]["validation_loss"] < steps[0]["validation_loss"]
    wanted = pytest.approx(job["scores"], abs=1e-4)
    assert logged["held_out"] == wanted
    scored = subprocess.run([BINARY, "score", "--model", str(tmp_path / "m"), "--count", str(KINDS[kind]["num_scored_pairs"]), "--format", "json"],
                            capture_output=True, text=True, timeout=120)
    assert scored.returncode == 0 and json.loads(scored.stdout)["held_out"] == wanted, scored.stderr
    right, words, perplexity = map(float, re.search(r"([\d.]+) % of (\d+) words right, perplexity ([\d.]+)", done.stdout).groups())
    assert words == job["scores"]["num_words"] and right == pytest.approx(100 * job["scores"]["right"], abs=0.051)
    assert perplexity == pytest.approx(math.exp(job["scores"]["loss"]), rel=1e-3)
