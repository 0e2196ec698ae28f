/* Products of bfloat16 tiles, by AMX (tiles_amx.c), by the instruction vdpbf16ps
 * (tiles_avx512bf16.c) or in plain C (tiles_plain.c). All three read the same packed operands:
 *
 *                            B: 16 rows of 16 pairs, row k
 *                            holds elements k and k + 16 of
 *                            each column
 *                            [ 0 16  0 16 …       0 16 ]
 *   A: 16 rows of 32         …
 *   [ 0 16 1 17 …   15 31 ]  [ C: 16 x 16 float32, +=   ]
 *   …                        [ the sum over the 16 pairs ]
 *
 * A tile is row-major and has 1 KiB. A pair is two elements that are 16 apart, so that a shift and
 * an "or" make pairs from two vectors of 16 elements.
 *
 * Each number is the sum of one, two or three bfloat16 parts h, m, l (bf16.h), and a product of
 * operands is a sum of products of their parts. For each 32 elements, these products are added in
 * the following order. Neighbours in the order share an operand, and the largest product is last:
 *
 *   1 part   h h'
 *   2 parts  m h' + h m' + h h'
 *   3 parts  l h' + m h' + m m' + h m' + h l' + h h'      (the second part is of B)
 *
 * The product of two tiles is what the instruction TDPBF16PS of AMX computes (Intel, Software
 * Developer's Manual). The instruction sums over k in rising order by fused multiply-adds,
 * separately for the first and for the second elements of the pairs. Then it adds the two sums, and
 * adds the result to C. Denormal inputs count as zero, denormal results become zero, and rounding
 * is to nearest even.
 *
 * vdpbf16ps has another order: for each pair it adds the product of the second elements to C, and
 * then the product of the first elements, each by a fused multiply-add, with denormals as above.
 * With either instruction a cell of C depends only on its row of A and its column of B. */
#ifndef ATTN_TILES_H
#define ATTN_TILES_H

#include "kernels/bf16.h"

enum {
    ATTN_TILE = 16,       /* rows of A in a tile, and columns of B */
    ATTN_TILE_DEPTH = 32, /* elements of such a row or column */
    ATTN_TILE_CELLS = 512 /* elements of a tile of A or B */
};

/* A matrix product C = A B over tiles. C has row_tiles x col_tiles tiles, and each is a sum over
 * `steps` tiles of A and B. Numbers have `parts` parts. */
typedef struct attn_tiles {
    float *c; /* [16 * row_tiles, 16 * col_tiles], overwritten */
    size_t ldc;
    /* Tile (i, s) of part p of A is at a + p * a_part + s * a_step + i * ATTN_TILE_CELLS. Tile (s,
     * j) of part p of B is at b + j * b_column + p * b_part + s * ATTN_TILE_CELLS. Tiles are
     * aligned to 64 bytes. */
    const uint16_t *a, *b;
    size_t a_part, a_step, b_column, b_part;
    size_t row_tiles, col_tiles, steps;
    int parts;
} attn_tiles;

/* The products of parts {part of A, part of B} in the order of addition, for 1, 2 and 3 parts. */
static const uint8_t attn_tile_pairs[3][6][2] = {
    {{0, 0}},
    {{1, 0}, {0, 1}, {0, 0}},
    {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}},
};
#define ATTN_TILE_PAIRS(parts) ((parts) * ((parts) + 1) / 2)

void attn_tiles_plain(const attn_tiles *t);
void attn_tiles_avx512bf16(const attn_tiles *t);
void attn_tiles_amx(const attn_tiles *t);

/* These functions replace the products of *k, a copy of a float table, by products of tiles. The
 * number of parts is 1 for ATTN_PRECISION_BF16, 2 for FAST and 3 for FP32. */
void attn_kernels_tiles_plain(attn_kernels *k, attn_precision precision);
void attn_kernels_tiles_avx512bf16(attn_kernels *k, attn_precision precision);
void attn_kernels_tiles_amx(attn_kernels *k, attn_precision precision);

/* Adds the function `pass` to a table that attn_kernels_tiles_amx has filled. */
void attn_kernels_pass_amx(attn_kernels *k);

/* Asks the operating system for permission to use the tile registers in all threads of this
 * process. Returns whether the permission is given. */
bool attn_tiles_amx_permitted(void);
/* Returns whether `product` gives the same bits as attn_tiles_plain. It checks several shapes with
 * random numbers, some of which are subnormal or zero. */
bool attn_tiles_agree(void (*product)(const attn_tiles *));

#endif
