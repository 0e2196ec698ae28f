/* AMX's instructions, as tiles_amx.h uses them, over tile registers in memory. */
#ifndef TESTS_MEMORY_TILES_H
#define TESTS_MEMORY_TILES_H

#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/x86/tiles.h"

static _Alignas(64) float tile_registers[8][ATTN_TILE][ATTN_TILE];

/* Tiles are configured before they are used and not afterwards. */
static bool tiles_ready;

static void tile_load(int to, const void *from, long stride) {
    for (size_t r = 0; tiles_ready && r < ATTN_TILE; r++)
        memcpy(tile_registers[to][r], (const char *)from + (long)r * stride, 64);
}

static void tile_store(int from, void *to, long stride) {
    for (size_t r = 0; tiles_ready && r < ATTN_TILE; r++)
        memcpy((char *)to + (long)r * stride, tile_registers[from][r], 64);
}

static void tile_multiply(int c, int a, int b) {
    _Alignas(64) float product[ATTN_TILE * ATTN_TILE];
    const attn_tiles t = {.c = product,
                          .ldc = ATTN_TILE,
                          .a = (const uint16_t *)(const void *)tile_registers[a],
                          .b = (const uint16_t *)(const void *)tile_registers[b],
                          .row_tiles = 1,
                          .col_tiles = 1,
                          .steps = 1,
                          .parts = 1};
    attn_tiles_plain(&t);
    float *sum = tile_registers[c][0];
    for (size_t i = 0; i < ATTN_TILE * ATTN_TILE; i++) {
        sum[i] += product[i];
        if (fabsf(sum[i]) < FLT_MIN)
            sum[i] = copysignf(0, sum[i]);
    }
}

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig(config)       ((void)(config), (void)(tiles_ready = true))
#define _tile_release()                ((void)(tiles_ready = false))
#define _tile_loadd(to, from, stride)  tile_load(to, from, stride)
#define _tile_stored(from, to, stride) tile_store(from, to, stride)
#define _tile_zero(to)                 ((void)memset(tile_registers[to], 0, sizeof *tile_registers))
#define _tile_dpbf16ps(c, a, b)        tile_multiply(c, a, b)

#endif
