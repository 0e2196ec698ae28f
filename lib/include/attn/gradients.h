/* Gradients of attention: the backward pass of an operation that has run.
 *
 * S = Q K^T are the scores, Z = edit(S) the scores after scale, softcap, additive parts and mask, P
 * = softmax(Z), O = P V, and dX is the gradient of the loss with respect to X. Given dO:
 *
 *   dV = P^T dO      dP = dO V^T      dZ = P o (dP - rowsum(dO o O))
 *   dQ = dS K        dK = dS^T Q      where dS is dZ times the derivative of edit
 *
 * A gradient dlse of the logsumexp (inputs.grad_logsumexp) adds P o dlse to dZ. With another
 * normaliser than softmax, P_ij = f(Z_ij - t_i), and dZ_ij = f'_ij (dP_ij - m_i): m_i is the mean
 * of dP in row i with the weights f', or 0 if no threshold t makes the row sum to 1.
 *
 * If weights are mixed with the factors F, output head g is the sum over h of F_gh O_h, so dO_h is
 * the sum over g of F_gh dO_g, and dF_gh = dO_g . O_h.
 *
 * The weights P are computed again from the maximum and the sum of each row (Dao et al.,
 * "FlashAttention", 2022, appendix B.2). So memory grows with L + S and not with L x S, unless dZ
 * itself is wanted. */
#ifndef ATTN_GRADIENTS_H
#define ATTN_GRADIENTS_H

#include "attention.h"
#include "projections.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Gradients of the inputs, in the arena. Each is dense, has shape and layout of its input and the
 * type dims.result. If an input is absent, its gradient has rank 0. An absent key or value stands
 * for another tensor, and its gradient is part of that tensor's gradient. */
typedef struct attn_gradients {
    attn_tensor query, key, value, past_key, past_value;
    attn_tensor sinks, scales;
    attn_tensor normalizer_bias; /* gradient of normalizer.bias, if that is given */
    /* gradients of mix.logits and mix.weights, if they are given */
    attn_tensor mix_logits, mix_weights;
    attn_tensor subtract_lambda; /* gradient of subtract.lambda, if that is given */
    attn_tensor scores; /* dZ, with the shape of the weights; only with inputs.score_gradients */
    /* [mask layer] gradients of the tensors that are added to the scores (attn_layer_is_added) */
    attn_tensor bias[ATTN_MASK_LAYERS];
    attn_score score; /* gradients of w_q, w_k, b, v, w */
    /* gradients of the position's tensors; of slopes only if they are given */
    attn_tensor slopes, table, key_table, value_table, query_table, frequencies;
    attn_position score_position; /* gradients of its tensors in their members */
} attn_gradients;

/* Computes the cost of attn_attention_backward on `slots` threads from shapes alone, after a run
 * with these bits `want`, which include ATTN_WANT_CELLS; want = 0: after any other run. For
 * attn_attention_run_backward, add the cost of its run with `want`. bias_elements is the number of
 * elements of all mask layers that are added to the scores, plus the number of weights if the
 * gradients of scores are wanted. fallback_bytes counts a second attempt in double. ATTN_ELIMIT: a
 * size overflows. */
attn_status attn_gradients_cost(const attn_attention_dims *dims, unsigned want,
                                size_t bias_elements, size_t slots, attn_cost *out,
                                attn_error *err);

/* Computes the gradients from grad_output, the gradient of a loss with respect to the output.
 * grad_output has the shape of the output and a floating-point type. Rank 0 stands for zeros, if
 * the loss depends on the logsumexp alone. `results` are those of a run with ATTN_WANT_OUTPUT. The
 * shapes alone decide the order of summation, so any pool gives the same bytes. Only one thread at
 * a time may call it for an operation.
 *
 * - Dropout: the gradients are those of the computed output.
 * - Finite fill: a score that a fill replaces has no gradient for query, key and mask layers.
 * - Small numbers: in float32, products of dZ and the scale below 1.2e-38, the smallest normal
 *   number, become 0. If grad_output or the scale is that small, gradients of queries and keys are
 *   too small or 0, without an error, even if large keys would make them normal again. Multiply
 *   grad_output by a power of two then, or use float64. The table "ref" computes in double and is
 *   not affected.
 *
 * Errors:
 *
 *   ATTN_ESHAPE                     grad_output has another shape ("grad_output")
 *   ATTN_ENONFINITE                 NaN or infinity in grad_output or in visible inputs (also if
 *                                   the run allowed it), or gradients that overflow
 *   ATTN_EARG                       a score form without a backward pass
 *   ATTN_ENOMEM                     the arena is full
 *   ATTN_ECANCELED, ATTN_EDEADLINE  `control` stopped it */
attn_status attn_attention_backward(attn_attention *a, const attn_results *results,
                                    const attn_tensor *grad_output, attn_pool *pool,
                                    const attn_control *control, attn_arena *arena,
                                    attn_gradients *out, attn_error *err);

/* Runs an operation and its backward pass together, for callers that know grad_output beforehand.
 * The results have the same bytes as those of attn_attention_run and attn_attention_backward. This
 * takes less time if a piece of work is a whole head, since the weights are then computed only
 * once. `want` must include ATTN_WANT_OUTPUT. Memory, errors and thread rules are those of the two
 * functions. */
attn_status attn_attention_run_backward(attn_attention *a, unsigned want, attn_stage stage,
                                        const attn_tensor *grad_output, attn_pool *pool,
                                        const attn_control *control, attn_arena *arena,
                                        attn_results *results, attn_gradients *out,
                                        attn_error *err);

/* The next two functions store gradients of projections in an attn_projections: each has the shape
 * of its projection, or rank 0 if there is no such projection. */

/* Computes the backward pass of the projection W_o. `output` is the output of the operation, before
 * the projection. grad_output is the gradient of the loss with respect to the projected output.
 * *grad becomes the gradient with respect to `output`; into->w_o and into->b_o are set. Without
 * W_o, *grad is grad_output. All is in the arena. */
attn_status attn_projections_output_backward(const attn_tensor *output, const attn_projections *p,
                                             const attn_tensor *grad_output, attn_arena *arena,
                                             attn_tensor *grad, attn_projections *into,
                                             attn_error *err);

/* Computes the backward pass of the projections W_q, W_k and W_v. `in` are the inputs given to
 * attn_projections_apply. `inner` are the gradients with respect to the projected query, key and
 * value. out->query, out->key and out->value become the gradients with respect to in->query,
 * in->key and in->value (if in->key is absent, its gradient is part of out->query), and out->table
 * becomes the gradient of learned positions. The other members of *out are copied from `inner`, and
 * the members of *into are set. */
attn_status attn_projections_backward(const attn_inputs *in, const attn_projections *p,
                                      const attn_gradients *inner, attn_arena *arena,
                                      attn_gradients *out, attn_projections *into, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
