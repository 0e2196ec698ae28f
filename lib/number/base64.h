/* Base64 as in RFC 4648, section 4: the standard alphabet, with padding. The decoder refuses all
 * other characters, white space included. */
#ifndef ATTN_BASE64_H
#define ATTN_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the number of characters that encode n < SIZE_MAX / 2 bytes, without a NUL. */
static inline size_t attn_base64_length(size_t n) {
    return (n + 2) / 3 * 4;
}
/* Computes the number of bytes that the n characters of `text` encode, from n and the padding
 * alone. Returns false if n is not a multiple of 4. */
bool attn_base64_size(const char *text, size_t n, size_t *bytes);

/* Writes attn_base64_length(n) characters at p, without a NUL, and returns the position after
 * them. */
char *attn_base64_encode(char *p, const void *bytes, size_t n);

/* Decodes exactly n characters into `out`, whose size attn_base64_size gives. Returns the index of
 * the first character that is not allowed at its position (white space, wrong or missing padding,
 * non-zero bits after the last byte), or n if the text is valid. */
size_t attn_base64_decode(void *out, const char *text, size_t n);

#endif
