/* Granite: Llama with factors of embeddings, scores, residual connections and logits. IBM 2024. */
#include "models/families/family.h"

static attn_status read_logits(known_config *k, const attn_json *value, attn_error *err) {
    if (!value)
        return ATTN_OK;
    if (value->kind != ATTN_JSON_NUMBER || !(value->number > 0))
        return attn_fail(err, ATTN_EARG, "logits_scaling", "expected a number above 0");
    k->config.logit_scale = 1 / value->number;
    return ATTN_OK;
}

static const family_key keys[] = {
    ROW("embedding_multiplier", NULL, "embedding_scale", "1"),
    ROW("attention_multiplier", NULL, "score_scale", "1"),
    ROW("residual_multiplier", NULL, "residual_scale", "1"),
    ROW("logits_scaling", .read = read_logits),
    {0},
};

const attn_family attn_family_granite = {
    .name = "granite",
    .types = {"granite"},
    .prefix = "model.",
    .head = "lm_head",
    .keys = (const family_key *const[]){attn_keys_decoder, attn_keys_llama, keys, NULL},
    .tensors = (const family_tensor *const[]){attn_tensors_llama_outer, attn_tensors_llama, NULL},
};
