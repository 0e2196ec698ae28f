/* The tile registers of one thread: eight of 16 rows of 64 bytes. */
#ifndef ATTN_TILES_AMX_H
#define ATTN_TILES_AMX_H

#include <immintrin.h>

#include "kernels/tiles.h"

/* The layout that LDTILECFG reads. */
typedef struct attn_tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} attn_tile_config;

_Static_assert(sizeof(attn_tile_config) == 64, "as the processor reads it");

/* The intrinsics do not tell the compiler which memory they read. */
#define MEMORY_IS_READ __asm__ volatile("" ::: "memory")

static inline void attn_amx_begin(void) {
    attn_tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = ATTN_TILE_DEPTH * sizeof(uint16_t);
        config.rows[i] = ATTN_TILE;
    }
    MEMORY_IS_READ;
    _tile_loadconfig(&config);
}

static inline void attn_amx_end(void) {
    _tile_release();
}

#endif
