/* Tensor views: element types, counts of elements, and shapes as text. */
#include <stdio.h>
#include <string.h>

#include "attn/memory.h"
#include "attn/tensor.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [ATTN_F32] = {"float32", 4}, [ATTN_F16] = {"float16", 2}, [ATTN_BF16] = {"bfloat16", 2},
    [ATTN_F64] = {"float64", 8}, [ATTN_I32] = {"int32", 4},   [ATTN_I64] = {"int64", 8},
    [ATTN_U8] = {"uint8", 1},    [ATTN_BOOL] = {"bool", 1},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

size_t attn_dtype_size(attn_dtype dtype) {
    return (unsigned)dtype < DTYPES ? dtypes[dtype].size : 0;
}
const char *attn_dtype_name(attn_dtype dtype) {
    return (unsigned)dtype < DTYPES ? dtypes[dtype].name : "unknown";
}

bool attn_dtype_parse(const char *name, attn_dtype *out) {
    for (int i = 0; i < DTYPES; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            *out = (attn_dtype)i;
            return true;
        }
    return false;
}

attn_tensor attn_tensor_dense(void *data, attn_dtype dtype, int rank, const size_t *dims) {
    attn_tensor t = {.data = data, .dtype = dtype, .rank = rank};
    ptrdiff_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        t.dims[i] = dims[i];
        t.strides[i] = stride;
        /* The product wraps only if another axis has length 0. Then no stride is used. */
        stride = (ptrdiff_t)((size_t)stride * dims[i]);
    }
    return t;
}

bool attn_tensor_count(const attn_tensor *t, size_t *count) {
    size_t n = t->rank > 0;
    for (int i = 0; i < t->rank; i++)
        if (!attn_size_mul(n, t->dims[i], &n))
            return false;
    *count = n;
    return true;
}

bool attn_tensor_is_dense(const attn_tensor *t) {
    ptrdiff_t stride = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dims[i] > 1 && t->strides[i] != stride)
            return false;
        stride = (ptrdiff_t)((size_t)stride * t->dims[i]);
    }
    return true;
}

char *attn_shape_text(const size_t *dims, int rank, char *buf, size_t size) {
    size_t used = 0;
    if (size)
        buf[0] = 0;
    for (int i = 0; i <= rank && used < size; i++) {
        int n = i == rank ? snprintf(buf + used, size - used, rank ? "]" : "[]")
                          : snprintf(buf + used, size - used, i ? ", %zu" : "[%zu", dims[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return buf;
}
