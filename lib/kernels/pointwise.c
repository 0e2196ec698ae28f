/* Which functions of rows: those of the chosen kernel table, or of the widest below it. */
#include "kernels/pointwise.h"
#include "kernels/kernels.h"

const attn_pointwise *attn_pointwise_current(void) {
    switch (attn_kernels_current()->isa) {
    case ATTN_ISA_REF:
        return &attn_pointwise_ref;
    case ATTN_ISA_AVX2:
        return &attn_pointwise_avx2;
    default:
        return &attn_pointwise_avx512;
    }
}
