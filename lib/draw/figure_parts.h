/* What the files of a figure share: the plan of a heatmap's picture and the parts of a page. */
#ifndef ATTN_DRAW_FIGURE_PARTS_H
#define ATTN_DRAW_FIGURE_PARTS_H

#include "draw/svg.h"

enum {
    ATTN_PAD = 18,        /* around the figure */
    ATTN_TITLE_LINES = 3, /* of a figure's title */
    ATTN_TICKS = 12       /* most ticks of a number axis */
};
#define ATTN_TICK_SIZE 11.0 /* font sizes, px */
#define ATTN_NAME_SIZE 12.0
#define ATTN_HEAD_SIZE 16.0
#define ATTN_LINE      22.0 /* from one line of the title to the next */

/* --- numbers along an axis --- */

/* Round numbers 1, 2 or 5 times a power of ten apart, within [low, high]; at most `most`. */
size_t attn_figure_ticks(double low, double high, size_t most, double ticks[ATTN_TICKS]);
/* The shortest text that tells neighbours apart, "0.25", "1e-05". */
void attn_figure_tick_text(double value, double step, char text[32]);

/* --- labels of cells along one side of a heatmap --- */

typedef struct attn_axis {
    const char *const *names; /* of the matrix; NULL: indices */
    size_t count;             /* names */
    size_t cells, origin, step;
} attn_axis;

typedef struct attn_axis_plan {
    const char **labels; /* [count], cut */
    double *at;          /* where they stand, in cells: 0.5 is the middle of the first */
    size_t count;
    bool thinned;    /* not each cell has one: they get ticks */
    double turn;     /* degrees; columns only */
    double room;     /* pixels that they take across the axis */
    double overhang; /* columns: pixels that turned labels reach to the left of the first cell */
} attn_axis_plan;

/* --- a heatmap's picture --- */

enum { ATTN_CELL_SEEN = 0, ATTN_CELL_HIDDEN, ATTN_CELL_NAN };

/* Cells in the direction they are drawn in. */
typedef struct attn_panel {
    const float *values;  /* [R, C] */
    const uint8_t *state; /* [R, C], ATTN_CELL_* */
    const char *title;    /* NULL: none */
} attn_panel;

typedef struct attn_heat_plan {
    const attn_figure_options *options;
    attn_arena *arena;
    attn_panel *panels;
    size_t count, R, C;
    attn_axis rows, cols;
    bool largest, pooled;           /* cells are maxima; of more than one weight */
    size_t step[2];                 /* in the direction drawn */
    bool hidden, nan, below, above; /* there are such cells; beyond the scale */
    double low, high;               /* of all visible cells */
    attn_draw_scale scale;
    char format[8];                 /* of values in cells, "" = none */
    double value_size, value_width; /* font size, 0 = none; widest value in ems */
    bool image;
    size_t across, down;
    double cell_w, cell_h, plot_w, plot_h, gap; /* gap between cells */
    attn_axis_plan row_plan, col_plan;
    double left, top, pitch_x, pitch_y; /* first plot's corner; from a plot to the next */
    double content_w, width, height;
    const char *lines[ATTN_TITLE_LINES];
    int line_count;
} attn_heat_plan;

/* ATTN_EARG unless the options' enums and the rotation of labels are in their ranges. */
attn_status attn_figure_check(const attn_figure_options *options, attn_error *err);

/* From data and options to panels, range and scale, and then to sizes and places. */
attn_status attn_heat_plan_data(attn_heat_plan *plan, const attn_figure_heat *data,
                                attn_error *err);
attn_status attn_heat_plan_layout(attn_heat_plan *plan, attn_error *err);
/* A value as its cell shows it. */
void attn_heat_value_text(const attn_heat_plan *plan, double value, char text[32]);
/* Corner of panel i. */
void attn_heat_corner(const attn_heat_plan *plan, size_t i, double *x, double *y);
double attn_heat_bar_room(const attn_heat_plan *plan);
/* Draws the line of legends, or only measures it when s is NULL. Returns the height that it takes
 * within `width`. */
double attn_heat_legend(attn_svg *s, const attn_heat_plan *plan, double y, double width);

/* --- an image of cells --- */

/* A PNG of 8-bit palette indices [R, C] with 256 colours and alphas, as base64 into the text. */
void attn_png_index(attn_text *t, const uint8_t *pixels, size_t R, size_t C,
                    const attn_rgb palette[256], const uint8_t alpha[256]);

#endif
