"""gzip and deflate both ways, and what hostile bodies cost: a bomb, a lie about a shape, a hundred
megabytes of brackets, half a body. Each is refused early, in bounded memory."""
import gzip
import json
import os
import socket
import struct
import threading
import time
import zlib

import numpy as np
import pytest
import requests
import tritonclient.http as triton

from conftest import PATIENCE
from api_client import ask, normal, qkv

MIB = 1 << 20
MODEL = "scaled_dot_product_attention"


def squeeze(body, coding):
    return gzip.compress(body) if coding == "gzip" else zlib.compress(body)


def send(daemon, body, coding, **headers):
    return daemon.post("/v1/attention", body, headers={"Content-Encoding": coding, **headers})


# AddressSanitizer keeps what was freed for a while.
SLACK = 64 * MIB if PATIENCE <= 60 else 512 * MIB


def processor_seconds(daemon):
    with open(f"/proc/{daemon.pid}/stat") as stat:
        user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def memory(daemon):
    with open(f"/proc/{daemon.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("size", [1, 60])
def test_requests(daemon, coding, size):
    body = qkv(L=3, S=size, E=8)
    reply = send(daemon, squeeze(json.dumps(body).encode(), coding), coding)
    assert reply.status_code == 200 and reply.json() == ask(daemon, body)


def test_members_and_spellings(daemon):
    text = json.dumps({"query": [[1, 2]]}).encode()
    expected = ask(daemon, {"query": [[1, 2]]})
    assert send(daemon, gzip.compress(text[:9]) + gzip.compress(text[9:]), "gzip").json() == expected
    assert send(daemon, gzip.compress(text), "X-GZIP").json() == expected
    assert send(daemon, text, "identity").json() == expected


ZIPPED = gzip.compress(b'{"query":[[1]]}', mtime=0)  # so that these tests have the same names in every process


@pytest.mark.parametrize("body, coding, status, word", [
    (b"{}", "gzip", 400, "not what"),
    (b"", "gzip", 400, "ends early"),
    (ZIPPED[:-5], "gzip", 400, "ends early"),
    (ZIPPED[:-8] + b"\0" * 8, "gzip", 400, "not what"),
    (ZIPPED + b"x", "gzip", 400, "ends early"),
    (zlib.compress(b'{"query":[[1]]}') + b"x", "deflate", 400, "behind its end"),
    (ZIPPED, "deflate", 400, "not what"),
    (b"{}", "br", 415, "gzip, deflate"),
    (b"{}", "gzip, gzip", 415, "gzip, deflate"),
])
def test_refused(daemon, body, coding, status, word):
    reply = send(daemon, body, coding)
    assert reply.status_code == status and word in reply.json()["detail"], reply.text
    if status == 415:
        assert reply.headers["Accept-Encoding"] == "gzip, deflate, identity"


@pytest.mark.parametrize("accept, coding", [
    ("gzip", "gzip"), ("deflate", "deflate"), ("gzip, deflate", "gzip"), ("gzip;q=0, deflate", "deflate"),
    ("*", "gzip"), ("br", None), ("identity", None), ("", None), ("gzip;q=0", None), ("gzip;q=0.000", None),
    ("gzip;q=0.1, identity;q=1", None), ("gzip;q=0.1", "gzip"), ("gzip;q=0.2, deflate;q=0.3", "deflate"),
    ("*;q=0.5, gzip;q=0", "deflate"), ("identity;q=0.5, gzip;q=0.5", "gzip"),
])
def test_answers(daemon, accept, coding):
    body = qkv(L=16, S=16, E=16)
    reply = daemon.post("/v1/attention", body, headers={"Accept-Encoding": accept}, stream=True)
    raw = reply.raw.read(decode_content=False)
    assert reply.headers.get("Content-Encoding") == coding
    assert "Accept-Encoding" in reply.headers["Vary"] and int(reply.headers["Content-Length"]) == len(raw)
    plain = {"gzip": gzip.decompress, "deflate": zlib.decompress, None: bytes}[coding](raw)
    assert json.loads(plain) == ask(daemon, body)
    assert coding is None or len(raw) < len(plain)


def test_small_and_binary_answers_are_left_alone(daemon):
    reply = daemon.post("/v1/attention", {"query": [[1, 2]]}, headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in reply.headers
    reply = daemon.post("/v1/attention", qkv(L=64, S=64, E=16),
                        headers={"Accept-Encoding": "gzip", "Accept": "application/vnd.safetensors"})
    assert reply.status_code == 200 and "Content-Encoding" not in reply.headers
    reply = daemon.post("/v1/attention", {"query": [[1, 2]]}, headers={"Accept-Encoding": "identity;q=0, br"})
    assert reply.status_code == 406


def test_tags_differ_by_coding(daemon):
    plain = daemon.get("/v1/examples/causal", headers={"Accept-Encoding": "identity"})
    small = daemon.get("/v1/examples/causal", headers={"Accept-Encoding": "gzip"})
    assert small.headers["Content-Encoding"] == "gzip" and small.json() == plain.json()
    assert small.headers["ETag"] != plain.headers["ETag"]
    again = daemon.get("/v1/examples/causal", headers={"Accept-Encoding": "gzip", "If-None-Match": small.headers["ETag"]})
    assert again.status_code == 304


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_tritonclient(daemon, coding):
    q = np.random.default_rng(1).standard_normal((64, 32)).astype(np.float32)
    with triton.InferenceServerClient(f"{daemon.host}:{daemon.port}") as client:
        made = triton.InferInput("query", q.shape, "FP32").set_data_from_numpy(q)
        plain = client.infer(MODEL, [made])
        for out in (True, False):
            wanted = [triton.InferRequestedOutput("output", binary_data=out)]
            got = client.infer(MODEL, [made], outputs=wanted, request_compression_algorithm=coding,
                               response_compression_algorithm=coding)
            assert got.as_numpy("output").tobytes() == plain.as_numpy("output").tobytes()


def bomb(coding, size, byte=b"[" * MIB):
    squeezer = zlib.compressobj(9, zlib.DEFLATED, 31 if coding == "gzip" else 15)
    return b"".join(squeezer.compress(byte) for _ in range(size // MIB)) + squeezer.flush()


@pytest.mark.measured
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_bomb(start, coding):
    daemon = start("--max-body-bytes", "2GiB")
    before, body = memory(daemon), bomb(coding, 1 << 30)
    assert len(body) < 2 * MIB
    spent = processor_seconds(daemon)
    reply = send(daemon, body, coding)
    problem = reply.json()
    assert reply.status_code == 413 and problem["limit"]["setting"] == "max_inflate_ratio", problem
    assert processor_seconds(daemon) - spent < 20
    assert memory(daemon) - before < 2 * 200 * len(body) + SLACK
    assert ask(daemon, {"query": [[1, 2]]})["output"] == [[1, 2]]


def test_decoded_size_has_the_cap_of_bodies(start):
    daemon = start("--max-body-bytes", "4MiB", "--max-inflate-ratio", "100000")
    reply = send(daemon, bomb("gzip", 64 * MIB), "gzip")
    assert reply.status_code == 413 and reply.json()["limit"]["setting"] == "max_body_bytes"


def watch(daemon, seconds):
    """The longest time that another client waits for its small answers, in a thread; call to get it."""
    worst, end = [0.0], time.monotonic() + seconds
    running = threading.Event()

    def ask_on():
        import requests
        session = requests.Session()
        session.trust_env = False
        while not running.is_set() and time.monotonic() < end:
            at = time.monotonic()
            assert session.post(daemon.url + "/v1/attention", data='{"query":[[1,2]]}').status_code == 200
            worst[0] = max(worst[0], time.monotonic() - at)

    thread = threading.Thread(target=ask_on)
    thread.start()

    def stop():
        running.set()
        thread.join()
        return worst[0]
    return stop


def raw_post(daemon, head, chunk, total, path="/v1/attention"):
    """Send a header and up to `total` bytes of chunk after chunk; the reply, and how much was sent."""
    sent = 0
    with daemon.connect(60) as sock:
        sock.sendall((f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + head + "\r\n").encode())
        try:
            while sent < total:
                sock.sendall(chunk[:total - sent])
                sent += len(chunk[:total - sent])
        except (BrokenPipeError, ConnectionResetError):
            pass
        reply = b""
        try:
            while piece := sock.recv(65536):
                reply += piece
        except ConnectionResetError:
            pass
    return reply, sent


def test_a_gigabyte_is_refused_before_it_is_sent(daemon):
    reply, sent = raw_post(daemon, f"Content-Length: {1 << 30}\r\nExpect: 100-continue\r\n", b"", 0)
    assert reply.startswith(b"HTTP/1.1 413") and b"max_body_bytes" in reply


@pytest.mark.measured
def test_a_body_that_lies_about_its_shape(start):
    """192 MB of numbers under a shape of eight: the lie is told as soon as the body is there, and read once."""
    size = 192 * MIB
    daemon = start("--max-body-bytes", "256MiB", "--memory-bytes", "1GiB")
    before, others = memory(daemon), watch(daemon, 60)
    head = b'{"query":{"shape":[2,4],"data":['
    chunk = b"1," * (MIB // 2)
    with daemon.connect(60) as sock:
        sock.sendall(b"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size)
        sock.sendall(head)
        left = size - len(head) - 4
        while left:
            piece = chunk[:min(left, MIB)]
            sock.sendall(piece)
            left -= len(piece)
        sock.sendall(b"1]}}")
        reply = b""
        while piece := sock.recv(65536):
            reply += piece
    worst = others()
    assert reply.startswith(b"HTTP/1.1 422") and b"needs 8 elements" in reply, reply[:300]
    assert memory(daemon) - before < size + SLACK  # the body, and no tensor beside it
    assert worst < PATIENCE / 12


def test_binary_bodies_that_lie_about_their_shape(daemon):
    before = memory(daemon)
    header = json.dumps({"query": {"dtype": "F32", "shape": [1 << 20, 1 << 8], "data_offsets": [0, 1 << 30]}}).encode()
    reply = daemon.post("/v1/attention", struct.pack("<Q", len(header)) + header + b"\0" * 64,
                        headers={"Content-Type": "application/vnd.safetensors"})
    assert reply.status_code == 400, reply.text
    infer = {"inputs": [{"name": "query", "shape": [1 << 20, 1 << 8], "datatype": "FP32",
                         "parameters": {"binary_data_size": 1 << 30}}]}
    text = json.dumps(infer).encode()
    reply = daemon.post(f"/v2/models/{MODEL}/infer", text + b"\0" * 64,
                        headers={"Inference-Header-Content-Length": str(len(text))})
    assert reply.status_code in (400, 413), reply.text
    assert memory(daemon) - before < 32 * MIB


@pytest.mark.parametrize("lead", ["", '{"query":', '{"labels":{"query":'])
def test_a_hundred_megabytes_of_brackets(daemon, lead):
    size, others = 100 * MIB, watch(daemon, 60)
    body = lead.encode() + b"[" * (size - len(lead))
    reply, sent = raw_post(daemon, f"Content-Length: {size}\r\n", body, size)
    worst = others()
    assert reply.split()[1] in (b"400", b"422"), reply[:300]
    assert memory(daemon) < 100 * MIB + 5 * 100 * MIB
    assert worst < PATIENCE / 12


def test_half_a_body(daemon):
    """A client that stops in the middle and leaves costs nothing but its connection."""
    body = json.dumps({"query": normal(64, 64)}).encode()
    for coding in ("", "Content-Encoding: gzip\r\n"):
        with daemon.connect() as sock:
            sock.sendall(f"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\n{coding}Content-Length: {2 * len(body)}\r\n\r\n"
                         .encode() + body)
            sock.shutdown(socket.SHUT_WR)
            assert not sock.recv(100).startswith(b"HTTP/1.1 200")
    end = time.monotonic() + PATIENCE
    while daemon.metric("attnd_memory_reserved_bytes") > MIB and time.monotonic() < end:
        time.sleep(0.1)
    assert daemon.metric("attnd_memory_reserved_bytes") <= MIB


def test_a_compressed_request_that_goes_back_into_the_queue(start):
    """Its handler runs a second time, on the decoded body."""
    daemon = start("--requests-running", "2", "--long-ms", "1")
    body = {"query": {"shape": [1, 8, 2048, 64], "random": "normal", "seed": 1}, "return": ["logsumexp"], "decimals": 2}
    packed, replies = gzip.compress(json.dumps(body).encode()), []
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    threads = [threading.Thread(target=lambda: replies.append(
        requests.post(daemon.url + "/v1/attention", data=packed, headers=headers, timeout=PATIENCE))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reply.status_code for reply in replies] == [200] * 4, [reply.text[:300] for reply in replies]
