/* Checks the results of an operation: computes some of the rows again in double with the kernel
 * table `ref`, and compares the outputs and logsumexps. */
#include <math.h>

#include <attn/rng.h>

#include "attention/tile_pass.h"
#include "base/try.h"

/* Computes one row: its output in w->acc [Ev] and its logsumexp in *lse. `scores` is scratch of [S]
 * for normalisers other than softmax. w->value_magnitude becomes
 * the largest magnitude of the values, by which errors of outputs are divided, times the sum of the
 * weights if it is above 1. */
static attn_status recompute(const attn_attention *a, const attn_block *row,
                             const attn_control *control, attn_block_work *w, double *scores,
                             double *lse, attn_error *err) {
    const attn_kernels *k = w->kernels;
    size_t ld;
    const void *q = attn_query_rows(a, row->b, row->h, row->i, 1, k->elem, w->query, &ld);
    w->value_magnitude = 1e-38; /* about FLT_MIN, so that the division has no divisor 0 */
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
        *lse = -INFINITY; /* there is none */
        return attn_control_check(control, err);
    }
    attn_block_stream(a, &stream, 1, NULL);
    ATTN_TRY(attn_control_check(control, err));
    double max, sum;
    k->statistics(w->max, w->sum, 1, &max, &sum);
    *lse = max == -INFINITY ? -INFINITY : k->logsumexp(max, sum);
    for (size_t e = 0; e < a->dims.Ev; e++)
        ((double *)w->acc)[e] = max == -INFINITY ? 0 : ((double *)w->acc)[e] / sum;
    return ATTN_OK;
}

static double output_difference(const attn_attention *a, const attn_results *results,
                                const attn_block *row, const double *truth) {
    const size_t base = row->b * a->dims.Hq * a->dims.L * a->dims.Ev +
                        row->h * (size_t)a->out_head + row->i * (size_t)a->out_row;
    const attn_tensor *o = &results->output;
    const size_t elem = attn_dtype_size(o->dtype);
    double most = 0;
    for (size_t e = 0; e < a->dims.Ev; e++)
        most = fmax(most, fabs(attn_element(o->data, elem, base + e) - truth[e]));
    return most;
}

attn_status attn_attention_verify(const attn_attention *a, const attn_results *results, size_t n,
                                  uint64_t seed, const attn_control *control, attn_arena *arena,
                                  attn_verification *out, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    const size_t rows = d->B * d->Hq * d->L;
    attn_verification v = {.rows = rows ? n : 0};
    const attn_kernels *ref = &attn_kernels_ref;
    attn_area counted = {0}, area;
    attn_block_work w;
    if (!results->output.rank)
        return attn_fail(err, ATTN_EARG, "verify", "only a run with its output can be verified");
    const size_t scratch = d->normalizer ? d->S : 0;
    attn_block_work_place(&counted, &w, ref, 1, d);
    attn_area_take(&counted, scratch, sizeof(double));
    ATTN_TAKEN(attn_area_open(&area, &counted, arena), "verification", err);
    attn_block_work_place(&area, &w, ref, 1, d);
    double *scores = attn_area_take(&area, scratch, sizeof(double));
    for (size_t r = 0; r < v.rows; r++) {
        const size_t at = (size_t)(attn_rng_bits(seed, r) % rows), head = at / d->L;
        attn_block row = {head / d->Hq, head % d->Hq, at % d->L, 1};
        double lse, got = -INFINITY;
        ATTN_TRY(recompute(a, &row, control, &w, scores, &lse, err));
        if (results->stats.sum[at] != 0 && !d->normalizer)
            got = results->stats.kind[at] == ATTN_ROW_DOUBLE
                      ? w.kernels->logsumexp(results->stats.max[at], results->stats.sum[at])
                      : a->kernels->logsumexp(results->stats.max[at], results->stats.sum[at]);
        if (got != lse)
            v.logsumexp_error = fmax(v.logsumexp_error, fabs(got - lse));
        const double scale = isfinite(w.value_magnitude) ? w.value_magnitude : 1;
        v.output_error = fmax(v.output_error, output_difference(a, results, &row, w.acc) / scale);
    }
    *out = v;
    return ATTN_OK;
}
