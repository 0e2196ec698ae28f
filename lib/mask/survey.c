#include "mask/survey.h"

#include <math.h>
#include <stdio.h>

#include "base/view.h"

size_t attn_survey_rows(const attn_tensor *t) {
    size_t rows = 1;
    for (int a = 0; a < t->rank - 1; a++)
        rows *= t->dims[a];
    return t->dims[t->rank - 1] ? rows : 0;
}

void attn_survey_path(const attn_mask_layer *layer, size_t row, size_t j, char path[96]) {
    const attn_tensor *t = &layer->values;
    size_t index[ATTN_MAX_RANK];
    index[t->rank - 1] = j;
    for (int a = t->rank - 2; a >= 0; a--) {
        index[a] = row % t->dims[a];
        row /= t->dims[a];
    }
    int used = snprintf(path, 96, "%s", layer->where);
    for (int a = 0; a < t->rank && used > 0 && used < 96; a++)
        used += snprintf(path + used, 96 - (size_t)used, "/%zu", index[a]);
}

attn_survey attn_survey_of(const attn_tensor *t) {
    attn_survey s = {.only_bits = true};
    const size_t rows = attn_survey_rows(t), width = t->dims[t->rank - 1];
    const ptrdiff_t stride = t->strides[t->rank - 1];
    const size_t bytes = attn_dtype_size(t->dtype);
    for (size_t r = 0; r < rows && !s.bad; r++) {
        const char *row = attn_dense_row(t, r);
        for (size_t j = 0; j < width && !s.bad; j += ATTN_SURVEY_STEP) {
            double x[ATTN_SURVEY_STEP];
            size_t n = width - j < ATTN_SURVEY_STEP ? width - j : ATTN_SURVEY_STEP;
            attn_widen_f64(x, row + (ptrdiff_t)j * stride * (ptrdiff_t)bytes, t->dtype, stride, n);
            for (size_t k = 0; k < n; k++) {
                if (s.only_bits && x[k] != 0 && x[k] != 1) {
                    s.only_bits = false;
                    s.other_row = r, s.other_col = j + k, s.other = x[k];
                }
                s.ones = s.ones || x[k] == 1;
                if (x[k] < s.lowest && !isinf(x[k]))
                    s.lowest = x[k];
                if (!s.bad && !(x[k] < INFINITY)) {
                    s.bad = true;
                    s.bad_row = r, s.bad_col = j + k, s.worst = x[k];
                }
            }
        }
    }
    return s;
}
