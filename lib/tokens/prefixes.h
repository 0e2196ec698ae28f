/* A sorted list of texts, which finds all its texts that are prefixes of another text. */
#ifndef ATTN_PREFIXES_H
#define ATTN_PREFIXES_H

#include "attn/memory.h"

typedef struct attn_prefix {
    const char *text; /* not empty */
    size_t size;
    size_t index; /* a number of the caller */
} attn_prefix;

typedef struct attn_prefixes {
    attn_prefix *items; /* [count], sorted by their bytes */
    size_t count;
    /* for each byte: index of the first item that begins with it or a larger byte */
    size_t first[257];
} attn_prefixes;

/* Sorts `items` [count]. Returns the first item whose text another item has, too; NULL: all texts
 * differ. */
const attn_prefix *attn_prefixes_sort(attn_prefixes *p, attn_prefix *items, size_t count);

/* A walk through the prefixes of one text, from the shortest to the longest. */
typedef struct attn_prefix_walk {
    size_t low, high; /* the items that begin with the first `depth` bytes of the text */
    size_t depth;
} attn_prefix_walk;

/* Goes to the next prefix. A walk begins with *walk = {0}, and ends when the function returns
 * NULL. */
const attn_prefix *attn_prefixes_next(const attn_prefixes *p, attn_prefix_walk *walk,
                                      const char *text, size_t size);

#endif
