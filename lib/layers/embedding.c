/* Embeddings of tokens and of positions. */
#include <stdio.h>
#include <string.h>

#include "kernels/pointwise.h"
#include "layers/dense_layer.h"

void attn_embedding_declare(attn_embedding *layer, attn_parameters *set, const char *name,
                            size_t rows, size_t width, float scale, int32_t padding) {
    const attn_init init = {.kind = ATTN_INIT_NORMAL,
                            .amount = 1 / (double)scale,
                            .blank = padding >= 0,
                            .blank_row = padding >= 0 ? (size_t)padding : 0};
    *layer = (attn_embedding){.rows = rows, .width = width, .scale = scale, .padding = padding};
    attn_layers_add(set, name, "weight", 2, (size_t[]){rows, width}, init, &layer->weight);
}

void attn_embedding_forward(float *y, const int32_t *ids, size_t n, const attn_embedding *layer) {
    const attn_pointwise *p = attn_pointwise_current();
    const size_t width = layer->width;
    for (size_t i = 0; i < n; i++)
        memcpy(y + i * width, layer->weight.value + (size_t)ids[i] * width, width * sizeof *y);
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

void attn_positions_add(float *x, size_t B, size_t T, size_t D, const float *table, size_t first) {
    const attn_pointwise *p = attn_pointwise_current();
    for (size_t b = 0; b < B; b++)
        p->add(x + b * T * D, table + first * D, T * D);
}

void attn_positions_backward(const float *dx, size_t B, size_t T, size_t first,
                             const attn_embedding *layer) {
    const attn_pointwise *p = attn_pointwise_current();
    const size_t D = layer->width;
    for (size_t b = 0; layer->weight.gradient && b < B; b++)
        p->add(layer->weight.gradient + first * D, dx + b * T * D, T * D);
}
