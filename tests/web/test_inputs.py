"""What people drop on the page and paste into it becomes what they expect, or a sentence (inputs.py)."""
import json

import numpy as np
import pytest
from conftest import run_of, until
from inputs import INPUTS, LABELS, NO_NUMBERS, NUMBERS, WIDE, Field, Held, Says, W, Weights, npy, npz


@pytest.fixture
def page(daemon, open_page):
    page = open_page(daemon.url + "/#1/data")
    page.wait_for_selector("#data-query")
    return page


def choose(page, *files):
    page.set_input_files("input[type=file]", [{"name": name, "mimeType": "application/octet-stream", "buffer": data} for name, data in files])


def drawn(page):
    """The first head as the page shows it, by its caption and the names of its strongest keys."""
    page.wait_for_selector(".data-picture canvas")
    picks = {name: page.locator(f".data-picks label:has-text('{name}') option").count() or 1 for name in ("layer", "head")}
    top = page.evaluate("""() => [...document.querySelectorAll('.data-strongest tbody tr')].map((row) =>
        [row.querySelector('bdi').textContent, row.querySelector('td').textContent])""")
    queries = page.eval_on_selector_all(".data-strongest option", "list => list.map((o) => o.textContent)")
    return {**picks, "top": top, "queries": queries}


def wanted(of):
    order = np.argsort(-of.rows[0], kind="stable")
    names = of.key or [str(i) for i in range(of.rows.shape[1])]
    top = [[names[k], f"{float(of.rows[0][k]):.3f}" if 0 < of.rows[0][k] <= 1 else None] for k in order]
    return {"layer": of.layers, "head": of.heads, "top": top, "queries": [f"{i} {of.query[i]}" if of.query else str(i) for i in range(len(of.rows))]}


def same(got, want):
    if (got["layer"], got["head"], got["queries"]) != (want["layer"], want["head"], want["queries"]):
        return False
    return len(got["top"]) == len(want["top"]) and all(g[0] == w[0] and w[1] in (None, g[1]) for g, w in zip(got["top"], want["top"]))


def fault_of(page, of):
    """Why the page does not show what is wanted of a file; '': it does."""
    if isinstance(of, Weights):
        if page.locator(".data-trouble").count():
            return page.inner_text(".data-trouble")
        got = drawn(page)
        return "" if same(got, wanted(of)) else f"{got}, wanted {wanted(of)}"
    if isinstance(of, Says):
        found = page.inner_text(".data-trouble")
        return "" if of.text in found else found
    found = page.input_value(f"#data-{of.name}") if isinstance(of, Field) else page.inner_text(".data-held span")
    return "" if (found == of.text if isinstance(of, Field) else of.text in found) else found


READY = ".data-picture canvas, .data-trouble, .data-held"


def test_files_become_what_people_expect(page):
    """One page takes one file after the other, so that a file that breaks the page fails all that follow."""
    faults = []
    for name, data, of in INPUTS:
        typed = "[[7, 7]]"
        page.get_by_role("button", name="Clear").click()
        if isinstance(of, Says):
            page.fill("#data-query", typed)
        choose(page, (name, data))
        if isinstance(of, Field):
            until(page, f"document.querySelector('#data-{of.name}')?.value !== '' || document.querySelector('.data-trouble')")
        else:
            page.wait_for_selector(READY)
        fault = fault_of(page, of)
        if fault:
            faults.append(f"{name}: {fault}")
        for button in ("Back to the request", "take out"):
            while page.get_by_role("button", name=button).count():
                page.get_by_role("button", name=button).first.click()
        if isinstance(of, Says) and page.input_value("#data-query") != typed:
            faults.append(f"{name}: what was typed is lost")
    assert not faults, "\n".join(faults)


def test_pasted_numbers_are_read(page):
    page.allow = ("422",)
    page.route("**/v1/attention", lambda route: route.fulfill(status=422, content_type="application/problem+json", body='{"title": "kept here", "status": 422}'))
    for text, want in NUMBERS:
        page.fill("#data-query", text)
        with page.expect_request(lambda r: r.method == "POST" and "/v1/attention" in r.url) as sent:
            page.get_by_role("button", name="Compute").click()
        got = json.loads(sent.value.post_data)["query"]
        assert got == want or got == [want], text
        page.wait_for_selector(".trouble")


def test_numbers_that_mean_two_things_are_refused(page):
    for text, sentence in NO_NUMBERS:
        page.fill("#data-query", text)
        page.get_by_role("button", name="Compute").click()
        page.wait_for_selector("#data-query[aria-invalid]")
        assert sentence in page.inner_text("#data-query-about .bad")


def test_pasted_words_are_read(page):
    for text in LABELS:
        page.fill("#data-query", "1 0\n0 1")
        page.fill("#data-labels", text)
        with page.expect_request(lambda r: r.method == "POST" and "/v1/attention" in r.url) as sent:
            page.get_by_role("button", name="Compute").click()
        assert json.loads(sent.value.post_data)["labels"] == ["the", "cat"], text
        until(page, "location.hash.startsWith('#1/matrix')")
        page.click("nav >> text=Own data")
        page.wait_for_selector("#data-query")


def test_a_cell_of_several_weights_says_so(page):
    choose(page, ("roll.npz", npz(attention=np.roll(np.eye(257, dtype="f4"), 1, axis=1))))
    page.wait_for_selector(".data-picture canvas")
    box = page.locator(".data-picture canvas").bounding_box()
    page.mouse.move(box["x"] + 45, box["y"] + 45)
    until(page, "document.querySelector('.data-picture output') !== null")
    assert "largest of queries" in page.inner_text(".data-picture figcaption")


def test_signed_weights_have_a_neutral_zero(page):
    page.allow = ("willReadFrequently",)
    choose(page, ("signed.json", json.dumps({"attn": [[0.8, -0.6, 0], [-0.8, 0.2, 0.0], [0.3, 0.3, -0.3]], "tokens": ["a", "b", "c"]}).encode()))
    page.wait_for_selector(".data-picture canvas")
    assert "zero is neutral" in page.inner_text(".data-picture figcaption")
    colours = page.evaluate("""() => {
        const canvas = document.querySelector('.data-picture canvas'), context = canvas.getContext('2d');
        return [[0, 0], [0, 1], [0, 2]].map(([r, c]) => [...context.getImageData(42 + c * 44 + 3, 42 + r * 44 + 3, 1, 1).data.slice(0, 3)]);
    }""")
    plus, minus, zero = colours
    assert max(zero) - min(zero) < 6 and plus[2] > plus[0] + 60 and minus[0] > minus[2] + 60, colours
    widths = page.eval_on_selector_all(".data-strongest .bar-of", "list => list.map((e) => e.style.width)")
    assert widths[0] == "100%" and all(0 <= float(w[:-1]) <= 100 for w in widths)


def test_names_of_columns_are_not_cut_off(page):
    page.allow = ("willReadFrequently",)
    choose(page, ("w.json", json.dumps({"attn": [[0.9, 0.1], [0.2, 0.8]], "tokens": ["a", "international"]}).encode()))
    page.wait_for_selector(".data-picture canvas")
    edge = page.evaluate("""() => {
        const canvas = document.querySelector('.data-picture canvas'), context = canvas.getContext('2d');
        return context.getImageData(canvas.width - 3, 0, 3, canvas.height).data.some((x) => x > 0);
    }""")
    assert not edge, "no ink at the right edge"


@pytest.mark.parametrize("form", ["json", "npz", "fortran", "causal"])
def test_finished_weights_become_a_run(daemon, page, form):
    """All views show the same weights to the last bit."""
    w = np.random.default_rng(4).random((2, 1, 3, 4, 4)).astype("f4")
    if form == "causal":
        w = np.tril(w)
    words = ["the", "cat", "sat", "down"]
    file = {"json": lambda: ("w.json", json.dumps({"attentions": w.tolist(), "tokens": words}).encode()),
            "fortran": lambda: ("w.npz", npz(attentions=np.asfortranarray(w), tokens=np.array(words)))}.get(form, lambda: ("w.npz", npz(attentions=w, tokens=np.array(words))))()
    choose(page, file)
    page.get_by_role("button", name="Open in all views").click()
    run = run_of(page)
    made = daemon.get(f"/v1/runs/{run}").json()
    assert [(s["layer"], s["num_heads"]) for s in made["sites"]] == [(0, 3), (1, 3)]
    assert made["texts"][0]["tokens"] == words
    for layer in range(2):
        got = np.array([daemon.get(f"/v1/runs/{run}/weights?layer={layer}&head={h}").json()["weights"] for h in range(3)], dtype=object)
        got = np.array([[[0 if x is None else x for x in row] for row in head] for head in got], dtype="f4")
        assert np.array_equal(got, w[layer, 0])
    assert ("causal" in json.dumps(made["sites"][0]["mask"])) == (form == "causal")
    page.click("nav >> text=Words")
    page.wait_for_selector(".words, .columns, main bdi")
    page.click("nav >> text=Heads")
    until(page, "location.hash.startsWith('#1/heads')")
    page.click("nav >> text=Stages")
    until(page, "document.querySelector('main').innerText.includes('finished weights')")


def test_signed_weights_become_no_run(page):
    choose(page, ("signed.json", b'{"attn": [[0.8, -0.6]]}'))
    page.get_by_role("button", name="Open in all views").click()
    page.wait_for_selector(".data-trouble")
    assert "query 0, key 1 is -0.6" in page.inner_text(".data-trouble")


def test_files_can_be_dropped_anywhere(page):
    page.click("nav >> text=Gallery")
    page.evaluate("""(bytes) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([new Uint8Array(bytes)], 'attention.npy'));
        document.querySelector('nav').dispatchEvent(new DragEvent('drop', {dataTransfer: transfer, bubbles: true, cancelable: true}));
    }""", list(npy(W)))
    page.wait_for_selector(".data-picture canvas")
    assert page.evaluate("location.hash").startswith("#1/data")
