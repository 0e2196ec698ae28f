"""The counter-based random numbers of the service, in NumPy (lib/include/attn/rng.h).

Element i of seed s is a pure function of (s, i), so that {"shape": [2, 3], "random": "normal",
"seed": 7} can be reproduced anywhere:

    >>> from oracle import rng
    >>> rng.normal(7, 2 * 3).reshape(2, 3)

bits() is the output function of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
number generators", OOPSLA 2014); normal() is the transform of Box and Muller (1958).
"""
import numpy as np


def bits(seed, index):
    """64 random bits for each index (array of non-negative integers)."""
    with np.errstate(over="ignore"):  # all arithmetic is modulo 2^64
        i = np.asarray(index).astype(np.uint64)
        z = np.uint64(seed % 2**64) + (i + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(seed, n, first=0):
    """n doubles in [0, 1)."""
    return uniform_at(seed, np.arange(first, first + n))


def uniform_at(seed, index):
    return (bits(seed, index) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normal(seed, n, first=0):
    """n doubles from the standard normal distribution; the service rounds them to float32."""
    i = np.arange(first, first + n)
    radius = np.sqrt(-2.0 * np.log1p(-uniform_at(seed, 2 * i)))
    return radius * np.cos(2.0 * np.pi * uniform_at(seed, 2 * i + 1))
