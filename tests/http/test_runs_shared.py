"""Two daemons over one directory of runs behind haproxy: a run stored through one is viewed through the other,
one is killed in the middle of a store, and nobody who looks notices."""
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
import requests

from conftest import PATIENCE
from test_daemon_load import eventually

CONFIG = """
global
    maxconn 200
defaults
    mode http
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    timeout check 60s
    retries 3
    option redispatch 1
    retry-on conn-failure empty-response
frontend runs
    bind 127.0.0.1:{port}
    default_backend attnd
backend attnd
    balance roundrobin
    option httpchk GET /readyz
    http-response add-header X-Server %s
    server one 127.0.0.1:{one} check inter 200ms fall 1
    server two 127.0.0.1:{two} check inter 200ms fall 1
"""
BODY = {"query": {"shape": [3000, 16], "random": "normal", "seed": 3}, "is_causal": True, "store": True, "return": []}
# 40 MB on disk, so that a writer can be caught at it
LARGE = {"query": {"shape": [1200, 8192], "random": "normal", "seed": 4}, "window": [0, 0], "store": True, "return": []}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def proxy(tmp_path):
    running = []

    def launch(one, two):
        port = free_port()
        config = tmp_path / "haproxy.cfg"
        config.write_text(CONFIG.format(port=port, one=one.port, two=two.port))
        binary = shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin")
        running.append(subprocess.Popen([binary, "-db", "-f", str(config)], stderr=subprocess.DEVNULL))
        url = f"http://127.0.0.1:{port}"
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if requests.get(url + "/healthz", timeout=PATIENCE).status_code == 200:
                    return url
            except requests.ConnectionError:
                time.sleep(0.05)
        pytest.fail("haproxy does not answer")

    yield launch
    for process in running:
        process.terminate()
        process.wait()


def store(url, body=BODY):
    reply = requests.post(url + "/v1/attention", json=body, timeout=PATIENCE)
    assert reply.status_code == 200, reply.text
    return reply.json()["run"]["id"], reply.headers["X-Server"]


def look(url, name, what="/tiles?level=2"):
    reply = requests.get(f"{url}/v1/runs/{name}{what}", timeout=PATIENCE)
    assert reply.status_code == 200, (reply.status_code, reply.text)
    return hashlib.sha256(reply.content).hexdigest(), reply.headers["X-Server"]


class Viewers(threading.Thread):
    """Looks at runs without a pause; a look that fails is kept as what it was."""

    def __init__(self, url, names, want):
        super().__init__()
        self.url, self.names, self.want = url, names, want
        self.failed, self.looks, self.going = [], 0, True

    def run(self):
        while self.going:
            try:
                got, _ = look(self.url, self.names[self.looks % len(self.names)])
                if got != self.want:
                    self.failed.append("other bytes")
            except (AssertionError, requests.RequestException) as error:
                self.failed.append(repr(error))
            self.looks += 1


def swallow(port, answers):
    try:
        answers.append(requests.post(f"http://127.0.0.1:{port}/v1/attention", json=LARGE, timeout=PATIENCE))
    except requests.RequestException:
        answers.append(None)


def test_a_replica_dies_while_it_stores(start, proxy, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    one, two = (start("--runs_dir", str(runs), "--runs_bytes", "2G", "--log", "off", "--ops_listen", "") for _ in range(2))
    url = proxy(one, two)
    stored = [store(url) for _ in range(6)]
    assert {server for _, server in stored} == {"one", "two"}
    names = [name for name, _ in stored]
    seen = [look(url, name) for name in names for _ in range(3)]
    assert {server for _, server in seen} == {"one", "two"}
    assert len({content for content, _ in seen}) == 1

    viewers = [Viewers(url, names, seen[0][0]) for _ in range(3)]
    for viewer in viewers:
        viewer.start()
    answers = []
    try:
        caught = False
        for _ in range(20):
            sender = threading.Thread(target=swallow, args=(one.port, answers))
            sender.start()
            while sender.is_alive() and not list(runs.glob("*.part")):
                time.sleep(0.0005)
            os.kill(one.pid, signal.SIGSTOP)  # so that it does not get done between the look and the end
            os.waitid(os.P_PID, one.pid, os.WSTOPPED)
            left = list(runs.glob("*.part"))  # the other daemon may sweep it as soon as its writer is gone
            caught = bool(left)
            os.kill(one.pid, signal.SIGKILL if caught else signal.SIGCONT)
            sender.join()
            if caught:
                one.process.wait()
                break
        assert caught
        assert answers[-1] is None  # the client of that store got no answer
        more = [store(url) for _ in range(4)]
        assert {server for _, server in more} == {"two"}
        for name in names + [name for name, _ in more]:
            assert look(url, name)[0] == seen[0][0]
        time.sleep(0.5)
    finally:
        for viewer in viewers:
            viewer.going = False
        for viewer in viewers:
            viewer.join()
    assert not [failed for viewer in viewers for failed in viewer.failed]
    assert sum(viewer.looks for viewer in viewers) > 10
    assert eventually(lambda: not list(runs.glob("*.part")))  # swept by the one that is left
    for file in runs.glob("*.safetensors"):
        assert look(url, file.name[:32], "")


@pytest.mark.parametrize("size", [0, 100, "half", "all but ten"])
@pytest.mark.parametrize("what", ["/weights?rows=0:2&cols=0:2", "/tiles?level=0", "/top-k?top_k=3", "/analyses"])
def test_a_file_is_cut_short_while_it_is_open(start, tmp_path, what, size):
    """Costs its own requests; the daemon, and the other runs, go on."""
    daemon = start("--runs_dir", str(tmp_path), "--log", "off", "--ops_listen", "")
    name, other = (daemon.post("/v1/attention", BODY).json()["run"]["id"] for _ in range(2))
    before = daemon.get(f"/v1/runs/{other}{what}")
    assert before.status_code == 200, before.text
    file = tmp_path / f"{name}.safetensors"
    whole = file.stat().st_size
    os.truncate(file, {"half": whole // 2, "all but ten": whole - 10}.get(size, size))
    for _ in range(2):
        reply = daemon.get(f"/v1/runs/{name}{what}")
        assert reply.status_code == 500 and name in reply.json()["detail"]
        assert "immutable" not in reply.headers.get("Cache-Control", "")
    assert daemon.get(f"/v1/runs/{other}{what}").content == before.content
