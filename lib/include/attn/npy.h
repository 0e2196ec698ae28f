/* NumPy's .npy file format for one tensor: a header, then the elements, little-endian and
 * row-major. */
#ifndef ATTN_NPY_H
#define ATTN_NPY_H

#include "memory.h"
#include "status.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Makes the header of an .npy file (format 1.0) for the tensor, in the arena. *header has *size
 * bytes, a multiple of 64. The caller writes the elements behind it, row-major. ATTN_EDTYPE:
 * NumPy's format has no bfloat16. ATTN_ENOMEM: the arena is full. Any thread may call it. */
attn_status attn_npy_header(const attn_tensor *tensor, attn_arena *arena, const void **header,
                            size_t *size, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
