"""A real Chromium on the page of a daemon. A test fails on console errors, faults of the page, violations of its policy, and
requests to other hosts."""
import shutil
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright

from serving import service

PATIENCE = service.PATIENCE
# What goes wrong on purpose in a test: a daemon that is stopped, an answer that is an error.
REFUSED = "Failed to load resource"

WATCH = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (e) => window.violations.push(e.violatedDirective + ' ' + e.blockedURI));
"""


@pytest.fixture(scope="module")
def daemon():
    running = service.Daemon("--ops-listen", "", "--log", "off")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def chromium():
    binary = shutil.which("chromium")
    assert binary, "chromium is missing (tests/tools/deps test)"
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=binary, args=["--no-sandbox", "--font-render-hinting=none"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """open_page(url, width=, height=, scheme=, …) -> a page, and what it did wrong is looked at in the end."""
    opened = []

    def open_one(url, width=1440, height=900, scheme="light", allow=(), **options):
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        context.set_default_timeout(1000 * PATIENCE)
        page = context.new_page()
        page.faults = []
        page.on("console", lambda m: page.faults.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: page.faults.append(str(e)))
        home = urlsplit(url).netloc
        page.on("request", lambda r: page.faults.append("foreign " + r.url)
                if urlsplit(r.url).scheme in ("http", "https") and urlsplit(r.url).netloc != home else None)
        page.add_init_script(WATCH)
        page.allow = allow
        opened.append((context, page))
        page.goto(url)
        return page

    yield open_one
    for context, page in opened:
        violations = [] if page.is_closed() else page.evaluate("window.violations ?? []")
        faults = [f for f in page.faults if not any(a in f for a in page.allow)]
        context.close()
        assert not faults and not violations, (faults, violations)


@contextmanager
def scratch(page):
    """A second tab of the same browser profile."""
    other = page.context.new_page()
    yield other
    other.close()


def until(page, expression):
    """Waits until the expression is true. (Playwright's own way evaluates a text in the page, which the policy forbids.)"""
    end = time.monotonic() + PATIENCE
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"it never came true: {expression}"
        page.wait_for_timeout(25)


def run_of(page):
    """The id of the run that the page shows."""
    until(page, "location.hash.includes('r=')")
    fragment = page.evaluate("location.hash")
    return fragment.split("r=")[1].split("&")[0]
