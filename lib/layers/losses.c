/* Losses: alignment and similarity of attention weights, and cross entropy. Cross entropy computes
 * loss and gradient in one loop over the logits. */
#include <math.h>
#include <string.h>

#include "kernels/pointwise.h"
#include "layers/layers.h"

/* Weights below LEAST count as LEAST, which limits their logarithms and gradients. */
static const double LEAST = 1e-6;

/* Returns -sum_j gold_j log(weights_j) of one row and adds the gradient, times `amount`, to
 * dweights. */
static double row_alignment(float *dweights, const float *weights, const float *gold, size_t S,
                            double amount) {
    double loss = 0;
    for (size_t j = 0; j < S; j++) {
        const double weight = fmax(weights[j], LEAST);
        if (!(gold[j] > 0))
            continue;
        loss -= gold[j] * log(weight);
        if (dweights)
            dweights[j] -= (float)(amount * gold[j] / weight);
    }
    return loss;
}

static bool is_known(const float *gold, size_t S) {
    for (size_t j = 0; j < S; j++)
        if (gold[j] > 0)
            return true;
    return false;
}

double attn_alignment_loss(float *dweights, const float *weights, const float *gold, size_t B,
                           size_t H, size_t L, size_t S, double amount) {
    size_t known = 0;
    double sum = 0;
    for (size_t i = 0; i < B * L; i++)
        known += is_known(gold + i * S, S);
    for (size_t i = 0; i < B * L; i++) {
        const size_t at = (i / L * H * L + i % L) * S;
        sum += row_alignment(dweights ? dweights + at : NULL, weights + at, gold + i * S, S,
                             amount / (double)(known ? known : 1));
    }
    return known ? sum / (double)known : 0;
}

static double dot(const float *a, const float *b, size_t n) {
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        sum += (double)a[j] * b[j];
    return sum;
}

/* Adds amount * d cosine / da to da [n], where cosine = cos(a, b) and
 * d cosine / da = (b / |b| - cosine a / |a|) / |a|. aa and bb are |a|^2 and |b|^2. */
static void push(float *da, const float *a, const float *b, double aa, double bb, double cosine,
                 size_t n, double amount) {
    const double of_b = amount / sqrt(aa * bb), of_a = amount * cosine / aa;
    for (size_t j = 0; j < n; j++)
        da[j] += (float)(of_b * b[j] - of_a * a[j]);
}

/* Returns the sum of the cosines of all pairs of heads in one row. The rows of two neighbouring
 * heads are `apart` floats apart. Adds the gradients, times `amount`, to dweights. */
static double row_similarity(float *dweights, const float *weights, size_t H, size_t S,
                             size_t apart, double amount) {
    double sum = 0;
    for (size_t g = 1; g < H; g++)
        for (size_t h = 0; h < g; h++) {
            const float *a = weights + g * apart, *b = weights + h * apart;
            const double aa = dot(a, a, S), bb = dot(b, b, S);
            if (!(aa > 0 && bb > 0))
                continue;
            const double cosine = dot(a, b, S) / sqrt(aa * bb);
            sum += cosine;
            if (!dweights)
                continue;
            push(dweights + g * apart, a, b, aa, bb, cosine, S, amount);
            push(dweights + h * apart, b, a, bb, aa, cosine, S, amount);
        }
    return sum;
}

double attn_similarity_loss(float *dweights, const float *weights, const int64_t *rows, size_t B,
                            size_t H, size_t L, size_t S, double amount) {
    double count = 0, sum = 0;
    for (size_t b = 0; b < B; b++)
        count += (double)(rows ? rows[b] : (int64_t)L);
    count *= (double)(H * (H - 1) / 2);
    if (!(count > 0))
        return 0;
    for (size_t b = 0; b < B; b++)
        for (size_t i = 0; i < (rows ? (size_t)rows[b] : L); i++) {
            const size_t at = (b * H * L + i) * S;
            sum += row_similarity(dweights ? dweights + at : NULL, weights + at, H, S, L * S,
                                  amount / count);
        }
    return sum / count;
}

/* --- cross entropy --- */

static double sum_of(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

/* Returns the loss of a row of logits z [V], and sets d [V] to factor * (softmax(z) - target
 * distribution). *right tells whether no logit is larger than that of the target. */
static double one_row(float *d, const float *z, size_t target, size_t V, double smoothing,
                      float factor, bool *right) {
    const attn_pointwise *p = attn_pointwise_current();
    const double at = z[target], all = smoothing > 0 ? sum_of(z, V) : 0;
    float max;
    const float sum = p->exponentials(d, z, V, &max);
    const double share = smoothing / (double)V, log_sum = max + log((double)sum);
    p->scale(d, factor / sum, V);
    if (smoothing > 0)
        for (size_t v = 0; v < V; v++)
            d[v] -= factor * (float)share;
    d[target] -= factor * (float)(1 - smoothing);
    *right = at >= max;
    return log_sum - (1 - smoothing) * at - share * all;
}

double attn_cross_entropy(float *dlogits, const float *logits, const int32_t *targets, size_t rows,
                          size_t V, int32_t ignored, double smoothing, size_t *counted,
                          size_t *right) {
    double loss = 0;
    *counted = *right = 0;
    for (size_t r = 0; r < rows; r++)
        *counted += targets[r] != ignored;
    const float factor = *counted ? 1.0f / (float)*counted : 0;
    for (size_t r = 0; r < rows; r++) {
        bool hit = false;
        if (targets[r] == ignored)
            memset(dlogits + r * V, 0, V * sizeof *dlogits);
        else
            loss += one_row(dlogits + r * V, logits + r * V, (size_t)targets[r], V, smoothing,
                            factor, &hit);
        *right += hit;
    }
    return *counted ? loss / (double)*counted : 0;
}
