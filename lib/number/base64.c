/* Strict Base64 (RFC 4648, section 4). Sections 3.2 to 3.5 allow a decoder to refuse missing
 * padding, other characters and stray bits. A tensor whose text has any of these is damaged. */
#include "number/base64.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Each character's value in 0 … 63, plus 1. Characters outside the alphabet have 0. */
#define RUN(first, value) [first] = (value) + 1
static const uint8_t values[256] = {
    RUN('A', 0),  RUN('B', 1),  RUN('C', 2),  RUN('D', 3),  RUN('E', 4),  RUN('F', 5),
    RUN('G', 6),  RUN('H', 7),  RUN('I', 8),  RUN('J', 9),  RUN('K', 10), RUN('L', 11),
    RUN('M', 12), RUN('N', 13), RUN('O', 14), RUN('P', 15), RUN('Q', 16), RUN('R', 17),
    RUN('S', 18), RUN('T', 19), RUN('U', 20), RUN('V', 21), RUN('W', 22), RUN('X', 23),
    RUN('Y', 24), RUN('Z', 25), RUN('a', 26), RUN('b', 27), RUN('c', 28), RUN('d', 29),
    RUN('e', 30), RUN('f', 31), RUN('g', 32), RUN('h', 33), RUN('i', 34), RUN('j', 35),
    RUN('k', 36), RUN('l', 37), RUN('m', 38), RUN('n', 39), RUN('o', 40), RUN('p', 41),
    RUN('q', 42), RUN('r', 43), RUN('s', 44), RUN('t', 45), RUN('u', 46), RUN('v', 47),
    RUN('w', 48), RUN('x', 49), RUN('y', 50), RUN('z', 51), RUN('0', 52), RUN('1', 53),
    RUN('2', 54), RUN('3', 55), RUN('4', 56), RUN('5', 57), RUN('6', 58), RUN('7', 59),
    RUN('8', 60), RUN('9', 61), RUN('+', 62), RUN('/', 63),
};

char *attn_base64_encode(char *p, const void *bytes, size_t n) {
    const uint8_t *b = bytes;
    for (; n >= 3; n -= 3, b += 3) {
        uint32_t t = (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
        *p++ = alphabet[t >> 18];
        *p++ = alphabet[t >> 12 & 63];
        *p++ = alphabet[t >> 6 & 63];
        *p++ = alphabet[t & 63];
    }
    if (n > 0) {
        uint32_t t = (uint32_t)b[0] << 16 | (n == 2 ? (uint32_t)b[1] << 8 : 0);
        *p++ = alphabet[t >> 18];
        *p++ = alphabet[t >> 12 & 63];
        *p++ = n == 2 ? alphabet[t >> 6 & 63] : '=';
        *p++ = '=';
    }
    return p;
}

static size_t padding_of(const char *text, size_t n) {
    if (n == 0 || text[n - 1] != '=')
        return 0;
    return text[n - 2] == '=' ? 2 : 1;
}

bool attn_base64_size(const char *text, size_t n, size_t *bytes) {
    if (n % 4 != 0)
        return false;
    *bytes = n / 4 * 3 - padding_of(text, n);
    return true;
}

static size_t first_foreign(const char *text, size_t n) {
    size_t i = 0;
    while (i < n && values[(uint8_t)text[i]])
        i++;
    return i;
}

size_t attn_base64_decode(void *out, const char *text, size_t n) {
    uint8_t *b = out;
    size_t padding = padding_of(text, n), i = 0;
    if (n % 4 != 0) {
        i = first_foreign(text, n);
        return i < n ? i : n - 1;
    }
    for (; i + 4 <= n - (padding > 0 ? 4 : 0); i += 4, b += 3) {
        uint32_t v0 = values[(uint8_t)text[i]], v1 = values[(uint8_t)text[i + 1]];
        uint32_t v2 = values[(uint8_t)text[i + 2]], v3 = values[(uint8_t)text[i + 3]];
        if (!v0 || !v1 || !v2 || !v3)
            return i + first_foreign(text + i, 4);
        uint32_t t = (v0 - 1) << 18 | (v1 - 1) << 12 | (v2 - 1) << 6 | (v3 - 1);
        b[0] = (uint8_t)(t >> 16);
        b[1] = (uint8_t)(t >> 8);
        b[2] = (uint8_t)t;
    }
    if (padding == 0)
        return n;
    size_t letters = 4 - padding, bad = first_foreign(text + i, letters);
    if (bad < letters)
        return i + bad;
    uint32_t t = 0;
    for (size_t k = 0; k < letters; k++)
        t |= (uint32_t)(values[(uint8_t)text[i + k]] - 1) << (18 - 6 * k);
    if (t & (padding == 2 ? 0xFFFF : 0xFF))
        return i + letters - 1;
    b[0] = (uint8_t)(t >> 16);
    if (padding == 1)
        b[1] = (uint8_t)(t >> 8);
    return n;
}
