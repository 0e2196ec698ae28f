/* Layers with one matrix: linear layers, and embeddings of tokens and of positions. The functions
 * that all layers use are here, too: they declare parameters, add costs, compute the products of a
 * linear layer, and pack matrices for repeated products of few rows (kernels/pointwise.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/gemm.h"
#include "kernels/pointwise.h"
#include "layers/layers.h"

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
    attn_layers_product(y, x, rows, &layer->weight, layer->in, layer->out, bias ? 1.0f : 0.0f);
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

void attn_cost_bytes(attn_layer_cost *cost, double bytes) {
    cost->bytes += ceil(bytes / ATTN_ALIGN) * ATTN_ALIGN;
}

void attn_cost_floats(attn_layer_cost *cost, double count) {
    attn_cost_bytes(cost, sizeof(float) * count);
}

void attn_cost_products(attn_layer_cost *cost, double multiply_adds, bool training) {
    cost->operations += 2 * multiply_adds * (training ? 3 : 1);
}

void attn_linear_cost(const attn_linear *layer, double rows, bool training, attn_layer_cost *cost) {
    attn_cost_products(cost, rows * (double)layer->out * ((double)layer->in + 1), training);
}

size_t attn_layers_panel_floats(size_t K, size_t N) {
    return (N + POINTWISE_LANES - 1) / POINTWISE_LANES * POINTWISE_LANES * K;
}

void attn_layers_pack(float *panels, const float *matrix, size_t K, size_t N, bool transposed) {
    for (size_t j = 0; j < N; j += POINTWISE_LANES) {
        const size_t n = N - j < POINTWISE_LANES ? N - j : POINTWISE_LANES;
        float *panel = panels + j * K;
        if (n < POINTWISE_LANES)
            memset(panel, 0, K * POINTWISE_LANES * sizeof *panel);
        for (size_t l = 0; transposed && l < n; l++)
            for (size_t k = 0; k < K; k++)
                panel[k * POINTWISE_LANES + l] = matrix[(j + l) * K + k];
        for (size_t k = 0; !transposed && k < K; k++)
            memcpy(panel + k * POINTWISE_LANES, matrix + k * N + j, n * sizeof *panel);
    }
}

void attn_embedding_declare(attn_embedding *layer, attn_parameters *set, const char *name,
                            size_t rows, size_t width, float scale, double std, int32_t padding) {
    const attn_init init = {.kind = ATTN_INIT_NORMAL,
                            .amount = std > 0 ? std : 1 / (double)scale,
                            .blank = padding >= 0,
                            .blank_row = padding >= 0 ? (size_t)padding : 0};
    *layer = (attn_embedding){.rows = rows, .width = width, .scale = scale, .padding = padding};
    attn_layers_add(set, name, "weight", 2, (size_t[]){rows, width}, init, &layer->weight);
}

void attn_embedding_forward(float *y, const int32_t *ids, size_t n, const attn_embedding *layer) {
    const attn_pointwise *p = attn_pointwise_current();
    const size_t width = layer->width;
    for (size_t i = 0; i < n; i++)
        attn_weight_row(y + i * width, &layer->weight, (size_t)ids[i], width);
    if (layer->scale != 1)
        p->scale(y, layer->scale, n * width);
}

void attn_embedding_backward(const float *dy, const int32_t *ids, size_t n,
                             const attn_embedding *layer) {
    const attn_pointwise *p = attn_pointwise_current();
    const size_t width = layer->width;
    if (!layer->weight.gradient)
        return;
    for (size_t i = 0; i < n; i++)
        if (ids[i] != layer->padding)
            p->add_scaled(layer->weight.gradient + (size_t)ids[i] * width, dy + i * width,
                          layer->scale, width);
}

attn_status attn_ids_check(const int32_t *ids, size_t n, size_t rows, const char *where,
                           attn_error *err) {
    char place[64];
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= rows) {
            snprintf(place, sizeof place, "%s/%zu", where, i);
            return attn_fail(err, ATTN_EVALUE, place, "expected an id from 0 to %zu, found %d",
                             rows - 1, (int)ids[i]);
        }
    return ATTN_OK;
}

void attn_positions_declare(attn_embedding *layer, attn_parameters *set, const char *name,
                            size_t most, size_t width) {
    const attn_init init = {.kind = ATTN_INIT_NORMAL, .amount = 0.02};
    *layer = (attn_embedding){.rows = most, .width = width, .scale = 1, .padding = -1};
    attn_layers_add(set, name, "weight", 2, (size_t[]){most, width}, init, &layer->weight);
}

/* Adds row r of a table [.., D] to x [D]. */
static void add_table_row(float *x, const attn_weight *table, size_t r, size_t D) {
    float part[ATTN_BLOCK_MOST];
    const attn_pointwise *p = attn_pointwise_current();
    if (table->value)
        p->add(x, table->value + r * D, D);
    for (size_t at = 0; !table->value && at < D; at += ATTN_BLOCK_MOST) {
        const size_t n = D - at < ATTN_BLOCK_MOST ? D - at : ATTN_BLOCK_MOST;
        attn_weight_part(part, table, r, D, at, n);
        p->add(x + at, part, n);
    }
}

void attn_positions_add(float *x, size_t B, size_t T, size_t D, const attn_weight *table,
                        size_t first) {
    for (size_t i = 0; i < B * T; i++)
        add_table_row(x + i * D, table, first + i % T, D);
}

void attn_segments_add(float *x, const int32_t *ids, size_t n, const attn_embedding *table) {
    for (size_t i = 0; i < n; i++)
        add_table_row(x + i * table->width, &table->weight, (size_t)ids[i], table->width);
}

void attn_positions_backward(const float *dx, size_t B, size_t T, size_t first,
                             const attn_embedding *layer) {
    const attn_pointwise *p = attn_pointwise_current();
    const size_t D = layer->width;
    for (size_t b = 0; layer->weight.gradient && b < B; b++)
        p->add(layer->weight.gradient + first * D, dx + b * T * D, T * D);
}
