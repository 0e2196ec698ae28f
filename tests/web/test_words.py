"""The first visit and the view of words: which words look at which, beside the numbers of the API."""
import re

import pytest
from conftest import run_of, until

NONE_CHOSEN = "document.querySelectorAll('.words-query li[aria-selected=true]').length === 0"
FIRST = "My brother bought a big red car."


def weights(daemon, run, site=1, heads="mean", rows=None):
    path = f"/v1/runs/{run}/rows?site={site}&heads={heads}" + (f"&rows={rows}" if rows is not None else "")
    return daemon.get(path).json()["weights"]


@pytest.fixture
def page(daemon, open_page):
    page = open_page()
    page.wait_for_selector(".words-columns li")
    return page


def words(page, side):
    return page.eval_on_selector_all(f".words-{side} li bdi", "list => list.map((x) => x.textContent)")


def test_the_first_visit_shows_a_translation(page):
    assert page.input_value("#sentence") == FIRST
    assert words(page, "query")[:8] == ["Mon", "frère", "a", "acheté", "une", "grande", "voiture", "rouge"]
    assert words(page, "key") == ["My", "brother", "bought", "a", "big", "red", "car", "."]
    assert page.locator(".words-columns svg path").count() >= 8


def test_a_word_under_the_pointer_shows_its_row(daemon, page):
    page.hover(".words-query li:has-text('rouge')")
    page.wait_for_selector("table.row tbody tr")
    run = run_of(page)
    [row] = weights(daemon, run, rows=7)
    shown = page.eval_on_selector_all("table.row tbody tr", "rows => rows.map((r) => [r.cells[0].innerText.trim(), r.cells[1].innerText])")
    assert len(shown) == len(row)
    for name, value in shown:
        key = int(name.split()[-1])
        assert float(value.replace("−", "-")) == pytest.approx(row[key], rel=0.06, abs=6e-4)
    assert shown[0][0].startswith("red")
    says = page.eval_on_selector_all(".words-key li", "list => list.map((x) => x.innerText.split(/\\s+/))")
    assert float(says[5][1]) == pytest.approx(row[5], abs=6e-4)
    page.mouse.move(5, 880)
    page.wait_for_selector(".cell .hint")


def test_who_looks_at_a_word(daemon, page):
    page.hover(".words-key li:has-text('red')")
    page.wait_for_selector(".words-query li small")
    column = [row[5] for row in weights(daemon, run_of(page))]
    says = [float(x.replace("−", "-")) for x in page.eval_on_selector_all(".words-query li small", "list => list.map((x) => x.innerText)")]
    assert says == pytest.approx(column, rel=0.06, abs=6e-4)


def test_a_click_keeps_and_escape_frees(page):
    page.click(".words-query li:has-text('rouge')")
    page.mouse.move(5, 880)
    assert page.locator(".words-query li[aria-selected=true]").inner_text().startswith("rouge")
    until(page, "location.hash.includes('q=7')")
    page.keyboard.press("Escape")
    until(page, NONE_CHOSEN)
    page.click(".words-query li:has-text('rouge')")
    page.click(".words-query li:has-text('rouge')")
    page.mouse.move(5, 880)
    until(page, NONE_CHOSEN)


def test_pinned_rows_stay(page):
    page.click(".words-query li:has-text('rouge')")
    page.click("button.pin")
    page.keyboard.press("Escape")
    page.click(".words-query li:has-text('rouge')")
    assert page.locator("button.pin").get_attribute("aria-pressed") == "false", "Escape frees pinned rows, too"
    page.click("button.pin")
    page.click(".words-query li:has-text('Mon')")
    page.mouse.move(5, 880)
    until(page, "location.hash.includes('pin=7')")
    until(page, "document.querySelectorAll('.words-columns path.strong').length >= 10")
    page.click("button[aria-label=undo]")
    page.click("button[aria-label=undo]")
    until(page, "!location.hash.includes('pin=')")


def test_the_keyboard_alone(page):
    page.focus(".words-query")
    page.keyboard.press("End")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('q=7')")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "words-key"


def test_an_own_sentence(daemon, page):
    page.fill("#sentence", "The cat sat on the mat.")
    page.wait_for_selector(".words-query li:has-text('tapis')")
    answer = daemon.post("/v1/models/en-fr-text/generate", {"text": "The cat sat on the mat.", "return": []}).json()
    target = answer["sequences"][0]["target"]["tokens"]
    page.locator("label:has-text('pieces joined')").locator("input").uncheck() if page.locator("label:has-text('pieces joined')").count() else None
    assert words(page, "query") == target


def test_pieces_of_words(daemon, page):
    page.fill("#sentence", "I saw a hedgehog in the garden.")
    page.wait_for_selector("label:has-text('pieces joined')")
    joined = words(page, "key")
    assert "hedgehog" in joined
    page.click("label:has-text('pieces joined')")
    apart = words(page, "key")
    assert len(apart) > len(joined) and any(x.endswith("@@") for x in apart)
    page.click("label:has-text('pieces joined')")
    page.hover(".words-query li >> nth=1")
    page.wait_for_selector(".words-key li small")
    says = [float(x.replace("−", "-")) for x in page.eval_on_selector_all(".words-key li small", "list => list.map((x) => x.innerText)")]
    assert sum(says) == pytest.approx(1, abs=0.02)


def test_undo_returns_to_the_sentence_before(page):
    before = words(page, "query")
    page.click(".words-query li:has-text('rouge')")
    page.fill("#sentence", "The big white house is old.")
    page.wait_for_selector(".words-query li:has-text('maison')")
    page.click("button[aria-label=undo]")
    page.wait_for_selector(".words-query li:has-text('voiture')")
    assert page.input_value("#sentence") == FIRST and words(page, "query") == before
    assert page.locator(".words-query li[aria-selected=true]").inner_text().startswith("rouge")
    page.click("button[aria-label=undo]")
    until(page, NONE_CHOSEN)
    page.click("button[aria-label=redo]")
    page.click("button[aria-label=redo]")
    page.wait_for_selector(".words-query li:has-text('maison')")


def test_a_link_opens_the_same_numbers_elsewhere(daemon, page, open_page):
    page.click(".words-query li:has-text('rouge')")
    page.select_option(".picks select >> nth=1", "2")
    until(page, "location.hash.includes('q=7') && location.hash.includes('h=2')")
    link = page.url
    rows = "rows => rows.map((r) => r.innerText)"
    page.wait_for_selector("table.row tbody tr")
    page.wait_for_timeout(300)
    other = open_page(link)
    other.wait_for_selector("table.row tbody tr")
    assert other.eval_on_selector_all("table.row tbody tr", rows) == page.eval_on_selector_all("table.row tbody tr", rows)
    assert other.input_value("#sentence") == FIRST


def test_a_run_that_has_gone_is_made_again(daemon, page, open_page):
    page.click(".words-query li:has-text('rouge')")
    until(page, "location.hash.includes('q=7')")
    assert daemon.request("DELETE", f"/v1/runs/{run_of(page)}").status_code == 204
    other = open_page(page.url, allow=["404", "410"])
    other.wait_for_selector(".words-query li[aria-selected=true]:has-text('rouge')")
    lost = open_page(re.sub("[?&]i=.*", "", page.url), allow=["404", "410"])
    lost.wait_for_selector("text=This run is not kept any more")


def test_long_texts_are_shaded(daemon, page, open_page):
    tokens = [f"w{i}" for i in range(3000)]
    body = {"query": {"shape": [1, 2, 3000, 16], "random": "normal", "seed": 3}, "is_causal": True, "labels": tokens, "store": True, "return": []}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    long = open_page(f"{daemon.url}/#1/words?r={run}&h=1&q=2500")
    long.wait_for_selector("table.row tbody tr")
    [row] = daemon.get(f"/v1/runs/{run}/rows?head=1&rows=2500").json()["weights"]
    best = max(range(len(row)), key=row.__getitem__)
    assert long.locator("table.row tbody tr").first.inner_text().startswith(f"w{best} ")
    assert long.locator(".words-line span").count() < 1500, "only the lines in sight are in the document"
    long.select_option(".words-options select", "queries")
    long.goto(f"{daemon.url}/#1/words?r={run}&h=1&k=1200")
    until(long, "document.querySelector('.words-strip .words-all') !== null")


@pytest.mark.parametrize("fragment", ["#1/heads?r=zzzz", "#1/nonsense?x=1", "#1/words?i=%%%broken", "#99/words", "#1/words"])
def test_an_address_without_a_run_shows_the_first_view(open_page, fragment):
    page = open_page(fragment)
    page.wait_for_selector(".words-query li:has-text('rouge')")


def test_an_address_beyond_the_run(daemon, page, open_page):
    other = open_page(f"#1/words?r={run_of(page)}&s=1&q=99999999")
    other.wait_for_selector(".cell .hint:has-text('queries 0 to 9')")


def test_what_is_typed_survives_a_lost_service(open_page):
    from serving import service
    daemon = service.Daemon("--ops-listen", "", "--log", "off")
    page = open_page(daemon.url + "/", allow=["Failed to load resource"])
    page.wait_for_selector(".words-columns li")
    port = daemon.port
    daemon.stop()
    page.fill("#sentence", "The big white house is old.")
    page.wait_for_selector("text=does not answer")
    assert page.input_value("#sentence") == "The big white house is old."
    again = service.Daemon("--ops-listen", "", "--log", "off", "--port", str(port))
    try:
        page.focus("#sentence")
        page.keyboard.press("Enter")
        page.wait_for_selector(".words-query li:has-text('maison')")
        until(page, "document.querySelector('.trouble, .status .bad') === null")
    finally:
        again.stop()


def test_a_key_is_asked_for_once(open_page, tmp_path):
    from serving import service
    key = "words-key-0123456789abcdef0123456789"
    daemon = service.Daemon("--ops-listen", "", "--log", "off", "--keys-file", service.write_keys(tmp_path, f"one:{key}"))
    try:
        page = open_page(daemon.url + "/", allow=["401"])
        page.wait_for_selector("dialog[open]")
        page.fill("dialog input[name=key]", "wrong-key-0123456789abcdef0123456789")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("dialog[open] >> text=not one of those")
        page.fill("dialog input[name=key]", key)
        page.click("dialog button[type=submit]")
        page.wait_for_selector(".words-columns li")
        assert key not in page.url and page.evaluate("Object.keys(localStorage).every((k) => !localStorage[k].includes('words-key'))")
        page.reload()
        page.wait_for_selector(".words-columns li")
        assert page.locator("dialog[open]").count() == 0
    finally:
        daemon.stop()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (390, 844), (320, 700)])
def test_nothing_is_cut_off(daemon, open_page, scheme, size):
    page = open_page(size=size, color_scheme=scheme)
    page.wait_for_selector(".words-columns li")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth && document.querySelector('main').scrollWidth <= innerWidth")
