/* One pass over the bytes, counting brackets and skipping strings. */
#include "wire/peek.h"

#include <stdbool.h>
#include <string.h>

#include "number/number.h"

/* Behind the string that begins at p. */
static const char *skip_string(const char *p, const char *end) {
    for (p++; p < end && *p != '"'; p++)
        p += *p == '\\';
    return p < end ? p + 1 : end;
}

static const char *skip_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

static bool is(const char *name, size_t size, const char *wanted) {
    return size == strlen(wanted) && !memcmp(name, wanted, size);
}

/* The number of `key`, a member of the object itself or of its member `object` (or NULL). */
static int64_t find(const char *text, size_t size, const char *object, const char *key) {
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
        p = skip_string(p, end);
        const char *at = skip_space(p, end);
        double value;
        if (at == end || *at != ':')
            continue;
        const size_t length = (size_t)(p - 1 - name);
        if (object && depth == 1)
            inside = is(name, length, object);
        else if (inside && depth == wanted && is(name, length, key) &&
                 attn_read_f64(skip_space(at + 1, end), end, &value) && value >= 1 && value <= 1e12)
            return (int64_t)value;
    }
    return 0;
}

int64_t srv_peek_timeout(const char *text, size_t size) {
    return find(text, size, NULL, "timeout_ms");
}

int64_t srv_peek_infer_timeout(const char *text, size_t size) {
    return find(text, size, "parameters", "timeout");
}
