/* The functions of normalizer.h. */
#include "attention/normalizer.h"

#include <attn/input_rows.h>
#include <math.h>

#include "base/element.h"
#include "base/try.h"

/* --- inputs --- */

attn_status attn_normalizer_resolve(const attn_inputs *in, attn_attention_dims *d,
                                    attn_error *err) {
    const attn_normalizer *z = &in->normalizer;
    if (z->kind >= ATTN_NORMALIZER_COUNT)
        return attn_fail(err, ATTN_EARG, "normalizer", "there is no normalizer of the number %d",
                         (int)z->kind);
    d->normalizer = z->kind;
    if (z->kind == ATTN_NORMALIZER_softmax)
        return ATTN_OK;
    if (!(z->divisor >= 0) || isinf(z->divisor))
        return attn_fail(err, ATTN_EARG, "normalizer/divisor",
                         "expected a finite number above 0, found %g", z->divisor);
    if (z->alpha != 0 && !(z->alpha >= 1 + 1e-6 && z->alpha <= 2))
        return attn_fail(err, ATTN_EARG, "normalizer/alpha",
                         "expected a number from 1.000001 to 2, found %g", z->alpha);
    if (in->grad_logsumexp.rank)
        return attn_fail(err, ATTN_EARG, "grad_logsumexp",
                         "only softmax has a logsumexp, the normalizer %s has none",
                         attn_normalizer_words[z->kind]);
    if (in->sinks.rank && !attn_normalizer_sums_to_1(z->kind))
        return attn_fail(err, ATTN_EARG, "sinks",
                         "a sink takes a part of weights that sum to 1, as with softmax, sparsemax "
                         "and entmax; those of %s do not",
                         attn_normalizer_words[z->kind]);
    if (z->kind != ATTN_NORMALIZER_sigmoid || !z->bias.rank)
        return ATTN_OK;
    if (z->bias.rank != 1 || (z->bias.dims[0] != d->Hq && z->bias.dims[0] != 1))
        return attn_fail(err, ATTN_ESHAPE, "normalizer/bias",
                         "expected one number a query head, shape [%zu], or one for all of them, "
                         "shape [1]",
                         d->Hq);
    if (z->bias.dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, "normalizer/bias",
                         "expected floating-point numbers, found %s",
                         attn_dtype_name(z->bias.dtype));
    d->normalizer_bias = z->bias.dims[0];
    return ATTN_OK;
}

/* --- cells --- */

/* How a score becomes a weight. */
typedef struct curve {
    attn_normalizer_kind kind;
    double factor; /* sparsemax, entmax: alpha - 1 */
} curve;

static curve curve_of(const attn_attention *a) {
    const attn_normalizer *z = &a->in.normalizer;
    const bool given = z->kind == ATTN_NORMALIZER_entmax && z->alpha != 0;
    return (curve){z->kind, z->kind == ATTN_NORMALIZER_sparsemax ? 1 : given ? z->alpha - 1 : 0.5};
}

/* Returns the weight of a score, and sets *slope to its derivative. */
static double weight_of(curve c, double s, double threshold, double divisor, double *slope) {
    const double x = s - threshold, y = c.factor * x;
    *slope = 0;
    if (s == -INFINITY || divisor == 0)
        return 0;
    if (c.kind == ATTN_NORMALIZER_sigmoid) {
        const double e = exp(-fabs(x)), small = e / (1 + e), large = 1 / (1 + e);
        *slope = small * large;
        return x < 0 ? small : large;
    }
    if (x <= 0)
        return 0;
    switch (c.kind) {
    case ATTN_NORMALIZER_relu:
        *slope = 1 / divisor;
        return x / divisor;
    case ATTN_NORMALIZER_relu_squared:
        *slope = 2 * x / divisor;
        return x * x / divisor;
    default: /* the derivative is y^(1 / factor - 1) */
        *slope = c.factor == 1 ? 1 : c.factor == 0.5 ? y : pow(y, 1 / c.factor - 1);
        return *slope * y;
    }
}

void attn_normalizer_weights(const attn_attention *a, void *dst, const void *scores, size_t elem,
                             size_t n, double threshold, double divisor) {
    const curve c = curve_of(a);
    double slope;
    for (size_t j = 0; j < n; j++)
        attn_element_set(dst, elem, j,
                         weight_of(c, attn_element(scores, elem, j), threshold, divisor, &slope));
}

/* --- rows --- */

/* Returns the largest of n scores, or NaN if there is one. *visible becomes the number of scores
 * that are not -infinity. */
static double largest_score(const void *scores, size_t elem, size_t n, size_t *visible) {
    double largest = -INFINITY;
    *visible = 0;
    for (size_t j = 0; j < n; j++) {
        const double s = attn_element(scores, elem, j);
        *visible += s != -INFINITY;
        if (!(s <= largest))
            largest = isnan(largest) ? largest : s;
    }
    return largest;
}

/* Returns the threshold for which the weights of the scores and of the sink sum to 1. The sum is a
 * convex, falling function of the threshold. So Newton's method never passes the solution if it
 * starts where the largest weight alone is 1. For sparsemax this is the algorithm of Michelot
 * (1986), which ends with the exact set of positive weights. */
static double find_threshold(curve c, const void *scores, size_t elem, size_t n, double sink,
                             double largest) {
    enum { MOST_STEPS = 200 };
    double threshold = largest - 1 / c.factor;
    if (!isfinite(largest))
        return NAN;
    for (int step = 0; step < MOST_STEPS; step++) {
        double slopes, slope, sum = weight_of(c, sink, threshold, 1, &slopes);
        for (size_t j = 0; j < n; j++) {
            sum += weight_of(c, attn_element(scores, elem, j), threshold, 1, &slope);
            slopes += slope;
        }
        const double next = threshold + (sum - 1) / slopes;
        if (!(next > threshold))
            break;
        threshold = next;
    }
    return threshold;
}

attn_normalized_row attn_normalizer_row(const attn_attention *a, size_t h, double sink,
                                        const void *scores, size_t elem, size_t n) {
    const attn_normalizer *z = &a->in.normalizer;
    attn_normalized_row row = {.divisor = 1};
    size_t visible;
    row.largest = largest_score(scores, elem, n, &visible);
    if (!(sink <= row.largest) && !isnan(row.largest))
        row.largest = sink;
    if (row.largest == -INFINITY)
        row.divisor = 0;
    else if (attn_normalizer_sums_to_1(z->kind))
        row.threshold = find_threshold(curve_of(a), scores, elem, n, sink, row.largest);
    else if (z->kind == ATTN_NORMALIZER_sigmoid)
        row.threshold = a->normalizer_bias ? -a->normalizer_bias[h] : 0;
    else
        row.divisor = z->divisor != 0 ? z->divisor : (double)visible;
    return row;
}

/* --- gradients --- */

void attn_normalizer_backward(const attn_attention *a, void *weights, void *grad,
                              const void *scores, size_t elem, size_t n,
                              const attn_normalizer_gradient *how) {
    const curve c = curve_of(a);
    const double mean = attn_normalizer_sums_to_1(c.kind) ? how->mean : 0;
    for (size_t j = 0; j < n; j++) {
        double slope;
        const double weight =
            weight_of(c, attn_element(scores, elem, j), how->threshold, how->divisor, &slope);
        attn_element_set(weights, elem, j, weight);
        attn_element_set(grad, elem, j,
                         slope == 0 ? 0
                                    : slope * (attn_element(grad, elem, j) - mean) * how->scale);
    }
}

void attn_normalizer_add(const attn_attention *a, const void *grad, const void *scores, size_t elem,
                         size_t n, double threshold, double divisor, double sums[2]) {
    const curve c = curve_of(a);
    for (size_t j = 0; j < n; j++) {
        double slope;
        weight_of(c, attn_element(scores, elem, j), threshold, divisor, &slope);
        sums[0] += slope == 0 ? 0 : slope * attn_element(grad, elem, j);
        sums[1] += slope;
    }
}

double attn_normalizer_sink(const attn_attention *a, double sink, double threshold) {
    double slope = 0;
    if (sink != -INFINITY)
        weight_of(curve_of(a), sink, threshold, 1, &slope);
    return slope;
}
