/* Splits quantised blocks (blocks.h), with one function for each format. A function splits
 * SPLIT_LANES blocks at a time; a file defines this number before it includes this one. Byte i of
 * the block of lane l is block[i * SPLIT_LANES + l], and q, scale and min have the same layout. So
 * a single block needs no change, and the blocks of several rows must be transposed first. A vector
 * of the compiler then holds the same byte of all rows.
 *
 * The bytes of the blocks, in order:
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
#include <stdint.h>
#include <string.h>

#include "kernels/blocks.h"

/* The quantised formats. A row has the name, ggml's number, values and bytes of a block, values of
 * a group, the bytes at which d and dmin begin (0: there is no dmin), 1 if dmin is subtracted, and
 * the function. Formats whose blocks consist only of d, perhaps dmin, and q have kernels of their
 * own. */
#define ATTN_WORD_FORMATS(row)                                                                     \
    row("Q4_0", 2, 32, 18, 32, 0, 0, 0, split_q4_0)                                                \
        row("Q4_1", 3, 32, 20, 32, 0, 2, 0, split_q4_1)                                            \
            row("Q8_0", 8, 32, 34, 32, 0, 0, 0, split_q8_0)
#define ATTN_SPLIT_FORMATS(row)                                                                    \
    row("Q5_0", 6, 32, 22, 32, 0, 0, 0, split_q5_0)                                                \
        row("Q5_1", 7, 32, 24, 32, 0, 2, 0, split_q5_1)                                            \
            row("Q2_K", 10, 256, 84, 16, 80, 82, 1, split_q2_k)                                    \
                row("Q3_K", 11, 256, 110, 16, 108, 0, 0, split_q3_k)                               \
                    row("Q4_K", 12, 256, 144, 32, 0, 2, 1, split_q4_k)                             \
                        row("Q5_K", 13, 256, 176, 32, 0, 2, 1, split_q5_k)                         \
                            row("Q6_K", 14, 256, 210, 16, 208, 0, 0, split_q6_k)

/* Number of values in a block of ATTN_WORD_FORMATS, and its largest number of bytes. */
enum { ATTN_WORD_VALUES = 32, ATTN_WORD_BYTES = 34 };

#define SPLIT static inline __attribute__((always_inline))
/* Bytes that a function handles as one vector: 16 bytes of each lane fill one or more of them. */
#define SPLIT_VECTOR (SPLIT_LANES == 1 ? 16 : 4 * SPLIT_LANES)

enum { L = SPLIT_LANES, VECTOR = SPLIT_VECTOR };

typedef uint8_t split_vector __attribute__((vector_size(SPLIT_VECTOR)));
typedef int8_t *restrict split_to;
typedef const uint8_t *restrict split_from;

SPLIT split_vector load(const void *from) {
    split_vector x;
    memcpy(&x, from, sizeof x);
    return x;
}

SPLIT void store(int8_t *to, split_vector x) {
    memcpy(to, &x, sizeof x);
}

/* Splits 16 bytes of two 4-bit values each into 32 values, and subtracts `less` from each. */
SPLIT void split_halves(split_to q, split_from from, uint8_t less) {
    for (int i = 0; i < 16 * L; i += VECTOR) {
        const split_vector x = load(from + i);
        store(q + i, (x & 15) - less);
        store(q + 16 * L + i, (x >> 4) - less);
    }
}

/* Adds the fifth bits of 32 values: 16 to value i if bit i is set. */
SPLIT void add_fifth_bits(split_to q, split_from bits) {
    for (int place = 0; place < 8; place++) {
        uint8_t set[4 * L];
        for (int i = 0; i < 4 * L; i++)
            set[i] = (uint8_t)((bits[i] >> place & 1) * 16);
        for (int i = 0; i < 4; i++)
            for (int l = 0; l < L; l++)
                q[(8 * i + place) * L + l] = (int8_t)(q[(8 * i + place) * L + l] + set[i * L + l]);
    }
}

SPLIT void split_q4_0(split_to q, split_to scale, split_to min, split_from block) {
    (void)scale, (void)min;
    split_halves(q, block + 2 * L, 8);
}

SPLIT void split_q4_1(split_to q, split_to scale, split_to min, split_from block) {
    (void)scale, (void)min;
    split_halves(q, block + 4 * L, 0);
}

SPLIT void split_q5_0(split_to q, split_to scale, split_to min, split_from block) {
    (void)scale, (void)min;
    split_halves(q, block + 6 * L, 16);
    add_fifth_bits(q, block + 2 * L);
}

SPLIT void split_q5_1(split_to q, split_to scale, split_to min, split_from block) {
    (void)scale, (void)min;
    split_halves(q, block + 8 * L, 0);
    add_fifth_bits(q, block + 4 * L);
}

SPLIT void split_q8_0(split_to q, split_to scale, split_to min, split_from block) {
    (void)scale, (void)min;
    memcpy(q, block + 2 * L, 32 * L);
}

/* Splits 64 bytes of four 2-bit values each into 256 values, and subtracts `less` from each. */
SPLIT void split_pairs(split_to q, split_from from, uint8_t less) {
    for (int half = 0; half < 2; half++, from += 32 * L)
        for (int place = 0; place < 8; place += 2)
            for (int i = 0; i < 32 * L; i += VECTOR, q += VECTOR)
                store(q, (load(from + i) >> place & 3) - less);
}

/* Adds `weight` to each of 256 values whose bit is set. The bits are in 32 bytes. */
SPLIT void add_bits(split_to q, split_from bits, uint8_t weight) {
    for (int place = 0; place < 8; place++)
        for (int i = 0; i < 32 * L; i += VECTOR, q += VECTOR)
            store(q, load(q) + (load(bits + i) >> place & 1) * weight);
}

SPLIT void split_q2_k(split_to q, split_to scale, split_to min, split_from block) {
    for (int i = 0; i < 16 * L; i += VECTOR) {
        const split_vector x = load(block + i);
        store(scale + i, x & 15);
        store(min + i, x >> 4);
    }
    split_pairs(q, block + 16 * L, 0);
}

/* If the third bit of a value is set, 4 is not subtracted from it. */
SPLIT void split_q3_k(split_to q, split_to scale, split_to min, split_from block) {
    const uint8_t *scales = block + 96 * L, *high = scales + 8 * L;
    (void)min;
    for (int i = 0; i < 16; i++)
        for (int l = 0; l < L; l++) {
            const int low = scales[i % 8 * L + l] >> i / 8 * 4 & 15;
            scale[i * L + l] = (int8_t)((low | (high[i % 4 * L + l] >> i / 4 * 2 & 3) << 4) - 32);
        }
    split_pairs(q, block + 32 * L, 4);
    add_bits(q, block, 4);
}

/* Splits 12 bytes into 8 scales and 8 mins of 6 bits each. The first four scales and mins are the
 * low 6 bits of a byte. The others have their low 4 bits in the last four bytes, and their high 2
 * bits in the upper bits of the first eight bytes. */
SPLIT void split_scales(split_to scale, split_to min, split_from at) {
    for (int i = 0; i < 4 * L; i++) {
        const uint8_t a = at[i], b = at[4 * L + i], low = at[8 * L + i];
        scale[i] = a & 63;
        min[i] = b & 63;
        scale[4 * L + i] = (int8_t)((low & 15) | (a >> 6) << 4);
        min[4 * L + i] = (int8_t)(low >> 4 | (b >> 6) << 4);
    }
}

/* Splits 128 bytes of two 4-bit values each into 256 values, 32 bytes at a time. */
SPLIT void split_halves_of_groups(split_to q, split_from from) {
    for (int pair = 0; pair < 4; pair++, from += 32 * L, q += 64 * L)
        for (int i = 0; i < 32 * L; i += VECTOR) {
            const split_vector x = load(from + i);
            store(q + i, x & 15);
            store(q + 32 * L + i, x >> 4);
        }
}

SPLIT void split_q4_k(split_to q, split_to scale, split_to min, split_from block) {
    split_scales(scale, min, block + 4 * L);
    split_halves_of_groups(q, block + 16 * L);
}

SPLIT void split_q5_k(split_to q, split_to scale, split_to min, split_from block) {
    split_scales(scale, min, block + 4 * L);
    split_halves_of_groups(q, block + 48 * L);
    add_bits(q, block + 16 * L, 16);
}

SPLIT void split_q6_k(split_to q, split_to scale, split_to min, split_from block) {
    const uint8_t *low = block, *high = low + 128 * L;
    (void)min;
    memcpy(scale, block + 192 * L, 16 * L);
    for (int half = 0; half < 2; half++, low += 64 * L, high += 32 * L, q += 128 * L)
        for (int i = 0; i < 32 * L; i += VECTOR) {
            const split_vector a = load(low + i), b = load(low + 32 * L + i), top = load(high + i);
            store(q + i, ((a & 15) | (top & 3) << 4) - 32);
            store(q + 32 * L + i, ((b & 15) | (top >> 2 & 3) << 4) - 32);
            store(q + 64 * L + i, (a >> 4 | (top >> 4 & 3) << 4) - 32);
            store(q + 96 * L + i, (b >> 4 | top >> 6 << 4) - 32);
        }
}
