/* Sources made from a source: a caller's weights with their mask, the difference of two operands;
 * and the sum over a source's cells. */
#include <math.h>

#include "attn/analysis.h"

/* --- weights with a mask --- */

typedef struct masked {
    const attn_weight_source *inner;
    const attn_mask *mask;
    uint8_t **keep; /* [lanes][S] */
} masked;

static attn_status fetch_masked(void *ctx, size_t lane, const attn_range *at, float *weights,
                                float *logits, attn_error *err) {
    const masked *m = ctx;
    attn_status status = m->inner->fetch(m->inner->ctx, lane, at, weights, logits, err);
    for (size_t r = 0; !status && r < at->rows; r++) {
        uint8_t *keep = m->keep[lane];
        float *w = weights + r * at->cols, *l = logits + r * at->cols;
        attn_mask_keep(m->mask, at->batch % attn_mask_batches(m->mask), at->head, at->row + r,
                       at->col, at->cols, keep);
        for (size_t j = 0; j < at->cols; j++) {
            /* -200 stands for ln of nothing: e^-200 is 0 in float32 */
            l[j] = !keep[j] ? -INFINITY : w[j] > 0 ? logf(w[j]) : -200.0f;
            w[j] = keep[j] ? w[j] : 0;
        }
    }
    return status;
}

attn_status attn_masked_source(const attn_weight_source *source, const attn_mask *mask,
                               size_t lanes, attn_arena *arena, attn_weight_source *out,
                               attn_error *err) {
    masked *m = attn_arena_small(arena, sizeof *m);
    bool ok = m != NULL;
    if (ok) {
        *m = (masked){source, mask, attn_arena_zeroed(arena, lanes, sizeof *m->keep)};
        ok = m->keep != NULL;
    }
    for (size_t i = 0; ok && i < lanes; i++)
        ok = (m->keep[i] = attn_arena_zeroed(arena, source->cols, 1)) != NULL;
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the mask's rows");
    *out = *source;
    out->has_logits = true;
    out->fetch = fetch_masked;
    out->ctx = m;
    return ATTN_OK;
}

/* --- differences --- */

typedef struct difference {
    const attn_weight_source *a, *b;
    size_t room;     /* floats of each lane */
    float **weights; /* [lanes] of b, and its logits behind them */
} difference;

/* As many rows at once as the lane has room for: at least one. */
static attn_status fetch_difference(void *ctx, size_t lane, const attn_range *at, float *weights,
                                    float *logits, attn_error *err) {
    const difference *d = ctx;
    float *other = d->weights[lane], *hidden = other + d->room;
    const bool both = d->a->has_logits && d->b->has_logits;
    size_t most = at->cols ? d->room / at->cols : at->rows;
    attn_status status = d->a->fetch(d->a->ctx, lane, at, weights, logits, err);
    for (size_t r = 0, n; !status && r < at->rows; r += n) {
        n = at->rows - r < most ? at->rows - r : most;
        attn_range part = *at;
        part.row += r;
        part.rows = n;
        status = d->b->fetch(d->b->ctx, lane, &part, other, hidden, err);
        float *w = weights + r * at->cols, *l = logits + r * at->cols;
        for (size_t k = 0; !status && k < n * at->cols; k++) {
            w[k] -= other[k];
            if (both)
                l[k] = l[k] == -INFINITY && hidden[k] == -INFINITY ? -INFINITY : 0;
        }
    }
    return status;
}

attn_status attn_difference_source(const attn_weight_source *a, const attn_weight_source *b,
                                   size_t lanes, attn_arena *arena, attn_weight_source *out,
                                   attn_error *err) {
    if (a->batches != b->batches || a->heads != b->heads || a->rows != b->rows ||
        a->cols != b->cols)
        return attn_fail(err, ATTN_ESHAPE, "",
                         "[%zu, %zu, %zu, %zu] and [%zu, %zu, %zu, %zu] have no difference: batch "
                         "entries, heads, queries and keys must be equal",
                         a->batches, a->heads, a->rows, a->cols, b->batches, b->heads, b->rows,
                         b->cols);
    difference *d = attn_arena_small(arena, sizeof *d);
    bool ok = d != NULL;
    if (ok) {
        size_t rows = (1 << 18) / (a->cols | 1);
        rows = rows < 1 ? 1 : rows > a->rows ? a->rows | 1 : rows;
        *d =
            (difference){a, b, rows * a->cols, attn_arena_zeroed(arena, lanes, sizeof *d->weights)};
        ok = d->weights != NULL;
    }
    for (size_t i = 0; ok && i < lanes; i++)
        ok = (d->weights[i] = attn_arena_zeroed(arena, d->room, 2 * sizeof(float))) != NULL;
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the rows of the second operand");
    *out = *a;
    out->has_logits = a->has_logits && b->has_logits;
    out->fetch = fetch_difference;
    out->ctx = d;
    return ATTN_OK;
}

/* --- sums --- */

typedef struct summing {
    const attn_weight_source *source;
    size_t block;
    float **rows; /* [lanes] weights and logits of a block */
    attn_head_sum *heads;
} summing;

/* A piece is a head: its rows are added in their order. */
static attn_status sum_head(void *ctx, size_t index, size_t lane, attn_error *err) {
    const summing *s = ctx;
    const attn_weight_source *from = s->source;
    float *w = s->rows[lane];
    attn_head_sum *out = &s->heads[index];
    attn_status status = ATTN_OK;
    for (size_t row = 0; !status && row < from->rows; row += s->block) {
        size_t n = from->rows - row < s->block ? from->rows - row : s->block;
        attn_range at = {.batch = index / from->heads,
                         .head = index % from->heads,
                         .row = row,
                         .rows = n,
                         .cols = from->cols};
        status = from->fetch(from->ctx, lane, &at, w, w + s->block * from->cols, err);
        for (size_t k = 0; !status && k < n * from->cols; k++) {
            out->sum += (double)w[k];
            out->magnitude += fabs((double)w[k]);
        }
    }
    return status;
}

attn_status attn_head_sums(const attn_weight_source *source, attn_pool *pool,
                           const attn_control *control, attn_arena *arena, attn_head_sum **out,
                           attn_error *err) {
    size_t heads = source->batches * source->heads, lanes = attn_pool_slots(pool);
    size_t rows = (1 << 16) / (source->cols | 1);
    summing s = {.source = source,
                 .block = rows < 1              ? 1
                          : rows > source->rows ? source->rows | 1
                                                : rows,
                 .rows = attn_arena_zeroed(arena, lanes, sizeof *s.rows),
                 .heads = attn_arena_zeroed(arena, heads, sizeof *s.heads)};
    bool ok = s.rows && s.heads;
    for (size_t i = 0; ok && i < lanes; i++)
        ok = (s.rows[i] = attn_arena_zeroed(arena, s.block * source->cols, 2 * sizeof(float))) !=
             NULL;
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the sums of %zu heads", heads);
    attn_status status = attn_pool_run(pool, heads, sum_head, &s, control, err);
    if (!status)
        *out = s.heads;
    return status;
}
