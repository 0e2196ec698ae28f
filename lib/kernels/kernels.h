/* The kernel tables: one const table of function pointers an instruction set.
 *
 * Attention walks over tiles: `rows` queries by up to `keys` keys. A table owns the layout of
 * packed operands; tile, accumulator and statistics are row-major arrays of `elem`-byte elements
 * (float, in `ref` double) that its functions alone look into.
 *
 *   pack_key, pack_value   one tile's keys and values into the table's own layout
 *   score                  tile[r][j] = q_r . k_j, times a scale
 *   score_tanh             tile[r][j] = sum_a v_a tanh(q_ra + k_ja)
 *   edit                   one row of it: scale, softcap, bias, hidden cells
 *   softmax                tile -> unnormalised weights; maximum so far, partial sums, factors
 *   accumulate             acc[r] = acc[r] * factor[r] + sum_j tile[r][j] v_j
 *   pass                   score, softmax and accumulate over several tiles, overlapped
 *   merge                  rows over some keys and over others -> over both
 *   statistics, divide,    the end of rows: their sums, their output,
 *   weights, settle        their exact weights
 *
 *        keys  K: E x keys, packed          values  V: keys x Ev, packed
 *   Q [ rows, E ]  ->  tile [ rows, keys ]  ->  acc [ rows, Ev ]
 *
 * Three promises make every weight computable later, bit for bit:
 *
 *  1. A score is a pure function of (q_i, k_j): the sum over E runs in one fixed order, whatever
 *     the tile, row or call.
 *
 *  2. A table but `ref` splits exponents exactly. With t = s log2(e), n = rint(t), f = t - n, the
 *     numerator of a cell is 2^f 2^(n - M), M = rint(max * log2(e)): 2^f depends on the score
 *     alone, and a later, larger M only rescales by a power of two. So no partial sum depends on
 *     how the maximum grew. It holds while |max| < ATTN_WIDE; other rows are computed by `ref`
 *     (attention/forward_rows.c).
 *
 *  3. Partial sums of a row are added in one order, fixed by `keys` and `lanes` (and by the parts
 *     that a long row of few queries is taken in, attention/forward_group.c).
 *
 * No function allocates or reads past the n it is given, but for tiles, packed operands and
 * accumulators, whose rows are padded as the *_room functions say. Pointers to those are aligned to
 * ATTN_ALIGN; all others need only their element's alignment. Any thread. */
#ifndef ATTN_KERNELS_H
#define ATTN_KERNELS_H

#include <attn/isa.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ATTN_MOST_ROWS = 64 }; /* of a table's tile */

/* Halves of numbers far below 1 are lost beside such magnitudes, and those near FLT_MAX overflow.
 */
#define ATTN_SPLIT_REACH 0x1p80
#define ATTN_WIDE        65536.0 /* |row maximum| from which a float table hands a row to `ref` */

/* What hiding a cell means; the numbers are those of attn_fill (attn/mask.h). */
enum { ATTN_EDIT_HIDE = 0, ATTN_EDIT_ADD, ATTN_EDIT_REPLACE };

/* What happens to one row of raw scores. */
typedef struct attn_edit {
    double scale;
    double softcap;      /* 0 = off */
    const void *bias;    /* n elements to add, or NULL; -infinity hides */
    const uint8_t *keep; /* n bytes, 0 hides; or NULL */
    size_t lo, hi;       /* cells outside [lo, hi) are hidden */
    int fill;            /* ATTN_EDIT_…: what hiding means */
    double fill_value;
    bool wide; /* ATTN_EDIT_ADD is an addition in double: `ref` alone, for float64 inputs */
} attn_edit;

/* How the numerators of rows become weights. */
typedef struct attn_settle {
    size_t rows, n;          /* of numerators and weights */
    const size_t *from, *to; /* [rows] weights outside of [from, to) are 0; NULL: there are none */
    const void *maxima;      /* [rows, ld_maxima] elements: the maximum after each tile's softmax */
    size_t ld_maxima;
    const double *max, *sum; /* [rows] at the end; a row with a sum of 0 has weights of 0 */
    bool past_caches;        /* the result will not be read soon */
} attn_settle;

/* What softmax and accumulate made of rows and some keys: max[rows], sum[rows][lanes], and
 * acc [rows, acc_room]. */
typedef struct attn_partial {
    void *max, *sum, *acc;
} attn_partial;

/* The way back through an edited row. */
typedef struct attn_edit_back {
    double scale, softcap;
    const void *capped; /* n scores after the softcap, or NULL without one */
} attn_edit_back;

/* Statistics of a tile's rows; a row with a sum of 0 has weights of 0. */
typedef struct attn_weight_back {
    const double *max, *sum, *dot;
    double scale; /* of the gradients, rounded before; 1: none */
    /* The tile's numerators, [rows, ld_kept], and its maxima, [rows, ld_maxima], as softmax left
     * them, to be taken instead of scores by a table that can settle them; or NULL. */
    const void *kept, *maxima;
    size_t ld_kept, ld_maxima;
} attn_weight_back;

/* The way back through score_tanh. All sums are added to. */
typedef struct attn_tanh_back {
    const void *q, *packed_key, *v; /* as score_tanh read them */
    size_t ldq, width;
    void *dq; /* [rows, width], row stride lddq */
    size_t lddq;
    void *dkey; /* [width, keys] */
    double *dv; /* [width] */
} attn_tanh_back;

/* Rows on their way over whole tiles of keys that nothing hides or edits. */
typedef struct attn_tile_pass {
    size_t rows, E, Ev, tiles;
    double scale;                  /* above 0 */
    double reach;                  /* no score is larger, scaled; INFINITY: not known */
    const void *query;             /* as pack_query leaves them */
    const char *keys, *values;     /* the first packed tile */
    size_t key_bytes, value_bytes; /* from one to the next */
    void *max, *sum, *acc;         /* as softmax and accumulate have them, and go on */
    void *kept;                    /* numerators out, [rows, ld_kept]; or NULL */
    void *maxima;                  /* with them: after each tile, [rows, ld_maxima] */
    size_t ld_kept, ld_maxima;
} attn_tile_pass;

typedef struct attn_kernels attn_kernels;
struct attn_kernels {
    attn_isa isa;
    attn_precision precision;
    const char *name;
    /* The table of plain products behind this one, with the same elements; NULL: this one. */
    const attn_kernels *plain;
    size_t elem; /* bytes of an element */
    size_t rows; /* most queries a tile, at most ATTN_MOST_ROWS */
    size_t keys; /* most keys a tile; also the row stride of a tile, in elements */
    /* Tiles can be entered at its multiples: keys that lie together when packed, and at least one
     * chain of values, so that sums stay the same. */
    size_t panel;
    size_t lanes; /* elements of partial sums a row */

    size_t (*key_room)(size_t E);    /* elements of one tile's packed keys */
    size_t (*value_room)(size_t Ev); /* elements of one tile's packed values */
    size_t (*acc_room)(size_t Ev);   /* row stride of an accumulator, elements */

    /* src [n, E] with row stride ld, n <= keys. */
    /* The result is the reach of what was packed. */
    double (*pack_key)(void *dst, const void *src, size_t ld, size_t n, size_t E);
    double (*pack_value)(void *dst, const void *src, size_t ld, size_t n, size_t Ev);
    /* The largest magnitude of n elements; infinity when one of them is NaN or infinite. */
    double (*reach)(const void *src, size_t n);

    /* A table whose products read queries in a form of their own packs `rows` of them, [rows, E]
     * with row stride ldq; its `score` then takes the packed ones, its score_tanh too, with a
     * stride of E. The result is their reach. NULL: they are read as they are. Such a table is not
     * given magnitudes above ATTN_SPLIT_REACH. */
    size_t (*query_room)(size_t rows, size_t E); /* elements */
    double (*pack_query)(void *dst, const void *q, size_t ldq, size_t rows, size_t E);

    /* q [rows, E] with row stride ldq. The product is rounded, then multiplied by the scale, as
     * `edit` would do. Cells j >= n of the tile's rows are left undefined. */
    void (*score)(void *tile, const void *q, size_t ldq, size_t rows, const void *packed_key,
                  size_t n, size_t E, double scale);
    /* The same scores, bit for bit, of few rows against keys as they lie in memory, [n, E] with row
     * stride ld: row r from q[r] into tile[r]. The result is the keys' reach. NULL: pack them. */
    double (*score_few)(void *const *tile, const void *const *q, size_t rows, const void *keys,
                        size_t ld, size_t n, size_t E, double scale);
    /* v [A] unaligned; queries and keys of width A. */
    void (*score_tanh)(void *tile, const void *q, size_t ldq, size_t rows, const void *packed_key,
                       size_t n, size_t A, const void *v);
    /* In place; pads the row behind n as softmax needs it. */
    void (*edit)(void *row, size_t n, const attn_edit *edit);
    /* max[rows] (start: -infinity) and sum[rows][lanes] (start: 0) go on from tile to tile;
     * factor[rows] out. A row without a visible cell so far leaves undefined partial sums that a
     * factor of 0 drops. */
    void (*softmax)(void *tile, size_t rows, size_t n, void *max, void *sum, void *factor);
    /* Of the packed tile's `packed` rows, `first` … `first` + n - 1 meet the tile's n columns. Sums
     * that a factor of 0 drops may be anything, but finite in a table with `plain`. */
    void (*accumulate)(void *acc, const void *tile, size_t rows, const void *packed_value,
                       size_t first, size_t n, size_t packed, size_t Ev, const void *factor);

    /* For each tile what score, softmax and accumulate would do, bit for bit, in less time. NULL:
     * they do. */
    void (*pass)(const attn_tile_pass *p);

    /* The same sums of few rows over values as they lie in memory; the result is their reach. */
    double (*accumulate_few)(void *const *acc, const void *const *tile, size_t rows,
                             const void *values, size_t ld, size_t n, size_t Ev,
                             const void *const *factor);

    /* The same rows over other keys join those over the keys before: in order, as sums are rounded.
     */
    void (*merge)(const attn_partial *into, const attn_partial *from, size_t rows, size_t Ev);

    /* Maxima as they are, partial sums -> sums, which mean nothing where the maximum is -infinity.
     */
    void (*statistics)(const void *max, const void *sum, size_t rows, double *most, double *total);
    /* dst[r] = acc[r] / sum[r], where that is 0: 0; dst [rows, n] with row stride ld. */
    void (*divide)(void *dst, size_t ld, const void *acc, size_t rows, size_t n, const double *sum);
    /* dst[j] = weight of the edited score scores[j]; dst == scores is fine. */
    void (*weights)(void *dst, const void *scores, size_t n, double max, double sum);
    /* Rows: numerators that softmax left on its way -> weights, bit for bit those of
     * `weights`. dst == numerators is fine. NULL: what softmax leaves in a tile is not that, or
     * cannot be scaled exactly. */
    void (*settle)(void *dst, const void *numerators, const attn_settle *how);
    /* ln of the sum of exponentials, from max and sum. */
    double (*logsumexp)(double max, double sum);

    /* Gradients. acc[j] += sum over the tile's rows r of tile[r][j] * row r of `packed`, which
     * pack_value packed from `rows` rows; acc [n, acc_room(width)], which is not read where
     * `begins`. */
    void (*accumulate_back)(void *acc, bool begins, const void *tile, size_t rows, size_t n,
                            const void *packed, size_t width);
    /* Tiles: weights of edited scores, or of what was kept; dz, gradients of weights, becomes
     * weights * (dz - dot), 0 where the weight is 0, times the scale. */
    void (*weight_back)(void *weights, void *dz, const void *scores, size_t rows, size_t n,
                        const attn_weight_back *back);
    void (*edit_back)(void *ds, size_t n, const attn_edit_back *edit); /* in place */
    void (*score_tanh_back)(const attn_tanh_back *back, const void *tile, size_t rows, size_t n);
};

extern const attn_kernels attn_kernels_ref, attn_kernels_avx2, attn_kernels_avx512;

/* The table of plain products of an instruction set that the processor has, and of the chosen one.
 */
const attn_kernels *attn_kernels_of(attn_isa isa);
const attn_kernels *attn_kernels_current(void);
/* The table of a precision. `tanh_score`: score_tanh will be used, not score. */
const attn_kernels *attn_kernels_with(attn_isa isa, attn_precision precision, bool tanh_score);
/* The instruction set of this processor whose table of the precision has the name. */
bool attn_kernels_find(const char *name, attn_precision precision, bool tanh_score, attn_isa *out);

static inline const attn_kernels *attn_kernels_plain(const attn_kernels *k) {
    return k->plain ? k->plain : k;
}

#endif
