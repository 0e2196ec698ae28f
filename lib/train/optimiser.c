/* Adam, clipping, and how the learning rate goes up and down. */
#include <math.h>

#include "attn/training.h"
#include "kernels/pointwise.h"

void attn_adam_step(float *values, const float *gradients, float *first, float *second, size_t n,
                    uint64_t t, double rate, const attn_adam *options) {
    const attn_adam_row step = {
        .keep = (float)(1 - options->beta1),
        .fade = (float)options->beta2,
        .fresh = (float)(1 - options->beta2),
        .epsilon = (float)options->epsilon,
        .root = (float)sqrt(1 - pow(options->beta2, (double)t)),
        .step = (float)(rate / (1 - pow(options->beta1, (double)t))),
        .shrink = options->decoupled ? (float)(1 - rate * options->decay) : 1,
        .decay = options->decoupled ? 0 : (float)options->decay,
    };
    attn_pointwise_current()->adam(values, gradients, first, second, n, &step);
}

double attn_clip_gradients(float *gradients, size_t n, double most) {
    const double norm = sqrt(attn_pointwise_current()->dot(gradients, gradients, n));
    const double scale = most / (norm + 1e-6);
    if (most > 0 && scale < 1)
        attn_pointwise_current()->scale(gradients, (float)scale, n);
    return norm;
}

double attn_schedule_rate(attn_schedule s, double rate, uint64_t t, uint64_t warmup,
                          uint64_t steps) {
    const double pi = 3.14159265358979323846;
    if (t < warmup)
        return rate * (double)t / (double)warmup;
    if (s == ATTN_INVERSE_ROOT)
        return rate * sqrt((double)(warmup ? warmup : 1) / (double)t);
    if (s == ATTN_COSINE && steps > warmup) {
        double way = (double)(t < steps ? t - warmup : steps - warmup) / (double)(steps - warmup);
        return rate * 0.5 * (1 + cos(pi * way));
    }
    return rate;
}
