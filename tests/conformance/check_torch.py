"""The service against PyTorch: scaled_dot_product_attention and its documented reference (make check-torch)."""
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from serving import ask, as_array
from oracle import tensors

BOUND = 5e-6
CASES = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "boolean mask": {"mask": "bool"},
    "float mask": {"mask": "float"},
    "mask of one head": {"mask": "broadcast"},
    "grouped": {"Hkv": 2},
    "grouped and causal": {"Hkv": 1, "is_causal": True},
    "values of another width": {"Ev": 5},
    "one query": {"L": 1, "S": 200},
}


@pytest.mark.parametrize("name", CASES)
def test_sdpa(table, name):
    case = dict(CASES[name])
    r = np.random.default_rng(len(name))
    B, H, L, S, E = 2, 4, case.pop("L", 33), case.pop("S", 47), 24
    Hkv, Ev = case.pop("Hkv", H), case.pop("Ev", E)
    q, k, v = (r.standard_normal(s).astype(np.float32)
               for s in ((B, H, L, E), (B, Hkv, S, E), (B, Hkv, S, Ev)))
    kind = case.pop("mask", None)
    body = {"query": tensors.write(q), "key": tensors.write(k), "value": tensors.write(v), **case}
    arguments = {"enable_gqa": True} if Hkv != H else {}
    arguments.update(case)
    if kind == "float":
        mask = r.standard_normal((B, H, L, S)).astype(np.float32)
        body.update(attn_mask=tensors.write(mask), mask_semantics="additive")
        arguments["attn_mask"] = torch.from_numpy(mask)
    elif kind:
        mask = r.random((1, 1, L, S) if kind == "broadcast" else (B, H, L, S)) < 0.7
        mask[..., 0] = True
        body["attn_mask"] = tensors.write(mask, "bool")
        arguments["attn_mask"] = torch.from_numpy(mask)
    want = F.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)), **arguments).numpy()
    got = as_array(ask(table, {**body, "return": ["output"]})["output"], want, "output")
    assert np.abs(got - want).max() <= BOUND


def test_weights(table):
    """Weights beside torch.softmax of the unfused scores, and logsumexp beside torch.logsumexp."""
    r = np.random.default_rng(5)
    q, k, v = (r.standard_normal(s).astype(np.float32) for s in ((2, 9, 16), (2, 70, 16), (2, 70, 3)))
    scores = torch.from_numpy(q) @ torch.from_numpy(k).transpose(-1, -2) / 4
    answer = ask(table, {"query": tensors.write(q), "key": tensors.write(k), "value": tensors.write(v),
                         "return": ["weights", "logsumexp"]})
    want = torch.softmax(scores, -1).numpy()
    assert np.abs(as_array(answer["weights"], want, "weights") - want).max() <= 1e-6
    want = torch.logsumexp(scores, -1).numpy()
    assert np.abs(as_array(answer["logsumexp"], want, "logsumexp") - want).max() <= BOUND
