"""Files that are kept: one whose bytes have changed or which was cut is refused, alone. tests/http/formats holds a model, a
checkpoint and jobs.

Mutations are seeded: one flipped bit, or a cut, in the header, in the bytes of tensors, or near the end."""
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import BINARY, ROOT, Daemon
from test_daemon_load import eventually

FORMATS = Path(__file__).parent / "formats"
SHIPPED = ROOT / "config" / "models"
OPTIONS = {"task": "copy", "num_symbols": 8, "shortest": 1, "longest": 5, "num_pairs": 100, "num_validation_pairs": 20, "num_scored_pairs": 10, "width": 8,
           "num_heads": 2, "evaluate_every": 10, "checkpoint_every": 5, "batch_tokens": 100, "warmup": 10, "rate": 0.01, "seed": 5}
TRAIN = {"kind": "train", "num_steps": 100} | OPTIONS  # what the checkpoints belong to
TRAINED, FOUND = "job-0000000000000001", "job-0000000000000002"
ASKED = [("attention", {"token_ids": [4, 5, 6], "target_token_ids": [4, 5], "return": ["weights", "logits"]}),
         ("generate", {"text": "1 4 2", "return": "weights"})]


def command(*more):
    words = [word for name, value in OPTIONS.items() for word in ("--" + name.replace("_", "-"), str(value))]
    return [BINARY, "train", *words, *map(str, more)]


# --- mutations ---

def header_end(data):
    return 8 + int.from_bytes(data[:8], "little")


def mutations(data, count, seed, regions):
    """`count` different mutations of the bytes: flips and cuts in turn, in each region (from, to) in turn."""
    rng = random.Random(seed)
    made = {}
    while len(made) < count:
        place = rng.choice(regions)
        at = rng.randrange(*place)
        if len(made) % 3 == 2:
            made[f"cut {at}"] = data[:at]
        else:
            bit = rng.randrange(8)
            made[f"flip {at}.{bit}"] = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1:]
    return made


def regions_of(data):
    """Length and header, tensors, end of a container."""
    end = header_end(data)
    return [(0, end), (end, len(data)), (len(data) - 64, len(data))]


def rest_of(data):
    return [(0, len(data)), (len(data) - 16, len(data))]


# --- models ---

def answers(daemon, model):
    """What there is to know of a model; None: its file is refused."""
    about = daemon.get(f"/v1/models/{model}")
    if about.status_code == 500:
        assert about.json()["code"] == "damaged"
        detail = about.json()["detail"]
        assert f'the file of model "{model}" is not a model: ' in detail, detail
        return None
    assert about.status_code == 200, about.text
    found = [{k: v for k, v in about.json().items() if k not in ("id", "checksums")}]
    for path, body in ASKED:
        reply = daemon.post(f"/v1/models/{model}/{path}", body)
        found.append((reply.status_code, {k: v for k, v in reply.json().items() if k not in ("model", "instance")}))
    return found


def wrong_models(folder, source, count, seed):
    """The mutated model files that are served and answer otherwise than the whole file."""
    data = source.read_bytes()
    made = mutations(data, count, seed, regions_of(data))
    for i, mutated in enumerate(made.values()):
        (folder / f"m{i}.safetensors").write_bytes(mutated)
    (folder / "whole.safetensors").write_bytes(data)
    daemon = Daemon("--models-dir", str(folder), "--ops-listen", "")
    try:
        want = answers(daemon, "whole")
        assert want and want[1][0] == want[2][0] == 200, want
        got = {name: answers(daemon, f"m{i}") for i, name in enumerate(made)}
        return [name for name, answer in got.items() if answer and answer != want], [name for name, answer in got.items() if not answer]
    finally:
        assert daemon.stop() == 0


def test_a_changed_model_file_is_refused(tmp_path):
    wrong, refused = wrong_models(tmp_path, FORMATS / "model.safetensors", 600, 1)
    assert wrong == [] and len(refused) == 600


@pytest.mark.parametrize("name", sorted(file.name for file in SHIPPED.glob("*.safetensors")))
def test_a_changed_copy_of_a_shipped_model_is_refused(tmp_path, name):
    wrong, refused = wrong_models(tmp_path, SHIPPED / name, 45, 4)
    assert wrong == [] and len(refused) == 45


def test_models_say_whether_their_file_has_checksums(start, tmp_path):
    data = (FORMATS / "model.safetensors").read_bytes()
    (tmp_path / "bare.safetensors").write_bytes(unsealed(data))
    (tmp_path / "whole.safetensors").write_bytes(data)
    shutil.copytree(FORMATS / "jobs", tmp_path / "jobs")
    daemon = start("--models-dir", str(tmp_path), "--jobs-dir", str(tmp_path / "jobs"))
    made = daemon.post("/v1/models", {"source_vocabulary": 9, "target_vocabulary": 9, "width": 8, "num_heads": 2}).json()
    said = {m["id"]: m["checksums"] for m in daemon.get("/v1/models").json()["models"]}
    shipped = [file.stem for file in SHIPPED.glob("*.safetensors")]
    assert said == {"bare": False, "whole": True, made["id"]: True, TRAINED.replace("job-", "trained-"): True} | dict.fromkeys(shipped, True)
    assert all(daemon.get(f"/v1/models/{name}").json()["checksums"] == has for name, has in said.items())
    in_memory = start().post("/v1/models", {"source_vocabulary": 9, "target_vocabulary": 9, "width": 8, "num_heads": 2}).json()
    assert "checksums" not in in_memory


def test_an_embedded_model_does_not_stand_for_a_damaged_file(start, tmp_path):
    data = bytearray((FORMATS / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "en-fr.safetensors").write_bytes(data)
    daemon = start("--models-dir", str(tmp_path))
    refused = daemon.get("/v1/models/en-fr")
    assert refused.status_code == 500 and "not those that were written" in refused.json()["detail"]
    assert {m["id"] for m in daemon.get("/v1/models").json()["models"]} == {"en-fr-text"}
    (tmp_path / "en-fr.safetensors").unlink()
    assert daemon.get("/v1/models/en-fr").json()["origin"] == "embedded"


# --- what a newer program may have written ---

def crc32c(data, begun=0):
    table = []
    for b in range(256):
        for _ in range(8):
            b = b >> 1 ^ (0x82F63B78 if b & 1 else 0)
        table.append(b)
    crc = begun ^ 0xFFFFFFFF
    for b in data:
        crc = crc >> 8 ^ table[(crc ^ b) & 255]
    return crc ^ 0xFFFFFFFF


def sealed(data, metadata):
    """The container with other metadata (None: without the key), and the seal that belongs to it."""
    end = header_end(data)
    header = json.loads(data[8:end])
    texts = {k: v for k, v in (header["__metadata__"] | metadata).items() if v is not None} | {"seal.header": "0" * 8}
    text = json.dumps(header | {"__metadata__": texts}, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 64)
    head = len(text).to_bytes(8, "little") + text
    lead = b'"seal.header":"'
    return head.replace(lead + b"0" * 8, lead + b"%08x" % crc32c(head), 1) + data[end:]


def unsealed(data, **metadata):
    """The container without a seal and with more metadata, as other programs write it."""
    end = header_end(data)
    header = json.loads(data[8:end])
    kept = {k: v for k, v in header["__metadata__"].items() if not k.startswith("seal.")}
    text = json.dumps(header | {"__metadata__": kept | metadata}).encode()
    return len(text).to_bytes(8, "little") + text + data[end:]


@pytest.mark.parametrize("metadata, words", [
    ({"seal.version": "3"}, ["a newer program wrote this", "version 3", "up to 2"]),
    ({"seal.version": "0"}, ["seal.version", '"0"']),
    ({"seal.version": "2.5"}, ["seal.version", '"2.5"']),
    ({"seal.version": None}, ["seal.version", "lacks"]),
    ({"seal.checksums": None}, ["seal.checksums", "lacks"]),
    ({"seal.checksums": "sha256:1048576:00000000"}, ["sha256"]),
    ({"architecture": "mixture"}, ["architecture", '"mixture"', "this program knows"]),
    ({"attention": "linear"}, ["attention", '"linear"']),
    ({"positions": "dynamic"}, ["positions", '"dynamic"']),
    ({"gating_of_heads": "sigmoid"}, ["another version of this program wrote this", '"gating_of_heads"']),
    ({"source_language": "german"}, ["source_language", '"german"']),
    ({"corpus.task": "en-de"}, ["corpus.task", '"en-de"']),
])
def test_a_model_of_a_newer_program_is_refused(start, tmp_path, metadata, words):
    data = (FORMATS / "model.safetensors").read_bytes()
    (tmp_path / "newer.safetensors").write_bytes(sealed(data, metadata))
    (tmp_path / "remark.safetensors").write_bytes(sealed(data, {"attnd.remark": "a key with a dot changes nothing"}))
    (tmp_path / "whole.safetensors").write_bytes(data)
    daemon = start("--models-dir", str(tmp_path))
    reply = daemon.get("/v1/models/newer")
    assert reply.status_code == 500 and reply.json()["code"] == "damaged"
    for word in ['the file of model "newer" is not a model: ', *words]:
        assert word in reply.json()["detail"]
    assert answers(daemon, "whole") == answers(daemon, "remark") is not None
    assert {m["id"] for m in daemon.get("/v1/models").json()["models"]} >= {"whole", "remark"}


def test_files_without_a_seal_may_have_any_key(start, tmp_path):
    data = (FORMATS / "model.safetensors").read_bytes()
    (tmp_path / "mine.safetensors").write_bytes(unsealed(data, author="me"))
    (tmp_path / "whole.safetensors").write_bytes(data)
    daemon = start("--models-dir", str(tmp_path))
    assert answers(daemon, "mine") == answers(daemon, "whole") is not None


# --- checkpoints and jobs ---

def described(text, version=3):
    """A description in jobs_dir: a line with the checksum of its version and text, and the JSON text."""
    return b"attnd-job %d %08x\n%b" % (version, crc32c(text, version), text)


def waiting(request):
    """The description of a job that had not ended."""
    return described(json.dumps({"request": request, "facts": {"state": "running", "created_ms": 1}}).encode())


def wrong_checkpoints(folder, source, count, seed):
    """The mutated checkpoints with which a job ended, though with another model than with the whole one; and those with
    which it failed."""
    data = source.read_bytes()
    made = {"whole": data} | mutations(data, count, seed, regions_of(data))
    ids = {name: f"job-{i:016x}" for i, name in enumerate(made)}
    for name, job in ids.items():
        (folder / f"{job}.json").write_bytes(waiting(TRAIN))
        (folder / f"{job}.checkpoint").write_bytes(made[name])
    daemon = Daemon("--jobs-dir", str(folder), "--jobs-count", str(count + 1), "--models-count", str(count + 1), "--jobs-nice", "0",
                    "--ops-listen", "")
    try:
        assert eventually(lambda: all(job["state"] in ("done", "failed") for job in daemon.get("/v1/jobs?limit=1000").json()["jobs"]))
        jobs = {job["id"]: job for job in daemon.get("/v1/jobs?limit=1000").json()["jobs"]}
        assert len(jobs) == count + 1
        results = {}
        for name, job in ids.items():
            done = jobs[job]["state"] == "done"
            assert done or jobs[job]["error"]
            results[name] = (folder / f"{job}.safetensors").read_bytes() if done else None
        want = results.pop("whole")
        assert want
        return [name for name, got in results.items() if got and got != want], [name for name, got in results.items() if not got]
    finally:
        assert daemon.stop() == 0


def test_a_changed_checkpoint_is_refused(tmp_path):
    wrong, refused = wrong_checkpoints(tmp_path, FORMATS / "train.checkpoint", 400, 2)
    assert wrong == [] and len(refused) == 400


@pytest.mark.parametrize("depth", [1, 60])
def test_errors_of_jobs_do_not_name_folders_of_the_server(start, tmp_path, depth):
    """The place of an error has room for 95 characters."""
    folder = tmp_path / ("d" * depth) / ("e" * depth)
    folder.mkdir(parents=True)
    job = "job-0000000000000003"
    (folder / f"{job}.json").write_bytes(waiting(TRAIN))
    data = bytearray((FORMATS / "train.checkpoint").read_bytes())
    data[-100] ^= 4
    (folder / f"{job}.checkpoint").write_bytes(data)
    daemon = start("--jobs-dir", str(folder))
    assert eventually(lambda: daemon.get(f"/v1/jobs/{job}").json()["state"] == "failed")
    error = daemon.get(f"/v1/jobs/{job}").json()["error"]
    assert "not those that were written" in error and "/" not in error.partition(":")[0]
    whole = len(f"{folder}/{job}.checkpoint") <= 95
    assert str(tmp_path)[:20] not in error and error.startswith(f"{job}.checkpoint: ") == whole


def found(daemon, job):
    """What the service says of an experiment: status and text of the job and of each part of its result."""
    parts = [daemon.get(f"/v1/jobs/{job}")]
    if parts[0].status_code == 200:
        parts += [daemon.get(f"/v1/jobs/{job}/{what}", headers={"Accept": kind}) for what, kind in
                  (("result", "application/json"), ("result", "text/plain"), ("pictures/parameters", "image/svg+xml"))]
    return [(reply.status_code, reply.text.replace(job, "JOB")) for reply in parts]


def wrong_results(folder, source, count, seed):
    """The mutated files of an experiment of which something is served that is not what was written."""
    rng = random.Random(seed)
    files = sorted(source.glob(f"{FOUND}.*"))
    assert len(files) == 4
    wrong, made = {}, {}
    for i in range(count):
        target, job = files[i % 4], f"job-{i + 16:016x}"
        data = target.read_bytes()
        (name, mutated), = mutations(data, 1, rng.random(), rest_of(data)).items()
        if i // 4 % 3 == 2:
            at = rng.randrange(len(data))
            name, mutated = f"cut {at}", data[:at]
        made[job] = f"{target.suffixes[-1]} {name}", target
        for file in files:
            (folder / file.name.replace(FOUND, job)).write_bytes(mutated if file == target else file.read_bytes())
    for file in files:
        shutil.copy(file, folder)
    daemon = Daemon("--jobs-dir", str(folder), "--jobs-count", str(count + 1), "--ops-listen", "")
    refused = 0
    try:
        whole = found(daemon, FOUND)
        assert [status for status, _ in whole] == [200] * 4
        for job, (name, target) in made.items():
            got = found(daemon, job)
            for part, want in zip(got[1:], whole[1:]):
                if part[0] == 200 and part[1] != want[1]:
                    wrong[name] = part[1]
                elif part[0] != 200:
                    assert part[0] == 500 and "is not as the job wrote it" in part[1], part
            about = json.loads(got[0][1])
            if got[0][0] == 200 and {k: v for k, v in about.items() if k != "error"} != json.loads(whole[0][1]):
                wrong[name] = about
            refused += any(status != 200 for status, _ in got)
            if got[0][0] == 404:
                assert target.suffix == ".json" and (folder / f"{job}.json.damaged").exists()
            else:  # the other parts are served
                assert [status for status, _ in got].count(200) == 3 and f"JOB{target.name[len(FOUND):]}" in about["error"]
        return wrong, refused
    finally:
        assert daemon.stop() == 0


def test_a_changed_file_of_an_experiment_is_refused(tmp_path):
    wrong, refused = wrong_results(tmp_path, FORMATS / "jobs", 600, 3)
    assert wrong == {} and refused == 600


def test_the_model_of_a_job_is_refused(start, tmp_path):
    for file in (FORMATS / "jobs").glob(f"{TRAINED}.*"):
        shutil.copy(file, tmp_path)
    model = tmp_path / f"{TRAINED}.safetensors"
    data = model.read_bytes()
    model.write_bytes(data[:-5000] + b"\0" + data[-4999:])
    daemon = start("--jobs-dir", str(tmp_path))
    job = daemon.get(f"/v1/jobs/{TRAINED}").json()
    assert job["state"] == "done" and "model" not in job
    assert job["error"].startswith("its model is not served: ") and "not those that were written" in job["error"]


@pytest.mark.parametrize("other, words", [
    (lambda text: described(text.replace(b'"request":', b'"wishes":'), 4), "a newer program wrote it, and this one reads version 3"),
    (lambda text: b'{"version":2,"checksum":"00000000",' + text[1:], "an older program wrote it, and this one reads version 3"),
])
def test_a_job_of_another_version_is_left_alone(start, tmp_path, other, words):
    for file in (FORMATS / "jobs").iterdir():
        shutil.copy(file, tmp_path)
    file = tmp_path / f"{FOUND}.json"
    written = other(file.read_bytes().partition(b"\n")[2])
    file.write_bytes(written)
    daemon = start("--jobs-dir", str(tmp_path))
    assert [job["id"] for job in daemon.get("/v1/jobs").json()["jobs"]] == [TRAINED]
    assert eventually(lambda: any(words in e.get("event", "") for e in daemon.log(0)))
    assert file.read_bytes() == written


def test_a_checkpoint_is_resumed(tmp_path):
    model = tmp_path / "model"
    shutil.copy(FORMATS / "train.checkpoint", f"{model}.checkpoint")
    done = subprocess.run(command("--num-steps", 100, "--out", model, "--resume"), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "continuing after step 30" in done.stderr, done.stderr
    assert b'"seal.version":"2"' in model.read_bytes()[:200]


def test_a_changed_checkpoint_stops_the_command(tmp_path):
    data = bytearray((FORMATS / "train.checkpoint").read_bytes())
    data[-100] ^= 4
    (tmp_path / "m.checkpoint").write_bytes(data)
    done = subprocess.run(command("--num-steps", 100, "--out", tmp_path / "m", "--resume"), capture_output=True, text=True, timeout=600)
    assert done.returncode == 1 and "m.checkpoint" in done.stderr and "not those that were written" in done.stderr


def test_jobs_are_restored(start, tmp_path):
    shutil.copytree(FORMATS / "jobs", tmp_path / "jobs")
    daemon = start("--jobs-dir", str(tmp_path / "jobs"))
    jobs = daemon.get("/v1/jobs").json()["jobs"]
    assert [(job["id"], job["state"], "error" in job) for job in jobs] == [(TRAINED, "done", False), (FOUND, "done", False)]
    assert daemon.get(f"/v1/models/{jobs[0]['model']}").status_code == 200
    about, *parts = found(daemon, FOUND)
    stored = json.loads((FORMATS / "jobs" / f"{FOUND}.json").read_text().partition("\n")[2])
    assert json.loads(about[1]) == {"kind": "experiment", "id": "JOB"} | stored["facts"] | {"request": stored["request"]}
    names = [f"{FOUND}{end}" for end in (".findings", ".txt", ".parameters.svg")]
    assert parts == [(200, (FORMATS / "jobs" / name).read_text()) for name in names]
