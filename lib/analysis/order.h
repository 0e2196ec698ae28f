/* Finds out whether a head goes through the keys in their order as the queries go on. */
#ifndef ATTN_ANALYSIS_ORDER_H
#define ATTN_ANALYSIS_ORDER_H

#include <stdbool.h>
#include <stddef.h>

/* peaks [n]: for each row that sees a key, the key of its largest weight; keys lie within [from,
 * to). Returns whether the peaks are in order:
 *   - They never step back, except that two neighbouring rows may exchange two keys at most
 *     max(1, (to - from) / 8) apart, if the rows before look at keys before both, and the next row
 *     at none before the later one. A row in four may begin such an exchange.
 *   - The first and the last key among them are at most a quarter of the keys away from both ends.
 *   - They are at least 0.8 of as many different keys as there can be, min(n, to - from).
 * Fewer than three rows or keys have no order. *exchanges is the number of exchanges. */
bool attn_analysis_order(const size_t *peaks, size_t n, size_t from, size_t to, size_t *exchanges);

#endif
