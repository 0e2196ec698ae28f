/* GPT-J: attention and feed-forward side by side with one norm, interleaved rotary positions on a part
 * of the width. Wang and Komatsuzaki 2021. */
#include "models/families/family.h"

#define LAYER "decoder.layers.*."
static const family_key keys[] = {
    ROW("vocab_size", NULL, "target_vocabulary"),
    ROW("n_embd", NULL, "width"),
    ROW("n_layer", NULL, "num_layers"),
    ROW("n_head", NULL, "num_heads"),
    ROW("n_inner", NULL, "feed_forward", "0"),
    ROW("n_positions", NULL, "max_length", "2048"),
    ROW("rotary_dim", NULL, "rotary_dims", "0"),
    ROW("rotary", .standard = "true"),
    ROW("activation_function", NULL, "activation", "gelu_tanh"),
    ROW("layer_norm_epsilon", NULL, "norm_epsilon", "1e-5"),
    ROW("tie_word_embeddings", NULL, "tied", "false"),
    ROW("scale_attn_weights", .standard = "true"),
    ROW(NULL, .to = "positions", "rotary"),
    ROW(NULL, .to = "rotary_pairs", "interleaved"),
    ROW(NULL, .to = "parallel", "one_norm"),
    ROW(NULL, .to = "qkv_bias", "no"),
    ROW(NULL, .to = "output_bias", "no"),
    ROW(NULL, .to = "logits_bias", "yes"),
    {0},
};

#define H "transformer.h.*."
static const family_tensor tensors[] = {
    TENSOR("transformer.wte", NULL, "tgt_embedding"),
    TENSOR(H "ln_1", NULL, LAYER "norm1"),
    TENSOR(H "attn.q_proj", NULL, LAYER "self_attn.W_q"),
    TENSOR(H "attn.k_proj", NULL, LAYER "self_attn.W_k"),
    TENSOR(H "attn.v_proj", NULL, LAYER "self_attn.W_v"),
    TENSOR(H "attn.out_proj", NULL, LAYER "self_attn.W_o"),
    TENSOR(H "mlp.fc_in", NULL, LAYER "linear1"),
    TENSOR(H "mlp.fc_out", NULL, LAYER "linear2"),
    TENSOR("transformer.ln_f", NULL, "decoder.norm"),
    TENSOR("lm_head", NULL, "output_projection"),
    TENSOR(H "attn.bias"), /* masks of old files */
    TENSOR(H "attn.masked_bias"),
    {0},
};

const attn_family attn_family_gptj = {
    .name = "gptj",
    .types = {"gptj"},
    .prefix = "transformer.",
    .head = "lm_head",
    .keys = (const family_key *const[]){attn_keys_decoder, keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, NULL},
};
