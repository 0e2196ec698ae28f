"""Models that people know, in the list of models: what they are, or how to get them."""
import json
import shutil
from pathlib import Path

import pytest
from conftest import run_of, until

from serving import service

FIXTURES = Path(__file__).parents[1] / "unit" / "known_models"
LETTERS = "abcdefghijklmnopqrstuvwxyz012345"
# Texts of the small models, which have ids alone: GPT-2's letters, one a token.
TOKENIZER = {"model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(["<unk>", "<s>", "</s>", "Ġ", ".", *LETTERS])}, "merges": []},
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
             "decoder": {"type": "ByteLevel"}}


def give(folder, name, **config):
    """Puts the small model into a folder under this name, with changes of its configuration."""
    shutil.copytree(FIXTURES / "llama", folder / name)
    (folder / name / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    file = folder / name / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    give(folder, "small")
    running = service.Daemon("--ops-listen", "", "--log", "off", "--models-dir", folder)
    yield running
    running.stop()


def offered(page):
    page.focus("form.sentence select")
    page.wait_for_selector("form.sentence optgroup", state="attached")
    return page.eval_on_selector_all("form.sentence optgroup", "list => list.map((g) => [g.label, [...g.children].map((o) => o.textContent)])")


def test_known_models_come_first(known, open_page):
    page = open_page(known.url)
    page.wait_for_selector(".words-query li")
    groups = offered(page)
    total = known.get("/v1/models/small").json()["num_parameters"]["total"]
    assert total < 10000
    assert groups == [["Language models", [f"small, {total / 1000:.2g} thousand parameters, writes on"]],
                      ["Built in", ["en-fr, a toy: English to French, whole words", "en-fr-text, a toy: English to French, pieces of words"]]]
    assert page.locator(".words-get").count() == 0


def test_the_first_visit_reads_a_sentence_with_a_known_model(tmp_path, open_page):
    """If the model has room for it: that of the other tests has not."""
    give(tmp_path, "roomy", max_position_embeddings=256)
    running = service.Daemon("--ops-listen", "", "--log", "off", "--models-dir", tmp_path)
    try:
        page = open_page(running.url)
        page.wait_for_selector(".words-question:has-text('Which words before it does each word look at?')")
        text = page.input_value("#sentence")
        assert text == "The animal didn't cross the street because it was too tired"
        assert page.input_value("form.sentence select") == "roomy"
        tokens = running.post("/v1/models/roomy/attention", {"text": text, "return": [], "store": True}).json()["run"]["texts"][0]["tokens"]
        assert running.get(f"/v1/runs/{run_of(page)}").json()["texts"][0]["tokens"] == tokens
        assert page.locator(".words-written").count() == 0
        page.close()
    finally:
        running.stop()


def test_a_known_model_writes_on(known, open_page):
    page = open_page(known.url)
    page.wait_for_selector(".words-query li")
    page.fill("#sentence", "a cat sat")
    page.select_option("form.sentence select", "small")
    want = known.post("/v1/models/small/generate", {"text": "a cat sat", "return": []}).json()["sequences"][0]["text"]
    said = json.dumps(("a cat sat" + want).replace("�", "?"))
    until(page, f"document.querySelector('.words-written[aria-busy=false]')?.textContent.replaceAll('�', '?') === {said}")
    assert page.locator("[aria-label=Views] [aria-current]").inner_text() == "Words"


def test_without_them_one_line_says_how_to_get_them(page):
    page.wait_for_selector(".words-query li")
    [[_, none], _] = offered(page)
    assert none == ["none yet: make models, then build/attnd --models-dir build/models"]
    page.wait_for_selector(".words-get")
    assert page.inner_text(".words-get code") == "make models && build/attnd --models-dir build/models"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click(".words-get button")
    page.wait_for_selector(".words-get button:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == "make models && build/attnd --models-dir build/models"
