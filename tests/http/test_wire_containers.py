"""safetensors in and out, npy out: the same answers as JSON, bit for bit, and what is refused."""
import io
import json
import struct

import numpy as np
import pytest
from safetensors.numpy import load, save

import ml_dtypes
from api_client import ask, normal, qkv

SAFETENSORS, NPY = "application/vnd.safetensors", "application/x-npy"
TYPES = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F64": np.float64,
         "I32": np.int32, "I64": np.int64, "U8": np.uint8, "BOOL": np.bool_}


def arrays(body):
    return {name: np.asarray(value, np.float32) for name, value in body.items()}


def pack(tensors, request=None, **metadata):
    """A container by hand: name -> (type name, shape, bytes), in their order."""
    header, at, data = {}, 0, b""
    if request is not None:
        metadata["request"] = json.dumps(request)
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        data += raw
    return frame(json.dumps(header).encode(), data)


def frame(header, data=b""):
    return struct.pack("<Q", len(header)) + header + data


def send(daemon, body, accept="application/json", path="/v1/attention", type=SAFETENSORS):
    return daemon.post(path, body, headers={"Content-Type": type, "Accept": accept})


def rest_of(body):
    size, = struct.unpack("<Q", body[:8])
    return json.loads(json.loads(body[8:8 + size]).get("__metadata__", {}).get("response", "{}"))


def bits(x):
    return np.ascontiguousarray(x).tobytes()


def test_both_ways_equal_json(daemon):
    body = qkv(B=2, H=3, L=5, S=7, E=8, Ev=6)
    options = {"is_causal": True, "return": ["output", "weights", "logsumexp"], "query_offset": "end"}
    expected = ask(daemon, {**body, **options})
    reply = send(daemon, save(arrays(body), {"request": json.dumps(options)}), SAFETENSORS)
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"] == SAFETENSORS
    answer = load(reply.content)
    assert list(sorted(answer)) == ["logsumexp", "output", "weights"]
    for name, value in expected.items():
        assert bits(answer[name]) == bits(np.asarray(value, np.float32)), name
    assert struct.unpack("<Q", reply.content[:8])[0] % 64 == 56  # the tensors begin at a multiple of 64


def test_json_in_safetensors_out_with_rest(daemon):
    body = {**qkv(L=3, S=3), "is_causal": True, "explain": True, "heatmap": {}}
    expected = ask(daemon, body)
    reply = daemon.post("/v1/attention", body, headers={"Accept": SAFETENSORS})
    answer, rest = load(reply.content), rest_of(reply.content)
    assert set(answer) == {"output", "weights"}
    assert set(rest) == set(expected) - set(answer)
    assert rest == {name: expected[name] for name in rest}


def test_every_float32_survives(daemon):
    """Inputs come back as present_key, whatever their bits: -0, subnormals, the largest."""
    draw = np.random.default_rng(3).integers(0, 2**32, 4096, dtype=np.uint32)
    draw[:6] = [0x80000000, 1, 0x007FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x00800000]
    key = draw.view(np.float32)
    key = np.where(np.isfinite(key), key, 1).astype(np.float32).reshape(64, 64)
    zeros = np.zeros((1, 64), np.float32)
    options = {"return": ["present"], "is_causal": False}
    body = {"query": zeros, "key": key[1:], "value": key[1:], "past_key": key[:1], "past_value": key[:1]}
    packed = save({k: np.ascontiguousarray(v) for k, v in body.items()}, {"request": json.dumps(options)})
    binary = load(send(daemon, packed, SAFETENSORS).content)["present_key"]
    text = {k: v.astype(np.float64).tolist() for k, v in body.items()}
    answer = ask(daemon, {**text, **options})["present_key"]
    assert bits(binary) == bits(key)
    assert bits(np.asarray(answer, np.float64).astype(np.float32)) == bits(key)


@pytest.mark.parametrize("name", ["F32", "F16", "BF16", "F64"])
def test_input_types(daemon, name):
    rng = np.random.default_rng(5)
    values = rng.integers(0, 4, (3, 4)).astype(TYPES[name])
    packed = pack({"query": (name, (3, 4), values.tobytes())}, {})
    expected = ask(daemon, {"query": values.astype(np.float64).tolist()})
    got = send(daemon, packed).json()
    assert np.allclose(got["output"], expected["output"], atol=1e-6)


@pytest.mark.parametrize("name", ["I32", "I64", "U8"])
def test_integers_are_numbers(daemon, name):
    values = np.arange(12).reshape(3, 4).astype(TYPES[name])
    reply = send(daemon, pack({"query": (name, (3, 4), values.tobytes())}))
    assert reply.json() == ask(daemon, {"query": values.tolist()})


def test_masks_and_ids_keep_their_types(daemon):
    q = np.asarray(normal(2, 3, 4), np.float32)
    mask = np.tril(np.ones((3, 3), bool))
    tensors = {"query": q, "attn_mask": mask, "key_lengths": np.array([3, 2], np.int64)}
    expected = ask(daemon, {"query": q.tolist(), "attn_mask": mask.tolist(), "key_lengths": [3, 2]})
    assert send(daemon, save(tensors)).json() == expected


def test_unaligned_tensors(daemon):
    """An odd number of bytes in front of float32: legal, read through a copy."""
    q = np.asarray(normal(3, 4), np.float32)
    keep = np.array([1, 1, 0], np.uint8)
    packed = pack({"key_padding_mask": ("BOOL", (3,), keep.tobytes()), "query": ("F32", (3, 4), q.tobytes())},
                  {"key_padding_semantics": "keep"})
    expected = ask(daemon, {"query": q.tolist(), "key_padding_mask": [True, True, False],
                            "key_padding_semantics": "keep"})
    assert send(daemon, packed).json() == expected


def test_tensors_of_objects(daemon):
    q = np.asarray(normal(3, 4), np.float32)
    w = np.asarray(normal(4, 4, seed=9), np.float32)
    expected = ask(daemon, {"query": q.tolist(), "score": {"kind": "general", "w": w.tolist()}})
    reply = send(daemon, save({"query": q, "score.w": w}, {"request": '{"score":{"kind":"general"}}'}))
    assert reply.json() == expected
    masks = {"masks.0.attn_mask": np.tril(np.ones((3, 3), bool))}
    reply = send(daemon, save(masks, {"request": '{"masks":[{"kind":"values"}],"shape":[3,3]}'}), path="/v1/masks")
    assert reply.status_code == 200, reply.text
    assert reply.json()["keep"] == masks["masks.0.attn_mask"].tolist()


def test_npy(daemon):
    body = {**qkv(L=3, S=5), "return": "output"}
    reply = daemon.post("/v1/attention", body, headers={"Accept": NPY})
    assert reply.headers["Content-Type"] == NPY
    got = np.load(io.BytesIO(reply.content))
    assert bits(got) == bits(np.asarray(ask(daemon, body)["output"], np.float32))
    reply = daemon.post("/v1/attention", qkv(L=3, S=5), headers={"Accept": NPY})
    assert reply.status_code == 406 and "2 tensors" in reply.json()["detail"]


GOOD = ("F32", (1, 2), b"\0" * 8)
HEADER = '{"query":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}'


@pytest.mark.parametrize("body, status, word", [
    (b"", 400, "8 bytes"),
    (b"\1\0\0", 400, "8 bytes"),
    (struct.pack("<Q", 2**63) + b"{}", 400, "said to have"),
    (struct.pack("<Q", 3) + b"{}", 400, "said to have"),
    (b"PK\3\4\0\0\0\0\0\0", 400, "no safetensors file"),
    (frame(b"[]"), 400, "expected '{'"),
    (frame(b"{} x"), 400, "end of the header"),
    (frame(b"{}\0"), 400, "end of the header"),
    (frame(b"{}", b"\0"), 400, "belong to no tensor"),
    (frame(b'{"query":{"dtype":"F32","shape":[1,2]}}', b"\0" * 8), 400, "data_offsets"),
    (frame((HEADER + "}").encode(), b"\0" * 9), 400, "end at byte 8 of 9"),
    (frame((HEADER + "}").encode(), b"\0" * 7), 400, "end at byte 8 of 7"),
    (frame((HEADER + ',"query":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}}').encode(), b"\0" * 16),
     400, "this name"),
    (frame((HEADER + ',"key":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]}}').encode(), b"\0" * 12),
     400, "begin at 8"),
    (frame((HEADER + ',"key":{"dtype":"F32","shape":[1,2],"data_offsets":[12,20]}}').encode(), b"\0" * 20),
     400, "begin at 8"),
    (frame(b'{"query":{"dtype":"F32","shape":[1,2],"data_offsets":[8,0]}}', b"\0" * 8), 422, "needs 8 bytes"),
    (frame(b'{"query":{"dtype":"F32","shape":[1,3],"data_offsets":[0,8]}}', b"\0" * 8), 422, "needs 12 bytes"),
    (frame(b'{"query":{"dtype":"F32","shape":[-1,3],"data_offsets":[0,8]}}', b"\0" * 8), 400, "integer of 0"),
    (frame(b'{"query":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'), 422, "counted"),
    (pack({"query": ("F32", (1, 2**40, 0, 1), b"")}), 413, "memory"),
    (frame(b'{"query":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}', b"\0" * 4), 422, "found none"),
    (frame(b'{"query":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}', b"\0"), 422, "F8_E4M3"),
    (frame(b'{"qu\xff":{}}'), 400, "UTF-8"),
    (pack({"query": ("BOOL", (1, 2), b"\0\1")}), 422, "expected numbers, found bool"),
    (pack({"query": GOOD, "attn_mask": ("BOOL", (1, 1), b"\2")}), 422, "found 2 at index 0"),
    (pack({"qeury": GOOD}), 422, "query"),
    (pack({"query": GOOD, "score.w": GOOD}, {}), 422, "kind"),
    (pack({"query": GOOD, "query.x": GOOD}, {}), 422, "no object here"),
    (pack({"query": GOOD, "is_causal": ("BOOL", (1,), b"\1")}), 422, "no tensor"),
    (pack({"query": GOOD}, {"query": [[1, 2]]}), 400, "twice"),
    (pack({"query": GOOD}, request="[1]"), 422, "expected an object"),
    (pack({"query": GOOD}, [1]), 422, "expected an object"),
])
def test_refused(daemon, body, status, word):
    reply = send(daemon, body)
    problem = reply.json()
    assert reply.status_code == status and word in problem["detail"], problem


def test_empty_rows_are_bounded(daemon):
    reply = send(daemon, pack({"weights": ("F32", (1, 2**40, 0), b"")}), path="/v1/heatmaps")
    assert reply.status_code == 413 and reply.json()["code"] == "too_large", reply.text


def test_negotiation(daemon):
    reply = daemon.post("/v1/attention", b"x", headers={"Content-Type": "application/x-hdf5"})
    assert reply.status_code == 415
    assert reply.headers["Accept-Post"] == "application/json, application/vnd.safetensors, application/x-npy, application/x-npz"
    reply = daemon.post("/v1/attention", qkv(), headers={"Accept": "image/webp"})
    assert reply.status_code == 406 and SAFETENSORS in reply.json()["detail"]
    reply = daemon.post("/v1/attention", qkv(), headers={"Accept": "application/*"})
    assert reply.headers["Content-Type"] == "application/json"
    reply = daemon.get("/", headers={"Accept": SAFETENSORS})
    assert reply.status_code == 406


def test_slow_first_bytes(daemon):
    """A body whose first piece does not hold the header's length cannot be aligned, and is read all the same."""
    q = np.asarray(normal(3, 4), np.float32)
    body = save({"query": q})
    with daemon.connect() as sock:
        sock.sendall(b"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
                     + SAFETENSORS.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (body[:3], body[3:9], body[9:]):
            sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        sock.sendall(b"0\r\n\r\n")
        reply = b""
        while chunk := sock.recv(65536):
            reply += chunk
    assert reply.startswith(b"HTTP/1.1 200")
    assert json.loads(reply.split(b"\r\n\r\n", 1)[1]) == ask(daemon, {"query": q.tolist()})


@pytest.mark.parametrize("number", ["1e39", "-1e39", "1e400", "3.5e38"])
@pytest.mark.parametrize("first", [True, False])
def test_numbers_beyond_float32_may_be_let_through(daemon, number, first):
    """As infinities, wherever in the body allow_nonfinite stands."""
    tensors = f'"query":[[1,0]],"key":[[1,0]],"value":[[{number},2]]'
    allow = '"allow_nonfinite":true'
    reply = daemon.post("/v1/attention", "{" + ",".join([allow, tensors] if first else [tensors, allow]) + "}")
    assert reply.status_code == 200 and reply.json()["output"] == [[None, 2]], reply.text
    reply = daemon.post("/v1/attention", "{" + tensors + ',"allow_nonfinite":false}')
    assert reply.status_code == 422 and reply.json()["pointer"] == "/value/0/0" and number in reply.json()["detail"]
    infer = {"inputs": [{"name": n, "shape": [1, 2], "datatype": "FP32", "data": [1, 0]} for n in ("query", "key")]}
    text = json.dumps(infer)[:-2] + ',{"name":"value","shape":[1,2],"datatype":"FP32","data":[%s,2]}]' % number
    path = "/v2/models/scaled_dot_product_attention/infer"
    assert daemon.post(path, text + "}").status_code == 400
    reply = daemon.post(path, text + ',"parameters":{"allow_nonfinite":true}}')
    assert reply.json()["outputs"][0]["data"] == [None, 2]


@pytest.mark.parametrize("behind", ["\x01", "x", "]", "[1]", "1", '"a"', "\x00"])
def test_nothing_stands_behind_the_data_of_an_input(daemon, behind):
    text = '{"inputs":[{"name":"query","shape":[1,2],"datatype":"FP32","data":[1,2]%s}]}' % behind
    reply = daemon.post("/v2/models/scaled_dot_product_attention/infer", text.encode())
    assert reply.status_code == 400 and reply.json()["code"] == "malformed_json", reply.text


def test_gradients_are_not_of_the_open_inference_protocol(daemon):
    model = "/v2/models/scaled_dot_product_attention"
    assert "grad_output" not in daemon.get(model).text and "grad_output" not in daemon.get(model + "/config").text
    inputs = [{"name": n, "shape": [1, 2], "datatype": "FP32", "data": [1, 2]} for n in ("query", "grad_output")]
    reply = daemon.post(model + "/infer", {"inputs": inputs})
    assert reply.status_code == 400 and reply.json()["pointer"] == "/inputs/1" and "/v1/attention" in reply.text


def test_the_bound_beside_tensors_is_a_setting(start):
    body = {"query": [[1, 2]], "labels": {"query": ["x" * 5000]}}
    daemon = start("--max-envelope-bytes", "4096")
    problem = daemon.post("/v1/attention", body).json()
    assert problem["status"] == 413 and problem["limit"] == {"value": 4096, "setting": "max_envelope_bytes"}
    assert start().post("/v1/attention", body).status_code == 200
