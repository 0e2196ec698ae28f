/* Turns the sums of the backward pass into the gradients of parameters that rows share: the tables
 * of positions, the bias of a normaliser, the vector v of a score. */
#include <string.h>

#include "attention/backward.h"
#include "base/try.h"

static void add_doubles(double *to, const double *from, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* Adds up one member of attn_backward_sums over all pieces. The member is an array of n numbers,
 * and `offset` is its offset in the struct. The totals replace the numbers of the first piece. */
static double *total_of_pieces(const attn_backward *g, size_t pieces, size_t offset, size_t n) {
    double *first = *(double **)(void *)((char *)&g->sums[0] + offset);
    for (size_t p = 1; p < pieces; p++)
        add_doubles(first, *(double **)(void *)((char *)&g->sums[p] + offset), n);
    return first;
}

static attn_status store_total(const attn_backward *g, size_t pieces, size_t offset,
                               const attn_tensor *like, attn_arena *arena, attn_tensor *out,
                               attn_error *err) {
    ATTN_TRY(attn_dense_zeros(like, g->a->dims.result, arena, out, err));
    size_t n;
    if (attn_tensor_count(like, &n) && pieces)
        attn_dense_store(out, 0, total_of_pieces(g, pieces, offset, n), n);
    return ATTN_OK;
}

/* Returns the sum over all pieces of member number `at` of head h in an array of sums
 * [Hq / Hkv, width] of attn_backward_sums, which has this offset there. */
static double total_of_head(const attn_backward *g, size_t pieces, size_t offset, size_t h,
                            size_t width, size_t at) {
    const attn_attention_dims *d = &g->a->dims;
    const size_t group = attn_group(d);
    double sum = 0;
    for (size_t p = 0; p < pieces; p++)
        if (p / g->plan.chunks % d->Hkv == h / group)
            sum += (*(double **)(void *)((char *)&g->sums[p] + offset))[h % group * width + at];
    return sum;
}

/* Adds up attn_backward_sums.entries of each head over batch entries and chunks of tiles
 * (backward.c), and stores the totals in the shape of the caller's parameter: [Hq, entries], or for
 * T5 [entries, Hq]. */
static attn_status store_entries(const attn_backward *g, size_t pieces, attn_arena *arena,
                                 attn_position *out, attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    const attn_position *p = attn_score_position(&g->a->in);
    const bool slopes = p->kind == ATTN_POSITION_ALIBI, columns = p->kind == ATTN_POSITION_T5;
    attn_tensor *to = slopes ? &out->slopes : &out->table;
    ATTN_TRY(attn_dense_zeros(slopes ? &p->slopes : &p->table, d->result, arena, to, err));
    for (size_t h = 0; h < d->Hq; h++)
        for (size_t e = 0; e < d->entries; e++) {
            const double sum =
                total_of_head(g, pieces, offsetof(attn_backward_sums, entries), h, d->entries, e);
            attn_dense_store(to, columns ? e * d->Hq + h : h * d->entries + e, &sum, 1);
        }
    return ATTN_OK;
}

/* Stores the gradient of the normaliser's bias, [Hq] or, if all heads share it, [1]. */
static attn_status store_normalizer(const attn_backward *g, size_t pieces, attn_arena *arena,
                                    attn_gradients *out, attn_error *err) {
    const attn_attention_dims *d = &g->a->dims;
    double shared = 0;
    ATTN_TRY(
        attn_dense_zeros(&g->a->in.normalizer.bias, d->result, arena, &out->normalizer_bias, err));
    for (size_t h = 0; h < d->Hq; h++) {
        const double sum =
            total_of_head(g, pieces, offsetof(attn_backward_sums, normalizer), h, 1, 0);
        shared += sum;
        attn_dense_store(&out->normalizer_bias, d->normalizer_bias > 1 ? h : 0,
                         d->normalizer_bias > 1 ? &sum : &shared, 1);
    }
    return ATTN_OK;
}

/* Stores the gradient of a table of vectors by distance, if the operation has this table. `offset`
 * is the offset of its sums in attn_backward_sums. */
static attn_status store_vectors(const attn_backward *g, size_t pieces, size_t offset,
                                 const attn_vector_table *table, const attn_tensor *like,
                                 attn_arena *arena, attn_tensor *out, attn_error *err) {
    if (!table->rows)
        return ATTN_OK;
    if (!table->head || g->a->dims.Hq == 1)
        return store_total(g, pieces, offset, like, arena, out, err);
    ATTN_TRY(attn_dense_zeros(like, g->a->dims.result, arena, out, err));
    for (size_t h = 0; h < g->a->dims.Hq; h++)
        for (size_t e = 0; e < table->head; e++) {
            const double sum = total_of_head(g, pieces, offset, h, table->head, e);
            attn_dense_store(out, h * table->head + e, &sum, 1);
        }
    return ATTN_OK;
}

attn_status attn_backward_tables(const attn_backward *g, size_t pieces, attn_arena *arena,
                                 attn_gradients *out, attn_error *err) {
    const attn_attention *a = g->a;
    const attn_position *p = attn_score_position(&a->in);
    attn_position *to = &out->score_position;
    if (a->dims.entries)
        ATTN_TRY(store_entries(g, pieces, arena, to, err));
    if (a->dims.normalizer_bias)
        ATTN_TRY(store_normalizer(g, pieces, arena, out, err));
    ATTN_TRY(store_vectors(g, pieces, offsetof(attn_backward_sums, keys), &a->rule.keys,
                           &p->key_table, arena, &to->key_table, err));
    ATTN_TRY(store_vectors(g, pieces, offsetof(attn_backward_sums, queries), &a->rule.queries,
                           &p->query_table, arena, &to->query_table, err));
    ATTN_TRY(store_vectors(g, pieces, offsetof(attn_backward_sums, values), &a->rule.values,
                           &p->value_table, arena, &to->value_table, err));
    if (!a->in.score_position.kind) { /* there is only one kind of positions */
        out->slopes = to->slopes, out->table = to->table;
        out->key_table = to->key_table, out->value_table = to->value_table;
        out->query_table = to->query_table;
        *to = (attn_position){.kind = ATTN_POSITION_NONE};
    }
    if (a->score_v)
        ATTN_TRY(store_total(g, pieces, offsetof(attn_backward_sums, v), &a->in.score.v, arena,
                             &out->score.v, err));
    return ATTN_OK;
}
