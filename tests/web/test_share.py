"""Sharing: the link, the request as programs, and what is seen as files."""
import io
import json
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import run_of, until
from safetensors.numpy import save as safetensors

BODY = {"query": {"shape": [1, 2, 40, 8], "random": "normal", "seed": 3}, "is_causal": True, "labels": [f"w{i}" for i in range(40)],
        "store": True, "return": []}


@pytest.fixture(scope="module")
def run(daemon):
    return daemon.post("/v1/attention", BODY).json()["run"]["id"]


def share(page):
    page.wait_for_selector(".matrix-map[data-busy=false], .words-columns li, .words-line")
    page.get_by_role("button", name="Share").click()
    page.wait_for_selector("dialog .export")


def saved(page, name):
    with page.expect_download() as box:
        page.locator("dialog .export button", has_text=name).first.click()
    with open(box.value.path(), "rb") as file:
        return file.read()


def test_numbers_equal_the_api(daemon, run, open_page):
    page = open_page(f"#1/matrix?r={run}&h=1")
    share(page)
    weights = np.array(daemon.get(f"/v1/runs/{run}/weights?head=1").json()["weights"])
    assert np.array_equal(np.load(io.BytesIO(saved(page, ".npy"))).squeeze(), weights.astype(np.float32))
    assert saved(page, "CSV") == daemon.get(f"/v1/runs/{run}/heatmaps?heads=1&max_cells=65536", headers={"Accept": "text/csv"}).content
    assert saved(page, "PNG").startswith(b"\x89PNG")
    svg = saved(page, "SVG").decode()
    assert svg.startswith("<svg") and ">w39<" in svg


def test_only_what_is_seen(daemon, run, open_page):
    page = open_page(f"#1/matrix?r={run}&h=1&v=10,20,4")
    share(page)
    title = page.inner_text(".export h3")
    rows, cols = [[int(x) for x in part.split(" to ")] for part in title.split("queries ")[1].split(", keys ")]
    assert rows[0] == 10 and cols[0] == 20 and rows[1] < 39
    got = np.load(io.BytesIO(saved(page, ".npy"))).squeeze()
    want = daemon.get(f"/v1/runs/{run}/weights?head=1&rows={rows[0]}:{rows[1] + 1}&cols={cols[0]}:{cols[1] + 1}").json()["weights"]
    assert np.array_equal(got, np.array(want, dtype=np.float32))


def test_the_html_file_stands_alone(daemon, run, open_page, tmp_path):
    page = open_page(f"#1/matrix?r={run}&h=1")
    share(page)
    file = tmp_path / "attention.html"
    file.write_bytes(saved(page, "one HTML file"))
    assert daemon.url.encode() not in file.read_bytes()
    alone = page.context.new_page()
    faults = []
    alone.on("pageerror", lambda e: faults.append(str(e)))
    alone.goto(file.as_uri())
    alone.wait_for_selector("attn-heatmap .matrix-cells")
    ends = [x.inner_text() for x in alone.locator("attn-heatmap [part=legend] span").all()]
    most = max(max(w or 0 for w in row) for row in daemon.get(f"/v1/runs/{run}/weights?head=1").json()["weights"])
    assert ends[0] == "0" and ends[1].endswith(", square root scale") and float(ends[1].split(",")[0]) == pytest.approx(most, rel=0.06)
    alone.evaluate("document.addEventListener('attn-select', (e) => { window.said = e.detail; })")
    alone.focus("attn-heatmap [role=grid]")
    for key in ["ArrowDown"] * 6 + ["ArrowRight"] * 3:
        alone.keyboard.press(key)
    until(alone, "window.said?.row === 5 && window.said?.col === 3 && window.said.weight !== null")
    cell = daemon.get(f"/v1/runs/{run}/cells?head=1&row=5&col=3").json()
    assert alone.evaluate("window.said.weight") == pytest.approx(cell["weight"], rel=1e-6)
    alone.keyboard.press("End")
    until(alone, "window.said?.col === 39")
    assert alone.evaluate("window.said.weight") is None, "the mask hides it"
    assert not faults


def test_tokens_survive_the_html_file(daemon, open_page):
    """Separators of lines and angle brackets in tokens are escaped, and come back as they were."""
    tokens = ["a\u2028b", "c\u2029d", "</script>", "\U0001f994"]
    body = {"query": {"shape": [4, 8], "random": "normal", "seed": 3}, "labels": tokens, "store": True, "return": []}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    page = open_page(f"#1/matrix?r={run}")
    share(page)
    text = saved(page, "one HTML file").decode()
    data = text.split('id="data">')[1].split("</script>")[0]
    assert "\u2028" not in data and "\\u2028" in data and "\\u2029" in data
    assert json.loads(data)["keys"] == tokens


def test_words_give_their_own_picture(daemon, open_page):
    page = open_page()
    page.wait_for_selector(".words-columns li")
    page.fill("#sentence", "I saw a \U0001f994 & the \u05e9\u05dc\u05d5\u05dd.")
    page.wait_for_selector(".words-key li:has-text('\U0001f994')")
    page.focus(".words-query")
    page.keyboard.press("p")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('pin=')")
    share(page)
    svg = ElementTree.fromstring(saved(page, "SVG"))
    space = {"s": "http://www.w3.org/2000/svg"}
    texts = [x.text for x in svg.findall(".//s:text", space)]
    assert svg.find("s:title", space).text == "I saw a \U0001f994 & the \u05e9\u05dc\u05d5\u05dd."
    assert texts[0] == "I saw a \U0001f994 & the \u05e9\u05dc\u05d5\u05dd."
    assert texts[1:5] == ["cross 0, mean of 4 heads", "query (target)", "attends to", "key (source)"]
    for side in ("query", "key"):
        assert set(page.eval_on_selector_all(f".words-{side} li bdi", "list => list.map((x) => x.textContent)")) <= set(texts)
    assert "A" in texts and not any(x.startswith("<0x") for x in texts)
    drawn = page.eval_on_selector_all(".words-columns path", "list => list.length")
    assert len(svg.findall(".//s:path", space)) == drawn
    png = saved(page, "PNG")
    assert png.startswith(b"\x89PNG")
    size = [int.from_bytes(png[16 + 4 * i:20 + 4 * i], "big") for i in range(2)]
    assert size == [2 * int(svg.get("width")), 2 * int(svg.get("height"))]
    run = run_of(page)
    weights = daemon.get(f"/v1/runs/{run}/weights?site=1&heads=mean").json()["weights"]
    assert np.array_equal(np.load(io.BytesIO(saved(page, ".npy"))).squeeze(), np.array(weights, dtype=np.float32)), "numbers stay those of the tokens"


def test_long_texts_give_their_own_picture(daemon, open_page):
    tokens = [f"w{i}" for i in range(400)] + ["שלום", "a & b"]
    body = {"query": {"shape": [1, 2, len(tokens), 16], "random": "normal", "seed": 3}, "labels": tokens, "store": True, "return": []}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    page = open_page(f"#1/words?r={run}&h=1&q=3&pin=3")
    page.wait_for_selector(".words-strip .words-all")
    share(page)
    svg = ElementTree.fromstring(saved(page, "SVG"))
    space = {"s": "http://www.w3.org/2000/svg"}
    shapes = svg.findall("./*")
    texts = [x.text for x in svg.findall(".//s:text", space)]
    assert texts[:2] == ["attention, head 1", "what “w3” (query 3) looks at"] and svg.find("s:title", space).text == ": ".join(texts[:2])
    assert texts.count("w3") == 2 and "A" in texts and "w399" not in texts, "what is in sight"
    seen = page.eval_on_selector_all(".words-text", """list => list.map((box) => [...box.querySelectorAll('.words-line > span')].filter((word) => {
        const [a, b] = [box.getBoundingClientRect(), word.getBoundingClientRect()];
        return b.top >= a.top && b.bottom <= a.bottom; }).map((word) => [word.querySelector('bdi').textContent, getComputedStyle(word).backgroundColor]))""")
    assert [x for x in texts if x[0] == "w"] == ["what “w3” (query 3) looks at", *(name for strip in seen for name, _ in strip)]
    boxes = [x.get("fill") for x in shapes if x.tag.endswith("rect")]
    assert all(boxes.count(fill) for _, fill in seen[1]) and len({fill for _, fill in seen[1]}) > 20, "the colours of the weights"
    png = saved(page, "PNG")
    assert [int.from_bytes(png[16 + 4 * i:20 + 4 * i], "big") for i in range(2)] == [2 * int(svg.get("width")), 2 * int(svg.get("height"))]


@pytest.mark.parametrize("way", ["Escape", "close"])
def test_the_focus_returns_to_what_opened_a_dialog(open_page, way):
    page = open_page()
    page.wait_for_selector(".words-columns li")

    def close():
        page.wait_for_selector("dialog[open]")
        page.keyboard.press("Escape") if way == "Escape" else page.click("dialog button[aria-label=close]")
        until(page, "document.querySelector('dialog') === null")

    page.get_by_role("button", name="Share").click()
    close()
    assert page.evaluate("document.activeElement.textContent") == "Share"
    page.click(".words-query li >> nth=3")
    page.keyboard.press("?")
    page.wait_for_selector("dialog .keys")
    tabs = page.locator("[aria-label=Views] button").count()
    assert page.inner_text("dialog .keys kbd >> nth=0") == f"1 … {tabs}"
    close()
    assert page.evaluate("document.activeElement.className") == "words-query"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "none", "no ring stands around the whole column"


def test_programs_run(daemon, open_page, tmp_path):
    page = open_page()
    share(page)
    run = run_of(page)
    texts = page.eval_on_selector_all("dialog pre", "list => Object.fromEntries(list.map((x) => [x.getAttribute('aria-label'), x.textContent]))")
    assert texts["link"] == page.url
    done = subprocess.run(["sh", "-c", texts["curl"]], capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["sequences"][0]["text"].startswith("Mon frère"), done.stderr
    done = subprocess.run([sys.executable, "-c", texts["Python"]], capture_output=True, text=True, timeout=60)
    assert "voiture" in done.stdout, done.stderr
    done = subprocess.run(["sh", "-c", texts["curl of the map"]], cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 0 and (tmp_path / "attention.svg").read_text().startswith("<svg"), done.stderr
    assert run in texts["curl of the map"]
    assert '"Content-Type: application/json"' in texts["C"] and "My brother bought" in texts["C"]


def test_words_of_a_model_of_whole_words(daemon, open_page):
    page = open_page()
    page.wait_for_selector(".words-columns li")
    page.focus("#sentence")
    page.wait_for_selector("form.sentence select")
    page.select_option("form.sentence select", "en-fr")
    until(page, "location.hash.includes('i=')")
    page.fill("#sentence", "the xylophone is r")
    page.wait_for_selector("#unknown:has-text('xylophone')")
    words = daemon.get("/v1/models/en-fr/vocabulary?side=source").json()["source"]["words"]
    offers = page.eval_on_selector_all("#samples option", "list => list.map((x) => x.value)")
    assert offers and all(offer.rsplit(" ", 1)[1] in words for offer in offers)


def test_a_word_is_marked_without_the_space_before_it(daemon, open_page):
    """A space at the end of a line would be a yellow sliver there."""
    text, tokens = "the cat and a dog", ["the", " cat", " and", " a", " dog"]
    ends = [sum(map(len, tokens[:i + 1])) for i in range(len(tokens))]
    site = {"name": "s", "kind": "self", "query": "q", "key": "q", "query_text": 0, "key_text": 0}
    described = {"version": 2, "texts": [{"text": text, "tokens": tokens, "offsets": list(zip([0, *ends], ends))}], "sites": [site]}
    file = safetensors({"q": np.random.default_rng(1).standard_normal((1, 1, 5, 4), np.float32)}, {"run": json.dumps(described)})
    reply = daemon.post("/v1/runs", file, headers={"Content-Type": "application/vnd.safetensors"})
    assert reply.status_code == 201, reply.text
    page = open_page(f"#1/words?r={reply.json()['id']}&q=4")
    page.wait_for_selector(".cell .context mark")
    assert page.evaluate("document.querySelector('.cell .context mark').textContent") == "dog"
    assert page.evaluate("document.querySelector('.cell .context').textContent") == text
