"""Models in models_dir: those made over HTTP survive a restart, and files that come, change and go are noticed."""
import os
import shutil

import pytest
from api_client import ask
from conftest import ROOT, Daemon, write_keys
from test_api_jobs import PROMPT, TASK, path as job_path
from test_api_models import SMALL, make, path
from test_daemon_load import eventually

EN_FR = ROOT / "config" / "models" / "en-fr.safetensors"
SHORT = TASK | {"num_steps": 4, "checkpoint_every": 2, "evaluate_every": 2}
BODY = {"token_ids": [4, 5, 6], "target_token_ids": [4, 5], "return": ["weights", "logits"]}


def again(service, start, *args):
    assert service.stop() == 0
    return start(*args)


def files(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize("fields", [{"target_language": "french"}, {"architecture": "transformer", "num_layers": 2, "positions": "shaw"},
                                    {"source_words": None, "target_words": None, "source_vocabulary": 9, "target_vocabulary": 9},
                                    {"attention": "local", "radius": 1, "padding": "read"}])
def test_a_made_model_survives_a_restart(start, tmp_path, fields):
    args = ("--models-dir", str(tmp_path))
    service = start(*args)
    made = make(service, **fields)
    assert made["durable"] is True and files(tmp_path) == [f"{made['id']}.safetensors"]
    answer = ask(service, BODY, path(made, "/attention"))
    service = again(service, start, *args)
    assert service.get(path(made)).json() == made
    assert made in service.get("/v1/models").json()["models"]
    assert ask(service, BODY, path(made, "/attention")) == answer
    assert service.request("DELETE", path(made)).status_code == 204
    assert files(tmp_path) == [] and service.get(path(made)).status_code == 404
    service = again(service, start, *args)
    assert service.get(path(made)).status_code == 404


def test_the_owner_survives_too(start, tmp_path):
    (tmp_path / "models").mkdir()
    keys = write_keys(tmp_path, f"chief:{'c' * 20} admin", f"maker:{'m' * 20} admin", f"plain:{'p' * 20}")
    args = ("--keys-file", keys, "--models-dir", str(tmp_path / "models"))
    chief, maker, plain = ({"Authorization": f"Bearer {k * 20}"} for k in "cmp")
    service = start(*args)
    own, shared = (service.post("/v1/models", SMALL | more, headers=maker).json() for more in ({}, {"shared": True}))
    service = again(service, start, *args)
    assert service.get(path(own), headers=plain).json() == own and own["owner"] == "maker"
    listed = {m["id"] for m in service.get("/v1/models", headers=plain).json()["models"]}
    assert shared["id"] in listed and own["id"] not in listed
    assert [service.request("DELETE", path(m), headers=k).status_code for m, k in ((own, plain), (shared, plain), (own, maker), (shared, chief))] \
        == [403, 403, 204, 204]


def test_kept_models_count(start, tmp_path):
    args = ("--models-dir", str(tmp_path), "--models-count", "2")
    service = start(*args)
    first = make(service)
    make(service)
    service = again(service, start, *args)
    assert service.post("/v1/models", SMALL).json()["limit"] == {"value": 2, "setting": "models_count"}
    service.request("DELETE", path(first))
    make(service)


@pytest.mark.parametrize("jobs_dir", [False, True])
def test_a_trained_model_survives_a_restart(start, tmp_path, jobs_dir):
    for name in ("models", "jobs"):
        (tmp_path / name).mkdir()
    args = (*PROMPT, "--models-dir", str(tmp_path / "models"), *(("--jobs-dir", str(tmp_path / "jobs")) if jobs_dir else ()))
    service = start(*args)
    job = service.post("/v1/jobs", SHORT).json()
    assert eventually(lambda: service.get(job_path(job)).json()["state"] == "done")
    model = {"id": service.get(job_path(job)).json()["model"]}
    about = service.get(path(model)).json()
    assert files(tmp_path / "models") == ([] if jobs_dir else [f"{model['id']}.safetensors"])
    answer = ask(service, BODY, path(model, "/attention"))
    service = again(service, start, *args)
    assert service.get(path(model)).json() == about
    assert ask(service, BODY, path(model, "/attention")) == answer
    assert service.request("DELETE", path(model)).status_code == 204
    assert service.get(path(model)).status_code == 404 and files(tmp_path / "models") == []


def test_without_the_directory_models_are_kept_in_memory(start):
    service = start()
    made = make(service)
    assert "durable" not in made
    service = again(service, start)
    assert service.get(path(made)).status_code == 404


class ReadOnly(Daemon):
    """A daemon whose models_dir is on a file system that cannot be written."""
    calls = "access,faccessat,faccessat2"
    prefix = ("strace", "-D", "-f", "-q", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:error=EROFS")


def test_a_directory_that_cannot_be_written(tmp_path):
    no_leaks = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # LeakSanitizer cannot run under strace
    service = ReadOnly("--models-dir", str(tmp_path), "--ops-listen", "", env={"ASAN_OPTIONS": no_leaks})
    try:
        made = make(service)
        assert "durable" not in made and files(tmp_path) == []
        assert service.get(path(made)).json() == made
        assert service.request("DELETE", path(made)).status_code == 204
    finally:
        assert service.stop() == 0


def test_daemons_share_the_directory(start, tmp_path):
    args = ("--models-dir", str(tmp_path))
    one, two = start(*args), start(*args)
    made = make(one)
    assert two.get(path(made)).json() == made
    assert ask(two, BODY, path(made, "/attention")) == ask(one, BODY, path(made, "/attention"))
    assert two.request("DELETE", path(made)).status_code == 204
    assert one.get(path(made)).status_code == 404 and made not in one.get("/v1/models").json()["models"]


def test_files_are_noticed_without_a_restart(start, tmp_path):
    service = start("--models-dir", str(tmp_path))
    assert service.get("/v1/models/new").status_code == 404
    shutil.copy(EN_FR, tmp_path / "aside")
    (tmp_path / "aside").rename(tmp_path / "new.safetensors")
    asked = service.post("/v1/models/new/generate", {"text": "the red car", "return": []})  # the first request that needs it
    assert asked.status_code == 200 and asked.json()["sequences"][0]["text"] == "la voiture rouge"
    (tmp_path / "new.safetensors").rename(tmp_path / "other.safetensors")
    assert {m["id"] for m in service.get("/v1/models").json()["models"]} == {"en-fr", "en-fr-text", "other"}
    (tmp_path / "other.safetensors").unlink()
    assert service.get("/v1/models/other").status_code == 404


def test_a_file_that_is_still_being_copied(start, tmp_path):
    service = start("--models-dir", str(tmp_path))
    data = EN_FR.read_bytes()
    with open(tmp_path / "new.safetensors", "wb") as file:
        file.write(data[:100000])
        file.flush()
        for _ in range(5):
            assert service.get("/v1/models/new").json()["code"] == "damaged"
        file.write(data[100000:])
    assert eventually(lambda: service.get("/v1/models/new").status_code == 200)
    told = [e for e in service.log(0) if "new.safetensors is not served" in e.get("event", "")]
    assert len(told) == 1  # once for each state of the file


def test_a_replaced_file_is_read_anew(start, tmp_path):
    service = start("--models-dir", str(tmp_path))
    made = make(service)
    (tmp_path / f"{made['id']}.safetensors").rename(tmp_path / "mine.safetensors")
    assert service.get(path(made)).status_code == 404
    mine = service.get("/v1/models/mine").json()
    assert mine["origin"] == "made" and {k: v for k, v in mine.items() if k != "id"} == {k: v for k, v in made.items() if k != "id"}
    shutil.copy(EN_FR, tmp_path / "aside")
    (tmp_path / "aside").rename(tmp_path / "mine.safetensors")
    assert service.get("/v1/models/mine").json()["origin"] == "file"
