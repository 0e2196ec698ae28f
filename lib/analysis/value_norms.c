/* Norms of the vectors that the weights of an operation multiply, and the source of weights times
 * norms (attn/analysis.h). */
#include "attn/analysis.h"

#include <math.h>

#include "analysis/sums.h"
#include "attention/operands.h"
#include "kernels/gemm.h"

enum { ROWS = 64 }; /* values of a task */

/* Scratch memory of a thread. */
typedef struct lane {
    double *values; /* [ROWS, Ev] */
    double *mapped; /* [ROWS, Do] values times W_o^h; NULL: there is no W_o */
} lane;

typedef struct measuring {
    const attn_attention *a;
    const double *w_o; /* [Do, Hq * Ev]; NULL: none */
    size_t out_width;  /* Do */
    size_t parts;      /* tasks of a head */
    lane *lanes;
    double *to; /* [B, Hq, S] */
} measuring;

static double length(const double *x, size_t n) {
    double most = 0, sum = 0;
    for (size_t e = 0; e < n; e++)
        most = fmax(most, fabs(x[e]));
    if (most == 0 || !isfinite(most))
        return most;
    for (size_t e = 0; e < n; e++)
        sum += (x[e] / most) * (x[e] / most);
    return most * sqrt(sum);
}

/* Computes the norms of ROWS values of head (b, h). */
static attn_status measure_part(void *ctx, size_t index, size_t lane_index, attn_error *err) {
    const measuring *n = ctx;
    const attn_attention_dims *d = &n->a->dims;
    const lane *l = &n->lanes[lane_index];
    const size_t head = index / n->parts, b = head / d->Hq, h = head % d->Hq;
    const size_t first = index % n->parts * ROWS;
    const size_t rows = d->S - first < ROWS ? d->S - first : ROWS;
    size_t width = d->Ev, ld;
    const double *values = attn_value_rows(n->a, b, attn_kv_head(n->a, h), first, rows,
                                           sizeof(double), l->values, &ld);
    (void)err;
    if (n->w_o) {
        const attn_gemm_dims dims = {.M = rows,
                                     .N = n->out_width,
                                     .K = d->Ev,
                                     .lda = ld,
                                     .ldb = d->Hq * d->Ev,
                                     .ldc = n->out_width,
                                     .transpose_b = true};
        attn_kernels_gemm_f64(l->mapped, values, n->w_o + h * d->Ev, &dims, 0);
        values = l->mapped;
        width = ld = n->out_width;
    }
    for (size_t r = 0; r < rows; r++)
        n->to[head * d->S + first + r] = length(values + r * ld, width);
    return ATTN_OK;
}

attn_status attn_value_norms_cost(const attn_attention_dims *d, const attn_tensor *w_o,
                                  size_t slots, attn_cost *out, attn_error *err) {
    const size_t width = w_o && w_o->rank ? w_o->dims[0] : 0;
    attn_bytes work = {0}, result = {0};
    attn_add_array(&work, slots, ROWS, d->Ev, sizeof(double));
    attn_add_array(&work, slots, ROWS, width, sizeof(double));
    attn_add_array(&work, slots, 1, 1, sizeof(lane) + 2 * ATTN_ALIGN);
    attn_add_array(&work, width, d->Hq, d->Ev, sizeof(double));
    attn_add_array(&result, d->B, d->Hq, d->S, sizeof(double));
    if (work.overflow || result.overflow)
        return attn_fail(err, ATTN_ELIMIT, "value", "norms of the values are too many");
    const double values = (double)d->B * (double)d->Hq * (double)d->S * (double)d->Ev;
    *out = (attn_cost){.operations = values * (3 + 2 * (double)width),
                       .work_bytes = work.bytes,
                       .result_bytes = result.bytes};
    return ATTN_OK;
}

static bool take_lanes(measuring *n, size_t slots, attn_arena *arena) {
    const size_t Ev = n->a->dims.Ev;
    n->lanes = attn_arena_zeroed(arena, slots, sizeof *n->lanes);
    for (size_t i = 0; n->lanes && i < slots; i++) {
        n->lanes[i].values = attn_arena_zeroed(arena, ROWS * Ev, sizeof(double));
        if (n->w_o)
            n->lanes[i].mapped = attn_arena_zeroed(arena, ROWS * n->out_width, sizeof(double));
        if (!n->lanes[i].values || (n->w_o && !n->lanes[i].mapped))
            return false;
    }
    return n->lanes != NULL;
}

attn_status attn_value_norms(const attn_attention *a, const attn_tensor *w_o, attn_pool *pool,
                             const attn_control *control, attn_arena *arena, const double **out,
                             attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    measuring n = {.a = a, .parts = d->S / ROWS + (d->S % ROWS != 0)};
    if (d->relative_values)
        return attn_fail(err, ATTN_EARG, "position/value_table",
                         "a value plus a vector by distance has no norm of its own");
    if (w_o && w_o->rank) {
        if (w_o->rank != 2 || w_o->dims[1] != d->Hq * d->Ev)
            return attn_fail(err, ATTN_ESHAPE, "projections/w_o",
                             "expected [out, %zu]: heads times value width", d->Hq * d->Ev);
        n.out_width = w_o->dims[0];
        n.w_o = attn_dense_copy(w_o, ATTN_F64, arena);
    }
    n.to = attn_arena_zeroed(arena, d->B * d->Hq * d->S, sizeof *n.to);
    if (!n.to || (n.out_width && !n.w_o) || !take_lanes(&n, attn_pool_slots(pool), arena))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the norms of values");
    const attn_status status =
        attn_pool_run(pool, d->B * d->Hq * n.parts, measure_part, &n, control, err);
    *out = n.to;
    return status;
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
    const attn_status status = in->fetch(in->ctx, lane_index, at, weights, logits, err);
    for (size_t r = 0; !status && r < at->rows; r++)
        for (size_t j = 0; j < at->cols; j++) {
            float *w = weights + r * at->cols + j, *l = logits + r * at->cols + j;
            if (*w != 0) /* a hidden value may be infinite */
                *w = (float)((double)*w * norm[j]);
            /* ln 0 is replaced by -200, as in a masked source */
            if (in->has_logits && *l != -INFINITY)
                *l = *w > 0 ? logf(*w) : -200.0f;
        }
    return status;
}

attn_status attn_value_norm_source(const attn_weight_source *source, const double *norms,
                                   attn_arena *arena, attn_weight_source *out, attn_error *err) {
    scaled *s = attn_arena_small(arena, sizeof *s);
    if (!s)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the norms of values");
    *s = (scaled){source, norms};
    *out = *source;
    out->fetch = fetch_scaled;
    out->ctx = s;
    return ATTN_OK;
}
