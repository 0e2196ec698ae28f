"""Differential attention beside DiffLlama of transformers (make check-torch).

The norm of the module and its last projection are identities; the request has the rest: queries and keys after the
rotation, both halves of the values side by side, the module's lambda, and halves as pairs."""
import numpy as np
import pytest
import torch
from transformers import DiffLlamaConfig
from transformers.models.diffllama import modeling_diffllama as code

from oracle import tensors
from serving import ask

CASES = {"each head its key": (4, 4, 9), "two heads a key": (8, 4, 40), "one value head": (6, 2, 130)}


def module_and_states(heads, kv_heads, length):
    torch.manual_seed(heads)
    config = DiffLlamaConfig(hidden_size=48, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=8,
                             num_hidden_layers=2, vocab_size=32, attn_implementation="eager")
    module = code.DiffLlamaAttention(config, layer_idx=1).double().eval()
    module.groupnorm = module.o_proj = torch.nn.Identity()
    states = torch.randn(2, length, 48).double()
    turns = code.DiffLlamaRotaryEmbedding(config)(states, torch.arange(length)[None])
    return module, states, turns


def split(x, module):
    return x.view(*x.shape[:2], -1, module.head_dim).transpose(1, 2)


@pytest.mark.parametrize("name", CASES)
def test_output_and_weights(table, name):
    heads, kv_heads, length = CASES[name]
    module, states, turns = module_and_states(heads, kv_heads, length)
    hidden = torch.full((length, length), -torch.inf).double().triu(1)[None, None]
    with torch.no_grad():
        output, weights = module(states, position_embeddings=turns, attention_mask=hidden)
        query, key = code.apply_rotary_pos_emb(split(module.q_proj(states), module), split(module.k_proj(states), module), *turns)
        value = torch.cat(torch.chunk(split(module.v_proj(states), module), 2, dim=1), dim=-1)
        lambdas = [torch.exp((getattr(module, f"lambda_q{n}") * getattr(module, f"lambda_k{n}")).sum()) for n in (1, 2)]
    factor = float(lambdas[0] - lambdas[1]) + module.lambda_init
    answer = ask(table, {name: tensors.write(x.numpy(), "float64") for name, x in (("query", query), ("key", key), ("value", value))} | {
        "is_causal": True, "subtract": {"lambda": factor, "pairs": "halves"}, "return": ["output", "weights"]})
    pairs = weights.numpy().reshape(2, 2, heads // 2, length, length)
    assert np.abs(tensors.read(answer["weights"]) - (pairs[:, 0] - factor * pairs[:, 1])).max() < 1e-6
    ours = (1 - module.lambda_init) * tensors.read(answer["output"]).swapaxes(1, 2).reshape(2, length, -1)
    assert np.abs(ours - output.numpy()).max() < 1e-6
