/* GPT-J: attention and feed-forward in parallel with one norm, interleaved rotary positions on a
 * part of the width. Wang and Komatsuzaki 2021. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("vocab_size", "target_vocabulary"),
    ROW("n_embd", "width"),
    ROW("n_layer", "num_layers"),
    ROW("n_head", "num_heads"),
    ROW("n_inner", "feed_forward", "0"),
    ROW("n_positions", "max_length", "2048"),
    ROW("rotary_dim", "rotary_dims", "0"),
    ROW("rotary", .standard = "true"),
    ROW("activation_function", "activation", "gelu_tanh"),
    ROW("layer_norm_epsilon", "norm_epsilon", "1e-5"),
    ROW("tie_word_embeddings", "tied", "false"),
    ROW("scale_attn_weights", .standard = "true"),
    ALWAYS("positions", "rotary"),
    ALWAYS("rotary_pairs", "interleaved"),
    ALWAYS("parallel", "one_norm"),
    ALWAYS("qkv_bias", "no"),
    ALWAYS("output_bias", "no"),
    ALWAYS("logits_bias", "yes"),
    END,
};

#define H "transformer.h.*."
static const family_tensor tensors[] = {
    TENSOR("transformer.wte", "tgt_embedding"),
    TENSOR(H "ln_1", DECODER "norm1"),
    ATTENTION_TENSORS(H "attn.", "q_proj", "k_proj", "v_proj", "out_proj", DECODER "self_attn"),
    TENSOR(H "mlp.fc_in", DECODER "linear1"),
    TENSOR(H "mlp.fc_out", DECODER "linear2"),
    TENSOR("transformer.ln_f", "decoder.norm"),
    TENSOR("lm_head", "output_projection"),
    TENSOR(H "attn.bias"), /* masks that old files store; not used */
    TENSOR(H "attn.masked_bias"),
    END,
};

const attn_family attn_family_gptj = {
    .name = "gptj",
    .types = {"gptj"},
    .prefix = "transformer.",
    .head = "lm_head",
    .folder = {KEYS(attn_keys_decoder, keys), TENSORS(tensors)},
};
