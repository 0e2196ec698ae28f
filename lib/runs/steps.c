/* A layer of a model as a step from tokens to tokens: the matrix (1 - r) mean_h A + r I with each
 * row divided by its sum. r is the share of the residual connection. Attention rollout multiplies
 * these matrices, and attention flow takes them as capacities. */
#include "analysis/sums.h"
#include "attention/resolved.h"
#include "attention/tile_pass.h"
#include "runs/private.h"

void attn_run_step_keys(const attn_run_rollout *r, const attn_run_layer *l, size_t row, size_t rows,
                        size_t *lo, size_t *hi) {
    const attn_block at = {l->first + r->batch, 0, row, rows};
    attn_block_interval(l->site->op, &at, lo, hi);
    if (*lo >= *hi) /* the rows see no key */
        *lo = *hi = row;
    *lo = row < *lo ? row : *lo;
    *hi = row + rows > *hi ? row + rows : *hi;
}

/* Turns `out`, sums over heads, into rows of the step: divides the sums by the number of heads,
 * adds the residual connection and divides each row by its sum. */
static void normalise(const attn_run_rollout *r, const attn_run_layer *l, const attn_range *at,
                      double *out) {
    const double count = (double)(r->heads.list ? r->heads.count : l->site->dims->Ho);
    const size_t n = at->cols;
    for (size_t i = 0; i < at->rows; i++) {
        double *a = out + i * n;
        for (size_t j = 0; j < n; j++)
            a[j] = (1 - r->residual) * (a[j] / count);
        a[at->row + i - at->col] += r->residual;
        const double sum = attn_sum(a, n);
        for (size_t j = 0; j < n && sum != 0; j++)
            a[j] /= sum;
    }
}

attn_status attn_run_step_rows(const attn_run_rollout *r, const attn_run_layer *l,
                               const attn_range *at, attn_run_lane *lane, void *cells, double *out,
                               attn_error *err) {
    attn_range range = *at;
    range.batch = l->first + r->batch;
    attn_status status = attn_run_add_heads(l->site, &range, &r->heads,
                                            attn_run_lane_scratch(lane, l->site), cells, out, err);
    if (!status)
        normalise(r, l, at, out);
    return status;
}
