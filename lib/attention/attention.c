/* From inputs to the resolved operation: canonical views, compiled mask, scale, kernel table; and
 * the reading of input rows through those views. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/attention_private.h"

/* A view [B, H, rows, width] of a tensor in a layout; batch axes of size 1 have stride 0. */
static bool make_view(const attn_attention *a, const attn_tensor *t, attn_layout layout,
                      attn_arena *arena, attn_view *view) {
    const int r = t->rank, n = a->dims.batch_rank;
    ptrdiff_t batch[ATTN_MAX_RANK];
    *view = (attn_view){.data = t->data, .dtype = t->dtype, .col = t->strides[r - 1]};
    for (int i = 0; i < n; i++)
        batch[i] = t->dims[i] == 1 ? 0 : t->strides[i];
    switch (layout) {
    case ATTN_BHLE:
        view->row = t->strides[r - 2];
        view->head = r > n + 2 ? t->strides[r - 3] : 0;
        break;
    case ATTN_BLHE:
        view->row = t->strides[r - 3];
        view->head = t->strides[r - 2];
        break;
    case ATTN_BLD:
        view->row = t->strides[r - 2];
        view->head = 0; /* set by the caller, who knows the width */
        break;
    }
    view->batch = attn_view_batches(arena, a->dims.batch, n, batch);
    return view->batch != NULL;
}

static bool same_for_all(const ptrdiff_t *offsets, size_t B) {
    for (size_t b = 1; b < B; b++)
        if (offsets[b] != offsets[0])
            return false;
    return true;
}

static bool make_views(attn_attention *a, attn_arena *arena) {
    const attn_inputs *in = &a->in;
    const attn_attention_dims *d = &a->dims;
    const attn_tensor *key = in->key.rank ? &in->key : &in->query;
    const attn_tensor *value = in->value.rank ? &in->value : key;
    if (!make_view(a, &in->query, in->layout, arena, &a->query) ||
        !make_view(a, key, in->layout, arena, &a->key) ||
        !make_view(a, value, in->layout, arena, &a->value))
        return false;
    if (in->layout == ATTN_BLD) {
        a->query.head = (ptrdiff_t)d->E * a->query.col;
        a->key.head = (ptrdiff_t)d->Ek * a->key.col;
        a->value.head = (ptrdiff_t)d->Ev * a->value.col;
    }
    if (d->past && (!make_view(a, &in->past_key, ATTN_BHLE, arena, &a->past_key) ||
                    !make_view(a, &in->past_value, ATTN_BHLE, arena, &a->past_value)))
        return false;
    a->out_head = (ptrdiff_t)(in->layout == ATTN_BHLE ? d->L * d->Ev : d->Ev);
    a->out_row = (ptrdiff_t)(in->layout == ATTN_BHLE ? d->Ev : d->Hq * d->Ev);
    bool shared = same_for_all(a->key.batch, d->B) && same_for_all(a->value.batch, d->B);
    if (d->past)
        shared &= same_for_all(a->past_key.batch, d->B) && same_for_all(a->past_value.batch, d->B);
    a->sets = shared && d->B ? 1 : d->B;
    return true;
}

static attn_status check_numbers(const attn_inputs *in, attn_error *err) {
    if (isinf(in->scale))
        return attn_fail(err, ATTN_EARG, "scale", "expected a finite number");
    if (!isfinite(in->softcap) || in->softcap < 0)
        return attn_fail(err, ATTN_EARG, "softcap",
                         "expected a positive number, or 0 for none; found %g", in->softcap);
    if (!(in->dropout_p >= 0 && in->dropout_p < 1))
        return attn_fail(err, ATTN_EARG, "dropout_p", "expected a probability in [0, 1), found %g",
                         in->dropout_p);
    return ATTN_OK;
}

static attn_status read_sinks(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_tensor *t = &a->in.sinks;
    if (!t->rank)
        return ATTN_OK;
    if (t->rank != 1 || t->dims[0] != a->dims.Hq)
        return attn_fail(err, ATTN_ESHAPE, "sinks", "expected one logit a query head, shape [%zu]",
                         a->dims.Hq);
    double *sinks = attn_arena_zeroed(arena, a->dims.Hq, sizeof *sinks);
    if (!sinks)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the operation");
    attn_widen_f64(sinks, t->data, t->dtype, t->strides[0], a->dims.Hq);
    for (size_t h = 0; h < a->dims.Hq; h++)
        if (!isfinite(sinks[h]))
            return attn_fail(err, ATTN_EVALUE, "sinks", "expected finite numbers");
    a->sinks = sinks;
    return ATTN_OK;
}

attn_status attn_attention_new(const attn_inputs *in, attn_arena *arena, attn_attention **out,
                               attn_error *err) {
    attn_attention *a = attn_arena_small(arena, sizeof *a);
    if (!a)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the operation");
    *a = (attn_attention){.in = *in};
    attn_status status = attn_attention_shape(in, &a->dims, err);
    if (status == ATTN_OK)
        status = check_numbers(in, err);
    if (status != ATTN_OK)
        return status;
    const attn_attention_dims *d = &a->dims;
    a->kernels = d->result == ATTN_F64 ? attn_kernels_of(ATTN_ISA_REF) : attn_kernels_current();
    const bool unit = attn_score_form_of(in->score.kind)->unit_scale;
    a->scale = !isnan(in->scale) ? in->scale : unit ? 1 : 1 / sqrt((double)(d->E ? d->E : 1));
    if (!make_views(a, arena))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the operation");
    attn_mask_shape shape = {.batch_rank = d->batch_rank,
                             .has_heads = d->has_heads,
                             .H = d->Hq,
                             .L = d->L,
                             .S = d->S,
                             .past = d->past};
    memcpy(shape.batch, d->batch, sizeof shape.batch);
    status = attn_mask_new(&in->mask, &shape, arena, &a->mask, err);
    if (status == ATTN_OK)
        status = read_sinks(a, arena, err);
    if (status == ATTN_OK)
        status = attn_position_new(a, arena, err);
    if (status == ATTN_OK)
        status = attn_prepare(a, arena, err);
    if (status == ATTN_OK)
        *out = a;
    return status;
}

const attn_attention_dims *attn_attention_dims_of(const attn_attention *a) {
    return &a->dims;
}
const attn_mask *attn_attention_mask(const attn_attention *a) {
    return a->mask;
}
const char *attn_attention_kernel(const attn_attention *a) {
    return a->kernels->name;
}

/* --- rows of the inputs --- */

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
