/* GPT-NeoX and Pythia: attention and feed-forward side by side with two norms, rotary positions on a
 * part of the width. Black et al. 2022. */
#include "models/families/family.h"

#define LAYER "decoder.layers.*."
static attn_status read_parallel(known_config *k, const attn_json *value, attn_error *err) {
    if (value && value->kind != ATTN_JSON_BOOL)
        return attn_fail(err, ATTN_EARG, "use_parallel_residual", "expected true or false");
    k->config.parallel = !value || value->truth ? ATTN_MODEL_TWO_NORMS : ATTN_MODEL_IN_TURN;
    return ATTN_OK;
}

static const family_key keys[] = {
    BERT_KEYS,
    ROW("layer_norm_eps", NULL, "norm_epsilon", "1e-5"),
    ROW("tie_word_embeddings", NULL, "tied", "false"),
    ROW("use_parallel_residual", .read = read_parallel),
    ROW("attention_bias", NULL, "qkv_bias", "yes"),
    ROW("attention_bias", NULL, "output_bias", "yes"),
    ROW("rotary_pct", .read = attn_read_rotary_part),
    ROW("rotary_emb_base", NULL, "rotary_base", "10000"),
    ROW("rope_theta", NULL, "rotary_base", "10000"),
    ROW("rope_scaling", .read = attn_read_rope),
    ROW("rope_parameters", .read = attn_read_rope),
    ROW(NULL, .to = "positions", "rotary"),
    ROW(NULL, .to = "logits_bias", "no"),
    {0},
};

#define H "gpt_neox.layers.*."
static const family_tensor tensors[] = {
    TENSOR("gpt_neox.embed_in", NULL, "tgt_embedding"),
    TENSOR(H "input_layernorm", NULL, LAYER "norm1"),
    TENSOR(H "attention.query_key_value", NULL, LAYER "self_attn.W_q", BY_HEAD | PART_ONE),
    TENSOR(H "attention.query_key_value", NULL, LAYER "self_attn.W_k", BY_HEAD | PART_TWO),
    TENSOR(H "attention.query_key_value", NULL, LAYER "self_attn.W_v", BY_HEAD | PART_THREE),
    TENSOR(H "attention.dense", NULL, LAYER "self_attn.W_o"),
    TENSOR(H "post_attention_layernorm", NULL, LAYER "norm2"),
    TENSOR(H "mlp.dense_h_to_4h", NULL, LAYER "linear1"),
    TENSOR(H "mlp.dense_4h_to_h", NULL, LAYER "linear2"),
    TENSOR("gpt_neox.final_layer_norm", NULL, "decoder.norm"),
    TENSOR("embed_out", NULL, "output_projection"),
    TENSOR(H "attention.bias"), /* masks and frequencies of old files */
    TENSOR(H "attention.masked_bias"),
    TENSOR(H "attention.rotary_emb.inv_freq"),
    {0},
};

const attn_family attn_family_gpt_neox = {
    .name = "gpt_neox",
    .types = {"gpt_neox"},
    .prefix = "gpt_neox.",
    .head = "embed_out",
    .keys = (const family_key *const[]){attn_keys_decoder, keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, NULL},
};
