/* The plan of a pass: what is computed how. Cost functions count by it, and passes run by it. */
#ifndef ATTN_PLAN_H
#define ATTN_PLAN_H

#include "attention/resolved.h"

/* With so few query rows, packing all keys costs more than it gains. */
enum { ATTN_FEW_QUERIES = 8 };

/* What one piece of the pool computes in the forward pass. */
typedef enum attn_way {
    ATTN_WAY_PACKED, /* a few blocks of rows, over keys and values that were packed for all */
    ATTN_WAY_HEADS,  /* all rows of a key/value head, whose keys and values it packs first */
    ATTN_WAY_GROUPS, /* few rows of all heads of a group, over unpacked keys and values */
} attn_way;

typedef struct attn_plan {
    const attn_attention_dims *dims;
    const attn_kernels *kernels;
    unsigned want;
    size_t slots; /* lanes, each with its own scratch */
    attn_way way;
    bool keeps;     /* a pass leaves in the weights' place what becomes weights */
    size_t rows;    /* the most of a block */
    size_t runs;    /* blocks that a lane has under way at once */
    size_t kept;    /* bytes of a block's numerators in a place of their own; 0: in the weights' */
    size_t abreast; /* blocks that go over packed keys side by side, part_keys keys at a time */
    size_t part_keys;
    size_t row_blocks, blocks_a_piece, pieces_a_head;
    size_t parts; /* of the keys of a group, each a piece; ATTN_WAY_GROUPS */
} attn_plan;

/* The forward pass of these dims over `slots` lanes. `dims` must outlive the plan. */
void attn_plan_make(const attn_attention_dims *dims, unsigned want, size_t slots, attn_plan *plan);

/* The keys of one of the plan's parts: whole tiles. */
size_t attn_plan_part(const attn_plan *plan);
/* Are cells of scores or weights computed after the rows? (Weights of double-precision rows are,
 * too, where the plan keeps numerators.) */
bool attn_plan_fills(const attn_plan *plan);

/* The memory of a pass by this plan. false: the bytes cannot be counted. */
typedef struct attn_plan_bytes {
    size_t work, results;
    size_t fallback; /* taken besides when a piece meets NaN or infinity, or rows need double */
} attn_plan_bytes;
bool attn_plan_count(const attn_plan *plan, attn_plan_bytes *bytes);

/* The most tiles of a head that one piece computes, as bits of an integer. */
enum { ATTN_BACKWARD_MOST_TILES = 64 };

/* The backward pass with one table. */
typedef struct attn_backward_plan {
    const attn_attention_dims *dims;
    const attn_kernels *kernels; /* of weights and sums */
    const attn_kernels *scores;  /* computes scores again */
    size_t slots;
    bool by_heads;                /* a piece computes both passes of a key/value head */
    bool lane_homes;              /* a lane packs rows where it packed those of the head before */
    size_t blocks;                /* of rows, a head */
    size_t tiles;                 /* of keys, a head */
    size_t chunks, tiles_a_chunk; /* of tiles; a chunk of a head is a piece */
} attn_backward_plan;

/* kernels NULL: of dims; `ref`: everything in double. `biases`: gradients of bias tensors are
 * wanted. `want`: of the forward pass. */
void attn_backward_plan_make(const attn_attention_dims *dims, const attn_kernels *kernels,
                             unsigned want, bool biases, size_t slots, attn_backward_plan *plan);

#endif
