/* The backward pass: declarations that its files share.
 *
 *   backward.c          goes over blocks and tiles in tasks (pieces) of the pool
 *   backward_memory.c   counts and allocates the memory of the pass
 *   backward_tile.c     computes the weights of one tile again, and the gradients of its scores
 *   backward_results.c  turns the sums into the caller's tensors
 *
 * For a row i with weights P_ij, output O_i and output gradient dO_i (Dao et al., "FlashAttention",
 * 2022, appendix B.2):
 *
 *   dV_j = sum_i P_ij dO_i        dP_ij = dO_i . V_j        dZ_ij = P_ij (dP_ij - dO_i . O_i)
 *   dQ_i = sum_j dS_ij K_j        dK_j = sum_i dS_ij Q_i
 *
 * dZ is the gradient of the edited score. dS is the gradient of the raw score: it is dZ taken back
 * through bias, softcap and scale. */
#ifndef ATTN_BACKWARD_H
#define ATTN_BACKWARD_H

#include <attn/gradients.h>

#include "attention/plan.h"
#include "attention/tile_pass.h"

/* Scratch memory of one lane. A tile has [rows, keys] elements of the kernel table's type. */
typedef struct attn_backward_lane {
    attn_block_work work;
    void *out;        /* [rows, Ev]: the rows of grad_output */
    void *weights;    /* tile */
    void *dropped;    /* tile: the weights after dropout; `weights` if there is none */
    void *grad;       /* tile: first the gradients of the weights, then those of the scores */
    void *capped;     /* tile: the scores after the softcap */
    void *source;     /* [keys, max(score width, Ev)]: rows that had to be converted */
    void *key_values; /* a tile's keys, in the packed layout of values */
    void *value_keys; /* a tile's values, in the packed layout of keys */
    /* The kernel table that multiplies dO by V and dS by K. It is g->scores, or g->k if g->scores
     * would lose digits by splitting these numbers into halves. */
    const attn_kernels *products;
    void *dkey_tanh;              /* [A, keys]; only for learned scores with tanh */
    void *ones;                   /* [rows] */
    uint8_t *keep;                /* [keys] */
    double *terms;                /* [relative] */
    char *tiles;                  /* [tiles, or 1]: key_values and value_keys of each tile */
    size_t tile_bytes, key_bytes; /* bytes of one tile's pair, and of its key_values alone */
    /* The following members are used only if the plan is by_heads. */
    attn_packed *head;  /* the operands of the forward pass */
    void *kept;         /* [rows, S]: the numerators of the current block; or NULL */
    const void *maxima; /* [rows, attn_block_maxima]: the maxima to which `kept` belongs */
} attn_backward_lane;

/* The sums of one pool task, for all heads of its group. */
typedef struct attn_backward_sums {
    double *entries;       /* [Hq / Hkv, entries]: by distance, for slopes and bias tables */
    double *keys, *values; /* SHAW: [relative, E], [relative, Ev] */
    double *v;             /* [A] */
} attn_backward_sums;

/* Packed rows of blocks, [homes, Hq / Hkv, blocks]. `values` has them in the layout of g->k for
 * values, `queries` in that of g->scores for queries if that kernel table packs queries. */
typedef struct attn_backward_rows {
    char *values, *queries;
    size_t value_bytes, query_bytes; /* of one block */
} attn_backward_rows;

typedef struct attn_backward {
    attn_attention *a;
    const attn_results *results; /* results of the forward pass */
    const attn_control *control; /* asked between blocks whether to stop; NULL: never */
    bool in_double;              /* computes all rows with `ref`, whatever their kinds */
    attn_backward_plan plan;
    const attn_kernels *k;            /* plan.kernels: computes weights and sums */
    const attn_kernels *scores;       /* plan.scores: computes the scores again */
    const attn_packed *packed;        /* keys and values as `scores` reads them, or NULL */
    bool bad_keys;                    /* a key or value is not finite or too large */
    _Atomic int bad_queries;          /* a query is not finite */
    attn_view out;                    /* grad_output [B, Hq, L, Ev] */
    double *max, *sum, *dot;          /* [B, Hq, L]: statistics as k reads them, and dO . O */
    attn_backward_rows queries, outs; /* outs: the rows of grad_output */
    double *out_magnitude; /* [homes, Hq / Hkv, blocks]: largest magnitude in grad_output */
    /* Accumulators with elements of k's type: dquery [chunks, B, Hq, L, room], dkey [B, Hkv, S,
     * room], dvalue [B, Hkv, S, room]. room is attn_acc_room of the score width, and of Ev for
     * dvalue. */
    char *dquery, *dkey, *dvalue;
    attn_backward_sums *sums; /* [pool tasks] */
    attn_backward_lane *lanes;
} attn_backward;

/* Returns element e of a row as a double. The row has elements of kernel table k's type. */
static inline double attn_backward_cell(const attn_kernels *k, const void *row, size_t e) {
    return k->elem == sizeof(float) ? (double)((const float *)row)[e] : ((const double *)row)[e];
}

/* Returns the index of a block among the packed rows. If the plan says lane_homes, each lane has a
 * home for the packed rows, else each key/value head has one. */
static inline size_t attn_backward_place(const attn_backward *g, const attn_block *block,
                                         const attn_backward_lane *l) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t group = attn_group(d), hkv = attn_kv_head(g->a, block->h);
    const size_t home = g->plan.lane_homes ? (size_t)(l - g->lanes) : block->b * d->Hkv + hkv;
    return (home * group + block->h - hkv * group) * g->plan.blocks + block->i / g->k->rows;
}

/* Returns block `index`, counted over the blocks of all heads. */
static inline attn_block attn_backward_block_at(const attn_backward *g, size_t index) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t head = index / g->plan.blocks, i = index % g->plan.blocks * g->k->rows;
    return (attn_block){head / d->Hq, head % d->Hq, i,
                        d->L - i < g->k->rows ? d->L - i : g->k->rows};
}

/* --- backward_memory.c --- */

/* Allocates the memory of the passes by g->plan. false: out of memory. */
bool attn_backward_allocate(attn_backward *g, attn_arena *arena);

/* --- backward_tile.c --- */

/* Packs the queries and output gradients of a block. ATTN_ENONFINITE: an output gradient is not
 * finite. */
attn_status attn_backward_pack(attn_backward *g, const attn_block *block, attn_backward_lane *l,
                               attn_error *err);
/* Computes dO . O for each row of the block and stores it in g->dot. */
void attn_backward_dots(attn_backward *g, const attn_block *block, attn_backward_lane *l);
/* Returns n rows [n, width] with stride *ld, in which every row that holds a magnitude beyond
 * `most` is zero. If there are such rows, the result is a copy in scratch [n, width]. */
const void *attn_backward_clean(const attn_kernels *k, double most, const void *rows, size_t *ld,
                                size_t n, size_t width, void *scratch);
/* Packs keys and values j0 … j0 + n - 1 of a head in the layouts that the products for gradients
 * need. */
void attn_backward_load_tile(const attn_backward *g, size_t b, size_t hkv, size_t j0, size_t n,
                             attn_backward_lane *l);
/* Returns whether a row of the block sees a key of the tile. */
bool attn_backward_intersects(const attn_attention *a, const attn_block *block, size_t j0,
                              size_t n);
/* Computes the weights, the weights after dropout, and dZ times the scale into l->weights,
 * l->dropped and l->grad. Call it after attn_backward_load_tile. It returns the block's queries
 * [rows, score width] with stride *ldq. */
const void *attn_backward_tile(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                               double scale, attn_backward_lane *l, size_t *ldq);
/* Replaces dZ times the scale in l->grad by dS. */
void attn_backward_edit(const attn_backward *g, const attn_block *block, size_t n,
                        attn_backward_lane *l);
/* Adds dZ, summed by distance, to the task's `entries`. Call it before attn_backward_edit. */
void attn_backward_collect_biases(const attn_backward *g, const attn_block *block, size_t j0,
                                  size_t n, const attn_backward_lane *l, attn_backward_sums *sums);
/* Adds the tile's share to the task's sums for Shaw's tables, and the share of the key table to
 * dquery [rows, ld]. Call it after attn_backward_edit. */
void attn_backward_collect_shaw(const attn_backward *g, const attn_block *block, size_t j0,
                                size_t n, const void *q, size_t ldq, void *dquery, size_t ld,
                                attn_backward_lane *l, attn_backward_sums *sums);

/* --- backward_results.c --- */

/* Turns the sums of the passes into gradients with the caller's shapes and types. */
attn_status attn_backward_finish(attn_backward *g, attn_pool *pool, attn_arena *arena,
                                 attn_gradients *out, attn_error *err);
bool attn_backward_all_finite(const attn_backward *g, const attn_gradients *out);

#endif
