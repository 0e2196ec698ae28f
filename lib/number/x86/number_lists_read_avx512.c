/* Reads lists of float32 with AVX-512: number_lists_read_body.h with eight lanes. */
#include <immintrin.h>
#include <string.h>

#include "number/number.h"
#include "number/number_lists.h"

#define LANES 8

typedef __m512i mark, block;

/* The barrier hides the value from GCC, which would otherwise make the vector again in every
 * iteration. */
static inline mark broadcast(char c) {
    mark bytes = _mm512_set1_epi8(c);
    __asm__("" : "+v"(bytes));
    return bytes;
}

/* The barrier hides the result from GCC, which would otherwise make each comparison depend on the
 * one before. */
static inline uint64_t equal(block bytes, mark wanted) {
    uint64_t mask = _mm512_cmpeq_epi8_mask(bytes, wanted);
    __asm__("" : "+r"(mask));
    return mask;
}

static inline block load(const char *p) {
    return _mm512_loadu_si512(p);
}

static inline uint64_t digits_of(block bytes) {
    return _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, _mm512_set1_epi8('0')),
                                  _mm512_set1_epi8(10));
}

/* Returns an integer whose bit i is the bit of `bits` at the i-th set bit of `from`. */
static inline uint64_t gather(uint64_t bits, uint64_t from, size_t n) {
    (void)n;
    return _pext_u64(bits, from);
}

#include "number/x86/number_lists_read_body.h"

/* Loads the 16 bytes before the ends of four numbers: numbers 1, 3, 5, 7 if `odd` is 1, numbers 0,
 * 2, 4, 6 if it is 0. */
static inline __m512i load_four(const uint64_t *stop, int odd) {
    const __m128i *a = (const void *)(uintptr_t)stop[odd];
    const __m128i *b = (const void *)(uintptr_t)stop[2 + odd];
    const __m128i *c = (const void *)(uintptr_t)stop[4 + odd];
    const __m128i *d = (const void *)(uintptr_t)stop[6 + odd];
    __m512i all = _mm512_castsi128_si512(_mm_loadu_si128(a - 1));
    all = _mm512_inserti32x4(all, _mm_loadu_si128(b - 1), 1);
    all = _mm512_inserti32x4(all, _mm_loadu_si128(c - 1), 2);
    return _mm512_inserti32x4(all, _mm_loadu_si128(d - 1), 3);
}

/* Returns a mask of the last n[2 i + odd] bytes of the i-th 16 bytes. */
static inline __mmask64 last_bytes(__m512i n, int odd) {
    const __m512i from_behind =
        _mm512_broadcast_i32x4(_mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    const __m512i even = _mm512_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    const __m512i pick = odd ? _mm512_add_epi32(even, _mm512_set1_epi32(2)) : even;
    __m512i spread = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(pick, n), _mm512_setzero_si512());
    return _mm512_cmplt_epu8_mask(from_behind, spread);
}

/* Converts four texts of 16 bytes, each with a decimal point. The bytes before the point (those not
 * in the mask `behind`) move up by one, over the point. Then the bytes in the mask `all` are the
 * digits, and all others count as 0. Each four neighbouring digits become an integer of 32 bits. */
static inline __m512i four_digits(__m512i bytes, __mmask64 behind, __mmask64 all) {
    const __m512i here =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m512i one_before = _mm512_sub_epi8(here, _mm512_set1_epi8(1));
    bytes = _mm512_shuffle_epi8(bytes, _mm512_mask_mov_epi8(one_before, behind, here));
    bytes = _mm512_maskz_sub_epi8(all, bytes, _mm512_set1_epi8('0'));
    __m512i pairs = _mm512_maddubs_epi16(bytes, _mm512_set1_epi16(10 | 1 << 8));
    return _mm512_madd_epi16(pairs, _mm512_set1_epi32(100 | 1 << 16));
}

#define ALL(x) _mm512_set1_epi64((int64_t)(x))

/* Joins the integers of four digits to w of numbers 0 to 7. `even` has numbers 0, 2, 4, 6, and
 * `odd` numbers 1, 3, 5, 7. */
static inline __m512i join(__m512i even, __m512i odd) {
    __m512i eights =
        _mm512_madd_epi16(_mm512_packus_epi32(even, odd), _mm512_set1_epi32(10000 | 1 << 16));
    return _mm512_add_epi64(_mm512_mul_epu32(eights, ALL(100000000)),
                            _mm512_srli_epi64(eights, 32));
}

/* Computes w / 10^n for n = 0 … 15 as floats, negative in lane i if bit i of `minus` is set.
 * Returns a mask of the lanes whose double is nearer than `margin` units in its last place to the
 * midpoint of two floats. */
static inline __mmask8 scale(__m512i w, __m512i n, __mmask8 minus, __m512i margin, float *out) {
    static const double powers[16] = {1e-0, 1e-1, 1e-2,  1e-3,  1e-4,  1e-5,  1e-6,  1e-7,
                                      1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15};
    __m512d power = _mm512_permutex2var_pd(_mm512_loadu_pd(powers), n, _mm512_loadu_pd(powers + 8));
    __m512d wide = _mm512_mul_pd(_mm512_cvtepi64_pd(w), power);
    wide = _mm512_mask_xor_pd(wide, minus, wide, _mm512_set1_pd(-0.0));
    _mm256_storeu_ps(out, _mm512_cvtpd_ps(wide));
    __m512i rest = _mm512_and_si512(_mm512_castpd_si512(wide), ALL(0x1FFFFFFF));
    rest = _mm512_add_epi64(rest, _mm512_sub_epi64(margin, ALL(0x10000000)));
    return _mm512_cmplt_epu64_mask(rest, _mm512_slli_epi64(margin, 1));
}

static inline bool convert_plain(places *found, size_t at, float *out) {
    const uint64_t *stops = found->stop + at;
    __m512i behind =
        _mm512_sub_epi64(_mm512_loadu_si512(stops), _mm512_loadu_si512(found->point + at));
    behind = _mm512_sub_epi64(behind, ALL(1));
    if (_mm512_cmpgt_epi64_mask(behind, ALL(DIGITS - 1)))
        return false;
    /* `even | even >> 1` adds the digit before the point to the mask. Each 16 bits have at most 14
     * bits set, from the top, so the shift moves no bit into the 16 bits below. */
    __mmask64 even = last_bytes(behind, 0), odd = last_bytes(behind, 1);
    __m512i w = join(four_digits(load_four(stops, 0), even, even | even >> 1),
                     four_digits(load_four(stops, 1), odd, odd | odd >> 1));
    found->doubt[at / LANES] = scale(w, behind, (__mmask8)(found->minus >> at), ALL(1 << 11), out);
    return true;
}

static __attribute__((noinline)) bool convert(places *found, size_t at, float *out) {
    _Alignas(64) uint64_t stops[LANES];
    const __m512i point = _mm512_loadu_si512(found->point + at);
    __m512i before = found->plain ? ALL(1) : _mm512_loadu_si512(found->before + at);
    __m512i behind = _mm512_sub_epi64(_mm512_loadu_si512(found->stop + at), point);
    behind = _mm512_sub_epi64(behind, ALL(1));
    __mmask8 good = _mm512_cmplt_epu64_mask(_mm512_sub_epi64(before, ALL(1)), ALL(DIGITS - 1));
    good &= _mm512_cmplt_epu64_mask(_mm512_sub_epi64(behind, ALL(1)), ALL(BLOCK));
    if (good != 0xFF)
        return false;
    __m512i room = _mm512_sub_epi64(ALL(DIGITS), before);
    __mmask8 cut = _mm512_cmpgt_epi64_mask(behind, room);
    behind = _mm512_mask_mov_epi64(behind, cut, room);
    _mm512_store_si512(stops, _mm512_add_epi64(_mm512_add_epi64(point, behind), ALL(1)));
    __m512i all = _mm512_add_epi64(before, behind);
    __m512i w = join(four_digits(load_four(stops, 0), last_bytes(behind, 0), last_bytes(all, 0)),
                     four_digits(load_four(stops, 1), last_bytes(behind, 1), last_bytes(all, 1)));
    __m512i margin = _mm512_mask_mov_epi64(ALL(1 << 11), cut, ALL(1 << 20));
    found->doubt[at / LANES] = scale(w, behind, (__mmask8)(found->minus >> at), margin, out) |
                               _mm512_mask_cmplt_epu64_mask(cut, w, ALL(INT64_C(1) << 33));
    return true;
}

size_t attn_read_singles_avx512(const char *p, const char *end, float *out, size_t room,
                                const char **next, bool *closed) {
    return read_list(p, end, out, room, next, closed);
}
