/* Matrices in panels, for products of few rows that come again and again (kernels/pointwise.h). */
#include <string.h>

#include "kernels/pointwise.h"
#include "layers/dense_layer.h"

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
