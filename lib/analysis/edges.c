/* A heap of edges (edges.h). */
#include "analysis/edges.h"

#include <stdbool.h>

static bool is_worse(const attn_edge *a, const attn_edge *b) {
    if (a->weight != b->weight)
        return a->weight < b->weight;
    return a->row != b->row ? a->row > b->row : a->col > b->col;
}

/* Moves the edge at 0 down until no child is worse. */
static void sift_down(attn_edge *heap, size_t count) {
    const attn_edge moving = heap[0];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_worse(&heap[child + 1], &heap[child]))
            child++;
        if (!is_worse(&heap[child], &moving))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

void attn_edges_add(attn_edge *heap, size_t *count, size_t k, attn_edge edge) {
    if (*count == k) {
        if (is_worse(&edge, &heap[0]))
            return;
        heap[0] = edge;
        sift_down(heap, k);
        return;
    }
    size_t at = (*count)++;
    for (; at > 0 && is_worse(&edge, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = edge;
}

void attn_edges_sort(attn_edge *heap, size_t count) {
    while (count > 1) {
        const attn_edge worst = heap[0];
        heap[0] = heap[--count];
        heap[count] = worst;
        sift_down(heap, count);
    }
}
