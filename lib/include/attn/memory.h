/* The allocator hook and the arena.
 *
 * Everything the library allocates goes through the hook, so that a test can fail the n-th
 * allocation. An arena hands out memory that is freed all at once; a request owns one. */
#ifndef ATTN_MEMORY_H
#define ATTN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define ATTN_ALIGN 64 /* alignment of every block, bytes: one cache line, one zmm register */

/* The next multiple of ATTN_ALIGN, for up to SIZE_MAX - ATTN_ALIGN bytes. */
static inline size_t attn_align_up(size_t bytes) {
    return (bytes + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
}

/* Replace the allocator. `take(size)` returns ATTN_ALIGN-aligned memory or NULL, `give(p)` frees
 * it. NULL, NULL restores attn_block_take and attn_block_give. Call before any other thread uses
 * the library. */
void attn_set_allocator(void *(*take)(size_t size), void (*give)(void *p));

/* The allocator that is used without a hook, for hooks to build on: ATTN_ALIGN-aligned blocks from
 * the C library. Of the freed ones, up to 320 MiB are kept for the next run (fewer with
 * ATTN_KEEP_BYTES in the environment, which is read once; none under a sanitizer). Any thread. */
void *attn_block_take(size_t size);
void attn_block_give(void *p); /* NULL is fine */
/* A block with at least `size` bytes and what is in `p`, which is no longer valid: its pages move,
 * nothing is copied but what up to 2 MiB have for a kept block. NULL, and p is as it was: small
 * blocks do not grow (of 256 KiB and more all do; none under a sanitizer), or there is no memory.
 */
void *attn_block_grow(void *p, size_t size);
size_t attn_block_size(const void *p); /* usable bytes, at least what was asked for */
/* Free what has been kept for so long, in nanoseconds; 0: all. */
void attn_block_trim(int64_t kept_ns);
/* Keep freed blocks only while they and the blocks in use, small ones aside, take at most this many
 * bytes. Default: no limit. Any thread. */
void attn_block_limit(size_t total);

/* An ATTN_ALIGN-aligned block of at least `size` bytes (size 0 gives a valid block), or NULL. */
void *attn_alloc(size_t size);
void attn_free(void *p); /* NULL is fine */

/* Checked size arithmetic: false on overflow, *out untouched then. */
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

/* A new arena that hands out at most `limit` bytes in all; NULL if out of memory. One thread at a
 * time may use an arena. */
attn_arena *attn_arena_new(size_t limit);
void attn_arena_free(attn_arena *arena); /* frees all it handed out; NULL is fine */
/* Free all it handed out, and keep the memory, in one piece, for the next use of the arena: a loop
 * whose rounds need as much as the first takes nothing more. */
void attn_arena_reset(attn_arena *arena);

/* Where an arena stands, and back to there: all that it handed out since is freed. A mark is of use
 * until the arena goes back beyond it or is reset. */
typedef struct attn_arena_mark {
    size_t used, chunks, chunk_used, chunk_last;
} attn_arena_mark;
attn_arena_mark attn_arena_here(const attn_arena *arena);
void attn_arena_rewind(attn_arena *arena, const attn_arena_mark *mark);

/* Take memory for blocks of `bytes` bytes in all now, each counted up to
 * the next multiple of ATTN_ALIGN, so that they cannot fail for want of memory later. The limit is
 * not looked at: it counts what is handed out. false: there is no memory. */
bool attn_arena_reserve(attn_arena *arena, size_t bytes);
/* ATTN_ALIGN-aligned memory, not zeroed; NULL when out of memory or beyond the limit. */
void *attn_arena_take(attn_arena *arena, size_t size);
/* The same for small things (strings, nodes): 16-byte aligned. */
void *attn_arena_small(attn_arena *arena, size_t size);
/* `count` elements of `size` bytes, zeroed; NULL on overflow too. */
void *attn_arena_zeroed(attn_arena *arena, size_t count, size_t size);
/* A NUL-terminated copy of n bytes. */
char *attn_arena_text(attn_arena *arena, const char *text, size_t n);
/* Give back the last attn_arena_take block beyond `size` bytes, when it is still the last. */
void attn_arena_shrink(attn_arena *arena, void *block, size_t size);

size_t attn_arena_used(const attn_arena *arena);  /* bytes handed out so far */
size_t attn_arena_limit(const attn_arena *arena); /* bytes it may hand out */
void attn_arena_set_limit(attn_arena *arena, size_t limit);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
