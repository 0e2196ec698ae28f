/* Builds text piece by piece. */
#ifndef ATTN_TEXT_H
#define ATTN_TEXT_H

#include "memory.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Return the ending of a noun for n things: "" or "s" (heads), "y" or "ies" (entries). */
static inline const char *attn_plural(size_t n) {
    return n == 1 ? "" : "s";
}
static inline const char *attn_plural_y(size_t n) {
    return n == 1 ? "y" : "ies";
}

/* A UTF-8 text that grows in an arena. Start with {.arena = arena}. If memory runs out, `failed` is
 * set and later additions do nothing. */
typedef struct attn_text {
    attn_arena *arena;
    char *data;  /* NUL-terminated after the first addition */
    size_t size; /* bytes used, without the NUL */
    size_t room; /* bytes available */
    bool failed;
} attn_text;

/* Appends formatted text, as printf does. */
void attn_text_add(attn_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Append n bytes unchanged, or the character c n times. */
void attn_text_bytes(attn_text *t, const char *bytes, size_t n);
void attn_text_repeat(attn_text *t, char c, size_t n);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
