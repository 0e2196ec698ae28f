/* Tensors: element types, counts of elements, shapes as text, access to the elements of strided
 * tensors, and conversions between element types. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "base/view.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [ATTN_F32] = {"float32", 4}, [ATTN_F16] = {"float16", 2}, [ATTN_BF16] = {"bfloat16", 2},
    [ATTN_F64] = {"float64", 8}, [ATTN_I32] = {"int32", 4},   [ATTN_I64] = {"int64", 8},
    [ATTN_U8] = {"uint8", 1},    [ATTN_BOOL] = {"bool", 1},   [ATTN_BITS] = {"bits", 1},
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
        /* The product can overflow only if another axis has length 0. Then no stride is used. */
        stride = (ptrdiff_t)((size_t)stride * dims[i]);
    }
    return t;
}

attn_tensor attn_tensor_bits(void *data, int rank, const size_t *dims) {
    size_t bytes[ATTN_MAX_RANK];
    memcpy(bytes, dims, (size_t)rank * sizeof *dims);
    bytes[rank - 1] = dims[rank - 1] / 8 + (dims[rank - 1] % 8 != 0);
    attn_tensor t = attn_tensor_dense(data, ATTN_BITS, rank, bytes);
    t.dims[rank - 1] = dims[rank - 1];
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

const char *attn_rank_text(const attn_tensor *t) {
    static const char *const names[] = {"rank 0", "rank 1", "rank 2", "rank 3", "rank 4",
                                        "rank 5", "rank 6", "rank 7", "rank 8"};
    _Static_assert(sizeof names / sizeof *names == ATTN_MAX_RANK + 1, "a name for each rank");
    if (t->rank == 1 && t->dims[0] == 0)
        return "an empty list";
    return t->rank < 0 || t->rank > ATTN_MAX_RANK ? "a rank out of range" : names[t->rank];
}

char *attn_found_text(const attn_tensor *t, char *buf, size_t size) {
    if (t->rank != 1 || t->dims[0] != 0)
        return attn_shape_text(t->dims, t->rank, buf, size);
    snprintf(buf, size, "an empty list");
    return buf;
}

/* --- access by (batch, head, row, column), by rows, and as dense copies --- */

const void *attn_view_at(const attn_view *v, size_t b, size_t h, size_t i, size_t j) {
    ptrdiff_t at =
        v->batch[b] + (ptrdiff_t)h * v->head + (ptrdiff_t)i * v->row + (ptrdiff_t)j * v->col;
    return (const char *)v->data + at * (ptrdiff_t)attn_dtype_size(v->dtype);
}

const ptrdiff_t *attn_view_batches(attn_arena *arena, const size_t *batch, int rank,
                                   const ptrdiff_t *strides) {
    static const ptrdiff_t one_entry[] = {0};
    size_t B = 1;
    for (int a = 0; a < rank; a++)
        if (!attn_size_mul(B, batch[a], &B))
            return NULL;
    if (B == 1)
        return one_entry;
    ptrdiff_t *offsets = attn_arena_array(arena, B, sizeof *offsets);
    for (size_t b = 0; offsets && b < B; b++) {
        size_t rest = b;
        offsets[b] = 0;
        for (int a = rank - 1; a >= 0; a--) {
            offsets[b] += (ptrdiff_t)(rest % batch[a]) * strides[a];
            rest /= batch[a];
        }
    }
    return offsets;
}

const void *attn_dense_row(const attn_tensor *t, size_t r) {
    ptrdiff_t at = 0;
    for (int a = t->rank - 2; a >= 0; a--) {
        at += (ptrdiff_t)(r % t->dims[a]) * t->strides[a];
        r /= t->dims[a];
    }
    return (const char *)t->data + at * (ptrdiff_t)attn_dtype_size(t->dtype);
}

bool attn_dense_rows(const attn_tensor *t, size_t *rows) {
    *rows = 1;
    for (int a = 0; a < t->rank - 1; a++)
        if (!attn_size_mul(*rows, t->dims[a], rows))
            return false;
    return true;
}

attn_status attn_bits_check(const attn_tensor *t, size_t n, const char *where, attn_error *err) {
    const uint8_t spare = (uint8_t)(n % 8 ? 0xffu << n % 8 : 0);
    size_t rows = 0;
    if (!attn_dense_rows(t, &rows))
        return attn_fail(err, ATTN_ELIMIT, where, "too many elements");
    for (size_t r = 0; spare && r < rows; r++)
        if (((const uint8_t *)attn_dense_row(t, r))[n / 8] & spare)
            return attn_fail(err, ATTN_EVALUE, where,
                             "row %zu of the bits has a 1 behind its last element: element j is "
                             "bit j %% 8 of byte j / 8, and the bits behind the last element are "
                             "0, as numpy.packbits(mask, axis=-1, bitorder=\"little\") writes them",
                             r);
    return ATTN_OK;
}

void *attn_dense_copy(const attn_tensor *t, attn_dtype dtype, attn_arena *arena) {
    const size_t elem = attn_dtype_size(dtype), width = t->dims[t->rank - 1];
    size_t count, rows;
    if (!attn_tensor_count(t, &count) || !attn_dense_rows(t, &rows))
        return NULL;
    if (t->dtype == dtype && attn_tensor_is_dense(t))
        return t->data;
    char *copy = attn_arena_array(arena, count, elem);
    for (size_t r = 0; copy && width && r < rows; r++) {
        attn_elements_widen(copy + r * width * elem, elem, attn_dense_row(t, r), t->dtype,
                            t->strides[t->rank - 1], width);
    }
    return copy;
}

void attn_dense_store(const attn_tensor *t, size_t at, const double *x, size_t n) {
    const size_t elem = attn_dtype_size(t->dtype);
    for (size_t i = 0; i < n; i++)
        attn_element_set(t->data, elem, at + i, x[i]);
}

attn_status attn_dense_zeros(const attn_tensor *t, attn_dtype dtype, attn_arena *arena,
                             attn_tensor *out, attn_error *err) {
    size_t count;
    *out = attn_tensor_dense(NULL, dtype, t->rank, t->dims);
    ATTN_TAKEN(attn_tensor_count(out, &count) &&
                   (out->data = attn_arena_zeroed(arena, count, attn_dtype_size(dtype))),
               "the results", err);
    return ATTN_OK;
}

/* --- conversions between element types --- */

static float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Converts binary16 to binary32, exactly. A subnormal x is first made as 2^-14 + x, and subtracting
 * 2^-14 then normalises it. */
static float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u,
             fraction = h & 0x3ffu;
    if (exponent == 31)
        return float_of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = float_of_bits(0x38800000u | fraction << 13) - 0x1p-14f;
    return sign ? -magnitude : magnitude;
}

/* Converts binary32 to binary16, rounded to nearest even. A value below the normal range of
 * binary16 is rounded by adding 0.5, because the last place of the sum is 2^-24, the smallest
 * positive number of binary16. */
static uint16_t float_to_half(float f) {
    uint32_t bits = bits_of_float(f), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) /* below 2^-14 */
        return (uint16_t)(sign | (bits_of_float(float_of_bits(rest) + 0x1p-1f) - 0x3f000000u));
    rest += 0xfffu + (rest >> 13 & 1u);
    return (uint16_t)(sign | (rest - 0x38000000u) >> 13);
}

#define WIDEN(name, out)                                                                           \
    void name(out *dst, const void *src, attn_dtype dtype, ptrdiff_t stride, size_t n) {           \
        const ptrdiff_t count = (ptrdiff_t)n;                                                      \
        switch (dtype) {                                                                           \
        case ATTN_F32:                                                                             \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)((const float *)src)[i * stride];                                    \
            break;                                                                                 \
        case ATTN_F16:                                                                             \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)half_to_float(((const uint16_t *)src)[i * stride]);                  \
            break;                                                                                 \
        case ATTN_BF16:                                                                            \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)float_of_bits((uint32_t)((const uint16_t *)src)[i * stride] << 16);  \
            break;                                                                                 \
        case ATTN_F64:                                                                             \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)((const double *)src)[i * stride];                                   \
            break;                                                                                 \
        case ATTN_I32:                                                                             \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)((const int32_t *)src)[i * stride];                                  \
            break;                                                                                 \
        case ATTN_I64:                                                                             \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)((const int64_t *)src)[i * stride];                                  \
            break;                                                                                 \
        case ATTN_U8:                                                                              \
        case ATTN_BOOL:                                                                            \
        case ATTN_BITS: /* the bytes */                                                            \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                dst[i] = (out)((const uint8_t *)src)[i * stride];                                  \
            break;                                                                                 \
        }                                                                                          \
    }

WIDEN(attn_widen_f32, float)
WIDEN(attn_widen_f64, double)

void attn_narrow_f16(uint16_t *dst, const float *src, size_t n) {
    for (size_t i = 0; i < n; i++)
        dst[i] = float_to_half(src[i]);
}
