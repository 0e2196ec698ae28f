"""HTTP as such: framing, methods, negotiation, headers; against the wire with raw sockets."""
import json
import re
import socket
import struct

import pytest

from conftest import PATIENCE, STRICT_LIBRARY

TINY = '{"query":[[1,0],[0,1]]}'


def status(reply):
    match = re.match(rb"HTTP/1\.1 (\d{3}) ", reply)
    assert match, f"no HTTP answer: {reply[:200]!r}"
    return int(match.group(1))


def head(reply):
    lines = reply.split(b"\r\n\r\n", 1)[0].decode().split("\r\n")[1:]
    return {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}


def is_refusal(reply, expected, by_library=False):
    """Is it a refusal, after which the connection is closed? `by_library`: libmicrohttpd refuses by itself from 1.0 on,
    with a page of its own, and says 400 where the service says 501."""
    page = by_library and STRICT_LIBRARY
    assert status(reply) == (400 if page and expected == 501 else expected), reply[:300]
    assert head(reply)["connection"] == "close" and len(re.findall(rb"HTTP/1\.1 \d{3} ", reply)) == 1
    if page:
        assert b"\r\n\r\n<html>" in reply and "x-request-id" not in head(reply)
    else:
        assert head(reply)["content-type"] == "application/problem+json"
    return True


def post(body, *headers, path="/v1/attention", host="Host: localhost"):
    lines = [f"POST {path} HTTP/1.1", host, *headers]
    return "\r\n".join(line for line in lines if line).encode() + b"\r\n\r\n" + body


def read_one(sock):
    """One reply with Content-Length from an open connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = sock.recv(65536)
        assert chunk, f"closed after {data!r}"
        data += chunk
    header, body = data.split(b"\r\n\r\n", 1)
    length = int(head(data).get("content-length", "0"))
    while len(body) < length:
        chunk = sock.recv(65536)
        assert chunk
        body += chunk
    return header + b"\r\n\r\n" + body[:length]


# --- framing ---

@pytest.mark.parametrize("request_bytes, expected, by_library", [
    (post(b"0\r\n\r\n", "Content-Length: 3", "Transfer-Encoding: chunked"), 400, True),
    (post(b"0\r\n\r\n", "Transfer-Encoding: xchunked"), 501, True),
    (post(b"0\r\n\r\n", "Transfer-Encoding: gzip, chunked"), 501, True),
    (post(b"abc", "Content-Length: 3", "Content-Length: 4"), 400, False),
    (post(b"abc", "Content-Length: 3", "Content-Length: 3"), 400, False),
    (post(b"{}", "Content-Length: 2", host=""), 400, True),
    (post(b"{}", "Content-Length: 2", "Host: localhost"), 400, False),
    (post(b"{}", "Content-Length : 2"), 400, True),
    (b"GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, True),
    (b"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, False),
    (b"GET /v1/examples%00evil HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, False),
    (b"GET /v1/%0d%0aX: HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, False),
    (b"GET /v1/\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, False),
    (b"GET /%7f HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, False),
])
def test_ambiguous_framing_is_refused_and_closed(daemon, request_bytes, expected, by_library):
    assert is_refusal(daemon.raw(request_bytes), expected, by_library)


@pytest.mark.parametrize("length", ["-1", "+2", "0x2", "2,2", "99999999999999999999999", "two", ""])
def test_malformed_length(daemon, length):
    reply = daemon.raw(post(b"{}", f"Content-Length: {length}"))
    assert status(reply) == 400 or status(reply) == 413
    assert b"HTTP/1.1 200" not in reply


def test_smuggled_second_request_is_not_answered(daemon):
    inner = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    reply = daemon.raw(post(b"0\r\n\r\n" + inner, "Content-Length: 5", "Transfer-Encoding: chunked"))
    assert b'{"status":"ok"}' not in reply


def test_garbage_does_no_harm(daemon):
    for data in (b"\x16\x03\x01\x02\x00\x01\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET\r\n\r\n",
                 b"\r\n" * 50, b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                 b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 100000 + b"\r\n\r\n"):
        daemon.raw(data, timeout=2)
        assert daemon.get("/healthz").status_code == 200


# --- keep-alive ---

def test_keep_alive_get_and_post(daemon):
    with daemon.connect() as sock:
        for _ in range(3):
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            reply = read_one(sock)
            assert status(reply) == 200 and "connection" not in head(reply)
            sock.sendall(post(TINY.encode(), f"Content-Length: {len(TINY)}"))
            assert status(read_one(sock)) == 200
            sock.sendall(post(b"{", "Content-Length: 1"))
            assert status(read_one(sock)) == 400
            sock.sendall(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert status(read_one(sock)) == 404


def test_refused_small_body_keeps_the_connection(daemon):
    with daemon.connect() as sock:
        sock.sendall(post(b"abc", "Content-Length: 3", "Content-Type: text/csv"))
        assert status(read_one(sock)) == 415
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(read_one(sock)) == 200


def test_pipelined_requests_are_answered_in_order(daemon):
    with daemon.connect() as sock:
        sock.sendall(post(TINY.encode(), f"Content-Length: {len(TINY)}") +
                     b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        data = b"".join(iter(lambda: sock.recv(65536), b""))
    assert data.count(b"HTTP/1.1 200") == 2
    assert data.index(b'"output"') < data.index(b'{"status":"ok"}')


def test_replies_of_many_connections(daemon):
    """Replies that one round of the daemon makes wait for each other; each client gets its own, in order."""
    clients = [daemon.connect() for _ in range(12)]
    bodies = [[b'{"query":[[%d,%d]],"scale":%d}' % (i, k, k + 1) for k in range(3)] for i in range(len(clients))]
    for sock, mine in zip(clients, bodies):
        for body in mine:
            sock.sendall(post(body, f"Content-Length: {len(body)}"))
    leaver = clients.pop()
    leaver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    leaver.close()
    for i, sock in enumerate(clients):
        with sock, sock.makefile("rb") as replies:
            for k in range(3):
                lines = b"".join(iter(replies.readline, b"\r\n")) + b"\r\n"
                assert status(lines) == 200
                answer = json.loads(replies.read(int(head(lines)["content-length"])))
                assert answer["output"] == [pytest.approx([i, k], rel=1e-5)]


def test_http_1_0(daemon):
    reply = daemon.raw(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert b" 200 " in reply.split(b"\r\n")[0] and reply.endswith(b'{"status":"ok"}\n')


def test_split_header_and_body(daemon):
    data = post(TINY.encode(), f"Content-Length: {len(TINY)}", "Connection: close")
    with daemon.connect() as sock:
        for byte in data:
            sock.sendall(bytes([byte]))
        reply = b"".join(iter(lambda: sock.recv(65536), b""))
    assert status(reply) == 200 and b'"output"' in reply


# --- methods ---

def test_head_is_get_without_body(daemon):
    for path in ("/healthz", "/openapi.json", "/v1/examples"):
        get, headed = daemon.get(path), daemon.request("HEAD", path)
        assert headed.status_code == get.status_code == 200 and headed.content == b""
        for name in ("Content-Length", "Content-Type", "Content-Encoding", "ETag", "Vary"):
            assert headed.headers.get(name) == get.headers.get(name), (path, name)
        plain = daemon.get(path, headers={"Accept-Encoding": "identity"})
        assert plain.headers["Content-Length"] == str(len(plain.content))


def test_options_lists_methods(daemon):
    reply = daemon.request("OPTIONS", "/v1/attention")
    assert reply.status_code == 204 and reply.headers["Allow"] == "POST, OPTIONS"
    reply = daemon.request("OPTIONS", "/v1/examples")
    assert reply.status_code == 204 and reply.headers["Allow"] == "GET, HEAD, OPTIONS"
    star = daemon.raw(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert status(star) == 204 and b"\r\nAllow: GET, HEAD, POST, DELETE, OPTIONS\r\n" in star


@pytest.mark.parametrize("method, path, allow", [
    ("GET", "/v1/attention", "POST, OPTIONS"), ("PUT", "/v1/attention", "POST, OPTIONS"),
    ("DELETE", "/v1/examples", "GET, HEAD, OPTIONS"), ("POST", "/healthz", "GET, HEAD, OPTIONS"),
    ("TRACE", "/healthz", "GET, HEAD, OPTIONS"), ("BREW", "/v1/masks", "POST, OPTIONS"),
    ("B" * 33, "/v1/masks", "POST, OPTIONS")])
def test_other_methods(daemon, method, path, allow):
    reply = daemon.request(method, path)
    assert reply.status_code == 405 and reply.headers["Allow"] == allow
    assert reply.json()["code"] == "method_not_allowed"
    name = method if len(method) <= 32 else "this method"
    assert reply.json()["detail"].startswith(f"{name} is not answered here; allowed: {allow}")


@pytest.mark.parametrize("path", ["/nowhere", "/v1/attention/", "/V1/attention", "//", "/v1", "/v1/examples/",
                                  "/v1/examples/a/b", "/v1/attention/../attention"])
def test_unknown_paths(daemon, path):
    reply = daemon.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert status(reply) == 404 and b'"code":"not_found"' in reply


# --- expectations, sizes ---

def test_expect_continue(daemon):
    with daemon.connect() as sock:
        sock.sendall(post(b"", f"Content-Length: {len(TINY)}", "Expect: 100-continue", "Connection: close"))
        assert sock.recv(65536).startswith(b"HTTP/1.1 100")
        sock.sendall(TINY.encode())
        assert status(b"".join(iter(lambda: sock.recv(65536), b""))) == 200


def test_other_expectations(daemon):
    reply = daemon.raw(post(b"", "Content-Length: 5", "Expect: miracles"))
    assert status(reply) == 417


def test_too_large_is_told_before_the_upload(start):
    daemon = start("--max-body-bytes", "1000")
    for headers in (["Expect: 100-continue"], []):
        reply = daemon.raw(post(b"", "Content-Length: 3000000", *headers))
        assert status(reply) == 413 and b"100 Continue" not in reply
    small = daemon.post("/v1/attention", "x" * 1001)
    problem = small.json()
    assert small.status_code == 413 and problem["code"] == "too_large"
    assert problem["limit"] == {"value": 1000, "setting": "max_body_bytes"}
    assert daemon.post("/v1/attention", TINY).status_code == 200


def chunked(*pieces, last=True):
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return post(body + (b"0\r\n\r\n" if last else b""), "Transfer-Encoding: chunked", "Connection: close")


def test_chunked_body(daemon):
    text = TINY.encode()
    assert status(daemon.raw(chunked(text))) == 200
    assert status(daemon.raw(chunked(*[bytes([c]) for c in text]))) == 200
    large = text + b" " * 300000
    assert status(daemon.raw(chunked(*[large[i:i + 5000] for i in range(0, len(large), 5000)]))) == 200


def test_chunked_body_beyond_the_cap(start):
    daemon = start("--max-body-bytes", "1000")
    assert status(daemon.raw(chunked(b"x" * 600, b"x" * 600))) == 413
    endless = daemon.raw(chunked(*[b"x" * 60000] * 40))
    assert status(endless) == 413 and head(endless)["connection"] == "close"
    assert daemon.log(1, status=413, bytes_in=1200)
    assert daemon.get("/healthz").status_code == 200


# --- media types ---

@pytest.mark.parametrize("headers, expected", [
    ({}, 200), ({"Content-Type": "application/json"}, 200),
    ({"Content-Type": "Application/JSON; charset=utf-8"}, 200),
    ({"Content-Type": "application/x-www-form-urlencoded"}, 200),
    ({"Content-Type": "text/plain"}, 415), ({"Content-Type": "application/octet-stream"}, 415),
    ({"Content-Type": "multipart/form-data; boundary=x"}, 415)])
def test_content_types(daemon, headers, expected):
    reply = daemon.post("/v1/attention", TINY, headers=headers)
    assert reply.status_code == expected
    if expected == 415:
        assert "application/json" in reply.json()["detail"]


@pytest.mark.parametrize("header, expected", [
    ("application/json;charset=UTF-8", 200), ('application/json; x=y; charset="utf-8"', 200),
    ("application/json; charset=us-ascii", 200), ("application/json; charset=latin1", 415),
    ("application/json; charset=iso-8859-1", 415), ('application/json; x=y;charset="utf-16"', 415),
    ("application/json; charset=", 415), ("application/x-www-form-urlencoded; Charset=UTF-16LE", 415),
    ("application/json; charset=utf-8x", 415), ("application/json; xcharset=utf-16", 200)])
def test_json_in_another_charset_is_refused(daemon, header, expected):
    reply = daemon.post("/v1/attention", TINY, headers={"Content-Type": header})
    assert reply.status_code == expected
    if expected == 415:
        assert "utf-8" in reply.json()["detail"] and header.split("harset=")[1].strip('"') in reply.json()["detail"]
        assert reply.headers["Accept-Post"].startswith("application/json")


def test_content_encoding(daemon):
    reply = daemon.post("/v1/attention", TINY, headers={"Content-Encoding": "br"})
    assert reply.status_code == 415 and reply.headers["Accept-Encoding"] == "gzip, deflate, identity"
    assert daemon.post("/v1/attention", TINY, headers={"Content-Encoding": "identity"}).status_code == 200


@pytest.mark.parametrize("accept, expected", [
    (None, "application/json"), ("*/*", "application/json"), ("", "application/json"),
    ("application/json", "application/json"), ("application/*", "application/json"),
    ("text/plain", "text/plain"), ("text/*", "text/plain"),
    ("text/plain;q=0.5, application/json;q=0.4", "text/plain"),
    ("text/plain;q=0.4, application/json", "application/json"),
    ("text/html, */*;q=0.1", "application/json"),
    ("application/json;q=0, */*", "text/plain"), ("TEXT/PLAIN; charset=utf-8", "text/plain"),
    ("image/gif", None), ("application/json;q=0", None), ("text/html", None)])
def test_accept(daemon, accept, expected):
    headers = {"Accept": accept}
    reply = daemon.post("/v1/attention", TINY, headers=headers)
    if expected:
        assert reply.status_code == 200 and reply.headers["Content-Type"].startswith(expected)
    else:
        assert reply.status_code == 406 and reply.json()["code"] == "not_acceptable"
    assert "Accept" in reply.headers.get("Vary", "")


# --- reply headers ---

def test_request_id(daemon):
    assert daemon.get("/healthz", headers={"X-Request-Id": "Az-09._x"}).headers["X-Request-Id"] == "Az-09._x"
    longest = "a" * 128
    assert daemon.get("/healthz", headers={"X-Request-Id": longest}).headers["X-Request-Id"] == longest
    own = [daemon.get("/healthz", headers={"X-Request-Id": bad}).headers["X-Request-Id"]
           for bad in ("", "a" * 129, "a b", 'a"b', "a%0d%0aSet-Cookie: x", "ä".encode())]
    own.append(daemon.get("/healthz").headers["X-Request-Id"])
    assert len(set(own)) == len(own)
    for text in own:
        assert re.fullmatch(r"[0-9a-f]{16}", text)


def test_problem_names_the_request(daemon):
    reply = daemon.get("/nowhere", headers={"X-Request-Id": "abc"})
    assert reply.json()["instance"] == "urn:request:abc"


def test_server_timing_and_no_store(daemon):
    reply = daemon.post("/v1/attention", TINY)
    assert reply.headers["Cache-Control"] == "no-store"
    names = re.findall(r"(\w+);dur=\d+\.\d{3}", reply.headers["Server-Timing"])
    assert names == ["queue", "decode", "compute", "encode"]


def test_constant_documents_carry_a_tag(daemon):
    for path in ("/openapi.json", "/v1/examples"):
        first = daemon.get(path)
        tag = first.headers["ETag"]
        assert re.fullmatch(r'"[0-9a-f]{16}"', tag)
        for sent in (tag, f'"other", {tag}', "*"):
            again = daemon.get(path, headers={"If-None-Match": sent})
            assert again.status_code == 304 and again.content == b"" and again.headers["ETag"] == tag
        assert daemon.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
    assert daemon.request("HEAD", "/openapi.json").headers["ETag"] == daemon.get("/openapi.json").headers["ETag"]


def test_if_match(daemon):
    tag = daemon.get("/openapi.json").headers["ETag"]
    for sent in (tag, f'"other", {tag}', "*"):
        assert daemon.get("/openapi.json", headers={"If-Match": sent}).status_code == 200
    for sent in ('"other"', f"W/{tag}", ""):
        for also in ({}, {"If-None-Match": tag}):
            reply = daemon.get("/openapi.json", headers={"If-Match": sent} | also)
            assert reply.status_code == 412 and reply.json()["code"] == "precondition_failed"
            assert tag in reply.json()["detail"] and "ETag" not in reply.headers
            assert reply.headers["Cache-Control"] == "no-store"
    reply = daemon.get("/openapi.json", headers={"If-Match": tag, "If-None-Match": f"W/{tag}"})
    assert reply.status_code == 304 and reply.headers["Vary"] == "Accept-Encoding"


def test_changing_documents_are_not_kept(daemon):
    for path in ("/healthz", "/readyz", "/version", "/metrics"):
        reply = daemon.get(path)
        assert reply.headers["Cache-Control"] == "no-store" and "ETag" not in reply.headers


def test_version_states_limits(daemon):
    version = daemon.get("/version").json()
    assert version["version"] == daemon.version
    assert version["kernels"]["table"] == daemon.kernels and version["kernels"]["reason"]
    limits = version["limits"]
    assert limits["max_body_bytes"] == 256 * 1024 * 1024 and limits["queue_length"] == 256
    assert limits["workers"] == daemon.workers and limits["memory_bytes"] > limits["max_body_bytes"]


def test_the_stated_size_of_a_body_is_the_one_that_fits(start):
    """Bodies have half of memory_bytes, which may be less than max_body_bytes."""
    daemon = start("--memory-bytes", "8MiB", "--workers", "1")
    most = daemon.get("/version").json()["limits"]["max_body_bytes"]
    assert 3 << 20 < most < 4 << 20
    for length, wanted in ((most, 100), (most + 1, 413)):
        head = f"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
        with daemon.connect() as sock:
            sock.sendall(head.encode())
            assert status(sock.recv(65536)) == wanted


def test_half_closing_client_is_answered_when_set_so(start):
    daemon = start("--half-close-is-gone", "false")
    body = '{"query":{"shape":[600,64],"random":"normal","seed":1},"return":["logsumexp"]}'.encode()
    request = post(body, f"Content-Length: {len(body)}")
    assert status(daemon.raw(request, half_close=True)) == 200


# --- cross-origin requests ---

def test_cors_is_off_by_default(daemon):
    reply = daemon.get("/healthz", headers={"Origin": "https://a.example"})
    assert not [name for name in reply.headers if name.lower().startswith("access-control")]


def test_cors_exact_origins(start):
    daemon = start("--cors-origins", "https://a.example,http://localhost:3000")
    allowed = daemon.post("/v1/attention", TINY, headers={"Origin": "https://a.example"})
    assert allowed.headers["Access-Control-Allow-Origin"] == "https://a.example"
    for name in ("Retry-After", "X-Request-Id", "Server-Timing", "ETag", "Location", "X-Run-Id"):
        assert name in allowed.headers["Access-Control-Expose-Headers"]
    assert "Origin" in allowed.headers["Vary"]
    assert "Access-Control-Allow-Credentials" not in allowed.headers
    for origin in ("https://a.example.evil", "http://a.example", "https://A.example", "null"):
        refused = daemon.post("/v1/attention", TINY, headers={"Origin": origin})
        assert "Access-Control-Allow-Origin" not in refused.headers
        assert "Origin" in refused.headers["Vary"]


def test_cors_preflight(start):
    daemon = start("--cors-origins", "https://a.example")
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    reply = daemon.request("OPTIONS", "/v1/attention", headers={"Origin": "https://a.example", **asks})
    assert reply.status_code == 204
    assert "POST" in reply.headers["Access-Control-Allow-Methods"]
    for name in ("content-type", "if-none-match", "last-event-id", "cache-control"):
        assert name in reply.headers["Access-Control-Allow-Headers"].lower()
    assert int(reply.headers["Access-Control-Max-Age"]) > 0
    other = daemon.request("OPTIONS", "/v1/attention", headers={"Origin": "https://b.example", **asks})
    assert other.status_code == 403 and "Access-Control-Allow-Methods" not in other.headers


def test_a_body_in_pieces_leaves_with_its_header(daemon):
    accept = "Accept: application/vnd.safetensors"
    request = post(TINY.encode(), f"Content-Length: {len(TINY)}", "Content-Type: application/json", accept)
    with daemon.connect() as sock:
        packets = []
        for _ in range(21):
            sock.sendall(request)
            assert status(read_one(sock)) == 200
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
            packets.append(struct.unpack_from("I", info, 152)[0])  # tcpi_data_segs_in
    assert packets[-1] - packets[0] == 20  # the library pushes a connection's first header out


# --- the operations port ---

def test_operations_port_serves_status_only(daemon):
    ops = daemon.ops_url
    for path in ("/healthz", "/readyz", "/metrics", "/version"):
        assert daemon.session.get(ops + path, timeout=PATIENCE).status_code == 200
    for path in ("/", "/v1/examples", "/openapi.json"):
        assert daemon.session.get(ops + path, timeout=PATIENCE).status_code == 404
    assert daemon.session.post(ops + "/v1/attention", data=TINY, timeout=PATIENCE).status_code == 404


def test_connection_reset_mid_request_does_no_harm(daemon):
    for _ in range(20):
        sock = daemon.connect()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.sendall(post(b'{"query":', "Content-Length: 500"))
        sock.close()
    assert daemon.get("/healthz").status_code == 200


@pytest.mark.parametrize("target, code", [
    (b"http://localhost/healthz", 200), (b"HTTPS://localhost:1/v1/examples?x=/", 422), (b"http://localhost", 200),
    (b"http://localhost/none", 404), (b"ftp://host/healthz", 404), (b"//host/healthz", 404),
])
def test_absolute_targets(daemon, target, code):
    """RFC 9112, 3.2.2: a server takes the form that proxies are sent."""
    raw = daemon.raw(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nConnection: close\r\n\r\n")
    assert status(raw) == code
