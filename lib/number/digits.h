/* Eight digits at a time, for the writers of numbers. */
#ifndef ATTN_DIGITS_H
#define ATTN_DIGITS_H

#include <stdint.h>

/* Converts v < 10^8 to eight bytes 0 … 9, with the first digit in the lowest byte. It divides v by
 * 10^4, then both halves at once by 10^2, then all four quarters at once by 10. */
static inline uint64_t attn_eight_digits(uint32_t v) {
    uint64_t high = (uint64_t)v * 109951163 >> 40;
    uint64_t fours = ((uint64_t)v << 32) - high * ((UINT64_C(10000) << 32) - 1);
    uint64_t hundreds = (fours * 10486 >> 20) & 0x7F0000007Fu;
    uint64_t pairs = (fours << 16) - hundreds * ((100 << 16) - 1);
    uint64_t tens = (pairs * 103 >> 10) & 0x000F000F000F000Fu;
    return (pairs << 8) - tens * ((10 << 8) - 1);
}

#define ATTN_ZEROS 0x3030303030303030u /* eight bytes '0' */

#endif
