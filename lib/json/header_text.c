/* Reads and writes the strings and integers of container headers (header_text.h). */
#include "json/header_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

attn_status attn_io_expected(attn_io_cursor *c, const char *what) {
    return attn_fail(c->err, ATTN_EARG, "", "the header at byte %zu: expected %s",
                     (size_t)(c->p - c->start), what);
}

void attn_io_space(attn_io_cursor *c) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\r' || *c->p == '\t'))
        c->p++;
}

bool attn_io_take(attn_io_cursor *c, char mark) {
    attn_io_space(c);
    if (c->p == c->end || *c->p != mark)
        return false;
    c->p++;
    return true;
}

attn_status attn_io_need(attn_io_cursor *c, char mark, const char *what) {
    return attn_io_take(c, mark) ? ATTN_OK : attn_io_expected(c, what);
}

attn_status attn_io_count(attn_io_cursor *c, size_t *out) {
    size_t value = 0;
    attn_io_space(c);
    const char *first = c->p;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
        if (!attn_size_mul(value, 10, &value) ||
            !attn_size_add(value, (size_t)(*c->p - '0'), &value) || value > SIZE_MAX / 2)
            return attn_io_expected(c, "an integer below 2^63");
    if (c->p == first || (*first == '0' && c->p > first + 1))
        return attn_io_expected(c, "an integer of 0 or more");
    *out = value;
    return ATTN_OK;
}

/* Returns the length in bytes of the well-formed UTF-8 sequence at p (RFC 3629). 0: there is none,
 * or it is longer than `left` bytes. */
static size_t utf8_length(const unsigned char *p, size_t left) {
    static const struct {
        unsigned char from, to, second_from, second_to;
        size_t length;
    } rows[] = {
        {0x20, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (*p < rows[i].from || *p > rows[i].to)
            continue;
        size_t n = rows[i].length;
        if (n > left || (n > 1 && (p[1] < rows[i].second_from || p[1] > rows[i].second_to)))
            return 0;
        for (size_t k = 2; k < n; k++)
            if (p[k] < 0x80 || p[k] > 0xBF)
                return 0;
        return n;
    }
    return 0;
}

/* Reads four hexadecimal digits at p. Returns false if the next four bytes are not such digits. */
static bool hex4(const char *p, const char *end, unsigned *out) {
    unsigned value = 0;
    if (end - p < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        unsigned c = (unsigned char)p[i], low = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + (low - 'a' + 10);
        else
            return false;
    }
    *out = value;
    return true;
}

static char *put_utf8(char *out, unsigned c) {
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    if (c < 0x800) {
        *out++ = (char)(0xC0 | c >> 6);
    } else if (c < 0x10000) {
        *out++ = (char)(0xE0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 63));
    } else {
        *out++ = (char)(0xF0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 63));
        *out++ = (char)(0x80 | (c >> 6 & 63));
    }
    *out++ = (char)(0x80 | (c & 63));
    return out;
}

/* Decodes one escape of a JSON string. *from points behind the backslash and is advanced behind the
 * escape. The decoded bytes are written to `out`. Returns the end of the written bytes, or NULL if
 * the escape is invalid (a lone surrogate and U+0000 are too). */
static char *unescape(const char **from, const char *end, char *out) {
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *p = *from, *name;
    unsigned c, low;
    if (p < end && *p != 'u') {
        if (!*p || !(name = strchr(names, *p)))
            return NULL;
        *out++ = meant[name - names];
        *from = p + 1;
        return out;
    }
    if (p == end || !hex4(p + 1, end, &c) || c == 0 || (c >= 0xDC00 && c < 0xE000))
        return NULL;
    p += 5;
    if (c >= 0xD800 && c < 0xDC00) {
        if (end - p < 6 || p[0] != '\\' || p[1] != 'u' || !hex4(p + 2, end, &low) || low < 0xDC00 ||
            low >= 0xE000)
            return NULL;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        p += 6;
    }
    *from = p;
    return put_utf8(out, c);
}

/* Returns the closing quote of the string that begins at p, or NULL if there is none before
 * `end`. */
static const char *find_close(const char *p, const char *end) {
    for (; p < end && *p != '"'; p++)
        if (*p == '\\' && ++p == end)
            return NULL;
    return p < end ? p : NULL;
}

attn_status attn_io_string(attn_io_cursor *c, const char **out) {
    if (!attn_io_take(c, '"'))
        return attn_io_expected(c, "a string in double quotes");
    const char *close = find_close(c->p, c->end);
    if (!close)
        return attn_io_expected(c, "the end of this string");
    char *text = attn_arena_small(c->arena, (size_t)(close - c->p) + 1), *to = text;
    if (!text)
        return attn_fail(c->err, ATTN_ENOMEM, "", "no memory for the header's strings is left");
    while (c->p < close) {
        size_t n = utf8_length((const unsigned char *)c->p, (size_t)(close - c->p));
        if (n == 0)
            return attn_io_expected(c, "UTF-8 without control characters");
        if (*c->p == '\\') {
            const char *from = c->p + 1;
            to = unescape(&from, close, to);
            if (!to)
                return attn_io_expected(c, "an escape that stands for a character");
            c->p = from;
            continue;
        }
        memcpy(to, c->p, n);
        to += n;
        c->p += n;
    }
    *to = 0;
    c->p = close + 1;
    *out = text;
    return ATTN_OK;
}

bool attn_io_is_utf8(const char *text) {
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);
    size_t n = 1;
    for (; p < end && n; p += n)
        n = *p < 0x20 ? 1 : utf8_length(p, (size_t)(end - p));
    return n;
}

size_t attn_io_quoted_most(const char *text) {
    return 6 * strlen(text) + 2;
}

char *attn_io_quote(char *p, const char *text) {
    *p++ = '"';
    for (const unsigned char *t = (const unsigned char *)text; *t; t++) {
        if (*t < 0x20) {
            p += sprintf(p, "\\u%04x", *t);
            continue;
        }
        if (*t == '"' || *t == '\\')
            *p++ = '\\';
        *p++ = (char)*t;
    }
    *p++ = '"';
    return p;
}
