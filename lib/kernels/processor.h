/* What the processor has, and the tables for it: the one place where a family of processors shows.
 * processor_x86.c with the files it draws on, or processor_other.c, which has `ref` alone; the
 * Makefile picks. Also theirs: attn_isa_available, attn_kernels_of, attn_kernels_with and
 * attn_pointwise_of. */
#ifndef ATTN_PROCESSOR_H
#define ATTN_PROCESSOR_H

#include "kernels/kernels.h"

/* Tile instructions: none, such whose products differ from what they should be, or good ones. */
typedef enum attn_tiles_state {
    ATTN_TILES_NONE = 0,
    ATTN_TILES_DIFFER,
    ATTN_TILES_NATIVE
} attn_tiles_state;
attn_tiles_state attn_processor_tiles(void);

/* The widest table that the processor has, on which plain tile products stand; NULL: only `ref`. */
const attn_kernels *attn_kernels_vector(void);

#endif
