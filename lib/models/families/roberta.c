/* RoBERTa: BERT whose positions count from the id of padding + 1. Liu et al. 2019. */
#include "models/families/family.h"

static const family_key keys[] = {
    BERT_KEYS,
    ROW("type_vocab_size", NULL, "num_segments", "2"),
    ROW("pad_token_id", .read = attn_read_pad_offset),
    {0},
};

static const family_tensor tensors[] = {
    BERT_EMBEDDING_TENSORS("roberta.embeddings."),
    BERT_LAYER_TENSORS("roberta.encoder."),
    MASKED_HEAD_TENSORS("lm_head.", "dense", "layer_norm"),
    TENSOR("roberta.pooler.*"),
    {0},
};

const attn_family attn_family_roberta = {
    .name = "roberta",
    .types = {"roberta", "xlm-roberta", "camembert"},
    .prefix = "roberta.",
    .head = "lm_head.dense",
    .keys = (const family_key *const[]){attn_keys_encoder, keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, NULL},
};
