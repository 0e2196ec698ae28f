/* Layer norm. */
#include "kernels/pointwise.h"
#include "layers/dense_layer.h"

void attn_norm_declare(attn_norm *layer, attn_parameters *set, const char *name, size_t width) {
    const attn_init one = {.kind = ATTN_INIT_CONSTANT, .amount = 1}, zero = {.amount = 0};
    *layer = (attn_norm){.width = width, .epsilon = 1e-5f};
    attn_layers_add(set, name, "weight", 1, &width, one, &layer->weight);
    attn_layers_add(set, name, "bias", 1, &width, zero, &layer->bias);
}

void attn_norm_forward(float *y, float *stats, const float *x, size_t rows,
                       const attn_norm *layer) {
    const attn_pointwise *p = attn_pointwise_current();
    const size_t n = layer->width;
    for (size_t r = 0; r < rows; r++) {
        attn_norm_row row = {.x = x + r * n, .weight = layer->weight.value};
        p->norm_forward(y + r * n, &row, layer->bias.value, layer->epsilon, n);
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
                                   .mean = stats[2 * r],
                                   .scale = stats[2 * r + 1]};
        p->norm_backward(dx ? dx + r * n : NULL, layer->weight.gradient, layer->bias.gradient,
                         dy + r * n, &row, n);
    }
}
