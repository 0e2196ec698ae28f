/* Products of bfloat16 tiles. They are computed by AMX (tiles_amx.c), by vdpbf16ps
 * (tiles_avx512bf16.c) or in plain C (tiles_plain.c), all with the same packed operands.
 *
 *                            B: 16 rows of 16 pairs, row k
 *                            holds elements k and k + 16 of
 *                            each column
 *                            [ 0 16  0 16 …       0 16 ]
 *   A: 16 rows of 32         …
 *   [ 0 16 1 17 …   15 31 ]  [ C: 16 x 16 float32, +=   ]
 *   …                        [ the sum over the 16 pairs ]
 *
 * Elements 16 apart are paired, so that vectors of 16 become pairs by a shift and an "or".
 * A tile is 1 KiB, row-major.
 *
 * Operands are split into parts (bf16.h), and their product is the sum of products of parts. For
 * each 32 elements, these are added in the following order. Neighbours in the order share an
 * operand, and the largest product is last:
 *
 *   1 part   h h'
 *   2 parts  m h' + h m' + h h'
 *   3 parts  l h' + m h' + m m' + h m' + h l' + h h'      (a x b: part a of A by part b of B)
 *
 * A tile product is defined by TDPBF16PS (Intel, Software Developer's Manual). It computes two sums
 * over k from 0 by fused multiply-adds, one of the even elements and one of the odd ones. The two
 * are added, and the result is added to C. Denormal inputs count as zero, denormal results become
 * zero, and rounding is to nearest even. vdpbf16ps sums differently: for each pair, it adds the
 * product of the odd elements to C and then that of the even ones, each by a fused multiply-add,
 * with denormals as above. Both results depend only on A's row and B's column. */
#ifndef ATTN_TILES_H
#define ATTN_TILES_H

#include "kernels/bf16.h"

enum { ATTN_TILE = 16, ATTN_TILE_DEPTH = 32, ATTN_TILE_CELLS = 512 }; /* numbers in a tile */

typedef struct attn_tiles {
    float *c; /* [16 row_tiles, 16 col_tiles], overwritten; row stride ldc */
    size_t ldc;
    /* Tile (i, s) of part p lies at a + p a_part + s a_step + i ATTN_TILE_CELLS,
     * tile (s, j) of part p at b + j b_column + p b_part + s ATTN_TILE_CELLS; aligned to 64. */
    const uint16_t *a, *b;
    size_t a_part, a_step, b_column, b_part;
    size_t row_tiles, col_tiles, steps;
    int parts;
} attn_tiles;

/* The pairs of parts {part of A, part of B} in the order of addition. */
static const uint8_t attn_tile_pairs[3][6][2] = {
    {{0, 0}},
    {{1, 0}, {0, 1}, {0, 0}},
    {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}},
};
#define ATTN_TILE_PAIRS(parts) ((parts) * ((parts) + 1) / 2)

void attn_tiles_plain(const attn_tiles *t);
void attn_tiles_avx512bf16(const attn_tiles *t);
void attn_tiles_amx(const attn_tiles *t);

/* These functions turn a copy of a plain float table into one with tile products. The precision
 * decides whether numbers have 1, 2 or 3 parts. */
void attn_kernels_tiles_plain(attn_kernels *k, attn_precision precision);
void attn_kernels_tiles_avx512bf16(attn_kernels *k, attn_precision precision);
void attn_kernels_tiles_amx(attn_kernels *k, attn_precision precision);

/* Adds `pass` to a table that attn_kernels_tiles_amx made. */
void attn_kernels_pass_amx(attn_kernels *k);

/* Returns whether this process may use the tile registers. It asks the operating system for
 * permission once, for all threads. */
bool attn_tiles_amx_permitted(void);
/* Returns whether `product` equals the plain product bit for bit. It checks several shapes of
 * random tiles that contain subnormal numbers and zeros. */
bool attn_tiles_agree(void (*product)(const attn_tiles *));

#endif
