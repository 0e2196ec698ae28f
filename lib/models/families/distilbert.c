/* DistilBERT: BERT without segments. Sanh et al. 2019. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("vocab_size", "target_vocabulary"),
    ROW("dim", "width"),
    ROW("n_layers", "num_layers"),
    ROW("n_heads", "num_heads"),
    ROW("hidden_dim", "feed_forward"),
    ROW("activation", "activation", "gelu"),
    ROW("activation", "head_activation", "gelu"),
    ROW("max_position_embeddings", "max_length", "512"),
    ROW("tie_word_embeddings", "tied", "true"),
    ROW("sinusoidal_pos_embds"), /* no effect: files have the table in any case */
    ROW("tie_weights_"),
    ALWAYS("norm_epsilon", "1e-12"),
    END,
};

#define H "distilbert.transformer.layer.*."
static const family_tensor tensors[] = {
    BERT_EMBEDDING_TENSORS("distilbert.embeddings."),
    ATTENTION_TENSORS(H "attention.", "q_lin", "k_lin", "v_lin", "out_lin", ENCODER "self_attn"),
    TENSOR(H "sa_layer_norm", ENCODER "norm1"),
    TENSOR(H "ffn.lin1", ENCODER "linear1"),
    TENSOR(H "ffn.lin2", ENCODER "linear2"),
    TENSOR(H "output_layer_norm", ENCODER "norm2"),
    MASKED_HEAD("vocab_transform", "vocab_layer_norm", "vocab_projector"),
    END,
};

const attn_family attn_family_distilbert = {
    .name = "distilbert",
    .types = {"distilbert"},
    .prefix = "distilbert.",
    .head = "vocab_transform",
    .folder = {KEYS(attn_keys_encoder, keys), TENSORS(tensors)},
};
