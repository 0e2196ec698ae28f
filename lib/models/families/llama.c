/* Llama 2 and 3, SmolLM2, Mistral: RMS norms before sublayers, rotary positions, a gated
 * feed-forward. Touvron et al. 2023; Jiang et al. 2023. */
#include "models/families/family.h"

const family_key attn_keys_llama[] = {
    ROW("vocab_size", "target_vocabulary"),
    ROW("hidden_size", "width"),
    ROW("num_hidden_layers", "num_layers"),
    ROW("num_attention_heads", "num_heads"),
    ROW("num_key_value_heads", "num_kv_heads", "0"),
    ROW("head_dim", "head_width", "0"),
    ROW("intermediate_size", "feed_forward"),
    ROW("hidden_act", "activation", "silu"),
    ROW("max_position_embeddings", "max_length", "2048"),
    ROW("rms_norm_eps", "norm_epsilon", "1e-6"),
    ROW("tie_word_embeddings", "tied", "false"),
    ROW("rope_theta", "rotary_base", "10000"),
    ROW("rope_scaling", .read = attn_read_rope),
    ROW("rope_parameters", .read = attn_read_rope),
    ROW("attention_bias", "bias", "false"),
    ROW("mlp_bias", "feed_forward_bias", "no"),
    ROW("layer_types", .read = attn_read_layer_types),
    ROW("sliding_window", .read = attn_read_window),
    ALWAYS("norm_bias", "no"),
    ALWAYS("logits_bias", "no"),
    ALWAYS("norm_kind", "rms"),
    ALWAYS("positions", "rotary"),
    ALWAYS("gated", "true"),
    END,
};

#define H "model.layers.*."
const family_tensor attn_tensors_llama[] = {
    TENSOR("model.embed_tokens", "tgt_embedding"),
    TENSOR(H "input_layernorm", DECODER "norm1"),
    ATTENTION_TENSORS(H "self_attn.", "q_proj", "k_proj", "v_proj", "o_proj", DECODER "self_attn"),
    TENSOR(H "post_attention_layernorm", DECODER "norm2"),
    TENSOR(H "mlp.gate_proj", DECODER "linear_gate"),
    TENSOR(H "mlp.up_proj", DECODER "linear1"),
    TENSOR(H "mlp.down_proj", DECODER "linear2"),
    TENSOR("model.norm", "decoder.norm"),
    TENSOR("lm_head", "output_projection"),
    TENSOR(H "self_attn.rotary_emb.inv_freq"),
    TENSOR("model.rotary_emb.inv_freq"),
    END,
};

const attn_family attn_family_llama = {
    .name = "llama",
    .types = {"llama", "mistral"},
    .prefix = "model.",
    .head = "lm_head",
    .folder = {KEYS(attn_keys_decoder, attn_keys_llama), TENSORS(attn_tensors_llama)},
    .architecture = "llama",
    .gguf = {KEYS(attn_keys_gguf), TENSORS(attn_gguf_paired, attn_gguf_decoder)},
};
