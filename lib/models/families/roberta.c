/* RoBERTa: BERT whose positions count from the id of padding + 1. Liu et al. 2019. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("type_vocab_size", "num_segments", "2"),
    ROW("pad_token_id", .read = attn_read_pad_offset),
    END,
};

static const family_tensor tensors[] = {
    BERT_EMBEDDING_TENSORS("roberta.embeddings."),
    BERT_LAYER_TENSORS("roberta.encoder."),
    MASKED_HEAD_TENSORS("lm_head.", "dense", "layer_norm"),
    TENSOR("roberta.pooler.*"),
    END,
};

const attn_family attn_family_roberta = {
    .name = "roberta",
    .types = {"roberta", "xlm-roberta", "camembert"},
    .prefix = "roberta.",
    .head = "lm_head.dense",
    .folder = {KEYS(attn_keys_encoder, attn_keys_bert, keys), TENSORS(tensors)},
};
