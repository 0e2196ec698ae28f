"""320 pixels: the width of a small phone, and of 1280 pixels at four times the size."""
import pytest
from conftest import until

READY = {"words": ".gallery-shelf", "hand": ".hand-formula", "matrix": ".matrix-map[data-busy=false]", "heads": ".atlas canvas, main canvas",
         "stages": ".stages-table", "compare": ".compare-changes", "data": "#data-query", "gallery": ".gallery-card", "lessons": "main h2"}

# What reaches out of the window, and texts that are cut. What scrolls by itself may be longer.
CUT = """() => [...document.querySelectorAll('main :is(button, label, output, p, h2, h3, select, td, th), .tabs button, .status span, .bar :is(button, select)')].filter((e) => {
    const box = e.getBoundingClientRect();
    if (!box.width || e.closest('.hidden') || !e.checkVisibility({visibilityProperty: true})) return false;
    for (let p = e.parentElement; p && p.tagName !== 'MAIN'; p = p.parentElement)
        if (/auto|scroll/.test(getComputedStyle(p).overflowX) && p.scrollWidth > p.clientWidth) return false;
    const cuts = !e.children.length && e.tagName !== 'SELECT' && getComputedStyle(e).overflowX !== 'visible' && e.scrollWidth > e.clientWidth + 1;
    return cuts || box.left < -0.5 || box.right > innerWidth + 0.5;
}).map((e) => `${e.tagName} ${e.className}: ${e.textContent.slice(0, 60)}`)"""


@pytest.mark.parametrize("view", READY)
def test_nothing_is_cut_at_320_pixels(open_page, view):
    page = open_page(size=(320, 700))
    page.wait_for_selector(".words-columns path", state="attached")
    until(page, "location.hash.includes('r=')")
    page.evaluate("view => { location.hash = location.hash.replace(/#1.[a-z]+/, '#1/' + view); }", view)
    page.wait_for_selector(READY[view], state="attached")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth && document.querySelector('main').scrollWidth <= innerWidth")
    assert page.evaluate(CUT) == []
