/* Writes lists of float32 as text (attn_write_singles). Such lists make up most bytes of JSON
 * answers, so the loops avoid branches that the processor cannot predict.
 * - The value is c units of its last place, 2^23 < c < 2^24. attn_single_units has this unit in
 *   multiples of 10^(k + 1). The product of c and the unit is t + g, with an integer t and a
 *   fraction g.
 * - Any decimal within half a unit of the value reads back to the value. If g is within half a unit
 *   of 0 or 1, the nearest integer is such a decimal, and the shortest. Else the nearest multiple
 *   of 0.1 is such a decimal (the search of Adams, "Ryu: fast float-to-string conversion", 2018).
 * - The table is exact to 2^-64, so t + g errs by less than 2^24 * 2^-64. If the error could change
 *   one of these decisions, attn_write_f32 writes the number.
 * - attn_write_f32 also writes powers of two (their lower neighbour is nearer than the upper one),
 *   subnormals, numbers of one digit, integers, and numbers with an exponent.
 * x86/number_lists_write_body.h has loops for AVX2 and AVX-512 that write several numbers at a
 * time. */
#include <math.h>
#include <string.h>

#include "number/digits.h"
#include "number/number.h"
#include "number/number_lists.h"
#include "number/number_powers.h"

/* Twice the bound 2^24 of the error of t + g (see the head of this file), in units of 2^-64. */
#define DOUBT (UINT64_C(1) << 25)

/* Returns the digits of c * unit as an integer in multiples of 10^k, between 2^23 and 167,772,170.
 * The integer may end in zeros. Returns 0 if t + g is so near to a decision that its error could
 * change the decision. Masks replace branches, since the processor cannot predict the decisions. */
static inline uint32_t find_digits(uint32_t c, uint64_t unit) {
    unsigned __int128 product = (unsigned __int128)unit * c;
    uint32_t t = (uint32_t)(uint64_t)(product >> 64);
    uint64_t g = (uint64_t)product;
    uint64_t upper = (uint64_t)((int64_t)g >> 63); /* all ones if nearer to t + 1 than to t */
    uint64_t apart = ((g ^ upper) - upper) - unit / 2;
    unsigned __int128 tenths = (unsigned __int128)g * 10;
    uint64_t ones = (uint64_t)(tenths >> 64) + ((uint64_t)tenths >> 63);
    if (apart + DOUBT < 2 * DOUBT ||
        (uint64_t)tenths - (UINT64_C(1) << 63) + 10 * DOUBT < 20 * DOUBT)
        return 0;
    uint64_t shorter = (uint64_t)((int64_t)apart >> 63);
    return t * 10 + (uint32_t)(ones ^ ((ones ^ (upper & 10)) & shorter));
}

/* Writes nine digits without the `trailing` zeros at their end, as d.ddd or 0.000ddd. `first` is
 * the first digit, and `others` has the other eight, one in each byte. The value is 0.d * 10^point,
 * so point = 1 gives d.ddd, and point = -4 … 0 gives 0.ddd with -point zeros before the digits. */
static inline char *place_low(char *p, uint32_t first, uint64_t others, int64_t point,
                              int64_t trailing) {
    static const uint8_t place_of_first[] = {6, 5, 4, 3, 2, 0};
    memcpy(p, "0.000000", 8);
    p[place_of_first[point + 4]] = (char)('0' + first);
    p += 3 - point;
    others += ATTN_ZEROS;
    memcpy(p, &others, 8);
    return p + 8 - trailing;
}

/* Writes the same nine digits as dd.ddd, with the point after the first `point` = 2 … 8 digits. At
 * least one digit after the point must not be zero. */
static inline char *place_high(char *p, uint32_t first, uint64_t others, int64_t point,
                               int64_t trailing) {
    *p = (char)('0' + first);
    others += ATTN_ZEROS;
    memcpy(p + 1, &others, 8);
    others >>= 8 * (point - 1);
    p[point] = '.';
    memcpy(p + point + 1, &others, 8);
    return p + 10 - trailing;
}

/* Writes the float32 with these bits in a form of place_low or place_high. Returns NULL if
 * attn_write_f32 must write the value (see the head of this file). It may write up to 24 bytes at
 * p. */
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
    uint64_t others = attn_eight_digits(nine - first * 100000000);
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
