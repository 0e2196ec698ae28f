/* Reads values that contain no other values (booleans, numbers, strings, and names out of a list of
 * choices) by the row of the field table. Also words the problems that refuse a value. */
#include "wire/decode_value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/nearest.h"
#include "number/number.h"
#include "wire/aliases.h"
#include "wire/tensor_read.h"

enum { FOUND_ROOM = 96 };

bool srv_refuse_memory(srv_decoder *d) {
    return attn_scan_memory(&d->s);
}

/* --- refusals --- */

/* Counts the elements of the list at p, for a problem. The text may be malformed. */
static size_t count_elements(const char *p, const char *end) {
    size_t depth = 0, commas = 0;
    bool any = false;
    while (p < end) {
        if (*p == '"') {
            any = true;
            p = attn_skip_string(p, end);
            continue;
        }
        if (*p == '[' || *p == '{') {
            any = any || depth > 0;
            depth++;
        } else if (*p == ']' || *p == '}') {
            if (--depth == 0)
                break;
        } else if (*p == ',') {
            commas += depth == 1;
        } else if (*p > ' ') {
            any = true;
        }
        p++;
    }
    return commas + any;
}

/* Describes the value at the cursor for a problem. NULL: the value is malformed, and a problem is
 * set. */
static const char *found_text(srv_decoder *d, char text[FOUND_ROOM]) {
    attn_scan *s = &d->s;
    const char *start = s->p, *string;
    srv_number n;
    if (!attn_scan_is_value(s)) {
        attn_scan_expected(s, "a value");
        return NULL;
    }
    switch (*start) {
    case '{':
        return "an object";
    case '[':
        snprintf(text, FOUND_ROOM, "a list of %zu", count_elements(start, s->end));
        return text;
    case '"':
        if (!srv_read_string(d, NULL, &string))
            return NULL;
        s->p = start;
        snprintf(text, FOUND_ROOM, "\"%.64s\"", string);
        return text;
    case 't':
        return "true";
    case 'f':
        return "false";
    case 'n':
        return "null";
    default:
        if (!srv_read_number(d, &n))
            return NULL;
        if (n.whole)
            snprintf(text, FOUND_ROOM, "%lld", (long long)n.i);
        else
            snprintf(text, FOUND_ROOM, "%g", n.x);
        return text;
    }
}

bool srv_refuse_value(srv_decoder *d, srv_code code, const char *expected) {
    char text[FOUND_ROOM];
    const char *found = found_text(d, text);
    if (found)
        srv_scan_refuse(&d->s, code, "expected %s, found %s", expected, found);
    return false;
}

size_t srv_count_choices(const char *const *choices) {
    size_t n = 0;
    while (choices[n])
        n++;
    return n;
}

/* Appends to `text`, which has n bytes, the types that the union of row f accepts besides its
 * names. `string` is the refused value. If it is a number in quotes, such as "3", the text gives
 * the list [3] as the example. */
static void add_types(const srv_field *f, const char *string, char *text, size_t n, size_t room) {
    const bool ints = f->accepts & SRV_U_INTS;
    const bool digits = string && *string && strspn(string, "0123456789") == strlen(string);
    if (f->kind != SRV_UNION || n >= room)
        return;
    snprintf(text + n, room - n, "%s%s%.20s%s",
             f->accepts & SRV_U_NUMBER ? " or a number"
             : f->accepts & SRV_U_INT  ? " or an integer"
                                       : "",
             ints ? " or a list of integers such as [" : "",
             !ints    ? ""
             : digits ? string
                      : "0",
             ints ? "]" : "");
}

size_t srv_choices_text(const char *const *choices, char *text, size_t size) {
    size_t at = (size_t)snprintf(text, size, "%s", choices[0] && choices[1] ? "one of " : "");
    for (size_t i = 0; choices[i] && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s\"%s\"", i ? ", " : "", choices[i]);
    return at;
}

/* Refuses the value at the cursor, because it is not one of the names in f->choices. `string` is
 * the text of the value; NULL: the value is not a string. */
static bool refuse_choice(srv_decoder *d, const srv_field *f, const char *string) {
    char expected[400], text[FOUND_ROOM], advice[SRV_ALIAS_ROOM];
    const size_t at = srv_choices_text(f->choices, expected, sizeof expected);
    add_types(f, string, expected, at, sizeof expected);
    const char *found = found_text(d, text);
    const char *alias =
        string ? srv_alias_of_choice(string, f->choices, advice, sizeof advice) : NULL;
    const char *near =
        string && !alias ? srv_nearest(string, f->choices, srv_count_choices(f->choices)) : NULL;
    if (found && alias)
        return srv_scan_refuse(&d->s, SRV_VALUE, "expected %s, found %s; %s", expected, found,
                               alias);
    if (found)
        return srv_scan_refuse(&d->s, string ? SRV_VALUE : SRV_TYPE, "expected %s, found %s%s%s%s",
                               expected, found, near ? "; did you mean \"" : "", near ? near : "",
                               near ? "\"?" : "");
    return false;
}

/* Appends the example of row f, as the JSON member "name": value, to `text`, which has n bytes. */
static void add_example(const srv_field *f, char *text, size_t n, size_t room) {
    if (f->example && n < room)
        snprintf(text + n, room - n, ", such as \"%s\": %s", f->name, f->example);
}

bool srv_refuse_object(srv_decoder *d, const srv_field *f) {
    enum { SHOWN = 4 };
    char text[320];
    size_t n = (size_t)snprintf(text, sizeof text, "%s%s",
                                f->accepts & SRV_O_STRINGS ? "a list of strings or " : "",
                                f->accepts & SRV_O_NAME     ? "a name or an object"
                                : f->accepts & SRV_O_NUMBER ? "a number or an object"
                                                            : "an object");
    const srv_field *field = f->fields;
    for (; field->name && field < f->fields + SHOWN && n < sizeof text; field++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%s\"",
                              field == f->fields ? " with " : ", ", field->name);
    if (n < sizeof text && field->name)
        n += (size_t)snprintf(text + n, sizeof text - n, ", …");
    add_example(f, text, n, sizeof text);
    return srv_refuse_value(d, SRV_TYPE, text);
}

bool srv_refuse_object_list(srv_decoder *d, const srv_field *f) {
    char text[320];
    size_t n = (size_t)snprintf(text, sizeof text, "a list of objects");
    add_example(f, text, n, sizeof text);
    return srv_refuse_value(d, SRV_TYPE, text);
}

/* --- numbers --- */

static bool is_whole(const char *from, const char *to) {
    for (; from < to; from++)
        if (*from == '.' || *from == 'e' || *from == 'E')
            return false;
    return true;
}

bool srv_read_number(srv_decoder *d, srv_number *n) {
    const double exact = 9007199254740992.0; /* 2^53: a double holds every integer up to it */
    attn_scan *s = &d->s;
    char found[ATTN_FOUND_ROOM];
    n->end = attn_read_f64(s->p, s->end, &n->x);
    if (!n->end)
        return attn_scan_expected(s, "a number as JSON writes it");
    n->whole = is_whole(s->p, n->end);
    n->integral = attn_read_i64(s->p, s->end, &n->i);
    if (!isfinite(n->x) || (n->whole && !n->integral))
        return srv_scan_refuse(s, SRV_VALUE, "expected a number within %s, found %s",
                               n->whole ? "64 bits" : "float64", attn_scan_found(s, found));
    if (n->whole)
        n->x = (double)n->i; /* -0 becomes 0 */
    if (!n->integral && fabs(n->x) <= exact && n->x == trunc(n->x)) {
        n->i = (int64_t)n->x;
        n->integral = true;
    }
    return true;
}

bool srv_in_range(srv_decoder *d, const srv_field *f, double x, const char *kind) {
    char expected[128];
    if ((f->min == 0 && f->max == 0) ||
        ((f->above ? x > f->min : x >= f->min) && (f->below ? x < f->max : x <= f->max)))
        return true;
    if (f->above && f->max >= 1e300)
        snprintf(expected, sizeof expected, "%s above %.16g", kind, f->min);
    else if (f->max >= 1e300)
        snprintf(expected, sizeof expected, "%s of %.16g or more", kind, f->min);
    else if (f->min <= -1e300)
        snprintf(expected, sizeof expected, "%s of %.16g or less", kind, f->max);
    else
        snprintf(expected, sizeof expected, "%s from %s%.16g to %s%.16g", kind,
                 f->above ? "above " : "", f->min, f->below ? "below " : "", f->max);
    return srv_refuse_value(d, SRV_VALUE, expected);
}

/* Reads the integer at the cursor. The cursor stays; *end points behind the integer. */
static bool read_integer(srv_decoder *d, int64_t *out, const char **end) {
    srv_number n;
    if (!attn_scan_is_number(&d->s))
        return srv_refuse_value(d, SRV_TYPE, "an integer");
    *end = attn_read_i64(d->s.p, d->s.end, out);
    if (*end)
        return true;
    if (!srv_read_number(d, &n))
        return false;
    *out = n.i;
    *end = n.end;
    return n.integral || srv_refuse_value(d, SRV_TYPE, "an integer");
}

bool srv_read_any_int(srv_decoder *d, const srv_field *f, void *out) {
    const char *end = NULL;
    (void)f;
    if (!read_integer(d, out, &end))
        return false;
    d->s.p = end;
    return true;
}

bool srv_read_int(srv_decoder *d, const srv_field *f, void *out) {
    const char *end = NULL;
    int64_t value;
    if (!read_integer(d, &value, &end) || !srv_in_range(d, f, (double)value, "an integer"))
        return false;
    if (f->narrow && value > INT32_MAX)
        return srv_refuse_value(d, SRV_VALUE, "an integer below 2^31");
    d->s.p = end;
    srv_int_store(f, out, value);
    return true;
}

bool srv_read_real(srv_decoder *d, const srv_field *f, void *out) {
    srv_number n;
    int word;
    if (f->choices && *d->s.p == '"') {
        if (!srv_read_choice(d, f, &word))
            return false;
        *(double *)out = word;
        return true;
    }
    if (!attn_scan_is_number(&d->s))
        return srv_refuse_value(d, SRV_TYPE, "a number");
    if (!srv_read_number(d, &n) || !srv_in_range(d, f, n.x, "a number"))
        return false;
    d->s.p = n.end;
    *(double *)out = n.x;
    return true;
}

/* --- booleans, strings and names --- */

bool srv_read_bool(srv_decoder *d, const srv_field *f, void *out) {
    const bool yes = attn_scan_word(&d->s, "true");
    if (!yes && !attn_scan_word(&d->s, "false"))
        return srv_refuse_value(d, SRV_TYPE, "true or false");
    *(bool *)out = yes != ((f->accepts & SRV_B_NOT) != 0);
    return true;
}

bool srv_read_string(srv_decoder *d, const srv_field *f, void *out) {
    const char *from, *to;
    bool escaped;
    (void)f;
    if (*d->s.p != '"')
        return srv_refuse_value(d, SRV_TYPE, "a string");
    if (!attn_scan_string(&d->s, &from, &to, &escaped))
        return false;
    char *text = attn_arena_text(d->s.arena, from, (size_t)(to - from));
    if (!text)
        return srv_refuse_memory(d);
    if (escaped)
        text[attn_unescape(text, from, to)] = 0;
    *(const char **)out = text;
    return true;
}

bool srv_read_choice(srv_decoder *d, const srv_field *f, void *out) {
    const char *start = d->s.p, *text;
    if (*start != '"')
        return refuse_choice(d, f, NULL);
    if (!srv_read_string(d, f, &text))
        return false;
    for (int i = 0; f->choices[i]; i++)
        if (strcmp(f->choices[i], text) == 0) {
            *(int *)out = f->first + i;
            return true;
        }
    d->s.p = start;
    return refuse_choice(d, f, text);
}

bool srv_read_tensor(srv_decoder *d, const srv_field *f, void *out) {
    attn_scan *s = &d->s;
    const unsigned accepts = srv_tensor_types(f);
    d->own.ragged = f->ragged;
    if (*s->p == '[') { /* the field accepts the type of the elements */
        srv_entries *entries =
            accepts & SRV_T_ENTRIES ? (void *)((char *)out - f->offset + f->entries) : NULL;
        return srv_tensor_nested(s, accepts, srv_tensor_dtype(s->p, accepts), out, entries);
    }
    return srv_tensor_object(s, accepts, out) && srv_tensor_as_numbers(d->own.req, accepts, out);
}

bool srv_read_raw(srv_decoder *d, const srv_field *f, void *out) {
    attn_scan *s = &d->s;
    const char *from, *to;
    bool escaped, ends;
    size_t depth = 0;
    (void)f;
    *(const char **)out = s->p;
    do {
        if (s->p >= s->end)
            return attn_scan_expected(s, "a value");
        if (*s->p == '"') {
            if (!attn_scan_string(s, &from, &to, &escaped))
                return false;
            ends = true;
        } else {
            ends = *s->p == ']' || *s->p == '}';
            depth += *s->p == '[' || *s->p == '{';
            depth -= ends && depth > 0;
            s->p++;
        }
    } while (depth > 0 || !(ends || strchr(",}] \n\r\t", *s->p)));
    return true;
}

/* --- ranges --- */

/* Reads "from:to" or an index at *p, and moves *p behind it. false: *p has neither. */
static bool read_bounds(const char **p, srv_bounds *out) {
    int64_t ends[2] = {0, 0};
    size_t n = 0;
    for (; n < 2; n++) {
        const size_t digits = strspn(*p, "0123456789");
        if (digits == 0 || digits > 15 || (**p == '0' && digits > 1))
            return false;
        for (size_t i = 0; i < digits; i++)
            ends[n] = 10 * ends[n] + (*(*p)++ - '0');
        if (n == 1 || **p != ':')
            break;
        ++*p;
    }
    *out = (srv_bounds){ends[0], n ? ends[1] : ends[0] + 1};
    return true;
}

bool srv_read_ranges_text(srv_decoder *d, const srv_field *f, void *out) {
    const bool many = f->accepts & SRV_R_MANY;
    const char *start = d->s.p, *text;
    size_t most = 1, n = 0;
    if (!srv_read_string(d, f, &text))
        return false;
    for (const char *p = text; *p; p++)
        most += *p == ',';
    srv_bounds *items = attn_arena_zeroed(d->s.arena, most, sizeof *items);
    if (!items)
        return srv_refuse_memory(d);
    for (const char *p = text; read_bounds(&p, &items[n]); p++) {
        n++;
        if (!*p) {
            *(srv_ranges *)out = (srv_ranges){items, n, text};
            return true;
        }
        if (!many || *p != ',')
            break;
    }
    d->s.p = start;
    return srv_refuse_value(
        d, SRV_VALUE,
        many ? "\"5\", \"5:9\" or a list of them such as \"5,9,100:104\" (from:to, "
               "without the end)"
             : "\"5\" or \"5:9\" (from:to, without the end)");
}
