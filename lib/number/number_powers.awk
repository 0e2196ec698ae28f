# Prints number_powers.c: the tables that number_powers.h describes, from exact arithmetic.
#   awk -f lib/number/number_powers.awk > build/gen/number_powers.c
#
# limb[0 … LIMBS - 1] hold an integer in base 2^16, the lowest limb first. 5^q and 10^q have the same leading bits. For
# q < 0 the integer is floor(2^(16 (LIMBS - 1)) / 5^-q), which dividing by 5 again and again gives exactly.

BEGIN {
    FIRST = -342; LAST = 324; LIMBS = 64
    start(0)
    for (q = 0; q <= LAST; q++) {
        store(q)
        multiply_by_5()
    }
    start(LIMBS - 1)
    for (q = -1; q >= FIRST; q--) {
        divide_by_5()
        store(q)
        if (q >= -27)
            round_up(q)
    }
    print "/* Powers of ten. Made by lib/number/number_powers.awk. */"
    print "#include \"number/number_powers.h\"\n"
    print "const attn_power attn_powers[ATTN_POWER_LAST - ATTN_POWER_FIRST + 1] = {"
    for (q = FIRST; q <= LAST; q++)
        printf "    {0x%s, 0x%s},\n", hexadecimal(q, 0), hexadecimal(q, 4)
    print "};\n\nconst attn_single_unit attn_single_units[256] = {"
    for (e = 0; e < 256; e++)
        print_unit(e)
    print "};"
}

# Sets the integer to 2^(16 n).
function start(n,  i) {
    for (i = 0; i < LIMBS; i++)
        limb[i] = i == n
}

function multiply_by_5(  i, carry) {
    carry = 0
    for (i = 0; i < LIMBS; i++) {
        carry += 5 * limb[i]
        limb[i] = carry % 65536
        carry = int(carry / 65536)
    }
}

function divide_by_5(  i, rest) {
    rest = 0
    for (i = LIMBS - 1; i >= 0; i--) {
        rest = 65536 * rest + limb[i]
        limb[i] = int(rest / 5)
        rest %= 5
    }
}

# Stores the 128 leading bits of the integer as row[q, 0 … 7], 16 bits each, the highest first.
function store(q,  top, unit, i) {
    for (top = LIMBS - 1; !limb[top];)
        top--
    for (unit = 1; unit <= limb[top];)
        unit *= 2
    for (i = 0; i < 8; i++)
        row[q, i] = (limb_at(top - i) * 65536 / unit + int(limb_at(top - i - 1) / unit)) % 65536
}

function limb_at(i) {
    return i < 0 ? 0 : limb[i]
}

function round_up(q,  i) {
    for (i = 7; row[q, i] == 65535; i--)
        row[q, i] = 0
    row[q, i]++
}

# Returns the 64 bits that begin with row[q, i].
function hexadecimal(q, i) {
    return sprintf("%04x%04x%04x%04x", row[q, i], row[q, i + 1], row[q, i + 2], row[q, i + 3])
}

# Returns floor(n / 2^bits).
function shift_right(n, bits,  quotient) {
    quotient = int(n / 2 ^ bits)
    return n < 0 && quotient * 2 ^ bits != n ? quotient - 1 : quotient
}

# 2^(e - 150) / 10^(k + 1) = row * 2^(-64 - drop), where row is the 64 leading bits of 10^-(k + 1).
function print_unit(e,  k, q, drop, unit, rest, i, part, text, carry) {
    if (e == 0 || e == 255) {
        print "    {0, 0},"
        return
    }
    k = shift_right((e - 150) * 1262611, 22)
    q = -k - 1
    drop = -1 - shift_right(q * 1741647, 19) - (e - 150)
    unit = 2 ^ drop
    carry = 0
    for (i = 4; i < 8; i++)
        carry = carry || row[q, i]
    carry = carry || row[q, 3] % unit
    for (i = 3; i >= 0; i--) {
        part = int(row[q, i] / unit) + (i ? row[q, i - 1] % unit * 65536 / unit : 0) + carry
        carry = part > 65535
        text = sprintf("%04x", part % 65536) text
    }
    printf "    {0x%s, %d},\n", text, k
}
