"""A model that writes on: its words come one by one with their rows of attention, and it can be stopped."""
import pytest
from conftest import run_of, until

WORDS = "the red cat watches a small dog in big house and car".split()
TEXT = " ".join(3 * WORDS)

# A token's event reaches the page when `allowed` says so. `streams` counts those that were opened, and those that are open.
GATE = """
const real = fetch;
window.streams = [0, 0]; window.allowed = Infinity;
window.fetch = async (...all) => {
  const reply = await real(...all);
  if (!reply.headers.get('Content-Type')?.startsWith('text/event-stream')) return reply;
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '', tokens = 0, open = true;
  window.streams[0]++;
  window.streams[1]++;
  const end = () => { if (open) window.streams[1]--; open = false; };
  return new Response(new ReadableStream({
    async pull(to) {
      try {
        while (!rest.includes('\\n\\n')) {
          const { value, done } = await reader.read();
          if (done) { end(); to.close(); return; }
          rest += value;
        }
        const [event] = rest.split('\\n\\n');
        rest = rest.slice(event.length + 2);
        while (event.includes('event: token') && tokens >= window.allowed) {
          all[1].signal.throwIfAborted();
          await new Promise((go) => setTimeout(go, 10));
        }
        tokens += event.includes('event: token');
        to.enqueue(new TextEncoder().encode(`${event}\\n\\n`));
      } catch (error) { end(); to.error(error); }
    },
    cancel(why) { end(); return reader.cancel(why); },
  }), { status: reply.status, headers: reply.headers });
};
"""


@pytest.fixture(scope="module")
def writers(daemon):
    """Models that write on, by how long they take."""
    made = {name: daemon.post("/v1/models", {
        "target_words": WORDS, "architecture": "decoder", "width": width, "num_heads": 8, "num_layers": layers, "seed": seed,
        "max_length": 400}).json()["id"] for name, width, layers, seed in (("quick", 16, 1, 6), ("slow", 512, 12, 3))}
    yield made
    for model in made.values():
        daemon.request("DELETE", f"/v1/models/{model}")


@pytest.fixture
def choose(open_page, writers):
    """choose(which) -> a page on which this model has begun to write."""
    def choose_(which, allowed="Infinity", **options):
        page = open_page(script=GATE, **options)
        page.wait_for_selector(".words-query li")
        page.evaluate(f"window.allowed = {allowed}")
        page.fill("#sentence", TEXT)
        page.select_option("form.sentence select", writers[which])
        return page
    return choose_


def continuation(daemon, model, **options):
    return daemon.post(f"/v1/models/{model}/generate", {"text": TEXT, "return": [], **options}).json()["sequences"][0]["text"]


def written(page):
    return page.inner_text(".words-written").split(), page.inner_text(".words-written b").split()


@pytest.mark.parametrize("which", ["quick", "slow"])
def test_the_text_is_that_of_the_service(daemon, choose, writers, which):
    page = choose(which)
    page.wait_for_selector(".words-written[aria-busy=false]")
    want = continuation(daemon, writers[which]).split()
    until(page, f"document.querySelector('.words-written b')?.textContent.trim().split(/\\s+/).length === {len(want)}")
    whole, added = written(page)
    assert added == want and whole == TEXT.split() + want
    run = daemon.get(f"/v1/runs/{run_of(page)}").json()
    assert run["state"] == "closed" and page.locator("text=Stop").count() == 0


def says(page, words):
    until(page, f"document.querySelector('.words-written b')?.textContent.trim().split(/\\s+/).join(' ') === {' '.join(words)!r}")


def test_words_come_one_by_one(daemon, choose, writers):
    want = continuation(daemon, writers["slow"]).split()
    page = choose("slow", allowed=1)
    for count in range(1, 5):
        page.evaluate(f"window.allowed = {count}")
        says(page, want[:count])
        assert page.get_attribute(".words-written", "aria-busy") == "true" and page.locator(".words-caret").count() == 1
        assert page.evaluate("window.streams") == [1, 1]
    page.evaluate("window.allowed = Infinity")
    says(page, want)
    page.wait_for_selector(".words-written[aria-busy=false]")
    until(page, "window.streams[1] === 0")  # it is open only while the model writes
    assert page.evaluate("window.streams[0]") == 1
    page.click("[aria-label=undo]")  # one step, however many words have come
    page.wait_for_selector(".words-query li:has-text('rouge')")


def test_it_can_be_stopped(daemon, choose, writers):
    want = continuation(daemon, writers["slow"]).split()[:4]
    page = choose("slow", allowed=4, allow=("410",))
    says(page, want)
    page.click("text=Stop")
    page.wait_for_selector(".words-written[aria-busy=false]")
    until(page, "document.querySelector('.tools .working') === null && window.streams[1] === 0")
    assert written(page)[1] == want == continuation(daemon, writers["slow"], max_length=4).split()
    assert page.locator("text=Stop").count() == 0 and page.locator(".trouble").count() == 0
    run = daemon.get(f"/v1/runs/{run_of(page)}").json()
    assert run["state"] == "closed" and run["num_rows"] == len(TEXT.split()) + 4
    until(page, "location.hash.includes('i=')")
    page.reload()  # the address makes the same
    says(page, want)


def test_a_new_text_takes_the_place_of_one_that_is_written(daemon, choose, writers):
    page = choose("slow", allowed=2, allow=("410",))
    page.wait_for_selector(".words-caret")
    page.evaluate("window.allowed = Infinity")
    page.fill("#sentence", "a small dog")
    until(page, "document.querySelector('.words-written')?.textContent.startsWith('a small dog')")
    page.wait_for_selector(".words-written[aria-busy=false]")
    until(page, "window.streams[0] === 2 && window.streams[1] === 0")
    assert page.locator(".trouble").count() == 0


def test_programs_to_share_wait_for_the_whole_answer(choose):
    page = choose("quick")
    page.wait_for_selector(".words-written b")
    page.click("text=Share")
    page.click("summary")
    programs = page.locator("dialog pre").all_inner_texts()
    assert any(TEXT in text for text in programs) and not any("stream" in text for text in programs)
