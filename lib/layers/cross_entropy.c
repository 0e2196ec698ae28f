/* Cross entropy and its gradient in one walk over the logits. */
#include <math.h>
#include <string.h>

#include "kernels/pointwise.h"
#include "layers/dense_layer.h"

static double sum_of(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

/* The row's loss; d becomes factor times (softmax - target distribution). */
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

attn_cross_entropy_loss attn_cross_entropy(float *dlogits, const float *logits,
                                           const int32_t *targets, size_t rows, size_t V,
                                           int32_t ignored, double smoothing) {
    attn_cross_entropy_loss out = {0};
    for (size_t r = 0; r < rows; r++)
        out.rows += targets[r] != ignored;
    const float factor = out.rows ? 1.0f / (float)out.rows : 0;
    for (size_t r = 0; r < rows; r++) {
        bool right = false;
        if (targets[r] == ignored)
            memset(dlogits + r * V, 0, V * sizeof *dlogits);
        else
            out.loss += one_row(dlogits + r * V, logits + r * V, (size_t)targets[r], V, smoothing,
                                factor, &right);
        out.right += right;
    }
    if (out.rows)
        out.loss /= (double)out.rows;
    return out;
}
