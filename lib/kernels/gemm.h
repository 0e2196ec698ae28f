/* Dense products: of floats by the chosen kernel table, of doubles by OpenBLAS. */
#ifndef ATTN_GEMM_H
#define ATTN_GEMM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct attn_gemm_dims {
    size_t M, N, K, lda, ldb, ldc; /* below 2^31 each; row strides in elements */
    bool transpose_a, transpose_b; /* a is [K, M], b is [N, K] */
} attn_gemm_dims;

/* Computes c [M, N] = a [M, K] b [K, N] + beta c, all row-major. Any thread may call it, and it
 * runs only on the calling thread. With a kernel table of floats, a cell depends only on its row of
 * a, its column of b and its old value. With OpenBLAS (for doubles, and for floats with the table
 * `ref`), it also depends on M and on its position. */
void attn_kernels_gemm(float *c, const float *a, const float *b, const attn_gemm_dims *dims,
                       float beta);
void attn_kernels_gemm_f64(double *c, const double *a, const double *b, const attn_gemm_dims *dims,
                           double beta);
/* Computes a product of floats or doubles, by the bytes of an element, 4 or 8. */
void attn_kernels_gemm_elements(size_t elem, void *c, const void *a, const void *b,
                                const attn_gemm_dims *dims, double beta);

#endif
