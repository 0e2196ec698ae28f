/* Writes lists of float32 as text, LANES values at a time, with the operations of lanes_*.h. Each
 * lane searches the digits of one value as number_lists_write.c does. The text of a value is made
 * in 16 bytes, in one of these forms:
 *   1e-5 <= value < 1     "0.", zeros and nine digits
 *   1 <= value < 10^7     nine digits with a point among them
 *   value < 1e-5          a digit, a point, eight digits, "e-" and the exponent
 * The length of the text excludes zeros at the end of the digits. attn_write_f32 writes all other
 * values (see number_lists_write.c). */
#include <math.h>
#include <string.h>

#include "number/number.h"
#include "number/number_lists.h"
#include "number/number_powers.h"

/* Nine digits of each of LANES values. */
typedef struct decimals {
    lanes bits;     /* bits of the float32 */
    lanes first;    /* first digit, '0' … '9' */
    lanes others;   /* the other eight digits, one in each byte */
    lanes point;    /* digits before the decimal point; the value is 0.d * 10^point */
    lanes trailing; /* number of zeros at the end of the nine digits */
    where unclear;  /* values that attn_write_f32 must write: those too near to a decision, powers
                     * of two, numbers of one digit, subnormals */
} decimals;

/* Returns n in all 16-bit elements. The barrier hides the value from GCC, which would otherwise
 * replace a multiplication by shifts and additions. */
static inline shorts factor(uint16_t n) {
    shorts all = (shorts){0} + n;
    __asm__("" : "+v"(all));
    return all;
}

/* Converts v < 10^8 to eight bytes 0 … 9, the first digit in the lowest byte. */
static inline lanes eight_digits(lanes v) {
    lanes high = times(v, ALL(109951163)) >> 40;
    shorts fours = (shorts)(high | (v - times(high, ALL(10000))) << 32);
    shorts hundreds = high_products(fours, 5243) >> 3;
    shorts pairs = (shorts)((lanes)hundreds | (lanes)(fours - hundreds * factor(100)) << 16);
    shorts tens = high_products(pairs, 6554);
    return (lanes)tens | (lanes)(pairs - tens * factor(10)) << 8;
}

/* Computes what find_digits of number_lists_write.c returns, for each lane. Where that function
 * returns 0, the lane is set in *unclear. Of the fraction of 10 * g only the upper 32 bits are
 * tested, so somewhat more numbers are unclear. */
static inline lanes find_digits(lanes c, lanes unit, where *unclear) {
    lanes low = times(unit, c);
    lanes middle = times(unit >> 32, c) + (low >> 32);
    lanes t = middle >> 32, g = middle << 32 | (low & ALL(0xFFFFFFFF));
    lanes apart = magnitude(g) - (unit >> 1);
    /* 10 * g in units of 2^-32 */
    lanes tenths = times(middle, ALL(10)) + (times(low, ALL(10)) >> 32);
    lanes ones = (tenths + ALL(0x80000000)) >> 32;
    lanes last = choose(is_negative(apart), choose(is_negative(g), ALL(10), ALL(0)), ones);
    where near = within(apart, 1 << 25);
    where tie = is_zero((tenths + ALL(1 - 0x80000000LL)) & ALL(0xFFFFFFFE));
    *unclear = either(*unclear, either(near, tie));
    return times(t, ALL(10)) + last;
}

static inline decimals decide(const float *values) {
    decimals d;
    uint64_t rows[LANES]; /* addresses in attn_single_units */
    d.bits = load_floats(values);
    const lanes fraction = d.bits & ALL(0x7FFFFF);
    store_lanes(rows, ALL((uintptr_t)attn_single_units) +
                          (d.bits >> 23 & ALL(0xFF)) * sizeof(attn_single_unit));
    lanes even = load_texts(rows, 0), odd = load_texts(rows, 1);
    d.unclear = is_zero(fraction);
    lanes digits = find_digits(fraction | ALL(0x800000), first_halves(even, odd), &d.unclear);
    where eight = more(ALL(100000000), digits), seven = more(ALL(10000000), digits);
    lanes nine = times(digits, choose(seven, ALL(100), choose(eight, ALL(10), ALL(1))));
    d.point = subtract_one(subtract_one(second_halves(even, odd) + ALL(9), eight), seven);
    d.first = times(nine, ALL(1441151881)) >> 57; /* nine / 10^8 */
    d.others = eight_digits(nine - times(d.first, ALL(100000000)));
    d.unclear = either(d.unclear, is_zero(d.others));
    d.trailing = zero_bytes_above(d.others);
    d.others |= ALL(0x3030303030303030);
    d.first |= ALL('0');
    return d;
}

/* The texts of LANES values, 16 bytes each. */
typedef struct texts {
    lanes low, high; /* the first and the last 8 bytes of each text */
    lanes size;      /* length of each text, in bytes */
} texts;

static inline texts choose_texts(where here, texts yes, texts no) {
    return (texts){choose(here, yes.low, no.low), choose(here, yes.high, no.high),
                   choose(here, yes.size, no.size)};
}

static inline lanes bytes_below(lanes n) {
    return shift_up(ALL(1), n << 3) - ALL(1);
}

/* Makes texts such as 0.000ddd, for point = -4 … 0. The first digit is byte 2 - point of the
 * text. */
static inline texts place_low(const decimals *d) {
    lanes at = ALL(2) - d->point, shift = at << 3;
    lanes zeros = ALL(0x3030303030302E30) & bytes_below(at);
    return (texts){.low = zeros | shift_up(d->first, shift) | shift_up(d->others, shift + ALL(8)),
                   .high = shift_down(d->others, ALL(56) - shift),
                   .size = at + ALL(9) - d->trailing};
}

/* Makes texts from d.dddddddd to ddddddd.dd, for point = 1 … 7. The point is byte `point` of the
 * text. */
static inline texts place_high(const decimals *d) {
    lanes digits = d->first | d->others << 8, before = bytes_below(d->point);
    lanes dot = shift_up(ALL('.'), d->point << 3), through = before | before << 8;
    return (texts){.low = (digits & before) | dot | (~through & d->others << 16),
                   .high = d->others >> 48,
                   .size = ALL(10) - d->trailing};
}

/* Makes texts such as d.ddde-6, with exponents -6 … -38. The exponent follows the last digit that
 * is not zero. */
static __attribute__((noinline)) void place_tiny(const decimals *d, where tiny, texts *t) {
    lanes n = ALL(1) - d->point, tens = times(n, ALL(205)) >> 11;
    lanes ones = n - times(tens, ALL(10));
    where two = more(tens, ALL(0));
    lanes exponent = choose(two, (tens | ones << 8) + ALL('0' << 8), ones);
    lanes end = exponent << 16 | ALL('e' | '-' << 8 | '0' << 16);
    lanes size = ALL(10) - d->trailing, shift = size << 3;
    lanes above = shift - ALL(64); /* negative shifts give 0 */
    lanes low = d->first | ALL('.' << 8) | d->others << 16;
    lanes high = choose(more(size, ALL(8)), d->others >> 48 & ~shift_up(ALL(-1), above), ALL(0));
    const texts other = {.low = (low & ~shift_up(ALL(-1), shift)) | shift_up(end, shift),
                         .high = high | shift_up(end, above) | shift_down(end, ALL(64) - shift),
                         .size = add_one(size + ALL(3), two)};
    *t = choose_texts(tiny, other, *t);
}

/* Makes the text of each value. Returns bits for the values that attn_write_f32 must write. */
static inline unsigned make_texts(const decimals *d, texts *t) {
    where zero = is_zero(d->bits), high = more(d->point, ALL(0));
    where whole = either(more(d->point + d->trailing, ALL(8)), more(d->point, ALL(7)));
    where tiny = without(more(ALL(-4), d->point), either(d->unclear, zero));
    where minus = more(d->bits, ALL(0x7FFFFFFF));
    *t = choose_texts(high, place_high(d), place_low(d));
    if (any(tiny))
        place_tiny(d, tiny, t);
    t->high = choose(minus, t->high << 8 | t->low >> 56, t->high);
    t->low = choose(minus, t->low << 8 | ALL('-'), t->low);
    t->low = choose(zero, ALL('0'), t->low);
    t->size = choose(zero, ALL(1), add_one(t->size, minus));
    return bits_of(without(either(d->unclear, both(high, whole)), zero));
}

static char *write_one(char *p, float value) {
    if (!isfinite(value))
        return (char *)memcpy(p, "null", 4) + 4;
    return attn_write_f32(p, value);
}

/* Writes LANES texts, each with a comma. If bit k of `others` is set, write_one writes value k. */
static inline char *put_texts(char *p, const texts *t, unsigned others, const float *values) {
    _Alignas(64) char text[LANES][16]; /* the texts of values 0, 2, 4, … and then of 1, 3, 5, … */
    _Alignas(64) uint64_t size[LANES];
    store_lanes(text[0], first_halves(t->low, t->high));
    store_lanes(text[LANES / 2], second_halves(t->low, t->high));
    store_lanes(size, t->size);
    for (unsigned k = 0; k < LANES; k++) {
        if (__builtin_expect(others >> k & 1, 0)) {
            p = write_one(p, values[k]);
        } else {
            memcpy(p, text[k / 2 + k % 2 * (LANES / 2)], 16);
            p += size[k];
        }
        *p++ = ',';
    }
    return p;
}

/* Writes n floats, a multiple of LANES, in groups of LANES. The steps of one group depend on each
 * other. So the loop finds the digits of the next group before it writes this one, and the
 * processor can work at both. */
char *NAME(attn_write_singles)(char *p, const float *values, size_t n, size_t width) {
    decimals next = decide(values);
    /* numbers left in this row; with width = 0 it wraps around and never becomes 0 */
    size_t left = width;
    for (size_t i = 0; i < n; i += LANES) {
        decimals d = next;
        next = decide(i + LANES < n ? values + i + LANES : values + i);
        texts t;
        const unsigned others = make_texts(&d, &t);
        p = put_texts(p, &t, others, values + i);
        left -= LANES;
        if (left == 0) {
            p = attn_write_row_end(p);
            left = width;
        }
    }
    return p;
}
