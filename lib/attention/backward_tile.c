/* One tile on the way back: its weights again, from the row maximum and sum or from what the run
 * just kept, then the gradients of its scores. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "attention/backward.h"

static void *row_of(void *base, size_t row, size_t width, size_t elem) {
    return (char *)base + row * width * elem;
}

const void *attn_back_clean(const attn_kernels *k, double most, const void *rows, size_t *ld,
                            size_t n, size_t width, void *scratch) {
    const size_t bytes = width * k->elem;
    bool finite = true;
    for (size_t r = 0; r < n && finite; r++)
        finite = k->reach((const char *)rows + r * *ld * k->elem, width) <= most;
    if (finite)
        return rows;
    for (size_t r = 0; r < n; r++) {
        const char *from = (const char *)rows + r * *ld * k->elem;
        if (!(k->reach(from, width) <= most))
            memset((char *)scratch + r * bytes, 0, bytes);
        else
            memmove((char *)scratch + r * bytes, from, bytes);
    }
    *ld = width;
    return scratch;
}

/* Which table multiplies the output gradients of a group of heads by its values, and gradients of
 * scores by its keys. */
static const attn_kernels *products(const attn_backward *g, size_t b, size_t hkv,
                                    const attn_back_lane *l) {
    const size_t group = attn_group(&g->a->dims);
    if (!group)
        return g->k;
    const double *reaches = g->reach + attn_back_place(g, &(attn_block){b, hkv * group, 0, 0}, l);
    double reach = 0;
    for (size_t i = 0; i < group * g->blocks; i++)
        reach = fmax(reach, reaches[i]);
    return reach > ATTN_SPLIT_REACH || reach < 1 / ATTN_SPLIT_REACH ? g->k : g->scores;
}

void attn_back_load_tile(const attn_backward *g, size_t b, size_t hkv, size_t j0, size_t n,
                         attn_back_lane *l) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    const size_t E = a->dims.score_width, Ev = a->dims.Ev;
    const double most = attn_packed_most(g->scores);
    size_t ld;
    const void *rows = attn_key_rows(a, b, hkv, j0, n, k->elem, l->source, &ld);
    l->products = products(g, b, hkv, l);
    if (g->bad_keys)
        rows = attn_back_clean(k, most, rows, &ld, n, E, l->source);
    l->products->pack_value(l->key_values, rows, ld, n, E);
    rows = attn_value_rows(a, b, hkv, j0, n, k->elem, l->source, &ld);
    if (g->bad_keys)
        rows = attn_back_clean(k, most, rows, &ld, n, Ev, l->source);
    l->products->pack_key(l->value_keys, rows, ld, n, Ev);
}

bool attn_back_meets(const attn_attention *a, const attn_block *block, size_t j0, size_t n) {
    size_t lo, hi;
    attn_block_interval(a, block, &lo, &hi);
    return j0 < hi && j0 + n > lo &&
           !attn_mask_tile_hidden(a->mask, block->b, block->i, block->rows, j0, n);
}

/* The scores after the softcap beside the raw ones. */
static void cap(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                attn_back_lane *l) {
    attn_block_work *w = &l->work;
    memcpy(l->capped, w->tile, block->rows * g->k->keys * g->k->elem);
    for (size_t r = 0; r < block->rows; r++)
        attn_block_edit(g->a, block, r, j0, n, ATTN_STAGE_SOFTCAPPED, w);
    void *capped = w->tile;
    w->tile = l->capped;
    l->capped = capped;
}

/* What dropout leaves of the weights. */
static void fill_dropped(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                         attn_back_lane *l) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    for (size_t r = 0; r < block->rows; r++) {
        void *dropped = row_of(l->dropped, r, k->keys, k->elem);
        memcpy(dropped, row_of(l->weights, r, k->keys, k->elem), n * k->elem);
        attn_drop_row(a, attn_row_index(a, block->b, block->h, block->i + r), j0, n, k->elem,
                      dropped);
    }
}

/* SHAW's part of dP: dO . value_table, by distance. */
static void add_value_terms(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                            size_t r, const void *out, attn_back_lane *l) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    void *grad = row_of(l->grad, r, k->keys, k->elem), *terms = l->work.term_sums;
    for (size_t t = 0; t < a->rule.relative; t++) {
        const double *value = a->rule.values + t * a->dims.Ev;
        double sum = 0;
        for (size_t e = 0; e < a->dims.Ev; e++)
            sum += value[e] * (k->elem == sizeof(float) ? (double)((const float *)out)[e]
                                                        : ((const double *)out)[e]);
        if (k->elem == sizeof(float))
            ((float *)terms)[t] = (float)sum;
        else
            ((double *)terms)[t] = sum;
    }
    attn_shaw_add(a, block->b, block->i + r, j0, n, k->elem, terms, grad);
}

/* Cells whose score a fill replaced pass nothing on. */
static void drop_replaced(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                          attn_back_lane *l) {
    for (size_t r = 0; r < block->rows; r++) {
        char *grad = row_of(l->grad, r, g->k->keys, g->k->elem);
        attn_mask_keep(g->a->mask, block->b, block->h, block->i + r, j0, n, l->keep);
        for (size_t j = 0; j < n; j++)
            if (!l->keep[j])
                memset(grad + j * g->k->elem, 0, g->k->elem);
    }
}

/* Edited scores of the block against the tile, into l->work.tile. */
static void score_again(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                        const void *q, size_t ldq, attn_back_lane *l) {
    const attn_attention *a = g->a;
    l->work.packed_query =
        g->queries.queries + attn_back_place(g, block, l) * g->queries.query_bytes;
    attn_block_terms(a, block, q, ldq, &l->work);
    if (!g->packed)
        attn_block_load_keys(a, block->b, attn_kv_head(a, block->h), j0, n, &l->work);
    attn_block_scores(a, block, g->packed, j0, n, q, ldq, true, &l->work);
    if (a->in.softcap != 0)
        cap(g, block, j0, n, l);
    for (size_t r = 0; r < block->rows && !attn_block_is_edited(a, n, &l->work); r++)
        attn_block_edit(a, block, r, j0, n, ATTN_STAGE_BIASED, &l->work);
}

const void *attn_back_tile(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                           double scale, attn_back_lane *l, size_t *ldq) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    const size_t first = attn_row_index(a, block->b, block->h, block->i);
    const size_t at = attn_back_place(g, block, l);
    size_t ldo;
    const void *q =
        attn_query_rows(a, block->b, block->h, block->i, block->rows, k->elem, l->work.query, ldq);
    if (g->bad_queries)
        q = attn_back_clean(k, DBL_MAX, q, ldq, block->rows, a->dims.score_width, l->work.query);
    const void *out = attn_view_rows(NULL, 0, &g->out, block->b, block->h, block->i, block->rows,
                                     a->dims.Ev, k->elem, l->out, &ldo);
    if (!l->kept)
        score_again(g, block, j0, n, q, *ldq, l);
    l->products->score(l->grad,
                       l->products->pack_query ? g->outs.queries + at * g->outs.query_bytes : out,
                       ldo, block->rows, l->value_keys, n, a->dims.Ev, 1);
    for (size_t r = 0; r < block->rows; r++) {
        if (a->rule.values)
            add_value_terms(g, block, j0, n, r, (const char *)out + r * ldo * k->elem, l);
        if (a->in.dropout_p > 0)
            attn_drop_row(a, first + r, j0, n, k->elem, row_of(l->grad, r, k->keys, k->elem));
    }
    attn_weight_back back = {
        .max = g->max + first, .sum = g->sum + first, .dot = g->dot + first, .scale = scale};
    if (l->kept) {
        back.kept = (const char *)l->kept + j0 * k->elem;
        back.maxima = (const char *)l->maxima + j0 / k->keys * k->elem;
        back.ld_kept = a->dims.S;
        back.ld_maxima = attn_block_maxima(k, a->dims.S);
    }
    k->weight_back(l->weights, l->grad, l->work.tile, block->rows, n, &back);
    if (a->in.dropout_p > 0)
        fill_dropped(g, block, j0, n, l);
    if (a->in.mask.fill == ATTN_FILL_REPLACE)
        drop_replaced(g, block, j0, n, l);
    return q;
}

void attn_back_edit(const attn_backward *g, const attn_block *block, size_t n, attn_back_lane *l) {
    const attn_kernels *k = g->k;
    for (size_t r = 0; r < block->rows; r++) {
        attn_edit_back edit = {.scale = g->a->scale, .softcap = g->a->in.softcap};
        if (edit.softcap != 0)
            edit.capped = row_of(l->capped, r, k->keys, k->elem);
        k->edit_back(row_of(l->grad, r, k->keys, k->elem), n, &edit);
    }
}
