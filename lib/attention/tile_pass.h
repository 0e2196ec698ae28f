/* One block of query rows against all keys: the streaming pass over tiles. */
#ifndef ATTN_TILE_PASS_H
#define ATTN_TILE_PASS_H

#include "attention/operands.h"

/* Scratch memory of one block for one kernel table. Elements are of the table's type. */
typedef struct attn_block_work {
    const attn_kernels *kernels;
    size_t most_rows;
    void *query;        /* [rows, score width] */
    void *tile;         /* [rows, keys] */
    void *acc;          /* [rows, attn_acc_room] */
    void *max, *sum;    /* [rows], [rows, lanes]: the state of softmax */
    void *factor;       /* [rows] */
    void *source;       /* [keys, max(score width, Ev)]: rows that had to be converted */
    void *packed_key;   /* [attn_key_room] */
    void *packed_value; /* [attn_value_room] */
    void *packed_query; /* [attn_query_room], if the kernel table packs queries */
    void *bias;         /* [keys] */
    void *line;         /* [keys]: results of a row before narrowing */
    void *maxima;       /* [rows, attn_block_maxima]: maxima after each tile, for finish_weights */
    void *terms;        /* [rows, relative] SHAW: terms of scores */
    void *term_sums;    /* [rows, relative] SHAW: weights by distance */
    uint8_t *keep;      /* [keys] */
    bool scaled;        /* the tile's scores are already multiplied by the scale */
    double key_magnitude, value_magnitude; /* the largest in a pass without packed keys */
} attn_block_work;

/* Returns the row stride of attn_block_work.maxima: one element for each tile of S keys. */
static inline size_t attn_block_maxima(const attn_kernels *k, size_t S) {
    return S / k->keys + 1;
}

/* Places the work area of up to `rows` rows in an area. */
void attn_block_work_place(attn_area *area, attn_block_work *w, const attn_kernels *k, size_t rows,
                           const attn_attention_dims *d);

typedef struct attn_block {
    size_t b, h, i, rows; /* queries i … i + rows - 1 of head (b, h) */
} attn_block;

/* Computes the union of the key intervals that the rows see. Keys outside [*lo, *hi) need no visit.
 */
void attn_block_interval(const attn_attention *a, const attn_block *block, size_t *lo, size_t *hi);

/* Prepares a block's queries q [rows, score width] with stride ldq before the first tile: computes
 * SHAW's terms, and packs the queries if the kernel table packs queries. */
void attn_block_begin(const attn_attention *a, const attn_block *block, const void *q, size_t ldq,
                      attn_block_work *w);
/* The two steps of attn_block_begin: the first computes SHAW's terms for positions that have them
 * (rule.relative), the second packs the queries and returns their largest magnitude. */
void attn_block_terms(const attn_attention *a, const attn_block *block, const void *q, size_t ldq,
                      attn_block_work *w);
double attn_block_pack_queries(const attn_attention *a, const attn_block *block, const void *q,
                               size_t ldq, attn_block_work *w);

/* Packs keys j0 … j0 + n - 1 of one head unchanged into w->packed_key, including NaN, and records
 * their largest magnitude. */
void attn_block_load_keys(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                          attn_block_work *w);

/* Computes scores of the block against keys j0 … j0 + n - 1 into w->tile. packed NULL: it takes the
 * keys in w->packed_key. scaled: it may apply the scale at once if no other operation comes first;
 * attn_block_edit then omits the scale. Call it after attn_block_begin. */
void attn_block_scores(const attn_attention *a, const attn_block *block, const attn_packed *packed,
                       size_t j0, size_t n, const void *q, size_t ldq, bool scaled,
                       attn_block_work *w);

/* Edits cells j0 … j0 + n - 1 of tile row `row` up to a stage. The order is scale, softcap, bias,
 * mask. */
void attn_block_edit(const attn_attention *a, const attn_block *block, size_t row, size_t j0,
                     size_t n, attn_stage stage, attn_block_work *w);

/* Returns whether attn_block_edit would change nothing after attn_block_scores of n columns: the
 * rows are full and scaled, and no cell is hidden or added to. */
bool attn_block_is_edited(const attn_attention *a, size_t n, const attn_block_work *w);

/* Applies dropout to n weights from column j0 on. `row` is a row of [B * Hq * L]. Each weight
 * becomes 0 or is divided by 1 - p. */
void attn_drop_row(const attn_attention *a, size_t row, size_t j0, size_t n, size_t elem,
                   void *weights);

/* One block that passes over the keys. */
typedef struct attn_stream {
    attn_block block;
    const void *q; /* [rows, score width] of stride ldq */
    size_t ldq;
    bool query_packed;      /* w holds q as packed by attn_block_pack_queries */
    double query_magnitude; /* the largest magnitude of these packed queries */
    size_t from, to;        /* keys of this pass; `from` begins a tile; to 0: all keys */
    bool goes_on;           /* w holds the state after a pass over the keys before `from` */
    /* Receives what becomes weights, [rows, S] elements of the kernel table's type: numerators if
     * the table has finish_weights, else edited scores. NULL: they are not kept. */
    void *kept;
    const attn_control *control; /* read only in the first stream: when to stop; NULL: never */
    attn_block_work *w;
} attn_stream;

/* Passes over the keys and leaves acc, max and sum of each block in its work area. The blocks may
 * differ only in their heads, which share one key/value head. packed NULL: keys and values are read
 * unpacked, or each tile is packed once for all blocks into the work area of the first block; then
 * packed_key and packed_value of the other blocks must point there. If the control stops the pass,
 * the results are useless, so the caller must ask the control afterwards. */
void attn_block_stream(const attn_attention *a, const attn_stream *streams, size_t count,
                       const attn_packed *packed);

#endif
