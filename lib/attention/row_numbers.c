/* Numbers by row: tensors with a number for each head, query or row of the weights, such as sinks and
 * scales. */
#include <attn/text.h>
#include <math.h>
#include <stdio.h>

#include "attention/resolved.h"
#include "base/try.h"

/* Returns the axis of a tensor by row that stands for axis `axis` of the logsumexp's shape with a
 * head axis, [batch axes, Hq, L]. -1: there is no such axis, since the tensor is broadcast along
 * it. */
static int axis_of_rows(const attn_attention_dims *d, const attn_tensor *t, int axis) {
    const int head = d->batch_rank;
    if (t->rank == 1 && t->dims[0] == d->Hq)
        return axis == head ? 0 : -1;
    if (!d->has_heads && axis == head)
        return -1;
    const int behind = head + 1 - axis - (!d->has_heads && axis < head); /* axes behind this one */
    const int at = t->rank - 1 - behind;
    return at < 0 || t->dims[at] == 1 ? -1 : at;
}

attn_status attn_check_by_row(const char *where, const attn_tensor *t, attn_attention_dims *d,
                              attn_error *err) {
    char rows[128], have[128];
    size_t count;
    const int missing = d->rows_rank - t->rank;
    bool fits = t->rank > 1 || t->dims[0] == d->Hq || (d->Hq == 1 && t->dims[0] == d->L);
    for (int a = 0; t->rank > 1 && fits && a < t->rank; a++)
        fits = t->dims[a] == 1 || (a + missing >= 0 && t->dims[a] == d->rows[a + missing]);
    if (!fits)
        return attn_fail(err, ATTN_ESHAPE, where,
                         "expected one number for each query head, shape [%zu], or a shape of 2 or "
                         "more axes that is broadcast to the logsumexp's, %s, such as [1, %zu] for "
                         "one number a query; found %s",
                         d->Hq, attn_shape_text(d->rows, d->rows_rank, rows, sizeof rows), d->L,
                         attn_found_text(t, have, sizeof have));
    if (t->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, where, "expected floating-point numbers, found %s",
                         attn_dtype_name(t->dtype));
    return attn_tensor_count(t, &count) && attn_size_add(d->by_row, count, &d->by_row)
               ? ATTN_OK
               : attn_fail(err, ATTN_ELIMIT, where, "too many elements");
}

/* Returns the index of a number that is not finite. Only rows that see a key count, or with all =
 * true every row. SIZE_MAX: there is none. */
static size_t find_bad(const attn_attention *a, const attn_row_numbers *n, bool all) {
    const attn_attention_dims *d = &a->dims;
    for (size_t b = 0; b < d->B; b++)
        for (size_t h = 0; h < d->Hq; h++)
            for (size_t i = 0; i < d->L; i++) {
                const size_t at = attn_row_number(n, b, h, i);
                if (!isfinite(n->values[at]) && (all || attn_mask_sees_any(a->mask, b, h, i)))
                    return at;
            }
    return SIZE_MAX;
}

/* Returns an error about element `at`, in row-major order, of a tensor. */
static attn_status refuse_bad(const char *where, const attn_tensor *t, size_t at, attn_error *err) {
    size_t index[ATTN_MAX_RANK];
    char path[96];
    int n = snprintf(path, sizeof path, "%.16s", where);
    for (int axis = t->rank - 1; axis >= 0; at /= t->dims[axis--])
        index[axis] = at % t->dims[axis];
    for (int axis = 0; axis < t->rank && n > 0 && (size_t)n < sizeof path; axis++)
        n += snprintf(path + n, sizeof path - (size_t)n, "/%zu", index[axis]);
    return attn_fail(err, ATTN_ENONFINITE, path,
                     "NaN or infinity where a finite number is expected");
}

attn_status attn_read_by_row(const attn_attention *a, const char *where, const attn_tensor *t,
                             bool seeing, attn_arena *arena, attn_row_numbers *out, double *most,
                             attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    const attn_tensor dense = attn_tensor_dense(NULL, ATTN_F64, t->rank, t->dims);
    ptrdiff_t strides[ATTN_MAX_RANK + 1];
    size_t count = 0;
    for (int axis = 0; axis < d->batch_rank + 2; axis++) {
        const int at = axis_of_rows(d, t, axis);
        strides[axis] = at < 0 ? 0 : dense.strides[at];
    }
    double *values = attn_dense_copy(t, ATTN_F64, arena);
    out->values = values;
    out->batch = attn_view_batches(arena, d->batch, d->batch_rank, strides);
    out->head = strides[d->batch_rank];
    out->row = strides[d->batch_rank + 1];
    ATTN_TAKEN(out->values && out->batch, "the operation", err);
    attn_tensor_count(t, &count);
    *most = 0;
    bool bad = false;
    for (size_t n = 0; n < count; n++) {
        bad |= !isfinite(values[n]);
        if (isfinite(values[n]) && fabs(values[n]) > fabs(*most))
            *most = values[n];
    }
    const size_t at = bad ? find_bad(a, out, !seeing) : SIZE_MAX;
    if (at != SIZE_MAX)
        return refuse_bad(where, t, at, err);
    for (size_t n = 0; bad && n < count; n++)
        values[n] = isfinite(values[n]) ? values[n] : 0;
    return ATTN_OK;
}
