"""The pane beside the views while nothing is chosen: what stands out in the head, beside the numbers of the API; how it is hidden."""
import re

import numpy as np
import pytest
from conftest import until

TEXT = "My brother bought a big red car."


def is_word(token):
    return re.search(r"\w", token) is not None and not re.fullmatch(r"<.*>", token)


@pytest.fixture(scope="module")
def run(daemon):
    return daemon.post("/v1/models/en-fr-text/generate", {"text": TEXT, "return": [], "store": True}).json()["run"]


def said(page):
    return [text.replace("\u00a0", " ") for text in page.locator(".rest p").all_inner_texts()]


@pytest.mark.parametrize("head", ["mean", 2])
def test_what_stands_out_is_said_of_the_numbers(daemon, run, open_page, head):
    page = open_page(f"#1/words?r={run['id']}&s=1&h={head}")
    page.wait_for_selector(".rest p")
    site = run["sites"][1]
    queries, keys = (run["texts"][site[f"{side}_text"]]["tokens"][site.get(f"{side}_start", 0):] for side in ("query", "key"))
    which = "heads=mean" if head == "mean" else f"head={head}"
    weights = np.array(daemon.get(f"/v1/runs/{run['id']}/rows?site=1&{which}").json()["weights"])
    among = np.array([[is_word(q) and is_word(k) for k in keys[:weights.shape[1]]] for q in queries[:weights.shape[0]]])
    q, k = np.unravel_index(np.where(among, weights, 0).argmax(), weights.shape)
    most = weights.mean(axis=0).argmax()
    until(page, "document.querySelector('.rest p:last-child').innerText !== ''")
    first, second, third = said(page)
    assert first == f"{queries[q]} looks at {keys[k]}, {100 * weights[q, k]:.0f} %."
    assert second == f"Most looked at is {keys[most]}: on average it gets {100 * weights.mean(axis=0)[most]:.0f} % of each word’s weight."
    if head == "mean":
        assert third == "This is the mean of 4 heads. See each head."
    else:
        does = next(h for h in daemon.get(f"/v1/runs/{run['id']}/heads").json()["heads"] if (h["site"], h["head"]) == (1, head))
        assert third == f"Head {head} {does['pattern']['text']}."
    page.click(".rest p:first-child button >> nth=1")
    page.wait_for_selector(".cell .value output")
    assert float(page.inner_text(".cell .value code")) == pytest.approx(weights[q, k], rel=1e-6)
    page.keyboard.press("Escape")
    page.click(".rest p:last-child button")
    until(page, "location.hash.startsWith('#1/heads')")


def test_numbers_without_words_are_named_by_their_places(daemon, open_page):
    body = {"query": [[9, 0], [0, 9], [1, 1]], "is_causal": True, "store": True, "return": []}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    page = open_page(f"#1/matrix?r={run}&h=0")
    page.wait_for_selector(".rest p")
    assert said(page)[0] == "query 1 looks at key 1, 100 %."  # query 0 sees one key, which says nothing


@pytest.mark.parametrize("view, picture", [("words", ".words-columns"), ("matrix", ".matrix-map")])
def test_the_pane_folds(run, open_page, view, picture):
    page = open_page(f"#1/{view}?r={run['id']}&s=1")
    page.wait_for_selector(".rest p")
    width = page.locator("main").bounding_box()["width"]
    page.keyboard.press("i")
    page.wait_for_selector(".cell", state="detached")
    assert page.locator("main").bounding_box()["width"] == width + 320 and page.locator(picture).is_visible()
    page.click(".fold")
    page.wait_for_selector(".cell .rest p")
    page.click(".fold")
    assert page.inner_text(".fold") == "show the pane" and page.locator(".cell").count() == 0


def test_the_status_counts_what_the_picture_counts(daemon, open_page):
    run = daemon.post("/v1/models/en-fr-text/generate", {"text": "The dogs ran through the leaves.", "return": [], "store": True}).json()["run"]
    tokens = [run["sites"][1][name] for name in ("num_queries", "num_keys")]
    page = open_page(f"#1/words?r={run['id']}&s=1")
    page.wait_for_selector(".words-query li")
    words = [page.locator(f".words-{side} li").count() for side in ("query", "key")]
    assert words != tokens
    until(page, "document.querySelector('.shape').innerText.includes('pieces')")
    assert page.inner_text(".shape").startswith(f"{words[0]} × {words[1]} words of {tokens[0]} × {tokens[1]} pieces, 4 heads;")
    page.get_by_label("pieces joined to words").uncheck()
    until(page, f"document.querySelector('.shape').innerText.startsWith('{tokens[0]} queries × {tokens[1]} keys')")
