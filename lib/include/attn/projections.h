/* Multi-head attention: linear projections before and after the attention operation.
 *
 *   head_h = attention(query W_q^T + b_q, key W_k^T + b_k, value W_v^T + b_v) on head h's columns
 *   output = concat(head_0, …) W_o^T + b_o         (Vaswani et al. 2017, section 3.2.2)
 *
 * Weights have the layout of torch.nn.Linear.weight: [out, in]. Products are computed in blocks of
 * rows that depend on the shapes alone, so any pool gives the same bytes. */
#ifndef ATTN_PROJECTIONS_H
#define ATTN_PROJECTIONS_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The projections. Each tensor may be absent (rank 0). Without a weight the input is used as it is.
 * A bias requires its weight. Dq, Dk and Dv are the widths of query, key and value; Do is the width
 * of the projected output. */
typedef struct attn_projections {
    attn_tensor w_q, b_q;           /* [Hq * E, Dq], [Hq * E] */
    attn_tensor w_k, b_k;           /* [Hkv * E, Dk], [Hkv * E] */
    attn_tensor w_v, b_v;           /* [Hkv * Ev, Dv], [Hkv * Ev] */
    attn_tensor w_o, b_o;           /* [Do, Hq * Ev], [Do] */
    size_t num_heads, num_kv_heads; /* num_heads >= 1; num_kv_heads 0: num_heads */
    /* true: the inputs get sinusoidal positions (forms.h) before they are projected, in addition to
     * another kind of positions */
    bool add_positions;
    uint64_t seed; /* seed with which attn_projections_draw draws */
    /* true: a projected number beyond the range of its type becomes infinity; false: it is an
     * error */
    bool allow_nonfinite;
} attn_projections;

/* The next two functions make the projections with which a torch.nn.MultiheadAttention of the
 * query's width D and num_heads heads begins. In between, the tensors have shapes but no data, and
 * the shape and the cost of the operation can be computed.
 *
 *   W_q [D, D], W_k [Hkv * D/Hq, Dk], W_v [Hkv * D/Hq, Dv]  Xavier uniform: ±sqrt(6 / (in + out)).
 *       If Dk = Dv = D, they count as one matrix, whose `out` is the number of rows of all three:
 *       3D for Hkv = Hq
 *   W_o [D, D]                                              uniform in ±1/sqrt(D)
 *   b_q, b_k, b_v, b_o                                      zeros
 *
 * The numbers are float32. Number n of the seed, bound * (2 attn_rng_uniform(seed, n) - 1), is
 * element n of W_q, W_k, W_v and W_o, one after the other in row-major order. */

/* Gives the projections their shapes. No tensor of *p may be present. Errors: ATTN_EARG,
 * ATTN_ESHAPE (D is not a multiple of num_heads), ATTN_ELIMIT. */
attn_status attn_projections_declare(const attn_inputs *in, attn_projections *p, attn_error *err);
/* Draws the values of declared projections into the arena. Errors: ATTN_ENOMEM, ATTN_ECANCELED,
 * ATTN_EDEADLINE. */
attn_status attn_projections_draw(attn_projections *p, attn_pool *pool, const attn_control *control,
                                  attn_arena *arena, attn_error *err);

/* Computes the shapes of the projected inputs, for attn_attention_shape and attn_attention_cost.
 * The tensors of *out have no data. *parameters (NULL: not wanted) becomes the number of parameters
 * of the projections. Errors: ATTN_ESHAPE, ATTN_EARG, ATTN_EDTYPE; err->where names the tensor
 * ("projections/w_q"). */
attn_status attn_projections_shape(const attn_inputs *in, const attn_projections *p,
                                   attn_inputs *out, size_t *parameters, attn_error *err);

/* Computes the cost of attn_projections_apply and attn_projections_output together, and of
 * attn_projections_draw if the projections have no data yet. ATTN_ELIMIT: a size overflows. */
attn_status attn_projections_cost(const attn_inputs *in, const attn_projections *p, attn_cost *out,
                                  attn_error *err);

/* Projects query, key and value [.., L, D] into the arena. Sinusoidal and learned positions are
 * added first. *out is a copy of *in with the projected tensors, the layout ATTN_BLD, the numbers
 * of heads, and without positions that were added. An absent key is the query, and an absent value
 * is the key. Errors: ATTN_ENONFINITE, ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE, and those of
 * the positions. */
attn_status attn_projections_apply(const attn_inputs *in, const attn_projections *p,
                                   attn_pool *pool, const attn_control *control, attn_arena *arena,
                                   attn_inputs *out, attn_error *err);

/* Computes *out = output W_o^T + b_o into the arena. `output` [.., L, Hq * Ev] is the output of the
 * operation. Without W_o, *out is *output. ATTN_ENONFINITE: a number is beyond the range of its
 * type. Other errors as attn_projections_apply. */
attn_status attn_projections_output(const attn_tensor *output, const attn_projections *p,
                                    attn_pool *pool, const attn_control *control, attn_arena *arena,
                                    attn_tensor *out, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
