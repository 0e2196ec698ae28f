/* Llama 2 and 3, SmolLM2, Mistral: RMS norms before sublayers, rotary positions, a gated
 * feed-forward. Touvron et al. 2023; Jiang et al. 2023. */
#include "models/families/family.h"

const family_key attn_keys_llama[] = {
    ROW("vocab_size", "vocab_size", "target_vocabulary"),
    ROW("hidden_size", "embedding_length", "width"),
    ROW("num_hidden_layers", "block_count", "num_layers"),
    ROW("num_attention_heads", "attention.head_count", "num_heads"),
    ROW("num_key_value_heads", "attention.head_count_kv", "num_kv_heads", "0"),
    ROW("head_dim", "attention.key_length", "head_width", "0"),
    ROW(NULL, "attention.value_length"),
    ROW("intermediate_size", "feed_forward_length", "feed_forward"),
    ROW("hidden_act", NULL, "activation", "silu"),
    ROW("max_position_embeddings", "context_length", "max_length", "2048"),
    ROW("rms_norm_eps", "attention.layer_norm_rms_epsilon", "norm_epsilon", "1e-6"),
    ROW("tie_word_embeddings", NULL, "tied", "false"),
    ROW("rope_theta", "rope.freq_base", "rotary_base", "10000"),
    ROW(NULL, "rope.dimension_count", "rotary_dims", "0"),
    ROW("rope_scaling", NULL, .read = attn_read_rope),
    ROW("rope_parameters", NULL, .read = attn_read_rope),
    ROW(NULL, "rope.scaling.type", .read = attn_read_rope_type),
    ROW(NULL, "rope.scaling.factor", "rotary_factor", "0"),
    ROW(NULL, "rope.scaling.original_context_length", "rotary_original_length", "0"),
    ROW("attention_bias", NULL, "bias", "false"),
    ROW("mlp_bias", NULL, "feed_forward_bias", "no"),
    {.to = "norm_bias", .standard = "no"},
    {.to = "logits_bias", .standard = "no"},
    ROW("layer_types", NULL, .read = attn_read_layer_types),
    ROW("sliding_window", "attention.sliding_window", .read = attn_read_window),
    {.to = "norm_kind", .standard = "rms"},
    {.to = "positions", .standard = "rotary"},
    {.to = "gated", .standard = "true"},
    {0},
};

/* What is not in the layers. */
const family_tensor attn_tensors_llama_outer[] = {
    TENSOR("model.embed_tokens", "token_embd", "tgt_embedding"),
    TENSOR("model.norm", "output_norm", "decoder.norm"),
    TENSOR("lm_head", "output", "output_projection"),
    TENSOR("model.layers.*.self_attn.rotary_emb.inv_freq"),
    TENSOR("model.rotary_emb.inv_freq"),
    {0},
};

#define LAYER "decoder.layers.*."
const family_tensor attn_tensors_llama[] = {
    TENSOR("model.layers.*.input_layernorm", "blk.*.attn_norm", LAYER "norm1"),
    TENSOR("model.layers.*.self_attn.q_proj", "blk.*.attn_q", LAYER "self_attn.W_q", PAIRED),
    TENSOR("model.layers.*.self_attn.k_proj", "blk.*.attn_k", LAYER "self_attn.W_k", PAIRED),
    TENSOR("model.layers.*.self_attn.v_proj", "blk.*.attn_v", LAYER "self_attn.W_v"),
    TENSOR("model.layers.*.self_attn.o_proj", "blk.*.attn_output", LAYER "self_attn.W_o"),
    TENSOR("model.layers.*.post_attention_layernorm", "blk.*.ffn_norm", LAYER "norm2"),
    TENSOR("model.layers.*.mlp.gate_proj", "blk.*.ffn_gate", LAYER "linear_gate"),
    TENSOR("model.layers.*.mlp.up_proj", "blk.*.ffn_up", LAYER "linear1"),
    TENSOR("model.layers.*.mlp.down_proj", "blk.*.ffn_down", LAYER "linear2"),
    {0},
};

const attn_family attn_family_llama = {
    .name = "llama",
    .types = {"llama", "mistral"},
    .gguf = "llama",
    .prefix = "model.",
    .head = "lm_head",
    .gguf_head = "output",
    .keys = (const family_key *const[]){attn_keys_decoder, attn_keys_llama, NULL},
    .tensors = (const family_tensor *const[]){attn_tensors_llama_outer, attn_tensors_llama, NULL},
};
