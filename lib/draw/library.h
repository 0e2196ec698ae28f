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

/* A file that uses a library lists the functions that it calls in a macro LIST(ITEM), with an
 * ITEM(member, function) for each function. LIST(ATTN_LIBRARY_MEMBER) makes the members of a
 * struct: function pointers with the types of the library's headers. LIST(ATTN_LIBRARY_SYMBOL)
 * makes the elements of an array of attn_symbol for the members of the struct that `to` points
 * to. */
#define ATTN_LIBRARY_MEMBER(member, function) __typeof__(function) *member;
#define ATTN_LIBRARY_SYMBOL(member, function) {#function, &to->member},

/* Loads the library and stores the address of each named function. A function may also be in
 * another library on which this library depends. Returns false if the library cannot be loaded or a
 * function is missing; dlerror() then has the reason. The library stays loaded. Any thread may call
 * this function. */
static inline bool attn_library_load(const char *name, const attn_symbol *symbols, size_t count) {
    /* If the library is loaded already, dlopen only increases its reference count. RTLD_NODELETE:
     * the library is never unloaded. */
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
