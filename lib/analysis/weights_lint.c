/* Checks of the weights of one head: sums of rows, ranges, and weights on padding. */
#include <math.h>

#include <attn/analysis.h>

#define SUM_SLACK   0.01 /* weights are often rounded to two decimals before they are stored */
#define RANGE_SLACK 1e-6 /* softmax in float32 may round a weight to slightly above 1 */

/* Returns the distance of a weight from the range 0 … 1, or at most 0 within the range. */
static double distance_from_range(double w) {
    return w < 0 ? -w : w - 1;
}

void attn_weights_check(attn_weights_faults *f, size_t row, const double *weights, size_t S) {
    double sum = 0, largest = 0, least = 0;
    for (size_t j = 0; j < S; j++) {
        sum += weights[j];
        largest = fmax(largest, fabs(weights[j]));
        least = fmin(least, weights[j]);
        if (distance_from_range(weights[j]) <= RANGE_SLACK)
            continue;
        if (f->outside++ == 0 || distance_from_range(weights[j]) > distance_from_range(f->value)) {
            f->value = weights[j];
            f->at_row = row;
            f->at_key = j;
        }
    }
    f->unshared += least < -RANGE_SLACK || sum > 1 + SUM_SLACK;
    if (largest == 0 || fabs(sum - 1) <= SUM_SLACK)
        return;
    if (f->sums++ == 0 || fabs(sum - 1) > fabs(f->sum - 1)) {
        f->sum = sum;
        f->row = row;
    }
}

void attn_padding_check(attn_padding_mass *p, size_t row, const double *weights, const size_t *keys,
                        size_t count) {
    p->rows++;
    for (size_t k = 0; k < count; k++) {
        p->mass += weights[k];
        if (weights[k] > p->most) {
            p->most = weights[k];
            p->row = row;
            p->key = keys[k];
        }
    }
}
