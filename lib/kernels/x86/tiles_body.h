/* Kernels over bfloat16 tiles. kernels.h describes the functions, and round_ref.c has the results
 * that they must approximate. The file that includes this one defines:
 *
 *   NAME(x)      x with a suffix for the instruction set
 *   PRODUCT      a function for products of tiles (attn_tiles)
 *   BEGIN, END   statements before and after products
 *   BASE         the float table that supplies softmax and all other functions
 *
 * With s = ceil(E / 32) steps and p parts (tiles.h), the packed operands are arrays of tiles:
 *
 *   packed keys     [keys / 16][p][s]            a tile: 32 of E by 16 keys
 *   packed values   [Ev / 16][p][packed / 32]    a tile: 32 keys by 16 of Ev
 *   packed queries  [p][s][rows / 16]            a tile: 16 queries by 32 of E
 *   numerators      [p][n / 32][2]               packed on the stack from 32 rows of scores
 *
 *   score:        Q x K -> scores of the tile     Q in the L1 cache
 *   accumulate:   numerators x V -> C -> acc      numerators in the L1 cache, V in the L2 cache
 *
 * Incomplete tiles are padded with zeros. For 64 queries, 128 keys and a width of 64, a part of Q
 * has 8 KiB and a part of K 16 KiB, the scores have 32 KiB, and a part of the numerators of 32 rows
 * has 8 KiB. */
#include <math.h>
#include <string.h>

#include "kernels/x86/tiles_split.h"
#ifdef __AVX512F__
#include "kernels/x86/simd_avx512.h"
#endif

enum {
    MOST_KEYS = 256,         /* largest number of keys whose numerators are packed at a time */
    AT_ONCE = 2 * ATTN_TILE, /* rows of numerators that are packed at a time */
    GROUP = 4                /* tiles of value columns whose sums are computed at a time */
};

static size_t ceil_div(size_t n, size_t by) {
    return (n + by - 1) / by;
}

/* --- packing --- */

/* Splits 2 x 16 numbers at `first` and `second` into parts (see split). */
INLINE void split_at(const int parts, const float *first, const float *second, uint16_t *to,
                     size_t stride) {
    lanes numbers[2];
    memcpy(&numbers[0], first, sizeof *numbers);
    memcpy(&numbers[1], second, sizeof *numbers);
    split(parts, numbers, to, stride);
}

/* Returns x if n == all. Else copies the n numbers of x to `room`, pads them with zeros up to
 * `all`, and returns `room`. */
INLINE const float *padded(const float *x, size_t n, const size_t all, float *room) {
    if (n == all)
        return x;
    memset(room, 0, all * sizeof *room);
    memcpy(room, x, n * sizeof *x);
    return room;
}

/* Raises the 16 magnitudes *most to those of 16 numbers. The numbers are compared as bits, so NaN
 * exceeds infinity. */
INLINE void note_magnitude(words *most, const float *x) {
    words bits;
    memcpy(&bits, x, sizeof bits);
    bits &= 0x7fffffff;
#ifdef __AVX512F__
    *most = (words)_mm512_max_epu32((__m512i)*most, (__m512i)bits);
#else
    const words larger = (words)(bits > *most);
    *most = (bits & larger) | (*most & ~larger);
#endif
}

static double noted_magnitude(const words *most) {
    const lanes magnitudes = (lanes)*most;
    float largest = 0;
    for (int i = 0; i < ATTN_TILE; i++) {
        if (!isfinite(magnitudes[i]))
            return INFINITY;
        largest = magnitudes[i] > largest ? magnitudes[i] : largest;
    }
    return largest;
}

/* Packs x [rows, width] with row stride ld as an operand A of tiles: [parts][steps][ceil(rows /
 * 16)]. If `most` is not NULL, *most is raised to the magnitudes of x. */
INLINE void pack_rows(const int parts, uint16_t *to, const float *x, size_t ld, size_t rows,
                      size_t width, words *most) {
    const size_t row_tiles = ceil_div(rows, ATTN_TILE), steps = ceil_div(width, ATTN_TILE_DEPTH);
    const size_t step = row_tiles * ATTN_TILE_CELLS, part = steps * step;
    for (size_t s = 0; s < steps; s++) {
        const size_t at = s * ATTN_TILE_DEPTH, left = width - at;
        const size_t n = left < ATTN_TILE_DEPTH ? left : ATTN_TILE_DEPTH;
        for (size_t r = 0; r < rows; r++) {
            float room[ATTN_TILE_DEPTH];
            const float *row = padded(x + r * ld + at, n, ATTN_TILE_DEPTH, room);
            if (most) {
                note_magnitude(most, row);
                note_magnitude(most, row + ATTN_TILE);
            }
            split_at(parts, row, row + ATTN_TILE, to + s * step + r * ATTN_TILE_DEPTH, part);
        }
        for (int p = 0; p < parts; p++)
            memset(to + (size_t)p * part + s * step + rows * ATTN_TILE_DEPTH, 0,
                   (row_tiles * ATTN_TILE - rows) * ATTN_TILE_DEPTH * sizeof *to);
    }
}

/* Transposes 16 rows of 16 numbers with stride ld. */
INLINE void transpose_block(float to[ATTN_TILE][ATTN_TILE], const float *x, size_t ld) {
#ifdef __AVX512F__
    vf row[ATTN_TILE], column[ATTN_TILE];
    for (size_t r = 0; r < ATTN_TILE; r++)
        row[r] = vload_n(x + r * ld, ATTN_TILE);
    transpose(row, column);
    for (size_t c = 0; c < ATTN_TILE; c++)
        vstore(to[c], column[c]);
#else
    for (size_t r = 0; r < ATTN_TILE; r++)
        for (size_t c = 0; c < ATTN_TILE; c++)
            to[c][r] = x[r * ld + c];
#endif
}

/* Packs `width` <= 32 elements of n <= 16 keys as one tile B of each part, padded with zeros. */
INLINE void pack_columns(const int parts, uint16_t *to, size_t part, const float *x, size_t ld,
                         size_t n, size_t width, words *most) {
    _Alignas(64) float columns[2][ATTN_TILE][ATTN_TILE];
    float room[ATTN_TILE][ATTN_TILE_DEPTH];
    if (n < ATTN_TILE || width < ATTN_TILE_DEPTH) {
        memset(room, 0, sizeof room);
        for (size_t r = 0; r < n; r++)
            memcpy(room[r], x + r * ld, width * sizeof *x);
        x = room[0];
        ld = ATTN_TILE_DEPTH;
    }
    transpose_block(columns[0], x, ld);
    transpose_block(columns[1], x + ATTN_TILE, ld);
    for (size_t k = 0; k < ATTN_TILE; k++, to += ATTN_TILE_DEPTH) {
        note_magnitude(most, columns[0][k]);
        note_magnitude(most, columns[1][k]);
        split_at(parts, columns[0][k], columns[1][k], to, part);
    }
}

INLINE double pack_key(const int parts, uint16_t *to, const float *x, size_t ld, size_t n,
                       size_t E) {
    const size_t steps = ceil_div(E, ATTN_TILE_DEPTH), part = steps * ATTN_TILE_CELLS;
    words most = {0};
    for (size_t j = 0; j < n; j += ATTN_TILE, to += (size_t)parts * part)
        for (size_t s = 0; s < steps; s++) {
            const size_t at = s * ATTN_TILE_DEPTH, left = E - at;
            pack_columns(parts, to + s * ATTN_TILE_CELLS, part, x + j * ld + at, ld,
                         n - j < ATTN_TILE ? n - j : ATTN_TILE,
                         left < ATTN_TILE_DEPTH ? left : ATTN_TILE_DEPTH, &most);
        }
    return noted_magnitude(&most);
}

/* Packs n values [n, Ev]. A tile has 32 values in 16 rows: row k pairs values k and k + 16. */
INLINE double pack_value(const int parts, uint16_t *to, const float *x, size_t ld, size_t n,
                         size_t Ev) {
    const size_t steps = ceil_div(n, ATTN_TILE_DEPTH), part = steps * ATTN_TILE_CELLS;
    words most = {0};
    for (size_t e = 0; e < Ev; e += ATTN_TILE, to += (size_t)parts * part) {
        const size_t width = Ev - e < ATTN_TILE ? Ev - e : ATTN_TILE;
        for (size_t k = 0; k < steps * ATTN_TILE; k++) {
            float room[2][ATTN_TILE];
            const size_t j = k + k / ATTN_TILE * ATTN_TILE, l = j + ATTN_TILE;
            const float *first =
                padded(x + (j < n ? j : 0) * ld + e, j < n ? width : 0, ATTN_TILE, room[0]);
            const float *second =
                padded(x + (l < n ? l : 0) * ld + e, l < n ? width : 0, ATTN_TILE, room[1]);
            note_magnitude(&most, first);
            note_magnitude(&most, second);
            split_at(parts, first, second, to + k * ATTN_TILE_DEPTH, part);
        }
    }
    return noted_magnitude(&most);
}

/* --- products --- */

static void scale_rows(float *c, size_t ldc, size_t rows, size_t n, float scale) {
    for (size_t r = 0; scale != 1 && r < rows; r++)
        for (size_t j = 0; j < n; j++)
            c[r * ldc + j] *= scale;
}

INLINE void score(const int parts, float *tile, const uint16_t *q, size_t rows,
                  const uint16_t *keys, size_t n, size_t E, float scale) {
    _Alignas(64) float last[ATTN_TILE * MOST_KEYS];
    const size_t steps = ceil_div(E, ATTN_TILE_DEPTH), row_tiles = ceil_div(rows, ATTN_TILE);
    const size_t whole = rows / ATTN_TILE, ld = BASE->keys;
    attn_tiles t = {.c = tile,
                    .ldc = ld,
                    .a = q,
                    .a_part = steps * row_tiles * ATTN_TILE_CELLS,
                    .a_step = row_tiles * ATTN_TILE_CELLS,
                    .b = keys,
                    .b_part = steps * ATTN_TILE_CELLS,
                    .b_column = (size_t)parts * steps * ATTN_TILE_CELLS,
                    .row_tiles = whole,
                    .col_tiles = ceil_div(n, ATTN_TILE),
                    .steps = steps,
                    .parts = parts};
    BEGIN;
    if (whole)
        PRODUCT(&t);
    /* the last rows are computed in `last`, since `tile` has no padding rows */
    if (whole < row_tiles) {
        t.c = last;
        t.a += whole * ATTN_TILE_CELLS;
        t.row_tiles = 1;
        PRODUCT(&t);
        for (size_t r = whole * ATTN_TILE; r < rows; r++)
            memcpy(tile + r * ld, last + r % ATTN_TILE * ld, n * sizeof(float));
    }
    END;
    scale_rows(tile, ld, rows, n, scale);
}

/* Sets acc = acc * factor + C for all rows and columns of C, the product that *t describes. */
INLINE void add_group(float *acc, size_t lda, const attn_tiles *t, size_t rows,
                      const float *factor) {
    for (size_t r = 0; r < rows; r++)
        for (size_t e = 0; e < t->col_tiles * ATTN_TILE; e++)
            acc[r * lda + e] = fmaf(acc[r * lda + e], factor[r], t->c[r * t->ldc + e]);
}

/* Does the work of `accumulate` for at most AT_ONCE rows. */
INLINE void accumulate_rows(const int parts, float *acc, const float *tile, size_t rows,
                            const uint16_t *values, size_t n, size_t packed, size_t Ev,
                            const float *factor) {
    _Alignas(64) uint16_t p[MOST_PARTS * AT_ONCE * MOST_KEYS];
    _Alignas(64) float c[AT_ONCE * GROUP * ATTN_TILE];
    const size_t row_tiles = ceil_div(rows, ATTN_TILE), steps = ceil_div(n, ATTN_TILE_DEPTH);
    const size_t part = ceil_div(packed, ATTN_TILE_DEPTH) * ATTN_TILE_CELLS;
    const size_t columns = ceil_div(Ev, ATTN_TILE), lda = attn_acc_room(BASE, Ev);
    attn_tiles t = {.c = c,
                    .ldc = GROUP * ATTN_TILE,
                    .a = p,
                    .a_part = steps * row_tiles * ATTN_TILE_CELLS,
                    .a_step = row_tiles * ATTN_TILE_CELLS,
                    .b_part = part,
                    .b_column = (size_t)parts * part,
                    .row_tiles = row_tiles,
                    .steps = steps,
                    .parts = parts};
    pack_rows(parts, p, tile, BASE->keys, rows, n, NULL);
    for (size_t j = 0; j < columns; j += GROUP) {
        t.col_tiles = columns - j < GROUP ? columns - j : GROUP;
        t.b = values + j * t.b_column;
        PRODUCT(&t);
        add_group(acc + j * ATTN_TILE, lda, &t, rows, factor);
    }
}

/* The caller wraps this function in FLUSHED. tiles_pass.c computes the parts of numerators under
 * FLUSHED, too, and both must give the same bytes. */
INLINE void accumulate(const int parts, float *acc, const float *tile, size_t rows,
                       const uint16_t *values, size_t first, size_t n, size_t packed, size_t Ev,
                       const float *factor) {
    BEGIN;
    for (size_t r = 0; r < rows; r += AT_ONCE)
        accumulate_rows(parts, acc + r * attn_acc_room(BASE, Ev), tile + r * BASE->keys,
                        rows - r < AT_ONCE ? rows - r : AT_ONCE, values + first * ATTN_TILE, n,
                        packed, Ev, factor + r);
    END;
}

/* --- the table's functions, for each number of parts --- */

#define TABLE(parts)                                                                               \
    static double NAME(k_pack_key_##parts)(void *dst, const void *src, size_t ld, size_t n,        \
                                           size_t E) {                                             \
        return pack_key(parts, dst, src, ld, n, E);                                                \
    }                                                                                              \
    static double NAME(k_pack_value_##parts)(void *dst, const void *src, size_t ld, size_t n,      \
                                             size_t Ev) {                                          \
        return pack_value(parts, dst, src, ld, n, Ev);                                             \
    }                                                                                              \
    static double NAME(k_pack_query_##parts)(void *dst, const void *q, size_t ldq, size_t rows,    \
                                             size_t E) {                                           \
        words most = {0};                                                                          \
        pack_rows(parts, dst, q, ldq, rows, E, &most);                                             \
        return noted_magnitude(&most);                                                             \
    }                                                                                              \
    static void NAME(k_score_##parts)(void *tile, const void *q, size_t ldq, size_t rows,          \
                                      const void *packed_key, size_t n, size_t E, double scale) {  \
        (void)ldq;                                                                                 \
        score(parts, tile, q, rows, packed_key, n, E, (float)scale);                               \
    }                                                                                              \
    OUT_OF_LINE void NAME(accumulate_##parts)(void *acc, const void *tile, size_t rows,            \
                                              const void *packed_value, size_t first, size_t n,    \
                                              size_t packed, size_t Ev, const void *factor) {      \
        accumulate(parts, acc, tile, rows, packed_value, first, n, packed, Ev, factor);            \
    }                                                                                              \
    static void NAME(k_accumulate_##parts)(void *acc, const void *tile, size_t rows,               \
                                           const void *packed_value, size_t first, size_t n,       \
                                           size_t packed, size_t Ev, const void *factor) {         \
        FLUSHED(NAME(accumulate_##parts)(acc, tile, rows, packed_value, first, n, packed, Ev,      \
                                         factor));                                                 \
    }                                                                                              \
    static void NAME(fill_##parts)(attn_kernels * k) {                                             \
        k->halves = parts;                                                                         \
        k->pack_key = NAME(k_pack_key_##parts);                                                    \
        k->pack_value = NAME(k_pack_value_##parts);                                                \
        k->pack_query = NAME(k_pack_query_##parts);                                                \
        k->score = NAME(k_score_##parts);                                                          \
        k->accumulate = NAME(k_accumulate_##parts);                                                \
    }
TABLE(1)
TABLE(2)
TABLE(3)

void NAME(attn_kernels_tiles)(attn_kernels *k, attn_precision precision) {
    k->precision = precision;
    k->plain = BASE;
    /* NULL, since the functions of BASE add in another order than tile products */
    k->score_unpacked = NULL;
    k->accumulate_unpacked = NULL;
    k->rows = ATTN_MOST_ROWS;
    k->key_unit = ATTN_TILE_DEPTH;
    k->value_unit = k->query_unit = ATTN_TILE;
    if (precision == ATTN_PRECISION_BF16)
        NAME(fill_1)(k);
    else if (precision == ATTN_PRECISION_FAST)
        NAME(fill_2)(k);
    else
        NAME(fill_3)(k);
}
