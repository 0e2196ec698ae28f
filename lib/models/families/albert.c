/* ALBERT: layers that share their parameters, narrow embeddings. Lan et al. 2019. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("hidden_act", "activation", "gelu_tanh"),
    ROW("hidden_act", "head_activation", "gelu_tanh"),
    ROW("type_vocab_size", "num_segments", "2"),
    ROW("embedding_size", "embedding_width", "128"),
    ROW("num_hidden_groups", "num_layer_groups", "1"),
    ROW("inner_group_num", .standard = "1"),
    ROW("net_structure_type", .standard = "0"),
    ROW("gap_size", .standard = "0"),
    ROW("num_memory_blocks", .standard = "0"),
    ROW("down_scale_factor", .standard = "1"),
    END,
};

#define H "albert.encoder.albert_layer_groups.*.albert_layers.0."
static const family_tensor tensors[] = {
    BERT_EMBEDDING_TENSORS("albert.embeddings."),
    TENSOR("albert.encoder.embedding_hidden_mapping_in", "src_embedding_projection"),
    ATTENTION_TENSORS(H "attention.", "query", "key", "value", "dense", ENCODER "self_attn"),
    TENSOR(H "attention.LayerNorm", ENCODER "norm1"),
    TENSOR(H "ffn", ENCODER "linear1"),
    TENSOR(H "ffn_output", ENCODER "linear2"),
    TENSOR(H "full_layer_layer_norm", ENCODER "norm2"),
    MASKED_HEAD_TENSORS("predictions.", "dense", "LayerNorm"),
    TENSOR("sop_classifier.*"), /* predicts the order of two sentences; not used */
    TENSOR("albert.pooler.*"),
    END,
};

const attn_family attn_family_albert = {
    .name = "albert",
    .types = {"albert"},
    .prefix = "albert.",
    .head = "predictions.dense",
    .folder = {KEYS(attn_keys_encoder, attn_keys_bert, keys), TENSORS(tensors)},
};
