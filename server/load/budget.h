/* The memory budget: every byte that bodies, arenas and the library's scratch hold is counted by
 * the allocator hook, and an allocation beyond the budget fails. So memory_bytes is a hard bound
 * over all requests, whatever each of them asks for. */
#ifndef SRV_BUDGET_H
#define SRV_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

/* Install the hook; before any other thread uses the library. */
void srv_budget_start(size_t bytes);
size_t srv_budget_total(void);
size_t srv_budget_used(void);
/* Bytes that are free now, beyond those that this thread must leave. */
size_t srv_budget_free(void);
/* From now on this thread's allocations leave `bytes` of the budget free for others (0 at first).
 */
void srv_budget_leave(size_t bytes);
/* attn_block_grow within the budget. The block must not come from a reserve. */
void *srv_budget_grow(void *p, size_t size);
/* Memory put aside for one thread's work: what it allocates between enter and leave comes out of it
 * and never exceeds it. Only that thread may free what it allocated until the release, after which
 * the blocks that are left are counted as anybody's. */
typedef struct srv_reserve {
    size_t limit, used, peak; /* bytes */
} srv_reserve;
/* false: `bytes` are not free now, beyond those that this thread must leave. */
bool srv_budget_reserve(srv_reserve *reserve, size_t bytes);
void srv_budget_enter(srv_reserve *reserve); /* NULL: from the budget again */
void srv_budget_release(srv_reserve *reserve);
/* How often the budget refused memory to this thread, so that a request that failed can tell "too
 * large in itself" from "too much at this time". */
size_t srv_budget_refusals(void);

#endif
