"""Idempotency-Key: a POST that is sent again makes nothing twice."""
import threading

import numpy as np
import pytest
from captured import TYPE
from conftest import write_keys
from safetensors.numpy import save
from test_api_models import SMALL

RUN = {"query": [[1, 0], [0, 1]], "store": True}
JOB = {"kind": "train", "task": "copy", "num_symbols": 8, "longest": 5, "num_pairs": 100, "num_validation_pairs": 10, "width": 16,
       "num_heads": 2, "num_steps": 5, "num_scored_pairs": 5}


def keyed(key, **more):
    return {"Idempotency-Key": key} | more


def problem(reply, status, code):
    assert (reply.status_code, reply.json()["code"]) == (status, code), reply.text
    return reply.json()["detail"]


@pytest.mark.parametrize("path, body, header", [
    ("/v1/attention", RUN, "X-Run-Id"), ("/v1/models", SMALL, "Location"), ("/v1/jobs", JOB, "Location")])
def test_the_same_answer(daemon, path, body, header):
    first = daemon.post(path, body, headers=keyed(f"same{path}"))
    again = daemon.post(path, body, headers=keyed(f"same{path}"))
    assert first.status_code in (200, 201, 202) and first.headers[header]
    assert (again.status_code, again.content) == (first.status_code, first.content)
    for name in (header, "Content-Type"):
        assert again.headers[name] == first.headers[name]
    assert again.headers["Idempotent-Replayed"] == "true" and "Idempotent-Replayed" not in first.headers
    other = daemon.post(path, body, headers=keyed(f"other{path}"))
    assert other.headers[header] != first.headers[header]


@pytest.mark.parametrize("stored", [False, True])
def test_imported_files(start, tmp_path, stored):
    service = start(*(("--runs-dir", str(tmp_path)) if stored else ()))
    q = np.arange(8, dtype=np.float32).reshape(1, 1, 4, 2)
    data = save({"sites.0.query": q, "sites.0.key": q}, {"run": '{"version": 2, "sites": [{}]}'})
    first, again = (service.post("/v1/runs", data, headers=keyed("file") | TYPE) for _ in range(2))
    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content), first.text
    assert again.headers["Location"] == first.headers["Location"] and again.headers["Idempotent-Replayed"] == "true"
    assert service.metric("attnd_runs") == 1
    problem(service.post("/v1/runs", data + bytes(8), headers=keyed("file") | TYPE), 422, "key_reused")


@pytest.mark.parametrize("change", [
    {"json": RUN | {"is_causal": True}}, {"path": "/v1/analyses"}, {"headers": {"Accept": "text/plain"}}])
def test_another_request_with_the_key(daemon, change):
    key = "reused" + "".join(change)
    assert daemon.post("/v1/attention", RUN, headers=keyed(key)).status_code == 200
    reply = daemon.post(change.get("path", "/v1/attention"), change.get("json", RUN), headers=keyed(key, **change.get("headers", {})))
    assert "new key" in problem(reply, 422, "key_reused")


def test_refused_requests_are_forgotten(daemon):
    problem(daemon.post("/v1/attention", RUN | {"is_casual": True}, headers=keyed("refused")), 422, "unknown_field")
    assert daemon.post("/v1/attention", RUN, headers=keyed("refused")).status_code == 200


def test_answers_that_make_nothing_are_forgotten(daemon):
    body = {"query": [[1, 0], [0, 1]]}
    for _ in range(2):
        reply = daemon.post("/v1/attention", body, headers=keyed("nothing"))
        assert reply.status_code == 200 and "Idempotent-Replayed" not in reply.headers


def test_a_long_answer_is_the_address_of_its_run(daemon):
    body = {"query": {"shape": [200, 200], "random": "normal"}, "store": True, "return": ["output"]}
    first = daemon.post("/v1/attention", body, headers=keyed("long"))
    again = daemon.post("/v1/attention", body, headers=keyed("long"), allow_redirects=False)
    run = first.headers["X-Run-Id"]
    assert (again.status_code, again.headers["Location"]) == (303, f"/v1/runs/{run}") and len(first.content) > 65536
    assert daemon.post("/v1/attention", body, headers=keyed("long")).json()["id"] == run


def test_while_the_first_one_runs(start):
    service = start("--workers", "2")
    body = {"query": {"shape": [1, 4, 6000, 64], "random": "normal"}, "store": True, "return": []}
    answers = []

    def send():
        answers.append(service.post("/v1/attention", body, headers=keyed("twice")))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runs = {reply.headers["X-Run-Id"] for reply in answers if reply.status_code == 200}
    assert len(runs) == 1
    for reply in answers:
        if reply.status_code != 200:
            assert problem(reply, 409, "request_in_progress") and reply.headers["Retry-After"]
    assert service.metric("attnd_runs") == 1


def test_keys_of_other_clients(start, tmp_path):
    service = start("--keys-file", write_keys(tmp_path, f"alice:{'a' * 20}", f"bob:{'b' * 20}"))
    runs = {service.post("/v1/attention", RUN, headers=keyed("mine", Authorization="Bearer " + letter * 20)).headers["X-Run-Id"]
            for letter in "abab"}
    assert len(runs) == 2


@pytest.mark.parametrize("key", ["", "x" * 129])
def test_keys_that_are_refused(daemon, key):
    assert "1 to 128" in problem(daemon.post("/v1/attention", RUN, headers=keyed(key)), 400, "bad_request")


def test_the_oldest_give_way(daemon):
    body = {"query": {"shape": [50, 50], "random": "normal"}, "store": True, "return": ["output"]}
    first = daemon.post("/v1/attention", body, headers=keyed("oldest"))
    many = (4 << 20) // len(first.content) + 2
    for i in range(many):
        daemon.post("/v1/attention", body, headers=keyed(f"newer{i}"))
    again = daemon.post("/v1/attention", body, headers=keyed("oldest"))
    assert again.status_code == 200 and again.headers["X-Run-Id"] != first.headers["X-Run-Id"]
