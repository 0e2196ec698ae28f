/* The plan of a pass: how the pool divides the work, and which memory that takes. Cost functions
 * count by the plan, and the passes follow it.
 *
 *   group   the query heads that share a key/value head
 *   block   a run of at most kernels->rows queries of one head, which are computed together
 *   task    what a thread computes without a pause; the pool calls it a piece
 *   lane    the scratch memory of a task; there is one for each slot of the pool */
#ifndef ATTN_PLAN_H
#define ATTN_PLAN_H

#include "attention/resolved.h"

/* With at most this many queries in a head, keys and values are read unpacked, since packing them
 * costs more than it gains. */
enum { ATTN_FEW_QUERIES = 8 };

/* What one task of the forward pass computes. */
typedef enum attn_way {
    ATTN_WAY_PACKED,  /* a few blocks of a head; all keys and values are packed before all tasks */
    ATTN_WAY_HEADS,   /* all blocks of a group; the task first packs its keys and values */
    ATTN_WAY_WINDOWS, /* some blocks of all heads of a group; the task packs a tile of keys when a
                       * block sees it, and keeps it while the next blocks do */
    ATTN_WAY_GROUPS,  /* the few rows of all heads of a group, with unpacked keys and values */
} attn_way;

/* How a pass under a strided pattern divides its first half (strided.c). A unit is a run of rows of
 * one class of a head that share tiles of keys; a task computes several units of a head. */
typedef struct attn_strided_plan {
    size_t units_a_class; /* of the class with the most rows */
    size_t units;         /* of a head, some of which may be empty; 0: the pass has one half */
    size_t units_a_piece, pieces_a_head;
} attn_strided_plan;

typedef struct attn_plan {
    const attn_attention_dims *dims;
    const attn_kernels *kernels;
    unsigned want; /* ATTN_WANT_…: the results to compute */
    size_t slots;  /* number of lanes */
    attn_way way;
    bool keeps; /* weights are wanted, and are computed at the end of each block from the numerators
                 * (or edited scores) that its pass has kept */
    size_t rows; /* most rows of a block */
    size_t runs; /* blocks whose state a lane holds at a time */
    size_t kept; /* bytes of a block's memory for what is kept; 0: it is kept where the weights of
                  * the block will be */
    /* ATTN_WAY_PACKED and ATTN_WAY_HEADS: a task takes `abreast` blocks together over the keys.
     * Each of them visits part_keys keys, then each visits the next part_keys keys, and so on. */
    size_t abreast, part_keys;
    size_t row_blocks;     /* blocks in a head */
    size_t blocks_a_piece; /* ATTN_WAY_PACKED, _WINDOWS: blocks of a head in a task */
    size_t pieces_a_head;  /* ATTN_WAY_PACKED, _WINDOWS: tasks for a head */
    size_t window, pinned; /* ATTN_WAY_WINDOWS: tiles in a window (attn_packed) */
    size_t parts; /* ATTN_WAY_GROUPS: the keys of a group are divided into this many ranges,
                   * each of which is a task */
    attn_strided_plan strided;
} attn_plan;

/* Makes the plan of a forward pass for the results `want` with `slots` lanes. `dims` must outlive
 * the plan. */
void attn_plan_make(const attn_attention_dims *dims, unsigned want, size_t slots, attn_plan *plan);

/* Returns the number of rows of the block that begins at row i of batch entry b. Blocks end at
 * multiples of kernels->rows. With windows, a block also ends after the last of the first queries
 * of a global pattern, since these see all keys. */
size_t attn_plan_block(const attn_plan *plan, const attn_mask *mask, size_t b, size_t i);

/* Returns the number of keys in each of the plan's `parts` ranges of keys: whole tiles. */
size_t attn_plan_part(const attn_plan *plan);
/* Returns whether scores or weights are computed cell by cell after all rows. (Even if this is
 * false, the weights of double-precision rows are computed in this way.) */
bool attn_plan_fills(const attn_plan *plan);

/* The bytes that a forward pass takes by this plan. */
typedef struct attn_plan_bytes {
    size_t work, results;
    size_t fallback; /* in addition, if a task finds NaN or infinity or if rows need double */
} attn_plan_bytes;
/* Computes them. Returns false if a number exceeds SIZE_MAX. */
bool attn_plan_count(const attn_plan *plan, attn_plan_bytes *bytes);

/* Most tiles of keys in a head with by_heads, since a task has a bit for each tile in a
 * uint64_t. */
enum { ATTN_BACKWARD_MOST_TILES = 64 };

/* The plan of the backward pass with one kernel table. */
typedef struct attn_backward_plan {
    const attn_attention_dims *dims;
    const attn_kernels *kernels; /* plain products: computes weights, gradients and their sums */
    const attn_kernels *scores;  /* the table of the forward pass: computes the scores again */
    size_t slots;                /* number of lanes */
    bool by_heads;               /* a task computes the forward and the backward pass of a group */
    bool lane_homes; /* the packed rows of a group are in memory of the task's lane; else each group
                      * has its own memory for them */
    size_t blocks;   /* blocks in a head */
    size_t tiles;    /* tiles of keys in a head */
    size_t chunks;   /* the tiles of a group are divided into this many chunks, a task each */
    size_t tiles_a_chunk; /* tiles in a chunk */
} attn_backward_plan;

/* Makes the plan of a backward pass.
 *   kernels  the kernel table; NULL: that of dims; `ref`: everything is computed in double
 *   want     the results that are wanted from the forward pass
 *   biases   whether gradients of bias tensors are wanted */
void attn_backward_plan_make(const attn_attention_dims *dims, const attn_kernels *kernels,
                             unsigned want, bool biases, size_t slots, attn_backward_plan *plan);

#endif
