/* Allocation from one block of memory whose size is counted first.
 *
 * A function that takes pieces from an area is called twice. With an area without a base it counts
 * their bytes, and with an area over that much memory it places the same pieces. So the bytes
 * counted for admission equal those that a pass takes. memory.c defines these functions. */
#ifndef ATTN_AREA_H
#define ATTN_AREA_H

#include <attn/memory.h>

typedef struct attn_area {
    char *base; /* aligned to ATTN_ALIGN; NULL: only counts */
    size_t used;
    bool overflow; /* the count exceeded SIZE_MAX */
} attn_area;

/* Takes the next piece: `count` elements of `size` bytes, aligned to ATTN_ALIGN. In an area without
 * a base the result must not be read or written. */
void *attn_area_take(attn_area *a, size_t count, size_t size);
/* Opens an area over memory of the arena, of the size in `counted`. false: out of memory. */
bool attn_area_open(attn_area *a, const attn_area *counted, attn_arena *arena);

#endif
