/* See leaf.h. */
#include "wire/leaf.h"

#include <string.h>

#include "number/number.h"

enum { NAMES_MOST = 16 }; /* of a list */

static const char *skip_space(const char *p) {
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
        p++;
    return p;
}

/* What may follow a value. */
static bool ends(char c) {
    return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* A string without escapes that is one of the choices: the byte after it, or NULL. */
static const char *read_choice(const char *p, const char *const *choices, int *out) {
    if (*p++ != '"')
        return NULL;
    for (int i = 0; choices[i]; i++) {
        size_t n = strlen(choices[i]);
        if (strncmp(p, choices[i], n) == 0 && p[n] == '"') {
            *out = i;
            return p + n + 1;
        }
    }
    return NULL;
}

static const char *read_flags(const char *p, const char *const *choices, unsigned *out) {
    unsigned flags = 0;
    int choice = 0;
    if (*p == '"') {
        p = read_choice(p, choices, &choice);
        *out = p ? 1u << choice : *out;
        return p;
    }
    if (*p++ != '[')
        return NULL;
    p = skip_space(p);
    for (size_t n = 0; *p != ']'; n++) {
        if (n == NAMES_MOST || (n > 0 && *p++ != ','))
            return NULL;
        p = read_choice(skip_space(p), choices, &choice);
        if (!p)
            return NULL;
        flags |= 1u << choice;
        p = skip_space(p);
    }
    *out = flags;
    return p + 1;
}

static const char *read_bool(const char *p, bool *out) {
    const bool yes = strncmp(p, "true", 4) == 0;
    const char *after = yes ? p + 4 : strncmp(p, "false", 5) == 0 ? p + 5 : NULL;
    if (!after || !ends(*after))
        return NULL;
    *out = yes;
    return after;
}

static const char *read_int(const char *p, const char *end, const srv_field *f, int64_t *out) {
    int64_t value;
    const char *after = attn_read_i64(p, end, &value);
    const bool bounded = f->min != 0 || f->max != 0;
    if (!after || !ends(*after) || (bounded && ((double)value < f->min || (double)value > f->max)))
        return NULL;
    *out = value;
    return after;
}

const char *srv_leaf_read(const char *p, const char *end, const srv_field *field, void *out) {
    switch (field->kind) {
    case SRV_BOOL:
        return read_bool(p, out);
    case SRV_INT:
        return read_int(p, end, field, out);
    case SRV_ENUM:
        return read_choice(p, field->choices, out);
    case SRV_FLAGS:
        return read_flags(p, field->choices, out);
    default:
        return NULL;
    }
}
