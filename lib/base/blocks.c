/* Aligned blocks of memory, with a cache of freed blocks. A block in this cache is called kept.
 *
 * Why a cache: an operation takes its memory in a few large blocks and frees these blocks at its
 * end. If the blocks went back to the system each time, the system would unmap, map and clear their
 * pages one by one. That takes as much time as the arithmetic of a small operation. Blocks of some
 * KiB are too large for the C library's fast lists of freed blocks, so the C library tidies up its
 * heap when such a block is freed.
 *
 * What is kept: freed blocks of at most KEPT_MOST bytes in all (ATTN_KEEP_BYTES in the environment
 * lowers this limit), in one list for each size class. The bytes of kept blocks and of blocks in
 * use together also stay within the limit of attn_block_limit as long as any block is kept. The
 * blocks freed longest ago leave the cache first.
 *
 * Blocks of at least MAPPED_LEAST bytes come from mmap, because the C library has a heap for each
 * thread, and these heaps would retain the memory. Smaller blocks come from malloc. Under a
 * sanitizer no block is kept or mapped, so that the sanitizer detects every use after free. */
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
#include "base/fill.h"
#include "base/sanitizers.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { KEPT_MOST = 0, MAPPED_LEAST = INT_MAX };
#else
enum { KEPT_MOST = 320 << 20, MAPPED_LEAST = 1 << 18 };
#endif

/* Sizes are in bytes. Blocks below BLOCK_LEAST = 2^LEAST_BITS are not kept, since the C library is
 * fast for them. Blocks above half of kept.most are not kept, since one of them would displace most
 * others. In between, the size of a block is rounded up to a size class. There are eight classes
 * for each power of two, so at most 1/8 of a block is unused. The largest class is 160 MiB, half of
 * KEPT_MOST. */
enum { BLOCK_LEAST = 1 << 10, LEAST_BITS = 10, CLASSES = 8 * 18 + 2 };

/* A block that grows is copied into a kept block only if it has at most COPIED_MOST bytes. For a
 * larger one the system moves the pages, which is faster than a copy. */
enum { COPIED_MOST = 2 << 20 };

/* When attn_block_trim has freed this many bytes of blocks from malloc, it makes the C library
 * return the free memory of all its heaps to the system. */
enum { TRIM_HEAPS_AFTER = 1 << 20 };

/* The header before every block. The members from since_ns on are used only while the block is
 * kept. */
typedef struct block {
    size_t size;      /* usable bytes after the header */
    size_t class;     /* size class, or CLASSES if blocks of this size are not kept */
    void *heap;       /* pointer from malloc; NULL: the block is mapped */
    int64_t since_ns; /* time when the block was freed */
    /* Neighbours in the list of all kept blocks, which is in order of since_ns. */
    struct block *newer, *older;
    struct block *next;  /* the next block in the list of its class */
    struct block **link; /* address of the pointer to this block in that list */
} block;

_Static_assert(sizeof(block) <= ATTN_ALIGN, "the header keeps the alignment");

/* The cache. The mutex protects all members except `most`. */
static struct {
    pthread_mutex_t mutex;
    block *classes[CLASSES]; /* the kept blocks of each class, newest first */
    block *newest, *oldest;  /* ends of the list of all kept blocks */
    size_t bytes;            /* bytes of all kept blocks */
    size_t used;             /* bytes of all blocks in use of at least BLOCK_LEAST bytes */
    size_t most;             /* upper limit of `bytes`; `once` guards the only write */
    size_t limit;            /* upper limit of bytes + used while any block is kept */
    size_t trimmed;          /* bytes from malloc that attn_block_trim freed since trim_heaps */
    pthread_once_t once;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER,
          .once = PTHREAD_ONCE_INIT,
          .most = KEPT_MOST,
          .limit = SIZE_MAX};

int attn_fill_byte = -1;

/* Returns the number in an environment variable, or `otherwise` if the variable holds no number. */
static unsigned long long environment_number(const char *name, unsigned long long otherwise) {
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9')
        return otherwise;
    const unsigned long long number = strtoull(text, &end, 10);
    return *end ? otherwise : number;
}

__attribute__((constructor)) static void read_fill(void) {
    const unsigned long long byte = environment_number("ATTN_FILL", UINT8_MAX + 1);
    attn_fill_byte = byte <= UINT8_MAX ? (int)byte : -1;
}

static void read_most(void) {
    const unsigned long long bytes = environment_number("ATTN_KEEP_BYTES", kept.most);
    if (bytes < kept.most)
        kept.most = (size_t)bytes;
}

static bool is_kept(size_t size) {
    pthread_once(&kept.once, read_most);
    return size >= BLOCK_LEAST && size <= kept.most / 2;
}

/* Returns the class of a size >= BLOCK_LEAST. *rounded is the size of the blocks of this class. */
static size_t class_of(size_t size, size_t *rounded) {
    const int bits = 63 - __builtin_clzll(size - 1);
    const size_t step = (size_t)1 << (bits - 3), steps = (size - 1) / step + 1;
    *rounded = steps * step;
    return (size_t)(bits + 1 - LEAST_BITS) * 8 + steps - 9; /* steps is 9 to 16 */
}

/* Returns the time of a coarse clock in nanoseconds. It is exact to a few milliseconds and cheaper
 * to read than the clock of attn_now_ns. */
static int64_t about_now(void) {
    struct timespec now;
#ifdef CLOCK_MONOTONIC_COARSE
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Removes a kept block from the list of all kept blocks and from the list of its class. */
static void take_out(block *b) {
    *b->link = b->next;
    if (b->next)
        b->next->link = b->link;
    *(b->newer ? &b->newer->older : &kept.newest) = b->older;
    *(b->older ? &b->older->newer : &kept.oldest) = b->newer;
    kept.bytes -= b->size;
}

/* Adds a freed block to the two lists of take_out as the newest block. */
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

enum { HUGE = 1 << 21 }; /* bytes of a huge page on x86-64 */

/* Asks the system for huge pages in a large block. They avoid a page fault for every 4 KiB. A
 * failure is ignored, since some systems have no huge pages. */
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

/* Moves the mapping of `bytes` bytes at `old` to a new address and enlarges it to `more` bytes.
 * Both sizes are whole pages. Old and new address have the same offset in a huge page, so the
 * system moves huge pages as a whole: 256 MiB take 0.1 ms instead of 3 ms. Returns NULL if the
 * system refuses; the old mapping is then unchanged. */
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

/* Allocates `bytes` bytes with malloc and aligns the pointer. aligned_alloc is slower, since it
 * does not use the C library's fast lists of freed blocks. Only builds with AddressSanitizer use
 * aligned_alloc, because AddressSanitizer cannot detect accesses to the bytes that aligning a
 * pointer from malloc skips. */
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

/* Moves the oldest kept block from the cache to the front of *list, which is linked by `next`. */
static void take_oldest(block **list) {
    block *b = kept.oldest;
    take_out(b);
    b->next = *list;
    *list = b;
}

/* Removes kept blocks, oldest first, until at most `most` bytes are kept. Returns the list of the
 * removed blocks for free_all. */
static block *shrink(size_t most) {
    block *out = NULL;
    while (kept.bytes > most)
        take_oldest(&out);
    return out;
}

/* Frees a list of blocks. The caller must not hold the mutex, since unmapping takes milliseconds
 * and would delay other threads. */
static void free_all(block *list) {
    while (list) {
        block *next = list->next;
        block_free(list);
        list = next;
    }
}

/* Returns how many bytes may be kept while `used` bytes are in use. */
static size_t room_beside(size_t used) {
    const size_t room = kept.limit > used ? kept.limit - used : 0;
    return room < kept.most ? room : kept.most;
}

/* Takes a kept block of this class out of the cache and counts its `size` bytes as in use. Returns
 * NULL if the class has no kept block. */
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

/* Counts `more` bytes as in use and frees the kept blocks that then exceed the limit. */
static void count(size_t more) {
    pthread_mutex_lock(&kept.mutex);
    kept.used += more;
    block *out = shrink(room_beside(kept.used));
    pthread_mutex_unlock(&kept.mutex);
    free_all(out);
}

/* Counts a block of `size` bytes as no longer in use. */
static void forget(size_t size) {
    if (size < BLOCK_LEAST)
        return;
    pthread_mutex_lock(&kept.mutex);
    kept.used -= size;
    pthread_mutex_unlock(&kept.mutex);
}

/* Returns the size of the block for a request of `size` bytes. *class is the class of this block,
 * or CLASSES if blocks of this size are not kept. */
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
    if (!b) {
        if (rounded >= BLOCK_LEAST)
            count(rounded);
        b = block_new(rounded, class);
        if (!b) {
            forget(rounded);
            return NULL;
        }
    }
    if (attn_fill_byte >= 0)
        attn_fill_new((char *)b + ATTN_ALIGN, rounded);
    return (char *)b + ATTN_ALIGN;
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
    if (attn_fill_byte >= 0)
        attn_fill_new((char *)b + ATTN_ALIGN + old, rounded - old);
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
    kept.limit = total;
    block *out = shrink(room_beside(kept.used));
    pthread_mutex_unlock(&kept.mutex);
    free_all(out);
}

size_t attn_block_size(const void *p) {
    return ((const block *)(const void *)((const char *)p - ATTN_ALIGN))->size;
}

/* Makes the C library return free memory between used blocks to the system. Unasked, the C library
 * returns only memory at the end of a heap. */
static void trim_heaps(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void attn_block_trim(int64_t kept_ns) {
    block *out = NULL;
    const int64_t by = about_now() - kept_ns;
    pthread_mutex_lock(&kept.mutex);
    while (kept.oldest && kept.oldest->since_ns <= by) {
        kept.trimmed += kept.oldest->heap ? kept.oldest->size : 0;
        take_oldest(&out);
    }
    const bool trims_heaps = kept.trimmed >= TRIM_HEAPS_AFTER;
    if (trims_heaps)
        kept.trimmed = 0;
    pthread_mutex_unlock(&kept.mutex);
    free_all(out);
    if (trims_heaps)
        trim_heaps();
}
