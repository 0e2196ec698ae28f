/* Rows of the inputs, read in place where they can be, and the paths of their elements. */
#include <stdio.h>

#include "attention/attention_private.h"

static void widen_row(const attn_view *v, const void *from, size_t width, size_t elem, void *to) {
    if (elem == sizeof(float))
        attn_widen_f32(to, from, v->dtype, v->col, width);
    else
        attn_widen_f64(to, from, v->dtype, v->col, width);
}

static bool readable_in_place(const attn_view *v, size_t elem) {
    return v->col == 1 && v->dtype == (elem == sizeof(float) ? ATTN_F32 : ATTN_F64) && v->row >= 0;
}

const void *attn_view_rows(const attn_view *past, size_t past_rows, const attn_view *v, size_t b,
                           size_t h, size_t j0, size_t n, size_t width, size_t elem, void *scratch,
                           size_t *ld) {
    if (j0 >= past_rows && readable_in_place(v, elem)) {
        *ld = (size_t)v->row;
        return attn_view_at(v, b, h, j0 - past_rows, 0);
    }
    if (j0 + n <= past_rows && readable_in_place(past, elem)) {
        *ld = (size_t)past->row;
        return attn_view_at(past, b, h, j0, 0);
    }
    for (size_t k = 0; k < n; k++) {
        const size_t j = j0 + k;
        const attn_view *from = j < past_rows ? past : v;
        widen_row(from, attn_view_at(from, b, h, j < past_rows ? j : j - past_rows, 0), width, elem,
                  (char *)scratch + k * width * elem);
    }
    *ld = width;
    return scratch;
}

const void *attn_key_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                          size_t elem, void *scratch, size_t *ld) {
    return attn_view_rows(&a->past_key, a->score_past, &a->score_key, b, hkv, j0, n,
                          a->dims.score_width, elem, scratch, ld);
}

const void *attn_value_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                            size_t elem, void *scratch, size_t *ld) {
    return attn_view_rows(&a->past_value, a->dims.past, &a->value, b, hkv, j0, n, a->dims.Ev, elem,
                          scratch, ld);
}

const void *attn_query_rows(const attn_attention *a, size_t b, size_t h, size_t i0, size_t n,
                            size_t elem, void *scratch, size_t *ld) {
    return attn_view_rows(NULL, 0, &a->score_query, b, h, i0, n, a->dims.score_width, elem, scratch,
                          ld);
}

void attn_element_path(const attn_attention *a, char which, size_t b, size_t h, size_t row,
                       size_t col, char path[96]) {
    const attn_inputs *in = &a->in;
    const bool cached = which != 'q' && row < a->dims.past;
    const char *name = which == 'q'   ? "query"
                       : which == 'k' ? (cached         ? "past_key"
                                         : in->key.rank ? "key"
                                                        : "query")
                                      : (cached           ? "past_value"
                                         : in->value.rank ? "value"
                                         : in->key.rank   ? "key"
                                                          : "query");
    const attn_tensor *t = which == 'q'   ? &in->query
                           : which == 'k' ? (cached ? &in->past_key : &in->key)
                                          : (cached ? &in->past_value : &in->value);
    const attn_layout layout = cached ? ATTN_BHLE : in->layout;
    size_t index[ATTN_MAX_RANK], count = 0, rest = b;
    for (int i = a->dims.batch_rank - 1; i >= 0; i--) {
        bool one = t->rank && t->dims[i] == 1;
        index[i] = one ? 0 : rest % a->dims.batch[i];
        rest /= a->dims.batch[i];
    }
    count = (size_t)a->dims.batch_rank;
    if (which != 'q' && !cached)
        row -= a->dims.past;
    if (layout == ATTN_BHLE && (a->dims.has_heads || in->layout != ATTN_BHLE))
        index[count++] = h;
    index[count++] = row;
    if (layout == ATTN_BLHE)
        index[count++] = h;
    index[count++] = layout == ATTN_BLD ? h * (which == 'v'   ? a->dims.Ev
                                               : which == 'k' ? a->dims.Ek
                                                              : a->dims.E) +
                                              col
                                        : col;
    int used = snprintf(path, 96, "%s", name);
    for (size_t i = 0; i < count && used > 0 && used < 96; i++)
        used += snprintf(path + used, 96 - (size_t)used, "/%zu", index[i]);
}
