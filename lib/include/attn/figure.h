/* Draws figures as SVG or PNG: heatmaps, masks and curves, with labels, legends and a colour bar.
 *
 * The same data and options give the same bytes of SVG. Text stays text (in DejaVu Sans or a font
 * of the same metrics), colours are sRGB, and lengths are CSS pixels. */
#ifndef ATTN_FIGURE_H
#define ATTN_FIGURE_H

#include "heatmap.h"
#include "text.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Colour maps. AUTO is Blues, or RdBu if a value is negative. All maps are safe for colour-blind
 * readers.
 *
 *   Blues, Greys, RdBu  ColorBrewer (Harrower and Brewer 2003)
 *   viridis             Smith and van der Walt (2015)
 *   cividis             Nunez, Anderton and Renslow (2018)
 *
 * In the dark theme, Blues and Greys run from dark to light and RdBu has a dark centre, so values
 * near zero have a colour close to the background in both themes. */
typedef enum attn_colormap {
    ATTN_COLORMAP_AUTO = 0,
    ATTN_COLORMAP_BLUES,
    ATTN_COLORMAP_RDBU,
    ATTN_COLORMAP_GREYS,
    ATTN_COLORMAP_VIRIDIS,
    ATTN_COLORMAP_CIVIDIS
} attn_colormap;
typedef enum attn_theme { ATTN_THEME_LIGHT = 0, ATTN_THEME_DARK } attn_theme;
/* The shape of a heatmap's cells. CHOSEN: squares, but higher or wider cells in panels of few rows
 * or columns. EQUAL: squares. STRETCHED: as high and wide as the figure's size allows, or without a
 * size as the largest panel. */
typedef enum attn_aspect {
    ATTN_ASPECT_CHOSEN = 0,
    ATTN_ASPECT_EQUAL,
    ATTN_ASPECT_STRETCHED
} attn_aspect;

typedef struct attn_figure_options {
    /* Texts of the figure; NULL = none. A line end in the title begins a new line; the title has at
     * most three lines. x_label stands below the picture and y_label on its left, with or without
     * `transpose`. */
    const char *title, *x_label, *y_label;
    const char *value_label; /* text beside the colour bar; NULL = none */
    /* Format of the values in cells:
     *
     *   NULL   chosen from the values; values are written if they fit into the cells
     *   ""     no values
     *   other  a point, one digit 0 … 6 and one of f, e, g, % (as in ".2f"); up to 64 x 64 cells
     *          are enlarged until the values fit */
    const char *annotate;
    attn_colormap colormap;
    attn_transform transform; /* curve from values to colours; RdBu applies it on both sides of 0 */
    /* Ends of the colour scale, or of y for curves. NaN = from the data: the scale begins at 0, or
     * at the smallest value if that is negative, and ends at the largest; RdBu is symmetric around
     * 0. */
    double vmin, vmax;
    /* true: each heatmap has a colour scale of its own, from its own values, and there is no colour
     * bar; with 12 columns or more, the title of a heatmap states the range of its values. */
    bool own_scales;
    bool colorbar; /* draw a colour bar; default true */
    /* Rotation of column labels, 0 … 90 degrees. -1 (default): 0, 45 or 90, by the width of
     * labels. */
    int tick_rotation;
    /* Number of panels side by side. 0 (default): chosen by the number and shape of the panels. */
    size_t columns;
    bool transpose; /* draw rows as columns and columns as rows */
    /* Width and height of the figure, at most ATTN_FIGURE_MOST. 0 (default): as its content needs.
     * With a size, cells are not enlarged for the sake of their values. */
    double width, height;
    attn_aspect aspect;
    bool marks; /* values mean visible or hidden and are drawn as ✓ and ✗, without a colour bar */
    attn_theme theme;
    const char *note; /* sentences below the legends, broken into lines; NULL: none */
} attn_figure_options;

/* Returns the options with their default values. */
attn_figure_options attn_figure_defaults(void);
/* Tells whether `format` is one of the formats that `annotate` takes. */
bool attn_figure_format_ok(const char *format);

#define ATTN_FIGURE_MOST 4096.0

/* Heatmaps, each drawn as a panel. All have the same shape. If the figure has at most
 * ATTN_FIGURE_VECTOR_CELLS cells in all, each cell is a vector element. Otherwise each panel is an
 * embedded image with as many pixels as it has on the page, so no program enlarges and blurs it. */
#define ATTN_FIGURE_VECTOR_CELLS 40000
typedef struct attn_figure_names {
    const char *const *rows, *const *cols; /* as row_labels and col_labels of attn_figure_heat */
    size_t row_count, col_count;
} attn_figure_names;
typedef struct attn_figure_heat {
    /* [count]; `max` is drawn, or `mean` if `max` is NULL; NaN has a colour of its own */
    const attn_heatmap *maps;
    size_t count;
    const char *const *titles; /* [count], or NULL */
    /* Labels of all rows and columns of the matrix (not of the cells). NULL = their indices. */
    const char *const *row_labels;
    const char *const *col_labels;
    size_t row_count, col_count;
    /* [count] labels for each panel, drawn at that panel in place of row_labels and col_labels.
     * NULL: all panels share row_labels and col_labels, which are drawn only at the left and the
     * lower edge of the figure. */
    const attn_figure_names *own;
} attn_figure_heat;

/* One curve of n points. A NaN in x or y interrupts the line. */
typedef struct attn_figure_curve {
    const char *name;    /* name in the legend; NULL = not in the legend */
    const double *x, *y; /* [n]; x = NULL: x0, x0 + 1, … */
    double x0;
    size_t n;     /* number of points */
    size_t panel; /* index of the panel, below attn_figure_curves.panels */
} attn_figure_curve;
typedef struct attn_figure_curves {
    const attn_figure_curve *items;
    size_t count;
    const char *const *titles; /* [panels], or NULL */
    size_t panels;
    bool markers; /* mark the points of curves that have few points (at most 48) */
} attn_figure_curves;

/* Draw a figure into an empty text. Errors: ATTN_ESHAPE: heatmaps of unequal shapes, or nothing to
 * draw. ATTN_EARG: an option or a panel is out of range, or the labels leave no room in the size
 * (at "width" or "height"). ATTN_ENOMEM: the text's arena is full. Any thread may call these
 * functions; concurrent calls need arenas of their own. */
attn_status attn_figure_heatmaps(attn_text *svg, const attn_figure_heat *data,
                                 const attn_figure_options *options, attn_error *err);
attn_status attn_figure_lines(attn_text *svg, const attn_figure_curves *data,
                              const attn_figure_options *options, attn_error *err);
/* Draws the SVG of one of the functions above as a PNG, with `scale` pixels for each CSS pixel.
 * *png (*bytes bytes) is in the arena. The arena also holds the pixels (4 bytes each) and counts
 * librsvg's memory (48 bytes for each byte of SVG). Fonts are those of the system (fontconfig). Any
 * thread may call it. Errors:
 *
 *   ATTN_ELIMIT at "scale"  more than ATTN_PNG_PIXELS pixels
 *   ATTN_EARG at "scale"    a scale that is not above 0
 *   ATTN_EUNSUPPORTED       librsvg is not installed or cannot draw the picture
 *   ATTN_ENOMEM             the arena is full */
#define ATTN_PNG_PIXELS 5e7
/* Computes how many bytes of the arena attn_figure_png usually takes. Errors at "scale" are those
 * of attn_figure_png. */
attn_status attn_figure_png_cost(const attn_text *svg, double scale, size_t *bytes,
                                 attn_error *err);
attn_status attn_figure_png(const attn_text *svg, double scale, attn_arena *arena, const void **png,
                            size_t *bytes, attn_error *err);
/* Returns false if the system has no fonts: every letter of a PNG is then a box. Any thread may
 * call it. */
bool attn_figure_has_fonts(void);

/* Makes a PNG of the cells codes [rows, cols], with one pixel for each cell. A cell of code c has
 * the colour at places[c], from 0 to 1, of the colour map (AUTO is Blues). If places[c] is NaN, the
 * pixel is transparent. *png (*bytes bytes) is in the arena. Error: ATTN_ENOMEM. */
attn_status attn_figure_cells_png(const uint8_t *codes, size_t rows, size_t cols,
                                  const double places[256], attn_colormap map, attn_arena *arena,
                                  const void **png, size_t *bytes, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
