/* Decodes a query string by turning it into a small JSON object, which srv_decode then reads. The
 * kind of each field decides how its value is written as JSON: "a=1,2" becomes {"a":[1,2]} if a is
 * a list of integers. srv_decode checks the values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number/print_small.h"
#include "wire/container.h"
#include "wire/decode.h"

enum { MOST_PAIRS = 64 }; /* largest number of parameters of a query string */

typedef struct pair {
    const char *name, *value;
    const srv_field *field;  /* NULL: no field has this name, and srv_decode reports it */
    const srv_field *object; /* row of the object that contains `field`; NULL: none */
} pair;

/* Returns the row with this name, in the table or in one of its objects. Sets *object to the row of
 * that object, or to NULL for a row of the table itself. Returns NULL if there is no such row. */
static const srv_field *find(const srv_field *fields, const char *name, const srv_field **object) {
    *object = NULL;
    for (const srv_field *f = fields; f->name; f++)
        if ((f->kind != SRV_OBJECT || (f->accepts & SRV_O_NAME)) && strcmp(f->name, name) == 0)
            return f;
    for (const srv_field *f = fields; f->name; f++)
        for (const srv_field *g = f->kind == SRV_OBJECT ? f->fields : NULL; g && g->name; g++)
            if (strcmp(g->name, name) == 0) {
                *object = f;
                return g;
            }
    return NULL;
}

/* Refuses a parameter that has the name of an object, because each member of the object is a
 * parameter of its own. Accepts the name of an object that may be written as a string. false: a
 * problem is set. */
static bool check_object(srv_request *req, const srv_field *fields, const char *name) {
    char pointer[72];
    for (const srv_field *f = fields; f->name; f++) {
        if (f->kind != SRV_OBJECT || (f->accepts & SRV_O_NAME) || strcmp(f->name, name) != 0)
            continue;
        snprintf(pointer, sizeof pointer, "/%.64s", name);
        return srv_problem(req, SRV_UNKNOWN_FIELD, pointer,
                           "\"%.64s\" is no parameter by itself: its fields are, such as %s=", name,
                           f->fields->name);
    }
    return true;
}

/* Returns whether the whole text is a JSON number. */
static bool is_number(const char *text) {
    const char *digits = text + (*text == '-');
    char *end;
    if (*digits < '0' || *digits > '9' || strspn(text, "+-.0123456789eE") != strlen(text))
        return false;
    if (*digits == '0' && digits[1] >= '0' && digits[1] <= '9')
        return false;
    strtod(text, &end);
    return !*end && end[-1] != '.';
}

static bool may_be_list(const srv_field *f, const char *text) {
    if (f->kind == SRV_INTS || f->kind == SRV_LISTS || f->kind == SRV_FLAGS ||
        f->kind == SRV_STRINGS)
        return true;
    return f->kind == SRV_UNION && (f->accepts & SRV_U_INTS) &&
           (strpbrk(text, ",:") || is_number(text));
}

/* Refuses a parameter that occurs twice. */
static void refuse_twice(srv_request *req, const pair *first, const char *second) {
    const srv_field *f = first->field;
    char pointer[72];
    snprintf(pointer, sizeof pointer, "/%.64s", first->name);
    if (f && (may_be_list(f, first->value) || f->kind == SRV_RANGES))
        srv_problem(
            req, SRV_BAD_REQUEST, pointer,
            "the query parameter \"%.64s\" is there twice; write a list as %.64s=%.64s,%.64s",
            first->name, first->name, first->value, second);
    else
        srv_problem(req, SRV_BAD_REQUEST, pointer, "the query parameter \"%.64s\" is there twice",
                    first->name);
}

/* Splits the query string into pairs and returns their number. SIZE_MAX: a problem is set. */
static size_t split(srv_request *req, const srv_field *fields, pair pairs[MOST_PAIRS]) {
    size_t n = 0;
    for (const char *p = req->query; *p;) {
        const size_t size = strcspn(p, "&"), length = strcspn(p, "=&");
        char *name = attn_arena_text(req->arena, p, length);
        const char *value = attn_arena_text(req->arena, p + length + (size > length),
                                            size - length - (size > length));
        p += size + (p[size] == '&');
        if (!length)
            continue;
        if (n == MOST_PAIRS || !name) {
            srv_problem(req, SRV_BAD_REQUEST, NULL, "at most %d query parameters, found more",
                        MOST_PAIRS);
            return SIZE_MAX;
        }
        for (size_t i = 0; i < n; i++)
            if (strcmp(pairs[i].name, name) == 0) {
                refuse_twice(req, &pairs[i], value ? value : "");
                return SIZE_MAX;
            }
        if (!check_object(req, fields, name))
            return SIZE_MAX;
        pairs[n] = (pair){.name = name, .value = srv_query(req, name)};
        pairs[n].field = find(fields, name, &pairs[n].object);
        n += pairs[n].value != NULL;
    }
    return n;
}

bool srv_query_refuse(srv_request *req, const srv_field *body) {
    static const srv_field none[] = {{0}};
    pair pairs[MOST_PAIRS];
    char pointer[72];
    const size_t n = split(req, none, pairs);
    if (n == 0 || n == SIZE_MAX)
        return n == 0;
    snprintf(pointer, sizeof pointer, "/%.64s", pairs->name);
    return srv_problem(req, SRV_UNKNOWN_FIELD, pointer, "\"%.64s\" is no query parameter here: %s",
                       pairs->name,
                       body ? "the fields of a POST stand in its body" : "this path takes none");
}

static void put_string(attn_text *t, const char *text) {
    const size_t n = strlen(text);
    char *escaped = attn_arena_small(t->arena, n * ATTN_ESCAPE_MOST + 1);
    if (!escaped) {
        t->failed = true;
        return;
    }
    *attn_escape(escaped, text, n) = 0;
    attn_text_add(t, "\"%s\"", escaped);
}

/* Writes "1,2,3" as a JSON list. An item is written as a string if the field is a list of strings
 * or if the item is not a number. srv_decode refuses the string if the field wants numbers. */
static void put_list(attn_text *t, const srv_request *req, const srv_field *f, const char *text) {
    const bool strings = f->kind == SRV_STRINGS;
    attn_text_add(t, "[");
    for (size_t i = 0; *text; i++) {
        const size_t n = strcspn(text, ",");
        const char *item = attn_arena_text(req->arena, text, n);
        attn_text_add(t, "%s", i ? "," : "");
        if (!item)
            t->failed = true;
        else if (!strings && is_number(item))
            attn_text_add(t, "%s", item);
        else
            put_string(t, item);
        text += n + (text[n] != 0);
    }
    attn_text_add(t, "]");
}

static void put_value(attn_text *t, const srv_request *req, const pair *p) {
    const srv_field *f = p->field;
    const bool truth = strcmp(p->value, "true") == 0 || strcmp(p->value, "false") == 0;
    const bool text = f && (f->kind == SRV_STRING || f->kind == SRV_ENUM || f->kind == SRV_RANGES);
    put_string(t, p->name);
    attn_text_add(t, ":");
    if (f && may_be_list(f, p->value))
        put_list(t, req, f, p->value);
    else if (!text && (truth || is_number(p->value)))
        attn_text_add(t, "%s", p->value);
    else
        put_string(t, p->value);
}

/* Writes the pairs that belong to `object` (NULL: to the table itself) as members. `written` is the
 * number of members that the JSON object has already. Returns the new number. */
static size_t put_pairs(attn_text *t, const srv_request *req, const pair *pairs, size_t n,
                        const srv_field *object, size_t written) {
    for (size_t i = 0; i < n; i++) {
        if (pairs[i].object != object)
            continue;
        attn_text_add(t, "%s", written++ ? "," : "");
        put_value(t, req, &pairs[i]);
    }
    return written;
}

static bool has_pairs(const pair *pairs, size_t n, const srv_field *object) {
    while (n > 0 && pairs[n - 1].object != object)
        n--;
    return n > 0;
}

/* If no parameter of a nested object was sent, the result depends on the method. In a GET, the JSON
 * has the object, and its fields get their defaults. In a POST, whose body is an .npy file, the
 * JSON lacks the object. */
bool srv_query_text(srv_request *req, const srv_field *fields, const char **text, size_t *size) {
    pair pairs[MOST_PAIRS];
    attn_text t = {.arena = req->arena};
    const size_t n = split(req, fields, pairs);
    if (n == SIZE_MAX)
        return false;
    attn_text_add(&t, "{");
    size_t written = put_pairs(&t, req, pairs, n, NULL, 0);
    for (const srv_field *f = fields; f->name; f++) {
        if (f->kind != SRV_OBJECT || (srv_is_post(req) && !has_pairs(pairs, n, f)))
            continue;
        attn_text_add(&t, "%s\"%s\":{", written++ ? "," : "", f->name);
        put_pairs(&t, req, pairs, n, f, 0);
        attn_text_add(&t, "}");
    }
    attn_text_add(&t, "}");
    if (t.failed)
        return srv_problem_memory(req, NULL, "no memory is left for the query");
    *text = t.data;
    *size = t.size;
    return true;
}
