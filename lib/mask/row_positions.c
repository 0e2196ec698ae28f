#include "mask/row_positions.h"

#include <attn/text.h>
#include <stdio.h>

#include "base/try.h"
#include "base/view.h"

#define FARTHEST (INT64_C(1) << 40)

attn_status attn_row_positions_check(const attn_tensor *t, const char *where, const char *what,
                                     size_t rows, size_t B, attn_error *err) {
    char have[128];
    const bool list = t->rank == 1 && t->dims[0] == rows;
    if (!list && !(t->rank == 2 && t->dims[1] == rows && (t->dims[0] == 1 || t->dims[0] == B)))
        return attn_fail(
            err, ATTN_ESHAPE, where,
            "expected positions of the %zu %s, [%zu] or [%zu, %zu] with a row for each "
            "batch entry; found %s",
            rows, what, rows, B, rows, attn_shape_text(t->dims, t->rank, have, sizeof have));
    if (t->dtype != ATTN_I64 && t->dtype != ATTN_I32)
        return attn_fail(err, ATTN_EDTYPE, where, "expected integers (int32 or int64), found %s",
                         attn_dtype_name(t->dtype));
    return ATTN_OK;
}

static int64_t integer_at(const attn_tensor *t, size_t row, size_t col) {
    const char *at =
        (const char *)attn_dense_row(t, row) +
        (ptrdiff_t)col * t->strides[t->rank - 1] * (ptrdiff_t)attn_dtype_size(t->dtype);
    return t->dtype == ATTN_I64 ? *(const int64_t *)(const void *)at
                                : *(const int32_t *)(const void *)at;
}

static attn_status refuse(const attn_tensor *t, const char *where, size_t row, size_t col,
                          int64_t found, attn_error *err) {
    char path[96];
    if (t->rank == 1)
        snprintf(path, sizeof path, "%s/%zu", where, col);
    else
        snprintf(path, sizeof path, "%s/%zu/%zu", where, row, col);
    return attn_fail(err, ATTN_EVALUE, path, "a position lies within ±2^40, found %lld",
                     (long long)found);
}

attn_status attn_sequence_positions_read(const attn_tensor *t, const char *where,
                                         const int64_t *offsets, attn_arena *arena,
                                         attn_sequence_positions *out, attn_error *err) {
    *out = (attn_sequence_positions){.offsets = offsets};
    if (!t->rank)
        return ATTN_OK;
    const size_t entries = t->rank == 2 ? t->dims[0] : 1, rows = t->dims[t->rank - 1];
    int64_t *copy = attn_arena_array(arena, entries, rows * sizeof *copy);
    ATTN_TAKEN(copy, "positions", err);
    for (size_t n = 0; n < entries * rows; n++) {
        copy[n] = integer_at(t, n / rows, n % rows);
        if (copy[n] != ATTN_NO_POSITION && (copy[n] > FARTHEST || copy[n] < -FARTHEST))
            return refuse(t, where, n / rows, n % rows, copy[n], err);
    }
    out->given = copy;
    out->entry = entries > 1 ? rows : 0;
    return ATTN_OK;
}
