/* Maximum flows through a graph of layers. Level 0 is below, and each level has the same tokens.
 * Edges go from a token of a level to tokens of the next lower one. */
#ifndef ATTN_RUN_MAX_FLOW_H
#define ATTN_RUN_MAX_FLOW_H

#include <attn/pool.h>

#include "base/area.h"

/* A residual capacity of at most this counts as 0. Otherwise rounding could leave paths that carry
 * nothing. */
#define ATTN_FLOW_TOLERANCE 1e-12

/* The edges from a token to the tokens lo … hi - 1 of the level below. */
typedef struct attn_flow_row {
    size_t lo, hi;
    size_t first; /* index of the capacity of the edge to lo */
} attn_flow_row;

typedef struct attn_flow_graph {
    /* layers + 1 levels of `tokens` tokens each, at most ATTN_FLOW_NODES tokens in all levels */
    size_t layers, tokens;
    attn_flow_row *rows; /* [layers, tokens]: row k * tokens + i is of token i of level k + 1 */
    double *capacity;    /* [edges]; if one capacity of a row is NaN, all of that row are */
    size_t edges;
} attn_flow_graph;
#define ATTN_FLOW_NODES ((size_t)UINT32_MAX / 4)

/* The memory with which a thread computes flows. */
typedef struct attn_flow_lane attn_flow_lane;
/* Takes a lane from an area; NULL if the area only counts. */
attn_flow_lane *attn_flow_lane_place(const attn_flow_graph *graph, attn_area *area);

/* Computes the maximum flow from a token of the top level to a token of level 0. Only tokens on a
 * path between them are visited. If a row of one of these is NaN, *flow is NaN. `pool` is the pool
 * that runs the calling piece of work. Errors: ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_flow_compute(const attn_flow_graph *graph, attn_flow_lane *lane, size_t source,
                              size_t sink, attn_pool *pool, const attn_control *control,
                              double *flow, attn_error *err);

#endif
