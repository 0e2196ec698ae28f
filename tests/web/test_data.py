"""The view of own data: pasted numbers, files, the form of all fields, finished weights, and runs by their id."""
import io
import json
import re

import numpy as np
import pytest
from conftest import run_of, until
from safetensors.numpy import save

PATH = "/v1/attention"
REFUSED = "Failed to load resource: the server responded with a status of 4"  # what Chromium logs of an answer that a test wants


@pytest.fixture
def page(daemon, open_page):
    page = open_page(daemon.url + "/#1/data")
    page.wait_for_selector("#data-query")
    return page


def compute(page):
    """Presses Compute and gives the body that is sent as JSON."""
    with page.expect_request(lambda r: r.method == "POST" and "/v1/attention" in r.url) as sent:
        page.get_by_role("button", name="Compute").click()
    return json.loads(sent.value.post_data or "null")


def choose(page, *files):
    page.set_input_files("input[type=file]", [{"name": name, "mimeType": "application/octet-stream", "buffer": data} for name, data in files])


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(compressed=True, **arrays):
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


def tensors():
    random = np.random.default_rng(3)
    return tuple(random.standard_normal(shape).astype(np.float32) for shape in ((2, 6, 8), (2, 5, 8), (2, 5, 3)))


def same_run(daemon, page, body):
    """The shown run has the weights that the service gives to this body."""
    until(page, "location.hash.startsWith('#1/matrix')")
    run = run_of(page)
    want = np.array(daemon.post(PATH, {**body, "return": "weights"}).json()["weights"])
    sites = daemon.get(f"/v1/runs/{run}").json()["sites"][0]
    got = [daemon.get(f"/v1/runs/{run}/weights?batch={b}&head={h}").json()["weights"] for b in range(sites["num_batches"]) for h in range(sites["num_heads"])]
    assert np.array_equal(np.array(got).ravel(), want.ravel())


# What is pasted

def test_pasted_json_makes_a_run(daemon, page):
    page.fill("#data-query", "[[1, 0, 0], [0, 1, 0]]")
    page.fill("#data-key", "[[1, 2, 3], [4, 5, 6]]")
    page.fill("#data-value", "[[0, 1, 0], [1, 0, 1]]")
    page.check("#data-is_causal")
    body = compute(page)
    assert body == {"query": [[1, 0, 0], [0, 1, 0]], "key": [[1, 2, 3], [4, 5, 6]], "value": [[0, 1, 0], [1, 0, 1]], "is_causal": True, "store": True}
    body.pop("store")
    same_run(daemon, page, body)


ARRAYS = {
    "floats": np.array([[1.0, 2.0], [3.5, -4e-12]]),
    "float32": np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32),
    "long rows": np.arange(120.0).reshape(2, 60) / 7,
    "three axes": np.arange(24).reshape(2, 3, 4),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("printed", [str, repr])
def test_what_numpy_prints_is_read(page, name, printed):
    page.fill("#data-query", printed(ARRAYS[name]))
    got = np.array(compute(page)["query"])
    assert got.shape == ARRAYS[name].shape and np.allclose(got, ARRAYS[name], atol=1e-7, rtol=1e-6)


def test_masks_that_numpy_and_torch_print_are_read(page):
    page.fill("#data-query", "tensor([[1., 2.],\n        [3., 4.]])")
    page.fill("#data-attn_mask", "[[ True False]\n [ True  True]]")
    assert compute(page)["attn_mask"] == [[True, False], [True, True]]
    until(page, "location.hash.startsWith('#1/matrix')")
    page.get_by_role("button", name="Own data").click()
    page.fill("#data-attn_mask", "array([[  0., -inf],\n       [  0.,   0.]])")
    assert compute(page)["attn_mask"] == [[0, None], [0, 0]]


LINES = {
    "blanks": "1 0 0\n0 1 0", "commas": "1, 0, 0\n0,1,0,\n", "tabs": "1\t0\t0\n0\t1\t0", "semicolons": "1;0;0\n0;1;0",
    "empty lines": "\n 1 0 0 \n\n  0 1e0 -0\n",
}


@pytest.mark.parametrize("form", LINES)
def test_rows_of_numbers_need_no_brackets(page, form):
    page.fill("#data-query", LINES[form])
    page.fill("#data-key", "2.5 -1 .5")
    body = compute(page)
    assert body["query"] == [[1, 0, 0], [0, 1, 0]] and body["key"] == [[2.5, -1, 0.5]]
    until(page, "location.hash.startsWith('#1/matrix')")


@pytest.mark.parametrize("field, text, sentence", [
    ("query", "1 0 0\n0 x1 0", 'Line 2, number 2: expected a number, found "x1".'),
    ("query", "1 0 0\n\n0 1", "Line 3 has 2 numbers, and line 1 has 3."),
    ("query", "1, 0\n0,, 1", "Line 2, number 2 is missing between two commas."),
    ("key", "1 2\n3 nan", 'Line 2, number 2: "nan" is not a number'),
    ("query", "[[1. 2. ... 3.]]", "NumPy left numbers out"),
    ("query", "[[1 2]\n [3]]", "unequal lengths"),
    ("query", "[[1 2]", '"]" is missing'),
    ("query", "[1 2]]", '"]" more'),
    ("query", "[[1 nan]]", '"nan" is not a number'),
    ("query", "hello", 'found "hello"'),
    ("labels", "[the cat]", "Expected words in quotes"),
    ("query", "", "A query is needed"),
])
def test_a_text_that_cannot_be_read_is_named_at_its_field(page, field, text, sentence):
    if field != "query":
        page.fill("#data-query", "[[1, 2]]")
    page.fill(f"#data-{field}", text)
    page.get_by_role("button", name="Compute").click()
    page.wait_for_selector(f"#data-{field}[aria-invalid]")
    assert sentence in page.inner_text(f"#data-{field}-about .bad")
    assert page.evaluate("document.activeElement.id") == f"data-{field}"
    assert page.get_attribute(f"#data-{field}", "aria-describedby") == f"data-{field}-about"
    page.fill(f"#data-{field}", "[[1, 2]]")
    assert page.locator(f"#data-{field}-about .bad").count() == 0


# The form

def test_the_form_has_all_fields_of_the_schema(daemon, page):
    fields = daemon.get("/openapi.json").json()["components"]["schemas"]["AttentionRequest"]["properties"]
    for name, schema in fields.items():
        if name == "store":  # every run is stored
            continue
        control = page.locator(f"#data-{name}")
        assert control.count() == 1, name
        kind = control.evaluate("e => e.type")
        types = [t for t in (schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type")]) if t not in (None, "null")]
        want = "select-one" if "enum" in schema else {"boolean": "checkbox", "integer": "number", "number": "number"}.get(types[0] if types else "", "textarea")
        assert kind == want, name
        assert schema["description"] in page.locator(f"#data-{name}-about").text_content()
        if "enum" in schema:
            assert control.evaluate("e => [...e.options].slice(1).map((o) => o.value)") == [x for x in schema["enum"] if x]
        if kind == "number" and "minimum" in schema:
            assert control.get_attribute("min") == str(schema["minimum"])
    assert page.locator("details.data-group summary").all_inner_texts()[:1][0].startswith("Tensors")


def test_a_search_finds_fields(page):
    page.fill("#data-search", "softcap")
    assert page.locator(".data-field").count() >= 1
    assert page.locator(".data-field label code").first.inner_text() == "softcap"
    page.fill("#data-softcap", "5")
    page.fill("#data-search", "rotates query and key zebra")
    assert page.inner_text(".data-found") == "0 fields"
    page.fill("#data-search", "")
    assert "softcap" in page.locator("summary", has_text="Scores").inner_text()


def test_every_kind_of_field_is_sent(page):
    page.get_by_role("button", name="causal, 4 words").click()
    for group in ("Tensors", "Masks", "Scores", "Output"):
        page.locator("summary", has_text=group).click()
    page.fill("#data-position", "alibi")
    page.fill("#data-window", "[2, 0]")
    page.fill("#data-softcap", "4.5")
    page.fill("#data-decimals", "3")
    page.uncheck("#data-enable_gqa")
    page.select_option("#data-precision", "fast")
    page.check("#data-explain")
    body = compute(page)
    assert {k: body[k] for k in ("position", "window", "softcap", "decimals", "enable_gqa", "precision", "explain", "is_causal")} == {
        "position": "alibi", "window": [2, 0], "softcap": 4.5, "decimals": 3, "enable_gqa": False, "precision": "fast", "explain": True, "is_causal": True}
    assert body["labels"] == ["the", "cat", "sat", "down"]
    until(page, "location.hash.startsWith('#1/matrix')")
    page.get_by_role("button", name="Own data").click()
    assert "diagnostics" in page.inner_text("pre[aria-label=answer]")
    assert page.input_value("#data-softcap") == "4.5"


def test_a_dry_run_shows_its_answer(page):
    page.get_by_role("button", name="identity").click()
    page.locator("summary", has_text="Output").click()
    page.check("#data-dry_run")
    assert "store" not in compute(page)
    page.wait_for_selector("pre[aria-label=answer]")
    assert '"fits": true' in page.inner_text("pre[aria-label=answer]")


@pytest.mark.parametrize("sample, heads, length", [("identity", 1, 4), ("causal, 4 words", 1, 4), ("random 8 heads", 8, 64)])
def test_samples_make_runs(daemon, page, sample, heads, length):
    page.get_by_role("button", name=sample).click()
    compute(page)
    site = daemon.get(f"/v1/runs/{run_of(page)}").json()["sites"][0]
    assert (site["num_heads"], site["num_queries"]) == (heads, length)


def test_a_refused_request_keeps_what_was_typed(page):
    page.allow = ("422",)
    page.get_by_role("button", name="causal, 4 words").click()
    compute(page)
    until(page, "location.hash.startsWith('#1/matrix')")
    page.click("nav >> text=Own data")
    page.fill("#data-query", "9 9 9\n8 8 8")
    compute(page)
    page.wait_for_selector("main > .trouble")
    assert page.eval_on_selector("main > :not(.trouble)", "x => getComputedStyle(x).opacity") == "1"
    page.fill("#data-query", "9 9 8\n8 8 8")
    page.click("nav >> text=Matrix")
    page.wait_for_selector(".matrix-map[data-busy=false]")
    assert page.locator("main > .trouble").count() == 0, "it shows the run before"
    page.click("nav >> text=Own data")
    assert page.input_value("#data-query") == "9 9 8\n8 8 8"


def test_an_error_of_the_service_stands_at_its_field(page):
    page.allow = (REFUSED,)
    page.fill("#data-query", "[[1, 2], [3, 4]]")
    page.locator("summary", has_text="Scores").click()
    page.fill("#data-position", '{"kind": "t6"}')
    page.get_by_role("button", name="Compute").click()
    page.wait_for_selector("#data-position[aria-invalid]")
    assert 'did you mean "t5"?' in page.inner_text("#data-position-about .bad")
    assert page.evaluate("document.activeElement.id") == "data-position"
    assert "did you mean" in page.inner_text(".trouble")
    page.fill("#data-position", "t5")
    assert page.locator("[aria-invalid], .trouble").count() == 0


def test_ctrl_enter_computes(page):
    page.fill("#data-query", "[[1, 0], [0, 1]]")
    page.focus("#data-query")
    page.keyboard.press("Control+Enter")
    until(page, "location.hash.startsWith('#1/matrix')")


# Files

CONTAINERS = {
    "npy": lambda q, k, v: [("query.npy", npy(q))],
    "three npy": lambda q, k, v: [("query.npy", npy(q)), ("k.npy", npy(np.asfortranarray(k))), ("Value.npy", npy(v))],
    "npz": lambda q, k, v: [("all.npz", npz(q=q, k=k, v=v))],
    "npz, stored": lambda q, k, v: [("all.npz", npz(compressed=False, query=q, key=k, value=v))],
    "safetensors": lambda q, k, v: [("all.safetensors", save({"value": v, "other": q, "query": q, "key": k}))],
    "safetensors and npy": lambda q, k, v: [("qk.safetensors", save({"q": q, "k": k})), ("v.npy", npy(v))],
}
TYPES = {"npy": "x-npy", "three npy": "x-npz", "npz": "x-npz", "npz, stored": "x-npz", "safetensors": "vnd.safetensors", "safetensors and npy": "x-npz"}


@pytest.mark.parametrize("form", CONTAINERS)
def test_files_of_tensors_are_sent_as_they_are(daemon, page, form):
    q, k, v = tensors()
    files = CONTAINERS[form](q, k, v)
    choose(page, *files)
    until(page, f"document.querySelectorAll('.data-file').length === {len(files)}")
    page.check("#data-is_causal")
    with page.expect_request(lambda r: r.method == "POST" and "/v1/attention" in r.url) as sent:
        page.get_by_role("button", name="Compute").click()
    assert sent.value.headers["content-type"] == f"application/{TYPES[form]}"
    assert ("store=true" in sent.value.url) == (form == "npy")
    body = {"query": q.tolist(), "is_causal": True}
    same_run(daemon, page, body if form == "npy" else {**body, "key": k.tolist(), "value": v.tolist()})


def test_a_tensor_is_used_as_any_field(daemon, page):
    q, k, _ = tensors()
    choose(page, ("strange.npz", npz(first=q, second=k, request=np.array(json.dumps({"scale": 0.5})))))
    page.wait_for_selector(".data-file")
    page.select_option("[aria-label='use first as']", "query")
    page.select_option("[aria-label='use second as']", "key")
    assert "2 × 6 × 8: first of strange.npz" in page.inner_text(".data-held >> nth=0")
    with page.expect_request("**/v1/attention"):
        page.get_by_role("button", name="Compute").click()
    same_run(daemon, page, {"query": q.tolist(), "key": k.tolist(), "scale": 0.5})
    page.get_by_role("button", name="Own data").click()
    page.get_by_role("button", name="take out strange.npz").click()
    assert page.locator(".data-held").count() == 0 and page.locator(".data-file").count() == 0


def test_files_can_be_dropped(page):
    data = list(npy(np.eye(3, dtype=np.float32)))
    page.evaluate("""(bytes) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([new Uint8Array(bytes)], 'query.npy'));
        document.querySelector('.data-drop').dispatchEvent(new DragEvent('drop', {dataTransfer: transfer, bubbles: true, cancelable: true}));
    }""", data)
    page.wait_for_selector(".data-file")
    assert "F32, 3 × 3" in page.inner_text(".data-held")


BAD = {
    "unknown": (b"GIF89a, a picture", "is of no known kind. Expected a .npy, .npz or .safetensors file, JSON, or a table of numbers"),
    "empty": (b"", "is empty. Expected"),
    "npy, cut": (npy(np.eye(4))[:200], "is damaged: its header asks for 256 bytes, and it has 200."),
    "npy, header": (b"\x93NUMPY\x01\x00\xff\xff{", "ends within its header"),
    "npz, cut": (npz(a=np.eye(4))[:120], "has a directory at its end, and this one has none"),
    "safetensors, cut": (save({"query": np.eye(4)})[:-8], "ends within the tensor query"),
    "safetensors, header": ((10**6).to_bytes(8, "little") + b'{"query": {', "its header is said to have 1000000 bytes"),
    "json, cut": (b'{"query": [[1, 2', "is damaged JSON"),
    "json, other": (b'{"a": 1}', 'neither a request with "query", nor weights'),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_in_a_sentence(page, name):
    data, sentence = BAD[name]
    choose(page, ("my.file", data))
    page.wait_for_selector(".data-trouble")
    text = page.inner_text(".data-trouble")
    assert text.startswith("my.file") or " my.file" in text
    assert sentence in text


def sparse(path, header, size):
    """A file of so many bytes that begins with this header and takes no room on the disk."""
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(size)
    return path


def test_tensors_that_the_service_would_refuse_are_refused_in_a_sentence(page, tmp_path):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (4000000, 64)})
    page.set_input_files("input[type=file]", sparse(tmp_path / "large.npy", head.getvalue(), len(head.getvalue()) + 4 * 64 * 4000000))
    page.wait_for_selector(".data-file")
    assert "1.02 GB" in page.inner_text(".data-file p") and "4000000 × 64" in page.inner_text(".data-file li")
    sent = []
    page.on("request", lambda r: sent.append(r.url) if r.method == "POST" else None)
    page.select_option("[aria-label='use large as']", "query")
    page.get_by_role("button", name="Compute").click()
    page.wait_for_selector(".trouble")
    assert page.inner_text(".trouble") == "The tensors of this request have 1.02 GB. The service takes requests of up to 268.4 MB (max_body_bytes)."
    assert sent == []


def test_a_request_in_a_file_fills_the_form(page):
    page.allow = (REFUSED,)
    choose(page, ("request.json", json.dumps({"query": [[1, 0], [0, 1]], "is_casual": True, "store": True}).encode()))
    until(page, "document.querySelector('#data-query').value !== ''")
    assert page.input_value("#data-query") == "[[1,0],\n [0,1]]"
    page.get_by_role("button", name="Compute").click()
    page.wait_for_selector("#data-is_casual[aria-invalid]")
    assert 'did you mean "is_causal"?' in page.inner_text("#data-is_casual-about")


def test_long_numbers_of_a_request_are_held(daemon, page):
    q = np.random.default_rng(5).standard_normal((128, 64)).round(4)
    choose(page, ("long.json", json.dumps({"query": q.tolist()}).encode()))
    page.wait_for_selector(".data-held")
    assert page.inner_text(".data-held span") == "128 × 64 numbers of long.json"
    assert compute(page)["query"] == q.tolist()


# Captures and runs

def capture():
    q, k, _ = tensors()
    sites = [{"name": f"layers.{i}", "layer": i, "query_text": 0} for i in range(2)]
    arrays = {f"sites.{i}.{name}": x[None] for i in range(2) for name, x in (("query", q), ("key", k))}
    return save(arrays, {"run": json.dumps({"version": 2, "texts": [{"tokens": "a cat sat on the mat".split()}], "sites": sites})})


def test_a_capture_is_imported_and_opened(daemon, page):
    data = capture()
    with page.expect_request("**/v1/runs") as sent:
        choose(page, ("model.safetensors", data))
    assert sent.value.headers["content-type"] == "application/vnd.safetensors"
    until(page, "location.hash.startsWith('#1/matrix')")
    assert [s["name"] for s in daemon.get(f"/v1/runs/{run_of(page)}").json()["sites"]] == ["layers.0", "layers.1"]


LARGE = 1_300_000_000


def large_capture(path):
    rows = LARGE // 256 // 2
    run = {"version": 2, "sites": [{"name": "large", "query": "q", "key": "k"}]}
    tensors = {name: {"dtype": "F32", "shape": [1, 1, rows, 64], "data_offsets": [i * rows * 256, (i + 1) * rows * 256]} for i, name in enumerate("qk")}
    text = json.dumps({"__metadata__": {"run": json.dumps(run)}, **tensors}).encode()
    text += b" " * (-len(text) % 8)
    return sparse(path, len(text).to_bytes(8, "little") + text, 8 + len(text) + 2 * rows * 256)


def test_a_capture_of_more_than_a_gigabyte_is_streamed(daemon, open_page, tmp_path):
    page = open_page(daemon.url + "/#1/data", allow=("no answer",), script="""
        XMLHttpRequest.prototype.send = function (body) { window.body = [body instanceof File, body.size, body.name]; };""")
    page.wait_for_selector("#data-query")
    page.set_input_files("input[type=file]", large_capture(tmp_path / "large.safetensors"))
    until(page, "window.body !== undefined")
    assert page.evaluate("window.body") == [True, (tmp_path / "large.safetensors").stat().st_size, "large.safetensors"]
    assert "0.0 KB of 1.30 GB sent" in page.inner_text(".data-import p")


def test_a_capture_that_is_longer_than_the_limit(start, open_page, tmp_path):
    (tmp_path / "runs").mkdir()
    daemon = start("--ops-listen", "", "--log", "off", "--runs-dir", tmp_path / "runs", "--max-capture-bytes", "1000000000")
    page = open_page(daemon.url + "/#1/data")
    page.wait_for_selector("#data-query")
    sent = []
    page.on("request", lambda r: sent.append(r.url) if r.method == "POST" else None)
    page.set_input_files("input[type=file]", large_capture(tmp_path / "large.safetensors"))
    page.wait_for_selector(".data-trouble")
    assert page.inner_text(".data-trouble") == "large.safetensors has 1.30 GB. The service takes captures of up to 1.00 GB (max_capture_bytes)."
    assert sent == []


def test_an_import_can_be_cancelled(page):
    page.allow = ("ERR_FAILED", "net::")
    page.route("**/v1/runs", lambda route: None)
    choose(page, ("model.safetensors", capture()))
    page.wait_for_selector(".data-import progress")
    assert re.search(r"model\.safetensors(: [\d.]+ KB of [\d.]+ KB sent| is sent)", page.inner_text(".data-import p"))
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector(".data-import", state="detached")
    assert "is cancelled" in page.text_content(".status [aria-live]")


def test_a_capture_that_the_service_refuses(page):
    page.allow = (REFUSED,)
    choose(page, ("model.safetensors", save({"q": np.eye(2)}, {"run": '{"version": 2, "sites": []}'})))
    page.wait_for_selector(".data-trouble")
    assert "site" in page.inner_text(".data-trouble")


@pytest.mark.parametrize("form", ["id", "link"])
def test_a_run_is_opened_by_its_id_or_link(daemon, page, form):
    run = daemon.post(PATH, {"query": [[1, 0], [0, 1]], "store": True}).json()["run"]["id"]
    page.fill("#data-run", run if form == "id" else f"http://elsewhere:8080/p/#1/matrix?r={run}&h=0")
    page.get_by_role("button", name="Open", exact=True).click()
    until(page, f"location.hash.startsWith('#1/matrix?r={run}')")


@pytest.mark.parametrize("text, sentence", [("hello", "Expected the id of a run"), ("0" * 32, "keeps no run of this id")])
def test_a_run_that_is_none(page, text, sentence):
    page.allow = (REFUSED,)
    page.fill("#data-run", text)
    page.get_by_role("button", name="Open", exact=True).click()
    until(page, "document.querySelector('#data-run-about').textContent !== ''")
    assert sentence in page.inner_text("#data-run-about")


# What takes long, and what a link cannot hold

def test_a_long_request_tells_its_progress_and_can_be_cancelled(start, open_page):
    daemon = start("--async-ms", "0", "--ops-listen", "", "--log", "off")
    page = open_page(daemon.url + "/#1/data")
    page.wait_for_selector("#data-query")
    page.fill("#data-query", '{"shape": [1, 8, 16384, 64], "random": "normal", "seed": 3}')
    with page.expect_request("**/v1/attention") as sent:
        page.get_by_role("button", name="Compute").click()
    assert sent.value.headers["prefer"] == "respond-async"
    page.wait_for_selector(".data-send progress")
    assert re.fullmatch(r"The service computes: \d+ %", page.inner_text(".data-send [role=status]"))
    with page.expect_request(lambda r: r.method == "POST" and r.url.endswith("/cancel")):
        page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector(".data-send .main")
    assert "is cancelled" in page.inner_text(".data-send [role=status]")
    page.fill("#data-query", '{"shape": [64, 8], "random": "normal", "seed": 3}')
    page.get_by_role("button", name="Compute").click()  # a job that is done gives its run
    until(page, "location.hash.startsWith('#1/matrix')")
    assert daemon.get(f"/v1/runs/{run_of(page)}").json()["sites"][0]["num_queries"] == 64


def test_a_run_of_files_can_be_kept(daemon, page, tmp_path):
    q, k, v = tensors()
    choose(page, ("q.npy", npy(q)), ("k.npy", npy(k)))
    page.wait_for_selector(".data-file >> nth=1")
    page.check("#data-is_causal")
    page.get_by_role("button", name="Compute").click()
    until(page, "location.hash.startsWith('#1/matrix')")
    first = run_of(page)
    page.get_by_role("button", name="Share").click()
    page.wait_for_selector("dialog time")
    text = page.inner_text("dialog p >> nth=0")
    assert re.match(r"The link shows the run as long as the service keeps it \(until .*\d\d:\d\d, and longer if someone looks at it\); save the file to keep it\.", text)
    with page.expect_download() as box:
        page.get_by_role("button", name="Save attention.npz").click()
    box.value.save_as(tmp_path / "attention.npz")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Own data").click()
    for name in ("q.npy", "k.npy"):
        page.get_by_role("button", name=f"take out {name}").click()
    page.get_by_role("button", name="Clear").click()
    page.set_input_files("input[type=file]", tmp_path / "attention.npz")
    page.wait_for_selector(".data-held >> nth=1")
    assert page.is_checked("#data-is_causal")
    page.get_by_role("button", name="Compute").click()
    until(page, f"location.hash.startsWith('#1/matrix') && !location.hash.includes('{first}')")
    weights = [daemon.get(f"/v1/runs/{run}/weights?batch=1").json()["weights"] for run in (first, run_of(page))]
    assert weights[0] == weights[1]


def test_a_run_that_was_opened_says_how_long_it_is_kept(daemon, open_page):
    run = daemon.post(PATH, {"query": [[1, 0], [0, 1]], "store": True}).json()["run"]["id"]
    page = open_page(f"{daemon.url}/#1/matrix?r={run}&h=0")
    page.wait_for_selector(".matrix-map[data-busy=false]")
    page.get_by_role("button", name="Share").click()
    page.wait_for_selector("dialog time")
    assert "save the file" not in page.inner_text("dialog p >> nth=0") and page.get_by_role("button", name="Save ").count() == 0


# Finished weights

WORDS = "the cat sat on a mat".split()


def weights():
    w = np.random.default_rng(9).random((3, 4, 6, 6))
    return w / w.sum(-1, keepdims=True)


FINISHED = {
    "tokens": lambda w: ("w.json", json.dumps({"tokens": WORDS, "attention": w.tolist()}).encode()),
    "two texts": lambda w: ("w.json", json.dumps({"left_text": WORDS, "right_text": WORDS, "attn": w.tolist()}).encode()),
    "views": lambda w: ("w.json", json.dumps({"attention": [
        {"name": "encoder", "attn": w.tolist(), "left_text": WORDS, "right_text": WORDS},
        {"name": "cross", "attn": w[:1].tolist(), "left_text": WORDS, "right_text": WORDS}]}).encode()),
    "npz": lambda w: ("w.npz", npz(weights=w.astype(np.float32)[:, None])),
    "npy, other order": lambda w: ("weights.npy", npy(np.asfortranarray(w[:, None]))),
}


@pytest.mark.parametrize("form", FINISHED)
def test_finished_weights_are_drawn(page, form):
    w = weights()
    choose(page, FINISHED[form](w))
    page.wait_for_selector(".data-picture canvas")
    assert page.get_by_role("button", name="Open in all views").is_visible()
    page.select_option(".data-picks label:has-text('layer') select", "2")
    page.select_option(".data-picks label:has-text('head') select", "3")
    page.select_option(".data-strongest select", "4")
    row = w[2, 3, 4]
    want = [f"{row[k]:.3f}" for k in np.argsort(-row)[:5]]
    until(page, f"document.querySelector('.data-strongest tbody td')?.textContent === '{want[0]}'")
    assert page.eval_on_selector_all(".data-strongest tbody td:nth-child(2)", "l => l.map((x) => x.textContent)") == want
    if "npy" not in form and "npz" not in form:
        assert page.inner_text(".data-strongest tbody bdi >> nth=0") == WORDS[int(np.argmax(row))]
    until(page, "document.querySelector('.data-pattern').textContent.startsWith('This head ')")


def test_the_heatmap_has_the_colours_of_the_service(page):
    page.allow = ("willReadFrequently",)
    w = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    choose(page, ("w.json", json.dumps({"attention": w.tolist(), "tokens": ["a", "b", "c"]}).encode()))
    page.wait_for_selector(".data-picture canvas")
    until(page, "document.querySelector('.data-picture canvas').width > 150")
    pixels = page.evaluate("""() => {
        const canvas = document.querySelector('.data-picture canvas'), [rows, left, top] = [3, 42, 42];
        const cell = (canvas.clientWidth - left) / rows, context = canvas.getContext('2d');
        return [...Array(9).keys()].map((i) => [...context.getImageData(left + (i % 3) * cell + 3, top + Math.floor(i / 3) * cell + 3, 1, 1).data.slice(0, 3)]);
    }""")
    assert pixels[0] == [8, 48, 107] and pixels[1] == pixels[2] == pixels[5] == [247, 251, 255]  # the ends of Blues
    assert pixels[3] == pixels[4] == pixels[8] and pixels[6] != pixels[7]


def test_warnings_about_weights_are_shown(page):
    choose(page, ("w.json", b'{"attention": [[0.6, 0.4], [0.2, 0.9]]}'))
    page.wait_for_selector(".data-weights .bad")
    assert "does not sum to 1" in page.inner_text(".data-weights .bad")
    page.get_by_role("button", name="Back to the request").click()
    page.wait_for_selector("#data-query")


# Small and large

@pytest.mark.parametrize("width, zoom", [(390, 100), (1440, 200)])
def test_nothing_is_cut_off(page, width, zoom):
    page.set_viewport_size({"width": width, "height": 844})
    page.evaluate("size => { document.documentElement.style.fontSize = size; }", f"{15 * zoom / 100}px")
    for group in ("Tensors", "Masks", "Scores", "Output"):
        page.locator("summary", has_text=group).click()
    assert page.evaluate("(() => { const m = document.querySelector('main'); return m.scrollWidth - m.clientWidth; })()") <= 0
    small = page.eval_on_selector_all(".data button, .data select, .data input, .data textarea",
                                      "list => list.filter((e) => !e.matches('.hidden, [type=checkbox]') && e.getBoundingClientRect().height < 24).map((e) => e.outerHTML.slice(0, 80))")
    assert small == []
