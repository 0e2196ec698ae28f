/* What the processor can do, and the kernel tables for it. Only the files behind this header depend
 * on the family of processors: processor_x86.c and the files that it uses, or processor_other.c,
 * which has only `ref`. The Makefile selects one of them. It also defines attn_isa_available and
 * attn_pointwise_of. */
#ifndef ATTN_PROCESSOR_H
#define ATTN_PROCESSOR_H

#include "kernels/kernels.h"

/* Whether tile instructions are missing, give products that differ from the expected ones, or work.
 */
typedef enum attn_tiles_state {
    ATTN_TILES_NONE = 0,
    ATTN_TILES_DIFFER,
    ATTN_TILES_NATIVE
} attn_tiles_state;
attn_tiles_state attn_processor_tiles(void);

/* Returns the widest vector table that the processor has, from which plain tile products are made.
 * NULL: it has only `ref`. */
const attn_kernels *attn_kernels_vector(void);

/* Kernel tables by instruction set, by precision, and for scores with tanh (1) or without (0). An
 * instruction set that the processor lacks has no tables. AMX has them on every processor with a
 * vector table, and is emulated if the processor lacks it. */
typedef const attn_kernels *attn_kernel_tables[ATTN_ISA_COUNT][ATTN_PRECISION_COUNT][2];

/* Makes the kernel tables for this processor. Called once. */
void attn_processor_tables(attn_kernel_tables tables);

#endif
