/* JSON string escaping, shared by the JSON writer and the error bodies (which must not depend on
 * memory that the writer may have run out of). */
#ifndef ATTN_ESCAPE_H
#define ATTN_ESCAPE_H

#include <stddef.h>

#define ATTN_ESCAPE_MOST 6 /* bytes that one byte of text can become, as in \u001f */

/* Write `n` bytes of text as the inside of a JSON string and return the byte after it. Broken UTF-8
 * becomes U+FFFD, one a byte, so that the result is valid whatever came in. Room: n *
 * ATTN_ESCAPE_MOST.
 */
char *attn_escape(char *p, const char *text, size_t n);

/* Length of the valid UTF-8 sequence that starts at text and ends before n bytes, 0 if broken. */
size_t attn_utf8_length(const char *text, size_t n);

#endif
