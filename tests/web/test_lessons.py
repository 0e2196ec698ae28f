"""Lessons: each is finished with the keyboard alone, with wrong and right answers; opened by address and file; presented; printed."""
import json

import pytest
from conftest import until
from test_axe import look

from lesson_facts import LESSONS

ALONE = [name for name, lesson in LESSONS.items() if "needs" not in lesson]
ON_FOCUS = "(() => { const at = document.activeElement; return %s; })()"


def begin(open_page, name, step=1, **options):
    page = open_page(f"#lesson={name}&step={step}", **options)
    page.wait_for_selector(".lesson h2")
    return page


def tab_to(page, what):
    """Presses Tab until the focus is where `what`, an expression of `at`, is true."""
    for _ in range(80):
        if page.evaluate(ON_FOCUS % what):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {what}")


def verdict(page, want, text):
    until(page, f"document.querySelector('.lesson-verdict')?.textContent === {json.dumps(want + ' ' + text)}")


def choose(page, question):
    tab_to(page, "at.matches('.lesson-choices input')")
    page.keyboard.press("Space")
    for i in range(len(question["choices"])):
        verdict(page, *(("Right.", question["right"]) if i == question["answer"] else ("Not yet.", question["hint"])))
        page.keyboard.press("ArrowDown")  # the last one leads to the first
    for _ in range(question["answer"]):
        page.keyboard.press("ArrowDown")


def type_number(page, question):
    tab_to(page, "at.matches('.lesson-number input')")
    right = f"{question['number']:g}".replace("-", "−")
    for text, want in (("", "Not yet."), (f"{question['number'] + 2 * question['within'] + 1:g}", "Not yet."), (right, "Right."), (right.replace(".", ","), "Right.")):
        page.keyboard.press("Control+a")
        page.keyboard.type(text) if text else page.keyboard.press("Delete")
        page.keyboard.press("Enter")
        verdict(page, want, question["right" if want == "Right." else "hint"])


def in_words(page, side, at):
    tab_to(page, f"at.matches('.words-{side}')")
    page.keyboard.press("Home")
    for _ in range(at):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


def in_matrix(page, query, key):
    tab_to(page, "at.getAttribute('role') === 'grid'")
    page.keyboard.press("Home")
    for _ in range(32):
        page.keyboard.press("ArrowUp")
    for _ in range(query):
        page.keyboard.press("ArrowDown")
    for _ in range(key):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")


def select(page, view, click):
    if view == "matrix":
        in_matrix(page, click.get("query", 0), click.get("key", 0))
    else:
        for side, at in click.items():
            in_words(page, side, at)


def click_page(page, question, view):
    page.wait_for_selector(".matrix-map[data-busy=false]" if view == "matrix" else ".words-key li")
    right = question["click"]
    wrong = {side: at - 1 if at else 1 for side, at in right.items()}
    select(page, view, wrong)
    verdict(page, "Not yet.", question["hint"])
    select(page, view, right)
    verdict(page, "Right.", question["right"])


@pytest.mark.parametrize("name", ALONE)
def test_a_lesson_is_finished_with_the_keyboard(open_page, name):
    steps = LESSONS[name]["steps"]
    page = begin(open_page, name)
    view = None
    for i, step in enumerate(steps):
        until(page, f"document.activeElement.textContent === {json.dumps(step['title'])}")
        assert page.inner_text(".lesson-count") == f"Step {i + 1} of {len(steps)}"
        view = step.get("look", {}).get("view", view)
        until(page, f"location.hash.startsWith('#1/{view}') && !document.querySelector('.working')")
        assert page.locator("[role=alert]").count() == 0
        question = step.get("question")
        if question and "choices" in question:
            choose(page, question)
        elif question and "number" in question:
            type_number(page, question)
        elif question:
            click_page(page, question, view)
        tab_to(page, "at.matches('.lesson-moves .main')")
        page.keyboard.press("Enter")
    row = page.locator(".lessons-row", has=page.locator(f"button:text-is({json.dumps(LESSONS[name]['title'])})"))
    row.wait_for()
    assert row.locator(".lessons-progress small").inner_text() == "done"


def test_the_list_names_each_lesson_and_keeps_progress(daemon, open_page):
    page = open_page("#1/lessons")
    page.wait_for_selector(".lessons-row")
    listed = daemon.get("/v1/lessons").json()["lessons"]
    assert page.locator(".lessons-row h3").all_inner_texts() == [e["title"] for e in listed]
    assert page.locator(".lessons-progress small").all_inner_texts() == ["not begun"] * len(listed)
    page.get_by_role("button", name="A question and three answers").click()
    page.get_by_role("radio").first.click()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Close the lesson").click()
    until(page, "document.querySelector('.lessons-progress small')?.textContent === '1 of 7'")
    until(page, "location.hash.startsWith('#1/lessons')")  # the address follows when a gesture has ended
    page.reload()
    page.get_by_role("button", name="A question and three answers").click()
    until(page, "document.querySelector('.lesson-count')?.textContent === 'Step 2 of 7'")
    page.get_by_role("button", name="Reset").click()
    until(page, "document.querySelector('.lesson-count').textContent === 'Step 1 of 7'")
    assert page.locator(".lesson-steps [data-done=true]").count() == 0


def test_back_and_dots_lead_to_steps(open_page):
    page = begin(open_page, "dot-product", 3)
    until(page, "location.hash.startsWith('#1/stages')")
    page.get_by_role("button", name="Back").click()
    until(page, "document.querySelector('.lesson h2').textContent === 'Similar is a number'")
    page.get_by_role("button", name="step 7: ").click()
    until(page, "location.hash.startsWith('#1/words') && document.querySelectorAll('.words-query li').length > 5")
    page.get_by_role("button", name="step 1: ").click()
    until(page, "document.querySelectorAll('.words-query li').length === 1")


@pytest.mark.parametrize("theme", ["light", "dark", "contrast"])
def test_axe_finds_nothing(open_page, theme):
    page = begin(open_page, "dot-product", script=f"localStorage.setItem('attnd-theme', '{theme}')")
    page.wait_for_selector(".words-columns li")
    page.get_by_role("radio").nth(1).click()
    page.wait_for_timeout(300)
    assert look(page) == []


def test_a_phone_shows_the_step_and_the_view(open_page):
    page = begin(open_page, "dot-product", size=(390, 844), has_touch=True)
    page.wait_for_selector(".words-columns li")
    page.wait_for_timeout(300)
    assert look(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for part in ("main", ".lesson-moves .main"):
        box = page.locator(part).first.bounding_box()
        assert 0 <= box["y"] and box["y"] + box["height"] <= 844, part


def test_presenting_is_large_and_without_bars(open_page):
    page = begin(open_page, "dot-product")
    size = "parseFloat(getComputedStyle(document.querySelector('.lesson p')).fontSize)"
    before = page.evaluate(size)
    page.get_by_role("button", name="Present").click()
    until(page, f"Math.abs({size} / {before} - 1.4) < 0.01")
    for part in (".bar input", ".bar button", ".tabs", ".status"):
        assert not page.locator(part).first.is_visible()
    page.get_by_role("button", name="Leave").click()
    until(page, f"{size} === {before}")
    assert page.locator(".bar input").first.is_visible()


def test_a_lesson_on_paper_is_whole(open_page):
    page = begin(open_page, "dot-product")
    page.emulate_media(media="print")
    steps = LESSONS["dot-product"]["steps"]
    assert page.locator(".lesson-paper h2").all_inner_texts() == [f"{i + 1}. {s['title']}" for i, s in enumerate(steps)]
    assert page.locator(".lesson-paper").is_visible() and not page.locator("main").is_visible() and not page.locator(".lesson").is_visible()
    assert steps[0]["question"]["right"] not in page.inner_text(".lesson-paper")


def file_of(lesson, name="own.json"):
    return {"name": name, "mimeType": "application/json", "buffer": (lesson if isinstance(lesson, str) else json.dumps(lesson)).encode()}


def test_a_lesson_of_a_file(open_page):
    page = open_page("#1/lessons")
    own = LESSONS["dot-product"] | {"id": "own", "title": "My own lesson"}
    page.set_input_files(".lessons-own input", file_of(own))
    until(page, "document.querySelector('.lesson-name')?.textContent === 'My own lesson'")
    assert page.get_by_role("button", name="Copy link").count() == 0  # no address holds it


STEP = LESSONS["dot-product"]["steps"][0]


@pytest.mark.parametrize("lesson, why", [
    ("{", "own.json: this is no JSON"),
    ([], "a lesson is a JSON object"),
    ({"id": "a", "title": "b", "purpose": "c", "steps": []}, "1 to 32"),
    ({"id": "a", "title": "b", "purpose": "c", "steps": [STEP, {"title": "d"}]}, "step 2 of 2: needs the text \"text\""),
    ({"id": "a", "title": "b", "purpose": "c", "steps": [STEP | {"request": {"path": "v1/jobs", "body": {}}}]}, "v1/attention or v1/models"),
    ({"id": "a", "title": "b", "purpose": "c", "steps": [STEP | {"question": {"ask": "?", "hint": "!", "right": "!"}}]}, "\"choices\", \"click\" or \"number\""),
])
def test_a_file_that_is_no_lesson_says_where(open_page, lesson, why):
    page = open_page("#1/lessons")
    page.set_input_files(".lessons-own input", file_of(lesson))
    until(page, f"document.querySelector('.lessons [role=alert]')?.textContent.includes({json.dumps(why)})")
    assert page.locator(".lesson").count() == 0


def test_a_lesson_of_an_address(daemon, open_page):
    page = begin(open_page, "v1%2Flessons%2Fdot-product", 2)
    assert page.inner_text(".lesson h2") == "Similar is a number"
    page = open_page("#lesson=https%3A%2F%2Fother.example%2Flesson.json")
    until(page, "document.querySelector('.lessons [role=alert]')?.textContent.includes('other.example')")
    page = open_page("#lesson=dot-produkt", allow=("404",))
    until(page, "document.querySelector('.lessons [role=alert]')?.textContent.includes('did you mean')")
