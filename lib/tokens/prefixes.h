/* A sorted list of texts that finds those with which another text begins. */
#ifndef ATTN_PREFIXES_H
#define ATTN_PREFIXES_H

#include "attn/memory.h"

typedef struct attn_prefix {
    const char *text; /* not empty */
    size_t size;
    size_t index; /* the caller's own */
} attn_prefix;

typedef struct attn_prefixes {
    attn_prefix *items; /* [count], sorted by their bytes */
    size_t count;
    size_t first[257]; /* by first byte: the first item that begins with it or a larger one */
} attn_prefixes;

/* Sorts `items` [count]. Returns the first item that has the text of another one; NULL: none. */
const attn_prefix *attn_prefixes_sort(attn_prefixes *p, attn_prefix *items, size_t count);

/* A walk through the prefixes of one text, from the shortest on. */
typedef struct attn_prefix_walk {
    size_t low, high; /* the items that begin with the first `depth` bytes of the text */
    size_t depth;
} attn_prefix_walk;

/* Begins a walk: *walk = {0}, then call this until it returns NULL. */
const attn_prefix *attn_prefixes_next(const attn_prefixes *p, attn_prefix_walk *walk,
                                      const char *text, size_t size);

#endif
