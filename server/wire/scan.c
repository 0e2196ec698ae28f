/* Sets the problems of scanned bodies, and finds the timeout in a body that is not decoded yet. */
#include "wire/scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "number/number.h"

/* Finds the line and the column of the byte at `at`. Both start at 1; columns count characters. */
static void place_of(const attn_scan *s, const char *at, size_t *line, size_t *column) {
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

/* Implements attn_scan.fault: turns an error of the scanner at the byte `at` into a problem. */
static void set_problem(attn_scan *s, attn_status code, const char *at, const char *text) {
    srv_request *req = srv_scan_of(s)->req;
    size_t line, column;
    place_of(s, at, &line, &column);
    if (code == ATTN_ENOMEM)
        srv_problem_memory(req, s->path.text,
                           "The memory of one request does not suffice for its fields");
    else if (s->of)
        srv_problem(req, SRV_VALUE, s->path.text, "Line %zu, column %zu of %s: %s", line, column,
                    s->of, text);
    else
        srv_problem(req, SRV_MALFORMED, s->path.text, "Line %zu, column %zu: %s", line, column,
                    text);
}

attn_scan srv_scan_new(srv_scan *own) {
    return (attn_scan){
        .arena = own->req->arena,
        .fault = set_problem,
        .owner = own,
        .nonfinite = own->req->only_400
                         ? ", and " SRV_SCAN_INFER_INFINITY
                         : ": write null where a mask or bias is -infinity, or send the tensor "
                           "as \"base64\"",
    };
}

bool srv_scan_refuse(attn_scan *s, srv_code code, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return srv_problem(srv_scan_of(s)->req, code, s->path.text, "%s", text);
}

bool srv_scan_unexpected(attn_scan *s, srv_code code, const char *expected) {
    char found[ATTN_FOUND_ROOM];
    if (!attn_scan_is_value(s))
        return attn_scan_expected(s, expected);
    return srv_scan_refuse(s, code, "expected %s, found %s", expected, attn_scan_found(s, found));
}

bool srv_scan_integer(attn_scan *s, int64_t least, int64_t most, srv_code code,
                      const char *expected, int64_t *out) {
    int64_t v;
    const char *p = attn_read_i64(s->p, s->end, &v);
    if (!p || v < least || v > most)
        return srv_scan_unexpected(s, code, expected);
    *out = v;
    s->p = p;
    return true;
}

bool srv_scan_memory(attn_scan *s) {
    return srv_refuse_tensors(srv_scan_of(s)->req, s->path.text);
}

bool srv_scan_depth(attn_scan *s) {
    return srv_problem_limit(srv_scan_of(s)->req, s->of ? SRV_VALUE : SRV_MALFORMED, s->path.text,
                             (double)s->max_depth, "max_json_depth",
                             "lists and objects are more than %zu deep", s->max_depth);
}

bool srv_scan_open(attn_scan *s, char close, bool *more) {
    return s->depth == s->max_depth ? srv_scan_depth(s) : attn_scan_open(s, close, more);
}

/* --- searching a text that may be malformed --- */

static const char *skip_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

static bool is_name(const char *name, size_t size, const char *wanted) {
    return size == strlen(wanted) && !memcmp(name, wanted, size);
}

/* Returns the value of the member `key` of the outermost object or, if `object` is not NULL, of the
 * object that is its member `object`. Returns 0 if there is no such member, or if its value is not
 * a number from 1 to 1e12. */
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
        p = attn_skip_string(p, end);
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
