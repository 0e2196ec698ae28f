"""The gallery: the examples of the service as cards, their pictures, and what a click opens."""
import json
import re

import pytest
from conftest import run_of, until


@pytest.fixture
def page(daemon, open_page):
    page = open_page(daemon.url + "/#1/gallery")
    page.wait_for_selector(".gallery-card")
    return page


def card(page, title):
    found = page.locator(".gallery-card", has=page.locator("h4 button", has_text=re.compile(f"^{re.escape(title)}$")))
    found.scroll_into_view_if_needed()
    return found


def ready(page, title):
    """The card of this title, with its picture or its numbers."""
    found = card(page, title)
    found.locator(".gallery-picture > *").first.wait_for()
    return found


def test_there_is_a_card_for_each_example(daemon, page):
    examples = daemon.get("/v1/examples").json()["examples"]
    shown = page.eval_on_selector_all(".gallery-card", """list => list.map((card) => [card.querySelector('h4').textContent,
        card.querySelector('.gallery-text > p').textContent, [...card.querySelectorAll('.gallery-tags button')].map((b) => b.textContent)])""")
    assert sorted(shown) == sorted([e["title"], e["what"].replace("`", ""), e["tags"]] for e in examples)


def test_cards_stand_below_their_subjects(daemon, page):
    examples = {e["title"]: e for e in daemon.get("/v1/examples").json()["examples"]}
    groups = page.eval_on_selector_all(".gallery section", """list => list.map((x) => [x.querySelector('h3').textContent,
        [...x.querySelectorAll('h4')].map((h) => h.textContent)])""")
    assert [g[0] for g in groups] == ["What attention is", "Masks", "Positions", "Heads", "Batches, caches and cost", "Scores and softmax"]
    for subject, titles in groups:
        assert 3 <= len(titles) <= 16, (subject, titles)
        assert titles == sorted(titles, key=lambda t: list(examples).index(t)), "in the order of the service"
    masks = [e for e in examples if "masks" in examples[e]["tags"]]
    assert set(masks) <= set(dict(map(tuple, [(s, tuple(t)) for s, t in groups]))["Masks"])
    page.fill("#gallery-search", "softcap")
    until(page, "document.querySelectorAll('.gallery section').length === 1")


def test_a_picture_says_which_request_it_is_of(daemon, page):
    card = ready(page, "Causal attention")
    one = daemon.get("/v1/examples/causal").json()["cases"]
    said = card.locator(".gallery-case").inner_text()
    assert said.startswith(one[0]["title"]) and said.endswith(f"1 of {len(one)} requests"), "its first cases look alike"
    card = ready(page, "One vector for a sentence, or a look at every word")
    assert "not measured" in card.locator(".gallery-case").inner_text()


def test_cards_are_filtered_by_text_and_tag(daemon, page):
    examples = daemon.get("/v1/examples").json()["examples"]
    page.select_option(".gallery-head select", "masks")
    want = [e["title"] for e in examples if "masks" in e["tags"]]
    assert sorted(page.locator(".gallery-card h4").all_inner_texts()) == sorted(want)
    assert f"{len(want)} of {len(examples)} examples" in page.inner_text(".gallery-head")
    page.fill("#gallery-search", "padded PICTURE")
    assert page.locator(".gallery-card").count() == 0
    page.get_by_role("button", name="Show all").click()
    assert page.locator(".gallery-card").count() == len(examples)
    page.get_by_role("button", name="sparse", exact=True).first.click()
    assert sorted(page.locator(".gallery-card h4").all_inner_texts()) == sorted(e["title"] for e in examples if "sparse" in e["tags"])
    assert page.get_attribute(".gallery-tags [aria-pressed=true]", "aria-pressed") == "true"


def test_every_card_gets_a_picture_or_numbers_and_nothing_jumps(daemon, page):
    requests, most = [], 0

    def finished(request):
        if request in requests:
            requests.remove(request)

    def begun(request):
        nonlocal most
        if "/v1/" in request.url and not request.url.endswith("/v1/examples"):
            requests.append(request)
            most = max(most, len(requests))

    page.on("request", begun)
    page.on("requestfinished", finished)
    titles = page.locator(".gallery-card h4").all_inner_texts()
    heights = page.eval_on_selector_all(".gallery-card", "list => list.map((c) => c.offsetHeight)")
    first = len([x for x in page.locator(".gallery-card").all() if x.locator(".gallery-picture > *").count()])
    for title in titles:
        ready(page, title)
    assert first < len(titles)  # those out of sight waited
    assert most <= 2
    assert page.eval_on_selector_all(".gallery-card", "list => list.map((c) => c.offsetHeight)") == heights
    assert page.locator(".gallery-picture .bad").count() == 0
    numbers = page.eval_on_selector_all(".gallery-card:has(table) h4", "list => list.map((x) => x.textContent)")
    drawn = page.locator(".gallery-picture:has(canvas[role=img])").count()
    assert drawn == len(titles) - len(numbers)
    refused_or_dry = [e["title"] for e in daemon.get("/v1/examples").json()["examples"]
                      if e["id"] == "ragged-batch" or all(c["request"].get("dry_run") or c.get("status", 200) >= 400 for c in daemon.get(e["href"]).json()["cases"])]
    assert sorted(numbers) == sorted(refused_or_dry)


def test_a_picture_is_that_of_the_service(daemon, page):
    card = ready(page, "Causal attention")
    picture = daemon.post("/v1/attention", {**daemon.get("/v1/examples/causal").json()["cases"][0]["request"], "figure": {"theme": "light", "scale": 1}},
                          headers={"Accept": "image/png"}).content
    size = [int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")]
    canvas = card.locator(".gallery-picture canvas")
    assert canvas.evaluate("c => [c.width, c.height]") == size
    assert canvas.get_attribute("aria-label") == "picture of Causal attention"


def test_pictures_follow_the_theme(page):
    ready(page, "Causal attention")
    corner = "(() => [...document.querySelector('.gallery-picture canvas').getContext('2d').getImageData(1, 1, 1, 1).data][0])()"
    page.allow = ("willReadFrequently",)
    until(page, f"{corner} > 200")
    page.emulate_media(color_scheme="dark")
    until(page, f"{corner} < 60")


# --- beside the first view ---

def test_examples_stand_beside_the_first_view(daemon, open_page):
    """In one line, so that the words have the room."""
    page = open_page()
    shelf = page.locator(".gallery-shelf")
    shelf.wait_for()
    examples = daemon.get("/v1/examples").json()["examples"]
    titles = shelf.locator(".gallery-title")
    assert titles.all_inner_texts() == [e["title"] for e in examples][:4]
    assert titles.evaluate_all("list => list.every((x) => x.scrollWidth <= x.clientWidth)"), "no title is cut"
    box, main = shelf.bounding_box(), page.locator("main").bounding_box()
    assert box["height"] < 60 and box["y"] + box["height"] < main["y"] + main["height"]  # in sight without scrolling
    shelf.get_by_role("button", name=f"All {len(examples)}").click()
    page.wait_for_selector(".gallery-cards")


@pytest.mark.parametrize("how", ["click", "keys"])
def test_an_example_beside_the_first_view_opens(daemon, open_page, how):
    page = open_page()
    found = page.locator(".gallery-title:text-is('Causal attention')")
    found.wait_for()
    before = run_of(page)
    if how == "click":
        found.click()
    else:
        found.focus()
        page.keyboard.press("Enter")
    until(page, f"location.hash.startsWith('#1/matrix') && !location.hash.includes('{before}')")
    assert daemon.get(f"/v1/runs/{run_of(page)}").json()["sites"][0]["num_queries"] == 2
    assert page.locator(".gallery-shelf").count() == 0  # what is shown is no sentence


def test_the_first_view_is_whole_without_examples(open_page):
    page = open_page("#1/data", allow=("503",))
    page.route("**/v1/examples", lambda route: route.fulfill(status=503, json={"title": "Busy", "status": 503, "detail": "busy"}))
    page.locator(".brand").click()
    page.locator(".words-columns path").first.wait_for(state="attached")
    page.wait_for_timeout(1500)
    assert page.locator(".gallery-shelf").count() == 0 and page.locator("[role=alert]").count() == 0


@pytest.mark.parametrize("how", ["title", "picture"])
def test_a_card_opens_shown(daemon, page, how):
    ready(page, "Causal attention").locator("h4 button" if how == "title" else ".gallery-picture").click()
    until(page, "location.hash.startsWith('#1/matrix')")
    assert daemon.get(f"/v1/runs/{run_of(page)}").json()["sites"][0]["num_queries"] == 2
    page.wait_for_selector(".matrix-map[data-busy=false]")


def test_a_card_with_words_opens_as_words(daemon, page):
    found = ready(page, "Encoder-decoder attention")
    request = daemon.get("/v1/examples/encoder-decoder").json()["cases"][0]["request"]
    found.locator("h4 button").click()
    until(page, f"location.hash.startsWith('#1/{'words' if 'labels' in request else 'matrix'}')")


def test_a_second_button_opens_the_request_to_edit(daemon, page):
    ready(page, "Causal attention").get_by_role("button", name="edit the request").click()
    page.wait_for_selector("#data-query")
    until(page, "document.querySelector('#data-query').value !== ''")
    request = daemon.get("/v1/examples/causal").json()["cases"][0]["request"]
    for name in ("query", "key", "value"):
        assert json.loads(page.input_value(f"#data-{name}")) == request[name]
    assert page.is_checked("#data-is_causal")
    page.uncheck("#data-is_causal")
    with page.expect_request("**/v1/attention") as sent:
        page.get_by_role("button", name="Compute").click()
    assert "is_causal" not in json.loads(sent.value.post_data)


def test_any_request_of_an_example_opens(page):
    found = ready(page, "Causal attention")
    found.locator("summary").click()
    assert found.locator("li").count() == 8
    found.get_by_role("button", name="edit numbers that hide: 1 = hidden").click()
    page.wait_for_selector("#data-query")
    until(page, "document.querySelector('#data-mask_semantics')?.value === 'hide'")
    page.get_by_role("button", name="Gallery").click()
    found = ready(page, "Causal attention")
    found.locator("summary").click()
    found.get_by_role("button", name="numbers that hide: 1 = hidden", exact=True).click()
    until(page, "location.hash.startsWith('#1/matrix')")


def test_pictures_are_whole_and_wide_ones_have_a_larger_one(page):
    found = ready(page, "Four heads, four patterns")
    shown, frame, whole = found.locator("canvas").evaluate("c => [c, c.parentElement].map((x) => x.getBoundingClientRect().toJSON()).concat(c.width)")
    assert frame["left"] < shown["left"] and shown["right"] < frame["right"] and frame["top"] < shown["top"] and shown["bottom"] < frame["bottom"]
    found.get_by_role("button", name="larger picture").click()
    page.wait_for_selector("dialog canvas")
    assert page.locator("dialog canvas").evaluate("c => c.getBoundingClientRect().width") == whole
    page.keyboard.press("Escape")
    small = ready(page, "Why scores are divided by the square root of the width")
    assert small.locator("canvas").evaluate("c => c.getBoundingClientRect().width === c.width") and small.get_by_role("button", name="larger").count() == 0


def test_cases_that_look_different_stand_beside_each_other(daemon, page):
    """As small pictures with captions and one range of colours; each opens its own case."""
    cases = daemon.get("/v1/examples/word-order").json()["cases"]
    found = ready(page, "Without positions, order means nothing")
    found.locator("figure").nth(2).wait_for()
    assert found.locator("figcaption").all_inner_texts() == [c["title"] for c in cases[:3]]
    assert found.locator(".gallery-case").inner_text().strip() == f"3 of {len(cases)} requests"
    pictures = [daemon.post("/v1/attention", {**c["request"], "figure": {
        "title": "", "x_label": "", "y_label": "", "colorbar": False, "width": 160, "vmax": 1, "theme": "light", "scale": 1}},
        headers={"Accept": "image/png"}).content for c in cases[:3]]
    for i, picture in enumerate(pictures):
        same = page.evaluate("""async ([i, bytes]) => {
          const bitmap = await createImageBitmap(new Blob([new Uint8Array(bytes)])), canvas = document.createElement('canvas');
          [canvas.width, canvas.height] = [bitmap.width, bitmap.height];
          canvas.getContext('2d').drawImage(bitmap, 0, 0);
          const card = [...document.querySelectorAll('.gallery-card')].find((c) => c.querySelector('h4').textContent.startsWith('Without positions'));
          return card.querySelectorAll('canvas')[i].toDataURL() === canvas.toDataURL();
        }""", [i, list(picture)])
        assert same, f"small picture {i} is not that of the service"
    found.locator("figcaption button").nth(1).click()
    until(page, "location.hash.includes('e=word-order.1')")
    assert daemon.get(f"/v1/runs/{run_of(page)}/weights?head=0").json()["weights"][0][0] == pytest.approx(0.8437947345, abs=1e-6)


def test_two_small_pictures_fit_a_phone(daemon, open_page):
    page = open_page("#1/gallery", size=(390, 844))
    found = ready(page, "Without positions, order means nothing")
    found.locator("figure").first.wait_for()
    assert found.locator("figure").count() == 2
    edges = found.evaluate("card => [card.getBoundingClientRect().right, ...[...card.querySelectorAll('canvas, figcaption')].map((c) => c.getBoundingClientRect().right)]")
    assert max(edges[1:]) <= edges[0]


# --- an example that is opened keeps its title, its text and its other cases ---

def opened(page, title):
    """What stands above the view that shows a case."""
    ready(page, title).locator("h4 button").click()
    page.wait_for_selector(".gallery-opened h2")
    return page.locator(".gallery-opened")


def test_an_opened_example_keeps_title_text_and_cases(daemon, page):
    example = daemon.get("/v1/examples/word-order").json()
    above = opened(page, example["title"])
    assert above.locator("h2").inner_text() == example["title"]
    assert above.locator("p").first.inner_text() == example["what"]
    choice = above.get_by_label("case of the example")
    assert [t.split(": ", 1)[1] for t in choice.locator("option").all_inner_texts()] == [c["title"] for c in example["cases"]]
    assert above.get_by_label("previous case").is_disabled()
    first = run_of(page)
    above.get_by_label("next case").click()  # one click to the next case
    until(page, f"location.hash.includes('e=word-order.1') && !location.hash.includes('{first}')")
    want = example["cases"][1]["response"]["weights"]
    assert daemon.get(f"/v1/runs/{run_of(page)}/weights?head=0").json()["weights"][0] == pytest.approx(want[0], abs=1e-6)
    assert choice.input_value() == "1"
    choice.select_option("7")
    until(page, "location.hash.includes('e=word-order.7')")
    assert above.get_by_label("next case").is_disabled()
    page.get_by_label("undo").click()
    until(page, "document.querySelector('[aria-label=\"case of the example\"]').value === '1'")


def test_the_case_stays_in_the_view_in_which_one_looks(page):
    above = opened(page, "Without positions, order means nothing")
    page.get_by_role("button", name="Stages").click()
    page.wait_for_selector(".stages, .stages-table, main table")
    above.get_by_label("next case").click()
    until(page, "location.hash.startsWith('#1/stages') && location.hash.includes('e=word-order.1')")


def test_a_permalink_opens_the_example_with_its_text(daemon, open_page, page):
    opened(page, "Causal attention")
    until(page, "location.hash.includes('e=causal.0') && location.hash.includes('i=')")
    second = open_page(page.evaluate("location.hash"))
    second.wait_for_selector(".gallery-opened h2:text-is('Causal attention')")
    gone = page.evaluate("location.hash").replace(run_of(page), "0" * 32)
    third = open_page(gone, allow=("404", "410"))  # a run that is no more is made again
    third.wait_for_selector(".gallery-opened h2:text-is('Causal attention')")
    until(third, f"!location.hash.includes('{'0' * 32}')")
    assert "e=causal.0" in third.evaluate("location.hash")


def test_another_run_is_no_case_of_the_example(page):
    opened(page, "Causal attention")
    page.fill("#sentence", "The cat sat on the mat.")
    until(page, "document.querySelector('.gallery-opened') === null")
    until(page, "!location.hash.includes('e=causal')")


def test_an_example_opened_beside_the_first_view_has_its_text_too(daemon, open_page):
    page = open_page()
    page.locator(".gallery-title:text-is('Causal attention')").click()
    page.wait_for_selector(".gallery-opened h2:text-is('Causal attention')")
    page.locator(".gallery-opened").get_by_role("button", name="All examples").click()
    page.wait_for_selector(".gallery-cards")
    assert page.locator(".gallery-opened").count() == 0


def test_cases_that_are_no_run_open_at_large_with_title_and_cases(daemon, page):
    example = daemon.get("/v1/examples/padding-mask").json()
    ready(page, example["title"]).locator("h4 button").click()
    page.wait_for_selector("dialog h2")
    assert page.inner_text("dialog h2") == example["title"]
    assert example["what"] in page.inner_text("dialog")
    for case in example["cases"][:2]:
        until(page, f"JSON.stringify(JSON.parse(document.querySelector('dialog pre[aria-label=request]').textContent)) === JSON.stringify({json.dumps(case['request'])})")
        page.locator("dialog").get_by_label("next case").click()


@pytest.mark.parametrize("width", [320, 390])
def test_an_opened_example_fits_a_phone(open_page, width):
    page = open_page("#1/gallery", size=(width, 844))
    above = opened(page, "Without positions, order means nothing")
    assert page.evaluate("(() => { const m = document.querySelector('main'); return m.scrollWidth - m.clientWidth; })()") <= 0
    box, view = above.bounding_box(), page.locator("main > .gallery-opened + *").bounding_box()
    assert above.evaluate("x => x.scrollHeight - x.clientHeight") <= 1 and view["y"] >= box["y"] + box["height"] - 1


def test_the_larger_picture_of_a_run_leads_to_it(page):
    ready(page, "Shapes of query, key, value and answer").get_by_role("button", name="larger picture").click()
    page.locator("dialog canvas").wait_for()
    page.get_by_role("button", name="Show the run").click()
    until(page, "/^#1.(matrix|words)/.test(location.hash)")
    assert page.locator("dialog").count() == 0


def test_other_routes_show_request_and_answer(daemon, page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ready(page, "A translation as a heatmap").locator("h4 button").click()
    page.wait_for_selector("dialog pre[aria-label=answer]:has-text('heads')")
    request = daemon.get("/v1/examples/translation").json()["cases"][0]["request"]
    assert json.loads(page.inner_text("dialog pre[aria-label=request]")) == request
    assert json.loads(page.inner_text("dialog pre[aria-label=answer]")) == daemon.post("/v1/heatmaps", request).json()
    page.locator("dialog canvas").wait_for()
    page.get_by_role("button", name="copy as curl").click()
    until(page, "document.querySelector('.gallery-copy').textContent === 'copied'")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"curl '{daemon.url}/v1/heatmaps'") and json.loads(copied.split("-d '")[1][:-1].replace("'\\''", "'")) == request
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert page.locator(".gallery-card").count() > 30


def test_a_refused_request_shows_its_error(page):
    found = ready(page, "Causal attention")
    found.locator("summary").click()
    found.locator("li", has_text="refused").get_by_role("button").first.click()
    page.wait_for_selector("dialog")
    assert "is refused with 422" in page.inner_text("dialog .gallery-line")
    assert '"code"' in page.inner_text("dialog pre[aria-label=answer]")


def test_text_answers_are_shown_as_text(page):
    found = ready(page, "The causal mask as a picture")
    found.locator("summary").click()
    found.locator("li", has_text="text").last.get_by_role("button").click()
    page.wait_for_selector("dialog pre[aria-label=answer]:has-text('a line is a query')")


def test_a_card_opens_with_the_keyboard(page):
    ready(page, "A translation as a heatmap").locator("h4 button").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog")
    page.keyboard.press("2")  # a key of the page, which the dialog keeps
    assert page.locator("dialog").count() == 1


@pytest.mark.parametrize("width, zoom", [(390, 100), (1440, 200)])
def test_nothing_is_cut_off(page, width, zoom):
    page.set_viewport_size({"width": width, "height": 844})
    page.evaluate("size => { document.documentElement.style.fontSize = size; }", f"{15 * zoom / 100}px")
    assert page.evaluate("(() => { const m = document.querySelector('main'); return m.scrollWidth - m.clientWidth; })()") <= 0
    small = page.eval_on_selector_all(".gallery button, .gallery select, .gallery input, .gallery summary",
                                      "list => list.filter((e) => e.offsetHeight && e.getBoundingClientRect().height < 24).map((e) => e.outerHTML.slice(0, 80))")
    assert small == []
