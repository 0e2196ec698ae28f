/* GPT-2: learned positions, layer norms before sublayers, matrices [in, out]. Radford et al. 2019. */
#include "models/families/family.h"

static const family_key keys[] = {
    ROW("vocab_size", "target_vocabulary"),
    ROW("n_embd", "width"),
    ROW("n_layer", "num_layers"),
    ROW("n_head", "num_heads"),
    ROW("n_inner", "feed_forward", "0"),
    ROW("n_positions", "max_length", "1024"),
    ROW("n_ctx"), /* an older name of n_positions */
    ROW("activation_function", "activation", "gelu_tanh"),
    ROW("layer_norm_epsilon", "norm_epsilon", "1e-5"),
    ROW("tie_word_embeddings", "tied", "true"),
    ROW("scale_attn_weights", .standard = "true"),
    ROW("scale_attn_by_inverse_layer_idx", .standard = "false"),
    ROW("reorder_and_upcast_attn"), /* no effect: the same sums in another precision */
    ALWAYS("positions", "learned"),
    ALWAYS("logits_bias", "no"),
    END,
};

#define H "transformer.h.*."
static const family_tensor tensors[] = {
    TENSOR("transformer.wte", "tgt_embedding"),
    TENSOR("transformer.wpe", "pos_encoding.position_embeddings"),
    TENSOR(H "ln_1", DECODER "norm1"),
    PACKED_THREE(H "attn.c_attn", DECODER "self_attn", TURNED),
    TENSOR(H "attn.c_proj", DECODER "self_attn.W_o", TURNED),
    TENSOR(H "ln_2", DECODER "norm2"),
    TENSOR(H "mlp.c_fc", DECODER "linear1", TURNED),
    TENSOR(H "mlp.c_proj", DECODER "linear2", TURNED),
    TENSOR("transformer.ln_f", "decoder.norm"),
    TENSOR("lm_head", "output_projection"),
    TENSOR(H "attn.bias"), /* causal masks that old files store; not used */
    TENSOR(H "attn.masked_bias"),
    END,
};

const attn_family attn_family_gpt2 = {
    .name = "gpt2",
    .types = {"gpt2"},
    .prefix = "transformer.",
    .head = "lm_head",
    .folder = {KEYS(attn_keys_decoder, keys), TENSORS(tensors)},
    .architecture = "gpt2",
    .gguf = {KEYS(attn_keys_gguf), TENSORS(attn_gguf_decoder)},
};
