/* The 128 leading bits of powers of ten, for reading and writing numbers. */
#ifndef ATTN_NUMBER_POWERS_H
#define ATTN_NUMBER_POWERS_H

#include <stdint.h>

/* Any 64-bit integer times 10^-343 is less than half of the smallest double. 10^324 scales the
 * smallest double to an integer of 17 digits. */
#define ATTN_POWER_FIRST (-342)
#define ATTN_POWER_LAST  324

/* Rows 0 … 55 are exact, rows -27 … -1 are rounded up, and all others are truncated. */
typedef struct attn_power {
    uint64_t high, low;
} attn_power;

extern const attn_power attn_powers[ATTN_POWER_LAST - ATTN_POWER_FIRST + 1];

/* The size of the last place of a float32 with the exponent field e. This is 2^(e - 150) in units
 * of 10^(k + 1) with k = floor(log10(2^(e - 150))), so it is between 0.1 and 1. It is stored in
 * units of 2^-64, rounded up. Rows 0 and 255 (subnormals; infinity and NaN) are 0. */
typedef struct attn_single_unit {
    _Alignas(16) uint64_t size;
    int64_t k;
} attn_single_unit;

extern const attn_single_unit attn_single_units[256];

/* Returns floor(q * log2(10)), exact for |q| <= 1233: 1741647 / 2^19 = 3.3219280…. */
static inline int attn_power_log2(int q) {
    return (q * 1741647) >> 19;
}

#endif
