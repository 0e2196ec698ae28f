/* The kernel table for AVX2, with vectors of 8 floats. simd_body.h has the loops. This file defines
 * the vector operations and the sizes that simd_body.h needs. The micro-kernel multiplies rows of A
 * by a panel of B:
 *
 *                      a panel: 16 columns of B
 *                      [ y0       | y1        ]      registers, 16: 12 accumulators, 2 of the
 *   6 rows of A   a0   [ y4       | y5        ]      panel, 1 of the broadcast, 1 free (the scale)
 *   (broadcast    a1   [ y6       | y7        ]
 *   from memory)  …    …                             a step: 2 loads, 6 broadcasts, 12 fused
 *                 a5   [ y14      | y15       ]      multiply-adds: 6 cycles of two units
 *
 * A tile is 48 queries by 128 keys: 24 KiB of scores. A packed panel of keys of width 64 is 4 KiB
 * and stays in the first-level cache for all 48 queries. A tile's keys and values are 64 KiB and
 * stay in the second-level cache. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/bf16.h"
#define SPLIT_LANES 8
#include "kernels/block_split.h"

#define NAME(x)  x##_avx2
#define ISA      ATTN_ISA_AVX2
#define ISA_NAME "avx2"
enum { LANES = 8, MR = 6, ROWS = 48, KEYS = 128, KEY_PLACES = 8 };
#define NV 2

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm; /* a mask: all bits of a lane are set, or all are clear */

#define SIMD(name) _mm256_##name
#include "kernels/x86/simd_vectors.h"

VOCABULARY __m256i first_lanes(size_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8), lane);
}
VOCABULARY vf vload_n(const float *p, size_t n) {
    return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first_lanes(n));
}
VOCABULARY void vstore_n(float *p, vf x, size_t n) {
    if (n >= 8)
        _mm256_storeu_ps(p, x);
    else
        _mm256_maskstore_ps(p, first_lanes(n), x);
}
/* Computes x * 2^n for n <= 127. If 2^n is below the normal range, the result is 0. */
VOCABULARY vf vscale(vf x, vf n) {
    __m256i bits = _mm256_cvtps_epi32(_mm256_max_ps(n, _mm256_set1_ps(-127.0f)));
    bits = _mm256_slli_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(x, _mm256_castsi256_ps(bits));
}
VOCABULARY vm vless(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
VOCABULARY vf vselect(vm m, vf yes, vf no) {
    return _mm256_blendv_ps(no, yes, m);
}
VOCABULARY vm vand(vm a, vm b) {
    return _mm256_and_ps(a, b);
}
VOCABULARY float vhmax(vf a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}
VOCABULARY vm vfirst_lanes_between(size_t lo, size_t hi) {
    return _mm256_castsi256_ps(_mm256_andnot_si256(first_lanes(lo), first_lanes(hi)));
}
/* Returns a mask of the lanes i < n with p[i] != 0. */
VOCABULARY vm vkeep(const uint8_t *p, size_t n) {
    uint64_t bytes = 0;
    memcpy(&bytes, p, n < 8 ? n : 8);
    __m256i wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(wide, _mm256_setzero_si256()));
}

/* Transposes 8 rows of 8 numbers. It exchanges single numbers, then pairs, then 128-bit halves. */
VOCABULARY void transpose(const vf r[8], vf column[8]) {
    vf a[8], b[8];
    exchange_numbers(r, a);
    for (int i = 0; i < 8; i += 4)
        for (int half = 0; half < 2; half++) {
            b[i + 2 * half] = _mm256_shuffle_ps(a[i + half], a[i + half + 2], 0x44);
            b[i + 2 * half + 1] = _mm256_shuffle_ps(a[i + half], a[i + half + 2], 0xee);
        }
    for (int c = 0; c < 4; c++) {
        column[c] = _mm256_permute2f128_ps(b[c], b[4 + c], 0x20);
        column[4 + c] = _mm256_permute2f128_ps(b[c], b[4 + c], 0x31);
    }
}

VOCABULARY vf vwiden_halves(const void *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
VOCABULARY vf vwiden_bf16(const void *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
VOCABULARY vf vwiden_bytes(const int8_t p[8]) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

/* Widens 8 numbers of binary16, whose low bytes are followed by their high bytes. */
VOCABULARY vf vwiden_pairs(const uint8_t p[16]) {
    const __m128i low = _mm_loadl_epi64((const __m128i *)p),
                  high = _mm_loadl_epi64((const __m128i *)(p + 8));
    return _mm256_cvtph_ps(_mm_unpacklo_epi8(low, high));
}

/* Widens the binary16 numbers in the low halves of integers. */
VOCABULARY vf vwiden_low_halves(vi x) {
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    return _mm256_cvtph_ps(
        _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
}
VOCABULARY vi vboth(vi a, vi b) {
    return _mm256_and_si256(a, b);
}
/* The order of bytes that moves byte i of each integer to its high byte and clears the others. */
VOCABULARY vi high_byte(int i) {
    return _mm256_broadcastsi128_si256(high_byte_of_four(i));
}
/* Loads 16 bytes of two rows that are four rows apart. */
VOCABULARY __m256i load_lanes(const uint8_t *row, size_t ld) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)row)),
                                   _mm_loadu_si128((const __m128i *)(row + 4 * ld)), 1);
}

/* Transposes 8 rows of 16 bytes, `ld` bytes apart: exchanges single bytes, then pairs, then
 * fours. */
VOCABULARY void transpose_bytes(uint8_t *to, const uint8_t *rows, size_t ld) {
    __m128i row[8], one[8], two[8];
    for (size_t i = 0; i < 8; i++)
        row[i] = _mm_loadu_si128((const __m128i *)(rows + i * ld));
    /* elements 0 to 3 have the bytes 0 to 7, and the others the bytes 8 to 15 */
    for (int i = 0; i < 4; i++) {
        one[i] = _mm_unpacklo_epi8(row[2 * i], row[2 * i + 1]);
        one[4 + i] = _mm_unpackhi_epi8(row[2 * i], row[2 * i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int pair = 0; pair < 2; pair++) {
            two[i + pair] = _mm_unpacklo_epi16(one[i + 2 * pair], one[i + 2 * pair + 1]);
            two[i + 2 + pair] = _mm_unpackhi_epi16(one[i + 2 * pair], one[i + 2 * pair + 1]);
        }
    for (int i = 0; i < 8; i += 2) {
        __m128i *at = (__m128i *)(to + 16 * i);
        _mm_storeu_si128(at, _mm_unpacklo_epi32(two[i], two[i + 1]));
        _mm_storeu_si128(at + 1, _mm_unpackhi_epi32(two[i], two[i + 1]));
    }
}

#include "kernels/x86/simd_body.h"
