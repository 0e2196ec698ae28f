/* Checks the results of an operation: computes some of the rows again in double with the kernel
 * table `ref`, and compares the outputs and logsumexps. */
#include <math.h>
#include <string.h>

#include <attn/rng.h>

#include "attention/mix_weights.h"
#include "attention/tile_pass.h"
#include "base/try.h"

/* Computes one row: its output in w->acc [value width] and its logsumexp in *lse. `scores` is
 * scratch of [S] for normalisers other than softmax. w->value_magnitude becomes the number by which
 * errors of outputs are divided: the largest magnitude of the values, times the sum of the weights
 * if that is above 1. */
static attn_status recompute(const attn_attention *a, const attn_block *row,
                             const attn_control *control, attn_block_work *w, double *scores,
                             double *lse, attn_error *err) {
    const attn_kernels *k = w->kernels;
    size_t ld;
    const void *q = attn_query_rows(a, row->b, row->h, row->i, 1, k->elem, w->query, &ld);
    w->value_magnitude = 1e-38; /* about FLT_MIN, so that the divisor is never 0 */
    const attn_stream stream = {.block = *row, .q = q, .ldq = ld, .control = control, .w = w};
    if (a->dims.normalizer) {
        attn_normalized_row normalized;
        attn_block_normalize(a, &stream, NULL, scores, &normalized);
        attn_normalizer_weights(a, scores, scores, sizeof *scores, a->dims.S, normalized.threshold,
                                normalized.divisor);
        double mass = 0;
        for (size_t j = 0; j < a->dims.S; j++)
            mass += scores[j];
        w->value_magnitude *= fmax(1, mass);
        *lse = -INFINITY; /* the row has no logsumexp */
        return attn_control_check(control, err);
    }
    attn_block_stream(a, &stream, 1, NULL);
    ATTN_TRY(attn_control_check(control, err));
    double max, sum;
    k->statistics(w->max, w->sum, 1, &max, &sum);
    *lse = max == -INFINITY ? -INFINITY : k->logsumexp(max, sum);
    for (size_t e = 0; e < a->dims.value_width; e++)
        ((double *)w->acc)[e] = max == -INFINITY ? 0 : ((double *)w->acc)[e] / sum;
    return ATTN_OK;
}

/* The computation of a row of an output head, or of all heads that it mixes. */
typedef struct checked {
    const attn_attention *a;
    const attn_results *results;
    const attn_control *control;
    attn_block_work w;
    double *scores; /* [S], for normalisers other than softmax */
    double *output; /* [Ev] */
    double largest; /* the magnitude by which the error of the output is divided */
    attn_verification found;
} checked;

/* Adds `factor` times the output of a row of a head, from element `column` of its values on, to the
 * output. */
static attn_status add_row(checked *c, const attn_block *row, double factor, size_t column,
                           attn_error *err) {
    const attn_attention *a = c->a;
    const attn_stats *stats = &c->results->stats;
    const size_t at = attn_row_index(a, row->b, row->h, row->i);
    double lse, got = -INFINITY;
    ATTN_TRY(recompute(a, row, c->control, &c->w, c->scores, &lse, err));
    if (stats->sum[at] != 0 && !a->dims.normalizer)
        got = (stats->kind[at] == ATTN_ROW_DOUBLE ? c->w.kernels : a->kernels)
                  ->logsumexp(stats->max[at], stats->sum[at]);
    if (got != lse)
        c->found.logsumexp_error = fmax(c->found.logsumexp_error, fabs(got - lse));
    for (size_t e = 0; factor != 0 && e < a->dims.Ev; e++)
        c->output[e] += factor * ((const double *)c->w.acc)[column + e];
    c->largest += fabs(factor) * (isfinite(c->w.value_magnitude) ? c->w.value_magnitude : 1);
    return ATTN_OK;
}

static double output_difference(const checked *c, size_t b, size_t g, size_t i) {
    const attn_attention_dims *d = &c->a->dims;
    const attn_tensor *o = &c->results->output;
    const size_t row =
        c->a->in.layout == ATTN_BHLE ? (b * d->Ho + g) * d->L + i : (b * d->L + i) * d->Ho + g;
    double most = 0;
    for (size_t e = 0; e < d->Ev; e++)
        most = fmax(most, fabs(attn_element(o->data, attn_dtype_size(o->dtype), row * d->Ev + e) -
                               c->output[e]));
    return most;
}

/* Checks row i of output head g of batch entry b. */
static attn_status check_row(checked *c, size_t b, size_t g, size_t i, attn_error *err) {
    const attn_attention_dims *d = &c->a->dims;
    memset(c->output, 0, d->Ev * sizeof *c->output);
    c->largest = 0;
    if (!d->factors)
        ATTN_TRY(add_row(c, &(attn_block){b, g, i, 1}, 1, 0, err));
    for (size_t n = 0; d->factors && n < d->reads; n++) {
        const attn_block row = {b, attn_mix_head(d, g, n), i, 1};
        ATTN_TRY(add_row(c, &row, attn_mix_factors(c->a, g)[n], attn_mix_column(d, row.h, g), err));
    }
    const double scale = c->largest > 0 ? c->largest : 1;
    c->found.output_error = fmax(c->found.output_error, output_difference(c, b, g, i) / scale);
    return ATTN_OK;
}

static void place_check(attn_area *area, const attn_attention_dims *d, checked *c) {
    attn_block_work_place(area, &c->w, &attn_kernels_ref, 1, d);
    c->scores = attn_area_take(area, d->normalizer ? d->S : 0, sizeof(double));
    c->output = attn_area_take(area, d->Ev, sizeof(double));
}

attn_status attn_attention_verify(const attn_attention *a, const attn_results *results, size_t n,
                                  uint64_t seed, const attn_control *control, attn_arena *arena,
                                  attn_verification *out, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    const size_t rows = d->B * d->Ho * d->L;
    checked c = {.a = a, .results = results, .control = control, .found.rows = rows ? n : 0};
    attn_area counted = {0}, area;
    if (!results->output.rank)
        return attn_fail(err, ATTN_EARG, "verify", "only a run with its output can be verified");
    place_check(&counted, d, &c);
    ATTN_TAKEN(attn_area_open(&area, &counted, arena), "verification", err);
    place_check(&area, d, &c);
    for (size_t r = 0; r < c.found.rows; r++) {
        const size_t at = (size_t)(attn_rng_bits(seed, r) % rows), head = at / d->L;
        ATTN_TRY(check_row(&c, head / d->Ho, head % d->Ho, at % d->L, err));
    }
    *out = c.found;
    return ATTN_OK;
}
