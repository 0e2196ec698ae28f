"""Every allocation may fail: for n = 1, 2, … the n-th one of the daemon fails while it serves a request, once
alone and once with all that follow, until none was left to fail. Whatever happens, the answer is the right
one, byte by byte, or a 503 that says so, or none at all because there was no memory for the connection; every
block, descriptor and byte of the budget comes back; and the service answers as before.

Starting up is tried in the same way: it succeeds, or ends with a documented exit code and one line."""
import gzip
import io
import itertools
import json
import os
import subprocess
import time

import numpy as np
import pytest
from safetensors.numpy import save

import faults
from faults import get, post
from serving import service

EVERY_START = int(os.environ.get("ATTND_FAULT_EVERY", "7"))  # which of the allocations of a start-up are tried

CAUSAL = {"query": [[1, 0, 0], [0, 1, 0]], "key": [[1, 2, 3], [4, 5, 6]], "value": [[0, 1, 0], [1, 0, 1]], "is_causal": True}


def literal(*shape, seed=1):
    return {"shape": list(shape), "random": "normal", "seed": seed}


EVERYTHING = {
    "query": literal(1, 4, 6, 8), "key": literal(1, 2, 7, 8, seed=2), "value": literal(1, 2, 7, 5, seed=3),
    "attn_mask": [[True] * 9] * 5 + [[False] * 9], "attn_bias": [[0.5] * 9] * 6, "key_lengths": [8], "is_causal": True,
    "query_offset": "end", "window": [5, 2], "sinks": [0.1, 0.2, 0.3, 0.4], "dropout_p": 0.2, "seed": 9, "softcap": 3,
    "past_key": literal(1, 2, 2, 8, seed=4), "past_value": literal(1, 2, 2, 5, seed=5), "position": {"kind": "alibi"},
    "return": ["output", "weights", "weights_dropped", "logsumexp", "scores", "present", "heatmap"], "decimals": 4,
    "heatmap": {"heads": "all", "pool": "both", "max_cells": 16, "top_k": 3}, "explain": True, "verify": 3}
FORMS = {"query": literal(3, 4), "score": {"kind": "concat", "w": literal(5, 8, seed=6), "v": literal(5, seed=7)},
         "normalizer": {"kind": "entmax"}, "grad_output": literal(3, 4, seed=9), "verify": 2}
MIXED = {"query": literal(2, 3, 4), "layout": "BLHE", "mix": {"logits": literal(3, 3, seed=6)}, "position": {
    "kind": "rotary", "layout": "halves"}, "grad_output": literal(2, 3, 4, seed=9)}
TALKING = MIXED | {"mix": {"logits": literal(3, 3, seed=6), "weights": literal(3, 3, seed=7)}, "return": ["output", "weights", "gradients"],
                   "heatmap": {}, "analysis": "all", "verify": 2}
DIFFERENTIAL = {"query": literal(1, 4, 3, 4), "key": literal(1, 4, 5, 4, seed=2), "value": literal(1, 2, 5, 8, seed=3), "explain": True,
                "subtract": {"lambda": [0.5, 0.25], "pairs": "halves"}, "grad_output": literal(1, 2, 3, 8, seed=9)}
SHAW = {"query": literal(3, 4), "position": {"kind": "shaw", "key_table": literal(5, 4, seed=8), "value_table": literal(5, 4)},
        "normalizer": {"kind": "sigmoid", "bias": [-1]}}
DISENTANGLED = {"query": literal(1, 2, 3, 4), "grad_output": literal(1, 2, 3, 4, seed=9), "return": ["output", "gradients"],
                "position": {"kind": "disentangled", "key_table": literal(2, 8, 4, seed=8), "query_table": literal(8, 4),
                             "max_distance": 9}}
MULTI = {"query": literal(5, 8), "projections": {"num_heads": 2, "w_q": literal(8, 8), "w_o": literal(4, 8), "b_o": [1, 2, 3, 4]},
         "token_ids": [1, 2, 3, 0, 0], "pad_id": 0, "position": ["alibi", {"kind": "rotary", "layout": "halves", "axes": [
             {"num_pairs": 1, "interleaved": True, "positions": [0, 0, 1, 1, 2]}, {"num_pairs": 1, "interleaved": True, "positions": [[0, 1, 0, 1, 0]], "base": 100}]}],
         "heatmap": {"encoding": "u8", "transform": "sqrt", "top_p": 0.5}, "labels": {"query": list("abcde")}}
PAGED = {"query": literal(2, 2, 3, 8), "key": literal(5, 4, 2, 8, seed=2), "value": literal(5, 4, 2, 6, seed=3),
         "block_table": [[4, 0, 1], [2, -1, -1]], "key_lengths": [9, 2], "explain": True, "heatmap": {}}
BY_HEAD = {"query": literal(1, 2, 6, 4), "window": [[2, 0], [-1, 0]], "pattern": [{"kind": "full"}, {"kind": "block", "size": 2}],
           "query_positions": [0, 1, 2, 0, 1, None], "key_positions": [[0, 1, 2, 0, 1, None]], "mask_positions": True, "is_causal": True,
           "key_padding_mask": {"shape": [6], "encoding": "bits", "base64": "Hw=="}, "key_padding_semantics": "keep", "explain": True,
           "grad_output": literal(1, 2, 6, 4, seed=9)}
AXES = {"query": literal(1, 4, 6, 8), "position": {"kind": "rotary", "layout": "halves", "axes": [
    {"num_pairs": 2, "positions": [0, 0, 0, 1, 1, None]}, {"num_pairs": 2, "positions": [0, 1, 2, 0, 1, 2], "base": 100}]}}
COMPARED = {"masks": [{"kind": "window", "window": [[1, 0], [-1, 0]]}], "against": [{"kind": "causal"}, {"kind": "documents", "document_ids": [0, 0, 1]}],
            "shape": [2, 2, 3, 3], "as": "difference"}
SPARSE = {"query": literal(1, 2, 300, 16), "pattern": {"kind": "local", "radius": 20}, "return": ["output", "logsumexp"]}
MASKS = {"masks": [{"kind": "causal"}, {"kind": "padding", "key_lengths": [3]}, {"kind": "values", "attn_mask": [[True] * 4] * 4}],
         "shape": [4, 4]}
HEATMAP = {"weights": [[[0.6, 0.4, 0], [0.2, 0.7, 0.1], [0, 0.3, 0.7]]], "labels": {"key": ["the", "cat", "<pad>"]}, "titles": ["a"]}
INFER = {"inputs": [{"name": "query", "shape": [2, 2], "datatype": "FP32", "data": [1, 0, 0, 1]}], "id": "x",
         "outputs": [{"name": "output"}, {"name": "weights"}], "parameters": {"is_causal": True, "window": "[2,0]"}}
TEXT, SAFE = "Accept: text/plain", "application/vnd.safetensors"


def infer_binary():
    blob = np.arange(8, dtype="<f4").tobytes()
    head = json.dumps({"inputs": [{"name": "query", "shape": [4, 2], "datatype": "FP32",
                                   "parameters": {"binary_data_size": len(blob)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    return post(head + blob, f"Inference-Header-Content-Length: {len(head)}", path=V2)


def container(accept=SAFE):
    rng = np.random.default_rng(1)
    body = save({"query": rng.normal(size=(3, 4)).astype(np.float32), "score.w_q": np.eye(4, dtype=np.float32),
                 "score.w_k": np.eye(4, dtype=np.float32), "score.v": np.ones(4, np.float32)},
                {"request": '{"is_causal": true, "score": {"kind": "additive"}, "return": "weights"}'})
    return post(body, f"Content-Type: {SAFE}", f"Accept: {accept}")


def archive():
    file = io.BytesIO()
    np.savez_compressed(file, query=np.asfortranarray(np.random.default_rng(1).normal(size=(3, 4))), request='{"is_causal": true}')
    return post(file.getvalue(), "Content-Type: application/x-npz")


def large():
    """Through the queue, in JSON numbers."""
    values = np.random.default_rng(2).normal(size=(2, 2, 80, 16)).round(5)
    return json.dumps({"query": values.tolist(), "heatmap": {}, "return": ["output", "weights"]}).encode()


V2 = "/v2/models/scaled_dot_product_attention/infer"
REQUESTS = {  # name: request, status, is the body always the same?
    "causal": (post(CAUSAL), 200, True),
    "everything": (post(EVERYTHING), 200, True),
    "everything as text": (post(EVERYTHING, TEXT), 200, True),
    "forms": (post(FORMS), 200, True),
    "relative vectors": (post(SHAW), 200, True),
    "disentangled": (post(DISENTANGLED), 200, True),
    "mixed heads": (post(MIXED), 200, True),
    "mixed heads and weights": (post(TALKING), 200, True),
    "subtracted weights": (post(DIFFERENTIAL), 200, True),
    "projections": (post(MULTI), 200, True),
    "sparse, on the workers": (post(SPARSE), 200, True),
    "masks by head": (post(BY_HEAD), 200, True),
    "axes": (post(AXES), 200, True),
    "masks that are compared": (post(COMPARED, path="/v1/masks"), 200, True),
    "a picture of masks that are compared": (post(COMPARED, "Accept: image/svg+xml", path="/v1/masks"), 200, True),
    "a page cache": (post(PAGED), 200, True),
    "large": (post(large()), 200, True),
    "large, gzip both ways": (post(gzip.compress(large()), "Content-Encoding: gzip", "Accept-Encoding: gzip"), 200, True),
    "dry run": (post({**EVERYTHING, "dry_run": True}), 200, False),
    "masks": (post(MASKS, path="/v1/masks"), 200, True),
    "masks as text": (post(MASKS, TEXT, path="/v1/masks"), 200, True),
    "positions": (post({"kind": "sinusoidal", "length": 4, "width": 4, "dims": [2]}, path="/v1/positions"), 200, True),
    "heatmaps": (post(HEATMAP, path="/v1/heatmaps"), 200, True),
    "heatmaps as text": (post(HEATMAP, TEXT, path="/v1/heatmaps"), 200, True),
    "v2 in JSON": (post(INFER, path=V2), 200, True),
    "v2 in binary": (infer_binary(), 200, True),
    "safetensors": (container(), 200, True),
    "npy": (container("application/x-npy"), 200, True),
    "npz": (archive(), 200, True),
    "analyses as tensors": (post({"weights": [[1, 0], [0.5, 0.5]], "analysis": ["all", "rollout"]}, f"Accept: {SAFE}",
                                 path="/v1/analyses"), 200, True),
    "openapi": (get("/openapi.json", "Accept-Encoding: gzip"), 200, True),
    "examples": (get("/v1/examples/causal"), 200, True),
    "metrics": (get("/metrics"), 200, False),
    "version": (get("/version"), 200, True),
    "statistics": (get("/v2/models/stats"), 200, False),
    "health": (get("/healthz"), 200, True),
    "unknown field": (post({**CAUSAL, "is_casual": True}), 422, True),
    "not JSON": (post(b'{"query":[[1,2],[3'), 400, True),
    "ragged": (post({"query": [[1, 2], [3]]}), 422, True),
    "broken gzip": (post(gzip.compress(b"{}" * 50)[:-5], "Content-Encoding: gzip"), 400, True),
    "unknown path": (get("/nowhere"), 404, True),
    "unknown method": (post({}, path="/healthz"), 405, True),
    "chunked": (b"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"10\r\n{\"query\":[[1,0],\r\n7\r\n[0,1]]}\r\n0\r\n\r\n", 200, True),
}


@pytest.fixture(scope="module")
def fragile():
    daemon = faults.Fragile("--ops-listen", "", "--log", "off", "--workers", "2", "--requests-running", "2")
    yield daemon
    daemon.stop()


def ask(daemon, data):
    with daemon.connect() as sock:
        return faults.exchange(sock, data.replace(b"\r\n", b"\r\nX-Request-Id: test\r\n", 1))


def same(answer, wanted, fixed):
    """Everything but what tells times. It need not be compressed; of an error the status and the code remain
    when there is no memory for its details."""
    def headers(found):
        loose = ("date", "server-timing", "traceparent", "content-length", "content-encoding", "etag")
        return {k: v for k, v in found[1].items() if k not in loose}

    def body(found):
        return gzip.decompress(found[2]) if found[1].get("content-encoding") == "gzip" else found[2]

    if answer[0] != wanted[0] or headers(answer) != headers(wanted):
        return False
    if answer[0] >= 400:
        return json.loads(body(answer))["code"] == json.loads(body(wanted))["code"]
    return not fixed or body(answer) == body(wanted)


def descriptors(daemon):
    return len(os.listdir(f"/proc/{daemon.pid}/fd"))


@pytest.mark.parametrize("times", [1, faults.FOREVER], ids=["once", "from then on"])
@pytest.mark.parametrize("name", REQUESTS)
def test_request(fragile, name, times):
    data, status, fixed = REQUESTS[name]
    control = fragile.control
    wanted = [ask(fragile, data) for _ in range(3)][-1]
    assert wanted[0] == status, wanted
    live = min(alone(fragile) or quiet(fragile) for _ in range(3))
    open_files = descriptors(fragile)
    n, refused, silent = 0, 0, 0
    while True:
        n += 1
        control.arm(n, times)
        answer = ask(fragile, data)
        failed = control.disarm()
        where = f"{name}, allocation {n}: {answer}"
        if answer is None:
            silent += 1
            assert failed, where
        elif not same(answer, wanted, fixed):
            refused += 1
            assert failed and faults.plainly_refused(answer), where
        assert faults.eventually(lambda: control["live"] == live or alone(fragile)), f"{where}: {control['live']} blocks, not {live}"
        assert descriptors(fragile) == open_files, where
        if not failed:
            break
    assert n > 10, "the library was not loaded"
    after = ask(fragile, data)
    assert after and same(after, wanted, fixed), after
    assert fragile.metric("attnd_memory_reserved_bytes") < 1024, "more than the asking request's own"
    faults.note("P11 allocations", request=name, times="once" if times == 1 else "on", cases=n - 1, refused=refused,
                no_answer=silent)


def alone(daemon):
    """Where another connection is open, the arena of a short request is kept for the next one; this takes it, on the only
    connection, and leaves none. (Whether one that has just been closed is still open is the daemon's to know.)"""
    time.sleep(0.005)
    assert ask(daemon, get("/healthz"))[0] == 200


def quiet(daemon):
    """The blocks that are held while nothing is asked."""
    daemon.session.close()
    found = []
    assert faults.eventually(lambda: found.append(daemon.control["live"]) or
                             (len(found) > 25 and len(set(found[-25:])) == 1))
    return found[-1]


@pytest.mark.parametrize("name", ["causal", "health", "large", "unknown path"])
def test_request_beside_an_idle_connection(fragile, name):
    """With a second connection open a reply is copied and its arena kept for the next request. Here no arena is kept, and
    `times` allocations fail, so that there may be none for the request but memory for its reply."""
    data, status, _ = REQUESTS[name]
    for n, times in itertools.product(range(1, 9), range(1, 6)):
        alone(fragile)
        before = fragile.control["added"]
        with fragile.connect() as sock, fragile.connect():
            assert faults.eventually(lambda: fragile.control["added"] == before + 2)
            time.sleep(0.005)
            fragile.control.arm(n, times)
            answer = faults.exchange(sock, data)
            fragile.control.disarm()
        where = f"allocations {n} to {n + times - 1}: {answer}"
        assert answer is None or answer[0] == status or faults.plainly_refused(answer), where
        assert fragile.process.poll() is None, where
    assert ask(fragile, data)[0] == status


def attempt(n, times, *settings):
    """(exit code, standard error, whether it came up) of a start-up whose n-th allocation fails."""
    control = faults.Control()
    control["last"], control["first"] = n + times - 1, n
    process = subprocess.Popen([service.BINARY, "--port", "0", "--ops-listen", "127.0.0.1:0", "--log", "off", *settings], text=True,
                               env=service.clean_environment(control.environment()),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ready = process.stdout.readline()
    failed = control.disarm()
    if ready:
        process.terminate()
    rest, err = process.communicate(timeout=service.PATIENCE)
    return process.returncode, err, bool(service.READY.match(ready.rstrip("\n"))), failed, ready + rest


@pytest.mark.parametrize("times", [1, faults.FOREVER], ids=["once", "from then on"])
def test_start(times):
    n, came_up, codes = 1, 0, {}
    while True:
        code, err, up, failed, out = attempt(n, times)
        where = f"allocation {n}: exit code {code}, {out!r}, {err!r}"
        if up:
            came_up += 1
            assert code == 0 and not err, where
        else:
            codes[code] = codes.get(code, 0) + 1
            assert code == 5 and not out, where
            assert err.startswith("attnd: ") and "memory" in err and err.count("\n") == 1, where
        if not failed:
            break
        n += EVERY_START
    assert up and n > 1, "the library was not loaded"
    faults.note("P11 start", times="once" if times == 1 else "on", allocations=n - 1, every=EVERY_START, came_up=came_up,
                codes=codes)


def start_files(folder):
    """Settings that name a file of settings, one of API keys, a certificate and its key."""
    config, keys, cert, key = (folder / name for name in ("attnd.json", "keys", "tls.crt", "tls.key"))
    config.write_text('{"queue_length": 9}')
    keys.write_text("first:0123456789abcdef\nsecond:fedcba9876543210 admin\n")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                    "-keyout", str(key), "-out", str(cert), "-subj", "/CN=localhost"], check=True, capture_output=True)
    for secret in (keys, key):
        secret.chmod(0o600)
    return ("--config", str(config), "--keys-file", str(keys), "--tls-cert", str(cert), "--tls-key", str(key))


def test_start_with_files(tmp_path):
    """Of the allocations while they are read, each up to those of GnuTLS, whose ASN.1 library and GMP use what they did
    not get: a start-up of their own making ends there."""
    settings, told, n, failed = start_files(tmp_path), set(), 0, 1
    while failed:
        n += 1
        code, err, up, failed, out = attempt(n, 1, *settings)
        if "the certificate and its key" in told and code not in (0, 5):
            break
        where = f"allocation {n}: exit code {code}, {out!r}, {err!r}"
        assert code == (0 if up else 5), where
        if not up:
            assert not out and err.startswith("attnd: ") and err.count("\n") == 1, where
            told.add(err.rstrip("\n").rsplit(" to read ", 1)[-1])
    assert {"the settings", "the API keys", "the certificate and its key"} <= told, told
    faults.note("P11 start with files", cases=n - 1, told=sorted(told))
