"""The service against PyTorch: scaled_dot_product_attention and its documented reference, the modules of
textbooks, nn.MultiheadAttention (make check-torch)."""
import numpy as np
import pytest
import torch
import torch.nn.functional as F

import torch_modules as modules
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


MODULE_BOUND = 1e-5
DRAWS = range(6)


def field(x):
    """Tensors inside a field's value as the service reads them."""
    if isinstance(x, dict):
        return {k: field(v) for k, v in x.items()}
    return tensors.write(x.detach().numpy(), "bool" if x.dtype == torch.bool else "float32") \
        if isinstance(x, torch.Tensor) else x


def same(daemon, body, output, weights):
    """The service's output and weights are those of a module."""
    answer = ask(daemon, {**field(body), "return": ["output", "weights"]})
    for name, want in (("output", output), ("weights", weights)):
        want = want.detach().numpy()
        assert np.abs(as_array(answer[name], want, name) - want).max() <= MODULE_BOUND, name


def sizes(seed):
    """(random numbers, B, L, S, D, H, D / H) of one draw; torch is seeded too."""
    torch.manual_seed(seed)
    r = np.random.default_rng(seed)
    H, E = int(r.choice((1, 2, 3, 8))), int(r.choice((2, 4, 10, 16)))
    return r, int(r.integers(1, 4)), int(r.integers(1, 20)), int(r.integers(1, 30)), H * E, H, E


@pytest.mark.parametrize("seed", DRAWS)
@pytest.mark.parametrize("form", ["additive", "dot", "general", "concat"])
def test_learned_scores(table, form, seed):
    """One decoder state [B, Dd], sent as [B, 1, Dd], against encoder states that are key and value."""
    r, B, _, S, D, _, _ = sizes(seed)
    Dd = D if form == "dot" else int(r.integers(1, 40))
    if form == "additive":
        module = modules.AdditiveAttention(D, Dd, int(r.integers(1, 40)))
    else:
        module = modules.MultiplicativeAttention(D, Dd, form)
    states, decoder = torch.randn(B, S, D), torch.randn(B, Dd)
    context, weights = module(states, decoder)
    same(table, {"query": decoder[:, None], "key": states, "value": states, "score": module.score()},
         context[:, None], weights[:, None])


@pytest.mark.parametrize("seed", DRAWS)
@pytest.mark.parametrize("masked", [False, True])
def test_self_attention(table, masked, seed):
    r, B, L, _, D, _, _ = sizes(seed)
    module, x = modules.SelfAttention(D), torch.randn(B, L, D)
    mask = torch.from_numpy(r.random((B, L, L)) < 0.6) | torch.eye(L, dtype=torch.bool)
    output, weights = module(x, mask if masked else None)
    body = {"query": x, "projections": {"num_heads": 1, **module.projections()}}
    if masked:
        body["attn_mask"] = mask[:, None]
    same(table, body, output, weights[:, None])


@pytest.mark.parametrize("seed", DRAWS)
@pytest.mark.parametrize("mask", ["none", "padding", "full"])
def test_multi_head_attention(table, mask, seed):
    """Masks of the shapes [B, 1, 1, S] and [B, 1, L, S], 1 = attend."""
    r, B, L, S, D, H, _ = sizes(seed)
    module = modules.MultiHeadAttention(D, H)
    query, key, value = torch.randn(B, L, D), torch.randn(B, S, D), torch.randn(B, S, D)
    keep = torch.from_numpy(r.random((B, 1, 1 if mask == "padding" else L, S)) < 0.6)
    keep[..., 0] = True
    output, weights = module(query, key, value, None if mask == "none" else keep)
    body = {"query": query, "key": key, "value": value, "projections": module.projections()}
    if mask != "none":
        body.update(attn_mask=keep.float(), mask_semantics="keep")
    same(table, body, output, weights)


@pytest.mark.parametrize("seed", DRAWS)
@pytest.mark.parametrize("encoded", [False, True])
def test_causal_self_attention(table, encoded, seed):
    """With sinusoidal positions added by the module before it, and by the service."""
    _, B, L, _, D, H, _ = sizes(seed)
    module, x = modules.CausalSelfAttention(D, H), torch.randn(B, L, D)
    output, weights = module(modules.SinusoidalPositionalEncoding(D)(x) if encoded else x)
    body = {"query": x, "is_causal": True, "projections": {**module.projections(), "add_positions": encoded}}
    same(table, body, output, weights)


def test_sinusoidal_table(table):
    """PyTorch makes the angles in float32, which is off by 2^-24 of an angle of up to 512."""
    want = modules.SinusoidalPositionalEncoding(64, 512).pe.numpy()
    answer = ask(table, {"kind": "sinusoidal", "length": 512, "width": 64}, path="/v1/positions")
    assert np.abs(as_array(answer["table"], want, "table") - want).max() <= 1e-4


@pytest.mark.parametrize("seed", DRAWS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kv", ["same widths", "other widths"])
def test_multihead_module(table, kv, bias, seed):
    """nn.MultiheadAttention: its masks are true where attention is hidden, its in_proj is W_q, W_k and W_v."""
    r, B, L, S, D, H, _ = sizes(seed)
    widths = {} if kv == "same widths" else {"kdim": int(r.integers(1, 20)), "vdim": int(r.integers(1, 20))}
    module = torch.nn.MultiheadAttention(D, H, bias=bias, batch_first=True, **widths)
    if bias:
        torch.nn.init.normal_(module.in_proj_bias)
        torch.nn.init.normal_(module.out_proj.bias)
    query = torch.randn(B, L, D)
    key, value = torch.randn(B, S, widths.get("kdim", D)), torch.randn(B, S, widths.get("vdim", D))
    hidden = torch.from_numpy(r.random((L, S)) < 0.3)
    padding = torch.from_numpy(r.random((B, S)) < 0.3)
    hidden[:, 0], padding[:, 0] = False, False
    output, weights = module(query, key, value, attn_mask=hidden, key_padding_mask=padding,
                             average_attn_weights=False)
    if widths:
        weight = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    else:
        weight = module.in_proj_weight.chunk(3)
    p = {"num_heads": H, "w_o": module.out_proj.weight, **dict(zip(("w_q", "w_k", "w_v"), weight))}
    if bias:
        p.update(b_o=module.out_proj.bias, **dict(zip(("b_q", "b_k", "b_v"), module.in_proj_bias.chunk(3))))
    same(table, {"query": query, "key": key, "value": value, "projections": p, "attn_mask": ~hidden,
                 "key_padding_mask": padding, "key_padding_semantics": "hide"}, output, weights)


@pytest.mark.parametrize("seed", DRAWS)
def test_grouped_queries(table, seed):
    """scaled_dot_product_attention(enable_gqa=True) over random head counts."""
    r, B, L, S, _, Hkv, E = sizes(seed)
    q, k, v = torch.randn(B, Hkv * int(r.choice((2, 3, 4))), L, E), torch.randn(B, Hkv, S, E), torch.randn(B, Hkv, S, 7)
    want = F.scaled_dot_product_attention(q, k, v, enable_gqa=True).numpy()
    answer = ask(table, {**field({"query": q, "key": k, "value": v}), "enable_gqa": True, "return": ["output"]})
    assert np.abs(as_array(answer["output"], want, "output") - want).max() <= BOUND


def test_parameter_counts():
    """The counts that tests/oracle gives to `dry_run` are those of the modules."""
    from oracle.forms import count_parameters

    def count(module):
        return sum(p.numel() for p in module.parameters())

    for method, want in (("dot", 0), ("general", 262144), ("concat", 524800)):
        module = modules.MultiplicativeAttention(512, 512, method)
        assert count(module) == want == count_parameters({"score": field(module.score())})
    module = modules.AdditiveAttention(30, 20, 10)
    assert count(module) == count_parameters({"score": field(module.score())})
    module = modules.MultiHeadAttention(24, 4)
    assert count(module) == count_parameters({"projections": field(module.projections())})
    assert count(modules.SinusoidalPositionalEncoding(512, 1000)) == 0


@pytest.mark.parametrize("name, field", [("plain", None), ("causal", None), ("grouped", None), ("float mask", "attn_bias"),
                                         ("float mask", "attn_mask"), ("values of another width", None)])
def test_gradients(table, name, field):
    """Autograd through scaled_dot_product_attention, in float64."""
    case = dict(CASES[name])
    r = np.random.default_rng(len(name))
    B, H, L, S, E = 2, 4, 130, 150, 24
    Hkv, Ev = case.pop("Hkv", H), case.pop("Ev", E)
    bias = case.pop("mask", None)
    arrays = {"query": (B, H, L, E), "key": (B, Hkv, S, E), "value": (B, Hkv, S, Ev)}
    if bias:
        arrays[field] = (H, L, S)
    arrays = {k: r.standard_normal(s).astype(np.float32) for k, s in arrays.items()}
    leaves = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in arrays.items()}
    output = F.scaled_dot_product_attention(leaves["query"], leaves["key"], leaves["value"],
                                            attn_mask=leaves.get(field), enable_gqa=Hkv != H, **case)
    grad = r.standard_normal(tuple(output.shape)).astype(np.float32)
    output.backward(torch.from_numpy(grad.astype(np.float64)))
    body = {**{k: tensors.write(v) for k, v in arrays.items()}, **case, "grad_output": tensors.write(grad)}
    found = ask(table, {**body, "return": ["gradients"]})["gradients"]
    assert set(found) == set(arrays)
    for k, leaf in leaves.items():
        want = leaf.grad.numpy()
        assert np.abs(as_array(found[k], want, k) - want).max() <= 2e-5 * max(1, np.abs(want).max()), k


def test_gradients_of_multi_head_attention(table):
    """nn.MultiheadAttention's parameters and input."""
    torch.manual_seed(3)
    module = torch.nn.MultiheadAttention(24, 4, batch_first=True)
    x = torch.randn(2, 17, 24, requires_grad=True)
    output, _ = module(x, x, x)
    grad = torch.randn_like(output)
    output.backward(grad)
    w, b = module.in_proj_weight, module.in_proj_bias
    maps = {"num_heads": 4, "w_o": module.out_proj.weight, "b_o": module.out_proj.bias}
    maps |= {f"{kind}_{p}": t[24 * i : 24 * i + 24] for i, p in enumerate("qkv") for kind, t in (("w", w), ("b", b))}
    body = {"query": tensors.write(x.detach().numpy()), "grad_output": tensors.write(grad.numpy()),
            "projections": {k: v if k == "num_heads" else tensors.write(v.detach().numpy()) for k, v in maps.items()}}
    found = ask(table, {**body, "return": ["gradients"]})["gradients"]
    wanted = {"query": x.grad, "w_o": module.out_proj.weight.grad, "b_o": module.out_proj.bias.grad}
    wanted |= {f"{kind}_{p}": t.grad[24 * i : 24 * i + 24]
               for i, p in enumerate("qkv") for kind, t in (("w", w), ("b", b))}
    for k, want in wanted.items():
        got = found["query"] if k == "query" else found["projections"][k]
        want = want.numpy()
        assert np.abs(as_array(got, want, k) - want).max() <= 2e-5 * max(1, np.abs(want).max()), k
