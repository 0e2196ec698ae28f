"""Files that somebody put, cut or left in the service's directories: each costs itself, never the start."""
import json
import os
import resource
import signal
import stat
import time

import pytest

from conftest import ROOT, run_attnd
from test_daemon_load import eventually
from test_files_last import described

SMALL = ROOT / "config" / "models" / "en-fr.safetensors"
TRAIN = {"kind": "train", "task": "reverse", "num_steps": 2}


def events(daemon, word):
    return eventually(lambda: [e for e in daemon.log(0) if word in e.get("event", "")])


def fill_with_rubbish(folder, names):
    """A FIFO, an empty file, one byte, half a text, a folder, a link to nowhere."""
    os.mkfifo(folder / names(0))
    (folder / names(1)).touch()
    (folder / names(2)).write_bytes(b"\x02")
    (folder / names(3)).write_text("{")
    (folder / names(4)).mkdir()
    (folder / names(5)).symlink_to("nowhere")


def test_models_that_are_none_do_not_stop_the_start(start, tmp_path):
    fill_with_rubbish(tmp_path, "bad{}.safetensors".format)
    (tmp_path / "good.safetensors").write_bytes(SMALL.read_bytes())
    with open(tmp_path / "sparse.safetensors", "wb") as sparse:
        sparse.truncate(6 << 30)
    daemon = start("--models-dir", str(tmp_path), "--ops-listen", "")
    assert daemon.get("/v1/models/good").status_code == 200
    for name in [f"bad{i}" for i in range(6)] + ["sparse"]:
        refused = daemon.get(f"/v1/models/{name}")
        assert (refused.status_code, refused.json()["code"]) == (500, "damaged")
        assert events(daemon, f"/{name}.safetensors is not served")
    with open(f"/proc/{daemon.pid}/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    assert peak < 1 << 20  # KiB


def test_sizes_are_checked_before_memory_is_taken(tmp_path):
    """A file of a few kB whose metadata speaks of a model of gigabytes."""
    data = SMALL.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header["__metadata__"] = {k: v for k, v in header["__metadata__"].items() if not k.startswith("seal.")} | {"width": str(1 << 12)}
    text = json.dumps(header).encode()
    (tmp_path / "wide.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size:])
    done = run_attnd("--check-config", "--models-dir", str(tmp_path))
    assert done.returncode == 0 and "wide.safetensors" in done.stderr and "far fewer than its metadata" in done.stderr


def test_the_models_of_a_directory_are_read_again_on_sighup(start, tmp_path):
    daemon = start("--models-dir", str(tmp_path), "--ops-listen", "")
    embedded = daemon.get("/v1/models/en-fr").json()
    assert embedded["origin"] == "embedded"

    def reload(event="reloaded"):
        before = len(daemon.log(0, event=event))
        daemon.signal(signal.SIGHUP)
        assert len(daemon.log(before + 1, event=event)) == before + 1

    for name in ("new", "en-fr"):
        (tmp_path / f"{name}.safetensors").write_bytes(SMALL.read_bytes())
    reload()
    assert daemon.get("/v1/models/new").json()["origin"] == "file"
    assert daemon.get("/v1/models/en-fr").json()["origin"] == "file"
    (tmp_path / "new.safetensors").write_bytes(b"\x02")
    reload("reload failed: not all files could be used")
    assert daemon.get("/v1/models/new").json()["code"] == "damaged"  # as after a restart
    for name in ("new", "en-fr"):
        (tmp_path / f"{name}.safetensors").unlink()
    reload()
    assert daemon.get("/v1/models/new").status_code == 404
    assert daemon.get("/v1/models/en-fr").json() == embedded
    listed = [m["id"] for m in daemon.get("/v1/models").json()["models"]]
    assert len(listed) == len(set(listed))


def test_a_failed_reload_is_a_metric(start, tmp_path):
    """As Prometheus has it: the last result, and the time of the last success."""
    file = tmp_path / "mine.safetensors"
    file.write_bytes(SMALL.read_bytes())
    daemon = start("--models-dir", str(tmp_path))

    def last():
        return daemon.metric("attnd_config_last_reload_successful"), daemon.metric("attnd_config_last_reload_success_timestamp_seconds")

    good, began = last()
    assert good == 1 and abs(began - time.time()) < 60
    time.sleep(1.1)
    file.write_bytes(file.read_bytes()[:-1])
    daemon.signal(signal.SIGHUP)
    assert eventually(lambda: last() == (0, began))
    file.write_bytes(SMALL.read_bytes())
    daemon.signal(signal.SIGHUP)
    assert eventually(lambda: last()[0] == 1) and last()[1] > began


def test_a_file_that_cannot_be_opened_for_a_moment(start, tmp_path):
    """Trouble of the machine is no verdict on a file: 503, and the next request tries again."""
    daemon = start("--models-dir", str(tmp_path), "--ops-listen", "")
    assert daemon.get("/v1/models/en-fr").json()["origin"] == "embedded"
    (tmp_path / "en-fr.safetensors").write_bytes(SMALL.read_bytes())
    (tmp_path / "bad.safetensors").write_bytes(b"no model")
    open_now, before = len(os.listdir(f"/proc/{daemon.pid}/fd")), resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (open_now + 1, before[1]))  # the folder can be read, and no file
    none = daemon.get("/v1/models/en-fr")
    assert (none.status_code, none.json()["code"]) == (503, "storage_failed") and "Too many open files" in none.json()["detail"]
    assert int(none.headers["Retry-After"]) >= 1
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)
    assert eventually(lambda: daemon.get("/v1/models/en-fr").status_code == 200)
    assert daemon.get("/v1/models/en-fr").json()["origin"] == "file"
    assert daemon.get("/v1/models/bad").json()["code"] == "damaged"


@pytest.mark.parametrize("setting", ["runs_dir", "captures_dir", "jobs_dir", "models_dir"])
def test_a_removed_directory_is_not_ready(start, tmp_path, setting):
    """Removed and made again: the service has the old one open, and could not say why requests fail."""
    folders = {name: tmp_path / name for name in ("runs_dir", "captures_dir", "jobs_dir", "models_dir")}
    for folder in folders.values():
        folder.mkdir()
    args = [word for name, folder in folders.items() for word in ("--" + name.replace("_", "-"), str(folder))]
    daemon = start(*args)
    paths = daemon.url + "/readyz", daemon.ops_url + "/readyz", daemon.url + "/v2/health/ready", daemon.url + "/v2/models/scaled_dot_product_attention/ready"
    assert [daemon.session.get(path).status_code for path in paths] == [200] * 4
    folders[setting].rmdir()
    for again in False, True:
        if again:
            folders[setting].mkdir()
        fine = again and setting == "models_dir"  # which the service finds by its name
        for path in paths:
            reply = daemon.session.get(path)
            assert reply.status_code == (200 if fine else 503), path
            assert fine or f'the directory of the setting "{setting}" was removed' in reply.json()["detail"]
        assert daemon.get("/healthz").status_code == 200
    assert daemon.stop() == 0
    assert start(*args).get("/readyz").status_code == 200


def test_jobs_that_are_none_are_set_aside(start, tmp_path):
    args = ("--jobs-dir", str(tmp_path), "--ops-listen", "")
    daemon = start(*args)
    job = daemon.post("/v1/jobs", TRAIN)
    assert job.status_code == 202, job.text
    job = job.json()["id"]
    assert eventually(lambda: daemon.get(f"/v1/jobs/{job}").json()["state"] == "done")
    model = daemon.get(f"/v1/jobs/{job}").json()["model"]
    assert daemon.stop() == 0
    fill_with_rubbish(tmp_path, "job-000000000000000{}.json".format)
    (tmp_path / "job-0000000000000006.json").write_bytes(described(b'{"request":{"kind":"train","num_steps":"many"},"facts":{}}'))
    left = [tmp_path / name for name in (f"{job}.json.part", f"{job}.safetensors.part")]
    for file in left:
        file.write_text("half")
    daemon = start(*args)
    assert [j["id"] for j in daemon.get("/v1/jobs").json()["jobs"]] == [job]
    assert daemon.get(f"/v1/models/{model}").status_code == 200
    for i in range(7):
        name = f"job-000000000000000{i}.json"
        assert events(daemon, f"{name} is no job")
        assert not os.path.lexists(tmp_path / name) and os.path.lexists(tmp_path / f"{name}.damaged")
    assert not any(file.exists() for file in left)
    for file in tmp_path.glob(f"{job}*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_settings_and_certificates_are_regular_files(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for args in (["--config", str(pipe)], ["--tls-cert", str(pipe), "--tls-key", str(pipe)]):
        done = run_attnd("--check-config", *args)
        assert done.returncode == 2 and str(pipe) in done.stderr


@pytest.mark.parametrize("store", [("--runs-dir", "/v1/attention", {"query": [[1.0, 0.0]], "store": True}),
                                   ("--jobs-dir", "/v1/jobs", TRAIN),
                                   ("--models-dir", "/v1/models", {"source_vocabulary": 9, "target_vocabulary": 9, "width": 8})])
def test_what_cannot_be_written_is_told(start, tmp_path, store):
    setting, path, body = store
    daemon = start(setting, str(tmp_path), "--ops-listen", "")
    before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
    full = daemon.post(path, body)
    assert (full.status_code, full.json()["code"]) == (507, "storage_full"), full.text
    assert "File too large" in full.json()["detail"]
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    open_now = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (open_now, before[1]))
    none = daemon.post(path, body)
    assert (none.status_code, none.json()["code"]) == (503, "storage_failed"), none.text
    assert "Too many open files" in none.json()["detail"]
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)
    assert daemon.post(path, body).status_code in (200, 201, 202)
    assert not list(tmp_path.glob("*.part"))


def test_unfinished_runs_are_swept_and_counted(start, tmp_path):
    left = tmp_path / ("0" * 32 + ".safetensors.part")
    left.write_bytes(bytes(1000))
    daemon = start("--runs-dir", str(tmp_path), "--ops-listen", "")
    assert not left.exists()
    assert daemon.metric("attnd_runs_bytes") == 0
