"""The steps of a model that translates or writes on: a slider over the rows, and the alternatives of each token."""
import pytest
from conftest import run_of, until
from test_writing import TEXT, choose, writers  # noqa: F401

SENTENCE = "The cat sat on the mat."


def steps(daemon, model, **more):
    return daemon.post(f"/v1/models/{model}/generate", {"return": [], "num_alternatives": 5, **more}).json()["sequences"][0]["steps"]


def shown(page):
    """[token, share in percent] of the list, and the token that was chosen."""
    return page.evaluate("""() => [[...document.querySelectorAll('.words-alternatives li')].map((x) => [x.querySelector('bdi').textContent,
        x.textContent.match(/(< )?[\\d.]+(?=.%)/)[0]]), document.querySelector('.words-alternatives [aria-current] bdi')?.textContent]""")


def says(page, step):
    """The list is that of the API's step."""
    want = [[a["token"], "< 0.1" if a["probability"] < 1e-3 else f"{100 * a['probability']:.1f}"] for a in step["alternatives"]]
    until(page, f"document.querySelector('.words-alternatives li bdi')?.textContent === {want[0][0]!r}")
    found, chosen = shown(page)
    assert [token for token, _ in found] == [token for token, _ in want] and chosen == step["token"]
    for (_, a), (_, b) in zip(found, want):
        assert a == b or abs(float(a) - float(b)) < 0.11


def move(page, to):
    page.evaluate("""to => {
        const range = document.querySelector('.words-steps input');
        range.value = to;
        for (const kind of ['input', 'change']) range.dispatchEvent(new Event(kind, {bubbles: true}));
    }""", to)


@pytest.fixture
def translated(daemon, open_page):
    page = open_page()
    page.wait_for_selector(".words-columns path", state="attached")
    before = run_of(page)
    page.fill("#sentence", SENTENCE)
    page.wait_for_selector(".words-key li:has-text('mat')")
    until(page, f"!location.hash.includes('{before}')")
    return page, steps(daemon, "en-fr-text", text=SENTENCE)


def test_the_slider_goes_through_the_rows(translated):
    page, want = translated
    assert page.inner_text(".words-steps output") == f"{len(want)} of {len(want)}"
    for i, step in enumerate(want):
        move(page, i)
        until(page, f"location.hash.includes('q={i}&') || location.hash.endsWith('q={i}')")
        says(page, step)
    page.locator("[aria-label=undo]").click()
    until(page, f"document.querySelector('.words-steps output').textContent === '{len(want) - 1} of {len(want)}'")


def test_the_slider_follows_the_pointer(translated):
    page, want = translated
    page.hover(".words-query li >> nth=1")
    until(page, f"document.querySelector('.words-steps output').textContent === '2 of {len(want)}'")
    says(page, want[1])
    assert page.input_value(".words-steps input") == "1"


def test_keys_move_it(translated):
    page, want = translated
    page.focus(".words-steps input")
    page.keyboard.press("Home")
    until(page, "location.hash.includes('q=0')")
    page.keyboard.press("ArrowRight")
    until(page, "location.hash.includes('q=1')")
    says(page, want[1])


def test_a_run_that_is_opened_by_its_address_has_them_too(daemon, open_page, translated):
    page, want = translated
    run = run_of(page)
    until(page, "location.hash.includes('i=')")
    second = open_page(page.evaluate("location.hash"))
    second.wait_for_selector(".words-steps")
    assert run_of(second) == run
    move(second, len(want) - 1)
    says(second, want[-1])


def test_sites_without_such_rows_have_no_slider_that_moves(translated):
    page, want = translated
    page.select_option(".picks select >> nth=0", "0")
    until(page, "document.querySelector('.words-steps input')?.disabled === true")
    assert page.locator(".words-alternatives").count() == 0


def test_a_text_that_is_read_has_no_steps(daemon, open_page, translated):
    page, _ = translated
    body = {"query": {"shape": [2, 4, 8], "random": "normal", "seed": 5}, "store": True, "return": []}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    second = open_page(f"#1/words?r={run}")
    second.wait_for_selector(".words-query li")
    assert second.locator(".words-steps").count() == 0


def test_alternatives_come_with_the_words(daemon, choose, writers):  # noqa: F811
    """While a model writes, those of its newest word are shown; at its end the slider goes back through all."""
    want = steps(daemon, writers["slow"], text=TEXT, max_length=4)
    page = choose("slow", allowed=1)
    for count in range(1, 5):
        page.evaluate(f"window.allowed = {count}")
        until(page, f"document.querySelector('.words-steps output')?.textContent === '{count} of {count}'")
        says(page, want[count - 1])
        assert page.locator(".words-steps input").is_disabled()
    page.evaluate("window.allowed = Infinity")
    page.wait_for_selector(".words-written[aria-busy=false]")
    until(page, "document.querySelector('.words-steps input')?.disabled === false")
    move(page, 1)
    says(page, want[1])
    until(page, f"location.hash.includes('q={len(TEXT.split()) + 1}')")
