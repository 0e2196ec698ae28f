/* The forward pass: declarations that its files share. plan.h explains block, group, task (the
 * pool's piece) and lane.
 *
 *   plan.c            decides how the pass is divided into tasks, and counts the cost
 *   forward.c         runs the tasks in the pool, and allocates their memory and the results
 *   forward_rows.c    begins a block before its pass over the keys and ends it afterwards
 *   forward_window.c  computes blocks that see few keys
 *   strided.c         computes the first half of a pass under a strided pattern, and its weights */
#ifndef ATTN_FORWARD_H
#define ATTN_FORWARD_H

#include "attention/cells.h"
#include "attention/plan.h"

/* A block that is being computed, and its memory. */
typedef struct attn_block_run {
    attn_stream stream;     /* the pass of the block over the keys */
    attn_block_work work;   /* its state */
    uint64_t in_double;     /* bit r: `ref` must compute row r */
    double query_magnitude; /* the largest magnitude of the finite queries */
    void *kept;             /* [rows, S]: memory for stream.kept; NULL: the memory of the weights */
    void *maxima;           /* own memory for work.maxima, which begin_group may replace */
} attn_block_run;

typedef struct attn_forward_lane {
    attn_block_run *runs;      /* [plan.runs]: the blocks that a task computes together */
    attn_stream *streams;      /* [plan.runs]: copies of their streams, side by side */
    attn_block_work in_double; /* for rows that `ref` computes, one at a time */
    attn_packed *head; /* ATTN_WAY_HEADS, _WINDOWS: keys and values that the task has packed */
} attn_forward_lane;

/* If plan.parts > 1: what the tasks compute for each range of the keys of a group. */
typedef struct attn_forward_parts {
    char *sums;   /* [B, Hkv, parts, group]: state of a block over the range (partial_at) */
    char *maxima; /* [B, Hq]: work.maxima of a block, shared by its ranges; NULL: not wanted */
    double *magnitudes; /* [B, Hkv, parts, 2]: largest magnitude of keys, and of values */
} attn_forward_parts;

typedef struct attn_forward {
    const attn_attention *a;
    attn_plan plan;
    /* Keys and values of all heads, packed before the tasks run. NULL: each task packs those of its
     * own head, or reads them unpacked (plan.way). */
    const attn_packed *packed;
    attn_forward_lane *lanes; /* [plan.slots] */
    attn_forward_parts in_parts;
    /* With a strided pattern: the operation with the mask of the second half, and the state of all
     * rows after the first half (strided.c). */
    const attn_attention *near;
    char *strided;
    /* [tasks of the first half, 2]: if these tasks pack keys and values, the largest magnitude of
     * each. */
    double *strided_magnitudes;
    const attn_control *control; /* checked between tasks, and between rows that `ref` computes */
    attn_pool *pool;             /* runs the tasks; NULL: the calling thread does */
    attn_results *out;
    size_t elem;         /* bytes of an element of the results */
    size_t tasks;        /* of the pass, for the progress of `control` */
    _Atomic size_t done; /* tasks that have ended */
    _Atomic size_t hidden_rows;
    _Atomic int not_finite; /* a task without f->packed has met NaN, infinity or too large numbers,
                             * so the pass must be repeated with packed keys */
} attn_forward;

/* Returns ATTN_EARG if `want` has an unknown bit, or wants scores of an unknown stage. */
attn_status attn_forward_check(unsigned want, attn_stage stage, attn_error *err);
/* Makes the plan, and allocates the results *out and the lanes in the arena. */
attn_status attn_forward_open(attn_forward *f, const attn_attention *a, unsigned want, size_t slots,
                              const attn_control *control, attn_arena *arena, attn_results *out,
                              attn_error *err);
/* Computes the results that the blocks do not write: scores and weights that are computed cell by
 * cell, and the cache with the new keys and values. */
attn_status attn_forward_finish(attn_forward *f, attn_stage stage, attn_pool *pool,
                                attn_arena *arena, attn_error *err);

/* Each of these functions takes one kind of memory of a pass from an area (base/area.h): the
 * results, one lane, the states of a plan with several ranges of keys, those of a plan with two
 * halves, or for each slot the scratch of attn_cells_fill. */
void attn_forward_place_results(attn_area *area, const attn_plan *p, attn_results *out);
void attn_forward_place_lane(attn_area *area, const attn_plan *p, attn_forward_lane *l);
void attn_forward_place_parts(attn_area *area, const attn_plan *p, attn_forward_parts *parts);
char *attn_forward_place_strided(attn_area *area, const attn_plan *p, double **magnitudes);
attn_cells_scratch **attn_forward_place_cells(attn_area *area, const attn_plan *p);

/* Returns the state of the rows of head (b, h) from row i on after the first half. */
attn_partial attn_forward_strided_rows(const attn_forward *f, size_t b, size_t h, size_t i);
/* Adds to the state of a block what the first half has computed for its rows. */
void attn_forward_add_strided(const attn_forward *f, attn_block_run *run);
/* Task: computes the first half of some rows of head index / plan.strided.pieces_a_head. ctx is the
 * attn_forward. If its keys and values are not packed, the task stores their magnitudes. */
attn_status attn_forward_strided(void *ctx, size_t index, size_t lane, attn_error *err);
/* Tasks that compute the weights under a strided pattern after both halves: of block index %
 * plan.row_blocks of a head, on the keys near its queries, with zeros elsewhere; then those that
 * attn_forward_strided has visited. */
attn_status attn_forward_near_weights(void *ctx, size_t index, size_t lane, attn_error *err);
attn_status attn_forward_strided_weights(void *ctx, size_t index, size_t lane, attn_error *err);
/* Returns how many cells the first half computes for the heads of batch entry b. */
double attn_forward_strided_cells(const attn_attention *a, const attn_plan *plan, size_t b);

/* Returns a bit set of the block's rows of which a product or sum with keys and values of these
 * magnitudes could overflow float, or exceed what the kernel table can split into bfloat16
 * parts. */
uint64_t attn_forward_overflowing(const attn_attention *a, const attn_block_run *run, double key,
                                  double value);

/* Prepares *run for the pass of the block run->stream.block; the caller has set run->stream to a
 * stream of this block and of run->work, and nothing else. Loads the queries, finds the rows that
 * `ref` must compute, and chooses the memory for what becomes weights. packed NULL: the magnitudes
 * of keys and values are known only after the pass, so the caller must find rows that overflow
 * then. */
attn_status attn_forward_begin(const attn_forward *f, const attn_packed *packed,
                               attn_block_run *run, attn_error *err);
/* Ends a block after its pass: writes the output, weights and statistics of its rows, and computes
 * rows in double where needed. */
attn_status attn_forward_end(attn_forward *f, attn_block_run *run, attn_forward_lane *l,
                             attn_error *err);
/* Ends a block whose keys and values had these largest magnitudes. If the block is useless because
 * they were packed as they are and are not finite or too large, it sets f->not_finite instead. */
attn_status attn_forward_end_as_is(attn_forward *f, attn_block_run *run, double key, double value,
                                   attn_forward_lane *l, attn_error *err);

/* Task of ATTN_WAY_WINDOWS: computes a run of blocks of all heads of a group. The heads take turns,
 * so that they share the tiles in the window. ctx is the attn_forward. */
attn_status attn_forward_window(void *ctx, size_t index, size_t lane, attn_error *err);

#endif
