/* BART: encoder and decoder with layer norms after sublayers. Lewis et al. 2019. */
#include "models/families/family.h"

const family_key attn_keys_bart[] = {
    ROW("encoder_layers", "num_layers"),
    ROW("decoder_layers", "num_decoder_layers"),
    ROW("encoder_attention_heads", "num_heads"),
    ROW("decoder_attention_heads", .read = attn_read_decoder_heads),
    ROW("encoder_ffn_dim", "feed_forward"),
    ROW("decoder_ffn_dim", .read = attn_read_decoder_feed),
    ROW("max_position_embeddings", "max_length", "1024"),
    ROW("activation_function", "activation", "gelu"),
    ROW("scale_embedding", .read = attn_read_scale_embedding),
    ROW("num_hidden_layers"),
    ROW("add_bias_logits"),
    ROW("static_position_embeddings"),
    ROW("extra_pos_embeddings"),
    ROW("normalize_before", .standard = "false"),
    ROW("add_final_layer_norm", .standard = "false"),
    ALWAYS("norm", "after"),
    ALWAYS("stack_norm", "no"),
    ALWAYS("logits_bias", "yes"),
    ALWAYS("norm_epsilon", "1e-5"),
    END,
};
static const family_key keys[] = {
    ROW("normalize_embedding", .standard = "true"),
    ALWAYS("positions", "learned"),
    ALWAYS("own_positions", "true"),
    ALWAYS("position_offset", "2"),
    ALWAYS("embedding_norm", "true"),
    END,
};

#define ATTENTION(p, ours) ATTENTION_TENSORS(p, "q_proj", "k_proj", "v_proj", "out_proj", ours)
#define STACK(p, ours, short, last)                                                                \
    ATTENTION(p "layers.*.self_attn.", ours "self_attn"),                                          \
        TENSOR(p "layers.*.self_attn_layer_norm", ours "norm1"),                                   \
        TENSOR(p "layers.*.fc1", ours "linear1"), TENSOR(p "layers.*.fc2", ours "linear2"),        \
        TENSOR(p "layers.*.final_layer_norm", ours last),                                          \
        TENSOR(p "embed_positions", short "_pos_encoding"),                                        \
        TENSOR(p "layernorm_embedding", short "_embedding_norm"),                                  \
        TENSOR("model.shared", short "_embedding"), TENSOR(p "embed_tokens.weight")
const family_tensor attn_tensors_bart[] = {
    STACK("model.encoder.", ENCODER, "src", "norm2"),
    STACK("model.decoder.", DECODER, "tgt", "norm3"),
    ATTENTION("model.decoder.layers.*.encoder_attn.", DECODER "multihead_attn"),
    TENSOR("model.decoder.layers.*.encoder_attn_layer_norm", DECODER "norm2"),
    TENSOR("lm_head", "output_projection"),
    TENSOR("final_logits_bias", "output_projection.bias", WHOLE),
    END,
};

const attn_family attn_family_bart = {
    .name = "bart",
    .types = {"bart"},
    .prefix = "model.",
    .head = "final_logits_bias",
    .folder = {KEYS(attn_keys_seq2seq, attn_keys_bart, keys), TENSORS(attn_tensors_bart)},
};
