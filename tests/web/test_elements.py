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
    assert page.inner_text("#said") == '{"row":1,"col":1,"weight":0.75}'
    page.click("attn-words .words-query li:has-text('y')")
    until(page, "window.saved !== undefined")
    assert page.evaluate("window.saved") == {"row": 1, "col": -1, "weight": None}


def test_a_fault_is_said(site, open_page):
    folder, origin, daemon = site
    (folder / "fault.html").write_text(f"<!doctype html><meta charset=utf-8><script type=module src='{daemon.url}/web/attn.js'></script>"
                                       "<attn-words run=00000000000000000000000000000000></attn-words><attn-heads run=00000000000000000000000000000000></attn-heads>")
    page = open_page(origin + "/fault.html", allow=["asks " + daemon.url, "404"])
    page.wait_for_selector("attn-words p:has-text('run')")
    page.wait_for_selector("attn-heads p:has-text('run')")


DATA = """{weights: [[1, 0, 0], [0.25, 0.75, null]], queries: ["the", "cat"], keys: ["le", "chat", "dort"]}"""


def element(site, open_page, name, markup, script=""):
    """A page with the markup that tells errors and selections in window.faults and window.cell."""
    folder, origin, daemon = site
    (folder / f"{name}.html").write_text(f"""<!doctype html><meta charset=utf-8><script type=module src='{daemon.url}/web/attn.js'></script>{markup}
        <script type=module>
        window.faults = [];
        document.addEventListener('attn-error', (e) => window.faults.push(e.detail.message));
        document.addEventListener('attn-select', (e) => {{ window.cell = e.detail; }});
        await import('{daemon.url}/web/attn.js');
        window.one = document.querySelector('attn-heatmap, attn-words');
        {script}</script>""")
    return open_page(f"{origin}/{name}.html", allow=["asks " + daemon.url, "404", "422"])


def test_the_text_for_screen_readers_takes_no_place(site, open_page):
    page = element(site, open_page, "reader", "<attn-heatmap></attn-heatmap>", f"one.data = {DATA};")
    page.wait_for_selector("attn-heatmap .matrix-cells")
    page.focus("attn-heatmap [role=grid]")
    for key in ("ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    until(page, "window.cell?.col === 1")
    box = page.eval_on_selector("attn-heatmap .hidden", "e => { const b = e.getBoundingClientRect(); return [b.width, b.height]; }")
    assert page.inner_text("attn-heatmap .attn-says") and box == [1, 1]


FORMS = {
    "nested": DATA,
    "no words": "{weights: [[1, 0, 0], [0.25, 0.75, null]]}",
    "doubles": "{weights: Float64Array.of(1, 0, 0, 0.25, 0.75, 0), queries: ['a', 'b'], keys: ['x', 'y', 'z'], hidden: [[1, 2, 3]]}",
    "a flat list": "{weights: [1, 0, 0, 0.25, 0.75, 0], queries: ['a', 'b'], keys: ['x', 'y', 'z'], hidden: [[1, 2, 3]]}",
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_data(site, open_page, form):
    page = element(site, open_page, "forms", "<attn-heatmap></attn-heatmap>", f"one.data = {FORMS[form]};")
    page.wait_for_selector("attn-heatmap .matrix-cells")
    page.focus("attn-heatmap [role=grid]")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    until(page, "window.cell?.row === 1 && window.cell.col === 1 && window.cell.weight === 0.75")
    page.keyboard.press("ArrowRight")
    until(page, "window.cell.col === 2 && window.cell.weight === null")
    assert "hidden" in page.inner_text("attn-heatmap .attn-says") and page.evaluate("window.faults") == []


WRONG = {
    "{weights: [[[1, 0], [0, 1]]], queries: ['a', 'b'], keys: ['a', 'b']}": "3 axes, [1, 2, 2], expected [queries, keys]",
    "{weights: [1, 0, 0, 1]}": "data.queries and data.keys",
    "{weights: [1, 0, 0], queries: ['a', 'b'], keys: ['a', 'b']}": "need 4 weights, found 3",
    "{weights: [[1, 0], [1]]}": "data.weights[1] has 1 numbers",
    "{weights: [[1, 0], [1, NaN]]}": "data.weights[1][1] is NaN",
    "{weights: [[1, '2']]}": "data.weights[0][1] is 2, expected a number",
    "{weights: [[1, 0]], queries: ['a', 'b']}": "data.queries has 2 words",
    "{queries: ['a']}": "data must be {weights, queries, keys}",
    "3": "data must be {weights, queries, keys}",
}


@pytest.mark.parametrize("name", ["attn-heatmap", "attn-words"])
def test_wrong_data_is_said(site, open_page, name):
    page = element(site, open_page, "wrong", f"<{name}></{name}>")
    until(page, "window.one")
    for data, message in WRONG.items():
        page.evaluate(f"window.faults = []; window.one.data = {data};")
        until(page, "window.faults.length === 1")
        assert message in page.evaluate("window.faults[0]"), data
        assert message in page.inner_text(f"{name} p[part=message]")
    page.evaluate(f"window.faults = []; window.one.data = {DATA};")
    page.wait_for_selector(f"{name} [part={'map' if 'map' in name else 'words'}]")
    assert page.evaluate("window.faults") == []


def test_heads_and_entries_that_a_run_lacks(site, open_page):
    run = site[2].post("/v1/attention", {"query": {"shape": [2, 3, 5, 8], "random": "normal", "seed": 7}, "store": True, "return": []}).json()["run"]["id"]
    for name in ("attn-heatmap", "attn-words"):
        for attribute, message in (("head=99", "has 3 heads, and head 99"), ("batch=2", "has 2 batch entries, and entry 2"), ("site=1", "no site 1")):
            page = element(site, open_page, "lacks", f"<{name} run={run} {attribute}></{name}>")
            page.wait_for_selector(f"{name} p[part=message]:has-text('{message}')")


def test_columns_of_too_many_words(site, open_page):
    run = site[2].post("/v1/attention", {"query": {"shape": [257, 8], "random": "normal", "seed": 7}, "store": True, "return": []}).json()["run"]["id"]
    page = element(site, open_page, "many", f"<attn-words run={run}></attn-words>")
    page.wait_for_selector("attn-words p:has-text('257 x 257 weights, too many for columns of words: <attn-heatmap> shows it')")


def test_new_data_has_no_old_text(site, open_page):
    page = element(site, open_page, "stale", "<attn-heatmap></attn-heatmap>", f"one.data = {DATA};")
    page.wait_for_selector("attn-heatmap .matrix-cells")
    page.focus("attn-heatmap [role=grid]")
    page.keyboard.press("ArrowDown")
    until(page, "window.one.shadowRoot.querySelector('.attn-says').textContent.includes('query the')")
    page.evaluate("window.one.data = {weights: [[0.5, 0.5]], queries: ['new'], keys: ['x', 'y']}")
    until(page, "window.one.shadowRoot.querySelector('.attn-says').textContent === ''")


def test_parts_can_be_styled(site, open_page):
    page = element(site, open_page, "parts", "<style>attn-heatmap::part(says), attn-heatmap::part(axes) { display: none }</style><attn-heatmap></attn-heatmap>",
                   f"one.data = {DATA};")
    page.wait_for_selector("attn-heatmap .matrix-cells")
    assert [page.locator(f"attn-heatmap [part={part}]").is_visible() for part in ("map", "axes", "says")] == [True, False, False]


def test_jsx_compiles_against_the_types(site, tmp_path):
    """In the strict mode of a project of its own, with the React types beside it."""
    for name in ("attn.d.ts", "attn-react.d.ts"):
        (tmp_path / name).write_text(site[2].get(f"/web/{name}").text)
    (tmp_path / "node_modules").symlink_to(WEB / "node_modules")

    def compiled(text):
        (tmp_path / "page.tsx").write_text("import './attn-react';\nimport type { Weights } from './attn';\n" + text)
        return subprocess.run([WEB / "node_modules/.bin/tsc", "--noEmit", "--strict", "--jsx", "react-jsx", "--target", "es2022", "--module", "esnext",
                               "--moduleResolution", "bundler", "page.tsx"], cwd=tmp_path, capture_output=True, text=True)

    page = """export const map = (data: Weights) => <attn-heatmap data={data} colormap="viridis" head={3} style={{ height: 300 }}
        onattn-select={(e) => console.log(e.detail.row)} onattn-error={(e) => console.log(e.detail.message)} />;"""
    done = compiled(page)
    assert done.returncode == 0, done.stdout
    for wrong in ("e.detail.query", "e.detail.code"):
        done = compiled(page.replace("e.detail.row" if "query" in wrong else "e.detail.message", wrong))
        assert done.returncode != 0 and wrong.split(".")[-1] in done.stdout


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
        until(page, "window.cell?.row === 1 && window.cell?.col === 4")
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
    "map.data = { queries: ['a'] };": "weights",
    "map.data = { weights: [[[1]]] };": "number",
    "map.addEventListener('attn-error', ({ detail }) => { console.log(detail.code); });": "code",
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


def test_the_module_is_one_file(site, open_page):
    """A notebook loads the text of the module from a blob: address, where no relative import works, and an HTML export holds that text."""
    folder, origin, daemon = site
    (folder / "blob.html").write_text("<!doctype html><meta charset=utf-8><title>blob</title><div id=cell></div>")
    page = open_page(origin + "/blob.html", allow=["asks " + daemon.url])
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(f"""async () => {{
        const text = await (await fetch('{daemon.url}/web/attn.js')).text();
        const {{default: widget}} = await import(URL.createObjectURL(new Blob([text], {{type: 'text/javascript'}})));
        const traits = {{kind: 'words', data: {DATA}}};
        widget.render({{el: document.getElementById('cell'),
                       model: {{get: (name) => traits[name], set() {{}}, save_changes() {{}}, on() {{}}, off() {{}}}}}});
    }}""")
    page.wait_for_selector("attn-words .words-query li:has-text('cat')")
    assert [url for url in asked if not url.startswith("blob:")] == [daemon.url + "/web/attn.js"]


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
