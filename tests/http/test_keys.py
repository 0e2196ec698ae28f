"""API keys: who may ask what, over every route and method; the file, its reload, limits a key; and that
neither a key nor a payload turns up where others read."""
import os
import re
import signal
import time

import pytest
import requests
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from conftest import PATIENCE, Daemon, run_attnd
from test_daemon_load import eventually, ops_metric, work
from test_daemon_protocol import head, post, read_one, status

ADMIN, PLAIN, ALONE = "adminadminadminadmin", "plain-key_of.20~chars+/=", "oneatatimeoneatatime"
WRONG = "wrongwrongwrongwrong"
KEYS = f"""# the keys of the tests
ops:{ADMIN} admin  # may do everything

{PLAIN}
alone:{ALONE}\tconcurrency=1\r
"""
TINY = '{"query":[[1,0],[0,1]]}'
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"]

# All that answers without a key on the service's own port. A route joins this list on purpose only.
OPEN = {"/problems", "/problems/gone", "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"}


def bearer(key, scheme="Bearer"):
    return {"Authorization": f"{scheme} {key}"}


def write_keys(path, text=KEYS, mode=0o600):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return write_keys(tmp_path_factory.mktemp("keys") / "keys")


@pytest.fixture(scope="module")
def daemon(keys):
    service = Daemon("--keys-file", str(keys), "--cors-origins", "https://example.org")
    yield service
    service.stop()


# --- the table ---

def table(daemon):
    """(path with its parameters filled in, the operations that openapi.json gives it)."""
    paths = daemon.get("/openapi.json", headers=bearer(PLAIN)).json()["paths"]
    rows = [(re.sub(r"\{\w+\}", "x", path.replace("{code}", "gone")), operations) for path, operations in paths.items()]
    return rows + [("/v2/", paths["/v2"]), ("/no/such/path", {}), ("/v1/attention/", {})]


def expected_access(operations, method):
    operation = operations.get("get" if method == "HEAD" else method.lower())
    if operation is None:
        return "nothing"
    needs = operation["security"]
    return "open" if needs == [] else needs[0]["key"][0] if needs[0]["key"] else "any"


def ask(daemon, method, path, headers):
    body = b"" if method in ("POST", "PUT", "PATCH") else None
    return daemon.request(method, path, headers=headers, data=body, allow_redirects=False)


def test_every_route_and_method_with_and_without_a_key(daemon):
    seen, opened = 0, set()
    for path, operations in table(daemon):
        for method in METHODS:
            access = expected_access(operations, method)
            for key in (None, WRONG, PLAIN, ADMIN):
                reply = ask(daemon, method, path, bearer(key) if key else {})
                what = f"{method} {path} with key {key}: {reply.status_code}"
                known = key in (PLAIN, ADMIN)
                seen += 1
                if access == "open":
                    opened.add(path)
                    assert reply.status_code == 200, what
                elif not known:
                    assert reply.status_code == 401, what
                    error = ', error="invalid_token"' if key else ""
                    assert reply.headers["WWW-Authenticate"] == f'Bearer realm="attnd"{error}', what
                    assert method == "HEAD" or reply.json()["code"] == "unauthorized", what
                elif access == "admin" and key == PLAIN:
                    assert reply.status_code == 403, what
                    assert 'error="insufficient_scope"' in reply.headers["WWW-Authenticate"], what
                elif access == "nothing":
                    assert reply.status_code in (404, 405), what
                else:
                    assert reply.status_code not in (401, 403, 404, 405) or "/x" in path, what
                    assert reply.status_code not in (401, 403), what
        reply = daemon.request("OPTIONS", path)
        assert reply.status_code == 204, path
    assert opened == OPEN
    assert seen > 500


def test_operations_port_asks_for_no_key(daemon):
    for path in ("/healthz", "/readyz", "/metrics", "/version"):
        assert requests.get(daemon.ops_url + path, timeout=PATIENCE).status_code == 200, path
    assert requests.get(daemon.ops_url + "/v1/examples", timeout=PATIENCE).status_code == 404


def test_preflight_needs_no_key_and_the_challenge_is_exposed(daemon):
    asked = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST",
             "Access-Control-Request-Headers": "authorization,content-type"}
    reply = daemon.request("OPTIONS", "/v1/attention", headers=asked)
    assert reply.status_code == 204
    assert "Authorization" in reply.headers["Access-Control-Allow-Headers"]
    refused = daemon.post("/v1/attention", TINY, headers={"Origin": "https://example.org"})
    assert refused.status_code == 401
    assert refused.headers["Access-Control-Allow-Origin"] == "https://example.org"
    assert "WWW-Authenticate" in refused.headers["Access-Control-Expose-Headers"]


def test_openapi_says_what_is_asked_for(daemon, start):
    spec = daemon.get("/openapi.json", headers=bearer(PLAIN)).json()
    assert spec["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    operation = spec["paths"]["/v1/attention"]["post"]
    assert operation["security"] == [{"key": []}]
    assert {"401", "403", "429"} <= set(operation["responses"])
    assert spec["components"]["responses"]["Unauthorized"]["headers"]["WWW-Authenticate"]
    without = start().get("/openapi.json").json()["paths"]["/v1/attention"]["post"]
    assert without["security"] == [{}, {"key": []}], "no keys_file: nothing is asked for"


# --- what is sent ---

@pytest.mark.parametrize("header, expected", [
    (f"Bearer {PLAIN}", 200),
    (f"bearer {PLAIN}", 200),
    (f"BEARER   {PLAIN}", 200),
    (f"Bearer{PLAIN}", 401),
    (f"Basic {PLAIN}", 401),
    (PLAIN, 401),
    ("Bearer", 401),
    ("Bearer ", 401),
    (f"Bearer {PLAIN[:-1]}", 401),
    (f"Bearer {PLAIN}x", 401),
    (f"Bearer {PLAIN.upper()}", 401),
    (f"Bearer {PLAIN},{PLAIN}", 401),
    (f"Bearer ops:{ADMIN}", 401),
    ("Bearer " + "x" * 4000, 401),
])
def test_authorization_header(daemon, header, expected):
    assert daemon.post("/v1/attention", TINY, headers={"Authorization": header}).status_code == expected


def test_two_authorization_headers_are_ambiguous(daemon):
    line = f"Authorization: Bearer {PLAIN}"
    reply = daemon.raw(post(TINY.encode(), f"Content-Length: {len(TINY)}", line, line, "Connection: close"))
    assert status(reply) == 400 and b"more than one Authorization" in reply


def test_long_upload_is_refused_before_the_body(daemon):
    reply = daemon.raw(post(b"", "Content-Length: 5000000", "Expect: 100-continue"))
    assert status(reply) == 401 and b"100 Continue" not in reply


def test_refused_request_keeps_the_connection(daemon):
    with daemon.connect() as sock:
        sock.sendall(post(TINY.encode(), f"Content-Length: {len(TINY)}"))
        assert status(read_one(sock)) == 401
        sock.sendall(post(TINY.encode(), f"Content-Length: {len(TINY)}", f"Authorization: Bearer {PLAIN}"))
        assert status(read_one(sock)) == 200


def test_tritonclient_reads_the_refusal(daemon):
    with triton.InferenceServerClient(f"{daemon.host}:{daemon.port}") as client:
        assert client.is_server_live() and client.is_server_ready()
        with pytest.raises(InferenceServerException, match="an API key is needed"):
            client.get_server_metadata()
        assert client.get_server_metadata(headers=bearer(PLAIN))["name"]


# --- limits a key ---

def test_requests_of_a_key_at_a_time(daemon):
    body = work().encode()
    held = daemon.connect()
    held.sendall(post(body, f"Content-Length: {len(body)}", f"Authorization: Bearer {ALONE}"))
    try:
        assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
        for _ in range(3):
            reply = daemon.post("/v1/attention", TINY, headers=bearer(ALONE))
            problem = reply.json()
            assert (reply.status_code, problem["code"]) == (429, "quota_exceeded")
            assert int(reply.headers["Retry-After"]) >= 1
            assert problem["limit"] == {"value": 1, "setting": "keys_file"}
            assert problem["detail"].startswith("1 request of this API key is under way")
        assert daemon.post("/v1/attention", TINY, headers=bearer(PLAIN)).status_code == 200
        assert daemon.get("/healthz", headers=bearer(ALONE)).status_code == 200
    finally:
        held.close()
    assert eventually(lambda: daemon.post("/v1/attention", TINY, headers=bearer(ALONE)).status_code == 200)


def test_setting_limits_every_key(start, keys):
    daemon = start("--keys-file", str(keys), "--key-requests", "2", "--requests-running", "4")
    body = work().encode()
    held = []
    for _ in range(2):
        held.append(daemon.connect())
        held[-1].sendall(post(body, f"Content-Length: {len(body)}", f"Authorization: Bearer {PLAIN}"))
    assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 2)
    reply = daemon.get("/v1/examples", headers=bearer(PLAIN))
    assert reply.status_code == 429 and reply.json()["limit"] == {"value": 2, "setting": "key_requests"}
    assert daemon.get("/v1/examples", headers=bearer(ADMIN)).status_code == 200
    for sock in held:
        sock.close()
    assert eventually(lambda: daemon.get("/v1/examples", headers=bearer(PLAIN)).status_code == 200)


# --- the file ---

@pytest.mark.parametrize("text, mode, words", [
    (KEYS, 0o604, ["keys_file", "mode 0604", "600 or 640"]),
    (KEYS, 0o644, ["mode 0644"]),
    (KEYS, 0o660, ["mode 0660"]),
    ("", 0o600, ["no key"]),
    ("# nothing\n\n", 0o600, ["no key"]),
    ("short\n", 0o600, [":1:", "16 to 256 characters, found 5"]),
    (f"\n{PLAIN}\n{'x' * 257}\n", 0o600, [":3:", "found 257"]),
    (f"{PLAIN[:16]}\u00e9{PLAIN}\n", 0o600, [":1:", "its character 17"]),
    (f"two words:{PLAIN}\n", 0o600, [":1:"]),
    (f"na/me:{PLAIN}\n", 0o600, [":1:", "name"]),
    (f":{PLAIN}\n", 0o600, [":1:", "name"]),
    (f"a:{PLAIN}\nb:{PLAIN}\n", 0o600, [":2:", "that of line 1"]),
    (f"{PLAIN} root\n", 0o600, [":1:", "admin and concurrency=N"]),
    (f"{PLAIN} concurrency=0\n", 0o600, [":1:", "concurrency=N"]),
    (f"{PLAIN} concurrency=4x\n", 0o600, [":1:", "concurrency=N"]),
    (f"{PLAIN}\0\n".encode(), 0o600, ["NUL"]),
    (b"x" * (1 << 20) + b"\n", 0o600, ["1048577 bytes"]),
])
def test_a_file_that_cannot_be_used_is_a_start_up_error(tmp_path, text, mode, words):
    path = write_keys(tmp_path / "keys", text, mode)
    done = run_attnd("--port", "0", "--keys-file", str(path))
    assert done.returncode == 2 and done.stderr.startswith("attnd: keys_file: ")
    assert done.stderr.count("\n") == 1 and str(path) in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert PLAIN not in done.stderr


def test_missing_file_and_folder(tmp_path):
    for path in (tmp_path / "missing", tmp_path):
        done = run_attnd("--port", "0", "--keys-file", str(path))
        assert done.returncode == 2 and str(path) in done.stderr


def test_group_may_read_as_mounted_secrets_need(start, tmp_path):
    path = write_keys(tmp_path / "keys", mode=0o440)
    link = tmp_path / "link"
    link.symlink_to(path)
    daemon = start(env={"ATTND_KEYS_FILE": str(link)})
    assert daemon.get("/v1/examples", headers=bearer(PLAIN)).status_code == 200


def test_reload_takes_and_drops_keys_and_a_bad_file_changes_nothing(start, tmp_path):
    path = write_keys(tmp_path / "keys")
    daemon = start("--keys-file", str(path))
    fresh = "freshfreshfreshfresh"

    def code(key):
        return daemon.get("/v1/examples", headers=bearer(key)).status_code

    assert (code(PLAIN), code(fresh)) == (200, 401)
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    held = daemon.connect()
    held.sendall(post(TINY[:5].encode(), f"Content-Length: {len(TINY)}", f"Authorization: Bearer {ALONE}"))
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 1)
    write_keys(path, f"fresh:{fresh}\nops:{ADMIN}\n")
    daemon.signal(signal.SIGHUP)
    assert daemon.log(1, event="2 API keys read")
    assert (code(PLAIN), code(fresh), code(ADMIN), code(ALONE)) == (401, 200, 200, 401)
    held.sendall(TINY[5:].encode())
    assert status(read_one(held)) == 200, "what was let in is finished"
    held.close()
    assert daemon.log(1, route="/v1/attention")[0]["key"] == "alone"

    write_keys(path, "short\n")
    daemon.signal(signal.SIGHUP)
    assert eventually(lambda: any("API keys unchanged" in e.get("event", "") for e in daemon.log(1)))
    assert (code(PLAIN), code(fresh)) == (401, 200)
    path.unlink()
    daemon.signal(signal.SIGHUP)
    assert eventually(lambda: sum("unchanged" in e.get("event", "") for e in daemon.log(1)) == 2)
    assert code(fresh) == 200


def test_reload_keeps_the_count_of_a_key(start, tmp_path):
    path = write_keys(tmp_path / "keys")
    daemon = start("--keys-file", str(path))
    body = work().encode()
    held = daemon.connect()
    held.sendall(post(body, f"Content-Length: {len(body)}", f"Authorization: Bearer {ALONE}"))
    assert eventually(lambda: ops_metric(daemon, "attnd_queue_running") == 1)
    for count in (1, 2):
        daemon.signal(signal.SIGHUP)
        assert len(daemon.log(count, event="3 API keys read")) == count
    assert daemon.get("/v1/examples", headers=bearer(ALONE)).status_code == 429
    held.close()
    assert eventually(lambda: daemon.get("/v1/examples", headers=bearer(ALONE)).status_code == 200)


def test_reload_under_load(start, tmp_path):
    """Requests run while the file is read again and again: each is answered, the key is never unknown."""
    path = write_keys(tmp_path / "keys")
    daemon = start("--keys-file", str(path))
    answers = []
    end = time.monotonic() + 1
    while time.monotonic() < end:
        write_keys(tmp_path / "next", KEYS if len(answers) % 2 else f"{PLAIN}\n")
        os.replace(tmp_path / "next", path)
        daemon.signal(signal.SIGHUP)
        answers += [daemon.post("/v1/attention", TINY, headers=bearer(PLAIN)).status_code for _ in range(5)]
    assert set(answers) == {200}


def test_without_a_file_nothing_is_asked_for(start):
    daemon = start()
    assert daemon.post("/v1/attention", TINY).status_code == 200
    assert daemon.post("/v1/attention", TINY, headers=bearer(WRONG)).status_code == 200
    assert daemon.get("/version").json()["features"]["keys"] is False


# --- what others may read ---

def test_no_key_and_no_payload_is_told_to_others(start, keys):
    daemon = start("--keys-file", str(keys))
    canary = "canaryCanary4711"
    bodies = [TINY, '{"%s":1}' % canary, '{"query":"%s"}' % canary, "[" + canary,
              '{"query":[[1,0],[0,1]],"labels":{"query":["%s","b"],"key":["a","b"]},"heatmap":{}}' % canary]
    errors = []
    for key in (None, WRONG + canary, PLAIN, ADMIN, ALONE):
        for body in bodies:
            reply = daemon.post("/v1/attention?x=" + canary, body, headers=bearer(key) if key else {})
            if reply.status_code in (401, 403, 429):
                errors.append(reply.text + str(reply.headers))
        daemon.get(f"/{canary}", headers=bearer(key) if key else {})
        daemon.request(canary, "/v1/examples", headers=bearer(key) if key else {})
    daemon.signal(signal.SIGHUP)
    assert daemon.log(1, event="3 API keys read")
    metrics = requests.get(daemon.ops_url + "/metrics", timeout=PATIENCE).text
    version = requests.get(daemon.ops_url + "/version", timeout=PATIENCE).text
    assert daemon.stop() == 0
    told = daemon.stderr() + metrics + version + "".join(errors)
    assert daemon.stderr().count('"status":401') == 14 and len(errors) == 10
    for secret in (canary, ADMIN, PLAIN, ALONE, WRONG):
        assert secret not in told
    assert '"key":"ops"' in told and '"key":"key-c5cf1deea94a5daa"' in told


def memory(pid):
    """What a process has in memory, region by region; the shadow of a sanitizer, terabytes, is left out."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        for line in maps:
            first, last = (int(part, 16) for part in line.split()[0].split("-"))
            if line.split()[1].startswith("r") and last - first <= 1 << 30:
                try:
                    yield os.pread(mem.fileno(), last - first, first)
                except OSError:  # [vvar]
                    pass


def test_no_key_of_the_file_stays_in_memory(start, keys):
    daemon = start("--keys-file", str(keys))
    for reloads in range(3):
        if reloads:
            daemon.signal(signal.SIGHUP)
            assert len(daemon.log(reloads, event="3 API keys read")) == reloads
        held = list(memory(daemon.pid))
        assert any(str(keys).encode() in region for region in held), "what is there is found"
        for key in (ADMIN, PLAIN, ALONE):
            assert not any(key.encode() in region for region in held), f"after {reloads} reloads"


def test_key_is_not_in_the_answer_to_a_proxy(daemon):
    """A 401 says what kind of credentials are needed, and nothing of those that came."""
    reply = daemon.raw(post(b"", "Content-Length: 0", f"Authorization: Bearer {WRONG}", "Connection: close"))
    assert WRONG.encode() not in reply and head(reply)["www-authenticate"].startswith("Bearer ")
