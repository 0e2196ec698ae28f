/* bfloat16: the upper half of a float32, with 8 bits of significand. Tables with bfloat16 products
 * replace a number x by one, two or three bfloat16 parts h, m and l. The precision decides how
 * many:
 *
 *           parts          h = x, m = x - h and l = x - h - m, each rounded to bfloat16
 *   bf16    x ~ h          a product is h h'
 *   fast    x ~ h + m      a product is h h' + h m' + m h'
 *   fp32    x = h + m + l  a product is h h' + h m' + m h' + m m' + h l' + l h'
 *
 * h is rounded to nearest, with ties to even for bf16. x - h and x - h - m are exact in float32. So
 * three parts hold all 24 bits of x, unless l is below the normal range, 2^-126, as happens for |x|
 * < 2^-102. The error of one part is at most 2^-8 |x|, and that of two parts 2^-16 |x|. The product
 * m m' that `fast` leaves out is at most 2^-16 of the whole product. */
#ifndef ATTN_BF16_H
#define ATTN_BF16_H

#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

static inline uint32_t attn_bf16_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float attn_bf16_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns the bfloat16 nearest to x, ties to even. NaN stays unchanged. The function has no
 * branches, so that compilers vectorise loops over it. */
static inline float attn_bf16_round(float x) {
    const uint32_t bits = attn_bf16_bits(x);
    const uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u;
    return attn_bf16_float((bits & 0x7fffffffu) > 0x7f800000u ? bits : nearest);
}

/* These functions take *k, a copy of a table of plain products, and replace its products by
 * products in the given precision. */
void attn_kernels_round_ref(attn_kernels *k, attn_precision precision);
void attn_kernels_round_avx2(attn_kernels *k);   /* ATTN_PRECISION_BF16 */
void attn_kernels_round_avx512(attn_kernels *k); /* ATTN_PRECISION_BF16 */

/* These functions make *k a table for ATTN_PRECISION_FAST: its exponentials take fewer steps and
 * have a relative error of 2^-18.4, and each of its sums is one chain (simd_body.h). Tables for
 * bf16 keep the exact exponentials. With an error of 2^-18.4 a weight may be rounded to the other
 * neighbouring bfloat16, which changes it by up to 2^-7. */
void attn_kernels_coarse_avx2(attn_kernels *k);
void attn_kernels_coarse_avx512(attn_kernels *k);

#endif
