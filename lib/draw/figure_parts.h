/* Shared by the files that draw figures: ticks of number axes, labels of a heatmap's sides, the
 * plan of a heatmap figure, and PNG images inside an SVG. */
#ifndef ATTN_DRAW_FIGURE_PARTS_H
#define ATTN_DRAW_FIGURE_PARTS_H

#include "draw/svg.h"

enum {
    ATTN_PAD = 18,        /* margin around the figure, pixels */
    ATTN_TITLE_LINES = 3, /* a title is broken into at most this many lines */
    ATTN_TICKS = 12       /* a number axis has at most this many ticks */
};
#define ATTN_TICK_SIZE 11.0 /* font size of ticks and labels, pixels */
#define ATTN_NAME_SIZE 12.0 /* font size of names of axes and titles of panels, pixels */
#define ATTN_HEAD_SIZE 16.0 /* font size of the title, pixels */
#define ATTN_LINE      22.0 /* distance of two lines of the title, pixels */

/* --- a page of panels --- */

/* A page: the title and the grid of panels that all figures have. Lengths are pixels. */
typedef struct attn_page {
    const attn_figure_options *options;
    attn_arena *arena;
    size_t across;                       /* number of panels in a row */
    size_t down;                         /* number of rows of panels */
    double plot_w, plot_h;               /* size of a panel's plot */
    double left, top;                    /* upper left corner of the first panel */
    double pitch_x, pitch_y;             /* distances between corners of neighbouring panels */
    double width, height;                /* size of the page */
    const char *lines[ATTN_TITLE_LINES]; /* lines of the title */
    int line_count;
} attn_page;

/* Sets page->across and page->down for `count` panels. A row has at most `across` panels, or at
 * most options->columns if the client chose a number. */
void attn_page_grid(attn_page *page, size_t across, size_t count);
/* Breaks the title into lines of at most `width` pixels. Error: ATTN_ENOMEM. */
attn_status attn_page_title(attn_page *page, double width, attn_error *err);
/* Returns the height that the margin and the title take above the panels. */
double attn_page_head(const attn_page *page);
/* Begins the document. Its title is that of the figure, or `kind` if the figure has no title. */
void attn_page_open(attn_svg *s, const attn_page *page, const char *kind,
                    const attn_text *description);
/* Writes the title of a panel, cut at the width of its plot. */
void attn_page_panel_title(attn_svg *s, const attn_page *page, double x, double y,
                           const char *title);
/* Divides a side of the figure, `given` pixels long, among `panels` plots. Labels, gaps and titles
 * take `rest` pixels of the side; *plot becomes the length of each plot in pixels. If `given` is 0,
 * *plot stays as it is. Error: ATTN_EARG at `side` ("width" or "height") if a plot would be shorter
 * than `least`. */
attn_status attn_page_share(double given, double rest, size_t panels, double least,
                            const char *side, double *plot, attn_error *err);
/* Stores the position of the upper left corner of panel i. */
void attn_page_corner(const attn_page *page, size_t i, double *x, double *y);
/* Writes the title and the names of the axes. The name of the x axis is at the vertical position
 * `y`. The name of the y axis is turned, at the horizontal position `x`. Each name is centred on
 * the side of all panels together, and cut to the length of this side, or to least[0] pixels (x
 * axis) or least[1] pixels (y axis) if that is more. */
void attn_page_names(attn_svg *s, const attn_page *page, double x, double y, const double least[2]);

/* --- numbers along an axis --- */

/* Finds at most `most` ticks within [low, high]. The distance of two ticks is 1, 2 or 5 times a
 * power of ten, and each tick is a multiple of this distance. Returns the number of ticks. */
size_t attn_figure_ticks(double low, double high, size_t most, double ticks[ATTN_TICKS]);
/* Writes the shortest text that distinguishes neighbouring ticks with the distance `step`, such as
 * "0.25" or "1e-05". */
void attn_figure_tick_text(double value, double step, char text[32]);

/* --- labels of cells along one side of a heatmap --- */

/* One side of a heatmap before layout. The heatmap may be a crop of the matrix, and may be
 * pooled. */
typedef struct attn_axis {
    /* [count] labels of all rows (or columns) of the matrix; NULL: their indices are shown */
    const char *const *names;
    size_t count;  /* number of names */
    size_t cells;  /* number of cells */
    size_t origin; /* index in the matrix of the first row (or column) of the first cell */
    size_t step;   /* number of rows (or columns) of the matrix in a cell */
} attn_axis;

/* The labels of one side after layout. */
typedef struct attn_axis_plan {
    const char **labels; /* [count] texts, shortened to the space */
    double *at; /* [count] position of each label in cells: 0.5 is the middle of the first cell */
    size_t count;
    bool thinned;    /* not every cell has a label, so each label gets a tick line */
    double turn;     /* rotation of column labels in degrees, negative: counter-clockwise */
    double room;     /* pixels between the plot and the far end of the longest label */
    double overhang; /* pixels by which turned column labels extend left of the first cell */
} attn_axis_plan;

/* Make the labels of the rows and of the columns. `cell` is the height or width of a cell in
 * pixels. `turn` is the rotation of column labels in degrees, 0 … 90; -1 chooses 0, 45 or 90 by the
 * width of labels and cells. Error: ATTN_ENOMEM. */
attn_status attn_axis_rows(const attn_axis *axis, double cell, attn_arena *arena,
                           attn_axis_plan *out, attn_error *err);
attn_status attn_axis_cols(const attn_axis *axis, double cell, int turn, attn_arena *arena,
                           attn_axis_plan *out, attn_error *err);

/* --- a heatmap's picture --- */

enum { ATTN_CELL_SEEN = 0, ATTN_CELL_HIDDEN, ATTN_CELL_NAN };

/* One heatmap of a figure, in the order in which it is drawn (transposed if the client asks for
 * it). */
typedef struct attn_panel {
    const float *values;  /* [R, C] */
    const uint8_t *state; /* [R, C], ATTN_CELL_* */
    const char *title;    /* NULL: the panel has no title */
    /* Labels of the panel's rows and columns, in the order in which they are drawn. If all panels
     * have the same labels, only the first panel has them. */
    attn_axis rows, cols;
    attn_axis_plan row_plan, col_plan;
    double low, high; /* smallest and largest value of the visible cells */
    attn_draw_scale scale;
} attn_panel;

/* A heatmap figure. All lengths are pixels; R and C count cells of a panel, after transposing. */
typedef struct attn_heat_plan {
    attn_page page;
    attn_panel *panels;
    size_t count, R, C;
    bool own;       /* each panel has labels of its own */
    bool largest;   /* a cell shows the maximum of its weights, else their mean */
    bool pooled;    /* cells cover several weights */
    size_t step[2]; /* how many rows and columns of the matrix a cell covers, after transposing */
    bool hidden;    /* some cells are hidden */
    bool nan;       /* some cells are NaN */
    bool below, above; /* some values lie below the scale; above the scale */
    double low, high;  /* smallest and largest value of the visible cells */
    attn_draw_scale scale;
    char format[8];             /* format of the values in cells, such as ".2f"; "" = no values */
    double value_size;          /* font size of values; 0 = none are written */
    double value_width;         /* width of the widest value in ems */
    bool image;                 /* cells are drawn as an image, not as vectors */
    double cell_w, cell_h, gap; /* size of a cell; distance between cells, 0 or 1 */
    double row_room;            /* room for row labels, left of a panel */
    double col_room;            /* room for column labels, below a panel */
    double overhang;            /* how far turned column labels extend left of a panel */
    double gap_x, gap_y;        /* gaps between neighbouring panels, with the labels in them */
    double content_x;           /* left end of the content with its margin */
    double content_w;           /* right end of the content with its margin */
} attn_heat_plan;

/* Checks that the enums, the label rotation and the size of the figure are in range. Error:
 * ATTN_EARG; err->where names the option. */
attn_status attn_figure_check(const attn_figure_options *options, attn_error *err);

/* Make the plan in two steps: attn_heat_plan_data first reads the cells and chooses colour scale
 * and format; attn_heat_plan_layout then chooses sizes and positions. Errors: ATTN_ESHAPE (the
 * heatmaps have unequal shapes), ATTN_EARG (a bound or a format is wrong, or the size is too
 * small), ATTN_ENOMEM. */
attn_status attn_heat_plan_data(attn_heat_plan *plan, const attn_figure_heat *data,
                                attn_error *err);
attn_status attn_heat_plan_layout(attn_heat_plan *plan, attn_error *err);
/* Writes a value in the plan's format, as the cells show it. */
void attn_heat_value_text(const attn_heat_plan *plan, double value, char text[32]);
/* attn_heat_x returns the distance in pixels from the left edge of a panel to the left edge of
 * column c; attn_heat_y, from the upper edge of a panel to the upper edge of row r. Cells of at
 * least one pixel begin at whole pixels, so that no seams show. In a figure of a given size some
 * cells are then a pixel larger than others. */
double attn_heat_x(const attn_heat_plan *plan, size_t c);
double attn_heat_y(const attn_heat_plan *plan, size_t r);
/* Returns the width in pixels of the colour bar with its labels; 0 if there is no bar. */
double attn_heat_bar_room(const attn_heat_plan *plan);
/* Draws the colour bar, if there is one. */
void attn_heat_bar(attn_svg *s, const attn_heat_plan *plan);
/* Draws the legends in lines of at most `width` pixels, beginning at y; draws nothing if s is NULL.
 * Returns the height of the legends in pixels in both cases. */
double attn_heat_legend(attn_svg *s, const attn_heat_plan *plan, double y, double width);

/* --- an image of cells --- */

/* Appends a PNG image in base64. Each of the R x C pixels is an index into 256 colours and
 * alphas. */
void attn_png_index(attn_text *t, const uint8_t *pixels, size_t R, size_t C,
                    const attn_rgb palette[256], const uint8_t alpha[256]);

#endif
