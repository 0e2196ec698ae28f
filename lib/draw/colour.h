/* Colours of figures: colour maps, the scale from values to colours, readable text colours, and the
 * colours of the two themes. */
#ifndef ATTN_DRAW_COLOUR_H
#define ATTN_DRAW_COLOUR_H

#include "attn/figure.h"

typedef struct attn_rgb {
    uint8_t r, g, b;
} attn_rgb;

/* Colours of everything but the data. */
typedef struct attn_draw_palette {
    attn_rgb ground, text, muted, rule, frame, hatch_ground, hatch, nan;
} attn_draw_palette;

const attn_draw_palette *attn_draw_palette_of(attn_theme theme);

/* A mapping from values to colours. */
typedef struct attn_draw_scale {
    double low, high;
    attn_transform transform;
    attn_colormap map; /* not AUTO */
    attn_theme theme;
} attn_draw_scale;

/* Returns the position t in [0, 1] of a value. RdBu with low < 0 < high has the value 0 at t = 1/2
 * and transforms negative and positive values separately. */
double attn_draw_place(const attn_draw_scale *scale, double value);
/* Returns the value at t, the inverse of attn_draw_place. */
double attn_draw_value(const attn_draw_scale *scale, double t);
attn_rgb attn_draw_colour(const attn_draw_scale *scale, double t);

/* Returns the relative luminance of WCAG 2, section 1.4.3. */
double attn_draw_luminance(attn_rgb colour);
/* Returns black or white, whichever has more contrast to the ground. The contrast is at least 4.58,
 * its value where both are equal. */
attn_rgb attn_draw_ink(attn_rgb ground);
/* Returns the colour of curve i, from Okabe and Ito's set (2008). Its contrast to the ground is
 * above 3. */
attn_rgb attn_draw_curve_colour(attn_theme theme, size_t i);

#endif
