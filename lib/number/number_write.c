/* Writes numbers as text: the shortest decimal that reads back to the same number, and among
 * decimals of that length the nearest to the value. The value is c * 2^q with an integer c. All
 * decimals between the midpoints to its two neighbours, (4c ± 2) * 2^(q-2), read back to the value.
 * k is chosen so that this interval holds at least one multiple of 10^k and at most one of
 * 10^(k+1); if it holds one of 10^(k+1), that is the shortest decimal. The value and both midpoints
 * are scaled by 4 * 10^-k to integers, with a power of ten that is rounded up. The lowest bit of
 * such an integer is set if the scaling was inexact. This suffices to compare it with multiples of
 * 4 (Giulietti, "The Schubfach way to render doubles", 2020, sections 8-9). */
#include <math.h>
#include <string.h>

#include "number/digits.h"
#include "number/number.h"
#include "number/number_powers.h"

/* The number digits * 10^exponent. */
typedef struct decimal {
    uint64_t digits;
    int exponent;
} decimal;

/* A value between the midpoints to its neighbours. All three are scaled by 4 * 10^-k and rounded
 * down, and have their lowest bit set if this was inexact. */
typedef struct interval {
    uint64_t lower, value, upper;
    int k;
} interval;

/* Returns the multiple of 10^(k+1) in the interval, or if there is none, the multiple of 10^k
 * nearest to the value. If the significand is odd, `odd` is true, and the two ends of the interval
 * round to the neighbours, so they do not belong to it. The processor cannot predict which
 * candidate is right, so the function computes all of them without a branch. */
static inline decimal choose_shortest(interval v, bool odd) {
    uint64_t lower = v.lower + odd, upper = v.upper - odd;
    uint64_t s = v.value / 4, tens = s / 10;
    bool tens_below = lower <= 40 * tens, tens_above = 40 * tens + 40 <= upper;
    bool below = lower <= 4 * s, above = 4 * s + 4 <= upper;
    uint64_t rest = v.value & 3;
    bool up = rest + (s & 1) > 2; /* rounds to nearest, half to even */
    up = ((below != above) & above) | ((below == above) & up);
    bool shorter = (tens_below != tens_above) & (s >= 10);
    uint64_t mask = 0 - (uint64_t)shorter;
    return (decimal){((tens + tens_above) & mask) | ((s + up) & ~mask), v.k + shorter};
}

/* Returns floor(log10(2^q)). If `uneven`, the value is a power of two, whose lower neighbour is
 * half as far away as the upper one. The function then returns floor(log10(3/4 * 2^q)). */
static inline int log10_pow2(int q, bool uneven) {
    return (q * 1262611 - (uneven ? 524031 : 0)) >> 22;
}

/* Returns the 64 leading bits of 10^e, rounded up unless they are exact. */
static inline uint64_t power_single(int e) {
    const attn_power *ten = &attn_powers[e - ATTN_POWER_FIRST];
    return ten->high + (ten->low != 0);
}

static inline uint64_t scale_single(uint64_t power, uint64_t c) {
    unsigned __int128 product = (unsigned __int128)power * c;
    uint32_t rest = (uint32_t)((uint64_t)product >> 32);
    return (uint64_t)(product >> 64) | (rest > 1);
}

static inline decimal shortest_single(uint32_t bits) {
    uint32_t fraction = bits & 0x7FFFFF, exponent = bits >> 23 & 0xFF;
    uint64_t c = exponent ? fraction | 0x800000 : fraction;
    int q = (int)(exponent ? exponent : 1) - 150;
    bool uneven = fraction == 0 && exponent > 1;
    int k = log10_pow2(q, uneven);
    int shift = q + attn_power_log2(-k) + 1;
    uint64_t power = power_single(-k);
    interval v = {scale_single(power, (4 * c - 2 + uneven) << shift),
                  scale_single(power, (4 * c) << shift), scale_single(power, (4 * c + 2) << shift),
                  k};
    return choose_shortest(v, c & 1);
}

static inline attn_power power_double(int e) {
    attn_power ten = attn_powers[e - ATTN_POWER_FIRST];
    bool rounded_down = e < -27 || e > 55;
    ten.low += rounded_down;
    ten.high += rounded_down && ten.low == 0;
    return ten;
}

static inline uint64_t scale_double(attn_power power, uint64_t c) {
    unsigned __int128 product = (unsigned __int128)power.high * c;
    product += (uint64_t)(((unsigned __int128)power.low * c) >> 64);
    return (uint64_t)(product >> 64) | ((uint64_t)product > 1);
}

static decimal shortest_double(uint64_t bits) {
    uint64_t fraction = bits & 0xFFFFFFFFFFFFFu;
    uint32_t exponent = bits >> 52 & 0x7FF;
    uint64_t c = exponent ? fraction | 0x10000000000000u : fraction;
    int q = (int)(exponent ? exponent : 1) - 1075;
    bool uneven = fraction == 0 && exponent > 1;
    int k = log10_pow2(q, uneven);
    int shift = q + attn_power_log2(-k) + 1;
    attn_power power = power_double(-k);
    interval v = {scale_double(power, (4 * c - 2 + uneven) << shift),
                  scale_double(power, (4 * c) << shift), scale_double(power, (4 * c + 2) << shift),
                  k};
    return choose_shortest(v, c & 1);
}

static char *write_u64(char *p, uint64_t v) {
    char text[24];
    char *first = text + sizeof text;
    while (v >= 100000000) {
        uint64_t t = attn_eight_digits((uint32_t)(v % 100000000)) + ATTN_ZEROS;
        memcpy(first -= 8, &t, 8);
        v /= 100000000;
    }
    uint64_t t = attn_eight_digits((uint32_t)v);
    int zeros = t ? __builtin_ctzll(t) / 8 : 7;
    t += ATTN_ZEROS;
    memcpy(first -= 8, &t, 8);
    first += zeros;
    size_t n = (size_t)(text + sizeof text - first);
    memcpy(p, first, n);
    return p + n;
}

static char *write_exponent(char *p, const char *digits, int n, int exponent) {
    *p++ = *digits;
    if (n > 1) {
        *p++ = '.';
        memcpy(p, digits + 1, (size_t)n - 1);
        p += n - 1;
    }
    *p++ = 'e';
    return attn_write_i64(p, exponent);
}

/* Writes the value 0.d * 10^point, where d are the n digits at `digits`. It writes an exponent if
 * the value is below 1e-5 or at least 10^most. */
static char *write_with_point(char *p, const char *digits, int n, int point, int most) {
    if (point < -4 || point > most)
        return write_exponent(p, digits, n, point - 1);
    if (point <= 0) {
        memcpy(p, "0.0000", 6);
        p += 2 - point;
        memcpy(p, digits, (size_t)n);
        return p + n;
    }
    if (point >= n) {
        memcpy(p, digits, (size_t)n);
        memset(p + n, '0', (size_t)(point - n));
        return p + point;
    }
    memcpy(p, digits, (size_t)point);
    p[point] = '.';
    memcpy(p + point + 1, digits + point, (size_t)(n - point));
    return p + n + 1;
}

/* Writes the same text as write_with_point() for n <= 9 digits and most = 16. The lowest byte of
 * `digits` is the first digit. It is faster than write_with_point(), since it copies whole words
 * instead of n bytes. It may write up to 23 bytes at p. */
static inline char *write_single_with_point(char *p, unsigned __int128 digits, int n, int point) {
    if (point <= 0 && point >= -4) {
        memcpy(p, "0.000000", 8);
        p += 2 - point;
        memcpy(p, &digits, 16);
        return p + n;
    }
    memcpy(p, &digits, 16);
    if (point > 0 && point < n) {
        uint64_t behind = (uint64_t)(digits >> (8 * point)); /* at most eight digits */
        p[point] = '.';
        memcpy(p + point + 1, &behind, 8);
        return p + n + 1;
    }
    char text[16];
    memcpy(text, &digits, 16);
    return write_with_point(p, text, n, point, 16);
}

char *attn_write_f32(char *p, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    *p = '-';
    p += bits >> 31;
    if (bits == 0x80000000)
        return (char *)memcpy(p, "0.0", 3) + 3;
    bits &= 0x7FFFFFFF;
    if (bits == 0 || bits == 0x3F800000) {
        *p = bits ? '1' : '0';
        return p + 1;
    }
    decimal d = shortest_single(bits);
    uint64_t first = d.digits / 100000000; /* the first of nine digits; the other eight follow */
    uint64_t t = attn_eight_digits((uint32_t)(d.digits - first * 100000000));
    int trailing = t ? __builtin_clzll(t) / 8 : 8;
    int leading = first ? 0 : 1 + __builtin_ctzll(t) / 8;
    unsigned __int128 digits = ((unsigned __int128)(t + ATTN_ZEROS) << 8 | (first + '0'));
    digits >>= 8 * leading;
    int n = 9 - leading - trailing;
    return write_single_with_point(p, digits, n, 9 - leading + d.exponent);
}

char *attn_write_f64(char *p, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    *p = '-';
    p += bits >> 63;
    if (bits == 0)
        return (char *)memcpy(p, "0", 1) + 1;
    if (bits << 1 == 0)
        return (char *)memcpy(p, "0.0", 3) + 3;
    bits &= INT64_MAX;
    decimal d;
    if (value >= -9007199254740992.0 && value <= 9007199254740992.0 && trunc(value) == value)
        d = (decimal){(uint64_t)fabs(value), 0};
    else
        d = shortest_double(bits);
    while (d.digits % 10 == 0) {
        d.digits /= 10;
        d.exponent++;
    }
    char text[24];
    int n = (int)(write_u64(text, d.digits) - text);
    return write_with_point(p, text, n, n + d.exponent, 21);
}

char *attn_write_i64(char *p, int64_t value) {
    *p = '-';
    p += value < 0;
    return write_u64(p, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* Returns |value| * ten, rounded half to even without any other error, for |value| < 2^53 and
 * ten = 10^decimals <= 10^17. |value| is m * 2^-shift with an integer m < 2^53, so m * ten < 2^110
 * fits into 128 bits. */
static unsigned __int128 round_to_integer(double value, uint64_t ten) {
    int exponent;
    uint64_t m = (uint64_t)ldexp(frexp(fabs(value), &exponent), 53);
    int shift = 53 - exponent;
    unsigned __int128 product = (unsigned __int128)m * ten;
    if (shift <= 0)
        return product << -shift;
    if (shift > 120)
        return 0;
    unsigned __int128 whole = product >> shift, half = (unsigned __int128)1 << (shift - 1);
    unsigned __int128 rest = product - (whole << shift);
    return whole + (rest > half || (rest == half && (whole & 1)));
}

char *attn_write_decimals(char *p, double value, int decimals) {
    if (fabs(value) >= 9007199254740992.0) /* from 2^53 on there are no digits after the point */
        return attn_write_f64(p, value);
    uint64_t ten = attn_tens[decimals];
    unsigned __int128 v = round_to_integer(value, ten);
    uint64_t whole = v <= UINT64_MAX ? (uint64_t)v / ten : (uint64_t)(v / ten);
    uint64_t fraction = (uint64_t)(v - (unsigned __int128)whole * ten);
    if (value < 0 && v != 0)
        *p++ = '-';
    p = write_u64(p, whole);
    if (fraction == 0)
        return p;
    for (; fraction % 10 == 0; fraction /= 10)
        ten /= 10;
    char *last = write_u64(p, fraction + ten); /* the leading 1 keeps the zeros after the point */
    *p = '.';
    return last;
}
