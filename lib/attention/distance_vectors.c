/* Tables of vectors by distance (distance_vectors.h).
 *
 * Shaw, Uszkoreit and Vaswani, "Self-attention with relative position representations", 2018.
 * Equation 4: e_ij = q_i . (k_j + a^K_{j-i}); equation 3: the output adds sum_j w_ij a^V_{j-i}.
 * He, Liu, Gao and Chen, "DeBERTa", 2021, equation 4: e_ij = q_i . k_j + q_i . K_r + k_j . Q_r, where
 * r depends on i - j.
 *
 * There are few distances. So the products of a query with the key table are computed once for all
 * keys, and the weights of a row are summed by distance before they multiply the value table. */
#include "attention/distance_vectors.h"

#include <math.h>

#include "attention/position_checks.h"
#include "attention/resolved.h"
#include "base/try.h"
#include "kernels/pointwise.h"

size_t attn_vector_rows(const attn_position *p) {
    const attn_tensor *t = p->key_table.rank ? &p->key_table : &p->query_table;
    return t->rank > 1 ? t->dims[t->rank - 2] : t->rank ? t->dims[0] : 0;
}

/* Returns how many tables a parameter holds: 0 if it is absent, H if it has a head axis, else 1. */
static size_t tables_of(const attn_tensor *t) {
    return t->rank == 3 ? t->dims[0] : t->rank ? 1 : 0;
}

void attn_vectors_resolve(const attn_position *p, attn_attention_dims *d) {
    const bool disentangled = p->kind == ATTN_POSITION_DISENTANGLED;
    if (p->kind != ATTN_POSITION_SHAW && !disentangled)
        return;
    d->relative = attn_vector_rows(p);
    d->relative_keys = tables_of(&p->key_table);
    if (disentangled)
        d->relative_queries = tables_of(&p->query_table);
    else
        d->relative_values = tables_of(&p->value_table);
}

double attn_vector_operations(const attn_attention_dims *d) {
    const double rows = (double)d->B * (double)d->Hq * (double)d->L * (double)d->relative;
    return 2 * rows *
           ((d->relative_keys ? (double)d->score_width : 0) +
            (d->relative_values ? (double)d->Ev : 0));
}

/* --- checks --- */

/* Checks that `t` has as many rows as the table `other`, which errors call `name`. */
static attn_status check_rows(const attn_tensor *t, const char *where, const attn_tensor *other,
                              const char *name, attn_error *err) {
    const size_t found = t->dims[t->rank - 2], expected = other->dims[other->rank - 2];
    if (found == expected)
        return ATTN_OK;
    return attn_fail(err, ATTN_ESHAPE, where, "expected as many rows as %s has, %zu; found %zu",
                     name, expected, found);
}

/* Copies a table that has been checked into the arena. */
static attn_status copy_table(const attn_tensor *t, attn_arena *arena, attn_vector_table *out,
                              attn_error *err) {
    const size_t width = t->dims[t->rank - 1];
    *out = (attn_vector_table){.rows = attn_dense_copy(t, ATTN_F64, arena),
                               .width = width,
                               .head = t->rank == 3 ? t->dims[1] * width : 0};
    ATTN_TAKEN(out->rows, "positions", err);
    return ATTN_OK;
}

static attn_status new_table(attn_attention *a, const attn_tensor *t, const char *where,
                             size_t width, const char *rows, attn_arena *arena,
                             attn_vector_table *out, attn_error *err) {
    ATTN_TRY(attn_position_check_heads(t, where, a->dims.Hq, width, rows, err));
    return copy_table(t, arena, out, err);
}

static attn_status new_shaw(attn_attention *a, const attn_position *p, attn_arena *arena,
                            attn_error *err) {
    const char *rows = "2m + 1 (distances -m to m)", *values = "position/value_table";
    ATTN_TRY(new_table(a, &p->key_table, "position/key_table", a->dims.score_width, rows, arena,
                       &a->rule.keys, err));
    ATTN_TRY(
        attn_position_check_odd(&p->key_table, "position/key_table", p->key_table.rank - 2, err));
    if (!p->value_table.rank)
        return ATTN_OK;
    ATTN_TRY(new_table(a, &p->value_table, values, a->dims.Ev, rows, arena, &a->rule.values, err));
    ATTN_TRY(check_rows(&p->value_table, values, &p->key_table, "key_table", err));
    const size_t count = tables_of(&p->value_table) * a->dims.relative * a->dims.Ev;
    for (size_t i = 0; i < count; i++)
        a->rule.value_magnitude = fmax(a->rule.value_magnitude, fabs(a->rule.values.rows[i]));
    return ATTN_OK;
}

/* Checks the rows of the tables of disentangled attention, and compiles their buckets. */
static attn_status new_buckets(attn_attention *a, const attn_position *p, const char *where,
                               attn_arena *arena, attn_error *err) {
    const size_t rows = a->dims.relative, m = rows / 2;
    if (rows % 2 || !rows)
        return attn_fail(err, ATTN_ESHAPE, where,
                         "a table of this kind holds 2m rows, an even number; found %zu", rows);
    a->rule.from_key = true;
    if (!p->max_distance)
        return ATTN_OK;
    if (rows % 4 || rows < 8)
        return attn_fail(err, ATTN_ESHAPE, where,
                         "with max_distance a table has a multiple of 4 rows, at least 8; found "
                         "%zu",
                         rows);
    if (p->max_distance < (int64_t)(m / 2 + 2) || p->max_distance > 1 << 20)
        return attn_fail(err, ATTN_EARG, "position/max_distance",
                         "expected a distance of at least %zu, for %zu rows, and at most "
                         "1,048,576; found %lld",
                         m / 2 + 2, rows, (long long)p->max_distance);
    ATTN_TAKEN(attn_position_nearest(a, m + 1, arena), "positions", err);
    return ATTN_OK;
}

static attn_status new_disentangled(attn_attention *a, const attn_position *p, attn_arena *arena,
                                    attn_error *err) {
    const char *rows = "2m", *keys = "position/key_table", *queries = "position/query_table";
    if (!p->key_table.rank && !p->query_table.rank)
        return attn_fail(err, ATTN_EARG, keys,
                         "this kind of position needs key_table (content to position), query_table "
                         "(position to content) or both");
    if (p->key_table.rank)
        ATTN_TRY(new_table(a, &p->key_table, keys, a->dims.score_width, rows, arena, &a->rule.keys,
                           err));
    if (p->query_table.rank)
        ATTN_TRY(new_table(a, &p->query_table, queries, a->dims.score_width, rows, arena,
                           &a->rule.queries, err));
    if (p->key_table.rank && p->query_table.rank)
        ATTN_TRY(check_rows(&p->query_table, queries, &p->key_table, "key_table", err));
    return new_buckets(a, p, p->key_table.rank ? keys : queries, arena, err);
}

attn_status attn_vectors_new(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_position *p = attn_score_position(&a->in);
    ATTN_TRY(p->kind == ATTN_POSITION_SHAW ? new_shaw(a, p, arena, err)
                                           : new_disentangled(a, p, arena, err));
    a->rule.relative = a->dims.relative;
    a->rule.max_distance = (int64_t)(a->rule.relative / 2);
    return ATTN_OK;
}

/* --- rows and products --- */

size_t attn_vector_row(const attn_attention *a, size_t b, size_t i, size_t j) {
    return attn_position_row(&a->rule, attn_distance(attn_position_at(&a->query_positions, b, i),
                                                     attn_position_at(&a->key_positions, b, j)));
}

size_t attn_position_row(const attn_position_rule *rule, int64_t d) {
    const int64_t most = rule->max_distance;
    if (d == ATTN_NO_POSITION)
        return SIZE_MAX;
    if (rule->nearest)
        d = d < 0 ? -(int64_t)attn_position_bucket(rule, -d)
                  : (int64_t)attn_position_bucket(rule, d);
    if (!rule->from_key)
        return (size_t)((d < -most ? -most : d > most ? most : d) + most);
    return (size_t)((d > most ? -most : d <= -most ? most - 1 : -d) + most);
}

void attn_vector_terms(const attn_attention *a, size_t h, const void *q, size_t elem, void *terms) {
    const size_t E = a->dims.score_width;
    for (size_t t = 0; t < a->rule.relative; t++) {
        const double *key = attn_vector_at(&a->rule.keys, h, t);
        double sum = 0;
        for (size_t e = 0; e < E; e++)
            sum += attn_element(q, elem, e) * key[e];
        attn_element_set(terms, elem, t, sum);
    }
}

void attn_vector_add(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n, size_t elem,
                     const void *terms, void *scores) {
    for (size_t j = 0; j < n; j++) {
        const size_t t = attn_vector_row(a, b, i, j0 + j);
        if (t != SIZE_MAX)
            attn_element_add(scores, elem, j, attn_element(terms, elem, t));
    }
}

void attn_vector_add_keys(const attn_attention *a, size_t b, size_t h, size_t i, size_t j0,
                          size_t n, size_t elem, const double *keys, size_t ld, bool clean,
                          void *scores) {
    const attn_pointwise *p = attn_pointwise_current();
    const size_t E = a->dims.score_width;
    for (size_t j = 0; j < n; j++) {
        const size_t t = attn_vector_row(a, b, i, j0 + j);
        if (t == SIZE_MAX)
            continue;
        const double *key = keys + j * ld;
        const double sum = p->products(key, attn_vector_at(&a->rule.queries, h, t), E);
        if (!clean || isfinite(sum) || isfinite(attn_kernels_ref.max_magnitude(key, E)))
            attn_element_add(scores, elem, j, sum);
    }
}

void attn_vector_collect(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n,
                         size_t elem, const void *weights, double factor, void *sums) {
    for (size_t t = 0; t < a->rule.relative; t++)
        if (elem == sizeof(float))
            ((float *)sums)[t] *= (float)factor;
        else
            ((double *)sums)[t] *= factor;
    for (size_t j = 0; j < n; j++) {
        const size_t t = attn_vector_row(a, b, i, j0 + j);
        if (t != SIZE_MAX)
            attn_element_add(sums, elem, t, attn_element(weights, elem, j));
    }
}

void attn_vector_values(const attn_attention *a, size_t h, size_t elem, const void *sums,
                        void *acc) {
    const size_t Ev = a->dims.Ev;
    for (size_t t = 0; t < a->rule.relative; t++) {
        const double w = attn_element(sums, elem, t);
        const double *value = attn_vector_at(&a->rule.values, h, t);
        for (size_t e = 0; w != 0 && e < Ev; e++)
            attn_element_add(acc, elem, e, w * value[e]);
    }
}
