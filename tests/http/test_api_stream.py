"""/v1/models/{id}/generate as server-sent events: a step each, then what the plain answer says; what is refused, who
leaves, what runs out."""
import json

import pytest
from api_client import refused
from conftest import PATIENCE
from test_api_models import make, path
from test_daemon_load import eventually

BODY = {"text": "the red car .", "max_length": 9}
EVENTS = "text/event-stream"


@pytest.fixture(scope="module")
def model(daemon):
    return make(daemon)


def events(reply):
    """(type, data) of each event; every line belongs to one."""
    assert reply.status_code == 200 and reply.headers["Content-Type"] == EVENTS, reply.text
    found = reply.content.decode().split("\n\n")
    assert found.pop() == ""
    for event in found:
        name, data = event.split("\n")
        yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@pytest.mark.parametrize("asked", [{}, {"return": []}, {"return": ["weights"], "decimals": 3},
                                   {"heatmap": {"heads": "mean"}}, {"heatmap": {"heads": [1]}, "decimals": 2}, {"num_alternatives": 3}])
@pytest.mark.parametrize("which", ["made", "en-fr", "ids", "none"])
def test_the_steps_make_the_answer(daemon, model, which, asked):
    body = BODY | asked
    if which == "ids":
        model = make(daemon, source_words=None, target_words=None, source_vocabulary=9, target_vocabulary=9)
        body = {"token_ids": [4, 5, 6], "max_length": 5} | asked
    elif which == "none":
        model = make(daemon, attention="none", positions="none")
    elif which == "en-fr":
        model = {"id": "en-fr"}
        body = body | {"text": "the friend's water did not sleep , she said .", "max_length": 40}
    plain = daemon.post(path(model, "/generate"), body)
    assert plain.status_code == 200, plain.text
    told = list(events(daemon.post(path(model, "/generate"), body | {"stream": True})))
    assert told == list(events(daemon.post(path(model, "/generate"), body, headers={"Accept": EVENTS})))
    name, done = told.pop()
    assert name == "done" and done == plain.json() and [name for name, _ in told[:2]] == ["start", "token"]
    assert told.pop(0)[1] == {"source": done["sequences"][0]["source"]} and {name for name, _ in told} == {"token"}
    steps, made = [step for _, step in told], done["sequences"][0]
    rows = made["target"]["tokens"]
    assert [(s["index"], s["token"]) for s in steps] == list(enumerate(rows))
    assert [s["id"] for s in steps] == made["target"]["ids"]
    assert "".join(s.get("text", "") for s in steps) == made.get("text", "")
    assert sum(s["log_probability"] for s in steps) == pytest.approx(made["score"], abs=.05 if "decimals" in asked else 1e-4)
    assert [s.get("alternatives") for s in steps] == [s["alternatives"] for s in made.get("steps", [])] or "alternatives" not in asked
    looks = [s.get("attention") for s in steps]
    if which == "none" or asked.get("return") == []:
        assert looks == [None] * len(steps)
    elif "weights" in asked.get("return", []):
        assert [[h["weights"] for h in look] for look in looks] == [list(row) for row in zip(*made["weights"])]
    else:
        for i, head in enumerate(made["heatmap"]["heads"]):
            assert [look[i] for look in looks] == [{"head": head["head"], "weights": row} for row in head["max"]]


def test_what_cannot_be_streamed(daemon, model):
    where = path(model, "/generate")
    refused(daemon, BODY | {"stream": True, "num_beams": 2}, "invalid_value", "/num_beams", "greedy", "found 2", path=where)
    refused(daemon, {"text": ["the", "car"], "stream": True}, "invalid_value", "/stream", "found 2", path=where)
    refused(daemon, BODY | {"stream": True, "heatmap": {"heads": [7]}}, "invalid_value", "/heatmap/heads/0", path=where)
    refused(daemon, BODY | {"stream": 1}, "wrong_type", "/stream", path=where)
    picture = daemon.post(where, BODY | {"stream": True}, headers={"Accept": "image/png"})
    assert picture.status_code == 422 and picture.json()["pointer"] == "/stream"
    assert daemon.post(path({"id": "nobody"}, "/generate"), BODY | {"stream": True}).status_code == 404
    dry = daemon.post(where, BODY | {"stream": True, "dry_run": True})
    assert "dry_run" in dry.json()


@pytest.fixture
def slow(start):
    """A service with a model that writes for minutes, and what asks it to."""
    service = start("--max-operations", "1e15", "--max-request-bytes", "8e8", "--request-timeout-ms", "600000",
                    "--drain-ms", "200")
    made = make(service, source_words=None, target_words=None, source_vocabulary=9, target_vocabulary=20000, width=256,
                max_length=60000)
    return service, path(made, "/generate"), {"token_ids": [4], "max_length": 60000, "stream": True, "return": []}


def first_event(service, where, body):
    reply = service.request("POST", where, json=body, stream=True)
    lines = reply.iter_lines(chunk_size=1, decode_unicode=True)
    assert reply.status_code == 200 and next(lines) == "event: start"
    return reply, lines


def test_who_leaves_stops_the_work(slow):
    service, where, body = slow
    reply, _ = first_event(service, where, body)
    assert service.metric("attnd_queue_running") == 1
    reply.close()
    assert eventually(lambda: service.metric("attnd_queue_running") == 0)
    assert eventually(lambda: service.metric("attnd_client_gone_total") == 1)


def test_the_deadline_and_the_end_of_the_service_are_told(slow):
    service, where, body = slow
    *_, (name, problem) = events(service.post(where, body | {"timeout_ms": round(PATIENCE * 50)}))
    assert name == "error" and (problem["status"], problem["code"]) == (504, "deadline_exceeded")
    _, lines = first_event(service, where, body)
    service.signal()
    *_, name, data, end = lines
    assert name == "event: error" and end == "" and json.loads(data.removeprefix("data: "))["code"] == "draining"
    assert service.wait() == 0
