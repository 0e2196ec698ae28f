"""The tables of powers of ten that lib/number/number_powers.awk prints, compared with Python's integers.

Row q of the first table holds the 128 leading bits of 10^q (equally of 5^q), the highest bit set. Where these bits are
not exact they are truncated, except for -27 <= q < 0, where they are rounded up: there w * row is exact enough to
recognise a decimal fraction that is a tie (Lemire, "Number parsing at a gigabyte per second", Software: Practice and
Experience 51(8), 2021, section 6). Row e of the second table is the unit in the last place of a float32 with the
exponent field e, divided by the smallest power of ten above it.
"""
import re
import subprocess
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "lib/number/number_powers.awk"


def power(q):
    five = 5 ** abs(q)
    if q >= 0:
        return (five << 128) >> five.bit_length()
    value = (1 << 127 + five.bit_length()) // five
    return value + 1 if q >= -27 else value


def unit(e):
    """ceil(2^64 * 2^(e - 150) / 10^(k + 1)) and k = floor(log10(2^(e - 150)))."""
    over, under = 2 ** max(e - 150, 0), 2 ** max(150 - e, 0)
    k = next(k for k in range(-50, 50) if over * 10 ** max(-k, 0) >= under * 10 ** max(k, 0)
             and over * 10 ** max(-k - 1, 0) < under * 10 ** max(k + 1, 0))
    over, under = over * 10 ** max(-k - 1, 0), under * 10 ** max(k + 1, 0)
    return -(-(over << 64) // under), k


def test_tables_of_powers():
    text = subprocess.run(["awk", "-f", PROGRAM], check=True, capture_output=True, text=True).stdout
    powers, units = (re.findall(r"\{(\w+), (-?\w+)\}", table) for table in text.split("attn_single_units"))
    assert [int(high, 16) << 64 | int(low, 16) for high, low in powers] == [power(q) for q in range(-342, 325)]
    assert [(int(size, 16), int(k)) for size, k in units] == [unit(e) if 0 < e < 255 else (0, 0) for e in range(256)]
