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


def gathered(row, groups):
    sums = [0.0] * (max(groups) + 1)
    for group, weight in zip(groups, row):
        sums[group] += weight
    return sums


def test_the_cell_joins_as_the_columns_do(daemon, page):
    page.fill("#sentence", "I saw a hedgehog in the garden.")
    page.wait_for_selector(".words-query li:has-text('hérisson')")
    page.click(".words-query li:has-text('hérisson')")
    until(page, "location.hash.includes('q=')")
    page.wait_for_selector(".cell .pieces")
    page.wait_for_selector("table.row[aria-busy=false]")
    shown = page.eval_on_selector_all("table.row tbody tr", "rows => rows.map((r) => [r.cells[0].querySelector('bdi').textContent, r.cells[1].innerText])")
    says = page.eval_on_selector_all(".words-key li", "list => list.map((x) => [x.querySelector('bdi').textContent, x.querySelector('small').textContent])")
    assert sorted(shown) == sorted(says), "one truth in both"
    texts = daemon.get(f"/v1/runs/{run_of(page)}").json()["texts"]
    source, target = texts[0]["tokens"], texts[1]["tokens"][1:]
    at = next(i for i, token in enumerate(target) if token.endswith("@@") and "hériss" in token)
    rows = weights(daemon, run_of(page))[at:at + 2]
    groups = [sum(not token.endswith("@@") for token in source[:i]) for i in range(len(source))]
    want = gathered([sum(column) / 2 for column in zip(*rows)], groups)
    assert [float(value.replace("−", "-")) for _, value in says] == pytest.approx(want, rel=0.06, abs=6e-4)
    assert page.inner_text(".cell h3").startswith("query hérisson")
    assert page.inner_text(".cell .context mark").strip() == "hérisson"
    assert page.inner_text(".cell .pieces").split()[1:] == target[at:at + 2]
    top = page.locator("table.row").bounding_box()["y"]
    page.hover("table.row tbody tr:has-text('hedgehog')")
    page.wait_for_timeout(200)
    assert page.locator("table.row").bounding_box()["y"] == top, "the table stands still under the pointer"
    page.click("table.row tbody tr:has-text('hedgehog')")
    page.mouse.move(5, 880)
    page.wait_for_selector(".cell .value code")
    assert page.inner_text(".cell .context >> nth=1 >> mark") == "hedgehog"
    assert float(page.inner_text(".cell .value code")) == pytest.approx(max(want), abs=1e-5)
    assert "weights of keys are summed, of queries averaged" in page.inner_text("table.row caption")
    page.click("label:has-text('pieces joined')")
    page.wait_for_selector("table.row th:has-text('hedgeho@@')")
    assert page.locator("table.row caption small").count() == 0


SCRIPTS = {"emoji": "\U0001f994", "Hebrew": "שלום", "CJK": "東京"}


@pytest.mark.parametrize("word", SCRIPTS.values(), ids=SCRIPTS)
def test_bytes_become_their_text(page, word):
    page.fill("#sentence", f"I saw {word} in the garden.")
    page.wait_for_selector(f".words-key li:has-text('{word}')")
    assert words(page, "key") == ["I", "saw", word, "in", "the", "garden", "."]
    pieces = " ".join(f"<0x{byte:02X}>" for byte in word.encode()) + " </w>"
    assert page.get_attribute(f".words-key li:has-text('{word}')", "title") == f"{word}: {pieces}"
    page.click(".words-query li >> nth=1")
    page.click(f".words-key li:has-text('{word}')")
    page.mouse.move(5, 880)
    page.wait_for_selector(".cell .pieces")
    assert page.inner_text(".cell h3 >> nth=1 >> bdi") == word
    assert page.inner_text(".cell .context >> nth=1 >> mark") == word, "the word stands in its sentence"
    assert page.inner_text(".cell .pieces").split()[1:] == pieces.split()
    page.click("label:has-text('pieces joined')")
    assert "<0x" in words(page, "key")[2]
    assert page.get_attribute(".words-key li >> nth=2", "title").endswith(f"byte 1 of {len(word[0].encode())} of {word[0]}")


def test_bytes_of_other_vocabularies(daemon, open_page):
    """Those of SentencePiece, with a byte that belongs to no character, in a text that runs from the right."""
    octets = ["<0xD7>", "<0xA9>"]
    tokens = ["<s>", "▁של", "ום", "▁", *octets, "<0xE4>", "▁עולם", "<0x0A>"]
    body = {"query": {"shape": [len(tokens), 8], "random": "normal", "seed": 3}, "labels": tokens, "store": True, "return": []}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    page = open_page(f"#1/words?r={run}&q=2")
    page.wait_for_selector(".cell .context")
    assert words(page, "key") == ["<s>", "שלום", "ש", "<0xE4>", "עולם", "<0x0A>"]
    assert page.get_attribute(".cell .context", "dir") == "rtl"
    assert page.inner_text(".cell h3 bdi") == "שלום" and page.inner_text(".cell .context mark") == "שלום"
    assert [x.inner_text() for x in page.locator(".words-heads > *").all()] == ["query (text)", "attends to", "key (same text)"]


def test_pieces_of_gpt_2_are_text(daemon, open_page):
    """Its letters stand for bytes: a visible one of Latin-1 for its own, "Ġ" for the blank before a word, "Ċ" for the end of a line."""
    tokens = ["The", "Ġca", "fÃ©", "ĠðŁĺ", "Ģ", "Ġna", "Ã¯", "ve", "Ċ", "So", "Ċ", "<|endoftext|>", "Ġé", "Ġend"]
    body = {"query": {"shape": [len(tokens), 8], "random": "normal", "seed": 3}, "labels": tokens, "store": True, "return": []}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    page = open_page(f"#1/words?r={run}&q=4")
    page.wait_for_selector(".cell .context")
    # "Ġé" was no byte's letter but an é that somebody has decoded before.
    assert words(page, "key") == ["The", "café", "😀", "naïve", "↵", "So", "↵", "<|endoftext|>", "é", "end"]
    assert page.inner_text(".cell h3 bdi") == "😀"
    assert page.inner_text(".cell .pieces").split()[1:] == ["␣<0xF0><0x9F><0x98>", "<0x80>"]
    page.click("label:has-text('pieces joined')")
    assert words(page, "key") == ["The", "␣ca", "fé", "␣<0xF0><0x9F><0x98>", "<0x80>", "␣na", "ï", "ve", "↵", "So", "↵", "<|endoftext|>", "é", "end"]


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_headings_of_the_columns(open_page, size):
    page = open_page(size=size)
    page.wait_for_selector(".words-columns li")
    assert [x.inner_text() for x in page.locator(".words-heads > *").all()] == ["query (target)", "attends to", "key (source)"]
    colours = "['--query', '--key'].map((name) => getComputedStyle(document.documentElement).getPropertyValue(name))"
    shown = "[...document.querySelectorAll('.words-heads span')].map((x) => '#' + getComputedStyle(x).color.match(/\\d+/g).map((n) => (+n).toString(16).padStart(2, '0')).join(''))"
    assert page.evaluate(shown) == page.evaluate(colours)
    page.select_option(".picks select >> nth=0", "0")
    page.wait_for_selector(".words-heads:has-text('query (source)')")


MASKS = [
    ({}, "no key is hidden"),
    ({"key_lengths": [8]}, "no key is hidden"),
    ({"key_lengths": [5]}, "the last 3 of 8 keys are padding"),
    ({"is_causal": True}, "causal: each query sees the keys up to itself"),
    ({"is_causal": True, "query_offset": 3}, "causal: query 0 sees keys 0 to 3, and each next query one more"),
    ({"is_causal": True, "key_lengths": [7]}, "causal: each query sees the keys up to itself; the last of 8 keys is padding"),
    ({"window": [3, 1]}, "window: each query sees itself, the 3 keys before it and the key after it"),
    ({"key_padding_mask": [[False] * 6 + [True] * 2], "key_padding_semantics": "hide"}, "2 of 8 keys are padding"),
    ({"attn_mask": [[True] * 8] * 7 + [[False] * 8]}, "a mask hides 8 of its 64 cells"),
    ({"attn_mask": [[[[True] * 5 + [False] * 3]]]}, "a mask hides 3 of its 8 cells"),
]


def test_masks_in_plain_words(daemon, open_page):
    page = open_page()
    page.wait_for_selector(".status .shape")
    assert page.inner_text(".status .shape") == "10 queries × 8 keys, 4 heads; no key is hidden"
    for fields, says in MASKS:
        body = {"query": {"shape": [1, 1, 8, 4], "random": "normal", "seed": 3}, "store": True, "return": [], **fields}
        run = daemon.post("/v1/attention", body).json()["run"]["id"]
        page.goto(f"{daemon.url}/#1/words?r={run}")
        until(page, f"document.querySelector('.status .shape')?.textContent === '8 queries × 8 keys, 1 head; {says}'")


def test_pinned_rows_are_told_apart(page):
    page.focus(".words-query")
    for key in ["End", "ArrowUp", "ArrowUp", "p", "ArrowUp", "p", "Home", "p"]:
        page.keyboard.press(key)
    until(page, "location.hash.includes('pin=7.6.0')")
    chips = ".words-pins button"
    assert page.eval_on_selector_all(chips, "list => list.map((x) => x.querySelector('.words-letter').textContent + ' ' + x.querySelector('bdi').textContent)") == ["A rouge", "B voiture", "C Mon"]
    assert [page.locator(f".words-query li >> nth={i}").inner_text().split()[-1] for i in (7, 6, 0)] == ["A", "B", "C"]
    lines = page.eval_on_selector_all(".words-columns path.pinned", "list => list.map((x) => [getComputedStyle(x).stroke, getComputedStyle(x).strokeDasharray].join())")
    assert len(set(lines)) == 3, "a colour and a dash for each row"
    page.reload()
    page.wait_for_selector(chips)
    page.focus(f"{chips} >> nth=1")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('pin=7.0')")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "free the row of Mon"
    page.keyboard.press("Enter")
    until(page, "document.activeElement.getAttribute('aria-label') === 'free the row of rouge'")
    page.keyboard.press("Enter")
    until(page, "document.activeElement.className === 'words-query' && !location.hash.includes('pin=')")
    assert page.locator(".words-pins").count() == 0


def test_large_numbers_have_separators(daemon, open_page):
    body = {"query": {"shape": [1, 1, 12345, 4], "random": "normal", "seed": 3}, "is_causal": True, "store": True, "return": []}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    page = open_page(f"#1/words?r={run}&q=12000&k=3")
    page.wait_for_selector(".cell .value code")
    assert page.inner_text(".cell h3") == "query 12,000"
    assert page.inner_text(".cell .value span").endswith("of 12,001")
    assert page.inner_text(".status .shape").startswith("12,345 queries × 12,345 keys")
    assert "q=12000" in page.url, "addresses have none"


def test_the_hint_on_a_phone_goes_away(open_page):
    page = open_page(size=(390, 844))
    page.wait_for_selector(".cell .hint")
    assert page.locator(".cell").bounding_box()["height"] < 60
    page.click("button[aria-label='hide this hint']")
    assert page.locator(".cell").bounding_box() is None
    page.reload()
    page.wait_for_selector(".words-columns li")
    assert page.locator(".cell .hint").count() == 0
    page.click(".words-query li:has-text('rouge')")
    page.wait_for_selector(".cell h3:has-text('rouge')")


def test_the_cell_on_a_phone_is_brief(open_page):
    """It hides little of the view until more is asked for, and a button frees it: phones have no Escape."""
    page = open_page(size=(390, 844))
    page.click(".words-query li:has-text('rouge')")
    page.click(".words-key li:has-text('red')")
    page.wait_for_selector(".cell .value output")
    assert page.locator(".cell").bounding_box()["height"] < 90
    assert page.inner_text(".cell .value").startswith("0.9") and page.locator(".cell h3").all_inner_texts() == ["query rouge 7", "key red 5"]
    page.click(".cell button:has-text('more')")
    page.wait_for_selector("table.row tbody tr")
    page.click(".cell button:has-text('less')")
    page.wait_for_selector("table.row", state="hidden")
    page.click("button[aria-label='free the cell']")
    until(page, NONE_CHOSEN)
    page.wait_for_selector(".cell .hint")


def test_large_text_on_a_phone(open_page):
    page = open_page(size=(390, 844), script="addEventListener('DOMContentLoaded', () => { document.documentElement.style.fontSize = '30px'; });")
    page.click(".words-query li:has-text('frère')")
    page.click(".cell button:has-text('more')")
    page.wait_for_selector("table.row tbody tr")
    assert page.locator("main").bounding_box()["height"] > 400
    cut = "[...document.querySelectorAll('.words-columns bdi, .words-heads span')].filter((x) => x.scrollWidth > x.clientWidth + 1 && x.clientWidth).map((x) => x.textContent)"
    assert page.evaluate(cut) == []
    page.locator("table.row tbody tr").last.scroll_into_view_if_needed()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


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
    masked = lambda side: long.eval_on_selector_all(f".words-line > [id^={side}-word]", "list => list.map((x) => [+x.id.split('-')[2], x.classList.contains('masked')])")  # noqa: E731
    long.locator(".words-text").nth(1).evaluate("x => { x.scrollTop = x.scrollHeight * 2500 / 3000; }")
    until(long, "document.querySelector('#key-word-2501') !== null")
    assert all(hidden == (i > 2500) for i, hidden in masked("key")) and not any(hidden for _, hidden in masked("query"))
    long.select_option(".words-options select", "queries")
    long.goto(f"{daemon.url}/#1/words?r={run}&h=1&k=1200")
    until(long, "document.querySelector('.words-strip .words-all') !== null")
    long.locator(".words-text").first.evaluate("x => { x.scrollTop = 0.36 * x.scrollHeight; }")
    until(long, "document.querySelector('#query-word-1200') !== null")
    assert all(hidden == (i < 1200) for i, hidden in masked("query"))


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


@pytest.mark.parametrize("size", [(1440, 900), (1920, 1080)])
def test_the_words_fill_their_pane(open_page, size):
    page = open_page(size=size)
    page.wait_for_selector(".gallery-shelf")  # the last part that comes
    boxes = page.eval_on_selector_all(".words-columns bdi", "list => list.map((x) => x.getBoundingClientRect()).map((b) => [b.left, b.top, b.right, b.bottom])")
    left, top, right, bottom = (f(box[i] for box in boxes) for i, f in enumerate((min, min, max, max)))
    pane = page.locator("main").bounding_box()
    assert (right - left) * (bottom - top) >= 0.45 * pane["width"] * pane["height"]
    assert bottom < pane["y"] + pane["height"] and page.evaluate("document.querySelector('.words-scroll').scrollHeight <= document.querySelector('.words-scroll').clientHeight")


@pytest.mark.parametrize("count", [65, 128, 200])
def test_many_words_have_their_strongest_lines(daemon, open_page, count):
    body = {"query": {"shape": [1, 1, count, 8], "random": "normal", "seed": 3}, "labels": [f"w{i}" for i in range(count)], "store": True, "return": []}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    page = open_page(f"#1/words?r={run}&h=0")
    page.locator(".words-columns path").first.wait_for(state="attached")
    total = 0
    for row in weights(daemon, run, site=0, heads=0)[0]:
        held = 0
        for weight in sorted(row, reverse=True):
            if held >= 0.7 * sum(row):
                break
            held += weight
            total += 1
    assert total > 400 and page.locator(".words-columns path").count() == 400
    shown = f"{total:,}" if total >= 10000 else str(total)
    assert page.inner_text(".words-most") == f"the 400 strongest of {shown}"
    page.select_option(".words-options select", "least")
    page.fill(".words-options input[type=range]", "0.95")
    until(page, "document.querySelector('.words-most') === null")


def test_hidden_words_are_not_0(daemon, open_page):
    body = {"query": {"shape": [1, 1, 6, 8], "random": "normal", "seed": 3}, "is_causal": True, "labels": list("abcdef"), "store": True, "return": []}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    page = open_page(f"#1/words?r={run}&h=0&q=2")
    page.wait_for_selector(".words-key small")
    says = page.locator(".words-key small").all_inner_texts()
    assert says[3:] == ["hidden"] * 3 and sum(map(float, says[:3])) == pytest.approx(1, abs=0.01)
    assert page.locator(".words-key bdi.masked").all_inner_texts() == ["d", "e", "f"]
    page.keyboard.press("Escape")
    page.hover(".words-key li:has-text('e')")
    until(page, "document.querySelectorAll('.words-query bdi.masked').length === 4")
    assert page.locator(".words-query small").all_inner_texts()[:4] == ["hidden"] * 4


def test_a_weight_of_nothing_is_nothing_to_see(page):
    page.click(".words-query li:has-text('rouge')")
    page.wait_for_selector(".words-columns path.strong")
    [strong, *_, weak] = sorted(page.eval_on_selector_all(".words-columns path.strong", "list => list.map((x) => Number(x.getAttribute('stroke-opacity')))"), reverse=True)
    assert strong > 0.9 and weak < 0.02


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_the_message_of_unknown_words_covers_nothing(open_page, size):
    page = open_page(size=size)
    page.wait_for_selector(".words-columns li")
    page.focus("form.sentence select")
    page.wait_for_selector("form.sentence optgroup", state="attached")
    page.select_option("form.sentence select", "en-fr")
    page.wait_for_selector("#unknown:has-text('brother')")
    said = page.locator("#unknown").bounding_box()
    for box in page.eval_on_selector_all("header select, header input, header button, nav button, .words-options, .words-scroll, .cell", "list => list.map((x) => x.getBoundingClientRect().toJSON())"):
        apart = box["bottom"] <= said["y"] or box["top"] >= said["y"] + said["height"] or box["right"] <= said["x"] or box["left"] >= said["x"] + said["width"]
        assert apart or not box["width"], "it lies in the flow"


def test_what_the_page_is_and_what_it_shows(open_page):
    page = open_page()
    page.wait_for_selector(".words-columns li")
    assert "shows which words a model looks at" in page.inner_text(".about")
    captions = lambda: page.locator(".captioned > span").all_inner_texts()  # noqa: E731
    assert captions() == ["model", "layer: decoder looks at encoder", "head"]
    page.select_option(".picks select >> nth=0", "0")
    until(page, "document.querySelector('.picks .captioned span').textContent === 'layer: encoder looks at itself'")
    assert page.locator("select").evaluate_all("list => list.every((x) => x.labels.length || x.ariaLabel)")
    small = open_page(size=(390, 844))
    small.wait_for_selector(".cell .hint")
    assert "shows which words a model looks at" in small.inner_text(".cell .hint")


def test_what_is_typed_without_a_pause_is_one_step_of_undo(page):
    page.focus("#sentence")
    page.keyboard.press("Control+A")
    for letters in ("The cat", " sat on", " the mat."):
        page.keyboard.type(letters)
        page.wait_for_timeout(150)  # longer than the page waits before it sends
    page.wait_for_selector(".words-query li:has-text('tapis')")
    page.click("button[aria-label=undo]")
    page.wait_for_selector(".words-query li:has-text('voiture')")
    assert page.input_value("#sentence") == FIRST


@pytest.mark.parametrize("words", [["반갑습니다"], ["世界"], ["WWWW"], ["WWWWWWWW", "MMMM"], ["\U0001f469\u200d\U0001f4bb"], ["ill"]])
def test_lines_of_long_texts_end_in_their_box(daemon, open_page, words):
    labels = (words * 201)[:201]
    run = daemon.post("/v1/attention", {"query": {"shape": [201, 2], "random": "normal"}, "labels": labels, "store": True, "return": []}).json()["run"]["id"]
    page = open_page(f"#1/words?r={run}")
    page.wait_for_selector(".words-line span")
    page.wait_for_timeout(200)
    lines = page.eval_on_selector_all(".words-line", "list => list.map((x) => [x.scrollWidth, x.clientWidth, x.lastElementChild.getBoundingClientRect().right - x.getBoundingClientRect().left])")
    assert lines and all(wide <= room for wide, room, _ in lines), lines
    assert max(end for _, _, end in lines) > 0.7 * lines[0][1], "lines are full"
