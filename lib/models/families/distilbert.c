/* DistilBERT: BERT without segments. Sanh et al. 2019. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("vocab_size", NULL, "target_vocabulary"),
    ROW("dim", NULL, "width"),
    ROW("n_layers", NULL, "num_layers"),
    ROW("n_heads", NULL, "num_heads"),
    ROW("hidden_dim", NULL, "feed_forward"),
    ROW("activation", NULL, "activation", "gelu"),
    ROW("activation", NULL, "head_activation", "gelu"),
    ROW("max_position_embeddings", NULL, "max_length", "512"),
    ROW("tie_word_embeddings", NULL, "tied", "true"),
    ROW("sinusoidal_pos_embds"), /* files have the table in any case */
    ROW("tie_weights_"),
    ROW("qa_dropout"),
    ROW("seq_classif_dropout"),
    ROW(NULL, .to = "norm_epsilon", "1e-12"),
    {0},
};

#define H "distilbert.transformer.layer.*."
static const family_tensor tensors[] = {
    BERT_EMBEDDING_TENSORS("distilbert.embeddings."),
    TENSOR(H "attention.q_lin", NULL, "encoder.layers.*.self_attn.W_q"),
    TENSOR(H "attention.k_lin", NULL, "encoder.layers.*.self_attn.W_k"),
    TENSOR(H "attention.v_lin", NULL, "encoder.layers.*.self_attn.W_v"),
    TENSOR(H "attention.out_lin", NULL, "encoder.layers.*.self_attn.W_o"),
    TENSOR(H "sa_layer_norm", NULL, "encoder.layers.*.norm1"),
    TENSOR(H "ffn.lin1", NULL, "encoder.layers.*.linear1"),
    TENSOR(H "ffn.lin2", NULL, "encoder.layers.*.linear2"),
    TENSOR(H "output_layer_norm", NULL, "encoder.layers.*.norm2"),
    TENSOR("vocab_transform", NULL, "head_dense"),
    TENSOR("vocab_layer_norm", NULL, "head_norm"),
    TENSOR("vocab_projector", NULL, "output_projection"),
    TENSOR("vocab_projector.weight"),
    {0},
};

const attn_family attn_family_distilbert = {
    .name = "distilbert",
    .types = {"distilbert"},
    .prefix = "distilbert.",
    .head = "vocab_transform",
    .keys = (const family_key *const[]){attn_keys_encoder, keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, NULL},
};
