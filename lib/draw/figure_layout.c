/* The second step of the plan of a heatmap figure: chooses the size of a cell, whether values fit
 * into cells, and the positions of panels, labels, colour bar and legends.
 *
 * Without a given size the width and height of a cell are whole numbers of pixels, if a side has
 * up to 2,048 cells. In a figure of a given size the panels share the room that labels, titles and
 * legends leave. The room that they need depends on the size of the cells (labels that do not fit
 * are turned or left out), so the figure is laid out repeatedly until it fits. */
#include <math.h>

#include "base/try.h"
#include "draw/figure_parts.h"

#define SINGLE_W  640.0 /* largest width of a single panel, pixels */
#define SINGLE_H  560.0 /* largest height of a single panel, pixels */
#define CELL_MOST 56.0
/* Least height and width of a panel, pixels. If a panel has few cells, they grow until the panel
 * has this size, but only up to the largest size of a cell. */
#define PLOT_LEAST 100.0
#define PLOT_MOST  2048.0
/* between cells whose width and height are at least this many pixels is a gap of one pixel */
#define GAP_FROM   14.0
#define PANEL_GAP  22.0
#define PANEL_HEAD 22.0
#define AXIS_NAME  24.0 /* height of the name of an axis, pixels */
/* If the client gave a format of the values, up to 64 x 64 cells grow until the values fit. */
#define GROWN_MOST  64
#define VALUE_LEAST 8.5
#define VALUE_MOST  14.0
#define NARROWEST   360.0
/* least width and height of a panel in a figure of a given size, pixels */
#define SIZED_LEAST 20.0
/* Largest number of layouts that are tried for a given size. Three are enough, unless turned labels
 * change the room that is left. */
#define FIT_ROUNDS 8

static void place_panels(attn_heat_plan *plan) {
    size_t across = (size_t)ceil(sqrt((double)plan->count * 1.2));
    if (plan->count <= 3)
        across = plan->count;
    else if (plan->count == 4)
        across = 2;
    if (plan->C > 2 * plan->R && plan->count <= 4) /* wide panels are placed below each other */
        across = 1;
    attn_page_grid(&plan->page, across, plan->count);
}

static double floor_pixels(double px) {
    return px >= 1 ? floor(px) : px;
}

static void size_cells(attn_heat_plan *plan) {
    const attn_page *page = &plan->page;
    static const double widths[] = {SINGLE_W, 400, 320, 250, 220};
    const attn_aspect aspect = page->options->aspect;
    const double R = (double)plan->R, C = (double)plan->C;
    const size_t last = sizeof widths / sizeof widths[0] - 1;
    const double room = widths[page->across - 1 < last ? page->across - 1 : last];
    const double room_h = plan->count == 1 ? SINGLE_H : room;
    const double most = aspect == ATTN_ASPECT_STRETCHED ? room : plan->count == 1 ? CELL_MOST : 44;
    double w = fmin(fmax(floor_pixels(room / C), 1), most),
           h = fmin(fmax(floor_pixels(room_h / R), 1), most);
    if (aspect != ATTN_ASPECT_STRETCHED)
        w = h = fmin(w, h);
    /* A panel with few rows gets higher cells, a panel with few columns wider cells. */
    if (aspect == ATTN_ASPECT_CHOSEN && h * R < PLOT_LEAST)
        h = fmin(fmax(h, floor(PLOT_LEAST / R)), most);
    if (aspect == ATTN_ASPECT_CHOSEN && w * C < PLOT_LEAST)
        w = fmin(fmax(w, floor(PLOT_LEAST / C)), most);
    plan->cell_w = fmin(w, PLOT_MOST / C);
    plan->cell_h = fmin(h, PLOT_MOST / R);
}

/* Returns the width of the widest value in ems; 0: no values are written. */
static double widest_value(const attn_heat_plan *plan) {
    char text[32];
    double widest = 0;
    if (!plan->format[0])
        return 0;
    for (size_t p = 0; p < plan->count; p++)
        for (size_t i = 0; i < plan->R * plan->C; i++)
            if (plan->panels[p].state[i] == ATTN_CELL_SEEN) {
                attn_heat_value_text(plan, plan->panels[p].values[i], text);
                widest = fmax(widest, attn_svg_width(text, 1, false));
            }
    return widest;
}

static bool has_given_size(const attn_heat_plan *plan) {
    return plan->page.options->width > 0 || plan->page.options->height > 0;
}

/* Chooses the font size of the values, after enlarging the cells if the client gave a format and no
 * size. */
static void size_values(attn_heat_plan *plan) {
    const bool grows = plan->page.options->annotate && plan->R <= GROWN_MOST &&
                       plan->C <= GROWN_MOST && !has_given_size(plan);
    if (!plan->format[0] || (!grows && (plan->cell_w < 14 || plan->cell_h < 12)))
        return;
    const double widest = widest_value(plan);
    if (grows) {
        const double need_w = ceil(9.5 * widest + 8), need_h = 20;
        const bool square = plan->cell_w == plan->cell_h;
        plan->cell_w = fmax(plan->cell_w, need_w);
        plan->cell_h = fmax(plan->cell_h, !square ? need_h
                                          : plan->page.options->aspect == ATTN_ASPECT_EQUAL
                                              ? plan->cell_w
                                              : fmin(plan->cell_w, 36));
    }
    double size = fmin(VALUE_MOST, 0.38 * plan->cell_h);
    size = fmin(size, (plan->cell_w - 6) / fmax(widest, 0.1));
    plan->value_size = size >= VALUE_LEAST ? floor(size * 2) / 2 : 0;
    plan->value_width = widest;
}

static bool has_panel_titles(const attn_heat_plan *plan) {
    for (size_t i = 0; i < plan->count; i++)
        if (plan->panels[i].title)
            return true;
    return false;
}

double attn_heat_x(const attn_heat_plan *plan, size_t c) {
    const double x = plan->cell_w * (double)c;
    return plan->cell_w >= 1 ? nearbyint(x) : x;
}

double attn_heat_y(const attn_heat_plan *plan, size_t r) {
    const double y = plan->cell_h * (double)r;
    return plan->cell_h >= 1 ? nearbyint(y) : y;
}

/* Makes the labels of all panels that have labels, and finds the room that the labels need. */
static attn_status place_labels(attn_heat_plan *plan, attn_error *err) {
    const attn_page *page = &plan->page;
    plan->row_room = plan->col_room = plan->overhang = 0;
    for (size_t i = 0; i < (plan->own ? plan->count : 1); i++) {
        attn_panel *p = &plan->panels[i];
        ATTN_TRY(attn_axis_rows(&p->rows, plan->cell_h, page->arena, &p->row_plan, err));
        ATTN_TRY(attn_axis_cols(&p->cols, plan->cell_w, page->options->tick_rotation, page->arena,
                                &p->col_plan, err));
        plan->row_room = fmax(plan->row_room, p->row_plan.room);
        plan->col_room = fmax(plan->col_room, p->col_plan.room);
        plan->overhang = fmax(plan->overhang, p->col_plan.overhang);
    }
    return ATTN_OK;
}

static attn_status place_content(attn_heat_plan *plan, attn_error *err) {
    attn_page *page = &plan->page;
    const attn_figure_options *o = page->options;
    const double head = has_panel_titles(plan) ? PANEL_HEAD : 0;
    ATTN_TRY(place_labels(plan, err));
    const double labels_w = ceil(fmax(plan->row_room, plan->overhang));
    plan->gap = fmin(plan->cell_w, plan->cell_h) >= GAP_FROM ? 1 : 0;
    page->plot_w = attn_heat_x(plan, plan->C);
    page->plot_h = attn_heat_y(plan, plan->R);
    plan->gap_x = PANEL_GAP + (plan->own ? labels_w : 0);
    plan->gap_y = PANEL_GAP + head + (plan->own ? ceil(plan->col_room) : 0);
    page->pitch_x = page->plot_w + plan->gap_x;
    page->pitch_y = page->plot_h + plan->gap_y;
    plan->content_x = 0;
    page->left = ATTN_PAD + (o->y_label ? AXIS_NAME : 0) + labels_w;
    plan->content_w = page->left + page->pitch_x * (double)page->across - plan->gap_x +
                      attn_heat_bar_room(plan) + ATTN_PAD;
    return ATTN_OK;
}

/* Breaks the title into lines. Sets the width of the page to that of the content, or to the width
 * of the longest line with its margins if that is more. */
static attn_status place_title(attn_heat_plan *plan, attn_error *err) {
    attn_page *page = &plan->page;
    const double given = page->options->width, needed = fmax(plan->content_w, NARROWEST);
    ATTN_TRY(attn_page_title(page, (given > 0 ? given : needed) - 2 * ATTN_PAD, err));
    page->width = plan->content_w;
    for (int i = 0; i < page->line_count; i++)
        page->width =
            fmax(page->width, 2 * ATTN_PAD + attn_svg_width(page->lines[i], ATTN_HEAD_SIZE, true));
    return ATTN_OK;
}

/* Lays the figure out around cells of the present size. The width and height of the page are those
 * that the content needs. */
static attn_status lay_out(attn_heat_plan *plan, attn_error *err) {
    attn_page *page = &plan->page;
    ATTN_TRY(place_content(plan, err));
    ATTN_TRY(place_title(plan, err));
    const double head = has_panel_titles(plan) ? PANEL_HEAD : 0, given = page->options->width;
    page->width = given > 0 ? plan->content_w : ceil(fmax(page->width, NARROWEST));
    page->top = attn_page_head(page) + head;
    const double bottom = page->top + page->pitch_y * (double)page->down - plan->gap_y +
                          plan->col_room + (page->options->x_label ? AXIS_NAME : 0);
    const double legend = attn_heat_legend(NULL, plan, bottom, given > 0 ? given : page->width);
    page->height = ceil(bottom + legend + ATTN_PAD);
    return ATTN_OK;
}

/* --- a figure of a given size --- */

/* Sets the size of the cells so that a panel takes at most `room_w` x `room_h` pixels and the sides
 * of the panel are whole numbers of pixels. If room_w or room_h is 0, the length of this side is
 * not given: it follows from the other side, or stays as it is if cells are stretched. */
static void fill_room(attn_heat_plan *plan, double room_w, double room_h) {
    const double R = (double)plan->R, C = (double)plan->C;
    const bool stretched = plan->page.options->aspect == ATTN_ASPECT_STRETCHED;
    double w = room_w > 0 ? room_w / C : stretched ? plan->cell_w : room_h / R;
    double h = room_h > 0 ? room_h / R : stretched ? plan->cell_h : room_w / C;
    if (!stretched)
        w = h = fmin(fmin(w, h), ATTN_FIGURE_MOST / fmax(R, C));
    plan->cell_w = fmax(nearbyint(w * C), 1) / C;
    plan->cell_h = fmax(nearbyint(h * R), 1) / R;
}

/* Lays the figure out in its given size. `rest` is the room that labels, gaps, titles and legends
 * take beside the panels. From the fourth round on, `rest` never shrinks, so that the sizes
 * settle. */
static attn_status fit_into_size(attn_heat_plan *plan, attn_error *err) {
    const attn_page *page = &plan->page;
    const double given[2] = {page->options->width, page->options->height};
    double rest[2] = {0, 0}, room[2] = {0, 0};
    for (int round = 0; round < FIT_ROUNDS; round++) {
        const double across = (double)page->across, down = (double)page->down;
        ATTN_TRY(lay_out(plan, err));
        const bool fits = (!(given[0] > 0) || page->width <= given[0]) &&
                          (!(given[1] > 0) || page->height <= given[1]);
        if ((round > 1 && fits) || round + 1 == FIT_ROUNDS)
            break;
        const bool settled = round > 2;
        rest[0] = fmax(settled ? rest[0] : 0, page->width - across * page->plot_w);
        rest[1] = fmax(settled ? rest[1] : 0, page->height - down * page->plot_h);
        ATTN_TRY(
            attn_page_share(given[0], rest[0], page->across, SIZED_LEAST, "width", &room[0], err));
        ATTN_TRY(
            attn_page_share(given[1], rest[1], page->down, SIZED_LEAST, "height", &room[1], err));
        fill_room(plan, room[0], room[1]);
    }
    return ATTN_OK;
}

/* Moves the panels to the middle of the given size, if they do not fill it because cells are
 * square. */
static void move_to_middle(attn_heat_plan *plan) {
    attn_page *page = &plan->page;
    const double slack_w = fmax(0, floor((page->options->width - page->width) / 2));
    const double slack_h = fmax(0, floor((page->options->height - page->height) / 2));
    plan->content_x += slack_w;
    page->left += slack_w;
    plan->content_w += slack_w;
    page->top += slack_h;
    page->width = fmax(page->width, page->options->width);
    page->height = fmax(page->height, page->options->height);
}

attn_status attn_heat_plan_layout(attn_heat_plan *plan, attn_error *err) {
    place_panels(plan);
    plan->image =
        (double)plan->count * (double)plan->R * (double)plan->C > (double)ATTN_FIGURE_VECTOR_CELLS;
    size_cells(plan);
    if (!has_given_size(plan)) {
        size_values(plan);
        return lay_out(plan, err);
    }
    ATTN_TRY(fit_into_size(plan, err));
    size_values(plan);
    move_to_middle(plan);
    return ATTN_OK;
}
