/* Access to tensors of any strides: views by (batch, head, row, column), rows, dense copies.
 * tensor.c defines these functions. */
#ifndef ATTN_VIEW_H
#define ATTN_VIEW_H

#include <attn/memory.h>
#include <attn/status.h>
#include <attn/tensor.h>

/* Element (b, h, i, j) lies at data + batch[b] + h*head + i*row + j*col, in elements. */
typedef struct attn_view {
    const void *data;
    attn_dtype dtype;
    const ptrdiff_t *batch; /* the offset of each flattened batch entry */
    ptrdiff_t head, row, col;
} attn_view;

/* Returns the address of an element. */
const void *attn_view_at(const attn_view *v, size_t b, size_t h, size_t i, size_t j);

/* Computes the offsets of the B = product(batch[0 … rank - 1]) batch entries, in the arena. Axis a
 * of the batch has stride strides[a], which is 0 if the tensor is broadcast. NULL: out of memory.
 */
const ptrdiff_t *attn_view_batches(attn_arena *arena, const size_t *batch, int rank,
                                   const ptrdiff_t *strides);

/* Returns row r of a tensor. A row is the last axis, and r counts row-major over the other axes. */
const void *attn_dense_row(const attn_tensor *t, size_t r);
/* Computes the number of rows. false: overflow. */
bool attn_dense_rows(const attn_tensor *t, size_t *rows);
/* Returns the elements as dense float32 or float64. If the tensor has that form, the result is its
 * own memory, else a copy in the arena. NULL: out of memory. */
void *attn_dense_copy(const attn_tensor *t, attn_dtype dtype, attn_arena *arena);
/* Makes a dense, zeroed tensor of t's shape for the sum of a gradient. */
attn_status attn_dense_zeros(const attn_tensor *t, attn_dtype dtype, attn_arena *arena,
                             attn_tensor *out, attn_error *err);

#endif
