/* Visits the bytes of an image from which a head is computed. Only these bytes are checked before
 * they are used, so that a request about one head does not read a run of gigabytes. */
#include <attn/input_rows.h>

#include "attention/resolved.h"
#include "runs/private.h"

typedef struct visitor {
    const attn_run_site *site;
    size_t batch, head; /* SIZE_MAX: all batch entries, or all heads */
    bool (*visit)(void *ctx, const void *from, size_t bytes);
    void *ctx;
} visitor;

/* Visits all elements of a tensor. */
static bool visit_tensor(const visitor *v, const attn_tensor *t) {
    size_t count;
    if (!t->rank || !attn_tensor_count(t, &count) || !count)
        return true;
    return v->visit(v->ctx, t->data, count * attn_dtype_size(t->dtype));
}

/* Visits the rows of one head of an operand. If the heads of a row are side by side in memory, the
 * bytes of other heads between them are visited, too. */
static bool visit_rows(const visitor *v, const attn_view *view, size_t b, size_t h, size_t rows,
                       size_t width) {
    if (!rows || !width)
        return true;
    const char *from = attn_view_at(view, b, h, 0, 0);
    const char *last = attn_view_at(view, b, h, rows - 1, width - 1);
    return v->visit(v->ctx, from, (size_t)(last - from) + attn_dtype_size(view->dtype));
}

/* Visits the part of head h of `heads` in an array that has `bytes` bytes for each head. Does nothing
 * if `array` is NULL, or if there is no such head. */
static bool visit_array(const visitor *v, const void *array, size_t heads, size_t b, size_t h,
                        size_t bytes) {
    const size_t at = b * heads + h;
    if (h >= heads)
        return true;
    return !array || v->visit(v->ctx, (const char *)array + at * bytes, bytes);
}

static bool visit_computed(const visitor *v, size_t b, size_t h) {
    const attn_run_site *s = v->site;
    const size_t L = s->dims->L;
    bool good = true;
    if (!s->stats.need)
        good = visit_array(v, s->stats.max, s->dims->Hq, b, h, L * sizeof(double)) &&
               visit_array(v, s->stats.sum, s->dims->Hq, b, h, L * sizeof(double)) &&
               visit_array(v, s->stats.kind, s->dims->Hq, b, h, L);
    for (size_t level = 0; level < ATTN_RUN_LEVELS && good; level++) {
        const size_t bytes = attn_run_cells_along(L, level) *
                             attn_run_cells_along(s->dims->S, level) * sizeof(float);
        good = visit_array(v, s->overview.max[level], s->dims->Ho, b, h, bytes) &&
               visit_array(v, s->overview.mean[level], s->dims->Ho, b, h, bytes);
    }
    return good;
}

static bool visit_head(const visitor *v, size_t b, size_t h) {
    const attn_attention *a = v->site->op;
    const attn_attention_dims *d = &a->dims;
    const size_t kv = attn_kv_head(a, h), rows = d->S - d->past;
    /* if weights are mixed, all heads and so all values are visited */
    const size_t value = d->factors ? h % d->Hv : kv;
    return (h >= d->Hq || (visit_rows(v, &a->query, b, h, d->L, d->E) &&
                           visit_rows(v, &a->key, b, kv, rows, d->Ek))) &&
           visit_rows(v, &a->value, b, value, rows, d->Ev) &&
           (!d->past || ((h >= d->Hq || visit_rows(v, &a->past_key, b, kv, d->past, d->Ek)) &&
                         visit_rows(v, &a->past_value, b, value, d->past, d->Ev))) &&
           visit_computed(v, b, h);
}

/* Visits the tensors that all heads share: masks, the parameters of score and position, and the
 * pools of keys and values. */
static bool visit_shared(const visitor *v) {
    const attn_inputs *in = &v->site->in;
    const attn_run_blocks *blocks = &v->site->blocks;
    bool good = visit_tensor(v, &blocks->pages.table) && visit_tensor(v, &blocks->pools[0]) &&
                visit_tensor(v, &blocks->pools[1]);
    for (const attn_input *row = attn_input_rows + ATTN_INPUT_SEQUENCES; row->name && good; row++)
        good = !attn_input_is_tensor(row) || visit_tensor(v, attn_tensor_at(in, row->offset));
    for (size_t i = 0; i < in->mask.count && good; i++)
        good = visit_tensor(v, &in->mask.layers[i].values);
    return good;
}

bool attn_run_visit(const attn_run_site *site, size_t batch, size_t head,
                    bool (*visit)(void *ctx, const void *from, size_t bytes), void *ctx) {
    const visitor v = {site, batch, head, visit, ctx};
    const attn_attention_dims *d = site->dims;
    bool good = visit_shared(&v);
    /* in these cases the operands of heads are copies outside of the image */
    if (d->transforms || d->encoded)
        good = good && visit_tensor(&v, &site->in.query) && visit_tensor(&v, &site->in.key) &&
               visit_tensor(&v, &site->in.value);
    const size_t heads = d->Ho > d->Hq ? d->Ho : d->Hq;
    for (size_t b = 0; b < d->B && good; b++)
        for (size_t h = 0; h < heads && good; h++)
            if ((batch == SIZE_MAX || batch == b) && (head == SIZE_MAX || head == h || d->factors))
                good = visit_head(&v, b, h);
    return good;
}
