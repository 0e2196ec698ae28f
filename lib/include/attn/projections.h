/* Multi-head attention: linear projections before and after the operation.
 *
 *   head_h = attention(query W_q^T + b_q, key W_k^T + b_k, value W_v^T + b_v) on head h's columns
 *   output = concat(head_0, …) W_o^T + b_o         (Vaswani et al. 2017, section 3.2.2)
 *
 * Weights are laid out as torch.nn.Linear.weight: [out, in]. Products are split into
 * blocks of rows that depend on the shapes alone. */
#ifndef ATTN_PROJECTIONS_H
#define ATTN_PROJECTIONS_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Each tensor is optional (rank 0). Without a weight the input stays as it is. A bias needs its
 * weight. */
typedef struct attn_projections {
    attn_tensor w_q, b_q;           /* [Hq * E, Dq], [Hq * E] */
    attn_tensor w_k, b_k;           /* [Hkv * E, Dk], [Hkv * E] */
    attn_tensor w_v, b_v;           /* [Hkv * Ev, Dv], [Hkv * Ev] */
    attn_tensor w_o, b_o;           /* [Do, Hq * Ev], [Do] */
    size_t num_heads, num_kv_heads; /* num_heads >= 1; num_kv_heads 0 = num_heads */
    /* Adds sinusoidal positions (interleaved) to query, key and value first. The position of key
     * and value j is past + j, that of query i is i + query_offset. */
    bool add_positions;
    bool allow_nonfinite; /* an output beyond its type becomes infinity and is no error */
} attn_projections;

/* Computes the shapes of the inputs after projection, for attn_attention_shape and
 * attn_attention_cost; their tensors have no data. *parameters (NULL allowed) is the number of
 * parameters of the projections. Errors name "projections/w_q", …. */
attn_status attn_projections_shape(const attn_inputs *in, const attn_projections *p,
                                   attn_inputs *out, size_t *parameters, attn_error *err);

/* Computes the cost of attn_projections_apply and attn_projections_output together. */
attn_status attn_projections_cost(const attn_inputs *in, const attn_projections *p, attn_cost *out,
                                  attn_error *err);

/* Projects query, key and value [.., L, D] into the arena. *out is *in with these tensors, the
 * layout ATTN_BLD and the head counts. An absent key is the query, and an absent value is the
 * key. */
attn_status attn_projections_apply(const attn_inputs *in, const attn_projections *p,
                                   attn_pool *pool, const attn_control *control, attn_arena *arena,
                                   attn_inputs *out, attn_error *err);

/* Computes output W_o^T + b_o into the arena from the output [.., L, Hq * Ev] of the operation.
 * Without W_o *out is *output. ATTN_ENONFINITE: a number is beyond its type. */
attn_status attn_projections_output(const attn_tensor *output, const attn_projections *p,
                                    attn_pool *pool, const attn_control *control, attn_arena *arena,
                                    attn_tensor *out, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
