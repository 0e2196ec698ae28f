/* Splits float32 numbers into bfloat16 parts (bf16.h), 2 x 16 at a time, in registers. */
#ifndef ATTN_TILES_SPLIT_H
#define ATTN_TILES_SPLIT_H

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "kernels/flush.h"
#include "kernels/x86/tiles.h"

enum { MOST_PARTS = 3 };

typedef float lanes __attribute__((vector_size(64)));
typedef uint32_t words __attribute__((vector_size(64)));

/* Makes 16 pairs of bfloat16 from the upper halves of 2 x 16 elements of 32 bits. */
#ifdef __AVX512F__ /* one instruction: (second & high) | (first >> 16 & ~high) */
#define PAIR_UP(first, second)                                                                     \
    (words) _mm512_ternarylogic_epi32((__m512i)(second), (__m512i)((first) >> 16),                 \
                                      _mm512_set1_epi32((int)0xffff0000), 0xe4)
#else
#define PAIR_UP(first, second) ((first) >> 16 | ((second)&0xffff0000))
#endif

/* Splits 2 x 16 numbers into `parts` bfloat16 each. Part p of all numbers becomes a row of 16 pairs
 * at to + p * stride. `to` is aligned to 64 bytes. */
INLINE void split(const int parts, const lanes numbers[2], uint16_t *to, size_t stride) {
    lanes rest[2] = {numbers[0], numbers[1]};
    for (int p = 0; p < parts; p++) {
        words bits[2];
        for (int i = 0; i < 2; i++) {
            bits[i] = (words)rest[i];
            if (parts == 1)
                bits[i] += 0x7fff + (bits[i] >> 16 & 1);
            else if (p < 2)
                bits[i] += 0x8000;
            rest[i] -= (lanes)(bits[i] & 0xffff0000);
        }
        const words pairs = PAIR_UP(bits[0], bits[1]);
        memcpy(__builtin_assume_aligned(to + (size_t)p * stride, sizeof pairs), &pairs,
               sizeof pairs);
    }
}

#endif
