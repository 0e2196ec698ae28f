/* For readers and writers of numbers: eight decimal digits at a time, powers of ten, and
 * hexadecimal digits. */
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

/* attn_tens[n] is 10^n. */
static const uint64_t attn_tens[] = {
    (uint64_t)1e0,  (uint64_t)1e1,  (uint64_t)1e2,  (uint64_t)1e3,  (uint64_t)1e4,  (uint64_t)1e5,
    (uint64_t)1e6,  (uint64_t)1e7,  (uint64_t)1e8,  (uint64_t)1e9,  (uint64_t)1e10, (uint64_t)1e11,
    (uint64_t)1e12, (uint64_t)1e13, (uint64_t)1e14, (uint64_t)1e15, (uint64_t)1e16, (uint64_t)1e17};

/* Returns the value of a hexadecimal digit of either case; -1: c is no hexadecimal digit. */
static inline int attn_hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Writes the last n hexadecimal digits of v, in lower case, and returns the position after them. */
static inline char *attn_put_hex(char *p, uint64_t v, int n) {
    for (int i = n - 1; i >= 0; i--, v >>= 4)
        p[i] = "0123456789abcdef"[v & 15];
    return p + n;
}

#endif
