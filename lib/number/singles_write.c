/* Lists of float32, the bytes of most JSON answers: the shortest text of a number without a branch
 * that data could make unpredictable.
 *
 * A float32 is c units of attn_single_units[], t + g in powers 10^(k + 1): t < 2^24 an integer, g a
 * fraction. What reads back to it lies within half a unit. That is the nearest integer when g is
 * that near to 0 or 1, and shorter than all others; else the nearest multiple of a tenth, which
 * always is within (the search of Adams, "Ryu: fast float-to-string conversion", 2018; here with
 * one product, since its error is looked at: below 2^24 times the table's, which is 2^-64). Powers
 * of two, whose lower neighbour is nearer, subnormals, what lies within that error of a decision,
 * and what is written with an exponent go to attn_write_f32. */
#include <math.h>
#include <string.h>

#include "number/number.h"
#include "number/number_powers.h"
#include "number/singles_wide.h"

#define DOUBT (UINT64_C(1) << 25) /* twice the product's error */

/* The digits of c units in powers 10^k, 2^23 … 167,772,170 (zeros at the end are there); 0: too
 * near to a decision. Which way each of these goes is a toss of a coin, so masks take the place of
 * branches. */
static inline uint32_t find_digits(uint32_t c, uint64_t unit) {
    unsigned __int128 product = (unsigned __int128)unit * c;
    uint32_t t = (uint32_t)(uint64_t)(product >> 64);
    uint64_t g = (uint64_t)product;
    uint64_t upper = (uint64_t)((int64_t)g >> 63); /* nearer to t + 1 than to t */
    uint64_t apart = ((g ^ upper) - upper) - unit / 2;
    unsigned __int128 tenths = (unsigned __int128)g * 10;
    uint64_t ones = (uint64_t)(tenths >> 64) + ((uint64_t)tenths >> 63);
    if (apart + DOUBT < 2 * DOUBT ||
        (uint64_t)tenths - (UINT64_C(1) << 63) + 10 * DOUBT < 20 * DOUBT)
        return 0;
    uint64_t shorter = (uint64_t)((int64_t)apart >> 63);
    return t * 10 + (uint32_t)(ones ^ ((ones ^ (upper & 10)) & shorter));
}

/* v < 10^8 as eight bytes 0 … 9, the first digit in the lowest: split by 10^4, 10^2, 10 at once. */
static inline uint64_t eight_digits(uint32_t v) {
    uint64_t high = (uint64_t)v * 109951163 >> 40;
    uint64_t fours = ((uint64_t)v << 32) - high * ((UINT64_C(10000) << 32) - 1);
    uint64_t hundreds = (fours * 10486 >> 20) & 0x7F0000007Fu;
    uint64_t pairs = (fours << 16) - hundreds * ((100 << 16) - 1);
    uint64_t tens = (pairs * 103 >> 10) & 0x000F000F000F000Fu;
    return (pairs << 8) - tens * ((10 << 8) - 1);
}

#define ZEROS 0x3030303030303030u /* eight bytes '0' */

/* d.ddd or 0.000ddd; `point`: where the decimal point is, from the first of nine digits, -4 … 1. */
static inline char *place_low(char *p, uint32_t first, uint64_t others, int64_t point,
                              int64_t trailing) {
    static const uint8_t place_of_first[] = {6, 5, 4, 3, 2, 0};
    memcpy(p, "0.000000", 8);
    p[place_of_first[point + 4]] = (char)('0' + first);
    p += 3 - point;
    others += ZEROS;
    memcpy(p, &others, 8);
    return p + 8 - trailing;
}

/* dd.ddd: the point is behind 2 … 8 of nine digits, and one that is not zero follows it. */
static inline char *place_high(char *p, uint32_t first, uint64_t others, int64_t point,
                               int64_t trailing) {
    *p = (char)('0' + first);
    others += ZEROS;
    memcpy(p + 1, &others, 8);
    others >>= 8 * (point - 1);
    p[point] = '.';
    memcpy(p + point + 1, &others, 8);
    return p + 10 - trailing;
}

/* NULL: not in the forms above. Room for 24 bytes is used. */
static inline char *write_plain(char *p, uint32_t bits) {
    static const uint32_t widen[] = {1, 10, 100};
    uint32_t fraction = bits & 0x7FFFFF;
    const attn_single_unit *unit = &attn_single_units[bits >> 23 & 0xFF];
    if (fraction == 0)
        return NULL;
    uint32_t digits = find_digits(fraction | 0x800000, unit->size);
    uint32_t missing = ((digits - 10000000) >> 31) + ((digits - 100000000) >> 31);
    int64_t point = 9 + unit->k - missing;
    uint32_t nine = digits * widen[missing], first = nine / 100000000;
    uint64_t others = eight_digits(nine - first * 100000000);
    if (others == 0)
        return NULL;
    int64_t trailing = (uint32_t)__builtin_clzll(others) / 8;
    *p = '-';
    p += bits >> 31;
    if ((uint64_t)(point + 4) <= 5)
        return place_low(p, first, others, point, trailing);
    if (point > 1 && point < 9 - trailing)
        return place_high(p, first, others, point, trailing);
    return NULL;
}

char *attn_write_singles(char *p, const float *values, size_t n) {
    const size_t lanes = attn_singles_lanes();
    size_t i = lanes ? n - n % lanes : 0;
    if (i)
        p = attn_write_singles_wide(p, values, i, 0);
    for (; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        char *after = write_plain(p, bits);
        if (!after && isfinite(values[i]))
            after = attn_write_f32(p, values[i]);
        else if (!after)
            after = (char *)memcpy(p, "null", 4) + 4;
        *after = ',';
        p = after + 1;
    }
    return p;
}

char *attn_write_single_rows(char *p, const float *values, size_t rows, size_t width) {
    const size_t lanes = attn_singles_lanes();
    if (lanes && width % lanes == 0)
        return attn_write_singles_wide(p, values, rows * width, width);
    for (size_t i = 0; i < rows; i++)
        p = attn_write_row_end(attn_write_singles(p, values + i * width, width));
    return p;
}
