/* Keys and tensors of GGUF files. All architectures have the same names, which are those of PyPI's
 * gguf. A key of another name is refused, since it may change the arithmetic. */
#include "models/families/family.h"

const family_key attn_keys_gguf[] = {
    ROW("vocab_size", "target_vocabulary"),
    ROW("embedding_length", "width"),
    ROW("block_count", "num_layers"),
    ROW("attention.head_count", "num_heads"),
    ROW("attention.head_count_kv", "num_kv_heads", "0"),
    ROW("attention.key_length", "head_width", "0"),
    /* not read: a different width of values shows in the shapes of tensors */
    ROW("attention.value_length"),
    ROW("feed_forward_length", "feed_forward"),
    ROW("context_length", "max_length"),
    ROW("attention.layer_norm_rms_epsilon", "norm_epsilon", AS_IS),
    ROW("attention.layer_norm_epsilon", "norm_epsilon", AS_IS),
    ROW("attention.causal", .read = attn_read_causal),
    ROW("attention.sliding_window", .read = attn_read_window),
    ROW("attn_logit_softcapping", "score_softcap", "0"),
    ROW("final_logit_softcapping", "logit_softcap", "0"),
    ROW("rope.freq_base", "rotary_base", "10000"),
    ROW("rope.dimension_count", "rotary_dims", "0"),
    ROW("rope.scaling.type", .read = attn_read_rope_type),
    ROW("rope.scaling.factor", "rotary_factor", "0"),
    ROW("rope.scaling.original_context_length", "rotary_original_length", "0"),
    ROW("rope.scaling.attn_factor", "rotary_attention_factor", "0"),
    ROW("rope.scaling.yarn_beta_fast", "rotary_beta_fast", "0"),
    ROW("rope.scaling.yarn_beta_slow", "rotary_beta_slow", "0"),
    ROW("rope.scaling.finetuned"),
    ROW("pooling_type"),
    END,
};

#define BLOCKS(ours)                                                                               \
    ATTENTION_TENSORS("blk.*.", "attn_q", "attn_k", "attn_v", "attn_output", ours "self_attn"),    \
        PACKED_THREE("blk.*.attn_qkv", ours "self_attn", 0),                                       \
        TENSOR("blk.*.ffn_gate", ours "linear_gate"), TENSOR("blk.*.ffn_up", ours "linear1"),      \
        TENSOR("blk.*.ffn_down", ours "linear2"),                                                  \
        TENSOR("position_embd", "pos_encoding.position_embeddings")

const family_tensor attn_gguf_decoder[] = {
    BLOCKS(DECODER),
    TENSOR("token_embd", "tgt_embedding"),
    TENSOR("blk.*.attn_norm", DECODER "norm1"),
    TENSOR("blk.*.post_attention_norm", DECODER "norm1_out"),
    TENSOR("blk.*.ffn_norm", DECODER "norm2"),
    TENSOR("blk.*.post_ffw_norm", DECODER "norm2_out"),
    TENSOR("blk.*.attn_q_norm", DECODER "self_attn.q_norm"),
    TENSOR("blk.*.attn_k_norm", DECODER "self_attn.k_norm"),
    TENSOR("output_norm", "decoder.norm"),
    TENSOR("output", "output_projection"),
    END,
};
const family_tensor attn_gguf_paired[] = {
    TENSOR("blk.*.attn_q", DECODER "self_attn.W_q", PAIRED),
    TENSOR("blk.*.attn_k", DECODER "self_attn.W_k", PAIRED),
    END,
};
const family_tensor attn_gguf_encoder[] = {
    BLOCKS(ENCODER),
    TENSOR("token_embd", "src_embedding"),
    TENSOR("token_types", "seg_embedding"),
    TENSOR("token_embd_norm", "src_embedding_norm"),
    TENSOR("blk.*.attn_output_norm", ENCODER "norm1"), /* the norm behind a sublayer … */
    TENSOR("blk.*.layer_output_norm", ENCODER "norm2"),
    TENSOR("blk.*.attn_norm", ENCODER "norm1"), /* … or the norm before it */
    TENSOR("blk.*.ffn_norm", ENCODER "norm2"),
    TENSOR("output_norm", "encoder.norm"),
    END,
};
