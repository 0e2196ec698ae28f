/* A forward pass: what its files share.
 *
 *   forward.c       the pass: how it is split into pieces, its results and its memory
 *   forward_rows.c  the beginning and the end of every row */
#ifndef ATTN_FORWARD_H
#define ATTN_FORWARD_H

#include "attention/tile_pass.h"

/* So few query rows that packing all keys for them does not pay. */
enum { ATTN_FEW_QUERIES = 8 };

/* One block of rows under way. */
typedef struct attn_block_run {
    attn_stream stream;
    attn_block_work work;
    uint64_t in_double;     /* bit r: `ref` computes row r */
    double query_magnitude; /* the largest of its queries */
    void *kept;             /* [rows, S] what becomes weights, when that fits a cache; or NULL */
    void *maxima;           /* the work's own; parts of the keys share those of the run */
} attn_block_run;

typedef struct attn_forward_lane {
    attn_block_run *runs; /* of blocks abreast; without packed keys one a head of a group */
    attn_stream *streams;
    void *double_area; /* memory for the work area of one row that `ref` computes */
    attn_packed *head; /* where pieces pack for themselves: of the head under way */
} attn_forward_lane;

/* A piece of work is at most so much where it is more than one block: about a millisecond of a fast
 * table; four times that where blocks go abreast. */
#define ATTN_PIECE_OPERATIONS 1e8

/* Of so many rows and all keys; a cell's exponential and edits count as CELL_OPERATIONS. */
static inline double attn_forward_operations(const attn_attention_dims *d, double rows) {
    enum { CELL_OPERATIONS = 16 };
    return 2 * rows * (double)d->S * (double)(d->score_width + d->Ev + CELL_OPERATIONS);
}

typedef struct attn_forward {
    const attn_attention *a;
    const attn_packed *packed; /* of all heads; NULL: each piece packs for itself */
    attn_forward_lane *lanes;
    unsigned want;
    const attn_control *control; /* asked between rows that `ref` computes, too */
    attn_pool *pool;             /* that runs the pieces, or NULL */
    attn_results *out;
    size_t elem; /* bytes of a result's element */
    size_t row_blocks, blocks_a_piece, pieces_a_head;
    size_t abreast, part; /* blocks that go so over packed keys; keys at a time */
    _Atomic size_t hidden_rows;
    _Atomic int not_finite; /* without packed keys: something is not finite, so they are needed */
    size_t head_bytes;      /* where a piece packs a head and takes all of its rows; else 0 */
    size_t parts;           /* of the keys of a group */
    char *sums;             /* [B, Hkv, parts, group]: sums of each part */
    char *maxima;           /* [B, Hq]: running maxima of each tile, for finish_weights; or NULL */
    double *magnitudes;     /* [B, Hkv, parts, 2]: the largest of keys and of values */
} attn_forward;

/* ATTN_EARG for bits that want nothing, and for a stage of scores that there is none of. */
attn_status attn_forward_check(unsigned want, attn_stage stage, attn_error *err);
/* Results, plan and lanes for so many slots. */
attn_status attn_forward_open(attn_forward *f, const attn_attention *a, unsigned want, size_t slots,
                              const attn_control *control, attn_arena *arena, attn_results *out,
                              attn_error *err);
/* What results hold beside rows, once these are there. */
attn_status attn_forward_finish(attn_forward *f, attn_stage stage, attn_pool *pool,
                                attn_arena *arena, attn_error *err);

/* The pass leaves what weights are made of when their elements are the table's. */
bool attn_forward_keeps(const attn_forward *f);
/* Rows of a block whose products or sums with keys and values of these magnitudes could overflow
 * float, or the table's parts of it. */
uint64_t attn_forward_overflowing(const attn_attention *a, const attn_block_run *run, double key,
                                  double value);

/* Queries, and where the pass keeps what weights are made of; then, after the pass, its rows.
 * packed NULL: keys and values are looked at on the way. */
attn_status attn_forward_begin(const attn_forward *f, const attn_block *block,
                               const attn_packed *packed, attn_block_run *run, attn_error *err);
attn_status attn_forward_end(attn_forward *f, attn_block_run *run, attn_forward_lane *l,
                             attn_error *err);

/* How many blocks of rows go abreast over packed keys at most: of the shapes alone. */
size_t attn_forward_abreast(const attn_attention_dims *d, const attn_kernels *k, unsigned want);
/* Bytes of a head's packed operands where all of it is one piece's work, else 0: of the shapes
 * alone, and of what may follow the run. */
size_t attn_forward_head_bytes(const attn_attention_dims *d, const attn_kernels *k, unsigned want);
/* In how many parts a group's keys are taken: of the shapes alone. */
size_t attn_forward_parts(const attn_attention_dims *d);
/* Bytes for the sums of parts; false on overflow. */
bool attn_forward_parts_bytes(const attn_attention_dims *d, const attn_kernels *k, size_t *bytes);
#endif
