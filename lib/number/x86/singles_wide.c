/* Which of the loops with wide vectors the processor has. */
#include "number/singles_wide.h"

/* LZCNT is as old as BMI2, and not every compiler has a name for it here. */
attn_isa attn_singles_isa(void) {
    attn_isa isa = attn_isa_current();
    if (isa == ATTN_ISA_AMX) /* emulated tiles may stand on AVX2 */
        isa = attn_isa_available(ATTN_ISA_AVX512) ? ATTN_ISA_AVX512 : ATTN_ISA_AVX2;
    if (!__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2"))
        return ATTN_ISA_REF;
    return isa == ATTN_ISA_AVX512 && !__builtin_cpu_supports("avx512cd") ? ATTN_ISA_AVX2 : isa;
}

size_t attn_singles_lanes(void) {
    attn_isa isa = attn_singles_isa();
    return isa == ATTN_ISA_REF ? 0 : isa == ATTN_ISA_AVX512 ? 8 : 4;
}

char *attn_write_singles_wide(char *p, const float *values, size_t n, size_t width) {
    return attn_singles_isa() == ATTN_ISA_AVX512 ? attn_write_singles_avx512(p, values, n, width)
                                                 : attn_write_singles_avx2(p, values, n, width);
}
