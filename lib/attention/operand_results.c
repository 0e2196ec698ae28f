/* Results that are copied or computed from the operands: the cache with the new rows, the operands
 * themselves, and the values times their weights. */
#include <string.h>

#include "attention/mix_weights.h"
#include "attention/operands.h"
#include "base/try.h"

/* Fills the dense tensor *t [batch.., heads, n, width] with the n rows of each head. `read` returns
 * a row. The memory of *t is allocated already. */
static void join_rows_of_heads(const attn_attention *a, attn_rows_reader read, const attn_tensor *t,
                               size_t heads, size_t n) {
    const size_t width = t->dims[t->rank - 1], elem = attn_dtype_size(t->dtype);
    char *to = t->data;
    size_t ld;
    for (size_t b = 0; b < a->dims.B; b++)
        for (size_t h = 0; h < heads; h++)
            for (size_t j = 0; j < n; j++, to += width * elem) {
                const void *row = read(a, b, h, j, 1, elem, to, &ld);
                if (row != to)
                    memcpy(to, row, width * elem);
            }
}

/* Returns a dense tensor [batch.., heads, n, width] over `data`. The tensor lacks the axis of heads
 * if `has_heads` is false. */
static attn_tensor shape_of_heads(const attn_attention_dims *d, void *data, bool has_heads,
                                  size_t heads, size_t n, size_t width) {
    size_t dims[ATTN_MAX_RANK];
    int rank = d->batch_rank;
    memcpy(dims, d->batch, sizeof dims);
    if (has_heads)
        dims[rank++] = heads;
    dims[rank++] = n;
    dims[rank++] = width;
    return attn_tensor_dense(data, d->result, rank, dims);
}

/* Returns keys as the caller gave them: neither rotated by the operation nor mapped by a score
 * form. */
static const void *raw_key_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0, size_t n,
                                size_t elem, void *scratch, size_t *ld) {
    return attn_view_rows(&a->past_key, a->dims.past, &a->key, b, hkv, j0, n, a->dims.Ek, elem,
                          scratch, ld);
}

/* Returns keys that are rotated if positions are rotary, but not mapped by a score form. */
static const void *plain_key_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0,
                                  size_t n, size_t elem, void *scratch, size_t *ld) {
    const bool rotary = a->in.position.kind == ATTN_POSITION_ROTARY;
    return rotary ? attn_view_rows(&a->past_key, a->turned_past, &a->turned_key, b, hkv, j0, n,
                                   a->dims.Ek, elem, scratch, ld)
                  : raw_key_rows(a, b, hkv, j0, n, elem, scratch, ld);
}

/* Returns queries that are rotated if positions are rotary, but not mapped by a score form. */
static const void *plain_query_rows(const attn_attention *a, size_t b, size_t h, size_t i0,
                                    size_t n, size_t elem, void *scratch, size_t *ld) {
    const bool rotary = a->in.position.kind == ATTN_POSITION_ROTARY;
    return attn_view_rows(NULL, 0, rotary ? &a->turned_query : &a->query, b, h, i0, n, a->dims.E,
                          elem, scratch, ld);
}

void attn_present(const attn_attention *a, attn_results *out) {
    const attn_attention_dims *d = &a->dims;
    const bool raw = a->in.position.past == ATTN_PAST_RAW;
    const bool heads =
        a->in.past_key.rank ? a->in.past_key.rank == d->batch_rank + 3 : d->has_heads;
    out->present_key = shape_of_heads(d, out->present_key.data, heads, d->Hkv, d->S, d->Ek);
    out->present_value = shape_of_heads(d, out->present_value.data, heads, d->Hv, d->S, d->Ev);
    join_rows_of_heads(a, raw ? raw_key_rows : plain_key_rows, &out->present_key, d->Hkv, d->S);
    join_rows_of_heads(a, attn_sent_value_rows, &out->present_value, d->Hv, d->S);
}

/* Makes a tensor of zeros with the shape and type of `like`. */
static attn_status take_dense(attn_tensor like, attn_arena *arena, attn_tensor *out,
                              attn_error *err) {
    return attn_dense_zeros(&like, like.dtype, arena, out, err);
}

attn_status attn_attention_operands(const attn_attention *a, attn_arena *arena, attn_tensor *query,
                                    attn_tensor *key, attn_tensor *value, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    ATTN_TRY(
        take_dense(shape_of_heads(d, NULL, d->has_heads, d->Hq, d->L, d->E), arena, query, err));
    ATTN_TRY(
        take_dense(shape_of_heads(d, NULL, d->has_heads, d->Hkv, d->S, d->Ek), arena, key, err));
    ATTN_TRY(
        take_dense(shape_of_heads(d, NULL, d->has_heads, d->Hv, d->S, d->Ev), arena, value, err));
    join_rows_of_heads(a, plain_query_rows, query, d->Hq, d->L);
    join_rows_of_heads(a, plain_key_rows, key, d->Hkv, d->S);
    join_rows_of_heads(a, attn_sent_value_rows, value, d->Hv, d->S);
    return ATTN_OK;
}

attn_status attn_attention_weighted_values(const attn_attention *a, const attn_tensor *weights,
                                           const attn_control *control, attn_arena *arena,
                                           attn_tensor *out, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    const size_t elem = attn_dtype_size(d->result), rows = d->B * d->Ho * d->L;
    size_t dims[ATTN_MAX_RANK], ld;
    memcpy(dims, d->weights, sizeof dims);
    if (d->relative_values)
        return attn_fail(err, ATTN_EARG, "position/value_table",
                         "the values depend on the query, too");
    if (d->weights_rank == ATTN_MAX_RANK)
        return attn_fail(err, ATTN_ESHAPE, "query", "no axis is left for the values");
    dims[d->weights_rank] = d->Ev;
    ATTN_TRY(
        take_dense(attn_tensor_dense(NULL, d->result, d->weights_rank + 1, dims), arena, out, err));
    double *weight = attn_arena_take(arena, (d->S + 2 * d->Ev) * sizeof *weight);
    ATTN_TAKEN(weight, "the weighted values", err);
    double *scratch = weight + d->S, *product = scratch + d->Ev;
    for (size_t row = 0; row < rows; row++) {
        const size_t b = row / (d->Ho * d->L), g = row / d->L % d->Ho;
        attn_widen_f64(weight, (const char *)weights->data + row * d->S * elem, d->result, 1, d->S);
        for (size_t j = 0; j < d->S; j++) {
            if (weight[j] == 0)
                continue;
            const double *value = attn_sent_value_rows(a, b, attn_mix_value_head(d, g), j, 1,
                                                       sizeof *value, scratch, &ld);
            for (size_t e = 0; e < d->Ev; e++)
                product[e] = weight[j] * value[e];
            attn_dense_store(out, (row * d->S + j) * d->Ev, product, d->Ev);
        }
        ATTN_TRY(attn_control_check(control, err));
    }
    return ATTN_OK;
}
