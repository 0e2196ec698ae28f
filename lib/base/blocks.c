/* Aligned blocks, with a cache of freed blocks.
 *
 * A run takes its memory in a few large blocks and frees all of them at its end. If they went back
 * to the system each time, it would unmap, map and clear them page by page, which takes as much
 * time as the arithmetic of a small run. Blocks of some KiB are too large for the C library's
 * quick lists, so freeing them makes it consolidate its heap. So this file keeps the last freed
 * blocks by size class, up to KEPT_MOST bytes (ATTN_KEEP_BYTES in the environment lowers this), and
 * only as many as fit into attn_block_limit together with the blocks in use. It frees the oldest
 * first. Other blocks go back to the system at once. Large ones are mapped, because the C library's
 * heaps, one for each thread, would retain them. Under a sanitizer no block is kept or mapped, so
 * that it detects every use after free. */
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "attn/memory.h"
#include "attn/pool.h"
#include "base/sanitizers.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { KEPT_MOST = 0, MAPPED_LEAST = INT_MAX };
#else
enum { KEPT_MOST = 320 << 20, MAPPED_LEAST = 1 << 18 };
#endif

/* Blocks below BLOCK_LEAST are left to the C library, and blocks above half the limit would
 * displace all others. There are eight classes for each power of two, so at most 1/8 of a block is
 * unused. The largest class is 160 MiB. */
enum { BLOCK_LEAST = 1 << 10, LEAST_BITS = 10, CLASSES = 8 * 18 + 2 };

/* Blocks above COPIED_MOST grow by mapping more pages, even if a kept block is large enough, since
 * a copy would take longer. */
enum { COPIED_MOST = 2 << 20 };

/* Freed bytes in the heaps after which attn_block_trim walks through them. */
enum { HOLEY = 1 << 20 };

/* The header before every block. */
typedef struct block {
    size_t size;                 /* usable bytes after the header */
    size_t class;                /* size class, or CLASSES if such blocks are not kept */
    void *heap;                  /* pointer from malloc; NULL: mapped */
    int64_t since_ns;            /* while kept: time of freeing */
    struct block *newer, *older; /* while kept: in the list of all */
    struct block *next, **link;  /* while kept: in the list of its class */
} block;

_Static_assert(sizeof(block) <= ATTN_ALIGN, "the header keeps the alignment");

static struct {
    pthread_mutex_t mutex;
    block *classes[CLASSES];
    block *newest, *oldest;
    size_t bytes, used; /* bytes kept; bytes in use in blocks of such sizes */
    size_t most;        /* bytes to keep; set once */
    size_t total;       /* largest sum of kept and used bytes */
    size_t trimmed;     /* heap bytes freed by attn_block_trim since it last trimmed the heaps */
    pthread_once_t once;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER,
          .once = PTHREAD_ONCE_INIT,
          .most = KEPT_MOST,
          .total = SIZE_MAX};

static void read_most(void) {
    const char *text = getenv("ATTN_KEEP_BYTES");
    char *end;
    if (!text || *text < '0' || *text > '9')
        return;
    const unsigned long long bytes = strtoull(text, &end, 10);
    if (!*end && bytes < kept.most)
        kept.most = (size_t)bytes;
}

static bool is_kept(size_t size) {
    pthread_once(&kept.once, read_most);
    return size >= BLOCK_LEAST && size <= kept.most / 2;
}

/* Returns the class of a size, and the size of its blocks in *rounded. */
static size_t class_of(size_t size, size_t *rounded) {
    const int bits = 63 - __builtin_clzl(size - 1);
    const size_t step = (size_t)1 << (bits - 3), steps = (size - 1) / step + 1;
    *rounded = steps * step;
    return (size_t)(bits + 1 - LEAST_BITS) * 8 + steps - 9; /* 9 … 16 steps */
}

/* Returns the time with a resolution of a few milliseconds, which is cheap to read. */
static int64_t about_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void take_out(block *b) {
    *b->link = b->next;
    if (b->next)
        b->next->link = b->link;
    *(b->newer ? &b->newer->older : &kept.newest) = b->older;
    *(b->older ? &b->older->newer : &kept.oldest) = b->newer;
    kept.bytes -= b->size;
}

static void put_in(block *b) {
    b->link = &kept.classes[b->class];
    b->next = *b->link;
    if (b->next)
        b->next->link = &b->next;
    *b->link = b;
    b->newer = NULL;
    b->since_ns = about_now();
    b->older = kept.newest;
    *(b->older ? &b->older->newer : &kept.oldest) = b;
    kept.newest = b;
    kept.bytes += b->size;
}

enum { HUGE = 1 << 21 };

/* Requests huge pages for a large block, which avoids a page fault for every 4 KiB. Failure is no
 * error, since some systems have none. */
static void want_huge(void *p, size_t bytes) {
    if (bytes >= 2 * HUGE)
        madvise(p, bytes, MADV_HUGEPAGE);
}

static void *map(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    want_huge(p, bytes);
    return p;
}

/* Moves pages to an address with the same offset in a huge page. Huge pages then move as a whole,
 * which takes 0.1 ms for 256 MiB instead of 3 ms. Sizes are whole pages. NULL: nothing moved. */
static void *map_larger(void *old, size_t bytes, size_t more) {
    const size_t room = more + HUGE;
    char *space = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return NULL;
    const size_t before = ((uintptr_t)old - (uintptr_t)space) % HUGE;
    char *at = mremap(old, bytes, more, MREMAP_MAYMOVE | MREMAP_FIXED, space + before);
    if (at == MAP_FAILED) {
        munmap(space, room);
        return NULL;
    }
    if (before)
        munmap(space, before);
    munmap(at + more, room - more - before);
    want_huge(at, more);
    return at;
}

/* Allocates by malloc and aligns the pointer. aligned_alloc does not use the quick lists and splits
 * chunks. Under a sanitizer the block has no unused bytes, whose access it could not detect. */
static block *take_heap(size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    void *heap = aligned_alloc(ATTN_ALIGN, bytes);
#else
    void *heap = malloc(bytes + ATTN_ALIGN);
#endif
    const uintptr_t at = ((uintptr_t)heap + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
    block *b = heap ? (block *)at : NULL;
    if (b)
        b->heap = heap;
    return b;
}

static block *block_new(size_t size, size_t class) {
    const size_t bytes = ATTN_ALIGN + size;
    const bool mapped = size >= MAPPED_LEAST;
    block *b = mapped ? map(bytes) : take_heap(bytes);
    if (!b)
        return NULL;
    b->size = size;
    b->class = class;
    if (mapped)
        b->heap = NULL;
    return b;
}

static void block_free(block *b) {
    if (b->heap)
        free(b->heap);
    else
        munmap(b, ATTN_ALIGN + b->size);
}

/* Takes out the oldest kept block and prepends it to a list linked by `next`. */
static void take_oldest(block **list) {
    block *b = kept.oldest;
    take_out(b);
    b->next = *list;
    *list = b;
}

/* Takes out kept blocks, oldest first, until at most `most` bytes are kept. */
static block *shrink(size_t most) {
    block *out = NULL;
    while (kept.bytes > most)
        take_oldest(&out);
    return out;
}

/* Frees a list. The caller does not hold the lock, since unmapping takes milliseconds and would
 * delay other threads. */
static void free_all(block *list) {
    while (list) {
        block *next = list->next;
        block_free(list);
        list = next;
    }
}

/* Returns the bytes that may be kept if `used` bytes are in use. */
static size_t room_beside(size_t used) {
    const size_t room = kept.total > used ? kept.total - used : 0;
    return room < kept.most ? room : kept.most;
}

/* Takes a kept block of this class and size into use. NULL: none is kept. */
static block *reuse(size_t class, size_t size) {
    if (class == CLASSES)
        return NULL;
    pthread_mutex_lock(&kept.mutex);
    block *b = kept.classes[class];
    if (b) {
        take_out(b);
        kept.used += size;
    }
    pthread_mutex_unlock(&kept.mutex);
    return b;
}

/* Counts `more` bytes as in use and frees kept blocks that exceed the limit. */
static void count(size_t more) {
    pthread_mutex_lock(&kept.mutex);
    kept.used += more;
    block *out = shrink(room_beside(kept.used));
    pthread_mutex_unlock(&kept.mutex);
    free_all(out);
}

/* Counts a block of this size as no longer in use. */
static void forget(size_t size) {
    if (size < BLOCK_LEAST)
        return;
    pthread_mutex_lock(&kept.mutex);
    kept.used -= size;
    pthread_mutex_unlock(&kept.mutex);
}

/* Returns the size of the block for `size` bytes. *class is its class, or CLASSES if such blocks
 * are not kept. */
static size_t round_up(size_t size, size_t *class) {
    size_t rounded = attn_align_up(size ? size : 1);
    *class = is_kept(rounded) ? class_of(rounded, &rounded) : CLASSES;
    return rounded;
}

void *attn_block_take(size_t size) {
    size_t class;
    if (size > SIZE_MAX / 2)
        return NULL;
    const size_t rounded = round_up(size, &class);
    block *b = reuse(class, rounded);
    if (b)
        return (char *)b + ATTN_ALIGN;
    if (rounded >= BLOCK_LEAST)
        count(rounded);
    b = block_new(rounded, class);
    if (!b)
        forget(rounded);
    return b ? (char *)b + ATTN_ALIGN : NULL;
}

static size_t whole_pages(size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (ATTN_ALIGN + size + page - 1) / page * page;
}

void *attn_block_grow(void *p, size_t size) {
    block *b = (block *)(void *)((char *)p - ATTN_ALIGN);
    size_t class;
    if (b->heap || size > SIZE_MAX / 2)
        return NULL;
    const size_t old = b->size, rounded = round_up(size, &class);
    if (rounded <= old)
        return p;
    block *ready = old <= COPIED_MOST ? reuse(class, rounded) : NULL;
    if (ready) {
        memcpy((char *)ready + ATTN_ALIGN, p, old);
        attn_block_give(p);
        return (char *)ready + ATTN_ALIGN;
    }
    b = map_larger(b, whole_pages(old), whole_pages(rounded));
    if (!b)
        return NULL;
    b->size = rounded;
    b->class = class;
    count(rounded - old);
    return (char *)b + ATTN_ALIGN;
}

void attn_block_give(void *p) {
    if (!p)
        return;
    block *b = (block *)(void *)((char *)p - ATTN_ALIGN);
    if (b->class == CLASSES) {
        forget(b->size);
        block_free(b);
        return;
    }
    pthread_mutex_lock(&kept.mutex);
    kept.used -= b->size;
    const size_t room = room_beside(kept.used);
    const bool fits = b->size <= room;
    block *out = fits ? shrink(room - b->size) : NULL;
    if (fits)
        put_in(b);
    pthread_mutex_unlock(&kept.mutex);
    free_all(out);
    if (!fits)
        block_free(b);
}

void attn_block_limit(size_t total) {
    pthread_mutex_lock(&kept.mutex);
    kept.total = total;
    block *out = shrink(room_beside(kept.used));
    pthread_mutex_unlock(&kept.mutex);
    free_all(out);
}

size_t attn_block_size(const void *p) {
    return ((const block *)(const void *)((const char *)p - ATTN_ALIGN))->size;
}

/* Returns free memory between used blocks to the system. Without a request the C library returns
 * only the end of a heap. */
static void trim_heaps(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void attn_block_trim(int64_t kept_ns) {
    block *out = NULL;
    const int64_t by = attn_now_ns() - kept_ns;
    pthread_mutex_lock(&kept.mutex);
    while (kept.oldest && kept.oldest->since_ns <= by) {
        kept.trimmed += kept.oldest->heap ? kept.oldest->size : 0;
        take_oldest(&out);
    }
    const bool holey = kept.trimmed >= HOLEY;
    if (holey)
        kept.trimmed = 0;
    pthread_mutex_unlock(&kept.mutex);
    free_all(out);
    if (holey)
        trim_heaps();
}
