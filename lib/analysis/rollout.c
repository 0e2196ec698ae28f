/* Attention rollout as a source of rows (Abnar and Zuidema 2020). Row i of R = N_top ... N_1 is the
 * unit vector e_i times the layers' matrices from the last to the first, so that any block of rows
 * needs two blocks of its size and one of a layer, never a matrix. */
#include <string.h>

#include "analysis/sums.h"
#include "attn/analysis.h"

enum {
    CHUNK_BYTES = 1 << 20, /* of the rows that go through the layers together */
    CHUNK_LEAST = 8,
    LAYER_ROWS = 64, /* rows of a layer that are merged over heads together */
};

typedef struct lane {
    double *x, *y;           /* [chunk, S] */
    double *layer;           /* [LAYER_ROWS, S] mean over heads, with the residual, rows sum to 1 */
    float *weights, *logits; /* [LAYER_ROWS, S] */
} lane;

typedef struct rollout {
    const attn_weight_source *inner;
    size_t layers, batches, chunk;
    lane *lanes;
    const attn_control *control;
} rollout;

/* Rows of N(mean_h A + I). */
static attn_status load_layer(const rollout *r, const lane *l, size_t lane_index, size_t batch,
                              size_t row, size_t rows, attn_error *err) {
    const attn_weight_source *in = r->inner;
    const size_t S = in->cols;
    memset(l->layer, 0, rows * S * sizeof *l->layer);
    for (size_t h = 0; h < in->heads; h++) {
        attn_range at = {.batch = batch, .head = h, .row = row, .rows = rows, .cols = S};
        attn_status status = in->fetch(in->ctx, lane_index, &at, l->weights, l->logits, err);
        if (status)
            return status;
        for (size_t k = 0; k < rows * S; k++)
            l->layer[k] += (double)l->weights[k];
    }
    for (size_t i = 0; i < rows; i++) {
        double *a = l->layer + i * S;
        for (size_t j = 0; j < S; j++)
            a[j] /= (double)in->heads;
        a[row + i] += 1;
        double sum = attn_sum(a, S);
        for (size_t j = 0; j < S; j++)
            a[j] /= sum;
    }
    return ATTN_OK;
}

/* y = x N of one layer. */
static attn_status through(const rollout *r, const lane *l, size_t lane_index, size_t batch,
                           size_t rows, attn_error *err) {
    const size_t S = r->inner->cols;
    memset(l->y, 0, rows * S * sizeof *l->y);
    for (size_t j0 = 0; j0 < S; j0 += LAYER_ROWS) {
        size_t n = S - j0 < LAYER_ROWS ? S - j0 : LAYER_ROWS;
        attn_status status = attn_control_check(r->control, err);
        if (!status)
            status = load_layer(r, l, lane_index, batch, j0, n, err);
        if (status)
            return status;
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < n; j++) {
                const double x = l->x[i * S + j0 + j], *from = l->layer + j * S;
                double *to = l->y + i * S;
                if (x == 0)
                    continue;
                for (size_t k = 0; k < S; k++)
                    to[k] += x * from[k];
            }
    }
    return ATTN_OK;
}

static attn_status fetch(void *ctx, size_t lane_index, const attn_range *at, float *weights,
                         float *logits, attn_error *err) {
    const rollout *r = ctx;
    lane l = r->lanes[lane_index];
    const size_t S = r->inner->cols;
    (void)logits;
    for (size_t from = 0; from < at->rows; from += r->chunk) {
        size_t rows = at->rows - from < r->chunk ? at->rows - from : r->chunk;
        memset(l.x, 0, rows * S * sizeof *l.x);
        for (size_t i = 0; i < rows; i++)
            l.x[i * S + at->row + from + i] = 1;
        for (size_t layer = r->layers; layer-- > 0;) {
            attn_status status =
                through(r, &l, lane_index, layer * r->batches + at->batch, rows, err);
            if (status)
                return status;
            double *swap = l.x;
            l.x = l.y;
            l.y = swap;
        }
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < at->cols; j++)
                weights[(from + i) * at->cols + j] = (float)l.x[i * S + at->col + j];
    }
    return ATTN_OK;
}

static bool take_lane(const rollout *r, attn_arena *arena, lane *l) {
    const size_t S = r->inner->cols;
    *l = (lane){.x = attn_arena_zeroed(arena, r->chunk * S, sizeof(double)),
                .y = attn_arena_zeroed(arena, r->chunk * S, sizeof(double)),
                .layer = attn_arena_zeroed(arena, LAYER_ROWS * S, sizeof(double)),
                .weights = attn_arena_zeroed(arena, LAYER_ROWS * S, sizeof(float)),
                .logits = attn_arena_zeroed(arena, LAYER_ROWS * S, sizeof(float))};
    return l->x && l->y && l->layer && l->weights && l->logits;
}

attn_status attn_rollout_source(const attn_weight_source *source, size_t layers, size_t lanes,
                                const attn_control *control, attn_arena *arena,
                                attn_weight_source *out, attn_error *err) {
    if (source->rows != source->cols)
        return attn_fail(err, ATTN_ESHAPE, "weights",
                         "rollout multiplies layers: expected as many queries as keys, found %zu "
                         "and %zu",
                         source->rows, source->cols);
    if (layers == 0 || source->batches % layers || source->heads == 0)
        return attn_fail(err, ATTN_ESHAPE, "weights",
                         "%zu batch entries are not those of %zu layers", source->batches, layers);
    rollout *r = attn_arena_small(arena, sizeof *r);
    bool ok = r != NULL;
    if (ok) {
        size_t chunk = CHUNK_BYTES / sizeof(double) / (source->cols | 1);
        chunk = chunk < CHUNK_LEAST ? CHUNK_LEAST : chunk;
        *r = (rollout){source,
                       layers,
                       source->batches / layers,
                       chunk > source->rows ? source->rows | 1 : chunk,
                       attn_arena_zeroed(arena, lanes, sizeof *r->lanes),
                       control};
        ok = r->lanes != NULL;
    }
    for (size_t i = 0; ok && i < lanes; i++)
        ok = take_lane(r, arena, &r->lanes[i]);
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the rows of a rollout");
    *out = (attn_weight_source){.batches = r->batches,
                                .heads = 1,
                                .rows = source->rows,
                                .cols = source->cols,
                                .fetch = fetch,
                                .ctx = r};
    return ATTN_OK;
}
