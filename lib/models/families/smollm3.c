/* SmolLM3: Llama with some layers that have no positions. Bakouch et al. 2025. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("tie_word_embeddings", "tied", "true"),
    ROW("no_rope_layers", .read = attn_read_unplaced),
    ROW("no_rope_layer_interval"), /* no effect: no_rope_layers lists the layers */
    END,
};

/* GGUF files do not list the layers without positions. These are every fourth layer. */
static attn_status read_fourth(known_config *k, const family_key *row, const attn_json *value,
                               attn_error *err) {
    (void)row, (void)value, (void)err;
    for (size_t l = 3; l < attn_layers_count(k); l += 4)
        attn_layers_set(&k->config.unplaced_layers, l, true);
    return ATTN_OK;
}
static const family_key gguf[] = {ROW(NULL, .read = read_fourth), END};

const attn_family attn_family_smollm3 = {
    .name = "smollm3",
    .types = {"smollm3"},
    .prefix = "model.",
    .head = "lm_head",
    .folder = {KEYS(attn_keys_decoder, attn_keys_llama, attn_keys_qwen, keys),
               TENSORS(attn_tensors_llama)},
    .architecture = "smollm3",
    .gguf = {KEYS(attn_keys_gguf, gguf), TENSORS(attn_gguf_paired, attn_gguf_decoder)},
};
