/* bfloat16: the upper half of a float32, 8 bits of significand. What `precision` rounds and splits.
 *
 *   bf16  x ~ h            h = x to the nearest bfloat16, ties to even
 *   fast  x ~ h + m        m = x - h to the nearest; a product keeps h h' + h m' + m h'
 *   fp32  x = h + m + l    on tables of bf16 products: h h' + h m' + m h' + m m' + h l' + l h'
 *
 * x - h and x - h - m are exact in float32, so that three parts hold all 24 bits of x unless the
 * last falls below the normal range, 2^-126, as it does for |x| < 2^-102. One part is off by at
 * most 2^-8 |x|, two by 2^-16 |x|; the product that fast drops is at most 2^-16 of the whole. */
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

/* The nearest bfloat16; NaN stays what it is. Without branches, for vectors. */
static inline float attn_bf16_round(float x) {
    const uint32_t bits = attn_bf16_bits(x);
    const uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u;
    return attn_bf16_float((bits & 0x7fffffffu) > 0x7f800000u ? bits : nearest);
}

/* Tables made from a table of plain products: products of a precision over its elements. */
void attn_kernels_round_ref(attn_kernels *k, attn_precision precision);
void attn_kernels_round_avx2(attn_kernels *k);   /* ATTN_PRECISION_BF16 */
void attn_kernels_round_avx512(attn_kernels *k); /* ATTN_PRECISION_BF16 */

/* ATTN_PRECISION_FAST: exponentials that are off by 2^-18.4, in fewer steps, and sums in one chain
 * each. bf16's exponentials stay: what they are off by can turn a rounding, which is 2^-9. */
void attn_kernels_coarse_avx2(attn_kernels *k);
void attn_kernels_coarse_avx512(attn_kernels *k);

#endif
