/* Converts boolean masks of any form to bits, where 1 means visible, if they have at least two axes
 * and the last has one element for each key. Other masks become tensors of booleans. */
#include <string.h>

#include "attention/resolved.h"
#include "base/try.h"
#include "base/view.h"
#include "runs/private.h"

bool attn_run_mask_is_boolean(const attn_mask_layer *layer) {
    return layer->kind == ATTN_LAYER_VALUES &&
           (layer->values.dtype == ATTN_BOOL || layer->values.dtype == ATTN_BITS ||
            layer->semantics == ATTN_SEM_KEEP || layer->semantics == ATTN_SEM_HIDE ||
            layer->semantics == ATTN_SEM_NONZERO);
}

/* Returns whether element j of a row is not 0. */
static bool is_set(const attn_tensor *t, const char *row, size_t j) {
    const ptrdiff_t step = t->strides[t->rank - 1] * (ptrdiff_t)attn_dtype_size(t->dtype);
    return t->dtype == ATTN_BITS ? ((const uint8_t *)row)[j / 8] >> j % 8 & 1
                                 : attn_number_at(row + (ptrdiff_t)j * step, t->dtype) != 0;
}

/* Converts a row of a boolean mask to visibility (1: visible), as bits if `bits` is true, else as
 * bytes. */
static void pack_row(const attn_mask_layer *layer, const char *from, uint8_t *to, bool bits) {
    const attn_tensor *t = &layer->values;
    const size_t n = t->dims[t->rank - 1];
    if (bits)
        memset(to, 0, (n + 7) / 8);
    for (size_t j = 0; j < n; j++) {
        const bool visible = is_set(t, from, j) != (layer->semantics == ATTN_SEM_HIDE);
        if (!bits)
            to[j] = visible;
        else if (visible)
            to[j / 8] |= (uint8_t)(1u << j % 8);
    }
}

attn_status attn_run_mask_pack(attn_mask_layer *layer, size_t S, attn_arena *arena,
                               attn_error *err) {
    const attn_tensor *t = &layer->values;
    const size_t n = t->dims[t->rank - 1];
    const bool bits = t->rank >= 2 && n == S;
    const size_t row_bytes = bits ? (n + 7) / 8 : n;
    size_t rows, bytes, dims[ATTN_MAX_RANK];
    uint8_t *data = attn_dense_rows(t, &rows) && attn_size_mul(rows, row_bytes, &bytes)
                        ? attn_arena_take(arena, bytes)
                        : NULL;
    ATTN_TAKEN(data, "the stored run", err);
    for (size_t r = 0; r < rows; r++)
        pack_row(layer, attn_dense_row(t, r), data + r * row_bytes, bits);
    memcpy(dims, t->dims, sizeof dims);
    dims[t->rank - 1] = row_bytes;
    layer->values = attn_tensor_dense(data, bits ? ATTN_U8 : ATTN_BOOL, t->rank, dims);
    layer->kind = bits ? ATTN_LAYER_BITS : ATTN_LAYER_VALUES;
    layer->semantics = ATTN_SEM_KEEP;
    return ATTN_OK;
}
