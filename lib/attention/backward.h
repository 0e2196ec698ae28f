/* The backward pass: what its files share.
 *
 *   backward.c          the passes over blocks and tiles, in pieces
 *   backward_memory.c   how they are split, what they take
 *   backward_tile.c     one tile: weights again, gradients of its scores
 *   backward_results.c  from sums to the caller's tensors */
#ifndef ATTN_BACKWARD_H
#define ATTN_BACKWARD_H

#include <attn/gradients.h>

#include "attention/tile_pass.h"

/* Of a head that is one piece's work. */
enum { ATTN_BACKWARD_MOST_TILES = 64 };

/* Scratch of a lane; tiles are [rows, keys]. */
typedef struct attn_backward_lane {
    attn_block_work work;
    void *out;                    /* [rows, Ev] grad_output's rows */
    void *weights;                /* tile */
    void *dropped;                /* tile: weights that dropout leaves; = weights without */
    void *grad;                   /* tile: gradients of weights, then of scores */
    void *capped;                 /* tile: scores after the softcap; NULL without */
    void *source;                 /* [keys, widest] */
    void *key_values;             /* a tile's keys packed as values */
    const attn_kernels *products; /* dO . V and dS . K: g->scores, or g->k where tiles would lose
                                   * digits */
    void *value_keys;             /* a tile's values packed as its keys */
    attn_packed *head;            /* where a piece is a head: what its run reads, */
    char *tiles;                  /* [tiles] key_values and value_keys of each tile, */
    size_t tile_bytes, key_bytes; /* of both, of the first */
    void *kept;                   /* [rows, S] numerators of the block under way, and */
    const void *maxima;           /* [rows, attn_block_maxima]; or NULL: they are made again */
    void *dkey_tanh;              /* [A, keys]; learned scores with tanh only */
    void *ones;                   /* [rows] */
    uint8_t *keep;                /* [keys] */
    double *terms;                /* [relative] */
} attn_backward_lane;

/* Sums by distance that one piece of the main pass makes, for all heads of its group. */
typedef struct attn_backward_sums {
    double *entries;       /* [Hq / Hkv, entries]: slopes, T5 buckets, relative table */
    double *keys, *values; /* SHAW: [relative, E], [relative, Ev] */
    double *v;             /* [A] */
} attn_backward_sums;

/* Rows of blocks [homes, Hq / Hkv, blocks], packed: as values of k, and as queries of the table
 * that multiplies them by keys (by values), where it packs those. */
typedef struct attn_backward_rows {
    char *values, *queries;
    size_t value_bytes, query_bytes; /* of one block */
} attn_backward_rows;

typedef struct attn_backward {
    attn_attention *a;
    const attn_results *results;
    const attn_control *control; /* pieces ask it between blocks; NULL: never */
    bool in_double;              /* compute with ref whatever the rows say */
    const attn_kernels *k; /* a->kernels without tiles, or ref when a row was computed with care */
    const attn_kernels *scores; /* computes scores again: a->kernels, or ref as well */
    const attn_packed *packed;  /* of scores, or NULL */
    bool bad_keys;              /* a key or value is not finite */
    _Atomic int bad_queries;
    attn_view out;                       /* grad_output [B, Hq, L, Ev] */
    double *max, *sum, *dot;             /* [B, Hq, L]: statistics as k reads them, and dO . O */
    size_t blocks;                       /* of rows, a head */
    size_t tiles, chunks, tiles_a_chunk; /* of keys, a head: a chunk is a piece */
    attn_backward_rows queries, outs;    /* outs: grad_output's */
    double *out_magnitude;               /* [homes, Hq / Hkv, blocks] of grad_output's rows */
    bool lane_homes;          /* a home is a lane's: for its piece's key/value head; else there are
                               * [B, Hkv] */
    char *dquery;             /* accumulators [chunks, B, Hq, L, acc_room(E or A)], elements of k */
    char *dkey, *dvalue;      /* [B, Hkv, S, acc_room(E or A)], [B, Hkv, S, acc_room(Ev)] */
    size_t entries;           /* of one head's table; 0 without */
    attn_backward_sums *sums; /* [pieces] */
    attn_backward_lane *lanes;
} attn_backward;

/* Element e of a row of k's elements. */
static inline double attn_backward_cell(const attn_kernels *k, const void *row, size_t e) {
    return k->elem == sizeof(float) ? (double)((const float *)row)[e] : ((const double *)row)[e];
}

/* Splits and memory of the passes with g->k, for this many lanes; false when out of memory. */
bool attn_backward_allocate(attn_backward *g, size_t slots, attn_arena *arena);

/* Where a block's rows are packed. */
static inline size_t attn_backward_place(const attn_backward *g, const attn_block *block,
                                         const attn_backward_lane *l) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t group = attn_group(d), hkv = attn_kv_head(g->a, block->h);
    const size_t home = g->lane_homes ? (size_t)(l - g->lanes) : block->b * d->Hkv + hkv;
    return (home * group + block->h - hkv * group) * g->blocks + block->i / g->k->rows;
}

/* Block `index` of all heads' blocks of rows. */
static inline attn_block attn_backward_block_at(const attn_backward *g, size_t index) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t head = index / g->blocks, i = index % g->blocks * g->k->rows;
    return (attn_block){head / d->Hq, head % d->Hq, i,
                        d->L - i < g->k->rows ? d->L - i : g->k->rows};
}

/* Does grad_output fit the results, and has the operation gradients? */
attn_status attn_backward_check(const attn_attention *a, const attn_results *results,
                                const attn_tensor *grad_output, attn_error *err);
/* g->out of grad_output; false when out of memory. */
bool attn_backward_view(attn_backward *g, const attn_tensor *grad_output, attn_arena *arena);
/* A block's queries and output gradients packed. ATTN_ENONFINITE: of the latter. */
attn_status attn_backward_pack(attn_backward *g, const attn_block *block, attn_backward_lane *l,
                               attn_error *err);
/* dO . O of its rows. */
void attn_backward_dots(attn_backward *g, const attn_block *block, attn_backward_lane *l);
/* Gradients of a block and a tile added to the sums of dquery, dkey and dvalue. begins: those of
 * the tile hold none yet. After attn_backward_load_tile. */
void attn_backward_block(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                         size_t chunk, bool begins, attn_backward_lane *l,
                         attn_backward_sums *sums);
/* n rows of accumulators of this width, from `first` on, are zero. */
void attn_backward_clear(const attn_kernels *k, char *acc, size_t first, size_t n, size_t width);
/* What follows the passes: from sums to gradients; are those finite? */
attn_status attn_backward_finish(attn_backward *g, attn_pool *pool, attn_arena *arena,
                                 attn_gradients *out, attn_error *err);
bool attn_backward_all_finite(const attn_backward *g, const attn_gradients *out);

/* May pieces be whole heads, of which each makes the run and takes it back? Of the shapes alone. */
bool attn_backward_by_heads(const attn_attention_dims *d, const attn_kernels *k);
/* What lanes have for it, after attn_backward_allocate. */
bool attn_backward_allocate_heads(attn_backward *g, size_t slots, attn_arena *arena);
/* Is a tensor of biases among the mask's layers? */
bool attn_backward_has_biases(const attn_mask *m);

/* Rows with those beyond a magnitude replaced by zeros (then in scratch [n, width]). */
const void *attn_backward_clean(const attn_kernels *k, double most, const void *rows, size_t *ld,
                                size_t n, size_t width, void *scratch);

/* Keys and values of tile j0 … packed for gradients, by head (b, hkv). */
void attn_backward_load_tile(const attn_backward *g, size_t b, size_t hkv, size_t j0, size_t n,
                             attn_backward_lane *l);
/* Weights (and dropped ones) and the gradients of the edited scores of a block and tile, times the
 * scale, into l->weights, l->dropped and l->grad. After attn_backward_load_tile. Gives the queries'
 * rows. */
const void *attn_backward_tile(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                               double scale, attn_backward_lane *l, size_t *ldq);
/* l->grad becomes the gradient of the raw scores. */
void attn_backward_edit(const attn_backward *g, const attn_block *block, size_t n,
                        attn_backward_lane *l);
/* Do rows of the block see keys of the tile? */
bool attn_backward_intersects(const attn_attention *a, const attn_block *block, size_t j0,
                              size_t n);

/* --- positions --- */

/* Before attn_backward_edit: biases by distance. */
void attn_backward_collect_biases(const attn_backward *g, const attn_block *block, size_t j0,
                                  size_t n, const attn_backward_lane *l, attn_backward_sums *sums);
/* After it: Shaw's tables; their part of dquery, rows of stride ld, is added. */
void attn_backward_collect_shaw(const attn_backward *g, const attn_block *block, size_t j0,
                                size_t n, const void *q, size_t ldq, void *dquery, size_t ld,
                                attn_backward_lane *l, attn_backward_sums *sums);
/* Sums of all pieces -> out->slopes, table, key_table, value_table, score.v. */
attn_status attn_backward_tables_finish(const attn_backward *g, size_t pieces, attn_arena *arena,
                                        attn_gradients *out, attn_error *err);

/* --- the rest --- */

attn_status attn_backward_biases(const attn_backward *g, attn_pool *pool, attn_arena *arena,
                                 attn_gradients *out, attn_error *err);
attn_status attn_backward_accumulate(const attn_backward *g, attn_arena *arena, attn_gradients *out,
                                     attn_error *err);

/* n doubles into element `at` … of a dense tensor of the result's type. */
void attn_backward_store(const attn_tensor *t, size_t at, const double *x, size_t n);

#endif
