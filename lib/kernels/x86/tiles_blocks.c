/* Products with quantised weights by AMX: y = x W^T + beta y, where a weight is scale * q + min,
 * and 32 values that follow one another in a row of W have the same scale and min (blocks.h).
 * bfloat16 represents the integers q exactly, and x is the sum of three bfloat16 parts (bf16.h). So
 * three products of tiles, instead of six, give sums of 32 exact products each:
 *
 *   y[r][j]  +=  sum over groups g of   scale[g][j] * (l + m + h)[r] . q[j]   +   min[g][j] * sum of x[r]
 *
 *                         q of 48 columns, taken from the blocks once for ROWS rows
 *                    B:   tmm3     tmm4     tmm5
 *   A: l tmm6             tmm0     tmm1     tmm2      -> C, the sums of a group: scaled by vectors
 *      m tmm7, h tmm6                                    and added to acc
 *
 * The tiles of C are stored after each group. While the tile unit multiplies a group, the vector
 * unit scales the tiles of the group before. An element of y is a sum over groups in a fixed order,
 * of at most DEPTH terms at a time. So it depends only on its row of x, its row of W and beta. */
#include <string.h>

#include "kernels/x86/tiles_amx.h"
#include "kernels/x86/tiles_split.h"

#include "kernels/blocks.h"
#include "kernels/gemm_table.h"
#include "kernels/x86/simd_avx512.h"

enum {
    ROWS = 128, /* rows of x that are split at a time: 480 KiB */
    /* largest number of terms of a sum that are computed at a time */
    DEPTH = 640,
    GROUPS = DEPTH / ATTN_TILE_DEPTH, /* groups in these terms */
    SIDE = 3,                         /* tiles of columns of y that are computed at a time */
    COLS = SIDE * ATTN_TILE,
    PARTS = 3,                      /* bfloat16 parts of a number of x */
    STEP = PARTS * ATTN_TILE_CELLS, /* elements of a tile of x, with all parts */
    SQUARE = ATTN_TILE * ATTN_TILE  /* cells of a tile of C */
};

/* Rows of x, split: [rows / 16][GROUPS] tiles of three parts each, and the sum of each group. */
typedef struct split_x {
    _Alignas(64) uint16_t tiles[ROWS / ATTN_TILE][GROUPS][STEP];
    float sums[ROWS][GROUPS];
} split_x;

/* COLS columns of W: tiles of integers q, and the scales and mins of their groups. */
typedef struct columns {
    _Alignas(64) uint16_t tiles[SIDE][GROUPS][ATTN_TILE_CELLS];
    _Alignas(64) float scale[SIDE][GROUPS][LANES], min[SIDE][GROUPS][LANES];
} columns;

INLINE void split_row(split_x *to, size_t r, const float *x, size_t groups) {
    for (size_t g = 0; g < groups; g++, x += ATTN_TILE_DEPTH) {
        lanes numbers[2];
        memcpy(numbers, x, sizeof numbers);
        split(PARTS, numbers, to->tiles[r / ATTN_TILE][g] + r % ATTN_TILE * ATTN_TILE_DEPTH,
              ATTN_TILE_CELLS);
        to->sums[r][g] = _mm512_reduce_add_ps(vadd((vf)numbers[0], (vf)numbers[1]));
    }
}

/* Splits the first `groups` groups of `rows` rows of x. Missing rows of the last tile become 0. */
static void split_rows_of(split_x *to, const float *x, size_t ldx, size_t rows, size_t groups) {
    static const float none[DEPTH];
    for (size_t r = 0; r < rows || r % ATTN_TILE; r++)
        split_row(to, r, r < rows ? x + r * ldx : none, groups);
}

static void take_columns(columns *to, const attn_block_matrix *w, const char *blocks, size_t ld,
                         size_t n, size_t depth) {
    const attn_block_kernels *k = &attn_block_kernels_avx512;
    for (size_t j = 0; j < n; j += ATTN_TILE)
        k->columns(to->tiles[j / ATTN_TILE][0], to->scale[j / ATTN_TILE][0],
                   to->min[j / ATTN_TILE][0], w->format, blocks + j * ld, ld,
                   attn_gemm_least(n - j, ATTN_TILE), depth);
}

/* Adds the sums c [16][16] of group g to columns [16 j, 16 j + 16) of acc [16][COLS], scaled.
 * `sums` are the sums of the numbers of x. */
INLINE void add_group(const bool has_min, float *acc, const float *c, const columns *w, size_t j,
                      size_t g, const float (*sums)[GROUPS]) {
    const vf scale = vload(w->scale[j][g]), min = vload(w->min[j][g]);
    for (size_t r = 0; r < ATTN_TILE; r++) {
        float *to = acc + r * COLS + j * ATTN_TILE;
        vf sum = vfma(vload(c + r * ATTN_TILE), scale, g ? vload(to) : vset(0.0f));
        if (has_min)
            sum = vfma(vset(sums[r][g]), min, sum);
        vstore(to, sum);
    }
}

/* Multiplies a part of x, which is in a register, by the three tiles of columns. */
#define MULTIPLY(x)                                                                                \
    do {                                                                                           \
        _tile_dpbf16ps(0, x, 3);                                                                   \
        _tile_dpbf16ps(1, x, 4);                                                                   \
        _tile_dpbf16ps(2, x, 5);                                                                   \
    } while (0)

/* Computes the sums c [SIDE][16][16] of a group. x is a tile with three parts. */
INLINE void sum_group(float (*c)[SQUARE], const uint16_t *x, const columns *w, size_t g) {
    const long row = ATTN_TILE_DEPTH * sizeof *x, ldc = ATTN_TILE * sizeof **c;
    MEMORY_IS_READ;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_loadd(6, x + 2 * ATTN_TILE_CELLS, row);
    _tile_loadd(3, w->tiles[0][g], row);
    _tile_loadd(4, w->tiles[1][g], row);
    _tile_loadd(5, w->tiles[2][g], row);
    MULTIPLY(6);
    _tile_loadd(7, x + ATTN_TILE_CELLS, row);
    MULTIPLY(7);
    _tile_loadd(6, x, row);
    MULTIPLY(6);
    _tile_stored(0, c[0], ldc);
    _tile_stored(1, c[1], ldc);
    _tile_stored(2, c[2], ldc);
    MEMORY_IS_READ;
}

INLINE void add_groups(const bool has_min, float *acc, float (*c)[SQUARE], const columns *w,
                       size_t g, const float (*sums)[GROUPS]) {
    for (size_t j = 0; j < SIDE; j++)
        add_group(has_min, acc, c[j], w, j, g, sums);
}

/* Sets acc [16][COLS] to the products of 16 rows of x and the columns of w. */
INLINE void multiply_row_tile(const bool has_min, float *acc, const uint16_t (*x)[STEP],
                              const float (*sums)[GROUPS], const columns *w, size_t groups) {
    _Alignas(64) float c[2][SIDE][SQUARE];
    for (size_t g = 0; g < groups; g++) {
        sum_group(c[g % 2], x[g], w, g);
        if (g)
            add_groups(has_min, acc, c[(g - 1) % 2], w, g - 1, sums);
    }
    add_groups(has_min, acc, c[(groups - 1) % 2], w, groups - 1, sums);
}

/* Writes n columns of acc to y, or adds them. */
INLINE void put_row(float *y, const float *acc, size_t n, bool adds) {
    for (size_t j = 0; j < n; j += LANES) {
        const vf sum = vload(acc + j);
        vstore_n(y + j, adds ? vadd(vload_n(y + j, n - j), sum) : sum, n - j);
    }
}

INLINE void multiply(const bool has_min, float *y, size_t ldy, const split_x *x, size_t rows,
                     const columns *w, size_t n, size_t groups, bool adds) {
    _Alignas(64) float acc[ATTN_TILE * COLS];
    for (size_t i = 0; i < rows; i += ATTN_TILE) {
        multiply_row_tile(has_min, acc, x->tiles[i / ATTN_TILE], x->sums + i, w, groups);
        for (size_t r = i; r < rows && r < i + ATTN_TILE; r++)
            put_row(y + r * ldy, acc + (r - i) * COLS, n, adds);
    }
}

/* Returns how many terms are computed at a time: whole blocks, in parts of nearly equal size. */
static size_t depth_of(const attn_block_matrix *w) {
    const size_t values = w->format->values, blocks = w->in / values, most = DEPTH / values;
    const size_t parts = (blocks + most - 1) / most;
    return (blocks + parts - 1) / parts * values;
}

void attn_blocks_product_amx(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                             const attn_block_matrix *w, size_t first, size_t last, float beta) {
    split_x split_now;
    columns columns_now;
    const attn_block_format *f = w->format;
    const size_t ld = w->in / f->values * f->bytes;
    const size_t most = depth_of(w);
    attn_amx_begin();
    for (size_t t = 0; t < w->in; t += most) {
        const size_t depth = attn_gemm_least(w->in - t, most), groups = depth / ATTN_TILE_DEPTH;
        const char *blocks = (const char *)w->blocks + t / f->values * f->bytes;
        const bool adds = t || beta != 0;
        for (size_t i = 0; i < rows; i += ROWS) {
            const size_t m = attn_gemm_least(rows - i, ROWS);
            split_rows_of(&split_now, x + i * ldx + t, ldx, m, groups);
            for (size_t j = first; j < last; j += COLS) {
                const size_t n = attn_gemm_least(last - j, COLS);
                float *to = y + i * ldy + j;
                take_columns(&columns_now, w, blocks + j * ld, ld, n, depth);
                if (f->dmin)
                    multiply(true, to, ldy, &split_now, m, &columns_now, n, groups, adds);
                else
                    multiply(false, to, ldy, &split_now, m, &columns_now, n, groups, adds);
            }
        }
    }
    attn_amx_end();
}
