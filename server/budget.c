/* The hook takes no context pointer, so the two counters are the process's. */
#include "budget.h"

#include <attn/memory.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

static size_t total;
static atomic_size_t used;
static _Thread_local size_t refusals;

static void *take(size_t size) {
    size_t rounded = size ? size : 1;
    if (rounded > SIZE_MAX - ATTN_ALIGN) {
        refusals++;
        return NULL;
    }
    rounded = (rounded + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
    size_t before = atomic_fetch_add_explicit(&used, rounded, memory_order_relaxed);
    void *p = NULL;
    if (rounded <= total && before <= total - rounded)
        p = aligned_alloc(ATTN_ALIGN, rounded);
    refusals += !p;
    /* give() knows only what the C library says of the block, so that is what is counted. */
    size_t counted = p ? malloc_usable_size(p) : 0;
    atomic_fetch_add_explicit(&used, counted - rounded, memory_order_relaxed);
    return p;
}

static void give(void *p) {
    atomic_fetch_sub_explicit(&used, malloc_usable_size(p), memory_order_relaxed);
    free(p);
}

void srv_budget_start(size_t bytes) {
    total = bytes;
    attn_set_allocator(take, give);
}

size_t srv_budget_total(void) {
    return total;
}
size_t srv_budget_used(void) {
    return atomic_load_explicit(&used, memory_order_relaxed);
}

size_t srv_budget_refusals(void) {
    return refusals;
}

bool srv_budget_fits(size_t bytes) {
    size_t now = srv_budget_used();
    return bytes <= total && now <= total - bytes;
}
