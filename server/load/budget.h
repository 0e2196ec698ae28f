/* The memory budget. A hook in the library's allocator counts every byte of bodies, arenas and
 * scratch memory, and an allocation beyond the budget fails. So all requests together never use
 * more than the setting memory_bytes. */
#ifndef SRV_BUDGET_H
#define SRV_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

/* Installs the allocator hook. Call it before any other thread uses the library. */
void srv_budget_start(size_t bytes);
size_t srv_budget_total(void);
size_t srv_budget_used(void);
/* Returns the free bytes, without those that this thread must leave free (srv_budget_leave). */
size_t srv_budget_free(void);
/* Makes all later allocations of this thread leave `bytes` of the budget free for other threads. A
 * thread starts with 0. */
void srv_budget_leave(size_t bytes);
/* Grows a block by attn_block_grow if the budget allows it. The block must not come from a reserve.
 */
void *srv_budget_grow(void *p, size_t size);
/* A part of the budget that is reserved for one thread. What this thread allocates between
 * srv_budget_enter(reserve) and srv_budget_enter(NULL) is counted in the reserve and never exceeds
 * it. Until srv_budget_release only this thread may free these blocks. The release moves the
 * remaining blocks to the general budget. */
typedef struct srv_reserve {
    size_t limit, used, peak; /* bytes */
} srv_reserve;
/* Reserves `bytes`. Returns false if srv_budget_free is smaller. */
bool srv_budget_reserve(srv_reserve *reserve, size_t bytes);
void srv_budget_enter(srv_reserve *reserve); /* NULL: allocate from the general budget again */
void srv_budget_release(srv_reserve *reserve);
/* Returns how often the budget has refused memory to this thread. By this number a request that ran
 * out of memory can tell whether the budget or its own limit was exhausted. */
size_t srv_budget_refusals(void);

#endif
