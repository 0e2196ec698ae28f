/* The JSON of container headers: a cursor that reads strings, counts and punctuation, and a
 * function that writes strings.
 *
 * The server has its own JSON scanner (server/wire/scan.h). The library must not depend on the
 * server, so it cannot use it. The scanner cannot move to the library either: it reports errors as
 * HTTP problems, and it needs a NUL after its text, while the bytes of tensors follow a header. */
#ifndef ATTN_IO_HEADER_TEXT_H
#define ATTN_IO_HEADER_TEXT_H

#include "attn/memory.h"
#include "attn/status.h"

typedef struct attn_io_cursor {
    const char *start, *p, *end;
    attn_arena *arena;
    attn_error *err;
} attn_io_cursor;

/* Fills the error with "header, byte 12: expected …" and returns its code. */
attn_status attn_io_expected(attn_io_cursor *c, const char *what);

void attn_io_space(attn_io_cursor *c); /* skips white space */
/* Skips white space, and then the byte `mark` if it is next. Returns whether it was. */
bool attn_io_take(attn_io_cursor *c, char mark);
/* Skips white space and the byte `mark`. It is an error if another byte is next. */
attn_status attn_io_need(attn_io_cursor *c, char mark, const char *what);
/* Reads a string and unescapes it into the arena. U+0000, control characters and invalid UTF-8 are
 * errors. */
attn_status attn_io_string(attn_io_cursor *c, const char **out);
/* Reads a decimal integer without sign, below 2^63. */
attn_status attn_io_count(attn_io_cursor *c, size_t *out);

/* Returns whether the text is valid UTF-8 (RFC 3629). Control characters are allowed. */
bool attn_io_is_utf8(const char *text);
/* Returns an upper bound of the bytes of `text` as a JSON string with quotes. */
size_t attn_io_quoted_most(const char *text);
/* Writes `text` as a JSON string with quotes to p and returns its end. */
char *attn_io_quote(char *p, const char *text);

#endif
