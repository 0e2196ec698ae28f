"""The matrix view: its colours, its values, its keys, and what it asks for."""
import io
import random
import re
import time

import numpy as np
import pytest
from PIL import Image

from conftest import until
from serving import service

ROOT = service.ROOT
THEMES = ["light", "dark"]


def store(daemon, queries, keys=None, **more):
    keys = keys or queries
    normal = lambda n, width, seed, std: {"shape": [1, 2, n, width], "random": "normal", "seed": seed, "std": std}
    body = {"query": normal(queries, 32, 7, 2.0), "key": normal(keys, 32, 8, 1.5), "value": normal(keys, 8, 9, 1.0),
            "return": [], "store": True, **more}
    answer = daemon.post("/v1/attention", body)
    assert answer.status_code == 200, answer.text
    return answer.json()["run"]["id"]


@pytest.fixture(scope="module")
def causal(daemon):
    """300 x 300 weights, two heads."""
    return store(daemon, 300, is_causal=True)


@pytest.fixture(scope="module")
def large(daemon):
    """4,096 x 4,096 weights, two heads: a run with an overview."""
    return store(daemon, 4096, is_causal=True)


@pytest.fixture(scope="module")
def sentence(daemon):
    """The attention of a translation: 13 x 13 weights with tokens."""
    answer = daemon.post("/v1/models/en-fr-text/generate", {
        "text": "The red car is parked in front of the house.", "return": [], "store": True}).json()["run"]
    site = max(s["site"] for s in answer["sites"] if s["kind"] == "cross")
    return answer["id"], site


# --- the view ---

class View:
    def __init__(self, page):
        self.page = page
        page.wait_for_selector(".matrix-map[data-view]")
        self.settle()

    def data(self, name):
        return self.page.evaluate("name => document.querySelector('.matrix-map').dataset[name]", name)

    def settle(self):
        """Waits until the map asks for nothing and has drawn what it has."""
        quiet, end = 0, time.monotonic() + service.PATIENCE
        while quiet < 4:
            assert time.monotonic() < end, "the map is busy for ever"
            quiet = quiet + 1 if self.data("busy") == "false" else 0
            self.page.wait_for_timeout(60)

    def box(self):
        return self.page.locator(".matrix-plot").bounding_box()

    def geometry(self):
        """The first query and key in sight, the size of a cell, the place of the plot."""
        return *map(float, self.data("view").split(",")), self.box()

    def place(self, q, k, part=0.5, geometry=None):
        """The point of the page in a cell, at a part of its width and height; None: out of sight."""
        top, left, x, y, box = geometry or self.geometry()
        px, py = (k + part - left) * x, (q + part - top) * y
        inside = 0 <= px < box["width"] - 1 and 0 <= py < box["height"] - 1
        return (box["x"] + px, box["y"] + py) if inside else None

    def in_sight(self):
        """Ranges of the queries and of the keys that are wholly in sight."""
        top, left, x, y, box = self.geometry()
        rows, cols = (int(self.page.locator("[role=grid]").get_attribute(f"aria-{n}count")) - 1 for n in ("row", "col"))
        # The small picture of the whole takes the corner at the bottom right.
        small = self.page.locator(".matrix-mini")
        less = 150 if small.is_visible() else 0
        return (range(int(np.ceil(top)), min(rows, int(top + (box["height"] - less) / y))),
                range(int(np.ceil(left)), min(cols, int(left + (box["width"] - less) / x))))

    def picture(self, ratio=1):
        """Pixels of the page; the pointer is taken away first."""
        self.page.mouse.move(2, 2)
        self.settle()
        self.page.wait_for_timeout(100)
        return np.asarray(Image.open(io.BytesIO(self.page.screenshot())).convert("RGB"))

    def cells(self):
        """Pixels of the plot."""
        box = self.box()
        return self.picture()[int(box["y"]):int(box["y"] + box["height"]), int(box["x"]):int(box["x"] + box["width"])]

    def zoom(self, q, k, notches):
        for _ in range(notches):
            self.page.mouse.move(*self.place(q, k))
            before = self.data("view")
            self.page.mouse.wheel(0, -100)
            end = time.monotonic() + 1  # of a notch that the closest view does not obey
            while self.data("view") == before and time.monotonic() < end:
                self.page.wait_for_timeout(20)
        self.page.wait_for_timeout(300)
        self.settle()

    def hovered(self):
        """The query, the key, and the value of the panel beside the map."""
        panel = self.page.locator("aside.cell")
        numbers = [int(n) for n in panel.locator("h3 bdi").all_inner_texts()]
        output = panel.locator(".value output")
        output.filter(has_not_text="…").wait_for()
        text = output.inner_text()
        return (*numbers, None if text == "hidden" else np.float32(panel.locator(".value code").inner_text()))


@pytest.fixture
def matrix(open_page):
    def open_(run, fields="h=0", **options):
        return View(open_page(f"#1/matrix?r={run}&{fields}", **options))
    return open_


# --- colours ---

def tile(daemon, run, encoding, **fields):
    params = {"pool": "max", "encoding": encoding, **({} if "vmin" in fields else {"range_of": "head_from_0"}), **fields}
    answer = daemon.get(f"/v1/runs/{run}/tiles", params=params)
    assert answer.status_code == 200, answer.text
    if encoding == "png":
        return np.asarray(Image.open(io.BytesIO(answer.content)).convert("RGBA"))
    shape = [int(n) for n in answer.headers["X-Tile-Shape"].split(",")]
    return np.frombuffer(answer.content, np.uint8).reshape(shape)


def blues():
    """The table of the colour map in lib/draw."""
    text = (ROOT / "lib/draw/colour.c").read_text()
    digits = "".join(re.findall(r'"([0-9a-f]+)"', re.search(r"colour_table blues = \{.*?\};", text, re.S).group(0)))
    return np.array([[int(digits[i + j:i + j + 2], 16) for j in (0, 2, 4)] for i in range(0, len(digits), 6)])


def look_up(table, t):
    at = t * (len(table) - 1)
    i = min(int(at), len(table) - 2)
    return np.rint(table[i] + (table[i + 1] - table[i]) * (at - i))


def colour_of(style, name, theme):
    """A colour of the page's style sheet."""
    text = (ROOT / "server/web/src/style.css").read_text()
    block = re.search(r':root\[data-theme="dark"\] \{(.*?)\}' if theme == "dark" else r":root \{(.*?)\}", text, re.S).group(1)
    value = re.search(rf"--{name}: #([0-9a-f]+)", block).group(1)
    return tuple(int(value[i:i + 2], 16) for i in (0, 2, 4))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("colours, transform", [("viridis", "sqrt"), ("cividis", "linear"), ("viridis", "log"), ("Blues", "sqrt")])
@pytest.mark.parametrize("ratio", [1, 2])
def test_colours_are_those_of_the_pictures(daemon, causal, matrix, theme, colours, transform, ratio):
    view = matrix(causal, f"h=1&c={colours}&t={transform}", color_scheme=theme, device_scale_factor=ratio)
    view.zoom(40, 20, 8)
    coding = "decades" if transform == "log" else transform
    codes = tile(daemon, causal, "u8", head=1, transform=coding)
    png = tile(daemon, causal, "png", head=1, transform=coding, colormap=colours)
    pixels = view.picture()
    rows, cols = view.in_sight()
    geometry = view.geometry()
    draw = random.Random(5)
    seen = 0
    while seen < 60:
        q, k = draw.choice(rows), draw.choice(cols)
        if q >= 256 or k > q:
            continue
        x, y = view.place(q, k, 0.3, geometry)
        got = pixels[int(y * ratio), int(x * ratio)]
        want = png[q, k, :3]
        if theme == "dark" and colours == "Blues":
            want = look_up(blues(), 1 - codes[q, k] / 255)
        assert (got == want).all(), f"cell {q}, {k}: {got}, not {want}"
        seen += 1


@pytest.mark.parametrize("theme", THEMES)
def test_pooled_cells_have_the_colours_of_their_level(daemon, large, matrix, theme):
    view = matrix(large, "h=0&c=cividis&p=mean", color_scheme=theme, device_scale_factor=2)
    fits = float(view.data("view").split(",")[2])
    zoom = 1.9 / 4 / fits  # cells of level 2 have 1.9 CSS pixels: none is so thin that rounding hides it
    view.page.evaluate("zoom => { location.hash += `&v=0,0,${zoom}`; }", zoom)
    view.page.wait_for_function("() => document.querySelector('.matrix-map').dataset.level === '2'")
    view.settle()
    assert "mean of 4 × 4" in view.page.locator(".matrix-legend").inner_text()
    png = tile(daemon, large, "png", head=0, level=2, y=0, x=0, transform="sqrt", colormap="cividis", pool="mean")
    pixels = view.picture()
    geometry = view.geometry()
    draw = random.Random(6)
    for _ in range(60):
        r = draw.randrange(60, 256)
        c = draw.randrange(0, r)
        x, y = view.place(4 * r, 4 * c, 2, geometry)
        assert (pixels[int(2 * y), int(2 * x)] == png[r, c, :3]).all(), f"cell {r}, {c}"


def test_colours_begin_at_0(daemon, matrix):
    """Weights of 0.15 and 0.85: the smaller one is not white, as nothing would be."""
    body = {"query": [[1.0], [1.0]], "key": [[0.0], [1.7346]], "scale": 1, "store": True, "return": ["weights"]}
    answer = daemon.post("/v1/attention", body).json()
    [[low, high], _] = answer["weights"]
    view = matrix(answer["run"]["id"])
    pixels = view.picture()
    x, y = view.place(0, 0, 0.1)
    assert low == pytest.approx(0.15, abs=1e-3)
    code = np.floor(0.5 + 255 * np.sqrt(low / high))
    assert (np.abs(pixels[int(y), int(x)] - look_up(blues(), code / 255)) <= 1).all()
    ticks = view.page.eval_on_selector_all(".matrix-bar li", "list => list.map((x) => x.textContent)")
    assert ticks[0] == "0" and float(ticks[-1]) == pytest.approx(high, rel=0.01)


@pytest.mark.parametrize("left", [2449.7, 2449.1])
def test_no_label_reaches_into_the_corner(large, matrix, left):
    view = matrix(large, f"h=0&v=2449.9,{left},60")
    corner = view.page.locator(".matrix-corner .matrix-query-side").bounding_box()
    boxes = view.page.eval_on_selector_all(".matrix-cols span:not([hidden]) bdi", "list => list.map((x) => x.getBoundingClientRect().left)")
    assert boxes and min(boxes) >= corner["x"] + corner["width"]


@pytest.mark.parametrize("theme", THEMES)
def test_hidden_cells_are_hatched(causal, matrix, theme):
    view = matrix(causal, color_scheme=theme)
    pixels = view.picture()
    (x0, y0), (x1, y1) = view.place(20, 150), view.place(120, 290)
    found = {tuple(int(v) for v in c) for c in pixels[int(y0):int(y1), int(x0):int(x1)].reshape(-1, 3)}
    assert found == {colour_of("style", "hatch", theme), colour_of("style", "hatch-ground", theme)}


@pytest.mark.parametrize("script", ["delete HTMLCanvasElement.prototype.transferControlToOffscreen;", "delete globalThis.OffscreenCanvas;"])
def test_colours_without_a_worker(causal, matrix, script):
    """Browsers that cannot hand a canvas to a worker paint on the main thread, the same."""
    assert (matrix(causal, script=script).cells() == matrix(causal).cells()).all()


@pytest.mark.parametrize("how", ["is missing", "fails"])
def test_colours_where_the_code_of_the_worker(causal, matrix, open_page, how):
    page = open_page(allow=("404", "it fails"))
    asked = []

    def answer(route):
        asked.append(route.request.url)
        if how == "is missing":
            route.fulfill(status=404, content_type="text/plain", body="not found")
        else:
            route.fulfill(status=200, content_type="text/javascript", body="throw new Error('it fails');")

    page.route(re.compile(r"/web/worker-"), answer)
    page.evaluate("run => { location.hash = `#1/matrix?r=${run}&h=0`; }", causal)
    view = View(page)
    whole = view.cells()
    view.zoom(40, 20, 3)
    zoomed = view.cells()
    assert len(asked) == 1
    sound = matrix(causal)
    assert (whole == sound.cells()).all()
    sound.zoom(40, 20, 3)
    assert (zoomed == sound.cells()).all()


def test_nothing_is_asked_of_a_run_before_it_is_described(daemon, causal, large, matrix):
    """The sites of the run before say nothing of it: its tiles and rows may not exist."""
    page = matrix(large, "h=1").page
    asked, held = [], []
    page.route(re.compile(rf"/v1/runs/{causal}$"), lambda route: held.append(route))
    page.on("request", lambda r: f"/v1/runs/{causal}/" in r.url and asked.append(r.url))
    page.evaluate("run => { location.hash = `#1/matrix?r=${run}&h=0&q=299&k=299`; }", causal)
    page.wait_for_timeout(800)
    assert len(held) == 1 and not asked
    held[0].continue_()
    until(page, "document.querySelector('[role=grid]').ariaRowCount === '301'")
    view = View(page)
    assert asked
    assert view.geometry() == matrix(causal, "h=0&q=299&k=299").geometry()


def test_bars_of_the_run_before_go(causal, large, matrix):
    page = matrix(causal).page
    page.wait_for_selector(".matrix-map[data-margins=true]")
    assert page.locator(".matrix-side").is_visible()
    page.evaluate("run => { location.hash = `#1/matrix?r=${run}`; }", large)
    until(page, "document.querySelector('[role=grid]').ariaRowCount === '4097'")
    page.wait_for_selector(".matrix-side", state="hidden")
    assert not page.locator(".matrix-foot").is_visible()


def test_going_to_a_row_finds_its_largest_weight(daemon, large, matrix, open_page):
    page = matrix(large, "h=1").page
    page.get_by_role("button", name="go to a position").click()
    page.keyboard.type("300")  # it replaces the position that stands there
    page.keyboard.press("Enter")
    [row] = daemon.get(f"/v1/runs/{large}/rows?head=1&rows=300").json()["weights"]
    assert wait_for_address(page, "q=300") and f"k={row.index(max(row))}" in page.url
    # A cell that is chosen beside the map moves it, and the address shows the same view to others.
    best = sorted(range(301), key=lambda k: -row[k])
    far = max(best[:20], key=lambda k: abs(k - best[0]))
    page.locator(f"table.row tbody tr >> nth={best.index(far)}").click()
    wait_for_address(page, f"k={far}")
    page.wait_for_timeout(400)
    assert View(page).geometry()[:4] == pytest.approx(View(open_page(page.url)).geometry()[:4], rel=1e-6)


def test_a_range_by_hand(daemon, causal, matrix):
    view = matrix(causal, "h=0&c=viridis&t=linear")
    view.page.get_by_label("end of the range").fill("0.1")
    view.page.keyboard.press("Enter")
    view.settle()
    assert "g=0,0.1" in wait_for_address(view.page, "g=")
    png = tile(daemon, causal, "png", head=0, transform="linear", vmin=0, vmax=0.1, colormap="viridis")
    pixels = view.picture()
    for q, k in [(2, 1), (50, 10), (200, 111)]:
        x, y = view.place(q, k)
        assert (pixels[int(y), int(x)] == png[q, k, :3]).all()
    view.page.get_by_label("start of the range").fill("0.3")
    view.page.keyboard.press("Enter")
    assert "above the start" in view.page.locator(".matrix-range").inner_text()


# --- values ---

@pytest.mark.parametrize("transform", ["linear", "sqrt", "log", "row"])
@pytest.mark.parametrize("notches", [0, 6, 16])
def test_the_value_under_the_pointer(daemon, causal, matrix, transform, notches):
    view = matrix(causal, f"h=1&t={transform}")
    view.zoom(150, 75, notches)
    rows, cols = view.in_sight()
    draw = random.Random(notches)
    for _ in range(8):
        q, k = draw.choice(rows), draw.choice(cols)
        view.page.mouse.move(*view.place(q, k))
        view.page.wait_for_function(
            "([q, k]) => [...document.querySelectorAll('aside.cell h3 bdi')].map((e) => e.textContent).join() === `${q},${k}`", arg=[q, k])
        want = daemon.get(f"/v1/runs/{causal}/cells", params={"head": 1, "row": q, "col": k}).json()
        value = np.float32(want["weight"]) if want["visible"] else None
        assert view.hovered() == (q, k, value)
        text = view.page.locator(".matrix-tip").inner_text()
        assert f"{q} → {k}" in text and ("hidden by the mask" in text) == (k > q)


def test_values_in_the_cells_of_a_sentence(matrix, sentence):
    run, site = sentence
    view = matrix(run, f"s={site}&h=0")
    names = view.page.locator(".matrix-cols bdi").all_inner_texts()
    assert names[:3] == ["The", "red", "car"]
    view.page.get_by_label("pieces joined to words").uncheck()
    until(view.page, "[...document.querySelectorAll('.matrix-rows bdi')].filter((x) => x.offsetParent).length === 13")
    view.settle()
    bars = view.page.locator(".matrix-side")
    assert bars.is_visible()
    # There is text in a cell: its pixels have more colours than its ground.
    pixels = view.picture()
    (x0, y0), (x1, y1) = view.place(0, 0, 0.2), view.place(0, 0, 0.8)
    assert len(np.unique(pixels[int(y0):int(y1), int(x0):int(x1)].reshape(-1, 3), axis=0)) > 3


# --- input ---

def wait_for_address(page, part):
    page.wait_for_function("part => location.hash.includes(part)", arg=part)
    return page.evaluate("location.hash")


def chosen(page):
    match = re.search(r"[?&]q=(\d+)(?:&k=(\d+))?", page.evaluate("location.hash"))
    return match and tuple(int(n) for n in match.groups())


def test_keys_move_the_chosen_cell(daemon, causal, matrix):
    view = matrix(causal)
    page = view.page
    grid = page.locator("[role=grid]")
    grid.focus()
    for key in ["ArrowRight", "ArrowRight", "ArrowDown", "PageDown", "ArrowLeft"]:
        page.keyboard.press(key)
    wait_for_address(page, "q=11")
    assert chosen(page) == (11, 0)
    cell = page.locator(f"[id='{grid.get_attribute('aria-activedescendant')}']")
    want = daemon.get(f"/v1/runs/{causal}/cells", params={"head": 0, "row": 11, "col": 0}).json()
    page.wait_for_function("text => document.querySelector('[role=gridcell]').textContent.endsWith(text)", arg=f"rank {want['rank']} of 12")
    assert cell.inner_text().startswith("query 11, key 0, weight ")
    assert (grid.get_attribute("aria-rowcount"), grid.get_attribute("aria-colcount")) == ("301", "301")
    page.keyboard.press("End")
    wait_for_address(page, "k=299")
    assert "hidden by the mask" in page.locator("[role=gridcell]").inner_text() or page.wait_for_function(
        "() => document.querySelector('[role=gridcell]').textContent.includes('hidden by the mask')")
    page.keyboard.press("Control+Home")
    wait_for_address(page, "q=0&k=0")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !location.hash.includes('q=')")


def test_a_click_pins_and_a_second_frees(causal, matrix):
    view = matrix(causal)
    page = view.page
    page.mouse.click(*view.place(120, 30))
    wait_for_address(page, "q=120&k=30")
    page.mouse.move(2, 2)
    assert "120" in page.locator("aside.cell").inner_text()
    page.mouse.click(*view.place(120, 30))
    page.wait_for_function("() => !location.hash.includes('q=')")


def test_undo_returns_after_a_zoom(causal, matrix):
    view = matrix(causal)
    page = view.page
    before = view.data("view")
    view.zoom(100, 50, 1)
    address = wait_for_address(page, "v=")
    assert view.data("view") != before
    page.keyboard.press("Control+z")
    page.wait_for_function("before => document.querySelector('.matrix-map').dataset.view === before", arg=before)
    page.keyboard.press("Control+Shift+z")
    page.wait_for_function("before => document.querySelector('.matrix-map').dataset.view !== before", arg=before)
    assert re.search(r"v=[\d.,]+", wait_for_address(page, "v=")).group() == re.search(r"v=[\d.,]+", address).group()


def test_zoom_by_keys_box_and_double_click(causal, matrix):
    view = matrix(causal)
    page = view.page
    scale = lambda: float(view.data("view").split(",")[2])
    first = scale()
    page.locator("[role=grid]").focus()
    page.keyboard.press("+")
    view.settle()
    assert scale() == pytest.approx(1.5 * first)
    page.keyboard.press("Control+z")  # also right after the key
    page.wait_for_function("x => Math.abs(document.querySelector('.matrix-map').dataset.view.split(',')[2] - x) < 1e-6", arg=first)
    page.mouse.dblclick(*view.place(100, 50))
    view.settle()
    assert scale() == pytest.approx(2 * first)
    assert chosen(page) is None
    page.keyboard.press("0")
    view.settle()
    assert scale() == pytest.approx(first)
    (x0, y0), (x1, y1) = view.place(100, 50), view.place(130, 80)
    page.keyboard.down("Shift")
    page.mouse.move(x0, y0)
    page.mouse.down()
    page.mouse.move(x1, y1, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    view.settle()
    assert view.place(101, 51) and view.place(129, 79) and not view.place(80, 50) and not view.place(150, 80)


def test_go_and_find(matrix, causal, sentence):
    view = matrix(causal)
    page = view.page
    page.keyboard.press("g")
    page.get_by_label("query", exact=True).fill("250")
    page.get_by_label("key", exact=True).fill("40")
    page.keyboard.press("Enter")
    wait_for_address(page, "q=250&k=40")
    view.settle()
    assert view.place(250, 40)
    run, site = sentence
    view = matrix(run, f"s={site}&h=0")
    page = view.page
    page.keyboard.press("/")
    page.get_by_label("token", exact=True).fill("house")
    page.keyboard.press("Enter")
    wait_for_address(page, "k=11")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "grid"
    page.keyboard.press("m")
    wait_for_address(page, "p=mean")


# --- tiles ---

COUNTING = """
const plain = fetch;
let running = 0;
globalThis.most = 0;
globalThis.fetch = async (...given) => {
  const counts = String(given[0]).includes('/tiles?');
  if (counts) globalThis.most = Math.max(globalThis.most, ++running);
  try { return await plain(...given); } finally { if (counts) running--; }
};
"""


def test_a_large_run_keeps_few_tiles(large, open_page):
    page = open_page(f"#1/matrix?r={large}&h=0", script=COUNTING)
    view = View(page)
    view.zoom(1000, 500, 10)
    box = view.box()
    draw = random.Random(3)
    addresses = set()
    for _ in range(12):
        page.mouse.move(box["x"] + 300, box["y"] + 300)
        page.mouse.down()
        dx, dy = draw.choice([-280, 280]), draw.choice([-280, 280])
        for i in range(1, 8):
            page.mouse.move(box["x"] + 300 + dx * i / 7, box["y"] + 300 + dy * i / 7)
            addresses.add(page.evaluate("location.hash"))
            assert int(view.data("live")) <= 40
        page.mouse.up()
        page.wait_for_timeout(150)
        assert int(view.data("live")) <= 40
    view.settle()
    assert 0 < int(view.data("live")) <= 40
    assert 1 < page.evaluate("most") <= 4
    assert view.page.locator(".matrix-mini").is_visible()
    assert len(addresses) <= 14, "the address changes with the frames of a gesture"


def test_late_answers_paint_nothing(daemon, causal, matrix, open_page):
    wanted = matrix(causal, "h=1").picture()
    late = []
    page = open_page()
    page.route(re.compile(r"/tiles\?.*head=0"), lambda route: late.append(route))
    page.evaluate("run => { location.hash = `#1/matrix?r=${run}&h=0`; }", causal)
    page.wait_for_selector(".matrix-map[data-view]")
    page.get_by_text("computing the overview").wait_for()
    page.locator(".bar select").last.select_option("1")
    view = View(page)
    for route in late:
        try:
            route.continue_()
        except Exception:  # noqa: BLE001, the page gave the request up
            pass
    page.wait_for_timeout(200)
    box = view.box()
    cut = slice(int(box["y"]), int(box["y"] + box["height"])), slice(int(box["x"]), int(box["x"] + box["width"]))
    assert (view.picture()[cut] == wanted[cut]).all()


def test_a_tile_that_fails_is_told(causal, open_page):
    page = open_page()
    broken = re.compile(r"/tiles\?")
    page.route(broken, lambda route: route.fulfill(status=500, content_type="application/problem+json",
                                                   body='{"title":"Broken","status":500,"detail":"the disk is on fire"}'))
    page.evaluate("run => { location.hash = `#1/matrix?r=${run}&h=0`; }", causal)
    page.get_by_text("the disk is on fire").wait_for()
    page.unroute(broken)
    page.get_by_role("button", name="try again").click()
    view = View(page)
    assert page.get_by_text("the disk is on fire").count() == 0
    assert int(view.data("live")) > 0
    page.faults.clear()


# --- sizes ---

def test_a_phone(causal, sentence, matrix):
    run, site = sentence
    view = matrix(run, f"s={site}&h=0", size=(390, 844), device_scale_factor=2, has_touch=True)
    page = view.page
    page.touchscreen.tap(*view.place(4, 4))
    wait_for_address(page, "q=4&k=4")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="colours…").click()
    page.locator(".matrix-choices select").first.select_option("log")
    wait_for_address(page, "t=log")
