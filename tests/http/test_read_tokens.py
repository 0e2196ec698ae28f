"""Where API keys are set, a run has a token that lets its GETs go without a key: for that run alone, never for another
method, and it is in no log."""
import json
import time

import pytest
from test_api_runs import MASKED, literal
from test_daemon_load import eventually
from test_owners import CHIEF, MAKER, PLAIN, bearer, key_file

VIEWS = ("", "/weights?rows=0:3", "/rows?rows=1", "/top-k?top_k=2", "/cells?row=1&col=2", "/tiles?encoding=f32", "/heatmaps",
         "/analyses?analysis=entropy")


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


def test_beside_a_key_the_key_decides(service):
    """A page that adds the token to its links may send a key as well."""
    run, other = store(service), store(service, CHIEF)
    path = f"/v1/runs/{run['id']}"
    for view in VIEWS:
        alone = service.get(path + view, headers=bearer(PLAIN))
        for token in (run["read_token"], other["read_token"], "none"):
            both = service.get(path + with_token(view, token), headers=bearer(PLAIN))
            assert (both.status_code, both.headers.get("ETag")) == (200, alone.headers.get("ETag"))
            assert view == "" or both.content == alone.content
        assert service.get(path + with_token(view, run["read_token"]), headers=bearer("x" * 20)).status_code == 401
    assert service.get(f"{path}?token={run['read_token']}", headers=bearer(MAKER)).json()["read_token"] == run["read_token"]
    assert service.get(f"/v1/models?token={run['read_token']}", headers=bearer(PLAIN)).status_code == 422


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
        place = f"/v1/runs/{one['id']}/top-k?top_k=1&token={one['read_token']}"
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
    paths = daemon.get("/openapi.json").json()["paths"]
    assert not any({"read_token": []} in operation["security"] for item in paths.values() for operation in item.values())


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


NOW = {"Prefer": "respond-async, wait=0"}
BIG = {"query": {"shape": [1, 8, 2048, 16], "random": "normal", "seed": 1}, "is_causal": True, "store": True, "return": []}


def big(service, key=MAKER):
    return service.post("/v1/attention", BIG, headers=bearer(key)).json()["run"]


def test_a_look_is_the_owners_and_the_token_opens_it(start, tmp_path):
    service = start("--keys-file", key_file(tmp_path, ""))
    run, other = big(service), store(service, CHIEF)
    token = f"?token={run['read_token']}"
    reply = service.get(f"/v1/runs/{run['id']}/analyses{token}", headers=NOW)
    assert reply.status_code == 202 and reply.json()["owner"] == "maker", reply.text
    job = reply.headers["Location"]
    assert run["read_token"] not in reply.text
    for path in (job, job + "/events"):
        assert service.get(path + token).status_code == 200
        refusals = [service.get(path + f"?token={wrong}") for wrong in (other["read_token"], "0" * 32)]
        missing = service.get("/v1/jobs/job-0000000000000000" + token)
        assert [reply.status_code for reply in [*refusals, missing]] == [401] * 3
        assert len({reply.json()["detail"] for reply in [*refusals, missing]}) == 1
    assert service.request("DELETE", job + token).status_code == 401
    assert service.get("/v1/jobs" + token).status_code == 401

    def seen(key):
        return [job["id"] for job in service.get("/v1/jobs", headers=bearer(key)).json()["jobs"]]
    assert seen(MAKER) == [reply.json()["id"]] and seen(PLAIN) == []
    assert eventually(lambda: service.get(job + token).json()["state"] == "done")
    assert service.get(service.get(job + token).json()["result"] + token, headers=NOW).status_code == 200


def test_the_looks_of_one_key_leave_places_for_others(start, tmp_path):
    """Whether a key or a token orders them."""
    service = start("--keys-file", key_file(tmp_path, ""))
    run, other = big(service), big(service, PLAIN)
    slow = service.post("/v1/attention", BIG | {"query": BIG["query"] | {"shape": [1, 8, 16384, 16]}}, headers=bearer(MAKER)).json()["run"]
    service.get(f"/v1/runs/{slow['id']}/analyses?token={slow['read_token']}", headers=NOW)  # the others wait for this one
    replies = [service.get(f"/v1/runs/{run['id']}/analyses?top_k={i + 1}&token={run['read_token']}", headers=NOW)
               for i in range(50)]
    codes = [reply.status_code for reply in replies]
    assert codes == [202] * 31 + [503] * 19 and "places left" in replies[-1].json()["detail"], codes
    reply = service.get(f"/v1/runs/{other['id']}/analyses", headers=NOW | bearer(PLAIN))
    assert (reply.status_code, reply.json()["owner"]) == (202, "plain"), reply.text
    service.request("DELETE", f"/v1/jobs/{service.get('/v1/jobs', headers=bearer(MAKER)).json()['jobs'][0]['id']}", headers=bearer(MAKER))
    job = reply.headers["Location"]
    assert eventually(lambda: service.get(job, headers=bearer(PLAIN)).json()["state"] == "done")
    waiting = [job["state"] for job in service.get("/v1/jobs", headers=bearer(MAKER)).json()["jobs"]]
    assert waiting.count("queued") >= 25, "the other key had the next turn"


def test_a_wrong_token_tells_nothing_and_is_no_use_of_the_run(start, tmp_path):
    for place in (), ("--runs-dir", str(tmp_path)):
        service = start("--keys-file", key_file(tmp_path), "--runs-ttl-ms", "2000", *place)
        run = store(service)
        paths = [f"/v1/runs/{id}{view}" for id in (run["id"], "0" * 32, "none") for view in ("", "/analyses", "/tiles")]
        wrong = [service.get(path + "?token=" + "0" * 32) for path in paths]
        assert {(reply.status_code, reply.json()["detail"], reply.headers["WWW-Authenticate"]) for reply in wrong} == {
            (401, wrong[0].json()["detail"], 'Bearer realm="attnd"')}
        bad = service.get(paths[0] + "?token=bad")
        assert bad.status_code == 401 and "token" in bad.json()["detail"] and "32 digits" in bad.json()["detail"]
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert service.get(paths[0] + "?token=" + "0" * 32).status_code == 401
            time.sleep(0.2)
        assert service.get(paths[0], headers=bearer(MAKER)).status_code == 410


def test_the_interface_describes_the_token(start, tmp_path):
    spec = start("--keys-file", key_file(tmp_path)).get("/openapi.json", headers=bearer(MAKER)).json()
    assert spec["components"]["securitySchemes"]["read_token"]["in"] == "query"
    takes = {path for path, operations in spec["paths"].items() for operation in operations.values()
             if {"read_token": []} in operation["security"]}
    assert takes == {path for path, operations in spec["paths"].items()
                     if path.startswith("/v1/runs/{id}") and "get" in operations} | {"/v1/jobs/{id}", "/v1/jobs/{id}/events"}
