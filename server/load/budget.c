/* The allocation hook has no context pointer, so its state is in global and thread-local variables.
 */
#include "load/budget.h"

#include <attn/memory.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

static size_t total;                   /* bytes of the budget */
static atomic_size_t used;             /* bytes in use, reserves included */
static _Thread_local size_t refusals;  /* srv_budget_refusals */
static _Thread_local size_t leave;     /* srv_budget_leave */
static _Thread_local srv_reserve *own; /* the reserve to allocate from; NULL: the general budget */

/* Allocates from the reserve of this thread. */
static void *take_from_reserve(size_t rounded) {
    void *p = NULL;
    if (rounded <= own->limit && own->used <= own->limit - rounded)
        p = attn_block_take(rounded);
    refusals += !p;
    own->used += p ? attn_block_size(p) : 0;
    own->peak = own->used > own->peak ? own->used : own->peak;
    return p;
}

static void *take_counted(size_t size) {
    size_t rounded = size ? size : 1;
    if (rounded > SIZE_MAX - ATTN_ALIGN) {
        refusals++;
        return NULL;
    }
    rounded = attn_align_up(rounded);
    if (own)
        return take_from_reserve(rounded);
    size_t before = atomic_fetch_add_explicit(&used, rounded, memory_order_relaxed);
    void *p = NULL;
    size_t most = total > leave ? total - leave : 0;
    if (rounded <= most && before <= most - rounded)
        p = attn_block_take(rounded);
    refusals += !p;
    /* A block may be larger than requested. give_counted() subtracts the size of the block.
     * Therefore that size is added here. */
    size_t counted = p ? attn_block_size(p) : 0;
    atomic_fetch_add_explicit(&used, counted - rounded, memory_order_relaxed);
    return p;
}

static void give_counted(void *p) {
    if (own)
        own->used -= attn_block_size(p);
    else
        atomic_fetch_sub_explicit(&used, attn_block_size(p), memory_order_relaxed);
    attn_block_give(p);
}

void *srv_budget_grow(void *p, size_t size) {
    const size_t old = attn_block_size(p), more = size > old ? size - old : 0;
    const size_t before = atomic_fetch_add_explicit(&used, more, memory_order_relaxed);
    const size_t most = total > leave ? total - leave : 0;
    void *grown = more <= most && before <= most - more ? attn_block_grow(p, size) : NULL;
    const size_t counted = grown ? attn_block_size(grown) - old : 0;
    atomic_fetch_add_explicit(&used, counted - more, memory_order_relaxed);
    return grown;
}

void srv_budget_start(size_t bytes) {
    total = bytes;
    attn_set_allocator(take_counted, give_counted);
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

size_t srv_budget_free(void) {
    size_t now = srv_budget_used(), most = total > leave ? total - leave : 0;
    return now < most ? most - now : 0;
}

void srv_budget_leave(size_t bytes) {
    leave = bytes;
}

bool srv_budget_reserve(srv_reserve *reserve, size_t bytes) {
    size_t before = atomic_fetch_add_explicit(&used, bytes, memory_order_relaxed);
    size_t most = total > leave ? total - leave : 0;
    bool fits = bytes <= most && before <= most - bytes;
    if (!fits)
        atomic_fetch_sub_explicit(&used, bytes, memory_order_relaxed);
    *reserve = (srv_reserve){.limit = fits ? bytes : 0};
    return fits;
}

void srv_budget_enter(srv_reserve *reserve) {
    own = reserve;
}

void srv_budget_release(srv_reserve *reserve) {
    atomic_fetch_add_explicit(&used, reserve->used - reserve->limit, memory_order_relaxed);
    *reserve = (srv_reserve){0};
}
