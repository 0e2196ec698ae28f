/* Tensor views: a pointer, an element type, dimensions and strides. A view owns nothing. */
#ifndef ATTN_TENSOR_H
#define ATTN_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define ATTN_MAX_RANK 8

typedef enum attn_dtype {
    ATTN_F32 = 0,
    ATTN_F16,  /* IEEE 754 binary16 */
    ATTN_BF16, /* upper half of a binary32 */
    ATTN_F64,
    ATTN_I32,
    ATTN_I64,
    ATTN_U8,
    ATTN_BOOL, /* one byte, 0 or 1 */
} attn_dtype;

/* Rank 0 means that the tensor is absent; a scalar is not a tensor here. Strides count elements. A
 * stride of 0 broadcasts. */
typedef struct attn_tensor {
    void *data;
    attn_dtype dtype;
    int rank;
    size_t dims[ATTN_MAX_RANK];
    ptrdiff_t strides[ATTN_MAX_RANK];
} attn_tensor;

size_t attn_dtype_size(attn_dtype dtype);      /* bytes an element; 0: no such type */
const char *attn_dtype_name(attn_dtype dtype); /* "float32", …, else "unknown" */
/* Finds the type of a name ("float32", "bool", …); false: there is none. */
bool attn_dtype_parse(const char *name, attn_dtype *out);

/* Returns a row-major view of `data` with the given dimensions. */
attn_tensor attn_tensor_dense(void *data, attn_dtype dtype, int rank, const size_t *dims);
/* Computes the number of elements, which is 0 for rank 0. false: it overflows. */
bool attn_tensor_count(const attn_tensor *t, size_t *count);
/* Tells whether the elements are row-major without gaps. */
bool attn_tensor_is_dense(const attn_tensor *t);
/* Writes "[2, 3, 4]" into buf with a NUL at its end and returns buf. 128 bytes are enough. */
char *attn_shape_text(const size_t *dims, int rank, char *buf, size_t size);

/* Widen n elements of `src`, whose stride counts elements, to float or double. f16, bf16 and
 * integers up to 2^24 (2^53 for double) are exact; float64 to float rounds to nearest. */
void attn_widen_f32(float *dst, const void *src, attn_dtype dtype, ptrdiff_t stride, size_t n);
void attn_widen_f64(double *dst, const void *src, attn_dtype dtype, ptrdiff_t stride, size_t n);
/* Rounds n floats to binary16, to nearest even. */
void attn_narrow_f16(uint16_t *dst, const float *src, size_t n);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
