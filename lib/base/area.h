/* Allocation of several arrays from one block of memory whose size is counted first. memory.c
 * defines the functions.
 *
 * A function that takes arrays from an area is called twice. The first call gets an area without a
 * base and only counts the bytes of the arrays. The second call gets an area over a block of that
 * size and places the same arrays in it. So the bytes that are counted before a computation starts
 * equal the bytes that the computation takes. */
#ifndef ATTN_AREA_H
#define ATTN_AREA_H

#include <attn/memory.h>

/* The largest size of an area in bytes. It is a multiple of ATTN_ALIGN, and no machine has so much
 * memory. */
#define ATTN_AREA_MOST ((size_t)PTRDIFF_MAX - (size_t)PTRDIFF_MAX % ATTN_ALIGN)

typedef struct attn_area {
    char *base;     /* the block, aligned to ATTN_ALIGN; NULL: the area only counts */
    size_t used;    /* bytes taken so far */
    size_t content; /* bytes of the arrays alone, without the bytes between them */
    bool overflow;  /* `used` would have exceeded ATTN_AREA_MOST */
} attn_area;

/* Takes the next array: `count` elements of `size` bytes, aligned to ATTN_ALIGN. If the area has no
 * base, the array must not be read or written. */
static inline void *attn_area_take(attn_area *a, size_t count, size_t size) {
    void *array = (void *)((uintptr_t)a->base + a->used);
    size_t bytes;
    if (attn_size_mul(count, size, &bytes) && bytes <= ATTN_AREA_MOST - a->used) {
        a->used += attn_align_up(bytes);
        a->content += bytes;
    } else {
        a->overflow = true;
    }
    return array;
}

/* Takes the next array, of shape [a, b, c]. */
static inline void *attn_area_take_3(attn_area *area, size_t a, size_t b, size_t c, size_t size) {
    size_t n = 0;
    if (!attn_size_mul(a, b, &n) || !attn_size_mul(n, c, &n))
        area->overflow = true;
    return attn_area_take(area, n, size);
}

/* Takes a block of counted->used bytes from the arena and makes *a an area over it. Returns false
 * if there is not enough memory. */
bool attn_area_open(attn_area *a, const attn_area *counted, attn_arena *arena);

#endif
