/* The JSON writer. Text in an arena moves to a block of at least twice the size when it is full;
 * the old block stays in the arena. */
#include "json/json_write.h"

#include <math.h>
#include <string.h>

#include "number/base64.h"
#include "number/number.h"
#include "number/print_small.h"

enum {
    FIRST_ROOM = 1024,  /* first size of a block in bytes */
    CHECKED = 64 << 10, /* number of bytes of text between two checks of `control`, about 0.1 ms */
    TAIL = 4096         /* bytes that attn_json_reserve adds to those that are asked for */
};

/* --- the text --- */

/* Moves the text to a block of `room` bytes. If there is no memory, changes nothing and returns
 * false. */
static bool move_text(attn_json_text *j, size_t room) {
    char *data = j->arena ? attn_arena_take(j->arena, room) : NULL;
    if (!data)
        return false;
    if (j->size)
        memcpy(data, j->data, j->size);
    j->data = data;
    j->room = room;
    return true;
}

static bool grow_text(attn_json_text *j, size_t more) {
    size_t need;
    if (!attn_size_add(j->size, more, &need) || need > SIZE_MAX / 4)
        return false;
    const size_t twice = 2 * j->room > FIRST_ROOM ? 2 * j->room : FIRST_ROOM;
    return move_text(j, need > twice ? need : twice) || move_text(j, need);
}

char *attn_json_room(attn_json_text *j, size_t n) {
    if (!j->failed && j->control && j->size - j->checked_at >= CHECKED) {
        attn_error err;
        j->failed = attn_control_check(j->control, &err) != ATTN_OK;
        j->checked_at = j->size;
    }
    if (!j->failed && n > j->room - j->size)
        j->failed = !grow_text(j, n);
    return j->failed ? NULL : j->data + j->size;
}

void attn_json_reserve(attn_json_text *j, size_t bytes) {
    size_t need;
    if (!j->failed && attn_size_add(j->size + TAIL, bytes, &need) && need > j->room)
        move_text(j, need);
}

void attn_json_put(attn_json_text *j, const char *bytes, size_t n) {
    char *p = attn_json_room(j, n);
    if (!p)
        return;
    memcpy(p, bytes, n);
    j->size += n;
}

void attn_json_value(attn_json_text *j) {
    if (j->comma)
        attn_json_put(j, ",", 1);
    j->comma = true;
}

/* --- objects and lists --- */

static void open_bracket(attn_json_text *j, const char *bracket) {
    attn_json_value(j);
    if (j->depth == ATTN_JSON_DEPTH) {
        j->failed = true;
        return;
    }
    attn_json_put(j, bracket, 1);
    j->depth++;
    j->comma = false;
}

static void close_bracket(attn_json_text *j, const char *bracket) {
    j->depth -= j->depth > 0;
    attn_json_put(j, bracket, 1);
    j->comma = true;
}

void attn_json_object(attn_json_text *j) {
    open_bracket(j, "{");
}

void attn_json_object_end(attn_json_text *j) {
    close_bracket(j, "}");
}

void attn_json_array(attn_json_text *j) {
    open_bracket(j, "[");
    j->lists++;
}

void attn_json_array_end(attn_json_text *j) {
    j->lists--;
    close_bracket(j, "]");
}

void attn_json_key(attn_json_text *j, const char *key) {
    j->names[j->depth] = key;
    j->key_at = j->size;
    attn_json_string(j, key);
    attn_json_put(j, ":", 1);
    j->comma = false;
}

bool attn_json_after_key(const attn_json_text *j) {
    return !j->comma && j->size && j->data[j->size - 1] == ':';
}

void attn_json_drop_key(attn_json_text *j) {
    j->comma = j->data[j->key_at] == ',';
    j->size = j->key_at;
}

/* --- values --- */

void attn_json_string_of(attn_json_text *j, const char *prefix, const char *text, size_t n) {
    size_t most;
    attn_json_value(j);
    char *p = attn_size_mul(n + strlen(prefix), ATTN_ESCAPE_MOST, &most) && most < SIZE_MAX / 4
                  ? attn_json_room(j, most + 2)
                  : NULL;
    j->failed |= !p;
    if (!p)
        return;
    *p++ = '"';
    p = attn_escape(p, prefix, strlen(prefix));
    p = attn_escape(p, text, n);
    *p++ = '"';
    j->size = (size_t)(p - j->data);
}

void attn_json_string(attn_json_text *j, const char *text) {
    if (text)
        attn_json_string_of(j, "", text, strlen(text));
    else
        attn_json_null(j);
}

void attn_json_strings(attn_json_text *j, const char *const *texts, size_t n) {
    attn_json_array(j);
    for (size_t i = 0; i < n; i++)
        attn_json_string(j, texts[i]);
    attn_json_array_end(j);
}

void attn_json_raw(attn_json_text *j, const char *text, size_t size) {
    attn_json_value(j);
    attn_json_put(j, text, size);
}

void attn_json_null(attn_json_text *j) {
    attn_json_raw(j, "null", 4);
}

void attn_json_bool(attn_json_text *j, bool value) {
    attn_json_raw(j, value ? "true" : "false", value ? 4 : 5);
}

void attn_json_int(attn_json_text *j, int64_t value) {
    char text[ATTN_NUMBER_TEXT];
    attn_json_raw(j, text, (size_t)(attn_write_i64(text, value) - text));
}

void attn_json_size(attn_json_text *j, size_t value) {
    if (value <= INT64_MAX)
        attn_json_int(j, (int64_t)value);
    else
        attn_json_real(j, (double)value);
}

char *attn_json_number(char *p, double value, int decimals) {
    if (!isfinite(value))
        return attn_put(p, "null");
    return decimals < 0 ? attn_write_f64(p, value) : attn_write_decimals(p, value, decimals);
}

void attn_json_real(attn_json_text *j, double value) {
    char text[ATTN_NUMBER_TEXT];
    attn_json_raw(j, text, (size_t)(attn_json_number(text, value, -1) - text));
}

void attn_json_float(attn_json_text *j, float value) {
    char text[ATTN_NUMBER_TEXT];
    const char *end = j->decimals < 0 && isfinite(value)
                          ? attn_write_f32(text, value)
                          : attn_json_number(text, value, j->decimals);
    attn_json_raw(j, text, (size_t)(end - text));
}

void attn_json_base64(attn_json_text *j, const void *bytes, size_t n) {
    attn_json_value(j);
    char *p = n < SIZE_MAX / 4 ? attn_json_room(j, attn_base64_length(n) + 2) : NULL;
    j->failed |= !p;
    if (!p)
        return;
    *p++ = '"';
    p = attn_base64_encode(p, bytes, n);
    *p++ = '"';
    j->size = (size_t)(p - j->data);
}

/* --- members --- */

void attn_json_key_object(attn_json_text *j, const char *key) {
    attn_json_key(j, key);
    attn_json_object(j);
}

void attn_json_key_array(attn_json_text *j, const char *key) {
    attn_json_key(j, key);
    attn_json_array(j);
}

#define KEYED(kind, type)                                                                          \
    void attn_json_key_##kind(attn_json_text *j, const char *key, type value) {                    \
        attn_json_key(j, key);                                                                     \
        attn_json_##kind(j, value);                                                                \
    }
KEYED(string, const char *)
KEYED(bool, bool)
KEYED(int, int64_t)
KEYED(size, size_t)
KEYED(real, double)
KEYED(float, float)

void attn_json_key_strings(attn_json_text *j, const char *key, const char *const *texts, size_t n) {
    attn_json_key(j, key);
    attn_json_strings(j, texts, n);
}

void attn_json_key_sizes(attn_json_text *j, const char *key, const size_t *values, size_t n) {
    attn_json_key_array(j, key);
    for (size_t i = 0; i < n; i++)
        attn_json_size(j, values[i]);
    attn_json_array_end(j);
}

void attn_json_key_ints(attn_json_text *j, const char *key, const int64_t *values, size_t n) {
    attn_json_key_array(j, key);
    for (size_t i = 0; i < n; i++)
        attn_json_int(j, values[i]);
    attn_json_array_end(j);
}
