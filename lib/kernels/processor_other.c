/* processor.h for processors other than x86-64: all kernel tables are in plain C. */
#include "kernels/bf16.h"
#include "kernels/blocks.h"
#include "kernels/pointwise.h"
#include "kernels/processor.h"

attn_tiles_state attn_processor_tiles(void) {
    return ATTN_TILES_NONE;
}

bool attn_isa_available(attn_isa isa) {
    return isa == ATTN_ISA_REF;
}

const attn_pointwise *attn_pointwise_of(attn_isa isa) {
    (void)isa;
    return &attn_pointwise_ref;
}

const attn_block_kernels *attn_block_kernels_of(attn_isa isa) {
    (void)isa;
    return NULL;
}

attn_blocks_by_integers *attn_blocks_integers_of(attn_isa isa, const attn_block_format *format,
                                                 size_t rows) {
    (void)isa, (void)format, (void)rows;
    return NULL;
}

void attn_processor_tables(attn_kernel_tables tables) {
    static attn_kernels rounded[ATTN_PRECISION_COUNT];
    for (int p = 0; p < ATTN_PRECISION_COUNT; p++) {
        rounded[p] = attn_kernels_ref;
        if (p != ATTN_PRECISION_FP32)
            attn_kernels_round_ref(&rounded[p], (attn_precision)p);
        for (int tanh_score = 0; tanh_score < 2; tanh_score++)
            tables[ATTN_ISA_REF][p][tanh_score] =
                p == ATTN_PRECISION_FP32 ? &attn_kernels_ref : &rounded[p];
    }
}
