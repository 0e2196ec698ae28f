/* BART and Marian: encoder and decoder with layer norms after sublayers. Lewis et al. 2019;
 * Junczys-Dowmunt et al. 2018. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("vocab_size", NULL, "target_vocabulary"),
    ROW("d_model", NULL, "width"),
    ROW("encoder_layers", NULL, "num_layers"),
    ROW("decoder_layers", NULL, "num_decoder_layers"),
    ROW("encoder_attention_heads", NULL, "num_heads"),
    ROW("decoder_attention_heads", .read = attn_read_decoder_heads),
    ROW("encoder_ffn_dim", NULL, "feed_forward"),
    ROW("decoder_ffn_dim", .read = attn_read_decoder_feed),
    ROW("max_position_embeddings", NULL, "max_length", "1024"),
    ROW("activation_function", NULL, "activation", "gelu"),
    ROW("scale_embedding", .read = attn_read_scale_embedding),
    ROW("tie_word_embeddings", NULL, "tied", "true"),
    ROW("num_hidden_layers"),
    ROW("init_std"),
    ROW("encoder_layerdrop"),
    ROW("decoder_layerdrop"),
    ROW("normalize_before", .standard = "false"),
    ROW("add_final_layer_norm", .standard = "false"),
    ROW("add_bias_logits"),
    ROW("static_position_embeddings"),
    ROW("extra_pos_embeddings"),
    ROW("force_bos_token_to_be_generated"),
    ROW("classif_dropout"),
    ROW(NULL, .to = "architecture", "transformer"),
    ROW(NULL, .to = "norm", "after"),
    ROW(NULL, .to = "separate", "true"),
    ROW(NULL, .to = "stack_norm", "no"),
    ROW(NULL, .to = "logits_bias", "yes"),
    ROW(NULL, .to = "norm_epsilon", "1e-5"),
    {0},
};
static const family_key bart_keys[] = {
    ROW("normalize_embedding", .standard = "true"), ROW(NULL, .to = "positions", "learned"),
    ROW(NULL, .to = "own_positions", "true"),       ROW(NULL, .to = "position_offset", "2"),
    ROW(NULL, .to = "embedding_norm", "true"),      {0},
};
static const family_key marian_keys[] = {
    ROW("decoder_vocab_size", NULL, "source_vocabulary"), /* equal, as embeddings are shared */
    ROW("share_encoder_decoder_embeddings", .standard = "true"),
    ROW("normalize_embedding", .standard = "false"),
    ROW(NULL, .to = "positions", "sinusoidal"),
    ROW(NULL, .to = "sinusoid_halves", "true"),
    {0},
};

#define ATTENTION(theirs, ours)                                                                    \
    TENSOR(theirs ".q_proj", NULL, ours ".W_q"), TENSOR(theirs ".k_proj", NULL, ours ".W_k"),      \
        TENSOR(theirs ".v_proj", NULL, ours ".W_v"), TENSOR(theirs ".out_proj", NULL, ours ".W_o")
#define STACK(side, short, last)                                                                   \
    ATTENTION("model." side ".layers.*.self_attn", side ".layers.*.self_attn"),                    \
        TENSOR("model." side ".layers.*.self_attn_layer_norm", NULL, side ".layers.*.norm1"),      \
        TENSOR("model." side ".layers.*.fc1", NULL, side ".layers.*.linear1"),                     \
        TENSOR("model." side ".layers.*.fc2", NULL, side ".layers.*.linear2"),                     \
        TENSOR("model." side ".layers.*.final_layer_norm", NULL, side ".layers.*." last),          \
        TENSOR("model." side ".embed_positions", NULL, short "_pos_encoding"),                     \
        TENSOR("model." side ".layernorm_embedding", NULL, short "_embedding_norm"),               \
        TENSOR("model.shared", NULL, short "_embedding"),                                          \
        TENSOR("model." side ".embed_tokens.weight")
static const family_tensor tensors[] = {
    STACK("encoder", "src", "norm2"),
    STACK("decoder", "tgt", "norm3"),
    ATTENTION("model.decoder.layers.*.encoder_attn", "decoder.layers.*.multihead_attn"),
    TENSOR("model.decoder.layers.*.encoder_attn_layer_norm", NULL, "decoder.layers.*.norm2"),
    TENSOR("lm_head", NULL, "output_projection"),
    TENSOR("final_logits_bias", NULL, "output_projection.bias", WHOLE),
    {0},
};
static const family_tensor sinusoids[] = {
    TENSOR("model.encoder.embed_positions.weight"), /* made anew */
    TENSOR("model.decoder.embed_positions.weight"),
    {0},
};

const attn_family attn_family_bart = {
    .name = "bart",
    .types = {"bart"},
    .prefix = "model.",
    .head = "final_logits_bias",
    .keys = (const family_key *const[]){keys, bart_keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, NULL},
};

const attn_family attn_family_marian = {
    .name = "marian",
    .types = {"marian"},
    .prefix = "model.",
    .head = "final_logits_bias",
    .keys = (const family_key *const[]){keys, marian_keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, sinusoids, NULL},
};
