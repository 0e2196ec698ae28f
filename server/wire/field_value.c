/* Values of a JSON document into C types, each as the row of its field table says: numbers within
 * their range, names of a list, lists, tensors from the envelope's side table, unions. */
#include "wire/field_value.h"
#include "config/nearest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FOUND_ROOM = 96 };

/* What a value is, for error texts. */
static const char *found_text(const json_t *v, char text[FOUND_ROOM]) {
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        snprintf(text, FOUND_ROOM, "a list of %zu", json_array_size(v));
        return text;
    case JSON_STRING:
        snprintf(text, FOUND_ROOM, "\"%.64s\"", json_string_value(v));
        return text;
    case JSON_INTEGER:
        snprintf(text, FOUND_ROOM, "%lld", (long long)json_integer_value(v));
        return text;
    case JSON_REAL:
        snprintf(text, FOUND_ROOM, "%g", json_real_value(v));
        return text;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        break;
    }
    return "null";
}

bool srv_field_refuse(srv_decoder *d, srv_code code, const json_t *v, const char *expected) {
    char found[FOUND_ROOM];
    srv_problem(d->req, code, d->path.text, "expected %s, found %s", expected,
                found_text(v, found));
    return false;
}

bool srv_field_no_memory(srv_decoder *d) {
    srv_problem_limit(d->req, SRV_TOO_LARGE, d->path.text, (double)attn_arena_limit(d->req->arena),
                      "max_request_bytes",
                      "The memory of one request does not suffice for its fields");
    return false;
}

void *srv_field_take(srv_decoder *d, size_t count, size_t size) {
    void *p = attn_arena_zeroed(d->req->arena, count ? count : 1, size);
    if (!p)
        srv_field_no_memory(d);
    return p;
}

static const char *copy_text(srv_decoder *d, const json_t *v) {
    const char *text = attn_arena_text(d->req->arena, json_string_value(v), json_string_length(v));
    if (!text)
        srv_field_no_memory(d);
    return text;
}

/* An integer, also when it is written as 3.0. */
static bool integer_of(const json_t *v, int64_t *out) {
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return true;
    }
    double x = json_is_real(v) ? json_real_value(v) : NAN;
    if (!(x >= -9007199254740992.0 && x <= 9007199254740992.0) || x != trunc(x))
        return false;
    *out = (int64_t)x;
    return true;
}

static bool in_range(srv_decoder *d, const srv_field *f, const json_t *v, const char *kind) {
    double x = json_number_value(v);
    char expected[128];
    if ((f->min == 0 && f->max == 0) || (x >= f->min && x <= f->max))
        return true;
    if (f->max >= 1e300)
        snprintf(expected, sizeof expected, "%s of %.16g or more", kind, f->min);
    else if (f->min <= -1e300)
        snprintf(expected, sizeof expected, "%s of %.16g or less", kind, f->max);
    else
        snprintf(expected, sizeof expected, "%s from %.16g to %.16g", kind, f->min, f->max);
    return srv_field_refuse(d, SRV_VALUE, v, expected);
}

static bool decode_int(srv_decoder *d, const srv_field *f, const json_t *v, int64_t *out) {
    int64_t value;
    if (!integer_of(v, &value))
        return srv_field_refuse(d, SRV_TYPE, v, "an integer");
    if (!in_range(d, f, v, "an integer"))
        return false;
    *out = value;
    return true;
}

static bool decode_real(srv_decoder *d, const srv_field *f, const json_t *v, double *out) {
    if (!json_is_number(v))
        return srv_field_refuse(d, SRV_TYPE, v, "a number");
    if (!in_range(d, f, v, "a number"))
        return false;
    *out = json_number_value(v);
    return true;
}

static bool decode_string(srv_decoder *d, const json_t *v, const char **out) {
    if (!json_is_string(v))
        return srv_field_refuse(d, SRV_TYPE, v, "a string");
    const char *text = copy_text(d, v);
    if (text)
        *out = text;
    return text != NULL;
}

static size_t count_choices(const char *const *choices) {
    size_t n = 0;
    while (choices[n])
        n++;
    return n;
}

/* "one of a, b, c" */
static void list_choices(const srv_field *f, const char *lead, char *text, size_t room) {
    size_t at = (size_t)snprintf(text, room, "%s", lead);
    for (size_t i = 0; f->choices[i] && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s\"%s\"", i ? ", " : "", f->choices[i]);
}

static bool refuse_choice(srv_decoder *d, const srv_field *f, const json_t *v) {
    char expected[400], found[FOUND_ROOM];
    list_choices(f, f->choices[1] ? "one of " : "", expected, sizeof expected);
    const char *near =
        json_is_string(v) ? srv_nearest(json_string_value(v), f->choices, count_choices(f->choices))
                          : NULL;
    srv_problem(d->req, json_is_string(v) ? SRV_VALUE : SRV_TYPE, d->path.text,
                "expected %s, found %s%s%s%s", expected, found_text(v, found),
                near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    return false;
}

static bool decode_choice(srv_decoder *d, const srv_field *f, const json_t *v, int *out) {
    for (int i = 0; json_is_string(v) && f->choices[i]; i++)
        if (strcmp(json_string_value(v), f->choices[i]) == 0) {
            *out = i;
            return true;
        }
    return refuse_choice(d, f, v);
}

bool srv_field_counts(srv_decoder *d, const srv_field *f, const json_t *v) {
    char expected[64];
    if (f->kind == SRV_UNION || f->max <= 0 || (double)json_array_size(v) <= f->max)
        return true;
    snprintf(expected, sizeof expected, "a list of at most %.0f", f->max);
    return srv_field_refuse(d, SRV_VALUE, v, expected);
}

static bool decode_flags(srv_decoder *d, const srv_field *f, const json_t *v, unsigned *out) {
    unsigned flags = 0;
    int choice = 0;
    if (!json_is_array(v)) {
        if (!decode_choice(d, f, v, &choice))
            return false;
        *out = 1u << choice;
        return true;
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        size_t mark = srv_path_index(&d->path, i);
        if (!decode_choice(d, f, json_array_get(v, i), &choice))
            return false;
        srv_path_back(&d->path, mark);
        flags |= 1u << choice;
    }
    *out = flags;
    return true;
}

static bool decode_ints(srv_decoder *d, const srv_field *f, const json_t *v, srv_ints *out) {
    if (!json_is_array(v))
        return srv_field_refuse(d, SRV_TYPE, v, "a list of integers");
    size_t count = json_array_size(v);
    if (!srv_field_counts(d, f, v))
        return false;
    int64_t *values = srv_field_take(d, count, sizeof *values);
    if (!values)
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t mark = srv_path_index(&d->path, i);
        if (!integer_of(json_array_get(v, i), &values[i]))
            return srv_field_refuse(d, SRV_TYPE, json_array_get(v, i), "an integer");
        srv_path_back(&d->path, mark);
    }
    *out = (srv_ints){values, count};
    return true;
}

static bool decode_strings(srv_decoder *d, const srv_field *f, const json_t *v, srv_strings *out) {
    if (!json_is_array(v))
        return srv_field_refuse(d, SRV_TYPE, v, "a list of strings");
    size_t count = json_array_size(v);
    if (!srv_field_counts(d, f, v))
        return false;
    const char **values = srv_field_take(d, count, sizeof *values);
    if (!values)
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t mark = srv_path_index(&d->path, i);
        if (!decode_string(d, json_array_get(v, i), &values[i]))
            return false;
        srv_path_back(&d->path, mark);
    }
    *out = (srv_strings){values, count};
    return true;
}

static bool decode_texts(srv_decoder *d, const srv_field *f, const json_t *v, srv_strings *out) {
    if (!json_is_string(v))
        return json_is_array(v) ? decode_strings(d, f, v, out)
                                : srv_field_refuse(d, SRV_TYPE, v, "a string or a list of strings");
    const char **values = srv_field_take(d, 1, sizeof *values);
    if (!values || !decode_string(d, v, values))
        return false;
    *out = (srv_strings){values, 1};
    return true;
}

static bool decode_words(srv_decoder *d, const srv_field *f, const json_t *v, srv_words *out) {
    const size_t n = json_array_size(v);
    const bool many = n > 0 && json_is_array(json_array_get(v, 0));
    if (!json_is_array(v))
        return srv_field_refuse(d, SRV_TYPE, v, "a list of strings, or a list of such lists");
    srv_strings *lists = srv_field_take(d, many ? n : 1, sizeof *lists);
    if (!lists || (!many && !decode_strings(d, f, v, lists)))
        return false;
    for (size_t i = 0; many && i < n; i++) {
        const size_t mark = srv_path_index(&d->path, i);
        if (!decode_strings(d, f, json_array_get(v, i), &lists[i]))
            return false;
        srv_path_back(&d->path, mark);
    }
    *out = (srv_words){lists, many ? n : 1};
    return true;
}

/* The envelope put an index where the table has a tensor; anything else there is not ours. */
static bool decode_tensor(srv_decoder *d, const json_t *v, attn_tensor *out) {
    const attn_tensor *t = srv_envelope_tensor(
        &d->envelope, json_is_integer(v) ? json_integer_value(v) : -1, d->path.text);
    if (!t)
        return srv_field_refuse(d, SRV_TYPE, v, "a tensor");
    *out = *t;
    return true;
}

static bool refuse_union(srv_decoder *d, const srv_field *f, const json_t *v) {
    char expected[400];
    const char *parts[3];
    size_t at = 0, count = 0, room = sizeof expected, names = 0;
    if (f->accepts & (SRV_U_NUMBER | SRV_U_INT))
        parts[count++] = f->accepts & SRV_U_NUMBER ? "a number" : "an integer";
    if (f->accepts & SRV_U_FALSE)
        parts[count++] = "false";
    if (f->accepts & SRV_U_INTS)
        parts[count++] = "a list of integers";
    if (f->accepts & SRV_U_STRING)
        names = count_choices(f->choices);
    for (size_t i = 0; i < count + names && at < room; i++) {
        bool last = i > 0 && i + 1 == count + names, comma = i > 1;
        const char *between = last ? (comma ? ", or " : " or ") : ", ";
        at += i < count
                  ? (size_t)snprintf(expected + at, room - at, "%s%s", i ? between : "", parts[i])
                  : (size_t)snprintf(expected + at, room - at, "%s\"%s\"", i ? between : "",
                                     f->choices[i - count]);
    }
    bool other_text = json_is_string(v) && (f->accepts & SRV_U_STRING);
    return srv_field_refuse(d, other_text ? SRV_VALUE : SRV_TYPE, v, expected);
}

static bool decode_union(srv_decoder *d, const srv_field *f, const json_t *v, srv_union *out) {
    srv_union u = {0};
    if (json_is_false(v) && (f->accepts & SRV_U_FALSE)) {
        u.is = SRV_U_FALSE;
    } else if ((f->accepts & SRV_U_INT) && integer_of(v, &u.integer)) {
        u.is = SRV_U_INT;
        u.number = (double)u.integer;
    } else if (json_is_number(v) && (f->accepts & SRV_U_NUMBER)) {
        u.is = SRV_U_NUMBER;
        u.number = json_number_value(v);
    } else if (json_is_array(v) && (f->accepts & SRV_U_INTS)) {
        u.is = SRV_U_INTS;
        if (!decode_ints(d, f, v, &u.ints))
            return false;
    } else if (json_is_string(v) && (f->accepts & SRV_U_STRING)) {
        u.is = SRV_U_STRING;
        if (!decode_choice(d, f, v, &u.choice))
            return false;
    }
    if (!u.is)
        return refuse_union(d, f, v);
    if (json_is_number(v) && !in_range(d, f, v, "a number"))
        return false;
    *out = u;
    return true;
}

bool srv_field_value(srv_decoder *d, const srv_field *f, const json_t *v, void *out) {
    switch (f->kind) {
    case SRV_BOOL:
        if (!json_is_boolean(v))
            return srv_field_refuse(d, SRV_TYPE, v, "true or false");
        *(bool *)out = json_is_true(v);
        return true;
    case SRV_INT:
        return decode_int(d, f, v, out);
    case SRV_REAL:
        return decode_real(d, f, v, out);
    case SRV_STRING:
        return decode_string(d, v, out);
    case SRV_ENUM:
        return decode_choice(d, f, v, out);
    case SRV_FLAGS:
        return decode_flags(d, f, v, out);
    case SRV_TENSOR:
        return decode_tensor(d, v, out);
    case SRV_INTS:
        return decode_ints(d, f, v, out);
    case SRV_STRINGS:
        return decode_strings(d, f, v, out);
    case SRV_TEXTS:
        return decode_texts(d, f, v, out);
    case SRV_WORDS:
        return decode_words(d, f, v, out);
    case SRV_UNION:
        return decode_union(d, f, v, out);
    case SRV_OBJECT:
    case SRV_OBJECTS:
        break; /* what they hold is not of this file */
    }
    return false;
}
