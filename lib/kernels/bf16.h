/* bfloat16: the upper half of a float32, with 8 bits of significand. The precisions round and split
 * numbers as follows.
 *
 *   bf16  x ~ h            h = x to the nearest bfloat16, ties to even
 *   fast  x ~ h + m        m = x - h to the nearest; a product keeps h h' + h m' + m h'
 *   fp32  x = h + m + l    on tables of bf16 products: h h' + h m' + m h' + m m' + h l' + l h'
 *
 * x - h and x - h - m are exact in float32. So the three parts hold all 24 bits of x, unless the
 * last part falls below the normal range, 2^-126, as happens for |x| < 2^-102. The error of one
 * part is at most 2^-8 |x|, that of two parts 2^-16 |x|. The product that `fast` drops is at most
 * 2^-16 of the whole product. */
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

/* Returns the nearest bfloat16. NaN stays unchanged. The function has no branches, so that loops
 * over it can be vectorised. */
static inline float attn_bf16_round(float x) {
    const uint32_t bits = attn_bf16_bits(x);
    const uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u;
    return attn_bf16_float((bits & 0x7fffffffu) > 0x7f800000u ? bits : nearest);
}

/* These functions turn a kernel table of plain products into one with the products of a precision.
 */
void attn_kernels_round_ref(attn_kernels *k, attn_precision precision);
void attn_kernels_round_avx2(attn_kernels *k);   /* ATTN_PRECISION_BF16 */
void attn_kernels_round_avx512(attn_kernels *k); /* ATTN_PRECISION_BF16 */

/* These functions turn a kernel table into one for ATTN_PRECISION_FAST: its exponentials take fewer
 * steps and have a relative error of 2^-18.4, and each sum is one chain. The exponentials of bf16
 * stay unchanged, since an error of this size can change how a number is rounded to bfloat16, by
 * 2^-9. */
void attn_kernels_coarse_avx2(attn_kernels *k);
void attn_kernels_coarse_avx512(attn_kernels *k);

#endif
