/* Declarations shared by the files of figures: the plan of a heatmap figure and the parts of a
 * page. */
#ifndef ATTN_DRAW_FIGURE_PARTS_H
#define ATTN_DRAW_FIGURE_PARTS_H

#include "draw/svg.h"

enum {
    ATTN_PAD = 18,        /* margin around the figure, px */
    ATTN_TITLE_LINES = 3, /* most lines of the title */
    ATTN_TICKS = 12       /* most ticks of a number axis */
};
#define ATTN_TICK_SIZE 11.0 /* font sizes, px */
#define ATTN_NAME_SIZE 12.0
#define ATTN_HEAD_SIZE 16.0
#define ATTN_LINE      22.0 /* distance of two lines of the title */

/* --- numbers along an axis --- */

/* Finds at most `most` round numbers within [low, high] whose distance is 1, 2 or 5 times a power
 * of ten. Returns their number. */
size_t attn_figure_ticks(double low, double high, size_t most, double ticks[ATTN_TICKS]);
/* Writes the shortest text that distinguishes ticks `step` apart: "0.25", "1e-05". */
void attn_figure_tick_text(double value, double step, char text[32]);

/* --- labels of cells along one side of a heatmap --- */

typedef struct attn_axis {
    const char *const *names; /* labels of rows or columns of the matrix; NULL: indices */
    size_t count;             /* number of names */
    size_t cells, origin, step;
} attn_axis;

typedef struct attn_axis_plan {
    const char **labels; /* [count], cut */
    double *at;          /* positions in cells: 0.5 is the middle of the first cell */
    size_t count;
    bool thinned;    /* some cells have no label, so labels get ticks */
    double turn;     /* rotation of column labels, degrees */
    double room;     /* pixels that the labels take across the axis */
    double overhang; /* pixels by which turned column labels extend left of the first cell */
} attn_axis_plan;

/* --- a heatmap's picture --- */

enum { ATTN_CELL_SEEN = 0, ATTN_CELL_HIDDEN, ATTN_CELL_NAN };

/* Cells in the order in which they are drawn, after transposing. */
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
    bool largest, pooled;           /* cells are maxima; cells cover more than one weight */
    size_t step[2];                 /* rows and columns of a cell, after transposing */
    bool hidden, nan, below, above; /* there are cells that are hidden, NaN, below or above scale */
    double low, high;               /* smallest and largest visible value */
    attn_draw_scale scale;
    char format[8];                 /* format of values in cells; "" = no values */
    double value_size, value_width; /* font size, 0 = none; widest value in ems */
    bool image;
    size_t across, down;
    double cell_w, cell_h, plot_w, plot_h, gap; /* gap between cells */
    attn_axis_plan row_plan, col_plan;
    double left, top, pitch_x, pitch_y; /* corner of the first plot; distances of the plots */
    double content_w, width, height;
    const char *lines[ATTN_TITLE_LINES];
    int line_count;
} attn_heat_plan;

/* Checks the enums of the options and the rotation of labels. ATTN_EARG: one is out of range. */
attn_status attn_figure_check(const attn_figure_options *options, attn_error *err);

/* Make the plan from data and options: first panels, range and scale, then sizes and positions. */
attn_status attn_heat_plan_data(attn_heat_plan *plan, const attn_figure_heat *data,
                                attn_error *err);
attn_status attn_heat_plan_layout(attn_heat_plan *plan, attn_error *err);
/* Writes a value as its cell shows it. */
void attn_heat_value_text(const attn_heat_plan *plan, double value, char text[32]);
/* Gives the upper left corner of panel i. */
void attn_heat_corner(const attn_heat_plan *plan, size_t i, double *x, double *y);
double attn_heat_bar_room(const attn_heat_plan *plan);
/* Draws the line of legends, or only measures it when s is NULL. Returns the height that it takes
 * within `width`. */
double attn_heat_legend(attn_svg *s, const attn_heat_plan *plan, double y, double width);

/* --- an image of cells --- */

/* Appends a PNG of 8-bit palette indices [R, C] with 256 colours and alphas, in base64. */
void attn_png_index(attn_text *t, const uint8_t *pixels, size_t R, size_t C,
                    const attn_rgb palette[256], const uint8_t alpha[256]);

#endif
