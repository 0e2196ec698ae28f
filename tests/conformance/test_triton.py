"""The Open Inference Protocol, judged by a client that knows nothing of this service: tritonclient, in its
sync and its asyncio form, and the ONNX cases once more through it."""
import asyncio
import json
import struct

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

import onnx_cases
from oracle import tensors
from oracle.attention import served
from serving import ask, service

MODEL = "scaled_dot_product_attention"
HEADS = "multi_head_attention"
CASES = onnx_cases.cases()


@pytest.fixture(scope="module")
def daemon():
    running = service.Daemon()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def client(daemon):
    with triton.InferenceServerClient(f"{daemon.host}:{daemon.port}") as c:
        yield c


def tensor(name, values, datatype=None, binary=True):
    names = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "bool": "BOOL", "bfloat16": "BF16"}
    kind = datatype or names.get(values.dtype.name) or values.dtype.name.upper()
    made = triton.InferInput(name, list(values.shape), kind)
    return made.set_data_from_numpy(np.ascontiguousarray(values), binary_data=binary)


def outputs(*names, binary=True):
    return [triton.InferRequestedOutput(name, binary_data=binary) for name in names]


def random(*shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def by_json(daemon, body, names):
    answer = ask(daemon, {**body, "return": names})
    return {name: np.asarray(answer[name], np.float64).astype(np.float32) for name in names}


def test_server_and_model(client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(MODEL)
    assert client.is_model_ready(MODEL, "1")
    assert not client.is_model_ready("another") and not client.is_model_ready(MODEL, "2")
    assert {"binary_tensor_data", "statistics"} <= set(client.get_server_metadata()["extensions"])
    model = client.get_model_metadata(MODEL, "1")
    assert model["name"] == MODEL and model["versions"] == ["1"] and "_" in model["platform"]
    assert [o["name"] for o in model["outputs"]] == ["output", "weights", "logsumexp"]
    assert {"query", "key", "value", "attn_mask"} <= {i["name"] for i in model["inputs"]}
    assert all(set(t["shape"]) == {-1} for t in model["inputs"] + model["outputs"])
    config = client.get_model_config(MODEL)
    assert config["max_batch_size"] == 0 and config["input"][0]["data_type"] == "TYPE_FP32"
    assert {i["name"] for i in config["input"] if not i["optional"]} == {"query"}
    assert [m["name"] for m in client.get_model_repository_index()] == [MODEL, HEADS]


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_equals_v1(daemon, client, binary_in, binary_out):
    q, k, v = random(2, 3, 4, 8), random(2, 3, 6, 8, seed=2), random(2, 3, 6, 5, seed=3)
    names = ["logsumexp", "output", "weights"]
    result = client.infer(MODEL, [tensor(n, x, binary=binary_in) for n, x in zip(("query", "key", "value"), (q, k, v))],
                          outputs=outputs(*names, binary=binary_out), request_id="a-1",
                          parameters={"is_causal": True, "scale": 0.5, "query_offset": "end"})
    reply = result.get_response()
    assert reply["id"] == "a-1" and reply["model_name"] == MODEL and reply["model_version"] == "1"
    assert [o["name"] for o in reply["outputs"]] == names
    body = {"query": q.tolist(), "key": k.tolist(), "value": v.tolist(), "is_causal": True, "scale": 0.5,
            "query_offset": "end"}
    for name, want in by_json(daemon, body, names).items():
        assert result.as_numpy(name).tobytes() == want.tobytes(), name


def test_all_outputs_and_no_id(client):
    reply = client.infer(MODEL, [tensor("query", random(3, 4))]).get_response()
    assert "id" not in reply
    assert [o["name"] for o in reply["outputs"]] == ["output", "weights", "logsumexp"]
    assert all("binary_data_size" in o["parameters"] for o in reply["outputs"])


def test_asyncio(daemon):
    async def run():
        async with triton_aio.InferenceServerClient(f"{daemon.host}:{daemon.port}") as c:
            assert await c.is_server_ready()
            q = random(5, 8)
            results = await asyncio.gather(*(
                c.infer(MODEL, [tensor("query", q)], outputs=outputs("output"), request_id=str(i)) for i in range(20)))
            with pytest.raises(InferenceServerException, match="query"):
                await c.infer(MODEL, [tensor("qeury", q)])
            return [(r.get_response()["id"], r.as_numpy("output").tobytes()) for r in results]
    got = asyncio.run(run())
    assert [i for i, _ in got] == [str(i) for i in range(20)] and len({b for _, b in got}) == 1


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_floats(daemon, client, dtype):
    q = random(3, 4).astype(dtype)
    want = ask(daemon, {"query": tensors.write(q, np.dtype(dtype).name)})["output"]
    got = client.infer(MODEL, [tensor("query", q)], outputs=outputs("output")).as_numpy("output")
    assert got.dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert np.allclose(got, np.asarray(want), atol=1e-7)
    if dtype in (np.float32, np.float64):
        again = client.infer(MODEL, [tensor("query", q, binary=False)], outputs=outputs("output", binary=False))
        assert again.as_numpy("output").tobytes() == got.tobytes()


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers(daemon, client, dtype, binary):
    q = random(2, 3, 4)
    inputs = [tensor("query", q), tensor("key_lengths", np.array([3, 1], dtype), binary=binary)]
    got = client.infer(MODEL, inputs, outputs=outputs("weights")).as_numpy("weights")
    want = by_json(daemon, {"query": q.tolist(), "key_lengths": [3, 1]}, ["weights"])["weights"]
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("binary", [True, False])
def test_booleans(daemon, client, binary):
    q, mask = random(3, 4), np.tril(np.ones((3, 3), bool))
    got = client.infer(MODEL, [tensor("attn_mask", mask, binary=binary), tensor("query", q)]).as_numpy("weights")
    want = by_json(daemon, {"query": q.tolist(), "attn_mask": mask.tolist()}, ["weights"])["weights"]
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("binary", [True, False])
def test_empty(client, binary):
    q, k = random(3, 4), np.zeros((0, 4), np.float32)
    inputs = [tensor(n, x, binary=binary) for n, x in (("query", q), ("key", k), ("value", k))]
    result = client.infer(MODEL, inputs, outputs=outputs("output", "weights", binary=binary))
    assert result.as_numpy("weights").shape == (3, 0)
    assert result.as_numpy("output").tobytes() == np.zeros((3, 4), np.float32).tobytes()


def test_lists_as_text(daemon, client):
    q = random(6, 4)
    got = client.infer(MODEL, [tensor("query", q)], parameters={"window": "[1,0]"}).as_numpy("weights")
    want = by_json(daemon, {"query": q.tolist(), "window": [1, 0]}, ["weights"])["weights"]
    assert got.tobytes() == want.tobytes()


KEEP = np.random.default_rng(2).random((6, 9)) < 0.6
ROTARY = {"kind": "rotary", "layout": "halves"}


@pytest.mark.parametrize(("fields", "arrays"), [
    ({"position": "alibi"}, {}), ({"position": {"kind": "alibi"}}, {"position.slopes": random(2, seed=4)}),
    ({"position": {"kind": "t5", "bidirectional": False}}, {"position.table": random(8, 2, seed=4)}),
    ({"position": ROTARY | {"scaling": {"kind": "yarn", "factor": 4, "original_max_position_embeddings": 4}}}, {}),
    ({"position": ROTARY | {"frequencies": [1, 0.5]}}, {"key_positions": np.arange(9)[::-1].copy()}),
    ({"any_of": [{"kind": "causal"}, {"kind": "not", "not": {"kind": "prefix", "prefix_lengths": [7]}}], "query_offset": 3}, {}),
    ({"any_of": [{"kind": "causal"}, {"kind": "values"}]}, {"any_of.1.attn_mask": KEEP}),
    ({"not": [{"kind": "documents"}]}, {"not.0.document_ids": np.arange(9) // 4}),
    ({"all_of": [{"kind": "window", "window": [2, 2]}]}, {"top_k_indices": np.arange(12).reshape(6, 2) % 9}),
    ({"normalizer": {"kind": "sigmoid", "bias": -1}, "pattern": {"kind": "block", "size": 3}}, {}),
    ({"normalizer": {"kind": "entmax", "alpha": 1.25}}, {"scale": random(2, seed=6), "sinks": random(2, seed=7)}),
], ids=lambda x: " ".join(x))
def test_objects_as_text(daemon, client, fields, arrays):
    """Positions, masks, lists of masks and normalizers are JSON text; their tensors are inputs named by their place."""
    rows = {"query": random(2, 6, 4), "key": random(2, 9, 4, seed=2), "value": random(2, 9, 3, seed=3)}
    rows = {name: x[None] for name, x in rows.items()}
    as_text = {name: x if isinstance(x, (str, int)) else json.dumps(x) for name, x in fields.items()}
    got = client.infer(MODEL, [tensor(n, x) for n, x in (rows | arrays).items()], parameters=as_text).as_numpy("weights")
    body = json.loads(json.dumps(fields))
    for name, x in arrays.items():
        *path, last = name.split(".")
        place = body
        for step in path:
            place = place[int(step) if step.isdigit() else step]
        place[last] = x.tolist()
    want = by_json(daemon, {**{n: x.tolist() for n, x in rows.items()}, **body}, ["weights"])["weights"]
    assert got.tobytes() == want.tobytes()


def projected(bias=True, seed=5, D=12, heads=4, kv_heads=2, width=3):
    """Inputs of the model of projections, and the same request to /v1/attention."""
    shapes = {"query": (2, 5, D), "key": (2, 7, D), "value": (2, 7, D), "w_q": (heads * width, D),
              "w_k": (kv_heads * width, D), "w_v": (kv_heads * width, D), "w_o": (D, heads * width)}
    if bias:
        shapes.update(b_q=(heads * width,), b_k=(kv_heads * width,), b_v=(kv_heads * width,), b_o=(D,))
    inputs = {name: random(*shape, seed=seed + i) for i, (name, shape) in enumerate(shapes.items())}
    own = {"num_heads": heads, "num_kv_heads": kv_heads}
    body = {n: x.tolist() for n, x in inputs.items() if n in ("query", "key", "value")}
    body["projections"] = {**own, **{n: x.tolist() for n, x in inputs.items() if n not in body}}
    return inputs, own, body


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_projections(daemon, client, binary, bias):
    inputs, own, body = projected(bias)
    names = ["output", "weights"]
    result = client.infer(HEADS, [tensor(n, x, binary=binary) for n, x in inputs.items()],
                          outputs=outputs(*names, binary=binary), parameters={**own, "is_causal": True})
    assert result.get_response()["model_name"] == HEADS
    for name, same in by_json(daemon, {**body, "is_causal": True}, names).items():
        assert result.as_numpy(name).tobytes() == same.tobytes(), name
    right = served({**body, "is_causal": True, "return": names})
    for name in names:
        got = result.as_numpy(name)
        assert got.shape == right[name].shape and np.allclose(got, right[name], atol=1e-5), name


def test_projections_metadata(client):
    model = client.get_model_metadata(HEADS)
    ranks = {t["name"]: len(t["shape"]) for t in model["inputs"] + model["outputs"]}
    assert {n: ranks[n] for n in ("query", "w_q", "b_q", "w_o", "output", "weights")} == {
        "query": 3, "w_q": 2, "b_q": 1, "w_o": 2, "output": 3, "weights": 4}
    assert client.is_model_ready(HEADS, "1") and not client.is_model_ready(HEADS, "3")
    assert client.get_model_config(HEADS)["name"] == HEADS


@pytest.mark.parametrize("change, word", [
    (lambda i, p: p.pop("num_heads"), "num_heads"),
    (lambda i, p: p.update(num_heads=5), "heads"),
    (lambda i, p: i.update(w_x=i.pop("w_q")), "w_x"),
    (lambda i, p: i.update(w_q=i["w_q"][:, :5]), "w_q"),
])
def test_projections_refused(client, change, word):
    inputs, own, _ = projected()
    change(inputs, own)
    with pytest.raises(InferenceServerException, match=word) as caught:
        client.infer(HEADS, [tensor(n, x) for n, x in inputs.items()], parameters=own)
    assert caught.value.status() == "400"


@pytest.mark.parametrize("change, word", [
    (dict(outputs=outputs("nothing")), "nothing"),
    (dict(parameters={"is_causl": True}), "is_causal"),
    (dict(parameters={"return": "output"}), "outputs"),
    (dict(parameters={"softcap": -1}), "softcap"),
    (dict(sequence_id=7), "sequence_id"),
    (dict(model_version="9"), "version"),
])
def test_refused(client, change, word):
    with pytest.raises(InferenceServerException, match=word) as caught:
        client.infer(MODEL, [tensor("query", random(3, 4))], **change)
    assert caught.value.status() == ("404" if "model_version" in change else "400")


def test_timeout(client):
    """Half a second of attention against a deadline of a millisecond."""
    q = random(1, 16, 4096, 64)
    with pytest.raises(InferenceServerException) as caught:
        client.infer(MODEL, [tensor("query", q)], outputs=outputs("output"), timeout=1000)
    assert caught.value.status() == "504"


def test_text_tensors(client):
    with pytest.raises(InferenceServerException, match="BYTES"):
        client.infer(MODEL, [tensor("query", np.array([[b"a"]], object), "BYTES")])


def test_statistics(client):
    before = client.get_inference_statistics(MODEL)["model_stats"][0]["inference_stats"]
    client.infer(MODEL, [tensor("query", random(3, 4))])
    with pytest.raises(InferenceServerException):
        client.infer(MODEL, [tensor("qeury", random(3, 4))])
    stats = client.get_inference_statistics()["model_stats"][0]
    after = stats["inference_stats"]
    assert stats["name"] == MODEL and stats["last_inference"] > 1e12
    assert after["success"]["count"] == before["success"]["count"] + 1 == stats["inference_count"]
    assert after["fail"]["count"] == before["fail"]["count"] + 1
    assert after["success"]["ns"] > before["success"]["ns"]
    batch = stats["batch_stats"]
    assert [b["batch_size"] for b in batch] == [1] and batch[0]["compute_infer"] == after["compute_infer"]


def test_statistics_of_each_model(client):
    def counts():
        return {s["name"]: (s["inference_count"], s["inference_stats"]["fail"]["count"])
                for s in client.get_inference_statistics()["model_stats"]}
    before = counts()
    inputs, own, _ = projected()
    client.infer(HEADS, [tensor(n, x) for n, x in inputs.items()], parameters=own)
    with pytest.raises(InferenceServerException):
        client.infer(HEADS, [tensor("query", random(3, 4))])
    after = counts()
    assert after[MODEL] == before[MODEL] and after[HEADS] == (before[HEADS][0] + 1, before[HEADS][1] + 1)
    assert [s["name"] for s in client.get_inference_statistics(HEADS)["model_stats"]] == [HEADS]


# --- what a careful client would never send ---

INPUT = {"name": "query", "shape": [1, 2], "datatype": "FP32"}
BLOB = struct.pack("<2f", 1, 2)


def post(daemon, document, blobs=b"", header=None, path=f"/v2/models/{MODEL}/infer"):
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    headers = {}
    if blobs or header is not None:
        headers["Inference-Header-Content-Length"] = str(len(text)) if header is None else header
    return daemon.post(path, text + blobs, headers=headers)


def with_data(**more):
    return {"inputs": [{**INPUT, "data": [1, 2], **more}]}


def with_blob(size=8, **more):
    return {"inputs": [{**INPUT, "parameters": {"binary_data_size": size}, **more}]}


def test_plain_requests(daemon):
    for document, blobs in ((with_data(), b""), (with_data(data=[[1, 2]]), b""), (with_blob(), BLOB)):
        reply = post(daemon, document, blobs)
        assert reply.status_code == 200, reply.text
        assert reply.headers["Content-Type"] == "application/json"
        assert "Inference-Header-Content-Length" not in reply.headers
        assert reply.json()["outputs"][0] == {"name": "output", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
    shuffled = b'{"inputs":[{"data":[9007199254740993,1],"datatype":"INT64","name":"token_ids","shape":[2]},' \
               b'{"data":[[1],[2]],"shape":[2,1],"datatype":"FP32","name":"query"}],"parameters":{"pad_id":1}}'
    assert post(daemon, shuffled).json()["outputs"][1]["data"] == [1, 0, 1, 0]


@pytest.mark.parametrize("document, blobs, header, status, word", [
    (b"", b"", None, 400, "end of the body"),
    (b"[]", b"", None, 400, "an object"),
    ({}, b"", None, 400, "required"),
    ({"inputs": []}, b"", None, 400, "at least one"),
    ({**with_data(), "parameters": {'no"field': 1}}, b"", None, 400, 'no"field'),
    ({"id": "x"}, b"", None, 400, "inputs"),
    ({**with_data(), "inputz": 1}, b"", None, 400, "inputs"),
    (with_data(data=[1]), b"", None, 400, "expected 2 elements"),
    (with_data(data=[1, 2, 3]), b"", None, 400, "expected 2 elements"),
    (with_data(data=[[1], [2]]), b"", None, 400, "lists of shape [1, 2], found lists of shape [2, 1]"),
    (with_data(shape=[-1, 2]), b"", None, 400, "0 or more"),
    (with_data(shape=[2**40, 2**40]), b"", None, 400, "counted"),
    (with_data(shape=[2**33, 2]), b"", None, 413, "memory"),
    (with_data(shape=[]), b"", None, 400, "found none"),
    (with_data(shape=[1] * 9), b"", None, 400, "8 axes"),
    (with_data(datatype="FP31"), b"", None, 400, "FP31"),
    (with_data(datatype="FP16"), b"", None, 400, "binary"),
    (with_data(datatype="BOOL"), b"", None, 400, "true or false"),
    (b'{"inputs":[{"name":"query","shape":[1,2],"datatype":"FP32","data":[1.5,NaN]}]}', b"", None, 400, "base64|binary"),
    (b'{"inputs":[{"name":"query","shape":[1,2],"datatype":"FP32","data":[1.5,2]}]} x', b"", None, 400, "the end"),
    (b'{"inputs":[{"name":"query","shape":[1,2],"datatype":"FP32","data":[1.5,2', b"", None, 400, "body"),
    ({"inputs": [INPUT]}, b"", None, 400, "either data or"),
    (with_blob(data=[1, 2]), BLOB, None, 400, "either data or"),
    ({"inputs": with_data()["inputs"] * 2}, b"", None, 400, "already"),
    ({"inputs": [{**INPUT, "name": f"x{i}", "data": [1, 2]} for i in range(65)]}, b"", None, 400, "at most 64"),
    ({**with_data(), "outputs": [{"name": "output"}] * 2}, b"", None, 400, "twice"),
    ({**with_data(), "parameters": {"triton_x": 1}}, b"", None, 400, "reserved"),
    ({**with_data(), "parameters": {"scale": [1]}}, b"", None, 400, "boolean"),
    ({**with_data(), "parameters": {"timeout": 0}}, b"", None, 400, "1 or more"),
    (with_blob(), BLOB[:7], None, 400, "more bytes"),
    (with_blob(), BLOB + b"\0", None, 400, "1 bytes behind"),
    (with_blob(4), BLOB, None, 400, "needs 8 bytes"),
    (with_blob(-1), BLOB, None, 400, "0 or more"),
    (with_blob(datatype="BOOL", shape=[8]), b"\2" * 8, None, 400, "0 and 1"),
    (with_blob(), BLOB, "x", 400, "Inference-Header-Content-Length"),
    (with_blob(), BLOB, "-1", 400, "Inference-Header-Content-Length"),
    (with_blob(), BLOB, "9999999", 400, "Inference-Header-Content-Length"),
    (with_blob(), BLOB, "0", 400, "without JSON"),
    (with_blob(), BLOB, "20", 400, "end"),
    (with_blob(datatype="UINT64", name="token_ids", shape=[1]), b"\xff" * 8, None, 400, "beyond 64 bits"),
])
def test_malformed(daemon, document, blobs, header, status, word):
    reply = post(daemon, document, blobs, header)
    problem = reply.json()
    assert reply.status_code == problem["status"] == status, problem
    assert any(w in problem["error"] for w in word.split("|")), problem


@pytest.mark.parametrize("text, word", [
    ('[1,1],"is_causal":true', "Line 1, column 6 of this text: expected the end of this text, found ','"),
    ('[1,1]}', "found '}'"),
    ('{"a":1},"is_causal":true,"x":{}', "found ','"),
    ("[2,0", "Line 1, column 5 of this text: expected ',' or ']', found its end"),
    ("[1}", "expected ',' or ']', found '}'"),
    ("[1,]", "expected a value"),
    ('{"a" 1}', "expected ':'"),
    ("{1:2}", "a field name"),
    ("[01]", "found the number 01"),
    ("[" * 40 + "]" * 40, "more than 32 deep"),
    ('["\\x"]', "escape"),
    ("", "expected a list"),
])
def test_a_parameter_is_one_value(daemon, text, word):
    reply = post(daemon, {**with_data(), "parameters": {"window": text}})
    assert reply.status_code == 400 and word in reply.json()["error"], reply.text
    assert reply.json()["pointer"] == "/parameters/window"


@pytest.mark.parametrize("model, inputs, parameters, pointer, word", [
    (MODEL, {"query": [2, 2]}, {"window": "[2]"}, "/parameters/window", "two"),
    (MODEL, {"query": [2, 2]}, {"is_casual": True}, "/parameters/is_casual", "is_causal"),
    (MODEL, {"query": [2, 2]}, {"score": '{"kind":"none"}'}, "/parameters/score", "none"),
    (MODEL, {"query": [2, 2]}, {"dry_run": True}, "/parameters/dry_run", "/v1/attention"),
    (MODEL, {"query": [2]}, {}, "/inputs/0", "(query): expected"),
    (MODEL, {"query": [2, 2], "foo": [2]}, {}, "/inputs/1", "foo"),
    (MODEL, {"query": [2, 2], "a/b.c": [2]}, {}, "/inputs/1", "not a field"),
    (MODEL, {"query": [2, 2], "value": [3, 2]}, {}, "/inputs/1", "key"),
    (MODEL, {"query": [2, 2], "score.v": [2]}, {"score": "additive"}, "/parameters/score", "w_q|object"),
    (MODEL, {"query": [2, 2]}, {"score_stage": "raw"}, "/parameters/score_stage", "scores"),
    (HEADS, {"query": [2, 4], "w_q": [3, 3]}, {"num_heads": 2}, "/inputs/1", "(w_q): expected"),
    (HEADS, {"query": [2, 4]}, {}, "/parameters", "num_heads"),
    (HEADS, {"query": [2, 4]}, {"num_heads": 0}, "/parameters/num_heads", "1"),
    (HEADS, {"query": [2, 4]}, {"num_heads": 2, "window": "[1]"}, "/parameters/window", "two"),
    (MODEL, {"query": [2, 2]}, {"pad_id": 0}, "/parameters/pad_id", "token_ids"),
])
def test_pointers_lead_into_the_body(daemon, model, inputs, parameters, pointer, word):
    body = {"inputs": [{"name": name, "shape": shape, "datatype": "FP32", "data": [0.5] * int(np.prod(shape))}
                       for name, shape in inputs.items()], "parameters": parameters}
    reply = post(daemon, body, path=f"/v2/models/{model}/infer")
    problem = reply.json()
    assert reply.status_code == 400 and problem["pointer"] == pointer, problem
    assert problem["error"].startswith(pointer) and any(w in problem["error"] for w in word.split("|")), problem


def test_outputs_that_cannot_be(daemon):
    reply = post(daemon, {**with_data(), "outputs": [{"name": "weights_dropped"}]})
    assert reply.status_code == 400 and reply.json()["pointer"] == "/outputs", reply.text


def test_the_datatype_that_was_sent(daemon):
    lengths = {"name": "key_lengths", "shape": [1], "datatype": "FP32", "data": [1]}
    reply = post(daemon, {"inputs": [*with_data()["inputs"], lengths]})
    assert reply.json()["pointer"] == "/inputs/1" and reply.json()["error"].endswith("sent as FP32"), reply.text


def test_paths(daemon):
    for path in ("/v2", "/v2/", "/v2/models", "/v2/health/live", "/v2/health/ready"):
        assert daemon.get(path).status_code == 200, path
    assert daemon.get("/v2/health/ready").json() == {"live": True, "ready": True}
    assert daemon.get(f"/v2/models/{MODEL}/ready").json() == {"name": MODEL, "ready": True}
    assert daemon.get("/v2/models/none/ready").status_code == 404
    assert daemon.post("/v2/repository/models/x/load", b"{}").json()["error"]
    assert daemon.get(f"/v2/models/{MODEL}/infer").status_code == 405
    index = "/v2/repository/index"
    assert daemon.post(index, b"").json() == daemon.post(index, b'{"ready":true}').json()
    wrong = b"[1", b'[null]', b'{"ready"', b'{"reddy":true}'
    assert {(daemon.post(index, body).status_code, "error" in daemon.post(index, body).json()) for body in wrong} == {(400, True)}


# --- the ONNX cases ---


def onnx_inputs(case):
    """The inputs of a case, as /v1 would get them, in their own types."""
    body = case.request()
    names = {"Q": "query", "K": "key", "V": "value", "past_key": "past_key", "past_value": "past_value"}
    made = [tensor(ours, case.inputs[theirs][0]) for theirs, ours in names.items() if theirs in case.inputs]
    if "attn_mask" in case.inputs:
        past = case.inputs.get("past_key")
        keys = case.inputs["K"][0].shape[-2] + (past[0].shape[-2] if past else 0)
        made.append(tensor("attn_mask", onnx_cases.lengthen(case.inputs["attn_mask"][0], keys)))
    if "key_lengths" in body:
        made.append(tensor("key_lengths", np.asarray(body.pop("key_lengths"), np.int64)))
    scalars = {k: v for k, v in body.items() if k not in (*names.values(), "attn_mask", "return")}
    return made, {k: json.dumps(v) if isinstance(v, list) else v for k, v in scalars.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_onnx(client, case):
    inputs, parameters = onnx_inputs(case)
    result = client.infer(MODEL, inputs, outputs=outputs(*case.expected), parameters=parameters)
    got = {name: result.as_numpy(name).astype(np.float64) for name in case.expected}
    assert {n: g.shape for n, g in got.items()} == {n: np.asarray(w).shape for n, w in case.expected.items()}
    case.check(got)


@pytest.mark.parametrize(("hidden", "code"), [("null", "wrong_type"), ("-Infinity", "malformed_json")])
def test_infinity_has_no_form_in_json(daemon, hidden, code):
    """/v1 reads both in a mask; the protocol has neither, and the answer says what there is instead."""
    def ask(kind, data):
        return daemon.post("/v2/models/scaled_dot_product_attention/infer", (
            '{"inputs":[{"name":"query","datatype":"FP32","shape":[2,2],"data":[1,0,0,1]},'
            f'{{"name":"attn_mask","datatype":"{kind}","shape":[2,2],"data":{data}}}],"outputs":[{{"name":"weights"}}]}}').encode())
    reply = ask("FP32", f"[0,{hidden},0,0]")
    problem = reply.json()
    assert (reply.status_code, problem["code"], problem["pointer"]) == (400, code, "/inputs/1/data/1"), problem
    assert "send -infinity as binary data, or a mask as BOOL" in problem["error"]
    assert ask("BOOL", "[true,false,true,true]").json()["outputs"][0]["data"][:2] == [1, 0]
    assert daemon.post("/v1/attention", f'{{"query":[[1,0],[0,1]],"attn_mask":[[0,{hidden}],[0,0]]}}'.encode()).status_code == 200
