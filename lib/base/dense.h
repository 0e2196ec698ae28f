/* Rows of tensors of any strides, and dense copies of them. */
#ifndef ATTN_DENSE_H
#define ATTN_DENSE_H

#include <attn/memory.h>
#include <attn/status.h>
#include <attn/tensor.h>

/* Row r of a tensor whose last axis is a row, counted row-major over the other axes. */
const void *attn_dense_row(const attn_tensor *t, size_t r);
/* How many rows there are; false on overflow. */
bool attn_dense_rows(const attn_tensor *t, size_t *rows);
/* The elements as dense float32 or float64: in place where they are, else in the arena. NULL: out
 * of memory. */
void *attn_dense_copy(const attn_tensor *t, attn_dtype dtype, attn_arena *arena);
/* A dense tensor of t's shape, zeroed: where a gradient of t is summed. */
attn_status attn_dense_zeros(const attn_tensor *t, attn_dtype dtype, attn_arena *arena,
                             attn_tensor *out, attn_error *err);

#endif
