/* ELECTRA, generator and encoder: BERT with narrow embeddings. Clark et al. 2020. */
#include "models/families/family.h"

/* Embeddings as wide as the model have no projection. */
static attn_status read_width(known_config *k, const attn_json *value, attn_error *err) {
    int64_t width = 128;
    if (value && !attn_json_integer(value, 1, 4096, &width))
        return attn_fail(err, ATTN_EARG, "embedding_size", "expected 1 to 4096");
    k->config.embedding_width = (size_t)width == k->config.width ? 0 : (size_t)width;
    return ATTN_OK;
}

static const family_key keys[] = {
    BERT_KEYS,
    ROW("type_vocab_size", NULL, "num_segments", "2"),
    ROW("embedding_size", .read = read_width),
    {0},
};

static const family_tensor tensors[] = {
    BERT_EMBEDDING_TENSORS("electra.embeddings."),
    TENSOR("electra.embeddings_project", NULL, "src_embedding_projection"),
    BERT_LAYER_TENSORS("electra.encoder."),
    TENSOR("generator_predictions.dense", NULL, "head_dense"),
    TENSOR("generator_predictions.LayerNorm", NULL, "head_norm"),
    TENSOR("generator_lm_head", NULL, "output_projection"),
    TENSOR("generator_lm_head.weight"),
    {0},
};

const attn_family attn_family_electra = {
    .name = "electra",
    .types = {"electra"},
    .prefix = "electra.",
    .head = "generator_predictions.dense",
    .keys = (const family_key *const[]){attn_keys_encoder, keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, NULL},
};
