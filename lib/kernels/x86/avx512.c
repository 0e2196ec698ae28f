/* The kernel table for AVX-512, with vectors of 16 floats. simd_body.h has the loops,
 * simd_avx512.h the vector operations, and this file the sizes. The micro-kernel of simd_body.h
 * multiplies rows of A by a panel of B:
 *
 *                      a panel: 64 columns of B
 *                      [ z0  | z1  | z2  | z3  ]     registers, 32: 24 accumulators, 4 of the
 *   6 rows of A   a0   [ z5  | z6  | z7  | z8  ]     panel, 1 of the broadcast, 3 free
 *   (broadcast    a1   [ z9  | z10 | z11 | z12 ]
 *   from memory)  …    …                             a step: 4 loads, 6 broadcasts, 24 fused
 *                 a5   [ z25 | z26 | z27 | z28 ]     multiply-adds
 *
 * A tile is 48 queries by 128 keys: 24 KiB of scores. A packed panel of keys of width 64 is 16 KiB
 * and stays in the first-level cache for all 48 queries. A tile's keys and values are 64 KiB and
 * stay in the second-level cache. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/bf16.h"
#define SPLIT_LANES 16
#include "kernels/block_split.h"

#define NAME(x)  x##_avx512
#define ISA      ATTN_ISA_AVX512
#define ISA_NAME "avx512"
enum { MR = 6, ROWS = 48, KEYS = 128, KEY_PLACES = 4 };
#define NV 4

#include "kernels/x86/simd_avx512.h"
#include "kernels/x86/simd_body.h"
