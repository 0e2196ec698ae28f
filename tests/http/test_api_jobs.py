"""/v1/jobs: training behind the answer, its events, its end as a model; stopped, killed, drained and gone on with;
what is refused."""
import json
import random
import re
import signal
import socket
import threading

import pytest
from api_client import ask, refused
from conftest import PATIENCE, Daemon
from test_api_index import document, schema  # noqa: F401, a fixture
from test_daemon_load import eventually

PROMPT = ("--jobs-nice", "0")  # on a busy machine a job that gives way to everybody may not come to its end
TASK = {"kind": "train", "task": "copy", "num_symbols": 8, "shortest": 1, "longest": 5, "num_pairs": 300, "num_validation_pairs": 40, "num_scored_pairs": 20,
        "width": 16, "num_heads": 2, "num_steps": 60, "evaluate_every": 20, "checkpoint_every": 5, "batch_tokens": 200, "warmup": 10,
        "rate": 0.01, "seed": 5}
LONGER = TASK | {"num_steps": 200}
ENDLESS = TASK | {"num_steps": 1000000}


@pytest.fixture(scope="module")
def daemon():
    service = Daemon(*PROMPT, "--jobs-running", "1", "--jobs-count", "4", "--heartbeat-ms", "50")
    yield service
    service.stop()


def post(daemon, body):
    reply = daemon.post("/v1/jobs", body)
    assert reply.status_code == 202, reply.text
    job = reply.json()
    assert reply.headers["Location"] == path(job)
    return job


def path(job, what=""):
    return f"/v1/jobs/{job['id']}{what}"


def look(daemon, job):
    return daemon.get(path(job)).json()


def delete(daemon, job):
    return daemon.request("DELETE", path(job)).status_code


def cancel(daemon, job):
    reply = daemon.post(path(job, "/cancel"))
    assert reply.status_code == 200 and reply.json()["id"] == job["id"], reply.text
    return reply.json()


def remove(daemon, job):
    """It need not have ended."""
    assert delete(daemon, job) == 204


class Events:
    """The stream of a job's events; iterating gives (id, type, data) until the service ends it."""

    def __init__(self, daemon, job, **headers):
        self.reply = daemon.request("GET", path(job, "/events"), headers=headers, stream=True)
        assert self.reply.status_code == 200, self.reply.text
        assert self.reply.headers["Content-Type"] == "text/event-stream"
        self.events = self._read()

    def __iter__(self):
        return self.events

    def _read(self):
        fields = {}
        for line in self.reply.iter_lines(chunk_size=1, decode_unicode=True):
            if line.startswith(":"):
                continue
            if line:
                name, value = line.split(": ", 1)
                fields[name] = value
            elif fields:
                assert set(fields) == {"id", "event", "data"}
                yield int(fields["id"]), fields["event"], json.loads(fields["data"])
                fields = {}

    def until(self, kind):
        return next(event for event in self if event[1] == kind)

    def close(self):
        self.reply.close()


def ended(daemon, job):
    """The job when it has ended."""
    for _ in Events(daemon, job) if look(daemon, job)["state"] in ("queued", "running") else ():
        pass
    job = look(daemon, job)
    assert job["state"] not in ("queued", "running"), job
    return job


# --- the way of a job ---

def test_a_model_is_trained_and_served(daemon, document):  # noqa: F811
    job = post(daemon, TASK)
    schema(document, "Job").validate(job)
    assert job["request"] == job["request"] | TASK
    events = list(Events(daemon, job))
    assert [e[0] for e in events] == list(range(1, len(events) + 1))
    assert [e[2]["state"] for e in events if e[1] in ("state", "done")] == ["queued", "running", "done"]
    told = [e[2] for e in events if e[1] == "progress"]
    assert [t["step"] for t in told if t["evaluated"]] == [20, 40, 60]
    assert told[-1]["remaining_ms"] == 0 and told[-1]["validation"]["loss"] > 0
    done = look(daemon, job)
    schema(document, "Job").validate(done)
    alike = [t["validation"]["head_similarity"] for t in told if t["evaluated"]]
    assert all(0 < s <= 1.0001 for s in alike)
    assert done["validation"] == pytest.approx([t["validation"] for t in told if t["evaluated"]][-1], rel=1e-4)
    assert (done["state"], done["step"], done["progress"]) == ("done", 60, 1)
    assert done["scores"]["num_sentences"] == 20 and 0 <= done["scores"]["alignment_error"]["best"] <= 1
    assert done["best"]["loss"] == pytest.approx(events[-1][2]["best_loss"])
    assert 0 < done["peak_bytes"] <= done["reserved_bytes"]
    answer = ask(daemon, {"tokens": ["1", "2"]}, f"/v1/models/{done['model']}/generate")
    assert answer["sequences"][0]["source"]["tokens"] == ["1", "2"]
    listed = daemon.get("/v1/jobs").json()
    schema(document, "Jobs").validate(listed)
    assert done in listed["jobs"]
    assert delete(daemon, job) == 204
    assert daemon.get(f"/v1/models/{done['model']}").status_code == 404
    assert daemon.get(path(job)).status_code == delete(daemon, job) == 404


def test_equal_jobs_are_equal_models_and_another_seed_is_another(daemon):
    answers = []
    for seed in (5, 5, 6):
        job = ended(daemon, post(daemon, TASK | {"seed": seed, "num_steps": 5, "num_scored_pairs": 0}))
        answers.append(ask(daemon, {"tokens": ["1", "2"], "target_tokens": ["1"], "return": "logits"},
                           f"/v1/models/{job['model']}/attention")["logits"])
        remove(daemon, job)
    assert answers[0] == answers[1] != answers[2]


def test_one_head_has_no_similarity(daemon):
    job = post(daemon, TASK | {"num_heads": 1, "num_steps": 20, "num_scored_pairs": 0})
    told = [e[2] for e in Events(daemon, job) if e[1] == "progress" and e[2]["evaluated"]]
    assert told and all(t["validation"]["head_similarity"] is None and t["validation"]["loss"] > 0 for t in told)
    assert set(look(daemon, job)["validation"]) == {"loss", "right"}
    remove(daemon, job)


@pytest.mark.parametrize("architecture", ["seq2seq", "transformer"])
@pytest.mark.parametrize("sizes", [{"attention": "block", "block_size": 3}, {"attention": "global", "num_global_keys": 2, "radius": 1}])
def test_sparse_patterns_are_trained(daemon, architecture, sizes):
    job = ended(daemon, post(daemon, TASK | sizes | {"architecture": architecture, "num_steps": 20, "num_scored_pairs": 5}))
    assert job["state"] == "done" and job["validation"]["loss"] > 0
    model = daemon.get(f"/v1/models/{job['model']}").json()
    assert {k: model[k] for k in sizes} == sizes
    weights = ask(daemon, {"tokens": list("12341"), "target_tokens": list("12341")}, f"/v1/models/{job['model']}/attention")
    assert [site["kind"] for site in weights["sites"]][-1] == "cross"
    remove(daemon, job)


def test_deleting_the_model_leaves_the_job(daemon):
    job = ended(daemon, post(daemon, TASK | {"num_steps": 5, "num_scored_pairs": 0}))
    assert daemon.request("DELETE", f"/v1/models/{job['model']}").status_code == 204
    assert "model" not in look(daemon, job)
    assert delete(daemon, job) == 204


# --- stopping ---

def test_a_job_that_runs_is_deleted_at_once(start, tmp_path):
    """With its files and its model; what ends it does not write them again. The queued one goes, too."""
    daemon = start(*in_dir(tmp_path))
    running, queued = post(daemon, ENDLESS), post(daemon, ENDLESS)
    Events(daemon, running).until("progress")
    for job in (running, queued):
        assert delete(daemon, job) == 204
        assert daemon.get(path(job)).status_code == delete(daemon, job) == 404
        assert daemon.post(path(job, "/cancel")).status_code == 404
    assert daemon.get("/v1/jobs").json() == {"jobs": []}
    assert not [m for m in daemon.get("/v1/models").json()["models"] if m["origin"] == "made"]
    assert list(tmp_path.iterdir()) == [] and daemon.metric("attnd_jobs_reserved_bytes") == 0


def test_stopped_it_keeps_its_best_model(daemon):
    job = post(daemon, ENDLESS)
    stream = Events(daemon, job)
    assert next(e for e in stream if e[1] == "progress" and e[2]["evaluated"])[2]["step"] == 20
    assert cancel(daemon, job)["state"] in ("running", "cancelled")
    assert stream.until("done")[2]["state"] == "cancelled"
    stopped = look(daemon, job)
    assert stopped["state"] == "cancelled" and stopped["best"]["step"] >= 20
    assert cancel(daemon, job) == stopped  # it has ended, and stays as it is
    for method, what in (("POST", "/cancel"), ("GET", "")):  # routes without fields ignore a body
        assert daemon.request(method, path(job, what), data="{").json() == stopped
    assert daemon.get(f"/v1/models/{stopped['model']}").json()["width"] == 16
    assert delete(daemon, job) == 204


def test_others_wait_and_can_be_stopped_meanwhile(daemon):
    first, second, third = (post(daemon, ENDLESS) for _ in range(3))
    Events(daemon, first).until("progress")
    assert [look(daemon, j)["state"] for j in (first, second, third)] == ["running", "queued", "queued"]
    assert [look(daemon, j).get("num_ahead") for j in (first, second, third)] == [None, 1, 2]
    assert [j["num_ahead"] for j in daemon.get("/v1/jobs").json()["jobs"] if j["state"] == "queued"] == [1, 2]
    assert daemon.metric("attnd_jobs", state="queued") == 2 and daemon.metric("attnd_jobs_reserved_bytes") == first["reserved_bytes"]
    assert cancel(daemon, second)["state"] == "cancelled"
    assert look(daemon, third)["num_ahead"] == 1
    cancelled = look(daemon, second)
    assert cancelled["state"] == "cancelled" and "num_ahead" not in cancelled and "model" not in cancelled
    cancel(daemon, first)  # the third is next
    Events(daemon, third).until("progress")
    for job in (first, second, third):
        remove(daemon, job)


def test_a_result_that_is_not_there_yet(daemon):
    running = post(daemon, ENDLESS)
    Events(daemon, running).until("progress")
    waiting = post(daemon, {"kind": "experiment", "experiment": "parameters"})
    for what in ("/result", "/pictures/curves"):
        detail = daemon.get(path(waiting, what)).json()["detail"]
        assert detail.startswith("not yet: the job") and "is queued" in detail
    reply = daemon.get(path(running, "/result"))
    assert reply.status_code == 404 and "only experiments" in reply.json()["detail"]
    cancel(daemon, waiting)
    assert "is cancelled" in daemon.get(path(waiting, "/result")).json()["detail"]
    for job in (waiting, running):
        remove(daemon, job)


def test_time_is_bounded(start):
    daemon = start(*PROMPT, "--jobs-time-ms", "1000", "--ops-listen", "")
    job = ended(daemon, post(daemon, ENDLESS))
    assert job["state"] == "cancelled" and "jobs_time_ms" in job["error"]


# --- events ---

def test_a_stream_resumes_behind_the_last_event(daemon):
    job = post(daemon, TASK | {"num_steps": 20})
    events = list(Events(daemon, job))
    assert list(Events(daemon, job, **{"Last-Event-ID": "3"})) == events[3:]
    assert list(Events(daemon, job, **{"Last-Event-ID": "none"})) == events
    last = daemon.get(path(job, "/events"), headers={"Last-Event-ID": str(events[-1][0])})
    assert last.status_code == 204  # an EventSource does not ask again
    assert daemon.get(path(job, "/events"), headers={"Accept": "application/json"}).status_code == 406
    head, rest = daemon.raw(f"HEAD {path(job, '/events')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()).split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200 ") and b"\r\nConnection: close" in head and rest == b""
    assert delete(daemon, job) == 204
    assert daemon.get(path(job, "/events")).status_code == 404


def test_silence_is_broken_by_comments(daemon):
    running, waiting = post(daemon, ENDLESS), post(daemon, ENDLESS)
    stream = Events(daemon, waiting)
    lines = stream.reply.iter_lines(chunk_size=1, decode_unicode=True)
    seen = [next(lines) for _ in range(10)]
    assert seen.count(":") >= 3 and seen[:2] == ["id: 1", "event: state"]
    stream.close()
    for job in (waiting, running):
        remove(daemon, job)


def test_clients_that_leave_or_do_not_read(start):
    daemon = start(*PROMPT, "--header-timeout-ms", "1500", "--heartbeat-ms", "20", "--ops-listen", "")
    job = post(daemon, ENDLESS)
    gone, deaf = daemon.connect(), socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    deaf.connect((daemon.host, daemon.port))
    for sock in (gone, deaf):
        sock.sendall(f"GET {path(job, '/events')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert sock.recv(20).startswith(b"HTTP/1.1 200")
    gone.close()
    assert eventually(lambda: daemon.metric("attnd_client_gone_total") >= 1)
    listener = Events(daemon, job)
    steps = [e[2]["step"] for e, _ in zip((e for e in listener if e[1] == "progress"), range(20))]
    assert steps == sorted(steps)  # nobody waits for the deaf one
    deaf.close()
    assert eventually(lambda: daemon.metric("attnd_client_gone_total") >= 2)
    listener.close()
    remove(daemon, job)


# --- the directory ---

def in_dir(folder, **more):
    return (*PROMPT, "--jobs-dir", str(folder), "--ops-listen", "", *sum(((f"--{k}", v) for k, v in more.items()), ()))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The file of the model, and the job, of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    service = Daemon(*in_dir(folder))
    job = ended(service, post(service, LONGER))
    service.stop()
    assert sorted(p.name for p in folder.iterdir()) == [f"{job['id']}.json", f"{job['id']}.safetensors"]
    return (folder / f"{job['id']}.safetensors").read_bytes(), job


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_disturbed_job_ends_with_the_same_bytes(undisturbed, start, tmp_path, how):
    first = start(*in_dir(tmp_path))
    job = post(first, LONGER)
    stream = Events(first, job)
    stream.until("checkpoint")
    first.signal(how)
    first.session.close()
    code = first.wait()
    assert code == (-9 if how == signal.SIGKILL else 0), first.stderr()
    first.process.stdout.close()
    second = start(*in_dir(tmp_path))
    done = ended(second, job)
    assert done["state"] == "done" and done["created_ms"] == job["created_ms"]
    assert done["scores"] == undisturbed[1]["scores"] and done["best"] == undisturbed[1]["best"]
    assert (tmp_path / f"{job['id']}.safetensors").read_bytes() == undisturbed[0]
    assert not (tmp_path / f"{job['id']}.checkpoint").exists()


def test_draining_ends_streams_and_keeps_the_step(start, tmp_path):
    daemon = start(*in_dir(tmp_path))
    job = post(daemon, ENDLESS)
    stream = Events(daemon, job)
    reached = next(e for e in stream if e[1] == "progress" and e[2]["step"] >= 8)[2]["step"]
    daemon.signal()
    assert all(e[1] != "done" for e in stream)  # the stream ends, the job does not
    assert daemon.wait() == 0
    again = start(*in_dir(tmp_path))
    stream = Events(again, job)
    log = next(e for e in stream if e[1] == "log")
    assert "going on" in log[2]["line"]
    assert stream.until("progress")[2]["step"] > reached - 1
    cancel(again, job)
    assert ended(again, job)["state"] == "cancelled"


def test_ended_jobs_and_their_models_come_back(undisturbed, start, tmp_path):
    first = start(*in_dir(tmp_path))
    kept, stripped = (ended(first, post(first, TASK | {"num_steps": 20, "num_scored_pairs": 5})) for _ in range(2))
    assert first.request("DELETE", f"/v1/models/{stripped['model']}").status_code == 204
    first.stop()
    second = start(*in_dir(tmp_path))
    assert look(second, kept) == kept
    assert second.get(f"/v1/models/{kept['model']}").status_code == 200
    assert look(second, stripped) == {k: v for k, v in stripped.items() if k != "model"}
    assert [e[1] for e in Events(second, kept)] == ["done"]
    for job in (kept, stripped):
        assert delete(second, job) == 204
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_directory_of_jobs(start, tmp_path):
    from conftest import run_attnd
    start(*in_dir(tmp_path))
    for folder, why in ((tmp_path, "another service uses it"), (tmp_path / "none", "No such file")):
        done = run_attnd("--jobs-dir", str(folder), "--port", "0")
        assert done.returncode == 2 and why in done.stderr


# --- experiments ---

EXPERIMENT = {"kind": "experiment", "experiment": "parameters"}


def experiment(daemon, **fields):
    """The first experiment that needs no model, as it ends."""
    job = ended(daemon, post(daemon, EXPERIMENT | fields))
    assert job["state"] == "done", job
    return job


def test_an_experiment_is_run_and_its_pictures_are_served(daemon, document):  # noqa: F811
    job = experiment(daemon)
    schema(document, "Job").validate(job)
    assert job["request"] == EXPERIMENT | {"full": False, "shared": False}
    assert 0 < job["peak_bytes"] <= job["reserved_bytes"] and "model" not in job
    found = daemon.get(path(job, "/result"))
    schema(document, "Findings").validate(found.json())
    assert found.json()["experiment"] == job["request"]["experiment"] and found.json()["closing"]
    text = daemon.get(path(job, "/result"), headers={"Accept": "text/plain"}).text
    assert found.json()["closing"] in " ".join(text.split())
    assert job["pictures"] == [p["name"] for p in found.json()["pictures"]] != []
    for name in job["pictures"]:
        svg = daemon.get(path(job, f"/pictures/{name}"), headers={"Accept": "image/svg+xml"})
        assert svg.status_code == 200 and svg.text.startswith("<svg ")
        png = daemon.get(path(job, f"/pictures/{name}"), headers={"Accept": "image/png"})
        assert png.content.startswith(b"\x89PNG")
    assert daemon.get(path(job, "/pictures/none")).status_code == 404
    assert delete(daemon, job) == 204
    assert daemon.get(path(job, "/result")).status_code == 404


def test_training_has_no_findings(daemon):
    job = ended(daemon, post(daemon, TASK | {"num_steps": 5, "num_scored_pairs": 0}))
    assert daemon.get(path(job, "/result")).status_code == daemon.get(path(job, "/pictures/x")).status_code == 404
    assert delete(daemon, job) == 204


def test_findings_come_back(start, tmp_path):
    first = start(*in_dir(tmp_path))
    job = experiment(first)
    pages = ["/result", *(f"/pictures/{name}" for name in job["pictures"])]
    wanted = [first.get(path(job, page)).content for page in pages]
    first.stop()
    second = start(*in_dir(tmp_path))
    assert look(second, job) == job
    assert [second.get(path(job, page)).content for page in pages] == wanted
    assert delete(second, job) == 204 and list(tmp_path.iterdir()) == []


# --- what is refused ---

@pytest.mark.parametrize("fields, code, pointer, words", [
    ({"kind": None}, "invalid_value", "", ["kind"]),
    ({"kind": "dream"}, "invalid_value", "/kind", ["train"]),
    ({"rat": 1}, "unknown_field", "/rat", ["rate"]),
    ({"task": "sing"}, "invalid_value", "/task", ["en-fr", "copy"]),
    ({"width": 15, "num_heads": 1}, "invalid_value", "/width", ["even"]),
    ({"num_heads": 3}, "invalid_value", "/num_heads", ["divide"]),
    ({"shortest": 9}, "invalid_value", "/shortest", ["at most longest"]),
    ({"num_steps": 0}, "invalid_value", "/num_steps", ["from 1"]),
    ({"rate": "fast"}, "wrong_type", "/rate", ["number"]),
    ({"dropout_p": 1}, "invalid_value", "/dropout_p", ["0.99"]),
    ({"attention_dropout_p": 1}, "invalid_value", "/attention_dropout_p", ["0.99"]),
    ({"full": True}, "unknown_field", "/full", ["train"]),
    ({"kind": "experiment", "experiment": "parameters"}, "unknown_field", "/task", ["experiment"]),
])
def test_jobs_that_cannot_be(daemon, fields, code, pointer, words):
    refused(daemon, {k: v for k, v in (TASK | fields).items()}, code, pointer, *words, path="/v1/jobs")


@pytest.mark.parametrize("fields, code, pointer, words", [
    ({"experiment": None}, "invalid_value", "/experiment", ['expected one of "copy"', '"scale", found none']),
    ({"experiment": "alchemy"}, "invalid_value", "/experiment", ["parameters"]),
    ({"settings": {"gold": 1}}, "unknown_field", "/settings/gold", []),
    ({"experiment": "parameters", "settings": {"score-width": 24}}, "unknown_field", "/settings/score-width", ['"score_width"']),
    ({"experiment": "sparse", "width": 32}, "unknown_field", "/width", ['send it in "settings"']),
    ({"experiment": "sparse", "tokens": 512}, "unknown_field", "/tokens", ['it is one of "settings"']),
    ({"experiment": "scale", "num_layers": 2}, "unknown_field", "/num_layers", ["no such setting", '"settings"']),
    ({"experiment": "scale", "settings": {"seed": 0.5}}, "invalid_value", "/settings/seed", []),
])
def test_experiments_that_cannot_be(daemon, fields, code, pointer, words):
    refused(daemon, EXPERIMENT | fields, code, pointer, *words, path="/v1/jobs")


def test_limits(daemon, start):
    for fields, setting in (({"num_steps": 1000001}, "jobs_steps"), ({"width": 4096, "batch_tokens": 1000000}, "jobs_bytes")):
        problem = refused(daemon, TASK | fields, "too_large", "/num_steps" if "num_steps" in fields else None, path="/v1/jobs", status=413)
        assert problem["limit"]["setting"] == setting
    jobs = [post(daemon, ENDLESS) for _ in range(4)]
    assert refused(daemon, TASK, "too_large", None, path="/v1/jobs", status=413)["limit"]["setting"] == "jobs_count"
    for job in reversed(jobs):
        remove(daemon, job)
    limits = daemon.get("/version").json()["limits"]
    assert limits["jobs_count"] == 4 and limits["jobs_running"] == 1 and limits["jobs_bytes"] > 0


def test_there_must_be_room_for_the_model(start):
    daemon = start(*PROMPT, "--models-count", "0", "--ops-listen", "")
    job = ended(daemon, post(daemon, TASK))
    assert job["state"] == "failed" and "models_count" in job["error"]


def test_jobs_wait_for_memory_and_never_take_more(daemon, start):
    job = post(daemon, ENDLESS)  # what it takes depends on the kernel table
    remove(daemon, job)
    daemon = start(*PROMPT, "--jobs-bytes", str(job["reserved_bytes"] * 3 // 2), "--memory-bytes", "512MiB", "--ops-listen", "")
    one, two = post(daemon, ENDLESS), post(daemon, ENDLESS)
    Events(daemon, one).until("progress")
    assert look(daemon, two)["state"] == "queued"
    assert daemon.metric("attnd_memory_reserved_bytes") >= one["reserved_bytes"]
    cancel(daemon, one)
    Events(daemon, two).until("progress")
    for job in (one, two):
        remove(daemon, job)
    assert eventually(lambda: daemon.metric("attnd_memory_reserved_bytes") < one["reserved_bytes"])


@pytest.mark.parametrize("fields", [
    {"architecture": architecture} | more for architecture in ("seq2seq", "transformer")
    for more in ({"num_layers": 3}, {"attention": "local", "num_layers": 1}, {"num_heads": 16, "longest": 40, "num_layers": 1, "batch_tokens": 400})
] + [{"attention": a, "positions": p} for a, p in (("additive", "shaw"), ("concat", "relative"), ("none", "learned"))])
def test_what_a_job_takes_is_bounded_before_it_starts(daemon, fields):
    job = ended(daemon, post(daemon, TASK | {"num_pairs": 800, "width": 64, "batch_tokens": 1500, "num_steps": 30, "num_scored_pairs": 1} | fields))
    assert delete(daemon, job) == 204
    assert job["state"] == "done", job
    assert job["reserved_bytes"] < 4.5 * job["peak_bytes"] + 8e6 and job["peak_bytes"] <= 0.9 * job["reserved_bytes"]


ONE_STACK = {"num_pairs": 800, "num_validation_pairs": 300, "width": 64, "batch_tokens": 3000, "num_steps": 6, "evaluate_every": 6, "num_scored_pairs": 20}


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
@pytest.mark.parametrize("fields", [
    {}, {"num_layers": 3}, {"num_heads": 16}, {"width": 256}, {"feed_forward": 1024}, {"activation": "gelu", "gated": True}, {"num_symbols": 500},
    {"shortest": 3, "longest": 3}, {"shortest": 60, "longest": 60}, {"shortest": 40, "longest": 60, "num_heads": 32}, {"shortest": 3, "longest": 5, "num_heads": 8},
    {"positions": "shaw", "num_heads": 8}, {"attention": "local"}, {"num_heads": 8, "num_kv_heads": 2}, {"batch_tokens": 1}])
def test_what_one_stack_takes_is_bounded_closely(daemon, architecture, fields):
    """By at most about twice, besides what each job has: vocabularies, files, random order."""
    wanted = TASK | {"shortest": 10, "longest": 12} | ONE_STACK | {"architecture": architecture} | fields
    job = ended(daemon, post(daemon, wanted))
    assert delete(daemon, job) == 204
    assert job["state"] == "done", job
    assert job["peak_bytes"] <= 0.97 * job["reserved_bytes"] and job["reserved_bytes"] < 2.2 * job["peak_bytes"] + 8e6, job


def drawn_job(draw):
    """A job whose steps are at least an epoch, so that it meets its largest batch."""
    architecture = draw.choice(["seq2seq", "transformer", "encoder", "decoder"])
    tasks = {"encoder": ["copy", "reverse", "word-classes"], "decoder": ["sort", "en-fr", "en-fr-text"]}
    shortest = draw.randint(2, 12)
    fields = {"task": draw.choice(tasks.get(architecture, ["copy", "en-fr", "en-fr-text"])), "large": draw.random() < 0.5,
              "subwords": draw.choice([0, 1, 200, 310, 3000, 100000]), "shortest": shortest, "longest": shortest + draw.randint(2, 20),
              "skew": draw.choice([0.5, 1, 3]), "num_symbols": draw.choice([8, 50, 400])}
    sizes = {"width": draw.choice([16, 32, 64]), "num_heads": draw.choice([1, 2, 8]), "num_layers": draw.choice([1, 2]),
             "positions": draw.choice(["sinusoidal", "learned", "alibi"]), "batch_tokens": draw.choice([500, 1500]),
             "num_pairs": draw.choice([60, 150]), "num_validation_pairs": draw.choice([20, 100]), "num_scored_pairs": draw.choice([1, 20])}
    return TASK | {"architecture": architecture, "num_steps": 30, "evaluate_every": 30, "checkpoint_every": 30} | fields | sizes


@pytest.mark.parametrize("seed", range(6))
def test_what_random_jobs_take_is_bounded_by_at_most_twice(daemon, seed):
    """Words and sub-words of all tasks: what the vocabularies, sentences and batches of a job are like is known before it starts."""
    draw = random.Random(seed)
    for _ in range(5):
        fields = drawn_job(draw)
        job = ended(daemon, post(daemon, fields))
        assert delete(daemon, job) == 204
        assert job["state"] == "done", (fields, job)
        assert job["peak_bytes"] <= job["reserved_bytes"] <= 2 * job["peak_bytes"] + 1e6, (fields, job)


def test_beyond_loopback_a_key_is_needed(start):
    daemon = start(*PROMPT, "--listen", "0.0.0.0:0", "--ops-listen", "")
    url = re.sub(r"//[^:]+", "//127.0.0.1", daemon.url)
    assert daemon.session.post(url + "/v1/jobs", json=TASK, timeout=PATIENCE).status_code == 403
    assert daemon.session.delete(url + "/v1/jobs/job-0", timeout=PATIENCE).status_code == 403
    assert daemon.session.get(url + "/v1/jobs", timeout=PATIENCE).json() == {"jobs": []}


def test_beyond_a_trusted_proxy_a_key_is_needed(start):
    """Without keys a client that is not on this machine may not make what all share, whatever address the proxy uses."""
    daemon = start(*PROMPT, "--ops-listen", "", "--trusted-proxies", "127.0.0.1,10.0.0.0/8")
    cases = {"203.0.113.5": 403, "2001:db8::1": 403, "127.0.0.1, 203.0.113.5": 403, "203.0.113.5, 10.1.1.1": 403, "10.1.1.1": 403,
             "127.0.0.1": 202, "::1": 202, "127.9.9.9": 202}
    for client, status in cases.items():
        headers = {"X-Forwarded-For": client}
        reply = daemon.post("/v1/jobs", TASK | {"num_steps": 1}, headers=headers)
        assert reply.status_code == status, (client, reply.text)
        model = daemon.post("/v1/models", {"attention": "dot", "width": 8}, headers=headers)
        assert (model.status_code == 403) == (status == 403), (client, model.text)
        for method, what in (("DELETE", ""), ("POST", "/cancel")):
            refused_ = daemon.request(method, "/v1/jobs/job-0" + what, headers=headers)
            assert refused_.status_code == (403 if status == 403 else 404)
    assert daemon.post("/v1/jobs", TASK | {"num_steps": 1}).status_code == 202, "the proxy names nobody"


def test_two_at_once_take_turns(start):
    daemon = start(*PROMPT, "--workers", "2", "--jobs-running", "2", "--ops-listen", "")
    jobs = [post(daemon, ENDLESS) for _ in range(2)]
    reached = []
    threads = [threading.Thread(target=lambda j=job: reached.append(next(
        e for e in Events(daemon, j) if e[1] == "progress" and e[2]["step"] >= 40))) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(reached) == 2
    for job in jobs:
        remove(daemon, job)
