#include "draw/library.h"

#include <dlfcn.h>
#include <string.h>

bool attn_library_load(const char *name, const attn_symbol *symbols, size_t count) {
    /* Loading what is loaded only counts; nothing is ever unloaded, so nothing is closed. */
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    bool ok = library != NULL;
    for (size_t i = 0; ok && i < count; i++) {
        void *found = dlsym(library, symbols[i].name);
        memcpy(symbols[i].to, &found, sizeof found);
        ok = found != NULL;
    }
    return ok;
}
