/* Checks of tensors that are parameters of positions (position_checks.h). */
#include "attention/position_checks.h"

#include <math.h>
#include <stdio.h>

#include "base/element.h"
#include "base/try.h"

attn_status attn_position_check_finite(const attn_tensor *t, const char *where, attn_error *err) {
    for (size_t i = 0; i < t->dims[0]; i++)
        for (size_t j = 0; j < (t->rank > 1 ? t->dims[1] : 1); j++)
            if (!isfinite(attn_tensor_number(t, i, j))) {
                char path[96];
                int used = snprintf(path, sizeof path, "%s/%zu", where, i);
                if (t->rank > 1)
                    snprintf(path + used, sizeof path - (size_t)used, "/%zu", j);
                return attn_fail(err, ATTN_ENONFINITE, path, "expected finite numbers");
            }
    return ATTN_OK;
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
    if (rank == 2 && t->rank == 3 && axis == 1 && t->dims[2] == expected)
        return attn_fail(err, ATTN_ESHAPE, where,
                         "expected a table of shape %s, found %s: all heads share one table, so a "
                         "table of each head needs a request of each head",
                         want, have);
    if (t->rank != rank || t->dims[axis] != expected)
        return attn_fail(err, ATTN_ESHAPE, where, "expected a table of shape %s, found %s", want,
                         have);
    if (t->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, where, "expected floating-point numbers");
    return attn_position_check_finite(t, where, err);
}
