/* Phi-3 and 4: Llama with matrices packed by rows, rotary positions on a part of the width, longrope.
 * Abdin et al. 2024. */
#include "models/families/family.h"

#define LAYER "decoder.layers.*."
static const family_key keys[] = {
    ROW("partial_rotary_factor", .read = attn_read_rotary_part),
    ROW("original_max_position_embeddings"), /* attn_read_rope reads it */
    ROW("rope_scaling", .read = attn_read_rope),
    ROW("rope_parameters", .read = attn_read_rope),
    {0},
};

static const family_tensor packed[] = {
    TENSOR("model.layers.*.self_attn.qkv_proj", NULL, LAYER "self_attn.W_q", PART_ONE),
    TENSOR("model.layers.*.self_attn.qkv_proj", NULL, LAYER "self_attn.W_k", PART_TWO),
    TENSOR("model.layers.*.self_attn.qkv_proj", NULL, LAYER "self_attn.W_v", PART_THREE),
    TENSOR("model.layers.*.mlp.gate_up_proj", NULL, LAYER "linear_gate", PART_ONE),
    TENSOR("model.layers.*.mlp.gate_up_proj", NULL, LAYER "linear1", PART_TWO),
    {0},
};

const attn_family attn_family_phi3 = {
    .name = "phi3",
    .types = {"phi3"},
    .prefix = "model.",
    .head = "lm_head",
    .keys = (const family_key *const[]){attn_keys_decoder, attn_keys_llama, keys, NULL},
    .tensors =
        (const family_tensor *const[]){packed, attn_tensors_llama_outer, attn_tensors_llama, NULL},
};
