/* Finds out whether the keys with the largest weights come in the order of the queries. */
#ifndef ATTN_ANALYSIS_ORDER_H
#define ATTN_ANALYSIS_ORDER_H

#include <stdbool.h>
#include <stddef.h>

/* peaks [n] has, for each row that sees a key, the key of its largest weight. Keys lie within
 * [from, to). Returns whether the peaks are in order:
 *   - They never decrease, except for exchanges: peaks[i + 1] < peaks[i] is allowed if the two
 *     differ by at most max(1, (to - from) / 8), all earlier peaks are below peaks[i + 1], and
 *     peaks[i + 2], if any, is at least peaks[i]. There are at most (n + 3) / 4 exchanges.
 *   - The lowest peak is at most a quarter of the keys above `from`, the highest at most as far
 *     below to - 1.
 *   - The peaks have at least 0.8 min(n, to - from) different values.
 * Fewer than three rows or keys have no order. Sets *exchanges to the number of exchanges. */
bool attn_analysis_order(const size_t *peaks, size_t n, size_t from, size_t to, size_t *exchanges);

#endif
