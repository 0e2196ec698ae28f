/* The forward pass: declarations that its files share.
 *
 *   plan.c          decides how each part is computed, and counts the cost
 *   forward.c       runs the pieces (tasks) of the pool, and owns their memory and results
 *   forward_rows.c  begins and ends every row */
#ifndef ATTN_FORWARD_H
#define ATTN_FORWARD_H

#include "attention/cells.h"
#include "attention/plan.h"

/* A block of rows that is being computed. */
typedef struct attn_block_run {
    attn_stream stream;
    attn_block_work work;
    uint64_t in_double;     /* bit r: `ref` computes row r */
    double query_magnitude; /* the largest magnitude of its queries */
    void *kept;             /* [rows, S]: what becomes weights, if it has its own memory; or NULL */
    void *maxima;           /* maxima of the work area; parts of the keys share those of the pass */
} attn_block_run;

typedef struct attn_forward_lane {
    attn_block_run *runs;      /* [plan.runs]: blocks that go abreast, or the heads of a group */
    attn_stream *streams;      /* [plan.runs] */
    attn_block_work in_double; /* work area for `ref`, for one row in double */
    attn_packed *head;         /* ATTN_WAY_HEADS: the operands of the current head */
} attn_forward_lane;

/* Results of pieces that each compute a part of the keys. */
typedef struct attn_forward_parts {
    char *sums;         /* [B, Hkv, parts, group]: sums over each part */
    char *maxima;       /* [B, Hq]: running maximum after each tile, for finish_weights; or NULL */
    double *magnitudes; /* [B, Hkv, parts, 2]: largest magnitude of keys, then of values */
} attn_forward_parts;

typedef struct attn_forward {
    const attn_attention *a;
    attn_plan plan;
    const attn_packed *packed; /* all heads; NULL: a piece packs its own, or reads unpacked */
    attn_forward_lane *lanes;
    attn_forward_parts in_parts;
    const attn_control *control; /* also asked between the rows that `ref` computes */
    attn_pool *pool;             /* the pool that runs the pieces, or NULL */
    attn_results *out;
    size_t elem; /* bytes of a result's element */
    _Atomic size_t hidden_rows;
    _Atomic int not_finite; /* set when a piece met NaN or infinity: the pass needs packed keys */
} attn_forward;

/* Returns ATTN_EARG if `want` asks for nothing or the score stage does not exist. */
attn_status attn_forward_check(unsigned want, attn_stage stage, attn_error *err);
/* Creates the results, the plan and the lanes, one for each slot. */
attn_status attn_forward_open(attn_forward *f, const attn_attention *a, unsigned want, size_t slots,
                              const attn_control *control, attn_arena *arena, attn_results *out,
                              attn_error *err);
/* Computes the results that need all rows first: cells of scores and weights, and the grown cache.
 */
attn_status attn_forward_finish(attn_forward *f, attn_stage stage, attn_pool *pool,
                                attn_arena *arena, attn_error *err);

/* Each function takes one kind of memory of a pass from an area: the results, one lane, the sums
 * over the parts of a plan with several, or the scratch of cells that are computed after the rows. */
void attn_forward_place_results(attn_area *area, const attn_plan *p, attn_results *out);
void attn_forward_place_lane(attn_area *area, const attn_plan *p, attn_forward_lane *l);
void attn_forward_place_parts(attn_area *area, const attn_plan *p, attn_forward_parts *parts);
attn_cells_scratch **attn_forward_place_cells(attn_area *area, const attn_plan *p);

/* Returns a bit set of rows. Bit r: with keys and values of these magnitudes, a product or sum of
 * the block's row r could overflow float, or the halves into which the kernel table splits numbers.
 */
uint64_t attn_forward_overflowing(const attn_attention *a, const attn_block_run *run, double key,
                                  double value);

/* Prepares a block for its pass: loads its queries and chooses the memory for what becomes weights.
 * packed NULL: the pass itself records the magnitudes of keys and values. */
attn_status attn_forward_begin(const attn_forward *f, const attn_block *block,
                               const attn_packed *packed, attn_block_run *run, attn_error *err);
/* Ends a block after its pass: writes the output, weights and statistics of its rows. */
attn_status attn_forward_end(attn_forward *f, attn_block_run *run, attn_forward_lane *l,
                             attn_error *err);

#endif
