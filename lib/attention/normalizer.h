/* Normalisers other than softmax: how the edited scores of a row become weights.
 *
 * A row has a threshold t and a divisor d, which take the places of the maximum and the sum of
 * softmax in attn_stats. They and a score s give the weight, so single cells have the bits of the
 * full matrix:
 *
 *   kind          weight              t         d
 *   sigmoid       1 / (1 + e^(t - s))  -bias     1
 *   relu          max(0, s - t) / d    0         the given divisor, or the number of visible keys
 *   relu_squared  max(0, s - t)^2 / d  0         the same
 *   sparsemax     max(0, s - t)        sum 1     1
 *   entmax        max(0, (alpha - 1)(s - t))^(1 / (alpha - 1))   sum 1   1
 *
 * "sum 1" is the threshold for which the weights of the row, that of a sink included, sum to 1. A
 * row that sees no key and has no sink has d = 0 and weights of 0. Weights are computed in double
 * and rounded once. */
#ifndef ATTN_NORMALIZER_H
#define ATTN_NORMALIZER_H

#include "attention/resolved.h"

/* Checks in->normalizer, and sets the members of *d that depend on it. d->Hq must be set. */
attn_status attn_normalizer_resolve(const attn_inputs *in, attn_attention_dims *d, attn_error *err);

/* The statistics of a row, from which its weights are computed, and its largest visible score or
 * sink; -infinity: the row sees no key and has no sink. */
typedef struct attn_normalized_row {
    double threshold, divisor, largest;
} attn_normalized_row;

/* In the functions that follow, a void * is an array of n elements with `elem` bytes each: 4
 * (float) or 8 (double). Scores are edited, and -infinity where the key is hidden. */

/* Computes the statistics of a row of head h from all of its n scores and its sink, -infinity if
 * there is none. */
attn_normalized_row attn_normalizer_row(const attn_attention *a, size_t h, double sink,
                                        const void *scores, size_t elem, size_t n);
/* Computes the weights of n scores. dst may equal scores. */
void attn_normalizer_weights(const attn_attention *a, void *dst, const void *scores, size_t elem,
                             size_t n, double threshold, double divisor);
/* Computes the weights of a row of a tile, and replaces dP in `grad` by scale * dZ. Let f be the
 * weight as a function of the score. Then dZ = f' dP, or f' (dP - mean) if the weights sum to 1;
 * `mean` is the mean of dP over the row with the weights f'. */
typedef struct attn_normalizer_gradient {
    double threshold, divisor, mean, scale;
} attn_normalizer_gradient;
void attn_normalizer_backward(const attn_attention *a, void *weights, void *grad,
                              const void *scores, size_t elem, size_t n,
                              const attn_normalizer_gradient *how);
/* Adds f' dP of the cells to sums[0] and f' to sums[1], whose quotient over a row is the mean. */
void attn_normalizer_add(const attn_attention *a, const void *grad, const void *scores, size_t elem,
                         size_t n, double threshold, double divisor, double sums[2]);
/* Returns f' of the sink of a row with this threshold; 0 for a sink of -infinity. */
double attn_normalizer_sink(const attn_attention *a, double sink, double threshold);

/* Computes the weights of n edited scores of a row with the statistics max and sum, by softmax or
 * the operation's normaliser. `k` is the kernel table that has computed the scores. */
static inline void attn_weigh_cells(const attn_attention *a, const attn_kernels *k, void *dst,
                                    const void *scores, size_t n, double max, double sum) {
    if (a->dims.normalizer)
        attn_normalizer_weights(a, dst, scores, k->elem, n, max, sum);
    else
        k->weights(dst, scores, n, max, sum);
}

#endif
