/* The memory budget. The library's allocation functions (attn_alloc) call a hook that counts every
 * byte of bodies, arenas and scratch memory. An allocation beyond the budget fails, so all requests
 * together never use more than the setting memory_bytes. */
#ifndef SRV_BUDGET_H
#define SRV_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

/* Installs the hook, with a budget of `bytes`. Call this before any other thread uses the library.
 */
void srv_budget_start(size_t bytes);
size_t srv_budget_total(void);
size_t srv_budget_used(void);
/* Returns the number of bytes that this thread may still allocate: the free part of the budget
 * without the bytes that srv_budget_leave keeps for other threads. */
size_t srv_budget_free(void);
/* Makes later allocations of this thread fail if they would leave less than `bytes` of the budget
 * free. Replaces the value of the last call; a thread starts with 0. */
void srv_budget_leave(size_t bytes);
/* Grows a block of attn_alloc to `size` bytes without a copy, as attn_block_grow does. NULL: the
 * budget or attn_block_grow does not allow it, and the block is unchanged. The block must not come
 * from a reserve. */
void *srv_budget_grow(void *p, size_t size);

/* A part of the budget that is reserved for one thread, for example for a job. Between
 * srv_budget_enter(reserve) and srv_budget_enter(NULL) the allocations of the thread are counted in
 * the reserve, and they fail beyond its limit. Only this thread may free the blocks, and only
 * between these two calls, until srv_budget_release. The release returns the unused bytes. Blocks
 * that still exist then count in the general budget. */
typedef struct srv_reserve {
    size_t limit; /* bytes that are reserved */
    size_t used;  /* bytes that the thread has allocated from them */
    size_t peak;  /* the largest `used` so far */
} srv_reserve;
/* Reserves `bytes` of the budget. Returns false if they are more than srv_budget_free. */
bool srv_budget_reserve(srv_reserve *reserve, size_t bytes);
void srv_budget_enter(srv_reserve *reserve); /* NULL: allocate from the general budget again */
void srv_budget_release(srv_reserve *reserve);
/* Returns the number of times that the budget has refused memory to this thread. A request that ran
 * out of memory can compare the numbers before and after it. If they are equal, its own arena was
 * full, and not the budget. */
size_t srv_budget_refusals(void);

#endif
