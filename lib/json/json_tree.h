/* JSON texts as trees in an arena. The tree keeps strings, numbers as doubles, and the order of
 * members. A text may come from anywhere: depth and grammar are checked, and the memory is at most
 * a constant multiple of the text's length. */
#ifndef ATTN_JSON_TREE_H
#define ATTN_JSON_TREE_H

#include "attn/memory.h"
#include "attn/status.h"

typedef enum attn_json_kind {
    ATTN_JSON_NULL,
    ATTN_JSON_BOOL,
    ATTN_JSON_NUMBER,
    ATTN_JSON_STRING,
    ATTN_JSON_LIST,
    ATTN_JSON_OBJECT
} attn_json_kind;

typedef struct attn_json attn_json;
struct attn_json {
    attn_json_kind kind;
    const char *key;  /* name of a member of an object; else NULL */
    const char *text; /* only STRING */
    double number;    /* only NUMBER */
    bool truth;       /* only BOOL */
    bool known;       /* a reader has asked for this member (attn_json_member) */
    attn_json *first; /* LIST, OBJECT: the first child */
    attn_json *next;  /* the next child of the same list or object */
    size_t count;     /* LIST, OBJECT: number of children */

    attn_json **slots; /* OBJECT with many members: hash table of the members by key; else NULL */
    size_t slot_count; /* number of slots, a power of two */
};

/* Reads a text of n bytes. Errors: ATTN_EARG (the text is malformed, or a member occurs twice; the
 * error names the byte and what was expected there), ATTN_ENOMEM. */
attn_status attn_json_read(const char *text, size_t n, attn_arena *arena, attn_json **out,
                           attn_error *err);
/* Returns the member of an object and marks it as known; NULL: there is none, or it is null. */
attn_json *attn_json_member(attn_json *object, const char *key);
/* Returns the first member that is not marked as known and whose key does not begin with "x-";
 * NULL: there is none. */
const attn_json *attn_json_unknown(const attn_json *object);
/* Returns the kind of a value in words, for errors: "a number", "a list", … */
const char *attn_json_kind_name(const attn_json *value);
/* Stores the number if it is an integer from `least` to `most`, else returns false. */
bool attn_json_integer(const attn_json *value, int64_t least, int64_t most, int64_t *out);

#endif
