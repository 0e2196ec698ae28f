/* Patterns, in which positions alone decide whether a query sees a key. */
#ifndef ATTN_PATTERN_H
#define ATTN_PATTERN_H

#include <attn/mask.h>
#include <attn/status.h>

/* Refuses an unknown kind and sizes outside their range. `where` names the pattern in the error. */
attn_status attn_pattern_check(const attn_pattern *pattern, const char *where, attn_error *err);

/* Returns whether a query at position p sees key j. */
bool attn_pattern_sees(const attn_pattern *pattern, int64_t p, int64_t j);
/* Returns whether any query at a position p0 … p1 sees any key of j0 … j1 (ends included,
 * p0 <= p1, j0 <= j1). */
bool attn_pattern_touches(const attn_pattern *pattern, int64_t p0, int64_t p1, int64_t j0,
                          int64_t j1);

#endif
