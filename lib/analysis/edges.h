/* The largest weights of a row or of a column, kept in a heap whose worst edge is heap[0]. Of two
 * edges the one with the smaller weight is worse, of equal weights the one with the later row, then
 * the one with the later key. Weights must not be NaN. */
#ifndef ATTN_ANALYSIS_EDGES_H
#define ATTN_ANALYSIS_EDGES_H

#include "attn/heatmap.h"

/* Adds an edge to a heap of *count <= k edges; k is at least 1. If there are k, the worst one goes,
 * which may be the new one. */
void attn_edges_add(attn_edge *heap, size_t *count, size_t k, attn_edge edge);
/* Turns a heap into a list that begins with the best edge. */
void attn_edges_sort(attn_edge *heap, size_t count);

#endif
