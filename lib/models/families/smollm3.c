/* SmolLM3: Llama with some layers that have no positions. Bakouch et al. 2025. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("tie_word_embeddings", NULL, "tied", "true"),
    ROW("no_rope_layers", .read = attn_read_unplaced),
    ROW("no_rope_layer_interval"), /* no_rope_layers lists the layers */
    ROW("max_window_layers", .read = attn_read_full_from),
    ROW("use_sliding_window", .read = attn_read_window_on),
    {0},
};

const attn_family attn_family_smollm3 = {
    .name = "smollm3",
    .types = {"smollm3"},
    .prefix = "model.",
    .head = "lm_head",
    .keys = (const family_key *const[]){attn_keys_decoder, attn_keys_llama, keys, NULL},
    .tensors = (const family_tensor *const[]){attn_tensors_llama_outer, attn_tensors_llama, NULL},
};
