/* Tile products by AMX's TDPBF16PS. Blocking: 2 x 2 tiles of C, so that 4 loads serve 4 products
 * and the multiplier (16 cycles a product) never waits for a load (8 cycles) from the first cache,
 *
 *             B: tmm6  tmm7           all 8 registers: 4 of C, 2 of A, 2 of B
 *   A: tmm4      tmm0  tmm1
 *      tmm5      tmm2  tmm3
 *
 * C stays in registers over all steps and pairs of parts. The tiles are configured and released in
 * each call: a few dozen cycles beside thousands, and no thread is left with state that every
 * switch would have to save. Nothing here runs before attn_tiles_agree has found it equal to the
 * plain product on this machine (processor_x86.c). */
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME(x) x##_amx
#define BASE    (&attn_kernels_avx512)
#define PRODUCT attn_tiles_amx
#include "kernels/tiles_body.h"

/* The layout that LDTILECFG reads. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

_Static_assert(sizeof(tile_config) == 64, "as the processor reads it");

/* The intrinsics do not tell the compiler which memory they read. */
#define MEMORY_IS_READ __asm__ volatile("" ::: "memory")

/* Tiles (i, j) … of C, mi x nj of them, 1 or 2 each. */
INLINE void block(const int mi, const int nj, const attn_tiles *t, size_t i, size_t j) {
    const long row = ATTN_TILE_DEPTH * sizeof *t->a, ldc = (long)(t->ldc * sizeof *t->c);
    float *c = t->c + i * ATTN_TILE * t->ldc + j * ATTN_TILE;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int pair = ATTN_TILE_FIRST(t->parts); pair < 6; pair++)
        for (size_t s = 0; s < t->steps; s++) {
            const uint16_t *a =
                t->a + attn_tile_pairs[pair][0] * t->a_part + s * t->a_step + i * ATTN_TILE_CELLS;
            const uint16_t *b =
                t->b + j * t->b_column + attn_tile_pairs[pair][1] * t->b_part + s * ATTN_TILE_CELLS;
            _tile_loadd(4, a, row);
            _tile_loadd(6, b, row);
            _tile_dpbf16ps(0, 4, 6);
            if (nj == 2) {
                _tile_loadd(7, b + t->b_column, row);
                _tile_dpbf16ps(1, 4, 7);
            }
            if (mi == 2) {
                _tile_loadd(5, a + ATTN_TILE_CELLS, row);
                _tile_dpbf16ps(2, 5, 6);
            }
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

__attribute__((noinline)) void attn_tiles_amx(const attn_tiles *t) {
    tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = ATTN_TILE_DEPTH * sizeof *t->a;
        config.rows[i] = ATTN_TILE;
    }
    MEMORY_IS_READ;
    _tile_loadconfig(&config);
    for (size_t i = 0; i < t->row_tiles; i += 2)
        for (size_t j = 0; j < t->col_tiles; j += 2) {
            const bool two_rows = i + 1 < t->row_tiles, two_columns = j + 1 < t->col_tiles;
            if (two_rows && two_columns)
                block(2, 2, t, i, j);
            else if (two_rows)
                block(2, 1, t, i, j);
            else if (two_columns)
                block(1, 2, t, i, j);
            else
                block(1, 1, t, i, j);
        }
    _tile_release();
    MEMORY_IS_READ;
}

/* Linux hands out the tile registers' 8 KiB of state on request: arch_prctl(ARCH_REQ_XCOMP_PERM,
 * XFEATURE_XTILEDATA), for the process and the threads it makes. */
bool attn_tiles_amx_permitted(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
