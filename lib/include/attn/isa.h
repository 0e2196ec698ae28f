/* Instruction sets. For each there is a kernel table: the inner loops of the library compiled for
 * that instruction set. A process uses one table, which the caller, the environment variable
 * ATTN_ISA, or else the processor decides. */
#ifndef ATTN_ISA_H
#define ATTN_ISA_H

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum attn_isa {
    ATTN_ISA_REF = 0,
    ATTN_ISA_AVX2,
    ATTN_ISA_AVX512,
    /* bfloat16 tiles for products, AVX-512 for the rest. If this table is requested by name on a
     * processor without tiles, they are emulated in plain C; that needs AVX2. */
    ATTN_ISA_AMX,
    ATTN_ISA_COUNT
} attn_isa;

/* The accuracy of products (lib/kernels/bf16.h has the arithmetic of bf16).
 *
 *   fp32  Products have float32 accuracy. Errors are about those of PyTorch's float32.
 *   fast  Products use a faster method if the processor has one. Exponentials have a relative error
 *         of up to 2^-18. Errors are up to 2e-5 times the range of the values for scores of normal
 *         size (|score| <= 16), and grow in proportion to larger scores.
 *   bf16  Queries, keys, values, and the weights that multiply values are rounded to bfloat16
 *         (nearest, ties to even). Products are summed in float32. Weights in the results, their
 *         sums and the logsumexp are not rounded. */
typedef enum attn_precision {
    ATTN_PRECISION_FP32 = 0,
    ATTN_PRECISION_FAST,
    ATTN_PRECISION_BF16,
    ATTN_PRECISION_COUNT
} attn_precision;

extern const char *const attn_precision_words[]; /* "fp32", …, NULL, in the order of the enum */
/* Returns "fp32", "fast" or "bf16"; "unknown" for other numbers. */
const char *attn_precision_name(attn_precision precision);

/* Returns "ref", "avx2", "avx512" or "amx"; "unknown" for other numbers. */
const char *attn_isa_name(attn_isa isa);
/* Tells whether this processor has the instruction set; for ATTN_ISA_AMX: tiles in hardware. */
bool attn_isa_available(attn_isa isa);

/* Chooses the kernel table for all later work by name. NULL, "" and "auto" mean: the name in the
 * environment variable ATTN_ISA if it is set, else the best table for this processor. Call it
 * before other threads use the library. Without a call, the first operation chooses as if the name
 * were NULL. ATTN_EUNSUPPORTED: the name is unknown, or the processor lacks the instruction set. */
attn_status attn_isa_choose(const char *name, attn_error *err);
/* Returns the instruction set of the chosen kernel table. */
attn_isa attn_isa_current(void);
/* Tells how the chosen kernel table multiplies bfloat16 tiles: "native", or "emulated" (slow, in
 * plain C). NULL: it uses no tiles. */
const char *attn_isa_tiles(void);
/* Tells whether the kernel table was chosen by name. If not, small operations may use a simpler
 * table, which is faster for them. */
bool attn_isa_forced(void);
/* Tells how the table was chosen: "best of this processor", "ATTN_ISA" or "requested". */
const char *attn_isa_reason(void);

/* Tells whether the loaded OpenBLAS is a serial build. A threaded build starts a thread for each
 * processor when it is loaded. If there is too little memory for these threads, OpenBLAS hangs or
 * ends the process. */
bool attn_blas_is_serial(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
