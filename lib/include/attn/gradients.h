/* Gradients of attention: the way back through an operation that has run.
 *
 * With O = P V, P = softmax(Z), Z = edit(Q K^T) and a loss of which dO = dLoss/dO is known:
 *
 *   dV = P^T dO      dP = dO V^T      dZ = P o (dP - rowsum(dO o O))      dQ = dS K      dK = dS^T
 * Q
 *
 * (Dao et al., "FlashAttention", 2022, appendix B.2.) Weights are computed again from the row
 * maximum and sum, so memory grows with L + S, never with L x S. */
#ifndef ATTN_GRADIENTS_H
#define ATTN_GRADIENTS_H

#include "attention.h"
#include "projections.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Gradients by input, dense, each in the shape (and layout) of the tensor that the caller sent, of
 * type dims.result; rank 0 where there is no such tensor. Where key (or value) was absent, its
 * gradient is part of that of the tensor that stood in. All in the arena. */
typedef struct attn_gradients {
    attn_tensor query, key, value, past_key, past_value;
    attn_tensor sinks;
    attn_tensor bias[ATTN_MASK_LAYERS]; /* of the mask's layers of kind ATTN_LAYER_BIAS */
    attn_score score;                   /* w_q, w_k, b, v, w */
    attn_tensor slopes, table, key_table, value_table; /* of position; slopes where given */
} attn_gradients;

/* Bytes that attn_attention_backward takes, or attn_attention_run_backward beside its run, which
 * wants `want`, and its operations, from shapes alone. Bias layers are counted by the caller's own
 * tensors: `bias_elements` in all. A second attempt in double is in fallback_bytes. ATTN_ELIMIT on
 * overflow. */
attn_status attn_gradients_cost(const attn_attention_dims *dims, unsigned want,
                                size_t bias_elements, size_t slots, attn_cost *out,
                                attn_error *err);

/* results: of a run with ATTN_WANT_OUTPUT. grad_output: the shape of the output, floating point.
 * Gradients are sums in an order that the shapes alone decide: the same bytes for any pool.
 *
 * In float32 a cell's dZ times the scale counts as 0 when it is below 1.2e-38, float32's smallest
 * normal number, but on the table "ref", which computes in double. With a grad_output or a scale so
 * small, gradients of queries and keys are too small or 0 without an error, also where large keys
 * would bring them back into range. Send grad_output times a power of two then, or float64.
 *
 * With dropout, gradients of the output that was computed. A score that a finite fill replaced
 * passes nothing on to query, key and bias. Errors: ATTN_ESHAPE ("grad_output"), ATTN_ENONFINITE
 * (in grad_output; in what a query sees, even where the run allowed it; gradients that overflow),
 * ATTN_EARG for a score form that does not say where its gradients go, ATTN_ENOMEM, ATTN_ECANCELED,
 * ATTN_EDEADLINE. One thread at a time an operation. */
attn_status attn_attention_backward(attn_attention *a, const attn_results *results,
                                    const attn_tensor *grad_output, attn_pool *pool,
                                    const attn_control *control, attn_arena *arena,
                                    attn_gradients *out, attn_error *err);

/* The run and the way back at once, where grad_output is known before: the same bytes as from
 * attn_attention_run and attn_attention_backward, in less time where a piece of work is a whole
 * head, as weights are made once then. `want` holds ATTN_WANT_OUTPUT. Bytes, errors and thread
 * rules are those of the two. */
attn_status attn_attention_run_backward(attn_attention *a, unsigned want, attn_stage stage,
                                        const attn_tensor *grad_output, attn_pool *pool,
                                        const attn_control *control, attn_arena *arena,
                                        attn_results *results, attn_gradients *out,
                                        attn_error *err);

/* Gradients of the projections, each of the shape of its tensor; rank 0 where there is none. */
typedef struct attn_projection_gradients {
    attn_tensor w_q, b_q, w_k, b_k, w_v, b_v, w_o, b_o;
} attn_projection_gradients;

/* Back through W_o: `output` is the operation's, before the projection; grad_output that after it.
 * Gives the gradient of `output`, and w_o's and b_o's in *into. Without W_o the gradient passes. */
attn_status attn_projections_output_backward(const attn_tensor *output, const attn_projections *p,
                                             const attn_tensor *grad_output, attn_arena *arena,
                                             attn_tensor *grad, attn_projection_gradients *into,
                                             attn_error *err);

/* Back through W_q, W_k and W_v: `in` as attn_projections_apply read it, `inner` the gradients of
 * the projected query, key and value. Gives those of in->query, key and value (key absent: part of
 * query's) in *out, whose other members are copied from inner. */
attn_status attn_projections_backward(const attn_inputs *in, const attn_projections *p,
                                      const attn_gradients *inner, attn_arena *arena,
                                      attn_gradients *out, attn_projection_gradients *into,
                                      attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
