/* The forward pass: declarations that its files share. plan.h explains group, block, bundle, step,
 * piece and lane. Each file uses the files before it in this list:
 *
 *   plan.c            lists the steps of the pass
 *   forward_memory.c  allocates the results, the lanes, and the states of rows
 *   forward_rows.c    begins a block before its pass over the keys and ends it afterwards
 *   strided.c         the steps of a strided pattern
 *   forward_normalized.c  the step of a normaliser that is not softmax
 *   forward_steps.c   the other steps that compute blocks, and those that compute cells
 *   forward.c         runs the steps */
#ifndef ATTN_FORWARD_H
#define ATTN_FORWARD_H

#include "attention/cells.h"
#include "attention/plan.h"

/* A block that is being computed, and its memory. */
typedef struct attn_block_run {
    attn_stream stream;     /* the pass of the block over the keys */
    attn_block_work work;   /* the state of the block */
    uint64_t in_double;     /* bit r: `ref` must compute row r */
    double query_magnitude; /* the largest magnitude of the finite queries */
    void *kept;             /* [rows, S]: memory for stream.kept; NULL: the memory of the weights */
    void *maxima;           /* the lane's memory for work.maxima; begin_group may replace it */
} attn_block_run;

typedef struct attn_forward_lane {
    attn_block_run *runs;      /* [plan.lane_blocks]: the blocks of a bundle */
    attn_stream *streams;      /* [plan.lane_blocks]: copies of runs[].stream, side by side */
    attn_block_work in_double; /* for rows that `ref` computes, one at a time */
    attn_packed *head;         /* HEADS, WINDOWS: keys and values that the piece has packed */
    void *scores;              /* NORMALIZED: [plan.rows, S], edited scores of the block */
} attn_forward_lane;

/* The results of the pieces of ATTN_STEP_RANGES, for each range of the keys of a group. */
typedef struct attn_forward_ranges {
    char *states; /* [B, Hkv, ranges, group]: state of a block over the range */
    char *maxima; /* [B, Hq]: work.maxima of a block, shared by its ranges; NULL: not wanted */
    double *magnitudes; /* [B, Hkv, ranges, 2]: largest magnitude of keys, and of values */
} attn_forward_ranges;

typedef struct attn_forward {
    const attn_attention *a;
    /* The operation whose mask the passes of blocks read: `a`, or with a strided pattern an
     * operation whose mask shows only the keys near each query. */
    const attn_attention *visible;
    attn_plan plan;
    attn_step_kind step; /* the step that is run */
    attn_stage stage;    /* the stage of the scores that ATTN_STEP_SCORES computes */
    /* Keys and values of all heads. NULL: each piece packs those of its own head, or reads them
     * unpacked (plan.main). */
    const attn_packed *packed;
    attn_forward_lane *lanes;   /* [plan.slots] */
    attn_cells_scratch **cells; /* [plan.slots], for the steps that compute cells */
    attn_forward_ranges ranges;
    /* The next two members are used only with a strided pattern. */
    char *strided;               /* [B, Hq]: states of the rows after ATTN_STEP_STRIDED */
    double *strided_magnitudes;  /* [its pieces, 2]: largest magnitude of keys, of values */
    const attn_control *control; /* checked between pieces, and between rows that `ref` computes */
    attn_pool *pool;             /* runs the pieces; NULL: the calling thread runs them */
    attn_results *out;
    size_t elem;                /* bytes of an element of the results */
    _Atomic size_t hidden_rows; /* rows that see no key */
    _Atomic int not_finite; /* a piece without f->packed has met NaN, infinity or too large numbers,
                             * so the pass must be repeated with packed keys */
} attn_forward;

/* --- memory (forward_memory.c) --- */

/* Makes the plan, and allocates the results *out, the lanes and the states of rows in the arena. */
attn_status attn_forward_open(attn_forward *f, const attn_attention *a, unsigned want, size_t slots,
                              const attn_control *control, attn_arena *arena, attn_results *out,
                              attn_error *err);
/* Allocates f->cells. */
attn_status attn_forward_open_cells(attn_forward *f, attn_arena *arena, attn_error *err);

/* The sizes in bytes of the memory that a forward pass takes. */
typedef struct attn_forward_bytes {
    size_t work, results;
    /* bytes in addition to `work`, if a piece finds NaN or infinity or rows need double */
    size_t fallback;
} attn_forward_bytes;
/* Counts the bytes of a pass with this plan. Returns false if a number exceeds SIZE_MAX. */
bool attn_forward_count(const attn_plan *plan, attn_forward_bytes *bytes);

/* Returns the state of a block in its memory. */
attn_partial attn_forward_state(const attn_block_work *w);
/* Returns the state of the rows of head (b, h) from row i on after ATTN_STEP_STRIDED. */
attn_partial attn_forward_strided_rows(const attn_forward *f, size_t b, size_t h, size_t i);
/* Returns the memory for the state of a block over one range of keys. The block is that of head
 * number `g` of the group. */
attn_partial attn_forward_range_rows(const attn_forward *f, size_t group, size_t range, size_t g);
/* Returns the memory for work.maxima of the block of head (b, h). */
char *attn_forward_range_maxima(const attn_forward *f, size_t b, size_t h);

/* --- rows (forward_rows.c) --- */

/* Prepares *run for the pass of the block run->stream.block. In run->stream the caller has set only
 * `block` and `w` (run->work). Loads the queries, finds the rows that `ref` must compute, and
 * chooses the memory for the numbers that become weights. If `packed` is NULL, the magnitudes of
 * keys and values are known only after the pass. The caller must then find the rows that overflow
 * (attn_forward_end_as_is). */
attn_status attn_forward_begin(const attn_forward *f, const attn_packed *packed,
                               attn_block_run *run, attn_error *err);
/* Ends a block after its pass: writes the output, weights and statistics of its rows, and computes
 * rows in double where needed. */
attn_status attn_forward_end(attn_forward *f, attn_block_run *run, attn_forward_lane *l,
                             attn_error *err);
/* Ends a block whose keys and values were read or packed as they are. `key` and `value` are their
 * largest magnitudes. If one of these is not finite or too large, the block has no valid results.
 * The function then only sets f->not_finite. */
attn_status attn_forward_end_as_is(attn_forward *f, attn_block_run *run, double key, double value,
                                   attn_forward_lane *l, attn_error *err);

/* Returns the bit set of the rows of a block that `ref` must compute: those in `in_double`, and
 * those whose largest score is beyond the range of the table `k`. Counts the rows that see no key
 * in f->hidden_rows. */
uint64_t attn_forward_beyond(attn_forward *f, const attn_block *block, const double *largest,
                             uint64_t in_double, const attn_kernels *k);
/* Writes the output and logsumexp of a block whose statistics are written, and refuses scores and
 * outputs that overflow. The output is w->acc / divisors, or 0 where the divisor is 0. Rows in
 * `in_double` must have the divisor 0; they are computed later. */
attn_status attn_forward_end_rows(const attn_forward *f, const attn_block *block,
                                  uint64_t in_double, const double *largest, const double *divisors,
                                  attn_block_work *w, attn_error *err);

/* --- pieces of the steps; `work` points to the attn_forward --- */

attn_status attn_forward_strided(void *work, size_t index, size_t lane, attn_error *err);
attn_status attn_forward_blocks(void *work, size_t index, size_t lane, attn_error *err);
attn_status attn_forward_head(void *work, size_t index, size_t lane, attn_error *err);
attn_status attn_forward_window(void *work, size_t index, size_t lane, attn_error *err);
attn_status attn_forward_group(void *work, size_t index, size_t lane, attn_error *err);
attn_status attn_forward_range(void *work, size_t index, size_t lane, attn_error *err);
attn_status attn_forward_join(void *work, size_t index, size_t lane, attn_error *err);
attn_status attn_forward_normalized(void *work, size_t index, size_t lane, attn_error *err);
attn_status attn_forward_near_weights(void *work, size_t index, size_t lane, attn_error *err);
attn_status attn_forward_strided_weights(void *work, size_t index, size_t lane, attn_error *err);
attn_status attn_forward_cells(void *work, size_t index, size_t lane, attn_error *err);
attn_status attn_forward_outputs(void *work, size_t index, size_t lane, attn_error *err);

/* Returns how many cells ATTN_STEP_STRIDED computes for the heads of batch entry b. */
double attn_forward_strided_cells(const attn_attention *a, const attn_plan *plan, size_t b);

/* --- the pass (forward.c) --- */

/* Computes the results that the blocks do not write: scores and weights that are computed cell by
 * cell, and the cache with the new keys and values. */
attn_status attn_forward_finish(attn_forward *f, attn_stage stage, attn_pool *pool,
                                attn_arena *arena, attn_error *err);

#endif
