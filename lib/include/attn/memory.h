/* Memory: the allocator hook, blocks, and arenas.
 *
 * All allocations of the library go through the allocator hook, so a test can make the n-th one
 * fail. An arena hands out blocks of memory and frees all of them at once. Each request of the
 * server has an arena of its own. */
#ifndef ATTN_MEMORY_H
#define ATTN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define ATTN_ALIGN 64 /* alignment of blocks in bytes: a cache line, an AVX-512 register */

/* Rounds up to a multiple of ATTN_ALIGN. `bytes` is at most SIZE_MAX - ATTN_ALIGN. */
static inline size_t attn_align_up(size_t bytes) {
    return (bytes + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
}

/* Replaces the allocator. take(size) must return memory aligned to ATTN_ALIGN, or NULL; give(p)
 * must free it. Both NULL: back to attn_block_take and attn_block_give. Call it before another
 * thread uses the library. */
void attn_set_allocator(void *(*take)(size_t size), void (*give)(void *p));

/* The default allocator, which a hook may call. Blocks of at least 256 KiB come from mmap and
 * smaller ones from malloc; all are aligned to ATTN_ALIGN. Up to 320 MiB of freed blocks are cached
 * for later calls. The environment variable ATTN_KEEP_BYTES, which is read once, lowers this limit.
 * If the environment variable ATTN_FILL is a number from 0 to 255, all bytes of new blocks have
 * this value, so that tests notice memory that is read before it is written. Under a sanitizer
 * nothing is cached or mapped. Any thread may call these functions. */
void *attn_block_take(size_t size);
void attn_block_give(void *p); /* p may be NULL */
/* Enlarges block p to at least `size` bytes and returns its new address; p is then invalid. The
 * contents stay. The function moves pages instead of copying the contents. It copies at most 2 MiB,
 * and only into a cached block. Returns NULL and leaves p as it was if memory runs out, or if the
 * block cannot grow: blocks below 256 KiB cannot, and under a sanitizer none can. */
void *attn_block_grow(void *p, size_t size);
/* Returns the usable size of a block in bytes, at least the size that was requested. */
size_t attn_block_size(const void *p);
/* Frees the cached blocks that have not been used for at least kept_ns nanoseconds; 0 frees all. */
void attn_block_trim(int64_t kept_ns);
/* Limits the cached blocks: blocks are cached only as long as cached blocks and blocks in use
 * together take at most `total` bytes. Blocks in use below 1 KiB do not count. By default there is
 * no such limit. Any thread may call it. */
void attn_block_limit(size_t total);

/* Returns a block of at least `size` bytes, aligned to ATTN_ALIGN, from the hook; also for size 0.
 * NULL: out of memory. */
void *attn_alloc(size_t size);
void attn_free(void *p); /* p may be NULL */

/* Multiply or add two sizes. On overflow they return false, and *out keeps its value. */
static inline bool attn_size_mul(size_t a, size_t b, size_t *out) {
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}
static inline bool attn_size_add(size_t a, size_t b, size_t *out) {
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

typedef struct attn_arena attn_arena;

/* Makes an arena that hands out at most `limit` bytes in all. NULL: out of memory. Only one thread
 * at a time may use an arena. */
attn_arena *attn_arena_new(size_t limit);
/* Frees the arena and all memory that it handed out. `arena` may be NULL. */
void attn_arena_free(attn_arena *arena);
/* Takes back all memory that the arena handed out, and keeps it as one block for the next use. A
 * loop that resets its arena thus allocates only in its first iteration, if later iterations need
 * no more memory. */
void attn_arena_reset(attn_arena *arena);

/* A mark stores how much an arena has handed out. attn_arena_rewind frees all memory that was
 * handed out after the mark. A mark is valid until the arena is reset or rewound to an earlier
 * mark. */
typedef struct attn_arena_mark {
    size_t used, chunks, chunk_used, chunk_last;
} attn_arena_mark;
attn_arena_mark attn_arena_here(const attn_arena *arena);
void attn_arena_rewind(attn_arena *arena, const attn_arena_mark *mark);

/* Allocates memory now for later blocks of `bytes` bytes in all, so that taking them cannot fail
 * for lack of memory. Each block counts with its size rounded up to ATTN_ALIGN. The arena's limit
 * counts only what is handed out, so it does not apply here. An arena that holds no block first
 * frees its memory if that is too small. Returns false if memory runs out. */
bool attn_arena_reserve(attn_arena *arena, size_t bytes);
/* Returns memory that is aligned to ATTN_ALIGN and not zeroed. NULL: out of memory, or beyond the
 * limit. */
void *attn_arena_take(attn_arena *arena, size_t size);
/* Returns memory as attn_arena_take does, but aligned to 16 bytes only, for small objects such as
 * strings and nodes. */
void *attn_arena_small(attn_arena *arena, size_t size);
/* Returns memory as attn_arena_take does, for `count` elements of `size` bytes. NULL: as
 * attn_arena_take, or count * size overflows. */
void *attn_arena_array(attn_arena *arena, size_t count, size_t size);
/* Returns zeroed memory for `count` elements of `size` bytes. NULL: as attn_arena_array. */
void *attn_arena_zeroed(attn_arena *arena, size_t count, size_t size);
/* Returns a copy of n bytes with a NUL behind it. NULL: as attn_arena_take. */
char *attn_arena_text(attn_arena *arena, const char *text, size_t n);
/* Shortens a block of attn_arena_take to `size` bytes. It may do nothing if another block was taken
 * since. */
void attn_arena_shrink(attn_arena *arena, void *block, size_t size);

size_t attn_arena_used(const attn_arena *arena);  /* bytes handed out so far */
size_t attn_arena_limit(const attn_arena *arena); /* bytes that the arena may hand out in all */
/* Changes the limit. If more bytes are handed out already, they stay valid. */
void attn_arena_set_limit(attn_arena *arena, size_t limit);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
