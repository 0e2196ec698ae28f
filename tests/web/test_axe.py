"""axe-core finds nothing in any view, in either theme, in high contrast and on a phone; and text of 200 % is not cut off."""
from pathlib import Path

import pytest
from conftest import until

AXE = Path(__file__).parents[2] / "server" / "web" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = {"words": ".words-columns li", "hand": ".hand-formula", "matrix": ".matrix-map[data-busy=false]", "heads": ".heads-picture:not(.waiting)", "stages": "table", "compare": ".compare-changes li", "data": "main textarea", "gallery": "main canvas"}
RUN = """async () => {
  const found = await axe.run(document, {rules: {'target-size': {enabled: true}}});
  return found.violations.map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + n.failureSummary.slice(0, 200))]);
}"""


def look(page):
    page.evaluate(AXE.read_text())
    return page.evaluate(RUN)


def show(page, view):
    until(page, "location.hash.includes('r=')")
    if view != "words":
        page.evaluate("view => { location.hash = location.hash.replace('/words', '/' + view); }", view)
    page.wait_for_selector(VIEWS[view])
    page.wait_for_timeout(300)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("theme", ["light", "dark", "contrast"])
def test_views(open_page, view, theme):
    page = open_page(script=f"localStorage.setItem('attnd-theme', '{theme}')")
    show(page, view)
    assert look(page) == []


@pytest.mark.parametrize("view", VIEWS)
def test_phone(open_page, view):
    page = open_page(size=(390, 844), has_touch=True)
    show(page, view)
    assert look(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("view", VIEWS)
def test_narrow_and_large(open_page, view):
    """320 pixels, and text of 200 %."""
    for size, script in (((320, 700), ""), ((1280, 900), "addEventListener('DOMContentLoaded', () => { document.documentElement.style.fontSize = '30px'; });")):
        page = open_page(size=size, script=script)
        show(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_by_hand_in_all_its_forms(open_page, size):
    page = open_page("#1/hand", size=size)
    for example, what in (("arrows", ".hand-arrow"), ("two heads", "[data-name=concat]")):
        page.click(f"button:text-is('{example}')")
        page.locator(what).first.wait_for()
        page.click(".hand-causal")
        page.wait_for_timeout(300)
        assert look(page) == []


@pytest.mark.parametrize("name", ["help", "share"])
def test_dialogs(open_page, name):
    page = open_page()
    page.wait_for_selector(".words-columns li")
    page.keyboard.press("?" if name == "help" else "s")
    page.wait_for_selector("dialog[open]")
    page.wait_for_timeout(300)
    assert look(page) == []
    page.keyboard.press("Escape")
    until(page, "document.querySelector('dialog[open]') === null")
