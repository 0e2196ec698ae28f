/* Patterns, in which positions alone decide whether a query sees a key. */
#ifndef ATTN_PATTERN_H
#define ATTN_PATTERN_H

#include <attn/mask.h>
#include <attn/status.h>

/* Refuses an unknown kind and sizes outside their range. `where` names the pattern in the error. */
attn_status attn_pattern_check(const attn_pattern *pattern, const char *where, attn_error *err);

/* Returns whether a query at position p sees key j. */
bool attn_pattern_sees(const attn_pattern *pattern, int64_t p, int64_t j);
/* Zeroes keep[j - j0] for the keys j0 … j0 + n - 1 that a query at position p does not see. The
 * other bytes do not change. */
void attn_pattern_hide(const attn_pattern *pattern, int64_t p, int64_t j0, int64_t n,
                       uint8_t *keep);
/* Narrows the keys [*from, *to) to the range from the first to the last key that a query at any
 * position p0 … p1 (ends included, p0 <= p1) sees. If no query sees a key, *from = *to
 * afterwards. */
void attn_pattern_narrow(const attn_pattern *pattern, int64_t p0, int64_t p1, int64_t *from,
                         int64_t *to);
/* Narrows the keys [*from, *to) to keys that queries at all positions p0 … p1 (ends included, p0 <=
 * p1) see. The result may lack some of these keys. If no key is left, *from >= *to afterwards. */
void attn_pattern_common(const attn_pattern *pattern, int64_t p0, int64_t p1, int64_t *from,
                         int64_t *to);
/* Returns true only if a query at position p sees all keys [from, to), which attn_pattern_narrow
 * has narrowed for this position. It returns false also for some intervals of which the query sees
 * all keys. */
bool attn_pattern_sees_between(const attn_pattern *pattern, int64_t p, int64_t from, int64_t to);

#endif
