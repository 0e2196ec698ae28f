"""Examples of answers in openapi.json (server/api/service/answers.json): each has the shape of what the service answers."""
import json

import pytest
from conftest import Daemon
from jsonschema import Draft202012Validator
from kept_captures import captures, file_of

import numpy as np

NOT_JSON = {"/v1/runs/{id}/tiles", "/v1/jobs/{id}/pictures/{name}", "/openapi.json"}  # octets, pictures, the document itself
TRAINED = {"kind": "train", "task": "copy", "num_symbols": 8, "longest": 5, "num_pairs": 100, "num_validation_pairs": 10, "width": 16, "num_heads": 2,
           "num_steps": 2, "num_scored_pairs": 5, "store": True}
FILE = "bert/sentence.safetensors"  # of the example of the request


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captures")
    (folder / "bert").mkdir()
    capture = file_of([{"name": "decoder", "layer": 0, "kind": "self"}], np.random.default_rng(1), L=3, H=2, B=1)
    (folder / FILE).write_bytes(captures.write(capture))
    running = Daemon("--captures-dir", str(folder), "--runs-dir", str(tmp_path_factory.mktemp("runs")), "--log", "off")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def document(service):
    return service.get("/openapi.json").json()


@pytest.fixture(scope="module")
def ids(service, document):
    """What stands for {id} and the like, by the beginning of the path."""
    run = service.post("/v1/attention", example(document, "post", "/v1/attention", "request") | {"store": True}).json()["run"]["id"]
    layers = service.post("/v1/models/en-fr/attention", {"text": "the cat sleeps .", "target_text": "le chat dort .", "return": [],
                                                         "store": True}).json()["run"]["id"]
    job = service.post("/v1/jobs", {"kind": "experiment", "experiment": "scale", "settings": {"widest": 64}}).json()["id"]
    service.get(f"/v1/jobs/{job}/events")
    service.post("/v2/models/scaled_dot_product_attention/infer",  # so that there are statistics
                 example(document, "post", "/v2/models/{model}/infer", "request"))
    decoder = service.post("/v1/models", {"architecture": "decoder", "target_words": ["the", "cat", "sat", "."], "width": 16, "num_heads": 2, "seed": 3}).json()["id"]
    return {"/v1/models/{id}/explain": decoder, "/v1/runs/{id}/rollout": layers, "/v1/runs/{id}/flow": layers, "/v1/runs/{id}": run, "/v1/models/{id}": "en-fr",
            "/v1/jobs/{id}": job, "/v1/examples/{id}": "hidden-row", "/v1/lessons/{id}": "dot-product", "/v2/": "scaled_dot_product_attention",
            "/problems/{code}": "unknown_field"}


def content_of(operation):
    return next((c for status, c in operation["responses"].items() if status in ("200", "201", "202") and "content" in c), {}).get("content", {})


def example(document, method, path, what):
    operation = document["paths"][path][method]
    content = operation.get("requestBody", {}).get("content", {}) if what == "request" else content_of(operation)
    media = content.get("application/json") or next(iter(content.values()), {})
    if "examples" in media:
        return next(iter(media["examples"].values()))["value"]
    return media.get("example")


def shape(value):
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def settled(path, answer):
    """The members of an answer that depend neither on the moment nor on the machine."""
    if path.startswith("/v1/jobs") and "state" in answer and answer["kind"] == "train":
        return {name: answer[name] for name in ("kind", "id", "state", "created_ms", "progress", "request")}
    if path == "/version":
        return answer | {"kernels": {name: part for name, part in answer["kernels"].items() if name != "amx"},
                         "limits": {name: answer["limits"][name] for name in ("queue_length", "max_cells", "request_timeout_ms")}}
    return answer


def unlike(want, got, at=""):
    """Where the shapes of two values differ, or None. A list of the example may end earlier."""
    if shape(want) != shape(got):
        return None if None in (want, got) and "number" in (shape(want), shape(got)) else f"{at}: {shape(want)}, not {shape(got)}"
    if isinstance(want, dict):
        if want.keys() != got.keys():
            return f"{at}: {sorted(want.keys() ^ got.keys())}"
        return next((found for key in want if (found := unlike(want[key], got[key], f"{at}/{key}"))), None)
    if isinstance(want, list):
        if len(want) > len(got) or (got and not want):
            return f"{at}: {len(want)} elements, not {len(got)}"
        return next((found for i, one in enumerate(want) if (found := unlike(one, got[i], f"{at}/{i}"))), None)
    return None


# The queries of the examples, where the routes need some.
QUERIES = {"/v1/runs/{id}/cells": {"row": 1, "col": 0}, "/v1/runs/{id}/top-k": {"top_k": 1}, "/v1/runs/{id}/heatmaps": {"heads": "0"},
           "/v1/runs/{id}/analyses": {"analysis": "entropy"}, "/v1/models/{id}/vocabulary": {"ids": "0:6"}}


def ask(service, document, ids, method, path):
    beginning = max((prefix for prefix in ids if path.startswith(prefix)), key=len, default=None)
    where = path.replace("/versions/{version}", "/versions/1")
    for name in ("{id}", "{model}", "{code}"):
        where = where.replace(name, ids.get(beginning, ""))
    if path == "/v1/jobs/{id}/cancel":  # of a job that runs
        job = service.post("/v1/jobs", TRAINED | {"num_steps": 100000}).json()["id"]
        return service.post(f"/v1/jobs/{job}/cancel")
    body = example(document, method, path, "request")
    body = {} if body is None and method == "post" else body
    accept = next(iter(content_of(document["paths"][path][method])))
    return service.request(method.upper(), where, params=QUERIES.get(path, {}), json=body, headers={"Accept": accept})


def operations(document):
    return [(method, path) for path, item in document["paths"].items() for method in item
            if path not in NOT_JSON and content_of(item[method])]


def test_every_answer_has_an_example_of_its_shape(service, document, ids):
    faults = []
    for method, path in operations(document):
        want = example(document, method, path, "answer")
        if want is None:
            faults.append(f"{method} {path} has no example")
            continue
        reply = ask(service, document, ids, method, path)
        kind = reply.headers["Content-Type"].partition(";")[0]
        if kind == "text/event-stream":
            event = dict(line.split(": ", 1) for line in reply.text.split("\n\n")[0].split("\n"))
            assert not unlike(want, event) and not unlike(json.loads(want["data"]), json.loads(event["data"])), (path, event)
            continue
        if kind != "application/json":
            assert reply.status_code == 200 and reply.text.startswith(want.partition("\n")[0]), (path, reply.text[:300])
            continue
        assert reply.status_code in (200, 201, 202), (path, reply.text)
        found = unlike(want, settled(path, reply.json()))
        if found:
            faults.append(f"{method} {path}: {found}\n  {json.dumps(reply.json())[:2000]}")
    assert not faults, "\n".join(faults)


def test_examples_are_of_their_schemas(document):
    for method, path in operations(document):
        operation = document["paths"][path][method]
        for what, content in (("request", operation.get("requestBody", {}).get("content", {})), ("answer", content_of(operation))):
            value = example(document, method, path, what)
            if value is None or not content:
                continue
            media = content.get("application/json") or next(iter(content.values()))
            found = list(Draft202012Validator({**media["schema"], "components": document["components"]}).iter_errors(value))
            assert not found, (method, path, what, found[0].message)


def test_every_body_has_an_example(document):
    """But those that have none: of a job that is cancelled, and of the index of models, which is read by nobody."""
    assert [path for method, path in operations(document) if method == "post" and example(document, method, path, "request") is None
            ] == ["/v1/jobs/{id}/cancel", "/v2/repository/index"]
