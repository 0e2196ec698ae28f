/* Arithmetic that lib/analysis shares: sums over rows. The kernels of the processor compute them if
 * the rows are long. */
#ifndef ATTN_ANALYSIS_SUMS_H
#define ATTN_ANALYSIS_SUMS_H

#include <attn/heatmap.h>
#include <math.h>
#include <string.h>

#include "kernels/pointwise.h"
#include "kernels/row_sums.h"

/* Rows of at least this many numbers are summed faster by the kernels of the processor. The result
 * is the same in every bit. */
enum { ATTN_LONG_ROW = 64 };

static inline double attn_sum(const double *x, size_t n) {
    return n < ATTN_LONG_ROW ? attn_sum_here(x, n) : attn_pointwise_current()->sum(x, n);
}

static inline double attn_dot(const double *x, const double *y, size_t n) {
    return n < ATTN_LONG_ROW ? attn_dot_here(x, y, n) : attn_pointwise_current()->products(x, y, n);
}

/* Returns the sum of x[j] * (from + j) over j < n. */
static inline double attn_ramp(const double *x, size_t n, double from) {
    return n < ATTN_LONG_ROW ? attn_ramp_here(x, n, from)
                             : attn_pointwise_current()->ramp(x, n, from);
}

/* Returns the sum of x ln x for x >= 0, where 0 ln 0 = 0. */
static inline double attn_sum_xlnx(const double *x, size_t n) {
    return n < ATTN_LONG_ROW ? attn_sum_xlnx_here(x, n) : attn_pointwise_current()->xlnx(x, n);
}

/* Returns the sum of m ln m for m = (x[j] + y[j]) / 2. */
static inline double attn_mix_xlnx(const double *x, const double *y, size_t n) {
    return n < ATTN_LONG_ROW ? attn_mix_xlnx_here(x, y, n)
                             : attn_pointwise_current()->mix_xlnx(x, y, n);
}

/* Replaces negative weights of a source that has some by 0. */
static inline void attn_drop_negative(const attn_weight_source *source, float *weights, size_t n) {
    for (size_t j = 0; source->has_negative && j < n; j++)
        weights[j] = weights[j] < 0 ? 0 : weights[j];
}

/* Sets visible[j] to 1 where the logit is not -infinity, else to 0. */
static inline void attn_find_logits(const float *restrict logits, size_t n,
                                    uint8_t *restrict visible) {
    for (size_t j = 0; j < n; j++)
        visible[j] = logits[j] == -INFINITY ? 0 : 1;
}

/* Sets visible[j] to 1 for each of the S keys that a row of a source sees, else to 0. Keys are
 * hidden by the row's logits if the source has logits, else by `mask`. If `mask` is NULL, no key is
 * hidden. `at` gives batch, head and row. */
static inline void attn_find_visible(const attn_weight_source *source, const attn_mask *mask,
                                     const float *logits, const attn_range *at, size_t S,
                                     uint8_t *visible) {
    if (source->has_logits)
        attn_find_logits(logits, S, visible);
    else if (mask)
        attn_mask_keep(mask, attn_repeated_entry(at->batch, attn_mask_batches(mask)), at->head,
                       at->row, 0, S, visible);
    else
        memset(visible, 1, S);
}

/* Sets [*from, *to) to the smallest interval with all j < n where visible[j] is 1, or to [0, 0) if
 * there is none. */
static inline void attn_find_span(const uint8_t *visible, size_t n, size_t *from, size_t *to) {
    const uint8_t *last = n ? memrchr(visible, 1, n) : NULL;
    *to = last ? (size_t)(last - visible) + 1 : 0;
    *from = last ? (size_t)((const uint8_t *)memchr(visible, 1, n) - visible) : 0;
}

/* Returns x limited to [low, high]. */
static inline size_t attn_within(size_t x, size_t low, size_t high) {
    return x < low ? low : x > high ? high : x;
}

#endif
