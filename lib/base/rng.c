/* Counter-based random numbers (the mixing function of SplitMix64). Number i of a seed depends only
 * on the seed and i. The functions have no state, so threads may compute the numbers in any
 * order. */
#include <math.h>

#include "attn/rng.h"

uint64_t attn_rng_bits(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

double attn_rng_uniform(uint64_t seed, uint64_t index) {
    return (double)(attn_rng_bits(seed, index) >> 11) * 0x1p-53;
}

double attn_rng_normal(uint64_t seed, uint64_t index) {
    const double two_pi = 6.283185307179586476925286766559;
    double radius = sqrt(-2.0 * log(1.0 - attn_rng_uniform(seed, 2 * index)));
    return radius * cos(two_pi * attn_rng_uniform(seed, 2 * index + 1));
}

void attn_rng_fill_normal(float *dst, size_t n, uint64_t seed, uint64_t first) {
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)attn_rng_normal(seed, first + i);
}
