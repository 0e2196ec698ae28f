"""Ragged batches in binary formats: bodies with lengths, and answers whose rows are packed. They hold the numbers of the JSON answers."""
import io
import json

import numpy as np
import pytest
from api_client import ask
from safetensors.numpy import load, save
from test_ragged import KEYS, LENGTHS, LISTS, QUERIES, QUERY, KEY, VALUE, packed

SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}
ARRAYS = {"query": np.concatenate(QUERY), "key": np.concatenate(KEY), "value": np.concatenate(VALUE),
          "query_lengths": np.array(QUERIES), "key_lengths": np.array(KEYS)}
ROWS = {"output": QUERIES, "logsumexp": QUERIES, "row_sums": QUERIES, "query": QUERIES, "key": KEYS, "value": KEYS, "present_key": KEYS, "present_value": KEYS}
RETURN = ["output", "logsumexp", "row_sums", "inputs", "present", "weights", "scores"]


def binary(daemon, body, accept="application/vnd.safetensors", status=200, **headers):
    reply = daemon.post("/v1/attention", body, headers={"Accept": accept} | headers)
    assert reply.status_code == status, reply.text
    return reply.content


def by_rows(name, entries, layout):
    """The items of a list, rows first: [L, H, E] and [L, H]."""
    arrays = [np.array(x, np.float32) for x in entries]
    rows_first = name == "output" and layout == "BLHE"
    width = max(a.ndim for a in arrays)
    return [a if rows_first else np.swapaxes(a, 0, 1) for a in arrays if a.ndim == width and a.size]


@pytest.mark.parametrize("body, layout", [(LISTS, "BHLE"), (LENGTHS, "BLHE")], ids=["lists", "lengths"])
def test_answers_are_packed(daemon, body, layout):
    body = body | {"return": RETURN}
    found, wanted = load(binary(daemon, body)), ask(daemon, body)
    for name, lengths in ROWS.items():
        whole = np.concatenate(by_rows(name, wanted[name], layout))
        assert found[name].shape == (sum(lengths), *whole.shape[1:]), name
        assert np.array_equal(found[name], whole), name
    for name in ("weights", "scores"):
        for b, entry in enumerate(wanted[name]):
            got = found[f"{name}.{b}"]
            assert got.shape[1:] == (QUERIES[b], KEYS[b])
            entry = np.array([[[np.nan if v is None else v for v in row] for row in head] for head in entry], np.float32).reshape(got.shape)
            assert np.array_equal(got, entry, equal_nan=True)
    assert found["query_lengths"].tolist() == QUERIES and found["key_lengths"].tolist() == KEYS
    assert set(found) == {*ROWS, "query_lengths", "key_lengths", *(f"{n}.{b}" for n in ("weights", "scores") for b in range(len(QUERIES)))}


def test_rows_of_every_rank(daemon):
    """Without heads, and with heads side by side."""
    flat = [x[:, 0] for x in QUERY]
    alone = {"query": packed(flat), "query_lengths": QUERIES, "return": ["output", "logsumexp"]}
    side = {"query": packed([x.reshape(len(x), 32) for x in QUERY]), "query_lengths": QUERIES, "layout": "BLD", "num_heads": 4, "return": ["output", "logsumexp"]}
    for body, shapes in ((alone, [(244, 8), (244,)]), (side, [(244, 32), (244, 4)])):
        found, wanted = load(binary(daemon, body)), ask(daemon, body)
        assert [found["output"].shape, found["logsumexp"].shape] == shapes
        assert np.array_equal(found["output"], np.concatenate([np.array(x, np.float32).reshape(-1, shapes[0][1]) for x in wanted["output"]]))
        assert set(found) == {"output", "logsumexp", "query_lengths"}


@pytest.mark.parametrize("kind", ["safetensors", "npz"])
def test_bodies(daemon, kind):
    wanted = ask(daemon, LENGTHS | {"return": ["output", "weights"]})
    rest = json.dumps({"return": ["output", "weights"]})
    file = io.BytesIO()
    if kind == "npz":
        np.savez(file, **ARRAYS, request=rest)
    data, headers = (file.getvalue(), {"Content-Type": "application/x-npz"}) if kind == "npz" else (save(ARRAYS, {"request": rest}), SAFETENSORS)
    assert daemon.post("/v1/attention", data, headers=headers).json() == wanted


def test_npy(daemon):
    """One tensor, whose lengths the client has sent."""
    body = LENGTHS | {"return": ["output"]}
    found = np.load(io.BytesIO(binary(daemon, body, "application/x-npy")))
    assert np.array_equal(found, np.concatenate(by_rows("output", ask(daemon, body)["output"], "BLHE")))
    assert b"holds one tensor" in binary(daemon, LENGTHS | {"return": ["weights"]}, "application/x-npy", status=406)


def infer(daemon, outputs, raw):
    inputs, blobs = [], []
    for name, x in ARRAYS.items():
        row = {"name": name, "shape": list(x.shape), "datatype": "INT64" if x.dtype == np.int64 else "FP32"}
        inputs.append(row | ({"parameters": {"binary_data_size": x.nbytes}} if raw else {"data": x.ravel().tolist()}))
        blobs.append(x.tobytes())
    head = json.dumps({"inputs": inputs, "outputs": [{"name": n, "parameters": {"binary_data": raw}} for n in outputs]}).encode()
    path = "/v2/models/scaled_dot_product_attention/infer"
    if not raw:
        return daemon.post(path, head, headers={"Content-Type": "application/json"})
    return daemon.post(path, head + b"".join(blobs), headers={"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))})


@pytest.mark.parametrize("raw", [False, True])
def test_v2(daemon, raw):
    """Packed in, packed out, as JSON and as raw bytes."""
    reply = infer(daemon, ["output", "logsumexp"], raw)
    assert reply.status_code == 200, reply.text
    size = int(reply.headers["Inference-Header-Content-Length"]) if raw else len(reply.content)
    rest, outputs = reply.content[size:], json.loads(reply.content[:size])["outputs"]
    wanted = load(binary(daemon, LENGTHS | {"return": ["output", "logsumexp"]}))
    assert [o["name"] for o in outputs] == ["output", "logsumexp"]
    for o in outputs:
        whole = wanted[o["name"]]
        assert o["shape"] == list(whole.shape)
        found = np.frombuffer(rest[:whole.nbytes], np.float32) if raw else np.array(o["data"], np.float32)
        rest = rest[whole.nbytes:]
        assert np.array_equal(found, whole.ravel())


def test_v2_refuses_weights(daemon):
    for outputs in (["output", "weights"], []):
        problem = infer(daemon, outputs, False).json()
        assert problem["pointer"] == "/outputs" and "weights in a ragged batch differ in two axes" in problem["detail"], problem


def test_packed_copies_count(start):
    """The copy of the rows is reserved with the request."""
    daemon = start()
    body = LENGTHS | {"return": ["output"], "dry_run": True}
    file = binary(daemon, body)
    header = json.loads(file[8:8 + int.from_bytes(file[:8], "little")])
    dry = [x["dry_run"]["bytes"]["work"] for x in (ask(daemon, body), json.loads(header["__metadata__"]["response"]))]
    assert dry[1] - dry[0] >= 4 * sum(QUERIES) * 4 * 6, dry
