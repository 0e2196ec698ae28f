/* Granite: Llama with extra factors for embeddings, scores, residual connections and logits. IBM
 * 2024. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("embedding_multiplier", "embedding_scale", "1"),
    ROW("attention_multiplier", "score_scale", "1"),
    ROW("residual_multiplier", "residual_scale", "1"),
    ROW("logits_scaling", "logit_scale", "0", attn_read_inverse),
    END,
};
static const family_key gguf[] = {
    ROW("embedding_scale", "embedding_scale", "1"),
    ROW("attention.scale", "score_scale", "0"),
    ROW("residual_scale", "residual_scale", "1"),
    ROW("logit_scale", "logit_scale", .read = attn_read_inverse),
    /* false would mean that there are no positions */
    ROW("rope.scaling.finetuned", .standard = "true"),
    END,
};

const attn_family attn_family_granite = {
    .name = "granite",
    .types = {"granite"},
    .prefix = "model.",
    .head = "lm_head",
    .folder = {KEYS(attn_keys_decoder, attn_keys_llama, keys), TENSORS(attn_tensors_llama)},
    .architecture = "granite",
    .gguf = {KEYS(attn_keys_gguf, gguf), TENSORS(attn_gguf_paired, attn_gguf_decoder)},
};
