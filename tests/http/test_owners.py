"""Models and jobs belong to the API key that made them, or to all: what lists show, and who deletes."""
import signal

import pytest
from conftest import write_keys
from test_api_jobs import PROMPT, TASK, path as job_path
from test_api_models import SMALL
from test_daemon_load import eventually

CHIEF, MAKER, PLAIN = "chiefchiefchiefchief", "makermakermakermaker", "plainplainplainplain"
SHORT = TASK | {"num_steps": 4, "checkpoint_every": 2, "evaluate_every": 2}


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def key_file(folder, makers_right="admin"):
    return write_keys(folder, f"chief:{CHIEF} admin", f"maker:{MAKER} {makers_right}", f"plain:{PLAIN}")


@pytest.fixture
def service(start, tmp_path):
    return start("--keys-file", key_file(tmp_path), *PROMPT)


def ids(service, what, key):
    return {one["id"] for one in service.get(f"/v1/{what}", headers=bearer(key)).json()[what]}


def delete(service, what, one, key):
    return service.request("DELETE", f"/v1/{what}/{one['id']}", headers=bearer(key)).status_code


def take_right_away(service, folder):
    key_file(folder, "")
    service.signal(signal.SIGHUP)
    assert eventually(lambda: service.post("/v1/models", {}, headers=bearer(MAKER)).status_code == 403)


def make(service, what, key=MAKER, **more):
    body = (SMALL if what == "models" else SHORT) | more
    reply = service.post(f"/v1/{what}", body, headers=bearer(key))
    assert reply.status_code in (201, 202), reply.text
    return reply.json()


def ended(service, job, key=CHIEF):
    def state():
        return service.get(job_path(job), headers=bearer(key)).json()["state"]
    assert eventually(lambda: state() in ("done", "failed", "cancelled"))
    return service.get(job_path(job), headers=bearer(key)).json()


@pytest.mark.parametrize("what", ["models", "jobs"])
def test_lists_show_ones_own_and_the_shared(service, what):
    own, shared, others = make(service, what), make(service, what, shared=True), make(service, what, CHIEF)
    assert own["owner"] == "maker" and others["owner"] == "chief" and "owner" not in shared
    made = {own["id"], shared["id"], others["id"]}
    assert ids(service, what, PLAIN) & made == {shared["id"]}
    assert ids(service, what, CHIEF) >= made, "an admin sees all"
    assert service.get(f"/v1/{what}/{own['id']}", headers=bearer(PLAIN)).status_code == 200, "to know the id is the right to look"
    if what == "models":
        assert "en-fr" in " ".join(ids(service, what, PLAIN)), "what came with the service is shared"


@pytest.mark.parametrize("what", ["models", "jobs"])
def test_the_owner_deletes_without_being_an_admin(service, tmp_path, what):
    own, shared, others = make(service, what), make(service, what, shared=True), make(service, what, CHIEF)
    if what == "jobs":
        for job in own, shared, others:
            assert ended(service, job)["state"] == "done"
    take_right_away(service, tmp_path)
    made = {own["id"], shared["id"], others["id"]}
    assert ids(service, what, MAKER) & made == {own["id"], shared["id"]}
    assert [delete(service, what, own, PLAIN), delete(service, what, others, MAKER), delete(service, what, shared, MAKER)] == [403] * 3
    assert [delete(service, what, own, MAKER), delete(service, what, others, CHIEF), delete(service, what, shared, CHIEF)] == [204] * 3


def test_a_refused_delete_says_who_may(service):
    own, shared = make(service, "models"), make(service, "models", shared=True)
    for model, words in (own, "another API key"), (shared, "shared by all"):
        reply = service.request("DELETE", f"/v1/models/{model['id']}", headers=bearer(PLAIN))
        assert (reply.status_code, reply.json()["code"]) == (403, "forbidden")
        assert words in reply.json()["detail"] and '"admin"' in reply.json()["detail"]


def test_a_jobs_model_is_its_owners_also_after_a_restart(start, tmp_path):
    (tmp_path / "jobs").mkdir()
    args = ("--keys-file", key_file(tmp_path), "--jobs-dir", str(tmp_path / "jobs"), *PROMPT)
    service = start(*args)
    own, shared = make(service, "jobs"), make(service, "jobs", shared=True)
    models = [ended(service, job)["model"] for job in (own, shared)]
    for _ in range(2):
        assert ids(service, "jobs", PLAIN) == {shared["id"]}
        assert ids(service, "models", PLAIN) & set(models) == {models[1]}
        assert ids(service, "models", MAKER) >= set(models)
        assert service.get(f"/v1/models/{models[0]}", headers=bearer(PLAIN)).json()["owner"] == "maker"
        assert service.get(job_path(own), headers=bearer(PLAIN)).json()["owner"] == "maker"
        service.stop()
        service = start(*args)


def test_keys_without_names_own_what_they_made_wherever_their_lines_are(start, tmp_path):
    write_keys(tmp_path, MAKER, PLAIN)
    service = start("--keys-file", str(tmp_path / "keys"))
    run = service.post("/v1/attention", {"query": [[1, 0], [0, 1]], "store": True}, headers=bearer(MAKER)).json()["run"]
    write_keys(tmp_path, "# a comment", PLAIN, MAKER)
    service.signal(signal.SIGHUP)
    assert service.log(1, event="2 API keys read")
    statuses = [service.request("DELETE", f"/v1/runs/{run['id']}", headers=bearer(key)).status_code for key in (PLAIN, MAKER)]
    assert statuses == [403, 204]
