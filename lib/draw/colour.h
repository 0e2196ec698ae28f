/* Colours of figures: colour maps, the scale from values to them, ink that can be read on them, and
 * the colours of the two themes. */
#ifndef ATTN_DRAW_COLOUR_H
#define ATTN_DRAW_COLOUR_H

#include "attn/figure.h"

typedef struct attn_rgb {
    uint8_t r, g, b;
} attn_rgb;

/* Colours of all that is not data. */
typedef struct attn_draw_palette {
    attn_rgb ground, text, muted, rule, frame, hatch_ground, hatch, nan;
} attn_draw_palette;

const attn_draw_palette *attn_draw_palette_of(attn_theme theme);

/* From values to colours. */
typedef struct attn_draw_scale {
    double low, high;
    attn_transform transform;
    attn_colormap map; /* not AUTO */
    attn_theme theme;
} attn_draw_scale;

/* t in [0, 1]. RdBu with low < 0 < high has 0 at 1/2 and transforms either side by itself. */
double attn_draw_place(const attn_draw_scale *scale, double value);
/* The value at t, the inverse of it. */
double attn_draw_value(const attn_draw_scale *scale, double t);
attn_rgb attn_draw_colour(const attn_draw_scale *scale, double t);

/* Relative luminance and contrast of WCAG 2, section 1.4.3. */
double attn_draw_luminance(attn_rgb colour);
/* Black or white, whichever has more contrast: at least 4.58, where both are equal. */
attn_rgb attn_draw_ink(attn_rgb ground);
/* The colour of curve i, with contrast above 3 to the ground: Okabe and Ito's set (2008). */
attn_rgb attn_draw_curve_colour(attn_theme theme, size_t i);

#endif
