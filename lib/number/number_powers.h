/* Tables for reading and writing numbers: the 128 leading bits of powers of ten, and the units in
 * the last place of float32. number_powers.awk makes them when the library is built. */
#ifndef ATTN_NUMBER_POWERS_H
#define ATTN_NUMBER_POWERS_H

#include <stdint.h>

/* The range of the exponents. Smaller ones are not needed: any 64-bit integer times 10^-343 is less
 * than half of the smallest double and rounds to 0. The largest one is needed to write the smallest
 * double, which 10^324 scales to an integer. */
#define ATTN_POWER_FIRST (-342)
#define ATTN_POWER_LAST  324

/* attn_powers[q - ATTN_POWER_FIRST] holds the 128 leading bits of 10^q, the highest bit set. They
 * are exact for q = 0 … 55, rounded up for q = -27 … -1, and truncated for all other q. */
typedef struct attn_power {
    uint64_t high, low;
} attn_power;

extern const attn_power attn_powers[ATTN_POWER_LAST - ATTN_POWER_FIRST + 1];

/* attn_single_units[e] describes the unit in the last place of a float32 with the exponent field e.
 * This unit is 2^(e - 150). With k = floor(log10(2^(e - 150))), the unit divided by 10^(k + 1) is
 * between 0.1 and 1. `size` is this quotient as a multiple of 2^-64, rounded up. `size` and `k` are
 * 0 for e = 0 (subnormals) and e = 255 (infinity, NaN). */
typedef struct attn_single_unit {
    _Alignas(16) uint64_t size;
    int64_t k;
} attn_single_unit;

extern const attn_single_unit attn_single_units[256];

/* Returns floor(q * log2(10)), exact for |q| <= 1233. (1741647 / 2^19 = 3.3219280… approximates
 * log2(10).) */
static inline int attn_power_log2(int q) {
    return (q * 1741647) >> 19;
}

#endif
