/* Aligned blocks, and the freed ones that are kept for the next run.
 *
 * A run takes its memory in a few large blocks and gives all of it back at its end. Handed to the
 * system each time, that memory is unmapped, mapped and cleared again, page by page, which costs a
 * small run as much as its arithmetic; and blocks of some KiB, which the C library's quick lists do
 * not hold, let it tidy up its heap each time. So the latest freed blocks are kept, by size class,
 * up to KEPT_MOST bytes (ATTN_KEEP_BYTES in the environment: fewer), and only as many as fit
 * attn_block_limit beside those in use; the oldest go first. What is not
 * kept goes back to the system at once: large blocks are mapped, because the C library's heaps, one
 * a thread, would hold on to them. Under a sanitizer nothing is kept or mapped, so that it sees
 * every use after free. */
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

/* Smaller blocks are the C library's business; larger ones than half of all would push out the
 * others. Classes are eighths of a power of two: at most 1/8 of a block is slack. One more than
 * eight for each of 18 powers, and one of the next: 160 MiB are the most that is kept of one. */
enum { BLOCK_LEAST = 1 << 10, LEAST_BITS = 10, CLASSES = 8 * 18 + 2 };

/* Larger blocks grow by mapping more even where a kept one is large enough: no copy takes long. */
enum { COPIED_MOST = 2 << 20 };

/* So many bytes freed in the heaps are worth a walk through them. */
enum { HOLEY = 1 << 20 };

/* In front of every block. */
typedef struct block {
    size_t size;                 /* usable bytes behind it */
    size_t class;                /* of such blocks, or CLASSES when they are not kept */
    void *heap;                  /* what the C library gave, NULL when it is mapped */
    int64_t since_ns;            /* while kept: when it was freed */
    struct block *newer, *older; /* while kept: of all */
    struct block *next, **link;  /* while kept: of its class */
} block;

_Static_assert(sizeof(block) <= ATTN_ALIGN, "the header keeps the alignment");

static struct {
    pthread_mutex_t mutex;
    block *classes[CLASSES];
    block *newest, *oldest;
    size_t bytes, used; /* kept; of that size, in use */
    size_t most;        /* bytes to keep; set once */
    size_t total;       /* most bytes kept and used together */
    size_t trimmed;     /* freed to the C library's heaps by attn_block_trim, until HOLEY */
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

/* The class of a size that is kept; *rounded: its blocks' size. */
static size_t class_of(size_t size, size_t *rounded) {
    const int bits = 63 - __builtin_clzl(size - 1);
    const size_t step = (size_t)1 << (bits - 3), steps = (size - 1) / step + 1;
    *rounded = steps * step;
    return (size_t)(bits + 1 - LEAST_BITS) * 8 + steps - 9; /* 9 … 16 steps */
}

/* The time to a few milliseconds, which costs next to nothing. */
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

/* Large pages for large blocks: fresh memory then costs its clearing, not a fault for every 4 KiB.
 * Systems that have none say no, which is no error. */
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

/* Moves the pages to where they lie in their large pages as they did: those then move whole, which
 * takes a tenth of a millisecond for 256 MiB instead of three. Whole pages; NULL: nothing moved. */
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

/* malloc and a shift: aligned_alloc knows no quick way, and splits what it finds. Under a sanitizer
 * nothing lies beside the block that it could not see. */
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

/* The oldest of the kept blocks is taken out, and put in front of a list by `next`. */
static void take_oldest(block **list) {
    block *b = kept.oldest;
    take_out(b);
    b->next = *list;
    *list = b;
}

/* Take out kept blocks, oldest first, until at most `most` bytes are kept. */
static block *shrink(size_t most) {
    block *out = NULL;
    while (kept.bytes > most)
        take_oldest(&out);
    return out;
}

/* Without the lock: unmapping takes milliseconds, in which others may want a block. */
static void free_all(block *list) {
    while (list) {
        block *next = list->next;
        block_free(list);
        list = next;
    }
}

/* Bytes that may be kept beside this many in use. */
static size_t room_beside(size_t used) {
    const size_t room = kept.total > used ? kept.total - used : 0;
    return room < kept.most ? room : kept.most;
}

/* A kept block of this class and size, in use from now on; NULL: none is kept. */
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

/* So many bytes more are in use; kept blocks make room. */
static void count(size_t more) {
    pthread_mutex_lock(&kept.mutex);
    kept.used += more;
    block *out = shrink(room_beside(kept.used));
    pthread_mutex_unlock(&kept.mutex);
    free_all(out);
}

/* A block of this size is no longer in use. */
static void forget(size_t size) {
    if (size < BLOCK_LEAST)
        return;
    pthread_mutex_lock(&kept.mutex);
    kept.used -= size;
    pthread_mutex_unlock(&kept.mutex);
}

/* Bytes of a block for so many; *class: of such blocks, or CLASSES when they are not kept. */
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

/* The C library gives freed memory back only from the end of a heap; what is free between blocks
 * in use stays, unless it is asked. */
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
