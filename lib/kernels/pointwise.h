/* Functions on rows of float32, which layers call between dense products, and on rows of double,
 * with which analyses measure weights.
 *
 * pointwise_body.h has the only version of each function, in C that compilers vectorise. That file
 * is compiled once for each instruction set. All instruction sets give the same bytes: compilers
 * may neither contract nor reassociate, and every sum is added in POINTWISE_LANES lanes.
 *
 * Rows hold n elements of any alignment. They must not overlap unless a comment allows it. The
 * error of exponentials, tanh and sigmoids is at most 3 units in the last place of the result, or
 * of 2^-3 if the result is smaller; that of gelu, gelu_tanh and silu is at most 2^-22 |x|. */
#ifndef ATTN_POINTWISE_H
#define ATTN_POINTWISE_H

#include <attn/isa.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/row_scan.h"

enum { POINTWISE_LANES = 16, POOL_LANES = 8 };

/* One row of an LSTM step t with H units. */
typedef struct attn_lstm_row {
    float *gates;        /* [4H]: input, forget, cell and output gate, in this order */
    const float *before; /* c_(t-1) [H]; NULL: zeros */
    float *c, *h;        /* c_t and h_t, [H] each */
    const float *dh;     /* backward: gradient of h_t [H] */
    float *dc;           /* backward: gradient of c_t on entry, of c_(t-1) on return, [H] */
} attn_lstm_row;

/* One row of layer norm or, if `uncentred`, of RMS norm, where the mean is 0. norm_forward writes
 * mean and scale = 1 / sqrt(variance + epsilon), and norm_backward reads them. */
typedef struct attn_norm_row {
    const float *x, *weight;
    bool uncentred;
    float mean, scale;
} attn_norm_row;

/* Constants of a step of Adam (train/training.h), which computes for each value, with its gradient
 * and its moments m and v:
 *   value *= shrink
 *   gradient += decay * value
 *   m += keep * (gradient - m)
 *   v = fade * v + fresh * gradient^2
 *   value -= step * m / (sqrt(v) / root + epsilon) */
typedef struct attn_adam_row {
    float keep, fade, fresh, epsilon, root, step, shrink, decay;
} attn_adam_row;

/* Partial sums and maxima of a sequence of numbers: lane l has those of the numbers l, l +
 * POOL_LANES, … */
typedef struct attn_pool_lanes {
    double sum[POOL_LANES];
    float max[POOL_LANES];
} attn_pool_lanes;

typedef struct attn_pointwise {
    void (*tanh)(float *y, const float *x, size_t n);    /* y may be x */
    void (*sigmoid)(float *y, const float *x, size_t n); /* y may be x */
    /* x Phi(x), its approximation by tanh, and x sigmoid(x); y may be x. */
    void (*gelu)(float *y, const float *x, size_t n);
    void (*gelu_tanh)(float *y, const float *x, size_t n);
    void (*silu)(float *y, const float *x, size_t n);
    /* row->gates holds pre-activations on entry and activations on return. */
    void (*lstm_forward)(const attn_lstm_row *row, size_t H);
    /* row->gates holds activations on entry and gradients of the pre-activations on return. */
    void (*lstm_backward)(const attn_lstm_row *row, size_t H);
    /* Sets *max to the largest x[i], and p[i] to e^(x[i] - *max). Returns the sum of p. p may be
     * x. */
    float (*exponentials)(float *p, const float *x, size_t n, float *max);
    /* `bias` is NULL if there is no bias. y may be row->x. */
    void (*norm_forward)(float *y, attn_norm_row *row, const float *bias, float epsilon, size_t n);
    /* Adds the gradients to dx, dweight and dbias. A gradient whose array is NULL is not
     * computed. */
    void (*norm_backward)(float *dx, float *dweight, float *dbias, const float *dy,
                          const attn_norm_row *row, size_t n);
    /* Sets x[i] to 0 if attn_rng_bits(seed, first + i) >> 11 < threshold, else to x[i] * factor. */
    void (*dropout)(float *x, size_t n, uint64_t threshold, float factor, uint64_t seed,
                    uint64_t first);
    void (*add)(float *y, const float *x, size_t n);                 /* y += x */
    void (*multiply)(float *y, const float *x, size_t n);            /* y *= x */
    void (*add_scaled)(float *y, const float *x, float a, size_t n); /* y += a x */
    void (*scale)(float *x, float a, size_t n);
    double (*dot)(const float *x, const float *y, size_t n); /* sums in double; x may be y */
    /* Adds x [cells, width] to lanes [cells]: row c to the sums and maxima of lanes[c]. `width` is
     * a multiple of POOL_LANES. */
    void (*pool)(attn_pool_lanes *lanes, const float *x, size_t cells, size_t width);
    void (*adam)(float *values, const float *gradients, float *first, float *second, size_t n,
                 const attn_adam_row *step);
    /* The functions of row_sums.h, for rows of double. */
    double (*sum)(const double *x, size_t n);
    double (*products)(const double *x, const double *y, size_t n); /* sum of x[i] * y[i] */
    double (*ramp)(const double *x, size_t n, double from);
    double (*xlnx)(const double *x, size_t n);
    double (*mix_xlnx)(const double *x, const double *y, size_t n);
    /* Sets p[j] to weights[j] if visible[j] is 1, and to 0 if visible[j] is 0. Returns whether a
     * hidden weight is not 0. */
    bool (*widen_visible)(double *p, const float *weights, const uint8_t *visible, size_t n);
    /* Sets centered to p - uniform where the key is visible and to 0 elsewhere, and q to p /
     * mass. */
    void (*centre)(double *centered, double *q, const double *p, const uint8_t *visible,
                   double uniform, double mass, size_t n);
    /* Adds a row to sums over rows: p to `received`, and `visible` to `seen`. */
    void (*tally)(double *received, uint64_t *seen, const double *p, const uint8_t *visible,
                  size_t n);
    /* Returns the index of the first largest number of a row without NaN; n > 0. */
    size_t (*largest)(const double *x, size_t n);
    /* The functions of row_scan.h. */
    attn_logit_scan (*scan_logits)(const float *logits, size_t n);
    double (*spread)(const float *logits, size_t n, double mean);
    void (*add_fall)(attn_fall_sums *sums, const float *weights, const float *logits, size_t n,
                     float m);
    attn_weight_scan (*scan_weights)(double *p, const float *weights, size_t n, double from);
    size_t (*find_double)(const double *x, size_t n, double wanted);
    size_t (*find_float)(const float *x, size_t n, float wanted);
    /* Adds x [rows, K] times a matrix [K, N] to y [rows, N]. Row strides are ldx and ldy. The
     * caller has packed the matrix as panels [K, POINTWISE_LANES] of its columns, the last panel
     * padded with zeros. This function is faster than attn_kernels_gemm for repeated products of
     * few rows, since it packs nothing. Each sum is added along K in order. */
    void (*product)(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                    const float *panels, size_t N, size_t K);
} attn_pointwise;

extern const attn_pointwise attn_pointwise_ref, attn_pointwise_avx2, attn_pointwise_avx512;

/* Returns the row functions of an instruction set, which the processor must support. */
const attn_pointwise *attn_pointwise_of(attn_isa isa);
/* Returns the row functions of the instruction set of the chosen kernel table. */
const attn_pointwise *attn_pointwise_current(void);

#endif
