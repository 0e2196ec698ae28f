"""The elements in pages of others: a plain page, React, and a page as notebooks are."""
import re
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import until

from documents import FENCE, read
from serving import service

WEB = Path(__file__).parents[2] / "server" / "web"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder that another origin serves, and a service that answers its pages."""
    folder = tmp_path_factory.mktemp("site")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{server.server_port}"
    daemon = service.Daemon("--ops-listen", "", "--log", "off", "--cors-origins", origin)
    yield folder, origin, daemon
    daemon.stop()
    server.shutdown()


def put(site, name):
    folder, _, daemon = site
    (folder / name).write_text((WEB / "examples" / name).read_text().replace("ATTND", daemon.url))


def test_plain(site, open_page):
    _, origin, daemon = site
    put(site, "plain.html")
    page = open_page(origin + "/plain.html", allow=["asks " + daemon.url, "404"])
    page.wait_for_selector("attn-words li >> nth=7")
    answer = daemon.post("/v1/attention", {"query": {"shape": [4, 8], "random": "normal", "seed": 7}, "is_causal": True, "return": ["weights"]}).json()
    page.hover("attn-words .words-query li:has-text('sat')")
    page.wait_for_selector("attn-words .words-key small")
    says = page.eval_on_selector_all("attn-words .words-key small", "list => list.map((x) => Number(x.textContent))")
    assert says == pytest.approx(answer["weights"][2], abs=6e-4)
    page.wait_for_selector("attn-heatmap .matrix-cells")
    page.locator("attn-heatmap").scroll_into_view_if_needed()
    page.focus("attn-heatmap [role=grid]")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "End"):
        page.keyboard.press(key)
    until(page, "document.getElementById('said').textContent.startsWith('query 3, key 3: ')")
    weight = float(page.inner_text("#said").split(": ")[1])
    assert weight == pytest.approx(answer["weights"][3][3], rel=1e-6)


def test_the_page_of_the_readme(site, open_page):
    folder, origin, daemon = site
    [text] = [text for kind, text in FENCE.findall(read("README.md")) if kind == "html"]
    assert text.count("http://localhost:8080") == 2 and len(text.splitlines()) <= 20
    (folder / "heatmap.html").write_text(text.replace("http://localhost:8080", daemon.url))
    page = open_page(origin + "/heatmap.html", allow=["asks " + daemon.url, "404"])
    page.wait_for_selector("attn-heatmap .matrix-cells")
    page.focus("attn-heatmap [role=grid]")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    until(page, "document.getElementById('text').textContent.startsWith('sat looks at cat with ')")
    answer = daemon.post("/v1/attention", {"query": {"shape": [4, 8], "random": "normal", "seed": 7}, "is_causal": True}).json()
    assert float(page.inner_text("#text").split()[-1]) == pytest.approx(answer["weights"][2][1], rel=1e-6)


def test_react(site, open_page):
    folder, origin, daemon = site
    subprocess.run([WEB / "node_modules/.bin/esbuild", "examples/react.tsx", "--bundle", "--format=esm", "--jsx=automatic", "--jsx-import-source=react",
                    '--define:process.env.NODE_ENV="production"', f"--outfile={folder / 'react.js'}", "--log-level=error"], cwd=WEB, check=True)
    (folder / "react.html").write_text(f"<!doctype html><meta charset=utf-8><script type=module src='{daemon.url}/web/attn.js'></script>"
                                       "<div id=root></div><script type=module src=react.js></script>")
    page = open_page(origin + "/react.html", allow=["asks " + daemon.url, "404"])
    page.click("attn-words .words-query li:has-text('dort')")
    until(page, "document.getElementById('said').textContent === '2, -1'")
    page.wait_for_selector("attn-heatmap .matrix-cells")
    assert page.locator("attn-heatmap .matrix-rows bdi").all_inner_texts() == ["le", "chat", "dort"]


def test_notebook(site, open_page):
    _, origin, daemon = site
    put(site, "observable.html")
    page = open_page(origin + "/observable.html", allow=["asks " + daemon.url, "404"])
    page.wait_for_selector("attn-heatmap .matrix-cells")
    until(page, "document.querySelector('attn-heatmap').shadowRoot.querySelector('[role=grid]') !== null")
    page.focus("attn-heatmap [role=grid]")
    for key in ("ArrowDown", "ArrowDown", "End"):
        page.keyboard.press(key)
    until(page, "document.getElementById('said').textContent !== ''")
    assert page.inner_text("#said") == '{"query":1,"key":1,"weight":0.75}'
    page.click("attn-words .words-query li:has-text('y')")
    until(page, "window.saved !== undefined")
    assert page.evaluate("window.saved") == {"query": 1, "key": -1, "weight": None}


def test_a_fault_is_said(site, open_page):
    folder, origin, daemon = site
    (folder / "fault.html").write_text(f"<!doctype html><meta charset=utf-8><script type=module src='{daemon.url}/web/attn.js'></script>"
                                       "<attn-words run=00000000000000000000000000000000></attn-words><attn-heads run=00000000000000000000000000000000></attn-heads>")
    page = open_page(origin + "/fault.html", allow=["asks " + daemon.url, "404"])
    page.wait_for_selector("attn-words p:has-text('run')")
    page.wait_for_selector("attn-heads p:has-text('run')")


def test_heads(site, open_page):
    folder, origin, daemon = site
    run = daemon.post("/v1/models/en-fr-text/attention", {"text": "the red car", "store": True, "return": []}).json()["run"]["id"]
    (folder / "heads.html").write_text(f"<!doctype html><meta charset=utf-8><script type=module src='{daemon.url}/web/attn.js'></script>"
                                       f"<attn-heads run={run} theme=dark></attn-heads><script type=module>"
                                       "document.addEventListener('attn-head', (e) => { window.head = e.detail; });</script>")
    page = open_page(origin + "/heads.html", allow=["asks " + daemon.url, "404"])
    page.wait_for_selector("attn-heads button >> nth=7")
    page.click("attn-heads button:has-text('cross 0, head 2')")
    assert page.evaluate("window.head") == {"site": 1, "batch": 0, "head": 2}


def test_a_head_that_is_told_is_a_head_that_others_show(site, open_page):
    """Of a site whose first axis is the layer, with two batch entries."""
    folder, origin, daemon = site
    run = daemon.post("/v1/attention", {"query": {"shape": [2, 2, 3, 5, 8], "random": "normal", "seed": 7}, "axes": ["layer", "batch", "head"],
                                        "store": True, "return": []}).json()["run"]["id"]
    (folder / "layers.html").write_text(f"""<!doctype html><meta charset=utf-8><script type=module src='{daemon.url}/web/attn.js'></script>
        <attn-heads run={run}></attn-heads><attn-heatmap run={run} style='--attn-height: 300px'></attn-heatmap><attn-words run={run}></attn-words>
        <script type=module>
        document.addEventListener('attn-head', ({{detail}}) => {{
          window.head = detail;
          for (const other of document.querySelectorAll('attn-heatmap, attn-words'))
            for (const [name, value] of Object.entries(detail)) other.setAttribute(name, value);
        }});
        document.addEventListener('attn-select', ({{detail}}) => {{ window.cell = detail; }});</script>""")
    page = open_page(origin + "/layers.html", allow=["asks " + daemon.url, "404"])
    page.wait_for_selector("attn-heads button >> nth=11")
    names = page.locator("attn-heads button").all_inner_texts()
    assert len(set(names)) == 12 and names[0] == "attention layer 0, batch 0, head 0" and names[11] == "attention layer 1, batch 1, head 2"
    for layer, entry, head in ((1, 1, 2), (1, 0, 1), (0, 1, 0)):
        page.click(f"attn-heads button:has-text('layer {layer}, batch {entry}, head {head}')")
        assert page.evaluate("window.head") == {"site": 0, "batch": 2 * layer + entry, "head": head}
        want = daemon.get(f"/v1/runs/{run}/weights?layer={layer}&batch={entry}&head={head}").json()["weights"]
        page.wait_for_selector("attn-heatmap .matrix-cells")
        page.wait_for_timeout(200)
        page.focus("attn-heatmap [role=grid]")
        page.keyboard.press("Control+Home")
        for key in ("Home", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowDown", "End"):
            page.keyboard.press(key)
        until(page, "window.cell?.query === 1 && window.cell?.key === 4")
        until(page, f"Math.abs(window.cell.weight - {want[1][4]}) < 1e-6")


def test_the_types_are_served_beside_the_module(site, tmp_path):
    _, origin, daemon = site
    reply = daemon.get("/web/attn.d.ts", headers={"Origin": origin})
    assert reply.status_code == 200 and reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.headers["Cache-Control"] == "public, no-cache" and reply.headers["Access-Control-Allow-Origin"] == "*"
    assert reply.text == (WEB / "attn.d.ts").read_text()


PAGE = """
import type { Head, Selection, Weights } from './attn';

const heads = document.querySelector('attn-heads');
const map = document.createElement('attn-heatmap');
heads?.addEventListener('attn-head', ({ detail }) => {
  const { site, batch, head }: Head = detail;
  for (const [name, value] of Object.entries({ site, batch, head })) map.setAttribute(name, String(value));
});
const weights: Weights = { weights: [[1, 0], [0.5, 0.5]], queries: ['a', 'b'], keys: ['a', 'b'], hidden: [[0, 1, 2]] };
map.data = weights;
document.addEventListener('attn-select', (event) => { const { weight }: Selection = event.detail; console.log(weight?.toFixed(3)); });
"""
FAULTS = {
    "map.data = { weights: [[1]], queries: ['a'] };": "keys",
    "heads?.addEventListener('attn-head', ({ detail }) => { console.log(detail.layer); });": "layer",
    "document.createElement('attn-words').data = 3;": "number",
}


@pytest.mark.skipif(not (WEB / "node_modules/.bin/tsc").exists(), reason="tsc is missing (npm ci in server/web)")
def test_a_page_compiles_against_the_types(site, tmp_path):
    (tmp_path / "attn.d.ts").write_text(site[2].get("/web/attn.d.ts").text)

    def compiled(text):
        (tmp_path / "page.ts").write_text(text)
        return subprocess.run([WEB / "node_modules/.bin/tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler",
                               "page.ts"], cwd=tmp_path, capture_output=True, text=True)

    done = compiled(PAGE)
    assert done.returncode == 0, done.stdout
    for line, word in FAULTS.items():
        done = compiled(PAGE + line)
        assert done.returncode != 0 and word in done.stdout, line


def test_the_code_says_what_the_types_say(site, open_page):
    """The module has what attn.d.ts declares. tsc compares the types of both (src/elements/declared.ts)."""
    folder, origin, daemon = site
    (folder / "empty.html").write_text("<!doctype html><meta charset=utf-8><title>empty</title>")
    page = open_page(origin + "/empty.html", allow=["asks " + daemon.url, "404"])
    members, attributes, widget = page.evaluate(f"""import('{daemon.url}/web/attn.js').then((m) =>
        [Object.keys(m).sort(), m.AttnHeatmap.observedAttributes, Object.keys(m.default)])""")
    text = (WEB / "attn.d.ts").read_text()
    assert members == sorted([*re.findall(r"^export class (\w+)", text, re.M), "default"]) and widget == ["render"]
    declared = re.search(r"export interface Attributes \{(.*?)\n\}", text, re.S)[1]
    assert {*attributes, "zooms"} == set(re.findall(r"^  (\w+)\?:", declared, re.M))
