"""HTTP as no client should speak it, on raw sockets: each case has its status, none a 5xx (but 501 for codings and
505 for versions), none a second answer, and the daemon is well afterwards."""
import json
import re
import socket
import time

import pytest

from conftest import PATIENCE, READS_EXTENSIONS, STRICT_LIBRARY
from test_daemon_load import eventually, ops_metric
from test_daemon_protocol import head, is_refusal, post, read_one, status

TINY = b'{"query":[[1,0],[0,1]]}'
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(TINY), TINY)
CLOSE = "Connection: close"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
# What libmicrohttpd answers otherwise when it checks requests itself: nothing, or another status.
STRICT = {"twice": 400, "identity": 400, "empty coding": 400, "NUL in the target": None} if STRICT_LIBRARY else {}


def statuses(reply):
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", reply)]


def get(*lines, target=b"/healthz", version=b"HTTP/1.1"):
    return b"GET " + target + b" " + version + b"\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


@pytest.mark.parametrize("name, data, expected", [
    # transfer codings
    ("twice", post(b"0\r\n\r\n", "Transfer-Encoding: chunked, chunked"), 501),
    ("two lines", post(b"0\r\n\r\n", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), 501),
    ("identity", post(b"0\r\n\r\n", "Transfer-Encoding: identity"), 501),
    ("empty coding", post(b"0\r\n\r\n", "Transfer-Encoding: "), 501),
    ("empty beside a length", post(b"{}", "Transfer-Encoding: ", "Content-Length: 2"), 400),
    ("space before the colon", post(b"0\r\n\r\n", "Transfer-Encoding : chunked"), 400),
    ("vertical tab", post(b"0\r\n\r\n", "Transfer-Encoding: \x0bchunked"), 400),
    ("in HTTP/1.0", b"POST /v1/attention HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED, 400),
    ("in capitals", post(CHUNKED, "TRANSFER-ENCODING: CHUNKED", CLOSE), 200),
    # lengths
    ("folded", b"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nContent-Length:\r\n 2\r\n\r\n{}", 400),
    ("NUL", b"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\x000\r\n\r\n{}", 400),
    ("behind a bare CR", b"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nX: a\rContent-Length: 2\r\n\r\n{}", 400),
    ("more than 2^63", post(b"{}", "Content-Length: 9999999999999999999"), 400),
    ("more than 2^64", post(b"{}", "Content-Length: 99999999999999999999"), 413),
    # hosts
    ("with a path", get(b"Host: a/b"), 400), ("two in one", get(b"Host: a, b"), 400),
    ("with a user", get(b"Host: u@a"), 400), ("with a space", get(b"Host: a b"), 400),
    ("none", get(b"X: y"), 400), ("none in a later version", get(b"X: y", version=b"HTTP/1.2"), 400),
    ("empty", get(b"Host:", b"Connection: close"), 200),
    ("address", get(b"Host: [::1]:8080", b"Connection: close"), 200),
    ("trailing blanks", get(b"Host: localhost:80 \t", b"Connection: close"), 200),
    # other headers
    ("NUL in a value", get(b"Host: localhost", b"X: a\0b"), 400), ("bare CR in a value", get(b"Host: localhost", b"X: a\rb"), 400),
    ("bell in a value", get(b"Host: localhost", b"X: \x07"), 400), ("DEL in a value", get(b"Host: localhost", b"X: \x7f"), 400),
    ("tab in a value", get(b"Host: localhost", b"X: a\tb", b"Connection: close"), 200),
    ("bytes beyond ASCII", get(b"Host: localhost", b"X: \xe4\xff", b"Connection: close"), 200),
    ("NUL in a name", get(b"Host: localhost", b"X\0Y: a"), 400), ("no colon", get(b"Host: localhost", b"nocolon"), 400),
    ("blank in a name", get(b"Host: localhost", b"X Y: a"), 400), ("folded", get(b"Host: localhost", b"X: a", b" b: c"), 400),
    ("begins folded", get(b" Host: localhost"), 400), ("too many", get(b"Host: localhost", *[b"X%d: y" % i for i in range(2000)]), 431),
    ("too long", get(b"Host: localhost", b"X: " + b"y" * 100000), 431),
    # request lines
    ("NUL in the target", get(b"Host: localhost", target=b"/healthz\0"), 400), ("two spaces", b"GET /healthz  HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("version 2", get(b"Host: localhost", version=b"HTTP/2.0"), 505), ("other protocol", get(b"Host: localhost", version=b"HTTX/1.1"), 400),
    ("two spaces before the target", b"GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("a space at the end", b"GET /healthz HTTP/1.1 \r\nHost: localhost\r\n\r\n", 400),
    ("an empty line before", b"\r\n" + get(b"Host: localhost", b"Connection: close"), 200),
    ("none at all", b"GET /healthz\r\n\r\n", 400), ("blank in the target", get(b"Host: localhost", target=b"/healthz x"), 400),
    ("too long", get(b"Host: localhost", target=b"/" + b"a" * 100000), 414),
    ("many arguments", get(b"Host: localhost", b"Connection: close", target=b"/healthz?" + b"a=b&" * 140), 400),
    ("too many arguments", get(b"Host: localhost", target=b"/healthz?" + b"a=b&" * 1000), 414),
    ("far too many", get(b"Host: localhost", target=b"/healthz?" + b"a=b&" * 8000), 414),
    ("absolute", get(b"Host: localhost", b"Connection: close", target=b"http://localhost/healthz"), 200),
    ("%00", get(b"Host: localhost", target=b"/healthz%00"), 400), ("%00 behind ?", get(b"Host: localhost", target=b"/healthz?a=%00"), 400),
    ("CONNECT", b"CONNECT x:80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
    ("lower case", b"get /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405),
    # chunks
    ("0x", post(b"0x5\r\nabcde\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), 400),
    ("sign", post(b"-1\r\nabcde\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), 400),
    ("plus", post(b"+5\r\nabcde\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), 400),
    ("blank", post(b" 5\r\nabcde\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), 400),
    ("beyond 2^64", post(b"FFFFFFFFFFFFFFFFF\r\nabcde\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), 413),
    ("no end", post(b"5\r\nabcdeXX0\r\n\r\n", "Transfer-Encoding: chunked"), 400),
    ("no size", post(b"\r\nabcde\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), 400),
    ("with a name", post(b"%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(TINY), TINY), "Transfer-Encoding: chunked", CLOSE), 200 if READS_EXTENSIONS else 400),
    ("trailer", post(CHUNKED[:-2] + b"Host: localhost\r\nContent-Length: 4\r\n\r\n", "Transfer-Encoding: chunked", CLOSE), 200),
    # bodies
    ("NUL", post(b'{"query":[[1\0,0]]}', "Content-Length: 18", CLOSE), 400),
    ("deep lists", post(b'{"query":' + b"[" * 250000, "Content-Length: 250009", CLOSE), 400),
    ("deep objects", post(b'{"heatmap":' + b'{"a":' * 250000, "Content-Length: 1250011", CLOSE), 422),
], ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "")
def test_one_answer(daemon, name, data, expected):
    reply = daemon.raw(data)
    expected = STRICT.get(name, expected)
    assert statuses(reply) == ([expected] if expected else []), reply[:300]
    assert daemon.get("/healthz").status_code == 200


@pytest.mark.parametrize("data, code, route, setting", [
    (get(b"Host: localhost", b"X: " + b"y" * 100000), "header_too_long", "none", "connection_bytes"),
    (get(b"Host: localhost", *[b"X%d: y" % i for i in range(2000)]), "header_too_long", "none", "connection_bytes"),
    (get(b"Host: localhost", target=b"/" + b"a" * 100000), "target_too_long", "none", "connection_bytes"),
    (get(b"Host: localhost", version=b"HTTP/2.0"), "version_not_supported", "none", None),
    (b"GET /healthz\r\n\r\n", "bad_request", "none", None),
    (post(b"{}", "Content-Length: 99999999999999999999"), "too_large", "none", None),
    (post(b"{}", "Content-Length: -1"), "bad_request", "none", None),
    (post(b"FFFFFFFFFFFFFFFFF\r\nabcde\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), "too_large", "/v1/attention", None),
    (post(b"5\r\nabcdeXX0\r\n\r\n", "Transfer-Encoding: chunked"), "bad_request", "/v1/attention", None),
    (post(b"5;x=" + b"a" * 100000 + b"\r\nabcde\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), "bad_request", "/v1/attention", "connection_bytes"),
    (post(b"5;x=" + b"a" * 30000, "Transfer-Encoding: chunked"), "bad_request", "/v1/attention", "connection_bytes"),
], ids=["header", "headers", "target", "version", "request line", "length", "negative length", "chunk", "end of a chunk", "extension", "extension without an end"])
def test_what_the_library_refuses(start, request, data, code, route, setting):
    """A problem, with an id, a line in the log and a count; libmicrohttpd's own page is HTML, and a chunk extension of
    100 kB was a 500. From 1.0 on it is the library's own page, and what follows the request line is logged and counted."""
    daemon = start("--log-level", "info", "--idle-timeout-s", "2")
    reply = daemon.raw(data)
    name = request.node.callspec.id
    if STRICT_LIBRARY and "extension" in name:
        assert reply == b"" and ended(daemon), "1.0.1 refuses twice, and then waits for its idle timeout"
        return
    if STRICT_LIBRARY:
        assert is_refusal(reply, status(reply), by_library=True)
        if name not in ("target", "version", "request line"):
            logged, = daemon.log(1, code=code)
            assert (logged["status"], logged["route"]) == (status(reply), route) and len(logged["id"]) == 16
            assert eventually(lambda: ops_metric(daemon, f'attnd_problems_total{{problem="{code}"}}') == 1)
        assert ended(daemon)
        return
    lines = head(reply)
    problem = json.loads(reply.split(b"\r\n\r\n", 1)[1])
    assert lines["content-type"] == "application/problem+json" and lines["connection"] == "close"
    assert problem["code"] == code and problem["status"] == statuses(reply)[0] < 506 and problem["status"] != 500
    assert problem["instance"] == "urn:request:" + lines["x-request-id"]
    assert problem.get("limit", {}).get("setting") == setting
    assert eventually(lambda: ops_metric(daemon, f'attnd_problems_total{{problem="{code}"}}') == 1)
    assert eventually(lambda: lines["x-request-id"] in daemon.stderr())
    logged = json.loads(next(line for line in daemon.stderr().splitlines() if lines["x-request-id"] in line))
    assert (logged["status"], logged["code"], logged["route"]) == (problem["status"], code, route)
    assert ended(daemon)


@pytest.mark.parametrize("data", [
    b"GET /healthz HTTP/1.1\nHost: x\n\n", b"GET /healthz HTTP/1.1\r\nHost: x\nX: y\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: y\nContent-Length: 2\r\n\r\n{}", b"GET /healthz HTTP/1.1\nHost: localhost\r\n\r\n",
    b"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED])
def test_bare_line_feeds_are_refused(daemon, data):
    """Of several servers in a row not all take them for the end of a line."""
    reply = daemon.raw(data)
    assert is_refusal(reply, 400, by_library=True) and (STRICT_LIBRARY or b"CR LF" in reply)


@pytest.mark.parametrize("lines", [
    b"X-Request-Id: a\r\n b\r\n", b"X-Request-Id:\r\n b\r\nY: z\r\n", b"Content-Length:\r\n 23\r\n", b"Content-Length: 2\r\n 3\r\n",
    b"Content-Length: 2\0003\r\n", b"Content-Length: 2\0003\r\nY: z\r\n", b"X-Request-Id: a\0\0\0\0.b\r\n",
    b"X-Request-Id: a\0\0\0\0\r\n", b"Content-Length: 23\0\0\0\0Transfer-Encoding: chunked\r\n", b"Origin: a\0\0\r\n", b"Transfer-Encoding:\r\n\tchunked\r\n", b"X: y\0\r\nY: z\r\n",
    b": v\r\nContent-Length: 23\r\n", b"X: y\r\n: v\r\nContent-Length: 23\r\n"])
def test_lines_that_the_library_hides(daemon, lines):
    """Folded lines, bytes behind a NUL and what follows an empty name: refused, and what follows is no request."""
    reply = daemon.raw(b"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n" + TINY + HEALTH + b"\r\n")
    assert statuses(reply) == [400] and head(reply)["connection"] == "close"


def test_nothing_of_a_refused_line_is_left(start):
    """libmicrohttpd does not report the end of a request whose arguments it cannot hold: beside a header, these."""
    daemon = start("--header-timeout-ms", "1000")
    lines = [b"X%d: y" % i for i in range(140)]
    for count in (20, 60, 100, 140, 180, 220, 8000):
        daemon.raw(get(b"Host: localhost", b"Connection: close", *lines, target=b"/healthz?" + b"a=b&" * count))
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)


def test_a_million_chunks_of_a_byte(start):
    daemon = start("--in-place-bytes", "0")
    before = ops_metric(daemon, "process_resident_memory_bytes")
    blanks = b"1\r\n \r\n" * 1000000
    reply = daemon.raw(post(blanks + CHUNKED, "Transfer-Encoding: chunked", CLOSE))
    assert status(reply) == 200 and b'"output"' in reply
    assert ops_metric(daemon, "process_resident_memory_bytes") - before < 30e6


def test_many_pipelined_requests(daemon):
    one = post(TINY, f"Content-Length: {len(TINY)}")
    reply = daemon.raw((one + HEALTH + b"\r\n") * 100 + HEALTH + b"Connection: close\r\n\r\n")
    assert statuses(reply) == [200] * 201
    bodies = [piece.split(b"\r\n\r\n", 1)[1] for piece in reply.split(b"HTTP/1.1 ")[1:]]
    assert all(body.startswith(b'{"output"') for body in bodies[0:200:2])
    assert all(body.startswith(b'{"status":"ok"}') for body in bodies[1:200:2])


def test_nothing_behind_an_early_refusal_is_answered(daemon):
    refused = post(b"", "Content-Length: 300000000", "Expect: 100-continue")
    assert statuses(daemon.raw(refused + HEALTH + b"\r\n")) == [413]
    refused = post(b"0\r\n\r\n", "Transfer-Encoding: gzip, chunked")
    assert statuses(daemon.raw(refused + HEALTH + b"\r\n")) == [400 if STRICT_LIBRARY else 501]


@pytest.mark.parametrize("headers, expected", [
    (["Expect: 100-continue"], [100, 200]), (["EXPECT: 100-Continue"], [100, 200]),
    (["Expect: 100-continue", "Expect: 100-continue"], [100, 200]), (["Expect: 200-ok"], [417]),
    (["Expect: 100-continue", "Content-Type: text/csv"], [415])])
def test_expectations_with_the_body_at_once(daemon, headers, expected):
    reply = daemon.raw(post(TINY, f"Content-Length: {len(TINY)}", CLOSE, *headers))
    assert [code for code in statuses(reply) if code != 100] == expected[-1:]
    assert statuses(reply) == expected or STRICT_LIBRARY, "from 1.0 on there is no 100 if the body is there already"


def test_expectation_of_an_old_client(daemon):
    reply = daemon.raw(b"POST /v1/attention HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n%s"
                       % (len(TINY), TINY))
    assert statuses(reply) == [200], "HTTP/1.0 knows no 100"


@pytest.mark.parametrize("headers, expected", [
    (["Content-Length: 500000000"], 413), (["Content-Length: 8000000", "Content-Type: text/csv"], 415),
    (["Content-Length: 8000000", "Content-Encoding: br"], 415), (["Transfer-Encoding: chunked", "Content-Length: 8"], 400)])
def test_a_refusal_is_seen_while_the_body_is_on_its_way(daemon, headers, expected):
    """The client writes on; what it reads first is the whole answer, not a reset."""
    with daemon.connect() as sock:
        sock.sendall(post(b" " * 65536, *headers))
        reply = b""
        while b"\r\n\r\n" not in reply or len(reply.split(b"\r\n\r\n", 1)[1]) < int(head(reply)["content-length"]):
            piece = sock.recv(65536)
            assert piece, reply
            reply += piece
    assert status(reply) == expected and head(reply)["connection"] == "close"


def test_a_body_that_grows_too_large_is_told_so_while_it_is_sent(start):
    """Chunked, so that nothing was announced: the answer comes in the middle, and what follows is read for a while."""
    daemon = start("--max-body-bytes", "1000000")
    piece = b"%x\r\n%s\r\n" % (65536, b" " * 65536)
    with daemon.connect() as sock:
        sock.sendall(post(b"", "Transfer-Encoding: chunked"))
        for _ in range(60):
            sock.sendall(piece)
        reply = b"".join(iter(lambda: sock.recv(65536), b""))
    assert statuses(reply) == [413] and b'"setting":"max_body_bytes"' in reply
    assert int(head(reply)["content-length"]) == len(reply.split(b"\r\n\r\n", 1)[1])
    assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
    assert eventually(lambda: ops_metric(daemon, "attnd_memory_reserved_bytes") < 100000)


def test_half_closed_in_the_middle(daemon):
    assert daemon.raw(post(b"abc", "Content-Length: 10"), half_close=True) == b""
    assert daemon.raw(b"GET /heal", half_close=True) == b""
    assert daemon.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", half_close=True) == b""


def test_a_thousand_trickled_headers_and_bodies_hold_up_nobody(start):
    """Others are answered meanwhile, and at the end of the grace all of them are cut off with 408."""
    daemon = start("--header-timeout-ms", "3000")
    headers = [daemon.connect() for _ in range(500)]
    bodies = [daemon.connect() for _ in range(500)]
    try:
        for sock in headers:
            sock.sendall(HEALTH)
        for sock in bodies:
            sock.sendall(post(b"[", "Content-Length: 200000000"))
        taken = []
        for _ in range(200):
            begin = time.monotonic()
            assert daemon.post("/v1/attention", TINY).status_code == 200
            taken.append(time.monotonic() - begin)
        assert sorted(taken)[190] < PATIENCE / 60, "a second or more would be a queue behind the trickle"
        for sock in headers[::50] + bodies[::50]:
            assert statuses(b"".join(iter(lambda: sock.recv(65536), b""))) == [408]
        assert eventually(lambda: ops_metric(daemon, "attnd_closed_slow_total") == 1000)
    finally:
        for sock in headers + bodies:
            sock.close()
    assert daemon.post("/v1/attention", TINY).status_code == 200


def test_readers_that_stop_return_their_memory(start):
    """100 clients ask for a megabyte each and read nothing of it."""
    daemon = start("--header-timeout-ms", "1000", "--min-rate-bytes", "1MiB")
    body = b'{"query":{"shape":[1,320,64],"random":"normal","seed":1},"return":["weights"]}'
    socks = []
    try:
        for _ in range(100):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.settimeout(PATIENCE)
            sock.connect((daemon.host, daemon.port))
            sock.sendall(post(body, f"Content-Length: {len(body)}"))
            socks.append(sock)
        assert daemon.post("/v1/attention", TINY).status_code == 200
        assert eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)
        assert eventually(lambda: ops_metric(daemon, "attnd_memory_reserved_bytes") < 100000)
    finally:
        for sock in socks:
            sock.close()


def test_a_connection_stays_usable_between_refusals(daemon):
    with daemon.connect() as sock:
        for data, expected in [(post(b"{", "Content-Length: 1"), 400), (HEALTH + b"\r\n", 200),
                               (post(b"abc", "Content-Length: 3", "Content-Type: text/csv"), 415),
                               (HEALTH + b"\r\n", 200)] * 20:
            sock.sendall(data)
            assert status(read_one(sock)) == expected


# --- chunks ---

def chunked(body, *lines):
    return post(body, "Transfer-Encoding: chunked", *lines)


@pytest.mark.parametrize("body", [
    b"%x\n%s\r\n0\r\n\r\n" % (len(TINY), TINY),
    b"%x;a=b\n%s\r\n0\r\n\r\n" % (len(TINY), TINY),
    b"1\n{\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(TINY) - 1, TINY[1:]),
    b"1\r\n{\n%x\r\n%s\r\n0\r\n\r\n" % (len(TINY) - 1, TINY[1:]),
    b"1\r\n{\r\n%x;a\rb\r\n%s\r\n0\r\n\r\n" % (len(TINY) - 1, TINY[1:]),
], ids=["line", "extension", "first line", "chunk", "CR in an extension"])
def test_chunk_lines_end_in_cr_lf(daemon, body):
    reply = daemon.raw(chunked(body) + HEALTH + b"\r\n")
    assert statuses(reply) == [400], reply
    if b"problem+json" in reply:
        assert b"CR LF" in reply
    assert ended(daemon)


def ended(daemon):
    return eventually(lambda: ops_metric(daemon, "attnd_requests_in_flight") == 0)


@pytest.mark.parametrize("last", [b"0\n\r\n", b"0\r\n\n", b"0\n\n", b"0;x\n\r\n", b"0\r\nX: y\n\r\n"])
def test_nothing_is_read_behind_a_chunked_body(daemon, last):
    """The last lines cannot be seen: whoever reads them otherwise smuggles no request behind them."""
    reply = daemon.raw(chunked(b"%x\r\n%s\r\n" % (len(TINY), TINY) + last) + HEALTH + b"\r\n")
    assert statuses(reply) == [400 if STRICT_LIBRARY else 200] and head(reply)["connection"] == "close", reply
    assert ended(daemon)


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 70000])
def test_chunks_come_in_any_pieces(daemon, size):
    """Lines and data cut anywhere, extensions among them."""
    text = b'{"query":[[1,0],[0,1]], "labels":{"query":["' + b"x" * 30000 + b'","b"]},"return":["output"]}'
    name = b";a=b" if READS_EXTENSIONS else b""
    body = b"".join(b"%x%s\r\n%s\r\n" % (len(text[i:i + 999]), name, text[i:i + 999]) for i in range(0, len(text), 999)) + b"0\r\n\r\n"
    if size < 10:
        body = b"5" + name + b"\r\n" + TINY[:5] + b"\r\n%x\r\n" % (len(TINY) - 5) + TINY[5:] + b"\r\n0\r\n\r\n"
    data = chunked(body)
    with daemon.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(0, len(data), size):
            sock.sendall(data[i:i + size])
            if size < 10:
                time.sleep(0.0005)
        assert status(read_one(sock)) == 200


# --- expectations ---

@pytest.mark.parametrize("line", ["Expect: 100-continue", "expect: 100-Continue", "Expect: 100-continue\r\nExpect: 100-continue"])
@pytest.mark.parametrize("first", ["GET /healthz", "POST /v1/attention", "POST /v1/attention 0", "DELETE /v1/runs/1", "GET /nowhere"])
def test_an_expectation_without_a_body_loses_no_request_behind_it(daemon, line, first):
    """Nobody waits for a 100 there; the library took the next request for a body, and answered neither."""
    method, path, *length = first.split()
    lines = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{line}\r\n" + ("Content-Length: 0\r\n" if length else "") + "\r\n"
    reply = daemon.raw(lines.encode() + HEALTH + b"Connection: close\r\n\r\n")
    codes = statuses(reply)
    assert len(codes) == 2 and codes[1] == 200 and 100 not in codes, reply
    assert codes[0] == {"GET /healthz": 200, "GET /nowhere": 404, "DELETE /v1/runs/1": 404}.get(first, 422 if codes[0] == 422 else 400)


def test_another_expectation_without_a_body_is_refused(daemon):
    for lines in (b"Expect: tea\r\n", b"Expect: 100-continue\r\nExpect: tea\r\n"):
        reply = daemon.raw(HEALTH + lines + b"\r\n" + HEALTH + b"Connection: close\r\n\r\n")
        assert statuses(reply)[0] == 417 and set(statuses(reply)) <= {417, 200}, reply
