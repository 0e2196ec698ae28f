/* Scanning a JSON text: a cursor, the JSON pointer of the value at the cursor, and problems that
 * name both. decode.c reads objects, lists and strings with these functions, and tensor_*.c
 * tensors.
 *
 * Functions that return bool set a problem before they return false, except where a comment says
 * otherwise. */
#ifndef SRV_SCAN_H
#define SRV_SCAN_H

#include "wire/container.h"

#define SRV_PATH_ROOM 480 /* buffer size of a path in bytes, NUL included */

/* The JSON pointer (RFC 6901) of the value at the cursor. A step is appended for each member or
 * element that is entered, and removed when it has been read. A step that does not fit into the
 * buffer is left out. */
typedef struct srv_path {
    char text[SRV_PATH_ROOM];
    size_t size;
} srv_path;

/* Append a step to the path: the key of a member, n bytes, or the index of an element. Both return
 * the size of the path before, with which srv_path_back removes the step. */
size_t srv_path_key(srv_path *path, const char *key, size_t n);
size_t srv_path_index(srv_path *path, size_t index);
void srv_path_back(srv_path *path, size_t mark);

typedef struct srv_scan {
    srv_request *req;
    const char *start, *end; /* the text; a NUL stands at `end` */
    const char *p;           /* the cursor */
    const char *of;          /* what problems call the text; NULL: "the body" */
    const char *ragged;      /* srv_field.ragged of the tensor that is read; NULL: none */
    srv_path path;
    size_t depth, max_depth; /* open lists and objects, and how many there may be */
    srv_beyond beyond;       /* the first number beyond its float type (container.h) */
} srv_scan;

static inline void srv_scan_space(srv_scan *s) {
    while (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t')
        s->p++;
}

/* Sets the problem 400 "Line 3, column 7: <text>" for the byte `at`. Returns false. */
bool srv_scan_malformed(srv_scan *s, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets the problem 400 "expected <expected>, found <what stands at the cursor>". For NaN and
 * Infinity, which are not JSON, the text says what to write instead. Returns false. */
bool srv_scan_expected(srv_scan *s, const char *expected);
/* Sets the problem 413: the memory of the request does not suffice for the value at the path.
 * Returns false. */
bool srv_scan_memory(srv_scan *s);

/* What the tensors of the Open Inference Protocol have in place of null and Infinity in JSON. */
#define SRV_SCAN_INFER_INFINITY                                                                    \
    "the Open Inference Protocol has none in JSON: send -infinity as binary data, or a mask as "   \
    "BOOL"

/* Describes what stands at `at` for the text of a problem: "a string", "NaN", "the number 1.5",
 * "the end of the body". Returns a constant or `text`. */
#define SRV_FOUND_ROOM 64
const char *srv_scan_found(const srv_scan *s, const char *at, char text[SRV_FOUND_ROOM]);

/* Returns whether a JSON value begins at `at`. By this a reader decides between two problems: a
 * value of the wrong type (422) and malformed JSON (400). */
bool srv_scan_is_value(const char *at);

/* If the word (true, false or null) stands at the cursor, moves the cursor behind it and returns
 * true. Sets no problem. */
bool srv_scan_word(srv_scan *s, const char *word);

/* Moves the cursor behind the character `mark` and the white space around it. If another character
 * stands there, the problem names `expected`. */
bool srv_scan_mark(srv_scan *s, char mark, const char *expected);
/* Call this with the cursor behind the opening bracket of a list or an object. If the list or
 * object is empty, moves the cursor behind its bracket `close` and sets *more to false; otherwise
 * sets *more to true. */
void srv_scan_open(srv_scan *s, char close, bool *more);
/* Call this with the cursor behind an element or a member. Moves the cursor behind the comma (*more
 * is true) or behind the bracket `close` (*more is false). */
bool srv_scan_more(srv_scan *s, char close, bool *more);

/* Checks the escapes and the UTF-8 of the string at the cursor, and moves the cursor behind it.
 * Sets *from and *to to the beginning and the end of the text between the quotes, whose escapes are
 * not decoded, and *escaped to whether it has any. */
bool srv_scan_string(srv_scan *s, const char **from, const char **to, bool *escaped);

/* Decodes the escapes of a string that srv_scan_string has checked. `out` has room for to - from
 * bytes. Returns the number of bytes written. */
size_t srv_unescape(char *out, const char *from, const char *to);
/* Writes a code point as UTF-8, up to 4 bytes, and returns the end. */
char *srv_put_utf8(char *out, uint32_t c);

/* A short string, such as the name of a member, with its escapes decoded and a NUL at its end.
 * srv_scan_name reads the string at the cursor; of a longer one it keeps the beginning, which no
 * known name equals. */
typedef struct srv_name {
    char text[128];
    size_t size;
} srv_name;
bool srv_scan_name(srv_scan *s, srv_name *name);
bool srv_name_is(const srv_name *name, const char *text);

/* Returns a pointer behind the string that begins at p, or `end` if it is not closed. The text may
 * be malformed. */
const char *srv_skip_string(const char *p, const char *end);

/* Returns the member timeout_ms of a JSON object that has not been decoded yet, in milliseconds; 0:
 * it is missing or not a valid timeout. The text may be malformed; the decoder reports that later.
 */
int64_t srv_scan_timeout(const char *text, size_t size);
/* Returns the member parameters.timeout of an Open Inference request in the same way, in
 * microseconds. */
int64_t srv_scan_infer_timeout(const char *text, size_t size);

#endif
