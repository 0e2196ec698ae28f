/* The plan of a pass: it says what is computed how. Cost functions count by it, and passes follow
 * it. */
#ifndef ATTN_PLAN_H
#define ATTN_PLAN_H

#include "attention/resolved.h"

/* For at most this many query rows, packing all keys costs more than it gains. */
enum { ATTN_FEW_QUERIES = 8 };

/* What one task (piece) of the pool computes in the forward pass. */
typedef enum attn_way {
    ATTN_WAY_PACKED, /* a few blocks of rows, with keys and values that were packed for all tasks */
    ATTN_WAY_HEADS,  /* all rows of a key/value head, whose keys and values it packs first */
    ATTN_WAY_GROUPS, /* few rows of all heads of a group, over unpacked keys and values */
} attn_way;

typedef struct attn_plan {
    const attn_attention_dims *dims;
    const attn_kernels *kernels;
    unsigned want;
    size_t slots; /* lanes, each with its own scratch */
    attn_way way;
    bool keeps;     /* the pass stores what becomes weights in the memory of the weights */
    size_t rows;    /* the most rows of a block */
    size_t runs;    /* blocks that a lane computes at the same time */
    size_t kept;    /* bytes of separate memory for a block's numerators; 0: none */
    size_t abreast; /* blocks that go abreast over packed keys, part_keys keys at a time */
    size_t part_keys;
    size_t row_blocks, blocks_a_piece, pieces_a_head;
    size_t parts; /* ATTN_WAY_GROUPS: parts of a group's keys; each part is a task */
} attn_plan;

/* Makes the plan of the forward pass with these dims and `slots` lanes. `dims` must outlive the
 * plan. */
void attn_plan_make(const attn_attention_dims *dims, unsigned want, size_t slots, attn_plan *plan);

/* Returns the number of keys in each of the plan's parts, which are whole tiles. */
size_t attn_plan_part(const attn_plan *plan);
/* Returns whether cells of scores or weights are computed after the rows. (If the plan keeps
 * numerators, the weights of double-precision rows are computed after the rows all the same.) */
bool attn_plan_fills(const attn_plan *plan);

/* The memory that a pass takes by this plan. */
typedef struct attn_plan_bytes {
    size_t work, results;
    size_t fallback; /* taken in addition if a task meets NaN or infinity, or if rows need double */
} attn_plan_bytes;
bool attn_plan_count(const attn_plan *plan, attn_plan_bytes *bytes);

/* The most tiles of a head that one task computes; a task has one bit for each in an integer. */
enum { ATTN_BACKWARD_MOST_TILES = 64 };

/* The plan of the backward pass with one kernel table. */
typedef struct attn_backward_plan {
    const attn_attention_dims *dims;
    const attn_kernels *kernels; /* computes weights and sums */
    const attn_kernels *scores;  /* computes the scores again */
    size_t slots;
    bool by_heads;                /* a task computes both passes of a key/value head */
    bool lane_homes;              /* a lane packs rows into the same memory for each head */
    size_t blocks;                /* blocks of rows in a head */
    size_t tiles;                 /* tiles of keys in a head */
    size_t chunks, tiles_a_chunk; /* chunks of tiles in a head; each chunk is a task */
} attn_backward_plan;

/* Makes the plan of the backward pass. kernels: NULL takes the kernel table of dims; `ref` computes
 * everything in double. biases: gradients of bias tensors are wanted. want: the results wanted from
 * the forward pass. */
void attn_backward_plan_make(const attn_attention_dims *dims, const attn_kernels *kernels,
                             unsigned want, bool biases, size_t slots, attn_backward_plan *plan);

#endif
