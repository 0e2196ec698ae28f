"""A tour of every view with real data, as `make test` has it; the other files of this folder look closely at each."""
import json

import numpy as np
import pytest
from conftest import run_of, until

VIEWS = ["Words", "By hand", "Matrix", "Heads", "Stages", "Own data", "Gallery"]


def go(page, view):
    page.click(f"nav.tabs >> text={view}")
    until(page, f"document.querySelector('nav.tabs [aria-current]').textContent === '{view}'")


def weight(daemon, run, q, k, site=1):
    [[value]] = daemon.get(f"/v1/runs/{run}/weights?site={site}&heads=mean&rows={q}&cols={k}").json()["weights"]
    return value


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view(daemon, open_page, scheme):
    page = open_page(color_scheme=scheme)
    page.wait_for_selector(".words-query li:has-text('rouge')")
    run = run_of(page)

    page.hover(".words-query li:has-text('rouge')")
    page.wait_for_selector(".words-key small")
    says = page.eval_on_selector_all(".words-key small", "list => list.map((x) => parseFloat(x.textContent.replace('−', '-')))")
    assert says[5] == pytest.approx(weight(daemon, run, 7, 5), abs=6e-4) and max(says) == says[5]

    go(page, "By hand")
    page.wait_for_selector("[data-name=weights] [data-value^='0.729']")

    go(page, "Matrix")
    page.wait_for_selector(".matrix-map[data-busy=false]")
    page.focus("[role=grid]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('.cell .value code') !== null")
    until(page, "location.hash.includes('k=1')")
    shown = float(page.inner_text(".cell .value code"))
    assert shown == pytest.approx(weight(daemon, run, 0, 1), rel=1e-6)

    go(page, "Heads")
    page.wait_for_selector(".heads-picture:not(.waiting)")
    until(page, "[...document.querySelectorAll('main')].some((m) => /in order[^]{1,9}%/.test(m.innerText))")

    go(page, "Stages")
    until(page, "/softmax/.test(document.querySelector('main').innerText)")
    cell = daemon.get(f"/v1/runs/{run}/cells?site=1&row=0&col=1").json()
    until(page, f"Math.abs(document.querySelector('.stages-sums output[data-value]')?.dataset.value - {cell['weight']}) < 1e-6")

    go(page, "Own data")
    until(page, "document.querySelectorAll('main input, main textarea, main select').length > 20")

    go(page, "Gallery")
    until(page, "document.querySelectorAll('main canvas').length > 3")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for view in VIEWS:
        assert page.locator(f"nav.tabs >> text={view}").count() == 1


def test_a_visitor_names_the_sharpest_head_by_one_choice(daemon, open_page):
    page = open_page()
    page.wait_for_selector(".words-query li:has-text('rouge')")
    go(page, "Heads")
    page.wait_for_selector(".heads-chips")
    page.get_by_label("Sort by").select_option(label="sharpest first")
    heads = daemon.get(f"/v1/runs/{run_of(page)}/heads").json()["heads"]
    sharpest = min(heads, key=lambda h: h["measures"]["normalized_entropy"])
    place = f"{['encoder', 'cross'][sharpest['site']]} 0, head {sharpest['head']}"
    said = page.inner_text(".heads-first").replace("\u00a0", " ")
    assert said == f"The sharpest head is {place}: sharpness {100 * (1 - sharpest['measures']['normalized_entropy']):.0f} %."
    page.click(".heads-first button")
    assert page.inner_text(".heads-side h2") == place


def test_long_run(daemon, open_page):
    """32,768 tokens: the topmost tile, and the largest weight of row 20,000."""
    body = {"query": {"shape": [1, 1, 32768, 16], "random": "normal", "seed": 4}, "is_causal": True, "store": True, "return": []}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    page = open_page(f"#1/matrix?r={run}&h=0&q=20000")
    page.wait_for_selector(".matrix-map[data-busy=false]")
    page.wait_for_selector("table.row tbody tr")
    answer = daemon.get(f"/v1/runs/{run}/rows?rows=20000").json()
    best = int(np.argmax(answer["weights"][0]))
    assert page.locator("table.row tbody th").first.inner_text().split()[0] == f"{best:,}"


def test_the_reference(daemon, open_page):
    page = open_page(daemon.url + "/docs")
    page.wait_for_selector(".opblock")
    assert page.locator(".opblock").count() > 20


def test_an_own_request(daemon, open_page):
    body = {"query": [[1, 0], [0, 1], [1, 1]], "is_causal": True}
    page = open_page("#1/data")
    page.wait_for_selector("main textarea")
    answer = daemon.post("/v1/attention", body).json()
    page.evaluate("window.scrollTo(0, 0)")
    fields = page.locator("main textarea")
    fields.first.fill(json.dumps(body["query"]))
    page.get_by_label("is_causal").first.check()
    page.get_by_role("button", name="Compute").first.click()
    page.wait_for_selector(".matrix-map[data-busy=false]")
    run = run_of(page)
    assert daemon.get(f"/v1/runs/{run}/rows").json()["weights"] == answer["weights"]
