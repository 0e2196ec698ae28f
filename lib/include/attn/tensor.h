/* Tensor views: pointer, element type, dimensions and strides. A view does not own its memory. */
#ifndef ATTN_TENSOR_H
#define ATTN_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define ATTN_MAX_RANK 8 /* most axes of a tensor */

typedef enum attn_dtype {
    ATTN_F32 = 0,
    ATTN_F16,  /* IEEE 754 binary16 */
    ATTN_BF16, /* the upper half of an IEEE 754 binary32 */
    ATTN_F64,
    ATTN_I32,
    ATTN_I64,
    ATTN_U8,
    ATTN_BOOL, /* a byte, 0 or 1 */
    /* Booleans, eight in a byte; see attn_tensor_bits. Only masks (ATTN_LAYER_VALUES) take them. */
    ATTN_BITS,
} attn_dtype;

/* A view of a tensor. Rank 0 means that there is no tensor; scalars are not tensors here. Strides
 * count elements, not bytes. A stride of 0 repeats the same element along its axis (broadcast). */
typedef struct attn_tensor {
    void *data;
    attn_dtype dtype;
    int rank;
    size_t dims[ATTN_MAX_RANK];
    ptrdiff_t strides[ATTN_MAX_RANK];
} attn_tensor;

/* Returns the bytes of an element, for ATTN_BITS those of the byte that holds it; 0: unknown
 * type. */
size_t attn_dtype_size(attn_dtype dtype);
/* "float32", "bool", …; "unknown" if there is no such type */
const char *attn_dtype_name(attn_dtype dtype);
/* Finds an element type by its name. Returns false if there is none. */
bool attn_dtype_parse(const char *name, attn_dtype *out);

/* Returns a row-major view of `data` with the given dimensions. */
attn_tensor attn_tensor_dense(void *data, attn_dtype dtype, int rank, const size_t *dims);
/* Returns a view of ATTN_BITS with the given dimensions, of which the last counts bits. Each row
 * begins at a byte: element j of a row is bit j % 8 of byte j / 8, as numpy.packbits(x, axis=-1,
 * bitorder="little") writes them. Strides count bytes; that of the last axis is not read. */
attn_tensor attn_tensor_bits(void *data, int rank, const size_t *dims);
/* Checks packed bits, rows of n elements: a 1 behind the last element of a row is an error, because
 * it shows that the bits are in another order. Reads one byte of each row. `where` names the tensor
 * in errors. */
attn_status attn_bits_check(const attn_tensor *t, size_t n, const char *where, attn_error *err);
/* Computes the number of elements: the product of the dimensions, 0 for rank 0. Returns false if
 * the product overflows. */
bool attn_tensor_count(const attn_tensor *t, size_t *count);
/* Returns the entry of `count` that entry b of a batch uses when the batch repeats them, such as
 * the layers of a model that share a mask: b modulo count, or 0 if there are none. */
static inline size_t attn_repeated_entry(size_t b, size_t count) {
    return count ? b % count : 0;
}
/* Tells whether the elements are in row-major order without gaps. */
bool attn_tensor_is_dense(const attn_tensor *t);
/* Writes the shape as text such as "[2, 3, 4]" into buf [size] and returns buf. 128 bytes are
 * enough. */
char *attn_shape_text(const size_t *dims, int rank, char *buf, size_t size);
/* Returns "rank 3" for errors about the number of axes, and "an empty list" for the shape [0],
 * which is what [] in a request becomes. */
const char *attn_rank_text(const attn_tensor *t);
/* Writes the shape of t, for errors, as attn_shape_text does, but "an empty list" for the shape
 * [0]. */
char *attn_found_text(const attn_tensor *t, char *buf, size_t size);

/* Convert n elements of `src` to float or double. The elements are `stride` elements apart. Values
 * of float16 and bfloat16, and integers up to 2^24 (float) or 2^53 (double), are exact. float64 is
 * rounded to the nearest float. */
void attn_widen_f32(float *dst, const void *src, attn_dtype dtype, ptrdiff_t stride, size_t n);
void attn_widen_f64(double *dst, const void *src, attn_dtype dtype, ptrdiff_t stride, size_t n);
/* Converts n floats to IEEE binary16, rounded to nearest even. */
void attn_narrow_f16(uint16_t *dst, const float *src, size_t n);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
