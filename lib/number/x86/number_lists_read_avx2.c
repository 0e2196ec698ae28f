/* Reads lists of float32 with AVX2: number_lists_read_body.h with four lanes. */
#include <immintrin.h>
#include <string.h>

#include "number/number.h"
#include "number/number_lists.h"

#define LANES 4

typedef __m256i mark;
typedef struct block {
    __m256i low, high;
} block;

static inline mark broadcast(char c) {
    return _mm256_set1_epi8(c);
}

static inline uint64_t bits_of(__m256i low, __m256i high) {
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high)
                                                     << 32;
}

static inline uint64_t equal(block bytes, mark wanted) {
    return bits_of(_mm256_cmpeq_epi8(bytes.low, wanted), _mm256_cmpeq_epi8(bytes.high, wanted));
}

static inline block load(const char *p) {
    return (block){_mm256_loadu_si256((const void *)p), _mm256_loadu_si256((const void *)(p + 32))};
}

/* Adding 80 maps '0' … '9' to the ten smallest signed bytes, -128 … -119. */
static inline uint64_t digits_of(block bytes) {
    const __m256i shift = _mm256_set1_epi8(80), ten = _mm256_set1_epi8(-118);
    return bits_of(_mm256_cmpgt_epi8(ten, _mm256_add_epi8(bytes.low, shift)),
                   _mm256_cmpgt_epi8(ten, _mm256_add_epi8(bytes.high, shift)));
}

/* Returns an integer whose bit i is the bit of `bits` at the i-th of the n set bits of `from`. The
 * instruction PEXT computes this, too, but takes up to hundreds of cycles on AMD processors before
 * Zen 3. */
static inline uint64_t gather(uint64_t bits, uint64_t from, size_t n) {
    uint64_t all = 0;
    for (size_t i = 0; i < 6; i++, from &= from - 1)
        all |= (bits & from & (0 - from)) != 0 ? (uint64_t)1 << i : 0;
    for (size_t i = 6; i < n; i++, from &= from - 1)
        all |= (bits & from & (0 - from)) != 0 ? (uint64_t)1 << i : 0;
    return all;
}

#include "number/x86/number_lists_read_body.h"

#define ALL(x) _mm256_set1_epi64x((int64_t)(x))

static inline __m256i four_at(const uint64_t *from) {
    return _mm256_loadu_si256((const void *)from);
}

/* Loads the 16 bytes before the ends of two numbers: numbers 1 and 3 if `odd` is 1, numbers 0 and 2
 * if it is 0. */
static inline __m256i load_two(const uint64_t *stop, int odd) {
    const __m128i *a = (const void *)(uintptr_t)stop[odd];
    const __m128i *b = (const void *)(uintptr_t)stop[2 + odd];
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(a - 1)),
                                   _mm_loadu_si128(b - 1), 1);
}

/* Returns a mask of the last n[2 i + odd] bytes of the i-th 16 bytes. */
static inline __m256i last_bytes(__m256i n, int odd) {
    const __m256i from_behind =
        _mm256_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11,
                         10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm256_cmpgt_epi8(_mm256_shuffle_epi8(n, _mm256_set1_epi8(odd ? 8 : 0)), from_behind);
}

/* Converts two texts of 16 bytes, each with a decimal point. The bytes before the point (those not
 * in the mask `behind`) move up by one, over the point. Then the bytes in the mask `all` are the
 * digits, and all others count as 0. Each four neighbouring digits become an integer of 32 bits. */
static inline __m256i four_digits(__m256i bytes, __m256i behind, __m256i all) {
    const __m256i one_before =
        _mm256_setr_epi8(-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, -1, 0, 1, 2, 3, 4, 5,
                         6, 7, 8, 9, 10, 11, 12, 13, 14);
    bytes = _mm256_shuffle_epi8(bytes, _mm256_sub_epi8(one_before, behind));
    bytes = _mm256_and_si256(all, _mm256_sub_epi8(bytes, _mm256_set1_epi8('0')));
    __m256i pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(10 | 1 << 8));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi32(100 | 1 << 16));
}

/* Joins the integers of four digits to w of numbers 0 to 3. `even` has numbers 0 and 2, and `odd`
 * numbers 1 and 3. */
static inline __m256i join(__m256i even, __m256i odd) {
    __m256i eights =
        _mm256_madd_epi16(_mm256_packus_epi32(even, odd), _mm256_set1_epi32(10000 | 1 << 16));
    return _mm256_add_epi64(_mm256_mul_epu32(eights, ALL(100000000)),
                            _mm256_srli_epi64(eights, 32));
}

/* Computes w / 10^n for n = 0 … 15 and w < 2^52 as floats, negative in lane i if bit i of `minus`
 * is set. Returns a mask of the lanes whose double is nearer than `margin` units in its last place
 * to the midpoint of two floats. */
static inline unsigned scale(__m256i w, __m256i n, uint64_t minus, __m256i margin, float *out) {
    static const double powers[16] = {1e-0, 1e-1, 1e-2,  1e-3,  1e-4,  1e-5,  1e-6,  1e-7,
                                      1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15};
    const __m256i exponent = ALL(0x4330000000000000); /* exponent of 2^52, whose last place is 1 */
    uint64_t at[LANES];
    _mm256_storeu_si256((void *)at, n);
    __m256d power = _mm256_setr_pd(powers[at[0]], powers[at[1]], powers[at[2]], powers[at[3]]);
    __m256d wide = _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(w, exponent)),
                                 _mm256_castsi256_pd(exponent));
    wide = _mm256_mul_pd(wide, power);
    __m256i sign = _mm256_sllv_epi64(ALL(minus), _mm256_setr_epi64x(63, 62, 61, 60));
    sign = _mm256_and_si256(sign, ALL(INT64_MIN));
    wide = _mm256_xor_pd(wide, _mm256_castsi256_pd(sign));
    _mm_storeu_ps(out, _mm256_cvtpd_ps(wide));
    __m256i rest = _mm256_and_si256(_mm256_castpd_si256(wide), ALL(0x1FFFFFFF));
    rest = _mm256_add_epi64(rest, _mm256_sub_epi64(margin, ALL(0x10000000)));
    __m256i below = _mm256_cmpgt_epi64(_mm256_add_epi64(margin, margin), rest);
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_andnot_si256(rest, below)));
}

static inline bool convert_plain(places *found, size_t at, float *out) {
    const uint64_t *stops = found->stop + at;
    __m256i behind = _mm256_sub_epi64(four_at(stops), four_at(found->point + at));
    behind = _mm256_sub_epi64(behind, ALL(1));
    __m256i over = _mm256_cmpgt_epi64(behind, ALL(DIGITS - 1));
    if (!_mm256_testz_si256(over, over))
        return false;
    __m256i all = _mm256_add_epi64(behind, ALL(1));
    __m256i even = four_digits(load_two(stops, 0), last_bytes(behind, 0), last_bytes(all, 0));
    __m256i odd = four_digits(load_two(stops, 1), last_bytes(behind, 1), last_bytes(all, 1));
    found->doubt[at / LANES] =
        (uint8_t)scale(join(even, odd), behind, found->minus >> at, ALL(1 << 11), out);
    return true;
}

/* Returns a mask of the lanes in which n is below 1 or above `most`. */
static inline __m256i outside(__m256i n, int64_t most) {
    return _mm256_or_si256(_mm256_cmpgt_epi64(ALL(1), n), _mm256_cmpgt_epi64(n, ALL(most)));
}

static __attribute__((noinline)) bool convert(places *found, size_t at, float *out) {
    uint64_t stops[LANES];
    const __m256i point = four_at(found->point + at);
    __m256i before = found->plain ? ALL(1) : four_at(found->before + at);
    __m256i behind = _mm256_sub_epi64(four_at(found->stop + at), point);
    behind = _mm256_sub_epi64(behind, ALL(1));
    __m256i wrong = _mm256_or_si256(outside(before, DIGITS - 1), outside(behind, BLOCK));
    if (!_mm256_testz_si256(wrong, wrong))
        return false;
    __m256i room = _mm256_sub_epi64(ALL(DIGITS), before);
    __m256i cut = _mm256_cmpgt_epi64(behind, room);
    behind = _mm256_blendv_epi8(behind, room, cut);
    _mm256_storeu_si256((void *)stops, _mm256_add_epi64(_mm256_add_epi64(point, behind), ALL(1)));
    __m256i all = _mm256_add_epi64(before, behind);
    __m256i w = join(four_digits(load_two(stops, 0), last_bytes(behind, 0), last_bytes(all, 0)),
                     four_digits(load_two(stops, 1), last_bytes(behind, 1), last_bytes(all, 1)));
    __m256i margin = _mm256_blendv_epi8(ALL(1 << 11), ALL(1 << 20), cut);
    __m256i few = _mm256_and_si256(cut, _mm256_cmpgt_epi64(ALL(INT64_C(1) << 33), w));
    found->doubt[at / LANES] = (uint8_t)(scale(w, behind, found->minus >> at, margin, out) |
                                         (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(few)));
    return true;
}

size_t attn_read_singles_avx2(const char *p, const char *end, float *out, size_t room,
                              const char **next, bool *closed) {
    return read_list(p, end, out, room, next, closed);
}
