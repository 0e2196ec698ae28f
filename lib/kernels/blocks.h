/* Weights in blocks, as model files store them.
 *
 * A row of a matrix is a sequence of blocks of one format, and a block holds a fixed number of
 * values. The formats are those of ggml (https://github.com/ggml-org/ggml, ggml-common.h and
 * ggml-quants.c), whose files are GGUF. Each value of a quantised block is
 *
 *   d * scale * q + dmin * min
 *
 * where each value has an integer q of at most 8 bits, each group of values has integers scale and
 * min, and each block has binary16 numbers d and dmin. All these products are exact in float32,
 * except d * scale * q of Q6_K, where dmin * min is -0. So a value is rounded once, with or without
 * fused multiply-adds, and equals in every bit what the dequantisers of PyPI's gguf compute. */
#ifndef ATTN_KERNELS_BLOCKS_H
#define ATTN_KERNELS_BLOCKS_H

#include <attn/isa.h>
#include <attn/tensor.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ATTN_BLOCK_MOST = 256 }; /* largest number of values in a block */

typedef struct attn_block_format {
    const char *name; /* "Q4_1" */
    uint32_t type;    /* ggml's number of the format */
    /* for F32, F16 and BF16, whose blocks hold one number: the type of this number */
    attn_dtype dtype;
    size_t values; /* number of values in a block */
    size_t bytes;  /* bytes of a block */
    /* number of values in a group; if all values are one group, scale and min are 1 */
    size_t group;
    size_t d, dmin; /* the bytes of a block at which d and dmin begin; dmin 0: dmin * min is -0 */
    bool subtracts; /* dmin has the opposite sign */
    /* Splits a quantised block: writes q [values], and scale and min [values / group] unless all
     * values are one group. NULL: the values are numbers of type `dtype`. */
    void (*split)(int8_t *q, int8_t *scale, int8_t *min, const uint8_t *block);
} attn_block_format;

/* Returns the format with ggml's number, or with this name; NULL if there is none. */
const attn_block_format *attn_block_format_of(uint32_t type);
const attn_block_format *attn_block_format_named(const char *name);

/* Widens `count` values, a multiple of format->values, to float32. `blocks` may be unaligned. */
void attn_blocks_widen(float *to, const attn_block_format *format, const void *blocks,
                       size_t count);

/* A matrix of weights [out, in] of one format. `in` is a multiple of format->values. */
typedef struct attn_block_matrix {
    const attn_block_format *format;
    const void *blocks; /* [out, in / format->values], of any alignment */
    size_t out, in;
} attn_block_matrix;

/* Computes columns first <= j < last of y [rows, out] = x [rows, in] W^T + beta y, where beta is 0
 * or 1, with row strides ldy and ldx, on the calling thread, which needs 640 KiB of stack. Threads
 * may compute different columns of a product at the same time; ranges that begin at multiples of
 * 128 waste no work.
 *
 * The kernel table of the chosen instruction set computes the product. `avx2` and `avx512` give an
 * element the bits that attn_kernels_gemm gives it with the widened weights. So an element depends
 * only on its row of x and its row of W. `amx` multiplies many formats by their integers: then an
 * element depends on these two rows, and on whether there are more than ATTN_BLOCK_ROWS rows. With
 * `ref`, OpenBLAS computes the product. */
void attn_blocks_product(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                         const attn_block_matrix *w, size_t first, size_t last, float beta);

/* The functions of a kernel table for products with quantised blocks. Rows of blocks are `ld` bytes
 * apart; `depth` is a multiple of format->values. */
typedef struct attn_block_kernels {
    /* Computes what attn_kernels.score_unpacked computes without a scale, for at most
     * ATTN_BLOCK_ROWS queries. The keys are n rows of blocks. */
    void (*score)(float *const *tile, const float *const *x, size_t rows,
                  const attn_block_format *format, const void *blocks, size_t ld, size_t n,
                  size_t depth);
    /* Sets y [rows, n] to the scores of x [rows, depth] and n packed keys, as attn_kernels.score
     * computes them without a scale, or adds them to y. Row strides are ldy and ldx. */
    void (*multiply)(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                     const float *packed, size_t n, size_t depth, bool adds);
    /* Packs these keys as attn_kernels.pack_key does. */
    void (*pack)(float *packed, const attn_block_format *format, const void *blocks, size_t ld,
                 size_t n, size_t depth);
    /* Widens n numbers of 16 bits, ATTN_F16 or ATTN_BF16. */
    void (*widen_halves)(float *to, attn_dtype dtype, const void *from, size_t n);
    /* Unpacks `depth` values of n <= 16 rows of blocks, whose groups have 32 values. q becomes
     * columns of tiles of B (tiles.h), [depth / 32] tiles, and scale and min become [depth /
     * 32][16]. If n < 16, the last row also fills the remaining columns. A weight is scale * q +
     * min; scale may have a factor 2^-24, and then q has the factor 2^24. NULL: the table has no
     * tiles. */
    void (*columns)(uint16_t *tiles, float *scale, float *min, const attn_block_format *format,
                    const void *blocks, size_t ld, size_t n, size_t depth);
} attn_block_kernels;

/* ATTN_BLOCK_ROWS: rows of x that `score` takes. ATTN_BLOCK_TILED: group size for `columns`. */
enum { ATTN_BLOCK_ROWS = 4, ATTN_BLOCK_TILED = 32 };

extern const attn_block_kernels attn_block_kernels_avx2, attn_block_kernels_avx512;

/* Returns the functions that belong to attn_kernels_of(isa); NULL: there are none. */
const attn_block_kernels *attn_block_kernels_of(attn_isa isa);

/* Computes what attn_blocks_product computes, by products with the integers q of blocks whose
 * groups have ATTN_BLOCK_TILED values. No number of x may be beyond ATTN_MOST_SPLIT. The function
 * for tiles takes any number of rows. The function for VNNI takes at most ATTN_BLOCK_ROWS rows, and
 * only formats for which attn_blocks_vnni_has returns true. */
typedef void attn_blocks_by_integers(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                                     const attn_block_matrix *w, size_t first, size_t last,
                                     float beta);
attn_blocks_by_integers attn_blocks_product_amx, attn_blocks_product_vnni;
bool attn_blocks_vnni_has(const attn_block_format *format);

/* Returns the function for this number of rows of x; NULL: the instruction set has none. */
attn_blocks_by_integers *attn_blocks_integers_of(attn_isa isa, const attn_block_format *format,
                                                 size_t rows);

#endif
