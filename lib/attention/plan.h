/* The plan of a forward pass: the steps that the pass runs, how the pool divides each of them, and
 * the numbers that determine its memory. The cost functions count from a plan, and the pass follows
 * the same plan.
 *
 *   group   the query heads that share a key/value head
 *   block   a run of at most kernels->rows queries of one head, which are computed together
 *   bundle  several blocks whose rows read each tile of keys one after the other
 *   step    a stage of the pass, such as the packing of all keys; a plan is a list of steps
 *   piece   a part of a step that one thread of the pool computes
 *   lane    the scratch memory of a thread; there is one for each slot of the pool */
#ifndef ATTN_PLAN_H
#define ATTN_PLAN_H

#include "attention/resolved.h"

/* With at most this many queries in a head, keys and values are read unpacked, since packing them
 * costs more than it gains. */
enum { ATTN_FEW_QUERIES = 8 };

/* What a step computes. The steps from BLOCKS to RANGES compute blocks; a plan has one of them. */
typedef enum attn_step_kind {
    ATTN_STEP_PACK,    /* packs the keys and values of all heads (operands.c) */
    ATTN_STEP_STRIDED, /* computes rows against the keys that the stride selects (strided.c) */
    ATTN_STEP_BLOCKS,  /* a piece computes a few blocks of a head over packed keys */
    ATTN_STEP_HEADS,   /* a piece packs a key/value head and computes all blocks of its group */
    ATTN_STEP_WINDOWS, /* a piece computes some blocks of all heads of a group. It packs a tile of
                        * keys when a block sees the tile, and keeps the tile while the next
                        * blocks see it */
    ATTN_STEP_GROUPS,  /* a piece computes the few rows of all heads of a group, with unpacked keys
                        * and values */
    ATTN_STEP_RANGES,  /* as GROUPS, but a piece goes over one range of the keys only */
    ATTN_STEP_JOIN,    /* joins the ranges of a group */
    ATTN_STEP_NORMALIZED,   /* a piece computes a block whose normaliser is not softmax; instead of
                           * the steps from BLOCKS to JOIN */
    ATTN_STEP_NEAR_WEIGHTS, /* with a strided pattern: weights of the keys near each query */
    ATTN_STEP_STRIDED_WEIGHTS, /* with a strided pattern: weights of the other keys */
    /* These three steps compute whole matrices from the statistics of the rows (cells.c). */
    ATTN_STEP_SCORES,
    ATTN_STEP_WEIGHTS,
    ATTN_STEP_DROPPED,
    ATTN_STEP_OUTPUTS, /* with mixed weights: a piece mixes a block of outputs (mix_weights.h) */
} attn_step_kind;

typedef struct attn_step {
    attn_step_kind kind;
    size_t pieces; /* pieces of the pool; 0 for ATTN_STEP_PACK, which divides its work itself */
} attn_step;

enum { ATTN_STEPS = 5 }; /* largest number of steps that a function below stores */

/* How the strided steps divide the rows of a head. A bundle has rows of one class: rows whose
 * positions have the same remainder modulo the stride (strided.c). */
typedef struct attn_strided_plan {
    size_t bundles_a_class; /* bundles of the class with the most rows */
    size_t bundles;         /* bundles of a head; some may be empty; 0: no strided pattern */
    size_t bundles_a_piece, pieces_a_head;
} attn_strided_plan;

typedef struct attn_plan {
    const attn_attention_dims *dims;
    const attn_kernels *kernels;
    unsigned want;       /* ATTN_WANT_…: the results to compute */
    size_t slots;        /* number of lanes */
    attn_step_kind main; /* the step that computes blocks, BLOCKS to RANGES, or NORMALIZED */
    bool keeps; /* weights are wanted, and are computed at the end of each block from the numerators
                 * (or edited scores) that its pass has kept */
    size_t rows;        /* largest number of rows in a block */
    size_t lane_blocks; /* blocks whose state a lane holds at a time */
    size_t kept;        /* bytes for the numerators of a block; 0: kept where its weights will be */
    /* BLOCKS and HEADS: the largest number of blocks in a bundle. Each block of a bundle visits the
     * first bundle_keys keys, then each block visits the next bundle_keys keys, and so on. */
    size_t bundle, bundle_keys;
    size_t row_blocks;     /* blocks in a head */
    size_t blocks_a_piece; /* BLOCKS, WINDOWS: blocks of a head in a piece */
    size_t pieces_a_head;  /* BLOCKS, WINDOWS: pieces for a head */
    size_t window, pinned; /* WINDOWS: tiles in a window, and how many of them stay (attn_packed) */
    size_t ranges; /* RANGES: number of ranges into which the keys of a group are divided; else 1 */
    attn_strided_plan strided;
} attn_plan;

/* Returns ATTN_EARG if `want` has an unknown bit, or wants scores of an unknown stage. */
attn_status attn_plan_check(unsigned want, attn_stage stage, attn_error *err);
/* Makes the plan of a forward pass for the results `want` with `slots` lanes. `dims` must outlive
 * the plan. */
void attn_plan_make(const attn_attention_dims *dims, unsigned want, size_t slots, attn_plan *plan);

/* Stores the steps that compute the rows and returns their number. If `packed` is true, the pass is
 * repeated with all keys packed and marked. The reason is that a piece that packs keys itself, or
 * reads them unpacked, has met NaN, infinity or too large numbers. */
size_t attn_plan_steps(const attn_plan *plan, bool packed, attn_step steps[ATTN_STEPS]);
/* Stores the steps that then compute scores and weights cell by cell, and returns their number. If
 * `in_double`, `ref` has computed some rows, and no earlier step has written the weights of these
 * rows. */
size_t attn_plan_cell_steps(const attn_plan *plan, bool in_double, attn_step steps[ATTN_STEPS]);

/* Returns the number of rows of the block that begins at row i of batch entry b. Blocks end at
 * multiples of kernels->rows. The first queries of a global pattern see all keys. With windows, a
 * block also ends after the last of these queries. */
size_t attn_plan_block(const attn_plan *plan, const attn_mask *mask, size_t b, size_t i);

/* Returns the number of keys in one of the plan->ranges ranges of keys. A range is whole tiles. */
size_t attn_plan_range(const attn_plan *plan);

/* Largest number of tiles of keys in a head with by_heads. A piece has a bit for each tile in a
 * uint64_t. */
enum { ATTN_BACKWARD_MOST_TILES = 64 };

/* The plan of the backward pass with one kernel table. */
typedef struct attn_backward_plan {
    const attn_attention_dims *dims;
    const attn_kernels *kernels; /* plain products: computes weights, gradients and their sums */
    const attn_kernels *scores;  /* the table of the forward pass: computes the scores again */
    size_t slots;                /* number of lanes */
    bool by_heads;               /* a piece computes the forward and the backward pass of a group */
    bool begins_apart; /* separate pieces pack the rows of all blocks before the main pieces run */
    bool lane_homes;   /* the packed rows of a group are in memory of the lane; else each group
                      * has its own memory for them */
    size_t blocks;     /* blocks in a head */
    size_t tiles;      /* tiles of keys in a head */
    size_t chunks;     /* the tiles of a group are divided into this many chunks, a piece each */
    size_t tiles_a_chunk; /* tiles in a chunk */
} attn_backward_plan;

/* Makes the plan of a backward pass.
 *   kernels  the kernel table; NULL: that of dims; `ref`: everything is computed in double
 *   want     the results that are wanted from the forward pass
 *   biases   whether gradients of bias tensors are wanted */
void attn_backward_plan_make(const attn_attention_dims *dims, const attn_kernels *kernels,
                             unsigned want, bool biases, size_t slots, attn_backward_plan *plan);

#endif
