/* Sums over rows in double. A sum over a long row has ATTN_PARTIAL_SUMS partial sums, so that
 * additions need not wait for each other. They are added in a fixed order at the end, so the result
 * is always the same. The logarithm is written so that compilers vectorise it. pointwise_body.h
 * compiles these functions for each instruction set; callers with short rows call them directly. */
#ifndef ATTN_ROW_SUMS_H
#define ATTN_ROW_SUMS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Number of partial sums. */
enum { ATTN_PARTIAL_SUMS = 8 };

/* Adds the partial sums in their fixed order. */
static inline double attn_join(const double s[ATTN_PARTIAL_SUMS]) {
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

/* Defines a function that returns the sum of `term`, an expression of i, over i < n. */
#define ATTN_DEFINE_SUM(name, parameters, term)                                                    \
    static inline double name parameters {                                                         \
        double s[ATTN_PARTIAL_SUMS] = {0};                                                         \
        size_t j = 0;                                                                              \
        for (; j + ATTN_PARTIAL_SUMS <= n; j += ATTN_PARTIAL_SUMS)                                 \
            for (size_t k = 0, i = j; k < ATTN_PARTIAL_SUMS; k++, i++)                             \
                s[k] += (term);                                                                    \
        for (size_t k = 0, i = j; i < n; k++, i++)                                                 \
            s[k] += (term);                                                                        \
        return attn_join(s);                                                                       \
    }

ATTN_DEFINE_SUM(attn_sum_here, (const double *x, size_t n), x[i])
ATTN_DEFINE_SUM(attn_dot_here, (const double *x, const double *y, size_t n), x[i] * y[i])
ATTN_DEFINE_SUM(attn_ramp_here, (const double *x, size_t n, double from), x[i] * (from + (double)i))

/* Returns ln x for normal x > 0 with an error of about 3e-14. x = 2^e m with m in [sqrt(1/2),
 * sqrt(2)), and ln m = 2 atanh f for f = (m - 1) / (m + 1), |f| <= 0.172. The series of atanh ends
 * where its terms are below 1e-14. e is converted to double by placing it in the low bits of 2^52,
 * which needs only 64-bit shifts and additions. The series is summed in pairs (Estrin), which a
 * processor computes at the same time. */
static inline double attn_ln(double x) {
    uint64_t bits, e;
    double m, power;
    memcpy(&bits, &x, sizeof bits);
    e = (bits + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu)) >> 52;
    bits -= (e - 1023) << 52;
    e |= 0x4330000000000000u;
    memcpy(&m, &bits, sizeof m);
    memcpy(&power, &e, sizeof power);
    double f = (m - 1) / (m + 1), g = f * f, g2 = g * g, g4 = g2 * g2;
    double low = (1 + g * (1 / 3.0)) + g2 * (1 / 5.0 + g * (1 / 7.0));
    double high = (1 / 9.0 + g * (1 / 11.0)) + g2 * (1 / 13.0 + g * (1 / 15.0));
    double series = low + g4 * (high + g4 * (1 / 17.0));
    return (power - (0x1p52 + 1023)) * 0x1.62e42fefa39efp-1 + 2 * f * series;
}

/* Defines a function that returns the sum of v ln v over j < n, with 0 ln 0 = 0. `value` is v, an
 * expression of j that is not below 0. The smallest normal number is added to v before the
 * logarithm, which allows v = 0 and changes no result. The terms are computed 64 at a time, in a
 * simple loop that compilers vectorise. */
#define ATTN_DEFINE_XLNX(name, parameters, value)                                                  \
    static inline double name parameters {                                                         \
        double terms[64], sum = 0;                                                                 \
        for (size_t from = 0; from < n; from += 64) {                                              \
            const size_t count = n - from < 64 ? n - from : 64;                                    \
            for (size_t k = 0, j = from; k < count; k++, j++) {                                    \
                const double v = (value);                                                          \
                terms[k] = v * attn_ln(v + 0x1p-1022);                                             \
            }                                                                                      \
            sum += attn_sum_here(terms, count);                                                    \
        }                                                                                          \
        return sum;                                                                                \
    }

ATTN_DEFINE_XLNX(attn_sum_xlnx_here, (const double *x, size_t n), x[j])
ATTN_DEFINE_XLNX(attn_mix_xlnx_here, (const double *x, const double *y, size_t n),
                 0.5 * (x[j] + y[j]))

#endif
