#!/usr/bin/env python3
"""Write lib/number/number_powers.c: tests/tools/powers.py > lib/number/number_powers.c

Row q holds the 128 leading bits of 10^q (equally of 5^q), the highest bit set. Where these bits are
not exact they are cut off, save for -27 <= q < 0, which are rounded up: there w * row is exact enough
to tell a decimal fraction that is a tie (Lemire, "Number parsing at a gigabyte per second", Software:
Practice and Experience 51(8), 2021, section 6).

A second table has a row for each binary exponent of float32: the last place of such a number, counted
in the smallest power of ten above it.
"""
FIRST, LAST = -342, 324


def row(q):
    five = 5 ** abs(q)
    if q >= 0:
        shift = 128 - five.bit_length()
        return five << shift if shift >= 0 else five >> -shift
    bits = 127 + five.bit_length()
    value = (1 << bits) // five
    return value + 1 if q >= -27 else value


def unit(e):
    """2^(e - 150) / 10^(k + 1) in 2^-64, rounded up, and k, which makes it 0.1 or more, below 1."""
    q = e - 150
    k = (q * 1262611) >> 22
    over, under = 2 ** max(q, 0) * 10 ** max(-k - 1, 0), 2 ** max(-q, 0) * 10 ** max(k + 1, 0)
    assert under <= 10 * over < 10 * under
    return -(-(over << 64) // under), k


def main():
    print(f"""/* Powers of ten from 10^{FIRST} to 10^{LAST}. Made by tests/tools/powers.py; do not edit. */
#include "number/number_powers.h"

// clang-format off
const attn_power attn_powers[ATTN_POWER_LAST - ATTN_POWER_FIRST + 1] = {{""")
    cells = []
    for q in range(FIRST, LAST + 1):
        value = row(q)
        assert value.bit_length() == 128
        cells.append(f"{{0x{value >> 64:016x}, 0x{value & (1 << 64) - 1:016x}}},")
    for i in range(0, len(cells), 2):
        print("    " + " ".join(cells[i:i + 2]))
    print("};\n\nconst attn_single_unit attn_single_units[256] = {")
    cells = ["{0x%016x, %d}," % (unit(e) if 0 < e < 255 else (0, 0)) for e in range(256)]
    for i in range(0, len(cells), 3):
        print("    " + " ".join(cells[i:i + 3]))
    print("};")


main()
