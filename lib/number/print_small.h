/* Small text without printf and without memory of its own, for log lines, headers and JSON strings.
 * Each function writes at p, without a NUL, and returns the byte after what it wrote. */
#ifndef ATTN_PRINT_SMALL_H
#define ATTN_PRINT_SMALL_H

#include <stddef.h>
#include <stdint.h>

char *attn_put(char *p, const char *text);
char *attn_put_number(char *p, uint64_t value);
char *attn_put_ms(char *p, int64_t ns); /* nanoseconds as milliseconds, "0.125" */

#define ATTN_ESCAPE_MOST 6 /* bytes that one byte of text can become, as in \u001f */

/* Writes n bytes of text as the inside of a JSON string. Broken UTF-8 becomes U+FFFD, one a byte,
 * so that the result is valid whatever came in. Room: n * ATTN_ESCAPE_MOST bytes. */
char *attn_escape(char *p, const char *text, size_t n);

/* The length of the valid UTF-8 sequence that starts at text and ends before n bytes; 0 when it is
 * broken. */
size_t attn_utf8_length(const char *text, size_t n);

#endif
