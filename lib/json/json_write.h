/* Writes JSON (RFC 8259) as text that grows in an arena or fills a buffer. The functions write the
 * commas and colons, too. If memory runs out, `failed` is set and later calls do nothing. */
#ifndef ATTN_JSON_WRITE_H
#define ATTN_JSON_WRITE_H

#include "attn/memory.h"
#include "attn/pool.h"

#define ATTN_JSON_DEPTH 32 /* largest depth of nested lists and objects in a text */

/* A text that is being written. The caller sets `arena`, or `data` and `room`, and `decimals`. The
 * members from `size` on must be 0 in the beginning. */
typedef struct attn_json_text {
    attn_arena *arena; /* NULL: `data` is a buffer of fixed size */
    char *data;
    size_t room;
    int decimals; /* digits behind the point of floats; -1: the fewest that read back the same */
    const attn_control *control; /* when to stop a long text, by setting `failed`; NULL: never */
    void *owner, *aside;         /* for the caller's own functions that write values */

    size_t size; /* bytes of the text so far */
    bool failed; /* memory ran out, `control` stopped it, or the nesting is too deep */
    bool comma;  /* a comma must precede the next value at this depth */
    int depth;   /* number of open objects and lists */
    int lists;   /* number of open lists */
    const char *names[ATTN_JSON_DEPTH + 1]; /* the last key at each depth */
    /* position at which the last key begins, with its comma */
    size_t key_at;
    size_t checked_at; /* value of `size` at the last check of `control` */
} attn_json_text;

void attn_json_object(attn_json_text *j);
void attn_json_object_end(attn_json_text *j);
void attn_json_array(attn_json_text *j);
void attn_json_array_end(attn_json_text *j);
void attn_json_key(attn_json_text *j, const char *key);
void attn_json_string(attn_json_text *j, const char *text); /* escapes the text; NULL writes null */
/* Writes `prefix` and the first n bytes of `text` as one string. */
void attn_json_string_of(attn_json_text *j, const char *prefix, const char *text, size_t n);
/* writes a list of strings */
void attn_json_strings(attn_json_text *j, const char *const *texts, size_t n);
void attn_json_bool(attn_json_text *j, bool value);
void attn_json_int(attn_json_text *j, int64_t value);
void attn_json_size(attn_json_text *j, size_t value);
/* Writes a double with the fewest digits that read back as the same value. NaN and infinities
 * become null. */
void attn_json_real(attn_json_text *j, double value);
/* Writes a float32 as attn_json_real writes a double, or with j->decimals digits behind the
 * point. */
void attn_json_float(attn_json_text *j, float value);
void attn_json_null(attn_json_text *j);
/* writes a complete JSON value unchanged */
void attn_json_raw(attn_json_text *j, const char *text, size_t size);
/* writes n bytes as a string */
void attn_json_base64(attn_json_text *j, const void *bytes, size_t n);

/* Write a member: the key and its value, or the key and the bracket that opens its value. */
void attn_json_key_object(attn_json_text *j, const char *key);
void attn_json_key_array(attn_json_text *j, const char *key);
void attn_json_key_string(attn_json_text *j, const char *key, const char *text);
void attn_json_key_bool(attn_json_text *j, const char *key, bool value);
void attn_json_key_int(attn_json_text *j, const char *key, int64_t value);
void attn_json_key_size(attn_json_text *j, const char *key, size_t value);
void attn_json_key_real(attn_json_text *j, const char *key, double value);
void attn_json_key_float(attn_json_text *j, const char *key, float value);
void attn_json_key_strings(attn_json_text *j, const char *key, const char *const *texts, size_t n);
void attn_json_key_sizes(attn_json_text *j, const char *key, const size_t *values, size_t n);
void attn_json_key_ints(attn_json_text *j, const char *key, const int64_t *values, size_t n);

/* Reserves room for `bytes` more bytes, so that the text need not move while they are written. If
 * there is not enough memory, nothing happens, and the text grows as it fills. */
void attn_json_reserve(attn_json_text *j, size_t bytes);

/* --- for values of other kinds --- */

/* Begins a value: writes the comma before it, if one is needed. */
void attn_json_value(attn_json_text *j);
/* Makes room for n bytes and returns data + size. The caller writes some of the bytes there and
 * adds their number to `size`. NULL: `failed` is set. */
char *attn_json_room(attn_json_text *j, size_t n);
/* Appends n bytes as they are. */
void attn_json_put(attn_json_text *j, const char *bytes, size_t n);
/* Returns whether the text ends with a key. */
bool attn_json_after_key(const attn_json_text *j);
/* Removes the last key, to which no value has been written. */
void attn_json_drop_key(attn_json_text *j);
/* Writes a number of at most ATTN_NUMBER_TEXT bytes at p and returns its end. A number that is not
 * finite becomes null. `decimals` is that of attn_json_text. */
char *attn_json_number(char *p, double value, int decimals);

#endif
