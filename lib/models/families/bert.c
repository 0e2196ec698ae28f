/* BERT, MiniLM: learned positions and segments, layer norms after sublayers. Devlin et al. 2018. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("hidden_act", "head_activation", "gelu"),
    ROW("type_vocab_size", "num_segments", "2"),
    END,
};
/* GGUF files of DistilBERT and RoBERTa have this architecture, too. GGUF files have no head of
 * masked words. */
static const family_key gguf[] = {ROW("token_type_count", "num_segments", "0"), END};

static const family_tensor tensors[] = {
    BERT_EMBEDDING_TENSORS("bert.embeddings."),
    BERT_LAYER_TENSORS("bert.encoder."),
    MASKED_HEAD_TENSORS("cls.predictions.", "transform.dense", "transform.LayerNorm"),
    TENSOR("cls.seq_relationship.*"), /* predicts whether one sentence follows another; not used */
    TENSOR("bert.pooler.*"),
    END,
};

const attn_family attn_family_bert = {
    .name = "bert",
    .types = {"bert"},
    .prefix = "bert.",
    .head = "cls.predictions.transform.dense",
    .folder = {KEYS(attn_keys_encoder, attn_keys_bert, keys), TENSORS(tensors)},
    .architecture = "bert",
    .gguf = {KEYS(attn_keys_gguf, gguf), TENSORS(attn_gguf_encoder)},
};
