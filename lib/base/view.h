/* Access to strided tensors: views with the indices (batch, head, row, column), rows, dense copies.
 * tensor.c defines the functions. */
#ifndef ATTN_VIEW_H
#define ATTN_VIEW_H

#include <attn/memory.h>
#include <attn/status.h>
#include <attn/tensor.h>

#include "base/element.h"

/* A tensor with the indices (b, h, i, j). All batch axes are flattened to the one index b. Element
 * (b, h, i, j) is element number batch[b] + h*head + i*row + j*col from `data` on. */
typedef struct attn_view {
    const void *data;
    attn_dtype dtype;
    const ptrdiff_t *batch;   /* offset of each batch entry, in elements */
    ptrdiff_t head, row, col; /* strides, in elements; 0: the axis is broadcast */
} attn_view;

/* Returns the address of element (b, h, i, j). */
const void *attn_view_at(const attn_view *v, size_t b, size_t h, size_t i, size_t j);

/* Computes the array attn_view.batch in the arena. `batch` has the lengths of the `rank` batch
 * axes, and `strides` their strides in elements (0: the axis is broadcast). The array has one
 * offset for each of the batch[0] * … * batch[rank - 1] entries. NULL: out of memory. */
const ptrdiff_t *attn_view_batches(attn_arena *arena, const size_t *batch, int rank,
                                   const ptrdiff_t *strides);

/* Returns the address of the first element of row r of a tensor. A row runs along the last axis,
 * and r numbers the rows in row-major order of the other axes. */
const void *attn_dense_row(const attn_tensor *t, size_t r);
/* Computes the number of rows of a tensor. Returns false if it exceeds SIZE_MAX. */
bool attn_dense_rows(const attn_tensor *t, size_t *rows);
/* Returns the elements of a tensor as dense float32 or float64 (`dtype`). If the tensor already has
 * this form, the result is t->data, else a copy in the arena. NULL: out of memory. */
void *attn_dense_copy(const attn_tensor *t, attn_dtype dtype, attn_arena *arena);
/* Stores n doubles as elements at … at + n - 1 of a dense tensor of float32 or float64. */
void attn_dense_store(const attn_tensor *t, size_t at, const double *x, size_t n);
/* Makes a dense tensor of zeros with the shape of t in the arena. Errors: ATTN_ENOMEM. */
attn_status attn_dense_zeros(const attn_tensor *t, attn_dtype dtype, attn_arena *arena,
                             attn_tensor *out, attn_error *err);

#endif
