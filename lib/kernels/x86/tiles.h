/* Products of bfloat16 tiles: the seam behind which they are done by AMX (tiles_amx.c), by
 * vdpbf16ps (tiles_avx512bf16.c) or in plain C (tiles_plain.c), all over the same packed operands.
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
 * Operands are split into parts (bf16.h), and a product of them is the sum of those of their parts,
 * for each 32 elements in this order, in which neighbours share an operand, the largest last:
 *
 *   1 part   h h'
 *   2 parts  m h' + h m' + h h'
 *   3 parts  l h' + m h' + m m' + h m' + h l' + h h'      (a x b: part a of A by part b of B)
 *
 * A tile product is what TDPBF16PS does (Intel, Software Developer's Manual): two sums from 0 over
 * k, one of the even elements and one of the odd ones, each a fused multiply-add; both are added,
 * then that is added to C. Denormal inputs count as zero, denormal results become zero, rounding is
 * to nearest even. vdpbf16ps sums differently: to each C, one after the other, the odd element's
 * product of a pair and then the even one's, each a fused multiply-add, denormals as above. Both
 * are functions of A's row and B's column alone. */
#ifndef ATTN_TILES_H
#define ATTN_TILES_H

#include "kernels/bf16.h"

enum { ATTN_TILE = 16, ATTN_TILE_DEPTH = 32, ATTN_TILE_CELLS = 512 }; /* bfloat16 of a tile */

typedef struct attn_tiles {
    float *c; /* [16 row_tiles, 16 col_tiles] out, overwritten, row stride ldc */
    size_t ldc;
    /* Tile (i, s) of part p lies at a + p a_part + s a_step + i ATTN_TILE_CELLS,
     * tile (s, j) of part p at b + j b_column + p b_part + s ATTN_TILE_CELLS; aligned to 64. */
    const uint16_t *a, *b;
    size_t a_part, a_step, b_column, b_part;
    size_t row_tiles, col_tiles, steps;
    int parts;
} attn_tiles;

/* The pairs of parts {of A, of B} in their order. */
static const uint8_t attn_tile_pairs[3][6][2] = {
    {{0, 0}},
    {{1, 0}, {0, 1}, {0, 0}},
    {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}},
};
#define ATTN_TILE_PAIRS(parts) ((parts) * ((parts) + 1) / 2)

void attn_tiles_plain(const attn_tiles *t);
void attn_tiles_avx512bf16(const attn_tiles *t);
void attn_tiles_amx(const attn_tiles *t);

/* A copy of a plain float table becomes one of tile products: 1, 2 or 3 parts by precision. */
void attn_kernels_tiles_plain(attn_kernels *k, attn_precision precision);
void attn_kernels_tiles_avx512bf16(attn_kernels *k, attn_precision precision);
void attn_kernels_tiles_amx(attn_kernels *k, attn_precision precision);

/* Gives a table of attn_kernels_tiles_amx its pass. */
void attn_kernels_pass_amx(attn_kernels *k);

/* May this process use the tile registers? Asks the kernel for them, once, for all threads. */
bool attn_tiles_amx_permitted(void);
/* Does `product` equal the plain one, bit for bit, over several shapes of random tiles with
 * subnormal numbers and zeros among them? */
bool attn_tiles_agree(void (*product)(const attn_tiles *));

#endif
