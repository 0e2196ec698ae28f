/* The allocator hook, checked size arithmetic, the arena and the area (area.h).
 *
 * An arena is a list of chunks of memory. attn_arena_take and similar functions return blocks:
 * small blocks share a chunk, and a large block has a chunk of its own. Under AddressSanitizer the
 * bytes of a chunk are poisoned until a block is allocated there. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/area.h"
#include "base/fill.h"
#include "base/sanitizers.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   __asan_poison_memory_region((p), (n))
#define UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
#else
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

enum { CHUNK_FIRST = 16384, CHUNK_MOST = 1 << 20, HEADER = ATTN_ALIGN };

typedef struct chunk {
    struct chunk *next;
    size_t size;   /* bytes after the header */
    size_t used;   /* bytes after the header that blocks have taken */
    size_t last;   /* offset of the newest block from the end of the header */
    size_t number; /* how many chunks the arena had taken before this one */
} chunk;

struct attn_arena {
    chunk *first;     /* the chunk in which small blocks are placed */
    size_t limit;     /* upper limit of `used` */
    size_t used;      /* bytes of all current blocks */
    size_t next_size; /* size of the next chunk for small blocks */
    size_t chunks;    /* how many chunks were ever taken */
};

static void *(*take_hook)(size_t) = attn_block_take;
static void (*give_hook)(void *) = attn_block_give;

void attn_set_allocator(void *(*take)(size_t), void (*give)(void *)) {
    take_hook = take ? take : attn_block_take;
    give_hook = give ? give : attn_block_give;
}

void *attn_alloc(size_t size) {
    return take_hook(size);
}

void attn_free(void *p) {
    if (p)
        give_hook(p);
}

attn_arena *attn_arena_new(size_t limit) {
    attn_arena *arena = attn_alloc(sizeof *arena);
    if (arena)
        *arena = (attn_arena){.limit = limit, .next_size = CHUNK_FIRST};
    return arena;
}

static void chunks_free(attn_arena *arena) {
    for (chunk *c = arena->first; c;) {
        chunk *next = c->next;
        UNPOISON((char *)c + HEADER, c->size);
        attn_free(c);
        c = next;
    }
    arena->first = NULL;
}

void attn_arena_free(attn_arena *arena) {
    if (!arena)
        return;
    chunks_free(arena);
    attn_free(arena);
}

static chunk *chunk_new(attn_arena *arena, size_t size) {
    size_t bytes;
    if (!attn_size_add(size, HEADER, &bytes))
        return NULL;
    chunk *c = attn_alloc(bytes);
    if (!c)
        return NULL;
    *c = (chunk){.size = size, .number = arena->chunks++};
    POISON((char *)c + HEADER, size);
    return c;
}

/* Makes a chunk for a block of `size` bytes that does not fit into the first chunk. The chunk for a
 * large block is inserted after the first one, which still takes small blocks. The chunk for a
 * small block becomes the first one. */
static chunk *chunk_for(attn_arena *arena, size_t size) {
    bool own = size > arena->next_size / 2;
    chunk *c = chunk_new(arena, own ? size : arena->next_size);
    if (!c)
        return NULL;
    if (own && arena->first) {
        c->next = arena->first->next;
        arena->first->next = c;
    } else {
        c->next = arena->first;
        arena->first = c;
    }
    if (!own && arena->next_size < CHUNK_MOST)
        arena->next_size *= 2;
    return c;
}

/* Returns the offset at which the next block in a chunk would begin. The offset may be beyond the
 * end of the chunk. */
static size_t chunk_next(const chunk *c, size_t align) {
    return (c->used + align - 1) / align * align;
}

bool attn_arena_reserve(attn_arena *arena, size_t bytes) {
    chunk *c = arena->first;
    const size_t at = c ? chunk_next(c, ATTN_ALIGN) : 0;
    if (c && at <= c->size && c->size - at >= bytes)
        return true;
    if (!arena->used)
        chunks_free(arena);
    c = chunk_new(arena, bytes);
    if (!c)
        return false;
    c->next = arena->first;
    arena->first = c;
    return true;
}

void attn_arena_reset(attn_arena *arena) {
    chunk *c = arena->first;
    size_t size = 0;
    arena->used = 0;
    if (c && !c->next) {
        POISON((char *)c + HEADER, c->size);
        c->used = c->last = 0;
        return;
    }
    for (; c; c = c->next)
        size += c->size;
    chunks_free(arena);
    if (size)
        attn_arena_reserve(arena, size);
}

attn_arena_mark attn_arena_here(const attn_arena *arena) {
    const chunk *c = arena->first;
    return (attn_arena_mark){arena->used, arena->chunks, c ? c->used : 0, c ? c->last : 0};
}

void attn_arena_rewind(attn_arena *arena, const attn_arena_mark *mark) {
    for (chunk **at = &arena->first; *at;) {
        chunk *c = *at;
        if (c->number < mark->chunks) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        UNPOISON((char *)c + HEADER, c->size);
        attn_free(c);
    }
    /* The first chunk that is left was also the first one at the mark. Since the mark, blocks were
     * placed only in this chunk and in the chunks that have now been freed. */
    chunk *c = arena->first;
    arena->used = mark->used;
    if (!c)
        return;
    c->used = mark->chunk_used;
    c->last = mark->chunk_last;
    POISON((char *)c + HEADER + c->used, c->size - c->used);
}

static void *arena_place(attn_arena *arena, size_t size, size_t align) {
    size_t total;
    if (!attn_size_add(arena->used, size, &total) || total > arena->limit)
        return NULL;
    chunk *c = arena->first;
    size_t at = c ? chunk_next(c, align) : 0;
    if (!c || at > c->size || size > c->size - at) {
        c = chunk_for(arena, size);
        if (!c)
            return NULL;
        at = 0;
    }
    char *p = (char *)c + HEADER + at;
    c->used = at + size;
    c->last = at;
    arena->used = total;
    UNPOISON(p, size);
    if (attn_fill_byte >= 0)
        attn_fill_new(p, size);
    return p;
}

void *attn_arena_take(attn_arena *arena, size_t size) {
    return arena_place(arena, size, ATTN_ALIGN);
}

void *attn_arena_small(attn_arena *arena, size_t size) {
    return arena_place(arena, size, 16);
}

void *attn_arena_array(attn_arena *arena, size_t count, size_t size) {
    size_t bytes;
    return attn_size_mul(count, size, &bytes) ? attn_arena_take(arena, bytes) : NULL;
}

void *attn_arena_zeroed(attn_arena *arena, size_t count, size_t size) {
    void *p = attn_arena_array(arena, count, size);
    if (p)
        memset(p, 0, count * size);
    return p;
}

char *attn_arena_text(attn_arena *arena, const char *text, size_t n) {
    char *copy = n < SIZE_MAX ? attn_arena_small(arena, n + 1) : NULL;
    if (copy) {
        memcpy(copy, text, n);
        copy[n] = 0;
    }
    return copy;
}

void attn_arena_shrink(attn_arena *arena, void *block, size_t size) {
    for (chunk *c = arena->first; c; c = c->next) {
        char *base = (char *)c + HEADER;
        if ((char *)block < base || (char *)block >= base + c->size)
            continue;
        if (base + c->last == (char *)block && c->last + size < c->used) {
            POISON(base + c->last + size, c->used - c->last - size);
            arena->used -= c->used - c->last - size;
            c->used = c->last + size;
        }
        return;
    }
}

size_t attn_arena_used(const attn_arena *arena) {
    return arena->used;
}
size_t attn_arena_limit(const attn_arena *arena) {
    return arena->limit;
}
void attn_arena_set_limit(attn_arena *arena, size_t limit) {
    arena->limit = limit;
}

bool attn_area_open(attn_area *a, const attn_area *counted, attn_arena *arena) {
    *a = (attn_area){.base = counted->overflow ? NULL : attn_arena_take(arena, counted->used)};
    return a->base != NULL;
}
