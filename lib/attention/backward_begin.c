/* What the passes back begin with: rows of queries and of output gradients, packed, and their dots
 * with the output. */
#include <float.h>
#include <math.h>
#include <stdatomic.h>

#include "attention/backward.h"
#include "kernels/pointwise.h"

/* A block's queries packed, but for what is not finite. */
static void pack_queries(attn_backward *g, size_t at, const attn_block *block, attn_back_lane *l) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    const size_t E = a->dims.score_width;
    char *values = g->queries.values + at * g->queries.value_bytes;
    size_t ld;
    const void *q =
        attn_query_rows(a, block->b, block->h, block->i, block->rows, k->elem, l->work.query, &ld);
    if (!isfinite(k->pack_value(values, q, ld, block->rows, E))) {
        q = attn_back_clean(k, DBL_MAX, q, &ld, block->rows, E, l->work.query);
        k->pack_value(values, q, ld, block->rows, E);
        atomic_store(&g->bad_queries, 1);
    }
    if (g->scores->pack_query)
        g->scores->pack_query(g->queries.queries + at * g->queries.query_bytes, q, ld, block->rows,
                              E);
}

attn_status attn_back_pack(attn_backward *g, const attn_block *block, attn_back_lane *l,
                           attn_error *err) {
    const attn_kernels *k = g->k;
    const size_t Ev = g->a->dims.Ev, at = attn_back_place(g, block, l);
    size_t ld;
    pack_queries(g, at, block, l);
    const char *out = attn_view_rows(NULL, 0, &g->out, block->b, block->h, block->i, block->rows,
                                     Ev, k->elem, l->out, &ld);
    g->reach[at] =
        k->pack_value(g->outs.values + at * g->outs.value_bytes, out, ld, block->rows, Ev);
    for (size_t r = 0; r < block->rows && !isfinite(g->reach[at]); r++)
        if (!isfinite(k->reach(out + r * ld * k->elem, Ev)))
            return attn_fail(err, ATTN_ENONFINITE, "grad_output",
                             "row %zu of head %zu is not finite", block->i + r, block->h);
    if (g->scores->pack_query && g->reach[at] <= ATTN_SPLIT_REACH)
        g->scores->pack_query(g->outs.queries + at * g->outs.query_bytes, out, ld, block->rows, Ev);
    return ATTN_OK;
}

/* dO . O of one row. */
static double row_dot(const attn_backward *g, const attn_block *block, size_t r, const void *out) {
    const attn_attention *a = g->a;
    const attn_tensor *o = &g->results->output;
    const size_t Ev = a->dims.Ev, base = block->b * a->dims.Hq * a->dims.L * Ev +
                                         block->h * (size_t)a->out_head +
                                         (block->i + r) * (size_t)a->out_row;
    const float *single = (const float *)o->data + base;
    double sum = 0;
    if (o->dtype == ATTN_F32 && g->k->elem == sizeof(float))
        return attn_pointwise_current()->dot(single, out, Ev);
    for (size_t e = 0; e < Ev; e++)
        sum += ((const double *)out)[e] *
               (o->dtype == ATTN_F32 ? (double)single[e] : ((const double *)o->data)[base + e]);
    return sum;
}

void attn_back_dots(attn_backward *g, const attn_block *block, attn_back_lane *l) {
    size_t ld;
    const char *out = attn_view_rows(NULL, 0, &g->out, block->b, block->h, block->i, block->rows,
                                     g->a->dims.Ev, g->k->elem, l->out, &ld);
    for (size_t r = 0; r < block->rows; r++)
        g->dot[attn_row_index(g->a, block->b, block->h, block->i + r)] =
            row_dot(g, block, r, out + r * ld * g->k->elem);
}
