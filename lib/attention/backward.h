/* The backward pass: declarations that its files share. plan.h explains block, group, piece and
 * lane.
 *
 *   backward.c          the pieces, which go over blocks of queries and tiles of keys
 *   backward_memory.c   counts and allocates the memory of the pass
 *   backward_tile.c     computes the weights of one tile again, and the gradients of its scores
 *   backward_results.c  turns the sums of the pieces into the caller's tensors
 *
 * For a row i with weights P_ij, output O_i and output gradient dO_i (Dao et al., "FlashAttention",
 * 2022, appendix B.2):
 *
 *   dV_j = sum_i P_ij dO_i        dP_ij = dO_i . V_j        dZ_ij = P_ij (dP_ij - dO_i . O_i)
 *   dQ_i = sum_j dS_ij K_j        dK_j = sum_i dS_ij Q_i
 *
 * The derivative of the logsumexp with respect to Z_ij is P_ij. So if there is a gradient dlse_i of
 * the logsumexp, dO_i . O_i - dlse_i takes the place of dO_i . O_i. With another normaliser than
 * softmax, dZ has other factors (normalizer.h).
 *
 * dZ is the gradient of the edited score. dS is the gradient of the raw score: dZ after the
 * backward pass through softcap and scale. A bias does not change the gradient. */
#ifndef ATTN_BACKWARD_H
#define ATTN_BACKWARD_H

#include <attn/gradients.h>

#include "attention/mix_weights.h"
#include "attention/plan.h"
#include "attention/tile_pass.h"

/* Scratch memory of one lane. A tile is an array [rows, keys] of elements of the kernel table's
 * type. */
typedef struct attn_backward_lane {
    attn_block_work work;
    void *out;     /* [rows, value width]: rows of grad_output after conversion, if they need it */
    void *weights; /* a tile: weights P */
    void *dropped; /* a tile: the weights after dropout; equals `weights` without dropout */
    void *grad;    /* a tile: first dP, then dZ, then dS */
    void *capped;  /* a tile: the scores after the softcap */
    void *raw;     /* a tile: the raw scores, only with scales */
    void *source;  /* [keys, max(score width, value width)]: keys or values after conversion */
    void *key_values; /* the keys of a tile, packed as if they were values, for dQ = dS K */
    void *value_keys; /* the values of a tile, packed as if they were keys, for dP = dO V^T */
    /* The kernel table of these two products: g->scores, or g->k if the numbers of grad_output are
     * too large or too small to be split into bfloat16 parts. */
    const attn_kernels *products;
    void *dkey_tanh; /* [A, keys]: gradients of mapped keys, only for scores with tanh */
    /* [rows] ones: the factors with which the kernel `accumulate` only adds to its sums */
    void *ones;
    uint8_t *keep; /* [keys]: visibility of one row */
    double *terms; /* [relative]: a row's sums by distance, for tables of vectors */
    /* Memory of key_values and value_keys: one pair of them, or with plan.by_heads a pair for each
     * tile of a head. */
    char *tiles;
    size_t tile_bytes; /* bytes of a pair */
    size_t key_bytes;  /* bytes of the key_values of a pair */
    /* The members that follow are used only with plan.by_heads. */
    attn_packed *head;  /* keys and values as the forward pass reads them */
    void *kept;         /* [rows, S]: numerators of the current block */
    const void *maxima; /* [rows, attn_block_maxima]: running maxima to which `kept` is relative */
} attn_backward_lane;

/* The sums of one piece for gradients of parameters. A member is NULL if the operation has no such
 * parameter. */
typedef struct attn_backward_sums {
    double *entries;    /* [Hq / Hkv, entries]: ALiBi slopes, or entries of a table of biases */
    double *normalizer; /* [Hq / Hkv]: the normaliser's bias */
    /* [Hq / Hkv or 1, relative, E or Ev]: tables of vectors by distance */
    double *keys, *queries, *values;
    double *v; /* [A]: v of scores with tanh */
} attn_backward_sums;

/* Packed rows of queries or of grad_output, of all blocks: [homes, Hq / Hkv, blocks]. A home is
 * memory for the blocks of one group. If plan.lane_homes, each lane has a home, else each group has
 * one. */
typedef struct attn_backward_rows {
    char *values;  /* packed as values of the kernel table g->k */
    char *queries; /* packed as queries of g->scores, if that table packs queries */
    size_t value_bytes, query_bytes; /* bytes of one block in `values`, and in `queries` */
} attn_backward_rows;

typedef struct attn_backward {
    attn_attention *a;
    const attn_results *results; /* results of the forward pass */
    const attn_control *control; /* when to stop, checked between blocks; NULL: never */
    bool in_double;              /* `ref` computes all rows */
    attn_backward_plan plan;
    const attn_kernels *k;      /* plan.kernels: computes weights, gradients and their sums */
    const attn_kernels *scores; /* plan.scores: computes the scores again */
    const attn_packed *packed;  /* keys and values packed for `scores`; NULL: not packed */
    bool bad_keys;              /* a key or value is not finite or too large */
    _Atomic int bad_queries;    /* a query is not finite */
    attn_view out;              /* grad_output [B, Hq, L, value width] */
    /* with mixed weights: the backward pass of the mix, which makes `out` */
    attn_weights_back mix;
    /* [B, Hq, L]: the statistics of each row (attn_stats) in the form that k reads. */
    double *max, *sum;
    double *scales;     /* [chunks, B, Hq, L]: sums of the gradients of scales; NULL: no scales */
    const double *rows; /* [B, Hq, L]: the gradient of the logsumexp; NULL: 0 */
    /* [B, Hq, L]: dO . O of each row, less the gradient of its logsumexp; or the means that
     * attn_backward_means stores */
    double *dot;
    attn_backward_rows queries, outs; /* packed rows of queries, and of grad_output */
    double *out_magnitude; /* [homes, Hq / Hkv, blocks]: largest magnitude of grad_output */
    /* Sums of gradients as elements of k's type: dquery [chunks, B, Hq, L, room], dkey [B, Hkv, S,
     * room] and dvalue [B, Hkv, S, room of the value width], where room is attn_acc_room of the score width. */
    char *dquery, *dkey, *dvalue;
    attn_backward_sums *sums;  /* sums of each piece */
    attn_backward_lane *lanes; /* [plan.slots] */
} attn_backward;

/* Returns the index of a block in attn_backward_rows and out_magnitude, for a piece with lane l. */
static inline size_t attn_backward_place(const attn_backward *g, const attn_block *block,
                                         const attn_backward_lane *l) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t group = attn_group(d), hkv = attn_kv_head(g->a, block->h);
    const size_t home = g->plan.lane_homes ? (size_t)(l - g->lanes) : block->b * d->Hkv + hkv;
    return (home * group + block->h - hkv * group) * g->plan.blocks + block->i / g->k->rows;
}

/* --- backward_memory.c --- */

/* Allocates the memory of *g that g->plan needs. Returns false if there is not enough memory. */
bool attn_backward_allocate(attn_backward *g, attn_arena *arena);

/* --- backward_tile.c --- */

/* Packs the queries of a block and its rows of grad_output. Returns ATTN_ENONFINITE if a row of
 * grad_output is not finite. */
attn_status attn_backward_pack(attn_backward *g, const attn_block *block, attn_backward_lane *l,
                               attn_error *err);
/* Computes g->dot for each row of the block. */
void attn_backward_dots(attn_backward *g, const attn_block *block, attn_backward_lane *l);
/* For a normaliser whose threshold makes rows sum to 1: stores in g->dot, for each row, the mean of
 * dP weighted by the derivatives of the row's weights (normalizer.h). All blocks of the group must
 * be packed. */
void attn_backward_means(attn_backward *g, const attn_block *block, attn_backward_lane *l);
/* Replaces rows that have NaN or a magnitude above `most` by zeros. `rows` are n rows [n, width]
 * with row stride *ld. If no row is replaced, the function returns `rows`. Else it returns a copy
 * in scratch [n, width] with the zeros, and sets *ld to width. */
const void *attn_backward_clean(const attn_kernels *k, double most, const void *rows, size_t *ld,
                                size_t n, size_t width, void *scratch);
/* Fills l->key_values and l->value_keys with keys and values j0 … j0 + n - 1 of head (b, hkv), and
 * chooses l->products. */
void attn_backward_load_tile(const attn_backward *g, size_t b, size_t hkv, size_t j0, size_t n,
                             attn_backward_lane *l);
/* Returns whether any row of the block may see any of the keys j0 … j0 + n - 1. */
bool attn_backward_intersects(const attn_attention *a, const attn_block *block, size_t j0,
                              size_t n);
/* Computes the tiles l->weights, l->dropped and l->grad = dZ * scale of a block against keys
 * j0 … j0 + n - 1. attn_backward_load_tile must have loaded these keys. Returns the queries of the
 * block, [rows, score width] with row stride *ldq. */
const void *attn_backward_tile(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                               double scale, attn_backward_lane *l, size_t *ldq);
/* Turns dZ into dS in l->grad. dZ must have been computed with scale = 1. With scales, adds the
 * tile's share of their gradients to the sums of the chunk: dZ after the softcap times the raw
 * score. */
void attn_backward_edit(const attn_backward *g, const attn_block *block, size_t n, size_t chunk,
                        attn_backward_lane *l);
/* Adds the tile's part of the gradient of position biases to sums->entries. It reads dZ from
 * l->grad, so it must be called before attn_backward_edit, which overwrites dZ. In a table of
 * biases, the gradient of an entry is the sum of dZ over all cells that use the entry. For ALiBi,
 * the gradient of the slope is the sum of -dZ * |distance| over all cells. */
void attn_backward_collect_biases(const attn_backward *g, const attn_block *block, size_t j0,
                                  size_t n, const attn_backward_lane *l, attn_backward_sums *sums);
/* Adds dZ of the tile to sums->normalizer, the gradient of the normaliser's bias. Like
 * attn_backward_collect_biases, it must be called while l->grad holds dZ. */
void attn_backward_collect_normalizer(const attn_backward *g, const attn_block *block, size_t n,
                                      const attn_backward_lane *l, attn_backward_sums *sums);
/* Adds the tile's share of gradients of tables of vectors by distance: of the key table to sums->keys,
 * of the value table to sums->values, and of the queries (dS times the key table) to dquery, whose
 * rows have the stride ld. This function and the next one must be called when l->grad holds dS. */
void attn_backward_collect_vectors(const attn_backward *g, const attn_block *block, size_t j0,
                                   size_t n, const void *q, size_t ldq, void *dquery, size_t ld,
                                   attn_backward_lane *l, attn_backward_sums *sums);
/* Adds the tile's share of the gradients of the query table to sums->queries and of the keys (dS times
 * the query table) to dkey, whose rows have the stride ld. */
void attn_backward_collect_key_vectors(const attn_backward *g, const attn_block *block, size_t j0,
                                       size_t n, void *dkey, size_t ld, attn_backward_lane *l,
                                       attn_backward_sums *sums);

/* --- backward_tables.c --- */

/* Adds up the sums of `pieces` pieces into the gradients of the tables of positions, of the
 * normaliser's bias and of the vector v of a score. */
attn_status attn_backward_tables(const attn_backward *g, size_t pieces, attn_arena *arena,
                                 attn_gradients *out, attn_error *err);

/* --- backward_results.c --- */

/* Turns the sums of the pieces into gradients with the caller's shapes and types, in the arena. */
attn_status attn_backward_finish(attn_backward *g, attn_pool *pool, attn_arena *arena,
                                 attn_gradients *out, attn_error *err);
/* Returns whether all gradients are finite. */
bool attn_backward_all_finite(const attn_backward *g, const attn_gradients *out);

#endif
