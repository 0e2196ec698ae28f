"""HTTP as httplint and redbot (RFC 9110 to 9112) want it: every kind of answer, those that libmicrohttpd would give by itself
among them."""
import json
import socket
import time
from configparser import ConfigParser

import pytest
import thor
from httplint import HttpResponseLinter
from httplint.note import levels
from redbot.resource import HttpResource
from redbot.resource.fetch import RedFetcher, RedHttpClient
from serving import service

# Accept-Encoding in a 415 says which content codings bodies may have (RFC 9110, 12.5.3 and 15.5.16); httplint knows it in
# requests only.
CODINGS_OF_A_BODY = ["REQUEST_HDR_IN_RESPONSE"]
TINY = b'{"query":[[1]],"key":[[1]],"value":[[1]]}'
JSON = {"Content-Type": "application/json"}
INFER = json.dumps({"inputs": [{"name": n, "datatype": "FP32", "shape": [1, 1], "data": [1]}
                               for n in ("query", "key", "value")]}).encode()
MODEL = "/v2/models/scaled_dot_product_attention"


@pytest.fixture(scope="module")
def daemon():
    running = service.Daemon("--ops-listen", "", "--log", "off", "--max-body-bytes", "100000")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def gets(daemon):
    """Every GET route as an address that is there."""
    values = {"{id}": "causal", "{model}": MODEL.split("/")[-1], "{version}": "1"}
    paths = []
    for path, item in daemon.get("/openapi.json").json()["paths"].items():
        for name, value in values.items():
            path = path.replace(name, value)
        if "get" in item and daemon.get(path).status_code == 200:
            paths.append(path)
    assert len(paths) >= 18
    return paths


def found(notes):
    """Names of what is a warning or worse; STATUS_… says no more than that an error is one."""
    names = {n.__class__.__name__ for n in notes if n.level in (levels.WARN, levels.BAD)}
    return sorted(name for name in names if not name.startswith("STATUS_"))


def redbot(url, method):
    """All notes on the resource and on the requests that REDbot makes besides: codings, conditions, ranges."""
    config = ConfigParser()
    config.read_dict({"redbot": {"enable_local_access": "True"}})
    RedFetcher.client = RedHttpClient()  # no connection of an earlier loop is taken up again
    resource = HttpResource(config["redbot"])
    resource.set_request(url, method=method)
    resource.once("check_done", thor.stop)
    resource.check()
    thor.run()
    assert resource.fetch_error is None and resource.response.complete, (url, resource.fetch_error)
    notes = list(resource.response.notes)
    for extra in resource.subreqs.values():
        notes += extra.response.notes
    return resource, notes


def test_redbot_finds_nothing(daemon, gets):
    validated = 0
    for method in ("GET", "HEAD"):
        for path in gets + ["/nothing", "/v1/examples/nothing", "/v1/attention"]:
            resource, notes = redbot(daemon.url + path, method)
            assert found(notes) == [], (method, path, [str(n.summary) for n in notes])
            validated += bool(resource.inm_support)
    assert validated >= 8  # documents with an ETag answered If-None-Match with 304


def raw(daemon, data):
    """What comes back for these bytes, the connection being closed behind them."""
    with socket.create_connection((daemon.host, daemon.port), service.PATIENCE) as sock:
        sock.sendall(data)
        received = b""
        try:
            while chunk := sock.recv(65536):
                received += chunk
        except ConnectionResetError:
            pass
    return received


def request(method, path, headers=None, body=b""):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"{k}: {v}" for k, v in (headers or {}).items()]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def lint(answer, method="GET"):
    """(status, names of what httplint finds) of one whole message."""
    head, _, body = answer.partition(b"\r\n\r\n")
    top, *lines = head.split(b"\r\n")
    version, status, phrase = top.split(b" ", 2)
    linter = HttpResponseLinter(start_time=time.time())
    linter.is_head_response = method == "HEAD"
    linter.process_response_topline(version.split(b"/")[1], status, phrase)
    linter.process_headers([tuple(part.strip() for part in line.split(b":", 1)) for line in lines])
    linter.feed_content(body)
    linter.finish_content(True)
    return int(status), found(linter.notes), dict(line.split(b": ", 1) for line in lines if b": " in line)


ASKED = [
    (200, "POST", "/v1/attention", JSON, TINY), (200, "POST", "/v1/attention", {}, TINY),
    (200, "POST", "/v1/attention", JSON | {"Accept": "text/plain"}, TINY),
    (200, "POST", "/v1/attention", JSON | {"Accept": "application/vnd.safetensors"}, TINY),
    (200, "POST", "/v1/attention", JSON | {"Accept": "application/x-npy"}, TINY[:-1] + b',"return":["output"]}'),
    (200, "POST", "/v1/attention", JSON | {"Accept-Encoding": "gzip"},
     b'{"query":{"shape":[20,20],"random":"normal","seed":1}}'.replace(b"}}", b'},"key":[[%s]]}' % b",".join(
         [b"1"] * 20)).replace(b"]]}", b']],"value":[[1]]}')),
    (200, "POST", "/v1/masks", JSON, b'{"shape":[2,2],"masks":[{"kind":"causal"}]}'),
    (200, "POST", "/v1/positions", JSON, b'{"kind":"sinusoidal","length":2,"width":2}'),
    (200, "POST", "/v1/heatmaps", JSON, b'{"weights":[[1]]}'),
    (200, "POST", "/v1/heatmaps", JSON | {"Accept": "image/svg+xml"}, b'{"weights":[[1]]}'),
    (200, "POST", MODEL + "/infer", {}, INFER),
    (200, "POST", MODEL + "/infer", {}, INFER[:-1] + b',"parameters":{"binary_data_output":true}}'),
    (200, "POST", "/v2/repository/index", {}, b""), (204, "OPTIONS", "/v1/attention", {}, b""),
    (204, "OPTIONS", "*", {}, b""),
    (400, "POST", "/v1/attention", JSON, b"{"), (400, "POST", MODEL + "/infer", {}, b"{"),
    (400, "GET", "/v2", {"Transfer-Encoding": "chunked", "Content-Length": "3"}, b""),
    (404, "GET", "/nothing", {}, b""), (404, "GET", "/v2/models/nothing", {}, b""),
    (405, "GET", "/v1/attention", {}, b""), (405, "DELETE", "/", {}, b""), (405, "PUT", "/v1/masks", JSON, TINY),
    (406, "GET", "/v2", {"Accept": "image/gif"}, b""), (406, "POST", "/v1/attention", JSON | {"Accept": "image/gif"}, TINY),
    (406, "GET", "/v2", {"Accept-Encoding": "identity;q=0"}, b""),
    (412, "GET", "/v2", {"If-Match": '"x"'}, b""),
    (413, "POST", "/v1/attention", JSON, b" " * 100001),
    (415, "POST", "/v1/attention", {"Content-Type": "text/html"}, TINY),
    (415, "POST", "/v1/attention", JSON | {"Content-Encoding": "br"}, TINY),
    (415, "POST", "/v1/attention", {"Content-Type": "application/json; charset=utf-16"}, TINY),
    (417, "POST", "/v1/attention", JSON | {"Expect": "cake"}, TINY),
    (422, "POST", "/v1/attention", JSON, b'{"quer":[[1]]}'),
    (501, "POST", "/v1/attention", {"Transfer-Encoding": "gzip"}, b""),
]


@pytest.mark.parametrize("status, method, path, headers, body", ASKED,
                         ids=[f"{a[0]}-{a[1]}-{i}" for i, a in enumerate(ASKED)])
def test_httplint_finds_nothing(daemon, status, method, path, headers, body):
    if "Transfer-Encoding" in headers:
        lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        data = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode()
    else:
        data = request(method, path, headers, body)
    got, notes, fields = lint(raw(daemon, data), method)
    allowed = CODINGS_OF_A_BODY if status == 415 and "Content-Encoding" in headers else []
    if service.STRICT_LIBRARY and "Transfer-Encoding" in headers:
        assert (got, notes) == (400, []) and fields[b"Connection"] == b"close"  # the library's own page
        return
    assert (got, notes) == (status, allowed), fields
    assert b"Date" in fields
    if status in (405, 204):
        assert b"Allow" in fields
    if status == 415:
        assert b"Accept-Post" in fields or b"Accept-Encoding" in fields
    if status >= 400:
        assert fields[b"Content-Type"] == b"application/problem+json" and fields[b"Cache-Control"] == b"no-store"


def test_head_is_get_without_the_body(daemon, gets):
    changing = {"Date", "X-Request-Id", "traceparent", "Server-Timing"}
    for path in gets:
        get, head = daemon.get(path), daemon.request("HEAD", path)
        assert head.content == b"" and head.status_code == get.status_code
        drop = changing | ({"Content-Length"} if path in ("/metrics", "/v2/models/stats") or "stats" in path else set())
        assert {k: v for k, v in head.headers.items() if k not in drop} == {
            k: v for k, v in get.headers.items() if k not in drop}, path


def test_draining_says_when_to_come_back(start):
    daemon = start("--ops-listen", "", "--log", "off", "--drain-delay-ms", "3000")
    daemon.signal()
    got = 200
    while got == 200:  # until the signal has come through
        got, notes, fields = lint(raw(daemon, request("GET", "/readyz")))
    assert (got, notes) == (503, []) and int(fields[b"Retry-After"]) >= 1
    assert daemon.wait() == 0


OWN_REFUSALS = {
    "no version": (400, b"GET /\r\n\r\n"),
    "length is no number": (400, b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n"),
    "target too long": (414, b"GET /" + b"a" * 300000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "fields too large": (431, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 300000 + b"\r\n\r\n"),
    "chunk is none": (400, b"POST /v1/masks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
    "version of the future": (505, b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n"),
}


@pytest.mark.parametrize("name", OWN_REFUSALS)
def test_refusals_of_the_library(daemon, name):
    """What libmicrohttpd refuses by itself is answered as everything else is, and from 1.0 on with its own page."""
    expected, data = OWN_REFUSALS[name]
    answer = raw(daemon, data)
    status, notes, fields = lint(answer)
    assert (status, notes) == (expected, []) and fields[b"Connection"] == b"close"
    assert (b"application/problem+json" in answer) != service.STRICT_LIBRARY
