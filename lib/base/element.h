/* Arrays of float or double whose type is known at run time. `elem` is the size of an element: 4
 * (float) or 8 (double). */
#ifndef ATTN_ELEMENT_H
#define ATTN_ELEMENT_H

#include <attn/tensor.h>

static inline attn_dtype attn_element_dtype(size_t elem) {
    return elem == sizeof(float) ? ATTN_F32 : ATTN_F64;
}

static inline double attn_element(const void *x, size_t elem, size_t i) {
    return elem == sizeof(float) ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

static inline void attn_element_set(void *x, size_t elem, size_t i, double value) {
    if (elem == sizeof(float))
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}

/* Computes x[i] += value, with `value` rounded to the type of the elements first. */
static inline void attn_element_add(void *x, size_t elem, size_t i, double value) {
    if (elem == sizeof(float))
        ((float *)x)[i] += (float)value;
    else
        ((double *)x)[i] += value;
}

/* Computes to[i] += from[i] for n elements of one type. */
static inline void attn_elements_add(void *to, const void *from, size_t elem, size_t n) {
    for (size_t i = 0; i < n; i++)
        attn_element_add(to, elem, i, attn_element(from, elem, i));
}

static inline void attn_elements_fill(void *x, size_t elem, double value, size_t n) {
    for (size_t i = 0; i < n; i++)
        attn_element_set(x, elem, i, value);
}

/* Converts n elements of src, of type `dtype` and `stride` elements apart, to elements of dst. */
static inline void attn_elements_widen(void *dst, size_t elem, const void *src, attn_dtype dtype,
                                       ptrdiff_t stride, size_t n) {
    if (elem == sizeof(float))
        attn_widen_f32(dst, src, dtype, stride, n);
    else
        attn_widen_f64(dst, src, dtype, stride, n);
}

/* Returns a number of any type as a double. */
static inline double attn_number_at(const void *at, attn_dtype dtype) {
    double x;
    attn_widen_f64(&x, at, dtype, 1, 1);
    return x;
}

/* Returns element [i, j] of a matrix, or element i of a list. */
static inline double attn_tensor_number(const attn_tensor *t, size_t i, size_t j) {
    ptrdiff_t at = (ptrdiff_t)i * t->strides[0] + (t->rank > 1 ? (ptrdiff_t)j * t->strides[1] : 0);
    return attn_number_at((const char *)t->data + at * (ptrdiff_t)attn_dtype_size(t->dtype),
                          t->dtype);
}

#endif
