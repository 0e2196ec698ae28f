/* Qwen 2 and 3: Llama with biases of queries, keys and values, or with norms of queries and keys, and
 * windows in the last layers. Yang et al. 2024, 2025. */
#include "models/families/family.h"

const family_key attn_keys_qwen[] = {
    ROW("max_window_layers", .read = attn_read_full_from),
    ROW("use_sliding_window", .read = attn_read_window_on),
    END,
};
static const family_key keys2[] = {ALWAYS("qkv_bias", "yes"), END};
static const family_key keys3[] = {ALWAYS("query_norm", "head"), END};

static const family_tensor norms[] = {
    TENSOR("model.layers.*.self_attn.q_norm", DECODER "self_attn.q_norm"),
    TENSOR("model.layers.*.self_attn.k_norm", DECODER "self_attn.k_norm"),
    END,
};

const attn_family attn_family_qwen2 = {
    .name = "qwen2",
    .types = {"qwen2"},
    .prefix = "model.",
    .head = "lm_head",
    .folder = {KEYS(attn_keys_decoder, attn_keys_llama, attn_keys_qwen, keys2),
               TENSORS(attn_tensors_llama)},
    .architecture = "qwen2",
    .gguf = {KEYS(attn_keys_gguf), TENSORS(attn_gguf_decoder)},
};

const attn_family attn_family_qwen3 = {
    .name = "qwen3",
    .types = {"qwen3"},
    .prefix = "model.",
    .head = "lm_head",
    .folder = {KEYS(attn_keys_decoder, attn_keys_llama, attn_keys_qwen, keys3),
               TENSORS(norms, attn_tensors_llama)},
    .architecture = "qwen3",
    .gguf = {KEYS(attn_keys_gguf), TENSORS(attn_gguf_decoder)},
};
