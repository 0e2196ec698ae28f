/* Writes the JSON schemas of answers for openapi.json from the rows of the answers. The types of
 * rows are in the notation of wire/answer.h. */
#include <ctype.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "api/service/schema.h"

static void put_property(attn_json_text *j, const srv_field *f);

/* --- objects with rows --- */

/* Calls `put` for each row. The rows of an object whose name is "" are treated as rows of this
 * table. The argument `always` of `put` says whether the member is always present. It is false for
 * all rows if `always` is false, else f->always. */
static void each_row(attn_json_text *j, const srv_field *rows, bool always,
                     void (*put)(attn_json_text *j, const srv_field *f, bool always)) {
    for (const srv_field *f = rows; f->name; f++)
        if (*f->name)
            put(j, f, always && f->always);
        else
            each_row(j, f->fields, always && f->always, put);
}

static void put_if_always(attn_json_text *j, const srv_field *f, bool always) {
    if (!always)
        return;
    if (attn_json_after_key(j))
        attn_json_array(j);
    attn_json_string(j, f->name);
}

static void put_row(attn_json_text *j, const srv_field *f, bool always) {
    (void)always;
    attn_json_key(j, f->name);
    put_property(j, f);
}

static void put_rows(attn_json_text *j, const srv_field *f) {
    if (!(f->accepts & SRV_O_OPEN))
        attn_json_key_bool(j, "additionalProperties", false);
    attn_json_key(j, "required");
    each_row(j, f->fields, true, put_if_always);
    if (attn_json_after_key(j))
        attn_json_drop_key(j);
    else
        attn_json_array_end(j);
    attn_json_key_object(j, "properties");
    each_row(j, f->fields, true, put_row);
    attn_json_object_end(j);
}

/* --- types in the notation --- */

static const char *put_types(attn_json_text *j, const char *at, const srv_field *f);

/* Writes "type": "integer" or, if a question mark stands at `at`, "type": ["integer", "null"].
 * Returns the position in the notation, behind the question mark if there is one. */
static const char *put_name(attn_json_text *j, const char *name, size_t n, const char *at) {
    attn_json_key(j, "type");
    if (*at == '?')
        attn_json_array(j);
    attn_json_string_of(j, "", name, n);
    if (*at == '?') {
        attn_json_string(j, "null");
        attn_json_array_end(j);
    }
    return at + (*at == '?');
}

static void put_choices(attn_json_text *j, const srv_field *f, bool nullable) {
    attn_json_key_array(j, "enum");
    for (size_t i = 0; f->choices[i]; i++)
        attn_json_string(j, f->choices[i]);
    if (nullable)
        attn_json_null(j);
    attn_json_array_end(j);
}

/* Writes the bounds of a number. A plus at `at` is followed by the bounds; without a plus, the row
 * has them. Returns the position behind the bounds in the notation. */
static const char *put_bounds(attn_json_text *j, const char *at, const srv_field *f) {
    const bool least = *at == '+';
    at += least;
    if (least)
        attn_json_key_int(j, "minimum", *at == ' ' ? 0 : atol(at));
    else if (f->min != 0 || f->max != 0)
        attn_json_key_real(j, "minimum", f->min);
    if (f->max != 0 && f->max < DBL_MAX)
        attn_json_key_real(j, "maximum", f->max);
    return least ? at + strspn(at, "-0123456789") : at;
}

/* If `mark` stands at `at`, writes the text behind it as the member `key`. The text is the format
 * or the media type of a string. Returns the position behind this text. */
static const char *put_suffix(attn_json_text *j, const char *at, char mark, const char *key) {
    const size_t n = *at == mark ? 1 + strcspn(at + 1, "?]}>|;") : 0;
    if (n == 0)
        return at;
    attn_json_key(j, key);
    attn_json_string_of(j, "", at + 1, n - 1);
    return at + n;
}

static const char *put_word(attn_json_text *j, const char *at, const srv_field *f) {
    const size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz");
    const char *end = at + n;
    if (strncmp(at, "any", n) == 0)
        return end;
    if (strncmp(at, "base64", 6) == 0) {
        attn_json_key_string(j, "contentEncoding", "base64");
        return put_name(j, "string", 6, at + 6);
    }
    if (strncmp(at, "string", n) != 0)
        end = put_bounds(j, end, f);
    else if (f->choices)
        put_choices(j, f, *end == '?');
    else
        end = put_suffix(j, put_suffix(j, end, ':', "format"), ';', "contentMediaType");
    return put_name(j, at, n, end);
}

/* If a count of elements or members stands at `at` (" 3", " 1+" or " 0-16"), writes the smallest
 * and the largest allowed number as members with the names `least` and `most`. Returns the position
 * behind the count. */
static const char *put_count(attn_json_text *j, const char *at, const char *least,
                             const char *most) {
    char *end;
    if (*at != ' ')
        return at;
    const long from = strtol(at + 1, &end, 10);
    const bool open = *end == '+';
    const long to = *end == '-' ? strtol(end + 1, &end, 10) : from;
    if (from > 0)
        attn_json_key_int(j, least, from);
    if (!open)
        attn_json_key_int(j, most, to);
    return end + open;
}

/* Writes the schema of a string whose text is JSON. `at` is the opening bracket of the type of this
 * JSON. */
static const char *put_json_text(attn_json_text *j, const char *at, const srv_field *f) {
    attn_json_key_string(j, "contentMediaType", "application/json");
    attn_json_key_object(j, "contentSchema");
    at = put_types(j, at + 1, f);
    attn_json_object_end(j);
    return put_name(j, "string", 6, at + 1);
}

/* Writes the schema of a list, or of an object whose members may have any names. `at` is the
 * opening bracket in the notation. */
static const char *put_many(attn_json_text *j, const char *at, const srv_field *f) {
    const bool list = *at == '[';
    attn_json_key_object(j, list ? "items" : "additionalProperties");
    at = put_types(j, at + 1, f);
    attn_json_object_end(j);
    at = put_count(j, at, list ? "minItems" : "minProperties", list ? "maxItems" : "maxProperties");
    return put_name(j, list ? "array" : "object", list ? 5 : 6, at + 1);
}

static const char *put_one_type(attn_json_text *j, const char *at, const srv_field *f) {
    if (*at == '[' || *at == '{')
        return put_many(j, at, f);
    if (*at == '<')
        return put_json_text(j, at, f);
    if (*at == '*') {
        put_rows(j, f);
        return put_name(j, "object", 6, at + 1);
    }
    if (islower((unsigned char)*at))
        return put_word(j, at, f);
    const size_t n = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
    attn_json_key(j, "$ref");
    attn_json_string_of(j, "#/components/schemas/", at, n);
    return at + n;
}

/* Returns whether the notation has several types from `at` to its end, or to the closing bracket of
 * the list or object in which `at` is. */
static bool has_alternatives(const char *at) {
    for (int depth = 0; *at && depth >= 0; at++) {
        if (depth == 0 && *at == '|')
            return true;
        depth += strchr("[{<", *at) != NULL;
        depth -= strchr("]}>", *at) != NULL;
    }
    return false;
}

/* Writes the members of a schema for the type or types at `at`. Returns the position behind the
 * last type. */
static const char *put_types(attn_json_text *j, const char *at, const srv_field *f) {
    if (!has_alternatives(at))
        return put_one_type(j, at, f);
    attn_json_key_array(j, "anyOf");
    for (bool more = true; more; at += more) {
        attn_json_object(j);
        at = put_one_type(j, at, f);
        attn_json_object_end(j);
        more = *at == '|';
    }
    attn_json_array_end(j);
    return at;
}

/* Returns the type of the values of a row's kind, in the notation of wire/answer.h. */
static const char *kind_type(const srv_field *f) {
    switch (f->kind) {
    case SRV_BOOL:
        return "boolean";
    case SRV_INT:
        return f->min != 0 || f->max != 0 ? "integer" : "integer+";
    case SRV_REAL:
        return "number";
    case SRV_TENSOR:
        return "Numbers";
    case SRV_INTS:
        return "[integer]";
    case SRV_STRINGS:
        return "[string]";
    case SRV_OBJECT:
        return "*";
    case SRV_OBJECTS:
        return "[*]";
    default:
        return "string";
    }
}

static void put_property(attn_json_text *j, const srv_field *f) {
    const char *type = f->type ? f->type : kind_type(f);
    if (strncmp(type, "{\"", 2) == 0) {
        attn_json_raw(j, type, strlen(type));
        return;
    }
    attn_json_object(j);
    if (f->doc)
        attn_json_key_string(j, "description", f->doc);
    put_types(j, type, f);
    attn_json_object_end(j);
}

void srv_schema_answers(attn_json_text *j, const srv_field *schemas) {
    for (const srv_field *f = schemas; f->name; f++)
        put_row(j, f, true);
}
