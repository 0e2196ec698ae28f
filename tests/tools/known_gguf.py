"""Writes models of transformers as GGUF files: keys and names of tensors are those of PyPI's gguf, rows stand where its
architectures have them, and matrices are of every type that the library reads (tests/tools/known_models)."""
import math
import random

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize

FAMILIES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma2": "gemma2", "gemma3": "gemma3", "phi3": "phi3", "olmo2": "olmo2", "smollm3": "smollm3",
            "granite": "granite", "gpt2": "gpt2", "gpt_neox": "gptneox", "bert": "bert", "roberta": "bert", "distilbert": "bert", "modernbert": "modern-bert"}
ENCODERS = {"bert": "BertModel", "roberta": "RobertaModel", "distilbert": "DistilBertModel", "modernbert": "ModernBertModel"}
PAIRED = ("llama", "smollm3", "granite")  # rows of queries and keys are in the order of interleaved rotary positions
PLAIN = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
# Blocks that gguf cannot make: where the factor of a block stands, and that of its offsets, which is so many times as large.
SUPER = {"Q2_K": (80, 82, 1.5), "Q3_K": (108, None, 0), "Q4_K": (0, 2, 7.5), "Q5_K": (0, 2, 15.5), "Q6_K": (208, None, 0)}


def one_of(*values):
    return random.choice(values)


def rope(family):
    """Rotary positions whose scaling a file of the family can say."""
    kind = one_of("default", "linear", "yarn", *(["llama3"] if family in ("llama", "smollm3") else []))
    out = {"rope_theta": one_of(5e3, 1e4), "rope_type": kind}
    if kind != "default":
        out["factor"] = one_of(2.0, 8.0)
    if kind in ("yarn", "llama3"):
        out["original_max_position_embeddings"] = one_of(6, 16)
    if kind == "yarn":
        out |= one_of({}, {"beta_fast": 16.0, "beta_slow": 2.0})
    return out | ({"low_freq_factor": 1.0, "high_freq_factor": 4.0} if kind == "llama3" else {})


def sized(family, options, wide):
    """Options with widths of whole blocks, and without what a file of the family cannot say."""
    width, feed, heads = (256, 256, 4) if wide else (32, one_of(32, 64), 4)
    E = width // heads
    if family in ("gpt2",):
        return options | {"n_embd": width, "n_head": heads, "n_inner": one_of(None, feed), "activation_function": "gelu_new"}
    if family == "distilbert":
        return options | {"dim": width, "n_heads": heads, "hidden_dim": feed, "activation": "gelu"}
    out = options | {"hidden_size": width, "intermediate_size": feed, "num_attention_heads": heads}
    if family == "modernbert":
        return out | {"hidden_activation": "gelu", "norm_bias": False}
    if family in ENCODERS:
        return out | {"hidden_act": "gelu"} | ({"type_vocab_size": one_of(1, 2)} if family == "roberta" else {})
    if family == "gpt_neox":
        return out | {"hidden_act": "gelu", "rope_parameters": {"rope_theta": 1e4, "rope_type": "default", "partial_rotary_factor": one_of(0.25, 0.5, 1.0)}}
    out |= {"num_key_value_heads": one_of(1, 2, 4), "hidden_act": "silu", "use_sliding_window": False}
    if "head_dim" in out:
        out["head_dim"] = E if wide else one_of(8, 16)
    if family in ("gemma2", "gemma3"):
        del out["hidden_act"], out["use_sliding_window"]
        out |= {"query_pre_attn_scalar": out["head_dim"], "tie_word_embeddings": True}
        out.pop("layer_types", None)
    else:
        out["sliding_window"] = one_of(None, 4) if family == "phi3" else None
    if family == "gemma3":
        out["num_hidden_layers"] = 7  # of which the sixth has no window
        out["rope_parameters"] = {"sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                                  "full_attention": {"rope_theta": 1e6} | one_of({"rope_type": "default"}, {"rope_type": "linear", "factor": 8.0})}
    elif family == "phi3":
        part = one_of(1.0, 0.5)
        pairs = int(E * part) // 2
        out["rope_parameters"] = one_of({"rope_type": "default"}, {"rope_type": "longrope", "short_factor": [1.0 + n / 9 for n in range(pairs)],
                                                                   "long_factor": [2.0 + n for n in range(pairs)]}) | {"rope_theta": 1e4, "partial_rotary_factor": part}
    else:
        out["rope_parameters"] = {"rope_theta": 1e4, "rope_type": "default"} if family == "gemma2" else rope(family)
    if family == "smollm3":
        out["num_hidden_layers"] = 5  # of which the fourth has no positions
        del out["no_rope_layers"]
    return {key: value for key, value in out.items() if value is not None or key == "sliding_window"}


def write_keys(w, family, config):
    """The keys, as llama.cpp's converter chooses them."""
    get = lambda *names: next((x for x in (getattr(config, name, None) for name in names) if x is not None), None)
    width, heads = get("hidden_size"), get("num_attention_heads")
    w.add_block_count(get("num_hidden_layers"))
    w.add_context_length(get("max_position_embeddings") - (config.pad_token_id + 1 if family == "roberta" else 0))
    w.add_embedding_length(width)
    w.add_feed_forward_length(get("intermediate_size", "n_inner", "hidden_dim") or 4 * width)
    w.add_head_count(heads)
    if get("num_key_value_heads"):
        w.add_head_count_kv(config.num_key_value_heads)
    if get("head_dim"):
        w.add_key_length(config.head_dim)
        w.add_value_length(config.head_dim)
    if get("rms_norm_eps"):
        w.add_layer_norm_rms_eps(config.rms_norm_eps)
    else:
        w.add_layer_norm_eps(get("layer_norm_eps", "layer_norm_epsilon", "norm_eps") or 1e-12)
    if family in ENCODERS:
        w.add_causal_attention(False)
        w.add_pooling_type(gguf.PoolingType.MEAN)
        if family in ("bert", "roberta"):
            w.add_token_type_count(config.type_vocab_size)
    if family == "modernbert":
        w.add_sliding_window(config.local_attention)
        w.add_sliding_window_pattern(3)
        w.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
        w.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
        w.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    elif get("sliding_window") or family == "phi3":
        w.add_sliding_window(get("sliding_window") or 0)
    if family == "gemma2":
        for add, value in ((w.add_attn_logit_softcapping, config.attn_logit_softcapping), (w.add_final_logit_softcapping, config.final_logit_softcapping)):
            if value:
                add(value)
    if family == "gemma3" and config.final_logit_softcapping:
        w.add_final_logit_softcapping(config.final_logit_softcapping)
    if family == "granite":
        w.add_attention_scale(config.attention_multiplier)
        w.add_embedding_scale(config.embedding_multiplier)
        w.add_residual_scale(config.residual_multiplier)
        w.add_logit_scale(config.logits_scaling)
    if family == "gpt_neox":
        w.add_parallel_residual(config.use_parallel_residual)
    write_rope(w, family, config)
    w.add_string("general.name", "a random model")
    w.add_tokenizer_model("gpt2")
    w.add_array("tokenizer.ggml.tokens", [str(i) for i in range(config.vocab_size)])


def write_rope(w, family, config):
    said = getattr(config, "rope_parameters", None)
    if not said or family == "modernbert":
        return
    said = said.get("full_attention", said)
    E = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    dims = int(E * said.get("partial_rotary_factor", 1.0))
    if family not in ("gemma2", "gpt_neox"):
        w.add_rope_freq_base(said["rope_theta"])
    if family in ("phi3", "gpt_neox", "llama"):
        w.add_rope_dimension_count(dims)
    if said["rope_type"] in ("linear", "yarn"):
        w.add_rope_scaling_type(gguf.RopeScalingType(said["rope_type"]))
        w.add_rope_scaling_factor(said["factor"])
    if said["rope_type"] == "yarn":
        w.add_rope_scaling_orig_ctx_len(said["original_max_position_embeddings"])
        if "beta_fast" in said:
            w.add_rope_scaling_yarn_beta_fast(said["beta_fast"])
            w.add_rope_scaling_yarn_beta_slow(said["beta_slow"])
    if family == "phi3":
        w.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
    if said["rope_type"] == "longrope":
        growth = config.max_position_embeddings / config.original_max_position_embeddings
        w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(growth) / math.log(config.original_max_position_embeddings)) if growth > 1 else 1.0)
        for which in ("long", "short"):
            w.add_tensor(f"rope_factors_{which}.weight", np.array(said[f"{which}_factor"], np.float32))
    if said["rope_type"] == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(said, dims))


def llama3_factors(said, dims):
    """What divides the frequencies; short waves keep theirs, long ones are divided by factor."""
    out, length = [], said["original_max_position_embeddings"]
    low, high = said["low_freq_factor"], said["high_freq_factor"]
    for t in range(0, dims, 2):
        wave = 2 * math.pi * said["rope_theta"] ** (t / dims)
        smooth = min(1.0, max(0.0, (length / wave - low) / (high - low)))
        out.append(1 / ((1 - smooth) / said["factor"] + smooth))
    return np.array(out, np.float32)


def rows_of(family, name, config, rows):
    """The order of rows in a file, if it is another one."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": getattr(config, "num_key_value_heads", 0)}
    count = heads.get(name.split(".")[-2])
    if family in PAIRED and count:
        return np.arange(rows).reshape(count, 2, -1).swapaxes(1, 2).reshape(-1)
    if "query_key_value" in name:  # heads alternate; in a file all queries come first
        return np.arange(rows).reshape(config.num_attention_heads, 3, -1).swapaxes(0, 1).reshape(-1)
    return np.arange(config.pad_token_id + 1, rows) if family == "roberta" and "position_embeddings" in name else np.arange(rows)


def pack(x, number, wide):
    """The blocks of a matrix, their type and their values. Blocks that gguf cannot make are random."""
    kinds = [*PLAIN, *(SUPER if wide and x.shape[-1] % 256 == 0 else [])]
    kind = kinds[number % len(kinds)] if x.ndim == 2 and x.shape[-1] % 32 == 0 else "F32"
    quantised = gguf.GGMLQuantizationType[kind]
    if kind not in SUPER:
        packed = quantize(np.ascontiguousarray(x), quantised)
        return packed, quantised, dequantize(packed, quantised)
    values, size = gguf.GGML_QUANT_SIZES[quantised]
    factor, offsets, ratio = SUPER[kind]
    blocks = np.random.default_rng(number).integers(0, 256, (x.size // values, size), dtype=np.uint8)

    def scaled(by):
        blocks[:, factor:factor + 2] = np.frombuffer(np.float16(by).tobytes(), np.uint8)
        if offsets:
            blocks[:, offsets:offsets + 2] = np.frombuffer(np.float16(by * ratio).tobytes(), np.uint8)
        return dequantize(blocks, quantised).reshape(x.shape)
    scaled(x.std() / scaled(1.0).std())
    return blocks.reshape(x.shape[0], -1), quantised, dequantize(blocks, quantised).reshape(x.shape)


def write(path, model, config, family, first, wide):
    """Writes the model, and gives it the weights that the file has. `first` is the type of the first matrix."""
    w = gguf.GGUFWriter(path, FAMILIES[family])
    write_keys(w, family, config)
    names = gguf.get_tensor_name_map(next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == FAMILIES[family]), config.num_hidden_layers)
    number = first
    for name, p in model.named_parameters():
        if "pooler" in name:
            continue
        x = p.detach().float().numpy()
        turned = family == "gpt2" and x.ndim == 2 and ".h." in name
        more = 1 if family.startswith("gemma") and name.endswith("norm.weight") else 0
        rows = rows_of(family, name, config, x.shape[1 if turned else 0])
        packed, kind, values = pack((x.T if turned else x)[rows] + np.float32(more), number, wide)
        with torch.no_grad():
            back = x.T.copy() if turned else x.copy()
            back[rows] = values - np.float32(more)
            p.copy_(torch.from_numpy(back.T.copy() if turned else back))
        there = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert there, name
        w.add_tensor(there, packed, raw_dtype=kind)
        number += x.ndim == 2
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
