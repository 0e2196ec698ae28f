/* BERT, MiniLM: learned positions and segments, layer norms after sublayers. Devlin et al. 2018. */
#include "models/families/family.h"

static const family_key keys[] = {
    BERT_KEYS,
    ROW("hidden_act", NULL, "head_activation", "gelu"),
    ROW("type_vocab_size", NULL, "num_segments", "2"),
    {0},
};

static const family_tensor tensors[] = {
    BERT_EMBEDDING_TENSORS("bert.embeddings."),
    BERT_LAYER_TENSORS("bert.encoder."),
    MASKED_HEAD_TENSORS("cls.predictions.", "transform.dense", "transform.LayerNorm"),
    TENSOR("cls.seq_relationship.*"), /* whether one sentence follows another */
    TENSOR("bert.pooler.*"),
    {0},
};

const attn_family attn_family_bert = {
    .name = "bert",
    .types = {"bert"},
    .prefix = "bert.",
    .head = "cls.predictions.transform.dense",
    .keys = (const family_key *const[]){attn_keys_encoder, keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, NULL},
};
