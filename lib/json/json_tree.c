/* Reads JSON (RFC 8259) by recursive descent on the cursor of header_text.h. */
#include "json/json_tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/header_text.h"

enum {
    DEPTH = 16,    /* most nested lists and objects */
    MEMBERS = 256, /* most members of an object, each of which is compared with the others */
    NUMBER = 64    /* most bytes of a number, with a NUL */
};

static attn_status fail_at(attn_io_cursor *c, const char *what) {
    return attn_fail(c->err, ATTN_EARG, "", "byte %zu of the text: expected %s",
                     (size_t)(c->p - c->start), what);
}

/* Reads the grammar of a number, which strtod alone would accept in more forms. */
static attn_status read_number(attn_io_cursor *c, double *out) {
    char text[NUMBER];
    size_t n = 0;
    while (c->p + n < c->end && n + 1 < NUMBER && c->p[n] && strchr("+-.0123456789eE", c->p[n]))
        n++;
    memcpy(text, c->p, n);
    text[n] = 0;
    const char *digits = text + (*text == '-');
    char *end;
    *out = strtod(text, &end);
    const bool grammar = *digits >= '0' && *digits <= '9' &&
                         !(digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9');
    if (n == 0 || *end || !grammar || !isfinite(*out))
        return fail_at(c, "a value");
    c->p += n;
    return ATTN_OK;
}

static bool take_word(attn_io_cursor *c, const char *word) {
    const size_t n = strlen(word);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
        return false;
    c->p += n;
    return true;
}

static attn_status read_value(attn_io_cursor *c, int depth, attn_json *out);

/* Reads the text of a string, and says where in the text it is wrong. */
static attn_status read_string(attn_io_cursor *c, const char **out) {
    const attn_status status = attn_io_string(c, out);
    return status == ATTN_EARG ? fail_at(c, "a string of UTF-8 in double quotes, without U+0000")
                               : status;
}

static attn_status read_children(attn_io_cursor *c, int depth, attn_json *out) {
    const bool object = out->kind == ATTN_JSON_OBJECT;
    const char close = object ? '}' : ']';
    attn_json **at = &out->first;
    if (depth == DEPTH)
        return fail_at(c, "at most 16 nested lists and objects");
    if (attn_io_take(c, close))
        return ATTN_OK;
    do {
        attn_json *child = attn_arena_small(c->arena, sizeof *child);
        if (!child)
            return attn_fail(c->err, ATTN_ENOMEM, "", "no memory for the text is left");
        *child = (attn_json){.kind = ATTN_JSON_NULL};
        attn_status status = object ? read_string(c, &child->key) : ATTN_OK;
        if (!status && object && !attn_io_take(c, ':'))
            status = fail_at(c, "':'");
        if (!status)
            status = read_value(c, depth + 1, child);
        if (status)
            return status;
        if (object && out->count == MEMBERS)
            return fail_at(c, "at most 256 members");
        for (attn_json *m = out->first; object && m; m = m->next)
            if (strcmp(m->key, child->key) == 0)
                return fail_at(c, "each member once");
        *at = child;
        at = &child->next;
        out->count++;
    } while (attn_io_take(c, ','));
    return attn_io_take(c, close) ? ATTN_OK : fail_at(c, object ? "',' or '}'" : "',' or ']'");
}

static attn_status read_value(attn_io_cursor *c, int depth, attn_json *out) {
    attn_io_space(c);
    if (c->p < c->end && *c->p == '"') {
        out->kind = ATTN_JSON_STRING;
        return read_string(c, &out->text);
    }
    if (attn_io_take(c, '[') || attn_io_take(c, '{')) {
        out->kind = c->p[-1] == '[' ? ATTN_JSON_LIST : ATTN_JSON_OBJECT;
        return read_children(c, depth, out);
    }
    if (take_word(c, "null"))
        return ATTN_OK;
    if (take_word(c, "true") || take_word(c, "false")) {
        out->kind = ATTN_JSON_BOOL;
        out->truth = c->p[-2] == 'u';
        return ATTN_OK;
    }
    out->kind = ATTN_JSON_NUMBER;
    return read_number(c, &out->number);
}

attn_status attn_json_read(const char *text, size_t n, attn_arena *arena, attn_json **out,
                           attn_error *err) {
    attn_io_cursor c = {text, text, text + n, arena, err};
    attn_json *root = attn_arena_small(arena, sizeof *root);
    if (!root)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for the text is left");
    *root = (attn_json){.kind = ATTN_JSON_NULL};
    attn_status status = read_value(&c, 0, root);
    attn_io_space(&c);
    if (!status && c.p != c.end)
        status = fail_at(&c, "the end");
    *out = root;
    return status;
}

attn_json *attn_json_member(attn_json *object, const char *key) {
    for (attn_json *m = object->first; m; m = m->next)
        if (strcmp(m->key, key) == 0) {
            m->known = true;
            return m->kind == ATTN_JSON_NULL ? NULL : m;
        }
    return NULL;
}

const attn_json *attn_json_unknown(const attn_json *object) {
    for (const attn_json *m = object->first; m; m = m->next)
        if (!m->known && strncmp(m->key, "x-", 2) != 0)
            return m;
    return NULL;
}

const char *attn_json_kind_name(const attn_json *value) {
    static const char *const names[] = {"null",     "true or false", "a number",
                                        "a string", "a list",        "an object"};
    return names[value->kind];
}

bool attn_json_integer(const attn_json *value, int64_t least, int64_t most, int64_t *out) {
    const double x = value->number;
    if (value->kind != ATTN_JSON_NUMBER || x != floor(x) || fabs(x) > 9007199254740992.0 ||
        x < (double)least || x > (double)most)
        return false;
    *out = (int64_t)x;
    return true;
}
