/* Arithmetic that the files of this room share. Sums over long rows run in several independent
 * chains, joined in a fixed order, so that additions need not wait for each other. The logarithm is
 * one that compilers turn into vectors. Sums of bytes notice when they exceed size_t. */
#ifndef ATTN_ANALYSIS_SUMS_H
#define ATTN_ANALYSIS_SUMS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <attn/memory.h>

enum { ATTN_WAYS = 8 };

static inline double attn_join(const double s[ATTN_WAYS]) {
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

static inline double attn_sum(const double *x, size_t n) {
    double s[ATTN_WAYS] = {0};
    size_t j = 0;
    for (; j + ATTN_WAYS <= n; j += ATTN_WAYS)
        for (size_t k = 0; k < ATTN_WAYS; k++)
            s[k] += x[j + k];
    for (size_t k = 0; j + k < n; k++)
        s[k] += x[j + k];
    return attn_join(s);
}

static inline double attn_dot(const double *x, const double *y, size_t n) {
    double s[ATTN_WAYS] = {0};
    size_t j = 0;
    for (; j + ATTN_WAYS <= n; j += ATTN_WAYS)
        for (size_t k = 0; k < ATTN_WAYS; k++)
            s[k] += x[j + k] * y[j + k];
    for (size_t k = 0; j + k < n; k++)
        s[k] += x[j + k] * y[j + k];
    return attn_join(s);
}

/* sum of x[j] * (from + j) */
static inline double attn_ramp(const double *x, size_t n, double from) {
    double s[ATTN_WAYS] = {0};
    size_t j = 0;
    for (; j + ATTN_WAYS <= n; j += ATTN_WAYS)
        for (size_t k = 0; k < ATTN_WAYS; k++)
            s[k] += x[j + k] * (from + (double)(j + k));
    for (size_t k = 0; j + k < n; k++)
        s[k] += x[j + k] * (from + (double)(j + k));
    return attn_join(s);
}

/* ln x for normal x > 0, to about 3e-14: x = 2^e m with m in [sqrt(1/2), sqrt(2)), then
 * ln m = 2 atanh f, f = (m - 1)/(m + 1), |f| <= 0.172, whose series ends below 1e-14. Only 64-bit
 * shifts and sums: e becomes a double as the low bits of 2^52. */
static inline double attn_ln(double x) {
    uint64_t bits, e;
    double m, power;
    memcpy(&bits, &x, sizeof bits);
    e = (bits + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu)) >> 52;
    bits -= (e - 1023) << 52;
    e |= 0x4330000000000000u;
    memcpy(&m, &bits, sizeof m);
    memcpy(&power, &e, sizeof power);
    double f = (m - 1) / (m + 1), g = f * f;
    double series =
        1 + g * (1 / 3.0 +
                 g * (1 / 5.0 +
                      g * (1 / 7.0 +
                           g * (1 / 9.0 +
                                g * (1 / 11.0 + g * (1 / 13.0 + g * (1 / 15.0 + g / 17.0)))))));
    return (power - (0x1p52 + 1023)) * 0x1.62e42fefa39efp-1 + 2 * f * series;
}

/* sum of x ln x over x >= 0, 0 at 0: adding the smallest normal number changes no x that matters.
 * In chunks, so that the logarithms are one simple loop. */
static inline double attn_sum_xlnx(const double *x, size_t n) {
    double terms[64], sum = 0;
    for (size_t j = 0; j < n; j += 64) {
        size_t count = n - j < 64 ? n - j : 64;
        for (size_t k = 0; k < count; k++)
            terms[k] = x[j + k] * attn_ln(x[j + k] + 0x1p-1022);
        sum += attn_sum(terms, count);
    }
    return sum;
}

/* x, brought into low … high. */
static inline size_t attn_within(size_t x, size_t low, size_t high) {
    return x < low ? low : x > high ? high : x;
}

typedef struct attn_bytes {
    size_t bytes;
    bool overflow;
} attn_bytes;

/* Adds an array [a, b, c] of elements of `size` bytes. */
static inline void attn_add_array(attn_bytes *s, size_t a, size_t b, size_t c, size_t size) {
    size_t bytes;
    if (!attn_size_mul(a, b, &bytes) || !attn_size_mul(bytes, c, &bytes) ||
        !attn_size_mul(bytes, size, &bytes) || !attn_size_add(s->bytes, bytes, &s->bytes))
        s->overflow = true;
}

#endif
