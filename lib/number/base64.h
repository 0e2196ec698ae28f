/* Base64 of RFC 4648 section 4: the standard alphabet, padded, nothing else. */
#ifndef ATTN_BASE64_H
#define ATTN_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Characters that n bytes become, without a NUL; n must be below SIZE_MAX / 2. */
static inline size_t attn_base64_length(size_t n) {
    return (n + 2) / 3 * 4;
}
/* Bytes that the text stands for, from its length and padding alone; false when the length is no
 * multiple of 4. */
bool attn_base64_size(const char *text, size_t n, size_t *bytes);

char *attn_base64_encode(char *p, const void *bytes, size_t n); /* returns the end */

/* Decode exactly n characters into `out` (room as attn_base64_size says). Returns the index of the
 * first character that is not allowed at its place (white space, wrong or missing padding, non-zero
 * bits behind the last byte), or n when all is well. */
size_t attn_base64_decode(void *out, const char *text, size_t n);

#endif
