"""The reference: Swagger UI under the policy of the page, in both themes and behind a prefix."""
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import until


@contextmanager
def prefixed(daemon, prefix="/prefix"):
    """A reverse proxy that strips the prefix, and refuses all else."""

    class Proxy(BaseHTTPRequestHandler):
        def forward(self):
            if not self.path.startswith(prefix + "/"):
                return self.send_error(404)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "origin", "connection")}
            upstream = HTTPConnection(daemon.host, daemon.port)
            upstream.request(self.command, self.path[len(prefix):], body, headers)
            reply = upstream.getresponse()
            data = reply.read()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            upstream.close()

        do_GET = do_POST = forward

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}{prefix}"
    server.shutdown()
    server.server_close()


def test_problems_behind_a_prefix(daemon, open_page):
    """Their style sheet is loaded."""
    with prefixed(daemon) as url:
        page = open_page(url + "/problems")
        page.get_by_role("link", name="unknown_field").click()
        page.get_by_role("heading", name="Unknown field").wait_for()
        assert page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") == "900px"
        page.get_by_role("link", name="All problems").click()
        page.get_by_role("heading", name="Problems").wait_for()


def open_docs(open_page, url, **options):
    page = open_page(url + "/docs", **options)
    page.wait_for_selector(".opblock")
    return page


def execute(page, method, path):
    """Tries a route out, as a reader does. The URL that was asked, the status and the answer as text."""
    block = page.locator(f".opblock-{method}", has=page.locator(f"[data-path='{path}']")).first
    block.locator(".opblock-summary-control").first.click()
    block.get_by_role("button", name="Try it out").click()
    block.get_by_role("button", name="Execute").click()
    table = block.locator(".live-responses-table")
    table.wait_for()
    url = block.locator(".request-url pre").inner_text().strip()
    return url, table.locator("tbody .response-col_status").first.inner_text().strip(), table.locator(".highlight-code").first.inner_text()


def test_the_reference_lists_all_routes(daemon, open_page):
    page = open_docs(open_page, daemon.url)
    paths = {p for p, methods in daemon.get("/openapi.json").json()["paths"].items() if methods}
    shown = page.eval_on_selector_all("[data-path]", "list => list.map((x) => x.dataset.path)")
    assert set(shown) == paths
    parts = page.eval_on_selector_all("[data-tag]", "list => list.map((x) => x.dataset.tag)")
    assert "tensors" in parts and "runs" in parts and parts[-1] == "service" and "default" not in parts
    assert page.locator("header a").get_attribute("href") == "./"


def test_requests_can_be_tried_out(daemon, open_page):
    page = open_docs(open_page, daemon.url)
    url, status, text = execute(page, "get", "/version")
    assert (url, status) == (daemon.url + "/version", "200") and '"attnd"' in text
    url, status, text = execute(page, "post", "/v1/attention")
    assert (url, status) == (daemon.url + "/v1/attention", "200") and "0.15032545" in text


def test_requests_can_be_tried_out_behind_a_prefix(daemon, open_page):
    with prefixed(daemon) as url:
        page = open_docs(open_page, url)
        assert execute(page, "get", "/version")[:2] == (url + "/version", "200")
        asked, status, text = execute(page, "post", "/v1/attention")
        assert (asked, status) == (url + "/v1/attention", "200") and "0.15032545" in text
        page.locator("header a").click()
        page.wait_for_selector(".tabs")
        assert page.url.split("#")[0] == url + "/"


def test_icons_are_files(daemon, open_page):
    page = open_docs(open_page, daemon.url)
    icons = page.evaluate("""() => [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
        .flatMap((rule) => [...(rule.style?.cssText ?? '').matchAll(/url\\("(.*?)"\\)/g)].map((m) => m[1]))""")
    assert icons and all(i.startswith("icon-") or "/web/icon-" in i for i in icons)
    for icon in set(icons):
        assert daemon.get("/web/" + icon.split("/")[-1]).status_code == 200
    page.locator(".scheme-container select").wait_for()
    assert page.evaluate("getComputedStyle(document.querySelector('.scheme-container select')).backgroundImage").startswith('url("http')


def luminance(text):
    numbers = [float(x) / 255 for x in text[text.index("(") + 1:text.index(")")].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in numbers]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_reference_is_readable_in_both_themes(daemon, open_page, scheme):
    page = open_docs(open_page, daemon.url, color_scheme=scheme)
    ground = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (ground < 0.1) == (scheme == "dark")
    for selector in (".info .title", ".info p", ".opblock-summary-path", ".opblock-summary-description", "header a"):
        ink = luminance(page.evaluate("s => getComputedStyle(document.querySelector(s)).color", selector))
        low, high = sorted((ink, ground))
        assert (high + 0.05) / (low + 0.05) >= 4.5, selector


def test_the_theme_of_the_page_counts(daemon, open_page):
    page = open_docs(open_page, daemon.url, color_scheme="light")
    page.evaluate("localStorage.setItem('attnd-theme', 'dark')")
    page.reload()
    until(page, "document.documentElement.classList.contains('dark-mode')")


def test_the_reference_fits_a_phone(daemon, open_page):
    page = open_docs(open_page, daemon.url, size=(390, 844))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
