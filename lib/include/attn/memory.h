/* The allocator hook and the arena.
 *
 * All allocations of the library go through the hook, so a test can make the n-th one fail. An
 * arena hands out memory that is freed all at once; each request owns one. */
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

/* Rounds up to a multiple of ATTN_ALIGN. `bytes` is at most SIZE_MAX - ATTN_ALIGN. */
static inline size_t attn_align_up(size_t bytes) {
    return (bytes + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
}

/* Replaces the allocator. `take(size)` returns ATTN_ALIGN-aligned memory or NULL, and `give(p)`
 * frees it. NULL, NULL restores attn_block_take and attn_block_give. Call it before another thread
 * uses the library. */
void attn_set_allocator(void *(*take)(size_t size), void (*give)(void *p));

/* The default allocator, which a hook may call: ATTN_ALIGN-aligned blocks from the C library. It
 * keeps up to 320 MiB of freed blocks for the next operation. ATTN_KEEP_BYTES in the environment,
 * read once, lowers this limit; under a sanitizer nothing is kept. Any thread. */
void *attn_block_take(size_t size);
void attn_block_give(void *p); /* NULL is fine */
/* Enlarges the block p to at least `size` bytes, keeps its contents, and returns the new block; p
 * is then invalid. Its pages are moved, and at most 2 MiB are copied, into a kept block. NULL: p is
 * unchanged, because there is no memory, or because the block cannot grow. Blocks of 256 KiB and
 * more can, except under a sanitizer. */
void *attn_block_grow(void *p, size_t size);
size_t attn_block_size(const void *p); /* usable bytes, at least the requested size */
/* Frees the blocks that have been kept for at least this many nanoseconds; 0 frees all. */
void attn_block_trim(int64_t kept_ns);
/* Limits the kept blocks: together with the blocks in use, small ones not counted, they take at
 * most this many bytes. The default is no limit. Any thread. */
void attn_block_limit(size_t total);

/* Returns an ATTN_ALIGN-aligned block of at least `size` bytes (also for size 0), or NULL. */
void *attn_alloc(size_t size);
void attn_free(void *p); /* NULL is fine */

/* Multiply or add sizes. false: the result overflows, and *out is unchanged. */
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

/* Makes an arena that hands out at most `limit` bytes in all; NULL: out of memory. One thread at a
 * time may use an arena. */
attn_arena *attn_arena_new(size_t limit);
void attn_arena_free(attn_arena *arena); /* frees all that it handed out; NULL is fine */
/* Frees all that the arena handed out, and keeps the memory as one block for its next use. So a
 * loop allocates only in its first iteration, if the later ones need no more memory. */
void attn_arena_reset(attn_arena *arena);

/* A mark is the state of an arena, and rewinding to it frees all that was handed out since. A mark
 * is valid until the arena is rewound to an earlier one or is reset. */
typedef struct attn_arena_mark {
    size_t used, chunks, chunk_used, chunk_last;
} attn_arena_mark;
attn_arena_mark attn_arena_here(const attn_arena *arena);
void attn_arena_rewind(attn_arena *arena, const attn_arena_mark *mark);

/* Allocates memory for later blocks of `bytes` bytes in all, so that they cannot fail for lack of
 * memory. Each block counts as the next multiple of ATTN_ALIGN. The limit of the arena does not
 * apply, because it counts what is handed out. false: out of memory. */
bool attn_arena_reserve(attn_arena *arena, size_t bytes);
/* Returns ATTN_ALIGN-aligned memory that is not zeroed; NULL: out of memory or beyond the limit. */
void *attn_arena_take(attn_arena *arena, size_t size);
/* As attn_arena_take, but 16-byte aligned, for small objects such as strings and nodes. */
void *attn_arena_small(attn_arena *arena, size_t size);
/* Returns `count` zeroed elements of `size` bytes; NULL also if the size overflows. */
void *attn_arena_zeroed(attn_arena *arena, size_t count, size_t size);
/* Returns a NUL-terminated copy of n bytes. */
char *attn_arena_text(attn_arena *arena, const char *text, size_t n);
/* Shortens a block of attn_arena_take to `size` bytes if it is still the last block. */
void attn_arena_shrink(attn_arena *arena, void *block, size_t size);

size_t attn_arena_used(const attn_arena *arena);  /* bytes handed out so far */
size_t attn_arena_limit(const attn_arena *arena); /* bytes it may hand out */
void attn_arena_set_limit(attn_arena *arena, size_t limit);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
