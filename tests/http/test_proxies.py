"""The examples of docker/proxies, run with Debian's haproxy and nginx before real daemons: what passes
through them, what they refuse, and a rolling restart under load in which no request fails."""
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import requests

from conftest import PATIENCE, ROOT, Daemon, write_keys
from test_daemon_load import eventually, ops_metric, work
from test_daemon_protocol import head, post, read_one, status
from test_tls import Pair

KEY = "keykeykeykeykeykeykey"
TINY = '{"query":[[1,0],[0,1]]}'
PATHS = "/usr/sbin:/usr/local/sbin:/usr/bin:/bin"


def free_ports(count):
    """Of those that the system gives to no connection: a daemon that is away for a moment finds its own free."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = []
    while len(ports) < count:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", random.randrange(first // 2, first)))
                ports.append(probe.getsockname()[1])
            except OSError:
                pass
    assert len(set(ports)) == count
    return ports


class Proxy:
    """A running example: its text with the addresses of this test in place of its own."""

    def __init__(self, folder, name, changes):
        text = (ROOT / "docker" / "proxies" / name).read_text()
        for old, new in changes.items():
            assert old in text, f"{name} does not hold {old!r}"
            text = text.replace(old, str(new))
        self.config = folder / name
        self.config.write_text(text)
        self.log = open(folder / f"{name}.log", "w+")

    def run(self, command, port):
        self.port = port
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.session = requests.Session()
        self.session.trust_env = False
        self.url = f"http://127.0.0.1:{port}"

        def answers():
            assert self.process.poll() is None, Path(self.log.name).read_text()
            try:
                return requests.get(self.url + "/healthz", timeout=PATIENCE).status_code == 200
            except requests.ConnectionError:
                return False

        assert eventually(answers), Path(self.log.name).read_text()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def stop(self):
        self.session.close()
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.log.close()


def find(program):
    path = shutil.which(program, path=PATHS)
    assert path, f"{program} is not installed: tests/tools/deps test"
    return path


def haproxy(folder, pair, ports, daemons):
    (one, one_ops), (two, two_ops) = daemons
    pem = folder / "attnd.pem"
    pem.write_text(pair.cert.read_text() + pair.key.read_text())
    proxy = Proxy(folder, "haproxy.cfg", {
        "log /dev/log local0": "log stderr format raw local0",
        "timeout connect 2s\n": "timeout connect 2s\n    timeout check 60s\n",  # a busy machine is no daemon that is down
        "0.0.0.0:80\n": f"127.0.0.1:{ports[0]}\n", "0.0.0.0:443": f"127.0.0.1:{ports[1]}",
        "/etc/haproxy/attnd.pem": pem, "one 127.0.0.1:8080 port 8081": f"one 127.0.0.1:{one} port {one_ops}",
        "two 127.0.0.1:8090 port 8091": f"two 127.0.0.1:{two} port {two_ops}"})
    proxy.run([find("haproxy"), "-db", "-f", str(proxy.config)], ports[0])
    return proxy


def nginx(folder, pair, ports, first, second):
    where = {kind: f"{kind}_temp_path {folder}/{kind};" for kind in
             ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")}
    proxy = Proxy(folder, "nginx.conf", {
        "listen 80;": f"listen 127.0.0.1:{ports[0]};", "listen 443 ssl": f"listen 127.0.0.1:{ports[1]} ssl",
        "/etc/nginx/attnd.crt": pair.cert, "/etc/nginx/attnd.key": pair.key,
        "server 127.0.0.1:8080 ": f"server {first} ", "server unix:/run/attnd/attnd.sock ": f"server {second} ",
        "user www-data; # the socket_group\n": "", "/var/log/nginx/attnd.log": f"{folder}/access",
        "http {\n": "http {\n" + "\n".join(where.values()) + "\n"})
    proxy.run([find("nginx"), "-p", str(folder), "-c", str(proxy.config), "-e", str(folder / "errors"), "-g",
               f"daemon off; pid {folder}/pid; {'user root;' if Path('/root').owner() == 'root' else ''}"], ports[0])
    return proxy


@pytest.fixture(scope="module", params=["haproxy", "nginx"])
def setup(request, tmp_path_factory):
    """(proxy, the one daemon that is behind it, the certificate, its TLS port)."""
    folder = tmp_path_factory.mktemp(request.param)
    pair = Pair(folder, "localhost")
    ports = free_ports(2)
    if request.param == "haproxy":
        daemon = Daemon("--trusted-proxies", "127.0.0.1")
        place = (daemon.port, daemon.ops_url.rsplit(":", 1)[1])
        proxy = haproxy(folder, pair, ports, (place, place))
    else:
        path = folder / "attnd.sock"
        daemon = Daemon("--listen", f"unix:{path}", "--ops-listen", "127.0.0.1:0", "--trusted-proxies", "unix")
        proxy = nginx(folder, pair, ports, f"unix:{path}", f"unix:{path} down")
    proxy.name = request.param
    yield proxy, daemon, pair, ports[1]
    proxy.stop()
    daemon.stop()


def ask(proxy, body=TINY, **kwargs):
    return proxy.session.post(proxy.url + "/v1/attention", data=body, timeout=PATIENCE, **kwargs)


def test_the_log_names_the_client_and_not_the_proxy(setup):
    """Nor what the client claims to be."""
    proxy, daemon, _, _ = setup
    with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE, ("127.0.0.7", 0)) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 6.6.6.6\r\nX-Request-Id: who-asks\r\n\r\n")
        assert status(read_one(sock)) == 200
    assert daemon.log(id="who-asks")[0]["client"] == "127.0.0.7"


def test_answers_pass_unchanged(setup):
    proxy, _, _, _ = setup
    reply = ask(proxy)
    assert reply.status_code == 200 and json.loads(reply.text)["output"]
    problem = ask(proxy, '{"query":1}')
    assert problem.status_code == 422 and problem.headers["Content-Type"] == "application/problem+json"
    assert proxy.session.get(proxy.url + "/metrics", timeout=PATIENCE).status_code == 404


def test_connections_to_the_daemon_are_used_again(setup):
    proxy, daemon, _, _ = setup
    with proxy.connect() as sock:
        for _ in range(30):
            sock.sendall(post(TINY.encode(), f"Content-Length: {len(TINY)}"))
            assert status(read_one(sock)) == 200
        assert ops_metric(daemon, "attnd_connections") <= 8


def test_large_bodies_both_ways(setup):
    proxy, _, _, _ = setup
    numbers = ",".join(["0.125"] * 3_000_000)
    body = '{"query":{"shape":[100,30000],"data":[%s]},"return":["output"]}' % numbers
    reply = ask(proxy, body)
    assert reply.status_code == 200 and len(body) > 15_000_000
    assert len(reply.content) > 15_000_000 and np.abs(np.array(reply.json()["output"]) - 0.125).max() < 1e-6


def test_chunked_and_expected_bodies(setup):
    proxy, _, _, _ = setup
    assert ask(proxy, iter([b'{"query":', b"[[1,0],[0,1]]}"])).status_code == 200
    with proxy.connect() as sock:
        sock.sendall(post(b"", f"Content-Length: {len(TINY)}", "Expect: 100-continue"))
        first = sock.recv(65536)
        assert first.startswith(b"HTTP/1.1 100")
        sock.sendall(TINY.encode())
        assert status(read_one(sock)) == 200


def test_too_large_is_told_before_the_upload(setup):
    proxy, daemon, _, _ = setup
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    before = ops_metric(daemon, "attnd_request_body_bytes_total")
    with proxy.connect() as sock:
        sock.sendall(post(b"x" * 10000, "Content-Length: 400000000"))
        assert status(sock.recv(65536)) == 413
    assert ops_metric(daemon, "attnd_request_body_bytes_total") == before


def test_early_refusal_arrives(setup):
    """The daemon refuses at the header, while the body still comes: its answer must not be lost."""
    proxy, _, _, _ = setup
    reply = ask(proxy, b"x" * 3_000_000, headers={"Content-Type": "text/csv"})
    assert reply.status_code == 415 and reply.json()["code"] == "unsupported_media_type"


def test_client_that_leaves_stops_the_work(setup):
    proxy, daemon, _, _ = setup
    body = work().encode()
    sock = proxy.connect()
    sock.sendall(post(body, f"Content-Length: {len(body)}"))
    assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
    gone = ops_metric(daemon, "attnd_client_gone_total")
    sock.close()
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    assert ops_metric(daemon, "attnd_client_gone_total") == gone + 1


def test_names_of_requests_pass_and_are_made(setup):
    proxy, daemon, _, _ = setup
    assert ask(proxy, headers={"X-Request-Id": "mine-1"}).headers["X-Request-Id"] == "mine-1"
    assert daemon.log(1, id="mine-1")
    made = ask(proxy).headers["X-Request-Id"]
    assert len(made) >= 32 and daemon.log(1, id=made), "the proxy's own name is in the daemon's log"


def test_forwarding_headers_are_no_danger(setup):
    proxy, daemon, _, _ = setup
    lies = {"X-Forwarded-For": "1.2.3.4, \"x", "X-Forwarded-Proto": "gopher", "Forwarded": "for=evil",
            "X-Request-Id": "lie-1", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    assert ask(proxy, headers=lies).status_code == 200
    assert daemon.log(1, id="lie-1")[0]["client"] in ("127.0.0.1", "unix"), "what a client says is no address"


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_tls_ends_at_the_proxy(setup, version):
    proxy, _, pair, port = setup
    done = subprocess.run(["curl", "-sS", version, "--cacert", str(pair.cert), "--max-time", str(PATIENCE),
                           "-w", "%{http_version}", f"https://localhost:{port}/v1/attention", "-d", TINY],
                          capture_output=True, text=True)
    assert done.returncode == 0 and "output" in done.stdout, done.stderr
    assert done.stdout.endswith(version[6:])


# --- rolling restart ---

class Load:
    """Clients that never stop asking, half of them on connections of their own each time."""

    def __init__(self, url):
        self.url, self.answers, self.failures, self.over = url, 0, [], threading.Event()
        bodies = [TINY, work(n=300), json.dumps({"query": {"shape": [400, 32], "random": "normal", "seed": 1}})]
        self.threads = [threading.Thread(target=self.client, args=(i, bodies[i % 3])) for i in range(8)]
        for thread in self.threads:
            thread.start()

    def client(self, number, body):
        session = requests.Session()
        session.trust_env = False
        while not self.over.is_set():
            if number % 2:
                session.close()
            try:
                reply = session.post(self.url + "/v1/attention", data=body, timeout=PATIENCE)
                if reply.status_code != 200 or "output" not in reply.json():
                    self.failures.append(f"{reply.status_code} {reply.text[:200]}")
            except (requests.RequestException, ValueError) as error:
                self.failures.append(repr(error))
            self.answers += 1

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(PATIENCE)


def roll(launch, daemons, load):
    """Restart each daemon twice while the load goes on; every one leaves with 0."""
    for number in (0, 1, 0, 1):
        before = load.answers
        assert eventually(lambda: load.answers > before + 50)
        daemons[number].signal(signal.SIGTERM)
        assert daemons[number].wait() == 0
        daemons[number] = launch(number)
        assert eventually(lambda: ops_metric(daemons[number], "attnd_request_body_bytes_total") > 1000), \
            "the new daemon gets its share before the next one leaves"


@pytest.mark.parametrize("kind", ["haproxy", "nginx"])
def test_rolling_restart_under_load_fails_no_request(kind, start, tmp_path):
    pair = Pair(tmp_path, "localhost")
    ports = free_ports(6)
    places = [(ports[2], ports[3]), (ports[4], ports[5])]
    delay = "3000" if kind == "haproxy" else "0"  # nginx looks at answers, not at /readyz

    def launch(number):
        port, ops = places[number]
        return start("--port", str(port), "--ops-listen", f"127.0.0.1:{ops}", "--drain-delay-ms", delay)

    daemons = [launch(0), launch(1)]
    if kind == "haproxy":
        proxy = haproxy(tmp_path, pair, ports, places)
    else:
        proxy = nginx(tmp_path, pair, ports, *(f"127.0.0.1:{port}" for port, _ in places))
    load = Load(proxy.url)
    try:
        begin = time.monotonic()
        roll(launch, daemons, load)
        took = time.monotonic() - begin
    finally:
        load.stop()
        proxy.stop()
    assert load.failures == []
    assert load.answers > 50, f"only {load.answers} requests in {took:.0f} s"


# --- two daemons as the comments start them ---

def commands(name):
    """The arguments of both daemons, as the comment at the top has them."""
    text = (ROOT / "docker" / "proxies" / name).read_text()
    return [line.split()[2:] for line in text.splitlines() if line.startswith("#   attnd ")]


@pytest.fixture(params=["haproxy", "nginx"])
def pair_of_daemons(request, start, tmp_path):
    """(proxy, both daemons, where the access log is); keys, files and addresses of this test in place of those shipped."""
    ports = free_ports(6)
    (tmp_path / "runs").mkdir()
    keys = write_keys(tmp_path, f"one:{KEY} admin")
    changes = {"/etc/attnd/keys": keys, "/var/lib/attnd/runs": str(tmp_path / "runs"), "127.0.0.1:8080": f"127.0.0.1:{ports[2]}",
               "127.0.0.1:8081": f"127.0.0.1:{ports[3]}", "127.0.0.1:8090": f"127.0.0.1:{ports[4]}",
               "127.0.0.1:8091": f"127.0.0.1:{ports[5]}", "/run/attnd/attnd.sock": f"{tmp_path}/attnd.sock",
               "www-data": str(os.getgid())}

    def change(argument):
        for old, new in changes.items():
            argument = argument.replace(old, new)
        return argument
    rows = [[change(argument) for argument in row] for row in commands(request.param + (".cfg" if request.param == "haproxy" else ".conf"))]
    assert len(rows) == 2 and all("--keys-file" in row and "--runs-dir" in row for row in rows)
    rows = [row + (["--ops-listen", f"127.0.0.1:{ports[3]}"] if "--ops-listen" not in row else []) for row in rows]
    daemons = [start(*row, "--max-capture-bytes", "400M", "--runs-bytes", "800M") for row in rows]
    pair = Pair(tmp_path, "localhost")
    if request.param == "haproxy":
        proxy = haproxy(tmp_path, pair, ports, [(ports[2], ports[3]), (ports[4], ports[5])])
        log = Path(proxy.log.name)
    else:
        assert (tmp_path / "attnd.sock").stat().st_mode & 0o777 == 0o660
        proxy = nginx(tmp_path, pair, ports, f"127.0.0.1:{ports[2]}", f"unix:{tmp_path}/attnd.sock")
        log = tmp_path / "access"
    yield proxy, daemons, log, tmp_path
    proxy.stop()


def test_two_daemons_answer_as_one(pair_of_daemons):
    """Runs at each of them, jobs at one, which the other says; ids in all logs."""
    proxy, daemons, log, _ = pair_of_daemons
    headers = {"Authorization": "Bearer " + KEY}
    run = ask(proxy, '{"query":[[1,0],[0,1]],"store":true}', headers=headers).json()["run"]["id"]

    def get(path, **more):
        return requests.get(proxy.url + path, headers=headers | more, timeout=PATIENCE)
    assert {get(f"/v1/runs/{run}").status_code for _ in range(8)} == {200}
    job = get(f"/v1/runs/{run}/analyses", Prefer="respond-async, wait=0").headers["Location"]
    replies = [get(job) for _ in range(8)]
    assert {reply.status_code for reply in replies} == {200, 404}, "both daemons are asked"
    assert all("in one process" in reply.json()["detail"] for reply in replies if reply.status_code == 404)
    assert get("/healthz", **{"X-Request-Id": "told-by-the-client"}).status_code == 200
    made = get(f"/v1/runs/{run}").headers["X-Request-Id"]
    for name in ("told-by-the-client", made):
        assert eventually(lambda name=name: name in log.read_text()), log.read_text()
        assert eventually(lambda name=name: any(name in daemon.stderr() for daemon in daemons))


def test_large_captures_go_through_as_they_arrive(pair_of_daemons):
    """Longer than max_body_bytes, and not collected by the proxy first."""
    proxy, _, _, folder = pair_of_daemons
    size = 300 << 20
    with proxy.connect() as sock:
        sock.sendall((f"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n"
                      f"Content-Type: application/vnd.safetensors\r\nContent-Length: {size}\r\n\r\n").encode())
        sock.sendall(bytes(8 << 20))
        assert eventually(lambda: any(part.stat().st_size > 1 << 20 for part in (folder / "runs").glob("*.part")))
    assert not (folder / "client_body").exists() or not any(f.stat().st_size for f in (folder / "client_body").rglob("*") if f.is_file())
    reply = requests.post(proxy.url + "/v1/runs", data=b"x" * 100, timeout=PATIENCE,
                          headers={"Authorization": "Bearer " + KEY, "Content-Type": "application/vnd.safetensors"})
    assert reply.status_code == 400, reply.text


def test_what_makes_something_is_not_repeated(tmp_path):
    text = (ROOT / "docker" / "proxies" / "nginx.conf").read_text()
    pattern = re.search(r"location ~ (\S+) \{[^}]*non_idempotent", text)[1]
    assert text.count("non_idempotent;") == 1
    again = ["/v1/attention", "/v1/analyses", "/v1/models/x/generate", "/v1/runs/x/what-if", "/v2/models/attention/infer"]
    once = ["/v1/jobs", "/v1/models", "/v1/runs", "/v1/runs/x/attention", "/v2/repository/index"]
    assert [bool(re.search(pattern, path)) for path in again + once] == [True] * len(again) + [False] * len(once)
