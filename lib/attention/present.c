/* The grown cache, and the refusal of queries that are not finite. */
#include <math.h>
#include <string.h>

#include "attention/cells.h"

typedef const void *(*rows_reader)(const attn_attention *, size_t, size_t, size_t, size_t, size_t,
                                   void *, size_t *);

static bool join(const attn_attention *a, attn_arena *arena, rows_reader read, size_t width,
                 attn_tensor *out) {
    const attn_attention_dims *d = &a->dims;
    const size_t elem = attn_dtype_size(d->result);
    const bool heads =
        a->in.past_key.rank ? a->in.past_key.rank == d->batch_rank + 3 : d->has_heads;
    size_t dims[ATTN_MAX_RANK], count, ld;
    int rank = d->batch_rank;
    memcpy(dims, d->batch, sizeof dims);
    if (heads)
        dims[rank++] = d->Hkv;
    dims[rank++] = d->S;
    dims[rank++] = width;
    *out = attn_tensor_dense(NULL, d->result, rank, dims);
    if (!attn_tensor_count(out, &count) || !attn_size_mul(count, elem, &count) ||
        !(out->data = attn_arena_take(arena, count)))
        return false;
    char *to = out->data;
    for (size_t b = 0; b < d->B; b++)
        for (size_t h = 0; h < d->Hkv; h++)
            for (size_t j = 0; j < d->S; j++, to += width * elem) {
                const void *row = read(a, b, h, j, 1, elem, to, &ld);
                if (row != to)
                    memcpy(to, row, width * elem);
            }
    return true;
}

/* Keys as they enter the cache: turned by their positions, not mapped by a score form. */
static const void *cache_key_rows(const attn_attention *a, size_t b, size_t hkv, size_t j0,
                                  size_t n, size_t elem, void *scratch, size_t *ld) {
    if (a->in.position.kind == ATTN_POSITION_ROTARY)
        return attn_key_rows(a, b, hkv, j0, n, elem, scratch, ld);
    return attn_view_rows(&a->past_key, a->dims.past, &a->key, b, hkv, j0, n, a->dims.Ek, elem,
                          scratch, ld);
}

attn_status attn_present(const attn_attention *a, attn_arena *arena, attn_results *out,
                         attn_error *err) {
    if (join(a, arena, cache_key_rows, a->dims.Ek, &out->present_key) &&
        join(a, arena, attn_value_rows, a->dims.Ev, &out->present_value))
        return ATTN_OK;
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the grown cache");
}

attn_status attn_refuse_query(const attn_attention *a, size_t b, size_t h, size_t i,
                              attn_error *err) {
    char path[96];
    if (a->in.allow_nonfinite || !attn_mask_sees_any(a->mask, b, h, i))
        return ATTN_OK;
    for (size_t e = 0; e < a->dims.E; e++) {
        double x;
        attn_widen_f64(&x, attn_view_at(&a->query, b, h, i, e), a->query.dtype, 1, 1);
        if (isfinite(x))
            continue;
        attn_element_path(a, 'q', b, h, i, e, path);
        return attn_fail(err, ATTN_ENONFINITE, path,
                         "%s in a query that sees a key; expected a finite number (or set "
                         "allow_nonfinite)",
                         isnan(x) ? "NaN" : "infinity");
    }
    attn_element_path(a, 'q', b, h, i, 0, path);
    return attn_fail(err, ATTN_ENONFINITE, path,
                     "the score form's map of this query overflows float32");
}
