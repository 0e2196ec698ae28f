/* NumPy's .npy file format for one tensor (https://numpy.org/doc/stable/reference/generated/
 * numpy.lib.format.html). It has four parts:
 *
 *   8 bytes       "\x93NUMPY" and the version, 1.0, 2.0 or 3.0
 *   2 or 4 bytes  N, the length of the header, little-endian; 4 bytes from version 2.0 on
 *   N bytes       the header, a Python dictionary:
 *                 {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *   rest          the elements, row-major, or column-major if fortran_order is True
 *
 * Any thread may call these functions. */
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

/* A file that has been opened. `type` is the text of 'descr' in its header. */
typedef struct attn_npy {
    char type[16];
    bool fortran_order;
    int rank; /* 0 to ATTN_MAX_RANK */
    size_t dims[ATTN_MAX_RANK];
    const void *data; /* the bytes behind the header, which may be unaligned */
    size_t size;      /* number of these bytes */
} attn_npy;

/* Reads the header of a file of `size` bytes at `data`, which must outlive *out. Nothing is copied,
 * and neither the type nor the number of bytes behind the header is checked. On an error *out stays
 * unchanged: ATTN_EARG (malformed), ATTN_ESHAPE (more than ATTN_MAX_RANK axes). */
attn_status attn_npy_open(const void *data, size_t size, attn_npy *out, attn_error *err);
/* Makes the tensor of the file, a view of its data; with fortran_order its strides are those of the
 * column-major order. Errors: ATTN_EDTYPE (a type other than those of attn_dtype, or big-endian),
 * ATTN_ESHAPE (rank 0, or a number of bytes that does not fit the shape). */
attn_status attn_npy_tensor(const attn_npy *file, attn_tensor *out, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
