"""Prefer: respond-async where a request stores a run: the job that stores it, what is kept of the request, and its bounds."""
import json
import random
import time

import numpy as np
import pytest
from conftest import PATIENCE, Daemon, write_keys
from test_api_async import ADMIN, NOW, ONE, OTHER, bearer, cancel, delete, ended, look
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_jobs import Events
from test_daemon_load import eventually

MIB = 1 << 20


def body(length, heads=8, **more):
    return {"query": {"shape": [1, heads, length, 16], "random": "normal", "seed": 1}, "is_causal": True, "store": True} | more


SHORT, LONG, LONGER = body(1500), body(8192), body(16384, heads=16)
FAST = PATIENCE <= 60  # no sanitizer, under which little work takes long
TELLING = LONGER if FAST else LONG  # takes several heartbeats
SLOW = body(32768, heads=2) if FAST else LONG  # read in a tenth of the time that it computes
MODEL = {"text": "the cat sat on the mat", "store": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def daemon(folder):
    service = Daemon("--heartbeat-ms", "50", "--runs-dir", str(folder))
    yield service
    service.stop()


def begin(daemon, request, path="/v1/attention", headers=NOW, **more):
    """The job that stores the run. A short one may have ended when its 202 is written."""
    reply = daemon.post(path, request, headers=headers, **more)
    assert reply.status_code == 202, reply.text
    job = reply.json()
    assert job["kind"] == "store"
    assert {"run", "result"} & set(job) == ({"run", "result"} if job["state"] == "done" else set())
    assert reply.headers["Location"] == "/v1/jobs/" + job["id"]
    assert reply.headers["Preference-Applied"] == "respond-async, wait=0"
    assert reply.headers["Cache-Control"] == "no-store" and "X-Run-Id" not in reply.headers
    return job


def stored(folder, run):
    """The header without the owner and its token, and the tensors of the run's file."""
    data = (folder / f"{run}.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {k: v for k, v in header["__metadata__"].items() if k not in ("owner", "read_token")}, data[8 + size:]


# --- the run ---

@pytest.mark.parametrize("path, request_, headers", [
    ("/v1/attention", SHORT, {}),
    ("/v1/attention", SHORT | {"return": []}, {"Accept": "image/png"}),
    ("/v1/attention", body(300, heads=2, axes=["batch", "head"], dropout_p=0.25, seed=3, verify=5, explain=True, analysis=["all"],
                           heatmap={"max_cells": 16}, labels=[f"t{i}" for i in range(300)],
                           **{"return": ["output", "weights", "weights_dropped", "scores", "inputs"]}), {}),
    ("/v1/attention", body(64, heads=2, grad_output={"shape": [1, 2, 64, 16], "random": "normal", "seed": 2}), {"Accept": "text/plain"}),
    ("/v1/attention", {"query": {"shape": [2, 40, 12], "random": "normal", "seed": 1}, "projections": {"num_heads": 3, "seed": 4}, "store": True}, {}),
    ("/v1/models/en-fr-text/attention", MODEL, {}),
    ("/v1/models/en-fr-text/attention", MODEL | {"target_text": "le chat", "analysis": ["entropy"], "return": ["weights", "logits"]}, {}),
], ids=["plain", "picture", "everything", "gradients", "projections", "model", "target"])
def test_the_run_is_that_of_a_request_that_waits(daemon, folder, document, path, request_, headers):  # noqa: F811
    job = begin(daemon, request_, path, NOW | headers)
    schema(document, "Job").validate(job)
    assert job["request"] == {"path": path, "query": "", "content_type": "application/json"}
    done = ended(daemon, job)
    schema(document, "Job").validate(done)
    assert (done["state"], done["progress"]) == ("done", 1), done
    assert done["result"] == "/v1/runs/" + done["run"]
    waited = daemon.post(path, request_, headers=headers)
    assert waited.status_code == 200 and "Preference-Applied" not in waited.headers
    assert stored(folder, done["run"]) == stored(folder, waited.headers["X-Run-Id"])
    both = [daemon.get(f"/v1/runs/{run}/weights?site=0&rows=0:3").json() for run in (done["run"], waited.headers["X-Run-Id"])]
    assert both[0] == both[1] and "weights" in both[0]
    assert delete(daemon, done) == 204
    assert daemon.get(done["result"]).status_code == 200


def npy(array):
    import io
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def test_bodies_that_are_not_json(daemon, folder):
    """The fields of an .npy body stand in the query string; a compressed body is kept decoded."""
    import gzip
    array = np.random.default_rng(1).standard_normal((2, 33, 8)).astype(np.float32)
    packed = gzip.compress(json.dumps({"query": array.tolist(), "is_causal": True, "store": True}).encode())
    plain = ended(daemon, begin(daemon, npy(array), "/v1/attention?is_causal=true&store=true", NOW | {"Content-Type": "application/x-npy"}))
    small = ended(daemon, begin(daemon, packed, headers=NOW | {"Content-Encoding": "gzip", "Content-Type": "application/json"}))
    assert plain["request"]["query"] == "is_causal=true&store=true" and plain["request"]["content_type"] == "application/x-npy"
    assert stored(folder, plain["run"])[1] == stored(folder, small["run"])[1]


def test_events_tell_the_progress_and_the_run(daemon):
    events = list(Events(daemon, begin(daemon, TELLING)))
    assert [e[2]["state"] for e in events if e[1] in ("state", "done")] == ["queued", "running", "done"]
    shares = [e[2]["progress"] for e in events if e[1] == "progress"]
    assert len(shares) > 2 and shares == sorted(shares) and 0 < shares[0] < shares[-1] <= 1
    assert events[-1][2]["result"] == "/v1/runs/" + events[-1][2]["run"]


# --- when there is a job ---

@pytest.mark.parametrize("request_, headers", [
    (SHORT, {"Prefer": "respond-async"}), (SHORT, {"Prefer": "wait=0"}), (SHORT | {"store": False}, NOW), (SHORT | {"dry_run": True}, NOW),
], ids=["short", "not preferred", "not stored", "dry run"])
def test_what_is_answered_at_once(daemon, request_, headers):
    reply = daemon.post("/v1/attention", request_, headers=headers)
    assert reply.status_code == 200 and "Preference-Applied" not in reply.headers


def test_refusals_come_at_once(daemon):
    for more, status in (({"window": "x"}, 422), ({"axes": ["head"]}, 422), ({"return": ["gradients"]}, 422), ({"nothing": 1}, 422)):
        assert daemon.post("/v1/attention", SHORT | more, headers=NOW).status_code == status
    assert daemon.post("/v1/attention", body(1 << 18, heads=1, is_causal=False), headers=NOW).status_code == 413
    assert daemon.post("/v1/models/en-fr-text/attention", MODEL | {"text": ""}, headers=NOW).status_code == 422
    assert daemon.post("/v1/models/nothing/attention", MODEL, headers=NOW).status_code == 404


def test_a_passed_deadline_says_how_to_ask(start):
    daemon = start("--request-timeout-ms", "300")
    problem = daemon.post("/v1/attention", SLOW).json()
    assert (problem["status"], problem["limit"]) == (504, {"value": 300, "setting": "request_timeout_ms"})
    assert '"Prefer: respond-async"' in problem["detail"]
    problem = daemon.post("/v1/attention", SLOW, headers={"Prefer": "respond-async, wait=600"}).json()
    assert '"Prefer: respond-async, wait=0"' in problem["detail"]
    assert "Prefer" not in daemon.post("/v1/attention", SLOW | {"store": False}).json()["detail"]
    done = ended(daemon, begin(daemon, SLOW | {"timeout_ms": 250}))  # which is for the answer to the request
    assert done["state"] == "done" and done["ended_ms"] - done["started_ms"] > 300


def test_the_time_of_a_job_bounds_it(start):
    daemon = start("--jobs-time-ms", "1000")
    failed = ended(daemon, begin(daemon, LONGER))
    assert failed["state"] == "cancelled" and failed["error"].startswith("jobs_time_ms") and "run" not in failed


def test_requests_do_not_share_a_job(daemon):
    jobs = [begin(daemon, LONG) for _ in range(2)]
    assert jobs[0]["id"] != jobs[1]["id"]
    assert all(delete(daemon, job) == 204 for job in jobs)


# --- how they end ---

def test_a_job_is_deleted_while_it_runs(start, tmp_path):
    daemon = start("--runs-dir", str(tmp_path))
    job, queued = begin(daemon, LONG), begin(daemon, LONG)
    assert eventually(lambda: look(daemon, job)["state"] == "running")
    assert [cancel(daemon, queued), cancel(daemon, job)] == [200, 200]
    assert ended(daemon, job)["state"] == "cancelled" and look(daemon, queued)["state"] == "cancelled"
    assert not list(tmp_path.glob("*.safetensors"))
    assert delete(daemon, job) == 204


def test_what_nobody_asks_for_is_cancelled(start, tmp_path):
    daemon = start("--async-idle-ms", "1000", "--runs-dir", str(tmp_path))
    jobs = [begin(daemon, LONGER) for _ in range(2)]
    time.sleep(2)
    for job in jobs:
        job = look(daemon, job)
        assert job["state"] == "cancelled" and "async_idle_ms" in job["error"], job
    assert not list(tmp_path.glob("*.safetensors"))


def test_a_failed_store_says_why(start):
    daemon = start("--runs-bytes", "100000")
    failed = ended(daemon, begin(daemon, SHORT))
    assert failed["state"] == "failed" and "runs_bytes" in failed["error"]
    assert "run" not in failed and "result" not in failed


def test_requests_go_on_while_a_run_is_stored(daemon):
    job = begin(daemon, LONG)
    assert eventually(lambda: look(daemon, job)["state"] == "running")
    assert daemon.post("/v1/attention", SHORT).status_code == 200
    delete(daemon, job)


# --- memory ---

def large(mib):
    """A body of so many MiB, most of it white space."""
    return json.dumps(SHORT) + " " * (mib * MIB)


def test_bodies_are_kept_within_a_part_of_the_memory(start):
    """Of 128 MiB bodies that jobs keep may take a quarter."""
    daemon = start("--memory-bytes", str(128 * MIB))
    assert daemon.post("/v1/attention", body(8192, heads=12)).status_code == 413  # an answer needs more than a run
    headers = NOW | {"Content-Type": "application/json"}
    assert daemon.post("/v1/attention", large(33), headers=headers).status_code == 200  # no job could keep it
    first = begin(daemon, SLOW)
    assert eventually(lambda: look(daemon, first)["state"] == "running")
    jobs = [begin(daemon, large(12), headers=headers) for _ in range(2)]
    full = daemon.post("/v1/attention", large(12), headers=headers)
    assert full.status_code == 503 and full.json()["code"] == "memory_budget" and "Retry-After" in full.headers
    assert delete(daemon, jobs[0]) == 204  # it waits, so its body is freed at once
    jobs[0] = begin(daemon, large(12), headers=headers)
    delete(daemon, first)
    assert [ended(daemon, job)["state"] for job in jobs] == ["done"] * 2
    for _ in range(3):  # nothing is left of ended jobs
        assert ended(daemon, begin(daemon, large(30), headers=headers))["state"] == "done"


def test_what_can_never_fit_is_refused(start):
    daemon = start("--memory-bytes", str(64 * MIB), "--max-request-bytes", str(64 * MIB))
    reply = daemon.post("/v1/attention", body(65536, heads=4), headers=NOW)
    assert reply.status_code == 413 and reply.json()["limit"]["setting"] in ("memory_bytes", "max_request_bytes")


def test_as_many_wait_as_looks(start):
    daemon = start()
    jobs = [begin(daemon, body(16384)) for _ in range(64)]
    full = daemon.post("/v1/attention", SHORT, headers=NOW)
    assert full.status_code == 503 and full.json()["code"] == "queue_full"
    random.shuffle(jobs)
    for job in jobs:
        assert delete(daemon, job) == 204
    assert ended(daemon, begin(daemon, SHORT))["state"] == "done"


# --- owners ---

def test_the_run_belongs_to_the_key(start, tmp_path):
    daemon = start("--keys-file", write_keys(tmp_path, f"ops:{ADMIN} admin", f"one:{ONE}", f"other:{OTHER}"))
    job = begin(daemon, SHORT, headers=NOW | bearer(ONE))
    assert job["owner"] == "one" and delete(daemon, job, OTHER) == 403

    def state():
        return daemon.get("/v1/jobs/" + job["id"], headers=bearer(ONE)).json()
    assert eventually(lambda: state()["state"] == "done", PATIENCE)
    path = state()["result"]
    run = daemon.get(path, headers=bearer(OTHER)).json()
    assert daemon.get(path).status_code == 401
    assert daemon.get(path + "?token=" + run["read_token"]).status_code == 200
    assert daemon.request("DELETE", path, headers=bearer(OTHER)).status_code == 403
    assert daemon.request("DELETE", path, headers=bearer(ONE)).status_code == 204
