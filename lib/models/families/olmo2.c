/* OLMo 2: norms of the outputs of sublayers, and norms of queries and keys over all heads together.
 * Walsh et al. 2024. */
#include "models/families/family.h"

static const family_key keys[] = {ALWAYS("norm", "inside"), ALWAYS("query_norm", "whole"), END};
/* Files of OLMo 3 have this architecture, too. */
static const family_key gguf[] = {ROW("attention.sliding_window", .standard = "0"), END};

static const family_tensor norms[] = {
    TENSOR("model.layers.*.post_attention_layernorm", DECODER "norm1"),
    TENSOR("model.layers.*.post_feedforward_layernorm", DECODER "norm2"),
    TENSOR("model.layers.*.self_attn.q_norm", DECODER "self_attn.q_norm"),
    TENSOR("model.layers.*.self_attn.k_norm", DECODER "self_attn.k_norm"),
    END,
};
static const family_tensor gguf_norms[] = {TENSOR("blk.*.post_attention_norm", DECODER "norm1"),
                                           TENSOR("blk.*.post_ffw_norm", DECODER "norm2"), END};

const attn_family attn_family_olmo2 = {
    .name = "olmo2",
    .types = {"olmo2"},
    .prefix = "model.",
    .head = "lm_head",
    .folder = {KEYS(attn_keys_decoder, attn_keys_llama, keys), TENSORS(norms, attn_tensors_llama)},
    .architecture = "olmo2",
    .gguf = {KEYS(attn_keys_gguf, gguf), TENSORS(gguf_norms, attn_gguf_decoder)},
};
