/* The backward pass: what its files share.
 *
 *   backward.c          the passes over blocks and tiles, in pieces of the pool
 *   backward_memory.c   their memory, and what that costs
 *   backward_tile.c     one tile: its weights again, the gradients of its scores
 *   backward_results.c  from sums to the caller's tensors
 *
 * For a row i with weights P_ij, output O_i and output gradient dO_i (Dao et al., "FlashAttention",
 * 2022, appendix B.2):
 *
 *   dV_j = sum_i P_ij dO_i        dP_ij = dO_i . V_j        dZ_ij = P_ij (dP_ij - dO_i . O_i)
 *   dQ_i = sum_j dS_ij K_j        dK_j = sum_i dS_ij Q_i
 *
 * dZ is the gradient of the edited score, dS that of the raw score: dZ through bias, softcap and
 * scale. */
#ifndef ATTN_BACKWARD_H
#define ATTN_BACKWARD_H

#include <attn/gradients.h>

#include "attention/plan.h"
#include "attention/tile_pass.h"

/* Scratch of a lane. A tile is [rows, keys] elements of the table. */
typedef struct attn_backward_lane {
    attn_block_work work;
    void *out;        /* [rows, Ev]: the rows of grad_output */
    void *weights;    /* tile */
    void *dropped;    /* tile: the weights that dropout leaves; without dropout it is `weights` */
    void *grad;       /* tile: the gradients of weights, then those of scores */
    void *capped;     /* tile: the scores after the softcap */
    void *source;     /* [keys, max(score width, Ev)] */
    void *key_values; /* a tile's keys, packed as values are */
    void *value_keys; /* a tile's values, packed as keys are */
    /* The table that multiplies dO by V and dS by K: g->scores, or g->k where halves of tiles would
     * lose digits. */
    const attn_kernels *products;
    void *dkey_tanh;              /* [A, keys]; for learned scores with tanh only */
    void *ones;                   /* [rows] */
    uint8_t *keep;                /* [keys] */
    double *terms;                /* [relative] */
    char *tiles;                  /* [tiles, or 1] key_values and value_keys of each tile */
    size_t tile_bytes, key_bytes; /* of one of these, of its key_values */
    /* Only where the plan is by_heads: */
    attn_packed *head;  /* the operands of the forward pass */
    void *kept;         /* [rows, S]: the numerators of the block under way; or NULL */
    const void *maxima; /* [rows, attn_block_maxima] beside them */
} attn_backward_lane;

/* The sums of one piece for all heads of its group. */
typedef struct attn_backward_sums {
    double *entries;       /* [Hq / Hkv, entries]: by distance, for slopes and tables of biases */
    double *keys, *values; /* SHAW: [relative, E], [relative, Ev] */
    double *v;             /* [A] */
} attn_backward_sums;

/* Packed rows of blocks [homes, Hq / Hkv, blocks]: as values of g->k, and as queries of g->scores
 * where that table packs queries. */
typedef struct attn_backward_rows {
    char *values, *queries;
    size_t value_bytes, query_bytes; /* of one block */
} attn_backward_rows;

typedef struct attn_backward {
    attn_attention *a;
    const attn_results *results; /* of the forward pass */
    const attn_control *control; /* pieces ask it between blocks; NULL: never */
    bool in_double;              /* compute with `ref`, whatever kinds of rows there are */
    attn_backward_plan plan;
    const attn_kernels *k;            /* plan.kernels: weights and sums */
    const attn_kernels *scores;       /* plan.scores: the scores again */
    const attn_packed *packed;        /* keys and values as `scores` reads them, or NULL */
    bool bad_keys;                    /* a key or value is not finite or too large */
    _Atomic int bad_queries;          /* a query is not finite */
    attn_view out;                    /* grad_output [B, Hq, L, Ev] */
    double *max, *sum, *dot;          /* [B, Hq, L]: statistics as k reads them, and dO . O */
    attn_backward_rows queries, outs; /* outs: the rows of grad_output */
    double *out_magnitude; /* [homes, Hq / Hkv, blocks]: the largest of grad_output's rows */
    /* Accumulators of k's elements: dquery [chunks, B, Hq, L, acc_room(score width)], dkey
     * [B, Hkv, S, acc_room(score width)], dvalue [B, Hkv, S, acc_room(Ev)]. */
    char *dquery, *dkey, *dvalue;
    attn_backward_sums *sums; /* [pieces] */
    attn_backward_lane *lanes;
} attn_backward;

/* Element e of a row of floats or doubles, as the kernel table k has them, in double. */
static inline double attn_backward_cell(const attn_kernels *k, const void *row, size_t e) {
    return k->elem == sizeof(float) ? (double)((const float *)row)[e] : ((const double *)row)[e];
}

/* The index of a block among the packed rows. A home is a lane's where the plan says lane_homes,
 * else a key/value head's. */
static inline size_t attn_backward_place(const attn_backward *g, const attn_block *block,
                                         const attn_backward_lane *l) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t group = attn_group(d), hkv = attn_kv_head(g->a, block->h);
    const size_t home = g->plan.lane_homes ? (size_t)(l - g->lanes) : block->b * d->Hkv + hkv;
    return (home * group + block->h - hkv * group) * g->plan.blocks + block->i / g->k->rows;
}

/* Block `index` of the blocks of all heads. */
static inline attn_block attn_backward_block_at(const attn_backward *g, size_t index) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t head = index / g->plan.blocks, i = index % g->plan.blocks * g->k->rows;
    return (attn_block){head / d->Hq, head % d->Hq, i,
                        d->L - i < g->k->rows ? d->L - i : g->k->rows};
}

/* --- backward_memory.c --- */

/* Takes the memory of the passes by g->plan; false: out of memory. */
bool attn_backward_allocate(attn_backward *g, attn_arena *arena);

/* --- backward_tile.c --- */

/* Packs a block's queries and output gradients. ATTN_ENONFINITE: an output gradient is not finite.
 */
attn_status attn_backward_pack(attn_backward *g, const attn_block *block, attn_backward_lane *l,
                               attn_error *err);
/* dO . O of the block's rows, into g->dot. */
void attn_backward_dots(attn_backward *g, const attn_block *block, attn_backward_lane *l);
/* n rows [n, width] of stride *ld. Rows with a magnitude beyond `most` are replaced by zeros; then
 * all rows are in scratch [n, width]. */
const void *attn_backward_clean(const attn_kernels *k, double most, const void *rows, size_t *ld,
                                size_t n, size_t width, void *scratch);
/* Packs keys and values j0 … j0 + n - 1 of a head for the products of gradients. */
void attn_backward_load_tile(const attn_backward *g, size_t b, size_t hkv, size_t j0, size_t n,
                             attn_backward_lane *l);
/* Does a row of the block see a key of the tile? */
bool attn_backward_intersects(const attn_attention *a, const attn_block *block, size_t j0,
                              size_t n);
/* Weights, dropped weights and dZ times the scale, into l->weights, l->dropped and l->grad. After
 * attn_backward_load_tile. The result are the block's queries [rows, score width] of stride *ldq.
 */
const void *attn_backward_tile(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                               double scale, attn_backward_lane *l, size_t *ldq);
/* l->grad becomes dS. */
void attn_backward_edit(const attn_backward *g, const attn_block *block, size_t n,
                        attn_backward_lane *l);
/* Adds dZ by distance to the piece's entries. Before attn_backward_edit. */
void attn_backward_collect_biases(const attn_backward *g, const attn_block *block, size_t j0,
                                  size_t n, const attn_backward_lane *l, attn_backward_sums *sums);
/* Adds to the piece's sums for Shaw's tables, and their part to dquery [rows, ld]. After
 * attn_backward_edit. */
void attn_backward_collect_shaw(const attn_backward *g, const attn_block *block, size_t j0,
                                size_t n, const void *q, size_t ldq, void *dquery, size_t ld,
                                attn_backward_lane *l, attn_backward_sums *sums);

/* --- backward_results.c --- */

/* After the passes: from sums to gradients in the caller's shapes and types. */
attn_status attn_backward_finish(attn_backward *g, attn_pool *pool, attn_arena *arena,
                                 attn_gradients *out, attn_error *err);
bool attn_backward_all_finite(const attn_backward *g, const attn_gradients *out);

#endif
