/* Writes short text without printf and without allocation, for log lines, headers and JSON strings.
 * The attn_put functions and attn_escape write at p, without a NUL, and return the position after
 * the text. */
#ifndef ATTN_PRINT_SMALL_H
#define ATTN_PRINT_SMALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

char *attn_put(char *p, const char *text);
char *attn_put_number(char *p, uint64_t value);
/* writes 125000 ns as "0.125" ms, and negative times as "0.000" */
char *attn_put_ms(char *p, int64_t ns);

#define ATTN_ESCAPE_MOST 6 /* attn_escape writes at most so many bytes for one byte: \u001f */

/* Writes n bytes of text as the inside of a JSON string. Each byte of invalid UTF-8 becomes U+FFFD,
 * so the result is always valid. The buffer at p needs n * ATTN_ESCAPE_MOST bytes. */
char *attn_escape(char *p, const char *text, size_t n);

/* Returns the length of the valid UTF-8 sequence that starts at `text` and ends within n bytes.
 * Returns 0 if the sequence is invalid. */
size_t attn_utf8_length(const char *text, size_t n);
/* Returns whether the text is valid UTF-8. */
bool attn_is_utf8(const char *text);

#endif
