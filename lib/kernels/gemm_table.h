/* Dense products of floats by the kernels of a kernel table. */
#ifndef ATTN_GEMM_TABLE_H
#define ATTN_GEMM_TABLE_H

#include "kernels/gemm.h"
#include "kernels/kernels.h"

/* Columns of b that are packed at a time, and terms of the sums that are computed at a time. */
enum { ATTN_GEMM_COLS = 128, ATTN_GEMM_DEPTH = 256 };

/* Computes attn_kernels_gemm with a kernel table of float32. It uses up to 216 KiB of stack, which
 * fits the 2 MiB of a pool thread (attn/pool.h). An element of c depends only on its row of a, its
 * column of b, beta and its old value, so the result does not depend on how callers divide a
 * product. */
void attn_kernels_gemm_table(const attn_kernels *k, float *c, const float *a, const float *b,
                             const attn_gemm_dims *dims, float beta);

static inline size_t attn_gemm_least(size_t a, size_t b) {
    return a < b ? a : b;
}

#endif
