"""Stored runs whose files were changed: every bit that an answer is computed from is checked before the answer goes
out. A damaged file is a problem for that run alone, and never an answer with other numbers."""
import json
import os
import shutil

import numpy as np
import pytest
from captured import TYPE
from safetensors.numpy import save
from test_api_runs import FORMS, MASKED, NPY, Stored, literal, npy
from test_daemon_load import eventually

LONG = {"query": literal(2, 1100, 8, seed=1), "is_causal": True}
VIEWS = ("", "/weights?rows=0:60&head={h}", "/rows?rows=3&head={h}", "/top-k?top_k=2&heads=all", "/cells?row=5&col=4&head={h}",
         "/tiles?level=0&encoding=f32&head={h}", "/tiles?level=1&encoding=f32&normalize=row_max&head=mean",
         "/tiles?level=0&encoding=f32&head={h}&against={good}", "/heatmaps", "/analyses", "/atlas?heads={h}", "/heads?heads={h}")


def answers(daemon, run, head, good=None):
    replies = [daemon.get("/v1/runs/" + run + view.format(h=head, good=good or run)) for view in VIEWS]
    return [(r.status_code, b"" if i == 0 else r.content) for i, r in enumerate(replies)]


@pytest.mark.parametrize("form", ["booleans", "padding", "t5", "shaw", "rotary", "additive score", "cache", "BLD", "float64"])
def test_flipped_bits(start, tmp_path, form):
    """One bit a file, in the header, in every tensor, in statistics. Each is refused, or it is in a head or a part that
    the view does not need and the answer is that of before."""
    daemon = start("--runs_dir", str(tmp_path))
    run = Stored(daemon, MASKED | FORMS[form] | {"query": literal(1, 4, 60, 16, seed=1) if form != "BLD" else
                                                 FORMS[form]["query"]})
    before = {h: answers(daemon, run.id, h) for h in (0, 3)}
    assert all(code in (200, 204) for h in before for code, _ in before[h])
    file = tmp_path / f"{run.id}.safetensors"
    data = file.read_bytes()
    rng = np.random.default_rng(len(form))
    refused = 0
    for trial in range(12):
        bad = bytearray(data)
        at = int(rng.integers(0, len(data)))
        bad[at] ^= 1 << int(rng.integers(0, 8))
        name = f"{rng.bytes(16).hex()}"
        (tmp_path / f"{name}.safetensors").write_bytes(bad)
        for h, then in before.items():
            for view, now, was in zip(VIEWS, answers(daemon, name, h, run.id), then, strict=True):
                assert now == was or (view == "" and now[0] == 200) or now[0] == 500, (trial, at, view)
                refused += now[0] == 500
        (tmp_path / f"{name}.safetensors").unlink()
    assert refused > 12
    assert answers(daemon, run.id, 0) == before[0]


def test_a_damaged_overview(start, tmp_path):
    daemon = start("--runs_dir", str(tmp_path))
    run = Stored(daemon, LONG)
    data = (tmp_path / f"{run.id}.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8:8 + size])["sites.0.overview.2.max"]["data_offsets"]
    bad = bytearray(data)
    bad[8 + size + (begin + end) // 2] ^= 64
    (tmp_path / ("a" * 32 + ".safetensors")).write_bytes(bad)
    assert daemon.get(f"/v1/runs/{'a' * 32}/tiles?level=2&x=1&y=1").status_code == 500
    assert np.array_equal(npy(run.get("/weights?rows=0:20", headers=NPY)), run.weights[0, 0, :20])


def test_an_imported_run_is_checked_in_every_view(start, tmp_path):
    daemon = start("--runs_dir", str(tmp_path))
    run = Stored(daemon, MASKED)
    reply = daemon.post("/v1/runs", data=(tmp_path / f"{run.id}.safetensors").read_bytes(),
                        headers={"Content-Type": "application/vnd.safetensors"})
    assert reply.status_code == 201, reply.text
    name = reply.json()["id"]
    other = start("--runs_dir", str(tmp_path))
    file = tmp_path / f"{name}.safetensors"
    bad = bytearray(file.read_bytes())
    bad[-20] ^= 1
    file.write_bytes(bad)
    assert other.get(f"/v1/runs/{name}/weights?head=3").status_code == 500
    for view in (f"{name}/tiles?head=mean", f"{run.id}/tiles?head=3&against={name}", f"{run.id}/tiles?head=mean&against={name}"):
        assert other.get(f"/v1/runs/{view}").status_code == 500, view
    assert other.get(f"/v1/runs/{run.id}/tiles?head=mean").status_code == 200


# --- files that are changed in place while a daemon has them open ---

def kept_times(file, change):
    """As cp -p, rsync -t and writers that restore the times leave it."""
    was = file.stat()
    change()
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))


def emptied(file, other):
    size = file.stat().st_size
    os.truncate(file, 0)
    os.truncate(file, size)


def write(file, at, change):
    """Replaces 4096 bytes from `at` on, of the end if that is negative."""
    with file.open("r+b") as content:
        content.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        old = content.read(4096)
        content.seek(-len(old), os.SEEK_CUR)
        content.write(change(old))


def flipped(data):
    return bytes([data[0] ^ 4]) + data[1:]


def zeroed(file, other):
    write(file, -4096, lambda data: bytes(len(data)))


def zeroed_header(file, other):
    write(file, 0, lambda data: bytes(len(data)))


def one_bit(file, other):
    write(file, -1000, flipped)


def one_bit_of_the_header(file, other):
    write(file, 40, flipped)


def overwritten(file, other):
    inode = file.stat().st_ino
    shutil.copyfile(other, file)
    assert file.stat().st_ino == inode


def replaced(file, other):
    shutil.copyfile(other, file.with_suffix(".new"))
    os.replace(file.with_suffix(".new"), file)


LOOKS = (*VIEWS[1:6], "/analyses")


@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize("change, code", [(emptied, "damaged"), (zeroed, "damaged"), (zeroed_header, "damaged"), (one_bit, "damaged"),
                                          (one_bit_of_the_header, None), (overwritten, "run_changed"), (replaced, "run_changed")])
def test_a_file_that_changes_while_it_is_open(start, tmp_path, change, code, times):
    """None: what was read and checked of it before is what is answered. So is an answer that took long enough to be kept."""
    daemon = start("--runs_dir", str(tmp_path))
    run, other = (Stored(daemon, {"query": literal(1, 4, 90, 16, seed=s), "is_causal": True}) for s in (1, 2))
    kept = tmp_path / f"{run.id}.kept"
    file, second = (tmp_path / f"{r.id}.safetensors" for r in (run, other))
    good = file.read_bytes()
    before = [daemon.get(f"/v1/runs/{run.id}" + view.format(h=3)).content for view in LOOKS]
    if times:
        kept_times(file, lambda: change(file, second))
    else:
        change(file, second)
    for _ in range(2):  # not once: for as long as the file is so
        for view in LOOKS:
            reply = daemon.get(f"/v1/runs/{run.id}" + view.format(h=3))
            if code is None or (reply.status_code == 200 and kept.exists()):
                assert reply.content == before[LOOKS.index(view)], view
            else:
                assert (reply.status_code, reply.json()["code"]) == ({"damaged": 500, "run_changed": 410}[code], code), view
    file.write_bytes(good)
    assert [daemon.get(f"/v1/runs/{run.id}" + view.format(h=3)).content for view in LOOKS] == before


def test_a_file_that_is_only_touched(start, tmp_path):
    daemon = start("--runs_dir", str(tmp_path))
    run = Stored(daemon, LONG)
    file = tmp_path / f"{run.id}.safetensors"
    before = answers(daemon, run.id, 0)
    for touch in (lambda: file.chmod(0o640), lambda: os.utime(file), lambda: os.link(file, tmp_path / "link"),
                  lambda: shutil.copyfile(tmp_path / "link", tmp_path / "new") and os.replace(tmp_path / "new", file)):
        touch()
        assert answers(daemon, run.id, 0) == before


def test_answers_that_were_kept_belong_to_the_file(start, tmp_path):
    """Another whole run under the same id, and the answers of the one before beside it."""
    daemon = start("--runs_dir", str(tmp_path))
    run, other = (Stored(daemon, {"query": literal(1, 4, 90, 16, seed=s)}) for s in (1, 2))
    view = "/analyses", "/weights?rows=0:4"
    job = daemon.get(f"/v1/runs/{run.id}/analyses", headers={"Prefer": "respond-async, wait=0"})
    assert job.status_code == 202 and eventually(lambda: daemon.get(job.headers["Location"]).json()["state"] == "done")
    old, new = ([daemon.get(f"/v1/runs/{r.id}{v}") for v in view] for r in (run, other))
    assert (tmp_path / f"{run.id}.kept").exists()
    assert daemon.stop() == 0
    shutil.copyfile(tmp_path / f"{other.id}.safetensors", tmp_path / f"{run.id}.safetensors")
    daemon = start("--runs_dir", str(tmp_path))
    for v, was, want in zip(view, old, new, strict=True):
        got = daemon.get(f"/v1/runs/{run.id}{v}", headers={"If-None-Match": was.headers["ETag"]})
        assert got.status_code == 200 and got.content == want.content != was.content


def test_bits_of_the_file_beside_an_imported_run(start, tmp_path):
    """The owner, the read token, and the checksums of the run."""
    daemon = start("--runs_dir", str(tmp_path))
    q = np.arange(8, dtype=np.float32).reshape(1, 1, 4, 2)
    data = save({"sites.0.query": q, "sites.0.key": q}, {"run": '{"version": 2, "sites": [{}]}'})
    run = daemon.post("/v1/runs", data, headers=TYPE).json()["id"]
    daemon.stop()
    [side] = tmp_path.glob("*.checks")
    text = side.read_bytes()
    for at in (None, *range(0, min(len(text), 62), 3)):
        side.write_bytes(text if at is None else text[:at] + bytes([text[at] ^ 1]) + text[at + 1:])
        once = start("--runs_dir", str(tmp_path))
        reply = once.get(f"/v1/runs/{run}/weights")
        assert reply.status_code == 200 if at is None else reply.json()["code"] == "damaged", at
        once.stop()
