/* Libraries that are looked up when a picture needs them: neither the start of a program nor the
 * memory of one that draws no PNG pays for them, and where one is missing the rest works. */
#ifndef ATTN_DRAW_LIBRARY_H
#define ATTN_DRAW_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct attn_symbol {
    const char *name;
    void *to; /* a pointer to a function */
} attn_symbol;

/* Fill in what the library, or one that it needs, has by these names. false: it cannot be loaded,
 * or lacks one, and dlerror() says which. What is loaded stays. Any thread. */
bool attn_library_load(const char *library, const attn_symbol *symbols, size_t count);

#endif
