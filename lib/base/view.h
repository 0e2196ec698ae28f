/* Views by (batch, head, row, column): how the attention room looks at a tensor of any rank. */
#ifndef ATTN_VIEW_H
#define ATTN_VIEW_H

#include <attn/memory.h>
#include <attn/tensor.h>

/* Element (b, h, i, j) lies at data + batch[b] + h*head + i*row + j*col, in elements. */
typedef struct attn_view {
    const void *data;
    attn_dtype dtype;
    const ptrdiff_t *batch; /* one offset a flattened batch entry */
    ptrdiff_t head, row, col;
} attn_view;

static inline const void *attn_view_at(const attn_view *v, size_t b, size_t h, size_t i, size_t j) {
    ptrdiff_t at =
        v->batch[b] + (ptrdiff_t)h * v->head + (ptrdiff_t)i * v->row + (ptrdiff_t)j * v->col;
    return (const char *)v->data + at * (ptrdiff_t)attn_dtype_size(v->dtype);
}

/* Offsets of the B = product(batch[0 … rank - 1]) batch entries: axis a of the batch has stride
 * strides[a] (0 where the tensor is broadcast). Arena memory; NULL when out of memory. */
const ptrdiff_t *attn_view_batches(attn_arena *arena, const size_t *batch, int rank,
                                   const ptrdiff_t *strides);

#endif
