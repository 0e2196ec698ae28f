/* Products with the AMX tile registers. A thread has eight of them, each with 16 rows of 64
 * bytes. */
#ifndef ATTN_TILES_AMX_H
#define ATTN_TILES_AMX_H

#include <immintrin.h>

#include "kernels/x86/tiles.h"

/* The operand of LDTILECFG in memory. */
typedef struct attn_tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} attn_tile_config;

_Static_assert(sizeof(attn_tile_config) == 64, "as the processor reads it");

/* The compiler does not know which memory the tile intrinsics read. This barrier makes it store all
 * pending data before them. */
#define MEMORY_IS_READ __asm__ volatile("" ::: "memory")

static inline __attribute__((always_inline)) void attn_amx_begin(void) {
    attn_tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = ATTN_TILE_DEPTH * sizeof(uint16_t);
        config.rows[i] = ATTN_TILE;
    }
    MEMORY_IS_READ;
    _tile_loadconfig(&config);
}

static inline __attribute__((always_inline)) void attn_amx_end(void) {
    _tile_release();
}

/* A function that attn_amx_block calls after each group of one, two or four products of tiles, so
 * that the vector unit computes something while the tile unit multiplies. */
typedef void attn_amx_beside(void *state);

/* Computes mi x nj tiles of C from tile (i, j) on. mi and nj are 1 or 2. */
static inline __attribute__((always_inline)) void
attn_amx_block(const int parts, const int mi, const int nj, const attn_tiles *t, size_t i, size_t j,
               attn_amx_beside *beside, void *state) {
    const long row = ATTN_TILE_DEPTH * sizeof *t->a, ldc = (long)(t->ldc * sizeof *t->c);
    const uint16_t *a = t->a + i * ATTN_TILE_CELLS, *b = t->b + j * t->b_column;
    float *c = t->c + i * ATTN_TILE * t->ldc + j * ATTN_TILE;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t s = 0; s < t->steps; s++, a += t->a_step, b += ATTN_TILE_CELLS)
        for (int p = 0; p < ATTN_TILE_PAIRS(parts); p++) {
            const uint8_t *pair = attn_tile_pairs[parts - 1][p];
            const uint8_t *before = attn_tile_pairs[parts - 1][p ? p - 1 : 0];
            const uint16_t *at = a + pair[0] * t->a_part, *bt = b + pair[1] * t->b_part;
            if (!p || pair[0] != before[0]) {
                _tile_loadd(4, at, row);
                if (mi == 2)
                    _tile_loadd(5, at + ATTN_TILE_CELLS, row);
            }
            if (!p || pair[1] != before[1]) {
                _tile_loadd(6, bt, row);
                if (nj == 2)
                    _tile_loadd(7, bt + t->b_column, row);
            }
            _tile_dpbf16ps(0, 4, 6);
            if (nj == 2)
                _tile_dpbf16ps(1, 4, 7);
            if (mi == 2)
                _tile_dpbf16ps(2, 5, 6);
            if (mi == 2 && nj == 2)
                _tile_dpbf16ps(3, 5, 7);
            beside(state);
        }
    _tile_stored(0, c, ldc);
    if (nj == 2)
        _tile_stored(1, c + ATTN_TILE, ldc);
    if (mi == 2)
        _tile_stored(2, c + ATTN_TILE * t->ldc, ldc);
    if (mi == 2 && nj == 2)
        _tile_stored(3, c + ATTN_TILE * t->ldc + ATTN_TILE, ldc);
    MEMORY_IS_READ;
}

/* Computes the tiles of C in rows i, i + 1 and columns j, j + 1, as far as C has them. */
static inline __attribute__((always_inline)) void attn_amx_blocks(const int parts,
                                                                  const attn_tiles *t, size_t i,
                                                                  size_t j, attn_amx_beside *beside,
                                                                  void *state) {
    const bool two_rows = i + 1 < t->row_tiles, two_columns = j + 1 < t->col_tiles;
    if (two_rows && two_columns)
        attn_amx_block(parts, 2, 2, t, i, j, beside, state);
    else if (two_rows)
        attn_amx_block(parts, 2, 1, t, i, j, beside, state);
    else if (two_columns)
        attn_amx_block(parts, 1, 2, t, i, j, beside, state);
    else
        attn_amx_block(parts, 1, 1, t, i, j, beside, state);
}

#endif
