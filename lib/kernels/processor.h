/* The capabilities of the processor, and the kernel tables for it. The Makefile selects one of two
 * files that define these functions as well as attn_isa_available, attn_pointwise_of and
 * attn_block_kernels_of:
 *
 *   x86/processor_x86.c   for x86-64; only this file and those that it uses need an x86-64
 *   processor_other.c     for all other processors; it has only the table `ref` */
#ifndef ATTN_PROCESSOR_H
#define ATTN_PROCESSOR_H

#include "kernels/kernels.h"

/* Whether the AMX tile instructions can be used. */
typedef enum attn_tiles_state {
    ATTN_TILES_NONE = 0, /* the processor lacks them, or the system does not permit them */
    ATTN_TILES_DIFFER,   /* their products differ from those of attn_tiles_plain */
    ATTN_TILES_NATIVE    /* they can be used */
} attn_tiles_state;
attn_tiles_state attn_processor_tiles(void);

/* The kernel tables of a processor: tables[isa][precision][1] for scores with tanh, and
 * tables[isa][precision][0] for other scores. The entry of an instruction set that the processor
 * lacks is NULL. AMX is an exception: attn_tiles_plain emulates it on any processor with avx512 or
 * avx2. */
typedef const attn_kernels *attn_kernel_tables[ATTN_ISA_COUNT][ATTN_PRECISION_COUNT][2];

/* Makes the kernel tables for this processor. It must be called only once. */
void attn_processor_tables(attn_kernel_tables tables);

#endif
