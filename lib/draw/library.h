/* Loads the libraries that draw PNGs when a picture needs them. A program that draws no PNG thus
 * spends no time or memory on them, and works without them. */
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

/* Looks up the functions of these names in the library or in a library that it needs. false: it
 * cannot be loaded, or a function is missing; dlerror() names it. A library stays loaded. Any
 * thread may call it. */
static inline bool attn_library_load(const char *name, const attn_symbol *symbols, size_t count) {
    /* dlopen of a loaded library only counts the call. Libraries are never unloaded or closed. */
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
