#include "attention/mix.h"

#include <string.h>

#include <attn/input_rows.h>

#include "attention/operands.h"
#include "base/try.h"

/* --- checks --- */

attn_status attn_mix_resolve(const attn_inputs *in, attn_attention_dims *d, attn_error *err) {
    const attn_tensor *m = &in->mix.logits;
    char found[128];
    if (in->score.kind != ATTN_SCORE_scaled_dot && in->score.kind != ATTN_SCORE_dot)
        return attn_fail(err, ATTN_EARG, "mix",
                         "only the scores scaled_dot and dot can be mixed, the score is %s",
                         attn_score_name(in->score.kind));
    const attn_position_kind position = attn_score_position(in)->kind;
    if (position == ATTN_POSITION_SHAW || position == ATTN_POSITION_DISENTANGLED)
        return attn_fail(err, ATTN_EARG, "mix",
                         "scores with the position %s cannot be mixed: its vectors belong to the "
                         "keys of each head",
                         attn_position_words[position]);
    if (m->rank != 2 || m->dims[0] != d->Hq || m->dims[1] != d->Hq)
        return attn_fail(err, ATTN_ESHAPE, "mix/logits",
                         "expected one row and one column a query head, shape [%zu, %zu], found %s",
                         d->Hq, d->Hq, attn_found_text(m, found, sizeof found));
    if (m->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, "mix/logits",
                         "expected floating-point numbers, found %s", attn_dtype_name(m->dtype));
    if (!attn_size_mul(d->Hq, d->Hq, &d->mixed) || !attn_size_mul(d->Hkv, d->E, &d->score_width))
        return attn_fail(err, ATTN_ELIMIT, "mix", "too many heads");
    d->transforms = true;
    return ATTN_OK;
}

/* --- wide rows --- */

/* Reads row i of each of the heads of batch entry b into rows [heads, E]. */
static void read_heads(const attn_attention *a, const attn_view *past, size_t past_rows,
                       const attn_view *view, size_t heads, size_t b, size_t i, double *rows) {
    const size_t E = a->dims.E;
    size_t ld;
    for (size_t h = 0; h < heads; h++) {
        const void *row =
            attn_view_rows(past, past_rows, view, b, h, i, 1, E, sizeof *rows, rows + h * E, &ld);
        if (row != rows + h * E)
            memcpy(rows + h * E, row, E * sizeof *rows);
    }
}

/* Computes the wide query of mixed head g from the queries of all heads, [Hq, E]. */
static void mix_query(const attn_attention *a, size_t g, const double *queries, double *wide) {
    const attn_attention_dims *d = &a->dims;
    memset(wide, 0, d->score_width * sizeof *wide);
    for (size_t h = 0; h < d->Hq; h++) {
        const double factor = a->mix[g * d->Hq + h], *from = queries + h * d->E;
        double *to = wide + attn_kv_head(a, h) * d->E;
        for (size_t e = 0; e < d->E; e++)
            to[e] += factor * from[e];
    }
}

static void store_row(void *to, size_t elem, size_t row, size_t width, const double *from) {
    for (size_t e = 0; e < width; e++)
        attn_element_set(to, elem, row * width + e, from[e]);
}

static attn_view wide_view(const attn_attention *a, const void *data, const ptrdiff_t *batch,
                           size_t head_rows) {
    const ptrdiff_t width = (ptrdiff_t)a->dims.score_width;
    return (attn_view){.data = data,
                       .dtype = a->dims.result,
                       .batch = batch,
                       .head = (ptrdiff_t)head_rows * width,
                       .row = width,
                       .col = 1};
}

/* Mixes the queries into `to` [B, Hq, L, score width]. `rows` is [Hq, E], `wide` [score width]. */
static void mix_queries(const attn_attention *a, void *to, double *rows, double *wide) {
    const attn_attention_dims *d = &a->dims;
    for (size_t b = 0; b < d->B; b++)
        for (size_t i = 0; i < d->L; i++) {
            read_heads(a, NULL, 0, &a->turned_query, d->Hq, b, i, rows);
            for (size_t g = 0; g < d->Hq; g++) {
                mix_query(a, g, rows, wide);
                store_row(to, attn_dtype_size(d->result), attn_row_index(a, b, g, i),
                          d->score_width, wide);
            }
        }
}

/* Joins the keys of all heads in `to` [sets, S, score width]. */
static void join_keys(const attn_attention *a, void *to, double *rows) {
    const attn_attention_dims *d = &a->dims;
    for (size_t b = 0; b < d->sets; b++)
        for (size_t j = 0; j < d->S; j++) {
            read_heads(a, &a->past_key, a->turned_past, &a->turned_key, d->Hkv, b, j, rows);
            store_row(to, attn_dtype_size(d->result), b * d->S + j, d->score_width, rows);
        }
}

/* The arrays of the wide rows. */
typedef struct wide_rows {
    void *queries, *keys;
    double *mix, *rows, *wide;
    ptrdiff_t *query_batch, *key_batch;
} wide_rows;

static void place_rows(attn_area *area, const attn_attention_dims *d, wide_rows *w) {
    const size_t elem = attn_dtype_size(d->result);
    size_t queries = 0;
    if (!attn_size_mul(d->B * d->Hq, d->L, &queries))
        area->overflow = true;
    w->queries = attn_area_take_3(area, queries, d->score_width, 1, elem);
    w->keys = attn_area_take_3(area, d->sets, d->S, d->score_width, elem);
    w->mix = attn_area_take(area, d->mixed, sizeof *w->mix);
    w->rows = attn_area_take_3(area, d->Hq, d->E, 1, sizeof *w->rows);
    w->wide = attn_area_take(area, d->score_width, sizeof *w->wide);
    w->query_batch = attn_area_take(area, d->B, sizeof *w->query_batch);
    w->key_batch = attn_area_take(area, d->B, sizeof *w->key_batch);
}

bool attn_mix_rows(attn_attention *a, attn_arena *arena) {
    const attn_attention_dims *d = &a->dims;
    const attn_tensor *m = &a->in.mix.logits;
    attn_area counted = {0}, area;
    wide_rows w;
    place_rows(&counted, d, &w);
    if (!attn_area_open(&area, &counted, arena))
        return false;
    place_rows(&area, d, &w);
    for (size_t g = 0; g < d->Hq; g++)
        attn_widen_f64(w.mix + g * d->Hq,
                       (const char *)m->data +
                           (ptrdiff_t)g * m->strides[0] * (ptrdiff_t)attn_dtype_size(m->dtype),
                       m->dtype, m->strides[1], d->Hq);
    for (size_t b = 0; b < d->B; b++) {
        w.query_batch[b] = (ptrdiff_t)(b * d->Hq * d->L * d->score_width);
        w.key_batch[b] = d->sets == 1 ? 0 : (ptrdiff_t)(b * d->S * d->score_width);
    }
    a->mix = w.mix;
    mix_queries(a, w.queries, w.rows, w.wide);
    join_keys(a, w.keys, w.rows);
    a->score_query = wide_view(a, w.queries, w.query_batch, d->L);
    a->score_key = wide_view(a, w.keys, w.key_batch, 0);
    a->score_past = 0;
    return true;
}

bool attn_mix_bytes(const attn_attention_dims *d, size_t *bytes) {
    attn_area counted = {0};
    wide_rows w;
    if (!d->mixed)
        return true;
    place_rows(&counted, d, &w);
    return !counted.overflow && attn_size_add(*bytes, counted.used, bytes) &&
           attn_size_add(*bytes, ATTN_ALIGN, bytes);
}

/* --- backward --- */

void attn_mix_queries_back(const attn_attention *a, size_t elem, const void *grads,
                           const void *queries, void *to, double *sums) {
    const attn_attention_dims *d = &a->dims;
    for (size_t b = 0; b < d->B; b++)
        for (size_t g = 0; g < d->Hq; g++)
            for (size_t h = 0; h < d->Hq; h++)
                for (size_t i = 0; i < d->L; i++) {
                    const size_t from =
                        attn_row_index(a, b, g, i) * d->score_width + attn_kv_head(a, h) * d->E;
                    const size_t at = attn_row_index(a, b, h, i) * d->E;
                    for (size_t e = 0; e < d->E; e++) {
                        const double grad = attn_element(grads, elem, from + e);
                        sums[g * d->Hq + h] += grad * attn_element(queries, elem, at + e);
                        attn_element_add(to, elem, at + e, a->mix[g * d->Hq + h] * grad);
                    }
                }
}

void attn_mix_keys_back(const attn_attention *a, size_t elem, const void *grads, void *to) {
    const attn_attention_dims *d = &a->dims;
    for (size_t row = 0; row < d->B * d->S; row++)
        for (size_t j = 0; j < d->Hkv; j++)
            for (size_t e = 0; e < d->E; e++) {
                const size_t b = row / d->S, i = row % d->S;
                double sum = 0;
                for (size_t copy = 0; copy < d->Hkv; copy++)
                    sum += attn_element(grads, elem,
                                        ((b * d->Hkv + copy) * d->S + i) * d->score_width +
                                            j * d->E + e);
                attn_element_set(to, elem, ((b * d->Hkv + j) * d->S + i) * d->E + e, sum);
            }
}
