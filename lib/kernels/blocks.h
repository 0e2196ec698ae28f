/* Weights in blocks, as files of models hold them.
 *
 * A row of a matrix is a sequence of blocks of one format, and a block holds a fixed number of
 * values. The formats are those of ggml (https://github.com/ggml-org/ggml, ggml-common.h and
 * ggml-quants.c), whose files are GGUF. Each value of a quantised block is
 *
 *   d * scale * q + dmin * min
 *
 * where q is an integer of at most 8 bits, one for each value, scale and min are integers, one for
 * each group of values, and d and dmin are binary16, one for each block. All these products are
 * exact in float32, except d * scale * q of Q6_K, where dmin * min is -0. So a value is rounded
 * once, with or without fused multiply-adds, and equals in every bit what the dequantisers of
 * PyPI's gguf compute. */
#ifndef ATTN_KERNELS_BLOCKS_H
#define ATTN_KERNELS_BLOCKS_H

#include <attn/tensor.h>
#include <stddef.h>
#include <stdint.h>

enum { ATTN_BLOCK_MOST = 256 }; /* most values of a block */

/* The numbers of a quantised block that are not its q. */
typedef struct attn_block_head {
    uint16_t d, dmin;          /* binary16 */
    int8_t scale[16], min[16]; /* one a group */
} attn_block_head;

typedef struct attn_block_format {
    const char *name; /* "Q4_1" */
    uint32_t type;    /* ggml's number of the format */
    attn_dtype dtype; /* type of the values of F32, F16 and BF16, whose blocks hold one number */
    size_t values;    /* values of a block */
    size_t bytes;     /* bytes of a block */
    size_t group;     /* values that share a scale and a min */
    /* Splits a quantised block: writes q [values] and *head. NULL: the values are numbers of type
     * `dtype`. */
    void (*split)(int8_t *q, attn_block_head *head, const void *block);
} attn_block_format;

/* Returns the format with ggml's number, or with this name; NULL if there is none. */
const attn_block_format *attn_block_format_of(uint32_t type);
const attn_block_format *attn_block_format_named(const char *name);

/* Widens `count` values, a multiple of format->values, to float32. `blocks` may be unaligned. */
void attn_blocks_widen(float *to, const attn_block_format *format, const void *blocks,
                       size_t count);

#endif
