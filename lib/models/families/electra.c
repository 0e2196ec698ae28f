/* ELECTRA, generator and encoder: BERT with narrow embeddings. Clark et al. 2020. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("type_vocab_size", "num_segments", "2"),
    ROW("embedding_size", .read = attn_read_embedding_width),
    END,
};

static const family_tensor tensors[] = {
    BERT_EMBEDDING_TENSORS("electra.embeddings."),
    TENSOR("electra.embeddings_project", "src_embedding_projection"),
    BERT_LAYER_TENSORS("electra.encoder."),
    MASKED_HEAD("generator_predictions.dense", "generator_predictions.LayerNorm",
                "generator_lm_head"),
    END,
};

const attn_family attn_family_electra = {
    .name = "electra",
    .types = {"electra"},
    .prefix = "electra.",
    .head = "generator_predictions.dense",
    .folder = {KEYS(attn_keys_encoder, attn_keys_bert, keys), TENSORS(tensors)},
};
