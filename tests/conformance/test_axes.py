"""Random axes (random_axes.py) on every route: answers against the oracle, and each look at a stored run against its
weights."""
import json
import os

import numpy as np
import pytest

import captured
import tables
from oracle import captures, forms, maskroute, tensors, tour
from oracle.attention import attention, axes_in_front, served
from oracle.masks import Places, resolve
from oracle.measures import Head, entropy, mean
from random_axes import SEED, TYPES, AxesDraw, extracted, request, sent
from serving import Daemon, FLOAT32, FLOAT64, compare

SEEDS = tables.share(range(int(os.environ.get("ATTN_TEST_AXES", "150"))))
FORMS = ("json", "safetensors", "npz")
PARTS = ("weights", "visible", "raw", "scaled", "softcapped", "biased")


@pytest.fixture(scope="module")
def daemon():
    running = Daemon("--log", "off", "--ops-listen", "")
    yield running
    running.stop()


def oracle(body):
    """All answers of the oracle; None if it finds that shapes do not fit."""
    try:
        return attention(body)
    except ValueError:
        return None


def post(daemon, path, body, seed):
    data, kind = sent(body, FORMS[seed % 3])
    return daemon.post(path, data, headers={"Content-Type": kind})


def flat(x, body, whole):
    """A result of the oracle as [B, H, L, S], or logsumexp as [B, H, L]."""
    heads = whole["weights"].ndim > 3 or body.get("layout", "BHLE") != "BHLE"
    tail = whole["weights"].shape[-3 if heads else -2:]
    tail = tail if heads else (1, *tail)
    B = int(np.prod(whole["weights"].shape[:-3 if heads else -2], dtype=int))
    return x.reshape(B, *(tail if x.ndim == whole["weights"].ndim else tail[:-1]))


def check_attention(daemon, seed):
    body = request(seed)
    double = any(tensors.dtype_of(body[n]) == "float64" for n in ("query", "key", "value") if n in body)
    whole = oracle(body)
    reply = post(daemon, "/v1/attention", body | {"store": True}, seed)
    if whole is None:
        assert reply.status_code == 422, f"{reply.status_code} for shapes that do not fit: {reply.text[:300]}"
        return
    assert reply.status_code == 200, f"{reply.status_code}: {reply.text[:600]}"
    answer = reply.json()
    compare(answer, served(body), FLOAT64 if double else FLOAT32)
    mixes = "subtract" in body or "weights" in body.get("mix", {})  # a row of mixed weights has no logsumexp and no one score
    want = {name: flat(whole[name], body, whole) for name in (("weights",) if mixes else (*PARTS, "logsumexp"))}
    site = captured.Site(daemon, answer["run"]["id"], 0, answer["run"]["sites"][0], want, double, seed)
    (site.check_weights if mixes else site.check)()


ACCEPTED = ("text/plain", "image/svg+xml", "image/png", "text/csv", "application/x-npy", "application/vnd.safetensors")


def answered(daemon, path, body, seed, also=(200,)):
    """The answer as JSON, or None where the status is another one of `also`. The other media types of the route must come as
    well, or be refused with a reason."""
    reply = post(daemon, path, body, seed)
    assert reply.status_code in also, f"{path}: {reply.status_code}: {reply.text[:600]}"
    data, kind = sent(body, FORMS[seed % 3])
    other = daemon.post(path, data, headers={"Content-Type": kind, "Accept": ACCEPTED[seed % len(ACCEPTED)]})
    assert other.status_code in (200, 406, 422), f"{path}, {ACCEPTED[seed % len(ACCEPTED)]}: {other.status_code}: {other.text[:600]}"
    return reply.json() if reply.status_code == 200 else None


def close(got, want, bound, what):
    """Nested lists of an answer, null as NaN, against an array."""
    want = np.asarray(want, np.float64)
    if want.size == 0:
        assert got == tensors.nested(want), f"{what}: {got} for shape {want.shape}"
        return
    x = np.array(got, dtype=object)
    assert x.shape == want.shape, f"{what}: shape {x.shape}, not {want.shape}"
    x = np.where(x == None, np.nan, x).astype(np.float64)  # noqa: E711, element by element
    assert np.allclose(x, np.where(np.isfinite(want), want, np.nan), bound, bound, equal_nan=True), f"{what}: {got}, not {want.tolist()}"


def check_masks(daemon, seed):
    body = AxesDraw(seed + SEED).mask_request()
    try:
        _, visible, added = maskroute.combined(body)
        other = maskroute.combined(body, "against")[1]
    except ValueError:
        assert answered(daemon, "/v1/masks", body, seed, (422,)) is None
        return
    answer = answered(daemon, "/v1/masks", body, seed)
    assert answer["shape"] == body["shape"]
    if "keep" in answer:
        close(answer["keep"], visible, 0, "keep")
    if "additive" in answer:
        close(answer["additive"], np.where(visible, added, -np.inf), 1e-6, "additive")
    if "difference" in answer:
        close(answer["difference"], visible.astype(int) - other, 0, "difference")
    if "against" in body:
        want = maskroute.difference(visible, other)
        assert answer["against"] == want | {"kept": pytest.approx(want["kept"]), "words": answer["against"]["words"]}, "against"


def check_positions(daemon, seed):
    body = AxesDraw(seed + SEED).positions()
    answer, want = answered(daemon, "/v1/positions", body, seed), tour.position_answer(body)
    assert set(answer) == set(want), (set(answer), set(want))
    assert answer["num_parameters"] == want["num_parameters"]
    for name, table in tour.position_tables(body)[0].items():
        close(answer[name], table, 1e-6, name)
    for got, curve in zip(answer.get("curves", ()), want.get("curves", ()), strict=True):
        assert {**got, "values": []} == {**curve, "values": []}
        close(got["values"], curve["values"], 1e-6, f"curve {got['dim']}")


def check_heatmaps(daemon, seed):
    """A map a head, whose cells are the weights."""
    body = AxesDraw(seed + SEED).heatmaps()
    weights = tensors.read(body["weights"])
    answer = answered(daemon, "/v1/heatmaps", body, seed)
    heads = weights.reshape(int(np.prod(weights.shape[:-2], dtype=int)), *weights.shape[-2:])
    assert len(answer["heads"]) == len(heads)
    for got, want in zip(answer["heads"], heads):
        close(got["max"], want, 1e-6, "max")
        close(got["received"], want.sum(0), 1e-5, "received")


def check_analyses(daemon, seed):
    """The entropy of each head, and how many rows it has."""
    draw = AxesDraw(seed + SEED)
    body = draw.analyses()
    p = tensors.read(body["weights"])
    grid = p.reshape((1,) * (5 - p.ndim) + p.shape)
    try:
        keep, _ = resolve(Places(draw.batch, draw.Hq if draw.heads_axis else None, draw.L, draw.S), body)
    except ValueError:
        assert answered(daemon, "/v1/analyses", body, seed, (422,)) is None
        return
    keep = keep.reshape(grid.shape[1:])
    answer = answered(daemon, "/v1/analyses", body, seed)
    heads = answer.get("heads", [])
    assert len(heads) == int(np.prod(grid.shape[:3], dtype=int))
    for (layer, b, h), got in zip(np.ndindex(grid.shape[:3]), heads):
        head = Head(grid[layer, b, h], keep[b, h])
        assert got["num_rows"] == len(head.rows), got
        if head.rows:
            close(got["measures"]["entropy"], mean(entropy(head.share(i)) for i in head.rows), 2e-6, "entropy")


def check_curves(daemon, seed):
    body = AxesDraw(seed + SEED).curves()
    values = tensors.read(body["values"])
    answered(daemon, "/v1/curves", body, seed, (200,) if values.size else (422,))


def check_infer(daemon, seed):
    """The same operation over the Open Inference Protocol."""
    body = AxesDraw(seed + SEED).request()
    if "mix" in body or "subtract" in body:  # parameters are no objects
        return
    # parameters are no objects, and positions need an encoding
    for name in ("score", "position", "query_positions", "key_positions", "mask_positions", "normalizer", "labels", "pattern", "not"):
        body.pop(name, None)
    rest, found = extracted(body)
    names = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "bfloat16": "BF16", "int64": "INT64", "bool": "BOOL"}
    data, inputs = b"", []
    for name, (dtype, x) in found.items():
        stored = captures.stored_bytes(TYPES[dtype], x)
        inputs.append({"name": name, "shape": list(x.shape), "datatype": names[dtype], "parameters": {"binary_data_size": len(stored)}})
        data += stored
    parameters = {name: json.dumps(x) if isinstance(x, list) else x for name, x in rest.items() if name != "return"}
    head = json.dumps({"inputs": inputs, "parameters": parameters, "outputs": [{"name": name} for name in rest["return"]]}).encode()
    reply = daemon.post("/v2/models/scaled_dot_product_attention/infer", head + data, headers={
        "Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))})
    whole = oracle(body)
    assert reply.status_code == 200 if whole else reply.status_code in (400, 422), f"{reply.status_code}: {reply.text[:400]}"
    for out in reply.json()["outputs"] if whole else ():
        want = served(body)[out["name"]]
        assert tuple(out["shape"]) == want.shape, out
        close(out["data"], want.reshape(-1), 1e-5, out["name"])


def check_everything(daemon, seed):
    """Everything that /v1/attention answers beside the tensors that the oracle knows."""
    draw = AxesDraw(seed + SEED)
    body = draw.request()
    whole = oracle(body)
    parts = ["output", "weights", "inputs", "row_sums", "heatmap"]
    if not any("value_table" in position for position in forms.positions_of(body)):
        parts.append("weighted_values")
    if whole is not None and whole["output"].size:
        body["grad_output"] = tensors.write(draw.r.standard_normal(served(body)["output"].shape), "float32")
        parts += ["gradients", "gradients.scores"]
    body.pop("score_stage")
    body |= {"return": parts, "analysis": "all", "heatmap": {}, "explain": True}
    answer = answered(daemon, "/v1/attention", body, seed, (200,) if whole is not None else (422,))
    if answer is None:
        return
    lead = axes_in_front(body)
    close(answer["row_sums"], whole["weights"].sum(-1).reshape(lead + whole["weights"].shape[:-1]), 1e-5, "row_sums")
    for name, got in answer.get("gradients", {}).items():
        if name in body and name in ("query", "key", "value", "attn_bias", "sinks"):
            want = tensors.shape_of(body[name])
            assert np.array(got, dtype=object).shape == want or 0 in want, f"gradient of {name}"


def check_models(daemon, seed):
    """Each sequence of a batch has the weights that it has alone."""
    body, source, target, keep = AxesDraw(seed + SEED).texts()
    path = "/v1/models/en-fr/attention"
    answer = answered(daemon, path, body, seed, (200,) if keep is not None else (422,))
    for b in range(len(source)) if answer else ():
        alone = daemon.post(path, {"tokens": source[b], "target_tokens": target[b], "token_mask": keep[b].tolist()}).json()
        for whole, one in zip(answer["sites"], alone["sites"], strict=True):
            want = np.array(one["weights"][0])
            got = np.array(whole["weights"][b])[:, :want.shape[1], :want.shape[2]]
            close(got.tolist(), want, 2e-6, f"sequence {b} at {one['kind']}")


def check_layers(daemon, seed):
    """Rollout and flow through the layers of a stored run, whose weights are those of each layer."""
    data, (layers, B, _, L) = AxesDraw(seed + SEED).layers_file()
    run, b = f"/v1/runs/{captured.store(daemon, data)['id']}", seed % B
    get = lambda what: np.array(daemon.get(run + what).json()[what.split("?")[0][1:]], float)  # noqa: E731
    weights = np.stack([get(f"/weights?layer={n}&batch={b}&heads=all&rows=0:{L}") for n in range(layers)])
    seen, tokens = weights.mean(1) + np.eye(L), np.eye(L)
    for layer in seen / seen.sum(2, keepdims=True):
        tokens = layer @ tokens
    close(get(f"/rollout?batch={b}").tolist(), tokens, 2e-6, "rollout")
    flow = get(f"/flow?batch={b}")
    assert flow.shape == (L, L) and (flow >= tokens - 2e-6).all() and (flow < 1 + 2e-6).all(), "rollout is one of the flows"
    if layers == 1:
        close(flow.tolist(), tokens, 2e-6, "flow of one layer")


CHECKS = [check_attention, check_everything, check_masks, check_positions, check_heatmaps, check_analyses, check_curves, check_infer,
          check_models, check_layers]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("block", range(0, len(SEEDS), 50))
def test_axes(daemon, check, block):
    for seed in SEEDS[block:block + 50]:
        try:
            check(daemon, seed)
        except AssertionError as fault:
            pytest.fail(f"seed {seed}: {fault}", pytrace=False)
