/* ModernBERT: an encoder with rotary positions, norms before sublayers and windows in most layers.
 * Warner et al. 2024. */
#include "models/families/family.h"

static attn_status read_half_window(known_config *k, const attn_json *value, attn_error *err) {
    int64_t keys = 128;
    if (value && !attn_json_integer(value, 2, 1 << 20, &keys))
        return attn_fail(err, ATTN_EARG, "local_attention", "expected an integer from 2 on");
    k->config.window = (size_t)keys / 2;
    return ATTN_OK;
}

/* Files of before layer_types: every n-th layer, beginning with the first, sees all keys. */
static attn_status read_every(known_config *k, const attn_json *value, attn_error *err) {
    int64_t n = 3;
    if (value && !attn_json_integer(value, 1, 64, &n))
        return attn_fail(err, ATTN_EARG, "global_attn_every_n_layers", "expected 1 to 64");
    for (size_t l = 0; !k->layer_types && l < attn_layers_count(k); l++)
        attn_layers_set(&k->config.windowed_layers, l, l % (size_t)n != 0);
    return ATTN_OK;
}

static const family_key keys[] = {
    BERT_KEYS,
    ROW("norm_eps", NULL, "norm_epsilon", "1e-5"),
    ROW("layer_norm_eps"),
    ROW("hidden_activation", NULL, "activation", "gelu"),
    ROW("classifier_activation", NULL, "head_activation", "gelu"),
    ROW("classifier_bias", NULL, "bias", "false"),
    ROW("attention_bias", NULL, "qkv_bias", "no"),
    ROW("attention_bias", NULL, "output_bias", "no"),
    ROW("mlp_bias", NULL, "feed_forward_bias", "no"),
    ROW("norm_bias", NULL, "norm_bias", "no"),
    ROW("decoder_bias", NULL, "logits_bias", "yes"),
    ROW("global_rope_theta", NULL, "rotary_base", "160000"),
    ROW("local_rope_theta", NULL, "local_rotary_base", "10000"),
    ROW("rope_parameters", .read = attn_read_rope),
    ROW("layer_types", .read = attn_read_layer_types),
    ROW("global_attn_every_n_layers", .read = read_every),
    ROW("local_attention", .read = read_half_window),
    ROW("initializer_cutoff_factor"),
    ROW("embedding_dropout"),
    ROW("mlp_dropout"),
    ROW("classifier_pooling"),
    ROW("deterministic_flash_attn"),
    ROW("sparse_prediction"),
    ROW("sparse_pred_ignore_index"),
    ROW("reference_compile"),
    ROW("repad_logits_with_grad"),
    ROW(NULL, .to = "norm", "before"),
    ROW(NULL, .to = "positions", "rotary"),
    ROW(NULL, .to = "gated", "true"),
    ROW(NULL, .to = "skips_first_norm", "true"),
    {0},
};

#define H    "model.layers.*."
#define OURS "encoder.layers.*."
static const family_tensor tensors[] = {
    TENSOR("model.embeddings.tok_embeddings", NULL, "src_embedding"),
    TENSOR("model.embeddings.norm", NULL, "src_embedding_norm"),
    TENSOR(H "attn_norm", NULL, OURS "norm1"),
    TENSOR(H "attn.Wqkv", NULL, OURS "self_attn.W_q", PART_ONE),
    TENSOR(H "attn.Wqkv", NULL, OURS "self_attn.W_k", PART_TWO),
    TENSOR(H "attn.Wqkv", NULL, OURS "self_attn.W_v", PART_THREE),
    TENSOR(H "attn.Wo", NULL, OURS "self_attn.W_o"),
    TENSOR(H "mlp_norm", NULL, OURS "norm2"),
    TENSOR(H "mlp.Wi", NULL, OURS "linear_gate", PART_ONE),
    TENSOR(H "mlp.Wi", NULL, OURS "linear1", PART_TWO),
    TENSOR(H "mlp.Wo", NULL, OURS "linear2"),
    TENSOR("model.final_norm", NULL, "encoder.norm"),
    TENSOR("head.dense", NULL, "head_dense"),
    TENSOR("head.norm", NULL, "head_norm"),
    TENSOR("decoder", NULL, "output_projection"),
    TENSOR("decoder.weight"),
    {0},
};

const attn_family attn_family_modernbert = {
    .name = "modernbert",
    .types = {"modernbert"},
    .prefix = "model.",
    .head = "head.dense",
    .keys = (const family_key *const[]){attn_keys_encoder, keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, NULL},
};
