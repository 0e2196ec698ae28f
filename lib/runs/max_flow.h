/* Maximum flows through a graph of layers. Level 0 is the lowest, and each level has the same
 * tokens. Edges go from a token of a level to tokens of the level below. */
#ifndef ATTN_RUN_MAX_FLOW_H
#define ATTN_RUN_MAX_FLOW_H

#include <attn/pool.h>

#include "base/area.h"

/* A residual capacity of at most this number counts as 0. Otherwise rounding could leave paths that
 * carry almost nothing. */
#define ATTN_FLOW_TOLERANCE 1e-12

/* The edges from a token to the tokens lo … hi - 1 of the level below. */
typedef struct attn_flow_row {
    size_t lo, hi;
    size_t first; /* index of the capacity of the edge to lo */
} attn_flow_row;

typedef struct attn_flow_graph {
    /* layers + 1 levels of `tokens` tokens each, at most ATTN_FLOW_NODES tokens in all levels */
    size_t layers, tokens;
    /* [layers, tokens] rows[k * tokens + i] has the edges from token i of level k + 1. */
    attn_flow_row *rows;
    double *capacity; /* [edges] The capacities of a row are either all NaN or all not NaN. */
    size_t edges;
} attn_flow_graph;
#define ATTN_FLOW_NODES ((size_t)UINT32_MAX / 4)

/* The memory with which a thread computes flows. */
typedef struct attn_flow_lane attn_flow_lane;
/* Takes a lane from an area; NULL if the area only counts. */
attn_flow_lane *attn_flow_lane_place(const attn_flow_graph *graph, attn_area *area);

/* Computes the maximum flow from token `source` of the top level to token `sink` of level 0. Only
 * tokens on a path between the two are visited. If the capacities of a visited token's row are NaN,
 * *flow is NaN. `pool` is the pool on which the caller runs. Errors: ATTN_ECANCELED,
 * ATTN_EDEADLINE. */
attn_status attn_flow_compute(const attn_flow_graph *graph, attn_flow_lane *lane, size_t source,
                              size_t sink, attn_pool *pool, const attn_control *control,
                              double *flow, attn_error *err);

#endif
