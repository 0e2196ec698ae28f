/* Positions on the way back. Biases by distance collect dZ into the entry of each distance; Shaw's
 * tables collect by distance what keys and values collect by place:
 *
 *   d key_table[t] = sum of dS_ij q_i,   d value_table[t] = sum of P_ij dO_i   over cells at t
 *
 * Every piece has its own sums, in double; they are added up in the order of the pieces. */
#include <math.h>
#include <string.h>

#include "attention/backward.h"
#include "base/dense.h"

static int64_t clip(int64_t distance, int64_t reach) {
    return distance < -reach ? -reach : distance > reach ? reach : distance;
}

/* How many entries a head's gradients have: 1 slope, T5's buckets, the relative table's width. */
static size_t entries_of(const attn_attention *a) {
    const attn_position *p = &a->in.position;
    switch (p->kind) {
    case ATTN_POSITION_ALIBI:
        return p->slopes.rank ? 1 : 0;
    case ATTN_POSITION_T5:
        return p->table.dims[0];
    case ATTN_POSITION_RELATIVE:
        return p->table.dims[1];
    default:
        return 0;
    }
}

static bool sums_init(const attn_backward *g, attn_back_sums *s, attn_arena *arena) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t relative = g->a->rule.relative;
    size_t count;
    if (!attn_size_mul(attn_group(d), g->entries, &count))
        return false;
    s->entries = count ? attn_arena_zeroed(arena, count, sizeof(double)) : NULL;
    s->v = g->a->score_v ? attn_arena_zeroed(arena, d->score_width, sizeof(double)) : NULL;
    if (relative && attn_size_mul(relative, d->score_width, &count))
        s->keys = attn_arena_zeroed(arena, count, sizeof(double));
    if (g->a->rule.values && attn_size_mul(relative, d->Ev, &count))
        s->values = attn_arena_zeroed(arena, count, sizeof(double));
    return (s->entries || !g->entries) && (s->v || !g->a->score_v) && (s->keys || !relative) &&
           (s->values || !g->a->rule.values);
}

bool attn_back_tables_new(attn_backward *g, size_t pieces, attn_arena *arena) {
    g->entries = entries_of(g->a);
    g->sums = attn_arena_zeroed(arena, pieces, sizeof *g->sums);
    for (size_t p = 0; g->sums && p < pieces; p++)
        if (!sums_init(g, &g->sums[p], arena))
            return false;
    return g->sums != NULL;
}

void attn_back_collect_biases(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                              const attn_back_lane *l, attn_back_sums *sums) {
    const attn_attention *a = g->a;
    const size_t group = attn_group(&a->dims);
    double *entries = sums->entries + block->h % group * g->entries;
    for (size_t r = 0; r < block->rows; r++) {
        const char *dz = (const char *)l->grad + r * g->k->keys * g->k->elem;
        const int64_t first =
            (int64_t)j0 - (int64_t)(block->i + r) - attn_mask_offset(a->mask, block->b);
        int64_t last = first - 1;
        size_t at = 0;
        for (size_t j = 0; j < n; j++) {
            const int64_t distance = first + (int64_t)j;
            const double z = attn_back_cell(g->k, dz, j);
            if (a->rule.slopes) {
                entries[0] -= z * (double)(distance < 0 ? -distance : distance);
                continue;
            }
            if (distance > last)
                at = attn_position_entry(&a->rule, distance, &last);
            entries[at] += z;
        }
    }
}

/* terms[t] = the row's cells at distance t, summed. */
static void by_distance(const attn_backward *g, const attn_block *block, size_t r, size_t j0,
                        size_t n, const void *tile, double *terms) {
    const attn_attention *a = g->a;
    const char *row = (const char *)tile + r * g->k->keys * g->k->elem;
    const int64_t first =
        (int64_t)j0 - (int64_t)(block->i + r) - attn_mask_offset(a->mask, block->b);
    memset(terms, 0, a->rule.relative * sizeof *terms);
    for (size_t j = 0; j < n; j++)
        terms[clip(first + (int64_t)j, a->rule.max_distance) + a->rule.max_distance] +=
            attn_back_cell(g->k, row, j);
}

/* table [relative, width] += terms x row. */
static void add_outer(const attn_backward *g, const double *terms, const void *row, size_t width,
                      double *table) {
    for (size_t t = 0; t < g->a->rule.relative; t++)
        for (size_t e = 0; terms[t] != 0 && e < width; e++)
            table[t * width + e] += terms[t] * attn_back_cell(g->k, row, e);
}

void attn_back_collect_shaw(const attn_backward *g, const attn_block *block, size_t j0, size_t n,
                            const void *q, size_t ldq, void *dquery, size_t ld, attn_back_lane *l,
                            attn_back_sums *sums) {
    const attn_attention *a = g->a;
    const attn_kernels *k = g->k;
    const size_t E = a->dims.score_width;
    for (size_t r = 0; r < block->rows; r++) {
        char *to = (char *)dquery + r * ld * k->elem;
        by_distance(g, block, r, j0, n, l->grad, l->terms);
        add_outer(g, l->terms, (const char *)q + r * ldq * k->elem, E, sums->keys);
        for (size_t t = 0; t < a->rule.relative; t++)
            for (size_t e = 0; l->terms[t] != 0 && e < E; e++)
                if (k->elem == sizeof(float))
                    ((float *)(void *)to)[e] += (float)(l->terms[t] * a->rule.keys[t * E + e]);
                else
                    ((double *)(void *)to)[e] += l->terms[t] * a->rule.keys[t * E + e];
    }
    for (size_t r = 0; a->rule.values && r < block->rows; r++) {
        size_t ldo;
        const void *out = attn_view_rows(NULL, 0, &g->out, block->b, block->h, block->i + r, 1,
                                         a->dims.Ev, k->elem, l->out, &ldo);
        by_distance(g, block, r, j0, n, l->dropped, l->terms);
        add_outer(g, l->terms, out, a->dims.Ev, sums->values);
    }
}

/* --- the end --- */

static void add_all(double *to, const double *from, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* Sums of one kind over all pieces, in the first piece's place. */
static double *total(const attn_backward *g, size_t pieces, size_t offset, size_t n) {
    double *first = *(double **)(void *)((char *)&g->sums[0] + offset);
    for (size_t p = 1; p < pieces; p++)
        add_all(first, *(double **)(void *)((char *)&g->sums[p] + offset), n);
    return first;
}

static attn_status store_total(const attn_backward *g, size_t pieces, size_t offset,
                               const attn_tensor *like, attn_arena *arena, attn_tensor *out,
                               attn_error *err) {
    attn_status status = attn_dense_zeros(like, g->a->dims.result, arena, out, err);
    size_t n;
    if (status == ATTN_OK && attn_tensor_count(like, &n) && pieces)
        attn_back_store(out, 0, total(g, pieces, offset, n), n);
    return status;
}

/* Entries of heads, summed over batch entries and chunks, into [Hq, entries] or, T5, [entries, Hq].
 */
static attn_status store_entries(const attn_backward *g, size_t pieces, attn_arena *arena,
                                 attn_gradients *out, attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    const attn_position *p = &g->a->in.position;
    const bool slopes = p->kind == ATTN_POSITION_ALIBI, columns = p->kind == ATTN_POSITION_T5;
    attn_tensor *to = slopes ? &out->slopes : &out->table;
    attn_status status =
        attn_dense_zeros(slopes ? &p->slopes : &p->table, g->a->dims.result, arena, to, err);
    for (size_t h = 0; h < d->Hq && status == ATTN_OK; h++)
        for (size_t e = 0; e < g->entries; e++) {
            const size_t group = attn_group(d);
            double sum = 0;
            for (size_t piece = 0; piece < pieces; piece++)
                if (piece / g->chunks % d->Hkv == h / group)
                    sum += g->sums[piece].entries[h % group * g->entries + e];
            attn_back_store(to, columns ? e * d->Hq + h : h * g->entries + e, &sum, 1);
        }
    return status;
}

attn_status attn_back_tables_finish(const attn_backward *g, size_t pieces, attn_arena *arena,
                                    attn_gradients *out, attn_error *err) {
    const attn_attention *a = g->a;
    attn_status status = ATTN_OK;
    if (g->entries)
        status = store_entries(g, pieces, arena, out, err);
    if (status == ATTN_OK && a->rule.relative)
        status = store_total(g, pieces, offsetof(attn_back_sums, keys), &a->in.position.key_table,
                             arena, &out->key_table, err);
    if (status == ATTN_OK && a->rule.values)
        status = store_total(g, pieces, offsetof(attn_back_sums, values),
                             &a->in.position.value_table, arena, &out->value_table, err);
    if (status == ATTN_OK && a->score_v)
        status = store_total(g, pieces, offsetof(attn_back_sums, v), &a->in.score.v, arena,
                             &out->score.v, err);
    return status;
}
