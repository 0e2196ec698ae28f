/* ModernBERT: rotary positions, windows in most layers, norms before sublayers. Warner et al. 2024. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("norm_eps", "norm_epsilon", "1e-5"),
    ROW("hidden_activation", "activation", "gelu"),
    ROW("classifier_activation", "head_activation", "gelu"),
    ROW("classifier_bias", "bias", "false"),
    ROW("attention_bias", "qkv_bias", "no"),
    ROW("attention_bias", "output_bias", "no"),
    ROW("mlp_bias", "feed_forward_bias", "no"),
    ROW("norm_bias", "norm_bias", "no"),
    ROW("decoder_bias", "logits_bias", "yes"),
    ROW("global_rope_theta", "rotary_base", "160000"),
    ROW("local_rope_theta", "local_rotary_base", "10000"),
    ROW("rope_parameters", .read = attn_read_rope),
    ROW("local_attention", .standard = "128", .read = attn_read_half_window),
    ROW("layer_types", .read = attn_read_layer_types),
    ROW("global_attn_every_n_layers", .standard = "3", .read = attn_read_every_first),
    ALWAYS("norm", "before"),
    ALWAYS("positions", "rotary"),
    ALWAYS("gated", "true"),
    ALWAYS("skips_first_norm", "true"),
    END,
};

static const family_key gguf[] = {
    ROW("rope.freq_base", "rotary_base", "160000"),
    ROW("rope.freq_base_swa", "local_rotary_base", "10000"),
    ROW("attention.sliding_window", .standard = "128", .read = attn_read_half_window),
    ROW("attention.sliding_window_pattern", .standard = "3", .read = attn_read_every_first),
    END,
};

#define H "model.layers.*."
static const family_tensor tensors[] = {
    TENSOR("model.embeddings.tok_embeddings", "src_embedding"),
    TENSOR("model.embeddings.norm", "src_embedding_norm"),
    TENSOR(H "attn_norm", ENCODER "norm1"),
    PACKED_THREE(H "attn.Wqkv", ENCODER "self_attn", 0),
    TENSOR(H "attn.Wo", ENCODER "self_attn.W_o"),
    TENSOR(H "mlp_norm", ENCODER "norm2"),
    PACKED_TWO(H "mlp.Wi", ENCODER "linear_gate", ENCODER "linear1"),
    TENSOR(H "mlp.Wo", ENCODER "linear2"),
    TENSOR("model.final_norm", "encoder.norm"),
    MASKED_HEAD("head.dense", "head.norm", "decoder"),
    END,
};
static const family_tensor gguf_packed[] = {
    PACKED_TWO("blk.*.ffn_up", ENCODER "linear_gate", ENCODER "linear1"), END};

const attn_family attn_family_modernbert = {
    .name = "modernbert",
    .types = {"modernbert"},
    .prefix = "model.",
    .head = "head.dense",
    .folder = {KEYS(attn_keys_encoder, attn_keys_bert, keys), TENSORS(tensors)},
    .architecture = "modern-bert",
    .gguf = {KEYS(attn_keys_gguf, gguf), TENSORS(gguf_packed, attn_gguf_encoder)},
};
