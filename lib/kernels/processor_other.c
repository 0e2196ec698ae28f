/* All processors but x86-64: the kernel tables in plain C. */
#include <pthread.h>

#include "kernels/bf16.h"
#include "kernels/pointwise.h"
#include "kernels/processor.h"

attn_tiles_state attn_processor_tiles(void) {
    return ATTN_TILES_NONE;
}

const attn_kernels *attn_kernels_vector(void) {
    return NULL;
}

bool attn_isa_available(attn_isa isa) {
    return isa == ATTN_ISA_REF;
}

const attn_kernels *attn_kernels_of(attn_isa isa) {
    (void)isa;
    return &attn_kernels_ref;
}

const attn_pointwise *attn_pointwise_of(attn_isa isa) {
    (void)isa;
    return &attn_pointwise_ref;
}

static attn_kernels rounded[ATTN_PRECISION_COUNT];

static void make_tables(void) {
    for (int p = 0; p < ATTN_PRECISION_COUNT; p++) {
        rounded[p] = attn_kernels_ref;
        if (p != ATTN_PRECISION_FP32)
            attn_kernels_round_ref(&rounded[p], (attn_precision)p);
    }
}

const attn_kernels *attn_kernels_with(attn_isa isa, attn_precision precision, bool tanh_score) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)isa, (void)tanh_score;
    if (precision == ATTN_PRECISION_FP32)
        return &attn_kernels_ref;
    pthread_once(&once, make_tables);
    return &rounded[precision];
}
