/* GPT-NeoX and Pythia: attention and feed-forward in parallel with two norms, rotary positions on a
 * part of the width. Black et al. 2022. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("layer_norm_eps", "norm_epsilon", "1e-5"),
    ROW("tie_word_embeddings", "tied", "false"),
    ROW("use_parallel_residual", "parallel", "two_norms"),
    ROW("attention_bias", "qkv_bias", "yes"),
    ROW("attention_bias", "output_bias", "yes"),
    ROW("rotary_pct", .read = attn_read_rotary_part),
    ROW("rotary_emb_base", "rotary_base", "10000"),
    ROW("rope_theta", "rotary_base", "10000"),
    ROW("rope_scaling", .read = attn_read_rope),
    ROW("rope_parameters", .read = attn_read_rope),
    ALWAYS("positions", "rotary"),
    ALWAYS("logits_bias", "no"),
    END,
};
static const family_key gguf[] = {ROW("use_parallel_residual", "parallel", "two_norms"), END};

#define H "gpt_neox.layers.*."
static const family_tensor tensors[] = {
    TENSOR("gpt_neox.embed_in", "tgt_embedding"),
    TENSOR(H "input_layernorm", DECODER "norm1"),
    PACKED_THREE(H "attention.query_key_value", DECODER "self_attn", BY_HEAD),
    TENSOR(H "attention.dense", DECODER "self_attn.W_o"),
    TENSOR(H "post_attention_layernorm", DECODER "norm2"),
    TENSOR(H "mlp.dense_h_to_4h", DECODER "linear1"),
    TENSOR(H "mlp.dense_4h_to_h", DECODER "linear2"),
    TENSOR("gpt_neox.final_layer_norm", "decoder.norm"),
    TENSOR("embed_out", "output_projection"),
    TENSOR(H "attention.bias"), /* masks and frequencies that old files store; not used */
    TENSOR(H "attention.masked_bias"),
    TENSOR(H "attention.rotary_emb.inv_freq"),
    END,
};

const attn_family attn_family_gpt_neox = {
    .name = "gpt_neox",
    .types = {"gpt_neox"},
    .prefix = "gpt_neox.",
    .head = "embed_out",
    .folder = {KEYS(attn_keys_decoder, attn_keys_bert, keys), TENSORS(tensors)},
    .architecture = "gptneox",
    .gguf = {KEYS(attn_keys_gguf, gguf), TENSORS(attn_gguf_decoder)},
};
