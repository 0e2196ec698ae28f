/* The pass of one block over the keys. A block is a run of queries of one head. The pass goes over
 * tiles of keys and keeps only a maximum, a sum and an accumulated output for each row. */
#ifndef ATTN_TILE_PASS_H
#define ATTN_TILE_PASS_H

#include "attention/normalizer.h"
#include "attention/operands.h"

/* The state and scratch memory of one block for one kernel table. A void * is an array of elements
 * of the table's type, with most_rows rows where its shape says [rows]. */
typedef struct attn_block_work {
    const attn_kernels *kernels;
    size_t most_rows;
    void *query;        /* [rows, score width]: queries that had to be converted */
    void *tile;         /* [rows, keys]: scores of the current tile, then numerators */
    void *acc;          /* [rows, attn_acc_room(Ev)]: weighted values so far */
    void *max;          /* [rows]: running maxima */
    void *sum;          /* [rows, lanes]: partial sums */
    void *factor;       /* [rows]: factors for `acc`, which softmax gives to accumulate */
    void *source;       /* [keys, max(score width, Ev)]: keys or values that had to be converted */
    void *packed_key;   /* [attn_key_room]: one tile, if the pass packs keys itself */
    void *packed_value; /* [attn_value_room]: the values of this tile */
    void *packed_query; /* [attn_query_room], if the kernel table packs queries */
    void *bias;         /* [keys]: biases of one row */
    void *line;         /* [keys]: results of one row, before conversion to the caller's type */
    /* [rows, attn_block_maxima]: running maxima after each tile, for finish_weights */
    void *maxima;
    void *terms;      /* [rows, relative] for tables of vectors: q . key_table */
    void *term_sums;  /* [rows, relative] for tables of vectors: weights summed by distance */
    double *key_rows; /* [keys, score width] for a query table: keys as doubles */
    uint8_t *keep;    /* [keys]: visibility of one row */
    /* Set by attn_block_stream: [plain_from, plain_to) are keys whose scores need no edit other
     * than the scale, in any row. */
    size_t plain_from, plain_to;
    bool scaled; /* the scores in `tile` are already multiplied by the scale */
    /* The largest magnitudes of the keys and values that the pass has packed itself or read
     * unpacked. */
    double key_magnitude, value_magnitude;
} attn_block_work;

/* Returns the row stride of attn_block_work.maxima: at least one element for each tile of S
 * keys. */
static inline size_t attn_block_maxima(const attn_kernels *k, size_t S) {
    return attn_key_tiles(k, S + 1);
}

/* Takes the arrays of *w for blocks of up to `rows` rows from the area. */
void attn_block_work_place(attn_area *area, attn_block_work *w, const attn_kernels *k, size_t rows,
                           const attn_attention_dims *d);

/* Queries i … i + rows - 1 of query head h in batch entry b. */
typedef struct attn_block {
    size_t b, h, i, rows;
} attn_block;

/* Returns row `row` of an array [rows, width] of the kernel table's type. */
static inline void *attn_row_of(void *base, size_t row, size_t width, const attn_kernels *k) {
    return (char *)base + row * width * k->elem;
}

/* Returns block number `index`, counted over the blocks of all query heads. A block has as many
 * rows as a tile of the kernel table, unless it is the last one of its head. */
static inline attn_block attn_block_at(const attn_attention_dims *d, const attn_kernels *k,
                                       size_t index) {
    const size_t blocks = (d->L + k->rows - 1) / k->rows, i = index % blocks * k->rows;
    const size_t head = index / blocks;
    return (attn_block){head / d->Hq, head % d->Hq, i, d->L - i < k->rows ? d->L - i : k->rows};
}

/* Computes an interval [*lo, *hi) of keys outside of which no row of the block sees a key. */
void attn_block_interval(const attn_attention *a, const attn_block *block, size_t *lo, size_t *hi);

/* Finds an interval [*from, *to) of keys whose scores need no edit other than the scale, in any row
 * of the block. The interval may be empty (*from >= *to). */
void attn_block_plain(const attn_attention *a, const attn_block *block, size_t *from, size_t *to);

/* Initialises acc, max and sum of `rows` rows for the first tile, without a sink. */
void attn_block_clear(const attn_attention *a, size_t rows, attn_block_work *w);
/* Narrows the keys [*from, *to) of one tile to those that attn_block_stream visits: from the first
 * to the last key that a row of the block can see, and up to k->panel - 1 keys before them. If no
 * row sees a key, *from = *to afterwards. */
void attn_block_narrow(const attn_attention *a, const attn_block *block, const attn_kernels *k,
                       size_t *from, size_t *to);
/* Returns the number of keys that attn_block_stream visits for a block. *edited becomes the number
 * of those keys that are in tiles in which the mask may hide cells. */
size_t attn_block_keys(const attn_attention *a, const attn_block *block, const attn_kernels *k,
                       size_t *edited);

/* Prepares the queries q [rows, score width] with row stride ldq of a block before its first tile.
 * Calls attn_block_terms and attn_block_pack_queries if they are needed. */
void attn_block_begin(const attn_attention *a, const attn_block *block, const void *q, size_t ldq,
                      attn_block_work *w);
/* attn_block_terms computes w->terms for tables of vectors (rule.relative > 0).
 * attn_block_pack_queries fills w->packed_query, for a kernel table that packs queries, and returns
 * the largest magnitude of the queries. */
void attn_block_terms(const attn_attention *a, const attn_block *block, const void *q, size_t ldq,
                      attn_block_work *w);
double attn_block_pack_queries(const attn_attention *a, const attn_block *block, const void *q,
                               size_t ldq, attn_block_work *w);

/* Adds the terms of tables of vectors to the raw scores in w->tile. With `clean`, keys that are not
 * finite count as zeros, as packed keys do. (tile_vectors.c) */
void attn_block_add_vectors(const attn_attention *a, const attn_block *block, size_t j0, size_t n,
                            bool clean, attn_block_work *w);
/* Multiplies w->term_sums by the rows' factors, and adds to them the numerators of a tile, summed
 * by distance. The table of values needs these sums; attn_block_add_terms adds them to w->acc. */
void attn_block_collect_vectors(const attn_attention *a, const attn_block *block, size_t j0,
                                size_t n, attn_block_work *w);

/* Packs keys j0 … j0 + n - 1 of one head into w->packed_key as they are, even if they hold NaN, and
 * raises w->key_magnitude to their largest magnitude. */
void attn_block_load_keys(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                          attn_block_work *w);

/* Does the same for values and w->packed_value. */
void attn_block_load_values(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                            attn_block_work *w);

/* Computes the scores of a block against keys j0 … j0 + n - 1 into w->tile. attn_block_begin must
 * have prepared the block.
 *   packed  the packed keys; NULL: those in w->packed_key
 *   scaled  the function may multiply by the scale at once, if the scale is the first operation on
 *           products; it then sets w->scaled, and attn_block_edit omits the scale */
void attn_block_scores(const attn_attention *a, const attn_block *block, const attn_packed *packed,
                       size_t j0, size_t n, const void *q, size_t ldq, bool scaled,
                       attn_block_work *w);

/* Applies scale, softcap, bias and mask, in this order and up to a stage, to row `row` of w->tile,
 * whose n cells are keys j0 … j0 + n - 1. */
void attn_block_edit(const attn_attention *a, const attn_block *block, size_t row, size_t j0,
                     size_t n, attn_stage stage, attn_block_work *w);

/* Returns whether attn_block_edit would change nothing in a tile of n columns that
 * attn_block_scores has computed: the scores are scaled, no cell is hidden or added to, and the
 * rows need no padding. */
bool attn_block_is_edited(const attn_attention *a, size_t n, const attn_block_work *w);

/* Applies dropout with probability p to n weights from column j0 on: each becomes 0 or is divided
 * by 1 - p. `row` is the index of the row among all B * Hq * L rows. A weight has elem bytes. */
void attn_drop_row(const attn_attention *a, size_t row, size_t j0, size_t n, size_t elem,
                   void *weights);

/* A stream: the pass of one block over keys [from, to). Several streams whose heads share a
 * key/value head run side by side, so that each tile of keys is read once for all of them. */
typedef struct attn_stream {
    attn_block block;
    const void *q;          /* the queries [rows, score width] */
    size_t ldq;             /* row stride of q */
    bool query_packed;      /* w->packed_query already has the queries packed */
    double query_magnitude; /* if query_packed: the largest magnitude of the queries */
    size_t from;            /* the first key, which begins a tile */
    size_t to;              /* the end of the keys; 0: all keys from `from` on */
    bool goes_on;           /* w has the state of a pass over the keys before `from` */
    /* Receives the numbers that become weights, [rows, S] elements of the kernel table's type:
     * numerators if the table has finish_weights, else edited scores. NULL: not wanted. */
    void *kept;
    const attn_control *control; /* when to stop; NULL: never. Read in the first stream only */
    attn_block_work *w;
} attn_stream;

/* Initialises the state of a block for its first tile. */
void attn_block_start(const attn_attention *a, const attn_stream *s);
/* Applies dropout to the numerators of keys j0 … j0 + n - 1 in w->tile, and collects their sums by
 * distance for the table of values. attn_block_add_terms adds these to w->acc after the last
 * tile. */
void attn_block_drop(const attn_attention *a, const attn_block *block, size_t j0, size_t n,
                     attn_block_work *w);
void attn_block_add_terms(const attn_attention *a, const attn_block *block, attn_block_work *w);
/* Sets w->acc = w->acc * w->factor + w->tile times the values of keys j0 … j0 + n - 1. If `packed`
 * is NULL, the values are those in w->packed_value. */
void attn_block_accumulate(const attn_attention *a, const attn_block *block,
                           const attn_packed *packed, size_t j0, size_t n, attn_block_work *w);

/* Runs the pass of one block with a normaliser that is not softmax (forward_normalized.c). Leaves
 * the output of the rows in w->acc and their statistics in rows [block.rows]. `scores` is scratch
 * of [block.rows, S] elements of the kernel table's type. If `packed` is NULL, the pass packs the
 * keys and values itself. The control works as in attn_block_stream. */
void attn_block_normalize(const attn_attention *a, const attn_stream *s, const attn_packed *packed,
                          void *scores, attn_normalized_row *rows);

/* Runs `count` passes together and leaves acc, max and sum of each block in its stream's w. The
 * blocks may differ only in their query heads, which must share one key/value head.
 *   packed  the packed keys and values. NULL: they are read unpacked, if the kernel table can do
 *           that. Else each tile is packed once for all blocks, into the w of the first stream, and
 *           packed_key and packed_value of the other streams must point there.
 * If the control stops the pass, the results are not valid. The caller must check the control
 * afterwards. */
void attn_block_stream(const attn_attention *a, const attn_stream *streams, size_t count,
                       const attn_packed *packed);

#endif
