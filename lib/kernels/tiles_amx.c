/* Tile products by AMX's TDPBF16PS. Blocking: 2 x 2 tiles of C, so that with the order of pairs 14
 * loads serve the 24 products of three parts and the multiplier (16 cycles a product) never waits
 * for a load (8 cycles from the first cache, some 36 from the second),
 *
 *             B: tmm6  tmm7           all 8 registers: 4 of C, 2 of A, 2 of B
 *   A: tmm4      tmm0  tmm1
 *      tmm5      tmm2  tmm3
 *
 * C stays in registers over all steps and pairs of parts; two columns of B, which come from the
 * second cache, meet all rows before the next two. Tiles are configured and released in each
 * kernel: a hundred nanoseconds beside thousands, and no thread is left with state that every
 * switch would have to save. Nothing here runs before attn_tiles_agree has found it equal to the
 * plain product on this machine (processor_x86.c). */
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/tiles_amx.h"

#define NAME(x) x##_amx
#define BASE    (&attn_kernels_avx512)
#define PRODUCT product
#define BEGIN   attn_amx_begin()
#define END     attn_amx_end()

static void product(const attn_tiles *t);

#include "kernels/tiles_body.h"

/* Tiles (i, j) … of C, mi x nj of them, 1 or 2 each. */
INLINE void block(const int parts, const int mi, const int nj, const attn_tiles *t, size_t i,
                  size_t j) {
    const long row = ATTN_TILE_DEPTH * sizeof *t->a, ldc = (long)(t->ldc * sizeof *t->c);
    const uint16_t *a = t->a + i * ATTN_TILE_CELLS, *b = t->b + j * t->b_column;
    float *c = t->c + i * ATTN_TILE * t->ldc + j * ATTN_TILE;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t s = 0; s < t->steps; s++, a += t->a_step, b += ATTN_TILE_CELLS)
#pragma GCC unroll 6
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
        }
    _tile_stored(0, c, ldc);
    if (nj == 2)
        _tile_stored(1, c + ATTN_TILE, ldc);
    if (mi == 2)
        _tile_stored(2, c + ATTN_TILE * t->ldc, ldc);
    if (mi == 2 && nj == 2)
        _tile_stored(3, c + ATTN_TILE * t->ldc + ATTN_TILE, ldc);
}

INLINE void blocks(const int parts, const attn_tiles *t) {
    for (size_t j = 0; j < t->col_tiles; j += 2)
        for (size_t i = 0; i < t->row_tiles; i += 2) {
            const bool two_rows = i + 1 < t->row_tiles, two_columns = j + 1 < t->col_tiles;
            if (two_rows && two_columns)
                block(parts, 2, 2, t, i, j);
            else if (two_rows)
                block(parts, 2, 1, t, i, j);
            else if (two_columns)
                block(parts, 1, 2, t, i, j);
            else
                block(parts, 1, 1, t, i, j);
        }
}

static __attribute__((noinline)) void product(const attn_tiles *t) {
    MEMORY_IS_READ;
    if (t->parts == 3)
        blocks(3, t);
    else if (t->parts == 2)
        blocks(2, t);
    else
        blocks(1, t);
    MEMORY_IS_READ;
}

void attn_tiles_amx(const attn_tiles *t) {
    attn_amx_begin();
    product(t);
    attn_amx_end();
}

/* Linux hands out the tile registers' 8 KiB of state on request: arch_prctl(ARCH_REQ_XCOMP_PERM,
 * XFEATURE_XTILEDATA), for the process and the threads it makes. */
bool attn_tiles_amx_permitted(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
