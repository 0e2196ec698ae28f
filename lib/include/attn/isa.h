/* Instruction sets. Each has a kernel table. The environment's ATTN_ISA or the caller chooses one
 * kernel table; otherwise the best for the processor is used. */
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
    ATTN_ISA_AMX, /* bfloat16 tiles for products, AVX-512 for the rest. If it is chosen by name on a
                     processor without tiles, they are emulated (which needs AVX2) */
    ATTN_ISA_COUNT
} attn_isa;

/* How exactly products are computed (lib/kernels/bf16.h has the arithmetic).
 *   fp32  Products have float32 accuracy. Differences from exact results are about those of
 *         PyTorch's float32.
 *   fast  Products use a faster method if the processor has one, and exponentials are accurate to
 *         2^-18. Differences are up to 2e-5 of the value range for scores of normal size
 *         (|score| <= 16), and grow in proportion to larger scores.
 *   bf16  Queries, keys, values, and the weights by which values are multiplied are rounded to
 *         bfloat16 (nearest, ties to even). Products are summed in float32. The weights in the
 *         results, their sums and the logsumexp are not rounded. */
typedef enum attn_precision {
    ATTN_PRECISION_FP32 = 0,
    ATTN_PRECISION_FAST,
    ATTN_PRECISION_BF16,
    ATTN_PRECISION_COUNT
} attn_precision;

const char *
attn_precision_name(attn_precision precision); /* "fp32", "fast", "bf16", else "unknown" */

const char *attn_isa_name(attn_isa isa); /* "ref", "avx2", "avx512", "amx", else "unknown" */
bool attn_isa_available(attn_isa isa);   /* true: this processor has it */
bool attn_isa_parse(const char *name, attn_isa *out);

/* Chooses the kernel table for all later work by its name. NULL, "" and "auto" mean the name in the
 * environment's ATTN_ISA or, if that is not set, the best table for this processor.
 * ATTN_EUNSUPPORTED: the name is unknown, or the processor lacks the instruction set. Call it
 * before threads start. Without a call, the first operation chooses as if the name were NULL. */
attn_status attn_isa_choose(const char *name, attn_error *err);
attn_isa attn_isa_current(void);
/* Returns how the current kernel table multiplies bfloat16 tiles: "native", or "emulated" in slow
 * plain C; NULL if it uses no tiles. */
const char *attn_isa_tiles(void);
/* Returns whether the current kernel table was chosen by name. If not, small operations may use a
 * simpler table. */
bool attn_isa_forced(void);
const char *
attn_isa_reason(void); /* how it was chosen: "best of this processor", "ATTN_ISA", "requested" */

/* Returns whether the loaded OpenBLAS is a serial build. A threaded build starts a thread for each
 * processor when it is loaded. Without memory for these threads, it hangs or ends the process. */
bool attn_blas_is_serial(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
