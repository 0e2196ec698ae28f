/* A forward pass: what its files share.
 *
 *   plan.c          what is computed how, and what that costs
 *   forward.c       the pieces of the pool, their memory and their results
 *   forward_rows.c  the beginning and the end of every row */
#ifndef ATTN_FORWARD_H
#define ATTN_FORWARD_H

#include "attention/cells.h"
#include "attention/plan.h"

/* One block of rows under way. */
typedef struct attn_block_run {
    attn_stream stream;
    attn_block_work work;
    uint64_t in_double;     /* bit r: `ref` computes row r */
    double query_magnitude; /* the largest of its queries */
    void *kept;   /* [rows, S] what becomes weights, where that has a place of its own; or NULL */
    void *maxima; /* the work's own; parts of the keys share those of the pass */
} attn_block_run;

typedef struct attn_forward_lane {
    attn_block_run *runs;      /* [plan.runs] blocks abreast, or the heads of a group */
    attn_stream *streams;      /* [plan.runs] */
    attn_block_work in_double; /* of the table `ref`, for one row in double */
    attn_packed *head;         /* ATTN_WAY_HEADS: the operands of the head under way */
} attn_forward_lane;

/* What pieces compute over parts of the keys. */
typedef struct attn_forward_parts {
    char *sums;         /* [B, Hkv, parts, group]: the sums of each part */
    char *maxima;       /* [B, Hq]: running maxima of each tile, for finish_weights; or NULL */
    double *magnitudes; /* [B, Hkv, parts, 2]: the largest of keys and of values */
} attn_forward_parts;

typedef struct attn_forward {
    const attn_attention *a;
    attn_plan plan;
    const attn_packed *packed; /* of all heads; NULL: each piece packs for itself, or reads rows */
    attn_forward_lane *lanes;
    attn_forward_parts in_parts;
    const attn_control *control; /* asked between rows that `ref` computes, too */
    attn_pool *pool;             /* that runs the pieces, or NULL */
    attn_results *out;
    size_t elem; /* bytes of a result's element */
    _Atomic size_t hidden_rows;
    _Atomic int not_finite; /* a piece met NaN or infinity: packed keys are needed */
} attn_forward;

/* ATTN_EARG for bits that want nothing, and for a stage of scores that does not exist. */
attn_status attn_forward_check(unsigned want, attn_stage stage, attn_error *err);
/* Results, plan and lanes for so many slots. */
attn_status attn_forward_open(attn_forward *f, const attn_attention *a, unsigned want, size_t slots,
                              const attn_control *control, attn_arena *arena, attn_results *out,
                              attn_error *err);
/* The results that cells are computed for once all rows are there, and the grown cache. */
attn_status attn_forward_finish(attn_forward *f, attn_stage stage, attn_pool *pool,
                                attn_arena *arena, attn_error *err);

/* The memory of a pass, as pieces of areas: results, one lane, the sums of parts, and the scratch
 * of cells that are computed after the rows. */
void attn_forward_place_results(attn_area *area, const attn_plan *p, attn_results *out);
void attn_forward_place_lane(attn_area *area, const attn_plan *p, attn_forward_lane *l);
void attn_forward_place_parts(attn_area *area, const attn_plan *p, attn_forward_parts *parts);
attn_cells_scratch **attn_forward_place_cells(attn_area *area, const attn_plan *p);

/* Bit r: a product or sum of the block's row r with keys and values of these magnitudes could
 * overflow float, or the halves that the table splits numbers into. */
uint64_t attn_forward_overflowing(const attn_attention *a, const attn_block_run *run, double key,
                                  double value);

/* Before a block's pass: its queries, and where the pass keeps what becomes weights. packed NULL:
 * the pass itself notes the magnitudes of keys and values. */
attn_status attn_forward_begin(const attn_forward *f, const attn_block *block,
                               const attn_packed *packed, attn_block_run *run, attn_error *err);
/* After it: output, weights and statistics of the block's rows. */
attn_status attn_forward_end(attn_forward *f, attn_block_run *run, attn_forward_lane *l,
                             attn_error *err);

#endif
