/* The JSON in headers of container files: a cursor that reads strings, integers and punctuation,
 * and a function that writes strings.
 *
 * The server has a JSON scanner of its own (server/wire/scan.h). The library cannot use it for
 * three reasons: the library must not depend on the server, the scanner reports errors as HTTP
 * problems, and it needs a NUL after its text, while a header is followed by the bytes of
 * tensors. */
#ifndef ATTN_JSON_HEADER_TEXT_H
#define ATTN_JSON_HEADER_TEXT_H

#include "attn/memory.h"
#include "attn/status.h"

/* A position in a header. Functions that return a status fill `err` on failure. */
typedef struct attn_io_cursor {
    const char *start, *p, *end; /* the first byte; the next byte to read; the end */
    attn_arena *arena;           /* receives the strings that are read */
    attn_error *err;
} attn_io_cursor;

/* Fills the error with "the header at byte 12: expected <what>" and returns its status,
 * ATTN_EARG. */
attn_status attn_io_expected(attn_io_cursor *c, const char *what);

void attn_io_space(attn_io_cursor *c); /* skips white space */
/* Skips white space. If the next byte is `mark`, skips it too and returns true; else returns
 * false. */
bool attn_io_take(attn_io_cursor *c, char mark);
/* Skips white space and the byte `mark`. If another byte is next, fails with "expected <what>". */
attn_status attn_io_need(attn_io_cursor *c, char mark, const char *what);
/* Reads a JSON string and copies it without quotes and escapes into the arena. U+0000, control
 * characters and invalid UTF-8 are errors. */
attn_status attn_io_string(attn_io_cursor *c, const char **out);
/* Reads a decimal integer without sign, below 2^63. */
attn_status attn_io_count(attn_io_cursor *c, size_t *out);

/* Tells whether the text is valid UTF-8 (RFC 3629). Control characters are allowed. */
bool attn_io_is_utf8(const char *text);
/* Returns an upper bound for the bytes that attn_io_quote writes for `text`. */
size_t attn_io_quoted_most(const char *text);
/* Writes `text` as a JSON string with quotes to p. Returns the end of the written bytes; no NUL is
 * written. */
char *attn_io_quote(char *p, const char *text);

#endif
