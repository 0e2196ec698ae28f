/* Writes lists of float32 with AVX-512, eight values at a time. Each 64-bit lane searches the
 * digits of one value as number_write.c does. The text of a value is made in 16 bytes, in one of
 * these forms:
 *   1e-5 <= value < 1     "0.", zeros and nine digits
 *   1 <= value < 10^7     nine digits with a point among them
 *   value < 1e-5          a digit, a point, eight digits, "e-" and the exponent
 * The length of the text excludes zeros at the end of the digits. attn_write_f32 writes all other
 * values (see number_write.c). */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "number/number.h"
#include "number/number_lists.h"
#include "number/number_powers.h"

enum { LANES = 8 };

#define ALL(x) _mm512_set1_epi64((int64_t)(x))

/* Nine digits of each of LANES values. A lane of 64 bits belongs to one value. */
typedef struct decimals {
    __m512i bits;     /* bits of the float32 */
    __m512i first;    /* first digit, '0' … '9' */
    __m512i others;   /* the other eight digits, one in each byte */
    __m512i point;    /* digits before the decimal point; the value is 0.d * 10^point */
    __m512i trailing; /* number of zeros at the end of the nine digits */
    __mmask8 unclear; /* values that attn_write_f32 must write: those too near to a decision,
                       * powers of two, numbers of one digit, subnormals */
} decimals;

/* Returns n in all 16-bit elements. The barrier hides the value from GCC, which would otherwise
 * replace a multiplication by shifts and additions. */
static inline __m512i factor(short n) {
    __m512i all = _mm512_set1_epi16(n);
    __asm__("" : "+v"(all));
    return all;
}

/* Converts v < 10^8 to eight bytes 0 … 9, the first digit in the lowest byte. */
static inline __m512i eight_digits(__m512i v) {
    __m512i high = _mm512_srli_epi64(_mm512_mul_epu32(v, ALL(109951163)), 40);
    __m512i low = _mm512_sub_epi64(v, _mm512_mul_epu32(high, ALL(10000)));
    __m512i fours = _mm512_or_si512(high, _mm512_slli_epi64(low, 32));
    __m512i hundreds = _mm512_srli_epi16(_mm512_mulhi_epu16(fours, _mm512_set1_epi16(5243)), 3);
    __m512i rest = _mm512_sub_epi16(fours, _mm512_mullo_epi16(hundreds, factor(100)));
    __m512i pairs = _mm512_or_si512(hundreds, _mm512_slli_epi32(rest, 16));
    __m512i tens = _mm512_mulhi_epu16(pairs, _mm512_set1_epi16(6554));
    __m512i ones = _mm512_sub_epi16(pairs, _mm512_mullo_epi16(tens, factor(10)));
    return _mm512_or_si512(tens, _mm512_slli_epi16(ones, 8));
}

/* Computes what find_digits of number_write.c returns, for each lane. Where that function returns
 * 0, the lane is set in *unclear. Of the fraction of 10 * g only the upper 32 bits are tested, so
 * somewhat more numbers are unclear. */
static inline __m512i find_digits(__m512i c, __m512i unit, __mmask8 *unclear) {
    const __m512i low32 = ALL(0xFFFFFFFF), doubt = ALL(1 << 25);
    __m512i low = _mm512_mul_epu32(unit, c);
    __m512i middle = _mm512_add_epi64(_mm512_mul_epu32(_mm512_srli_epi64(unit, 32), c),
                                      _mm512_srli_epi64(low, 32));
    __m512i t = _mm512_srli_epi64(middle, 32);
    __m512i g = _mm512_or_si512(_mm512_slli_epi64(middle, 32), _mm512_and_si512(low, low32));
    __mmask8 upper = _mm512_movepi64_mask(g);
    __m512i apart = _mm512_sub_epi64(_mm512_abs_epi64(g), _mm512_srli_epi64(unit, 1));
    __m512i tenths = _mm512_add_epi64(
        _mm512_mul_epu32(middle, ALL(10)),
        _mm512_srli_epi64(_mm512_mul_epu32(low, ALL(10)), 32)); /* 10 * g in units of 2^-32 */
    __m512i ones = _mm512_srli_epi64(_mm512_add_epi64(tenths, ALL(0x80000000)), 32);
    __mmask8 shorter = _mm512_movepi64_mask(apart);
    __m512i last = _mm512_mask_mov_epi64(ones, shorter, _mm512_maskz_mov_epi64(upper, ALL(10)));
    *unclear |= _mm512_cmplt_epu64_mask(_mm512_add_epi64(apart, doubt), ALL(1 << 26));
    *unclear |=
        _mm512_testn_epi64_mask(_mm512_add_epi64(tenths, ALL(1 - 0x80000000LL)), ALL(0xFFFFFFFE));
    return _mm512_add_epi64(_mm512_mul_epu32(t, ALL(10)), last);
}

/* Loads the rows of attn_single_units for four exponents: those of values 1, 3, 5, 7 if `odd` is 1,
 * of values 0, 2, 4, 6 if it is 0. A gather instruction takes many times as long on processors with
 * a mitigation of Gather Data Sampling. */
static inline __m512i load_four(const uint32_t *exponent, int odd) {
    const attn_single_unit *rows = attn_single_units;
    __m512i four = _mm512_castsi128_si512(_mm_load_si128((const void *)(rows + exponent[odd])));
    four = _mm512_inserti32x4(four, _mm_load_si128((const void *)(rows + exponent[2 + odd])), 1);
    four = _mm512_inserti32x4(four, _mm_load_si128((const void *)(rows + exponent[4 + odd])), 2);
    return _mm512_inserti32x4(four, _mm_load_si128((const void *)(rows + exponent[6 + odd])), 3);
}

static inline decimals decide(__m256i singles) {
    _Alignas(32) uint32_t exponent[LANES];
    decimals d;
    d.bits = _mm512_cvtepu32_epi64(singles);
    const __m512i fraction = _mm512_and_si512(d.bits, ALL(0x7FFFFF));
    _mm256_store_si256((void *)exponent,
                       _mm256_and_si256(_mm256_srli_epi32(singles, 23), _mm256_set1_epi32(0xFF)));
    __m512i even = load_four(exponent, 0), odd = load_four(exponent, 1);
    __m512i unit = _mm512_unpacklo_epi64(even, odd), k = _mm512_unpackhi_epi64(even, odd);
    d.unclear = _mm512_testn_epi64_mask(fraction, fraction);
    __m512i digits = find_digits(_mm512_or_si512(fraction, ALL(0x800000)), unit, &d.unclear);
    __mmask8 eight = _mm512_cmplt_epu64_mask(digits, ALL(100000000));
    __mmask8 seven = _mm512_cmplt_epu64_mask(digits, ALL(10000000));
    __m512i widen = _mm512_mask_mov_epi64(ALL(1), eight, ALL(10));
    __m512i nine = _mm512_mul_epu32(digits, _mm512_mask_mov_epi64(widen, seven, ALL(100)));
    d.point = _mm512_add_epi64(k, ALL(9));
    d.point = _mm512_mask_sub_epi64(d.point, eight, d.point, ALL(1));
    d.point = _mm512_mask_sub_epi64(d.point, seven, d.point, ALL(1));
    d.first = _mm512_srli_epi64(_mm512_mul_epu32(nine, ALL(1441151881)), 57); /* nine / 10^8 */
    __m512i rest = _mm512_sub_epi64(nine, _mm512_mul_epu32(d.first, ALL(100000000)));
    d.others = eight_digits(rest);
    d.unclear |= _mm512_testn_epi64_mask(d.others, d.others);
    d.trailing = _mm512_srli_epi64(_mm512_lzcnt_epi64(d.others), 3);
    d.others = _mm512_or_si512(d.others, ALL(0x3030303030303030));
    d.first = _mm512_or_si512(d.first, ALL('0'));
    return d;
}

/* The texts of LANES values, 16 bytes each. */
typedef struct texts {
    __m512i low, high; /* the first and the last 8 bytes of each text */
    __m512i size;      /* length of each text, in bytes */
} texts;

static inline __m512i bytes_below(__m512i n) {
    return _mm512_sub_epi64(_mm512_sllv_epi64(ALL(1), _mm512_slli_epi64(n, 3)), ALL(1));
}

/* Makes texts such as 0.000ddd, for point = -4 … 0. The first digit is byte 2 - point of the
 * text. */
static inline texts place_low(const decimals *d) {
    __m512i at = _mm512_sub_epi64(ALL(2), d->point), shift = _mm512_slli_epi64(at, 3);
    __m512i zeros = _mm512_and_si512(ALL(0x3030303030302E30), bytes_below(at));
    __m512i digit = _mm512_sllv_epi64(d->first, shift);
    __m512i behind = _mm512_sllv_epi64(d->others, _mm512_add_epi64(shift, ALL(8)));
    texts t;
    t.low = _mm512_ternarylogic_epi64(zeros, digit, behind, 0xFE);
    t.high = _mm512_srlv_epi64(d->others, _mm512_sub_epi64(ALL(56), shift));
    t.size = _mm512_sub_epi64(_mm512_add_epi64(at, ALL(9)), d->trailing);
    return t;
}

/* Makes texts from d.dddddddd to ddddddd.dd, for point = 1 … 7. The point is byte `point` of the
 * text. */
static inline texts place_high(const decimals *d) {
    __m512i digits = _mm512_or_si512(d->first, _mm512_slli_epi64(d->others, 8));
    __m512i before = bytes_below(d->point);
    __m512i mark = _mm512_sllv_epi64(ALL('.'), _mm512_slli_epi64(d->point, 3));
    __m512i through = bytes_below(_mm512_add_epi64(d->point, ALL(1)));
    __m512i behind = _mm512_andnot_si512(through, _mm512_slli_epi64(d->others, 16));
    texts t;
    through = _mm512_and_si512(digits, before);
    t.low = _mm512_ternarylogic_epi64(through, mark, behind, 0xFE);
    t.high = _mm512_srli_epi64(d->others, 48);
    t.size = _mm512_sub_epi64(ALL(10), d->trailing);
    return t;
}

/* Makes texts such as d.ddde-6, with exponents -6 … -38, in the lanes `tiny`. The exponent follows
 * the last digit that is not zero. */
static __attribute__((noinline)) void place_tiny(const decimals *d, __mmask8 tiny, texts *t) {
    __m512i n = _mm512_sub_epi64(ALL(1), d->point);
    __m512i tens = _mm512_srli_epi64(_mm512_mul_epu32(n, ALL(205)), 11);
    __m512i ones = _mm512_sub_epi64(n, _mm512_mul_epu32(tens, ALL(10)));
    __mmask8 two = _mm512_test_epi64_mask(tens, tens);
    __m512i power = _mm512_mask_or_epi64(ones, two, tens, _mm512_slli_epi64(ones, 8));
    power = _mm512_mask_add_epi64(power, two, power, ALL('0' << 8));
    __m512i end = _mm512_add_epi64(_mm512_slli_epi64(power, 16), ALL('e' | '-' << 8 | '0' << 16));

    __m512i size = _mm512_sub_epi64(ALL(10), d->trailing), shift = _mm512_slli_epi64(size, 3);
    __m512i low =
        _mm512_or_si512(_mm512_or_si512(d->first, ALL('.' << 8)), _mm512_slli_epi64(d->others, 16));
    low = _mm512_or_si512(
        _mm512_and_si512(low,
                         _mm512_mask_mov_epi64(bytes_below(size),
                                               _mm512_cmpgt_epi64_mask(size, ALL(7)), ALL(-1))),
        _mm512_sllv_epi64(end, shift));
    __m512i above = _mm512_sub_epi64(shift, ALL(64)); /* negative shifts give 0 */
    __m512i high = _mm512_and_si512(
        _mm512_srli_epi64(d->others, 48),
        _mm512_mask_mov_epi64(_mm512_setzero_si512(), _mm512_cmpgt_epi64_mask(size, ALL(8)),
                              bytes_below(_mm512_sub_epi64(size, ALL(8)))));
    high = _mm512_or_si512(
        high, _mm512_or_si512(_mm512_sllv_epi64(end, above),
                              _mm512_srlv_epi64(end, _mm512_sub_epi64(ALL(64), shift))));
    t->low = _mm512_mask_mov_epi64(t->low, tiny, low);
    t->high = _mm512_mask_mov_epi64(t->high, tiny, high);
    size = _mm512_mask_add_epi64(_mm512_add_epi64(size, ALL(3)), two, size, ALL(4));
    t->size = _mm512_mask_mov_epi64(t->size, tiny, size);
}

/* Makes the text of each value. Returns a mask of the values that attn_write_f32 must write. */
static inline __mmask8 make_texts(const decimals *d, texts *t) {
    const __m512i bits = d->bits;
    __mmask8 zero = _mm512_testn_epi64_mask(bits, bits);
    __mmask8 high = _mm512_cmpgt_epi64_mask(d->point, _mm512_setzero_si512());
    __mmask8 low = _mm512_mask_cmpgt_epi64_mask(~high, d->point, ALL(-5));
    __mmask8 whole = _mm512_cmpge_epi64_mask(_mm512_add_epi64(d->point, d->trailing), ALL(9));
    high = _mm512_mask_cmplt_epi64_mask(high & ~whole, d->point, ALL(8));
    *t = place_low(d);
    texts other = place_high(d);
    t->low = _mm512_mask_mov_epi64(t->low, high, other.low);
    t->high = _mm512_mask_mov_epi64(t->high, high, other.high);
    t->size = _mm512_mask_mov_epi64(t->size, high, other.size);
    __mmask8 tiny = _mm512_cmplt_epi64_mask(d->point, ALL(-4)) & (__mmask8) ~(d->unclear | zero);
    if (tiny)
        place_tiny(d, tiny, t);
    __mmask8 minus = _mm512_test_epi64_mask(bits, ALL(0x80000000));
    t->high = _mm512_mask_or_epi64(t->high, minus, _mm512_slli_epi64(t->high, 8),
                                   _mm512_srli_epi64(t->low, 56));
    t->low = _mm512_mask_or_epi64(t->low, minus, _mm512_slli_epi64(t->low, 8), ALL('-'));
    t->size = _mm512_mask_add_epi64(t->size, minus, t->size, ALL(1));
    t->low = _mm512_mask_mov_epi64(t->low, zero, ALL('0'));
    t->size = _mm512_mask_mov_epi64(t->size, zero, ALL(1));
    return (__mmask8)((d->unclear | ~(low | high | tiny)) & ~zero);
}

static inline __m256i load_singles(const float *values) {
    return _mm256_loadu_si256((const void *)values);
}

static inline void store_texts(const texts *t, char text[LANES][16], uint64_t size[LANES]) {
    _mm512_store_si512((void *)text[0], _mm512_unpacklo_epi64(t->low, t->high));
    _mm512_store_si512((void *)text[4], _mm512_unpackhi_epi64(t->low, t->high));
    _mm512_store_si512((void *)size, t->size);
}

#include "number/x86/number_lists_write_body.h"

char *attn_write_singles_avx512(char *p, const float *values, size_t n, size_t width) {
    return write_list(p, values, n, width);
}
