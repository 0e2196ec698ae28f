/* Converts the cells of tiles to bytes and to PNG. */
#include "api/runs/tile_codes.h"

#include <math.h>

/* The number of decades between the codes 1 and 255 of SRV_TILE_DECADES: code 1 stands for 10^-6 of
 * the value of code 255. */
#define DECADES 6.0

const char *const srv_tile_transforms[] = {"linear", "sqrt", "log", "decades", NULL};

/* Returns 1 … 255 for a value from 10^-6 of `high` to `high`, evenly spaced in its logarithm. */
static uint8_t decade_code(double v, double high) {
    const double t = v > 0 && high > 0 ? 1 + log10(v / high) / DECADES : 0;
    return (uint8_t)(1.5 + 254 * fmin(fmax(t, 0), 1));
}

/* Returns the code of a difference: 128 for 0, 1 for -high and 255 for high. */
static uint8_t signed_code(double v, double high, srv_tile_transform transform) {
    double t = high > 0 ? fmin(fabs(v) / high, 1) : v != 0;
    if (transform == SRV_TILE_SQRT)
        t = sqrt(t);
    else if (transform == SRV_TILE_LOG)
        t = log1p(255 * t) / log(256.0);
    return (uint8_t)(128 + copysign(floor(127 * t + 0.5), v));
}

void srv_tile_codes(uint8_t *to, const float *cells, size_t n, const srv_tile_scale *s) {
    const bool quantised = !s->differs && s->transform != SRV_TILE_DECADES;
    if (quantised)
        attn_heatmap_quantise(to, cells, n, s->range, (attn_transform)s->transform, false);
    for (size_t i = 0; i < n; i++) {
        const double v = (double)cells[i];
        if (v == -INFINITY)
            to[i] = 0;
        else if (quantised || isnan(v))
            to[i] = quantised && to[i] ? to[i] : s->differs ? 128 : 1;
        else
            to[i] = s->differs ? signed_code(v, (double)s->range[1], s->transform)
                               : decade_code(v, (double)s->range[1]);
    }
}

attn_status srv_tile_png(const uint8_t *codes, const size_t shape[2], const srv_tile_scale *s,
                         attn_colormap map, attn_arena *arena, const void **png, size_t *bytes,
                         attn_error *err) {
    const bool from_1 = s->differs || s->transform == SRV_TILE_DECADES;
    double places[256] = {NAN};
    for (size_t c = 1; c < 256; c++)
        places[c] = from_1 ? (double)(c - 1) / 254 : (double)c / 255;
    if (map == ATTN_COLORMAP_AUTO && s->differs)
        map = ATTN_COLORMAP_RDBU;
    return attn_figure_cells_png(codes, shape[0], shape[1], places, map, arena, png, bytes, err);
}
