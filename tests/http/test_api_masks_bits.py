"""Masks of packed bits: in JSON, safetensors, npz and /v2 they mean what the booleans mean; what is refused."""
import io
import json

import numpy as np
import pytest
import requests
from safetensors.numpy import save

from api_client import ask, qkv, refused
from documents import blocks
from oracle import tensors
from oracle.tensors import bytes_of_bits, write_bits

KEEP = np.random.default_rng(3).random((2, 3, 5, 11)) < 0.6
BODY = qkv(B=2, H=3, L=5, S=11, E=4)
SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}
TEXT = {"attn_mask": {"shape": [2, 3, 5, 11], "encoding": "bits"}}


def of_booleans(daemon, keep=KEEP, **fields):
    return ask(daemon, {**BODY, "attn_mask": tensors.write(keep, "bool"), "explain": True, **fields})


@pytest.mark.parametrize("keep", [KEEP, KEEP[0, 0], KEEP[0, 0, 0], KEEP[:, :, :1], KEEP[:1]], ids=lambda x: str(x.shape))
def test_bits_are_booleans(daemon, keep):
    """Weights, explanation and warnings, for masks of every rank that broadcast."""
    for semantics in ({}, {"mask_semantics": "hide"}):
        body = {**BODY, "attn_mask": write_bits(keep), "explain": True, **semantics}
        assert ask(daemon, body) == of_booleans(daemon, keep, **semantics)


def test_parts_of_rules(daemon):
    def rules(part):
        return {"any_of": [{"kind": "causal"}, {"kind": "not", "not": {"kind": "values", "attn_mask": part(KEEP)}}], "explain": True}
    assert ask(daemon, BODY | rules(write_bits)) == ask(daemon, BODY | rules(lambda x: tensors.write(x, "bool")))


def test_masks_in_words(daemon):
    """The shape follows from the mask, and its cells are those of booleans."""
    def body(mask):
        return {"masks": [{"kind": "values", "attn_mask": mask}]}
    answers = [ask(daemon, body(x), "/v1/masks") for x in (write_bits(KEEP), tensors.write(KEEP, "bool"))]
    assert answers[0] == answers[1]


def test_analyses(daemon):
    weights = of_booleans(daemon)["weights"]
    answers = [ask(daemon, {"weights": weights, "attn_mask": x}, "/v1/analyses")
               for x in (write_bits(KEEP), tensors.write(KEEP, "bool"))]
    assert answers[0] == answers[1]


PADDING = KEEP[:, 0, 0]


@pytest.mark.parametrize("padding", [PADDING, PADDING[1], PADDING[:1]], ids=lambda x: str(x.shape))
def test_padding(daemon, padding):
    """Weights, explanation, warnings and a stored run of padding in bits, also as a part of a rule."""
    for semantics in ("keep", "hide"):
        ways = [{"key_padding_mask": x, "key_padding_semantics": semantics} for x in (write_bits(padding), padding.tolist())]
        answers = [ask(daemon, {**BODY, **way, "explain": True}) for way in ways]
        assert answers[0] == answers[1]
        answers = [ask(daemon, {**BODY, "not": {"kind": "padding", **way}, "explain": True}) for way in ways]
        assert answers[0] == answers[1]
        runs = [ask(daemon, {**BODY, **way, "store": True, "return": []})["run"]["id"] for way in ways]
        cells = [daemon.get(f"/v1/runs/{run}/weights?heads=all").json() for run in runs]
        assert str(cells[0]).replace(runs[0], runs[1]) == str(cells[1])
    answers = [ask(daemon, {"masks": [{"kind": "padding", **way}]}, "/v1/masks") for way in ways]
    assert answers[0] == answers[1]


def test_padding_in_safetensors(daemon):
    arrays = {name: np.asarray(x, np.float32) for name, x in BODY.items()} | {"key_padding_mask": bytes_of_bits(PADDING)}
    text = {"key_padding_mask": {"shape": [2, 11], "encoding": "bits"}, "key_padding_semantics": "keep"}
    reply = daemon.post("/v1/attention", save(arrays, {"request": json.dumps(text)}), headers=SAFETENSORS)
    assert reply.json() == ask(daemon, {**BODY, **text, "key_padding_mask": PADDING.tolist()})
    refused(daemon, {**BODY, **text}, "invalid_value", "/key_padding_mask", "missing")
    turned = np.packbits(PADDING, axis=-1)
    spare = {**BODY, **text, "key_padding_mask": write_bits(PADDING) | {"base64": tensors.write(turned, "uint8")["base64"]}}
    refused(daemon, spare, "invalid_value", "/key_padding_mask", "behind its last element")


def test_safetensors(daemon):
    arrays = {name: np.asarray(x, np.float32) for name, x in BODY.items()} | {"attn_mask": bytes_of_bits(KEEP)}
    reply = daemon.post("/v1/attention", save(arrays, {"request": json.dumps({**TEXT, "explain": True})}), headers=SAFETENSORS)
    assert reply.json() == of_booleans(daemon)


def test_the_lines_of_the_readme(daemon):
    (_, lines) = next(block for block in blocks("py") if "packbits" in block[1])
    q = np.asarray(BODY["query"][0][0], np.float32)
    mask = KEEP[0, 0, :, :5]
    names = {"q": q, "mask": mask, "url": daemon.url, "kind": SAFETENSORS["Content-Type"], "save": save, "json": json,
             "numpy": np, "requests": requests}
    exec(lines, names)
    assert names["answer"].json() == ask(daemon, {"query": q.tolist(), "attn_mask": mask.tolist()})


def test_safetensors_of_a_list(daemon):
    """The name of a tensor leads through lists."""
    arrays = {name: np.asarray(x, np.float32) for name, x in BODY.items()} | {"any_of.0.attn_mask": bytes_of_bits(KEEP)}
    text = {"any_of": [{"kind": "values", **TEXT}, {"kind": "window", "window": [0, 0]}]}
    reply = daemon.post("/v1/attention", save(arrays, {"request": json.dumps(text)}), headers=SAFETENSORS)
    part = {"kind": "values", "attn_mask": tensors.write(KEEP, "bool")}
    assert reply.json() == ask(daemon, {**BODY, "any_of": [part, text["any_of"][1]]})


def test_npz(daemon):
    file = io.BytesIO()
    np.savez(file, **{name: np.asarray(x, np.float32) for name, x in BODY.items()}, attn_mask=bytes_of_bits(KEEP),
             request=json.dumps({**TEXT, "explain": True}))
    assert daemon.post("/v1/attention", file.getvalue(), headers={"Content-Type": "application/x-npz"}).json() == of_booleans(daemon)


def infer(daemon, mask, **parameters):
    inputs = [{"name": name, "shape": list(np.shape(x)), "datatype": "FP32", "data": np.ravel(x).tolist()} for name, x in BODY.items()]
    inputs.append({"name": "attn_mask", "shape": list(mask.shape), "datatype": "UINT8", "data": mask.ravel().tolist()})
    return daemon.post("/v2/models/scaled_dot_product_attention/infer", {"inputs": inputs, "parameters": parameters})


def test_v2(daemon):
    reply = infer(daemon, bytes_of_bits(KEEP), attn_mask=json.dumps(TEXT["attn_mask"])).json()
    got = {x["name"]: x["data"] for x in reply["outputs"]}
    assert got["weights"] == np.ravel(of_booleans(daemon)["weights"]).tolist()


def test_v2_names_the_input(daemon):
    problem = infer(daemon, bytes_of_bits(KEEP)[0], attn_mask=json.dumps(TEXT["attn_mask"])).json()
    assert problem["pointer"] == "/inputs/3" and "[2, 3, 5, 2]" in problem["detail"], problem


def test_a_stored_run(daemon):
    """The run of bits is the run of booleans; bits that hide are turned."""
    for keep, semantics in ((KEEP, {}), (~KEEP, {"mask_semantics": "hide"})):
        runs = [ask(daemon, {**BODY, "attn_mask": x, "store": True, "return": [], **semantics})["run"]["id"]
                for x in (write_bits(keep), tensors.write(keep, "bool"))]
        looks = [[daemon.get(f"/v1/runs/{run}/{what}").json() for what in (
            "weights?heads=all&batch=1", "cells?row=3&col=7&head=1", "analyses")] for run in runs]
        assert str(looks[0]).replace(runs[0], runs[1]) == str(looks[1])


def test_bits_take_their_bytes_only(daemon):
    """The dry run of a mask of 4096 x 4096 booleans needs no more than that of a causal mask: nothing is unpacked."""
    keep = np.tril(np.ones((4096, 4096), bool))
    body = {"query": {"shape": [4096, 1], "fill": "ones"}, "return": "output"}
    need = {}
    for name, mask in {"bits": write_bits(keep), "causal": None}.items():
        said = ask(daemon, {**body, **({"attn_mask": mask} if mask else {"is_causal": True}), "dry_run": True})["dry_run"]
        need[name] = said["bytes"]
    assert need["bits"] == need["causal"]


SPARE = write_bits(KEEP)
SPARE["base64"] = tensors.write(bytes_of_bits(KEEP) | np.uint8(128), "uint8")["base64"]


@pytest.mark.parametrize("mask, pointer, words", [
    (SPARE, "/attn_mask", "behind its last element"),
    (write_bits(KEEP) | {"shape": [2, 3, 5, 12]}, "/attn_mask", "does not broadcast"),
    (write_bits(KEEP) | {"shape": [2, 3, 5, 17]}, "/attn_mask/base64", "needs 90 bytes"),
    (write_bits(KEEP[..., :1]), "/attn_mask", "a bit for each of the 11 keys"),
    (TEXT["attn_mask"], "/attn_mask", "missing"),
    (write_bits(KEEP) | {"dtype": "uint8"}, "/attn_mask", "dtype is bool"),
    ({"shape": [11], "encoding": "bits", "fill": "ones"}, "/attn_mask", "beside shape and base64"),
    ({"encoding": "bits", "base64": "AAA="}, "/attn_mask", "shape"),
    (write_bits(KEEP) | {"encoding": "zstd"}, "/attn_mask/encoding", "expected \"bits\""),
])
def test_refused(daemon, mask, pointer, words):
    problem = daemon.post("/v1/attention", {**BODY, "attn_mask": mask}).json()
    assert problem["status"] == 422 and problem["pointer"] == pointer and words in problem["detail"], problem


@pytest.mark.parametrize("name", ["attn_bias", "query", "key_lengths"])
def test_other_tensors_have_no_encoding(daemon, name):
    problem = daemon.post("/v1/attention", {**BODY, name: write_bits(KEEP)}).json()
    assert problem["status"] == 422 and problem["pointer"] == f"/{name}/encoding" and "bits are booleans" in problem["detail"]


@pytest.mark.parametrize("mask", [KEEP, bytes_of_bits(KEEP).astype(np.int32), bytes_of_bits(KEEP)[..., :1]])
def test_refused_in_binary(daemon, mask):
    arrays = {name: np.asarray(x, np.float32) for name, x in BODY.items()} | {"attn_mask": mask}
    problem = daemon.post("/v1/attention", save(arrays, {"request": json.dumps(TEXT)}), headers=SAFETENSORS).json()
    assert problem["status"] == 422 and problem["pointer"] == "/attn_mask" and "tensor of uint8" in problem["detail"], problem
