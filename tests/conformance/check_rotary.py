"""Rotary frequencies beside transformers (make check-torch).

    build/torch/bin/python tests/conformance/check_rotary.py   writes rotary_tables.json anew

A case is a body of POST /v1/positions. Its tables are cos and sin of inv_freq times the positions, in float32,
times the attention factor, as the rotary modules of transformers compute them. The models with positions on several
axes are asked for their own tables, of a few tokens or patches."""
import importlib
import json
import math
import pathlib

import numpy as np
import pytest
import torch

FILE = pathlib.Path(__file__).with_name("rotary_tables.json")
YARN = {"kind": "yarn", "factor": 8, "original_max_position_embeddings": 64}
LLAMA = {"kind": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}
LONG = {"kind": "longrope", "factor": 4, "original_max_position_embeddings": 8, "short_factor": [1, 1.25, 1.5, 2, 3, 4],
        "long_factor": [1, 2, 4, 8, 16, 32]}
CASES = {
    "linear": {"scaling": {"kind": "linear", "factor": 4}},
    "dynamic within": {"scaling": {"kind": "dynamic", "factor": 2, "original_max_position_embeddings": 16}},
    "dynamic beyond": {"scaling": {"kind": "dynamic", "factor": 2, "original_max_position_embeddings": 5}, "base": 500000},
    "yarn": {"scaling": YARN}, "yarn of a base": {"scaling": YARN, "base": 1000000},
    "yarn of DeepSeek": {"scaling": YARN | {"factor": 40, "beta_fast": 16, "beta_slow": 2, "mscale": 0.7, "mscale_all_dim": 1.2}},
    "yarn of gpt-oss": {"scaling": YARN | {"factor": 32, "truncate": False}, "base": 150000},
    "yarn with a factor": {"scaling": YARN | {"attention_factor": 1.5}},
    "llama3": {"scaling": LLAMA}, "llama3 of a base": {"scaling": LLAMA | {"factor": 32}, "base": 500000},
    "longrope within": {"scaling": LONG, "length": 8}, "longrope beyond": {"scaling": LONG, "length": 9},
}


def body(case):
    return {"kind": "rotary", "length": 6, "width": 12} | case


def tables(b):
    """(cosines, sines) of transformers."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling = {k: v for k, v in b["scaling"].items() if k != "kind"}
    kind = b["scaling"]["kind"]
    known = scaling.get("original_max_position_embeddings", 2048)
    config = LlamaConfig(hidden_size=b["width"], num_attention_heads=1, head_dim=b["width"], max_position_embeddings=known,
                         rope_parameters=scaling | {"rope_type": kind, "rope_theta": float(b.get("base", 10000))})
    inv_freq, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=b["length"])
    angle = torch.arange(b["length"]).float()[:, None] * inv_freq.float()
    return (angle.cos() * factor).tolist(), (angle.sin() * factor).tolist()


TOKENS = [[0, 1, 2, 2, 2, 2, 4, 5], [0, 1, 2, 2, 3, 3, 4, 5], [0, 1, 2, 3, 2, 3, 4, 5]]  # time, height, width
PATCHES = [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]


def axes(counts, positions, **more):
    return [{"num_pairs": n, "positions": p} | more for n, p in zip(counts, positions)]


def of_text(name, part, width, sections, step, **fields):
    """(body, cosines, sines) of a model with M-RoPE; the pairs of its cosines are `step` apart."""
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    configs = importlib.import_module(f"transformers.models.{name}.configuration_{name}")
    base = float(fields.pop("base"))
    text = next(c for c in (f"{part}TextConfig", f"{part}Config") if hasattr(configs, c))
    kind = next(c for c in (f"{part}TextRotaryEmbedding", f"{part}RotaryEmbedding") if hasattr(module, c))
    config = getattr(configs, text)(hidden_size=2 * width, num_attention_heads=2, num_key_value_heads=2, head_dim=width, rope_parameters={
        "rope_type": "default", "rope_theta": base, "mrope_section": sections, **fields.pop("parameters", {})})
    cosines, sines = getattr(module, kind)(config)(torch.zeros(1, 8, width), torch.tensor(TOKENS)[:, None])
    pairs = sum(sections)
    found = []
    for table in (cosines, sines):
        if table.ndim == 4:  # one table for each axis, of which the model takes sections
            table = torch.cat([m[i] for i, m in enumerate(table[..., :pairs].split(sections, dim=-1))], dim=-1)
        found.append(table[0][:, : pairs * step : step].tolist())
    return ({"kind": "rotary", "width": 2 * pairs, "base": base} | fields, *found)


def qwen3_vl():
    return of_text("qwen3_vl", "Qwen3VL", 16, [4, 2, 2], 1, base=5000000, axes=axes([4, 2, 2], TOKENS, interleaved=True))


def qwen2_vl():
    return of_text("qwen2_vl", "Qwen2VL", 16, [2, 3, 3], 1, base=1000000, axes=axes([2, 3, 3], TOKENS))


def glm4v():
    return of_text("glm4v", "Glm4v", 32, [2, 3, 3], 2, base=10000, parameters={"partial_rotary_factor": 0.5}, axes=axes([2, 3, 3], TOKENS))


def qwen3_vl_vision():
    from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLVisionConfig
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionRotaryEmbedding

    module = Qwen3VLVisionRotaryEmbedding(Qwen3VLVisionConfig(hidden_size=32, num_heads=2))
    cosines, sines = module(torch.zeros(1), torch.tensor(PATCHES).T)
    return ({"kind": "rotary", "width": 16, "axes": axes([4, 4], PATCHES, base=10000)},
            *(x.reshape(6, -1)[:, :8].tolist() for x in (cosines, sines)))


def dinov3():
    from transformers import DINOv3ViTConfig
    from transformers.models.dinov3_vit import modeling_dinov3_vit as model

    module = model.DINOv3ViTRopePositionEmbedding(DINOv3ViTConfig(hidden_size=32, num_attention_heads=2, patch_size=4, image_size=12)).eval()
    cosines, sines = module(torch.zeros(1, 3, 8, 12))
    at = 2 * math.pi * model.get_patches_center_coordinates(2, 3, dtype=torch.float32, device="cpu")
    return ({"kind": "rotary", "width": 16, "axes": axes([4, 4], at.T.tolist(), base=100)},
            cosines[:, :8].tolist(), sines[:, :8].tolist())


def glm():
    from transformers import GlmConfig
    from transformers.models.glm.modeling_glm import GlmRotaryEmbedding

    config = GlmConfig(hidden_size=32, num_attention_heads=2, head_dim=16, partial_rotary_factor=0.5)
    module = GlmRotaryEmbedding(config)
    cosines, sines = module(torch.zeros(1, 5, 16), torch.tensor([[9, 0, 3, 3, 40]]))
    theta = module.inv_freq.tolist()
    return ({"kind": "rotary", "width": 8, "frequencies": theta, "positions": [9, 0, 3, 3, 40]},
            cosines[0, :, :4].tolist(), sines[0, :, :4].tolist())


MODELS = (qwen2_vl, qwen3_vl, qwen3_vl_vision, dinov3, glm4v, glm)


def of_frequencies(name, length):
    """(body, cosines, sines) of a case; `length` positions if the case has no length of its own."""
    b = body({"length": length} | CASES[name])
    return (b, *tables(b))


def check(table, b, cosines, sines):
    got = table.post("/v1/positions", b).json()
    for name, want in (("cosines", cosines), ("sines", sines)):
        assert np.abs(np.array(got[name]) - want).max() < 1e-6, name


@pytest.mark.parametrize("name", CASES)
def test_frequencies(table, name):
    check(table, *of_frequencies(name, 64))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_models(table, model):
    check(table, *model())


if __name__ == "__main__":
    def row(name, b, cosines, sines):
        tables = {side: [[round(x, 8) for x in row] for row in table] for side, table in (("cosines", cosines), ("sines", sines))}
        return json.dumps(name) + ": " + json.dumps({"body": b} | tables)

    FILE.write_text("{" + ",\n ".join([row(name, *of_frequencies(name, 6)) for name in CASES]
                                      + [row(model.__name__, *model()) for model in MODELS]) + "}\n")
