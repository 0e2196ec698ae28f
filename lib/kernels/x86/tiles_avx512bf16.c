/* Tile products by the instruction vdpbf16ps. The instruction multiplies pairs of bfloat16 numbers
 * and adds both products to a float, so it handles twice as many numbers as a float instruction.
 *
 * C = A B is computed in blocks of MR = 6 rows by NV = 4 tiles of 16 columns. Let k be the index
 * that is summed over. Each step takes two values of k: it loads 4 registers of B (16 pairs each),
 * and for each row of A it broadcasts one pair from memory:
 *
 *       k: 4 x 16 pairs of B -> 4 registers        of 32 registers, 24 are accumulators,
 *   6 rows of A       6 x 4 accumulators           4 hold pairs of B and 1 holds the pair of A
 *
 * So each load of B serves 6 instructions. The sums have another order than those of the other tile
 * products (tiles.h), so this product has a kernel table of its own, "avx512_bf16". */
#include <immintrin.h>

#define NAME(x) x##_avx512bf16
#define BASE    (&attn_kernels_avx512)
#define PRODUCT attn_tiles_avx512bf16
#define BEGIN
#define END
#include "kernels/x86/tiles_body.h"

enum { MR = 6, NV = 4 };

INLINE __m512bh pair_of(const uint16_t *a) {
    int pair;
    memcpy(&pair, a, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

/* Computes rows [row, row + mr) of C in the columns of tiles [j, j + nv). */
INLINE void block(const int mr, const int nv, const attn_tiles *t, size_t row, size_t j) {
    __m512 acc[MR][NV];
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++)
            acc[r][v] = _mm512_setzero_ps();
    for (size_t s = 0; s < t->steps; s++)
        for (int p = 0; p < ATTN_TILE_PAIRS(t->parts); p++) {
            const uint8_t *pair = attn_tile_pairs[t->parts - 1][p];
            const uint16_t *a = t->a + pair[0] * t->a_part + s * t->a_step + row * ATTN_TILE_DEPTH;
            const uint16_t *b = t->b + j * t->b_column + pair[1] * t->b_part + s * ATTN_TILE_CELLS;
            for (size_t k = 0; k < ATTN_TILE_DEPTH; k += 2) {
                __m512bh column[NV];
                for (int v = 0; v < nv; v++)
                    column[v] =
                        (__m512bh)_mm512_load_si512(b + (size_t)v * t->b_column + k * ATTN_TILE);
                for (int r = 0; r < mr; r++) {
                    const __m512bh x = pair_of(a + (size_t)r * ATTN_TILE_DEPTH + k);
                    for (int v = 0; v < nv; v++)
                        acc[r][v] = _mm512_dpbf16_ps(acc[r][v], x, column[v]);
                }
            }
        }
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++)
            _mm512_storeu_ps(t->c + (row + (size_t)r) * t->ldc + (j + (size_t)v) * ATTN_TILE,
                             acc[r][v]);
}

/* Computes all rows of C in the columns of tiles [j, j + nv). The number of rows is a multiple of
 * 16, so 0, 2 or 4 rows are left after blocks of MR = 6 rows. */
INLINE void columns(const int nv, const attn_tiles *t, size_t j) {
    const size_t rows = t->row_tiles * ATTN_TILE;
    size_t row = 0;
    for (; row + MR <= rows; row += MR)
        block(MR, nv, t, row, j);
    if (rows - row == 4)
        block(4, nv, t, row, j);
    else if (rows - row == 2)
        block(2, nv, t, row, j);
}

void attn_tiles_avx512bf16(const attn_tiles *t) {
    size_t j = 0;
    for (; j + NV <= t->col_tiles; j += NV)
        columns(NV, t, j);
    if (t->col_tiles - j == 3)
        columns(3, t, j);
    else if (t->col_tiles - j == 2)
        columns(2, t, j);
    else if (t->col_tiles - j == 1)
        columns(1, t, j);
}
