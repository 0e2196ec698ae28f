#include "runs/members.h"
#include "base/try.h"

#include <attn/text.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- errors --- */

void attn_run_refuse(attn_run_reader *r, attn_status status, const char *member, const char *format,
                     ...) {
    char text[sizeof r->err->text], where[sizeof r->err->where];
    va_list arguments;
    if (r->status)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(where, sizeof where, "%s%s%.60s", r->at, *r->at && *member ? "/" : "", member);
    r->status = attn_fail(r->err, status, where, "%s", text);
}

void attn_run_refuse_error(attn_run_reader *r, const attn_error *inner) {
    attn_run_refuse(r, inner->code, inner->where, "%s", inner->text);
}

void attn_run_refuse_unknown(attn_run_reader *r, const attn_json *object, const char *where) {
    const attn_json *unknown = attn_json_unknown(object);
    char member[96];
    if (!unknown)
        return;
    snprintf(member, sizeof member, "%s%s%.48s", where, *where ? "/" : "", unknown->key);
    attn_run_refuse(r, ATTN_EARG, member,
                    "there is no such member; names of your own begin with \"x-\"");
}

bool attn_run_expect(attn_run_reader *r, const attn_json *value, attn_json_kind kind,
                     const char *member, const char *what) {
    if (value->kind == kind)
        return !r->status;
    attn_run_refuse(r, ATTN_EARG, member, "expected %s, found %s", what,
                    attn_json_kind_name(value));
    return false;
}

void *attn_run_take(attn_run_reader *r, size_t count, size_t size) {
    void *taken = r->status ? NULL : attn_arena_zeroed(r->run->arena, count + 1, size);
    if (!taken && !r->status)
        r->status = attn_no_memory(r->err, "the stored run");
    return taken;
}

/* --- tensors --- */

/* Writes "where/member" to `to`. */
static const char *join(char to[96], const char *where, const char *member) {
    snprintf(to, 96, "%s%s%.40s", where, *where ? "/" : "", member);
    return to;
}

const attn_tensor *attn_run_named_tensor(attn_run_reader *r, const char *place, const char *name) {
    const attn_tensor *found = attn_run_find_tensor(r->run, name);
    for (size_t i = 0; i < r->run->file.unusable_count && !found; i++) {
        const attn_unusable_tensor *t = &r->run->file.unusable[i];
        if (strcmp(t->name, name) == 0)
            attn_run_refuse(r, t->code, place, "tensor \"%.64s\": %s", name, t->reason);
    }
    if (!found)
        attn_run_refuse(r, ATTN_EARG, place, "the file has no tensor with the name \"%.64s\"",
                        name);
    return r->status ? NULL : found;
}

void attn_run_check_aligned(attn_run_reader *r, const char *place, const char *name,
                            const attn_tensor *t) {
    if (!attn_tensor_is_aligned(t))
        attn_run_refuse(
            r, ATTN_EARG, place,
            "the data of tensor \"%.64s\" does not begin at a multiple of its element size", name);
}

static void read_tensor(attn_run_reader *r, const attn_json *named, const char *place,
                        attn_tensor *out) {
    char usual[128];
    if (named && !attn_run_expect(r, named, ATTN_JSON_STRING, place, "the name of a tensor"))
        return;
    snprintf(usual, sizeof usual, "sites.%zu.%s", r->index, place);
    for (char *p = usual; *p; p++)
        *p = *p == '/' ? '.' : *p;
    const char *name = named ? named->text : usual;
    const attn_tensor *found =
        named ? attn_run_named_tensor(r, place, name) : attn_run_find_tensor(r->run, name);
    if (found) {
        attn_run_check_aligned(r, place, name, found);
        *out = *found;
    }
}

/* --- values --- */

int attn_run_word(const attn_json *value, const char *const *words) {
    for (int i = 0; value && value->kind == ATTN_JSON_STRING && words[i]; i++)
        if (strcmp(words[i], value->text) == 0)
            return i;
    return -1;
}

static bool read_seed(const attn_json *value, uint64_t *out) {
    const char *p = value->kind == ATTN_JSON_STRING ? value->text : "", *start = p;
    uint64_t seed = 0;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(seed, (uint64_t)10, &seed) ||
            __builtin_add_overflow(seed, (uint64_t)(*p - '0'), &seed))
            return false;
    *out = seed;
    return !*p && p > start;
}

/* Stores the value at `at`. Returns false if the row does not allow the value. */
static bool read_value(const attn_json *value, const attn_input *row, void *at) {
    int64_t integer;
    switch (row->type) {
    case ATTN_INPUT_REAL:
        if (row->words && value->kind == ATTN_JSON_STRING) {
            const int word = attn_run_word(value, row->words);
            *(double *)at = row->least + word;
            return word >= 0;
        }
        memcpy(at, &value->number, sizeof value->number);
        return value->kind == ATTN_JSON_NUMBER && value->number >= row->least &&
               value->number <= row->most;
    case ATTN_INPUT_SIZE:
        if (!attn_json_integer(value, (int64_t)row->least, (int64_t)row->most, &integer))
            return false;
        if (row->narrow)
            *(uint32_t *)at = (uint32_t)integer;
        else
            memcpy(at, &integer, sizeof integer);
        return integer <= (int64_t)(row->narrow ? UINT32_MAX : INT64_MAX);
    case ATTN_INPUT_FLAG:
    case ATTN_INPUT_NOT:
        *(bool *)at = value->truth != (row->type == ATTN_INPUT_NOT);
        return value->kind == ATTN_JSON_BOOL;
    case ATTN_INPUT_WORD:
        *(int *)at = attn_run_word(value, row->words) + (int)row->least;
        return *(int *)at >= (int)row->least;
    case ATTN_INPUT_SEED:
        return read_seed(value, at);
    case ATTN_INPUT_TEXT:
        memcpy(at, &value->text, sizeof value->text);
        return value->kind == ATTN_JSON_STRING && (!row->least || *value->text);
    default:
        return false;
    }
}

static void refuse_word(attn_run_reader *r, const attn_json *value, const char *place,
                        const char *const *words) {
    char all[160] = "";
    size_t used = 0;
    for (size_t i = 0; words[i] && used < sizeof all; i++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", words[i]);
    attn_run_refuse(r, ATTN_EARG, place, "expected one of %s, found %.64s", all,
                    value->kind == ATTN_JSON_STRING ? value->text : attn_json_kind_name(value));
}

static void refuse_number(attn_run_reader *r, const attn_json *value, const char *place,
                          const attn_input *row) {
    if (row->most == ATTN_INPUT_FARTHEST)
        attn_run_refuse(
            r, ATTN_EARG, place, "expected an integer from %g to 2^40, found %s", row->least,
            value->kind == ATTN_JSON_NUMBER ? "another number" : attn_json_kind_name(value));
    else
        attn_run_refuse(
            r, ATTN_EARG, place, "expected %s from %g to %g, found %s",
            row->type == ATTN_INPUT_SIZE ? "an integer" : "a number", row->least, row->most,
            value->kind == ATTN_JSON_NUMBER ? "another number" : attn_json_kind_name(value));
}

static void refuse_value(attn_run_reader *r, const attn_json *value, const char *place,
                         const attn_input *row) {
    if (row->type == ATTN_INPUT_WORD)
        refuse_word(r, value, place, row->words);
    else if (row->type == ATTN_INPUT_SEED)
        attn_run_refuse(r, ATTN_EARG, place, "expected a string of decimal digits below 2^64");
    else if (row->type == ATTN_INPUT_TEXT)
        attn_run_refuse(r, ATTN_EARG, place, "expected a string%s",
                        row->least ? " that is not empty" : "");
    else if (row->type == ATTN_INPUT_FLAG || row->type == ATTN_INPUT_NOT)
        attn_run_expect(r, value, ATTN_JSON_BOOL, place, "true or false");
    else
        refuse_number(r, value, place, row);
}

void attn_run_read_row(attn_run_reader *r, attn_json *object, const char *where,
                       const attn_input *row, void *to) {
    const attn_json *value = attn_json_member(object, row->name);
    char place[96];
    if (r->status)
        return;
    /* Two rows have the name `scale`: a number, and a tensor, which is a string in the file. */
    if (value && strcmp(row->name, "scale") == 0 &&
        (value->kind == ATTN_JSON_STRING) != attn_input_is_tensor(row))
        return;
    join(place, where, row->name);
    if (attn_input_is_tensor(row))
        read_tensor(r, value, place, attn_tensor_at(to, row->offset));
    else if (value && !read_value(value, row, (char *)to + row->offset))
        refuse_value(r, value, place, row);
}

void attn_run_read_rows(attn_run_reader *r, attn_json *object, const char *where,
                        const attn_input *rows, void *to) {
    for (; rows->name; rows++)
        if (strcmp(rows->object, where) == 0)
            attn_run_read_row(r, object, where, rows, to);
}

int64_t *attn_run_read_integers(attn_run_reader *r, const attn_json *list, const char *member,
                                size_t count, int64_t least, int64_t most) {
    if (list->kind != ATTN_JSON_LIST || list->count != count)
        attn_run_refuse(r, ATTN_ESHAPE, member, "expected a list of %zu number%s, found %s", count,
                        attn_plural(count),
                        list->kind == ATTN_JSON_LIST ? "another number of them"
                                                     : attn_json_kind_name(list));
    int64_t *values = attn_run_take(r, count, sizeof *values), *at = values;
    for (const attn_json *v = list->first; v && values && !r->status; v = v->next)
        if (!attn_json_integer(v, least, most, at++))
            attn_run_refuse(r, ATTN_EVALUE, member,
                            "expected integers from %lld to %lld, found %s at index %zu",
                            (long long)least, (long long)most,
                            v->kind == ATTN_JSON_NUMBER ? "another number" : attn_json_kind_name(v),
                            (size_t)(at - values - 1));
    return r->status ? NULL : values;
}

/* --- writing --- */

void attn_run_write_value(attn_json_text *t, const attn_input *row, const void *from) {
    const void *at = (const char *)from + row->offset;
    const char *const *text = at;
    int64_t integer;
    double real;
    char digits[24];
    attn_json_key(t, row->name);
    if (row->type == ATTN_INPUT_WORD) {
        attn_json_string(t, row->words[*(const int *)at - (int)row->least]);
        return;
    }
    if (row->type == ATTN_INPUT_FLAG || row->type == ATTN_INPUT_NOT) {
        attn_json_bool(t, *(const bool *)at != (row->type == ATTN_INPUT_NOT));
        return;
    }
    if (row->narrow)
        integer = *(const uint32_t *)at;
    else
        memcpy(&integer, at, sizeof integer);
    memcpy(&real, at, sizeof real);
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)integer);
    if (row->type == ATTN_INPUT_REAL)
        attn_json_real(t, real);
    else if (row->type == ATTN_INPUT_SIZE)
        attn_json_int(t, integer);
    else
        attn_json_string(t, row->type == ATTN_INPUT_SEED ? digits : *text);
}

/* Returns whether the member has the same value in both structs. A NaN counts as the same value,
 * because it is the default of a scale. */
static bool is_usual(const attn_input *row, const void *from, const void *usual) {
    const size_t size = row->type == ATTN_INPUT_WORD                                  ? sizeof(int)
                        : row->type == ATTN_INPUT_FLAG || row->type == ATTN_INPUT_NOT ? sizeof(bool)
                                                                                      : 8;
    double real = 0;
    if (row->type == ATTN_INPUT_REAL)
        memcpy(&real, (const char *)from + row->offset, sizeof real);
    return isnan(real) ||
           memcmp((const char *)from + row->offset, (const char *)usual + row->offset, size) == 0;
}

void attn_run_write_rows(const attn_run_naming *to, const char *where, const attn_input *rows,
                         const void *from, const void *usual) {
    for (; rows->name; rows++) {
        const attn_tensor *t = attn_tensor_at(from, rows->offset);
        char member[96];
        if (strcmp(rows->object, where) != 0)
            continue;
        if (!attn_input_is_tensor(rows) && !is_usual(rows, from, usual))
            attn_run_write_value(to->text, rows, from);
        if (attn_input_is_tensor(rows) && t->rank)
            attn_run_write_text(to->text, rows->name,
                                to->tensor(to->ctx, join(member, where, rows->name), t));
    }
}

void attn_run_write_text(attn_json_text *t, const char *key, const char *text) {
    if (!text)
        return;
    attn_json_key_string(t, key, text);
}

void attn_run_write_integers(attn_json_text *t, const char *key, const int64_t *values, size_t n) {
    if (!values)
        return;
    attn_json_key_ints(t, key, values, n);
}

void attn_run_write_texts(attn_json_text *t, const char *key, const char *const *texts, size_t n) {
    if (!texts)
        return;
    attn_json_key_strings(t, key, texts, n);
}
