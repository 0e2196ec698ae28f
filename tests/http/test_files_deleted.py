"""DELETE is as durable as writing: what cannot be deleted is said and stays, and a deletion that is broken off leaves all or
nothing."""
import shutil
import time

import pytest
import requests
from conftest import write_keys
from failing import Failing
from test_api_models import SMALL
from test_daemon_load import eventually
from test_files_trouble import FOUND, JOBS, MODEL, TRAINED, contents

RUN = {"query": {"shape": [1, 2, 20, 8], "random": "normal"}, "store": True, "return": []}
REMOVALS = "unlink,unlinkat"


def a_run(start, folder):
    daemon = start("--runs-dir", str(folder))
    run = daemon.post("/v1/attention", RUN).json()["run"]["id"]
    return daemon, ("--runs-dir", folder), f"/v1/runs/{run}"


def a_model(start, folder):
    daemon = start("--models-dir", str(folder))
    return daemon, ("--models-dir", folder), f"/v1/models/{daemon.post('/v1/models', SMALL).json()['id']}"


def jobs(start, folder):
    shutil.copytree(JOBS, folder, dirs_exist_ok=True)
    return start("--jobs-dir", str(folder)), ("--jobs-dir", folder)


def an_experiment(start, folder):
    return *jobs(start, folder), f"/v1/jobs/{FOUND}"


def a_training(start, folder):
    return *jobs(start, folder), f"/v1/jobs/{TRAINED}"


def the_model_of_a_job(start, folder):
    return *jobs(start, folder), f"/v1/models/{MODEL}"


ALL = [a_run, a_model, an_experiment, a_training, the_model_of_a_job]


@pytest.mark.parametrize("error, reason", [("EPERM", "Operation not permitted"), ("EROFS", "Read-only file system"),
                                           ("EIO", "Input/output error")])
@pytest.mark.parametrize("thing", ALL, ids=lambda thing: thing.__name__)
def test_what_cannot_be_deleted_stays(start, tmp_path, thing, error, reason):
    daemon, args, path = thing(start, tmp_path / "files" if thing is not a_run and thing is not a_model else tmp_path)
    assert daemon.get(path).status_code == 200
    assert daemon.stop() == 0
    failing = Failing(f"{REMOVALS}:error={error}:when=1+1", *args)
    try:
        about = failing.get(path)
        assert about.status_code == 200
        for _ in range(2):
            refused = failing.request("DELETE", path)
            assert (refused.status_code, refused.json()["code"]) == (503, "storage_failed"), refused.text
            assert refused.json()["detail"].endswith(f": {reason}") and "cannot be deleted" in refused.json()["detail"]
            again = failing.get(path)
            assert again.status_code == 200 and again.json().keys() == about.json().keys()
    finally:
        assert failing.stop() == 0
    daemon = start(*map(str, args))
    assert daemon.get(path).status_code == 200
    assert daemon.request("DELETE", path).status_code == 204
    assert daemon.get(path).status_code in (404, 410)
    assert daemon.stop() == 0
    assert start(*map(str, args)).get(path).status_code in (404, 410)


def broken_off(folder, inject, path, *paths):
    """Deletes what the path names by a daemon that a call ends, if the deletion comes to it."""
    daemon = Failing(f"{inject}:signal=SIGKILL:when=1+1", "--jobs-dir", folder, paths=paths)
    try:
        status = daemon.request("DELETE", path).status_code
        assert status == 204
        daemon.stop()
        return False
    except requests.ConnectionError:
        daemon.session.close()
        daemon.wait()
        daemon.process.stdout.close()
        return True


@pytest.mark.parametrize("job, suffixes", [
    (TRAINED, [".json", ".checkpoint", ".safetensors", ".findings", ".txt"]),
    (FOUND, [".json", ".checkpoint", ".safetensors", ".findings", ".txt", ".parameters.svg"])])
def test_a_deletion_of_a_job_that_is_broken_off(start, tmp_path, job, suffixes):
    """Before the removal of each of its files: the job is there whole, or nothing of it is left after the next start."""
    for i, suffix in enumerate(suffixes):
        folder = tmp_path / str(i)
        shutil.copytree(JOBS, folder)
        whole = contents(folder)
        assert broken_off(folder, REMOVALS, f"/v1/jobs/{job}", f"{job}{suffix}")
        assert (contents(folder) == whole) == (suffix == ".json")
        daemon = start("--jobs-dir", str(folder))
        assert daemon.get(f"/v1/jobs/{job}").status_code == (200 if suffix == ".json" else 404)
        others = {name: data for name, data in whole.items() if not name.startswith(job)}
        assert contents(folder) == (whole if suffix == ".json" else others)
        assert daemon.stop() == 0


def test_files_of_a_job_without_a_description_are_removed_at_the_start(start, tmp_path):
    mine = [f"{TRAINED}.safetensors.bak", "job-12.safetensors", f"{TRAINED}.png", "model.safetensors", f"x{TRAINED}.txt", TRAINED]
    kept = [f"{FOUND}.json.damaged", f"{FOUND}.findings", f"{FOUND}.a.svg"]
    left = [f"{TRAINED}{suffix}" for suffix in (".checkpoint", ".safetensors", ".findings", ".txt", ".a.svg")]
    for name in mine + kept + left:
        (tmp_path / name).write_text("text")
    start("--jobs-dir", str(tmp_path))
    assert set(contents(tmp_path)) == set(mine + kept)


@pytest.mark.parametrize("call, file", [(REMOVALS, f"{TRAINED}.safetensors"), ("rename,renameat,renameat2", f"{TRAINED}.json")])
def test_a_deletion_of_the_model_of_a_job_that_is_broken_off(start, tmp_path, call, file):
    shutil.copytree(JOBS, tmp_path, dirs_exist_ok=True)
    assert broken_off(tmp_path, call, f"/v1/models/{MODEL}", file)
    daemon = start("--jobs-dir", str(tmp_path))
    job = daemon.get(f"/v1/jobs/{TRAINED}").json()
    assert job["state"] == "done" and "error" not in job
    assert ("model" in job) == ("rename" in call)
    assert daemon.get(f"/v1/models/{MODEL}").status_code == (200 if "model" in job else 404)


@pytest.mark.parametrize("error, status", [("ENOSPC", 204), ("EROFS", 503)])
def test_the_model_of_a_job_whose_description_cannot_be_written(start, tmp_path, error, status):
    """A full disk does not keep anybody from making room."""
    shutil.copytree(JOBS, tmp_path, dirs_exist_ok=True)
    daemon = Failing(f"openat:error={error}:when=1+1", "--jobs-dir", tmp_path, paths=[f"{TRAINED}.json.part"])
    try:
        assert daemon.request("DELETE", f"/v1/models/{MODEL}").status_code == status
        assert (tmp_path / f"{TRAINED}.safetensors").exists() == (status == 503)
        assert daemon.get(f"/v1/models/{MODEL}").status_code == (200 if status == 503 else 404)
        assert ("model" in daemon.get(f"/v1/jobs/{TRAINED}").json()) == (status == 503)
    finally:
        assert daemon.stop() == 0


def test_an_expired_run_that_cannot_be_deleted_stays_expired(tmp_path):
    daemon = Failing(f"{REMOVALS}:error=EROFS:when=1+1", "--runs-dir", tmp_path, "--runs-ttl-ms", "500")
    try:
        run = daemon.post("/v1/attention", RUN).json()["run"]["id"]

        def gone():  # each look at a run delays its end, so the list tells
            return daemon.get("/v1/runs").json()["runs"][0]["expires_ms"] < 1000 * time.time() - 100
        assert eventually(gone)
        assert [daemon.get(f"/v1/runs/{run}").status_code for _ in range(20)] == [410] * 20
        assert (tmp_path / f"{run}.safetensors").exists()
    finally:
        assert daemon.stop() == 0


def test_a_damaged_run_can_be_deleted(start, tmp_path):
    """Its owner is in its file. Without keys all may delete it, with keys an admin."""
    runs, chief, maker = tmp_path / "runs", "chiefchiefchiefchief", "makermakermakermaker"
    runs.mkdir()
    keys = ("--keys-file", write_keys(tmp_path, f"chief:{chief} admin", f"maker:{maker}"))

    def deleted(run, key=None):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return daemon.request("DELETE", f"/v1/runs/{run}", headers=headers)

    for more, key in ((), None), (keys, maker):
        daemon = start("--runs-dir", str(runs), *more)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        run = daemon.post("/v1/attention", RUN, headers=headers).json()["run"]["id"]
        assert daemon.stop() == 0
        file = runs / f"{run}.safetensors"
        file.write_bytes(b"\xff" * file.stat().st_size)
        daemon = start("--runs-dir", str(runs), *more)
        if key:
            refused = deleted(run, key)
            assert refused.status_code == 403 and "damaged" in refused.json()["detail"] and '"admin"' in refused.json()["detail"]
            assert file.exists() and deleted(run, "nokeynokeynokeynokey").status_code == 401
        assert deleted(run, key and chief).status_code == 204
        assert not file.exists()
        assert daemon.get(f"/v1/runs/{run}", headers=headers).status_code == 410
        assert daemon.stop() == 0
