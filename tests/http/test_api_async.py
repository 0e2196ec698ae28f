"""Prefer: respond-async: long looks at a stored run as jobs, who shares them, how they end, and answers that are kept."""
import threading
import time

import pytest
import requests
from conftest import PATIENCE, Daemon, write_keys
from test_api_index import document, schema  # noqa: F401, a fixture
from test_api_jobs import Events
from test_daemon_load import eventually

ADMIN, ONE, OTHER = "adminadminadminadmin", "oneoneoneoneoneone", "otherotherotherother"
BODY = {"query": {"shape": [1, 4, 1024, 16], "random": "normal", "seed": 1}, "is_causal": True, "store": True, "return": []}
LONG = {"query": {"shape": [1, 8, 8192, 16], "random": "normal", "seed": 1}, "is_causal": True, "store": True, "return": []}
NOW = {"Prefer": "respond-async, wait=0"}  # a look that is not kept becomes a job, however short


@pytest.fixture(scope="module")
def daemon():
    service = Daemon("--heartbeat-ms", "50")
    yield service
    service.stop()


def bearer(key):
    return {"Authorization": "Bearer " + key} if key else {}


def store(daemon, body=BODY, key=None):
    reply = daemon.post("/v1/attention", body, headers=bearer(key))
    assert reply.status_code == 200, reply.text
    return "/v1/runs/" + reply.json()["run"]["id"]


def begin(daemon, path, headers=NOW):
    """The job that computes the answer."""
    reply = daemon.get(path, headers=headers)
    assert reply.status_code == 202, reply.text
    job = reply.json()
    assert reply.headers["Location"] == "/v1/jobs/" + job["id"]
    assert reply.headers["Preference-Applied"].startswith("respond-async")
    assert reply.headers["Cache-Control"] == "no-store"
    return job


def look(daemon, job):
    return daemon.get("/v1/jobs/" + job["id"]).json()


def ended(daemon, job):
    for _ in Events(daemon, job):
        pass
    job = look(daemon, job)
    assert job["state"] not in ("queued", "running"), job
    return job


def cancel(daemon, job, key=None):
    return daemon.post(f"/v1/jobs/{job['id']}/cancel", headers=bearer(key)).status_code


def delete(daemon, job, key=None):
    return daemon.request("DELETE", "/v1/jobs/" + job["id"], headers=bearer(key)).status_code


# --- preferences ---

def test_what_is_short_is_answered_at_once(daemon):
    run = store(daemon)
    reply = daemon.get(run + "/analyses", headers={"Prefer": "respond-async"})
    assert reply.status_code == 200 and "Preference-Applied" not in reply.headers


@pytest.mark.parametrize("prefer, applied", [
    ("Respond-Async , wait=0", "respond-async, wait=0"),
    ("foo;bar=\"a, b\", respond-async;x, WAIT = \"0\"", "respond-async, wait=0"),
    ("wait=0", None), ("respond-async=no, wait=0", None), ("return=minimal", None),
    ("respond-async, wait=600", None), ("respond-async, wait=x", None),
])
def test_preferences(daemon, prefer, applied):
    reply = daemon.get(store(daemon) + "/analyses", headers={"Prefer": prefer})
    assert reply.status_code == (202 if applied else 200), reply.text
    assert reply.headers.get("Preference-Applied") == applied


def test_preferences_in_several_headers(daemon):
    run = store(daemon)
    request = f"GET {run}/analyses HTTP/1.1\r\nHost: localhost\r\n%sConnection: close\r\n\r\n"
    for lines, status in (("prefer: wait=0\r\nPREFER: respond-async\r\n", b"202"),
                          ("Prefer: wait=600\r\nPrefer: respond-async, wait=0\r\n", b"200")):
        assert daemon.raw((request % lines).encode())[9:12] == status


def test_a_time_of_the_service_decides(start):
    daemon = start("--async-ms", "0")
    run = store(daemon)
    assert daemon.get(run + "/analyses").status_code == 200
    assert daemon.get(run + "/analyses?decimals=3", headers={"Prefer": "respond-async"}).status_code == 202


def test_refusals_come_at_once(daemon):
    run = store(daemon)
    assert daemon.get(run + "/analyses?analysis=nothing", headers=NOW).status_code == 422
    assert daemon.get("/v1/runs/" + "0" * 32 + "/analyses", headers=NOW).status_code == 404


def test_other_routes_know_no_jobs(daemon):
    assert daemon.get(store(daemon) + "/weights?rows=0:1", headers=NOW).status_code == 200


# --- the way of a look ---

@pytest.mark.parametrize("what, headers", [
    ("/analyses", {}), ("/analyses", {"Accept": "text/plain"}), ("/analyses?analysis=entropy,pairs&decimals=3", {}),
    ("/heatmaps", {}), ("/heatmaps?heads=0,1&max_cells=500", {"Accept": "image/svg+xml"}), ("/heatmaps?heads=0", {"Accept": "application/x-npy"}),
])
def test_the_result_is_the_answer(daemon, document, what, headers):  # noqa: F811
    first, second = store(daemon), store(daemon)
    job = begin(daemon, first + what, NOW | headers)
    schema(document, "Job").validate(job)
    assert (job["kind"], job["request"]["run"]) == ("look", first.rsplit("/", 1)[1])
    done = ended(daemon, job)
    schema(document, "Job").validate(done)
    assert (done["state"], done["progress"], done["result"]) == ("done", 1, first + what)
    kept = daemon.get(done["result"], headers=NOW | headers)
    answer = daemon.get(second + what, headers=headers)
    assert (kept.status_code, kept.content) == (200, answer.content)
    assert set(kept.headers) == set(answer.headers)
    for name in "Content-Type", "ETag", "Cache-Control":
        assert kept.headers[name].split("max-age")[0] == answer.headers[name].split("max-age")[0]
    assert kept.headers["Content-Type"].startswith(headers.get("Accept", "application/json"))
    again = daemon.get(done["result"], headers=headers | {"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
    assert delete(daemon, done) == 204
    assert daemon.get("/v1/jobs/" + done["id"]).status_code == 404


def test_events_tell_the_progress(daemon):
    job = begin(daemon, store(daemon, LONG) + "/analyses")
    events = list(Events(daemon, job))
    assert [e[2]["state"] for e in events if e[1] in ("state", "done")] == ["queued", "running", "done"]
    shares = [e[2]["progress"] for e in events if e[1] == "progress"]
    assert len(shares) > 2 and shares == sorted(shares) and 0 < shares[0] < shares[-1] <= 1
    assert events[-1][2]["result"] == look(daemon, job)["result"]


def test_queries_with_odd_characters(daemon):
    run = store(daemon)
    path = run + "/heatmaps?title=a\"b\\c%20%C3%A9&max_cells=100"
    raw = daemon.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nPrefer: respond-async, wait=0\r\nConnection: close\r\n\r\n".encode())
    assert raw[9:12] == b"202"
    job = ended(daemon, requests.models.complexjson.loads(raw.split(b"\r\n\r\n", 1)[1]))
    assert job["result"] == run + "/heatmaps?title=a%22b%5Cc%20%C3%A9&max_cells=100"
    assert daemon.get(job["result"], headers=NOW).status_code == 200


def test_equal_requests_share_a_job(daemon):
    run = store(daemon, LONG)
    job = begin(daemon, run + "/analyses")
    assert begin(daemon, run + "/analyses")["id"] == job["id"]
    others = [begin(daemon, run + "/analyses?decimals=2"), begin(daemon, run + "/analyses", NOW | {"Accept": "text/plain"}),
              begin(daemon, run + "/heatmaps")]
    assert len({o["id"] for o in others} | {job["id"]}) == 4
    listed = [j["id"] for j in daemon.get("/v1/jobs").json()["jobs"]]
    assert set(listed) >= {o["id"] for o in others}
    for one in [*others, job]:
        assert delete(daemon, one) == 204


def test_a_look_is_deleted_while_it_runs(daemon):
    run = store(daemon, LONG)
    job = begin(daemon, run + "/analyses")
    assert eventually(lambda: look(daemon, job)["state"] == "running")
    assert cancel(daemon, job) == 200
    assert ended(daemon, job)["state"] == "cancelled"
    again = begin(daemon, run + "/analyses")
    assert eventually(lambda: look(daemon, again)["state"] == "running")
    assert [delete(daemon, one) for one in (job, again, again)] == [204, 204, 404]


def test_a_failed_look_says_why(daemon):
    """Its run is deleted while another look keeps it waiting."""
    long, run = store(daemon, LONG), store(daemon)
    first, job = begin(daemon, long + "/analyses"), begin(daemon, run + "/analyses")
    assert daemon.request("DELETE", run).status_code == 204
    delete(daemon, first)
    failed = ended(daemon, job)
    assert failed["state"] == "failed" and "no longer kept" in failed["error"]
    assert "result" not in failed


def test_requests_go_on_while_a_look_runs(daemon):
    job = begin(daemon, store(daemon, LONG) + "/analyses")
    assert eventually(lambda: look(daemon, job)["state"] == "running")
    assert daemon.get(store(daemon) + "/analyses").status_code == 200
    delete(daemon, job)


def test_a_passed_deadline_says_how_to_ask(start, tmp_path):
    daemon = start("--request-timeout-ms", "400", "--runs-dir", str(tmp_path))
    run = store(start("--runs-dir", str(tmp_path)), BODY | {"query": {"shape": [1, 24, 3072, 8], "random": "normal", "seed": 1}})
    problem = daemon.get(run + "/analyses").json()
    assert (problem["status"], problem["limit"]) == (504, {"value": 400, "setting": "request_timeout_ms"})
    assert '"Prefer: respond-async"' in problem["detail"] and "request_timeout_ms" in problem["detail"]
    job = ended(daemon, begin(daemon, run + "/analyses"))
    assert daemon.get(job["result"]).status_code == 200


# --- interest ---

def test_what_nobody_asks_for_is_cancelled(start):
    daemon = start("--async-idle-ms", "1000")
    runs = [store(daemon, LONG) for _ in range(2)]
    job, queued = (begin(daemon, run + "/analyses") for run in runs)
    time.sleep(2)
    for one in look(daemon, job), look(daemon, queued):
        assert one["state"] == "cancelled" and "async_idle_ms" in one["error"], one


@pytest.mark.parametrize("how", ["polled", "followed", "ordered"])
def test_what_somebody_asks_for_goes_on(start, how):
    daemon = start("--async-idle-ms", "1000")
    path = store(daemon, LONG | {"query": {"shape": [1, 8, 6144, 16], "random": "normal", "seed": 1}}) + "/analyses"
    job = begin(daemon, path)
    reader = Events(daemon, job) if how == "followed" else None
    end = time.monotonic() + 1.8
    while time.monotonic() < end:
        time.sleep(0.2)
        if how == "polled":
            look(daemon, job)
        elif how == "ordered":
            daemon.get(path, headers=NOW)
    assert look(daemon, job)["state"] in ("queued", "running", "done")
    if reader:
        reader.close()


# --- owners ---

def test_a_job_is_shared_by_one_key_and_its_answer_by_all(start, tmp_path):
    daemon = start("--keys-file", write_keys(tmp_path, f"ops:{ADMIN} admin", f"one:{ONE}", f"other:{OTHER}"))
    run = store(daemon, LONG | {"query": {"shape": [1, 8, 3072, 16], "random": "normal", "seed": 1}}, ONE)
    mine = begin(daemon, run + "/analyses", NOW | bearer(ONE))
    theirs = begin(daemon, run + "/analyses", NOW | bearer(OTHER))
    assert mine["id"] != theirs["id"] and (mine["owner"], theirs["owner"]) == ("one", "other")
    assert begin(daemon, run + "/analyses", NOW | bearer(ONE))["id"] == mine["id"]
    seen = [j["id"] for j in daemon.get("/v1/jobs", headers=bearer(OTHER)).json()["jobs"]]
    assert theirs["id"] in seen and mine["id"] not in seen
    assert delete(daemon, mine, OTHER) == cancel(daemon, mine, OTHER) == 403

    def state():
        return daemon.get("/v1/jobs/" + mine["id"], headers=bearer(ONE)).json()["state"]
    assert eventually(lambda: state() == "done")
    assert daemon.get(run + "/analyses", headers=NOW | bearer(OTHER)).status_code == 200
    assert delete(daemon, theirs, OTHER) == 204 and delete(daemon, mine, ADMIN) == 204


# --- kept answers ---

BIG = LONG | {"query": {"shape": [1, 8, 2048, 16], "random": "normal", "seed": 1}}  # takes longer than 50 ms


def computed(reply):
    """The milliseconds that were computed."""
    assert reply.status_code == 200, reply.text
    return float(reply.headers["Server-Timing"].split("compute;dur=")[1].split(",")[0])


@pytest.mark.parametrize("files", [False, True], ids=["memory", "directory"])
def test_an_answer_is_computed_once(start, tmp_path, files):
    daemon = start(*(("--runs-dir", str(tmp_path)) if files else ()))
    run = store(daemon, BIG)
    first, second, other = (daemon.get(run + what) for what in ("/analyses", "/analyses", "/analyses?decimals=2"))
    assert computed(first) > 50 and computed(second) == 0 and computed(other) > 50
    assert first.content == second.content and first.headers["ETag"] == second.headers["ETag"]
    assert computed(daemon.get(run + "/analyses", headers={"Accept": "text/plain"})) > 50
    assert len(list(tmp_path.glob("*.kept"))) == files
    assert daemon.request("DELETE", run).status_code == 204
    assert daemon.get(run + "/analyses").status_code == 410
    assert not list(tmp_path.glob("*.kept"))


def test_a_restart_and_another_daemon_know_the_answer(start, tmp_path):
    daemon = start("--runs-dir", str(tmp_path))
    run = store(daemon, BIG)
    job = ended(daemon, begin(daemon, run + "/analyses"))
    answer = daemon.get(job["result"])
    other = start("--runs-dir", str(tmp_path)).get(run + "/analyses")
    daemon.stop()
    again = start("--runs-dir", str(tmp_path)).get(run + "/analyses", headers=NOW)
    for reply in answer, other, again:
        assert computed(reply) == 0 and reply.content == answer.content


@pytest.mark.parametrize("damage", ["bit", "half", "empty", "directory", "version"])
def test_a_damaged_file_is_computed_again(start, tmp_path, damage):
    daemon = start("--runs-dir", str(tmp_path))
    run = store(daemon, BIG)
    answer = daemon.get(run + "/analyses")
    file, = tmp_path.glob("*.kept")
    data = bytearray(file.read_bytes())
    if damage == "bit":
        data[len(data) // 2] ^= 1
    elif damage == "version":
        data[8] += 1
    file.unlink()
    if damage == "directory":
        file.mkdir()
    else:
        file.write_bytes({"half": data[:len(data) // 2], "empty": b""}.get(damage, data))
    again = daemon.get(run + "/analyses")
    assert computed(again) > 50 and again.content == answer.content
    if damage != "directory":
        assert computed(daemon.get(run + "/analyses")) == 0


def test_answers_without_their_run_are_swept(start, tmp_path):
    (tmp_path / ("0" * 32 + ".kept")).write_bytes(b"attnkept")
    daemon = start("--runs-dir", str(tmp_path))
    run = store(daemon, BIG)
    daemon.get(run + "/analyses")
    left, = tmp_path.glob("*.kept")
    assert left.name.startswith(run.rsplit("/", 1)[1])
    (tmp_path / (left.stem + ".safetensors")).unlink()
    assert eventually(lambda: not list(tmp_path.glob("*.kept")), PATIENCE)


@pytest.mark.parametrize("copy", [True, False], ids=["copied", "adopted"])
def test_answers_about_imported_runs(start, tmp_path, copy):
    runs, captures = tmp_path / "runs", tmp_path / "captures"
    runs.mkdir()
    captures.mkdir(mode=0o755)
    where = "--runs-dir", str(runs), "--captures-dir", str(captures)
    daemon = start(*where)
    file = runs / (store(daemon).rsplit("/", 1)[1] + ".safetensors")
    file.rename(captures / "run").chmod(0o644)
    paths = [daemon.post("/v1/runs", {"file": "run", "copy": copy}).headers["Location"] for _ in range(2)]
    before = daemon.metric("attnd_runs_bytes")
    jobs = [ended(daemon, begin(daemon, path + "/analyses")) for path in paths]
    answers = [daemon.get(job["result"], headers=NOW) for job in jobs]
    kept = {path: runs / (path.rsplit("/", 1)[1] + ".kept") for path in paths}
    assert [computed(answer) for answer in answers] == [0, 0]
    assert daemon.metric("attnd_runs_bytes") - before == sum(f.stat().st_size for f in kept.values())
    other = start(*where)  # which finds the runs and their answers in its first sweep
    assert other.get(paths[0] + "/analyses", headers=NOW).content == answers[0].content
    assert other.request("DELETE", paths[0]).status_code == 204
    assert [f.exists() for f in kept.values()] == [False, True]
    (runs / (kept[paths[1]].stem + (".safetensors" if copy else ".adopted"))).unlink()
    assert eventually(lambda: not list(runs.glob("*.kept")), PATIENCE)


@pytest.mark.parametrize("files", [False, True], ids=["memory", "directory"])
def test_answers_count_as_the_run(start, tmp_path, files):
    daemon = start(*(("--runs-dir", str(tmp_path)) if files else ()))
    run = store(daemon, BIG)
    before = daemon.metric("attnd_runs_bytes")
    answer = daemon.get(run + "/analyses", headers={"Accept-Encoding": "identity"})
    more = daemon.metric("attnd_runs_bytes") - before
    assert len(answer.content) < more < len(answer.content) + 1000


def test_clients_that_ask_at_once(daemon):
    run, replies = store(daemon, BIG), []
    threads = [threading.Thread(target=lambda: replies.append(requests.get(daemon.url + run + "/analyses", headers=NOW, timeout=PATIENCE)))
               for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({reply.json()["id"] for reply in replies if reply.status_code == 202}) == 1
