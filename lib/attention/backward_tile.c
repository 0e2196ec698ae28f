/* One tile of the backward pass. This file first packs the rows of a block. For each tile it
 * computes the weights again, from the maximum and sum of each row or from the numerators that the
 * forward pass has kept. Then it computes the gradients of the scores, and the tile's share of the
 * gradients of positions. */
#include "attention/backward.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/pointwise.h"

/* --- rows of queries and of output gradients --- */

/* Packs the queries of a block as block number `at` of g->queries. Zeros replace queries that are
 * not finite. */
static void pack_queries(attn_backward *g, size_t at, const attn_block *block,
                         attn_backward_lane *l) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    const size_t E = a->dims.score_width;
    char *values = g->queries.values + at * g->queries.value_bytes;
    size_t ld;
    const void *q =
        attn_query_rows(a, block->b, block->h, block->i, block->rows, k->elem, l->work.query, &ld);
    if (!isfinite(k->pack_value(values, q, ld, block->rows, E))) {
        q = attn_backward_clean(k, DBL_MAX, q, &ld, block->rows, E, l->work.query);
        k->pack_value(values, q, ld, block->rows, E);
        atomic_store(&g->bad_queries, 1);
    }
    if (g->scores->pack_query)
        g->scores->pack_query(g->queries.queries + at * g->queries.query_bytes, q, ld, block->rows,
                              E);
}

attn_status attn_backward_pack(attn_backward *g, const attn_block *block, attn_backward_lane *l,
                               attn_error *err) {
    const attn_kernels *k = g->k;
    const size_t Ev = g->a->dims.value_width, at = attn_backward_place(g, block, l);
    size_t ld;
    pack_queries(g, at, block, l);
    const char *out = attn_view_rows(NULL, 0, &g->out, block->b, block->h, block->i, block->rows,
                                     Ev, k->elem, l->out, &ld);
    g->out_magnitude[at] =
        k->pack_value(g->outs.values + at * g->outs.value_bytes, out, ld, block->rows, Ev);
    for (size_t r = 0; r < block->rows && !isfinite(g->out_magnitude[at]); r++)
        if (!isfinite(k->max_magnitude(out + r * ld * k->elem, Ev)))
            return attn_fail(err, ATTN_ENONFINITE, "grad_output",
                             "row %zu of head %zu is not finite", block->i + r, block->h);
    if (g->scores->pack_query && g->out_magnitude[at] <= ATTN_MOST_SPLIT)
        g->scores->pack_query(g->outs.queries + at * g->outs.query_bytes, out, ld, block->rows, Ev);
    return ATTN_OK;
}

/* Computes dO . O of one row. */
static double row_dot(const attn_backward *g, const attn_block *block, size_t r, const void *out) {
    const attn_attention *a = g->a;
    const attn_tensor *o = attn_pass_output(g->results);
    const size_t Ev = a->dims.value_width, base = block->b * a->dims.Hq * a->dims.L * Ev +
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

void attn_backward_dots(attn_backward *g, const attn_block *block, attn_backward_lane *l) {
    size_t ld;
    const char *out = attn_view_rows(NULL, 0, &g->out, block->b, block->h, block->i, block->rows,
                                     g->a->dims.value_width, g->k->elem, l->out, &ld);
    for (size_t r = 0; r < block->rows; r++) {
        const size_t row = attn_row_index(g->a, block->b, block->h, block->i + r);
        g->dot[row] =
            row_dot(g, block, r, out + r * ld * g->k->elem) - (g->rows ? g->rows[row] : 0);
    }
}

/* --- weights and gradients of scores --- */

const void *attn_backward_clean(const attn_kernels *k, double most, const void *rows, size_t *ld,
                                size_t n, size_t width, void *scratch) {
    const size_t bytes = width * k->elem;
    bool finite = true;
    for (size_t r = 0; r < n && finite; r++)
        finite = k->max_magnitude((const char *)rows + r * *ld * k->elem, width) <= most;
    if (finite)
        return rows;
    for (size_t r = 0; r < n; r++) {
        const char *from = (const char *)rows + r * *ld * k->elem;
        if (!(k->max_magnitude(from, width) <= most))
            memset((char *)scratch + r * bytes, 0, bytes);
        else
            memmove((char *)scratch + r * bytes, from, bytes);
    }
    *ld = width;
    return scratch;
}

/* Returns the kernel table for l->products of group (b, hkv). This is g->k if the largest magnitude
 * of the group's rows of grad_output is too large or too small to be split into bfloat16 parts.
 * Else it is g->scores. */
static const attn_kernels *choose_products(const attn_backward *g, size_t b, size_t hkv,
                                           const attn_backward_lane *l) {
    const size_t group = attn_group(&g->a->dims);
    if (!group)
        return g->k;
    const double *magnitudes =
        g->out_magnitude + attn_backward_place(g, &(attn_block){b, hkv * group, 0, 0}, l);
    double magnitude = 0;
    for (size_t i = 0; i < group * g->plan.blocks; i++)
        magnitude = fmax(magnitude, magnitudes[i]);
    return magnitude > ATTN_MOST_SPLIT || magnitude < 1 / ATTN_MOST_SPLIT ? g->k : g->scores;
}

void attn_backward_load_tile(const attn_backward *g, size_t b, size_t hkv, size_t j0, size_t n,
                             attn_backward_lane *l) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    const size_t E = a->dims.score_width, Ev = a->dims.value_width;
    const double most = attn_most_packed(g->scores);
    size_t ld;
    const void *rows = attn_key_rows(a, b, hkv, j0, n, k->elem, l->source, &ld);
    l->products = choose_products(g, b, hkv, l);
    if (g->bad_keys)
        rows = attn_backward_clean(k, most, rows, &ld, n, E, l->source);
    l->products->pack_value(l->key_values, rows, ld, n, E);
    rows = attn_value_rows(a, b, hkv, j0, n, k->elem, l->source, &ld);
    if (g->bad_keys)
        rows = attn_backward_clean(k, most, rows, &ld, n, Ev, l->source);
    l->products->pack_key(l->value_keys, rows, ld, n, Ev);
}

bool attn_backward_intersects(const attn_attention *a, const attn_block *block, size_t j0,
                              size_t n) {
    size_t lo, hi, from = j0, to = j0 + n;
    attn_block_interval(a, block, &lo, &hi);
    attn_mask_narrow(a->mask, block->b, block->h, block->i, block->rows, &from, &to);
    return j0 < hi && j0 + n > lo && from < to;
}

/* Computes the scores after the softcap in l->capped. l->work.tile keeps the raw scores. */
static void keep_capped_scores(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                               attn_backward_lane *l) {
    attn_block_work *w = &l->work;
    memcpy(l->capped, w->tile, block->rows * g->k->keys * g->k->elem);
    for (size_t r = 0; r < block->rows; r++)
        attn_block_edit(g->a, block, r, j0, n, ATTN_STAGE_SOFTCAPPED, w);
    void *capped = w->tile;
    w->tile = l->capped;
    l->capped = capped;
}

/* Copies the weights to l->dropped and applies dropout there. */
static void fill_dropped(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                         attn_backward_lane *l) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    for (size_t r = 0; r < block->rows; r++) {
        void *dropped = attn_row_of(l->dropped, r, k->keys, k);
        memcpy(dropped, attn_row_of(l->weights, r, k->keys, k), n * k->elem);
        attn_drop_row(a, attn_row_index(a, block->b, block->h, block->i + r), j0, n, k->elem,
                      dropped);
    }
}

/* Adds to dP of row r the contribution of the table of values by distance: dO . value_table[t] for
 * each cell, where t is the table row of the cell's distance. */
static void add_value_terms(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                            size_t r, const void *out, attn_backward_lane *l) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    void *grad = attn_row_of(l->grad, r, k->keys, k), *terms = l->work.term_sums;
    for (size_t t = 0; t < a->rule.relative; t++) {
        const double *value = attn_vector_at(&a->rule.values, block->h, t);
        double sum = 0;
        for (size_t e = 0; e < a->dims.value_width; e++)
            sum += value[e] * attn_element(out, k->elem, e);
        attn_element_set(terms, k->elem, t, sum);
    }
    attn_vector_add(a, block->b, block->i + r, j0, n, k->elem, terms, grad);
}

/* Zeroes the gradients of cells whose score the mask has replaced by its fill value. */
static void clear_replaced(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                           attn_backward_lane *l) {
    for (size_t r = 0; r < block->rows; r++) {
        char *grad = attn_row_of(l->grad, r, g->k->keys, g->k);
        attn_mask_keep(g->a->mask, block->b, block->h, block->i + r, j0, n, l->keep);
        for (size_t j = 0; j < n; j++)
            if (!l->keep[j])
                memset(grad + j * g->k->elem, 0, g->k->elem);
    }
}

/* Computes the edited scores of the block against keys j0 … j0 + n - 1 again, in l->work.tile. */
static void score_again(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                        const void *q, size_t ldq, attn_backward_lane *l) {
    const attn_attention *a = g->a;
    l->work.packed_query =
        g->queries.queries + attn_backward_place(g, block, l) * g->queries.query_bytes;
    if (a->rule.relative)
        attn_block_terms(a, block, q, ldq, &l->work);
    if (!g->packed)
        attn_block_load_keys(a, block->b, attn_kv_head(a, block->h), j0, n, &l->work);
    attn_block_scores(a, block, g->packed, j0, n, q, ldq, true, &l->work);
    if (l->raw)
        memcpy(l->raw, l->work.tile, block->rows * g->k->keys * g->k->elem);
    if (a->in.softcap != 0)
        keep_capped_scores(g, block, j0, n, l);
    for (size_t r = 0; r < block->rows && !attn_block_is_edited(a, n, &l->work); r++)
        attn_block_edit(a, block, r, j0, n, ATTN_STAGE_BIASED, &l->work);
}

/* Computes the edited scores of the block against keys j0 … j0 + n - 1 in l->work.tile, unless
 * l->kept has their numerators, and dP in l->grad. Returns the queries as attn_backward_tile does.
 */
static const void *weight_gradients(const attn_backward *g, const attn_block *block, size_t j0,
                                    size_t n, attn_backward_lane *l, size_t *ldq) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    const size_t first = attn_row_index(a, block->b, block->h, block->i);
    const size_t at = attn_backward_place(g, block, l);
    size_t ldo;
    const void *q =
        attn_query_rows(a, block->b, block->h, block->i, block->rows, k->elem, l->work.query, ldq);
    if (g->bad_queries)
        q = attn_backward_clean(k, DBL_MAX, q, ldq, block->rows, a->dims.score_width,
                                l->work.query);
    const void *out = attn_view_rows(NULL, 0, &g->out, block->b, block->h, block->i, block->rows,
                                     a->dims.value_width, k->elem, l->out, &ldo);
    if (!l->kept)
        score_again(g, block, j0, n, q, *ldq, l);
    l->products->score(l->grad,
                       l->products->pack_query ? g->outs.queries + at * g->outs.query_bytes : out,
                       ldo, block->rows, l->value_keys, n, a->dims.value_width, 1);
    for (size_t r = 0; r < block->rows; r++) {
        if (a->rule.values.rows)
            add_value_terms(g, block, j0, n, r, (const char *)out + r * ldo * k->elem, l);
        if (a->in.dropout_p > 0)
            attn_drop_row(a, first + r, j0, n, k->elem, attn_row_of(l->grad, r, k->keys, k));
    }
    return q;
}

void attn_backward_means(attn_backward *g, const attn_block *block, attn_backward_lane *l) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    const size_t first = attn_row_index(a, block->b, block->h, block->i);
    double sums[ATTN_MOST_ROWS][2];
    size_t ldq;
    for (size_t r = 0; r < block->rows; r++) {
        sums[r][0] = 0;
        sums[r][1] = attn_normalizer_sink(a, attn_row_sink(a, block->b, block->h, block->i + r),
                                          g->max[first + r]);
    }
    for (size_t j0 = 0; j0 < a->dims.S; j0 += k->keys) {
        const size_t n = a->dims.S - j0 < k->keys ? a->dims.S - j0 : k->keys;
        if (!attn_backward_intersects(a, block, j0, n))
            continue;
        attn_backward_load_tile(g, block->b, attn_kv_head(a, block->h), j0, n, l);
        weight_gradients(g, block, j0, n, l, &ldq);
        for (size_t r = 0; r < block->rows; r++)
            attn_normalizer_add(a, attn_row_of(l->grad, r, k->keys, k),
                                attn_row_of(l->work.tile, r, k->keys, k), k->elem, n,
                                g->max[first + r], g->sum[first + r], sums[r]);
    }
    for (size_t r = 0; r < block->rows; r++)
        g->dot[first + r] = sums[r][1] > 0 ? sums[r][0] / sums[r][1] : 0;
}

/* Computes l->weights and l->grad as the kernel weight_backward does, for a normaliser that is not
 * softmax. The padding of the tile's rows becomes 0. */
static void normalizer_backward(const attn_backward *g, const attn_block *block, size_t n,
                                double scale, attn_backward_lane *l) {
    const attn_kernels *k = g->k;
    const size_t first = attn_row_index(g->a, block->b, block->h, block->i);
    for (size_t r = 0; r < block->rows; r++) {
        char *weights = attn_row_of(l->weights, r, k->keys, k);
        char *grad = attn_row_of(l->grad, r, k->keys, k);
        const attn_normalizer_gradient how = {
            .threshold = g->max[first + r],
            .divisor = g->sum[first + r],
            .mean = g->dot[first + r],
            .scale = scale,
        };
        attn_normalizer_backward(g->a, weights, grad, attn_row_of(l->work.tile, r, k->keys, k),
                                 k->elem, n, &how);
        memset(weights + n * k->elem, 0, (k->keys - n) * k->elem);
        memset(grad + n * k->elem, 0, (k->keys - n) * k->elem);
    }
}

const void *attn_backward_tile(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                               double scale, attn_backward_lane *l, size_t *ldq) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    const size_t first = attn_row_index(a, block->b, block->h, block->i);
    const void *q = weight_gradients(g, block, j0, n, l, ldq);
    attn_weight_backward back = {
        .max = g->max + first, .sum = g->sum + first, .dot = g->dot + first, .scale = scale};
    if (l->kept) {
        back.kept = (const char *)l->kept + j0 * k->elem;
        back.maxima = (const char *)l->maxima + j0 / k->keys * k->elem;
        back.ld_kept = a->dims.S;
        back.ld_maxima = attn_block_maxima(k, a->dims.S);
    }
    if (a->dims.normalizer)
        normalizer_backward(g, block, n, scale, l);
    else
        k->weight_backward(l->weights, l->grad, l->work.tile, block->rows, n, &back);
    if (a->in.dropout_p > 0)
        fill_dropped(g, block, j0, n, l);
    if (a->in.mask.fill == ATTN_FILL_REPLACE)
        clear_replaced(g, block, j0, n, l);
    return q;
}

/* Adds row r of a tile, the gradients of the scaled scores, times the raw scores to *sum. Hidden
 * cells, whose raw scores may be NaN, have the gradient 0. */
static void collect_scale(const attn_backward_lane *l, const attn_kernels *k, size_t r, size_t n,
                          double *sum) {
    const void *grad = attn_row_of(l->grad, r, k->keys, k);
    const void *raw = attn_row_of(l->raw, r, k->keys, k);
    for (size_t j = 0; j < n; j++) {
        const double z = attn_element(grad, k->elem, j);
        if (z != 0)
            *sum += z * attn_element(raw, k->elem, j);
    }
}

void attn_backward_edit(const attn_backward *g, const attn_block *block, size_t n, size_t chunk,
                        attn_backward_lane *l) {
    const attn_attention_dims *d = &g->a->dims;
    const attn_kernels *k = g->k;
    for (size_t r = 0; r < block->rows; r++) {
        const size_t i = block->i + r, row = attn_row_index(g->a, block->b, block->h, i);
        attn_edit_backward edit = {.scale = attn_row_scale(g->a, block->b, block->h, i),
                                   .softcap = g->a->in.softcap};
        if (edit.softcap != 0)
            edit.capped = attn_row_of(l->capped, r, k->keys, k);
        if (l->raw) { /* the scale is applied after the derivative of the softcap */
            const attn_edit_backward cap = {
                .scale = 1, .softcap = edit.softcap, .capped = edit.capped};
            k->edit_backward(attn_row_of(l->grad, r, k->keys, k), n, &cap);
            collect_scale(l, k, r, n, &g->scales[chunk * d->B * d->Hq * d->L + row]);
            edit = (attn_edit_backward){.scale = edit.scale};
        }
        k->edit_backward(attn_row_of(l->grad, r, k->keys, k), n, &edit);
    }
}

/* --- positions ---
 *
 * For biases by distance, dZ of a cell is added to the gradient of the table entry for its
 * distance. For tables of vectors, let t be the table row for a cell's distance. The sums are over
 * all cells (i, j) with the same t, in one head or in all that share the table:
 *
 *   d key_table[t] = sum of dS_ij q_i,   d query_table[t] = sum of dS_ij k_j,
 *   d value_table[t] = sum of P_ij dO_i
 *
 * Each piece has sums of its own, in double. They are added up in the order of the pieces. */

void attn_backward_collect_biases(const attn_backward *g, const attn_block *block, size_t j0,
                                  size_t n, const attn_backward_lane *l, attn_backward_sums *sums) {
    const attn_attention *a = g->a;
    const size_t group = attn_group(&a->dims);
    enum { AT_ONCE = 64 };
    double *entries = sums->entries + block->h % group * g->a->dims.entries;
    for (size_t r = 0; r < block->rows; r++) {
        const char *dz = (const char *)l->grad + r * g->k->keys * g->k->elem;
        /* distances first … last share the entry `at` */
        int64_t distances[AT_ONCE], first = 0, last = -1;
        size_t at = 0;
        for (size_t j = 0; j < n; j++) {
            const double z = attn_element(dz, g->k->elem, j);
            if (j % AT_ONCE == 0)
                attn_distances(a, block->b, block->i + r, j0 + j, n - j < AT_ONCE ? n - j : AT_ONCE,
                               distances);
            const int64_t distance = distances[j % AT_ONCE];
            if (distance == ATTN_NO_POSITION)
                continue;
            if (a->rule.slopes) {
                entries[0] -= z * (double)(distance < 0 ? -distance : distance);
                continue;
            }
            if (distance < first || distance > last)
                at = attn_position_entry(&a->rule, first = distance, &last);
            entries[at] += z;
        }
    }
}

void attn_backward_collect_normalizer(const attn_backward *g, const attn_block *block, size_t n,
                                      const attn_backward_lane *l, attn_backward_sums *sums) {
    const attn_kernels *k = g->k;
    for (size_t r = 0; r < block->rows; r++)
        for (size_t j = 0; j < n; j++)
            sums->normalizer[block->h % attn_group(&g->a->dims)] +=
                attn_element(attn_row_of(l->grad, r, k->keys, k), k->elem, j);
}

/* Sums the cells of row r of a tile by distance: terms[t] is the sum of the cells whose distance
 * has row t in the tables of vectors. */
static void sum_by_distance(const attn_backward *g, const attn_block *block, size_t r, size_t j0,
                            size_t n, const void *tile, double *terms) {
    const attn_attention *a = g->a;
    const char *row = (const char *)tile + r * g->k->keys * g->k->elem;
    memset(terms, 0, a->rule.relative * sizeof *terms);
    for (size_t j = 0; j < n; j++) {
        const size_t t = attn_vector_row(a, block->b, block->i + r, j0 + j);
        if (t != SIZE_MAX)
            terms[t] += attn_element(row, g->k->elem, j);
    }
}

/* Returns the sums of a piece for the table of vectors of the block's head. */
static double *sums_of_head(const attn_backward *g, const attn_block *block,
                            const attn_vector_table *table, double *sums) {
    return sums + (table->head ? block->h % attn_group(&g->a->dims) * table->head : 0);
}

/* Computes table[t] += terms[t] * row for each row t of a table [relative, width]. */
static void add_outer(const attn_backward *g, const double *terms, const void *row, size_t width,
                      double *table) {
    for (size_t t = 0; t < g->a->rule.relative; t++)
        for (size_t e = 0; terms[t] != 0 && e < width; e++)
            table[t * width + e] += terms[t] * attn_element(row, g->k->elem, e);
}

/* Adds the share of one row of the tile to the gradients of the key table and of its query q. `terms`
 * are the sums of dS by distance. */
static void collect_keys(const attn_backward *g, const attn_block *block, const void *q,
                         void *dquery, const double *terms, attn_backward_sums *sums) {
    const attn_vector_table *table = &g->a->rule.keys;
    add_outer(g, terms, q, table->width, sums_of_head(g, block, table, sums->keys));
    for (size_t t = 0; t < g->a->rule.relative; t++) {
        const double *key = attn_vector_at(table, block->h, t);
        for (size_t e = 0; terms[t] != 0 && e < table->width; e++)
            attn_element_add(dquery, g->k->elem, e, terms[t] * key[e]);
    }
}

void attn_backward_collect_vectors(const attn_backward *g, const attn_block *block, size_t j0,
                                   size_t n, const void *q, size_t ldq, void *dquery, size_t ld,
                                   attn_backward_lane *l, attn_backward_sums *sums) {
    const attn_attention *a = g->a;
    const size_t elem = g->k->elem;
    for (size_t r = 0; a->rule.keys.rows && r < block->rows; r++) {
        sum_by_distance(g, block, r, j0, n, l->grad, l->terms);
        collect_keys(g, block, (const char *)q + r * ldq * elem, (char *)dquery + r * ld * elem,
                     l->terms, sums);
    }
    for (size_t r = 0; a->rule.values.rows && r < block->rows; r++) {
        size_t ldo;
        const void *out = attn_view_rows(NULL, 0, &g->out, block->b, block->h, block->i + r, 1,
                                         a->dims.value_width, elem, l->out, &ldo);
        sum_by_distance(g, block, r, j0, n, l->dropped, l->terms);
        add_outer(g, l->terms, out, a->dims.value_width,
                  sums_of_head(g, block, &a->rule.values, sums->values));
    }
}

void attn_backward_collect_key_vectors(const attn_backward *g, const attn_block *block, size_t j0,
                                       size_t n, void *dkey, size_t ld, attn_backward_lane *l,
                                       attn_backward_sums *sums) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    const attn_vector_table *table = &a->rule.queries;
    const size_t E = table->width;
    double *to = sums_of_head(g, block, table, sums->queries);
    size_t ldk;
    const double *keys = attn_key_rows(a, block->b, attn_kv_head(a, block->h), j0, n, sizeof *keys,
                                       l->work.key_rows, &ldk);
    for (size_t r = 0; r < block->rows; r++)
        for (size_t j = 0; j < n; j++) {
            const size_t t = attn_vector_row(a, block->b, block->i + r, j0 + j);
            const double ds = attn_element(attn_row_of(l->grad, r, k->keys, k), k->elem, j);
            if (t == SIZE_MAX || ds == 0) /* skip hidden cells, whose key may be NaN */
                continue;
            const double *query = attn_vector_at(table, block->h, t);
            for (size_t e = 0; e < E; e++) {
                to[t * E + e] += ds * keys[j * ldk + e];
                attn_element_add((char *)dkey + j * ld * k->elem, k->elem, e, ds * query[e]);
            }
        }
}
