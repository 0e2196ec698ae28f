/* Gemma 2 and 3: RMS norms around sublayers with a factor 1 + weight, windows in most layers, softcaps
 * (2) or norms of queries and keys (3). Riviere et al. 2024; Kamath et al. 2025. */
#include "models/families/family.h"

#define LAYER "decoder.layers.*."
/* Without layer_types, every n-th layer sees all keys. */
static void every(known_config *k, size_t n) {
    for (size_t l = n - 1; !k->layer_types && l < attn_layers_count(k); l += n)
        attn_layers_set(&k->config.windowed_layers, l, false);
}

static attn_status read_pattern2(known_config *k, const attn_json *value, attn_error *err) {
    ATTN_IGNORED(value, err);
    every(k, 2);
    return ATTN_OK;
}

static attn_status read_pattern3(known_config *k, const attn_json *value, attn_error *err) {
    int64_t n = 6;
    if (value && !attn_json_integer(value, 1, 64, &n))
        return attn_fail(err, ATTN_EARG, "sliding_window_pattern", "expected an integer from 1 on");
    every(k, (size_t)n);
    return ATTN_OK;
}

static const family_key keys[] = {
    ROW("tie_word_embeddings", NULL, "tied", "true"),
    ROW("head_dim", NULL, "head_width", "256"),
    ROW("hidden_activation", NULL, "activation", "gelu_tanh"),
    ROW("hidden_act"), /* the library reads hidden_activation alone */
    ROW("query_pre_attn_scalar", .read = attn_read_score_divisor),
    ROW("attn_logit_softcapping", NULL, "score_softcap", "0"),
    ROW("final_logit_softcapping", NULL, "logit_softcap", "0"),
    ROW("use_bidirectional_attention", .standard = "false"),
    ROW("cache_implementation"),
    ROW(NULL, .to = "norm", "around"),
    ROW(NULL, .to = "embedding_scale", "0"),
    {0},
};
static const family_key keys2[] = {ROW("sliding_window_pattern", .read = read_pattern2), {0}};
static const family_key keys3[] = {
    ROW("sliding_window_pattern", .read = read_pattern3),
    ROW("_sliding_window_pattern"),
    ROW("rope_local_base_freq", NULL, "local_rotary_base", "0"),
    ROW("rope_scaling", .read = attn_read_rope),
    ROW("rope_parameters", .read = attn_read_rope),
    ROW(NULL, .to = "query_norm", "head"),
    {0},
};

#define NORM(theirs, ours) TENSOR("model.layers.*." theirs, NULL, LAYER ours, ONE_PLUS)
static const family_tensor norms[] = {
    NORM("input_layernorm", "norm1"),
    NORM("post_attention_layernorm", "norm1_out"),
    NORM("pre_feedforward_layernorm", "norm2"),
    NORM("post_feedforward_layernorm", "norm2_out"),
    NORM("self_attn.q_norm", "self_attn.q_norm"),
    NORM("self_attn.k_norm", "self_attn.k_norm"),
    TENSOR("model.norm", NULL, "decoder.norm", ONE_PLUS),
    {0},
};

const attn_family attn_family_gemma2 = {
    .name = "gemma2",
    .types = {"gemma2"},
    .prefix = "model.",
    .head = "lm_head",
    .keys = (const family_key *const[]){attn_keys_decoder, attn_keys_llama, keys, keys2, NULL},
    .tensors =
        (const family_tensor *const[]){norms, attn_tensors_llama_outer, attn_tensors_llama, NULL},
};

const attn_family attn_family_gemma3 = {
    .name = "gemma3",
    .types = {"gemma3_text"},
    .prefix = "model.",
    .head = "lm_head",
    .keys = (const family_key *const[]){attn_keys_decoder, attn_keys_llama, keys, keys3, NULL},
    .tensors =
        (const family_tensor *const[]){norms, attn_tensors_llama_outer, attn_tensors_llama, NULL},
};
