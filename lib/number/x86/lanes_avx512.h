/* The vector operations of number_lists_read_body.h and number_lists_write_body.h with AVX-512:
 * eight lanes of 64 bits. lanes_avx2.h describes the names. */
#ifndef ATTN_LANES_AVX512_H
#define ATTN_LANES_AVX512_H

#include <immintrin.h>

#define LANES      8
#define ORDER      0, 1, 2, 3, 4, 5, 6, 7
#define SIMD(name) _mm512_##name

typedef __m512i vector;

#include "number/x86/lanes.h"

typedef __mmask8 where;
typedef __mmask64 bytes_on;

static inline lanes load_lanes(const uint64_t *from) {
    return (lanes)_mm512_loadu_si512(from);
}

static inline void store_lanes(void *to, lanes x) {
    _mm512_storeu_si512(to, (__m512i)x);
}

/* Loads the texts one after another. A gather instruction would take many times as long on
 * processors with a mitigation of Gather Data Sampling. */
static inline lanes load_texts(const uint64_t *address, int odd) {
    const __m128i *a = (const void *)(uintptr_t)address[odd];
    const __m128i *b = (const void *)(uintptr_t)address[2 + odd];
    const __m128i *c = (const void *)(uintptr_t)address[4 + odd];
    const __m128i *d = (const void *)(uintptr_t)address[6 + odd];
    __m512i all = _mm512_castsi128_si512(_mm_loadu_si128(a));
    all = _mm512_inserti32x4(all, _mm_loadu_si128(b), 1);
    all = _mm512_inserti32x4(all, _mm_loadu_si128(c), 2);
    return (lanes)_mm512_inserti32x4(all, _mm_loadu_si128(d), 3);
}

/* --- comparisons --- */

static inline where more(lanes a, lanes b) {
    return _mm512_cmpgt_epi64_mask((__m512i)a, (__m512i)b);
}

static inline where within(lanes x, int64_t limit) {
    return _mm512_cmplt_epu64_mask((__m512i)(x + ALL(limit)), (__m512i)ALL(2 * limit));
}

static inline where is_zero(lanes x) {
    return _mm512_testn_epi64_mask((__m512i)x, (__m512i)x);
}

static inline where is_negative(lanes x) {
    return _mm512_movepi64_mask((__m512i)x);
}

static inline where either(where a, where b) {
    return (where)(a | b);
}

static inline where both(where a, where b) {
    return (where)(a & b);
}

static inline where without(where a, where b) {
    return (where)(a & ~b);
}

static inline bool any(where x) {
    return x != 0;
}

static inline unsigned bits_of(where x) {
    return x;
}

static inline lanes choose(where here, lanes yes, lanes no) {
    return (lanes)_mm512_mask_mov_epi64((__m512i)no, here, (__m512i)yes);
}

static inline lanes add_one(lanes x, where here) {
    return (lanes)_mm512_mask_add_epi64((__m512i)x, here, (__m512i)x, _mm512_set1_epi64(1));
}

static inline lanes subtract_one(lanes x, where here) {
    return (lanes)_mm512_mask_sub_epi64((__m512i)x, here, (__m512i)x, _mm512_set1_epi64(1));
}

static inline lanes magnitude(lanes x) {
    return (lanes)_mm512_abs_epi64((__m512i)x);
}

/* --- bytes --- */

static inline lanes zero_bytes_above(lanes x) {
    return (lanes)_mm512_lzcnt_epi64((__m512i)x) >> 3;
}

static inline bytes_on last_bytes(lanes n, int odd) {
    const __m512i from_behind =
        _mm512_broadcast_i32x4(_mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    __m512i spread = _mm512_shuffle_epi8((__m512i)n, _mm512_set1_epi8(odd ? 8 : 0));
    return _mm512_cmplt_epu8_mask(from_behind, spread);
}

static inline __m512i digits_of(lanes text, bytes_on behind, bytes_on all) {
    const __m512i here =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m512i one_before = _mm512_sub_epi8(here, _mm512_set1_epi8(1));
    __m512i moved =
        _mm512_shuffle_epi8((__m512i)text, _mm512_mask_mov_epi8(one_before, behind, here));
    return _mm512_maskz_sub_epi8(all, moved, _mm512_set1_epi8('0'));
}

/* --- floats --- */

static inline reals negative_power(const double powers[16], lanes n) {
    return (reals)_mm512_permutex2var_pd(_mm512_loadu_pd(powers), (__m512i)n,
                                         _mm512_loadu_pd(powers + 8));
}

static inline void store_floats(float *out, reals x) {
    _mm256_storeu_ps(out, _mm512_cvtpd_ps((__m512d)x));
}

static inline lanes load_floats(const float *from) {
    return (lanes)_mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)from));
}

/* --- blocks of 64 bytes --- */

typedef __m512i mark, block;

/* The barrier hides the value from GCC, which would otherwise compute the vector again in every
 * iteration. */
static inline mark mark_of(char c) {
    mark all = _mm512_set1_epi8(c);
    __asm__("" : "+v"(all));
    return all;
}

static inline block load_block(const char *p) {
    return _mm512_loadu_si512(p);
}

/* The barrier hides the result from GCC, which would otherwise make each comparison depend on the
 * one before. */
static inline uint64_t find_mark(block b, mark wanted) {
    uint64_t mask = _mm512_cmpeq_epi8_mask(b, wanted);
    __asm__("" : "+r"(mask));
    return mask;
}

static inline uint64_t find_digit(block b) {
    return _mm512_cmplt_epu8_mask(_mm512_sub_epi8(b, _mm512_set1_epi8('0')), _mm512_set1_epi8(10));
}

static inline uint64_t gather_bits(uint64_t bits, uint64_t from, size_t n) {
    (void)n;
    return _pext_u64(bits, from);
}

#endif
