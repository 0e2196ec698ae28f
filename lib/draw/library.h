/* Loads shared libraries for PNGs (librsvg, Pango) when the first PNG is drawn. Programs that draw
 * no PNG spend no time or memory on these libraries and run without them. */
#ifndef ATTN_DRAW_LIBRARY_H
#define ATTN_DRAW_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct attn_symbol {
    const char *name;
    void *to; /* address of the function pointer that receives the function */
} attn_symbol;

/* A file lists the functions that it calls in a macro LIST(ITEM), with an ITEM(member, function)
 * for each. LIST(ATTN_LIBRARY_MEMBER) makes the members of a struct, with the types of the
 * library's headers. LIST(ATTN_LIBRARY_SYMBOL) makes the elements of an array of attn_symbol that
 * set these members in the struct that `to` points to. */
#define ATTN_LIBRARY_MEMBER(member, function) __typeof__(function) *member;
#define ATTN_LIBRARY_SYMBOL(member, function) {#function, &to->member},

/* Loads the library and stores the address of each named function, which may also be in a library
 * that it depends on. Returns false if the library cannot be loaded or a function is missing;
 * dlerror() then has the reason. The library stays loaded. Any thread may call this function. */
static inline bool attn_library_load(const char *name, const attn_symbol *symbols, size_t count) {
    /* For a loaded library, dlopen only increases its count. RTLD_NODELETE: it is never
     * unloaded. */
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
