/* NumPy's file format for one tensor: a header, then the bytes, little-endian and row-major. */
#ifndef ATTN_NPY_H
#define ATTN_NPY_H

#include "memory.h"
#include "status.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Makes the header that precedes the bytes of one tensor in an .npy file (NumPy's format 1.0),
 * padded to a multiple of 64 bytes. ATTN_EDTYPE: NumPy has no bfloat16. */
attn_status attn_npy_header(const attn_tensor *tensor, attn_arena *arena, const void **header,
                            size_t *size, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
