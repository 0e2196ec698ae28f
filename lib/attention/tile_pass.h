/* One block of query rows against all keys: the streaming pass over tiles. */
#ifndef ATTN_TILE_PASS_H
#define ATTN_TILE_PASS_H

#include "attention/operands.h"

/* Scratch of one lane for one table. */
typedef struct attn_block_work {
    const attn_kernels *kernels;
    size_t most_rows;
    void *query;              /* [rows, score width] */
    void *tile, *acc;         /* [rows, keys], [rows, acc_room] */
    void *max, *sum, *factor; /* [rows], [rows, lanes], [rows] */
    void *source;             /* [keys, max(score width, Ev)] widened rows */
    void *packed_key, *packed_value;
    void *packed_query;      /* [query_room], where the table packs queries */
    void *bias;              /* [keys] */
    void *line;              /* [keys] results of a row before they are narrowed */
    void *maxima;            /* [rows, attn_block_maxima] running maxima, for finish_weights */
    void *terms, *term_sums; /* [rows, relative] SHAW: terms of scores, weights by distance */
    uint8_t *keep;           /* [keys] */
    bool scaled;             /* the tile's scores are */
    double key_magnitude, value_magnitude; /* of what was packed on the way */
} attn_block_work;

/* Row stride of attn_block_work.maxima: an element for each tile of S keys. */
static inline size_t attn_block_maxima(const attn_kernels *k, size_t S) {
    return S / k->keys + 1;
}

/* Bytes of a work area; false on overflow. */
bool attn_block_work_bytes(const attn_kernels *k, size_t rows, const attn_attention_dims *d,
                           size_t *bytes);
/* Its parts in so many bytes of memory, aligned to ATTN_ALIGN. The result is their number. */
size_t attn_block_work_place(attn_block_work *w, const attn_kernels *k, size_t rows,
                             const attn_attention_dims *d, char *area);
/* In the arena's memory. */
bool attn_block_work_init(attn_block_work *w, const attn_kernels *k, size_t rows,
                          const attn_attention_dims *d, attn_arena *arena);
/* Bytes of what a block keeps for its weights in a place of its own; 0: it stays in the weights'
 * memory, as a cache holds all of them, or not even these. */
size_t attn_block_kept_bytes(const attn_kernels *k, size_t rows, const attn_attention_dims *d);

typedef struct attn_block {
    size_t b, h, i, rows; /* queries i … i + rows - 1 of head (b, h) */
} attn_block;

/* The union of the intervals that the rows see: keys [*lo, *hi) are worth visiting. */
void attn_block_interval(const attn_attention *a, const attn_block *block, size_t *lo, size_t *hi);

/* What depends on the block's queries alone, before its tiles. q [rows, score width] with stride
 * ldq. */
void attn_block_begin(const attn_attention *a, const attn_block *block, const void *q, size_t ldq,
                      attn_block_work *w);

/* Its parts: SHAW's terms; for tables that pack queries, those, and their largest magnitude. */
void attn_block_terms(const attn_attention *a, const attn_block *block, const void *q, size_t ldq,
                      attn_block_work *w);
double attn_block_pack_queries(const attn_attention *a, const attn_block *block, const void *q,
                               size_t ldq, attn_block_work *w);

/* Pack keys (values) j0 … j0 + n - 1 of one head as they are (NaN included) into w, and note their
 * largest magnitude: what the functions below read where `packed` is NULL. */
void attn_block_load_keys(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                          attn_block_work *w);

/* Scores of the block against keys j0 … j0 + n - 1 into w->tile. packed NULL: against those in
 * w->packed_key. `scaled`: the scale may be applied at once, where nothing comes before it;
 * attn_block_edit knows. After attn_block_begin. */
void attn_block_scores(const attn_attention *a, const attn_block *block, const attn_packed *packed,
                       size_t j0, size_t n, const void *q, size_t ldq, bool scaled,
                       attn_block_work *w);

/* Edits for cells j0 … of row i, up to a stage. */
void attn_block_edit(const attn_attention *a, const attn_block *block, size_t row, size_t j0,
                     size_t n, attn_stage stage, attn_block_work *w);

/* Full rows of scaled scores that nothing hides or adds to are as edit would leave them: true of
 * tiles of n columns of this attention after attn_block_scores. */
bool attn_block_is_edited(const attn_attention *a, size_t n, const attn_block_work *w);

/* Dropout of the n weights from column j0 on of a row [B * Hq * L]: each becomes 0 or is divided by
 * 1 - p. */
void attn_drop_row(const attn_attention *a, size_t row, size_t j0, size_t n, size_t elem,
                   void *weights);

/* One block on its way over the keys. */
typedef struct attn_stream {
    attn_block block;
    const void *q; /* [rows, score width] with stride ldq */
    size_t ldq;
    bool query_packed;      /* w holds q as attn_block_pack_queries leaves it */
    double query_magnitude; /* then */
    size_t from, to;        /* keys of this pass, `from` at a tile's beginning; to 0: all keys */
    bool goes_on;           /* w holds what the keys before left there */
    void *kept; /* where what becomes weights goes, row-major [rows, S] of the table's elements:
                 * numerators if the table can finish them, else edited scores; or NULL */
    const attn_control *control; /* of the first: when to stop before the end; NULL: never */
    attn_block_work *w;
} attn_stream;

/* The pass: leaves acc, max, sum of each block in its work area. The blocks differ in their
 * heads alone, which share one key/value head. packed NULL: each tile is packed once for all of
 * them, into the first one's area, which the others' packed_key and packed_value must point to.
 * A control that says stop leaves nothing of use: who gives one asks it afterwards. */
void attn_block_stream(const attn_attention *a, const attn_stream *streams, size_t count,
                       const attn_packed *packed);

#endif
