"""Runs that clients bring: a file as the body of POST /v1/runs, or the name of one in captures_dir."""
import gzip
import http.client
import json
import os
import random
import resource
import shutil
import signal
import socket
import threading
import time

import numpy as np
import pytest
import requests
from safetensors.numpy import save_file
from test_daemon_load import eventually

from conftest import PATIENCE, run_attnd, write_keys

CAPTURE = {"Content-Type": "application/vnd.safetensors"}
BODY = {"query": {"shape": [1, 4, 700, 16], "random": "normal", "seed": 3}, "is_causal": True, "store": True, "return": []}
VIEWS = ["/weights?head=1&rows=0:90", "/tiles?level=0&head=2", "/top-k?top_k=3", "/rows?rows=600", "/analyses",
         "/cells?row=5&col=2"]
PART = "/weights?site=1&rows=0:2&cols=0:2"
ADMIN, ONE, OTHER = "adminadminadminadmin", "oneoneoneoneoneone", "otherotherotherother"


def bearer(key):
    return {"Authorization": "Bearer " + key} if key else {}


class Place:
    """A directory of runs and one of captures, and daemons over them."""

    def __init__(self, start, folder):
        self.start, self.runs, self.captures = start, folder / "runs", folder / "captures"
        self.runs.mkdir()
        self.captures.mkdir(mode=0o755)

    def daemon(self, *more):
        return self.start("--runs_dir", str(self.runs), "--captures_dir", str(self.captures), "--ops_listen", "",
                          "--log", "off", "--runs_bytes", "2G", *more)

    def files(self):
        return sorted(f.name for f in self.runs.iterdir() if f.suffix != ".gone")

    def side(self, path, suffix):
        return self.runs / (path.rsplit("/", 1)[1] + suffix)


@pytest.fixture
def place(start, tmp_path):
    return Place(start, tmp_path)


def make(folder):
    """The bytes of a run's file, the answers that the daemon which made it gives, and its description."""
    from conftest import Daemon
    (folder / "made").mkdir()
    daemon = Daemon("--runs_dir", str(folder / "made"), "--ops_listen", "", "--log", "off")
    try:
        run = daemon.post("/v1/attention", BODY).json()["run"]
        file = folder / "made" / f"{run['id']}.safetensors"
        answers = {view: look(daemon, "/v1/runs/" + run["id"], view) for view in VIEWS}
        return file, answers, run["sites"]
    finally:
        daemon.stop()


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return make(tmp_path_factory.mktemp("original"))


@pytest.fixture(scope="module")
def data(original):
    return original[0].read_bytes()


def capture(file, queries, width):
    """Writes a capture of two sites, which have 4 * queries * width bytes each."""
    values = np.random.default_rng(4).standard_normal((2, queries, width), np.float32)[:, None, None]
    sites = [{"name": f"site {i}", "layer": i, "query": f"{i}", "key": f"{i}", "window": [0, 0]} for i in range(2)]
    save_file({"0": values[0], "1": values[1]}, str(file), {"run": json.dumps({"version": 2, "sites": sites})})
    return file


@pytest.fixture(scope="module")
def middle(tmp_path_factory):
    """A file of 40 MB."""
    return capture(tmp_path_factory.mktemp("middle") / "capture", 1200, 4096)


def look(daemon, path, view):
    reply = daemon.get(path + view)
    assert reply.status_code == 200, reply.text
    return reply.content


def send(daemon, data, headers=CAPTURE, **kwargs):
    return daemon.post("/v1/runs", data, headers=headers, **kwargs)


def accepted(reply):
    assert reply.status_code == 201, reply.text
    assert reply.headers["Location"] == "/v1/runs/" + reply.json()["id"]
    return reply.headers["Location"]


def refused(reply, status, code, *words):
    problem = reply.json()
    assert (reply.status_code, problem["code"]) == (status, code), reply.text
    for word in words:
        assert word in problem["detail"], problem["detail"]
    return problem


def pieces(data, size=100_000, pause=0.0):
    for at in range(0, len(data), size):
        yield data[at:at + size]
        time.sleep(pause)


def check_equal(daemon, reply, original):
    _, answers, sites = original
    path = accepted(reply)
    assert reply.json()["sites"] == sites and daemon.get(path).json()["sites"] == sites
    for view in VIEWS:
        assert look(daemon, path, view) == answers[view], view
    return path


# --- both ways give the run that was there before ---

@pytest.mark.parametrize("way", ["safetensors", "octets", "chunked"])
def test_a_body_is_the_same_run(place, original, data, way):
    daemon = place.daemon("--max_body_bytes", "1000", "--memory_bytes", "64M")
    headers = {"Content-Type": "application/octet-stream"} if way == "octets" else CAPTURE
    path = check_equal(daemon, send(daemon, pieces(data) if way == "chunked" else data, headers), original)
    assert place.side(path, ".safetensors").read_bytes() == data
    assert place.side(path, ".checks").stat().st_mode & 0o777 == 0o600
    assert daemon.request("DELETE", path).status_code == 204
    assert place.files() == [] and daemon.get(path).status_code == 410


def test_a_body_in_memory_is_the_same_run(start, original, data):
    daemon = start("--ops_listen", "", "--log", "off")
    path = check_equal(daemon, send(daemon, data), original)
    assert daemon.request("DELETE", path).status_code == 204 and daemon.get(path).status_code == 410
    small = start("--ops_listen", "", "--log", "off", "--max_body_bytes", "1000")
    assert refused(send(small, data), 413, "too_large")["limit"]["setting"] == "max_body_bytes"
    assert refused(small.post("/v1/runs", {"file": "x"}), 422, "invalid_value", "captures_dir")["pointer"] == "/file"


@pytest.mark.parametrize("copy", [None, False, True])
def test_a_name_is_the_same_run(place, original, data, copy):
    daemon, other = place.daemon(), place.daemon()
    (place.captures / "a").mkdir(mode=0o755)
    file = place.captures / "a" / "run 1.safetensors"
    file.write_bytes(data)
    file.chmod(0o644)
    reply = daemon.post("/v1/runs", {"file": "a/run 1.safetensors"} | ({} if copy is None else {"copy": copy}))
    path = check_equal(daemon, reply, original)
    kept = [".checks", ".safetensors"] if copy else [".adopted"]
    answers = list(place.runs.glob("*.kept"))  # of VIEWS, those that took long
    assert place.files() == sorted([path[9:] + suffix for suffix in kept] + [f.name for f in answers])
    assert look(other, path, VIEWS[0]) == original[1][VIEWS[0]], "a daemon beside it"
    assert look(place.daemon(), path, VIEWS[0]) == original[1][VIEWS[0]], "a daemon that starts later"
    taken = daemon.metric("attnd_runs_bytes") - sum(f.stat().st_size for f in answers)
    assert taken == (len(data) if copy else place.side(path, ".adopted").stat().st_size)
    assert other.request("DELETE", path).status_code == 204 and place.files() == []
    assert daemon.get(path).status_code == 410 and file.read_bytes() == data


def test_an_adopted_run_expires_and_its_file_stays(place, data):
    daemon = place.daemon("--runs_ttl_ms", "1000")
    (place.captures / "x").write_bytes(data)
    path = accepted(daemon.post("/v1/runs", {"file": "x"}))
    time.sleep(1.2)
    assert daemon.get(path).status_code == 410 and place.files() == []
    assert (place.captures / "x").read_bytes() == data


# --- bad bodies ---

@pytest.mark.parametrize("type, status", [("application/x-npy", 415), ("application/x-npz", 415), ("text/plain", 415)])
def test_other_types_are_refused(place, data, type, status):
    reply = send(place.daemon(), data, {"Content-Type": type})
    refused(reply, status, "unsupported_media_type", "safetensors", type)
    assert "application/vnd.safetensors" in reply.headers["Accept-Post"] and place.files() == []


def test_codings_are_refused(place, data):
    daemon = place.daemon()
    for coding in ("gzip", "deflate"):
        reply = send(daemon, gzip.compress(data), CAPTURE | {"Content-Encoding": coding})
        refused(reply, 415, "unsupported_media_type", coding)
        assert reply.headers["Accept-Encoding"] == "identity"
    assert place.files() == [] and accepted(send(daemon, data, CAPTURE | {"Content-Encoding": "identity"}))


def test_bodies_that_are_no_run(place, data):
    daemon = place.daemon()
    refused(send(daemon, b""), 400, "malformed_json", "empty")
    assert send(daemon, iter([])).status_code == 400
    for broken in (b"x", b"no run" * 1000, data[:100], data[:-1], data + b"x", b"\xff" * 64, bytes(64)):
        assert refused(send(daemon, broken), 400, "malformed_json")["detail"] == refused(
            daemon.post("/v1/attention", broken, headers=CAPTURE), 400, "malformed_json", "safetensors: ")["detail"]
        assert place.files() == [], "nothing is left of it"
    refused(daemon.post("/v1/runs", data), 415, "unsupported_media_type", "application/vnd.safetensors")


def test_json_that_is_no_import(place):
    daemon = place.daemon("--max_body_bytes", "2M", "--max_envelope_bytes", "100000")
    assert refused(daemon.post("/v1/runs", {}), 422, "invalid_value", "file")["pointer"] == ""
    assert refused(daemon.post("/v1/runs", {"fil": "x"}), 422, "unknown_field")["pointer"] == "/fil"
    assert refused(daemon.post("/v1/runs", {"file": 3}), 422, "wrong_type")["pointer"] == "/file"
    assert refused(daemon.post("/v1/runs", {"file": "x", "copy": 1}), 422, "wrong_type")["pointer"] == "/copy"
    assert daemon.post("/v1/runs", "{").status_code == 400
    assert refused(daemon.post("/v1/runs", {"file": "x" * 200_000}), 413, "too_large")
    assert refused(daemon.post("/v1/runs", {"file": "x" * 3_000_000}), 413, "too_large")


# --- names ---

@pytest.fixture
def tricks(place, data):
    """A directory with everything that a name must not lead to."""
    outside = place.captures.parent / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(data)
    (place.captures / "x").write_bytes(data)
    (place.captures / "d").mkdir()
    (place.captures / "link").symlink_to("x")
    (place.captures / "out").symlink_to(outside)
    (place.captures / "up").symlink_to(outside / "x")
    (place.captures / "loop").symlink_to("loop")
    (place.captures / "empty").touch()
    os.mkfifo(place.captures / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place.captures / "socket"))
        yield place


@pytest.mark.parametrize("name", ["", ".", "..", "/", "../outside/x", "d/../x", "./x", "d/./x", "x/", "//x", "d//x", "d",
                                  "link", "out/x", "up", "loop", "loop/x", "x/y", "pipe", "socket", "none", "d/none",
                                  "x\n", "\x7fx", "n" * 300, "d/" * 2500 + "x", "empty"])
def test_names_that_lead_nowhere(tricks, name):
    reply = tricks.daemon().post("/v1/runs", {"file": name})
    problem = refused(reply, 422, "invalid_value")
    assert problem["pointer"] == "/file" and problem["detail"] and tricks.files() == []


@pytest.mark.parametrize("data", [b"ssh-rsa AAAAB3NzaC1yc2E", b"password", b"\x89PNG\r\n\x1a\n" + bytes(40)])
def test_a_file_that_is_no_capture_does_not_show(place, data):
    """The first eight bytes of a safetensors file are a number, and those of another file are not told as one."""
    (place.captures / "x").write_bytes(data)
    detail = refused(place.daemon().post("/v1/runs", {"file": "x"}), 422, "invalid_value", "no safetensors file")["detail"]
    assert str(int.from_bytes(data[:8], "little")) not in detail and not set("0123456789") & set(detail.replace("in 8 bytes", ""))


def test_absolute_names_are_refused(tricks):
    daemon = tricks.daemon()
    for name in (str(tricks.captures / "x"), "/etc/passwd", "/dev/zero", "/proc/self/mem"):
        refused(daemon.post("/v1/runs", {"file": name}), 422, "invalid_value", "relative to captures_dir")
    assert accepted(daemon.post("/v1/runs", {"file": "x"}))


def test_files_that_others_may_write_are_copied(place, data):
    daemon = place.daemon()
    file = place.captures / "d" / "x"
    file.parent.mkdir(mode=0o755)
    file.write_bytes(data)
    for mode, folder in ((0o664, 0o755), (0o646, 0o755), (0o644, 0o775), (0o644, 0o757)):
        file.chmod(mode)
        file.parent.chmod(folder)
        problem = refused(daemon.post("/v1/runs", {"file": "d/x", "copy": False}), 422, "invalid_value")
        assert problem["pointer"] == "/copy"
        path = accepted(daemon.post("/v1/runs", {"file": "d/x"}))
        assert place.side(path, ".safetensors").exists() and not place.side(path, ".adopted").exists()
    file.chmod(0o644)
    file.parent.chmod(0o755)
    assert place.side(accepted(daemon.post("/v1/runs", {"file": "d/x"})), ".adopted").exists()


def test_settings_that_do_not_fit(tmp_path):
    ended = run_attnd("--port", "0", "--captures_dir", str(tmp_path))
    assert ended.returncode == 2 and "runs_dir" in ended.stderr
    ended = run_attnd("--port", "0", "--runs_dir", str(tmp_path), "--captures_dir", str(tmp_path / "none"))
    assert ended.returncode == 2 and "captures_dir" in ended.stderr
    ended = run_attnd("--port", "0", "--runs_bytes", "1M", "--max_capture_bytes", "2M")
    assert ended.returncode == 2 and "max_capture_bytes" in ended.stderr


# --- files that change ---

def changed_time(file):
    os.utime(file, (1, 1))


def shorter(file):
    os.truncate(file, file.stat().st_size - 1)


def longer(file):
    with file.open("ab") as end:
        end.write(b"x")


def replaced(file):
    shutil.copy2(file, file.parent / "new")
    os.replace(file.parent / "new", file)


def linked(file):
    file.rename(file.parent / "other")
    file.symlink_to("other")


def removed(file):
    file.unlink()


def with_other_bytes(file):
    """Other bytes, with the size and the times of before."""
    was = file.stat()
    with file.open("r+b") as content:
        content.seek(3)
        content.write(b"\x01")
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))


@pytest.mark.parametrize("change", [changed_time, shorter, longer, replaced, linked, removed, with_other_bytes])
def test_an_adopted_file_that_changes(place, data, change):
    daemon, other = place.daemon(), place.daemon()
    file = place.captures / "x"
    file.write_bytes(data)
    path = accepted(daemon.post("/v1/runs", {"file": "x"}))
    beside = accepted(send(daemon, data))
    look(other, path, VIEWS[0])
    change(file)
    for service in (daemon, other):
        for view in ("", VIEWS[0], VIEWS[1]):
            refused(service.get(path + view), 410, "run_changed", path[9:])
    look(daemon, beside, VIEWS[0])
    assert other.request("DELETE", path).status_code == 204 and daemon.get(path).status_code == 410
    assert daemon.get(path).json()["code"] == "gone"


def test_a_sent_file_that_is_damaged(place, data):
    daemon = place.daemon()
    path, beside = accepted(send(daemon, data)), accepted(send(daemon, data))
    with place.side(path, ".safetensors").open("r+b") as content:
        content.seek(100)
        content.write(b"\x00")
    refused(place.daemon().get(path), 500, "damaged", path[9:], "damaged")
    place.side(beside, ".checks").write_text("attnd-run 2\nsums crc32c:1048576:00\n")
    other = place.daemon()
    refused(other.get(beside), 500, "damaged", beside[9:])
    assert other.request("DELETE", beside).status_code == 204


@pytest.mark.parametrize("way", ["sent", "adopted"])
def test_a_flipped_bit_of_a_side_file(place, data, tmp_path, way):
    """Owner and read token stand in it: no bit may give the run to another."""
    keys = write_keys(tmp_path, f"alice:{'a' * 20}", f"bob:{'b' * 20}")
    (place.captures / "x").write_bytes(data)
    daemon = place.daemon("--keys-file", keys)
    alice = {"Authorization": f"Bearer {'a' * 20}"}
    reply = send(daemon, data, headers=CAPTURE | alice) if way == "sent" else daemon.post("/v1/runs", {"file": "x"}, headers=alice)
    path = accepted(reply)
    assert daemon.stop() == 0
    file = place.side(path, ".checks" if way == "sent" else ".adopted")
    good = file.read_bytes()
    assert good.startswith(b"attnd-run 2\nowner alice\ntoken ")
    daemon = place.daemon("--keys-file", keys)
    for bit in range(0, 8 * len(good), 13):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        name = f"{bit:032x}"
        copy = file.parent / (name + file.suffix)
        copy.write_bytes(bad)
        if way == "sent":
            shutil.copy(place.side(path, ".safetensors"), file.parent / f"{name}.safetensors")
        refused(daemon.get(f"/v1/runs/{name}", headers=alice), 500, "damaged", name)
    assert daemon.get(path, headers=alice).json()["read_token"]


def test_a_file_that_changes_while_it_is_copied(place, middle):
    daemon = place.daemon()
    file = place.captures / "x"
    shutil.copy(middle, file)
    ends = threading.Event()

    def keep_changing():
        while not ends.is_set():
            os.utime(file)
            time.sleep(0.0005)

    changes = threading.Thread(target=keep_changing)
    changes.start()
    try:
        problem = refused(daemon.post("/v1/runs", {"file": "x", "copy": True}), 422, "invalid_value", "changed")
        assert problem["pointer"] == "/file"
        problem = daemon.post("/v1/runs", {"file": "x", "copy": False}).json()  # 410: it changed after it was read
        assert problem["code"] in ("invalid_value", "run_changed") and "changed" in problem["detail"]
    finally:
        ends.set()
        changes.join()
    assert place.files() == [] and accepted(daemon.post("/v1/runs", {"file": "x", "copy": True}))


# --- limits ---

def test_max_capture_bytes(place, data):
    daemon = place.daemon("--max_capture_bytes", str(len(data) - 1), "--max_body_bytes", "1M")
    head = (f"POST /v1/runs HTTP/1.1\r\nHost: {daemon.host}\r\nContent-Type: application/vnd.safetensors\r\n"
            f"Content-Length: {len(data)}\r\nExpect: 100-continue\r\n\r\n")
    answer = daemon.raw(head.encode())
    assert answer.startswith(b"HTTP/1.1 413 ") and b"max_capture_bytes" in answer, "before the body"
    problem = refused(send(daemon, pieces(data, 10_000)), 413, "too_large")
    assert problem["limit"] == {"value": len(data) - 1, "setting": "max_capture_bytes"}
    (place.captures / "x").write_bytes(data)
    problem = refused(daemon.post("/v1/runs", {"file": "x", "copy": True}), 413, "too_large")
    assert problem["limit"]["setting"] == "max_capture_bytes" and problem["pointer"] == "/file"
    assert eventually(lambda: place.files() == [])
    assert accepted(daemon.post("/v1/runs", {"file": "x"})), "its bytes are not those of runs_dir"
    exact = place.daemon("--max_capture_bytes", str(len(data)))
    assert accepted(send(exact, data)) and accepted(send(exact, pieces(data)))


def test_runs_bytes(place, data):
    """Room is made for what comes in, and what has no room is refused."""
    daemon = place.start("--runs_dir", str(place.runs), "--captures_dir", str(place.captures), "--runs_bytes",
                         str(len(data) * 5 // 2), "--ops_listen", "", "--log", "off")
    (place.captures / "x").write_bytes(data)
    paths = []
    for way in (data, pieces(data), None, data, None):
        reply = send(daemon, way) if way else daemon.post("/v1/runs", {"file": "x", "copy": True})
        paths.append(accepted(reply))
        time.sleep(0.01)
        assert sum(f.stat().st_size for f in place.runs.glob("*.safetensors")) <= len(data) * 5 // 2
    assert [daemon.get(path).status_code for path in paths] == [410, 410, 410, 200, 200]
    assert daemon.metric("attnd_runs_bytes") == 2 * len(data)


def test_a_full_disk(place, middle):
    daemon = place.daemon()
    shutil.copy(middle, place.captures / "x")
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (8 << 20, resource.RLIM_INFINITY))
    for reply in (send(daemon, middle.read_bytes()), send(daemon, pieces(middle.read_bytes())),
                  daemon.post("/v1/runs", {"file": "x", "copy": True})):
        refused(reply, 507, "storage_full")
    assert eventually(lambda: place.files() == [])
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert accepted(send(daemon, middle.read_bytes()))


def memory_of(daemon, what):
    with open(f"/proc/{daemon.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(what))


@pytest.mark.measured
def test_memory_does_not_grow_with_the_body(place, tmp_path):
    """300 MB come in, and the daemon neither holds nor counts them."""
    file = capture(tmp_path / "capture", 9200, 4096)
    assert file.stat().st_size > 300_000_000
    daemon = place.daemon("--memory_bytes", "64M", "--max_body_bytes", "1M")
    before, counted = memory_of(daemon, "VmRSS"), daemon.metric("attnd_memory_reserved_bytes")
    with file.open("rb") as body:
        path = accepted(send(daemon, body))
    assert memory_of(daemon, "VmHWM") - before < 60_000_000
    assert daemon.metric("attnd_memory_reserved_bytes") - counted < 1_000_000
    os.rename(file, place.captures / "x")
    for copy in (True, False):
        accepted(daemon.post("/v1/runs", {"file": "x", "copy": copy}))
    assert memory_of(daemon, "RssAnon") < before + 60_000_000
    assert daemon.get(path).status_code == 200


# --- interruptions ---

def begin(daemon, data, length=None):
    """A connection on which a body has begun."""
    link = daemon.connect()
    link.sendall(f"POST /v1/runs HTTP/1.1\r\nHost: {daemon.host}\r\nContent-Type: application/vnd.safetensors\r\n"
                 f"Content-Length: {length or 2 * len(data)}\r\n\r\n".encode() + data)
    return link


@pytest.mark.parametrize("ending", ["close", "reset"])
def test_an_upload_that_is_broken_off(place, middle, ending):
    daemon = place.daemon()
    for size in (1000, 5_000_000):
        link = begin(daemon, middle.read_bytes()[:size], 10_000_000)
        if size > 1_000_000:
            assert eventually(lambda: any(name.endswith(".part") for name in place.files()))
        if ending == "reset":
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        link.close()
        assert eventually(lambda: place.files() == [], 3), "at once, not with the next sweep"


def test_an_upload_that_is_too_slow(place, data):
    daemon = place.daemon("--header_timeout_ms", "300", "--min_rate_bytes", "100000")
    with begin(daemon, b"x" * 1000, 10_000_000) as link:
        link.settimeout(PATIENCE)
        assert link.recv(65536).startswith(b"HTTP/1.1 408 ")
    assert eventually(lambda: place.files() == [], 3)
    assert accepted(send(daemon, data))


def test_a_daemon_that_stops_during_uploads(place, middle):
    """It waits for bodies that come in, ends those that do not, and leaves nothing of them."""
    daemon = place.daemon("--drain_ms", "500")
    links = [begin(daemon, middle.read_bytes()[:3_000_000], 50_000_000) for _ in range(3)]
    assert eventually(lambda: len(place.files()) == 3)
    daemon.stop()
    assert place.files() == []
    for link in links:
        link.close()


def test_many_uploads_at_once(place, data, original):
    daemon = place.daemon()
    replies = []
    senders = [threading.Thread(target=lambda: replies.append(requests.post(
        daemon.url + "/v1/runs", pieces(data, 7777), headers=CAPTURE, timeout=PATIENCE))) for _ in range(24)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    paths = {accepted(reply) for reply in replies}
    assert len(paths) == 24
    for path in paths:
        assert look(daemon, path, VIEWS[0]) == original[1][VIEWS[0]]


def test_a_disk_that_is_slower_than_the_clients(place, middle):
    """Connections are suspended while their bytes wait for the disk, also with many small chunks on the way."""
    daemon, content, answers = place.daemon(), middle.read_bytes()[:8_000_000], []
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces(content, 2000))
    request = (f"POST /v1/runs HTTP/1.1\r\nHost: {daemon.host}\r\nContent-Type: application/vnd.safetensors\r\n"
               "Transfer-Encoding: chunked\r\n\r\n").encode() + chunks + b"0\r\n\r\n"
    senders = [threading.Thread(target=lambda: answers.append(daemon.raw(request))) for _ in range(12)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert [answer[:13] for answer in answers] == [b"HTTP/1.1 400 "] * 12, answers
    assert all(b"the tensors end at byte" in answer for answer in answers)
    daemon.stop()  # no connection is left suspended
    assert place.files() == []


@pytest.mark.parametrize("way", ["upload", "copy"])
def test_killed_while_a_run_comes_in(place, middle, way):
    """No part of a run is ever seen, no run that was acknowledged is lost, and what is left is swept."""
    reader, content = place.daemon(), middle.read_bytes()
    shutil.copy(middle, place.captures / "x")
    chance, known, torn, length = random.Random(way), [], 0, 0.3
    for _ in range(20):
        writer = place.daemon()
        began, answers = time.monotonic(), []

        def bring(url=writer.url, to=answers):
            try:
                to.append(requests.post(url + "/v1/runs", content, headers=CAPTURE, timeout=PATIENCE) if way == "upload"
                          else requests.post(url + "/v1/runs", json={"file": "x", "copy": True}, timeout=PATIENCE))
            except requests.RequestException:
                pass

        sender = threading.Thread(target=bring)
        sender.start()
        sender.join(chance.uniform(0, length))
        if not sender.is_alive():
            length = time.monotonic() - began  # so that about every kill hits
        os.kill(writer.pid, signal.SIGKILL)
        writer.process.wait()
        sender.join()
        torn += not answers
        known += [accepted(reply) for reply in answers]
        for file in place.runs.glob("*.safetensors"):
            assert file.stat().st_size == len(content)
            assert reader.get("/v1/runs/" + file.name[:32]).status_code == 200
    assert torn > 5
    last = place.daemon()
    names = place.files()
    assert not [name for name in names if name.endswith(".part")], "the start has swept"
    assert {name[:32] for name in names if name.endswith(".checks")} == \
        {name[:32] for name in names if name.endswith(".safetensors")}
    for path in known:
        assert look(last, path, PART) == look(reader, path, PART)


def test_checksums_without_a_run_are_swept(place, data):
    daemon = place.daemon()
    kept = accepted(send(daemon, data))
    orphan = place.runs / ("a" * 32 + ".checks")
    orphan.write_text("attnd-run 2\nsums crc32c:1048576:00000000\n")
    assert eventually(lambda: not orphan.exists())
    assert place.side(kept, ".checks").exists() and daemon.get(kept).status_code == 200


# --- owners ---

@pytest.mark.parametrize("way", ["body", "memory", "copy", "map"])
def test_the_owner_is_the_key_that_brings_it(start, place, way, tmp_path):
    """What the file says of an owner does not count, whoever reads it."""
    keys = ("--keys-file", write_keys(tmp_path, f"root:{ADMIN} admin", f"one:{ONE}", f"other:{OTHER}"))
    daemon = start("--ops_listen", "", "--log", "off", *keys) if way == "memory" else place.daemon(*keys)
    maker = place.daemon(*keys)
    made = maker.post("/v1/attention", BODY, headers=bearer(ONE)).json()["run"]["id"]
    content = (place.runs / f"{made}.safetensors").read_bytes()
    assert b'"owner":"one"' in content
    if way in ("body", "memory"):
        path = accepted(send(daemon, content, CAPTURE | bearer(OTHER)))
    else:
        (place.captures / "x").write_bytes(content)
        path = accepted(daemon.post("/v1/runs", {"file": "x", "copy": way == "copy"}, headers=bearer(OTHER)))
    services = [daemon] if way == "memory" else [daemon, place.daemon(*keys)]
    for service in services:
        assert service.get(path, headers=bearer(ONE)).status_code == 200
        assert service.request("DELETE", path, headers=bearer(ONE)).status_code == 403
    assert services[-1].request("DELETE", path, headers=bearer(OTHER)).status_code == 204
    if way == "memory":
        return
    assert maker.get("/v1/runs/" + made, headers=bearer(ONE)).status_code == 200
    if way == "map":  # the rights of a run that cannot be opened are the same
        path = accepted(daemon.post("/v1/runs", {"file": "x"}, headers=bearer(OTHER)))
        os.utime(place.captures / "x")
        assert daemon.request("DELETE", path, headers=bearer(ONE)).status_code == 403
        assert daemon.request("DELETE", path, headers=bearer(OTHER)).status_code == 204
    assert daemon.post("/v1/runs", content, headers=CAPTURE).status_code == 401


def test_a_connection_stays_open_for_the_next_request(place, data):
    daemon = place.daemon()
    link = http.client.HTTPConnection(daemon.host, daemon.port, timeout=PATIENCE)
    for _ in range(3):
        link.request("POST", "/v1/runs", data, CAPTURE)
        reply = link.getresponse()
        assert reply.status == 201 and reply.read()
        link.request("GET", reply.headers["Location"])
        assert link.getresponse().read()
    link.close()
