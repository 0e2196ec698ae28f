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
        refused(daemon, body, "shape_mismatch", f"/{field}/1", "pad and send key_lengths", "1 list, expected 2")
    refused(daemon, {"query": [[1, 2], [3]]}, "shape_mismatch", "/query/1", "pad and send key_lengths")
    refused(daemon, {"query": [[1]], "token_ids": [[1, 2], [3]], "pad_id": 0}, "shape_mismatch", "/token_ids/1", "pad_id")
    refused(daemon, {"token_ids": [[1, 2], [3]], "pad_id": 0}, "shape_mismatch", "/token_ids/1", "pad_id", path="/v1/masks")
    refused(daemon, {"token_ids": [[4, 5], [4]]}, "shape_mismatch", "/token_ids/1", "with the id 0",
            path="/v1/models/en-fr/attention")
    problem = refused(daemon, {"query": [[1]], "attn_mask": [[1, 0], [1]]}, "shape_mismatch", "/attn_mask/1")
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
