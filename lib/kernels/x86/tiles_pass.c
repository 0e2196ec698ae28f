/* The kernel `pass` for AMX: score, softmax and accumulate over whole tiles of keys. While the tile
 * unit multiplies, the vector unit computes exponentials.
 *
 * An item is 32 rows and one tile of keys. It takes three steps, and three items are in work at a
 * time, each at another step:
 *
 *   item       n: scores                 n - 1: numerators                   n - 2: values
 *              Q K^T -> S[n % 2]         S[(n-1) % 2] -> parts P[(n-1) % 2]  P[n % 2] V -> acc
 *   tile unit  ==== products of n ================ products of n - 2 ===================
 *   vectors      numerators of n - 1, 32 cells at a time …                      maxima of n
 *
 * Products are computed in blocks of 2 x 2 tiles of C, as in tiles_amx.c. S takes 16 KiB, each part
 * of P 8 KiB, and C 4 KiB. Keys and values (16 KiB for each part of a tile of width 64) come from
 * the L2 cache, and each tile of keys is used for all rows before the next. A cell gets the same
 * bits as from the kernels score, softmax and accumulate. */
#include <math.h>
#include <string.h>

#include "kernels/x86/tiles_amx.h"
#include "kernels/x86/tiles_split.h"

#include "kernels/x86/simd_avx512.h"
#include "kernels/x86/simd_exp.h"

enum { ROWS = 2 * ATTN_TILE, KEYS = 128, COLS = KEYS / ATTN_TILE, STEPS = KEYS / ATTN_TILE_DEPTH };
enum { PART = STEPS * 2 * ATTN_TILE_CELLS }; /* elements of one part of the numerators of an item */

/* One item and its buffers. */
typedef struct item {
    size_t first, rows; /* rows [first, first + rows) of the pass; rows = 0: there is no item */
    size_t tile;        /* number of the tile of keys */
    float *scores;      /* [ROWS, KEYS], not yet scaled */
    uint16_t *parts;    /* the parts of the numerators, as tiles: [parts][STEPS][2] */
    float *shift;       /* [ROWS]: exponent of the row's maximum, this tile included */
    float *factor;      /* [ROWS]: factor for the sums over the tiles before this one */
} item;

/* The state of a pass. A portion is 32 cells of a row. The vector unit computes portions of the
 * item `now` between the products of two other items, evenly distributed over these products. */
typedef struct pass {
    const attn_tile_pass *p;
    int number;       /* number of bfloat16 parts of an operand */
    size_t lda;       /* row stride of acc, in elements */
    size_t key_steps; /* number of tiles that the width E of the keys takes */
    size_t row_tiles; /* number of tiles that the rows take */
    vf scale, hi, lo; /* hi + lo = scale * log2(e) */
    const item *now;
    size_t done; /* portions of `now` that are computed */
    size_t all;  /* portions of `now` in all */
    size_t rate; /* sixteenths of a portion that become due at each call of some_portions */
    size_t due;  /* sixteenths of a portion that are due now */
    vf part;     /* sums of the lanes over the portions of the current row so far */
} pass;

/* --- work of the vector unit --- */

/* Computes the numerators of 16 cells. `fused` is what can_fuse_scale returns. */
INLINE vf cells(const bool coarse, const bool fused, const float *from, vf shift, const pass *w) {
    return fused ? numerator_of(coarse, vload(from), w->hi, w->lo, shift)
                 : numerator(coarse, vmul(vload(from), w->scale), shift);
}

/* Splits 2 x 16 numerators into parts as split() does. With one part, a single instruction does
 * this; it rounds as split() does, since numerators are normal numbers or 0. */
INLINE void split_numerators(const int parts, const vf x[2], uint16_t *to) {
    if (parts > 1) {
        split(parts, x, to, PART);
        return;
    }
    const __m512i pairs =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]);
    _mm512_store_si512(to, _mm512_permutexvar_epi16(pairs, halves));
}

/* Computes the next portion of the item w->now. */
INLINE void portion(const int parts, const bool fused, pass *w) {
    const size_t r = w->done / STEPS, s = w->done % STEPS;
    const item *n = w->now;
    const float *from = n->scores + r * KEYS + s * ATTN_TILE_DEPTH;
    const vf shift = vset(n->shift[r]);
    const bool coarse = parts == 2;
    const vf x[2] = {cells(coarse, fused, from, shift, w),
                     cells(coarse, fused, from + LANES, shift, w)};
    w->part = vadd(vadd(s ? w->part : vset(0.0f), x[0]), x[1]);
    if (w->p->kept) {
        float *to = (float *)w->p->kept + (n->first + r) * w->p->ld_kept + n->tile * KEYS +
                    s * ATTN_TILE_DEPTH;
        vstore_n(to, x[0], LANES);
        vstore_n(to + LANES, x[1], LANES);
    }
    split_numerators(parts, x, n->parts + s * (2 * ATTN_TILE_CELLS) + r * ATTN_TILE_DEPTH);
    if (s == STEPS - 1) {
        float *sum = (float *)w->p->sum + (n->first + r) * LANES;
        vstore(sum, vfma(vload(sum), vset(n->factor[r]), w->part));
    }
    w->done++;
}

/* Computes the portions that are due after (at most) four products of tiles. */
INLINE void some_portions(const bool fused, pass *w) {
    for (w->due += w->rate; w->due >= 16 && w->done < w->all; w->due -= 16)
        portion(w->number, fused, w);
}
INLINE void beside_fused(void *state) {
    some_portions(true, state);
}
INLINE void beside_separate(void *state) {
    some_portions(false, state);
}

/* Each of these three functions returns the maximum of two vectors that are shuffled from a and b:
 * by 32-bit elements, by pairs of elements, and by quarters of a vector. */
INLINE vf larger_elements(vf a, vf b) {
    return vmax(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
}
INLINE vf larger_pairs(vf a, vf b) {
    const __m512d c = _mm512_castps_pd(a), d = _mm512_castps_pd(b);
    return vmax(_mm512_castpd_ps(_mm512_unpacklo_pd(c, d)),
                _mm512_castpd_ps(_mm512_unpackhi_pd(c, d)));
}
INLINE vf larger_quarters(vf a, vf b) {
    return vmax(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* Returns the largest score of each of 16 rows. First each row becomes one vector of maxima. Then
 * each of four steps merges pairs of vectors, so that 16 vectors become 8, 4, 2 and 1. */
INLINE vf row_maxima(const float *scores) {
    vf most[LANES];
    for (int r = 0; r < LANES; r++) {
        most[r] = vload(scores + r * KEYS);
        for (int j = LANES; j < KEYS; j += LANES)
            most[r] = vmax(most[r], vload(scores + r * KEYS + j));
    }
    for (int i = 0; i < 8; i++)
        most[i] = larger_elements(most[2 * i], most[2 * i + 1]);
    for (int i = 0; i < 4; i++)
        most[i] = larger_pairs(most[2 * i], most[2 * i + 1]);
    for (int i = 0; i < 2; i++)
        most[i] = larger_quarters(most[2 * i], most[2 * i + 1]);
    return larger_quarters(most[0], most[1]);
}

/* Raises the running maxima of the item's rows to its scores. Sets n->shift to the exponents of the
 * new maxima, and n->factor to the powers of two that rescale sums from the old maxima to the
 * new. */
INLINE void raise_maxima(const pass *w, const item *n) {
    for (size_t r = 0; r < n->rows; r += LANES) {
        float *max = (float *)w->p->max + n->first + r;
        const size_t rows = n->rows - r;
        const vf old = vload_n(max, rows);
        const vf now = vmax(vmul(row_maxima(n->scores + r * KEYS), w->scale), old);
        const vf shift = row_exponent(now);
        vstore_n(max, now, rows);
        vstore(n->shift + r, shift);
        vstore(n->factor + r, vscale(vset(1.0f), vsub(row_exponent(old), shift)));
    }
    for (size_t r = 0; w->p->maxima && r < n->rows; r++)
        ((float *)w->p->maxima)[(n->first + r) * w->p->ld_maxima + n->tile] =
            ((float *)w->p->max)[n->first + r];
}

/* --- work of the tile unit --- */

INLINE void score_item(const int parts, attn_amx_beside *beside, const item *n, pass *w) {
    const attn_tile_pass *p = w->p;
    const size_t step = w->row_tiles * ATTN_TILE_CELLS, tile = w->key_steps * ATTN_TILE_CELLS;
    attn_tiles t = {
        .a = (const uint16_t *)p->query + n->first / ATTN_TILE * ATTN_TILE_CELLS,
        .a_step = step,
        .a_part = w->key_steps * step,
        .b = (const uint16_t *)(const void *)(p->keys + n->tile * p->key_bytes),
        .b_part = tile,
        .b_column = (size_t)parts * tile,
        .steps = w->key_steps,
        .row_tiles = n->rows > ATTN_TILE ? 2 : 1,
        .col_tiles = COLS,
        .c = n->scores,
        .ldc = KEYS,
    };
    for (size_t j = 0; j < COLS; j += 2)
        attn_amx_blocks(parts, &t, 0, j, beside, w);
}

/* Sets acc = acc * factor + C for `columns` <= 2 columns of tiles. Rows of acc are padded, so whole
 * vectors are written. */
INLINE void add_sums(float *acc, size_t lda, const float *c, const item *n, size_t columns) {
    for (size_t r = 0; r < n->rows; r++, acc += lda, c += ROWS)
        for (size_t e = 0; e < columns * ATTN_TILE; e += LANES)
            vstore(acc + e, vfma(vload(acc + e), vset(n->factor[r]), vload(c + e)));
}

INLINE void value_item(const int parts, attn_amx_beside *beside, const item *n, pass *w) {
    _Alignas(64) float c[ROWS * 2 * ATTN_TILE];
    const attn_tile_pass *p = w->p;
    attn_tiles t = {
        .a = n->parts,
        .a_step = 2 * ATTN_TILE_CELLS,
        .a_part = PART,
        .b = (const uint16_t *)(const void *)(p->values + n->tile * p->value_bytes),
        .b_part = STEPS * ATTN_TILE_CELLS,
        .b_column = (size_t)parts * STEPS * ATTN_TILE_CELLS,
        .steps = STEPS,
        .row_tiles = n->rows > ATTN_TILE ? 2 : 1,
        .c = c,
        .ldc = 2 * ATTN_TILE,
    };
    const size_t columns = (p->Ev + ATTN_TILE - 1) / ATTN_TILE;
    float *acc = (float *)p->acc + n->first * w->lda;
    for (size_t j = 0; j < columns; j += 2, t.b += 2 * t.b_column, acc += 2 * ATTN_TILE) {
        t.col_tiles = columns - j < 2 ? 1 : 2;
        attn_amx_blocks(parts, &t, 0, 0, beside, w);
        add_sums(acc, w->lda, c, n, t.col_tiles);
    }
}

/* --- the pipeline --- */

/* Returns item number `index` of the pass with the given buffers. `halves` is the number of items
 * for each tile of keys. After the last item, returns an item without rows. */
INLINE item item_at(const attn_tile_pass *p, size_t index, size_t halves, item buffers) {
    if (index >= p->tiles * halves) {
        buffers.rows = 0;
        return buffers;
    }
    buffers.tile = index / halves;
    buffers.first = index % halves * ROWS;
    buffers.rows = p->rows - buffers.first < ROWS ? p->rows - buffers.first : ROWS;
    return buffers;
}

/* Sets w->now to `now`, and spreads its portions (32 cells of a row each) evenly over the products
 * Q K^T of `scored` and P V of `summed`. */
INLINE void begin_portions(const int parts, const item *now, const item *scored, const item *summed,
                           pass *w) {
    const size_t columns = (w->p->Ev + ATTN_TILE - 1) / ATTN_TILE;
    size_t products = scored->rows ? COLS / 2 * w->key_steps : 0;
    if (summed->rows)
        products += (columns + 1) / 2 * STEPS;
    products *= (size_t)ATTN_TILE_PAIRS(parts);
    w->now = now;
    w->done = 0;
    w->all = now->rows * STEPS;
    w->rate = products ? (w->all * 16 + products - 1) / products : 0;
    w->due = 0;
}

INLINE void run(const int parts, const bool fused, const attn_tile_pass *p) {
    attn_amx_beside *beside = fused ? beside_fused : beside_separate;
    _Alignas(64) float scores[2][ROWS * KEYS];
    _Alignas(64) uint16_t numerators[2][MOST_PARTS * PART];
    _Alignas(64) float shift[3][ROWS], factor[3][ROWS];
    const size_t halves = (p->rows + ROWS - 1) / ROWS, items = p->tiles * halves;
    pass w = {
        .p = p,
        .number = parts,
        .lda = attn_acc_room(&attn_kernels_avx512, p->Ev),
        .key_steps = (p->E + ATTN_TILE_DEPTH - 1) / ATTN_TILE_DEPTH,
        .row_tiles = (p->rows + ATTN_TILE - 1) / ATTN_TILE,
        .scale = vset((float)p->scale),
        .hi = vset((float)p->scale * LOG2E_HI),
        .lo = vset((float)p->scale * LOG2E_LO),
    };
    item summed = {.rows = 0}, now = {.rows = 0};
    if (p->rows % ROWS) /* padding rows are multiplied, too */
        memset(numerators, 0, sizeof numerators);
    for (size_t n = 0; n < items + 2; n++) {
        const item scored = item_at(p, n, halves,
                                    (item){.scores = scores[n % 2],
                                           .parts = numerators[n % 2],
                                           .shift = shift[n % 3],
                                           .factor = factor[n % 3]});
        begin_portions(parts, &now, &scored, &summed, &w);
        if (scored.rows)
            score_item(parts, beside, &scored, &w);
        if (summed.rows)
            value_item(parts, beside, &summed, &w);
        while (w.done < w.all)
            portion(parts, fused, &w);
        if (scored.rows)
            raise_maxima(&w, &scored);
        summed = now;
        now = scored;
    }
}

/* Returns whether the exponential can apply the scale, which saves a multiplication and a maximum
 * for each cell (numerator_of). The scale must be a power of two, so that this is exact, and no
 * score may be so low that it would have to be raised to LOWEST. */
static bool can_fuse_scale(const attn_tile_pass *p) {
    int exponent;
    return frexp(p->scale, &exponent) == 0.5 && exponent > -60 && exponent < 60 &&
           p->max_score < (double)-LOWEST / 2;
}

#define PASS(parts)                                                                                \
    OUT_OF_LINE void run_##parts(const attn_tile_pass *p) {                                        \
        run(parts, false, p);                                                                      \
    }                                                                                              \
    OUT_OF_LINE void run_fused_##parts(const attn_tile_pass *p) {                                  \
        run(parts, true, p);                                                                       \
    }                                                                                              \
    static void pass_##parts(const attn_tile_pass *p) {                                            \
        attn_amx_begin();                                                                          \
        if (can_fuse_scale(p))                                                                     \
            FLUSHED(run_fused_##parts(p));                                                         \
        else                                                                                       \
            FLUSHED(run_##parts(p));                                                               \
        attn_amx_end();                                                                            \
    }
PASS(1)
PASS(2)
PASS(3)

void attn_kernels_pass_amx(attn_kernels *k) {
    k->pass = k->precision == ATTN_PRECISION_BF16   ? pass_1
              : k->precision == ATTN_PRECISION_FAST ? pass_2
                                                    : pass_3;
}
