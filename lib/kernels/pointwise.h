/* Functions of rows that layers need between dense products: written once in pointwise_body.h, in C
 * that compilers vectorise, and compiled for each instruction set. There is neither contraction nor
 * reassociation, sums run in POINTWISE_LANES chains: every table gives the same bytes.
 *
 * Rows are float32, of n elements, of any alignment, not overlapping but where said. Exponentials,
 * tanh and sigmoids are within 3 units in the last place of the larger of the result and 2^-3. */
#ifndef ATTN_POINTWISE_H
#define ATTN_POINTWISE_H

#include <attn/isa.h>
#include <stddef.h>
#include <stdint.h>

enum { POINTWISE_LANES = 16 };

/* One row of an LSTM's step. gates [4H]: input, forget, cell, output. */
typedef struct attn_lstm_row {
    float *gates;
    const float *before; /* c_(t-1) [H]; NULL: zeros */
    float *c, *h;        /* [H] */
    const float *dh;     /* backward: gradient of h */
    float *dc;           /* backward: gradient of c_t in, of c_(t-1) out */
} attn_lstm_row;

/* One row of layer norm; mean and scale = 1 / sqrt(variance + epsilon). */
typedef struct attn_norm_row {
    const float *x, *weight;
    float mean, scale;
} attn_norm_row;

/* Constants of a step of Adam (attn/training.h): value *= shrink; gradient += decay value; m +=
 * keep (gradient - m); v = fade v + fresh gradient^2; value -= step m / (sqrt(v) / root + epsilon).
 */
typedef struct attn_adam_row {
    float keep, fade, fresh, epsilon, root, step, shrink, decay;
} attn_adam_row;

typedef struct attn_pointwise {
    void (*tanh)(float *y, const float *x, size_t n);    /* y == x is fine */
    void (*sigmoid)(float *y, const float *x, size_t n); /* likewise */
    /* gates: sums in, activated out. */
    void (*lstm_forward)(const attn_lstm_row *row, size_t H);
    /* gates: activated in, gradients of the sums out. */
    void (*lstm_backward)(const attn_lstm_row *row, size_t H);
    /* p = e^(x - max x); the sum of them, and the maximum. p == x is fine. */
    float (*exponentials)(float *p, const float *x, size_t n, float *max);
    void (*norm_forward)(float *y, attn_norm_row *row, const float *bias, float epsilon, size_t n);
    /* Adds to dx, dweight and dbias, each of which may be NULL. */
    void (*norm_backward)(float *dx, float *dweight, float *dbias, const float *dy,
                          const attn_norm_row *row, size_t n);
    /* x[i] = 0 where attn_rng_bits(seed, first + i) >> 11 < threshold, else x[i] * factor. */
    void (*dropout)(float *x, size_t n, uint64_t threshold, float factor, uint64_t seed,
                    uint64_t first);
    void (*add)(float *y, const float *x, size_t n);                 /* y += x */
    void (*add_scaled)(float *y, const float *x, float a, size_t n); /* y += a x */
    void (*scale)(float *x, float a, size_t n);
    double (*dot)(const float *x, const float *y, size_t n); /* in double; x == y is fine */
    void (*adam)(float *values, const float *gradients, float *first, float *second, size_t n,
                 const attn_adam_row *step);
    /* y [rows, N], ldy apart, += x [rows, K], ldx apart, times a matrix [K, N] in panels of
     * POINTWISE_LANES columns, each [K, POINTWISE_LANES], the last filled up with zeros: for few
     * rows that come again and again, since nothing is packed. Sums run along K. */
    void (*product)(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                    const float *panels, size_t N, size_t K);
} attn_pointwise;

extern const attn_pointwise attn_pointwise_ref, attn_pointwise_avx2, attn_pointwise_avx512;

/* That of an instruction set that the processor has. */
const attn_pointwise *attn_pointwise_of(attn_isa isa);
/* That of the chosen kernel table. */
const attn_pointwise *attn_pointwise_current(void);

#endif
