/* Dense products of floats from a kernel table. */
#ifndef ATTN_GEMM_TABLE_H
#define ATTN_GEMM_TABLE_H

#include "kernels/gemm.h"
#include "kernels/kernels.h"

/* attn_kernels_gemm with a table of floats. Takes up to 216 KiB of stack; a helper of the pool has
 * 2 MiB (attn/pool.h). A cell of the result is a pure function of its row of a, its column of b and
 * what it held. */
void attn_kernels_gemm_table(const attn_kernels *k, float *c, const float *a, const float *b,
                             const attn_gemm_dims *dims, float beta);

#endif
