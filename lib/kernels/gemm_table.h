/* Dense products of floats from a kernel table. */
#ifndef ATTN_GEMM_TABLE_H
#define ATTN_GEMM_TABLE_H

#include "kernels/gemm.h"
#include "kernels/kernels.h"

/* attn_kernels_gemm for a kernel table of float32. It uses up to 216 KiB of stack, which fits the
 * 2 MiB of a pool thread (attn/pool.h). Each cell of c depends only on its row of a, its column of
 * b, beta and its old value, so the result does not depend on how the work is divided. */
void attn_kernels_gemm_table(const attn_kernels *k, float *c, const float *a, const float *b,
                             const attn_gemm_dims *dims, float beta);

#endif
