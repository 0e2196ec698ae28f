/* Tables of positions for callers (attn/positions.h), and the sinusoidal encodings that are added
 * to the inputs of projections. */
#include <attn/positions.h>

#include <attn/rng.h>
#include <math.h>
#include <string.h>

#include "attention/resolved.h"
#include "base/view.h"

void attn_sinusoidal_row(double *row, double position, size_t width, attn_encoding_layout layout) {
    for (size_t i = 0; i < width / 2; i++) {
        const double angle = position * pow(10000, -2.0 * (double)i / (double)width);
        row[layout == ATTN_ENCODING_HALVES ? i : 2 * i] = sin(angle);
        row[layout == ATTN_ENCODING_HALVES ? width / 2 + i : 2 * i + 1] = cos(angle);
    }
}

/* Checks the control before row `row` of a table is computed, about once in a thousand numbers. */
static attn_status look(size_t row, size_t width, const attn_control *control, attn_error *err) {
    const size_t rows = width < 1024 ? 1024 / (width + 1) + 1 : 1;
    return row % rows ? ATTN_OK : attn_control_check(control, err);
}

attn_status attn_sinusoidal(double *table, size_t length, size_t width, attn_encoding_layout layout,
                            const attn_control *control, attn_error *err) {
    attn_status status = ATTN_OK;
    if ((unsigned)layout > ATTN_ENCODING_HALVES)
        return attn_fail(err, ATTN_EARG, "layout", "there is no layout of the number %d",
                         (int)layout);
    if (width % 2)
        return attn_fail(err, ATTN_EARG, "width",
                         "sinusoidal positions need an even width (pairs of sine and cosine), "
                         "found %zu",
                         width);
    for (size_t p = 0; p < length && !(status = look(p, width, control, err)); p++)
        attn_sinusoidal_row(table + p * width, (double)p, width, layout);
    return status;
}

attn_status attn_learned(double *table, size_t length, size_t width, double std, uint64_t seed,
                         const attn_control *control, attn_error *err) {
    attn_status status = ATTN_OK;
    for (size_t p = 0; p < length && !(status = look(p, width, control, err)); p++)
        for (size_t n = p * width; n < (p + 1) * width; n++)
            table[n] = std * attn_rng_normal(seed, n);
    return status;
}

attn_status attn_position_table(const attn_position *position, size_t H, size_t queries,
                                size_t keys, int64_t offset, const attn_control *control,
                                attn_arena *arena, double *table, attn_error *err) {
    if (position->kind != ATTN_POSITION_ALIBI && position->kind != ATTN_POSITION_T5 &&
        position->kind != ATTN_POSITION_RELATIVE)
        return attn_fail(err, ATTN_EARG, "kind", "alibi, t5 and relative positions are biases");
    attn_attention a = {.in = {.position = *position}, .dims = {.Hq = H}};
    attn_status status = attn_position_new(&a, arena, err);
    for (size_t r = 0; !status && r < H * queries && !(status = look(r, keys, control, err)); r++)
        attn_position_biases(&a.rule, r / queries, -(int64_t)(r % queries) - offset, keys,
                             table + r * keys);
    return status;
}

attn_status attn_rotary_table(const attn_position *position, size_t length, double *cosines,
                              double *sines, const attn_control *control, attn_error *err) {
    const size_t pairs = (size_t)position->dims / 2;
    attn_status status = ATTN_OK;
    if (position->dims < 1 || position->dims % 2)
        return attn_fail(err, ATTN_EARG, "dims",
                         "rotary positions turn pairs of coordinates: expected an even number "
                         "above 0, found %lld",
                         (long long)position->dims);
    for (size_t p = 0; p < length && !(status = look(p, 2 * pairs, control, err)); p++)
        attn_rotary_angles(position, (size_t)position->dims, (double)p, cosines + p * pairs,
                           sines + p * pairs);
    return status;
}

/* --- added to the inputs of projections --- */

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for positions");
}

/* Computes first[b], the position of row 0, for each of the `count` batch entries of x. Refuses
 * offsets that differ between batch entries of the operation that share a batch entry of x. */
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

/* Stores row r of x plus `position` [D] as row r of *out. `sum` is scratch [D]. */
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
