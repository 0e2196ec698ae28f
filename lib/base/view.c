/* Access to strided tensors: offsets of batch entries, rows, dense copies. */
#include "base/view.h"

const ptrdiff_t *attn_view_batches(attn_arena *arena, const size_t *batch, int rank,
                                   const ptrdiff_t *strides) {
    static const ptrdiff_t one_entry[] = {0};
    size_t B = 1, bytes;
    for (int a = 0; a < rank; a++)
        if (!attn_size_mul(B, batch[a], &B))
            return NULL;
    if (B == 1)
        return one_entry;
    if (!attn_size_mul(B, sizeof(ptrdiff_t), &bytes))
        return NULL;
    ptrdiff_t *offsets = attn_arena_take(arena, bytes);
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

void *attn_dense_copy(const attn_tensor *t, attn_dtype dtype, attn_arena *arena) {
    const size_t elem = attn_dtype_size(dtype), width = t->dims[t->rank - 1];
    size_t count, bytes, rows;
    if (!attn_tensor_count(t, &count) || !attn_size_mul(count, elem, &bytes) ||
        !attn_dense_rows(t, &rows))
        return NULL;
    if (t->dtype == dtype && attn_tensor_is_dense(t))
        return t->data;
    char *copy = attn_arena_take(arena, bytes);
    for (size_t r = 0; copy && width && r < rows; r++) {
        void *to = copy + r * width * elem;
        if (dtype == ATTN_F32)
            attn_widen_f32(to, attn_dense_row(t, r), t->dtype, t->strides[t->rank - 1], width);
        else
            attn_widen_f64(to, attn_dense_row(t, r), t->dtype, t->strides[t->rank - 1], width);
    }
    return copy;
}

attn_status attn_dense_zeros(const attn_tensor *t, attn_dtype dtype, attn_arena *arena,
                             attn_tensor *out, attn_error *err) {
    size_t count;
    *out = attn_tensor_dense(NULL, dtype, t->rank, t->dims);
    if (!attn_tensor_count(out, &count) ||
        !(out->data = attn_arena_zeroed(arena, count, attn_dtype_size(dtype))))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for gradients");
    return ATTN_OK;
}
