"""Runs whose files somebody changes while they are open: what is answered is what was checked."""
import os
import shutil

import numpy as np
import pytest
from captured import TYPE
from safetensors.numpy import save

BODY = {"query": {"shape": [1, 2, 60, 8], "random": "normal"}, "is_causal": True, "store": True, "return": []}
LOOK = "/weights?rows=3&cols=0:4"


def store(daemon, seed):
    query = BODY["query"] | {"seed": seed}
    return daemon.post("/v1/attention", BODY | {"query": query}).json()["run"]["id"]


def seen(daemon, run, look=LOOK):
    reply = daemon.get(f"/v1/runs/{run}{look}")
    return reply.status_code, reply.json() if reply.ok else reply.json()["code"]


@pytest.fixture
def two(start, tmp_path):
    daemon = start("--runs-dir", str(tmp_path))
    one, other = store(daemon, 1), store(daemon, 2)
    first, second = seen(daemon, one), seen(daemon, other)
    assert first[0] == second[0] == 200 and first != second
    return daemon, tmp_path, one, other, first


def test_another_run_is_written_over_an_open_one(two):
    daemon, folder, one, other, _ = two
    target = folder / f"{one}.safetensors"
    inode = target.stat().st_ino
    with open(target, "r+b") as file:
        file.write((folder / f"{other}.safetensors").read_bytes())
    assert target.stat().st_ino == inode
    assert seen(daemon, one) == (410, "run_changed")


def test_another_file_takes_the_place_of_an_open_one(two):
    """N1 of the kept answers: metrics of the run before are not those of the new one."""
    daemon, folder, one, other, _ = two
    metrics = "/metrics?analysis=entropy"
    assert seen(daemon, one, metrics)[0] == 200
    shutil.copy(folder / f"{other}.safetensors", folder / "new")
    os.replace(folder / "new", folder / f"{one}.safetensors")
    assert seen(daemon, one) == (410, "run_changed") == seen(daemon, one, metrics)


@pytest.mark.parametrize("change", ["zeros", "cut and grown", "one bit of the header", "one bit of a tensor"])
def test_a_damaged_open_run(two, change):
    daemon, folder, one, _, _ = two
    whole = seen(daemon, one, "/weights")
    path = folder / f"{one}.safetensors"
    data = bytearray(path.read_bytes())
    with open(path, "r+b") as file:
        if change == "zeros":
            file.seek(0)
            file.write(bytes(4096))
        elif change == "cut and grown":
            file.truncate(0)
            file.truncate(len(data))
        else:
            at = 40 if "header" in change else len(data) - 500
            file.seek(at)
            file.write(bytes([data[at] ^ 4]))
    now = seen(daemon, one, "/weights")
    assert now[1] in ("damaged", "run_changed", "storage_failed") or now == whole and "header" in change  # was read before


def test_touching_changes_nothing(two):
    daemon, folder, one, _, first = two
    os.utime(folder / f"{one}.safetensors")
    assert seen(daemon, one) == first


def test_a_bit_of_a_side_file(start, tmp_path):
    daemon = start("--runs-dir", str(tmp_path))
    q = np.arange(8, dtype=np.float32).reshape(1, 1, 4, 2)
    data = save({"sites.0.query": q, "sites.0.key": q}, {"run": '{"version": 2, "sites": [{}]}'})
    run = daemon.post("/v1/runs", data, headers=TYPE).json()["id"]
    [side] = tmp_path.glob("*.checks")
    text = side.read_bytes()
    daemon.stop()
    again = start("--runs-dir", str(tmp_path))
    assert seen(again, run, "/weights")[0] == 200
    again.stop()
    for at in range(0, len(text), 3):
        side.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1:])
        once = start("--runs-dir", str(tmp_path))
        assert seen(once, run, "/weights")[1] == "damaged", at
        once.stop()
        if at > 60:
            break
