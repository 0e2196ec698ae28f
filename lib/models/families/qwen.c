/* Qwen 2 and 3: Llama with biases of queries, keys and values, or with norms of queries and keys, and
 * windows in the last layers. Yang et al. 2024, 2025. */
#include "models/families/family.h"

#define LAYER "decoder.layers.*."
static const family_key windows[] = {
    ROW("max_window_layers", .read = attn_read_full_from),
    ROW("use_sliding_window", .read = attn_read_window_on),
    {0},
};
static const family_key keys2[] = {ROW(NULL, .to = "qkv_bias", "yes"), {0}};
static const family_key keys3[] = {ROW(NULL, .to = "query_norm", "head"), {0}};

/* GGUF files of these families have rows of queries and keys in the order of halves. */
static const family_tensor halves[] = {
    TENSOR(NULL, "blk.*.attn_q", LAYER "self_attn.W_q"),
    TENSOR(NULL, "blk.*.attn_k", LAYER "self_attn.W_k"),
    {0},
};
static const family_tensor norms[] = {
    TENSOR("model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm", LAYER "self_attn.q_norm"),
    TENSOR("model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm", LAYER "self_attn.k_norm"),
    {0},
};

const attn_family attn_family_qwen2 = {
    .name = "qwen2",
    .types = {"qwen2"},
    .prefix = "model.",
    .head = "lm_head",
    .gguf = "qwen2",
    .gguf_head = "output",
    .keys = (const family_key *const[]){attn_keys_decoder, attn_keys_llama, windows, keys2, NULL},
    .tensors =
        (const family_tensor *const[]){halves, attn_tensors_llama_outer, attn_tensors_llama, NULL},
};

const attn_family attn_family_qwen3 = {
    .name = "qwen3",
    .types = {"qwen3"},
    .prefix = "model.",
    .head = "lm_head",
    .gguf = "qwen3",
    .gguf_head = "output",
    .keys = (const family_key *const[]){attn_keys_decoder, attn_keys_llama, windows, keys3, NULL},
    .tensors = (const family_tensor *const[]){norms, halves, attn_tensors_llama_outer,
                                              attn_tensors_llama, NULL},
};
