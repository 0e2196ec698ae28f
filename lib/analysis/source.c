/* The rows of a run as a source of weights for heatmaps: each fetch computes them anew, exactly. */
#include <attn/heatmap.h>

#include "attention/cells.h"

typedef struct lane {
    attn_cells_scratch *scratch;
    double *wide; /* [S] one row of float64 weights before it is narrowed; NULL for float32 */
} lane;

typedef struct source {
    const attn_attention *a;
    const attn_stats *stats;
    lane *lanes;
} source;

static attn_status fetch_f64(const source *s, lane *l, const attn_range *rows, float *weights,
                             float *logits, attn_error *err) {
    for (size_t r = 0; r < rows->rows; r++) {
        attn_range one = *rows;
        one.row += r;
        one.rows = 1;
        attn_status status = attn_cells_with_logits(s->a, s->stats, &one, l->wide,
                                                    logits + r * rows->cols, l->scratch, err);
        if (status != ATTN_OK)
            return status;
        attn_widen_f32(weights + r * rows->cols, l->wide, ATTN_F64, 1, rows->cols);
    }
    return ATTN_OK;
}

static attn_status fetch(void *ctx, size_t lane_index, const attn_range *rows, float *weights,
                         float *logits, attn_error *err) {
    const source *s = ctx;
    lane *l = &s->lanes[lane_index];
    if (l->wide)
        return fetch_f64(s, l, rows, weights, logits, err);
    return attn_cells_with_logits(s->a, s->stats, rows, weights, logits, l->scratch, err);
}

attn_status attn_attention_source(const attn_attention *a, const attn_stats *stats, size_t lanes,
                                  attn_arena *arena, attn_weight_source *out, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    source *s = attn_arena_small(arena, sizeof *s);
    bool ok = s != NULL;
    if (ok) {
        *s = (source){a, stats, attn_arena_zeroed(arena, lanes, sizeof *s->lanes)};
        ok = s->lanes != NULL;
    }
    for (size_t i = 0; ok && i < lanes; i++) {
        s->lanes[i].scratch = attn_cells_scratch_new(a, arena);
        ok = s->lanes[i].scratch != NULL;
        if (ok && d->result == ATTN_F64)
            ok = (s->lanes[i].wide = attn_arena_zeroed(arena, d->S, sizeof(double))) != NULL;
    }
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the heatmap's rows");
    *out = (attn_weight_source){.batches = d->B,
                                .heads = d->Hq,
                                .rows = d->L,
                                .cols = d->S,
                                .has_logits = true,
                                .fetch = fetch,
                                .ctx = s};
    return ATTN_OK;
}
