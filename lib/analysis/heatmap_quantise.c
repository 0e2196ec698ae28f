/* Cells of a heatmap as bytes for the wire. */
#include <math.h>

#include "attn/heatmap.h"

static double transformed(double t, attn_transform transform) {
    switch (transform) {
    case ATTN_SQRT:
        return sqrt(t);
    case ATTN_LOG:
        return log1p(255 * t) / log(256.0);
    default:
        return t;
    }
}

/* A range of one value has no inside: its cells are all dark, or all blank when the value is 0. */
static double place(double v, double low, double high) {
    if (!(v > low))
        return high > low || !(v > 0) ? 0 : 1;
    return v >= high ? 1 : (v - low) / (high - low);
}

void attn_heatmap_quantise(uint8_t *dst, const float *src, size_t n, const float range[2],
                           attn_transform transform) {
    for (size_t i = 0; i < n; i++) {
        double t = transformed(place(src[i], range[0], range[1]), transform);
        dst[i] = (uint8_t)(255 * t + 0.5);
    }
}
