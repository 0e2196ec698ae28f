/* One pass over a row of weights or of logits that computes all its sums. pointwise_body.h compiles
 * these functions for each instruction set. Partial sum k of 8 has the numbers k, 8 + k, …, as in
 * row_sums.h. The loops are over pairs of vectors of 4 numbers, for two reasons: gcc does not
 * vectorise loops over float and double together, and it splits vectors of 8 doubles into single
 * numbers. A comparison of vectors sets all bits of a lane or none. */
#ifndef ATTN_ROW_SCAN_H
#define ATTN_ROW_SCAN_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/row_sums.h"

#define ROW_VECTOR(type)                                                                           \
    __attribute__((vector_size(4 * sizeof(type)), aligned(sizeof(type)), may_alias))
typedef double row_doubles ROW_VECTOR(double);
typedef int64_t row_longs ROW_VECTOR(int64_t);
typedef float row_floats ROW_VECTOR(float);
typedef int32_t row_ints ROW_VECTOR(int32_t);

/* Results of a scan of the logits of a row. */
typedef struct attn_logit_scan {
    size_t seen;  /* logits that are not -infinity */
    float most;   /* the largest logit, -infinity if there is none */
    double total; /* sum of the logits that are not -infinity */
} attn_logit_scan;

/* Results of a scan of the weights p of a row. */
typedef struct attn_weight_scan {
    double mass, squares; /* sums of p and of p^2 */
    double ramp, reach;   /* sums of p d and of p |d|, where d = `from` + the index of the key */
    double most;          /* the largest p */
} attn_weight_scan;

/* Partial sums of the weights p and of p (m - logit), for the largest logit m. */
typedef struct attn_fall_sums {
    double mass[ATTN_PARTIAL_SUMS], fall[ATTN_PARTIAL_SUMS];
} attn_fall_sums;

static inline row_floats attn_row_choose(row_ints where, row_floats x, row_floats y) {
    return (row_floats)((where & (row_ints)x) | (~where & (row_ints)y));
}

static inline attn_logit_scan attn_scan_logits_here(const float *x, size_t n) {
    const row_floats none = (row_floats){0} - INFINITY;
    row_floats most[2] = {none, none};
    row_doubles total[2] = {{0}, {0}};
    /* Each lane is minus the number of its hidden logits. It cannot overflow, since a row has fewer
     * than 2^34 keys. */
    row_ints hidden[2] = {{0}, {0}};
    attn_logit_scan out = {.seen = n, .most = -INFINITY};
    size_t j = 0;
    for (; j + ATTN_PARTIAL_SUMS <= n; j += ATTN_PARTIAL_SUMS)
        for (size_t h = 0; h < 2; h++) {
            const row_floats v = *(const row_floats *)(x + j + 4 * h);
            const row_ints is_hidden = v == none;
            hidden[h] += is_hidden;
            most[h] = attn_row_choose(v > most[h], v, most[h]);
            total[h] +=
                __builtin_convertvector((row_floats)(~is_hidden & (row_ints)v), row_doubles);
        }
    for (size_t k = 0; j + k < n; k++) {
        const float v = x[j + k];
        hidden[k / 4][k % 4] -= v == -INFINITY;
        total[k / 4][k % 4] += v == -INFINITY ? 0 : (double)v;
        most[k / 4][k % 4] = v > most[k / 4][k % 4] ? v : most[k / 4][k % 4];
    }
    for (size_t k = 0; k < ATTN_PARTIAL_SUMS; k++) {
        out.seen -= (size_t)-hidden[k / 4][k % 4];
        out.most = most[k / 4][k % 4] > out.most ? most[k / 4][k % 4] : out.most;
    }
    out.total = attn_join((const double *)total);
    return out;
}

/* Returns the sum of (x[j] - mean)^2 over logits that are not -infinity. */
static inline double attn_spread_here(const float *x, size_t n, double mean) {
    const row_floats none = (row_floats){0} - INFINITY;
    row_doubles sum[2] = {{0}, {0}};
    size_t j = 0;
    for (; j + ATTN_PARTIAL_SUMS <= n; j += ATTN_PARTIAL_SUMS)
        for (size_t h = 0; h < 2; h++) {
            const row_floats v = *(const row_floats *)(x + j + 4 * h);
            const row_longs visible = __builtin_convertvector((row_ints)(v != none), row_longs);
            const row_doubles d = __builtin_convertvector(v, row_doubles) - mean;
            const row_doubles kept = (row_doubles)(visible & (row_longs)d);
            sum[h] += kept * kept;
        }
    for (size_t k = 0; j + k < n; k++) {
        const double d = x[j + k] == -INFINITY ? 0 : (double)x[j + k] - mean;
        sum[k / 4][k % 4] += d * d;
    }
    return attn_join((const double *)sum);
}

/* Adds n keys of a row to the sums. A weight that is NaN or not above 0 adds nothing. */
static inline void attn_add_fall_here(attn_fall_sums *sums, const float *weights,
                                      const float *logits, size_t n, float m) {
    const row_floats none = {0}, top = none + m;
    row_doubles mass[2], fall[2];
    size_t j = 0;
    memcpy(mass, sums->mass, sizeof mass);
    memcpy(fall, sums->fall, sizeof fall);
    for (; j + ATTN_PARTIAL_SUMS <= n; j += ATTN_PARTIAL_SUMS)
        for (size_t h = 0; h < 2; h++) {
            const row_floats v = *(const row_floats *)(weights + j + 4 * h);
            const row_ints counts = v > none;
            const row_floats s =
                attn_row_choose(counts, *(const row_floats *)(logits + j + 4 * h), top);
            const row_doubles p =
                __builtin_convertvector((row_floats)(counts & (row_ints)v), row_doubles);
            mass[h] += p;
            fall[h] += p * ((double)m - __builtin_convertvector(s, row_doubles));
        }
    for (size_t k = 0; j + k < n; k++)
        if (weights[j + k] > 0) {
            mass[k / 4][k % 4] += (double)weights[j + k];
            fall[k / 4][k % 4] += (double)weights[j + k] * ((double)m - (double)logits[j + k]);
        }
    memcpy(sums->mass, mass, sizeof mass);
    memcpy(sums->fall, fall, sizeof fall);
}

/* Widens n weights to p and scans them; n > 0. */
static inline attn_weight_scan attn_scan_weights_here(double *p, const float *weights, size_t n,
                                                      double from) {
    row_doubles mass[2] = {{0}, {0}}, squares[2] = {{0}, {0}}, ramp[2] = {{0}, {0}};
    row_doubles reach[2] = {{0}, {0}}, most[2] = {mass[0] - INFINITY, mass[0] - INFINITY};
    row_doubles place[2] = {from + (row_doubles){0, 1, 2, 3}, from + (row_doubles){4, 5, 6, 7}};
    const row_longs magnitude = (row_longs){0} + INT64_MAX;
    attn_weight_scan out = {.most = -INFINITY};
    size_t j = 0;
    for (; j + ATTN_PARTIAL_SUMS <= n; j += ATTN_PARTIAL_SUMS)
        for (size_t h = 0; h < 2; h++) {
            const row_doubles v =
                __builtin_convertvector(*(const row_floats *)(weights + j + 4 * h), row_doubles);
            const row_longs larger = v > most[h];
            *(row_doubles *)(p + j + 4 * h) = v;
            mass[h] += v;
            squares[h] += v * v;
            ramp[h] += v * place[h];
            reach[h] += v * (row_doubles)((row_longs)place[h] & magnitude);
            most[h] = (row_doubles)((larger & (row_longs)v) | (~larger & (row_longs)most[h]));
            place[h] += (double)ATTN_PARTIAL_SUMS;
        }
    for (size_t k = 0; j + k < n; k++) {
        const size_t h = k / 4, l = k % 4;
        const double v = (double)weights[j + k];
        p[j + k] = v;
        mass[h][l] += v;
        squares[h][l] += v * v;
        ramp[h][l] += v * place[h][l];
        reach[h][l] += v * fabs(place[h][l]);
        most[h][l] = v > most[h][l] ? v : most[h][l];
    }
    for (size_t k = 0; k < ATTN_PARTIAL_SUMS; k++)
        out.most = most[k / 4][k % 4] > out.most ? most[k / 4][k % 4] : out.most;
    out.mass = attn_join((const double *)mass);
    out.squares = attn_join((const double *)squares);
    out.ramp = attn_join((const double *)ramp);
    out.reach = attn_join((const double *)reach);
    return out;
}

/* Defines a function that returns the index of the first number `wanted` in a row, or n - 1 if the
 * row does not have this number; n > 0. The function compares `step` numbers at once. `flag` is an
 * integer as wide as a number. */
#define ATTN_DEFINE_FIND(name, number, flag, step)                                                 \
    static inline size_t name(const number *x, size_t n, number wanted) {                          \
        size_t j = 0;                                                                              \
        for (; j + (step) <= n; j += (step)) {                                                     \
            flag any = 0;                                                                          \
            for (size_t k = 0; k < (step); k++)                                                    \
                any |= x[j + k] == wanted;                                                         \
            if (any)                                                                               \
                break;                                                                             \
        }                                                                                          \
        while (j + 1 < n && x[j] != wanted)                                                        \
            j++;                                                                                   \
        return j;                                                                                  \
    }

ATTN_DEFINE_FIND(attn_find_double_here, double, int64_t, 32)
ATTN_DEFINE_FIND(attn_find_float_here, float, int32_t, 64)

#endif
