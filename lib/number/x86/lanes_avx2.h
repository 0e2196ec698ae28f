/* The vector operations of number_lists_read_body.h and number_lists_write_body.h with AVX2: four
 * lanes of 64 bits. lanes_avx512.h defines the same names for AVX-512. lanes.h has the operations
 * that serve both. */
#ifndef ATTN_LANES_AVX2_H
#define ATTN_LANES_AVX2_H

#include <immintrin.h>

#define LANES      4
#define ORDER      0, 1, 2, 3 /* the number of each lane */
#define SIMD(name) _mm256_##name

typedef __m256i vector;

#include "number/x86/lanes.h"

typedef lanes where;      /* all bits of a lane are set, or all are clear */
typedef __m256i bytes_on; /* all bits of a byte are set, or all are clear */

static inline lanes load_lanes(const uint64_t *from) {
    return (lanes)_mm256_loadu_si256((const void *)from);
}

static inline void store_lanes(void *to, lanes x) {
    _mm256_storeu_si256(to, (__m256i)x);
}

/* Loads 16 bytes each from address[1] and address[3] if `odd` is 1, else from address[0] and
 * address[2]. */
static inline lanes load_texts(const uint64_t *address, int odd) {
    const __m128i *a = (const void *)(uintptr_t)address[odd];
    const __m128i *b = (const void *)(uintptr_t)address[2 + odd];
    return (lanes)_mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(a)),
                                          _mm_loadu_si128(b), 1);
}

/* --- comparisons, of lanes as signed integers --- */

static inline where more(lanes a, lanes b) {
    return (where)_mm256_cmpgt_epi64((__m256i)a, (__m256i)b);
}

/* Returns the lanes with -limit <= x < limit. */
static inline where within(lanes x, int64_t limit) {
    return more(x, ALL(-limit - 1)) & more(ALL(limit), x);
}

static inline where is_zero(lanes x) {
    return (where)_mm256_cmpeq_epi64((__m256i)x, _mm256_setzero_si256());
}

static inline where is_negative(lanes x) {
    return more(ALL(0), x);
}

static inline where either(where a, where b) {
    return a | b;
}

static inline where both(where a, where b) {
    return a & b;
}

static inline where without(where a, where b) {
    return a & ~b;
}

static inline bool any(where x) {
    return !_mm256_testz_si256((__m256i)x, (__m256i)x);
}

/* Returns an integer whose bit i is set if lane i is. */
static inline unsigned bits_of(where x) {
    return (unsigned)_mm256_movemask_pd((__m256d)x);
}

static inline lanes choose(where here, lanes yes, lanes no) {
    return (lanes)_mm256_blendv_epi8((__m256i)no, (__m256i)yes, (__m256i)here);
}

static inline lanes add_one(lanes x, where here) {
    return x - here;
}

static inline lanes subtract_one(lanes x, where here) {
    return x + here;
}

static inline lanes magnitude(lanes x) {
    where minus = is_negative(x);
    return (x ^ minus) - minus;
}

/* --- bytes --- */

/* Counts in each lane the zero bytes above the highest byte that is not zero. */
static inline lanes zero_bytes_above(lanes x) {
    const __m256i none = _mm256_setzero_si256();
    x |= x >> 8;
    x |= x >> 16;
    x |= x >> 32;
    return (lanes)_mm256_sad_epu8(_mm256_sub_epi8(none, _mm256_cmpeq_epi8((__m256i)x, none)), none);
}

/* Returns a mask of the last n[2 i + odd] bytes of the i-th 16 bytes. */
static inline bytes_on last_bytes(lanes n, int odd) {
    const __m256i from_behind = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    return _mm256_cmpgt_epi8(_mm256_shuffle_epi8((__m256i)n, _mm256_set1_epi8(odd ? 8 : 0)),
                             from_behind);
}

/* Converts texts of 16 bytes, each with a decimal point, to digits 0 … 9. The bytes before the
 * point (those not in `behind`) move up by one byte and overwrite the point. Bytes that are not in
 * `all` become 0. */
static inline __m256i digits_of(lanes text, bytes_on behind, bytes_on all) {
    const __m256i one_before = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14));
    __m256i moved = _mm256_shuffle_epi8((__m256i)text, _mm256_sub_epi8(one_before, behind));
    return _mm256_and_si256(all, _mm256_sub_epi8(moved, _mm256_set1_epi8('0')));
}

/* --- floats --- */

/* Returns 10^-n for n = 0 … 15. */
static inline reals negative_power(const double powers[16], lanes n) {
    uint64_t at[LANES];
    store_lanes(at, n);
    return (reals){powers[at[0]], powers[at[1]], powers[at[2]], powers[at[3]]};
}

static inline void store_floats(float *out, reals x) {
    _mm_storeu_ps(out, _mm256_cvtpd_ps((__m256d)x));
}

/* Loads the bits of floats. */
static inline lanes load_floats(const float *from) {
    return (lanes)_mm256_cvtepu32_epi64(_mm_loadu_si128((const void *)from));
}

/* --- blocks of 64 bytes --- */

typedef __m256i mark; /* one byte, repeated */
typedef struct block {
    __m256i low, high;
} block;

static inline mark mark_of(char c) {
    return _mm256_set1_epi8(c);
}

static inline block load_block(const char *p) {
    return (block){_mm256_loadu_si256((const void *)p), _mm256_loadu_si256((const void *)(p + 32))};
}

static inline uint64_t byte_bits(__m256i low, __m256i high) {
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high)
                                                     << 32;
}

/* Returns a bit for each byte that equals the mark. */
static inline uint64_t find_mark(block b, mark wanted) {
    return byte_bits(_mm256_cmpeq_epi8(b.low, wanted), _mm256_cmpeq_epi8(b.high, wanted));
}

/* Returns a bit for each digit. Adding 80 maps '0' … '9' to the ten smallest signed bytes, -128 …
 * -119. */
static inline uint64_t find_digit(block b) {
    const __m256i shift = _mm256_set1_epi8(80), ten = _mm256_set1_epi8(-118);
    return byte_bits(_mm256_cmpgt_epi8(ten, _mm256_add_epi8(b.low, shift)),
                     _mm256_cmpgt_epi8(ten, _mm256_add_epi8(b.high, shift)));
}

/* Returns an integer whose bit i is the bit of `bits` at the i-th of the n set bits of `from`. The
 * instruction PEXT computes this, too, but takes up to hundreds of cycles on AMD processors before
 * Zen 3. */
static inline uint64_t gather_bits(uint64_t bits, uint64_t from, size_t n) {
    uint64_t all = 0;
    for (size_t i = 0; i < 6; i++, from &= from - 1)
        all |= (bits & from & (0 - from)) != 0 ? (uint64_t)1 << i : 0;
    for (size_t i = 6; i < n; i++, from &= from - 1)
        all |= (bits & from & (0 - from)) != 0 ? (uint64_t)1 << i : 0;
    return all;
}

#endif
