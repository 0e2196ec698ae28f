"""TLS: versions, certificates and their files, reload without a pause, and that what holds over plain
HTTP holds over it: large bodies, clients that leave, the stop."""
import json
import signal
import socket
import ssl
import subprocess

import numpy as np
import pytest
import requests
import tritonclient.http as triton
from safetensors.numpy import load, save

from conftest import PATIENCE, Daemon, run_attnd
from test_daemon_load import eventually, ops_metric, work
from test_daemon_protocol import post, read_one, status

TINY = '{"query":[[1,0],[0,1]]}'


class Pair:
    """A self-signed certificate for this machine and its key."""

    def __init__(self, folder, name, *kind):
        self.cert, self.key = folder / f"{name}.crt", folder / f"{name}.key"
        subprocess.run(["openssl", "req", "-x509", *(kind or ("-newkey", "rsa:2048")), "-nodes", "-days", "30",
                        "-keyout", str(self.key), "-out", str(self.cert), "-subj", f"/CN={name}",
                        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                        "-addext", "keyUsage=digitalSignature,keyCertSign"],
                       check=True, capture_output=True, timeout=PATIENCE)
        self.key.chmod(0o600)
        self.settings = ("--tls-cert", str(self.cert), "--tls-key", str(self.key))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def one(folder):
    return Pair(folder, "one")


@pytest.fixture(scope="module")
def two(folder):
    return Pair(folder, "two", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")


@pytest.fixture(scope="module")
def daemon(one):
    service = Daemon(*one.settings)
    service.session.verify = str(one.cert)
    yield service
    service.stop()


def context(pair=None, least=None, most=None, ciphers=None):
    made = ssl.create_default_context(cafile=str(pair.cert) if pair else None)
    if not pair:
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if ciphers:
        made.set_ciphers(ciphers)
    if least:
        made.minimum_version = least
    if most:
        made.maximum_version = most
    return made


def secure(daemon, pair=None, **kwargs):
    return context(pair, **kwargs).wrap_socket(daemon.connect(), server_hostname="localhost")


def refused(daemon, **kwargs):
    """The service ends the handshake: the client sees an alert or the end of the connection, and has no objection of its
    own (which is an SSLError with another reason). The texts differ from one Python to the next."""
    with pytest.raises((ssl.SSLError, ConnectionError)) as caught:
        secure(daemon, **kwargs)
    ends = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)
    return isinstance(caught.value, ends) or "_ALERT_" in caught.value.reason


def test_the_ready_line_says_https_and_curl_agrees(daemon, one):
    assert daemon.url.startswith("https://") and daemon.ops_url.startswith("http://")
    curl = ["curl", "-sS", "--max-time", str(PATIENCE), f"https://localhost:{daemon.port}/v1/attention", "-d", TINY]
    done = subprocess.run([*curl, "--cacert", str(one.cert)], capture_output=True, text=True)
    assert done.returncode == 0 and "output" in json.loads(done.stdout), done.stderr
    assert subprocess.run(curl, capture_output=True).returncode == 60, "curl knows no such authority"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_that_are_spoken(daemon, one, version):
    with secure(daemon, one, least=version, most=version) as sock:
        assert sock.version() == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]
        for _ in range(3):
            sock.sendall(post(TINY.encode(), f"Content-Length: {len(TINY)}"))
            assert status(read_one(sock)) == 200


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_versions_that_are_refused(daemon, version):
    """The service hangs up: the client itself is ready to speak this version."""
    assert refused(daemon, least=ssl.TLSVersion.TLSv1, most=version, ciphers="ALL:@SECLEVEL=0")


@pytest.mark.parametrize("ciphers", ["AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA", "kRSA"])
def test_ciphers_that_are_refused(daemon, ciphers):
    assert refused(daemon, most=ssl.TLSVersion.TLSv1_2, ciphers=ciphers + ":@SECLEVEL=0")


def test_large_bodies_both_ways(daemon):
    key = np.random.default_rng(1).standard_normal((60000, 64)).astype(np.float32)
    kind, q = "application/vnd.safetensors", key[:300]
    body = save({"query": q[:70], "key": key, "value": key[:, :1].copy()}, {"request": '{"return":["weights"]}'})
    assert len(body) > 15_000_000
    reply = daemon.post("/v1/attention", body, headers={"Content-Type": kind, "Accept": kind})
    assert reply.status_code == 200, reply.text[:500]
    answer = load(reply.content)
    assert answer["weights"].shape == (70, 60000) and len(reply.content) > 16_000_000
    assert np.abs(answer["weights"].sum(axis=1) - 1).max() < 1e-4
    listed = daemon.post("/v1/attention", {"query": q.tolist(), "return": ["weights"]})
    plain = np.array(listed.json()["weights"], np.float32)
    again = daemon.post("/v1/attention", save({"query": q}, {"request": '{"return":["weights"]}'}),
                        headers={"Content-Type": kind, "Accept": kind})
    assert np.array_equal(plain, load(again.content)["weights"])


def test_tritonclient_over_tls(daemon, one):
    with triton.InferenceServerClient(f"localhost:{daemon.port}", ssl=True,
                                      ssl_options={"ca_certs": str(one.cert)}) as client:
        assert client.is_server_ready()
        tensor = triton.InferInput("query", [2, 2], "FP32")
        tensor.set_data_from_numpy(np.eye(2, dtype=np.float32))
        result = client.infer("scaled_dot_product_attention", [tensor])
        assert np.abs(result.as_numpy("output").sum(axis=1) - 1).max() < 1e-6


def test_many_connections_at_once(daemon, one):
    socks = [secure(daemon, one) for _ in range(50)]
    for sock in socks:
        sock.sendall(post(TINY.encode(), f"Content-Length: {len(TINY)}"))
    for sock in socks:
        assert status(read_one(sock)) == 200
        sock.close()


def test_other_bytes_on_the_port_do_no_harm(daemon):
    for data in (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x00\x20" + b"\0" * 32, b"\0" * 300):
        assert b"200 OK" not in daemon.raw(data)
    assert daemon.get("/healthz").status_code == 200
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(daemon.ops_url.replace("http", "https") + "/healthz", timeout=PATIENCE)


@pytest.mark.parametrize("hello", [b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"])
def test_a_handshake_that_trickles_is_cut(start, one, hello):
    daemon = start(*one.settings, "--header-timeout-ms", "300")
    sock = daemon.connect()
    sock.sendall(hello)
    assert sock.recv(1) == b""
    sock.close()


def test_client_that_leaves_is_noticed(start, one):
    daemon = start(*one.settings)
    for polite in (True, False):
        body = work().encode()
        sock = secure(daemon, one)
        sock.sendall(post(body, f"Content-Length: {len(body)}"))
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
        if polite:
            sock.settimeout(0.2)
            with pytest.raises((TimeoutError, ssl.SSLError, OSError)):
                sock.unwrap()  # close_notify goes out; nobody answers it now
        sock.close()
        assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    assert ops_metric(daemon, "attnd_client_gone_total") == 2


def test_stop_finishes_what_was_accepted(start, one):
    daemon = start(*one.settings, "--drain-ms", "600000", "--header-timeout-ms", "600000")
    body = work(n=3000).encode()
    with secure(daemon, one) as sock, secure(daemon, one):
        sock.sendall(post(body[:-1], f"Content-Length: {len(body)}"))
        assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 1)
        daemon.signal()
        assert eventually(lambda: requests.get(daemon.ops_url + "/readyz", timeout=PATIENCE, verify=str(one.cert))
                          .status_code == 503)
        sock.sendall(body[-1:])
        assert status(read_one(sock)) == 200
    assert daemon.wait() == 0


def test_health_check(daemon, one):
    listen = f"127.0.0.1:{daemon.port}"
    assert run_attnd("--healthcheck", "--listen", listen, *one.settings).returncode == 0
    assert run_attnd("--healthcheck", "--listen", listen).returncode == 1, "plain HTTP gets no answer"
    with socket.create_server(("127.0.0.1", 0)) as dumb:
        silent = f"127.0.0.1:{dumb.getsockname()[1]}"
        assert run_attnd("--healthcheck", "--listen", silent, *one.settings).returncode == 1


# --- files ---

def shown(daemon):
    with secure(daemon) as sock:
        return ssl.DER_cert_to_PEM_cert(sock.getpeercert(binary_form=True))


def test_reload_shows_the_new_certificate_and_cuts_nobody_off(start, folder, one, two):
    cert, key = folder / "live.crt", folder / "live.key"

    def put(pair):
        cert.write_text(pair.cert.read_text())
        key.write_text(pair.key.read_text())
        key.chmod(0o600)

    put(one)
    daemon = start("--tls-cert", str(cert), "--tls-key", str(key))
    assert shown(daemon) == one.cert.read_text()
    with secure(daemon, one) as old:
        put(two)
        daemon.signal(signal.SIGHUP)
        assert eventually(lambda: shown(daemon) == two.cert.read_text())
        old.sendall(post(TINY.encode(), f"Content-Length: {len(TINY)}"))
        assert status(read_one(old)) == 200
    key.write_text(one.key.read_text())
    daemon.signal(signal.SIGHUP)
    told = [e for e in daemon.log(3) if "certificate" in e.get("event", "")]
    assert eventually(lambda: any("certificate unchanged: tls_key" in e.get("event", "") for e in daemon.log(1)))
    assert "certificate read, valid until 20" in told[0]["event"]
    assert shown(daemon) == two.cert.read_text()
    put(one)
    daemon.signal(signal.SIGHUP)
    assert eventually(lambda: shown(daemon) == one.cert.read_text())


def test_a_chain_is_sent_whole(start, folder, one):
    """A certificate that an intermediate one signed: who knows only the root can follow."""
    middle = Pair(folder, "middle", "-newkey", "rsa:2048", "-CA", str(one.cert), "-CAkey", str(one.key))
    leaf = Pair(folder, "leaf", "-newkey", "rsa:2048", "-CA", str(middle.cert), "-CAkey", str(middle.key))
    chain = folder / "chain.crt"
    chain.write_text(leaf.cert.read_text() + middle.cert.read_text())
    daemon = start("--tls-cert", str(chain), "--tls-key", str(leaf.key))
    assert requests.get(daemon.url + "/healthz", verify=str(one.cert), timeout=PATIENCE).status_code == 200
    alone = start(*leaf.settings)
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(alone.url + "/healthz", verify=str(one.cert), timeout=PATIENCE)


def test_files_that_cannot_be_used_are_start_up_errors(folder, one, two):
    rubbish, open_key = folder / "rubbish", folder / "open.key"
    rubbish.write_text("no certificate\n")
    rubbish.chmod(0o600)
    open_key.write_text(one.key.read_text())
    open_key.chmod(0o644)
    locked = folder / "locked.key"
    subprocess.run(["openssl", "rsa", "-aes128", "-passout", "pass:secret", "-in", str(one.key), "-out", str(locked)],
                   check=True, capture_output=True)
    rows = [
        (folder / "missing", one.key, "tls_cert: cannot read", "missing"),
        (one.cert, folder / "missing", "tls_key: cannot read", "missing"),
        (rubbish, one.key, "tls_cert:", "PEM"),
        (one.cert, rubbish, "tls_key:", "PEM"),
        (one.cert, locked, "tls_key:", "without a password"),
        (one.cert, open_key, "tls_key:", "mode 0644"),
        (one.cert, two.key, "tls_key:", "is not the key of the certificate"),
        (folder, one.key, "tls_cert:", "directory"),
    ]
    for cert, key, *words in rows:
        for check in ((), ("--check-config",)):
            done = run_attnd("--port", "0", "--tls-cert", str(cert), "--tls-key", str(key), *check)
            assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
            for word in words:
                assert word in done.stderr, done.stderr
    for half in (("--tls-cert", str(one.cert)), ("--tls-key", str(one.key))):
        done = run_attnd("--port", "0", *half)
        assert done.returncode == 2 and "set both or neither" in done.stderr
