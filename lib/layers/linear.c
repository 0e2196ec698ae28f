/* Linear layers, and the bias that other layers share with them. */
#include "layers/dense_layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/gemm.h"
#include "kernels/pointwise.h"

void attn_layers_add(attn_parameters *set, const char *name, const char *what, int rank,
                     const size_t *dims, attn_init init, attn_weight *weight) {
    char full[2 * ATTN_PARAMETER_NAME];
    snprintf(full, sizeof full, "%s.%s", name, what);
    attn_parameters_add(set, full, rank, dims, init, weight);
}

void attn_linear_declare(attn_linear *layer, attn_parameters *set, const char *name, size_t in,
                         size_t out, bool bias) {
    const attn_init init = {.kind = ATTN_INIT_UNIFORM, .amount = 1 / sqrt((double)in)};
    *layer = (attn_linear){.in = in, .out = out};
    attn_layers_add(set, name, "weight", 2, (size_t[]){out, in}, init, &layer->weight);
    if (bias)
        attn_layers_add(set, name, "bias", 1, &out, init, &layer->bias);
}

void attn_layers_fill_rows(float *y, size_t rows, const float *bias, size_t width) {
    for (size_t r = 0; r < rows; r++)
        memcpy(y + r * width, bias, width * sizeof *y);
}

void attn_layers_sum_rows(float *sum, const float *x, size_t rows, size_t width) {
    const attn_pointwise *p = attn_pointwise_current();
    for (size_t r = 0; r < rows; r++)
        p->add(sum, x + r * width, width);
}

void attn_layers_product(float *y, const float *x, size_t rows, const float *weight, size_t in,
                         size_t out, float beta) {
    const attn_gemm_dims dims = {
        .M = rows, .N = out, .K = in, .lda = in, .ldb = in, .ldc = out, .transpose_b = true};
    attn_kernels_gemm(y, x, weight, &dims, beta);
}

void attn_layers_product_back(float *dx, const float *dy, size_t rows, const float *weight,
                              size_t in, size_t out) {
    const attn_gemm_dims dims = {.M = rows, .N = in, .K = out, .lda = out, .ldb = in, .ldc = in};
    attn_kernels_gemm(dx, dy, weight, &dims, 1);
}

void attn_layers_weight_back(float *dweight, const float *dy, const float *x, size_t rows,
                             size_t in, size_t out) {
    const attn_gemm_dims dims = {
        .M = out, .N = in, .K = rows, .lda = out, .ldb = in, .ldc = in, .transpose_a = true};
    attn_kernels_gemm(dweight, dy, x, &dims, 1);
}

void attn_linear_forward(float *y, const float *x, size_t rows, const attn_linear *layer) {
    const float *bias = layer->bias.value;
    if (bias)
        attn_layers_fill_rows(y, rows, bias, layer->out);
    attn_layers_product(y, x, rows, layer->weight.value, layer->in, layer->out, bias ? 1.0f : 0.0f);
}

void attn_linear_backward(float *dx, const float *dy, const float *x, size_t rows,
                          const attn_linear *layer) {
    if (dx)
        attn_layers_product_back(dx, dy, rows, layer->weight.value, layer->in, layer->out);
    if (layer->weight.gradient)
        attn_layers_weight_back(layer->weight.gradient, dy, x, rows, layer->in, layer->out);
    if (layer->bias.gradient)
        attn_layers_sum_rows(layer->bias.gradient, dy, rows, layer->out);
}
