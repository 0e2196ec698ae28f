"""Pages of GET /v1/runs, /v1/models and /v1/jobs, and whose runs a list shows."""
import pytest
from conftest import write_keys
from test_api_models import SMALL
from test_daemon_load import eventually

RUN = {"query": [[1, 0], [0, 1]], "store": True, "return": []}
JOB = {"kind": "experiment", "experiment": "scale", "settings": {"widest": 64}}
ALICE, BOB, BOSS = "a" * 20, "b" * 20, "c" * 20


def bearer(key):
    return {"Authorization": "Bearer " + key}


def pages(daemon, path, name, limit, headers=None):
    """The ids of all pages; each but the last is full and has `next`."""
    ids, after = [], ""
    while True:
        answer = daemon.get(f"{path}?limit={limit}{after}", headers=headers).json()
        ids += [one["id"] for one in answer[name]]
        if "next" not in answer:
            return ids
        assert len(answer[name]) == limit and answer["next"] == ids[-1]
        after = "&after=" + answer["next"]


def store(daemon, headers=None):
    reply = daemon.post("/v1/attention", RUN, headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.json()["run"]


@pytest.mark.parametrize("files", [False, True])
def test_pages_of_runs(start, tmp_path, files):
    daemon = start(*(("--runs-dir", str(tmp_path)) if files else ()))
    assert daemon.get("/v1/runs").json() == {"runs": []}
    runs = {run["id"]: run for run in (store(daemon) for _ in range(7))}
    for limit in (1, 2, 6, 7, 8):
        assert pages(daemon, "/v1/runs", "runs", limit) == sorted(runs)
    for one in daemon.get("/v1/runs").json()["runs"]:
        about = daemon.get("/v1/runs/" + one["id"]).json()
        assert abs(one.pop("expires_ms") - about["expires_ms"]) < 60000
        assert files or one == {"id": about["id"], "bytes": about["bytes"]}
    gone = sorted(runs)[3]
    assert daemon.request("DELETE", "/v1/runs/" + gone).status_code == 204
    assert pages(daemon, "/v1/runs", "runs", 2) == sorted(set(runs) - {gone})
    after = daemon.get(f"/v1/runs?after={gone}").json()["runs"]  # a run that is gone names its place
    assert [one["id"] for one in after] == sorted(runs)[4:]


@pytest.mark.parametrize("files", [False, True])
def test_runs_of_ones_own(start, tmp_path, files):
    (tmp_path / "runs").mkdir()
    keys = write_keys(tmp_path, f"alice:{ALICE}", f"bob:{BOB}", f"boss:{BOSS} admin")
    daemon = start("--keys-file", keys, *(("--runs-dir", str(tmp_path / "runs")) if files else ()))
    mine, theirs = ({store(daemon, bearer(key))["id"] for _ in range(2)} for key in (ALICE, BOB))
    listed = {key: set(pages(daemon, "/v1/runs", "runs", 1, bearer(key))) for key in (ALICE, BOB, BOSS)}
    assert listed == {ALICE: mine, BOB: theirs, BOSS: mine | theirs}
    assert daemon.get("/v1/runs").status_code == 401


def test_listing_is_no_use(start):
    daemon = start("--runs-ttl-ms", "2000")
    store(daemon)
    assert eventually(lambda: daemon.get("/v1/runs").json()["runs"] == [])


def test_pages_of_models(daemon):
    made = {daemon.post("/v1/models", SMALL | {"seed": seed}).json()["id"] for seed in range(3)}
    everything = pages(daemon, "/v1/models", "models", 100)
    assert everything == sorted(everything) and made < set(everything)
    for limit in (1, 2, len(everything)):
        assert pages(daemon, "/v1/models", "models", limit) == everything
    for one in made:
        assert daemon.request("DELETE", "/v1/models/" + one).status_code == 204


def test_pages_of_jobs(daemon):
    jobs = [daemon.post("/v1/jobs", JOB).json()["id"] for _ in range(4)]
    for limit in (1, 3, 4):
        assert pages(daemon, "/v1/jobs", "jobs", limit) == jobs
    problem = daemon.get("/v1/jobs?after=job-0000000000000000").json()
    assert (problem["code"], problem["pointer"]) == ("invalid_value", "/after") and "begin again" in problem["detail"]


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/models", "/v1/jobs"])
@pytest.mark.parametrize("query, pointer", [("limit=0", "/limit"), ("limit=1001", "/limit"), ("limit=x", "/limit"), ("offset=3", "/offset")])
def test_wrong_pages(daemon, path, query, pointer):
    reply = daemon.get(f"{path}?{query}")
    assert reply.status_code == 422 and reply.json()["pointer"] == pointer, reply.text
