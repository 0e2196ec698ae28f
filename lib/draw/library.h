/* Loads the libraries that draw PNGs when a picture needs them. So a program that draws no PNG pays
 * for them neither at its start nor in memory, and where one is missing the rest works. */
#ifndef ATTN_DRAW_LIBRARY_H
#define ATTN_DRAW_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct attn_symbol {
    const char *name;
    void *to; /* a pointer to a function */
} attn_symbol;

/* Fills in the functions of these names, from the library or one that it needs. Returns false when
 * it cannot be loaded or lacks one; dlerror() says which. A library stays loaded. Any thread. */
static inline bool attn_library_load(const char *name, const attn_symbol *symbols, size_t count) {
    /* dlopen of a loaded library only counts. Nothing is ever unloaded, so nothing is closed. */
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    bool ok = library != NULL;
    for (size_t i = 0; ok && i < count; i++) {
        void *found = dlsym(library, symbols[i].name);
        memcpy(symbols[i].to, &found, sizeof found);
        ok = found != NULL;
    }
    return ok;
}

#endif
