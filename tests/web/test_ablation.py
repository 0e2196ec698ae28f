"""A head is ablated by a click: what the model then says stands beside what it says with all heads, and the loss changes."""
import json
import time

import pytest
from conftest import PATIENCE, run_of, until

WORDS = "the red cat watches a small dog in big house and car".split()
TEXT = "the red cat watches a small dog"
GONE = [{"site": "decoder", "layer": 1, "head": 2}, {"site": "decoder", "layer": 0, "head": 1}]


@pytest.fixture(scope="module")
def writer(daemon):
    made = daemon.post("/v1/models", {"target_words": WORDS, "architecture": "decoder", "width": 16, "num_heads": 4, "num_layers": 2, "seed": 0,
                                      "max_length": 60}).json()["id"]
    yield made
    daemon.request("DELETE", f"/v1/models/{made}")


@pytest.fixture
def page(daemon, open_page, writer):
    """The heads of a text that the model has continued; that of layer 1, head 2 is selected."""
    page = open_page()
    page.wait_for_selector(".words-query li")
    first = run_of(page)
    page.focus("form.sentence select")
    page.wait_for_selector(f"form.sentence option[value='{writer}']", state="attached")
    page.select_option("form.sentence select", writer)
    page.fill("#sentence", TEXT)
    want = json.dumps(" ".join([TEXT, *says(daemon, writer, [])]))
    until(page, f"document.querySelector('.words-written[aria-busy=false]')?.textContent === {want}")
    other_run(daemon, page, first)
    page.click("nav.tabs >> text=Heads")
    page.click(".heads-card[data-key='1.0.2']")
    return page


def other_run(daemon, page, before):
    """The run of this text that takes the place of another one, once it is complete and the address names it."""
    end = time.monotonic() + PATIENCE
    while True:
        run = run_of(page)
        if run != before:
            found = daemon.get(f"/v1/runs/{run}")
            told = found.json() if found.status_code == 200 else {"texts": [{"tokens": []}]}
            words = [t for t in told["texts"][-1]["tokens"] if t in WORDS]
            if told.get("state") == "closed" and words[:len(TEXT.split())] == TEXT.split():
                return run
        assert time.monotonic() < end, f"the page still shows the run {run}"
        page.wait_for_timeout(25)


def says(daemon, writer, gone):
    body = {"text": TEXT, "return": [], **({"ablate": gone} if gone else {})}
    return daemon.post(f"/v1/models/{writer}/generate", body).json()["sequences"][0]["text"].split()


def shown(page, before, after):
    want = json.dumps([" ".join(before), " ".join(after)])
    until(page, f"JSON.stringify([...document.querySelectorAll('.heads-said dd')].map((d) => d.textContent.trim())) === JSON.stringify({want})")


def loss(daemon, writer, gone):
    return daemon.post(f"/v1/models/{writer}/explain", {"text": TEXT, "ablate": gone, "return": ["change"]}).json()["change"]["loss"]


def test_a_head_is_ablated_by_a_click(daemon, writer, page):
    before, run = says(daemon, writer, []), run_of(page)
    for gone in (GONE[:1], GONE):  # one, and another beside it
        if len(gone) == 2:
            page.click(".heads-card[data-key='0.0.1']")
        page.click("text=Ablate this head")
        shown(page, before, says(daemon, writer, gone))
        want = loss(daemon, writer, gone)
        until(page, f"document.querySelector('.heads-ablation').textContent.includes('{want['before']:.3f} → {want['after']:.3f}')")
        assert page.inner_text("button.without") == f"without {len(gone)} head{'s' if len(gone) > 1 else ''} ×"
        run = other_run(daemon, page, run)
        weights = daemon.post(f"/v1/models/{writer}/generate", {"text": TEXT, "return": [], "store": True, "ablate": gone}).json()["run"]["id"]
        rows = [daemon.get(f"/v1/runs/{run}/rows?site=1&head=0").json()["weights"] for run in (run, weights)]
        assert rows[0] == rows[1]  # the run is that of the changed model


def test_it_is_undone_by_a_click(daemon, writer, page):
    first = run_of(page)
    page.click("text=Ablate this head")
    page.wait_for_selector(".heads-said")
    assert page.get_attribute(".heads-ablation button", "aria-pressed") == "true"
    gone = other_run(daemon, page, first)
    page.click("text=Put this head back")
    page.wait_for_selector(".heads-said", state="detached")
    assert page.locator("button.without").count() == 0
    rows = [daemon.get(f"/v1/runs/{run}/rows?site=1&head=0").json()["weights"] for run in (first, other_run(daemon, page, gone))]
    assert rows[0] == rows[1]
    page.click("[aria-label=undo]")
    page.wait_for_selector("button.without")
    page.click("button.without")
    page.wait_for_selector("button.without", state="detached")


def test_the_address_holds_it(daemon, writer, page):
    first = run_of(page)
    page.click("text=Ablate this head")
    page.wait_for_selector("button.without")
    run = other_run(daemon, page, first)
    link = page.evaluate("location.href")
    daemon.request("DELETE", f"/v1/runs/{run}")  # the link makes it again
    page.goto("about:blank")
    page.allow = ("404", "410")
    page.goto(link)
    page.wait_for_selector("button.without")
    shown(page, says(daemon, writer, []), says(daemon, writer, GONE[:1]))
    page.fill("#sentence", TEXT + " in")  # what is typed next is read without the head, too
    until(page, "document.querySelector('.heads-said') !== null")
    assert page.locator("button.without").count() == 1
