/* One list of pieces of memory, to count them and to place them.
 *
 * A function that lists pieces is called twice: with an area without a base it counts their bytes,
 * and with an area over so much memory it places the same pieces. So what admission counts is what
 * a pass takes. */
#ifndef ATTN_AREA_H
#define ATTN_AREA_H

#include <attn/memory.h>

typedef struct attn_area {
    char *base; /* aligned to ATTN_ALIGN; NULL: pieces are counted only */
    size_t used;
    bool overflow; /* the bytes cannot be counted */
} attn_area;

/* The next piece: `count` elements of `size` bytes, aligned to ATTN_ALIGN. In an area without a
 * base the result must not be read or written. */
static inline void *attn_area_take(attn_area *a, size_t count, size_t size) {
    void *piece = (void *)((uintptr_t)a->base + a->used);
    size_t bytes;
    if (!attn_size_mul(count, size, &bytes) || bytes > SIZE_MAX - ATTN_ALIGN ||
        !attn_size_add(a->used, attn_align_up(bytes), &a->used))
        a->overflow = true;
    return piece;
}

/* Memory of the arena for the pieces that `counted` has counted; false: out of memory. */
static inline bool attn_area_open(attn_area *a, const attn_area *counted, attn_arena *arena) {
    *a = (attn_area){.base = counted->overflow ? NULL : attn_arena_take(arena, counted->used)};
    return a->base != NULL;
}

#endif
