"""`store` on training jobs: the run of the best model over the first pair of the validation set."""
import shutil

import numpy as np
import pytest
from api_client import array, ask, refused
from conftest import PATIENCE, Daemon
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_jobs import ENDLESS, PROMPT, TASK, Events, delete, path
from test_daemon_load import eventually
from test_models_runs import cells
from test_owners import CHIEF, PLAIN, bearer, key_file

STORING = TASK | {"store": True}


@pytest.fixture(scope="module")
def daemon():
    service = Daemon(*PROMPT)
    yield service
    service.stop()


def ended(daemon, body, **kwargs):
    """The job after its end."""
    reply = daemon.post("/v1/jobs", body, **kwargs)
    assert reply.status_code == 202, reply.text
    job = reply.json()
    assert eventually(lambda: daemon.get(path(job), **kwargs).json()["state"] not in ("queued", "running"), PATIENCE)
    return daemon.get(path(job), **kwargs).json()


def same_as_the_model(daemon, job, **kwargs):
    """The cells of the run are those of a pass of the job's model over the same tokens."""
    run = daemon.get(f"/v1/runs/{job['run']}", **kwargs).json()
    source, target = run["texts"]
    assert run["model"] == job["model"] and run["state"] == "closed" and "num_rows" not in run
    assert target["tokens"][0] == "<bos>" and target["tokens"][-1] == "<eos>" and target["special"] == [0, len(target["ids"]) - 1]
    body = {"token_ids": source["ids"], "target_token_ids": target["ids"][1:], "return": "weights"}
    answer = ask(daemon, body, f"/v1/models/{job['model']}/attention", **kwargs)
    assert run["sites"] and len(run["texts"]) == 2
    assert [s["name"] for s in run["sites"]] == [f"{s['kind']}.{s['layer']}" for s in answer["sites"]]
    assert answer["source"][0]["tokens"] == source["tokens"] and answer["target"][0]["tokens"] == target["tokens"][1:]
    for site in answer["sites"]:
        assert np.array_equal(cells(daemon, run, f"{site['kind']}.{site['layer']}", 0, **kwargs), array(site["weights"])[0])
    return run


@pytest.mark.parametrize("fields", [{}, {"architecture": "transformer", "num_layers": 2}, {"attention": "general", "positions": "shaw"},
                                    {"task": "en-fr", "longest": 8, "subwords": 40}, {"patience": 1, "rate": 10, "warmup": 0}])
def test_the_best_model(daemon, document, fields):  # noqa: F811
    job = ended(daemon, STORING | fields)
    schema(document, "Job").validate(job)
    assert job["state"] == "done" and job["request"]["store"] is True and "error" not in job
    assert job["peak_bytes"] <= job["reserved_bytes"]
    same_as_the_model(daemon, job)
    assert list(Events(daemon, job))[-1][-1]["run"] == job["run"]
    assert daemon.request("DELETE", path(job)).status_code == 204
    assert daemon.get(f"/v1/models/{job['model']}").status_code == 404
    assert daemon.get(f"/v1/runs/{job['run']}").status_code == 200  # it lives as long as other runs
    assert daemon.request("DELETE", f"/v1/runs/{job['run']}").status_code == 204


def test_the_same_pair_for_every_model(daemon):
    """The corpus determines it: neither the model, the seed nor how many pairs there are."""
    jobs = [ended(daemon, STORING | fields) for fields in ({}, {"seed": 6, "architecture": "transformer"}, {"num_validation_pairs": 1, "width": 8})]
    texts = [[t["tokens"] for t in daemon.get(f"/v1/runs/{job['run']}").json()["texts"]] for job in jobs]
    assert texts[0] == texts[1] == texts[2] and texts[0][1] == ["<bos>", *texts[0][0], "<eos>"]  # the task is to copy
    for job in jobs:
        assert delete(daemon, job) == 204


def test_a_deleted_run(daemon):
    """The job still names it."""
    job = ended(daemon, STORING)
    assert daemon.request("DELETE", f"/v1/runs/{job['run']}").status_code == 204
    assert daemon.get(f"/v1/runs/{job['run']}").status_code == 410
    assert daemon.get(path(job)).json()["run"] == job["run"]
    assert delete(daemon, job) == 204


def test_a_job_that_is_stopped(daemon):
    """It keeps its best model, and the run of that."""
    job = daemon.post("/v1/jobs", ENDLESS | {"store": True}).json()
    assert eventually(lambda: "best" in daemon.get(path(job)).json(), PATIENCE)
    assert daemon.post(path(job) + "/cancel").status_code == 200
    assert eventually(lambda: daemon.get(path(job)).json()["state"] == "cancelled", PATIENCE)
    same_as_the_model(daemon, daemon.get(path(job)).json())


def test_without_it(daemon):
    job = ended(daemon, TASK)
    assert "run" not in job and "run" not in list(Events(daemon, job))[-1][-1]


def test_what_is_refused(daemon):
    refused(daemon, STORING | {"attention": "none"}, "invalid_value", "/store", "without attention", path="/v1/jobs")
    refused(daemon, {"kind": "experiment", "experiment": "scale", "store": True}, "unknown_field", "/store", path="/v1/jobs")
    refused(daemon, TASK | {"store": 1}, "wrong_type", "/store", path="/v1/jobs")


def done_without_a_run(daemon, code, reason):
    """The job is done, its model is served, and it says why it has no run."""
    job = ended(daemon, STORING)
    assert job["state"] == "done" and "run" not in job
    assert daemon.get(f"/v1/models/{job['model']}").status_code == 200
    assert "its run is not stored: " in job["error"] and reason in job["error"]
    assert any(event.get("line") == f"the run is not stored: {code}" for _, _, event in Events(daemon, job))
    assert eventually(lambda: any(f"the run of {job['id']} is not stored" in str(line) for line in daemon.log()))


def test_no_room(start):
    done_without_a_run(start(*PROMPT, "--runs-bytes", "1000"), "too_large", "1000")


def test_no_directory(start, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    daemon = start(*PROMPT, "--runs-dir", str(runs))
    shutil.rmtree(runs)
    done_without_a_run(daemon, "storage_failed", "runs_dir")


def test_kept_in_directories(start, tmp_path):
    jobs, runs = tmp_path / "jobs", tmp_path / "runs"
    jobs.mkdir(), runs.mkdir()
    options = ("--jobs-dir", str(jobs), "--runs-dir", str(runs))
    daemon = start(*PROMPT, *options)
    job = ended(daemon, STORING)
    assert [f.name for f in runs.iterdir()] == [f"{job['run']}.safetensors"]
    daemon.stop()
    daemon = start(*PROMPT, *options)
    again = daemon.get(path(job)).json()
    assert again["run"] == job["run"]
    same_as_the_model(daemon, again)


def test_runs_in_memory_end_with_the_service(start, tmp_path):
    daemon = start(*PROMPT, "--jobs-dir", str(tmp_path))
    job = ended(daemon, STORING)
    daemon.stop()
    daemon = start(*PROMPT, "--jobs-dir", str(tmp_path))
    assert daemon.get(path(job)).json()["run"] == job["run"]
    assert daemon.get(f"/v1/runs/{job['run']}").status_code == 404


def test_a_job_that_goes_on_after_a_restart(start, tmp_path):
    """It stores one run, when it is done."""
    jobs, runs = tmp_path / "jobs", tmp_path / "runs"
    jobs.mkdir(), runs.mkdir()
    options = (*PROMPT, "--jobs-dir", str(jobs), "--runs-dir", str(runs))
    daemon = start(*options)
    job = daemon.post("/v1/jobs", STORING | {"num_steps": 2000}).json()
    assert eventually(lambda: daemon.get(path(job)).json().get("step", 0) > 20, PATIENCE)
    daemon.stop()
    assert not list(runs.iterdir())
    daemon = start(*options)
    assert eventually(lambda: daemon.get(path(job)).json()["state"] == "done", PATIENCE)
    same_as_the_model(daemon, daemon.get(path(job)).json())
    assert len(list(runs.iterdir())) == 1


@pytest.mark.parametrize("where", ["memory", "directory"])
def test_owners(start, tmp_path, where):
    runs = tmp_path / "runs"
    runs.mkdir()
    daemon = start(*PROMPT, "--keys-file", key_file(tmp_path), *(("--runs-dir", str(runs)) if where == "directory" else ()))
    chief, plain = {"headers": bearer(CHIEF)}, {"headers": bearer(PLAIN)}
    job = ended(daemon, STORING, **chief)
    run = same_as_the_model(daemon, job, **chief)
    view = f"/v1/runs/{run['id']}"
    assert len(run["read_token"]) == 32
    assert daemon.get(view).status_code == 401
    assert daemon.get(f"{view}?token={run['read_token']}").status_code == 200
    assert daemon.get(f"{view}/rows?site=cross.0&token={run['read_token']}").status_code == 200
    assert daemon.get(view, **plain).status_code == 200  # who knows the id may look
    assert daemon.request("DELETE", view, **plain).status_code == 403
    assert daemon.request("DELETE", view, **chief).status_code == 204


def test_a_shared_job(start, tmp_path):
    """Its run has no owner, as its model has none."""
    daemon = start(*PROMPT, "--keys-file", key_file(tmp_path))
    chief, plain = {"headers": bearer(CHIEF)}, {"headers": bearer(PLAIN)}
    job = ended(daemon, STORING | {"shared": True}, **chief)
    run = same_as_the_model(daemon, job, **plain)
    assert "read_token" not in run
    assert daemon.request("DELETE", f"/v1/runs/{run['id']}", **plain).status_code == 403
    assert daemon.request("DELETE", f"/v1/runs/{run['id']}", **chief).status_code == 204
