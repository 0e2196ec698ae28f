"""GET /problems and /problems/{code}: what the `type` of a problem refers to."""
import re
from urllib.parse import urljoin

import pytest
from conftest import ROOT
from jsonschema import Draft202012Validator

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
MASK = {"query": [[1], [2]], "attn_mask": [[1, 0], [1, 1]]}


@pytest.fixture(scope="module")
def problems(daemon):
    return daemon.get("/problems").json()["problems"]


@pytest.fixture(scope="module")
def components(daemon):
    return daemon.get("/openapi.json").json()["components"]


def test_the_readme_has_the_table_of_codes(problems):
    text = (ROOT / "server" / "api" / "README.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([45]\d\d) \| (.*) \|$", text.split("## Errors")[1], re.M)
    assert rows == [(one["code"], str(one["status"]), one["meaning"]) for one in problems]


def test_the_document_names_the_codes_of_the_table(daemon, problems, components):
    codes = [one["code"] for one in problems]
    assert components["schemas"]["ProblemCode"]["enum"] == codes and len(codes) == len(set(codes))
    paths = daemon.get("/openapi.json").json()["paths"]
    assert paths["/problems/{code}"]["get"]["parameters"][-1]["schema"] == {"$ref": "#/components/schemas/ProblemCode"}
    Draft202012Validator({"$ref": "#/components/schemas/ProblemKinds", "components": components}).validate({"problems": problems})


def test_every_type_answers(daemon, problems):
    for one in problems:
        example = one["example"]
        assert example["type"] == f"/problems/{one['code']}" and example["code"] == one["code"]
        assert (example["status"], example["title"]) == (one["status"], one["title"])
        assert all(one[name].endswith(".") for name in ("meaning", "remedy")) and "error" not in example
        assert daemon.get(example["type"]).json() == one
        page = daemon.get(example["type"], headers=HTML)
        assert page.status_code == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert all(text in page.text.replace("&#34;", '"') for text in (one["title"], one["code"], one["meaning"], one["remedy"]))


@pytest.mark.parametrize("path", ["/problems", "/problems/mask_semantics"])
def test_pages_keep_the_policy_and_load_files_of_the_service(daemon, path):
    page = daemon.get(path, headers=HTML)
    assert page.headers["Content-Security-Policy"] == daemon.get("/docs").headers["Content-Security-Policy"]
    assert "style=" not in page.text and "<style" not in page.text and "<script>" not in page.text and "%" not in page.text
    links = re.findall(r'(?:href|src)="([^"]*)"', page.text)
    assert len(links) >= 5 and not any(link.startswith(("/", "http", "data")) for link in links), "behind a prefix they would fail"
    for link in set(links):
        assert daemon.get(urljoin(path, link)).status_code == 200, link


def test_the_page_lists_every_code(daemon, problems):
    page = daemon.get("/problems", headers=HTML).text
    assert re.findall(r'<a href="problems/(\w+)">', page) == [one["code"] for one in problems]


def test_an_unknown_code(daemon):
    problem = daemon.get("/problems/unknown_fild").json()
    assert problem["status"] == 404 and problem["detail"] == (
        'there is no problem "unknown_fild"; did you mean "unknown_field"? GET /problems lists those that there are')
    assert daemon.get("/problems/xyz", headers=HTML).json()["detail"].startswith('there is no problem "xyz"; GET /problems')


@pytest.mark.parametrize(("code", "method", "path", "options"), [
    ("malformed_json", "POST", "/v1/attention", {"data": b'{"query":[[1,0],[0,1]'}),
    ("bad_request", "GET", "/v1/models?limit=1&limit=1", {}),
    ("forbidden", "DELETE", "/v1/models/en-fr", {}),
    ("not_found", "GET", "/v1/models/en-de", {}),
    ("method_not_allowed", "DELETE", "/v1/models", {}),
    ("unsupported_media_type", "POST", "/v1/attention", {"json": {"query": [[1]]}, "headers": {"Content-Encoding": "br"}}),
    ("expectation_failed", "GET", "/healthz", {"headers": {"Expect": "x"}}),
    ("misdirected_request", "GET", "/v1/models", {"headers": {"Host": "example.org"}}),
    ("unknown_field", "POST", "/v1/attention", {"json": {"query": [[1]], "is_casual": True}}),
    ("wrong_type", "POST", "/v1/attention", {"json": {"query": [[1]], "decimals": "x"}}),
    ("invalid_value", "POST", "/v1/attention", {"json": {"query": [[1]], "decimals": 99}}),
    ("shape_mismatch", "POST", "/v1/attention", {"json": {"query": [[1]], "key": [[1, 2]]}}),
    ("unsupported_dtype", "POST", "/v1/attention", {"json": {
        "query": [[1]], "token_ids": {"shape": [1], "dtype": "float32", "data": [1]}, "pad_id": 0}}),
    ("mask_semantics", "POST", "/v1/attention", {"json": MASK}),
    ("nonfinite_value", "POST", "/v1/attention", {"data": b'{"query":[[1e39]]}'}),
    ("too_large", "POST", "/v1/attention", {"json": {"query": {"shape": [1, 1, 2000000, 64], "random": "normal"}}}),
])
def test_examples_are_what_the_service_says(daemon, problems, code, method, path, options):
    said = daemon.request(method, path, **options).json()
    example = next(one["example"] for one in problems if one["code"] == code)
    assert said | {"instance": ""} == example | {"instance": ""}


def test_error_repeats_detail_below_v2_alone(daemon):
    for path in ("/v2/models/none", "/v2/none"):
        problem = daemon.get(path).json()
        assert problem["error"] == problem["detail"]
    assert "error" not in daemon.get("/v1/models/none").json() and "error" not in daemon.get("/v22").json()
