"""What the service says of mistakes that newcomers make: paths that do not exist, empty lists, sequences of different
lengths, deadlines."""
import pytest
from api_client import refused

ONE = {"query": [[1.0]]}


@pytest.mark.parametrize(("path", "near"), [
    ("/v1/attention/", "/v1/attention"), ("/attention", "/v1/attention"), ("/v3/attention", "/v1/attention"),
    ("/v1/atention", "/v1/attention"), ("/v1/run/abc/topk", "/v1/runs/abc/top-k"), ("/v1/runs/", "/v1/runs"),
    ("/v1/heatmap", "/v1/heatmaps"), ("/v1/analyze", "/v1/analyses"), ("/health", "/healthz"), ("/v1/metrics", "/metrics"),
    ("/v1/runs/abc/metrics", "/v1/runs/abc/analyses"), ("/v1/runs/abc/heatmap", "/v1/runs/abc/heatmaps"),
    ("/v1/models/en-fr/generat", "/v1/models/en-fr/generate"), ("/openapi", "/openapi.json"), ("/V1/MASKS", "/v1/masks"),
    ("/v2/model", "/v2/models"), ("/v1/models/en-fr/attention/x", "/v1/models/en-fr/attention"),
    ("/v1/attn", None), ("/v1", None), ("/v1/softmax", None), ("/swagger", None), ("/favicon.ico", None), ("//", None),
    ("/" + "a" * 300, None), ("/v1/" + "a" * 300, None), ("/v1/runs/" + "b" * 300 + "/topk", "/v1/runs/bbbbb"),
])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_names_the_nearest(daemon, method, path, near):
    reply = daemon.request(method, path)
    problem = reply.json()
    assert reply.status_code == 404 and problem["code"] == "not_found"
    if near:
        assert f"there is no such path; did you mean {near}" in problem["detail"]
    else:
        assert problem["detail"] == "there is no such path; GET / lists what there is"


@pytest.mark.parametrize(("body", "pointer"), [
    ({"query": []}, "/query"), (ONE | {"attn_mask": []}, "/attn_mask"),
    (ONE | {"attn_mask": [], "mask_semantics": "keep"}, "/attn_mask"), (ONE | {"attn_bias": []}, "/attn_bias"),
    (ONE | {"key_padding_mask": [], "key_padding_semantics": "keep"}, "/key_padding_mask"),
    (ONE | {"grad_output": []}, "/grad_output"), (ONE | {"key": [], "value": [[1.0]]}, "/key"),
    (ONE | {"projections": {"num_heads": 1, "w_q": []}}, "/projections/w_q"),
    (ONE | {"score": {"kind": "general", "w": []}}, "/score/w"),
    (ONE | {"position": {"kind": "relative", "table": []}}, "/position/table"),
])
def test_an_empty_list_is_called_empty(daemon, body, pointer):
    refused(daemon, body, "shape_mismatch", pointer, "an empty list")


@pytest.mark.parametrize(("path", "field"), [("/v1/heatmaps", "weights"), ("/v1/analyses", "weights"), ("/v1/curves", "values")])
def test_empty_weights_and_curves(daemon, path, field):
    refused(daemon, {field: []}, "shape_mismatch", "/" + field, "an empty list", path=path)


def test_sequences_of_different_lengths(daemon):
    for field in ("query", "key", "value"):
        lists = [[[1, 2], [3, 4]], [[5, 6]]]
        body = {"query": [[[1, 2]]], "key": [[[1, 2]]], "value": [[[1, 2]]]} | {field: lists}
        refused(daemon, body, "shape_mismatch", "/key" if field == "query" else f"/{field}", "expected as many entries as query has")
    refused(daemon, {"query": [[1, 2], [3]]}, "shape_mismatch", "/query/1", "only batch entries differ in length")
    refused(daemon, {"query": [[1]], "token_ids": [[1, 2], [3]], "pad_id": 0}, "shape_mismatch", "/token_ids", "pad_id")
    refused(daemon, {"token_ids": [[1, 2], [3]], "pad_id": 0}, "shape_mismatch", "/token_ids/1", "pad_id", path="/v1/masks")
    refused(daemon, {"token_ids": [[4, 5], [4]]}, "shape_mismatch", "/token_ids/1", "with the id 0",
            path="/v1/models/en-fr/attention")
    problem = refused(daemon, {"query": [[1]], "attn_mask": [[1, 0], [1]]}, "shape_mismatch", "/attn_mask")
    assert "pad" not in problem["detail"]


LONG = {"query": {"shape": [1, 8, 30000, 64], "random": "normal"}, "return": ["output"]}


def test_a_deadline_names_its_limit(start):
    daemon = start("--request-timeout-ms", "40")
    problem = daemon.post("/v1/attention", LONG).json()
    assert problem["status"] == 504 and problem["limit"] == {"value": 40, "setting": "request_timeout_ms"}
    assert problem["detail"].endswith("; the limit is 40 ms, the setting request_timeout_ms of the service")
    problem = daemon.post("/v1/attention", LONG | {"timeout_ms": 7}).json()
    assert problem["status"] == 504 and problem["pointer"] == "/timeout_ms" and "limit" not in problem
    assert problem["detail"].endswith("; the limit is 7 ms, timeout_ms of the request")


def test_a_number_in_quotes_is_no_list_of_heads(daemon):
    problem = refused(daemon, ONE | {"heatmap": {"heads": "3"}}, "invalid_value", "/heatmap/heads")
    assert problem["detail"] == 'expected one of "all", "mean" or a list of integers such as [3], found "3"'
    refused(daemon, ONE | {"heatmap": {"heads": "first"}}, "invalid_value", "/heatmap/heads", "such as [0]")
    refused(daemon, ONE | {"query_offset": "start"}, "invalid_value", "/query_offset", '"end" or an integer or a list of integers')


def test_an_index_says_of_what(daemon):
    body = {"query": {"shape": [2, 8, 4, 4], "random": "normal"}}
    problem = refused(daemon, body | {"heatmap": {"heads": [8]}}, "invalid_value", "/heatmap/heads/0")
    assert problem["detail"] == "8 is outside: there are 8 heads: 0 to 7"
    refused(daemon, body | {"heatmap": {"batch": [1, 2]}}, "invalid_value", "/heatmap/batch/1", "there are 2 batch entries: 0 to 1")


@pytest.fixture(scope="module")
def run(daemon):
    return daemon.post("/v1/attention", {"query": {"shape": [2, 4, 3], "random": "normal"}, "store": True}).json()["run"]["id"]


@pytest.mark.parametrize("query", ["?row=1", "?row=1&head=0", "?col=1", ""])
def test_a_missing_query_parameter_is_named(daemon, run, query):
    problem = daemon.get(f"/v1/runs/{run}/cells{query}").json()
    name = "row" if "row" not in query else "col"
    assert problem["status"] == 422 and problem["pointer"] == f"/{name}"
    assert problem["detail"].startswith(f'the query parameter "{name}" is required: ')


@pytest.mark.parametrize("given, lacks, what", [({"lambda": 0.5}, "pairs", "Which heads are a pair: "), ({"pairs": "halves"}, "lambda", "A number, ")])
def test_a_missing_field_is_named(daemon, given, lacks, what):
    body = {"query": {"shape": [1, 2, 3, 4], "random": "normal"}, "subtract": given}
    problem = daemon.post("/v1/attention", body).json()
    assert problem["status"] == 422 and problem["pointer"] == "/subtract"
    assert problem["detail"].startswith(f'the field "{lacks}" is required: {what}')


@pytest.mark.parametrize(("path", "name"), [
    ("/v1/models/en-fr/vocabulary?side=src", "side"), ("/v1/runs/RUN/weights?heads=0,9", "heads"), ("/v1/runs/RUN/heatmaps?heads=9", "heads"),
    ("/v1/runs/RUN/heatmaps?scale=3", "scale"), ("/v1/runs/RUN/analyses?analysis=entropy,nothing", "analysis")])
def test_the_pointer_of_a_query_is_the_name_of_its_parameter(daemon, run, path, name):
    problem = daemon.get(path.replace("RUN", run)).json()
    assert problem["status"] == 422 and problem["pointer"] == f"/{name}", problem


def test_an_odd_width_says_why(daemon):
    body = {"architecture": "transformer", "source_vocabulary": 9, "target_vocabulary": 9, "width": 15, "num_heads": 2}
    refused(daemon, body, "invalid_value", "/width", "two directions of an LSTM", "sine and cosine", "an even number, found 15", path="/v1/models")


def test_get_of_a_route_that_takes_a_body(daemon):
    reply = daemon.get("/v1/attention")
    assert reply.status_code == 405 and reply.headers["Allow"] == "POST, OPTIONS"
    assert reply.json()["detail"] == "GET is not answered here; allowed: POST, OPTIONS; send a body (curl: -d '{…}')"
    assert "body" not in daemon.request("PUT", "/v1/attention").json()["detail"]


@pytest.mark.parametrize(("name", "words"), [
    ("max_tokens", ['here it is called "max_length"']), ("do_sample", ["with seed each token is drawn", "greedy", "num_beams"])])
def test_names_of_services_that_draw_tokens(daemon, name, words):
    refused(daemon, {"text": "the cat", name: 1}, "unknown_field", f"/{name}", *words, path="/v1/models/en-fr/generate")


@pytest.mark.parametrize(("path", "body", "words"), [
    ("/v1/attention", {"query": [[1]], "heatmap": {"heads": [3]}}, "3 is outside: there is only 0"),
    ("/v1/attention", {"query": [[1]], "key": [[1], [1]], "labels": ["a"]}, "not for 1 query and 2 keys"),
    ("/v1/attention", {"query": [[[[1]]]], "key": [[[[1]], [[1]]]], "enable_gqa": False}, "1 query head and 2 key/value heads"),
    ("/v1/attention", ONE | {"verify": 1}, "verified: 1 row in"),
    ("/v1/attention", ONE | {"explain": True, "score": {"kind": "general", "w": [[1]]}}, "score: general, 1 parameter\n"),
    ("/v1/masks", {"shape": [1, 1], "masks": [{"kind": "padding", "key_lengths": [1]}]}, "of 1 key the first 1 is real"),
    ("/v1/masks", {"masks": [{"kind": "padding", "token_ids": [0], "pad_id": 0}]}, "hides 1 of 1 key\n"),
    ("/v1/masks", {"shape": [1, 1], "masks": [{"kind": "pattern", "pattern": {"kind": "block", "size": 1}}]}, "block of 1 position\n"),
    ("/v1/masks", {"shape": [1, 1], "masks": [{"kind": "pattern", "pattern": {"kind": "global", "num_keys": 1, "local": 0}}]},
     "the first 1 position sees and is seen by all"),
    ("/v1/masks", {"masks": [{"kind": "padding", "token_ids": [1], "pad_id": 0},
        {"kind": "padding", "token_ids": [1, 2], "pad_id": 0}]}, "token_ids has 2 keys, but masks/0/token_ids has 1"),
    ("/v1/heatmaps", {"weights": [[1], [1]], "heatmap": {"max_cells": 1}}, "of 2 queries x 1 key;"),
    ("/v1/analyses", {"weights": [[1]], "segments": {"query": [0, 0], "key": [0]}}, "expected 1 number, found 2"),
    ("/v1/analyses", {"weights": [[1]], "classes": [{"name": "a", "keys": [1]}]}, "1 is outside the 1 key, counted"),
])
def test_one_thing_is_singular(daemon, path, body, words):
    """In problems and in answers as text."""
    reply = daemon.post(path, body, headers={"Accept": "text/plain"})
    said = reply.json()["detail"] if reply.status_code == 422 else reply.text
    assert words in said, said


def test_one_head_of_a_run_is_singular(daemon):
    run = daemon.post("/v1/attention", {"query": [[[1], [1]]], "axes": ["layer"], "store": True}).json()["run"]["id"]
    for query, words in (("weights?heads=4", "expected 0, the only one in the run, found 4"), ("heads?heads=4", "has 1 head, counted"),
                         ("heads?batch=1", "has 1 batch entry"), ("rollout?heads=4", "has 1 head, counted")):
        assert words in daemon.get(f"/v1/runs/{run}/{query}").json()["detail"]
