/* The JSON that container headers use: a cursor that takes strings, counts, and punctuation, and
 * the strings on their way out.
 *
 * The server has its own scan of JSON (server/wire/scan.h), which this room cannot use: the library
 * does not depend on the server. Nor could the scan come down here, since it reports faults as HTTP
 * problems and needs a NUL behind its text, while a header ends where the bytes of tensors begin.
 */
#ifndef ATTN_IO_HEADER_TEXT_H
#define ATTN_IO_HEADER_TEXT_H

#include "attn/memory.h"
#include "attn/status.h"

typedef struct attn_io_cursor {
    const char *start, *p, *end;
    attn_arena *arena;
    attn_error *err;
} attn_io_cursor;

/* Fill the error: "header, byte 12: expected …". Returns its code. */
attn_status attn_io_expected(attn_io_cursor *c, const char *what);

void attn_io_space(attn_io_cursor *c); /* take white space */
/* Take white space and then the byte `mark`, if it stands there. */
bool attn_io_take(attn_io_cursor *c, char mark);
/* The same; an error when something else stands there. */
attn_status attn_io_need(attn_io_cursor *c, char mark, const char *what);
/* A string, unescaped into the arena. U+0000 is refused, as are control characters and broken
 * UTF-8. */
attn_status attn_io_string(attn_io_cursor *c, const char **out);
/* A decimal integer without sign, below 2^63. */
attn_status attn_io_count(attn_io_cursor *c, size_t *out);

/* Is the text UTF-8 (RFC 3629)? Control characters are. */
bool attn_io_is_utf8(const char *text);
/* Bytes that `text` takes as a JSON string with its quotes, at most. */
size_t attn_io_quoted_most(const char *text);
/* Write it; returns the end. */
char *attn_io_quote(char *p, const char *text);

#endif
