/* The largest weights of a row or of a column, kept in a heap whose worst edge is heap[0]. Of two
 * edges, the edge with the smaller weight is worse. If the weights are equal, the edge with the
 * later row is worse, and if the rows are equal, too, the edge with the later key. Weights must not
 * be NaN. */
#ifndef ATTN_ANALYSIS_EDGES_H
#define ATTN_ANALYSIS_EDGES_H

#include "attn/heatmap.h"

/* Adds an edge to a heap of *count <= k edges; k is at least 1. If the heap has k edges already,
 * the worst of the k + 1 edges is dropped, which may be the new one. */
void attn_edges_add(attn_edge *heap, size_t *count, size_t k, attn_edge edge);
/* Turns a heap into a list that begins with the best edge. */
void attn_edges_sort(attn_edge *heap, size_t count);

#endif
