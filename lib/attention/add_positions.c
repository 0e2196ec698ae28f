/* Sinusoidal positions added to the inputs of projections (Vaswani et al. 2017, section 3.5). */
#include "attention/add_positions.h"

#include <attn/positions.h>
#include <string.h>

#include "base/dense.h"

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for positions");
}

/* Where row 0 of each of `count` batch entries of x stands. */
static attn_status first_positions(const attn_inputs *projected, bool queries, size_t count,
                                   attn_arena *arena, int64_t *first, attn_error *err) {
    attn_attention_dims d;
    attn_mask *mask;
    attn_status status = attn_attention_shape(projected, &d, err);
    if (status != ATTN_OK)
        return status;
    attn_mask_shape shape = {.batch_rank = d.batch_rank,
                             .has_heads = d.has_heads,
                             .H = d.Hq,
                             .L = d.L,
                             .S = d.S,
                             .past = d.past};
    memcpy(shape.batch, d.batch, sizeof shape.batch);
    status = attn_mask_new(&projected->mask, &shape, arena, &mask, err);
    if (status != ATTN_OK)
        return status;
    for (size_t b = 0; b < d.B; b++) {
        const int64_t at = queries ? attn_mask_offset(mask, b) : (int64_t)d.past;
        if (b < count)
            first[b] = at;
        else if (at != first[b % count])
            return attn_fail(
                err, ATTN_EARG, "query_offset",
                "offsets that differ by batch entry need queries of their own for each "
                "entry, to which positions can be added");
    }
    return ATTN_OK;
}

static void add_row(const attn_tensor *x, size_t r, const double *position, double *sum, size_t D,
                    attn_tensor *out) {
    attn_widen_f64(sum, attn_dense_row(x, r), x->dtype, x->strides[x->rank - 1], D);
    for (size_t c = 0; c < D; c++) {
        sum[c] += position[c];
        if (out->dtype == ATTN_F32)
            ((float *)out->data)[r * D + c] = (float)sum[c];
        else
            ((double *)out->data)[r * D + c] = sum[c];
    }
}

attn_status attn_add_positions(const attn_inputs *projected, bool queries, const attn_tensor *x,
                               attn_arena *arena, attn_tensor *out, attn_error *err) {
    const size_t L = x->dims[x->rank - 2], D = x->dims[x->rank - 1];
    const attn_dtype dtype = x->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    size_t count, bytes;
    if (D % 2)
        return attn_fail(err, ATTN_EARG, "projections/add_positions",
                         "sinusoidal positions need an even width (pairs of sine and cosine), "
                         "found %zu",
                         D);
    if (!attn_tensor_count(x, &count) || !attn_size_mul(count, attn_dtype_size(dtype), &bytes))
        return attn_fail(err, ATTN_ELIMIT, "query", "too many elements");
    const size_t rows = D ? count / D : 0, batches = L ? rows / L : 0;
    int64_t *first = attn_arena_zeroed(arena, batches + 1, sizeof *first);
    double *line = attn_arena_zeroed(arena, 2 * D, sizeof *line);
    *out = attn_tensor_dense(attn_arena_take(arena, bytes), dtype, x->rank, x->dims);
    if (!first || !line || !out->data)
        return no_memory(err);
    attn_status status =
        batches ? first_positions(projected, queries, batches, arena, first, err) : ATTN_OK;
    if (status != ATTN_OK)
        return status;
    for (size_t i = 0; i < L; i++)
        for (size_t b = 0; b < batches; b++) {
            if (b == 0 || first[b] != first[b - 1])
                attn_sinusoidal_row(line, (double)(first[b] + (int64_t)i), D,
                                    ATTN_ENCODING_INTERLEAVED);
            add_row(x, b * L + i, line, line + D, D, out);
        }
    return ATTN_OK;
}
