/* Dense matrix products of row-major matrices, on the calling thread. */
#ifndef ATTN_GEMM_H
#define ATTN_GEMM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct attn_gemm_dims {
    size_t M, N, K;       /* below 2^31 */
    size_t lda, ldb, ldc; /* row strides in elements, below 2^31 */
    bool transpose_a;     /* a is stored as [K, M] instead of [M, K] */
    bool transpose_b;     /* b is stored as [N, K] instead of [K, N] */
} attn_gemm_dims;

/* Computes c [M, N] = a [M, K] b [K, N] + beta c. Any thread may call it. Floats use the kernel
 * table of the chosen instruction set; then an element of c depends only on its row of a, its
 * column of b and its old value. Doubles, and floats with the table `ref`, use OpenBLAS; then an
 * element also depends on M and on its position. */
void attn_kernels_gemm(float *c, const float *a, const float *b, const attn_gemm_dims *dims,
                       float beta);
void attn_kernels_gemm_f64(double *c, const double *a, const double *b, const attn_gemm_dims *dims,
                           double beta);
/* Calls attn_kernels_gemm if elem, the bytes of an element, is 4, and attn_kernels_gemm_f64 if it
 * is 8. */
void attn_kernels_gemm_elements(size_t elem, void *c, const void *a, const void *b,
                                const attn_gemm_dims *dims, double beta);

#endif
