"""A run that grows with a generation is followed: rows appear as they come, and what one looks at stays where it is."""
import json
import threading

import numpy as np
import pytest
import requests
from conftest import PATIENCE, until

WORDS = "the red cat watches a small dog in big house and car".split()
STEPS = 540  # of some ms each: the page asks once a second

MANY = "performance.setResourceTimingBufferSize(5000);"
STATUS = "document.querySelector('.growing')?.textContent"


class Generation:
    """A stored generation, read as it goes on."""

    def __init__(self, daemon, model, steps=STEPS):
        self.reply = requests.post(f"{daemon.url}/v1/models/{model}/generate", stream=True, timeout=PATIENCE, json={
            "text": "the red car", "max_length": steps, "return": [], "store": True, "stream": True})
        assert self.reply.status_code == 200, self.reply.text
        self.run, self.ended = None, threading.Event()
        begun = threading.Event()

        def read():
            try:
                for line in self.reply.iter_lines(chunk_size=1):
                    if line.startswith(b"data: ") and not self.run:
                        self.run = json.loads(line[6:]).get("id")  # the first event has the source
                        if self.run:
                            begun.set()
            except (requests.RequestException, AttributeError, ValueError):
                pass  # we have closed it
            self.ended.set()

        threading.Thread(target=read, daemon=True).start()
        assert begun.wait(PATIENCE)

    def leave(self):
        if not self.ended.is_set():
            self.reply.raw._fp.fp.raw._sock.shutdown(2)
        self.reply.close()


@pytest.fixture(scope="module")
def model(daemon):
    made = daemon.post("/v1/models", {
        "source_words": WORDS, "target_words": [f"w{i}" for i in range(12)], "architecture": "transformer", "width": 512,
        "num_heads": 8, "num_layers": 6, "seed": 3, "max_length": STEPS + 1}).json()["id"]
    yield made
    daemon.request("DELETE", f"/v1/models/{made}")


@pytest.fixture
def generation(daemon, model):
    made = Generation(daemon, model)
    yield made
    made.leave()


def site_of(daemon, run, name):
    return next(s["site"] for s in daemon.get(f"/v1/runs/{run}").json()["sites"] if s["name"] == name)


def rows_of(page):
    """What the status says, and what the map has."""
    return page.evaluate("""() => [
      Number(document.querySelector('.growing')?.textContent.match(/growing: (\\d+) rows?/)?.[1] ?? 0),
      Number(document.querySelector('[role=grid]').getAttribute('aria-rowcount')) - 1]""")


def asked(page, run):
    """The times at which the page has asked for the description of the run, in ms."""
    return page.evaluate("run => performance.getEntriesByType('resource').filter((e) => e.name.endsWith(run)).map((e) => e.startTime)", run)


def test_rows_appear_as_they_come(daemon, open_page, generation):
    site = site_of(daemon, generation.run, "decoder.3")
    page = open_page(f"#1/matrix?r={generation.run}&s={site}&h=2", script=MANY)
    page.wait_for_selector(".growing")
    page.wait_for_selector(".matrix-map[data-view]")
    seen = []
    while page.evaluate(STATUS):
        says, has = rows_of(page)
        if says:
            assert says == has
            seen.append(says)
        page.wait_for_timeout(50)
    assert generation.ended.is_set() or generation.ended.wait(5)
    assert seen == sorted(seen) and len(set(seen)) >= 3, seen
    until(page, f"document.querySelector('[role=grid]').getAttribute('aria-rowcount') === '{STEPS + 1}'")
    assert rows_of(page) == [0, STEPS]
    assert f"complete: {STEPS} rows" in page.locator(".status").inner_text()
    times = asked(page, generation.run)
    assert min(b - a for a, b in zip(times, times[1:])) > 990, "it is asked for more than once a second"
    page.wait_for_timeout(2500)
    assert asked(page, generation.run) == times, "a closed run is asked for"
    # What is shown in the end is that of the closed run.
    page.keyboard.press("g")
    page.get_by_label("query", exact=True).fill(str(STEPS - 1))
    page.get_by_label("key", exact=True).fill("7")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.cell .value code') !== null")
    want = daemon.get(f"/v1/runs/{generation.run}/cells", params={"site": site, "head": 2, "row": STEPS - 1, "col": 7}).json()
    assert np.float32(page.inner_text(".cell .value code")) == np.float32(want["weight"])
    assert page.inner_text(".cell .value").endswith(f"rank {want['rank']} of {STEPS}\n{page.inner_text('.cell .value code')}")


def test_what_is_looked_at_stays(daemon, open_page, generation):
    """Cells under the pointer keep their place and their value while rows come; undo has no step of it."""
    page = open_page(f"#1/matrix?r={generation.run}&s={site_of(daemon, generation.run, 'decoder.1')}&h=0")
    page.wait_for_selector(".growing")
    page.wait_for_selector(".matrix-map[data-busy=false]")
    until(page, "Number(document.querySelector('[role=grid]').getAttribute('aria-rowcount')) > 20")
    box = page.locator(".matrix-plot").bounding_box()
    x, y = box["x"] + 20, box["y"] + 100
    page.keyboard.down("Shift")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 90, y + 100, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    until(page, "location.hash.includes('v=')")
    page.mouse.move(box["x"] + 40, box["y"] + box["height"] - 200)
    until(page, "document.querySelector('.cell .value code, .cell .value output')?.textContent.match(/\\d|hidden/)")
    undo = page.evaluate("document.querySelector('[aria-label=undo]').disabled")
    look = "[...document.querySelector('.matrix-map').dataset.view.split(',').map((x) => Number(x).toPrecision(6)), document.querySelector('.cell .value output').textContent]"
    before, rows = page.evaluate(look), set()
    margins = page.evaluate("document.querySelector('.matrix-map').dataset.margins")
    while page.evaluate(STATUS):
        assert page.evaluate(look) == before
        assert page.evaluate("document.querySelector('.matrix-map').dataset.margins") in (margins, "true")
        rows.add(rows_of(page)[1])
        page.wait_for_timeout(30)
    assert len(rows) >= 3, rows
    assert page.evaluate(look) == before
    page.wait_for_selector(".matrix-map[data-busy=false]")
    page.keyboard.press("Control+z")  # the zoom
    until(page, "!location.hash.includes('v=')")
    assert undo is False and page.evaluate("document.querySelector('[aria-label=undo]').disabled")


def test_words_grow_without_a_gap(daemon, open_page, model):
    page = open_page()
    page.wait_for_selector(".words-query li")
    short = Generation(daemon, model, 150)  # there are columns for up to 200 words
    page.evaluate("hash => { location.hash = hash; }", f"#1/words?r={short.run}&s={site_of(daemon, short.run, 'cross.2')}&h=0")
    page.wait_for_selector(".growing")
    page.wait_for_selector(".words-query li")
    counts = page.evaluate("""async () => {
      const counts = [];
      while (document.querySelector('.growing')) {
        counts.push(document.querySelectorAll('.words-query li').length);
        await new Promise(requestAnimationFrame);
      }
      return counts;
    }""")
    assert min(counts) > 0 and counts == sorted(counts)
    short.leave()


def test_a_hidden_page_asks_nothing(daemon, open_page, generation):
    page = open_page(f"#1/matrix?r={generation.run}", script=MANY)
    page.wait_for_selector(".growing")
    hide = "(hidden) => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true}); document.dispatchEvent(new Event('visibilitychange')); }"
    page.wait_for_timeout(100)
    page.evaluate(hide, True)
    page.wait_for_timeout(1000)  # what was under way has come
    times = asked(page, generation.run)
    page.wait_for_timeout(2500)
    assert asked(page, generation.run) == times
    page.evaluate(hide, False)
    until(page, "document.querySelector('.growing') === null")
    assert len(asked(page, generation.run)) > len(times)


def test_a_run_that_is_discarded_is_told(daemon, open_page, model):
    page = open_page("#1/matrix", allow=("410",))  # loaded before the run grows, which takes a few seconds only
    page.wait_for_selector(".words-query li")
    generation = Generation(daemon, model)
    page.evaluate("hash => { location.hash = hash; }", f"#1/matrix?r={generation.run}")
    page.wait_for_selector(".growing")
    generation.leave()
    page.wait_for_selector(".trouble")
    assert page.evaluate(STATUS) is None
