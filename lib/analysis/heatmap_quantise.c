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

static double place_signed(double v, double high, attn_transform transform) {
    return (1 + copysign(transformed(place(fabs(v), 0, high), transform), v)) / 2;
}

void attn_heatmap_quantise(uint8_t *dst, const float *src, size_t n, const float range[2],
                           attn_transform transform, bool signed_values) {
    for (size_t i = 0; i < n; i++) {
        const double v = (double)src[i];
        double t = 0;
        if (!isnan(v))
            t = signed_values
                    ? place_signed(v, (double)range[1], transform)
                    : transformed(place(v, (double)range[0], (double)range[1]), transform);
        dst[i] = (uint8_t)(255 * t + 0.5);
    }
}
