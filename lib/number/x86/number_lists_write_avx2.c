/* Writes lists of float32 with AVX2, four values at a time. Each 64-bit lane searches the digits of
 * one value as number_write.c does. The text of a value is made in 16 bytes, in the forms that
 * number_lists_write_avx512.c lists. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "number/number.h"
#include "number/number_lists.h"
#include "number/number_powers.h"

enum { LANES = 4 };

#define ALL(x) _mm256_set1_epi64x((int64_t)(x))

/* Nine digits of each of LANES values. A lane of 64 bits belongs to one value. */
typedef struct decimals {
    __m256i bits;     /* bits of the float32 */
    __m256i first;    /* first digit, '0' … '9' */
    __m256i others;   /* the other eight digits, one in each byte */
    __m256i point;    /* digits before the decimal point; the value is 0.d * 10^point */
    __m256i trailing; /* number of zeros at the end of the nine digits */
    __m256i unclear;  /* mask of the values that attn_write_f32 must write: those too near to a
                       * decision, powers of two, numbers of one digit, subnormals */
} decimals;

static inline __m256i is_zero(__m256i x) {
    return _mm256_cmpeq_epi64(x, _mm256_setzero_si256());
}

static inline __m256i choose(__m256i where, __m256i yes, __m256i no) {
    return _mm256_blendv_epi8(no, yes, where);
}

/* Converts v < 10^8 to eight bytes 0 … 9, the first digit in the lowest byte. */
static inline __m256i eight_digits(__m256i v) {
    __m256i high = _mm256_srli_epi64(_mm256_mul_epu32(v, ALL(109951163)), 40);
    __m256i low = _mm256_sub_epi64(v, _mm256_mul_epu32(high, ALL(10000)));
    __m256i fours = _mm256_or_si256(high, _mm256_slli_epi64(low, 32));
    __m256i hundreds = _mm256_srli_epi16(_mm256_mulhi_epu16(fours, _mm256_set1_epi16(5243)), 3);
    __m256i rest = _mm256_sub_epi16(fours, _mm256_mullo_epi16(hundreds, _mm256_set1_epi16(100)));
    __m256i pairs = _mm256_or_si256(hundreds, _mm256_slli_epi32(rest, 16));
    __m256i tens = _mm256_mulhi_epu16(pairs, _mm256_set1_epi16(6554));
    __m256i ones = _mm256_sub_epi16(pairs, _mm256_mullo_epi16(tens, _mm256_set1_epi16(10)));
    return _mm256_or_si256(tens, _mm256_slli_epi16(ones, 8));
}

/* Counts in each lane the zero bytes above the highest byte that is not zero. */
static inline __m256i zero_bytes_above(__m256i x) {
    x = _mm256_or_si256(x, _mm256_srli_epi64(x, 8));
    x = _mm256_or_si256(x, _mm256_srli_epi64(x, 16));
    x = _mm256_or_si256(x, _mm256_srli_epi64(x, 32));
    const __m256i none = _mm256_setzero_si256();
    return _mm256_sad_epu8(_mm256_sub_epi8(none, _mm256_cmpeq_epi8(x, none)), none);
}

/* Computes what find_digits of number_write.c returns, for each lane. Where that function returns
 * 0, the lane is set in *unclear. Of the fraction of 10 * g only the upper 32 bits are tested, so
 * somewhat more numbers are unclear. */
static inline __m256i find_digits(__m256i c, __m256i unit, __m256i *unclear) {
    const __m256i none = _mm256_setzero_si256();
    __m256i low = _mm256_mul_epu32(unit, c);
    __m256i middle = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(unit, 32), c),
                                      _mm256_srli_epi64(low, 32));
    __m256i t = _mm256_srli_epi64(middle, 32);
    __m256i g = _mm256_blend_epi32(_mm256_slli_epi64(middle, 32), low, 0x55);
    __m256i upper = _mm256_cmpgt_epi64(none, g);
    __m256i size = _mm256_sub_epi64(_mm256_xor_si256(g, upper), upper);
    __m256i apart = _mm256_sub_epi64(size, _mm256_srli_epi64(unit, 1));
    __m256i tenths = _mm256_add_epi64(
        _mm256_mul_epu32(middle, ALL(10)),
        _mm256_srli_epi64(_mm256_mul_epu32(low, ALL(10)), 32)); /* 10 * g in units of 2^-32 */
    __m256i ones = _mm256_srli_epi64(_mm256_add_epi64(tenths, ALL(0x80000000)), 32);
    __m256i shorter = _mm256_cmpgt_epi64(none, apart);
    __m256i last = choose(shorter, _mm256_and_si256(upper, ALL(10)), ones);
    __m256i near = _mm256_and_si256(_mm256_cmpgt_epi64(apart, ALL(-(1 << 25) - 1)),
                                    _mm256_cmpgt_epi64(ALL(1 << 25), apart));
    __m256i tie = _mm256_add_epi64(tenths, ALL(1 - 0x80000000LL));
    tie = is_zero(_mm256_and_si256(tie, ALL(0xFFFFFFFE)));
    *unclear = _mm256_or_si256(*unclear, _mm256_or_si256(near, tie));
    return _mm256_add_epi64(_mm256_mul_epu32(t, ALL(10)), last);
}

/* Loads the rows of attn_single_units for two exponents: those of values 1 and 3 if `odd` is 1, of
 * values 0 and 2 if it is 0. */
static inline __m256i load_two(const uint32_t *exponent, int odd) {
    const attn_single_unit *rows = attn_single_units;
    const __m128i *a = (const void *)(rows + exponent[odd]);
    const __m128i *b = (const void *)(rows + exponent[2 + odd]);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_load_si128(a)), _mm_load_si128(b), 1);
}

static inline decimals decide(__m128i singles) {
    _Alignas(16) uint32_t exponent[LANES];
    decimals d;
    d.bits = _mm256_cvtepu32_epi64(singles);
    const __m256i fraction = _mm256_and_si256(d.bits, ALL(0x7FFFFF));
    _mm_store_si128((void *)exponent,
                    _mm_and_si128(_mm_srli_epi32(singles, 23), _mm_set1_epi32(0xFF)));
    __m256i even = load_two(exponent, 0), odd = load_two(exponent, 1);
    __m256i unit = _mm256_unpacklo_epi64(even, odd), k = _mm256_unpackhi_epi64(even, odd);
    d.unclear = is_zero(fraction);
    __m256i digits = find_digits(_mm256_or_si256(fraction, ALL(0x800000)), unit, &d.unclear);
    __m256i eight = _mm256_cmpgt_epi64(ALL(100000000), digits);
    __m256i seven = _mm256_cmpgt_epi64(ALL(10000000), digits);
    __m256i widen = choose(seven, ALL(100), choose(eight, ALL(10), ALL(1)));
    __m256i nine = _mm256_mul_epu32(digits, widen);
    d.point = _mm256_add_epi64(_mm256_add_epi64(k, ALL(9)), _mm256_add_epi64(eight, seven));
    d.first = _mm256_srli_epi64(_mm256_mul_epu32(nine, ALL(1441151881)), 57); /* nine / 10^8 */
    __m256i rest = _mm256_sub_epi64(nine, _mm256_mul_epu32(d.first, ALL(100000000)));
    d.others = eight_digits(rest);
    d.unclear = _mm256_or_si256(d.unclear, is_zero(d.others));
    d.trailing = zero_bytes_above(d.others);
    d.others = _mm256_or_si256(d.others, ALL(0x3030303030303030));
    d.first = _mm256_or_si256(d.first, ALL('0'));
    return d;
}

/* The texts of LANES values, 16 bytes each. */
typedef struct texts {
    __m256i low, high; /* the first and the last 8 bytes of each text */
    __m256i size;      /* length of each text, in bytes */
} texts;

static inline __m256i bytes_below(__m256i n) {
    return _mm256_sub_epi64(_mm256_sllv_epi64(ALL(1), _mm256_slli_epi64(n, 3)), ALL(1));
}

/* Makes texts such as 0.000ddd, for point = -4 … 0. The first digit is byte 2 - point of the
 * text. */
static inline texts place_low(const decimals *d) {
    __m256i at = _mm256_sub_epi64(ALL(2), d->point), shift = _mm256_slli_epi64(at, 3);
    __m256i zeros = _mm256_and_si256(ALL(0x3030303030302E30), bytes_below(at));
    __m256i digit = _mm256_sllv_epi64(d->first, shift);
    __m256i behind = _mm256_sllv_epi64(d->others, _mm256_add_epi64(shift, ALL(8)));
    texts t;
    t.low = _mm256_or_si256(_mm256_or_si256(zeros, digit), behind);
    t.high = _mm256_srlv_epi64(d->others, _mm256_sub_epi64(ALL(56), shift));
    t.size = _mm256_sub_epi64(_mm256_add_epi64(at, ALL(9)), d->trailing);
    return t;
}

/* Makes texts from d.dddddddd to ddddddd.dd, for point = 1 … 7. The point is byte `point` of the
 * text. */
static inline texts place_high(const decimals *d) {
    __m256i digits = _mm256_or_si256(d->first, _mm256_slli_epi64(d->others, 8));
    __m256i before = bytes_below(d->point);
    __m256i mark = _mm256_sllv_epi64(ALL('.'), _mm256_slli_epi64(d->point, 3));
    __m256i through = _mm256_or_si256(before, _mm256_slli_epi64(before, 8));
    __m256i behind = _mm256_andnot_si256(through, _mm256_slli_epi64(d->others, 16));
    texts t;
    t.low = _mm256_or_si256(_mm256_or_si256(_mm256_and_si256(digits, before), mark), behind);
    t.high = _mm256_srli_epi64(d->others, 48);
    t.size = _mm256_sub_epi64(ALL(10), d->trailing);
    return t;
}

/* Makes texts such as d.ddde-6, with exponents -6 … -38, in the lanes `tiny`. The exponent follows
 * the last digit that is not zero. */
static __attribute__((noinline)) void place_tiny(const decimals *d, __m256i tiny, texts *t) {
    __m256i n = _mm256_sub_epi64(ALL(1), d->point);
    __m256i tens = _mm256_srli_epi64(_mm256_mul_epu32(n, ALL(205)), 11);
    __m256i ones = _mm256_sub_epi64(n, _mm256_mul_epu32(tens, ALL(10)));
    __m256i two = _mm256_cmpgt_epi64(tens, _mm256_setzero_si256());
    __m256i both = _mm256_or_si256(tens, _mm256_slli_epi64(ones, 8));
    both = _mm256_add_epi64(both, ALL('0' << 8));
    __m256i end = _mm256_add_epi64(_mm256_slli_epi64(choose(two, both, ones), 16),
                                   ALL('e' | '-' << 8 | '0' << 16));

    __m256i size = _mm256_sub_epi64(ALL(10), d->trailing), shift = _mm256_slli_epi64(size, 3);
    __m256i above = _mm256_sub_epi64(shift, ALL(64)); /* negative shifts give 0 */
    __m256i all = _mm256_set1_epi64x(-1);
    __m256i low =
        _mm256_or_si256(_mm256_or_si256(d->first, ALL('.' << 8)), _mm256_slli_epi64(d->others, 16));
    low = _mm256_andnot_si256(_mm256_sllv_epi64(all, shift), low);
    low = _mm256_or_si256(low, _mm256_sllv_epi64(end, shift));
    __m256i kept =
        _mm256_andnot_si256(_mm256_sllv_epi64(all, above), _mm256_srli_epi64(d->others, 48));
    kept = _mm256_and_si256(kept, _mm256_cmpgt_epi64(size, ALL(8)));
    __m256i high = _mm256_or_si256(_mm256_sllv_epi64(end, above),
                                   _mm256_srlv_epi64(end, _mm256_sub_epi64(ALL(64), shift)));
    t->low = choose(tiny, low, t->low);
    t->high = choose(tiny, _mm256_or_si256(high, kept), t->high);
    size = _mm256_sub_epi64(_mm256_add_epi64(size, ALL(3)), two);
    t->size = choose(tiny, size, t->size);
}

/* Makes the text of each value. Returns a mask of the values that attn_write_f32 must write. */
static inline unsigned make_texts(const decimals *d, texts *t) {
    const __m256i none = _mm256_setzero_si256(), bits = d->bits;
    __m256i zero = is_zero(bits), ends = _mm256_add_epi64(d->point, d->trailing);
    __m256i high = _mm256_cmpgt_epi64(d->point, none);
    __m256i whole =
        _mm256_or_si256(_mm256_cmpgt_epi64(ends, ALL(8)), _mm256_cmpgt_epi64(d->point, ALL(7)));
    __m256i neither = _mm256_and_si256(high, whole);
    __m256i tiny = _mm256_cmpgt_epi64(ALL(-4), d->point);
    tiny = _mm256_andnot_si256(_mm256_or_si256(d->unclear, zero), tiny);
    texts low = place_low(d);
    *t = place_high(d);
    t->low = choose(high, t->low, low.low);
    t->high = choose(high, t->high, low.high);
    t->size = choose(high, t->size, low.size);
    if (!_mm256_testz_si256(tiny, tiny))
        place_tiny(d, tiny, t);
    __m256i minus = _mm256_cmpgt_epi64(bits, ALL(0x7FFFFFFF));
    __m256i one = _mm256_and_si256(minus, ALL(8)), carry = _mm256_srli_epi64(t->low, 56);
    t->high = _mm256_or_si256(_mm256_sllv_epi64(t->high, one), _mm256_and_si256(carry, minus));
    t->low = _mm256_or_si256(_mm256_sllv_epi64(t->low, one), _mm256_and_si256(minus, ALL('-')));
    t->size = _mm256_sub_epi64(t->size, minus);
    t->low = choose(zero, ALL('0'), t->low);
    t->size = choose(zero, ALL(1), t->size);
    __m256i others = _mm256_andnot_si256(zero, _mm256_or_si256(d->unclear, neither));
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(others));
}

static inline __m128i load_singles(const float *values) {
    return _mm_loadu_si128((const void *)values);
}

static inline void store_texts(const texts *t, char text[LANES][16], uint64_t size[LANES]) {
    _mm256_store_si256((void *)text[0], _mm256_unpacklo_epi64(t->low, t->high));
    _mm256_store_si256((void *)text[2], _mm256_unpackhi_epi64(t->low, t->high));
    _mm256_store_si256((void *)size, t->size);
}

#include "number/x86/number_lists_write_body.h"

char *attn_write_singles_avx2(char *p, const float *values, size_t n, size_t width) {
    return write_list(p, values, n, width);
}
