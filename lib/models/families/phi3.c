/* Phi-3 and 4: Llama with matrices packed by rows, rotary positions on a part of the width, longrope.
 * Abdin et al. 2024. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("partial_rotary_factor", .read = attn_read_rotary_part),
    ROW("original_max_position_embeddings"), /* attn_read_rope reads this key */
    ROW("rope_scaling", .read = attn_read_rope),
    ROW("rope_parameters", .read = attn_read_rope),
    END,
};

static const family_tensor packed[] = {
    PACKED_THREE("model.layers.*.self_attn.qkv_proj", DECODER "self_attn", 0),
    PACKED_TWO("model.layers.*.mlp.gate_up_proj", DECODER "linear_gate", DECODER "linear1"),
    END,
};
static const family_tensor gguf_packed[] = {
    PACKED_TWO("blk.*.ffn_up", DECODER "linear_gate", DECODER "linear1"), END};

const attn_family attn_family_phi3 = {
    .name = "phi3",
    .types = {"phi3"},
    .prefix = "model.",
    .head = "lm_head",
    .folder = {KEYS(attn_keys_decoder, attn_keys_llama, keys), TENSORS(packed, attn_tensors_llama)},
    .architecture = "phi3",
    .gguf = {KEYS(attn_keys_gguf), TENSORS(gguf_packed, attn_gguf_decoder)},
};
