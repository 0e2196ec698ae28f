/* The kernel tables: one constant table of function pointers for each instruction set.
 *
 * Attention goes over tiles of `rows` queries by up to `keys` keys. A kernel table defines the
 * layout of packed operands. Tiles, accumulators and statistics are row-major arrays of `elem`-byte
 * elements (float; double in `ref`) that only the table's own functions read.
 *
 *   pack_key, pack_value   one tile's keys and values in the table's own layout
 *   score                  tile[r][j] = q_r . k_j, times a scale
 *   score_tanh             tile[r][j] = sum_a v_a tanh(q_ra + k_ja)
 *   edit                   one row of a tile: scale, softcap, bias, hidden cells
 *   softmax                tile -> unnormalised weights; running maximum, partial sums, factors
 *   accumulate             acc[r] = acc[r] * factor[r] + sum_j tile[r][j] v_j
 *   pass                   score, softmax and accumulate over several tiles, overlapped
 *   merge                  combines the state of rows over some keys with that over later keys
 *   statistics, divide     end rows: compute their sums and their output
 *   weights                computes exact weights of a row from its scores
 *   finish_weights         computes the same weights from the numerators that softmax left
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
 *  1. A score is a pure function of (q_i, k_j): the sum over E is added in one fixed order,
 *     whatever the tile, row or call.
 *
 *  2. Every table but `ref` splits exponents exactly. With t = s log2(e), n = rint(t), f = t - n,
 *     the numerator of a cell is 2^f 2^(n - M), M = rint(max * log2(e)). 2^f depends on the score
 *     alone, and a later, larger M only rescales by a power of two. So no partial sum depends on
 *     how the maximum grew. This holds while |max| < ATTN_WIDE. All other rows are computed by
 *     `ref` (attention/forward_rows.c).
 *
 *  3. Partial sums of a row are added in one order, which `keys` and `lanes` determine (and, for
 *     few queries with many keys, also the parts into which the keys are divided:
 *     attention/forward.c).
 *
 * No function allocates memory. A function reads at most the n elements that it is given. The
 * exceptions are tiles, packed operands and accumulators, whose rows are padded as the attn_…_room
 * functions say. Pointers to these are aligned to ATTN_ALIGN; all other pointers need only the
 * alignment of their elements. Any thread may call any function. */
#ifndef ATTN_KERNELS_H
#define ATTN_KERNELS_H

#include <attn/isa.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ATTN_MOST_ROWS = 64 }; /* the most rows that the tile of any kernel table has */

/* The largest magnitude that is split into halves. Beyond it, the halves of numbers far below 1
 * would be lost beside larger ones, and those of numbers near FLT_MAX would overflow. */
#define ATTN_MOST_SPLIT 0x1p80
#define ATTN_WIDE       65536.0 /* from this |row maximum| on, `ref` computes a row */

/* What the hiding of a cell means. The numbers equal those of attn_fill (attn/mask.h). */
enum { ATTN_EDIT_HIDE = 0, ATTN_EDIT_ADD, ATTN_EDIT_REPLACE };

/* The operations on one row of raw scores. */
typedef struct attn_edit {
    double scale;
    double softcap;      /* 0: none */
    const void *bias;    /* n elements to add, or NULL; -infinity hides a cell */
    const uint8_t *keep; /* n bytes, of which 0 hides a cell; or NULL */
    size_t lo, hi;       /* cells outside [lo, hi) are hidden */
    int fill;            /* ATTN_EDIT_…: what hiding means */
    double fill_value;
    bool wide; /* ATTN_EDIT_ADD adds in double: only in `ref`, for float64 inputs */
} attn_edit;

/* How the numerators of rows are turned into weights. */
typedef struct attn_finish {
    size_t rows, n;          /* size of numerators and weights */
    const size_t *from, *to; /* [rows]: weights outside [from, to) are 0; NULL: [0, n) */
    const void *maxima;      /* [rows, ld_maxima] elements: the maximum after each tile's softmax */
    size_t ld_maxima;
    const double *max, *sum; /* [rows]: the final values; a row with sum 0 gets weights of 0 */
    bool past_caches;        /* the result is too large to stay in the caches until it is read */
} attn_finish;

/* The state of rows after softmax and accumulate over some of the keys: max [rows], sum
 * [rows][lanes], acc [rows, attn_acc_room]. */
typedef struct attn_partial {
    void *max, *sum, *acc;
} attn_partial;

/* Parameters of the backward pass through an edited row. */
typedef struct attn_edit_backward {
    double scale, softcap;
    const void *capped; /* n scores after the softcap, or NULL without one */
} attn_edit_backward;

/* Statistics of a tile's rows for weight_backward. A row with a sum of 0 has weights of 0. */
typedef struct attn_weight_backward {
    const double *max, *sum, *dot; /* [rows]; dot = dO . O */
    double scale;                  /* multiplies the gradients after they are rounded; 1: none */
    /* The tile's numerators [rows, ld_kept] and their maxima [rows, ld_maxima], as softmax left
     * them. A kernel table with finish_weights reads them instead of scores. NULL: it reads
     * scores. */
    const void *kept, *maxima;
    size_t ld_kept, ld_maxima;
} attn_weight_backward;

/* Operands of the backward pass through score_tanh. It adds to all sums. */
typedef struct attn_tanh_backward {
    const void *q, *packed_key, *v; /* the operands of score_tanh */
    size_t ldq, width;
    void *dq; /* [rows, width], row stride lddq */
    size_t lddq;
    void *dkey; /* [width, keys] */
    double *dv; /* [width] */
} attn_tanh_backward;

/* Operands of a pass over whole tiles of keys in which no cell is hidden or edited. */
typedef struct attn_tile_pass {
    size_t rows, E, Ev, tiles;
    double scale;                  /* above 0 */
    double max_score;              /* an upper bound of the scaled scores; INFINITY: unknown */
    const void *query;             /* packed by pack_query */
    const char *keys, *values;     /* the first packed tile of each */
    size_t key_bytes, value_bytes; /* bytes from one tile to the next */
    void *max, *sum, *acc;         /* state of softmax and accumulate, which the pass continues */
    void *kept;                    /* receives numerators [rows, ld_kept]; or NULL */
    void *maxima;                  /* if kept: the maxima after each tile, [rows, ld_maxima] */
    size_t ld_kept, ld_maxima;
} attn_tile_pass;

typedef struct attn_kernels attn_kernels;
struct attn_kernels {
    attn_isa isa;
    attn_precision precision;
    const char *name;
    /* The table of plain products from which this table was made, with the same type of elements.
     * NULL: this table itself has plain products. */
    const attn_kernels *plain;
    size_t elem; /* bytes of an element */
    size_t rows; /* most queries of a tile, at most ATTN_MOST_ROWS */
    size_t keys; /* most keys of a tile; also the row stride of a tile, in elements */
    /* A pass may begin within a tile at multiples of this number. It is a multiple of the keys that
     * are packed together and of the length of a chain of values, so that sums stay the same. */
    size_t panel;
    size_t lanes; /* elements of a row's partial sums */

    /* The room of packed operands and accumulators. The widths of keys, values and accumulators and
     * the number of packed queries are rounded up to multiples of these numbers. A number of a
     * packed operand takes halves / 2 elements: 1 element, or a half for each bfloat16 part. */
    size_t key_unit, value_unit, acc_unit, query_unit, halves;

    /* These functions pack src [n, E] or [n, Ev], with row stride ld and n <= keys. They return the
     * largest magnitude of the packed numbers, as max_magnitude does. */
    double (*pack_key)(void *dst, const void *src, size_t ld, size_t n, size_t E);
    double (*pack_value)(void *dst, const void *src, size_t ld, size_t n, size_t Ev);
    /* Returns the largest magnitude of n elements. It is infinity if one of them is NaN or
     * infinite. */
    double (*max_magnitude)(const void *src, size_t n);

    /* Packs `rows` queries [rows, E] with row stride ldq, for a table whose products need queries
     * in a layout of its own, and returns their largest magnitude. The table's `score` then reads
     * the packed queries, and so does its score_tanh, with a stride of E. Such a table does not get
     * magnitudes above ATTN_MOST_SPLIT. NULL: queries are read unpacked. */
    double (*pack_query)(void *dst, const void *q, size_t ldq, size_t rows, size_t E);

    /* Computes scores for q [rows, E] with row stride ldq. The product is rounded and then
     * multiplied by the scale, as `edit` does it. Cells j >= n of the tile's rows are undefined
     * afterwards. */
    void (*score)(void *tile, const void *q, size_t ldq, size_t rows, const void *packed_key,
                  size_t n, size_t E, double scale);
    /* Computes the same scores, bit for bit, for few rows and unpacked keys [n, E] with row stride
     * ld. Row r is read from q[r], and its scores are written to tile[r]. Returns the largest
     * magnitude of the keys. NULL: keys must be packed. */
    double (*score_unpacked)(void *const *tile, const void *const *q, size_t rows, const void *keys,
                             size_t ld, size_t n, size_t E, double scale);
    /* Computes scores with tanh. Queries and keys have the width A, and v [A] may have any
     * alignment. */
    void (*score_tanh)(void *tile, const void *q, size_t ldq, size_t rows, const void *packed_key,
                       size_t n, size_t A, const void *v);
    /* Edits a row in place, and pads it after n elements as softmax needs it. */
    void (*edit)(void *row, size_t n, const attn_edit *edit);
    /* Turns scores into numerators. max[rows] (-infinity at first) and sum[rows][lanes] (0 at
     * first) continue from tile to tile, and factor[rows] is written. While a row has no visible
     * cell, its partial sums are undefined. A later factor of 0 drops them. */
    void (*softmax)(void *tile, size_t rows, size_t n, void *max, void *sum, void *factor);
    /* Adds the tile's weights times values to acc. The n columns of the tile belong to rows first …
     * first + n - 1 of the packed tile, which has `packed` rows. A factor of 0 drops the sums in
     * acc, which may be anything, but must be finite in a table with `plain`. */
    void (*accumulate)(void *acc, const void *tile, size_t rows, const void *packed_value,
                       size_t first, size_t n, size_t packed, size_t Ev, const void *factor);

    /* Computes for each tile, bit for bit, what score, softmax and accumulate would compute, in
     * less time. NULL: the caller calls these three. */
    void (*pass)(const attn_tile_pass *p);

    /* Computes the same sums as accumulate for few rows and unpacked values. Returns the largest
     * magnitude of the values. */
    double (*accumulate_unpacked)(void *const *acc, const void *const *tile, size_t rows,
                                  const void *values, size_t ld, size_t n, size_t Ev,
                                  const void *const *factor);

    /* Adds to the state of rows the state of the same rows over later keys. The order of calls
     * matters, since sums are rounded. */
    void (*merge)(const attn_partial *into, const attn_partial *from, size_t rows, size_t Ev);

    /* Computes the maximum and the total of the partial sums for each row. The total of a row is
     * meaningless if its maximum is -infinity. */
    void (*statistics)(const void *max, const void *sum, size_t rows, double *most, double *total);
    /* Computes dst[r] = acc[r] / sum[r], or 0 if the sum is 0. dst is [rows, n] with row stride ld.
     */
    void (*divide)(void *dst, size_t ld, const void *acc, size_t rows, size_t n, const double *sum);
    /* Computes dst[j] = the weight of the edited score scores[j]. dst may equal scores. */
    void (*weights)(void *dst, const void *scores, size_t n, double max, double sum);
    /* Turns the numerators that softmax left into weights, which equal those of `weights` bit for
     * bit. dst may equal numerators. NULL: softmax leaves no numerators in a tile, or they cannot
     * be scaled exactly. */
    void (*finish_weights)(void *dst, const void *numerators, const attn_finish *how);
    /* Returns the logarithm of the sum of exponentials, from a row's max and sum. */
    double (*logsumexp)(double max, double sum);

    /* Gradients. */

    /* Adds to acc[j] the sum over the tile's rows r of tile[r][j] * row r of `packed`, which
     * pack_value packed from `rows` rows. acc is [n, attn_acc_room]. begins: acc is not read but
     * overwritten. */
    void (*accumulate_backward)(void *acc, bool begins, const void *tile, size_t rows, size_t n,
                                const void *packed, size_t width);
    /* Computes a tile of weights from edited scores or from kept numerators. dz holds the gradients
     * of the weights, and becomes weights * (dz - dot) times the scale, or 0 where the weight is 0.
     */
    void (*weight_backward)(void *weights, void *dz, const void *scores, size_t rows, size_t n,
                            const attn_weight_backward *back);
    void (*edit_backward)(void *ds, size_t n, const attn_edit_backward *edit); /* in place */
    void (*score_tanh_backward)(const attn_tanh_backward *back, const void *tile, size_t rows,
                                size_t n);
};

extern const attn_kernels attn_kernels_ref, attn_kernels_avx2, attn_kernels_avx512;

/* Returns the table of plain products of an instruction set, which the processor must have. */
const attn_kernels *attn_kernels_of(attn_isa isa);
/* Returns the table of plain products of the chosen instruction set. */
const attn_kernels *attn_kernels_current(void);
/* Returns the kernel table of a precision. tanh_score: score_tanh will be called instead of score.
 */
const attn_kernels *attn_kernels_with(attn_isa isa, attn_precision precision, bool tanh_score);
/* Finds the instruction set of this processor whose kernel table of the precision has the name.
 * false: there is none. */
bool attn_kernels_find(const char *name, attn_precision precision, bool tanh_score, attn_isa *out);

static inline size_t attn_round_up(size_t n, size_t unit) {
    return (n + unit - 1) / unit * unit;
}

/* Returns the row stride of an accumulator, in elements. */
static inline size_t attn_acc_room(const attn_kernels *k, size_t Ev) {
    return attn_round_up(Ev, k->acc_unit);
}
/* These functions return the elements of one tile's packed keys, of one tile's packed values, and
 * of packed queries. */
static inline size_t attn_key_room(const attn_kernels *k, size_t E) {
    return k->keys * attn_round_up(E, k->key_unit) * k->halves / 2;
}
static inline size_t attn_value_room(const attn_kernels *k, size_t Ev) {
    return k->keys * attn_round_up(Ev, k->value_unit) * k->halves / 2;
}
static inline size_t attn_query_room(const attn_kernels *k, size_t rows, size_t E) {
    return attn_round_up(rows, k->query_unit) * attn_round_up(E, k->key_unit) * k->halves / 2;
}

/* Returns the table of plain products from which a table was made. */
static inline const attn_kernels *attn_kernels_plain(const attn_kernels *k) {
    return k->plain ? k->plain : k;
}

#endif
