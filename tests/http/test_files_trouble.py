"""Files of jobs_dir and runs_dir that the machine cannot open for now: that says nothing about them. They stay as they are, are
asked for again, and answers are 503 meanwhile."""
import shutil

import numpy as np
import pytest
from captured import TYPE
from safetensors.numpy import save

from failing import Failing
from test_daemon_load import eventually
from test_files_last import FORMATS, FOUND, TRAIN, TRAINED, waiting
from test_owners import MAKER, PLAIN, bearer, key_file

JOBS = FORMATS / "jobs"
MODEL = TRAINED.replace("job-", "trained-")
FILES = {"description": (TRAINED, f"{TRAINED}.json"), "model": (TRAINED, f"{TRAINED}.safetensors"),
         "findings": (FOUND, f"{FOUND}.findings"), "text": (FOUND, f"{FOUND}.txt"), "picture": (FOUND, f"{FOUND}.parameters.svg")}


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(JOBS, tmp_path / "jobs")
    return tmp_path / "jobs"


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def failing(folder, name, inject, *args):
    """Descriptions and results are opened by their name in the directory, models and checkpoints by their path."""
    return Failing(inject, "--jobs-dir", folder, *args, paths=(name, folder / name))


@pytest.mark.parametrize("error", ["EMFILE", "ENFILE", "EIO", "EACCES", "ENOMEM", "EINTR"])
def test_a_job_whose_description_cannot_be_opened(start, folder, error):
    name, before = f"{TRAINED}.json", contents(folder)
    daemon = failing(folder, name, f"openat:error={error}:when=1+1")
    try:
        for path in (f"/v1/jobs/{TRAINED}", f"/v1/jobs/{TRAINED}/events", f"/v1/models/{MODEL}"):
            reply = daemon.get(path)
            assert reply.status_code == 503, reply.text
            assert reply.json()["code"] == ("memory_budget" if error == "ENOMEM" else "storage_failed")
            assert "cannot be read from jobs_dir: " in reply.json()["detail"] and int(reply.headers["Retry-After"]) >= 1
        assert daemon.request("DELETE", f"/v1/jobs/{TRAINED}").status_code == 503
        assert daemon.get(f"/v1/jobs/{FOUND}").status_code == 200
        assert daemon.get("/v1/jobs/job-00000000000000ff").status_code == 404
    finally:
        assert daemon.stop() == 0
    assert contents(folder) == before
    daemon = start("--jobs-dir", str(folder))
    assert daemon.get(f"/v1/jobs/{TRAINED}").json()["model"] == MODEL and daemon.get(f"/v1/models/{MODEL}").status_code == 200


@pytest.mark.parametrize("what", FILES)
def test_a_job_is_read_as_soon_as_its_files_can_be(folder, what):
    """The first thread fails once, and so does that of the second try."""
    job, name = FILES[what]
    before = contents(folder)
    daemon = failing(folder, name, "openat:error=EMFILE:when=1")
    try:
        def told(event):
            return eventually(lambda: [e for e in daemon.log(0) if e.get("event", "").startswith(f"jobs_dir: {job} {event}")])
        assert told("cannot be read now: Too many open files") and told("was read at a later try")
        about = daemon.get(f"/v1/jobs/{job}").json()
        assert about["state"] == "done" and "error" not in about
        if job == TRAINED:
            assert about["model"] == MODEL and daemon.get(f"/v1/models/{MODEL}").status_code == 200
        else:
            for path, kind in (("result", "application/json"), ("result", "text/plain"), ("pictures/parameters", "image/svg+xml")):
                assert daemon.get(f"/v1/jobs/{job}/{path}", headers={"Accept": kind}).status_code == 200
        assert sorted(j["id"] for j in daemon.get("/v1/jobs").json()["jobs"]) == [TRAINED, FOUND]
        assert contents(folder) == before
    finally:
        assert daemon.stop() == 0


@pytest.mark.parametrize("what", ["model", "findings", "text", "picture"])
def test_a_job_of_which_a_part_cannot_be_opened(folder, what):
    job, name = FILES[what]
    before = contents(folder)
    daemon = failing(folder, name, "openat:error=EIO:when=1+1")
    try:
        assert daemon.get(f"/v1/jobs/{job}").json()["code"] == "storage_failed"
    finally:
        assert daemon.stop() == 0
    assert contents(folder) == before


def test_a_job_that_cannot_be_read_keeps_its_place(folder):
    daemon = failing(folder, f"{TRAINED}.json", "openat:error=EACCES:when=1+1", "--jobs-count", 2)
    try:
        full = daemon.post("/v1/jobs", TRAIN)
        assert full.status_code == 413 and "jobs_count" in full.text
    finally:
        assert daemon.stop() == 0


@pytest.mark.parametrize("inject", ["openat:error=EMFILE:when=1+1", "access,faccessat,faccessat2:error=EIO:when=1+1"])
def test_a_checkpoint_that_cannot_be_opened(start, tmp_path, inject):
    """The job waits, others overtake it, and it goes on from its checkpoint, which nobody has replaced."""
    job, checkpoint = "job-0000000000000003", tmp_path / "job-0000000000000003.checkpoint"
    (tmp_path / f"{job}.json").write_bytes(waiting(TRAIN))
    shutil.copy(FORMATS / "train.checkpoint", checkpoint)
    before = checkpoint.read_bytes()
    daemon = failing(tmp_path, checkpoint.name, inject, "--jobs-running", 1)
    try:
        assert eventually(lambda: [e for e in daemon.log(0) if f"{job} waits: its checkpoint cannot be read" in e.get("event", "")])
        other = daemon.post("/v1/jobs", {"kind": "experiment", "experiment": "parameters"}).json()["id"]
        assert eventually(lambda: daemon.get(f"/v1/jobs/{other}").json()["state"] == "done")
        about = daemon.get(f"/v1/jobs/{job}").json()
        assert about["state"] in ("queued", "running") and checkpoint.read_bytes() == before
        assert str(tmp_path) not in about.get("error", "")
    finally:
        assert daemon.stop() == 0
    daemon = start("--jobs-dir", str(tmp_path))
    assert eventually(lambda: daemon.get(f"/v1/jobs/{job}").json()["state"] == "done")
    assert "error" not in daemon.get(f"/v1/jobs/{job}").json()
    assert "going on from the checkpoint" in daemon.get(f"/v1/jobs/{job}/events").text


def test_a_run_whose_owner_cannot_be_read_for_a_moment_stays_his(start, tmp_path):
    """The list shows a run to its owner, also if its file could not be opened when it was found."""
    runs = tmp_path / "runs"
    runs.mkdir()
    args = ("--runs-dir", str(runs), "--keys-file", key_file(tmp_path, ""))
    daemon = start(*args)
    query = {"shape": [1, 1, 4, 2], "random": "normal"}
    run = daemon.post("/v1/attention", {"query": query, "store": True, "return": []}, headers=bearer(MAKER)).json()["run"]["id"]
    assert daemon.stop() == 0
    daemon = Failing("openat:error=EMFILE:when=1", *args, paths=[f"{run}.safetensors"], threads=False)
    try:
        assert eventually(lambda: [r["id"] for r in daemon.get("/v1/runs", headers=bearer(MAKER)).json()["runs"]] == [run])
        assert daemon.get("/v1/runs", headers=bearer(PLAIN)).json()["runs"] == []
    finally:
        assert daemon.stop() == 0


@pytest.mark.parametrize("error", ["EIO", "EACCES", "ENOMEM"])
def test_checksums_of_a_run_that_cannot_be_seen_stay(start, tmp_path, error):
    """The sweep removes those of runs that are gone."""
    daemon = start("--runs-dir", str(tmp_path))
    query = np.arange(8, dtype=np.float32).reshape(1, 1, 4, 2)
    data = save({"sites.0.query": query, "sites.0.key": query}, {"run": '{"version": 2, "sites": [{}]}'})
    run = daemon.post("/v1/runs", data, headers=TYPE).json()["id"]
    assert daemon.stop() == 0
    before = contents(tmp_path)
    assert len(before) == 2
    once = Failing(f"access,faccessat,faccessat2:error={error}:when=1+1", "--runs-dir", tmp_path, paths=[f"{run}.safetensors"])
    assert once.get("/v1/runs").status_code == 200
    assert once.stop() == 0
    assert contents(tmp_path) == before
