/* Finds the vector units of an x86-64, and the table for the widest one. */
#ifndef ATTN_VECTORS_H
#define ATTN_VECTORS_H

#include "kernels/kernels.h"

static inline bool attn_has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static inline bool attn_has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/* Returns the table with the widest vectors that the processor has: avx512 or avx2. Tables with
 * tile products are based on it. NULL: the processor can use only `ref`. */
static inline const attn_kernels *attn_kernels_vector(void) {
    return attn_has_avx512() ? &attn_kernels_avx512 : attn_has_avx2() ? &attn_kernels_avx2 : NULL;
}

#endif
