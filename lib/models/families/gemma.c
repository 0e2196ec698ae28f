/* Gemma 2 and 3: RMS norms around sublayers with a factor 1 + weight, windows in most layers, softcaps
 * (2) or norms of queries and keys (3). Riviere et al. 2024; Kamath et al. 2025. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("tie_word_embeddings", "tied", "true"),
    ROW("head_dim", "head_width", "256"),
    ROW("hidden_activation", "activation", "gelu_tanh"),
    ROW("hidden_act"), /* no effect: transformers reads only hidden_activation */
    ROW("query_pre_attn_scalar", "score_scale", .read = attn_read_inverse_root),
    ROW("attn_logit_softcapping", "score_softcap", "0"),
    ROW("final_logit_softcapping", "logit_softcap", "0"),
    ROW("use_bidirectional_attention", .standard = "false"),
    ALWAYS("norm", "around"),
    ALWAYS("embedding_scale", "0"),
    END,
};
static const family_key keys2[] = {
    ROW("sliding_window_pattern", .standard = "2", .read = attn_read_every_last), END};
static const family_key keys3[] = {
    ROW("sliding_window_pattern", .standard = "6", .read = attn_read_every_last),
    ROW("_sliding_window_pattern"),
    ROW("rope_local_base_freq", "local_rotary_base", "0"),
    ROW("rope_scaling", .read = attn_read_rope),
    ROW("rope_parameters", .read = attn_read_rope),
    ALWAYS("query_norm", "head"),
    END,
};

/* GGUF files lack two settings, which have standard values: the factor of scores follows from the
 * width of a head, and the base of angles in layers with windows is 10000. */
static const family_key gguf2[] = {
    ROW("attention.sliding_window_pattern", .standard = "2", .read = attn_read_every_last), END};
static const family_key gguf3[] = {
    ROW("attention.sliding_window_pattern", .standard = "6", .read = attn_read_every_last),
    ROW("rope.freq_base_swa", "local_rotary_base", "10000"), END};

#define NORM(theirs, ours) TENSOR("model.layers.*." theirs, DECODER ours, ONE_PLUS)
static const family_tensor norms[] = {
    NORM("input_layernorm", "norm1"),
    NORM("post_attention_layernorm", "norm1_out"),
    NORM("pre_feedforward_layernorm", "norm2"),
    NORM("post_feedforward_layernorm", "norm2_out"),
    NORM("self_attn.q_norm", "self_attn.q_norm"),
    NORM("self_attn.k_norm", "self_attn.k_norm"),
    TENSOR("model.norm", "decoder.norm", ONE_PLUS),
    END,
};

#define GEMMA(number, words)                                                                       \
    .name = "gemma" #number, .types = {words}, .prefix = "model.", .head = "lm_head",              \
    .folder = {KEYS(attn_keys_decoder, attn_keys_llama, keys, keys##number),                       \
               TENSORS(norms, attn_tensors_llama)},                                                \
    .architecture = "gemma" #number,                                                               \
    .gguf = {KEYS(attn_keys_gguf, gguf##number), TENSORS(attn_gguf_decoder)}
const attn_family attn_family_gemma2 = {GEMMA(2, "gemma2")};
const attn_family attn_family_gemma3 = {GEMMA(3, "gemma3_text")};
