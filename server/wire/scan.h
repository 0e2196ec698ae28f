/* The cursor over a JSON body: position, path for error pointers, and the errors themselves. Used
 * by the decoder (objects, lists, strings) and the tensor readers (numbers).
 *
 * Functions that return bool return false after they have made the problem reply. */
#ifndef SRV_SCAN_H
#define SRV_SCAN_H

#include "wire/container.h"

#define SRV_PATH_ROOM 480

/* A JSON pointer (RFC 6901) that grows and shrinks with the walk. One that does not fit is cut at
 * the last whole step. */
typedef struct srv_path {
    char text[SRV_PATH_ROOM];
    size_t size;
} srv_path;

/* Append a step; returns the mark to go back to. */
size_t srv_path_key(srv_path *path, const char *key, size_t n);
size_t srv_path_index(srv_path *path, size_t index);
void srv_path_back(srv_path *path, size_t mark);

typedef struct srv_scan {
    srv_request *req;
    const char *start, *p, *end; /* the text; end: the byte after it, which is NUL */
    const char *of;              /* what the text is called, NULL: the body */
    srv_path path;
    size_t depth, max_depth;
    srv_beyond beyond;
} srv_scan;

static inline void srv_scan_space(srv_scan *s) {
    while (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t')
        s->p++;
}

/* 400: "Line 3, column 7: <text>", pointing at the path. */
bool srv_scan_malformed(srv_scan *s, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* 400: "expected <expected>, found <what stands at the cursor>"; explains NaN and Infinity. */
bool srv_scan_expected(srv_scan *s, const char *expected);
/* 413: the arena is used up by what stands at the path. */
bool srv_scan_memory(srv_scan *s);

/* What stands at `at`, for error texts: "a string", "NaN", "the number 1.5", "the end of the body".
 */
#define SRV_FOUND_ROOM 64
const char *srv_scan_found(const srv_scan *s, const char *at, char text[SRV_FOUND_ROOM]);

/* Is there a JSON number, true, false, null, string, list or object at `at`, to judge by its first
 * byte (so that the body may be well-formed, but the wrong thing is there)? */
bool srv_scan_is_value(const char *at);

/* Take one word (true, false, null) when it stands at the cursor. */
bool srv_scan_word(srv_scan *s, const char *word);

/* Take `mark` and the white space around it; the problem says that `expected` is expected. */
bool srv_scan_mark(srv_scan *s, char mark, const char *expected);
/* Behind the bracket that opens a list or an object: take `close` when it follows (*more: false).
 */
void srv_scan_open(srv_scan *s, char close, bool *more);
/* Behind an element or a member: take ',' (*more: true) or `close`. */
bool srv_scan_more(srv_scan *s, char close, bool *more);

/* Read the string at the cursor, checking escapes and UTF-8. [*from, *to) is what stands between
 * the quotes, escapes as they are; *escaped tells whether there are any. */
bool srv_scan_string(srv_scan *s, const char **from, const char **to, bool *escaped);

/* Undo the escapes of a checked string; out has room for to - from bytes. Returns the length. */
size_t srv_unescape(char *out, const char *from, const char *to);

/* A short name (key, dtype): the string at the cursor, unescaped and cut to its room. */
typedef struct srv_name {
    char text[128];
    size_t size;
} srv_name;
bool srv_scan_name(srv_scan *s, srv_name *name);
bool srv_name_is(const srv_name *name, const char *text);

/* Behind the string that begins at p, in a text that need not be JSON. */
const char *srv_skip_string(const char *p, const char *end);

/* The queue has to know the timeout of a request before anybody has decoded it: timeout_ms of the
 * outermost object, or 0: it is not there, or no number that could be one. One pass counts brackets
 * and skips strings; the text need not be JSON, as the decoder judges it later. */
int64_t srv_scan_timeout(const char *text, size_t size);
/* The same of `parameters.timeout` of the Open Inference Protocol, in microseconds. */
int64_t srv_scan_infer_timeout(const char *text, size_t size);

#endif
