/* Colours of figures: colour maps, the scale from values to colours, readable text colours, and the
 * colours of the two themes. */
#ifndef ATTN_DRAW_COLOUR_H
#define ATTN_DRAW_COLOUR_H

#include "attn/figure.h"

typedef struct attn_rgb {
    uint8_t r, g, b;
} attn_rgb;

/* The colours of a theme that do not depend on data. */
typedef struct attn_draw_palette {
    attn_rgb ground;              /* background */
    attn_rgb text;                /* title, labels and names */
    attn_rgb muted;               /* less important text: ticks of numbers, legends */
    attn_rgb rule;                /* grid lines */
    attn_rgb frame;               /* frames and tick lines */
    attn_rgb hatch_ground, hatch; /* background and lines of the hatching of hidden cells */
    attn_rgb nan;                 /* NaN cells */
} attn_draw_palette;

/* Returns the colours of the theme; they are static. */
const attn_draw_palette *attn_draw_palette_of(attn_theme theme);

/* A mapping from values in [low, high] to colours. A value outside has the colour of the nearer
 * end. */
typedef struct attn_draw_scale {
    double low, high;
    attn_transform transform;
    attn_colormap map; /* never ATTN_COLORMAP_AUTO: the caller has resolved it */
    attn_theme theme;
} attn_draw_scale;

/* Applies the scale's transform to a value and returns its position t in [0, 1] on the colour map.
 * If the map is RdBu and low < 0 < high, the value 0 is at t = 1/2, and on each side the transform
 * is applied to the distance from 0. */
double attn_draw_place(const attn_draw_scale *scale, double value);
/* Returns the value at t, the inverse of attn_draw_place. */
double attn_draw_value(const attn_draw_scale *scale, double t);
/* Returns the colour at position t in [0, 1] of the colour map. */
attn_rgb attn_draw_colour(const attn_draw_scale *scale, double t);

/* Returns the relative luminance of a colour in [0, 1], as WCAG 2 defines it. */
double attn_draw_luminance(attn_rgb colour);
/* Returns the text colour for a background: black or white, whichever has the higher WCAG contrast.
 * The contrast is at least 4.58, and equals 4.58 if black and white have the same contrast. */
attn_rgb attn_draw_ink(attn_rgb ground);
/* Returns the colour of curve i. The colours are based on Okabe and Ito's set (2008) and have a
 * contrast above 3 to the background. */
attn_rgb attn_draw_curve_colour(attn_theme theme, size_t i);

#endif
