/* Norms of the vectors that the weights of an operation multiply, and the source of weights times
 * norms (attn/analysis.h). */
#include "attn/analysis.h"

#include <math.h>

#include "analysis/sums.h"
#include "attention/mix_weights.h"
#include "base/sweep.h"
#include "base/try.h"
#include "kernels/gemm.h"

enum { ROWS = 64 }; /* largest number of values of a piece of work */

/* Scratch memory of a thread. */
typedef struct lane {
    double *values; /* [ROWS, Ev] */
    double *mapped; /* [ROWS, Do] values times W_o^h */
} lane;

typedef struct norm_work {
    const attn_attention *a;
    const attn_attention_dims *dims;
    const double *w_o; /* [Do, Ho * Ev]; NULL: no output projection */
    size_t out_width;  /* width Do of the projected output */
    size_t parts;      /* pieces of a head */
    lane *lanes;
    double *to; /* [B, Ho, S] */
} norm_work;

static double length_of(const double *x, size_t n) {
    double most = 0, sum = 0;
    for (size_t e = 0; e < n; e++)
        most = fmax(most, fabs(x[e]));
    if (most == 0 || !isfinite(most))
        return most;
    for (size_t e = 0; e < n; e++)
        sum += (x[e] / most) * (x[e] / most);
    return most * sqrt(sum);
}

/* Computes the norms of at most ROWS values of one head. */
static attn_status measure_values(void *work, size_t index, size_t lane_index, attn_error *err) {
    const norm_work *n = work;
    const attn_attention_dims *d = n->dims;
    const lane *l = &n->lanes[lane_index];
    const size_t head = index / n->parts, b = head / d->Ho, h = head % d->Ho;
    const size_t first = index % n->parts * ROWS;
    const size_t rows = d->S - first < ROWS ? d->S - first : ROWS;
    size_t width = d->Ev, ld;
    const double *values = attn_sent_value_rows(n->a, b, attn_mix_value_head(d, h), first, rows,
                                                sizeof(double), l->values, &ld);
    (void)err;
    if (n->w_o) {
        const attn_gemm_dims dims = {.M = rows,
                                     .N = n->out_width,
                                     .K = d->Ev,
                                     .lda = ld,
                                     .ldb = d->Ho * d->Ev,
                                     .ldc = n->out_width,
                                     .transpose_b = true};
        attn_kernels_gemm_f64(l->mapped, values, n->w_o + h * d->Ev, &dims, 0);
        values = l->mapped;
        width = ld = n->out_width;
    }
    for (size_t r = 0; r < rows; r++)
        n->to[head * d->S + first + r] = length_of(values + r * ld, width);
    return ATTN_OK;
}

static void place_norm_lane(const void *work, attn_area *area, void *to) {
    const norm_work *n = work;
    lane *l = to;
    l->values = attn_area_take_3(area, ROWS, n->dims->Ev, 1, sizeof *l->values);
    l->mapped = attn_area_take_3(area, ROWS, n->out_width, 1, sizeof *l->mapped);
}

static void place_norms(void *work, attn_area *area) {
    norm_work *n = work;
    n->to = attn_area_take_3(area, n->dims->B, n->dims->Ho, n->dims->S, sizeof *n->to);
}

static const attn_sweep norm_sweep = {sizeof(lane), place_norm_lane, place_norms, measure_values,
                                      NULL};

attn_status attn_value_norms_cost(const attn_attention_dims *d, const attn_tensor *w_o,
                                  size_t slots, attn_cost *out, attn_error *err) {
    norm_work n = {.dims = d, .out_width = w_o && w_o->rank ? w_o->dims[0] : 0};
    attn_area result = {0}, all = attn_sweep_count(&norm_sweep, &n, slots);
    place_norms(&n, &result);
    attn_area_take_3(&all, n.out_width, d->Ho, d->Ev, sizeof *n.w_o);
    if (all.overflow)
        return attn_fail(err, ATTN_ELIMIT, "value", "norms of the values are too many");
    const double values = (double)d->B * (double)d->Ho * (double)d->S * (double)d->Ev;
    *out = (attn_cost){.operations = values * (3 + 2 * (double)n.out_width),
                       .work_bytes = all.used - result.content,
                       .result_bytes = result.content};
    return ATTN_OK;
}

attn_status attn_value_norms(const attn_attention *a, const attn_tensor *w_o, attn_pool *pool,
                             const attn_control *control, attn_arena *arena, const double **out,
                             attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    norm_work n = {.a = a, .dims = d, .parts = d->S / ROWS + (d->S % ROWS != 0)};
    if (d->relative_values)
        return attn_fail(err, ATTN_EARG, "position/value_table",
                         "a value plus a vector by distance has no norm of its own");
    if (w_o && w_o->rank) {
        if (w_o->rank != 2 || w_o->dims[1] != d->Ho * d->Ev)
            return attn_fail(err, ATTN_ESHAPE, "projections/w_o",
                             "expected [out, %zu]: heads times value width", d->Ho * d->Ev);
        n.out_width = w_o->dims[0];
        n.w_o = attn_dense_copy(w_o, ATTN_F64, arena);
    }
    n.lanes = attn_sweep_open(&norm_sweep, &n, attn_pool_slots(pool), arena);
    ATTN_TAKEN(n.lanes && (!n.out_width || n.w_o), "the norms of values", err);
    *out = n.to;
    return attn_sweep_run(&norm_sweep, &n, d->B * d->Ho * n.parts, 0, pool, control, err);
}

/* --- weights times norms --- */

typedef struct scaled {
    const attn_weight_source *inner;
    const double *norms;
} scaled;

static attn_status fetch_scaled(void *ctx, size_t lane_index, const attn_range *at, float *weights,
                                float *logits, attn_error *err) {
    const scaled *s = ctx;
    const attn_weight_source *in = s->inner;
    const double *norm = s->norms + (at->batch * in->heads + at->head) * in->cols + at->col;
    ATTN_TRY(in->fetch(in->ctx, lane_index, at, weights, logits, err));
    for (size_t r = 0; r < at->rows; r++)
        for (size_t j = 0; j < at->cols; j++) {
            float *w = weights + r * at->cols + j, *l = logits + r * at->cols + j;
            if (*w != 0) /* skips hidden keys, whose values may be infinite */
                *w = (float)((double)*w * norm[j]);
            /* -200 takes the place of ln 0, as in a masked source */
            if (in->has_logits && *l != -INFINITY)
                *l = *w > 0 ? logf(*w) : -200.0f;
        }
    return ATTN_OK;
}

attn_status attn_value_norm_source(const attn_weight_source *source, const double *norms,
                                   attn_arena *arena, attn_weight_source *out, attn_error *err) {
    scaled *s = attn_arena_small(arena, sizeof *s);
    ATTN_TAKEN(s, "the norms of values", err);
    *s = (scaled){source, norms};
    *out = *source;
    out->not_softmax = source->not_softmax && !source->has_logits;
    out->fetch = fetch_scaled;
    out->ctx = s;
    return ATTN_OK;
}
