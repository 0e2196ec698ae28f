/* Scans JSON (RFC 8259): a cursor, the JSON pointer of the value at the cursor, and errors that
 * name a byte of the text. The readers of trees (json_tree.h) and of the headers of container files
 * use it, and so does the decoder of the server. No byte behind the text is read.
 *
 * Functions that return bool return false after attn_scan_fail, except where a comment says
 * otherwise. */
#ifndef ATTN_JSON_SCAN_H
#define ATTN_JSON_SCAN_H

#include "attn/memory.h"
#include "attn/status.h"

#define ATTN_PATH_ROOM 480 /* buffer size of a path in bytes, NUL included */

/* The JSON pointer (RFC 6901) of the value at the cursor. A step is appended for each member or
 * element that is entered, and removed when it has been read. A step that does not fit into the
 * buffer is left out. */
typedef struct attn_path {
    char text[ATTN_PATH_ROOM];
    size_t size;
} attn_path;

/* Append a step to the path: the key of a member, n bytes, or the index of an element. Both return
 * the size that the path had before. attn_path_back takes this size to remove the step. */
size_t attn_path_key(attn_path *path, const char *key, size_t n);
size_t attn_path_index(attn_path *path, size_t index);
void attn_path_back(attn_path *path, size_t mark);

typedef struct attn_scan attn_scan;
struct attn_scan {
    const char *start, *end; /* beginning and end of the text */
    const char *p;           /* the cursor */
    attn_arena *arena;       /* holds the strings that are read */
    /* name of the text in errors, such as "the header"; NULL: the text is the body */
    const char *of;
    const char *nonfinite; /* text that is appended to errors at NaN or infinity; NULL: none */
    attn_error *err;       /* filled by the first error if `fault` is NULL; may be NULL */
    attn_status status;    /* code of the first error */
    /* Receives an error at the byte `at`; NULL: `err` is filled. */
    void (*fault)(attn_scan *s, attn_status code, const char *at, const char *text);
    void *owner;             /* for the caller's use, as in `fault` */
    size_t depth, max_depth; /* number of open lists and objects, and its limit; 0: no limit */
    attn_path path;
};

/* Fails with a text about the byte `at`. Returns false. */
bool attn_scan_fail(attn_scan *s, attn_status code, const char *at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Fails with ATTN_EARG: "expected …, found …". The first gap is `expected`, and the second
 * describes the text at the cursor. Returns false. */
bool attn_scan_expected(attn_scan *s, const char *expected);
/* Fails with ATTN_ENOMEM. Returns false. */
bool attn_scan_memory(attn_scan *s);

/* Describes the text at the cursor, for errors: "a string", "NaN", "the number 1.5", "its end".
 * Returns a constant or `text`. */
#define ATTN_FOUND_ROOM 64
const char *attn_scan_found(const attn_scan *s, char text[ATTN_FOUND_ROOM]);

/* Returns the byte at the cursor; 0: the end of the text. */
static inline char attn_scan_peek(const attn_scan *s) {
    return s->p < s->end ? *s->p : 0;
}
/* Moves the cursor behind white space. */
static inline void attn_scan_space(attn_scan *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
        s->p++;
}

/* Returns whether a JSON value begins at the cursor. */
bool attn_scan_is_value(const attn_scan *s);
/* Returns whether a number begins at the cursor. */
bool attn_scan_is_number(const attn_scan *s);
/* If the word stands at the cursor, moves the cursor behind it and returns true. Never fails. */
bool attn_scan_word(attn_scan *s, const char *word);
/* Moves the cursor behind white space. If `mark` follows, moves it behind the mark and returns
 * true. Never fails. */
bool attn_scan_take(attn_scan *s, char mark);
/* Moves the cursor behind `mark` and the white space around it. */
bool attn_scan_mark(attn_scan *s, char mark, const char *expected);
/* Enters a list or object, whose opening bracket is at the cursor. Moves the cursor to the first
 * element or member (*more is true) or, if there is none, behind the bracket `close` (*more is
 * false). */
bool attn_scan_open(attn_scan *s, char close, bool *more);
/* Goes on behind an element or member. Moves the cursor to the next element or member (*more is
 * true) or, if there is none, behind the bracket `close` (*more is false). */
bool attn_scan_more(attn_scan *s, char close, bool *more);

/* Checks the escapes and the UTF-8 of the string at the cursor, and moves the cursor behind it.
 * Sets *from and *to to the beginning and the end of the text between the quotes, without decoding
 * its escapes. Sets *escaped to whether the text has escapes. U+0000 is refused. */
bool attn_scan_string(attn_scan *s, const char **from, const char **to, bool *escaped);
/* Reads the string at the cursor, behind white space, into the arena. */
bool attn_scan_text(attn_scan *s, const char **out);
/* Reads an integer from 0 to 2^63 - 1 that is written in digits, behind white space. */
bool attn_scan_count(attn_scan *s, size_t *out);
/* Checks that only white space follows. */
bool attn_scan_end(attn_scan *s);

/* A short string, such as the name of a member, with its escapes decoded and a NUL at its end.
 * attn_scan_name cuts off a longer string, so that it equals no known name. */
typedef struct attn_name {
    char text[128];
    size_t size;
} attn_name;
bool attn_scan_name(attn_scan *s, attn_name *name);
bool attn_name_is(const attn_name *name, const char *text);

/* Decodes the escapes of a string that attn_scan_string has checked. `out` needs to - from bytes.
 * Returns the number of bytes written. */
size_t attn_unescape(char *out, const char *from, const char *to);
/* Writes a code point as UTF-8, up to 4 bytes, and returns the end. */
char *attn_put_utf8(char *out, uint32_t c);
/* Returns a pointer behind the string that begins at p, or `end` if it is not closed. The text may
 * be malformed. */
const char *attn_skip_string(const char *p, const char *end);

#endif
