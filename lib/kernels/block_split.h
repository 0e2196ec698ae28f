/* One function for each quantised format, which splits a block (blocks.h). Files that are compiled
 * for an instruction set include this header, too, so that the compiler vectorises the loops for
 * it. The bytes of the blocks, in order:
 *
 *   Q4_0  d, 16 of q           low halves are values 0 to 15, high halves values 16 to 31
 *   Q4_1  d, dmin, 16 of q
 *   Q5_0  d, 4 of fifth bits, 16 of q              bit i belongs to value i
 *   Q5_1  d, dmin, 4 of fifth bits, 16 of q
 *   Q8_0  d, 32 of q
 *   Q2_K  16 of scale and min, 64 of q, d, dmin
 *   Q3_K  32 of third bits, 64 of q, 12 of scales, d
 *   Q4_K  d, dmin, 12 of scales and mins, 128 of q
 *   Q5_K  d, dmin, 12 of scales and mins, 32 of fifth bits, 128 of q
 *   Q6_K  128 of q, 64 of fifth and sixth bits, 16 of scales, d
 *
 * In the K formats a byte holds parts of several values that are 32 apart. Byte i of 32 holds, from
 * the lowest bits to the highest, parts of the values i, 32 + i, 64 + i, … */
#ifndef ATTN_BLOCK_SPLIT_H
#define ATTN_BLOCK_SPLIT_H

#include <stdint.h>
#include <string.h>

#include "kernels/blocks.h"

#define SPLIT static inline __attribute__((always_inline))

enum { MINUS = 0x8000 }; /* the sign of a binary16 */

SPLIT uint16_t half_at(const uint8_t *at) {
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return half;
}

/* Without a min a value is d * scale * q. The addend -0 changes neither a number nor a zero. */
SPLIT void head_without_min(attn_block_head *head, const uint8_t *d) {
    head->d = half_at(d);
    head->dmin = MINUS;
    memset(head->min, 1, sizeof head->min);
}

SPLIT void head_of_one_group(attn_block_head *head, const uint8_t *d, const uint8_t *dmin) {
    head_without_min(head, d);
    memset(head->scale, 1, sizeof head->scale);
    if (dmin)
        head->dmin = half_at(dmin);
}

/* Splits 16 bytes of halves into 32 values, from each of which it subtracts `less`. */
SPLIT void split_halves(int8_t *q, const uint8_t *from, int less) {
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)((from[i] & 15) - less);
        q[16 + i] = (int8_t)((from[i] >> 4) - less);
    }
}

/* Adds the fifth bits of 32 values: 16 to value i if bit i is set. */
SPLIT void add_fifth_bits(int8_t *q, const uint8_t *bits) {
    for (int i = 0; i < 32; i++)
        q[i] = (int8_t)(q[i] + (bits[i / 8] >> i % 8 & 1) * 16);
}

SPLIT void split_q4_0(int8_t *q, attn_block_head *head, const void *block) {
    const uint8_t *at = block;
    head_of_one_group(head, at, NULL);
    split_halves(q, at + 2, 8);
}

SPLIT void split_q4_1(int8_t *q, attn_block_head *head, const void *block) {
    const uint8_t *at = block;
    head_of_one_group(head, at, at + 2);
    split_halves(q, at + 4, 0);
}

SPLIT void split_q5_0(int8_t *q, attn_block_head *head, const void *block) {
    const uint8_t *at = block;
    head_of_one_group(head, at, NULL);
    split_halves(q, at + 6, 16);
    add_fifth_bits(q, at + 2);
}

SPLIT void split_q5_1(int8_t *q, attn_block_head *head, const void *block) {
    const uint8_t *at = block;
    head_of_one_group(head, at, at + 2);
    split_halves(q, at + 8, 0);
    add_fifth_bits(q, at + 4);
}

SPLIT void split_q8_0(int8_t *q, attn_block_head *head, const void *block) {
    const uint8_t *at = block;
    head_of_one_group(head, at, NULL);
    memcpy(q, at + 2, 32);
}

/* Splits 64 bytes of four pairs of bits each into 256 values. */
SPLIT void split_pairs(int8_t *q, const uint8_t *from) {
    for (int half = 0; half < 2; half++, from += 32)
        for (int place = 0; place < 8; place += 2)
            for (int i = 0; i < 32; i++)
                *q++ = from[i] >> place & 3;
}

SPLIT void split_q2_k(int8_t *q, attn_block_head *head, const void *block) {
    const uint8_t *at = block;
    head->d = half_at(at + 80);
    head->dmin = half_at(at + 82) ^ MINUS;
    for (int i = 0; i < 16; i++) {
        head->scale[i] = at[i] & 15;
        head->min[i] = (int8_t)(at[i] >> 4);
    }
    split_pairs(q, at + 16);
}

/* The third bit of a value says that 4 is *not* to be subtracted. */
SPLIT void split_q3_k(int8_t *q, attn_block_head *head, const void *block) {
    const uint8_t *at = block, *scales = at + 96;
    head_without_min(head, at + 108);
    for (int i = 0; i < 16; i++) {
        const int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
        head->scale[i] = (int8_t)((low | (scales[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32);
    }
    split_pairs(q, at + 32);
    for (int place = 0; place < 8; place++)
        for (int i = 0; i < 32; i++)
            q[32 * place + i] = (int8_t)(q[32 * place + i] - 4 + (at[i] >> place & 1) * 4);
}

/* Splits 12 bytes into 8 scales and 8 mins of 6 bits. The first four of each are the low bits of a
 * byte; the others have their low half in the last four bytes, and their high bits above the first
 * ones. */
SPLIT void split_scales(attn_block_head *head, const uint8_t *at) {
    for (int i = 0; i < 4; i++) {
        head->scale[i] = at[i] & 63;
        head->min[i] = at[4 + i] & 63;
        head->scale[4 + i] = (int8_t)((at[8 + i] & 15) | (at[i] >> 6) << 4);
        head->min[4 + i] = (int8_t)(at[8 + i] >> 4 | (at[4 + i] >> 6) << 4);
    }
}

/* Splits 128 bytes of halves into 256 values, 32 bytes at a time. */
SPLIT void split_halves_of_groups(int8_t *q, const uint8_t *from) {
    for (int pair = 0; pair < 4; pair++, from += 32, q += 64)
        for (int i = 0; i < 32; i++) {
            q[i] = from[i] & 15;
            q[32 + i] = (int8_t)(from[i] >> 4);
        }
}

SPLIT void split_q4_k(int8_t *q, attn_block_head *head, const void *block) {
    const uint8_t *at = block;
    head->d = half_at(at);
    head->dmin = half_at(at + 2) ^ MINUS;
    split_scales(head, at + 4);
    split_halves_of_groups(q, at + 16);
}

SPLIT void split_q5_k(int8_t *q, attn_block_head *head, const void *block) {
    const uint8_t *at = block, *bits = at + 16;
    head->d = half_at(at);
    head->dmin = half_at(at + 2) ^ MINUS;
    split_scales(head, at + 4);
    split_halves_of_groups(q, at + 48);
    for (int place = 0; place < 8; place++)
        for (int i = 0; i < 32; i++)
            q[32 * place + i] = (int8_t)(q[32 * place + i] + (bits[i] >> place & 1) * 16);
}

SPLIT void split_q6_k(int8_t *q, attn_block_head *head, const void *block) {
    const uint8_t *low = block, *high = low + 128;
    head_without_min(head, low + 208);
    memcpy(head->scale, low + 192, 16);
    for (int half = 0; half < 2; half++, low += 64, high += 32, q += 128)
        for (int i = 0; i < 32; i++) {
            q[i] = (int8_t)(((low[i] & 15) | (high[i] & 3) << 4) - 32);
            q[32 + i] = (int8_t)(((low[32 + i] & 15) | (high[i] >> 2 & 3) << 4) - 32);
            q[64 + i] = (int8_t)((low[i] >> 4 | (high[i] >> 4 & 3) << 4) - 32);
            q[96 + i] = (int8_t)((low[32 + i] >> 4 | high[i] >> 6 << 4) - 32);
        }
}

#endif
