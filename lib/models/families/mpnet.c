/* MPNet: BERT without segments, with a bias for each bucket of distances. All layers share these
 * biases. Song et al. 2020. */
#include "models/families/family.h"

static attn_status read_offset(known_config *k, const family_key *row, const attn_json *value,
                               attn_error *err) {
    (void)row, (void)value, (void)err;
    /* positions begin behind the id of padding, which is 1 in every file */
    k->config.position_offset = 2;
    k->config.max_length -= k->config.max_length > 3 ? 2 : 0;
    return ATTN_OK;
}

static const family_key keys[] = {
    ROW("relative_attention_num_buckets", .standard = "32"),
    ROW("pad_token_id", .read = read_offset),
    ALWAYS("bucket_bias", "true"),
    END,
};

#define H "mpnet.encoder.layer.*."
static const family_tensor tensors[] = {
    BERT_EMBEDDING_TENSORS("mpnet.embeddings."),
    TENSOR("mpnet.encoder.relative_attention_bias", "src_position_bias", COPIED),
    ATTENTION_TENSORS(H "attention.attn.", "q", "k", "v", "o", ENCODER "self_attn"),
    TENSOR(H "attention.LayerNorm", ENCODER "norm1"),
    BERT_FEED_TENSORS(H),
    MASKED_HEAD_TENSORS("lm_head.", "dense", "layer_norm"),
    TENSOR("mpnet.pooler.*"),
    END,
};

const attn_family attn_family_mpnet = {
    .name = "mpnet",
    .types = {"mpnet"},
    .prefix = "mpnet.",
    .head = "lm_head.dense",
    .folder = {KEYS(attn_keys_encoder, attn_keys_bert, keys), TENSORS(tensors)},
};
