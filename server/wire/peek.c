/* One pass over the bytes, counting brackets and skipping strings. */
#include "wire/peek.h"

#include <stdbool.h>
#include <string.h>

#include "wire/number.h"

#define NAME "timeout_ms"

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

int64_t srv_peek_timeout(const char *text, size_t size) {
    const char *end = text + size;
    size_t depth = 0;
    for (const char *p = text; p < end;) {
        if (*p != '"') {
            depth += *p == '{' || *p == '[';
            depth -= (*p == '}' || *p == ']') && depth;
            p++;
            continue;
        }
        const char *name = p + 1;
        p = skip_string(p, end);
        bool named = depth == 1 && (size_t)(p - name) == sizeof NAME &&
                     !memcmp(name, NAME "\"", sizeof NAME);
        const char *at = skip_space(p, end);
        double value;
        if (named && at < end && *at == ':' && srv_read_f64(skip_space(at + 1, end), end, &value) &&
            value >= 1 && value <= 1e9)
            return (int64_t)value;
    }
    return 0;
}
