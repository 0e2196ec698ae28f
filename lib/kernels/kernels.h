/* The kernel tables: one const table of function pointers an instruction set.
 *
 * Attention goes over tiles: `rows` queries by up to `keys` keys. A table owns the layout of packed
 * operands. Tiles, accumulators and statistics are row-major arrays of `elem`-byte elements (float;
 * double in `ref`) that only the table's functions read.
 *
 *   pack_key, pack_value   one tile's keys and values in the table's own layout
 *   score                  tile[r][j] = q_r . k_j, times a scale
 *   score_tanh             tile[r][j] = sum_a v_a tanh(q_ra + k_ja)
 *   edit                   one row of a tile: scale, softcap, bias, hidden cells
 *   softmax                tile -> unnormalised weights; running maximum, partial sums, factors
 *   accumulate             acc[r] = acc[r] * factor[r] + sum_j tile[r][j] v_j
 *   pass                   score, softmax and accumulate over several tiles, overlapped
 *   merge                  rows over some keys and over others -> rows over both
 *   statistics, divide,    the end of rows: their sums, their output,
 *   weights,               their exact weights from scores,
 *   finish_weights         and the same weights from numerators that softmax left
 *
 *        keys  K: E x keys, packed          values  V: keys x Ev, packed
 *   Q [ rows, E ]  ->  tile [ rows, keys ]  ->  acc [ rows, Ev ]
 *
 * The running maximum and sum are the online softmax of Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", 2018; with the accumulator they make the forward pass of Dao et al.,
 * "FlashAttention", 2022, algorithm 1.
 *
 * Three promises make it possible to compute every weight later, bit for bit:
 *
 *  1. A score is a pure function of (q_i, k_j): the sum over E runs in one fixed order, whatever
 *     the tile, row or call.
 *
 *  2. Every table but `ref` splits exponents exactly. With t = s log2(e), n = rint(t), f = t - n,
 *     the numerator of a cell is 2^f 2^(n - M), M = rint(max * log2(e)). 2^f depends on the score
 *     alone, and a later, larger M only rescales by a power of two. So no partial sum depends on
 *     how the maximum grew. This holds while |max| < ATTN_WIDE; `ref` computes all other rows
 *     (attention/forward_rows.c).
 *
 *  3. Partial sums of a row are added in one order, which `keys` and `lanes` fix (and, for a long
 *     row of few queries, the parts that its keys are taken in: attention/forward.c).
 *
 * No function allocates. None reads past the n that it is given, except in tiles, packed operands
 * and accumulators, whose rows are padded as the *_room functions say. Pointers to those are
 * aligned to ATTN_ALIGN; all other pointers need only their element's alignment. Any thread may
 * call. */
#ifndef ATTN_KERNELS_H
#define ATTN_KERNELS_H

#include <attn/isa.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ATTN_MOST_ROWS = 64 }; /* the most rows of any table's tile */

/* The largest magnitude that is split into halves. Halves of numbers far below 1 are lost beside
 * larger ones, and those near FLT_MAX overflow. */
#define ATTN_MOST_SPLIT 0x1p80
#define ATTN_WIDE       65536.0 /* the |row maximum| from which a float table hands a row to `ref` */

/* What hiding a cell means; the numbers are those of attn_fill (attn/mask.h). */
enum { ATTN_EDIT_HIDE = 0, ATTN_EDIT_ADD, ATTN_EDIT_REPLACE };

/* What happens to one row of raw scores. */
typedef struct attn_edit {
    double scale;
    double softcap;      /* 0: none */
    const void *bias;    /* n elements to add, or NULL; -infinity hides */
    const uint8_t *keep; /* n bytes, 0 hides; or NULL */
    size_t lo, hi;       /* cells outside [lo, hi) are hidden */
    int fill;            /* ATTN_EDIT_…: what hiding means */
    double fill_value;
    bool wide; /* ATTN_EDIT_ADD is an addition in double: in `ref` alone, for float64 inputs */
} attn_edit;

/* How the numerators of rows become weights. */
typedef struct attn_finish {
    size_t rows, n;          /* of numerators and weights */
    const size_t *from, *to; /* [rows] weights outside [from, to) are 0; NULL: [0, n) */
    const void *maxima;      /* [rows, ld_maxima] elements: the maximum after each tile's softmax */
    size_t ld_maxima;
    const double *max, *sum; /* [rows] at the end; a row with a sum of 0 has weights of 0 */
    bool past_caches;        /* the result is too large to be read from the caches soon */
} attn_finish;

/* What softmax and accumulate computed for rows over some of the keys: max[rows],
 * sum[rows][lanes], acc [rows, acc_room]. */
typedef struct attn_partial {
    void *max, *sum, *acc;
} attn_partial;

/* The backward pass through an edited row. */
typedef struct attn_edit_backward {
    double scale, softcap;
    const void *capped; /* n scores after the softcap, or NULL without one */
} attn_edit_backward;

/* Statistics of a tile's rows. A row with a sum of 0 has weights of 0. */
typedef struct attn_weight_backward {
    const double *max, *sum, *dot; /* [rows]; dot = dO . O */
    double scale;                  /* of the gradients, which are rounded before; 1: none */
    /* The tile's numerators [rows, ld_kept] and its maxima [rows, ld_maxima] as softmax left them,
     * which a table with finish_weights takes instead of scores; or NULL. */
    const void *kept, *maxima;
    size_t ld_kept, ld_maxima;
} attn_weight_backward;

/* The backward pass through score_tanh. All sums are added to. */
typedef struct attn_tanh_backward {
    const void *q, *packed_key, *v; /* as score_tanh read them */
    size_t ldq, width;
    void *dq; /* [rows, width], row stride lddq */
    size_t lddq;
    void *dkey; /* [width, keys] */
    double *dv; /* [width] */
} attn_tanh_backward;

/* Rows that pass over whole tiles of keys in which nothing is hidden or edited. */
typedef struct attn_tile_pass {
    size_t rows, E, Ev, tiles;
    double scale;                  /* above 0 */
    double max_score;              /* no scaled score is larger; INFINITY: not known */
    const void *query;             /* as pack_query leaves them */
    const char *keys, *values;     /* the first packed tile */
    size_t key_bytes, value_bytes; /* from one tile to the next */
    void *max, *sum, *acc;         /* as softmax and accumulate have them, and go on */
    void *kept;                    /* receives numerators [rows, ld_kept]; or NULL */
    void *maxima;                  /* with them: the maxima after each tile, [rows, ld_maxima] */
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
    size_t rows; /* most queries of a tile, at most ATTN_MOST_ROWS */
    size_t keys; /* most keys of a tile; also the row stride of a tile, in elements */
    /* A pass may enter a tile at multiples of this: of the keys that lie together when packed, and
     * of a chain of values, so that sums stay the same. */
    size_t panel;
    size_t lanes; /* elements of a row's partial sums */

    size_t (*key_room)(size_t E);    /* elements of one tile's packed keys */
    size_t (*value_room)(size_t Ev); /* elements of one tile's packed values */
    size_t (*acc_room)(size_t Ev);   /* row stride of an accumulator, in elements */

    /* src [n, E] ([n, Ev]) with row stride ld, n <= keys. The result is the largest magnitude of
     * what was packed, as max_magnitude gives it. */
    double (*pack_key)(void *dst, const void *src, size_t ld, size_t n, size_t E);
    double (*pack_value)(void *dst, const void *src, size_t ld, size_t n, size_t Ev);
    /* The largest magnitude of n elements; infinity when one of them is NaN or infinite. */
    double (*max_magnitude)(const void *src, size_t n);

    /* A table whose products read queries in a layout of their own packs `rows` of them, [rows, E]
     * with row stride ldq. Its `score` then takes the packed ones; its score_tanh takes them, too,
     * with a stride of E. The result is their largest magnitude. NULL: queries are read as they
     * are. Such a table is not given magnitudes above ATTN_MOST_SPLIT. */
    size_t (*query_room)(size_t rows, size_t E); /* elements */
    double (*pack_query)(void *dst, const void *q, size_t ldq, size_t rows, size_t E);

    /* q [rows, E] with row stride ldq. The product is rounded and then multiplied by the scale, as
     * `edit` does it. Cells j >= n of the tile's rows are left undefined. */
    void (*score)(void *tile, const void *q, size_t ldq, size_t rows, const void *packed_key,
                  size_t n, size_t E, double scale);
    /* The same scores, bit for bit, of few rows against unpacked keys [n, E] with row stride ld:
     * row r from q[r] into tile[r]. The result is the largest magnitude of the keys. NULL: keys
     * must be packed. */
    double (*score_unpacked)(void *const *tile, const void *const *q, size_t rows, const void *keys,
                             size_t ld, size_t n, size_t E, double scale);
    /* v [A] of any alignment; queries and keys have the width A. */
    void (*score_tanh)(void *tile, const void *q, size_t ldq, size_t rows, const void *packed_key,
                       size_t n, size_t A, const void *v);
    /* In place; pads the row behind n as softmax needs it. */
    void (*edit)(void *row, size_t n, const attn_edit *edit);
    /* max[rows] (at first -infinity) and sum[rows][lanes] (at first 0) go on from tile to tile;
     * factor[rows] is written. A row without a visible cell so far leaves undefined partial sums,
     * which a factor of 0 drops later. */
    void (*softmax)(void *tile, size_t rows, size_t n, void *max, void *sum, void *factor);
    /* The tile's n columns belong to rows first … first + n - 1 of the packed tile, which has
     * `packed` rows. Sums that a factor of 0 drops may be anything, but must be finite in a table
     * with `plain`. */
    void (*accumulate)(void *acc, const void *tile, size_t rows, const void *packed_value,
                       size_t first, size_t n, size_t packed, size_t Ev, const void *factor);

    /* For each tile what score, softmax and accumulate would do, bit for bit, in less time. NULL:
     * those three are called. */
    void (*pass)(const attn_tile_pass *p);

    /* The same sums of few rows over unpacked values. The result is the values' largest magnitude.
     */
    double (*accumulate_unpacked)(void *const *acc, const void *const *tile, size_t rows,
                                  const void *values, size_t ld, size_t n, size_t Ev,
                                  const void *const *factor);

    /* Adds the same rows over other keys to those over the keys before. The order of calls matters,
     * since sums are rounded. */
    void (*merge)(const attn_partial *into, const attn_partial *from, size_t rows, size_t Ev);

    /* Maxima as they are, and totals of partial sums, which mean nothing where the maximum is
     * -infinity. */
    void (*statistics)(const void *max, const void *sum, size_t rows, double *most, double *total);
    /* dst[r] = acc[r] / sum[r], or 0 where the sum is 0; dst [rows, n] with row stride ld. */
    void (*divide)(void *dst, size_t ld, const void *acc, size_t rows, size_t n, const double *sum);
    /* dst[j] = the weight of the edited score scores[j]; dst == scores is allowed. */
    void (*weights)(void *dst, const void *scores, size_t n, double max, double sum);
    /* Numerators that softmax left become weights, bit for bit those of `weights`; dst ==
     * numerators is allowed. NULL: what softmax leaves in a tile are not numerators, or cannot be
     * scaled exactly. */
    void (*finish_weights)(void *dst, const void *numerators, const attn_finish *how);
    /* The logarithm of the sum of exponentials, from max and sum. */
    double (*logsumexp)(double max, double sum);

    /* Gradients. */

    /* acc[j] += the sum over the tile's rows r of tile[r][j] * row r of `packed`, which pack_value
     * packed from `rows` rows; acc [n, acc_room(width)], which is not read where `begins`. */
    void (*accumulate_backward)(void *acc, bool begins, const void *tile, size_t rows, size_t n,
                                const void *packed, size_t width);
    /* On tiles: weights of edited scores, or of numerators that were kept; and dz, the gradients of
     * weights, becomes weights * (dz - dot) times the scale, or 0 where the weight is 0. */
    void (*weight_backward)(void *weights, void *dz, const void *scores, size_t rows, size_t n,
                            const attn_weight_backward *back);
    void (*edit_backward)(void *ds, size_t n, const attn_edit_backward *edit); /* in place */
    void (*score_tanh_backward)(const attn_tanh_backward *back, const void *tile, size_t rows,
                                size_t n);
};

extern const attn_kernels attn_kernels_ref, attn_kernels_avx2, attn_kernels_avx512;

/* The table of plain products of an instruction set that the processor has. */
const attn_kernels *attn_kernels_of(attn_isa isa);
/* The table of plain products of the chosen instruction set. */
const attn_kernels *attn_kernels_current(void);
/* The table of a precision. `tanh_score`: score_tanh will be called, and not score. */
const attn_kernels *attn_kernels_with(attn_isa isa, attn_precision precision, bool tanh_score);
/* The instruction set of this processor whose table of the precision has the name. */
bool attn_kernels_find(const char *name, attn_precision precision, bool tanh_score, attn_isa *out);

static inline const attn_kernels *attn_kernels_plain(const attn_kernels *k) {
    return k->plain ? k->plain : k;
}

#endif
