"""Encoders and decoders alone on the page: their sentence, the question that the lines answer, and their words."""
import subprocess

import pytest

from serving import service

TRAINING = ("--num-steps", "1", "--num-pairs", "100", "--num-validation-pairs", "5", "--num-scored-pairs", "0", "--width", "16", "--num-heads", "2")
MODELS = {"tagger": ("encoder", "--task", "word-classes"), "writer": ("decoder",)}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A daemon that has an encoder and a decoder, after one step of training."""
    folder = tmp_path_factory.mktemp("models")
    for name, options in MODELS.items():
        subprocess.run([service.BINARY, "train", "--architecture", *options, *TRAINING, "--out", folder / f"{name}.safetensors"],
                       check=True, capture_output=True)
    running = service.Daemon("--ops-listen", "", "--log", "off", "--models-dir", folder)
    yield running
    running.stop()


@pytest.fixture
def choose(alone, open_page):
    """choose(model) -> a page on which the model reads the sentence."""
    def choose_(model):
        page = open_page(alone.url)
        page.wait_for_selector(".words-columns li")
        page.focus("#sentence")
        page.wait_for_selector("form.sentence select")
        page.select_option("form.sentence select", model)
        return page
    return choose_


def words(page, side):
    return page.eval_on_selector_all(f".words-{side} li bdi", "list => list.map((x) => x.textContent)")


def test_an_encoder_reads_a_sentence(choose):
    page = choose("tagger")
    page.wait_for_selector(".words-question:has-text('each word look at')")
    page.fill("#sentence", "the cat sees a xylophone .")
    page.wait_for_selector(".words-query li:has-text('sees')")
    assert words(page, "query") == words(page, "key") and words(page, "query")[:3] == ["the", "cat", "sees"]
    page.wait_for_selector("#unknown:has-text('xylophone')")
    assert page.get_attribute("#sentence", "placeholder") == "Type a sentence that the model reads"


def test_a_decoder_continues_a_sentence(alone, choose):
    page = choose("writer")
    page.wait_for_selector(".words-question:has-text('words before it')")
    page.fill("#sentence", "the cat will")
    page.wait_for_selector(".words-query li:has-text('will')")
    answer = alone.post("/v1/models/writer/generate", {"text": "the cat will", "return": []}).json()["sequences"][0]
    written = [*answer["source"]["tokens"], *answer["target"]["tokens"]]
    assert words(page, "query")[:len(written)] == written
    page.wait_for_selector("#sentence[placeholder='Type the beginning of a sentence, which the model continues']")
