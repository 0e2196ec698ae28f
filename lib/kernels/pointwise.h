/* Functions on rows that layers call between dense products. pointwise_body.h has one version of
 * each, in C that compilers vectorise, and it is compiled for each instruction set. Compilers must
 * neither contract nor reassociate, and sums run in POINTWISE_LANES chains, so every table of row
 * functions gives the same bytes. Rows hold n float32 elements of any alignment. They must not
 * overlap unless a comment allows it. The error of exponentials, tanh and sigmoids is at most 3
 * units in the last place of the larger of the result and 2^-3. */
#ifndef ATTN_POINTWISE_H
#define ATTN_POINTWISE_H

#include <attn/isa.h>
#include <stddef.h>
#include <stdint.h>

enum { POINTWISE_LANES = 16 };

/* One row of an LSTM step. gates [4H] hold input, forget, cell and output, in this order. */
typedef struct attn_lstm_row {
    float *gates;
    const float *before; /* c_(t-1) [H]; NULL: zeros */
    float *c, *h;        /* [H] */
    const float *dh;     /* backward: gradient of h */
    float *dc;           /* backward: gradient of c_t on entry, of c_(t-1) on return */
} attn_lstm_row;

/* Statistics of one row of layer norm: mean, and scale = 1 / sqrt(variance + epsilon). */
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
    void (*tanh)(float *y, const float *x, size_t n);    /* y may be x */
    void (*sigmoid)(float *y, const float *x, size_t n); /* y may be x */
    /* gates hold pre-activations on entry and activations on return. */
    void (*lstm_forward)(const attn_lstm_row *row, size_t H);
    /* gates hold activations on entry and gradients of the pre-activations on return. */
    void (*lstm_backward)(const attn_lstm_row *row, size_t H);
    /* Sets p = e^(x - max x) and *max, and returns the sum of p. p may be x. */
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
    double (*dot)(const float *x, const float *y, size_t n); /* sums in double; x may be y */
    void (*adam)(float *values, const float *gradients, float *first, float *second, size_t n,
                 const attn_adam_row *step);
    /* Adds x [rows, K] times a matrix [K, N] to y [rows, N]. Row strides are ldx and ldy. The
     * matrix consists of panels [K, POINTWISE_LANES], and the last is padded with zeros. It suits
     * repeated products of few rows, since it packs nothing. Sums run along K. */
    void (*product)(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                    const float *panels, size_t N, size_t K);
} attn_pointwise;

extern const attn_pointwise attn_pointwise_ref, attn_pointwise_avx2, attn_pointwise_avx512;

/* Returns the row functions of an instruction set, which the processor must support. */
const attn_pointwise *attn_pointwise_of(attn_isa isa);
/* Returns the row functions of the instruction set of the chosen kernel table. */
const attn_pointwise *attn_pointwise_current(void);

#endif
