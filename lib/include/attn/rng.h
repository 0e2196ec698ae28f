/* Random numbers by index. Number i of seed s is a function of s and i alone, so threads and other
 * languages can compute the same numbers in any order.
 *
 * bits(s, i) is the output function of SplitMix64 (Steele, Lea and Flood, "Fast splittable
 * pseudorandom number generators", OOPSLA 2014), modulo 2^64:
 *
 *   z = s + (i + 1) * 0x9E3779B97F4A7C15
 *   z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
 *   z = (z ^ (z >> 27)) * 0x94D049BB133111EB
 *   bits(s, i)    = z ^ (z >> 31)
 *   uniform(s, i) = (bits(s, i) >> 11) * 2^-53, in [0, 1)
 *   normal(s, i)  = sqrt(-2 ln(1 - uniform(s, 2i))) * cos(2 pi uniform(s, 2i + 1))
 *                   (Box and Muller, 1958) */
#ifndef ATTN_RNG_H
#define ATTN_RNG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The functions of the formulas above. Any thread may call them. */
uint64_t attn_rng_bits(uint64_t seed, uint64_t index);
double attn_rng_uniform(uint64_t seed, uint64_t index);
double attn_rng_normal(uint64_t seed, uint64_t index);

/* Fills dst [n]: element k is (float)normal(seed, first + k). Any thread may call it. */
void attn_rng_fill_normal(float *dst, size_t n, uint64_t seed, uint64_t first);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
