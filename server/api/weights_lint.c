/* Weights are looked at row by row: rows whose sum is not 1, weights outside of 0 … 1, and weights
 * on padding (padding.h). */
#include "api/weights_lint.h"

#include <math.h>
#include <stdio.h>

#include "api/padding.h"
#include "api/plain.h"

#define SUM_SLACK   0.01 /* weights are often rounded to two decimals */
#define RANGE_SLACK 1e-6 /* softmax in float32 may round a weight to just above 1 */
#define TOLD        8    /* heads with a warning of their own, for each kind of warning */

/* What is odd about one head. */
typedef struct findings {
    size_t sums, row; /* rows whose weights do not sum to 1, and the worst of them */
    double sum;
    size_t outside, at_row, at_key; /* weights outside of 0 … 1, and the worst of them */
    double value;
} findings;

/* How far a weight lies outside of 0 … 1; not above 0 where it lies inside. */
static double beyond(double w) {
    return w < 0 ? -w : w - 1;
}

/* Row i of a head. A row of zeros is a query that sees no key, so its sum is not odd. */
static void look(findings *f, size_t i, const double *row, size_t S) {
    double sum = 0, largest = 0;
    for (size_t j = 0; j < S; j++) {
        sum += row[j];
        largest = fmax(largest, fabs(row[j]));
        if (beyond(row[j]) <= RANGE_SLACK)
            continue;
        if (f->outside++ == 0 || beyond(row[j]) > beyond(f->value)) {
            f->value = row[j];
            f->at_row = i;
            f->at_key = j;
        }
    }
    if (largest == 0 || fabs(sum - 1) <= SUM_SLACK)
        return;
    if (f->sums++ == 0 || fabs(sum - 1) > fabs(f->sum - 1)) {
        f->sum = sum;
        f->row = i;
    }
}

/* The warnings of one head. told[0] counts the heads with odd sums, told[1] those with weights
 * outside of 0 … 1. */
static bool tell(const srv_weights_lint *l, const findings *f, size_t b, size_t h, size_t told[2]) {
    attn_arena *arena = l->req->arena;
    char which[64] = "";
    bool ok = true;
    if (l->dims->B > 1 || l->dims->Hq > 1)
        snprintf(which, sizeof which, "batch entry %zu, head %zu: ", b, h);
    if (f->sums > 0 && told[0]++ < TOLD)
        ok = srv_warnings_add(l->warnings, arena, "row_sums", l->where,
                              "%s%zu row%s of %zu do%s not sum to 1; row %zu sums to %.6g", which,
                              f->sums, f->sums == 1 ? "" : "s", l->dims->L,
                              f->sums == 1 ? "es" : "", f->row, f->sum);
    if (ok && f->outside > 0 && told[1]++ < TOLD)
        ok = srv_warnings_add(l->warnings, arena, "weight_range", l->where,
                              "%s%zu weight%s negative or above 1, such as %.6g at [%zu, %zu]",
                              which, f->outside, f->outside == 1 ? " is" : "s are", f->value,
                              f->at_row, f->at_key);
    return ok;
}

/* One more warning of each kind counts the heads beyond TOLD. */
static bool tell_rest(const srv_weights_lint *l, const size_t told[2]) {
    static const char *const codes[] = {"row_sums", "weight_range"};
    bool ok = true;
    for (size_t i = 0; i < 2; i++)
        if (ok && told[i] > TOLD)
            ok = srv_warnings_add(l->warnings, l->req->arena, codes[i], l->where,
                                  "so it is in %zu more head%s", told[i] - TOLD,
                                  told[i] - TOLD == 1 ? "" : "s");
    return ok;
}

attn_status srv_weights_look(const srv_weights_lint *l, attn_error *err) {
    static const srv_labels none;
    const attn_attention_dims *d = l->dims;
    const attn_tensor *w = l->weights;
    const char *from = w->data;
    size_t told[2] = {0, 0};
    attn_arena *arena = l->req->arena;
    double *row = attn_arena_zeroed(arena, d->S, sizeof *row);
    /* The weights on padding keys, in their order. */
    double *padded = attn_arena_zeroed(arena, d->S, sizeof *padded);
    srv_padding p;
    bool ok = row && padded &&
              srv_padding_begin(&p, arena, l->labels ? l->labels : &none, d->B > 1 || d->Hq > 1,
                                l->warnings);
    for (size_t n = 0; ok && n < d->B * d->Hq; n++) {
        findings f = {0};
        for (size_t i = 0; i < d->L; i++, from += d->S * attn_dtype_size(w->dtype)) {
            attn_status status = attn_control_check(&l->req->control, err);
            if (status)
                return status;
            attn_widen_f64(row, from, w->dtype, 1, d->S);
            look(&f, i, row, d->S);
            for (size_t k = 0; k < p.key_count; k++)
                padded[k] = row[p.keys[k]];
            if (p.key_count > 0 && srv_padding_looks(&p, i))
                srv_padding_row(&p, i, padded);
        }
        ok = tell(l, &f, n / d->Hq, n % d->Hq, told) && srv_padding_head(&p, n / d->Hq, n % d->Hq);
    }
    if (ok && tell_rest(l, told) && srv_padding_end(&p))
        return ATTN_OK;
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for warnings");
}
