/* Writes strings, counters, milliseconds and the inside of JSON strings, without printf.
 *
 * In JSON strings a character with a two-byte escape in JSON, such as \n, is written as this
 * escape. Other control characters become \u00XX, and bytes that are not UTF-8 (RFC 3629) become
 * U+FFFD. */
#include <stdint.h>
#include <string.h>

#include "number/digits.h"
#include "number/print_small.h"

char *attn_put(char *p, const char *text) {
    size_t n = strlen(text);
    memcpy(p, text, n);
    return p + n;
}

char *attn_put_number(char *p, uint64_t value) {
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n)
        *p++ = digits[--n];
    return p;
}

char *attn_put_ms(char *p, int64_t ns) {
    uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0;
    p = attn_put_number(p, us / 1000);
    *p++ = '.';
    *p++ = (char)('0' + us / 100 % 10);
    *p++ = (char)('0' + us / 10 % 10);
    *p++ = (char)('0' + us % 10);
    return p;
}

/* The first byte determines the length. The ranges of the second byte exclude overlong forms,
 * surrogates and code points beyond U+10FFFF. */
size_t attn_utf8_length(const char *text, size_t n) {
    const uint8_t *s = (const uint8_t *)text;
    if (n == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || n < length)
        return 0;
    uint8_t low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    uint8_t high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

bool attn_is_utf8(const char *text) {
    const char *end = text + strlen(text);
    for (size_t n; text < end; text += n)
        if (!(n = attn_utf8_length(text, (size_t)(end - text))))
            return false;
    return true;
}

static char *escape_control(char *p, char c) {
    static const char from[] = "\b\t\n\f\r", to[] = "btnfr";
    const char *known = c ? strchr(from, c) : NULL;
    *p++ = '\\';
    if (known) {
        *p++ = to[known - from];
        return p;
    }
    memcpy(p, "u00", 3);
    return attn_put_hex(p + 3, (uint8_t)c, 2);
}

char *attn_escape(char *p, const char *text, size_t n) {
    for (size_t i = 0; i < n;) {
        char c = text[i];
        if (c == '"' || c == '\\') {
            *p++ = '\\';
            *p++ = c;
            i++;
        } else if ((uint8_t)c < 0x20) {
            p = escape_control(p, c);
            i++;
        } else if ((uint8_t)c < 0x80) {
            *p++ = c;
            i++;
        } else {
            size_t length = attn_utf8_length(text + i, n - i);
            memcpy(p, length ? text + i : "\xEF\xBF\xBD", length ? length : 3);
            p += length ? length : 3;
            i += length ? length : 1;
        }
    }
    return p;
}
