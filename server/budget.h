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
/* Would `bytes` more fit now? */
bool srv_budget_fits(size_t bytes);
/* How often the budget refused memory to this thread, so that a request that failed can tell "too
 * large in itself" from "too much at this time". */
size_t srv_budget_refusals(void);

#endif
