/* T5: encoder and decoder with RMS norms before sublayers, a bias for each bucket of distances that
 * the layers of a stack share, scores without a factor. Raffel et al. 2020. */
#include <math.h>
#include <string.h>

#include "models/families/family.h"

/* "relu", or "gated-gelu" with the approximation of GELU by tanh, or gated with another one. */
static attn_status read_feed(known_config *k, const attn_json *value, attn_error *err) {
    const char *text = value && value->kind == ATTN_JSON_STRING ? value->text : "relu";
    const attn_model_setting activation = {.kind = ATTN_SETTING_WORD,
                                           .offset = offsetof(attn_model_config, activation),
                                           .words = attn_model_activations};
    k->config.gated = !strncmp(text, "gated-", 6);
    text += k->config.gated ? 6 : 0;
    text = !strcmp(text, "gelu_new") || (k->config.gated && !strcmp(text, "gelu")) ? "gelu_tanh"
                                                                                   : text;
    return attn_models_set(&activation, &k->config, text)
               ? ATTN_OK
               : attn_fail(err, ATTN_EUNSUPPORTED, "feed_forward_proj",
                           "\"%.40s\" is not implemented", text);
}

/* Whether logits are divided by sqrt(width). Files without this key do so if they are tied. */
static attn_status read_scale(known_config *k, const attn_json *value, attn_error *err) {
    if (value && value->kind != ATTN_JSON_BOOL)
        return attn_fail(err, ATTN_EARG, "scale_decoder_outputs", "expected true or false");
    k->config.logit_scale =
        (value ? value->truth : k->config.tied) ? 1 / sqrt((double)k->config.width) : 0;
    return ATTN_OK;
}

static const family_key keys[] = {
    ROW("vocab_size", NULL, "target_vocabulary"),
    ROW("d_model", NULL, "width"),
    ROW("d_kv", NULL, "head_width"),
    ROW("d_ff", NULL, "feed_forward"),
    ROW("num_layers", NULL, "num_layers"),
    ROW("num_decoder_layers", NULL, "num_decoder_layers", "0"),
    ROW("num_heads", NULL, "num_heads"),
    ROW("relative_attention_num_buckets", NULL, "num_buckets", "32"),
    ROW("relative_attention_max_distance", NULL, "bucket_distance", "128"),
    ROW("layer_norm_epsilon", NULL, "norm_epsilon", "1e-6"),
    ROW("feed_forward_proj", .read = read_feed),
    ROW("dense_act_fn"),
    ROW("is_gated_act"), /* both follow from feed_forward_proj */
    ROW("tie_word_embeddings", NULL, "tied", "true"),
    ROW("scale_decoder_outputs", .read = read_scale),
    ROW("n_positions"),
    ROW("dropout_rate"),
    ROW("initializer_factor"),
    ROW(NULL, .to = "architecture", "transformer"),
    ROW(NULL, .to = "norm_kind", "rms"),
    ROW(NULL, .to = "norm", "before"),
    ROW(NULL, .to = "bias", "false"),
    ROW(NULL, .to = "positions", "t5"),
    ROW(NULL, .to = "score_scale", "1"),
    ROW(NULL, .to = "embedding_scale", "1"),
    ROW(NULL, .to = "separate", "true"),
    ROW(NULL, .to = "max_length", "65536"),
    {0},
};

#define ATTENTION(theirs, ours)                                                                    \
    TENSOR(theirs ".q", NULL, ours ".W_q"), TENSOR(theirs ".k", NULL, ours ".W_k"),                \
        TENSOR(theirs ".v", NULL, ours ".W_v"), TENSOR(theirs ".o", NULL, ours ".W_o")
#define FEED(theirs, ours)                                                                         \
    TENSOR(theirs ".wi", NULL, ours "linear1"), TENSOR(theirs ".wi_0", NULL, ours "linear_gate"),  \
        TENSOR(theirs ".wi_1", NULL, ours "linear1"), TENSOR(theirs ".wo", NULL, ours "linear2")
#define BIAS "block.0.layer.0.SelfAttention.relative_attention_bias"
#define OURS "decoder.layers.*."
static const family_tensor tensors[] = {
    TENSOR("shared", NULL, "src_embedding"),
    TENSOR("shared", NULL, "tgt_embedding"),
    TENSOR("encoder." BIAS, NULL, "src_position_bias", COPIED),
    TENSOR("decoder." BIAS, NULL, "tgt_position_bias", COPIED),
    ATTENTION("encoder.block.*.layer.0.SelfAttention", "encoder.layers.*.self_attn"),
    ATTENTION("decoder.block.*.layer.0.SelfAttention", OURS "self_attn"),
    ATTENTION("decoder.block.*.layer.1.EncDecAttention", OURS "multihead_attn"),
    FEED("encoder.block.*.layer.1.DenseReluDense", "encoder.layers.*."),
    FEED("decoder.block.*.layer.2.DenseReluDense", OURS),
    TENSOR("encoder.block.*.layer.0.layer_norm", NULL, "encoder.layers.*.norm1"),
    TENSOR("encoder.block.*.layer.1.layer_norm", NULL, "encoder.layers.*.norm2"),
    TENSOR("decoder.block.*.layer.0.layer_norm", NULL, OURS "norm1"),
    TENSOR("decoder.block.*.layer.1.layer_norm", NULL, OURS "norm2"),
    TENSOR("decoder.block.*.layer.2.layer_norm", NULL, OURS "norm3"),
    TENSOR("encoder.final_layer_norm", NULL, "encoder.norm"),
    TENSOR("decoder.final_layer_norm", NULL, "decoder.norm"),
    TENSOR("lm_head", NULL, "output_projection"),
    TENSOR("encoder.embed_tokens.weight"),
    TENSOR("decoder.embed_tokens.weight"),                                            /* shared */
    TENSOR("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"), /* unused */
    {0},
};

const attn_family attn_family_t5 = {
    .name = "t5",
    .types = {"t5"},
    .prefix = NULL,
    .head = "lm_head",
    .keys = (const family_key *const[]){keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, NULL},
};
