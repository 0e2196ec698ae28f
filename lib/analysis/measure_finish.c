/* The sums of a head -> its measures. */
#include <math.h>
#include <stdlib.h>

#include "analysis/measure_private.h"
#include "analysis/sums.h"

static double mean(const attn_mean *m) {
    return m->count ? m->sum / (double)m->count : NAN;
}

static double share(double part, double whole) {
    return whole > 0 ? part / whole : NAN;
}

static int ascending(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

/* Offset 0 first, then -1, 1, -2, 2, …: so that ties fall to the nearest, then the negative one. */
static int64_t nth_offset(int64_t n) {
    return n % 2 ? -(n + 1) / 2 : n / 2;
}

static void finish_offsets(const attn_measure_sums *sums, double *values) {
    int64_t best = 0;
    for (int64_t n = 1; n < ATTN_DIAGONALS; n++)
        if (sums->peak[ATTN_OFFSETS + nth_offset(n)] > sums->peak[ATTN_OFFSETS + best])
            best = nth_offset(n);
    bool any = sums->peak[ATTN_OFFSETS + best] > 0;
    values[ATTN_PREVIOUS_TOKEN] = mean(&sums->diagonal[ATTN_OFFSETS - 1]);
    values[ATTN_CURRENT_TOKEN] = mean(&sums->diagonal[ATTN_OFFSETS]);
    values[ATTN_NEXT_TOKEN] = mean(&sums->diagonal[ATTN_OFFSETS + 1]);
    values[ATTN_POSITIONAL_OFFSET] = any ? (double)best : NAN;
    values[ATTN_POSITIONAL_SHARE] =
        any ? share((double)sums->peak[ATTN_OFFSETS + best], (double)sums->rows) : NAN;
    values[ATTN_POSITIONAL_MASS] = any ? mean(&sums->diagonal[ATTN_OFFSETS + best]) : NAN;
}

static double alpha(const attn_measure_sums *sums, size_t key) {
    return share(sums->received[key], (double)sums->seen_by[key]);
}

static void finish_sink(const attn_measure_plan *plan, const attn_measure_sums *sums,
                        double *values) {
    values[ATTN_SINK] = values[ATTN_SINK_KEY] = NAN;
    for (size_t k = 0; k < plan->S; k++) {
        bool counts = sums->seen_by[k] > 0 && 2 * sums->seen_by[k] >= sums->rows;
        if (counts && !(alpha(sums, k) <= values[ATTN_SINK])) {
            values[ATTN_SINK] = alpha(sums, k);
            values[ATTN_SINK_KEY] = (double)k;
        }
    }
}

static void finish_received(const attn_measure_plan *plan, const attn_measure_sums *sums,
                            double *sorted, double *values) {
    size_t n = 0, heavy = plan->S / 5 + (plan->S % 5 != 0);
    double top = 0, ranked = 0, all;
    for (size_t j = 0; j < plan->S; j++)
        if (sums->seen_by[j] > 0)
            sorted[n++] = sums->received[j];
    if (n > 1)
        qsort(sorted, n, sizeof *sorted, ascending);
    all = attn_sum(sorted, n);
    for (size_t r = n > heavy ? n - heavy : 0; r < n; r++)
        top += sorted[r];
    for (size_t r = 0; r < n; r++)
        ranked += (2 * (double)(r + 1) - (double)n - 1) * sorted[r];
    values[ATTN_TOP_SHARE] = share(top, all);
    values[ATTN_GINI] = share(ranked, all * (double)n);
}

void attn_analysis_finish(const attn_measure_plan *plan, const attn_measure_sums *sums,
                          double *sorted, double values[ATTN_MEASURES]) {
    for (size_t m = 0; m < ATTN_MEASURES; m++)
        values[m] = NAN;
    if (sums->rows == 0)
        return;
    values[ATTN_ENTROPY] = mean(&sums->entropy);
    values[ATTN_NORMALIZED_ENTROPY] = mean(&sums->normalized);
    values[ATTN_EFFECTIVE_TOKENS] = mean(&sums->perplexity);
    values[ATTN_PARTICIPATION] = mean(&sums->participation);
    values[ATTN_CONFIDENCE] = mean(&sums->confidence);
    values[ATTN_SATURATED_ROWS] = mean(&sums->saturated);
    values[ATTN_DISTANCE] = share(sums->weighted, sums->mass);
    values[ATTN_SIGNED_DISTANCE] = share(sums->looked, sums->mass);
    values[ATTN_LOCAL_MASS] = mean(&sums->local);
    values[ATTN_FIRST_TOKEN] = mean(&sums->first);
    values[ATTN_SINK_LOGIT_MASS] = mean(&sums->sink_logit);
    values[ATTN_DUPLICATE_TOKEN] = mean(&sums->duplicate);
    values[ATTN_INDUCTION] = mean(&sums->induction);
    values[ATTN_SAME_KIND] = mean(&sums->kin);
    values[ATTN_BLOCK_MASS] = mean(&sums->own_block);
    values[ATTN_SCORE_SPREAD] = mean(&sums->spread);
    values[ATTN_SCORE_MAX] = isfinite(sums->score_max) ? sums->score_max : NAN;
    finish_offsets(sums, values);
    finish_sink(plan, sums, values);
    finish_received(plan, sums, sorted, values);
}

size_t attn_analysis_top_keys(const attn_measure_plan *plan, const attn_measure_sums *sums,
                              attn_key_mass *out) {
    size_t most = plan->options->top_keys, n = 0;
    for (size_t j = 0; j < plan->S && most > 0; j++) {
        double mass = sums->received[j];
        if (sums->seen_by[j] == 0 || (n == most && mass <= out[n - 1].mass))
            continue;
        size_t at = n < most ? n++ : n - 1;
        for (; at > 0 && out[at - 1].mass < mass; at--)
            out[at] = out[at - 1];
        out[at] = (attn_key_mass){j, mass, alpha(sums, j)};
    }
    return n;
}
