"""GET /, /v1/examples and /openapi.json: what the service says of itself."""
import json
import re

import pytest
from api_client import ask, qkv
from conftest import ROOT, run_attnd
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

FILES = sorted((ROOT / "config" / "examples").glob("*.json"))
TEXT = {"Accept": "text/plain"}


@pytest.fixture(scope="module")
def document(daemon):
    reply = daemon.get("/openapi.json")
    assert reply.status_code == 200 and reply.headers["Content-Type"] == "application/json"
    return reply.json()


def schema(document, name):
    """A validator of one of the document's schemas."""
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": document["components"]})


# --- examples ---

def test_the_list_holds_every_example_in_order(daemon, document):
    listed = daemon.get("/v1/examples").json()
    schema(document, "Examples").validate(listed)
    files = [json.loads(f.read_text()) for f in FILES]
    files.sort(key=lambda e: (e["order"], e["id"]))
    assert listed == {"examples": [
        {k: e[k] for k in ("id", "title", "what", "tags", "names") if k in e} | {"href": f"/v1/examples/{e['id']}"} for e in files]}


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_an_example_is_its_file(daemon, document, file):
    reply = daemon.get(f"/v1/examples/{file.stem}")
    assert reply.content == file.read_bytes()
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.json()["id"] == file.stem
    schema(document, "Example").validate(reply.json())


def test_an_example_that_is_not_there(daemon):
    reply = daemon.get("/v1/examples/causl")
    assert reply.status_code == 404 and reply.json()["code"] == "not_found"
    assert '"causal"' in reply.json()["detail"]
    assert daemon.get("/v1/examples/..%2Fattnd").status_code == 404
    assert daemon.get("/v1/examples/causal.json").status_code == 404


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_every_request_of_an_example_can_be_posted_as_it_stands(daemon, file):
    example = daemon.get(f"/v1/examples/{file.stem}").json()
    for case in [*example["cases"], *([example["data"]] if "data" in example else [])]:
        reply = daemon.request(case["method"], case["path"], json=case["request"],
                               headers={"Accept": case.get("accept", "*/*")})
        assert reply.status_code == case.get("status", 200), (case["title"], reply.text)


def test_data_of_an_example_is_a_picture(daemon):
    data = daemon.get("/v1/examples/quality-and-length").json()["data"]
    drawn = daemon.post(data["path"], data["request"], headers={"Accept": "image/svg+xml"})
    assert "BLEU score" in drawn.text and "source sentence length" in drawn.text and "with attention" in drawn.text


def test_examples_of_the_document_can_be_posted(daemon, document):
    for path, item in document["paths"].items():
        content = item.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        for name, one in content.get("examples", {}).items():
            assert daemon.post(path, one["value"]).status_code in (200, 201), (path, name)


def test_the_list_as_text(daemon):
    text = daemon.get("/v1/examples", headers=TEXT).text
    assert all(f"/v1/examples/{file.stem}" in text for file in FILES)


# --- index ---

def test_index(daemon, document):
    index = daemon.get("/").json()
    schema(document, "Index").validate(index)
    assert index["version"] == daemon.version
    assert {(r["method"], r["path"]) for r in index["routes"]} == {
        (m.upper(), path) for path, item in document["paths"].items() for m in item}
    assert index["examples"] == daemon.get("/v1/examples").json()["examples"]


def test_every_link_of_the_index_works(daemon):
    index = daemon.get("/").json()
    for href in [e["href"] for e in index["examples"]] + [index["openapi"]]:
        assert daemon.get(href).status_code == 200
    for route in index["routes"]:
        if route["method"] == "GET" and "{" not in route["path"]:
            assert daemon.get(route["path"]).status_code == 200, route


def test_the_first_request_of_the_index_works(daemon):
    body = daemon.get("/").json()["try"].split("-d ")[1].strip("'")
    assert "output" in ask(daemon, json.loads(body))


def test_index_as_text(daemon):
    text = daemon.get("/", headers=TEXT).text
    assert "POST /v1/attention" in text and "/v1/examples/causal" in text
    assert max(len(line) for line in text.splitlines()) <= 160


# --- openapi ---

def python_of(description):
    """The indented program in a description."""
    return "\n".join(line[4:] for line in description.splitlines() if line.startswith("    "))


@pytest.mark.parametrize("name", ["SafetensorsBody", "NpyBody", "NpzBody"])
def test_the_document_teaches_binary_bodies(daemon, document, name, capsys):
    program = python_of(document["components"]["schemas"][name]["description"])
    assert "http://localhost:8080/v1/attention" in program
    exec(program.replace("http://localhost:8080", daemon.url), {})
    assert capsys.readouterr().out.split("\n")[0] == "[[1.         0.        ]"
    content = document["paths"]["/v1/attention"]["post"]["requestBody"]["content"]
    assert {"$ref": f"#/components/schemas/{name}"} in [kind["schema"] for kind in content.values()]


def test_the_document_is_compressed_when_asked(daemon):
    plain = daemon.get("/openapi.json", headers={"Accept-Encoding": "identity"})
    for _ in range(2):
        short = daemon.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
        assert short.headers["Content-Encoding"] == "gzip" and short.content == plain.content
        assert int(short.headers["Content-Length"]) * 5 < len(plain.content)
        assert "Accept-Encoding" in short.headers["Vary"] and short.headers["ETag"] != plain.headers["ETag"]
    again = daemon.get("/openapi.json", headers={"Accept-Encoding": "gzip", "If-None-Match": short.headers["ETag"]})
    assert again.status_code == 304
    assert "Content-Encoding" not in plain.headers


def test_the_server_of_the_document_is_the_address_of_the_request(daemon):
    """Behind a proxy the service may be below a path, so there the paths stand beside the document."""
    for headers, url in (({}, daemon.url), ({"Host": "localhost:1"}, "http://localhost:1"),
                         ({"X-Forwarded-For": "192.0.2.1"}, ".")):
        assert daemon.get("/openapi.json", headers=headers).json()["servers"] == [{"url": url}]


def test_the_document_is_printed_without_a_service(daemon):
    """The types of the API are made of it when the page is built."""
    printed = run_attnd("--print-openapi")
    assert printed.returncode == 0 and not printed.stderr
    assert printed.stdout == daemon.get("/openapi.json", headers={"X-Forwarded-For": "192.0.2.1"}).text


def test_every_operation_has_a_tag_and_sentences(document):
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    used = set()
    for item in document["paths"].values():
        for operation in item.values():
            used.update(operation["tags"])
            assert operation["description"].endswith(".") and operation["description"] != operation["summary"]
    assert used == set(tags)


def nested(leaf, axes):
    return nested([leaf], axes - 1) if axes else leaf


@pytest.mark.parametrize("name, leaves", [
    ("TensorList", [1]), ("BiasTensorList", [1, None]), ("MaskTensorList", [0.5, None, True]), ("FlagTensorList", [0, False]),
    ("IntegerTensorList", [2]), ("Numbers", [1.5, None]), ("Flags", [True]), ("BooleanTensorList", [True]),
    ("V2Data", [1, None, False])])
def test_lists_of_lists_have_as_many_axes_as_tensors(document, name, leaves):
    lists = schema(document, name)
    for axes in range(1, 9):
        assert all(lists.is_valid(nested(leaf, axes)) for leaf in leaves) and lists.is_valid(nested([], axes - 1))
    for wrong in (nested(leaves[0], 9), [leaves[0], [leaves[0]]], [[leaves[0]], []], "x", ["x"], {}):
        assert not lists.is_valid(wrong) or wrong == [[leaves[0]], []]
    assert not (True in leaves or False in leaves) or len(leaves) == 1 or not lists.is_valid([1, True])


def test_the_document_has_what_generators_of_clients_need(document):
    """Found with the generators of tests/clients: each of these made a client that did not compile or did not run."""
    def walk(node, place, names):
        if isinstance(node, list):
            for part in node:
                walk(part, place, names)
        if not isinstance(node, dict):
            return
        assert node.get("$ref") not in names, f"{place} refers to itself"
        assert node.get("type") != "array" or "items" in node, f"{place} has no items"
        assert not isinstance(node.get("enum"), list) or "type" in node, f"{place} has an enum without a type"
        assert not isinstance(node.get("type"), list) or len(set(node["type"]) - {"null"}) == 1, f"{place} has several types"
        assert "const" not in node and not (node.keys() == {"required"}), place
        fields = list(node["properties"]) if isinstance(node.get("properties"), dict) else []
        assert len({re.sub(r"\W", "_", name) for name in fields}) == len(fields), f"{place}: names that differ in a sign"
        assert not any("default" in field for field in node.get("properties", {}).values() if isinstance(field, dict)), place
        for key, value in node.items():
            walk(value, f"{place}/{key}", names)

    for name, node in document["components"]["schemas"].items():
        walk(node, name, {f"#/components/schemas/{name}"})
        for field, inner in node.get("properties", {}).items():
            if "$ref" not in inner and (inner.get("properties") or inner.get("enum")):
                made = name + (inner.get("title") or field.title().replace("_", ""))
                assert made not in document["components"]["schemas"], f"{name}.{field} would be named like {made}"


def test_nine_axes_are_refused(daemon):
    assert daemon.post("/v1/attention", {"query": nested(1, 9)}).status_code == 422


def test_the_document_is_valid(document):
    assert document["openapi"].startswith("3.1")
    validate(document)


def test_every_operation_has_its_errors(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            success = "204" if method == "delete" else {"/v1/models": "201", "/v1/runs": "201", "/v1/jobs": "202"}.get(path if method == "post" else None, "200")
            assert success in operation["responses"] and "503" in operation["responses"], path
            assert ("requestBody" in operation) == (method == "post" and not path.endswith("/cancel"))
            assert path.startswith("/v2") == ("422" not in operation["responses"])
    ids = [op["operationId"] for item in document["paths"].values() for op in item.values()]
    assert len(ids) == len(set(ids))


def test_every_field_is_documented(document):
    def walk(node):
        for name, field in node.get("properties", {}).items():
            assert len(field["description"]) > 15, name
            walk(field)
            walk(field.get("items", {}))

    for name in ("AttentionRequest", "MaskRequest", "PositionsRequest", "HeatmapsRequest", "AnalysesRequest",
                 "RunWhatIfRequest"):
        body = document["components"]["schemas"][name]
        assert body["additionalProperties"] is False
        walk(body)


def test_every_form_is_in_it(document):
    fields = set(document["components"]["schemas"]["AttentionRequest"]["properties"])
    assert {"query", "attn_mask", "heatmap", "labels", "timeout_ms", "score", "projections", "position", "pattern",
            "sinks", "dropout_p", "precision", "seed", "verify", "dry_run", "store"} <= fields


BODIES = [
    qkv(), qkv(B=1, H=2) | {"return": ["output", "present"], "scale": False, "window": [1, -1]},
    {"query": {"shape": [2, 2], "random": "normal", "seed": 1}, "query_offset": "end", "labels": {"key": ["a", "b"]}},
    {"query": {"shape": [2, 2], "dtype": "float64", "data": [1, 2, 3, 4]}, "attn_mask": [[0, None], [0, 0.5]]},
    {"query": {"shape": [2, 2], "fill": "eye"}, "attn_mask": [[True, False]], "return": None, "explain": True},
    {"query": [[1.0]], "key_padding_mask": [True], "key_padding_semantics": "keep", "key_lengths": [1],
     "token_ids": [3], "pad_id": 0, "mask_fill": {"value": -1e9, "mode": "add"}},
    {"query": {"shape": [300, 2], "fill": "ones"}, "explain": True, "key_lengths": [0]},
    *[qkv(B=2, H=2) | {"is_causal": True, "return": "heatmap", "heatmap": h} for h in (
        {}, {"pool": "both", "heads": "mean"}, {"encoding": "u8", "transform": "log", "top_k": 2},
        {"heads": [1], "batch": [0], "rows": [0, 2], "cols": [1, 4], "top_p": 0.5, "encoding": "f16"})],
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_requests_and_answers_match_their_schemas(daemon, document, body):
    schema(document, "AttentionRequest").validate(body)
    schema(document, "Attention").validate(ask(daemon, body))


@pytest.mark.parametrize("body", [
    {"shape": [3, 3], "masks": [{"kind": "causal"}]}, {"token_ids": [[1, 0]], "pad_id": 0},
    {"shape": [2, 200, 200], "masks": [{"kind": "values", "attn_mask": [0.5]}]},
    {"shape": [2, 2], "masks": [{"kind": "values", "attn_mask": [[0.5, None]] * 2}], "labels": {"key": ["a", "b"]}},
])
def test_masks_match_their_schemas(daemon, document, body):
    schema(document, "MaskRequest").validate(body)
    schema(document, "Mask").validate(ask(daemon, body, "/v1/masks"))


@pytest.mark.parametrize("body", [
    {}, {"query": [[1]], "extra": 1}, {"query": "x"}, {"query": [[1]], "is_causal": "yes"},
    {"query": [[1]], "decimals": 99}, {"query": [[1]], "return": ["everything"]}, {"query": [[1]], "window": "all"},
    {"query": [[1]], "heatmap": {"pool": "min"}}, {"query": [[1]], "labels": {"rows": []}}, {"query": [[None]]},
])
def test_what_the_schema_refuses_the_service_refuses(daemon, document, body):
    assert not schema(document, "AttentionRequest").is_valid(body)
    reply = daemon.post("/v1/attention", body)
    assert reply.status_code == 422
    schema(document, "Problem").validate(reply.json())


@pytest.mark.parametrize("path, name", [("/healthz", "Health"), ("/readyz", "Health"), ("/version", "Version")])
def test_status_answers_match_their_schemas(daemon, document, path, name):
    schema(document, name).validate(daemon.get(path).json())
