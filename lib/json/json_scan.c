/* Scans strings, words and brackets of a JSON text. No byte behind the end of the text is read. */
#include "json/json_scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "number/digits.h"
#include "number/number.h"
#include "number/print_small.h"

size_t attn_path_key(attn_path *path, const char *key, size_t n) {
    size_t mark = path->size, at = mark;
    if (at + 1 + 2 * n < ATTN_PATH_ROOM) {
        path->text[at++] = '/';
        for (size_t i = 0; i < n; i++) {
            bool special = key[i] == '~' || key[i] == '/';
            path->text[at++] = special ? '~' : key[i];
            if (special)
                path->text[at++] = key[i] == '~' ? '0' : '1';
        }
    }
    path->size = at;
    path->text[at] = 0;
    return mark;
}

size_t attn_path_index(attn_path *path, size_t index) {
    char text[24];
    return attn_path_key(path, text, (size_t)(attn_put_number(text, index) - text));
}

void attn_path_back(attn_path *path, size_t mark) {
    path->size = mark;
    path->text[mark] = 0;
}

/* --- errors --- */

bool attn_scan_fail(attn_scan *s, attn_status code, const char *at, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->status = code;
    if (s->fault)
        s->fault(s, code, at, text);
    else
        attn_fail(s->err, code, "", "%s at byte %zu: %s", s->of, (size_t)(at - s->start), text);
    return false;
}

bool attn_scan_memory(attn_scan *s) {
    return attn_scan_fail(s, ATTN_ENOMEM, s->p, "no memory is left");
}

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Returns the length of the word at `at`. A word is anything up to white space, a bracket, a comma,
 * a colon or a quote. */
static size_t word_length(const attn_scan *s, const char *at) {
    const char *p = at;
    while (p < s->end && *p && !is_space(*p) && !strchr(",]}:[{\"", *p))
        p++;
    return (size_t)(p - at);
}

static bool is_word(const attn_scan *s, const char *at, const char *word) {
    const size_t n = strlen(word);
    return (size_t)(s->end - at) >= n && memcmp(at, word, n) == 0 && word_length(s, at) == n;
}

/* Returns whether a spelling of NaN or infinity is at the cursor. JSON writers use several. */
static bool is_nonfinite(const attn_scan *s) {
    static const char *const words[] = {"NaN",      "nan", "NAN", "Infinity",
                                        "infinity", "Inf", "inf", "INF"};
    const char c = attn_scan_peek(s), *at = s->p + (c == '-' || c == '+');
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_word(s, at, words[i]))
            return true;
    return false;
}

bool attn_scan_is_number(const attn_scan *s) {
    const char *at = s->p + (attn_scan_peek(s) == '-');
    return at < s->end && is_digit(*at);
}

bool attn_scan_is_value(const attn_scan *s) {
    const char c = attn_scan_peek(s);
    return c == '"' || c == '[' || c == '{' || attn_scan_is_number(s) || is_word(s, s->p, "null") ||
           is_word(s, s->p, "true") || is_word(s, s->p, "false");
}

const char *attn_scan_found(const attn_scan *s, char text[ATTN_FOUND_ROOM]) {
    const char c = attn_scan_peek(s);
    const size_t n = word_length(s, s->p);
    const int shown = (int)(n < 32 ? n : 32);
    if (s->p >= s->end)
        return s->of ? "its end" : "the end of the body";
    if (c == '"')
        return "a string";
    if (c == '[')
        return "a list";
    if (c == '{')
        return "an object";
    if (is_digit(c) || (c == '-' && !is_nonfinite(s)))
        snprintf(text, ATTN_FOUND_ROOM, "the number %.*s", shown, s->p);
    else if (n > 1)
        snprintf(text, ATTN_FOUND_ROOM, "%.*s", shown, s->p);
    else if (c > ' ' && c < 127)
        snprintf(text, ATTN_FOUND_ROOM, "'%c'", c);
    else
        snprintf(text, ATTN_FOUND_ROOM, "the byte 0x%02x", (unsigned char)c);
    return text;
}

bool attn_scan_expected(attn_scan *s, const char *expected) {
    char text[ATTN_FOUND_ROOM];
    const char *found = attn_scan_found(s, text);
    if (s->nonfinite && is_nonfinite(s))
        return attn_scan_fail(s, ATTN_EARG, s->p, "%s is not JSON%s", found, s->nonfinite);
    return attn_scan_fail(s, ATTN_EARG, s->p, "expected %s, found %s", expected, found);
}

/* --- words and brackets --- */

bool attn_scan_word(attn_scan *s, const char *word) {
    if (!is_word(s, s->p, word))
        return false;
    s->p += strlen(word);
    return true;
}

bool attn_scan_take(attn_scan *s, char mark) {
    attn_scan_space(s);
    if (attn_scan_peek(s) != mark)
        return false;
    s->p++;
    return true;
}

bool attn_scan_mark(attn_scan *s, char mark, const char *expected) {
    if (!attn_scan_take(s, mark))
        return attn_scan_expected(s, expected);
    attn_scan_space(s);
    return true;
}

bool attn_scan_open(attn_scan *s, char close, bool *more) {
    if (s->max_depth && s->depth == s->max_depth)
        return attn_scan_fail(s, ATTN_EARG, s->p, "lists and objects are more than %zu deep",
                              s->max_depth);
    s->p++;
    *more = !attn_scan_take(s, close);
    s->depth += *more;
    return true;
}

bool attn_scan_more(attn_scan *s, char close, bool *more) {
    *more = attn_scan_take(s, ',');
    if (!*more && !attn_scan_take(s, close))
        return attn_scan_expected(s, close == '}' ? "',' or '}'" : "',' or ']'");
    attn_scan_space(s);
    s->depth -= !*more;
    return true;
}

/* --- strings --- */

/* Returns the value of the four hexadecimal digits at p, or -1. */
static int hex4(const char *p) {
    int v = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = attn_hex_digit(p[i]);
        if (digit < 0)
            return -1;
        v = v * 16 + digit;
    }
    return v;
}

static bool is_high(int unit) {
    return unit >= 0xD800 && unit < 0xDC00;
}

static bool is_low(int unit) {
    return unit >= 0xDC00 && unit < 0xE000;
}

/* Returns the length of the escape whose backslash is at p, `left` bytes before the end of the
 * text. 0: the escape is malformed, or means U+0000 or half of a surrogate pair. */
static size_t escape_length(const char *p, size_t left) {
    if (left < 2 || p[1] != 'u')
        return left >= 2 && p[1] && strchr("\"\\/bfnrt", p[1]) ? 2 : 0;
    const int unit = left < 6 ? -1 : hex4(p + 2);
    if (unit <= 0 || is_low(unit))
        return 0;
    if (!is_high(unit))
        return 6;
    return left >= 12 && p[6] == '\\' && p[7] == 'u' && is_low(hex4(p + 8)) ? 12 : 0;
}

bool attn_scan_string(attn_scan *s, const char **from, const char **to, bool *escaped) {
    const char *p = s->p + 1;
    *from = p;
    *escaped = false;
    for (size_t n; p < s->end && *p != '"'; p += n) {
        const unsigned char c = (unsigned char)*p;
        n = c < 0x80 ? 1 : attn_utf8_length(p, (size_t)(s->end - p));
        if (c < 0x20)
            return attn_scan_fail(s, ATTN_EARG, p,
                                  "expected \\u%04x, found the control character 0x%02x", c, c);
        if (n == 0)
            return attn_scan_fail(s, ATTN_EARG, p, "expected UTF-8, found the byte 0x%02x", c);
        if (c != '\\')
            continue;
        *escaped = true;
        n = escape_length(p, (size_t)(s->end - p));
        if (n == 0)
            return attn_scan_fail(s, ATTN_EARG, p,
                                  "this escape stands for no character (\\u0000 and lone "
                                  "surrogates are refused)");
    }
    if (p >= s->end)
        return attn_scan_fail(s, ATTN_EARG, s->p, "this string is not closed");
    *to = p;
    s->p = p + 1;
    return true;
}

bool attn_scan_text(attn_scan *s, const char **out) {
    const char *from, *to;
    bool escaped;
    attn_scan_space(s);
    if (attn_scan_peek(s) != '"')
        return attn_scan_expected(s, "a string in double quotes");
    if (!attn_scan_string(s, &from, &to, &escaped))
        return false;
    char *text = attn_arena_text(s->arena, from, (size_t)(to - from));
    if (!text)
        return attn_scan_memory(s);
    if (escaped)
        text[attn_unescape(text, from, to)] = 0;
    *out = text;
    return true;
}

char *attn_put_utf8(char *out, uint32_t c) {
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xC0 | c >> 6);
        *out++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *out++ = (char)(0xE0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    } else {
        *out++ = (char)(0xF0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 63));
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    }
    return out;
}

size_t attn_unescape(char *out, const char *from, const char *to) {
    static const char names[] = "bfnrt", meant[] = "\b\f\n\r\t";
    char *start = out;
    for (const char *p = from; p < to;) {
        if (*p != '\\') {
            *out++ = *p++;
            continue;
        }
        if (p[1] != 'u') {
            const char *name = strchr(names, p[1]);
            *out++ = name ? meant[name - names] : p[1];
            p += 2;
            continue;
        }
        uint32_t c = (uint32_t)hex4(p + 2);
        p += 6;
        if (is_high((int)c)) {
            c = 0x10000 + ((c - 0xD800) << 10) + ((uint32_t)hex4(p + 2) - 0xDC00);
            p += 6;
        }
        out = attn_put_utf8(out, c);
    }
    return (size_t)(out - start);
}

bool attn_scan_name(attn_scan *s, attn_name *name) {
    const char *from, *to;
    bool escaped;
    if (!attn_scan_string(s, &from, &to, &escaped))
        return false;
    size_t most = sizeof name->text - 1;
    if ((size_t)(to - from) > most) { /* cuts between characters, for texts of errors */
        to = from + most;
        while (to > from && (((unsigned char)*to & 0xC0) == 0x80))
            to--;
        escaped = false;
    }
    if (escaped) {
        name->size = attn_unescape(name->text, from, to);
    } else {
        name->size = (size_t)(to - from);
        memcpy(name->text, from, name->size);
    }
    name->text[name->size] = 0;
    return true;
}

bool attn_name_is(const attn_name *name, const char *text) {
    return strlen(text) == name->size && memcmp(name->text, text, name->size) == 0;
}

const char *attn_skip_string(const char *p, const char *end) {
    for (p++; p < end && *p != '"'; p++)
        p += *p == '\\';
    return p < end ? p + 1 : end;
}

/* --- numbers and the end --- */

bool attn_scan_count(attn_scan *s, size_t *out) {
    int64_t value;
    attn_scan_space(s);
    const char *end = s->p;
    while (end < s->end && is_digit(*end))
        end++;
    if (end == s->p || attn_read_i64(s->p, end, &value) != end)
        return attn_scan_expected(s, "an integer of 0 or more, below 2^63");
    *out = (size_t)value;
    s->p = end;
    return true;
}

bool attn_scan_end(attn_scan *s) {
    char expected[ATTN_FOUND_ROOM];
    snprintf(expected, sizeof expected, "the end of %s", s->of ? s->of : "the body");
    attn_scan_space(s);
    return s->p == s->end || attn_scan_expected(s, expected);
}
