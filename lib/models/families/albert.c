/* ALBERT: layers that share their parameters, narrow embeddings. Lan et al. 2019. */
#include "models/families/family.h"

static const family_key keys[] = {
    BERT_KEYS,
    ROW("hidden_act", NULL, "activation", "gelu_tanh"),
    ROW("hidden_act", NULL, "head_activation", "gelu_tanh"),
    ROW("type_vocab_size", NULL, "num_segments", "2"),
    ROW("embedding_size", NULL, "embedding_width", "128"),
    ROW("num_hidden_groups", NULL, "num_layer_groups", "1"),
    ROW("inner_group_num", .standard = "1"),
    ROW("classifier_dropout_prob"),
    ROW("net_structure_type", .standard = "0"),
    ROW("gap_size", .standard = "0"),
    ROW("num_memory_blocks", .standard = "0"),
    ROW("down_scale_factor", .standard = "1"),
    {0},
};

#define H    "albert.encoder.albert_layer_groups.*.albert_layers.0."
#define OURS "encoder.layers.*."
static const family_tensor tensors[] = {
    BERT_EMBEDDING_TENSORS("albert.embeddings."),
    TENSOR("albert.encoder.embedding_hidden_mapping_in", NULL, "src_embedding_projection"),
    TENSOR(H "attention.query", NULL, OURS "self_attn.W_q"),
    TENSOR(H "attention.key", NULL, OURS "self_attn.W_k"),
    TENSOR(H "attention.value", NULL, OURS "self_attn.W_v"),
    TENSOR(H "attention.dense", NULL, OURS "self_attn.W_o"),
    TENSOR(H "attention.LayerNorm", NULL, OURS "norm1"),
    TENSOR(H "ffn", NULL, OURS "linear1"),
    TENSOR(H "ffn_output", NULL, OURS "linear2"),
    TENSOR(H "full_layer_layer_norm", NULL, OURS "norm2"),
    MASKED_HEAD_TENSORS("predictions.", "dense", "LayerNorm"),
    TENSOR("sop_classifier.*"), /* the order of two sentences */
    TENSOR("albert.pooler.*"),
    {0},
};

const attn_family attn_family_albert = {
    .name = "albert",
    .types = {"albert"},
    .prefix = "albert.",
    .head = "predictions.dense",
    .keys = (const family_key *const[]){attn_keys_encoder, keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, NULL},
};
