/* The kernel tables: a table of function pointers for each instruction set and precision.
 *
 * Attention goes over tiles of up to `rows` queries by up to `keys` keys. A cell is a pair of a
 * query and a key. The numerator of a cell is its weight before the division by the sum of the row:
 * e^(score - maximum), up to a power of two. Each kernel table has its own layout of packed keys,
 * values and queries. Tiles, accumulators and statistics are row-major arrays of elements of `elem`
 * bytes (float; double in `ref`) that only the functions of the same table read.
 *
 *   pack_key, pack_value   one tile's keys and values in the table's own layout
 *   score                  tile[r][j] = q_r . k_j, times a scale
 *   score_tanh             tile[r][j] = sum_a v_a tanh(q_ra + k_ja)
 *   edit                   applies scale, softcap and bias to a row of a tile, and hides cells
 *   softmax                scores of a tile -> numerators; raises the running maxima, adds to the
 *                          partial sums, and gives the factors for earlier sums
 *   accumulate             acc[r] = acc[r] * factor[r] + sum_j tile[r][j] v_j
 *   pass                   score, softmax and accumulate over several tiles, overlapped
 *   merge                  combines two states of the same rows, the second over later keys
 *   statistics             computes the final maximum and sum of each row
 *   divide                 computes the output of each row, acc / sum
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
 * 1. A score is a pure function of (q_i, k_j): the sum over E is added in one fixed order,
 *     whatever the tile, row or call.
 *
 * 2. Every table but `ref` splits the exponent of a score s exactly. With t = s log2(e),
 *     n = rint(t) and f = t - n, the numerator of a cell is 2^f 2^(n - M), M = rint(max * log2(e)).
 *     2^f depends on the score alone, and a later, larger M only rescales by a power of two. So no
 *     partial sum depends on how the maximum grew. This holds while |max| < ATTN_WIDE. `ref`
 *     computes all other rows (attention/forward_rows.c).
 *
 * 3. Partial sums of a row are added in one order, which `keys` and `lanes` determine. With few
 *     queries and many keys it also depends on the ranges into which the keys are divided
 *     (attention/forward_steps.c), and with a strided pattern on its two steps
 *     (attention/strided.c).
 *
 * No function allocates memory, and any thread may call any function. A function reads at most the
 * n elements that it is given, except of tiles, packed operands and accumulators, whose rows are
 * padded (attn_acc_room and the functions after it give the sizes). Pointers to these three are
 * aligned to ATTN_ALIGN; all other pointers need only the alignment of their elements. */
#ifndef ATTN_KERNELS_H
#define ATTN_KERNELS_H

#include <attn/isa.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ATTN_MOST_ROWS = 64 }; /* largest number of rows in a tile of any kernel table */

/* Upper limit for the magnitude of operands in tables that split numbers into bfloat16 parts
 * (bf16.h). A part below the normal range, 2^-126, is lost. With this limit the products that are
 * lost with such parts are at most 2^-46. Numbers near FLT_MAX would overflow when they are rounded
 * to a part. Larger operands are computed with plain products. */
#define ATTN_MOST_SPLIT 0x1p80

/* Rows whose maximum has at least this magnitude are computed by `ref` (see promise 2). */
#define ATTN_WIDE 65536.0

/* What happens to a hidden cell: it gets the score -infinity, a number is added to its score, or a
 * number replaces its score. The values equal those of attn_fill (attn/mask.h). */
enum { ATTN_EDIT_HIDE = 0, ATTN_EDIT_ADD, ATTN_EDIT_REPLACE };

/* The parameters of `edit`, which edits a row of n raw scores. */
typedef struct attn_edit {
    double scale;
    double softcap;      /* 0: no softcap */
    const void *bias;    /* n elements to add; -infinity hides a cell; NULL: none */
    const uint8_t *keep; /* n bytes; 0 hides a cell; NULL: no cell is hidden */
    size_t lo, hi;       /* cells outside [lo, hi) are hidden */
    int fill;            /* ATTN_EDIT_HIDE, ATTN_EDIT_ADD or ATTN_EDIT_REPLACE */
    double fill_value;   /* the number of ATTN_EDIT_ADD and ATTN_EDIT_REPLACE */
    bool wide;           /* only in `ref`: ATTN_EDIT_ADD adds in double, for float64 inputs */
} attn_edit;

/* Parameters of finish_weights, which turns numerators [rows, n] into weights [rows, n]. */
typedef struct attn_finish {
    size_t rows, n;
    const size_t *from, *to; /* [rows]: weights outside [from, to) are 0; NULL means 0 and n */
    const void *maxima;      /* [rows, ld_maxima]: the running maximum of a row after each tile */
    size_t ld_maxima;
    const double *max, *sum; /* [rows]: final maximum and sum; a row with sum 0 gets weights of 0 */
    /* store the weights past the caches, since they do not fit into them */
    bool past_caches;
} attn_finish;

/* The state of rows after softmax and accumulate over some of the keys. */
typedef struct attn_partial {
    void *max; /* [rows] */
    void *sum; /* [rows, lanes]: partial sums */
    void *acc; /* [rows, attn_acc_room] */
} attn_partial;

/* Parameters of the backward pass through `edit`, for one row. */
typedef struct attn_edit_backward {
    double scale, softcap;
    const void *capped; /* the n scores after the softcap; NULL: there is no softcap */
} attn_edit_backward;

/* What weight_backward reads for the rows of a tile. */
typedef struct attn_weight_backward {
    const double *max, *sum; /* [rows]: final maximum and sum; a row with sum 0 has weights of 0 */
    const double *dot;       /* [rows]: dO . O of the row */
    double scale;            /* a factor of the gradients, applied after they are rounded */
    /* The numerators [rows, ld_kept] of the tile, and the running maxima [rows, ld_maxima] to which
     * they belong, as softmax left them. If `kept` is NULL, the weights are computed from scores.
     * Only a kernel table with finish_weights can use numerators. */
    const void *kept, *maxima;
    size_t ld_kept, ld_maxima;
} attn_weight_backward;

/* Operands of score_tanh_backward, which adds to dq, dkey and dv. */
typedef struct attn_tanh_backward {
    const void *q, *packed_key, *v; /* the operands of score_tanh */
    size_t ldq;                     /* row stride of q, in elements */
    size_t width;                   /* width of q, of the keys and of v */
    void *dq;                       /* [rows, width], row stride lddq */
    size_t lddq;
    void *dkey; /* [width, keys] */
    double *dv; /* [width] */
} attn_tanh_backward;

/* Operands of `pass`, for `tiles` whole tiles of keys in which no cell is hidden and the only edit
 * is the scale. */
typedef struct attn_tile_pass {
    size_t rows, E, Ev, tiles;
    double scale;                  /* above 0 */
    double max_score;              /* no |scaled score| is larger; INFINITY: the bound is unknown */
    const void *query;             /* packed by pack_query */
    const char *keys, *values;     /* packed keys and packed values of the first tile */
    size_t key_bytes, value_bytes; /* bytes from one tile to the next */
    void *max, *sum, *acc;         /* the state of the rows (attn_partial), which is updated */
    void *kept;                    /* receives the numerators [rows, ld_kept]; NULL: not wanted */
    void *maxima; /* receives the running maxima after each tile [rows, ld_maxima]; or NULL */
    size_t ld_kept, ld_maxima;
} attn_tile_pass;

typedef struct attn_kernels attn_kernels;
struct attn_kernels {
    attn_isa isa;
    attn_precision precision;
    const char *name;
    /* A product is plain if it multiplies the elements themselves and not bfloat16 parts of them.
     * `plain` is the table of plain products from which this table was made. NULL: this table
     * itself has plain products. */
    const attn_kernels *plain;
    size_t elem; /* bytes of an element */
    size_t rows; /* largest number of queries in a tile, at most ATTN_MOST_ROWS */
    size_t keys; /* largest number of keys in a tile, a power of 2; also the row stride of a tile */
    /* The first keys of a packed tile may be skipped if their number is a multiple of `panel`. They
     * are then whole groups of keys that are packed together, and the sums over the other keys do
     * not change. */
    size_t panel;
    size_t lanes; /* number of partial sums of a row */

    /* Numbers from which attn_key_room, attn_value_room, attn_acc_room and attn_query_room compute
     * sizes. The width of keys is rounded up to a multiple of key_unit, the width of values to a
     * multiple of value_unit, the width of an accumulator to a multiple of acc_unit, and the number
     * of packed queries to a multiple of query_unit. `halves` is the size of a packed number in
     * half elements: 2 if it is stored as an element, else the number of its bfloat16 parts. */
    size_t key_unit, value_unit, acc_unit, query_unit, halves;

    /* These functions pack the keys or values of a tile, src [n, E] or [n, Ev] with row stride ld
     * and n <= keys. They return the largest magnitude of src, as max_magnitude does. */
    double (*pack_key)(void *dst, const void *src, size_t ld, size_t n, size_t E);
    double (*pack_value)(void *dst, const void *src, size_t ld, size_t n, size_t Ev);
    /* Returns the largest magnitude of n elements. It is infinity if one of them is NaN or
     * infinite. */
    double (*max_magnitude)(const void *src, size_t n);

    /* Packs queries [rows, E] with row stride ldq and returns their largest magnitude. NULL:
     * `score` and score_tanh of this table read unpacked queries. Else they read packed ones,
     * score_tanh with a row stride of E, and the magnitudes of all operands must not exceed
     * ATTN_MOST_SPLIT. */
    double (*pack_query)(void *dst, const void *q, size_t ldq, size_t rows, size_t E);

    /* Computes the scores of q [rows, E] with row stride ldq and n packed keys. A product is
     * rounded and then multiplied by the scale, as if `edit` applied it. Cells j >= n of the tile's
     * rows are undefined afterwards. */
    void (*score)(void *tile, const void *q, size_t ldq, size_t rows, const void *packed_key,
                  size_t n, size_t E, double scale);
    /* Computes the same scores, bit for bit, for few rows and unpacked keys [n, E] with row stride
     * ld. Row r is read from q[r], and its scores are written to tile[r]. Returns the largest
     * magnitude of the keys. NULL: this table needs packed keys. */
    double (*score_unpacked)(void *const *tile, const void *const *q, size_t rows, const void *keys,
                             size_t ld, size_t n, size_t E, double scale);
    /* Computes scores with tanh, for queries [rows, A], packed keys of width A, and v [A]. */
    void (*score_tanh)(void *tile, const void *q, size_t ldq, size_t rows, const void *packed_key,
                       size_t n, size_t A, const void *v);
    /* Edits a row of n raw scores in place, and pads it after n elements as softmax needs it. */
    void (*edit)(void *row, size_t n, const attn_edit *edit);
    /* Turns the scores of a tile [rows, n] into numerators in place. max [rows] and sum
     * [rows, lanes] are the state of the rows. The caller sets them to -infinity and 0 before the
     * first tile. factor [rows] is written, for accumulate. While a row has no visible cell, its
     * partial sums are undefined; the factor 0 of its first visible cell drops them. */
    void (*softmax)(void *tile, size_t rows, size_t n, void *max, void *sum, void *factor);
    /* Sets acc = acc * factor + numerators times values. The n columns of the tile belong to the
     * values first … first + n - 1 of a packed tile of `packed` values. Where the factor is 0, the
     * old sums in acc do not count. A table of plain products ignores their values; in other tables
     * they must be finite. */
    void (*accumulate)(void *acc, const void *tile, size_t rows, const void *packed_value,
                       size_t first, size_t n, size_t packed, size_t Ev, const void *factor);

    /* Does for each tile what score, softmax and accumulate would do, with the same bits in less
     * time. NULL: the table has no such function. */
    void (*pass)(const attn_tile_pass *p);

    /* Computes the same sums as accumulate, for few rows and unpacked values [n, Ev] with row
     * stride ld. Row r has its numerators in tile[r], its sums in acc[r] and its factor in
     * *factor[r]. Returns the largest magnitude of the values. NULL: this table needs packed
     * values. */
    double (*accumulate_unpacked)(void *const *acc, const void *const *tile, size_t rows,
                                  const void *values, size_t ld, size_t n, size_t Ev,
                                  const void *const *factor);

    /* Combines two states of the same rows: `into`, which becomes the result, and `from`, which is
     * over later keys. The order of calls matters, since sums are rounded. */
    void (*merge)(const attn_partial *into, const attn_partial *from, size_t rows, size_t Ev);

    /* Computes the maximum of each row, and the total of its partial sums. If the maximum is
     * -infinity, the total has no meaning. */
    void (*statistics)(const void *max, const void *sum, size_t rows, double *most, double *total);
    /* Computes dst[r] = acc[r] / sum[r], or 0 if sum[r] is 0. dst is [rows, n] with row stride
     * ld. */
    void (*divide)(void *dst, size_t ld, const void *acc, size_t rows, size_t n, const double *sum);
    /* Computes the weights dst[j] of n edited scores of a row with the final max and sum. dst may
     * equal scores. */
    void (*weights)(void *dst, const void *scores, size_t n, double max, double sum);
    /* Computes the weights, with the same bits as `weights`, from the numerators that softmax left.
     * dst may equal numerators. NULL: this table does not leave numerators that can be rescaled
     * exactly. */
    void (*finish_weights)(void *dst, const void *numerators, const attn_finish *how);
    /* Returns log(sum of e^score) of a row from its final max and sum. */
    double (*logsumexp)(double max, double sum);

    /* Gradients. */

    /* Adds tile^T times `packed` to acc [n, attn_acc_room(width)]. The tile is [rows, n], and
     * pack_value packed `packed` from [rows, width]. If `begins`, acc is overwritten, not read. */
    void (*accumulate_backward)(void *acc, bool begins, const void *tile, size_t rows, size_t n,
                                const void *packed, size_t width);
    /* Computes the weights [rows, n] of a tile from edited scores or from back->kept. `dz` holds
     * the gradients of the weights; each becomes weight * (dz - dot) * scale, or 0 where the weight
     * is 0. */
    void (*weight_backward)(void *weights, void *dz, const void *scores, size_t rows, size_t n,
                            const attn_weight_backward *back);
    /* Turns the gradients of n edited scores of a row into those of the raw scores, in place. */
    void (*edit_backward)(void *ds, size_t n, const attn_edit_backward *edit);
    /* Computes gradients from a tile [rows, n] of gradients of scores with tanh. */
    void (*score_tanh_backward)(const attn_tanh_backward *back, const void *tile, size_t rows,
                                size_t n);
};

extern const attn_kernels attn_kernels_ref, attn_kernels_avx2, attn_kernels_avx512;

/* Returns the table of plain products of an instruction set, which the processor must have. */
const attn_kernels *attn_kernels_of(attn_isa isa);
/* Returns the table of plain products of the chosen instruction set. */
const attn_kernels *attn_kernels_current(void);
/* Returns the kernel table of an instruction set for a precision. `tanh_score` is true if the
 * caller uses score_tanh instead of score. */
const attn_kernels *attn_kernels_with(attn_isa isa, attn_precision precision, bool tanh_score);
/* Finds the instruction set of this processor whose kernel table for the precision has this name,
 * such as "avx512_bf16". Returns false if there is none. */
bool attn_kernels_find(const char *name, attn_precision precision, bool tanh_score, attn_isa *out);

/* Returns n rounded up to a multiple of `unit`, a power of 2. */
static inline size_t attn_round_up(size_t n, size_t unit) {
    return (n + unit - 1) & ~(unit - 1);
}

/* Returns the number of tiles that n keys need. */
static inline size_t attn_key_tiles(const attn_kernels *k, size_t n) {
    return (n + k->keys - 1) >> __builtin_ctzl(k->keys);
}
/* Returns the row stride of an accumulator for values of width Ev, in elements. */
static inline size_t attn_acc_room(const attn_kernels *k, size_t Ev) {
    return attn_round_up(Ev, k->acc_unit);
}
/* These functions return sizes in elements: of a whole tile of packed keys of width E, of a whole
 * tile of packed values of width Ev, and of `rows` packed queries of width E. */
static inline size_t attn_key_room(const attn_kernels *k, size_t E) {
    return k->keys * attn_round_up(E, k->key_unit) * k->halves / 2;
}
static inline size_t attn_value_room(const attn_kernels *k, size_t Ev) {
    return k->keys * attn_round_up(Ev, k->value_unit) * k->halves / 2;
}
static inline size_t attn_query_room(const attn_kernels *k, size_t rows, size_t E) {
    return attn_round_up(rows, k->query_unit) * attn_round_up(E, k->key_unit) * k->halves / 2;
}

/* Returns the table of plain products from which a table was made, or the table itself if its
 * products are plain. */
static inline const attn_kernels *attn_kernels_plain(const attn_kernels *k) {
    return k->plain ? k->plain : k;
}

/* Finds an instruction set by its name. Returns false if there is none. */
bool attn_isa_parse(const char *name, attn_isa *out);

#endif
