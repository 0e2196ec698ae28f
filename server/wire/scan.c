/* Scans strings, words and brackets of a JSON text, and words the problems. A NUL byte follows the
 * text, and the text itself has none (srv_decode_document checks that first). Therefore *p can
 * always be read, and every loop stops at the NUL. */
#include "wire/scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "number/number.h"
#include "number/print_small.h"

size_t srv_path_key(srv_path *path, const char *key, size_t n) {
    size_t mark = path->size, at = mark;
    if (at + 1 + 2 * n < SRV_PATH_ROOM) {
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

size_t srv_path_index(srv_path *path, size_t index) {
    char text[24];
    return srv_path_key(path, text, (size_t)(attn_put_number(text, index) - text));
}

void srv_path_back(srv_path *path, size_t mark) {
    path->size = mark;
    path->text[mark] = 0;
}

/* Finds the line and the column of the byte at `at`. Both start at 1; columns count characters. */
static void place_of(const srv_scan *s, const char *at, size_t *line, size_t *column) {
    *line = *column = 1;
    for (const char *p = s->start; p < at; p++) {
        if (*p == '\n') {
            ++*line;
            *column = 1;
        } else {
            *column += ((unsigned char)*p & 0xC0) != 0x80;
        }
    }
}

bool srv_scan_malformed(srv_scan *s, const char *at, const char *format, ...) {
    char text[512];
    size_t line, column;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    place_of(s, at, &line, &column);
    if (s->of)
        srv_problem(s->req, SRV_VALUE, s->path.text, "Line %zu, column %zu of %s: %s", line, column,
                    s->of, text);
    else
        srv_problem(s->req, SRV_MALFORMED, s->path.text, "Line %zu, column %zu: %s", line, column,
                    text);
    return false;
}

bool srv_scan_memory(srv_scan *s) {
    srv_problem_limit(s->req, SRV_TOO_LARGE, s->path.text, (double)attn_arena_limit(s->req->arena),
                      "max_request_bytes",
                      "The memory of one request does not suffice for its tensors");
    return false;
}

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Returns the length of the word at `at`. A word is anything up to white space, a bracket, a comma,
 * a colon or a quote. */
static size_t word_length(const char *at) {
    size_t n = 0;
    while (at[n] && !is_space(at[n]) && !strchr(",]}:[{\"", at[n]))
        n++;
    return n;
}

/* Returns whether the word is a spelling of NaN or infinity. JSON writers use several spellings. */
static bool is_nonfinite_word(const char *at) {
    static const char *const words[] = {"NaN",      "nan", "NAN", "Infinity",
                                        "infinity", "Inf", "inf", "INF"};
    at += *at == '-' || *at == '+';
    size_t n = word_length(at);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (n == strlen(words[i]) && memcmp(at, words[i], n) == 0)
            return true;
    return false;
}

static bool is_word(const char *at, const char *word) {
    size_t n = strlen(word);
    return strncmp(at, word, n) == 0 && word_length(at) == n;
}

bool srv_scan_is_value(const char *at) {
    return strchr("\"[{", *at)
               ? *at != 0
               : (*at >= '0' && *at <= '9') || (*at == '-' && at[1] >= '0' && at[1] <= '9') ||
                     is_word(at, "null") || is_word(at, "true") || is_word(at, "false");
}

const char *srv_scan_found(const srv_scan *s, const char *at, char text[SRV_FOUND_ROOM]) {
    size_t n = word_length(at);
    int shown = (int)(n < 32 ? n : 32);
    if (at >= s->end)
        return s->of ? "its end" : "the end of the body";
    if (*at == '"')
        return "a string";
    if (*at == '[')
        return "a list";
    if (*at == '{')
        return "an object";
    if ((*at >= '0' && *at <= '9') || (*at == '-' && !is_nonfinite_word(at)))
        snprintf(text, SRV_FOUND_ROOM, "the number %.*s", shown, at);
    else if (n > 1)
        snprintf(text, SRV_FOUND_ROOM, "%.*s", shown, at);
    else if (*at > ' ' && *at < 127)
        snprintf(text, SRV_FOUND_ROOM, "'%c'", *at);
    else
        snprintf(text, SRV_FOUND_ROOM, "the byte 0x%02x", (unsigned char)*at);
    return text;
}

bool srv_scan_expected(srv_scan *s, const char *expected) {
    char found[SRV_FOUND_ROOM];
    if (is_nonfinite_word(s->p))
        return srv_scan_malformed(
            s, s->p,
            s->req->only_400
                ? "%s is not JSON, and " SRV_SCAN_INFER_INFINITY
                : "%s is not JSON: write null where a mask or bias is -infinity, or send the "
                  "tensor as \"base64\"",
            srv_scan_found(s, s->p, found));
    return srv_scan_malformed(s, s->p, "expected %s, found %s", expected,
                              srv_scan_found(s, s->p, found));
}

bool srv_scan_word(srv_scan *s, const char *word) {
    if (!is_word(s->p, word))
        return false;
    s->p += strlen(word);
    return true;
}

bool srv_scan_mark(srv_scan *s, char mark, const char *expected) {
    srv_scan_space(s);
    if (*s->p != mark)
        return srv_scan_expected(s, expected);
    s->p++;
    srv_scan_space(s);
    return true;
}

void srv_scan_open(srv_scan *s, char close, bool *more) {
    srv_scan_space(s);
    *more = *s->p != close;
    s->p += !*more;
}

bool srv_scan_more(srv_scan *s, char close, bool *more) {
    srv_scan_space(s);
    *more = *s->p == ',';
    if (!*more && *s->p != close)
        return srv_scan_expected(s, close == '}' ? "',' or '}'" : "',' or ']'");
    s->p++;
    srv_scan_space(s);
    return true;
}

/* Returns the value of the four hexadecimal digits at p, or -1. */
static int hex4(const char *p) {
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
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

/* Returns the length of the escape whose backslash is at p. 0: the escape is malformed, or means
 * U+0000 or half of a surrogate pair. */
static size_t escape_length(const char *p) {
    if (p[1] != 'u')
        return p[1] && strchr("\"\\/bfnrt", p[1]) ? 2 : 0;
    int unit = hex4(p + 2);
    if (unit <= 0 || is_low(unit))
        return 0;
    if (!is_high(unit))
        return 6;
    return p[6] == '\\' && p[7] == 'u' && is_low(hex4(p + 8)) ? 12 : 0;
}

bool srv_scan_string(srv_scan *s, const char **from, const char **to, bool *escaped) {
    const char *p = s->p + 1;
    *from = p;
    *escaped = false;
    for (;;) {
        size_t n = 1;
        unsigned char c = (unsigned char)*p;
        if (c == '"')
            break;
        if (p >= s->end)
            return srv_scan_malformed(s, s->p, "this string is not closed");
        if (c < 0x20)
            return srv_scan_malformed(s, p, "expected \\u%04x, found the control character 0x%02x",
                                      c, c);
        if (c == '\\') {
            *escaped = true;
            n = escape_length(p);
            if (n == 0)
                return srv_scan_malformed(s, p,
                                          "this escape stands for no character (\\u0000 and "
                                          "lone surrogates are refused)");
        } else if (c >= 0x80) {
            n = attn_utf8_length(p, (size_t)(s->end - p));
            if (n == 0)
                return srv_scan_malformed(s, p, "expected UTF-8, found the byte 0x%02x", c);
        }
        p += n;
    }
    *to = p;
    s->p = p + 1;
    return true;
}

char *srv_put_utf8(char *out, uint32_t c) {
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

size_t srv_unescape(char *out, const char *from, const char *to) {
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
        out = srv_put_utf8(out, c);
    }
    return (size_t)(out - start);
}

bool srv_scan_name(srv_scan *s, srv_name *name) {
    const char *from, *to;
    bool escaped;
    if (!srv_scan_string(s, &from, &to, &escaped))
        return false;
    size_t most = sizeof name->text - 1;
    if ((size_t)(to - from) > most) { /* keep the beginning, whole UTF-8 characters, for problems */
        to = from + most;
        while (to > from && (((unsigned char)*to & 0xC0) == 0x80))
            to--;
        escaped = false;
    }
    if (escaped) {
        name->size = srv_unescape(name->text, from, to);
    } else {
        name->size = (size_t)(to - from);
        memcpy(name->text, from, name->size);
    }
    name->text[name->size] = 0;
    return true;
}

bool srv_name_is(const srv_name *name, const char *text) {
    return strlen(text) == name->size && memcmp(name->text, text, name->size) == 0;
}

/* --- searching a text that may be malformed --- */

const char *srv_skip_string(const char *p, const char *end) {
    for (p++; p < end && *p != '"'; p++)
        p += *p == '\\';
    return p < end ? p + 1 : end;
}

static const char *skip_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

static bool is_name(const char *name, size_t size, const char *wanted) {
    return size == strlen(wanted) && !memcmp(name, wanted, size);
}

/* Returns the number that is the member `key` of the outermost object or, if `object` is not NULL,
 * of the object that is its member `object`. 0: there is no such member, or no number from 1 to
 * 1e12. */
static int64_t find_number(const char *text, size_t size, const char *object, const char *key) {
    const char *end = text + size;
    const size_t wanted = object ? 2 : 1;
    size_t depth = 0;
    bool inside = !object;
    for (const char *p = text; p < end;) {
        if (*p != '"') {
            depth += *p == '{' || *p == '[';
            depth -= (*p == '}' || *p == ']') && depth;
            p++;
            continue;
        }
        const char *name = p + 1;
        p = srv_skip_string(p, end);
        const char *at = skip_space(p, end);
        double value;
        if (at == end || *at != ':')
            continue;
        const size_t length = (size_t)(p - 1 - name);
        if (object && depth == 1)
            inside = is_name(name, length, object);
        else if (inside && depth == wanted && is_name(name, length, key) &&
                 attn_read_f64(skip_space(at + 1, end), end, &value) && value >= 1 && value <= 1e12)
            return (int64_t)value;
    }
    return 0;
}

int64_t srv_scan_timeout(const char *text, size_t size) {
    return find_number(text, size, NULL, "timeout_ms");
}

int64_t srv_scan_infer_timeout(const char *text, size_t size) {
    return find_number(text, size, "parameters", "timeout");
}
