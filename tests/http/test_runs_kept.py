"""Which stored runs are kept, for how long and for whom: use, wrong clocks, marks of what is gone, and owners."""
import os
import subprocess
import time

import pytest
from safetensors import safe_open
from test_daemon_load import eventually

from conftest import PATIENCE, write_keys

ADMIN, ONE, OTHER = "adminadminadminadmin", "oneoneoneoneoneone", "otherotherotherother"
RUN = {"query": {"shape": [64, 512], "random": "normal", "seed": 1}, "store": True, "return": []}  # about 130 KB
YEAR = 365 * 24 * 3600
HERE = pytest.mark.parametrize("files", [False, True], ids=["memory", "directory"])


def where(files, tmp_path):
    return ("--runs-dir", str(tmp_path)) if files else ()


def store(daemon, key=None, body=RUN):
    reply = daemon.post("/v1/attention", body, headers=bearer(key))
    assert reply.status_code == 200, reply.text
    return "/v1/runs/" + reply.json()["run"]["id"]


def bearer(key):
    return {"Authorization": "Bearer " + key} if key else {}


def expires(daemon, path):
    return daemon.get(path).json()["expires_ms"] / 1000


@HERE
def test_a_run_lives_as_long_as_it_is_used(start, tmp_path, files):
    daemon = start("--runs-ttl-ms", "2000", *where(files, tmp_path))
    used, unused = store(daemon), store(daemon)
    first = expires(daemon, used)
    end = time.monotonic() + 3.5
    while time.monotonic() < end:
        assert daemon.get(used).status_code == 200
        time.sleep(0.1)
    assert expires(daemon, used) > first + 2
    assert daemon.get(unused).status_code == 410


@HERE
def test_expiry_moves_at_most_once_a_minute(start, tmp_path, files):
    daemon = start("--runs-ttl-ms", "3600000", *where(files, tmp_path))
    run = store(daemon)
    first = expires(daemon, run)
    assert abs(first - time.time() - 3600) < 5
    time.sleep(2.1)
    assert abs(expires(daemon, run) - first) <= 1
    told = int(daemon.get(run + "/weights?rows=0:1").headers["Cache-Control"].split("max-age=")[1].split(",")[0])
    assert 3590 < told < 3599


def test_replicas_learn_of_uses_by_others(start, tmp_path):
    """Each sees the use through the file, and neither lets go of what the other one shows."""
    one, other = (start("--runs-ttl-ms", "7000", "--runs-dir", str(tmp_path)) for _ in range(2))
    run = store(one)
    end = time.monotonic() + 9
    while time.monotonic() < end:
        assert other.get(run).status_code == 200
        time.sleep(0.3)
    assert one.get(run).status_code == 200


CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long ahead(void) {
    char text[32] = "";
    const int fd = open(getenv("WRONG_CLOCK"), O_RDONLY);
    if (fd >= 0 && read(fd, text, sizeof text - 1) < 0)
        text[0] = 0;
    close(fd);
    return atol(text);
}
int clock_gettime(clockid_t clock, struct timespec *t) {
    const long failed = syscall(SYS_clock_gettime, clock, t);
    if (!failed && clock == CLOCK_REALTIME)
        t->tv_sec += ahead();
    return (int)failed;
}
time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t)
        *t = now.tv_sec;
    return now.tv_sec;
}
"""


def wrong_clock(folder, ahead):
    """The environment of a process whose wall clock is ahead by so many seconds."""
    source, library, offset = folder / "clock.c", folder / "clock.so", folder / "ahead"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    offset.write_text(str(ahead))
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return {"LD_PRELOAD": str(library), "WRONG_CLOCK": str(offset), "ASAN_OPTIONS": asan}


def test_a_step_of_the_wall_clock_deletes_no_run(start, tmp_path_factory):
    steps = []
    for files in (False, True):
        for step in (-20 * YEAR, 20 * YEAR):
            folder = tmp_path_factory.mktemp("clock")
            daemon = start(*where(files, tmp_path_factory.mktemp("runs")), env=wrong_clock(folder, 0))
            run = store(daemon)
            (folder / "ahead").write_text(str(step))
            steps.append((daemon, run, step))
    time.sleep(5.5)  # a look at what has expired comes every five seconds
    for daemon, run, step in steps:
        assert daemon.get(run).status_code == 200
        assert abs(expires(daemon, run) - time.time() - step - 3600) < 20
        assert daemon.metric("attnd_runs_expired_total") == 0


def test_files_of_other_times_are_kept_and_expire(start, tmp_path):
    """What was stored while the clock was wrong, or is looked at while it is."""
    maker = start("--runs-dir", str(tmp_path))
    runs = [store(maker) for _ in range(4)]
    for age, file in zip((20 * YEAR, -20 * YEAR) * 2, sorted(tmp_path.glob("*.safetensors"))):
        os.utime(file, (time.time() - age,) * 2)
    daemon = start("--runs-dir", str(tmp_path), "--runs-ttl-ms", "3000")
    assert daemon.get(min(runs)).status_code == 200
    assert eventually(lambda: not list(tmp_path.glob("*.safetensors")))
    assert [daemon.get(run).status_code for run in runs] == [410] * 4


def test_marks_of_gone_runs_are_bounded(start, tmp_path):
    for n in range(20_000):
        (tmp_path / f"{n:032x}.gone").touch()
    os.utime(tmp_path / f"{7:032x}.gone", (time.time() + 60,) * 2)
    daemon = start("--runs-dir", str(tmp_path))
    assert 4096 <= len(list(tmp_path.glob("*.gone"))) <= 8192
    assert daemon.get("/v1/runs/" + f"{7:032x}").status_code == 410, "the newest marks stay"
    run = store(daemon)
    daemon.request("DELETE", run)
    assert daemon.get(run).status_code == 410


def test_a_store_does_not_read_the_directory(start, tmp_path):
    """Counted by the calls of the process: a store looks at its own file alone."""
    daemon = start("--runs-dir", str(tmp_path), "--runs-bytes", "1000000", "--log", "off")
    for _ in range(10):
        store(daemon)
    assert eventually(lambda: len(list(tmp_path.glob("*.safetensors"))) <= 8, PATIENCE)
    listed = subprocess.Popen(["strace", "-f", "-c", "-e", "trace=getdents64", "-p", str(daemon.pid)],
                              stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    begin = time.monotonic()
    for _ in range(20):
        store(daemon)
    took = time.monotonic() - begin
    listed.send_signal(2)
    calls = [line for line in listed.communicate()[1].splitlines() if "getdents64" in line]
    count = int(calls[0].split()[3]) if calls else 0
    assert count <= 4 * (took // 5 + 1)
    assert daemon.metric("attnd_runs_bytes") <= 1_000_000


# --- owners ---

@pytest.fixture
def keyed(start, tmp_path):
    keys = write_keys(tmp_path, f"ops:{ADMIN} admin", f"one:{ONE}", f"other:{OTHER}")
    return lambda *args: start("--keys-file", keys, *args)


@HERE
def test_one_key_does_not_evict_the_runs_of_another(keyed, tmp_path, files):
    """Who has most gives way first, though his runs are the newer ones; a restart knows the owners of files."""
    daemon = keyed("--runs-bytes", "1000000", *where(files, tmp_path))
    mine = [store(daemon, ONE) for _ in range(2)]
    if files:
        daemon.stop()
        daemon = keyed("--runs-bytes", "1000000", *where(files, tmp_path))
    flood = [store(daemon, OTHER) for _ in range(30)]
    assert [daemon.get(run, headers=bearer(ONE)).status_code for run in mine] == [200, 200]
    status = [daemon.get(run, headers=bearer(OTHER)).status_code for run in flood]
    assert status[0] == 410 and status[-1] == 200 and 3 <= status.count(200) <= 6


@HERE
def test_only_its_owner_or_an_admin_deletes_a_run(keyed, tmp_path, files):
    daemon = keyed(*where(files, tmp_path))
    run, second = store(daemon, ONE), store(daemon, ONE)
    refused = daemon.request("DELETE", run, headers=bearer(OTHER))
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), refused.text
    assert daemon.get(run, headers=bearer(OTHER)).status_code == 200, "to know the id is the right to look"
    assert daemon.request("DELETE", run, headers=bearer(ONE)).status_code == 204
    assert daemon.request("DELETE", second, headers=bearer(ADMIN)).status_code == 204


def test_a_run_without_an_owner_is_shared_and_an_admin_deletes_it(start, keyed, tmp_path):
    run = store(start("--runs-dir", str(tmp_path)))
    daemon = keyed("--runs-dir", str(tmp_path))
    assert daemon.get(run, headers=bearer(OTHER)).status_code == 200
    assert daemon.request("DELETE", run, headers=bearer(OTHER)).status_code == 403
    assert daemon.request("DELETE", run, headers=bearer(ADMIN)).status_code == 204
    own = store(daemon, ONE)
    with safe_open(str(tmp_path / (own.rsplit("/", 1)[1] + ".safetensors")), "numpy") as opened:
        assert opened.metadata()["owner"] == "one"
