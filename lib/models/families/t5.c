/* T5: encoder and decoder with RMS norms before sublayers, a bias for each bucket of distances that
 * the layers of a stack share, scores without a factor. Raffel et al. 2020. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("d_kv", "head_width"),
    ROW("d_ff", "feed_forward"),
    ROW("num_layers", "num_layers"),
    ROW("num_decoder_layers", "num_decoder_layers", "0"),
    ROW("num_heads", "num_heads"),
    ROW("relative_attention_num_buckets", "num_buckets", "32"),
    ROW("relative_attention_max_distance", "bucket_distance", "128"),
    ROW("layer_norm_epsilon", "norm_epsilon", "1e-6"),
    ROW("feed_forward_proj", .read = attn_read_gated),
    ROW("dense_act_fn"),
    ROW("is_gated_act"), /* no effect: this key and the one before follow from feed_forward_proj */
    ROW("n_positions"),
    ROW("scale_decoder_outputs", .read = attn_read_root_scaled),
    ALWAYS("norm_kind", "rms"),
    ALWAYS("norm", "before"),
    ALWAYS("bias", "false"),
    ALWAYS("positions", "t5"),
    ALWAYS("score_scale", "1"),
    ALWAYS("embedding_scale", "1"),
    ALWAYS("max_length", "65536"),
    END,
};

#define STACK(side, feed, ours, short)                                                             \
    TENSOR("shared", short "_embedding"),                                                          \
        TENSOR(side ".block.0.layer.0.SelfAttention.relative_attention_bias",                      \
               short "_position_bias", COPIED),                                                    \
        ATTENTION_TENSORS(side ".block.*.layer.0.SelfAttention.", "q", "k", "v", "o",              \
                          ours "self_attn"),                                                       \
        TENSOR(side ".block.*.layer.0.layer_norm", ours "norm1"),                                  \
        TENSOR(side ".block.*.layer.1.layer_norm", ours "norm2"),                                  \
        TENSOR(side ".block.*.layer." feed ".DenseReluDense.wi", ours "linear1"),                  \
        TENSOR(side ".block.*.layer." feed ".DenseReluDense.wi_0", ours "linear_gate"),            \
        TENSOR(side ".block.*.layer." feed ".DenseReluDense.wi_1", ours "linear1"),                \
        TENSOR(side ".block.*.layer." feed ".DenseReluDense.wo", ours "linear2"),                  \
        TENSOR(side ".final_layer_norm", side ".norm"), TENSOR(side ".embed_tokens.weight")
#define CROSS "decoder.block.*.layer.1.EncDecAttention."
static const family_tensor tensors[] = {
    STACK("encoder", "1", ENCODER, "src"),
    STACK("decoder", "2", DECODER, "tgt"),
    ATTENTION_TENSORS(CROSS, "q", "k", "v", "o", DECODER "multihead_attn"),
    TENSOR("decoder.block.*.layer.2.layer_norm", DECODER "norm3"),
    TENSOR("lm_head", "output_projection"),
    TENSOR(CROSS "relative_attention_bias.weight"), /* not used: cross-attention has no biases */
    END,
};

const attn_family attn_family_t5 = {
    .name = "t5",
    .types = {"t5"},
    .head = "lm_head",
    .folder = {KEYS(attn_keys_seq2seq, keys), TENSORS(tensors)},
};
