"""Where API keys are set, a run has a token that lets its GETs go without a key: for that run alone, never for another
method, and it is in no log."""
import json

import pytest
from test_api_runs import MASKED, literal
from test_daemon_load import eventually
from test_owners import CHIEF, MAKER, bearer, key_file

VIEWS = ("", "/weights?rows=0:3", "/rows?rows=1", "/top-k?k=2", "/cells?row=1&col=2", "/tiles?encoding=f32", "/heatmap",
         "/metrics?analysis=entropy")


def with_token(view, token):
    return f"{view}{'&' if '?' in view else '?'}token={token}"


@pytest.fixture(params=["memory", "directory"])
def service(start, tmp_path, request):
    return start("--keys-file", key_file(tmp_path), *(("--runs-dir", str(tmp_path)) if request.param == "directory" else ()))


def store(service, key=MAKER):
    return service.post("/v1/attention", MASKED | {"store": True, "return": []}, headers=bearer(key)).json()["run"]


def test_a_token_reads_one_run(service):
    run, other = store(service), store(service, CHIEF)
    token, path = run["read_token"], f"/v1/runs/{run['id']}"
    assert len(token) == 32 and token != other["read_token"]
    for view in VIEWS:
        theirs = service.get(path + view, headers=bearer(MAKER))
        ours = service.get(path + with_token(view, token))
        assert ours.status_code == 200
        assert view == "" or (ours.content, ours.headers.get("ETag")) == (theirs.content, theirs.headers.get("ETag"))
        assert service.get(path + view).status_code == 401
        assert service.get(path + with_token(view, other["read_token"])).status_code == 401
        assert service.get(f"/v1/runs/{other['id']}" + with_token(view, token)).status_code == 401
    assert "read_token" not in service.get(f"{path}?token={token}").json()  # who has a token cannot pass on more


def test_a_token_does_nothing_else(service):
    run = store(service)
    token, path = run["read_token"], f"/v1/runs/{run['id']}"
    assert service.request("DELETE", f"{path}?token={token}").status_code == 401
    assert service.post(f"{path}/what-if?token={token}", {"hide": [1]}).status_code == 401
    assert service.get(f"/v1/models?token={token}").status_code == 401
    assert service.get(f"{path}/tiles?token={token[:-1]}").status_code == 401
    assert service.get(f"{path}/tiles?token={token}x").status_code == 401
    assert service.get(f"{path}/tiles?nottoken={token}").status_code == 401
    assert service.get(f"{path}/tiles?token={token}", headers=bearer("x" * 20)).status_code == 401
    assert service.request("HEAD", f"{path}?token={token}").status_code == 200


def test_a_token_lives_as_long_as_the_run_and_is_not_logged(start, tmp_path):
    keys = key_file(tmp_path)
    first, second = (start("--keys-file", keys, "--runs-dir", str(tmp_path)) for _ in range(2))
    run = store(first)
    reply = first.post("/v1/runs", data=next(tmp_path.glob("*.safetensors")).read_bytes(),
                       headers=bearer(MAKER) | {"Content-Type": "application/vnd.safetensors"})
    for one in (run, reply.json()):
        place = f"/v1/runs/{one['id']}/top-k?k=1&token={one['read_token']}"
        looks = [second.get(place), second.get(place.replace("&token", "&oken"))]
        assert [reply.status_code for reply in looks] == [200, 401]
        assert all(eventually(lambda seen=reply.headers["X-Request-Id"]: seen in second.stderr()) for reply in looks)
        assert second.stderr().count(one["read_token"]) == first.stderr().count(one["read_token"]) == 0
        assert first.request("DELETE", f"/v1/runs/{one['id']}", headers=bearer(MAKER)).status_code == 204
        assert second.get(place).status_code == 410


def test_without_keys_there_is_no_token(daemon):
    run = daemon.post("/v1/attention", {"query": literal(3, 4, seed=1), "store": True}).json()["run"]
    assert "read_token" not in run
    assert daemon.get(f"/v1/runs/{run['id']}/tiles?token={'a' * 32}").status_code == 422


def test_a_growing_run_has_its_token_from_the_beginning(start, tmp_path):
    service = start("--keys-file", key_file(tmp_path))
    reply = service.post("/v1/models/en-fr/generate", {"tokens": ["the", "red", "car"], "stream": True, "store": True},
                         headers=bearer(MAKER))
    assert reply.status_code == 200, reply.text
    event = next(part for part in reply.text.split("\n\n") if part.startswith("event: run"))
    run = json.loads(event.split("data: ", 1)[1])
    path = f"/v1/runs/{run['id']}"
    assert service.get(f"{path}?token={run['read_token']}").json()["state"] == "closed"
    assert service.get(path, headers=bearer(MAKER)).json()["read_token"] == run["read_token"]
