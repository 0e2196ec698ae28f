/* GPT-2: learned positions, layer norms before sublayers, matrices [in, out]. Radford et al. 2019. */
#include "models/families/family.h"

#define LAYER "decoder.layers.*."
static const family_key keys[] = {
    ROW("vocab_size", NULL, "target_vocabulary"),
    ROW("n_embd", NULL, "width"),
    ROW("n_layer", NULL, "num_layers"),
    ROW("n_head", NULL, "num_heads"),
    ROW("n_inner", NULL, "feed_forward", "0"),
    ROW("n_positions", NULL, "max_length", "1024"),
    ROW("n_ctx"), /* an older name of n_positions */
    ROW("activation_function", NULL, "activation", "gelu_tanh"),
    ROW("layer_norm_epsilon", NULL, "norm_epsilon", "1e-5"),
    ROW("tie_word_embeddings", NULL, "tied", "true"),
    ROW("scale_attn_weights", .standard = "true"),
    ROW("scale_attn_by_inverse_layer_idx", .standard = "false"),
    ROW("reorder_and_upcast_attn"), /* the same sums in another precision */
    ROW(NULL, .to = "positions", "learned"),
    ROW(NULL, .to = "logits_bias", "no"),
    {0},
};

#define H "transformer.h.*."
static const family_tensor tensors[] = {
    TENSOR("transformer.wte", NULL, "tgt_embedding"),
    TENSOR("transformer.wpe", NULL, "pos_encoding.position_embeddings"),
    TENSOR(H "ln_1", NULL, LAYER "norm1"),
    TENSOR(H "attn.c_attn", NULL, LAYER "self_attn.W_q", TURNED | PART_ONE),
    TENSOR(H "attn.c_attn", NULL, LAYER "self_attn.W_k", TURNED | PART_TWO),
    TENSOR(H "attn.c_attn", NULL, LAYER "self_attn.W_v", TURNED | PART_THREE),
    TENSOR(H "attn.c_proj", NULL, LAYER "self_attn.W_o", TURNED),
    TENSOR(H "ln_2", NULL, LAYER "norm2"),
    TENSOR(H "mlp.c_fc", NULL, LAYER "linear1", TURNED),
    TENSOR(H "mlp.c_proj", NULL, LAYER "linear2", TURNED),
    TENSOR("transformer.ln_f", NULL, "decoder.norm"),
    TENSOR("lm_head", NULL, "output_projection"),
    TENSOR(H "attn.bias"), /* causal masks of old files */
    TENSOR(H "attn.masked_bias"),
    {0},
};

const attn_family attn_family_gpt2 = {
    .name = "gpt2",
    .types = {"gpt2"},
    .prefix = "transformer.",
    .head = "lm_head",
    .keys = (const family_key *const[]){attn_keys_decoder, keys, NULL},
    .tensors = (const family_tensor *const[]){tensors, NULL},
};
