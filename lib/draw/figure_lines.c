/* Draws curves as SVG. All panels have the same ranges of x and y, so that they can be compared.
 * Curves of a panel differ in colour, dashes and marks. The legend of a panel is above its plot,
 * where it covers no curve. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "draw/figure_parts.h"

#define SINGLE_W  640.0
#define SINGLE_H  320.0
#define PANEL_W   400.0
#define PANEL_H   210.0
#define GAP_X     30.0
#define GAP_Y     26.0
#define HEAD      20.0 /* height of a panel's title, pixels */
#define ROW       20.0 /* height of a line of the legend, pixels */
#define SAMPLE    26.0 /* length of the sample of a curve in the legend, pixels */
#define TICK_ROOM 22.0 /* height of the tick labels below a plot, pixels */
#define AXIS_NAME 24.0
#define MARKED    48 /* curves with more points than this have no marks */
/* with more than 3 points a pixel, only the extremes of each group of points are drawn */
#define DENSE 3.0
/* Limit of the number of points that are drawn of all curves together. Painting more points takes
 * seconds. */
#define DRAWN 20000.0
/* number of points in a path; the time to paint a path can grow with the square of this number */
#define PIECE 64
/* A curve longer than this many plot widths is drawn without dashes, because the dashes would
 * merge. The curves of other panels that have the same colour are drawn without dashes, too. */
#define FILLS      8.0
#define NAME_MOST  220.0
#define LINE_WIDTH 1.8
/* least width and height of a plot in a figure of a given size, pixels */
#define SIZED_LEAST 40.0
#define TICK_W      50.0 /* least distance of two ticks along x, pixels */
#define TICK_H      20.0 /* least distance of two ticks along y, pixels */

typedef struct line_plan {
    attn_page page;
    const attn_figure_curves *data;
    double x_low, x_high, y_low, y_high;
    double x_ticks[ATTN_TICKS], y_ticks[ATTN_TICKS], x_step, y_step;
    size_t x_count, y_count;
    /* [data->count] names of the curves as they are drawn; NULL: the curve has no legend */
    const char **names;
    /* [data->count] true at i: the i-th curve of each panel is drawn without dashes, because the
     * i-th curve of one of the panels is too long */
    bool *whole;
    double legend_rows; /* lines of the longest legend of a panel */
} line_plan;

static double x_of(const attn_figure_curve *c, size_t i) {
    return c->x ? c->x[i] : c->x0 + (double)i;
}

/* --- plan --- */

static void widen_range(double *low, double *high, double value) {
    if (!isfinite(value))
        return;
    *low = fmin(*low, value);
    *high = fmax(*high, value);
}

static void widen_empty(double *low, double *high) {
    if (*low > *high)
        *low = *high = 0;
    if (*low == *high) {
        *low -= 1;
        *high += 1;
    }
}

/* Returns the largest number of ticks of an axis: `usual`, or fewer along a short axis, so that
 * ticks are at least `apart` pixels apart. */
static size_t most_ticks(size_t usual, double length, double apart) {
    return (size_t)fmax(2, fmin((double)usual, floor(length / apart)));
}

/* Finds the ranges of x and y and their ticks. The range of y extends to multiples of the tick
 * step, except at a bound that the client chose. If the smallest y is positive and below half the
 * largest, the range begins at 0. */
static void read_ranges(line_plan *plan) {
    const attn_page *page = &plan->page;
    const attn_figure_options *o = page->options;
    plan->x_low = plan->y_low = INFINITY;
    plan->x_high = plan->y_high = -INFINITY;
    for (size_t k = 0; k < plan->data->count; k++) {
        const attn_figure_curve *c = &plan->data->items[k];
        for (size_t i = 0; i < c->n; i++) {
            widen_range(&plan->x_low, &plan->x_high, x_of(c, i));
            widen_range(&plan->y_low, &plan->y_high, c->y[i]);
        }
    }
    widen_empty(&plan->x_low, &plan->x_high);
    widen_empty(&plan->y_low, &plan->y_high);
    if (plan->y_low > 0 && plan->y_low < 0.5 * plan->y_high)
        plan->y_low = 0;
    plan->y_low = isnan(o->vmin) ? plan->y_low : o->vmin;
    plan->y_high = isnan(o->vmax) ? plan->y_high : o->vmax;
    if (plan->y_low >= plan->y_high)
        plan->y_high = plan->y_low + 1;
    size_t n = attn_figure_ticks(plan->y_low, plan->y_high, 7, plan->y_ticks);
    plan->y_step = n > 1 ? plan->y_ticks[1] - plan->y_ticks[0] : 1;
    if (isnan(o->vmin))
        plan->y_low = floor(plan->y_low / plan->y_step + 1e-9) * plan->y_step;
    if (isnan(o->vmax))
        plan->y_high = ceil(plan->y_high / plan->y_step - 1e-9) * plan->y_step;
    plan->y_count = attn_figure_ticks(plan->y_low, plan->y_high,
                                      most_ticks(9, page->plot_h, TICK_H), plan->y_ticks);
    plan->x_count = attn_figure_ticks(
        plan->x_low, plan->x_high,
        most_ticks(plan->data->panels > 1 ? 8 : 11, page->plot_w, TICK_W), plan->x_ticks);
    plan->x_step = plan->x_count > 1 ? plan->x_ticks[1] - plan->x_ticks[0] : 1;
}

static double item_width(const line_plan *plan, size_t k) {
    return SAMPLE + 6 + attn_svg_width(plan->names[k], ATTN_TICK_SIZE, false) + 18;
}

static attn_status read_names(line_plan *plan, attn_error *err) {
    const attn_page *page = &plan->page;
    const attn_figure_curves *data = plan->data;
    plan->names = attn_arena_zeroed(page->arena, data->count + 1, sizeof *plan->names);
    double *used = attn_arena_zeroed(page->arena, 2 * data->panels, sizeof *used);
    ATTN_TAKEN(plan->names && used, "the labels of a figure", err);
    for (size_t k = 0; k < data->count; k++) {
        const attn_figure_curve *c = &data->items[k];
        if (!c->name)
            continue;
        plan->names[k] = attn_svg_name(page->arena, c->name, ATTN_TICK_SIZE, NAME_MOST);
        ATTN_TAKEN(plan->names[k], "the labels of a figure", err);
        double *row = used + 2 * c->panel, *rows = row + 1;
        if (*rows == 0 || *row + item_width(plan, k) > page->plot_w + 18) {
            *rows += 1;
            *row = 0;
        }
        *row += item_width(plan, k);
        plan->legend_rows = fmax(plan->legend_rows, *rows);
    }
    return ATTN_OK;
}

static double y_room(const line_plan *plan) {
    double widest = 0;
    char text[32];
    for (size_t i = 0; i < plan->y_count; i++) {
        attn_figure_tick_text(plan->y_ticks[i], plan->y_step, text);
        widest = fmax(widest, attn_svg_width(text, ATTN_TICK_SIZE, false));
    }
    return ceil(widest) + 10;
}

/* Guesses the size of a plot before the labels are known. The number of ticks is chosen for this
 * size. */
static void guess_plot(line_plan *plan) {
    attn_page *page = &plan->page;
    const attn_figure_options *o = page->options;
    const bool single = plan->data->panels == 1;
    page->plot_w = single ? SINGLE_W : PANEL_W;
    page->plot_h = single ? SINGLE_H : PANEL_H;
    if (o->width > 0)
        page->plot_w = (o->width - 4 * ATTN_PAD) / (double)page->across - GAP_X;
    if (o->height > 0)
        page->plot_h = (o->height - 4 * ATTN_PAD) / (double)page->down - GAP_Y - TICK_ROOM;
}

static attn_status place_across(line_plan *plan, attn_error *err) {
    attn_page *page = &plan->page;
    const attn_figure_options *o = page->options;
    const double tick_room = y_room(plan), gaps = (double)(page->across - 1) * (GAP_X + tick_room);
    page->left = ATTN_PAD + (o->y_label ? AXIS_NAME : 0) + tick_room;
    const double rest = page->left + gaps + 2 * ATTN_PAD;
    attn_status status =
        attn_page_share(o->width, rest, page->across, SIZED_LEAST, "width", &page->plot_w, err);
    page->pitch_x = page->plot_w + GAP_X + tick_room;
    page->width = o->width > 0 ? o->width : rest + (double)page->across * page->plot_w;
    return status;
}

static attn_status place_down(line_plan *plan, attn_error *err) {
    attn_page *page = &plan->page;
    const attn_figure_options *o = page->options;
    const double head = (plan->data->titles ? HEAD : 0) + ROW * plan->legend_rows;
    const double gaps = (double)page->down * (GAP_Y + head + TICK_ROOM) - GAP_Y - head;
    page->top = attn_page_head(page) + head;
    const double rest = page->top + gaps + (o->x_label ? AXIS_NAME : 4) + ATTN_PAD;
    attn_status status =
        attn_page_share(o->height, rest, page->down, SIZED_LEAST, "height", &page->plot_h, err);
    page->pitch_y = page->plot_h + GAP_Y + head + TICK_ROOM;
    page->height = o->height > 0 ? o->height : rest + (double)page->down * page->plot_h;
    return status;
}

static attn_status lay_out(line_plan *plan, attn_error *err) {
    const size_t panels = plan->data->panels;
    attn_page_grid(&plan->page, panels <= 1 ? 1 : panels <= 4 ? 2 : 3, panels);
    guess_plot(plan);
    read_ranges(plan);
    ATTN_TRY(place_across(plan, err));
    ATTN_TRY(read_names(plan, err));
    ATTN_TRY(attn_page_title(&plan->page, plan->page.width - 2 * ATTN_PAD, err));
    return place_down(plan, err);
}

/* --- drawing --- */

static double x_in_pixels(const line_plan *plan, double left, double x) {
    return left + (x - plan->x_low) / (plan->x_high - plan->x_low) * plan->page.plot_w;
}

static double y_in_pixels(const line_plan *plan, double top, double y) {
    return top + (plan->y_high - y) / (plan->y_high - plan->y_low) * plan->page.plot_h;
}

static void put_axes(attn_svg *s, const line_plan *plan, double left, double top) {
    const attn_page *page = &plan->page;
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    attn_svg_face face = {.size = ATTN_TICK_SIZE, .fill = p->muted, .anchor = ATTN_ANCHOR_MIDDLE};
    char text[32];
    attn_svg_put(s, "<g class=\"axes\">\n");
    for (size_t i = 0; i < plan->x_count; i++) {
        double x = x_in_pixels(plan, left, plan->x_ticks[i]);
        attn_svg_line(s, x, top, x, top + page->plot_h, p->rule, 1);
        attn_figure_tick_text(plan->x_ticks[i], plan->x_step, text);
        attn_svg_text(s, x, top + page->plot_h + 12, &face, text);
    }
    face.anchor = ATTN_ANCHOR_END;
    for (size_t i = 0; i < plan->y_count; i++) {
        double y = y_in_pixels(plan, top, plan->y_ticks[i]);
        const bool zero = fabs(plan->y_ticks[i]) < 1e-9 * plan->y_step;
        attn_svg_line(s, left, y, left + page->plot_w, y, zero ? p->frame : p->rule, 1);
        attn_figure_tick_text(plan->y_ticks[i], plan->y_step, text);
        attn_svg_text(s, left - 7, y, &face, text);
    }
    attn_svg_put(s, "</g>\n");
}

/* State while a curve is written. The curve is split into paths of PIECE points each. */
typedef struct pen {
    attn_svg *s;   /* NULL: only the length is measured */
    bool down;     /* the next point continues the line; false: it begins a new line */
    size_t points; /* number of points of the current path so far */
    double x, y, length;
} pen;

static void move_pen(pen *p, double x, double y) {
    const double step = p->down ? hypot(x - p->x, y - p->y) : 0;
    if (p->s && p->points++ == PIECE) {
        attn_svg_put(p->s, "\"/>\n<path");
        attn_svg_at(p->s, "stroke-dashoffset", p->length);
        attn_svg_put(p->s, " d=\"");
        if (p->down)
            attn_svg_point(p->s, "M", p->x, p->y);
        p->points = 0;
    }
    if (p->s)
        attn_svg_point(p->s, p->down ? "L" : "M", x, y);
    p->length += step;
    p->down = true;
    p->x = x;
    p->y = y;
}

/* Returns the number of neighbouring points that form a group. Of each group, only the points with
 * the smallest and the largest y are drawn. If the result is 1, all points are drawn. */
static size_t points_in_group(const line_plan *plan, const attn_figure_curve *c) {
    const double n = (double)c->n, share = DRAWN / (double)plan->data->count;
    if (n <= fmin(DENSE * plan->page.plot_w, share))
        return 1;
    return (size_t)ceil(n / fmin(plan->page.plot_w, share / 2));
}

/* Moves the pen along the drawn points of a curve. A NaN or infinity breaks the line. */
static void move_along(pen *p, const line_plan *plan, const attn_figure_curve *c) {
    const size_t bin = points_in_group(plan, c);
    for (size_t i = 0; i < c->n; i += bin) {
        size_t low = i, high = i, end = i + bin < c->n ? i + bin : c->n;
        bool broken = false;
        for (size_t k = i; k < end; k++) {
            broken = broken || !isfinite(c->y[k]) || !isfinite(x_of(c, k));
            low = c->y[k] < c->y[low] ? k : low;
            high = c->y[k] > c->y[high] ? k : high;
        }
        p->down = p->down && !broken;
        size_t at[2] = {low < high ? low : high, low < high ? high : low};
        for (size_t k = 0; !broken && k < (at[0] == at[1] ? 1 : 2); k++)
            move_pen(p, x_in_pixels(plan, 0, x_of(c, at[k])), y_in_pixels(plan, 0, c->y[at[k]]));
    }
}

static attn_status measure_curves(line_plan *plan, attn_error *err) {
    const attn_page *page = &plan->page;
    const attn_figure_curves *data = plan->data;
    plan->whole = attn_arena_zeroed(page->arena, data->count, sizeof *plan->whole);
    size_t *places = attn_arena_zeroed(page->arena, data->panels, sizeof *places);
    ATTN_TAKEN(plan->whole && places, "the curves of a figure", err);
    for (size_t k = 0; k < data->count; k++) {
        pen line = {.s = NULL};
        move_along(&line, plan, &data->items[k]);
        plan->whole[places[data->items[k].panel]++] |= line.length > FILLS * page->plot_w;
    }
    return ATTN_OK;
}

/* Writes the mark of curve number `kind` at (x, y): circle, square, triangle or diamond. */
static void put_mark(attn_svg *s, size_t kind, double x, double y) {
    static const char *const shapes[] = {"m-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
                                         "m-3.2 -3.2h6.4v6.4h-6.4z", "m0 -4.2l4 7h-8z",
                                         "m0 -4.4l4.4 4.4l-4.4 4.4l-4.4 -4.4z"};
    attn_svg_point(s, "M", x, y);
    attn_svg_put(s, shapes[kind % 4]);
}

static void put_stroke(attn_svg *s, size_t kind, bool whole) {
    static const char *const dashes[] = {NULL, "7 3", "2 2.6", "9 3 2 3"};
    attn_svg_put(s, " fill=\"none\" stroke-linejoin=\"round\"");
    attn_svg_stroke(s, attn_draw_curve_colour(s->theme, kind), LINE_WIDTH);
    if (dashes[kind % 4] && !whole)
        attn_text_add(s->t, " stroke-dasharray=\"%s\"", dashes[kind % 4]);
}

/* Writes curve k of the figure. `kind` is the number of the curve within its panel, and selects
 * colour, dashes and mark. */
static void put_curve(attn_svg *s, const line_plan *plan, size_t k, size_t kind, double left,
                      double top) {
    const attn_figure_curve *c = &plan->data->items[k];
    attn_svg_put(s, "<g class=\"curve\" clip-path=\"url(#plot)\"");
    attn_svg_point(s, " transform=\"translate(", left, top);
    attn_svg_put(s, ")\"");
    put_stroke(s, kind, plan->whole[kind]);
    attn_svg_put(s, "><path d=\"");
    pen line = {.s = s};
    move_along(&line, plan, c);
    attn_svg_put(s, "\"/></g>\n");
    if (!plan->data->markers || c->n > MARKED)
        return;
    attn_svg_put(s, "<path class=\"marks\"");
    attn_svg_fill(s, attn_draw_curve_colour(s->theme, kind));
    attn_svg_put(s, " d=\"");
    for (size_t i = 0; i < c->n; i++)
        if (isfinite(c->y[i]) && c->y[i] >= plan->y_low && c->y[i] <= plan->y_high)
            put_mark(s, kind, x_in_pixels(plan, left, x_of(c, i)), y_in_pixels(plan, top, c->y[i]));
    attn_svg_put(s, "\"/>\n");
}

static void put_legend_item(attn_svg *s, const line_plan *plan, size_t k, size_t kind, double x,
                            double y) {
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    const attn_svg_face face = {.size = ATTN_TICK_SIZE, .fill = p->text};
    const bool marked = plan->data->markers && plan->data->items[k].n <= MARKED;
    attn_svg_put(s, "<path");
    put_stroke(s, kind, plan->whole[kind]);
    attn_svg_put(s, " d=\"");
    attn_svg_point(s, "M", x, y);
    attn_svg_put(s, "h26\"/>\n"); /* 26 is SAMPLE */
    if (marked) {
        attn_svg_put(s, "<path");
        attn_svg_fill(s, attn_draw_curve_colour(s->theme, kind));
        attn_svg_put(s, " d=\"");
        put_mark(s, kind, x + SAMPLE / 2, y);
        attn_svg_put(s, "\"/>\n");
    }
    attn_svg_text(s, x + SAMPLE + 6, y, &face, plan->names[k]);
}

static void put_panel(attn_svg *s, const line_plan *plan, size_t panel) {
    const attn_page *page = &plan->page;
    double left, top;
    attn_page_corner(page, panel, &left, &top);
    double x = left, y = top - ROW * plan->legend_rows + ROW / 2 - 2;
    size_t kind = 0;
    attn_svg_put(s, "<g class=\"panel\">\n");
    if (plan->data->titles)
        attn_page_panel_title(s, page, left, y - ROW / 2 - 8, plan->data->titles[panel]);
    put_axes(s, plan, left, top);
    for (size_t k = 0; k < plan->data->count && !s->t->failed; k++) {
        if (plan->data->items[k].panel != panel)
            continue;
        put_curve(s, plan, k, kind, left, top);
        if (plan->names[k]) {
            if (x > left && x + item_width(plan, k) > left + page->plot_w + 18) {
                x = left;
                y += ROW;
            }
            put_legend_item(s, plan, k, kind, x, y);
            x += item_width(plan, k);
        }
        kind++;
    }
    attn_svg_put(s, "</g>\n");
}

attn_status attn_figure_lines(attn_text *svg, const attn_figure_curves *data,
                              const attn_figure_options *options, attn_error *err) {
    line_plan plan = {.page = {.options = options, .arena = svg->arena}, .data = data};
    attn_svg s = {svg, options->theme};
    if (data->count == 0 || data->panels == 0)
        return attn_fail(err, ATTN_ESHAPE, "", "a figure needs at least one curve");
    for (size_t k = 0; k < data->count; k++)
        if (data->items[k].panel >= data->panels)
            return attn_fail(err, ATTN_EARG, "panel", "panel %zu is outside: there are %zu, from 0",
                             data->items[k].panel, data->panels);
    ATTN_TRY(attn_figure_check(options, err));
    ATTN_TRY(lay_out(&plan, err));
    ATTN_TRY(measure_curves(&plan, err));
    attn_text said = {.arena = svg->arena};
    attn_text_add(&said, "%zu curve%s over %.4g to %.4g; values from %.4g to %.4g.", data->count,
                  attn_plural(data->count), plan.x_low, plan.x_high, plan.y_low, plan.y_high);
    attn_page_open(&s, &plan.page, "Curves", &said);
    attn_svg_put(&s, "<defs><clipPath id=\"plot\">");
    attn_svg_rect(&s, -2, -2, plan.page.plot_w + 4, plan.page.plot_h + 4);
    attn_svg_put(&s, "/></clipPath></defs>\n");
    attn_page_names(&s, &plan.page, ATTN_PAD + 6, plan.page.height - ATTN_PAD - 8,
                    (const double[2]){0, 0});
    for (size_t i = 0; i < data->panels; i++)
        put_panel(&s, &plan, i);
    attn_svg_close(&s);
    return svg->failed ? attn_no_memory(err, "the figure") : ATTN_OK;
}
