"""Two tabs of one browser, which share six connections to the service: each is as quick as one alone."""
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
from conftest import PATIENCE, until

SLOW = 3  # seconds that a tile takes

STREAMS = """
for (const name of ['EventSource', 'WebSocket']) globalThis[name] = class { constructor(to) { console.error(`it opens ${to}`); } };
"""


class Proxy(ThreadingHTTPServer):
    """Passes requests on to the daemon; tiles take long."""
    daemon_threads = True

    def __init__(self, daemon):
        super().__init__(("127.0.0.1", 0), Handler)
        self.to, self.slow, self.busy, self.most = daemon.url, False, 0, 0
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a page that has gone


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do(self):
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        slow = server.slow and "/tiles?" in self.path
        if slow:
            with server.lock:
                server.busy += 1
                server.most = max(server.most, server.busy)
            time.sleep(SLOW)
            with server.lock:
                server.busy -= 1
        kept = {name: value for name, value in self.headers.items() if name.lower() in ("accept", "content-type", "prefer")}
        kept["Accept-Encoding"] = "identity"
        reply = requests.request(self.command, server.to + self.path, data=body, headers=kept, timeout=PATIENCE)
        self.send_response(reply.status_code)
        for name, value in reply.headers.items():
            if name.lower() not in ("connection", "content-length", "date", "keep-alive", "transfer-encoding"):
                self.send_header(name, value)
        if reply.status_code not in (204, 304):
            self.send_header("Content-Length", str(len(reply.content)))
        self.end_headers()
        self.wfile.write(reply.content)

    do_GET = do_POST = do_DELETE = do


@pytest.fixture
def proxy(daemon):
    made = Proxy(daemon)
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(scope="module")
def run(daemon):
    normal = {"shape": [1, 2, 3000, 16], "random": "normal", "std": 2.0}
    answer = daemon.post("/v1/attention", {"query": normal | {"seed": 7}, "key": normal | {"seed": 8}, "is_causal": True, "return": [], "store": True})
    return answer.json()["run"]["id"]


def values(page, rows):
    """Seconds from a move of the pointer to the value, in rows that are not here yet."""
    box = page.locator(".matrix-plot").bounding_box()
    times, before = [], ""
    for y in rows:
        page.mouse.move(box["x"] + 20, box["y"] + y)
        begin = time.monotonic()
        until(page, f"/^(?!{before or '-'} )[0-9]+ .*\\n.*[0-9]/s.test(document.querySelector('.matrix-tip')?.innerText ?? '')")
        times.append(time.monotonic() - begin)
        before = page.inner_text(".matrix-tip .matrix-query-side")
    return times


def test_hovers_answer_in_both_while_tiles_take_long(proxy, run, open_page):
    first = open_page(f"{proxy.url}/#1/matrix?r={run}&h=0", script=STREAMS)
    first.wait_for_selector(".matrix-map[data-busy=false]")
    second = first.context.new_page()
    second.add_init_script(STREAMS)
    second.goto(f"{proxy.url}/#1/matrix?r={run}&h=1")
    second.wait_for_selector(".matrix-map[data-busy=false]")
    proxy.slow = True
    for page in (first, second):  # wants more tiles than are asked for at a time
        page.evaluate("location.hash = location.hash.replace(/&v=.*/, '') + '&p=mean&t=linear&v=200,0,4'")
        until(page, "document.querySelector('.matrix-map').dataset.busy === 'true'")
    times = values(first, (101, 153, 222)) + values(second, (111, 163, 212))
    assert max(times) < SLOW / 2, times
    assert first.evaluate("document.querySelector('.matrix-map').dataset.busy") == "true", "the tiles were not slow"
    assert 2 < proxy.most <= 4
    proxy.slow = False
    for page in (first, second):
        page.wait_for_selector(".matrix-map[data-busy=false]")


def test_a_tab_that_goes_lets_others_go_on(proxy, run, open_page):
    first = open_page(f"{proxy.url}/#1/matrix?r={run}&h=0")
    first.wait_for_selector(".matrix-map[data-busy=false]")
    second = first.context.new_page()
    second.goto(f"{proxy.url}/#1/matrix?r={run}&h=0")
    second.wait_for_selector(".matrix-map[data-busy=false]")
    proxy.slow = True
    first.evaluate("location.hash += '&p=mean&t=linear&v=200,0,4'")
    until(first, "document.querySelector('.matrix-map').dataset.busy === 'true'")
    first.wait_for_timeout(200)
    begin = time.monotonic()
    second.evaluate("location.hash += '&p=mean&t=log'")
    until(second, "document.querySelector('.matrix-map').dataset.busy === 'true'")
    first.close()
    second.wait_for_selector(".matrix-map[data-busy=false]")
    assert time.monotonic() - begin < 4 * SLOW


def test_a_long_look_that_another_tab_cancels(run, open_page):
    """It is ordered again; so are those that the service ends because a hidden page did not ask for them."""
    page = open_page()
    ordered = []

    def look(route):
        ordered.append(route.request.url)
        if len(ordered) > 1:
            return route.continue_()
        route.fulfill(status=202, content_type="application/json", headers={"Preference-Applied": "respond-async"},
                      body=json.dumps({"kind": "look", "id": "job-1", "state": "running", "progress": 0.3}))

    page.route(re.compile(f"{run}/atlas"), look)
    page.route(re.compile("/jobs/job-1"), lambda route: route.fulfill(
        status=200, content_type="application/json", body=json.dumps({"kind": "look", "id": "job-1", "state": "cancelled", "progress": 0.3})))
    page.evaluate("run => { location.hash = `#1/heads?r=${run}`; }", run)
    page.wait_for_selector(".heads-picture:not(.waiting)")
    assert len(ordered) == 2
