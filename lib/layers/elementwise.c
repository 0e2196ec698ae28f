/* Layers that work on elements or rows: activations, dropout and norms. The functions that allocate
 * memory for a pass are here, too. */
#include <math.h>
#include <string.h>

#include "attn/rng.h"
#include "kernels/pointwise.h"
#include "layers/layers.h"

#define SQRT_HALF    0.70710678f
#define SQRT_2_BY_PI 0.79788456f
#define DENSITY      0.39894228f /* 1 / sqrt(2 pi) */
#define CUBIC        0.044715f

static float relu(float x) {
    return x > 0 ? x : 0;
}

static float slope(float x, attn_activation kind) {
    float t;
    switch (kind) {
    case ATTN_RELU:
        return x > 0 ? 1 : 0;
    case ATTN_GELU:
        return 0.5f * (1 + erff(x * SQRT_HALF)) + x * DENSITY * expf(-0.5f * x * x);
    case ATTN_GELU_TANH:
        t = tanhf(SQRT_2_BY_PI * (x + CUBIC * x * x * x));
        return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * SQRT_2_BY_PI * (1 + 3 * CUBIC * x * x);
    case ATTN_SILU:
        t = 1 / (1 + expf(-x));
        return t * (1 + x * (1 - t));
    case ATTN_TANH:
        t = tanhf(x);
        return 1 - t * t;
    case ATTN_SIGMOID:
        break;
    }
    t = 1 / (1 + expf(-x));
    return t * (1 - t);
}

void attn_activation_forward(float *y, const float *x, size_t n, attn_activation kind) {
    const attn_pointwise *p = attn_pointwise_current();
    switch (kind) {
    case ATTN_RELU:
        for (size_t i = 0; i < n; i++)
            y[i] = relu(x[i]);
        break;
    case ATTN_GELU:
        p->gelu(y, x, n);
        break;
    case ATTN_GELU_TANH:
        p->gelu_tanh(y, x, n);
        break;
    case ATTN_SILU:
        p->silu(y, x, n);
        break;
    case ATTN_TANH:
        p->tanh(y, x, n);
        break;
    case ATTN_SIGMOID:
        p->sigmoid(y, x, n);
        break;
    }
}

void attn_activation_backward(float *dx, const float *dy, const float *x, size_t n,
                              attn_activation kind) {
    for (size_t i = 0; i < n; i++)
        dx[i] += dy[i] * slope(x[i], kind);
}

double attn_dropout_of(const attn_pass *pass, double own) {
    return pass->dropout ? *pass->dropout : pass->training ? own : 0;
}

uint64_t attn_dropout_seed(attn_pass *pass) {
    return attn_rng_bits(pass->seed, pass->drawn++);
}

/* attn_rng_uniform(seed, i) is (bits >> 11) * 2^-53. The kernel tests with integers whether this
 * number is below p: bits >> 11 < ceil(p * 2^53). */
void attn_dropout(float *x, size_t n, uint64_t first, double p, uint64_t seed) {
    if (p > 0)
        attn_pointwise_current()->dropout(x, n, (uint64_t)ceil(ldexp(p, 53)), (float)(1 / (1 - p)),
                                          seed, first);
}

float *attn_layers_take(attn_pass *pass, size_t count, size_t width, attn_error *err) {
    size_t bytes;
    float *p = attn_size_mul(count, width, &bytes) && attn_size_mul(bytes, sizeof *p, &bytes)
                   ? attn_arena_take(pass->arena, bytes)
                   : NULL;
    if (!p)
        attn_fail(err, ATTN_ENOMEM, "", "no memory for %zu x %zu numbers of a pass", count, width);
    return p;
}

float *attn_layers_zeroed(attn_pass *pass, size_t count, size_t width, attn_error *err) {
    float *p = attn_layers_take(pass, count, width, err);
    if (p)
        memset(p, 0, count * width * sizeof *p);
    return p;
}

void attn_norm_declare(attn_norm *layer, attn_parameters *set, const char *name) {
    const attn_init one = {.kind = ATTN_INIT_CONSTANT, .amount = 1}, zero = {.amount = 0};
    attn_layers_add(set, name, "weight", 1, &layer->width, one, &layer->weight);
    if (!layer->rms && !layer->unbiased)
        attn_layers_add(set, name, "bias", 1, &layer->width, zero, &layer->bias);
}

void attn_norm_forward(float *y, float *stats, const float *x, size_t rows,
                       const attn_norm *layer) {
    const attn_pointwise *p = attn_pointwise_current();
    const size_t n = layer->width;
    for (size_t r = 0; r < rows; r++) {
        attn_norm_row row = {
            .x = x + r * n, .weight = layer->weight.value, .uncentred = layer->rms};
        p->norm_forward(y + r * n, &row, layer->bias.value, layer->epsilon, n);
        if (!stats)
            continue;
        stats[2 * r] = row.mean;
        stats[2 * r + 1] = row.scale;
    }
}

void attn_norm_backward(float *dx, const float *dy, const float *x, const float *stats, size_t rows,
                        const attn_norm *layer) {
    const attn_pointwise *p = attn_pointwise_current();
    const size_t n = layer->width;
    for (size_t r = 0; r < rows; r++) {
        const attn_norm_row row = {.x = x + r * n,
                                   .weight = layer->weight.value,
                                   .uncentred = layer->rms,
                                   .mean = stats[2 * r],
                                   .scale = stats[2 * r + 1]};
        p->norm_backward(dx ? dx + r * n : NULL, layer->weight.gradient, layer->bias.gradient,
                         dy + r * n, &row, n);
    }
}

void attn_norm_cost(const attn_norm *layer, double rows, bool training, attn_layer_cost *cost) {
    const double has_bias = !layer->rms && !layer->unbiased;
    attn_cost_products(cost, rows * (double)layer->width * (1 + has_bias), training);
}
