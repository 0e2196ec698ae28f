/* MPNet: BERT without segments, with a bias for each bucket of distances that all layers share. Song
 * et al. 2020. */
#include "models/families/family.h"

static attn_status read_offset(known_config *k, const attn_json *value, attn_error *err) {
    ATTN_IGNORED(value, err);
    k->config.position_offset = 2; /* behind the id of padding, which is 1 in every file */
    k->config.max_length -= k->config.max_length > 3 ? 2 : 0;
    return ATTN_OK;
}

static const family_key keys[] = {
    BERT_KEYS,
    ROW("relative_attention_num_buckets", .standard = "32"),
    ROW("pad_token_id", .read = read_offset),
    ROW(NULL, .to = "bucket_bias", "true"),
    {0},
};

#define H    "mpnet.encoder.layer.*."
#define OURS "encoder.layers.*."
static const family_tensor tensors[] = {
    BERT_EMBEDDING_TENSORS("mpnet.embeddings."),
    TENSOR("mpnet.encoder.relative_attention_bias", NULL, "src_position_bias", COPIED),
    TENSOR(H "attention.attn.q", NULL, OURS "self_attn.W_q"),
    TENSOR(H "attention.attn.k", NULL, OURS "self_attn.W_k"),
    TENSOR(H "attention.attn.v", NULL, OURS "self_attn.W_v"),
    TENSOR(H "attention.attn.o", NULL, OURS "self_attn.W_o"),
    TENSOR(H "attention.LayerNorm", NULL, OURS "norm1"),
    TENSOR(H "intermediate.dense", NULL, OURS "linear1"),
    TENSOR(H "output.dense", NULL, OURS "linear2"),
    TENSOR(H "output.LayerNorm", NULL, OURS "norm2"),
    MASKED_HEAD_TENSORS("lm_head.", "dense", "layer_norm"),
    TENSOR("mpnet.pooler.*"),
    {0},
};

const attn_family attn_family_mpnet = {
    .name = "mpnet",
    .types = {"mpnet"},
    .prefix = "mpnet.",
    .head = "lm_head.dense",
    .keys = (const family_key *const[]){attn_keys_encoder, keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, NULL},
};
