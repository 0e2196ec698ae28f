/* One block of query rows against all keys: the streaming pass over tiles. */
#ifndef ATTN_TILE_PASS_H
#define ATTN_TILE_PASS_H

#include "attention/operands.h"

/* Scratch of one block for one table. Elements are the table's. */
typedef struct attn_block_work {
    const attn_kernels *kernels;
    size_t most_rows;
    void *query;        /* [rows, score width] */
    void *tile;         /* [rows, keys] */
    void *acc;          /* [rows, acc_room(Ev)] */
    void *max, *sum;    /* [rows], [rows, lanes]: as softmax leaves them */
    void *factor;       /* [rows] */
    void *source;       /* [keys, max(score width, Ev)]: rows that had to be widened */
    void *packed_key;   /* [key_room] */
    void *packed_value; /* [value_room] */
    void *packed_query; /* [query_room], where the table packs queries */
    void *bias;         /* [keys] */
    void *line;         /* [keys]: results of a row before they are narrowed */
    void *maxima;       /* [rows, attn_block_maxima]: after each tile, for finish_weights */
    void *terms;        /* [rows, relative] SHAW: terms of scores */
    void *term_sums;    /* [rows, relative] SHAW: weights by distance */
    uint8_t *keep;      /* [keys] */
    bool scaled;        /* the tile's scores are multiplied by the scale already */
    double key_magnitude, value_magnitude; /* the largest that a pass without packed keys met */
} attn_block_work;

/* The row stride of attn_block_work.maxima: an element for each tile of S keys. */
static inline size_t attn_block_maxima(const attn_kernels *k, size_t S) {
    return S / k->keys + 1;
}

/* The work area of up to `rows` rows as pieces of an area. */
void attn_block_work_place(attn_area *area, attn_block_work *w, const attn_kernels *k, size_t rows,
                           const attn_attention_dims *d);

typedef struct attn_block {
    size_t b, h, i, rows; /* queries i … i + rows - 1 of head (b, h) */
} attn_block;

/* The union of the intervals that the rows see: only keys [*lo, *hi) need to be visited. */
void attn_block_interval(const attn_attention *a, const attn_block *block, size_t *lo, size_t *hi);

/* Prepares a block's queries q [rows, score width] of stride ldq before its tiles: terms, and
 * packed queries where the table packs them. */
void attn_block_begin(const attn_attention *a, const attn_block *block, const void *q, size_t ldq,
                      attn_block_work *w);
/* Its two parts: SHAW's terms; packed queries, of which the result is the largest magnitude. */
void attn_block_terms(const attn_attention *a, const attn_block *block, const void *q, size_t ldq,
                      attn_block_work *w);
double attn_block_pack_queries(const attn_attention *a, const attn_block *block, const void *q,
                               size_t ldq, attn_block_work *w);

/* Packs keys j0 … j0 + n - 1 of one head into w->packed_key as they are, NaN included, and notes
 * their largest magnitude. */
void attn_block_load_keys(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                          attn_block_work *w);

/* Scores of the block against keys j0 … j0 + n - 1 into w->tile. packed NULL: against the keys in
 * w->packed_key. `scaled`: the scale may be applied at once where nothing comes before it;
 * attn_block_edit then leaves it out. After attn_block_begin. */
void attn_block_scores(const attn_attention *a, const attn_block *block, const attn_packed *packed,
                       size_t j0, size_t n, const void *q, size_t ldq, bool scaled,
                       attn_block_work *w);

/* Edits cells j0 … j0 + n - 1 of tile row `row`, up to a stage: scale, softcap, bias, mask. */
void attn_block_edit(const attn_attention *a, const attn_block *block, size_t row, size_t j0,
                     size_t n, attn_stage stage, attn_block_work *w);

/* After attn_block_scores of n columns: would attn_block_edit change nothing, because the rows are
 * full, scaled, and neither hidden nor added to? */
bool attn_block_is_edited(const attn_attention *a, size_t n, const attn_block_work *w);

/* Dropout of the n weights from column j0 on of a row [B * Hq * L]: each becomes 0 or is divided by
 * 1 - p. */
void attn_drop_row(const attn_attention *a, size_t row, size_t j0, size_t n, size_t elem,
                   void *weights);

/* One block that passes over the keys. */
typedef struct attn_stream {
    attn_block block;
    const void *q; /* [rows, score width] of stride ldq */
    size_t ldq;
    bool query_packed;      /* w holds q as attn_block_pack_queries leaves it, */
    double query_magnitude; /* of which this is the largest magnitude */
    size_t from, to;        /* keys of this pass; `from` is a tile's first key; to 0: all keys */
    bool goes_on;           /* w holds what a pass over the keys before `from` left */
    /* Receives what becomes weights, [rows, S] of the table's elements: numerators where the table
     * has finish_weights, else edited scores; or NULL. */
    void *kept;
    const attn_control *control; /* read from the first stream: when to stop early; NULL: never */
    attn_block_work *w;
} attn_stream;

/* The pass: leaves acc, max and sum of each block in its work area. The blocks may differ in their
 * heads alone, which share one key/value head. packed NULL: keys and values are read where they
 * lie, or each tile is packed once for all blocks into the first one's area, which packed_key and
 * packed_value of the others must point to. When the control stops the pass, the results are of no
 * use: the caller asks the control afterwards. */
void attn_block_stream(const attn_attention *a, const attn_stream *streams, size_t count,
                       const attn_packed *packed);

#endif
