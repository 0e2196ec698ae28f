/* Draws figures as SVG: heatmaps, masks and curves, with labels, legends and a colour bar, and
 * makes PNGs of them.
 *
 * An SVG depends on data and options alone, so the same input gives the same bytes. Text stays text
 * (in DejaVu Sans or a font of its metrics), colours are sRGB, lengths are CSS pixels. */
#ifndef ATTN_FIGURE_H
#define ATTN_FIGURE_H

#include "text.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* AUTO means Blues, or RdBu if a value is negative. Blues, Greys and RdBu are ColorBrewer's
 * (Harrower and Brewer 2003), viridis is by Smith and van der Walt (2015), cividis by Nunez,
 * Anderton and Renslow (2018); all are safe for colour-blind readers. In the dark theme Blues and
 * Greys run from dark to light, and RdBu has a dark centre, so values near zero are close to the
 * background there too. */
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
    const char *value_label;               /* text beside the colour bar; NULL = none */
    /* Values in cells: NULL = where they fit, "" = none, else a format: ".", digits and one of f,
     * e, g, %. Up to 64 x 64 cells grow to hold it. */
    const char *annotate;
    attn_colormap colormap;
    attn_transform transform; /* from values to colours; for RdBu on both sides of 0 */
    double vmin, vmax;        /* NaN = from the data: at most 0 to the largest; RdBu: -m to m */
    bool colour_bar;          /* default true */
    int tick_rotation; /* angle of column labels, 0 … 90 degrees; -1 (default) = as they fit */
    size_t columns;    /* panels side by side; 0 (default) = as they fit */
    bool transpose;    /* rows become columns */
    bool marks;        /* values are visibility, drawn as ✓ and ✗ without a colour bar */
    attn_theme theme;
} attn_figure_options;

attn_figure_options attn_figure_defaults(void);
/* Tells whether the text is a format for `annotate`. */
bool attn_figure_format_ok(const char *format);

/* Heatmaps of one grid; each is a panel. Up to ATTN_FIGURE_VECTOR_CELLS in the whole figure, cells
 * are vectors. Beyond that a panel is an embedded image. Its pixels are those of the page at scale
 * 1, so no program blurs its cells. */
#define ATTN_FIGURE_VECTOR_CELLS 40000
typedef struct attn_figure_heat {
    const attn_heatmap *maps; /* `max` is drawn or, if NULL, `mean`; NaN has its own colour */
    size_t count;
    const char *const *titles;     /* one for each panel, or NULL */
    const char *const *row_labels; /* of the rows of the matrix, not of cells; NULL = indices */
    const char *const *col_labels; /* of the columns of the matrix; NULL = indices */
    size_t row_count, col_count;
} attn_figure_heat;

/* One curve. NaN interrupts it. */
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
    bool markers; /* mark the points, unless they are too dense */
} attn_figure_curves;

/* Draw into an empty text. ATTN_ESHAPE: the panels have unequal grids. ATTN_EARG: an option or a
 * panel is out of range. ATTN_ENOMEM. Any thread with an arena of its own. */
attn_status attn_figure_heatmaps(attn_text *svg, const attn_figure_heat *data,
                                 const attn_figure_options *options, attn_error *err);
attn_status attn_figure_lines(attn_text *svg, const attn_figure_curves *data,
                              const attn_figure_options *options, attn_error *err);
/* Makes a PNG of the SVG of one of these functions, with `scale` pixels a unit of length. The arena
 * holds the PNG, its pixels (4 bytes each) and the memory of librsvg for the document (48 bytes for
 * a byte of SVG). ATTN_ELIMIT at "scale": more than ATTN_PNG_PIXELS. ATTN_EUNSUPPORTED: librsvg is
 * not installed. Fonts are those of the system (fontconfig). Any thread. */
#define ATTN_PNG_PIXELS 5e7
/* Computes the bytes that attn_figure_png usually takes from the arena. ATTN_ELIMIT as above. */
attn_status attn_figure_png_cost(const attn_text *svg, double scale, size_t *bytes,
                                 attn_error *err);
attn_status attn_figure_png(const attn_text *svg, double scale, attn_arena *arena, const void **png,
                            size_t *bytes, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
