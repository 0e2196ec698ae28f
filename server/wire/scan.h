/* The scan of a JSON text: the cursor, the path of the value at the cursor, and the problems that
 * name both. The decoder reads objects, lists and strings with it, and the tensor readers numbers.
 *
 * Functions that return bool return false after they have set the problem. */
#ifndef SRV_SCAN_H
#define SRV_SCAN_H

#include "wire/container.h"

#define SRV_PATH_ROOM 480

/* A JSON pointer (RFC 6901), which gets a step for each member and element that is entered. A
 * pointer that does not fit ends with the last whole step. */
typedef struct srv_path {
    char text[SRV_PATH_ROOM];
    size_t size;
} srv_path;

/* Append a step to the path. They return the mark by which srv_path_back removes this step. */
size_t srv_path_key(srv_path *path, const char *key, size_t n);
size_t srv_path_index(srv_path *path, size_t index);
void srv_path_back(srv_path *path, size_t mark);

typedef struct srv_scan {
    srv_request *req;
    const char *start, *p, *end; /* the text; end: the byte after it, which is NUL */
    const char *of;              /* the name of the text in problems; NULL: it is the body */
    srv_path path;
    size_t depth, max_depth;
    srv_beyond beyond;
} srv_scan;

static inline void srv_scan_space(srv_scan *s) {
    while (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t')
        s->p++;
}

/* Sets the problem 400 "Line 3, column 7: <text>" for the path. Returns false. */
bool srv_scan_malformed(srv_scan *s, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets the problem 400 "expected <expected>, found <the text at the cursor>", which explains NaN
 * and Infinity. Returns false. */
bool srv_scan_expected(srv_scan *s, const char *expected);
/* Sets the problem 413: the memory of the request does not suffice for the value at the path.
 * Returns false. */
bool srv_scan_memory(srv_scan *s);

/* Describes the value at `at` for the text of a problem: "a string", "NaN", "the number 1.5", "the
 * end of the body". */
#define SRV_FOUND_ROOM 64
const char *srv_scan_found(const srv_scan *s, const char *at, char text[SRV_FOUND_ROOM]);

/* Returns whether a value begins at `at`. If one does, the text may be well-formed JSON with a
 * value of a wrong type; otherwise the text is malformed. */
bool srv_scan_is_value(const char *at);

/* Takes the word (true, false or null) and returns true if the word is at the cursor. */
bool srv_scan_word(srv_scan *s, const char *word);

/* Takes the character `mark` and the white space around it. The problem names `expected`. */
bool srv_scan_mark(srv_scan *s, char mark, const char *expected);
/* Takes the bracket `close` if it follows at once on the opening bracket, behind which the cursor
 * is. Sets *more to whether an element follows instead. */
void srv_scan_open(srv_scan *s, char close, bool *more);
/* Takes ',' or the bracket `close` behind an element or a member. Sets *more to true for ','. */
bool srv_scan_more(srv_scan *s, char close, bool *more);

/* Reads the string at the cursor and checks its escapes and its UTF-8. [*from, *to) is the text
 * between the quotes with its escapes; *escaped says whether it has escapes. */
bool srv_scan_string(srv_scan *s, const char **from, const char **to, bool *escaped);

/* Decodes the escapes of a checked string. `out` has room for to - from bytes. Returns the length.
 */
size_t srv_unescape(char *out, const char *from, const char *to);

/* A short string, such as the name of a member or a dtype, without escapes. A longer one is cut. */
typedef struct srv_name {
    char text[128];
    size_t size;
} srv_name;
bool srv_scan_name(srv_scan *s, srv_name *name);
bool srv_name_is(const srv_name *name, const char *text);

/* Returns the byte behind the string that begins at p, in a text that may be malformed. */
const char *srv_skip_string(const char *p, const char *end);

/* Finds timeout_ms in the outermost object of a request that has not been decoded yet. Returns 0 if
 * it is missing or no valid timeout. The text may be malformed, which the decoder reports later. */
int64_t srv_scan_timeout(const char *text, size_t size);
/* Finds `parameters.timeout` of the Open Inference Protocol, in microseconds, in the same way. */
int64_t srv_scan_infer_timeout(const char *text, size_t size);

#endif
