/* Gradients of attention: the backward pass of an operation that has run.
 *
 * With O = P V, P = softmax(Z), Z = edit(S), S = Q K^T and a loss with known dO = dLoss/dO:
 *
 *   dV = P^T dO      dP = dO V^T      dZ = P o (dP - rowsum(dO o O))
 *   dQ = dS K        dK = dS^T Q      where dS is dZ times the derivative of edit
 *
 * (Dao et al., "FlashAttention", 2022, appendix B.2.) The backward pass computes the weights again
 * from the row maximum and sum, so memory grows with L + S and not with L x S. */
#ifndef ATTN_GRADIENTS_H
#define ATTN_GRADIENTS_H

#include "attention.h"
#include "projections.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Gradients of the inputs, in the arena. Each is dense, has the shape and layout of its input and
 * the type dims.result, or has rank 0 if the input is absent. If key or value is absent, its
 * gradient is added to that of the tensor used in its place. */
typedef struct attn_gradients {
    attn_tensor query, key, value, past_key, past_value;
    attn_tensor sinks;
    attn_tensor bias[ATTN_MASK_LAYERS]; /* by mask layer, for layers of kind ATTN_LAYER_BIAS */
    attn_score score;                   /* w_q, w_k, b, v, w */
    attn_tensor slopes, table, key_table, value_table; /* of position; slopes only if given */
} attn_gradients;

/* Computes the bytes and operations of attn_attention_backward from shapes alone. For
 * attn_attention_run_backward they come on top of those of its run with `want`. `bias_elements` is
 * the number of elements in the tensors of all bias layers. fallback_bytes are those of a second
 * attempt in double. Errors: ATTN_ELIMIT (overflow). */
attn_status attn_gradients_cost(const attn_attention_dims *dims, unsigned want,
                                size_t bias_elements, size_t slots, attn_cost *out,
                                attn_error *err);

/* Computes the gradients of a loss from grad_output, its gradient with respect to the output.
 * `results` come from a run with ATTN_WANT_OUTPUT. grad_output has the shape of the output and a
 * floating-point type. Only the shapes decide the order of summation, so any pool gives the same
 * bytes.
 *
 * In float32, dZ times the scale of a cell is flushed to 0 below 1.2e-38, the smallest normal
 * number. (The table "ref" computes in double and flushes nothing.) With so small a grad_output or
 * scale, gradients of queries and keys are too small or 0 without an error, even if large keys
 * would bring them back into range. Multiply grad_output by a power of two then, or use float64.
 *
 * With dropout, the gradients are those of the computed output. A score that a finite fill replaces
 * has no gradient for query, key and bias. Errors: ATTN_ESHAPE ("grad_output"), ATTN_ENONFINITE (in
 * grad_output; in visible inputs, even if the run allowed it; gradients that overflow), ATTN_EARG
 * (a score form without a backward pass), ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. Only one
 * thread at a time may call it for an operation. */
attn_status attn_attention_backward(attn_attention *a, const attn_results *results,
                                    const attn_tensor *grad_output, attn_pool *pool,
                                    const attn_control *control, attn_arena *arena,
                                    attn_gradients *out, attn_error *err);

/* Runs the operation and its backward pass together, for callers that know grad_output beforehand.
 * It gives the same bytes as attn_attention_run and attn_attention_backward. If each work item is a
 * whole head, it takes less time, since it computes the weights only once. `want` must include
 * ATTN_WANT_OUTPUT. Memory, errors and thread rules are those of the two functions. */
attn_status attn_attention_run_backward(attn_attention *a, unsigned want, attn_stage stage,
                                        const attn_tensor *grad_output, attn_pool *pool,
                                        const attn_control *control, attn_arena *arena,
                                        attn_results *results, attn_gradients *out,
                                        attn_error *err);

/* Gradients of the projections. Each has the shape of its tensor, or rank 0 if that is absent. */
typedef struct attn_projection_gradients {
    attn_tensor w_q, b_q, w_k, b_k, w_v, b_v, w_o, b_o;
} attn_projection_gradients;

/* Computes the backward pass of W_o. `output` is the output of the operation before the projection,
 * and grad_output is the gradient after it. *grad is the gradient of `output`, and *into gets those
 * of w_o and b_o. Without W_o, *grad is grad_output. */
attn_status attn_projections_output_backward(const attn_tensor *output, const attn_projections *p,
                                             const attn_tensor *grad_output, attn_arena *arena,
                                             attn_tensor *grad, attn_projection_gradients *into,
                                             attn_error *err);

/* Computes the backward pass of W_q, W_k and W_v. `in` is the input of attn_projections_apply, and
 * `inner` holds the gradients of the projected query, key and value. *out gets the gradients of
 * in->query, key and value (if key is absent, its gradient is added to that of query). The other
 * members of *out are copied from inner. */
attn_status attn_projections_backward(const attn_inputs *in, const attn_projections *p,
                                      const attn_gradients *inner, attn_arena *arena,
                                      attn_gradients *out, attn_projection_gradients *into,
                                      attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
