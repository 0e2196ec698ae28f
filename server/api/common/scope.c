/* Checks of fields against each other, and labels. If a check of two fields fails, the pointer of
 * the problem is the field that was sent, and the text of the problem names the other field. */
#include "api/common/scope.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

bool srv_given(const srv_scope *scope, const char *name) {
    /* Reads only the rows of fields that were given, because these are few. */
    for (size_t w = 0; w < SRV_FIELDS_MOST / 64; w++)
        for (uint64_t given = scope->given->words[w]; given; given &= given - 1) {
            const char *row = scope->fields[w * 64 + (size_t)__builtin_ctzll(given)].name;
            if (row[0] == name[0] && strcmp(row, name) == 0)
                return true;
        }
    return false;
}

bool srv_given_inside(const srv_scope *scope, size_t offset, size_t size) {
    for (size_t w = 0; w < SRV_FIELDS_MOST / 64; w++)
        for (uint64_t given = scope->given->words[w]; given; given &= given - 1)
            if (scope->fields[w * 64 + (size_t)__builtin_ctzll(given)].offset - offset < size)
                return true;
    return false;
}

const char *srv_where(const srv_scope *scope, const char *name) {
    char text[96];
    int n = scope->at[0] ? snprintf(text, sizeof text, "%s/%s", scope->at + 1, name)
                         : snprintf(text, sizeof text, "%s", name);
    const char *copy = n > 0 ? attn_arena_text(scope->req->arena, text, strlen(text)) : NULL;
    return copy ? copy : name;
}

bool srv_refuse(const srv_scope *scope, srv_code code, const char *name, const char *format, ...) {
    char pointer[128], text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(pointer, sizeof pointer, "%s/%s", scope->at, name);
    return srv_problem(scope->req, code, pointer, "%s", text);
}

bool srv_needs(const srv_scope *scope, const char *name, const char *other, const char *why) {
    if (!srv_given(scope, name) || srv_given(scope, other))
        return true;
    return srv_refuse(scope, SRV_VALUE, name, "%s needs %s, which is not in this request: %s", name,
                      other, why);
}

bool srv_excludes(const srv_scope *scope, const char *name, const char *other, const char *why) {
    if (!srv_given(scope, name) || !srv_given(scope, other))
        return true;
    return srv_refuse(scope, SRV_VALUE, name, "%s and %s exclude each other: %s", name, other, why);
}

bool srv_refuse_list(const srv_scope *scope, const char *name, const srv_entries *list) {
    const attn_tensor *first = list->items, *other = first;
    char want[128], have[128];
    size_t i = 0;
    while (i + 1 < list->count && other->rank == first->rank &&
           !memcmp(other->dims, first->dims, (size_t)first->rank * sizeof *first->dims))
        other = &list->items[++i];
    return srv_refuse(scope, SRV_SHAPE, name,
                      "its items differ in shape, %s of item 0 and %s of item %zu; expected one "
                      "shape, because this is no ragged batch of query, key and value%s",
                      attn_shape_text(first->dims, first->rank, want, sizeof want),
                      attn_shape_text(other->dims, other->rank, have, sizeof have), i,
                      strcmp(name, "token_ids") ? "" : ": pad the shorter items with pad_id");
}

bool srv_pair(const srv_scope *scope, const char *name, const srv_ints *list, int64_t low) {
    if (list->count != 2)
        return srv_refuse(scope, SRV_VALUE, name,
                          "%s must be a list of two integers, found a list of %zu", name,
                          list->count);
    for (size_t i = 0; i < 2; i++)
        if (list->values[i] < low) {
            char place[64];
            snprintf(place, sizeof place, "%s/%zu", name, i);
            return srv_refuse(scope, SRV_VALUE, place,
                              "%s must be integers from %" PRId64 " upwards, found %" PRId64, name,
                              low, list->values[i]);
        }
    return true;
}

bool srv_ranges_check(const srv_scope *scope, const char *name, const srv_ranges *ranges,
                      size_t size) {
    for (size_t i = 0; i < ranges->count; i++) {
        const srv_bounds *r = &ranges->items[i];
        if (r->from < 0 || r->from >= r->to || (uint64_t)r->to > size)
            return srv_refuse(
                scope, SRV_VALUE, name, "%s must be %s with 0 <= from < to <= %zu, found %.200s",
                name, srv_is_queried(scope->req) ? "from:to" : "[from, to]", size, ranges->text);
    }
    return true;
}

bool srv_range(const srv_scope *scope, const char *name, const srv_ranges *ranges, size_t size,
               size_t *from, size_t *to) {
    if (!srv_given(scope, name))
        return true;
    if (!srv_ranges_check(scope, name, ranges, size))
        return false;
    *from = (size_t)ranges->items[0].from;
    *to = (size_t)ranges->items[0].to;
    return true;
}

bool srv_is_listed(const char *list, const char *word) {
    char spaced[64];
    snprintf(spaced, sizeof spaced, " %s ", word);
    return list && strstr(list, spaced) != NULL;
}

bool srv_read_query(srv_request *req, const srv_field *fields, void *out) {
    srv_decoded_body body = {.text = NULL};
    if (!srv_decode_standards(req, fields, out) ||
        !srv_query_text(req, fields, &body.text, &body.size))
        return false;
    req->decoded_body = &body;
    bool ok = srv_decode(req, fields, out);
    req->decoded_body = NULL;
    return ok;
}

bool srv_read_body(srv_request *req, const srv_field *fields, void *body,
                   const int64_t *timeout_ms) {
    if (!srv_decode(req, fields, body))
        return false;
    if (*timeout_ms > 0 && !req->is_job) /* a job has its own time limit */
        srv_request_finish_by(req, req->start_ns + *timeout_ms * 1000000);
    return true;
}

/* --- labels --- */

const srv_field srv_label_fields[] = {
    SRV_FIELD_ROW(srv_names, query, SRV_STRINGS,
                  "One name for each query, which is a row of the weights."),
    SRV_FIELD_ROW(srv_names, key, SRV_STRINGS,
                  "One name for each key, cached keys included; a key is a column of the weights."),
    {0},
};

bool srv_labels_given(const srv_labels *labels) {
    return srv_given_any(&srv_labels_of(labels, 0)->given);
}

bool srv_labels_differ(const srv_labels *labels) {
    return labels->count > 1;
}

const srv_names *srv_labels_of(const srv_labels *labels, size_t entry) {
    static const srv_names none;
    const srv_names *names = labels->items;
    return labels->count ? &names[entry % labels->count] : &none;
}

const char *srv_labels_where(attn_arena *arena, const srv_labels *labels, size_t entry,
                             const char *name) {
    char text[64];
    int n = labels->single || labels->count == 0
                ? snprintf(text, sizeof text, "labels/%s", name)
                : snprintf(text, sizeof text, "labels/%zu/%s", entry % labels->count, name);
    const char *copy = attn_arena_text(arena, text, (size_t)n);
    return copy ? copy : "labels";
}

static bool check_names(const srv_scope *scope, const char *name, const char *what,
                        const srv_strings *list, size_t expected) {
    if (!srv_given(scope, name) || list->count == expected)
        return true;
    return srv_refuse(scope, SRV_SHAPE, name, "expected %zu name%s (one a %s), found %zu", expected,
                      attn_plural(expected), what, list->count);
}

/* Checks a list of `found` strings that names both queries and keys: L queries, S keys and `found`
 * must be equal numbers. `at` is the JSON pointer to the list. false: a problem is set. */
static bool check_both(srv_request *req, const char *at, size_t found, size_t L, size_t S) {
    if (L == S && found == L)
        return true;
    if (L == S)
        return srv_problem(req, SRV_SHAPE, at,
                           "expected %zu name%s (one a query and key), found %zu", L,
                           attn_plural(L), found);
    return srv_problem(req, SRV_SHAPE, at,
                       "a list of names is for as many queries as keys, not for %zu quer%s and "
                       "%zu key%s: send {\"query\": [..], \"key\": [..]}",
                       L, attn_plural_y(L), S, attn_plural(S));
}

/* Checks the names of one batch entry: L names of queries and S names of keys, if given. `at` is
 * the JSON pointer to the object of these names. false: a problem is set. */
static bool check_entry(srv_request *req, const srv_names *names, const char *at, size_t L,
                        size_t S) {
    const srv_scope inside = {req, srv_label_fields, &names->given, at};
    if (names->query.values && names->query.values == names->key.values)
        return check_both(req, at, names->key.count, L, S);
    return check_names(&inside, "query", "query", &names->query, L) &&
           check_names(&inside, "key", "key", &names->key, S);
}

bool srv_labels_check(srv_request *req, const srv_labels *labels, size_t B, size_t L, size_t S) {
    const srv_names *names = labels->items;
    if (labels->single)
        return check_entry(req, names, "/labels", L, S);
    if (labels->items && labels->count != B)
        return srv_problem(
            req, SRV_SHAPE, "/labels",
            "expected names for each of %zu batch entr%s, or one object for all of them, "
            "found a list of %zu",
            B, attn_plural_y(B), labels->count);
    for (size_t b = 0; b < labels->count; b++) {
        char at[48];
        snprintf(at, sizeof at, "/labels/%zu", b);
        if (!check_entry(req, &names[b], at, L, S))
            return false;
        if (memcmp(&names[b].given, &names[0].given, sizeof names->given) != 0)
            return srv_problem(
                req, SRV_VALUE, at,
                "all entries name queries, keys or both alike: expected the fields of "
                "labels/0");
    }
    return true;
}

static void put_given(attn_json_text *j, const void *names) {
    const srv_strings *list = names;
    if (list->values)
        attn_json_strings(j, list->values, list->count);
}

static const srv_field name_rows[] = {
    SRV_WRITTEN_AT("query", "[string]", put_given, srv_names, query, "Names of the queries."),
    SRV_WRITTEN_AT("key", "[string]", put_given, srv_names, key, "Names of the keys."),
    {0},
};

const srv_field srv_label_answers[] = {
    SRV_WRITTEN("Labels", "Names|[Names]", NULL,
                "Names of queries and keys: of all batch entries, or a list with those of each "
                "entry."),
    SRV_GROUP("Names", name_rows, NULL),
    {0},
};

void srv_labels_put(attn_json_text *j, const void *place) {
    const srv_labels *labels = place;
    if (!srv_labels_given(labels))
        return;
    if (srv_labels_differ(labels))
        attn_json_array(j);
    for (size_t b = 0; b < labels->count; b++)
        srv_answer_object(j, name_rows, srv_labels_of(labels, b));
    if (srv_labels_differ(labels))
        attn_json_array_end(j);
}
