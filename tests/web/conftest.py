"""A daemon, and pages of a real Chromium on which nothing may go wrong.

A test fails if its page logs an error, throws one, breaks the policy of the page, or asks another host. A test that provokes
errors names a part of their texts in `allow`, or empties `page.faults`.
"""
import shutil
import time
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright

from serving import service

PATIENCE = service.PATIENCE

VIOLATIONS = """
addEventListener('securitypolicyviolation', (e) =>
  console.error(`policy: ${e.violatedDirective} forbids ${e.blockedURI}`));
"""


@pytest.fixture(scope="session")
def daemon():
    running = service.Daemon("--ops-listen", "", "--log", "off")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def chromium():
    path = shutil.which("chromium")
    assert path, "chromium is missing (tests/tools/deps test)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--force-color-profile=srgb", "--font-render-hinting=none"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(daemon, chromium):
    """open_page(where, size=(w, h), script="", allow=(), **options of a context) -> a page.

    `where` is a fragment of the daemon's page, or a whole address. `script` runs before the page's own code. The page has
    `faults`, a list of texts.
    """
    contexts, pages = [], []

    def open_(where="", size=(1440, 900), script="", allow=(), **options):
        url = where if where.startswith("http") else f"{daemon.url}/{where}"
        home = "//" + urlsplit(url).netloc
        context = chromium.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        context.set_default_timeout(1000 * PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.faults, page.allow = [], allow
        pages.append(page)
        page.add_init_script(VIOLATIONS + script)
        page.on("console", lambda m: m.type == "error" and page.faults.append(f"console: {m.text}"))
        page.on("pageerror", lambda e: page.faults.append(f"page: {e}"))
        page.on("request", lambda r: home in r.url or r.url.startswith(("data:", "blob:")) or page.faults.append(f"asks {r.url}"))
        page.goto(url)
        return page

    yield open_
    faults = [fault for page in pages for fault in page.faults if not any(text in fault for text in page.allow)]
    for context in contexts:
        context.close()
    assert not faults, "\n".join(faults)


@pytest.fixture
def page(open_page):
    """The page as one sees it first."""
    return open_page()


def until(page, expression):
    """Waits until the expression is true. (Playwright's own way evaluates a text in the page, which the policy forbids.)"""
    end = time.monotonic() + PATIENCE
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"it never came true: {expression}"
        page.wait_for_timeout(25)


def run_of(page):
    """The id of the run that the page shows."""
    until(page, "location.hash.includes('r=')")
    return page.evaluate("location.hash").split("r=")[1].split("&")[0]
