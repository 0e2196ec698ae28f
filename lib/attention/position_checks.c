/* Checks of tensors that are parameters of positions (position_checks.h). */
#include "attention/position_checks.h"

#include <math.h>
#include <stdio.h>

#include "base/element.h"
#include "base/try.h"
#include "base/view.h"

/* Returns an error about element n, in row-major order. */
static attn_status refuse_element(const attn_tensor *t, const char *where, size_t n,
                                  attn_error *err) {
    size_t index[ATTN_MAX_RANK];
    char path[128];
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        index[axis] = n % t->dims[axis];
        n /= t->dims[axis];
    }
    int used = snprintf(path, sizeof path, "%s", where);
    for (int axis = 0; axis < t->rank; axis++)
        used += snprintf(path + used, sizeof path - (size_t)used, "/%zu", index[axis]);
    return attn_fail(err, ATTN_ENONFINITE, path, "expected finite numbers");
}

attn_status attn_position_check_finite(const attn_tensor *t, const char *where, attn_error *err) {
    const size_t width = t->dims[t->rank - 1];
    size_t rows;
    if (!attn_dense_rows(t, &rows))
        return attn_fail(err, ATTN_ELIMIT, where, "too many elements");
    for (size_t r = 0; width && r < rows; r++) {
        const attn_tensor row = {.data = (void *)(uintptr_t)attn_dense_row(t, r),
                                 .dtype = t->dtype,
                                 .rank = 1,
                                 .strides = {t->strides[t->rank - 1]}};
        for (size_t i = 0; i < width; i++)
            if (!isfinite(attn_tensor_number(&row, i, 0)))
                return refuse_element(t, where, r * width + i, err);
    }
    return ATTN_OK;
}

attn_status attn_position_check_odd(const attn_tensor *t, const char *where, int axis,
                                    attn_error *err) {
    if (t->dims[axis] % 2 == 1)
        return ATTN_OK;
    return attn_fail(err, ATTN_ESHAPE, where,
                     "a relative table holds 2m + 1 distances, an odd number; found %zu",
                     t->dims[axis]);
}

attn_status attn_position_check(const attn_tensor *t, const char *where, int rank, int axis,
                                size_t expected, const char *other, attn_error *err) {
    char have[128], want[96];
    const char *first = axis == 1 ? other : "", *last = axis == 0 && rank == 2 ? other : "";
    snprintf(want, sizeof want, "[%s%s%zu%s%s]", first, *first ? ", " : "", expected,
             *last ? ", " : "", last);
    if (!t->rank)
        return attn_fail(err, ATTN_EARG, where,
                         "this kind of position needs this table, of shape %s", want);
    attn_found_text(t, have, sizeof have);
    if (t->rank != rank || t->dims[axis] != expected)
        return attn_fail(err, ATTN_ESHAPE, where, "expected a table of shape %s, found %s", want,
                         have);
    if (t->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, where, "expected floating-point numbers");
    return attn_position_check_finite(t, where, err);
}

attn_status attn_position_check_heads(const attn_tensor *t, const char *where, size_t H,
                                      size_t width, const char *rows, attn_error *err) {
    char have[128];
    if (t->rank != 3)
        return attn_position_check(t, where, 2, 1, width, rows, err);
    if (t->dims[0] != H || t->dims[2] != width)
        return attn_fail(err, ATTN_ESHAPE, where,
                         "expected a table of shape [%s, %zu], or [%zu, %s, %zu] with one of each "
                         "head; found %s",
                         rows, width, H, rows, width, attn_found_text(t, have, sizeof have));
    if (t->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, where, "expected floating-point numbers");
    return attn_position_check_finite(t, where, err);
}
