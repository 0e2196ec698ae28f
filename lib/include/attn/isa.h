/* Instruction sets. Each has a table of kernels, of which one is chosen at start or by ATTN_ISA. */
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
    ATTN_ISA_AMX, /* products by bfloat16 tiles, the rest by AVX-512; emulated where it is asked for
                     without them (on AVX2 at least) */
    ATTN_ISA_COUNT
} attn_isa;

/* How exactly products are computed (lib/kernels/bf16.h has the arithmetic).
 *   fp32  as float32 would be: errors as measured beside PyTorch's float32
 *   fast  for a faster product where the processor has one, and exponentials to 2^-18: errors up
 *         to 2e-5 of the value range for scores of normal size (|score| <= 16), growing in
 *         proportion beyond
 *   bf16  queries, keys, values and the weights that meet the values are rounded to bfloat16
 *         (nearest, ties to even), products are summed in float32; the weights answered, their
 *         sums and the logsumexp are not rounded */
typedef enum attn_precision {
    ATTN_PRECISION_FP32 = 0,
    ATTN_PRECISION_FAST,
    ATTN_PRECISION_BF16,
    ATTN_PRECISION_COUNT
} attn_precision;

const char *
attn_precision_name(attn_precision precision); /* "fp32", "fast", "bf16", else "unknown" */

const char *attn_isa_name(attn_isa isa); /* "ref", "avx2", "avx512", "amx", else "unknown" */
bool attn_isa_available(attn_isa isa);   /* does this processor have it? */
bool attn_isa_parse(const char *name, attn_isa *out);

/* Chooses the table for all later work by its name. NULL, "" and "auto" stand for the name in the
 * environment's ATTN_ISA or, without it, the best table of this processor. ATTN_EUNSUPPORTED: the
 * name is unknown, or the processor lacks it. Call it before threads start; otherwise the first use
 * chooses. */
attn_status attn_isa_choose(const char *name, attn_error *err);
attn_isa attn_isa_current(void);
/* How the current table multiplies tiles: "native", or "emulated" in slow plain C. NULL: it has no
 * tiles. */
const char *attn_isa_tiles(void);
/* Tells whether the current table was chosen by name. If not, small operations may use a simpler
 * one. */
bool attn_isa_forced(void);
const char *
attn_isa_reason(void); /* why the current one: "best of this processor", "ATTN_ISA", "requested" */

/* Is the OpenBLAS that was loaded a serial build? Its builds with threads make one a processor when
 * they are loaded, which hangs, or ends the process, where there is no memory for them. */
bool attn_blas_is_serial(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
