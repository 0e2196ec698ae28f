/* A sweep goes over the rows of matrices of weights, for heatmaps, measures, comparisons, rollouts
 * and others. Its work is divided into pieces. A wave is a number of successive pieces that the
 * pool computes together. Each running piece has scratch memory of its own, its lane. After a wave
 * the calling thread merges the results of the pieces in the order of their indices, so that no
 * result depends on threads.
 *
 * place() and place_lane() take all arrays of a sweep from an area (area.h). attn_sweep_count and
 * attn_sweep_open both call these two functions, so the bytes that a cost states are those that the
 * sweep takes. */
#ifndef ATTN_SWEEP_H
#define ATTN_SWEEP_H

#include <attn/pool.h>

#include "base/area.h"

/* The functions of one kind of sweep. They share `work`, a struct of the caller. */
typedef struct attn_sweep {
    size_t lane_size; /* bytes of the struct that holds the arrays of a lane */
    /* Takes the arrays of one lane and stores them in *lane. */
    void (*place_lane)(const void *work, attn_area *area, void *lane);
    /* Takes the arrays that all pieces share and stores them in *work; NULL: there are none. */
    void (*place)(void *work, attn_area *area);
    attn_piece piece; /* computes piece `index` with the lane of number `lane` */
    /* Merges the results of pieces first … first + count - 1, which are a wave; NULL: there is
     * nothing to merge. */
    void (*merge)(void *work, size_t first, size_t count);
} attn_sweep;

/* Counts the arrays of `slots` lanes and the shared arrays. Returns the area, whose base is
 * NULL. */
attn_area attn_sweep_count(const attn_sweep *sweep, void *work, size_t slots);
/* Takes these arrays as one block from the arena. Returns the lanes, [slots] structs of lane_size
 * bytes at the beginning of the block. NULL: out of memory. No array is set to zeros. */
void *attn_sweep_open(const attn_sweep *sweep, void *work, size_t slots, attn_arena *arena);
/* Runs all pieces, at most `wave` of them between two merges (0: all together). Errors are those of
 * attn_pool_run. A wave that fails is not merged. */
attn_status attn_sweep_run(const attn_sweep *sweep, void *work, size_t pieces, size_t wave,
                           attn_pool *pool, const attn_control *control, attn_error *err);

#endif
