/* Figures as SVG: heatmaps, masks and curves, with labels, legends and a colour bar; PNG from them.
 *
 * An SVG is drawn from data and options alone: the same input gives the same bytes. Text stays text
 * (DejaVu Sans or a face of its metrics), colours are sRGB, lengths are CSS pixels. */
#ifndef ATTN_FIGURE_H
#define ATTN_FIGURE_H

#include "text.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* AUTO: Blues, or RdBu when a value is negative. Blues, Greys and RdBu are ColorBrewer's (Harrower
 * and Brewer 2003), viridis is by Smith and van der Walt (2015), cividis by Nunez, Anderton and
 * Renslow (2018); all are safe for colour-blind readers. In the dark theme Blues and Greys run from
 * dark to light and RdBu has a dark centre, so that what is near zero recedes there too. */
typedef enum attn_colormap {
    ATTN_COLORMAP_AUTO = 0,
    ATTN_COLORMAP_BLUES,
    ATTN_COLORMAP_RDBU,
    ATTN_COLORMAP_GREYS,
    ATTN_COLORMAP_VIRIDIS,
    ATTN_COLORMAP_CIVIDIS
} attn_colormap;
typedef enum attn_theme { ATTN_THEME_LIGHT = 0, ATTN_THEME_DARK } attn_theme;

typedef struct attn_figure_options {
    const char *title, *x_label, *y_label; /* NULL = none */
    const char *value_label;               /* of the colour bar; NULL = none */
    const char *annotate; /* values in cells: NULL = where they fit, "" = none, else "." digits and
                             one of f, e, g, %: cells grow to hold it up to 64 x 64 of them */
    attn_colormap colormap;
    attn_transform transform; /* of values to colours; RdBu: on either side of 0 */
    double vmin, vmax;        /* NaN = from the data: 0 or less to the largest; RdBu: -m to m */
    bool colour_bar;          /* default true */
    int tick_rotation;        /* degrees 0 … 90 of column labels; -1 = as they fit (default) */
    size_t columns;           /* panels side by side; 0 = as they fit (default) */
    bool transpose;           /* rows become columns */
    bool marks; /* values are visibility: ✓ and ✗ instead of numbers and colour bar */
    attn_theme theme;
} attn_figure_options;

attn_figure_options attn_figure_defaults(void);
/* Is this a format for `annotate`? */
bool attn_figure_format_ok(const char *format);

/* Heatmaps of one grid, each a panel. A panel is a vector of cells up to ATTN_FIGURE_VECTOR_CELLS
 * in the whole figure, beyond that an embedded image whose pixels are those of the page at
 * scale 1, so that no program blurs its cells. */
#define ATTN_FIGURE_VECTOR_CELLS 40000
typedef struct attn_figure_heat {
    const attn_heatmap *maps; /* `max`, or else `mean`, is drawn; NaN has a colour of its own */
    size_t count;
    const char *const *titles; /* one a panel, or NULL */
    const char *const *row_labels, *const
                                       *col_labels; /* of the matrix, not of cells; NULL: indices */
    size_t row_count, col_count;
} attn_figure_heat;

/* One polyline. NaN interrupts it. */
typedef struct attn_figure_curve {
    const char *name;    /* in the legend; NULL = none */
    const double *x, *y; /* [n]; x NULL: x0, x0 + 1, … */
    double x0;
    size_t n, panel; /* panels are counted from 0 without a gap */
} attn_figure_curve;
typedef struct attn_figure_curves {
    const attn_figure_curve *items;
    size_t count;
    const char *const *titles; /* one a panel, or NULL */
    size_t panels;
    bool markers; /* a mark at each point, where they are not too dense */
} attn_figure_curves;

/* Draw into an empty text. ATTN_ESHAPE: panels of unequal grids; ATTN_EARG: options and panels
 * outside of their range; ATTN_ENOMEM. Any thread, an arena of its own. */
attn_status attn_figure_heatmaps(attn_text *svg, const attn_figure_heat *data,
                                 const attn_figure_options *options, attn_error *err);
attn_status attn_figure_lines(attn_text *svg, const attn_figure_curves *data,
                              const attn_figure_options *options, attn_error *err);
/* The SVG of one of these functions as a PNG of `scale` pixels a unit of length, in the arena,
 * which also holds the pixels (4 bytes each) and what librsvg takes for the document (48 bytes a
 * byte of SVG). ATTN_ELIMIT at "scale": more than ATTN_PNG_PIXELS; ATTN_EUNSUPPORTED: librsvg is
 * not installed. Fonts are the system's (fontconfig). Any thread. */
#define ATTN_PNG_PIXELS 5e7
/* Bytes of that, with the PNG as a rule, before any is taken. ATTN_ELIMIT as above. */
attn_status attn_figure_png_cost(const attn_text *svg, double scale, size_t *bytes,
                                 attn_error *err);
attn_status attn_figure_png(const attn_text *svg, double scale, attn_arena *arena, const void **png,
                            size_t *bytes, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
