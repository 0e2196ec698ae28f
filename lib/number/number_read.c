/* Reads numbers from text, correctly rounded, directly in the wanted format. (A float that was read
 * as a double first would be rounded twice.)
 *
 * The digits of a number form an integer w, so that the number is w * 10^q.
 * - If a float32 has w <= 2^24 and q = -10 … 0, then w and 10^-q are exact floats, and one division
 *   rounds correctly.
 * - Else, with at most 19 digits, w is multiplied by the 64 leading bits of 10^q, and, if these do
 *   not decide the rounding, by the next 64 bits (Lemire, "Number parsing at a gigabyte per
 *   second", Software: Practice and Experience 51(8), 2021). No number needs more bits (Mushtak and
 *   Lemire, "Fast number parsing without fallback", ibid. 53(7), 2023).
 * - With more digits, w is made of the first 19. If w and w + 1 give the same result, that is the
 *   result. Else strtof or strtod reads the number as a text without a decimal point, so that the
 *   locale has no influence. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number/digits.h"
#include "number/number.h"
#include "number/number_powers.h"

typedef struct decimal {
    uint64_t w; /* the integer of all digits, modulo 2^64; exact for at most 19 digits */
    int64_t q;  /* the number is w * 10^q */
    bool negative;
    const char *first;   /* the first digit; the text may have a point after it */
    const char *last;    /* the position after the last digit, without the exponent */
    int64_t point_shift; /* number of digits after the point */
} decimal;

static inline bool is_digit(char c) {
    return (unsigned char)(c - '0') < 10;
}

/* Returns the digits at the beginning of the eight bytes at p, up to the first byte that is no
 * digit, as an integer. *n is their number. After the XOR with '0', a byte x is a digit if x < 10.
 * For any other byte, x + 0x76 or x itself has the top bit set. Only such bytes carry into the next
 * byte, so the first of them is found correctly. */
static inline uint64_t eight_digits(const char *p, int *n) {
    uint64_t t;
    memcpy(&t, p, 8);
    t ^= 0x3030303030303030u;
    uint64_t other = ((t + 0x7676767676767676u) | t) & 0x8080808080808080u;
    *n = other ? __builtin_ctzll(other) / 8 : 8;
    int half = 4 * (8 - *n);
    t = t << half << half; /* puts 8 - n zero digits before the n digits */
    /* joins digits to numbers of two digits, these to numbers of four, and these to numbers of
     * eight */
    t = t * 10 + (t >> 8);
    return ((t & 0x000000FF000000FFu) * 0x000F424000000064u +
            ((t >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u) >>
           32;
}

/* Appends the digits at p to *w, sixteen bytes at a time, and returns the position after them. The
 * processor cannot predict the number of digits, so the only branch that depends on this number
 * tests for more than sixteen digits. */
static inline const char *digits(const char *p, const char *end, uint64_t *w) {
    while (end - p >= 16) {
        int n, m;
        uint64_t high = eight_digits(p, &n), low = eight_digits(p + 8, &m);
        m = n == 8 ? m : 0;
        *w = (*w * attn_tens[n] + high) * attn_tens[m] + (m ? low : 0);
        p += n + m;
        if (n + m < 16)
            return p;
    }
    for (; p < end && is_digit(*p); p++)
        *w = *w * 10 + (uint64_t)(*p - '0');
    return p;
}

/* Reads the exponent that follows "e" and returns the position after it, or NULL if no digit
 * follows. Once the exponent has reached 10^12, further digits are skipped, since the number is
 * zero or infinite whatever they are. */
static const char *read_exponent(const char *p, const char *end, int64_t *out) {
    bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    if (p >= end || !is_digit(*p))
        return NULL;
    int64_t e = 0;
    for (; p < end && is_digit(*p); p++)
        if (e < 1000000000000)
            e = e * 10 + (*p - '0');
    *out = negative ? -e : e;
    return p;
}

static inline const char *read_decimal(const char *p, const char *end, decimal *d) {
    d->negative = p < end && *p == '-';
    p += d->negative;
    d->first = p;
    d->w = 0;
    if (p >= end || !is_digit(*p))
        return NULL;
    /* a fast path, since most numbers have one digit before the point */
    if (end - p > 1 && p[1] == '.') {
        d->w = (uint64_t)(*p++ - '0');
    } else {
        if (*p == '0')
            p++;
        else
            for (; p < end && is_digit(*p); p++)
                d->w = d->w * 10 + (uint64_t)(*p - '0');
        if (p < end && is_digit(*p))
            return NULL;
    }
    d->point_shift = 0;
    if (p < end && *p == '.') {
        const char *fraction = ++p;
        p = digits(p, end, &d->w);
        d->point_shift = p - fraction;
        if (p == fraction)
            return NULL;
    }
    d->last = p;
    d->q = -d->point_shift;
    if (p < end && (*p == 'e' || *p == 'E')) {
        int64_t e = 0;
        p = read_exponent(p + 1, end, &e);
        d->q += e;
    }
    return p;
}

/* A binary floating-point format. Only for q = even_low … even_high can w * 10^q be exactly
 * half-way between two of its numbers. */
typedef struct format {
    int fraction;       /* stored bits of the significand */
    int bias, infinite; /* exponent bias; exponent field of infinity */
    int even_low, even_high;
} format;

static const format single = {23, 127, 255, -17, 10};
static const format twice = {52, 1023, 2047, -4, 23};

/* Returns the bits, without the sign, of the number of format f that is nearest to w * 10^q64. */
static inline uint64_t nearest(uint64_t w, int64_t q64, const format f) {
    uint64_t infinity = (uint64_t)f.infinite << f.fraction;
    if (w == 0 || q64 < ATTN_POWER_FIRST)
        return 0;
    if (q64 > 308)
        return infinity;
    int q = (int)q64;
    const attn_power *ten = &attn_powers[q - ATTN_POWER_FIRST];
    int zeros = __builtin_clzll(w);
    w <<= zeros;
    unsigned __int128 product = (unsigned __int128)w * ten->high;
    uint64_t high = (uint64_t)(product >> 64), low = (uint64_t)product;
    uint64_t undecided = UINT64_MAX >> (f.fraction + 3);
    if ((high & undecided) == undecided) {
        uint64_t more = (uint64_t)(((unsigned __int128)w * ten->low) >> 64);
        low += more;
        high += low < more;
    }
    int upper = (int)(high >> 63);
    int cut = upper + 64 - f.fraction - 3; /* m keeps one more bit, for rounding */
    uint64_t m = high >> cut;
    int exponent = attn_power_log2(q) + 63 + upper - zeros + f.bias;
    if (exponent <= 0) { /* subnormal; no number of at most 19 digits is exactly half-way here */
        if (exponent <= -63)
            return 0;
        m >>= 1 - exponent;
        return (m + (m & 1)) >> 1;
    }
    if (low <= 1 && q >= f.even_low && q <= f.even_high && (m & 3) == 1 && m << cut == high)
        m &= ~(uint64_t)1; /* a half-way number rounds to even */
    m = (m + (m & 1)) >> 1;
    if (m >> (f.fraction + 1)) {
        m >>= 1;
        exponent++;
    }
    if (exponent >= f.infinite)
        return infinity;
    return (m & (((uint64_t)1 << f.fraction) - 1)) | (uint64_t)exponent << f.fraction;
}

enum { SIGNIFICANT = 800 }; /* a half-way double has at most 767 significant digits */

/* Writes the number as digits, 'e' and an exponent, without a point: the first SIGNIFICANT digits.
 * If any later digit is not zero, it appends one digit 1 in place of all of them, so that a number
 * just above a half-way one still rounds up. */
static void plain_text(const decimal *d, char text[SIGNIFICANT + 32]) {
    int64_t kept = 0, left_out = 0;
    bool rest = false;
    for (const char *p = d->first; p < d->last; p++) {
        if (*p == '.' || (kept == 0 && *p == '0'))
            continue;
        if (kept < SIGNIFICANT) {
            text[kept++] = *p;
        } else {
            left_out++;
            rest = rest || *p != '0';
        }
    }
    if (rest) {
        text[kept++] = '1';
        left_out--;
    }
    snprintf(text + kept, 32, "e%lld", (long long)(d->q + left_out));
}

static bool is_long(const decimal *d) {
    const char *p = d->first;
    while (p < d->last && (*p == '0' || *p == '.'))
        p++;
    ptrdiff_t significant = d->last - p;
    if (d->point_shift > 0 && d->last - p > d->point_shift)
        significant--; /* the point is not a digit */
    return significant > 19;
}

/* Returns the first 19 significant digits as an integer. *dropped is the number of digits after
 * them. */
static uint64_t leading_digits(const decimal *d, int64_t *dropped) {
    uint64_t w = 0;
    int kept = 0;
    *dropped = 0;
    for (const char *p = d->first; p < d->last; p++) {
        if (*p == '.')
            continue;
        if (kept == 19) {
            ++*dropped;
        } else {
            w = w * 10 + (uint64_t)(*p - '0');
            kept += w > 0;
        }
    }
    return w;
}

static __attribute__((noinline)) uint64_t nearest_long(const decimal *d, const format f) {
    int64_t dropped;
    uint64_t w = leading_digits(d, &dropped);
    uint64_t below = nearest(w, d->q + dropped, f), above = nearest(w + 1, d->q + dropped, f);
    if (below == above)
        return below;
    char text[SIGNIFICANT + 32];
    plain_text(d, text);
    uint64_t bits = 0;
    if (f.fraction == 23) {
        float value = strtof(text, NULL);
        memcpy(&bits, &value, sizeof value);
    } else {
        double value = strtod(text, NULL);
        memcpy(&bits, &value, sizeof value);
    }
    return bits;
}

const char *attn_read_f32(const char *p, const char *end, float *out) {
    static const float exact[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f,
                                  1e6f, 1e7f, 1e8f, 1e9f, 1e10f};
    decimal d;
    p = read_decimal(p, end, &d);
    if (!p)
        return NULL;
    if (d.last - d.first <= 19 && d.w <= 1 << 24 && d.q <= 0 && d.q >= -10) {
        float value = (float)d.w / exact[-d.q];
        *out = d.negative ? -value : value;
        return p;
    }
    uint32_t bits;
    if (d.last - d.first > 19 && is_long(&d))
        bits = (uint32_t)nearest_long(&d, single);
    else
        bits = (uint32_t)nearest(d.w, d.q, single);
    bits |= (uint32_t)d.negative << 31;
    memcpy(out, &bits, sizeof bits);
    return p;
}

const char *attn_read_f64(const char *p, const char *end, double *out) {
    decimal d;
    p = read_decimal(p, end, &d);
    if (!p)
        return NULL;
    bool beyond = d.last - d.first > 19 && is_long(&d);
    uint64_t bits = beyond ? nearest_long(&d, twice) : nearest(d.w, d.q, twice);
    bits |= (uint64_t)d.negative << 63;
    memcpy(out, &bits, sizeof bits);
    return p;
}

/* Computes the number, without its sign, as an integer. Returns false if it is not an integer or
 * has more than 64 bits. Zeros at the end of the digits only change the exponent, so that "1.50e1"
 * is the integer 15. */
static bool exact_integer(const decimal *d, uint64_t *out) {
    uint64_t w = 0;
    int64_t q = d->q, zeros = 0;
    for (const char *p = d->first; p < d->last; p++) {
        if (*p == '.')
            continue;
        if (*p == '0') {
            zeros += w > 0;
            continue;
        }
        for (; zeros >= 0; zeros--)
            if (__builtin_mul_overflow(w, 10, &w))
                return false;
        zeros = 0;
        if (__builtin_add_overflow(w, (uint64_t)(*p - '0'), &w))
            return false;
    }
    q += zeros;
    if (w != 0 && q < 0)
        return false;
    for (; w != 0 && q > 0; q--)
        if (__builtin_mul_overflow(w, 10, &w))
            return false;
    *out = w;
    return true;
}

const char *attn_read_i64(const char *p, const char *end, int64_t *out) {
    decimal d;
    uint64_t w;
    p = read_decimal(p, end, &d);
    if (!p)
        return NULL;
    if (d.q == 0 && d.last - d.first <= 19)
        w = d.w;
    else if (!exact_integer(&d, &w))
        return NULL;
    if (w > (uint64_t)INT64_MAX + d.negative)
        return NULL;
    *out = d.negative ? (int64_t)(0 - w) : (int64_t)w;
    return p;
}
