"""Compare: before and after beside each other, beside the numbers of the API."""
import numpy as np
import pytest
from conftest import until

WORDS = ["the", "cat", "sat", "down", "here"]


def store(daemon, **more):
    body = {"query": {"shape": [1, 2, 5, 8], "random": "normal", "seed": 3, "std": 2}, "labels": WORDS, "store": True, "return": ["weights"], **more}
    answer = daemon.post("/v1/attention", body).json()
    return answer["run"]["id"], np.array(answer["weights"])[0], body


def share(text):
    """A side of a change, such as "12 %" or "hidden"."""
    return 0 if text == "hidden" else float(text.replace("%", "")) / 100


def changes(page):
    """[query, key, before, after] of the list."""
    rows = page.eval_on_selector_all(".compare-changes li button", """list => list.map((b) => [
        b.querySelector('.query-side').textContent, b.querySelector('.key-side').textContent, b.querySelector('span').textContent])""")
    return [(q, k, *map(share, text.replace("\u00a0", " ").split(" → "))) for q, k, text in rows]


def check(page, before, after, names=WORDS):
    """The list has the largest changes of the API's numbers in their order."""
    until(page, "document.querySelector('.compare-changes li') !== null")
    size = np.abs(after - before)
    shown = changes(page)
    assert len(shown) == min(10, (size >= 5e-4).sum())
    for q, k, a, b in shown:
        at = names.index(q), names.index(k)
        assert a == pytest.approx(before[at], abs=6e-3) and b == pytest.approx(after[at], abs=6e-3)
    sizes = [size[names.index(q), names.index(k)] for q, k, _, _ in shown]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] == pytest.approx(size.max())


def address(daemon, run, body, **fields):
    import base64
    import json
    import zlib
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    source = {"path": "v1/attention", "body": {k: v for k, v in body.items() if k != "store"}}
    packed = packer.compress(json.dumps(source).encode()) + packer.flush()
    text = base64.urlsafe_b64encode(packed).decode().rstrip("=")
    return f"#1/compare?r={run}&i={text}" + "".join(f"&{name}={value}" for name, value in fields.items())


def test_what_a_causal_mask_changes_is_two_clicks_away(daemon, open_page):
    run, before, body = store(daemon)
    after = store(daemon, is_causal=True)[1]
    page = open_page(address(daemon, run, body, h=1).replace("compare", "words"))
    page.wait_for_selector(".words-columns li")
    page.click("nav >> text=Compare")
    until(page, "document.querySelectorAll('.compare-map').length === 3")
    assert page.locator(".compare-map b").all_inner_texts()[1] == "after: with a causal mask"
    check(page, before[1], after[1])


def test_hidden_words_share_their_weight_among_the_others(daemon, open_page):
    run, before, _ = store(daemon, is_causal=True)
    page = open_page(f"#1/compare?r={run}&h=0&w=hide:0")
    left = before[0].copy()
    left[:, 0] = 0
    sums = left.sum(axis=1, keepdims=True)
    after = np.divide(left, sums, out=np.zeros_like(left), where=sums > 0)
    check(page, before[0], after)
    page.click(".compare-words button:has-text('cat')")
    until(page, "location.hash.includes('w=hide%3A0.1')")
    until(page, "document.querySelectorAll('.compare-map b')[1].textContent === 'after: without “the”, “cat”'")
    left[:, 1] = 0
    sums = left.sum(axis=1, keepdims=True)
    after = np.divide(left, sums, out=np.zeros_like(left), where=sums > 0)
    check(page, before[0], after)
    for name in ("the", "cat"):
        page.click(f".compare-words button:has-text('{name}')")
    page.wait_for_selector(".compare-same")


def test_another_head_and_the_mean(daemon, open_page):
    run, weights, _ = store(daemon)
    page = open_page(f"#1/compare?r={run}&h=0&w=head:1")
    check(page, weights[0], weights[1])
    page.select_option(".picks select >> nth=-1", "mean")
    until(page, "document.querySelector('.compare-map b').textContent === 'before: mean of 2 heads'")
    check(page, weights.mean(axis=0), weights[1])


def test_padding_that_is_seen(daemon, open_page):
    run, before, body = store(daemon, key_lengths=[3])
    after = store(daemon)[1]
    page = open_page(address(daemon, run, body, h=0, w="padding"))
    check(page, before[0], after[0])


def test_all_maps_follow_one_pointer_and_have_one_scale(daemon, open_page):
    run, weights, _ = store(daemon)
    page = open_page(f"#1/compare?r={run}&h=0&w=head:1")
    until(page, "document.querySelectorAll('.compare-changes li').length > 3")
    q, k, a, b = changes(page)[2]
    page.hover(".compare-changes li >> nth=2")
    until(page, "[...document.querySelectorAll('.compare-map output')].every((x) => x.textContent !== '')")
    says = [float(x.replace("−", "-")) for x in page.locator(".compare-map output").all_inner_texts()]
    at = WORDS.index(q), WORDS.index(k)
    assert says == pytest.approx([weights[0][at], weights[1][at], weights[1][at] - weights[0][at]], rel=0.06, abs=6e-4)
    box = page.locator(".compare-map .matrix-plot >> nth=1").bounding_box()
    page.mouse.move(box["x"] + 8, box["y"] + 8)
    until(page, f"Math.abs(parseFloat(document.querySelector('.compare-map output').textContent) - {weights[0][0, 0]}) < 6e-4")


def test_a_head_of_a_model_is_left_out(daemon, open_page):
    """The words stay the same: the model reads those that it wrote with all heads."""
    page = open_page()
    page.wait_for_selector(".words-columns path", state="attached")
    page.click("nav >> text=Compare")
    page.wait_for_selector(".compare-map")
    page.select_option(".compare-tools select", "without:0.1")
    until(page, "document.querySelectorAll('.compare-map b')[1].textContent === 'after: without head 1 of encoder 0'")
    text = "My brother bought a big red car."
    made = daemon.post("/v1/models/en-fr-text/generate", {"text": text, "return": [], "store": True}).json()["run"]
    target = daemon.get(f"/v1/runs/{made['id']}").json()["texts"][1]
    words = [t for i, t in enumerate(target["tokens"]) if i not in target["special"]]
    other = daemon.post("/v1/models/en-fr-text/attention", {
        "text": text, "target_tokens": words, "return": [], "store": True, "ablate": [{"site": "encoder", "layer": 0, "head": 1}]}).json()["run"]
    before, after = (np.array(daemon.get(f"/v1/runs/{r['id']}/rows?site=1&heads=mean").json()["weights"]) for r in (made, other))
    assert np.abs(after - before).max() > 1e-2
    until(page, "document.querySelector('.compare-changes li') !== null")
    shown = changes(page)
    size = np.abs(after - before)
    q, _, a, b = shown[0]
    assert abs(b - a) == pytest.approx(size.max(), abs=1.2e-2) and q in target["tokens"]


def test_large_heads_are_left_to_the_service(daemon, open_page):
    body = {"query": {"shape": [300, 8], "random": "normal", "seed": 7}, "return": [], "store": True}
    run = daemon.post("/v1/attention", body).json()["run"]["id"]
    page = open_page(f"#1/compare?r={run}")
    page.wait_for_selector("main .hint")
    assert "90,000" in page.inner_text("main .hint")


@pytest.mark.parametrize("width", [1440, 390, 320])
def test_nothing_is_cut_off(daemon, open_page, width):
    run, _, _ = store(daemon)
    page = open_page(f"#1/compare?r={run}&w=hide:1", size=(width, 844))
    page.wait_for_selector(".compare-changes li")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("[...document.querySelectorAll('.compare-map, .compare-words button')].every((x) => x.getBoundingClientRect().right <= innerWidth)")
    if width == 390:
        assert page.evaluate("document.querySelector('.tabs').scrollWidth <= document.querySelector('.tabs').clientWidth"), "all tabs are in sight"
    if width == 1440:
        about, last = page.locator(".about").bounding_box(), page.locator(".tabs button >> nth=-1").bounding_box()
        assert about is None or about["x"] >= last["x"] + last["width"], "the line about the page covers no tab"
