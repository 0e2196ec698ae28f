"""The rotary modules and the masks of model families of transformers beside the service (make check-torch).

A family is a row of FAMILIES. Its classes are made from a small config, so nothing is downloaded and there are no weights.
The request is made from the config alone: it names the kind of rotary positions and its parameters, or the mask."""
import importlib
import inspect

import numpy as np
import pytest
import torch
import transformers
from transformers import masking_utils
from transformers.cache_utils import DynamicCache

from oracle import tensors
from serving import ask

BOUND = 1e-6
WIDTH, LENGTH, LAST, WINDOW, CHUNK = 16, 24, 100, 5, 6
SMALL = {"hidden_size": 4 * WIDTH, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": WIDTH, "num_hidden_layers": 4,
         "vocab_size": 32, "intermediate_size": 32, "max_position_embeddings": 128}
YARN = {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "original_max_position_embeddings": 16}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
MLA = {"qk_rope_head_dim": WIDTH, "qk_nope_head_dim": 8, "v_head_dim": 8, "head_dim": WIDTH, "kv_lora_rank": 8, "q_lora_rank": 8}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 16, "factor": 8.0,
            "short_factor": [1 + 0.1 * i for i in range(8)], "long_factor": [1 + 2.0 * i for i in range(8)]}
# The parameters of a config.json that are fields of `scaling`, under the same names.
SCALING = ("factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "low_freq_factor",
           "high_freq_factor", "short_factor", "long_factor", "attention_factor")

BOTH = ["sliding_attention", "full_attention"] * 2
# Each row: the model type, with the fields of its config that differ from SMALL. `layout` tells which coordinates form a pair
# in that family's code, `deinterleaves` that its function answers the pairs as halves.
FAMILIES = {
    "llama": {"rope_parameters": LLAMA3},
    "qwen2": {"rope_parameters": YARN},
    "qwen3": {}, "qwen3_moe": {}, "mistral": {}, "mixtral": {}, "ministral": {}, "gemma": {}, "gemma2": {"layer_types": BOTH}, "gemma3_text": {"layer_types": BOTH},
    "ministral3": {"rope_parameters": YARN | {"beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}},
    "gemma3n_text": {"layer_types": BOTH, "num_kv_shared_layers": 0, "laurel_rank": 2, "hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": 32},
    "gemma4_text": {"layer_types": BOTH, "global_head_dim": WIDTH}, "vaultgemma": {},
    "gpt_oss": {"rope_parameters": YARN | {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}},
    "phi": {}, "phi3": {"rope_parameters": LONGROPE, "original_max_position_embeddings": 16},
    "phimoe": {}, "granite": {}, "granitemoe": {}, "granite_swa": {}, "smollm3": {},
    "glm": {"layout": "interleaved"}, "glm4": {"layout": "interleaved"}, "glm4_moe": {},
    "cohere": {"layout": "interleaved"}, "cohere2": {"layer_types": BOTH, "layout": "interleaved"},
    "olmo": {}, "olmo2": {}, "olmo3": {"layer_types": BOTH, "rope_parameters": {"full_attention": YARN, "sliding_attention": PLAIN}}, "exaone4": {"rope_parameters": LLAMA3},
    "ernie4_5": {"layout": "interleaved"}, "helium": {"layout": "interleaved"},
    "stablelm": {}, "starcoder2": {}, "persimmon": {}, "nemotron": {}, "diffllama": {}, "doge": {}, "gpt_neox": {},
    "llama4_text": {"layer_types": ["chunked_attention", "full_attention"] * 2, "layout": "interleaved", "rope_parameters": LLAMA3, "attention_chunk_size": CHUNK},
    "deepseek_v2": {"layout": "interleaved", "rope_parameters": YARN, **MLA},
    "deepseek_v3": {"layout": "interleaved", "deinterleaves": True,
                    "rope_parameters": YARN | {"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.8}, **MLA},
    "deepseek_v32": {"layout": "interleaved", "deinterleaves": True, **MLA},
    "glm_moe_dsa": {"layout": "interleaved", "deinterleaves": True, **MLA},
    "longcat_flash": {"layout": "interleaved", "deinterleaves": True, **MLA},
    "minicpm3": {"rope_parameters": LONGROPE, **MLA},
    "falcon": {"head_dim": None}, "falcon_h1": {}, "bamba": {}, "lfm2": {}, "recurrent_gemma": {}, "moonshine": {"layout": "interleaved"},
    "modernbert": {}, "modernbert-decoder": {}, "arcee": {"rope_parameters": YARN}, "apertus": {"rope_parameters": LLAMA3},
    "seed_oss": {}, "hunyuan_v1_dense": {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}},
    "bitnet": {}, "olmoe": {}, "minimax_m2": {}, "dots1": {}, "lfm2_moe": {}, "csm": {},
}
OWN = ("layout", "deinterleaves")  # members of a row that are not of the config


def config_of(family):
    fields = {k: v for k, v in FAMILIES[family].items() if k not in OWN}
    known = transformers.CONFIG_MAPPING[family]
    if "layer_types" in getattr(known, "__dataclass_fields__", {}) or "sliding_window" in getattr(known, "__dataclass_fields__", {}):
        fields = {"sliding_window": WINDOW} | fields
    config = known(**{k: v for k, v in {**SMALL, **fields}.items() if v is not None})
    config._attn_implementation = "sdpa"
    return config


def module_of(config):
    return importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))


def rotary_of(config):
    """The rotary module of the family's text model."""
    module = module_of(config)
    found = [c for n, c in vars(module).items() if inspect.isclass(c) and c.__module__ == module.__name__
             and n.endswith("RotaryEmbedding") and "Vision" not in n and "Audio" not in n]
    assert len(found) == 1, found
    return found[0](config)


def layers_of(config):
    """[(layer type or None, parameters of its rotary positions)]."""
    parameters = config.rope_parameters
    if "rope_type" in parameters:
        return [(None, parameters)]
    return [(kind, p) for kind, p in parameters.items() if p]


def position_of(parameters, layout, length):
    """The field `position` that says what the parameters of a config.json say."""
    kind, base = parameters["rope_type"], parameters["rope_theta"]
    part = parameters.get("partial_rotary_factor") or 1.0
    if kind == "proportional":
        turned = int(part * WIDTH // 2)
        frequencies = [base ** (-2 * t / WIDTH) if t < turned else 0 for t in range(WIDTH // 2)]
        return {"kind": "rotary", "layout": layout, "frequencies": frequencies}
    field = {"kind": "rotary", "layout": layout, "base": base, "dims": int(WIDTH * part)}
    if kind == "default":
        field["scaling"] = {"kind": "linear", "factor": 1}  # float32 frequencies and angles: without scaling they are double
    else:
        field["scaling"] = {"kind": kind} | {k: parameters[k] for k in SCALING if parameters.get(k) is not None}
        if kind == "dynamic":
            field["scaling"]["original_max_position_embeddings"] = length
    return field


def rotate(module, cos_sin, x, family):
    """The family's own function, on x [L, dims] as one head of one sequence."""
    x, row = x[None, None], FAMILIES[family]
    if torch.is_tensor(cos_sin):  # complex numbers
        x = x.transpose(1, 2) if family == "llama4_text" else x
        return module.apply_rotary_emb(x, x, cos_sin)[0].flatten(0, 2)
    turn = module.apply_rotary_pos_emb_interleave if row.get("deinterleaves") else module.apply_rotary_pos_emb
    one = list(inspect.signature(turn).parameters)[1] == "cos"
    out = turn(x, *cos_sin)[0, 0] if one else turn(x, x, *cos_sin)[0][0, 0]
    return out.reshape(len(out), 2, -1).transpose(1, 2).flatten(1) if row.get("deinterleaves") else out


@pytest.mark.parametrize("family", FAMILIES)
def test_rotary(table, family, record_property):
    """Queries turned by the family's module. The keys are unit vectors that stand nowhere, so score j of a query is
    its coordinate j after the rotation. One more key stands at the last position, as the length of the text counts."""
    config = config_of(family)
    rotary, layout = rotary_of(config), FAMILIES[family].get("layout", "halves")
    positions = np.random.default_rng(len(family)).permutation(100)[:LENGTH]
    positions[0] = LAST
    keys = np.vstack([np.eye(WIDTH), np.zeros((1, WIDTH))]).astype(np.float32)
    for layer, parameters in layers_of(config):
        position = position_of(parameters, layout, config.max_position_embeddings)
        dims = position.get("dims", WIDTH)
        x = np.random.default_rng(1).uniform(-1, 1, (LENGTH, WIDTH)).astype(np.float32)
        cos_sin = rotary(torch.zeros(1), torch.from_numpy(positions)[None], **({"layer_type": layer} if layer else {}))
        want = x.copy()
        want[:, :dims] = rotate(module_of(config), cos_sin, torch.from_numpy(x[:, :dims]), family).numpy()
        got = ask(table, {"query": tensors.write(x), "key": tensors.write(keys), "scale": 1, "position": position,
                          "query_positions": positions.tolist(), "key_positions": [None] * WIDTH + [LAST], "return": ["scores"]})
        error = np.abs(np.array(got["scores"])[:, :WIDTH] - want).max()
        record_property(f"error {family} {layer}", float(error))
        assert error <= BOUND, (layer, parameters)


def turned_by_axes(table, x, axes):
    """x [L, WIDTH], of which each axis is (query positions, pairs, more fields)."""
    axes = [{"query_positions": [None if np.isnan(v) else float(v) for v in p], "key_positions": [None] * WIDTH, "num_pairs": n, **more} for p, n, more in axes]
    got = ask(table, {"query": tensors.write(x), "key": tensors.write(np.eye(WIDTH, dtype=np.float32)), "scale": 1,
                      "position": {"kind": "rotary", "layout": "halves", "base": 1e6, "axes": axes}, "return": ["scores"]})
    return np.array(got["scores"])


# Model type, name of the rotary class, pairs of time, height and width, what is said of an axis.
SECTIONS = [("qwen2_vl_text", "Qwen2VLRotaryEmbedding", [2, 3, 3], {}), ("qwen2_5_vl_text", "Qwen2_5_VLRotaryEmbedding", [2, 3, 3], {}),
            ("qwen3_vl_text", "Qwen3VLTextRotaryEmbedding", [4, 2, 2], {"interleaved": True}),
            ("qwen3_5_text", "Qwen3_5TextRotaryEmbedding", [4, 2, 2], {"interleaved": True})]


@pytest.mark.parametrize("family,name,section,more", SECTIONS)
def test_sections(table, family, name, section, more, record_property):
    """M-RoPE: the pairs of a head turn by time, height or width."""
    parameters = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": section, "partial_rotary_factor": 1.0}
    config = transformers.CONFIG_MAPPING[family](**{**SMALL, "rope_parameters": parameters})
    module = module_of(config)
    r = np.random.default_rng(3)
    positions, x = r.integers(0, LAST, (3, LENGTH)), r.uniform(-1, 1, (LENGTH, WIDTH)).astype(np.float32)
    cos_sin = getattr(module, name)(config)(torch.zeros(1), torch.from_numpy(positions)[:, None])
    want = rotate_plain(module, cos_sin, x)
    error = np.abs(turned_by_axes(table, x, [(p, n, more) for p, n in zip(positions, section)]) - want).max()
    record_property(f"error {family}", float(error))
    assert error <= BOUND


def rotate_plain(module, cos_sin, x):
    x = torch.from_numpy(x)[None, None]
    return module.apply_rotary_pos_emb(x, x, *cos_sin)[0][0, 0].numpy()


def test_patches(table):
    """DINOv3: rows and columns of patches; the class token and four registers stand nowhere."""
    from transformers.models.dinov3_vit import modeling_dinov3_vit as module
    config = transformers.DINOv3ViTConfig(**{**SMALL, "image_size": 64, "patch_size": 16})
    rotary = module.DINOv3ViTRopePositionEmbedding(config).eval()
    centres = module.get_patches_center_coordinates(4, 4, dtype=torch.float32, device="cpu") * 2 * np.pi
    x = np.random.default_rng(4).uniform(-1, 1, (5 + 16, WIDTH)).astype(np.float32)
    want = rotate_plain(module, rotary(torch.zeros(1, 3, 64, 64)), x)
    nowhere = [np.nan] * 5
    axes = [([*nowhere, *centres[:, a].tolist()], WIDTH // 4, {"base": config.rope_theta}) for a in range(2)]
    assert np.abs(turned_by_axes(table, x, axes) - want).max() <= BOUND


def kinds_of(config):
    """The layer types whose attention is a softmax over keys."""
    if getattr(config, "layer_types", None):
        return sorted(set(config.layer_types) & MASKS.keys())
    if getattr(config, "sliding_window", None):
        return ["sliding_attention"]
    return ["full_attention"]


MASKS = {
    "full_attention": lambda config: {"is_causal": True},
    "sliding_attention": lambda config: {"is_causal": True, "window": [config.sliding_window - 1, -1]},
    "chunked_attention": lambda config: {"is_causal": True, "pattern": {"kind": "block", "size": config.attention_chunk_size}},
}


def placed(positions):
    """Masks compare these positions in place of the indices."""
    return {"query_positions": positions.tolist(), "key_positions": positions.tolist(), "mask_positions": True}


def visible(table, request, L, S, B=2):
    """The cells that the service sees: queries and keys are zeros, so hidden cells alone have the weight 0."""
    zeros = {"query": tensors.write(np.zeros((B, L, 2), np.float32)), "key": tensors.write(np.zeros((B, S, 2), np.float32))}
    return np.array(ask(table, {**zeros, **request, "return": ["weights"]})["weights"]) > 0


def theirs(kind, config, L, S, B=2, **arguments):
    """The mask of transformers as booleans [B, L, S]; None of it means that the kernel is causal by itself."""
    make = masking_utils.LAYER_PATTERN_TO_MASK_FUNCTION_MAPPING[kind]
    mask = make(config=config, inputs_embeds=torch.zeros(B, L, 1), **{"attention_mask": None, "cache": None, **arguments})
    return np.tril(np.ones((B, L, S), bool), S - L) if mask is None else mask[:, 0].numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_masks(table, family):
    config = config_of(family)
    if not getattr(config, "is_causal", True) or family == "modernbert":
        pytest.skip("its layers see both sides: test_encoder_masks")
    length = 2 * CHUNK + 3
    for kind in kinds_of(config):
        fields = MASKS[kind](config)
        assert (visible(table, fields, length, length) == theirs(kind, config, length, length)).all(), kind
        keep = np.ones((2, length), int)
        keep[1, length - 4:] = 0
        got = visible(table, {**fields, "key_padding_mask": keep.tolist(), "key_padding_semantics": "keep"}, length, length)
        assert (got == theirs(kind, config, length, length, attention_mask=torch.from_numpy(keep))).all(), f"{kind}, padded"
        keep = keep[:, ::-1].copy()
        first = (1 - keep).sum(1, keepdims=True)  # of each sequence: positions and chunks are counted from there
        got = visible(table, {**fields, "key_padding_mask": keep.tolist(), "key_padding_semantics": "keep",
                              **placed(np.arange(length) - first)}, length, length)
        assert (got == theirs(kind, config, length, length, attention_mask=torch.from_numpy(keep))).all(), f"{kind}, padded left"
        starts = [[0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 0, 1, 2]] * 2
        documents = [[0] * 8 + [1] * 4 + [2] * 3] * 2
        got = visible(table, {**fields, "document_ids": documents, **placed(np.array(starts))}, length, length)
        assert (got == theirs(kind, config, length, length, position_ids=torch.tensor(starts))).all(), f"{kind}, packed"


@pytest.mark.parametrize("family", FAMILIES)
def test_masks_of_a_cache(table, family):
    """Three tokens after eleven: a layer with a window has kept its last keys only."""
    config = config_of(family)
    kinds = kinds_of(config)
    if not getattr(config, "is_causal", True) or family == "modernbert" or kinds == ["chunked_attention"]:
        pytest.skip("it has no cache of this kind")
    for kind in kinds:
        if kind == "chunked_attention":
            continue
        cache = DynamicCache(config=config)
        layer = config.layer_types.index(kind) if getattr(config, "layer_types", None) else 0
        cache.update(torch.zeros(2, 1, 11, 2), torch.zeros(2, 1, 11, 2), layer)
        S, first = cache.get_mask_sizes(3, layer)
        got = visible(table, {**MASKS[kind](config), "query_offset": 11 - first}, 3, S)
        assert (got == theirs(kind, config, 3, S, cache=cache, layer_idx=layer)).all(), kind


@pytest.mark.parametrize("family", ["modernbert", "t5gemma"])
def test_encoder_masks(table, family):
    config = config_of("modernbert") if family == "modernbert" else transformers.CONFIG_MAPPING["t5gemma"]().encoder
    config._attn_implementation, config.sliding_window = "sdpa", 3
    keep = np.ones((2, 12), int)
    keep[1, 9:] = 0
    for make, fields in ((masking_utils.create_bidirectional_mask, {}),
                         (masking_utils.create_bidirectional_sliding_window_mask, {"window": [3, 3]})):
        want = make(config=config, inputs_embeds=torch.zeros(2, 12, 1), attention_mask=torch.from_numpy(keep))[:, 0].numpy()
        got = visible(table, {**fields, "key_padding_mask": keep.tolist(), "key_padding_semantics": "keep"}, 12, 12)
        assert (got == want).all(), fields


def test_masks_of_images(table):
    """Gemma 3: causal or of one image. PaliGemma: the prefix sees itself, which is one block."""
    config = config_of("gemma3_text")
    images = [[-1, 0, 0, 0, -1, 1, 1, -1, -1, -1]] * 2
    seen = [[i >= 0 for i in row] for row in images]
    either = {"kind": "all_of", "all_of": [{"kind": "documents", "document_ids": images}, {"kind": "values", "attn_mask": [seen[0]]}]}
    blocks = torch.tensor(images)
    for kind, inner in (("full_attention", []), ("sliding_attention", [{"kind": "window", "window": [WINDOW - 1, -1]}])):
        first = {"kind": "all_of", "all_of": [{"kind": "causal"}, *inner]} if inner else {"kind": "causal"}
        got = visible(table, {"any_of": [first, either]}, 10, 10)
        assert (got == theirs(kind, config, 10, 10, block_sequence_ids=blocks)).all(), kind
    prefix = torch.tensor([[0, 0, 0, -1, -1, -1]] * 2)
    got = visible(table, {"any_of": [{"kind": "causal"}, {"kind": "prefix", "prefix_lengths": [3]}]}, 6, 6)
    want = theirs("full_attention", config_of("gemma"), 6, 6, block_sequence_ids=prefix)
    assert (got == want).all()
