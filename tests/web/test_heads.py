"""The view of heads: thumbnails, measures, means, diagnoses and rollout, beside the numbers of the API."""
import json
import struct

import numpy as np
import pytest
from captured import store
from conftest import until
from safetensors.numpy import save

TEXT = "The red car is parked in front of the house."
LAYERS = {"query": {"shape": [3, 1, 4, 24, 8], "random": "normal", "seed": 7}, "axes": ["layer", "batch", "head"],
          "is_causal": True, "store": True, "return": []}
WORDS = {"alignment": "goes through the keys in order", "heterogeneous": "follows no known pattern", "previous token": "looks at the token before",
         "current token": "looks at its own token", "next token": "looks at the token after", "uniform": "looks at all keys alike"}
PIXELS = """(canvas) => [canvas.width, canvas.height, [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]]"""


def stored(daemon, body, path="/v1/attention"):
    return daemon.post(path, {"store": True, "return": [], **body}).json()["run"]["id"]


def atlas(daemon, run):
    reply = daemon.get(f"/v1/runs/{run}/atlas?max_side=64&pool=max&transform=sqrt", headers={"Accept": "application/vnd.safetensors"})
    length = struct.unpack("<Q", reply.content[:8])[0]
    header = json.loads(reply.content[8:8 + length])
    start, end = header["cells"]["data_offsets"]
    cells = np.frombuffer(reply.content[8 + length + start:8 + length + end], np.uint8).reshape(header["cells"]["shape"])
    return json.loads(header["__metadata__"]["response"])["thumbnails"], cells


def number(text):
    return float(text.replace("−", "-"))


@pytest.fixture(scope="module")
def run(daemon):
    return stored(daemon, {"text": TEXT}, "/v1/models/en-fr-text/generate")


@pytest.fixture(scope="module")
def layers(daemon):
    return stored(daemon, LAYERS)


@pytest.fixture
def page(daemon, run, open_page):
    page = open_page(f"{daemon.url}/#1/heads?r={run}&s=1&h=1")
    page.wait_for_selector(".heads-chips")
    return page


def card(key):
    return f".heads-card[data-key='{key}']"


def hash_has(page, *parts):
    page.wait_for_function("parts => parts.every((p) => location.hash.includes(p))", arg=list(parts))


def test_every_head_is_a_picture_of_its_codes(daemon, run, page):
    thumbnails, planes = atlas(daemon, run)
    assert page.locator(".heads-card").count() == len(thumbnails) == 8
    assert page.eval_on_selector_all(".heads-atlas h2", "list => list.map((x) => x.textContent)") == ["encoder 0", "cross 0"]
    asked = [url for url in page.evaluate("performance.getEntriesByType('resource').map((e) => e.name)") if "/atlas" in url or "/tiles" in url]
    assert len(asked) == 1
    for t, plane in zip(thumbnails, planes):
        rows, cols = t["shape"]
        canvas = page.locator(card(f"{t['site']}.0.{t['head']}") + " canvas")
        page.wait_for_function("c => c.width > 1", arg=canvas.element_handle())
        width, height, pixels = canvas.evaluate(PIXELS)
        assert (height, width) == (rows, cols)
        pixels = np.array(pixels).reshape(rows, cols, 4)
        codes = plane[:rows, :cols]
        assert ((pixels[..., 3] > 0) == (codes > 0)).all()
        light = pixels[..., :3].sum(axis=-1)[codes > 0]
        order = np.argsort(codes[codes > 0], kind="stable")
        assert (np.diff(light[order].astype(int)) <= 0).all()  # Blues: a larger weight is darker


def test_hidden_cells_are_left_to_the_hatch(daemon, layers, open_page):
    page = open_page(f"{daemon.url}/#1/heads?r={layers}&h=0")
    canvas = page.locator(".heads-card canvas").first
    page.wait_for_function("c => c.width > 1", arg=canvas.element_handle())
    _, _, pixels = canvas.evaluate(PIXELS)
    alpha = np.array(pixels).reshape(24, 24, 4)[..., 3]
    assert (alpha == 255 * np.tri(24)).all()
    assert "gradient" in canvas.evaluate("c => getComputedStyle(c).backgroundImage")
    assert page.eval_on_selector_all(".heads-layer", "list => list.map((x) => x.textContent)") == ["layer 0", "layer 1", "layer 2"]
    page.click(card("0.2.3"))
    hash_has(page, "b=2", "h=3")
    assert "layer 2" in page.inner_text(".heads-side h2")


def test_patterns_and_measures_are_those_of_the_api(daemon, run, page):
    answer = daemon.get(f"/v1/runs/{run}/heads").json()
    page.select_option("label:has-text('Sort by') select", "-entropy")
    page.wait_for_selector(".heads-measure")
    shown = page.eval_on_selector_all(".heads-card", "list => list.map((x) => [x.dataset.key, x.querySelector('.heads-measure').dataset.value, x.querySelector('.heads-pattern').textContent])")
    want = sorted(answer["heads"], key=lambda h: -h["measures"]["entropy"])
    assert [key for key, _, _ in shown] == [f"{h['site']}.0.{h['head']}" for h in want]
    for (_, value, pattern), h in zip(shown, want):
        assert float(value) == pytest.approx(h["measures"]["entropy"])
        assert pattern.startswith(WORDS[h["pattern"]["name"]])
    assert answer["legend"]["entropy"]["formula"] in page.inner_text(".heads-legend")
    page.click(".heads-all summary")
    table = page.eval_on_selector_all(".heads-numbers tr", "rows => rows.map((r) => [r.cells[0].innerText, r.cells[1].dataset.value])")
    mine = next(h for h in answer["heads"] if (h["site"], h["head"]) == (1, 1))
    for name, value in table:
        assert float(value) == pytest.approx(mine["measures"][name.replace(" ", "_")])
    assert mine["pattern"]["text"][1:] in page.inner_text(".heads-side")


def test_a_filter_leaves_the_heads_that_are_like_it(daemon, run, page):
    heads = daemon.get(f"/v1/runs/{run}/heads").json()["heads"]
    page.select_option("label:has-text('Measure') select", "confidence")
    page.fill("label:has-text('from') input", "0.7")
    want = {f"{h['site']}.0.{h['head']}" for h in heads if h["measures"]["confidence"] >= 0.7}
    keys = "list => list.map((x) => x.dataset.key)"
    assert set(page.eval_on_selector_all(".heads-card", keys)) == want
    assert f"{len(want)} of 8 heads" in page.inner_text(".heads-count")
    page.fill("label:has-text('to') input", "0.77")
    want = {f"{h['site']}.0.{h['head']}" for h in heads if 0.7 <= h["measures"]["confidence"] <= 0.77}
    assert set(page.eval_on_selector_all(".heads-card", keys)) == want
    page.click("text=Show all")
    assert page.locator(".heads-card").count() == 8 and page.input_value("label:has-text('Find') input") == ""
    page.fill("label:has-text('Find') input", "alignment")
    want = {f"{h['site']}.0.{h['head']}" for h in heads if h["pattern"]["name"] == "alignment"}
    assert set(page.eval_on_selector_all(".heads-card", keys)) == want
    page.fill("label:has-text('Find') input", "no such head")
    page.wait_for_selector("text=No head is like this")


def before(n=12, width=16):
    """Queries and keys of three heads: one looks at the token before, one at its own, one at the token after."""
    rows = [[9.0 if i == j else 0.0 for j in range(width)] for i in range(n)]
    return {"query": [[rows, rows, rows]], "key": [[rows[1:] + [[0.0] * width], rows, [[0.0] * width] + rows[:-1]]]}


def test_patterns_are_named_in_plain_words_and_filter(daemon, open_page):
    run = stored(daemon, before())
    names = [h["pattern"]["name"] for h in daemon.get(f"/v1/runs/{run}/heads").json()["heads"]]
    assert names == ["previous token", "current token", "next token"]
    page = open_page(f"{daemon.url}/#1/heads?r={run}&h=0")
    page.wait_for_selector(".heads-chips")
    assert page.locator(".heads-chips button").all_inner_texts() == ["all heads 3", *(f"{WORDS[name]} 1" for name in sorted(names, key=WORDS.get))]
    assert [x.replace("\u00a0", " ").startswith(WORDS[name]) for x, name in zip(page.locator(".heads-pattern").all_inner_texts(), names)] == [True] * 3
    page.get_by_role("button", name="looks at the token before").click()
    assert page.eval_on_selector_all(".heads-card", "list => list.map((x) => x.dataset.key)") == ["0.0.0"]
    assert page.get_attribute(".heads-chips [aria-pressed=true]", "data-pattern") == "previous token"
    assert page.inner_text(".heads-count [role=status]") == "1 of 3 heads"
    page.get_by_role("button", name="Show all").click()
    assert page.locator(".heads-card").count() == 3
    for words in ("previous", "token before"):  # the service's word, and that of the page
        page.fill("label:has-text('Find') input", words)
        assert page.eval_on_selector_all(".heads-card", "list => list.map((x) => x.dataset.key)") == ["0.0.0"]
    assert "(previous token)" in page.inner_text(".heads-side")


def test_nothing_moves_when_the_measures_arrive(daemon, run, open_page):
    page = open_page(f"{daemon.url}/#1/heads?r={run}&s=1&h=1", script="""
        const real = fetch; window.fetch = async (...all) => { const reply = await real(...all);
          if (String(all[0]).endsWith('/heads')) await new Promise((go) => { window.go = go; }); return reply; };""")
    page.wait_for_selector(".heads-card")
    page.wait_for_function("() => window.go")
    places = "list => list.map((x) => { const { x: left, y, width, height } = x.getBoundingClientRect(); return [left, y, width, height]; })"
    what = ".heads-options, .heads-options select, .heads-options input, .heads-card"
    early = page.eval_on_selector_all(what, places)
    page.evaluate("window.go()")
    page.wait_for_selector(".heads-chips")
    assert page.eval_on_selector_all(what, places) == early


def test_labels_stay_on_their_lines_when_sorted(page):
    page.select_option("label:has-text('Sort by') select", "-entropy")
    page.wait_for_selector(".heads-place")
    for name in (".heads-place", ".heads-name", ".heads-measure"):
        heights = page.eval_on_selector_all(name, "list => list.map((x) => [x.offsetHeight, x.scrollWidth - x.clientWidth])")
        assert len(heights) == 8 and all(height < 26 and over <= 0 for height, over in heights)
    assert page.locator(".heads-place").first.inner_text() == "encoder 0"


def test_the_keyboard_alone(page):
    assert page.locator(".heads-card[tabindex='0']").count() == 1
    page.focus(".heads-card[tabindex='0']")
    page.keyboard.press("ArrowRight")
    hash_has(page, "s=1", "h=2")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.dataset.key") == "0.0.2"
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert page.evaluate("document.activeElement.dataset.key") == "1.0.0"
    assert page.locator(".heads-card[aria-checked=true]").count() == 2
    assert page.locator(".heads-card[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    hash_has(page, "#1/matrix", "s=1", "h=0")


def test_clicks_select_and_open(page):
    page.click(card("0.0.3"))
    hash_has(page, "h=3")
    assert "s=1" not in page.evaluate("location.hash")
    assert page.locator(".heads-card[aria-selected=true]").get_attribute("data-key") == "0.0.3"
    page.click("button[aria-label=undo]")
    assert page.locator(".heads-card[aria-selected=true]").get_attribute("data-key") == "1.0.1"
    page.dblclick(card("1.0.2"))
    hash_has(page, "#1/matrix", "h=2")


def test_the_mean_of_some_heads(daemon, run, page):
    for head in (0, 2, 3):
        page.hover(card(f"1.0.{head}"))
        page.click(f"{card(f'1.0.{head}')} .heads-check")
    page.wait_for_selector("text=Mean of the thumbnails of 3 heads")
    canvas = page.locator(".heads-mean canvas")
    page.wait_for_function("c => c.width > 1", arg=canvas.element_handle())
    _, _, pixels = canvas.evaluate(PIXELS)
    weights = np.mean([daemon.get(f"/v1/runs/{run}/rows?site=1&head={h}").json()["weights"] for h in (0, 2, 3)], axis=0)
    light = np.array(pixels).reshape(*weights.shape, 4)[..., :3].sum(axis=-1)
    assert np.unravel_index(light.argmin(), light.shape) == np.unravel_index(weights.argmax(), weights.shape)
    lowest, highest = (number(x) for x in page.inner_text(".heads-mean .hint").split()[1:4:2])
    assert highest == pytest.approx(weights.max(), abs=0.01) and lowest == pytest.approx(weights.min(), abs=0.01)
    page.click(f"{card('0.0.0')} .heads-check", force=True)
    page.wait_for_selector("text=Mean of the thumbnails of 4 heads")
    page.click("text=Choose none")
    assert page.locator(".heads-mean").count() == 0


def test_diagnoses_lead_to_a_cell(daemon, run, page):
    found = daemon.get(f"/v1/runs/{run}/analyses?site=1&analysis=diagnoses").json()["diagnoses"]
    mine = [d for d in found if any(h["head"] == 1 for h in d["heads"])]
    page.wait_for_selector(".heads-diagnoses li p")
    assert page.eval_on_selector_all(".heads-diagnoses > ul p", "list => list.map((x) => x.textContent)") == [d["text"] for d in mine]
    page.click(".heads-diagnoses [aria-label='Show the largest weight of'] button:has-text('head 1')")
    weights = np.array(daemon.get(f"/v1/runs/{run}/rows?site=1&head=1").json()["weights"])
    q, k = np.unravel_index(weights.argmax(), weights.shape)
    page.wait_for_selector(".cell .value output")
    assert float(page.inner_text(".cell .value code")) == pytest.approx(weights[q, k])


def test_a_sink_is_shown(daemon, open_page):
    query = [[4.0, 0.0]] * 12
    key = [[5.0, 0.0]] + [[0.1 * i, 1.0] for i in range(11)]
    run = stored(daemon, {"query": query, "key": key, "value": key})
    page = open_page(f"{daemon.url}/#1/heads?r={run}&h=0")
    page.click(".heads-diagnoses [aria-label='Show the sink of'] button")
    page.wait_for_selector(".cell .value output")
    assert page.locator(".cell h3").nth(1).inner_text().split()[:2] == ["key", "0"]


def test_rollout(daemon, run, page):
    page.click(card("0.0.0"))
    page.fill(".heads-rollout input", "4")
    page.click(".heads-rollout button:has-text('Compute')")
    page.wait_for_selector(".heads-bars td[data-value]")
    [want] = daemon.get(f"/v1/runs/{run}/rollout?rows=4&kind=encoder").json()["rollout"]
    shown = page.eval_on_selector_all(".heads-bars tbody tr", "rows => rows.map((r) => [r.cells[0].innerText, r.cells[1].dataset.value])")
    assert [float(v) for _, v in shown] == pytest.approx(sorted(want, reverse=True))
    tokens = daemon.get(f"/v1/runs/{run}").json()["texts"][0]["tokens"]
    best = int(np.argmax(want))
    assert shown[0][0].split() == [tokens[best], str(best)]


def test_long_looks_tell_their_progress_and_can_be_cancelled(start, open_page):
    daemon = start("--async-ms", "0", "--ops-listen", "", "--log", "off")
    run = stored(daemon, {"query": {"shape": [1, 8, 8192, 64], "random": "normal", "seed": 3}, "is_causal": True})
    page = open_page(f"{daemon.url}/#1/heads?r={run}&h=0")
    page.wait_for_selector(".heads-card")  # the first view does not wait for the measures
    page.wait_for_selector(".heads-options progress")
    assert page.locator(".heads-chips").count() == 0 and set(page.locator(".heads-pattern").all_inner_texts()) == {""}
    page.click(".heads-options button:has-text('Cancel')")
    page.wait_for_selector("text=It was cancelled")
    page.click(".heads-options button:has-text('Try again')")
    page.wait_for_selector(".heads-options progress")


def test_nothing_is_asked_about_a_look_that_was_left(start, open_page):
    daemon = start("--async-ms", "0", "--ops-listen", "", "--log", "off")
    run = stored(daemon, {"query": {"shape": [1, 8, 8192, 64], "random": "normal", "seed": 4}, "is_causal": True})
    page = open_page(f"{daemon.url}/#1/heads?r={run}&h=0")
    page.wait_for_selector(".heads-options progress")
    page.click("nav button:has-text('Stages')")
    page.wait_for_selector(".stages-row")
    asked = []
    page.on("request", lambda r: asked.append(r.url) if "/jobs/" in r.url else None)
    page.wait_for_timeout(2500)
    assert asked == []


def test_a_phone_shows_it_without_scrolling_sideways(daemon, run, open_page):
    page = open_page(f"{daemon.url}/#1/heads?r={run}&s=1&h=1", size=(390, 844))
    page.wait_for_selector(".heads-chips")
    assert page.evaluate("document.querySelector('main').scrollWidth <= innerWidth")
    assert page.evaluate("[...document.querySelectorAll('.heads-card')].every((c) => c.getBoundingClientRect().right <= innerWidth)")


@pytest.mark.parametrize("which", ["run", "layers"])
def test_on_a_phone_nothing_lies_on_the_pictures(daemon, open_page, request, which):
    page = open_page(f"{daemon.url}/#1/heads?r={request.getfixturevalue(which)}&h=1", size=(390, 844), has_touch=True, is_mobile=True)
    page.wait_for_selector(".heads-chips")
    for one in page.locator(".heads-card").all():
        picture, plus = one.locator("canvas").bounding_box(), one.locator(".heads-check").bounding_box()
        assert plus["y"] >= picture["y"] + picture["height"] and plus["height"] >= 24 and plus["width"] >= 24
    assert page.eval_on_selector(".heads-check", "x => getComputedStyle(x).opacity") == "1"
    page.locator(".heads-check").first.tap()
    page.wait_for_selector("text=Thumbnail of 1 head")


MANY = {"query": {"shape": [14, 1, 6, 24, 8], "random": "normal", "seed": 7}, "axes": ["layer", "batch", "head"], "is_causal": True}


@pytest.fixture(scope="module")
def many(daemon):
    """84 heads."""
    return stored(daemon, MANY)


PLACES = "list => Object.fromEntries(list.map((x) => { const { x: left, y: top, right, bottom } = x.getBoundingClientRect(); return [x.dataset.key, [left, top, right, bottom]]; }))"


@pytest.mark.parametrize("size, columns", [((1440, 900), "layers"), ((390, 844), "heads")])
def test_many_heads_are_layers_by_heads(daemon, many, open_page, size, columns):
    page = open_page(f"{daemon.url}/#1/heads?r={many}&h=0", size=size)
    page.wait_for_selector(".heads-chips")
    places = page.eval_on_selector_all(".heads-tile", PLACES)
    assert len(places) == 14 * 6
    across = {f"0.{layer}.{head}": layer if columns == "layers" else head for layer in range(14) for head in range(6)}
    down = {key: int(key.split(".")[2 if columns == "layers" else 1]) for key in across}
    for ranks, side in ((across, 0), (down, 1)):
        by_rank = {}
        for key, rank in ranks.items():
            by_rank.setdefault(rank, set()).add(round(places[key][side], 1))
        assert all(len(where) == 1 for where in by_rank.values()), "a line is not straight"
        order = [min(by_rank[rank]) for rank in sorted(by_rank)]
        assert order == sorted(order) and len(set(order)) == len(order)
    for line, side in ((".heads-numbers-of span", 1 if columns == "layers" else 0), (".heads-dense-line > span", 0 if columns == "layers" else 1)):
        middles = page.eval_on_selector_all(line, "list => list.map((x) => { const b = x.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })")
        for number, middle in enumerate(middles):  # stands at its line
            key = next(key for key, rank in (across if side == 0 else down).items() if rank == number)
            assert places[key][side] <= middle[side] <= places[key][side + 2]
    assert max(right for _, _, right, _ in places.values()) <= size[0]
    if columns == "layers":  # all are seen at once
        assert max(bottom for _, _, _, bottom in places.values()) < size[1]


def test_the_keyboard_among_many_heads(daemon, many, open_page):
    page = open_page(f"{daemon.url}/#1/heads?r={many}&h=0")
    page.wait_for_selector(".heads-chips")
    page.focus(".heads-tile[tabindex='0']")
    for key, at in (("ArrowRight", "0.1.0"), ("ArrowDown", "0.1.1"), ("ArrowLeft", "0.0.1"), ("ArrowUp", "0.0.0"), ("End", "0.13.5")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.key") == at
    page.keyboard.press("Space")
    page.wait_for_selector("text=Thumbnail of 1 head")
    page.keyboard.press("Enter")
    hash_has(page, "#1/matrix", "b=13", "h=5")


def test_many_heads_are_sorted_by_what_they_do(daemon, many, open_page):
    page = open_page(f"{daemon.url}/#1/heads?r={many}&h=0")
    page.wait_for_selector(".heads-chips")
    page.select_option("label:has-text('Sort by') select", "pattern")
    want = {}
    for h in daemon.get(f"/v1/runs/{many}/heads").json()["heads"]:
        want.setdefault(h["pattern"]["name"], set()).add(f"0.{h['layer']}.{h['head']}")
    page.wait_for_selector(".heads-dense.flat")
    shown = page.eval_on_selector_all(".heads-atlas section", "list => list.map((s) => [s.querySelector('h2').textContent, [...s.querySelectorAll('.heads-tile')].map((t) => t.dataset.key)])")
    assert sorted(sorted(keys) for _, keys in shown) == sorted(sorted(keys) for keys in want.values())
    for title, keys in shown:
        assert title.endswith(f": {len(keys)} {'head' if len(keys) == 1 else 'heads'}")
    colours = page.eval_on_selector_all(".heads-tile", "list => list.map((t) => [t.dataset.does, getComputedStyle(t, '::after').backgroundColor])")
    assert all((colour == "rgba(0, 0, 0, 0)") == (does == "-1") for does, colour in colours)


def labels(answer):
    """What each head does by its scores, from the answer of /v1/models/{id}/heads: the pairs of words that it connects in most sentences, unless half
    of its weight follows one pattern on probes; else that pattern from 0.3 on; else the first token from a half on."""
    names = {"induction": "induction", "previous_token": "previous token", "duplicate_token": "duplicate token", "current_token": "current token",
             "next_token": "next token", "separator": "separator"}
    found = {}
    for h in answer["heads"]:
        scores = {name: h["probes"].get(score, {}).get("mean", 0) for score, name in names.items()}
        best = max(scores, key=scores.get)
        first = h["probes"].get("first_token", {}).get("mean", 0)
        key = h["site"], h["layer"], h["head"]
        pairs = [c for c in answer.get("connects", []) if (c["site"], c["layer"], c["head"]) == key and c["hits"] / c["of"] >= 0.6]
        if pairs and scores[best] < 0.5:
            found[key] = max(pairs, key=lambda c: c["hits"] / c["of"])["does"]
        else:
            found[key] = best if scores[best] >= 0.3 else "first token" if first >= 0.5 else "heterogeneous"
    return found


def test_scores_say_what_heads_do_whatever_the_text(daemon, open_page):
    page = open_page()
    page.wait_for_selector(".words-query li")
    page.click("nav.tabs >> text=Heads")
    page.wait_for_selector(".heads-chips")
    page.select_option("label:has-text('What they do') select", "true")
    want = labels(daemon.post("/v1/models/en-fr-text/heads", {}).json())
    names = sorted(set(want.values()))
    until(page, f"JSON.stringify([...document.querySelectorAll('.heads-chips [data-pattern]')].map((b) => b.dataset.pattern).filter(Boolean).sort()) === {json.dumps(json.dumps(names, separators=(',', ':')))}")
    for name in names:
        page.click(f".heads-chips [data-pattern='{name}']")
        keys = page.eval_on_selector_all(".heads-card", "list => list.map((x) => x.dataset.key)")
        assert sorted(keys) == sorted(f"{['encoder', 'cross'].index(site)}.0.{head}" for (site, _, head), does in want.items() if does == name)
    page.select_option("label:has-text('What they do') select", "false")  # those of this text again
    page.wait_for_selector(".heads-chips [data-pattern='alignment']")


def test_pictures_come_before_patterns_and_these_before_diagnoses(daemon, layers, open_page):
    """Long looks wait for one another, and the view is its pictures."""
    page, asked = open_page(f"{daemon.url}/#1/gallery"), []
    page.on("request", lambda r: asked.extend(what for what in ("/atlas", "/heads", "/analyses") if what in r.url and "/v1/runs/" in r.url))
    page.goto(f"{daemon.url}/#1/heads?r={layers}&h=3")
    page.wait_for_selector(".heads-diagnoses li, .heads-diagnoses .hint")
    assert asked == ["/atlas", "/heads", "/analyses"]


def capture(layers, heads, n=32):
    """A capture of layers of the kind `self`, as decoders alone are written. Of the heads of a layer the first looks at the token before,
    the second at its own, the others at random; the last head of the last layer is sharpest."""
    rng = np.random.default_rng(5)
    own = np.eye(n, dtype=np.float32)
    tensors, sites = {}, []
    for layer in range(layers):
        q, k = rng.standard_normal((2, 1, heads, n, n), dtype=np.float32)
        q[0, 0], k[0, 0] = 40 * np.eye(n, k=-1, dtype=np.float32), own
        q[0, 1], k[0, 1] = 40 * own, own
        if layer == layers - 1:
            q[0, -1], k[0, -1] = 900 * own[rng.permutation(n)], own
        tensors |= {f"sites.{layer}.query": q, f"sites.{layer}.key": k}
        sites.append({"name": f"layers.{layer}.attention", "is_causal": False})
    return save(tensors, metadata={"run": json.dumps({"version": 2, "sites": sites})})


SEEN = """list => list.every((x) => { const { left, top, right, bottom } = x.getBoundingClientRect();
  const around = document.querySelector('.heads-list').getBoundingClientRect();
  return left >= around.left && top >= around.top && right <= around.right && bottom <= around.bottom; })"""


@pytest.mark.parametrize("layers, heads, size, least", [(12, 12, (1440, 900), 36), (30, 9, (1440, 900), 30), (12, 12, (1920, 1080), 48)])
def test_the_model_is_seen_at_a_glance(daemon, open_page, layers, heads, size, least):
    """Layers of the kind `self` are one grid, all of which is in sight, and whose tiles take what room there is."""
    run = store(daemon, capture(layers, heads))["id"]
    page = open_page(f"{daemon.url}/#1/heads?r={run}&h=0", size=size)
    page.wait_for_selector(".heads-chips")
    assert page.locator(".heads-atlas h2").all_inner_texts() == [f"self-attention {layers} layers of {heads} heads, one {'column' if layers > heads else 'row'} each"]
    assert page.locator(".heads-tile").count() == layers * heads and page.eval_on_selector_all(".heads-tile", SEEN)
    width, height = page.eval_on_selector(".heads-tile canvas", "c => [c.clientWidth, c.clientHeight]")
    assert width == height >= least
    grid, room = (page.locator(what).bounding_box() for what in (".heads-dense", ".heads-list"))
    lines, rows = (layers, heads) if layers > heads else (heads, layers)
    assert room["width"] - grid["width"] < lines + 60 or room["height"] - grid["height"] < rows + 130  # no tile could be a pixel larger
    assert page.locator(".heads-tile").first.inner_text() == ""


def test_a_pattern_of_many_heads_filters_in_their_places(daemon, open_page):
    run = store(daemon, capture(12, 12))["id"]
    page = open_page(f"{daemon.url}/#1/heads?r={run}&h=0")
    page.wait_for_selector(".heads-chips")
    places = page.eval_on_selector_all(".heads-tile", PLACES)
    count = int(page.inner_text(".heads-chips [data-pattern='previous token'] small"))
    assert count == 12
    page.click(".heads-chips [data-pattern='previous token']")
    assert page.eval_on_selector_all(".heads-tile", PLACES) == places
    left = page.eval_on_selector_all(".heads-tile:not(.other)", "list => list.map((x) => [x.dataset.key, x.dataset.does])")
    assert [key for key, _ in left] == [f"{layer}.0.0" for layer in range(12)] and {does for _, does in left} == {"0"}
    assert page.inner_text(".heads-count [role=status]") == "12 of 144 heads"
    page.focus(".heads-tile[tabindex='0']")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.key") == "1.0.0"


def test_the_same_range_for_all_heads(daemon, open_page):
    """A flat head is as dark as a sharp one by its own range, and pale by that of all."""
    flat, sharp = [[0.0] * 8] * 8, [[9.0 if i == j else 0.0 for j in range(8)] for i in range(8)]
    run = stored(daemon, {"query": [[flat, sharp]], "key": [[sharp, sharp]]})
    page = open_page(f"{daemon.url}/#1/heads?r={run}&h=0")
    darkest = """list => list.map((c) => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      let least = 765; for (let i = 0; i < d.length; i += 4) if (d[i + 3]) least = Math.min(least, d[i] + d[i + 1] + d[i + 2]); return least; })"""
    page.wait_for_selector(".heads-chips")
    own = page.eval_on_selector_all(".heads-card canvas", darkest)
    assert own[0] == own[1]
    page.get_by_label("same range for all").check()
    of_all = page.eval_on_selector_all(".heads-card canvas", darkest)
    assert of_all[1] == own[1] and of_all[0] > own[0] + 100
    assert "all heads go from 0 to" in page.inner_text(".heads-note")


def test_tiles_keep_the_places_of_pictures(daemon, layers, open_page):
    page = open_page(f"{daemon.url}/#1/heads?r={layers}&h=3", script="""
        const real = fetch; window.fetch = async (...all) => { const reply = await real(...all);
          if (String(all[0]).includes('/atlas')) await new Promise((go) => { window.go = go; }); return reply; };""")
    page.wait_for_selector(".heads-picture.waiting")
    page.wait_for_function("() => window.go")
    assert page.inner_text(".heads-side h2") == "attention layer 0, head 3"  # as the bar says
    early = page.eval_on_selector_all(".heads-card canvas, .heads-large canvas", "list => list.map((x) => JSON.stringify(x.getBoundingClientRect()))")
    page.evaluate("window.go()")
    page.wait_for_selector(".heads-chips")
    assert page.locator(".heads-picture.waiting").count() == 0
    late = page.eval_on_selector_all(".heads-card canvas, .heads-large canvas", "list => list.map((x) => JSON.stringify(x.getBoundingClientRect()))")
    assert len(early) == 13 and late == early


def test_the_pane_leads_to_the_other_views(page):
    for view in ("Matrix", "Words", "Stages"):
        page.click(f".heads-side .line >> text={view}")
        until(page, f"document.querySelector('nav.tabs [aria-current]').textContent === '{view}'")
        page.click("nav.tabs >> text=Heads")
        page.wait_for_selector(".heads-gauge")
    assert "tokens away" in page.inner_text(".heads-gauges") and page.locator(".heads-large canvas").bounding_box()["width"] > 150


def test_high_contrast_has_the_colours_of_the_matrix(page):
    colour = """c => [...c.getContext('2d').getImageData(0, 0, 1, 1).data].slice(0, 3)"""
    first = page.locator(".heads-card canvas").first
    before = first.evaluate(colour)
    page.keyboard.press("?")
    page.select_option("dialog select", "contrast")
    page.keyboard.press("Escape")
    until(page, f"JSON.stringify(({colour})(document.querySelector('.heads-card canvas'))) !== {json.dumps(json.dumps(before, separators=(',', ':')))}")
    red, _, blue = first.evaluate(colour)
    assert abs(red - blue) < 60 or red > blue  # cividis goes from blue over grey to yellow
