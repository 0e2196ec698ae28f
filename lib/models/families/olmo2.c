/* OLMo 2: norms of what sublayers make, and of all queries and keys. Walsh et al. 2024. */
#include "models/families/family.h"

#define LAYER "decoder.layers.*."
static const family_key keys[] = {
    ROW(NULL, .to = "norm", "inside"),
    ROW(NULL, .to = "query_norm", "whole"),
    {0},
};

static const family_tensor norms[] = {
    TENSOR("model.layers.*.post_attention_layernorm", NULL, LAYER "norm1"),
    TENSOR("model.layers.*.post_feedforward_layernorm", NULL, LAYER "norm2"),
    TENSOR("model.layers.*.self_attn.q_norm", NULL, LAYER "self_attn.q_norm"),
    TENSOR("model.layers.*.self_attn.k_norm", NULL, LAYER "self_attn.k_norm"),
    {0},
};

const attn_family attn_family_olmo2 = {
    .name = "olmo2",
    .types = {"olmo2"},
    .prefix = "model.",
    .head = "lm_head",
    .keys = (const family_key *const[]){attn_keys_decoder, attn_keys_llama, keys, NULL},
    .tensors =
        (const family_tensor *const[]){norms, attn_tensors_llama_outer, attn_tensors_llama, NULL},
};
