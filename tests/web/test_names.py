"""Names of tokens: pieces, bytes and white space as readable words, the same in all views; pieces joined in Words and Matrix."""
import html
import json
import re

import numpy as np
import pytest
from conftest import run_of, until
from test_matrix import View

# Tokens, and the words of both views that join them. None: each is a word.
TEXTS = {
    "Qwen": (["ä½łå¥½", "ä¸ĸçķĮ"], ["你好", "世界"]),
    "GPT-2, one word": (["Se", "Ã¡n"], ["Seán"]),
    "GPT-2, bytes": (["åĲ", "¾", "è", "¼", "©", "ãģ¯"], ["吾", "輩", "は"]),
    "GPT-2": (["The", "Ġani", "mal", "Ċ", "Go", "ĠĠĠ", "Ġon"], ["The", "animal", "↵", "Go", "␣␣␣", "on"]),
    "SentencePiece, Chinese": (["▁我", "喜欢", "猫", "。"], ["我", "喜欢", "猫", "。"]),
    "SentencePiece, both": (["▁I", "▁lo", "ve", "▁", "東", "京", "."], ["I", "love", "東", "京", "."]),
    "Gemma": (["▁world", "\n\n", "▁▁▁▁", "code"], ["world", "↵↵", "␣␣␣␣", "code"]),
    "Thai": (["▁สวัส", "ดี"], ["สวัส", "ดี"]),
    "white space": (["a\tb", "one\ntwo", " ", "  ", "\t", "\n", "\u00a0", "\u200b", " cat", "cat"],
                    ["a⇥b", "one↵two", "␣", "␣␣", "⇥", "↵", "⍽", "U+200B", "␣cat", "cat"]),
    "Latin 1": (["été", "café", "naïve"], ["été", "café", "naïve"]),
}


def store(daemon, tokens, **more):
    body = {"query": {"shape": [len(tokens), 8], "random": "normal", "seed": 5}, "labels": tokens, "store": True, "return": ["weights"], **more}
    answer = daemon.post("/v1/attention", body).json()
    return answer["run"]["id"], np.array(answer["weights"])


def texts(page, selector):
    return page.eval_on_selector_all(selector, "list => list.map((x) => x.textContent)")


@pytest.mark.parametrize("name", TEXTS)
def test_tokens_have_the_same_readable_names_in_all_views(daemon, open_page, name):
    tokens, words = TEXTS[name]
    run, _ = store(daemon, tokens)
    page = open_page(f"#1/words?r={run}")
    page.wait_for_selector(".words-key li")
    assert texts(page, ".words-key li bdi") == words
    page.hover(".words-query li >> nth=0")
    page.wait_for_selector("table.row tbody tr")
    assert sorted(texts(page, "table.row tbody th bdi")) == sorted(words)
    page.click("nav >> text=Matrix")
    View(page)
    assert texts(page, ".matrix-rows span:not([hidden]) bdi") == words and texts(page, ".matrix-cols span:not([hidden]) bdi") == words
    page.click("nav >> text=Stages")
    page.wait_for_selector(".stages-table button bdi")
    names = texts(page, ".stages-table button bdi")
    assert len(names) == len(tokens) and not any(letter in "".join(names) for letter in "Ġ▁Ċ"), "stages are of tokens"
    assert [n for n in names if n in words] == [w for w in words if w in names]


@pytest.mark.parametrize("name", [n for n in TEXTS if n != "white space"])
def test_pictures_of_the_service_have_the_names_of_the_page(daemon, open_page, name):
    tokens = ["<s>", *TEXTS[name][0], "</s>"]
    run, _ = store(daemon, tokens)
    page = open_page(f"#1/matrix?r={run}")
    View(page)
    if page.get_by_label("pieces joined to words").count():
        page.get_by_label("pieces joined to words").uncheck()
    until(page, f"document.querySelectorAll('.matrix-rows span:not([hidden])').length === {len(tokens)}")
    picture = daemon.request("GET", f"/v1/runs/{run}/heatmaps", headers={"Accept": "image/svg+xml"}).text
    drawn = [html.unescape(t) for t in re.findall(r"<text[^>]*>([^<]*)</text>", picture)]
    shown = texts(page, ".matrix-rows span:not([hidden]) bdi")
    assert not [n for n in shown if drawn.count(n) != 2 * shown.count(n) and len(n) > 1], (shown, drawn)


def test_a_part_of_a_character_is_shown_as_its_bytes(daemon, open_page):
    run, _ = store(daemon, ["åĲ", "¾", "Ġthe", "Ġca", "t"])
    page = open_page(f"#1/words?r={run}&q=0")
    page.wait_for_selector(".cell .pieces")
    assert texts(page, ".words-key li bdi") == ["吾", "the", "cat"]
    assert texts(page, ".cell .pieces bdi") == ["<0xE5><0x90>", "<0xBE>"]
    page.get_by_label("pieces joined to words").uncheck()
    until(page, "document.querySelectorAll('.words-key li').length === 5")
    assert texts(page, ".words-key li bdi") == ["<0xE5><0x90>", "<0xBE>", "the", "␣ca", "t"]


def test_an_empty_token_is_not_a_blank(daemon, open_page):
    run, _ = store(daemon, ["", " ", "a"])
    page = open_page(f"#1/words?r={run}")
    page.wait_for_selector(".words-key li")
    assert texts(page, ".words-key li bdi") == ["∅", "␣", "a"]


def test_finished_weights_and_elements_have_these_names(daemon, open_page):
    tokens, words = TEXTS["GPT-2"]
    page = open_page("#1/data")
    weights = np.full((len(tokens), len(tokens)), 1 / len(tokens)).tolist()
    page.set_input_files("input[type=file]", {"name": "w.json", "mimeType": "", "buffer": json.dumps({"attn": weights, "tokens": tokens}).encode()})
    page.wait_for_selector(".data-strongest th")
    assert texts(page, ".data-strongest tbody bdi") == ["The", "␣ani", "mal", "↵", "Go"]
    page.evaluate("""([tokens, weights]) => import(new URL('web/attn.js', document.baseURI).href).then(() => {
        const made = document.createElement('attn-heatmap');
        document.body.replaceChildren(made);
        made.data = {weights, queries: tokens, keys: tokens};
    })""", [tokens, weights])
    page.wait_for_selector("attn-heatmap .matrix-rows bdi")
    until(page, "document.querySelector('attn-heatmap').shadowRoot.querySelectorAll('.matrix-rows span:not([hidden])').length === 7")
    assert texts(page, "attn-heatmap .matrix-rows span:not([hidden]) bdi") == ["The", "␣ani", "mal", "↵", "Go", "␣␣␣", "on"]


@pytest.fixture
def pieces(daemon, open_page):
    """Seven tokens of four words in Matrix."""
    tokens = ["We", "Ġun", "break", "able", "Ġlo", "ve", "Ġcats"]
    run, weights = store(daemon, tokens, is_causal=True)
    groups = [0, 1, 1, 1, 2, 2, 3]
    joined = np.array([[weights[[q for q in range(7) if groups[q] == a]][:, [k for k in range(7) if groups[k] == b]].sum() / groups.count(a)
                        for b in range(4)] for a in range(4)])
    page = open_page(f"#1/matrix?r={run}")
    return page, View(page), joined


def test_matrix_joins_pieces_as_words_does(pieces):
    page, view, joined = pieces
    assert texts(page, ".matrix-rows span:not([hidden]) bdi") == ["We", "unbreakable", "love", "cats"]
    assert page.inner_text(".shape").startswith("4 × 4 words of 7 × 7 pieces")
    for q, k in [(1, 0), (2, 1), (3, 2), (3, 3)]:
        page.mouse.move(*view.place(q, k))
        until(page, "document.querySelector('.matrix-tip b') !== null && document.querySelector('.matrix-tip b').textContent !== '…'")
        until(page, f"Math.abs(parseFloat(document.querySelector('.matrix-tip b').textContent) - {joined[q, k]}) < 6e-4")
    page.mouse.move(*view.place(1, 2))
    until(page, "document.querySelector('.matrix-tip b').textContent === 'hidden by the mask'")
    page.click(".matrix-plot", position={"x": view.place(3, 1)[0] - view.box()["x"], "y": view.place(3, 1)[1] - view.box()["y"]})
    until(page, "location.hash.includes('q=6') && location.hash.includes('k=1')")
    page.keyboard.press("ArrowRight")
    until(page, "location.hash.includes('k=4')")
    entropy = -sum(w * np.log(w) for w in joined[3] if w > 0)
    assert entropy > 0 and "ln 4" in page.inner_text(".matrix-bars")
    page.get_by_label("pieces joined to words").uncheck()
    until(page, "document.querySelectorAll('.matrix-rows span:not([hidden])').length === 7")
    view.settle()
    assert texts(page, ".matrix-rows span:not([hidden]) bdi") == ["We", "␣un", "break", "able", "␣lo", "ve", "cats"]
    assert "between words" not in page.inner_text(".matrix-legend")


@pytest.mark.parametrize("transform", ["linear", "sqrt", "log", "row"])
def test_colours_of_words_are_those_of_their_weights(pieces, transform):
    """Words have the colours that the same weights have as tokens of a run."""
    page, view, joined = pieces
    page.get_by_label("scale", exact=False).first.select_option(transform)
    view.settle()
    shot = view.picture()
    seen = [[shot[int(view.place(q, k, 0.2)[1]), int(view.place(q, k, 0.2)[0])].astype(int) for k in range(q + 1)] for q in range(4)]
    value = joined / joined.max(axis=1, keepdims=True) if transform == "row" else joined
    order = sorted((value[q, k], -seen[q][k].sum()) for q in range(4) for k in range(q + 1))
    assert [dark for _, dark in order] == sorted(dark for _, dark in order), "a larger weight is never paler"
    most = max((value[q, k], q, k) for q in range(4) for k in range(q + 1))
    assert abs(seen[most[1]][most[2]] - [8, 48, 107]).max() <= 3, "the largest has the end of Blues"


def test_pinned_rows_keep_letter_and_colour_in_matrix(pieces):
    page, view, _ = pieces
    page.click("nav >> text=Words")
    page.wait_for_selector(".words-columns path", state="attached")
    top = page.locator(".words-columns").bounding_box()["y"]
    for word in ("unbreakable", "cats"):
        page.click(f".words-query li:has-text('{word}')")
        page.click("button.pin")
    page.wait_for_selector(".words-pins li >> nth=1")
    assert page.locator(".words-columns").bounding_box()["y"] == top, "the picture stays under the pointer"
    colours = page.eval_on_selector_all(".words-query li.pinned .words-letter", "list => list.map((x) => getComputedStyle(x).backgroundColor)")
    page.click("nav >> text=Matrix")
    view = View(page)
    pins = page.eval_on_selector_all(".matrix-pin", "list => list.map((x) => { const b = x.getBoundingClientRect(); return [x.textContent, getComputedStyle(x).backgroundColor, b.top + b.height / 2]; })")
    assert [p[:2] for p in pins] == [["A", colours[0]], ["B", colours[1]]]
    assert [p[2] for p in pins] == pytest.approx([view.place(1, 0)[1], view.place(3, 0)[1]], abs=2)


def test_pinned_rows_of_a_long_run_are_seen(daemon, open_page):
    body = {"query": {"shape": [4096, 8], "random": "normal", "seed": 7}, "is_causal": True, "return": [], "store": True}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    page = open_page(f"#1/matrix?r={run}&pin=1000.3000")
    view = View(page)
    assert texts(page, ".matrix-pin:not([hidden])") == ["A", "B"]
    for _ in range(12):
        page.mouse.move(view.box()["x"] + 10, view.box()["y"] + 5)
        page.mouse.wheel(0, -100)
    view.settle()
    assert texts(page, ".matrix-pin:not([hidden])") == [], "rows out of sight have none"
