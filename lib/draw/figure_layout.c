/* The plan of a heatmap's picture: how large cells are, whether values fit into them, where panels,
 * labels, colour bar and legends stand. Cells are whole pixels up to 2,048 of them side by side, so
 * that no seams show. */
#include <math.h>
#include <string.h>

#include "draw/figure_parts.h"

#define SINGLE_W    640.0 /* px a single panel may take */
#define SINGLE_H    560.0
#define CELL_MOST   56.0
#define PLOT_LEAST  100.0 /* a panel of few rows is at least this high, of few columns this wide */
#define PLOT_MOST   2048.0
#define GAP_FROM    14.0 /* cells of this size have a gap between them */
#define PANEL_GAP   22.0
#define PANEL_HEAD  22.0
#define AXIS_NAME   24.0 /* a line for the name of an axis */
#define GROWN_MOST  64   /* cells a side that grow to hold a format that was asked for */
#define VALUE_LEAST 8.5
#define VALUE_MOST  14.0
#define NARROWEST   360.0

static void place_panels(attn_heat_plan *plan) {
    size_t across = plan->options->columns;
    if (across == 0) {
        across = (size_t)ceil(sqrt((double)plan->count * 1.2));
        if (plan->count <= 3)
            across = plan->count;
        else if (plan->count == 4)
            across = 2;
        if (plan->C > 2 * plan->R && plan->count <= 4) /* wide ones stand above each other */
            across = 1;
    }
    plan->across = across < plan->count ? across : plan->count;
    plan->down = (plan->count + plan->across - 1) / plan->across;
}

static double whole(double px) {
    return px >= 1 ? floor(px) : px;
}

static void size_cells(attn_heat_plan *plan) {
    static const double widths[] = {SINGLE_W, 400, 320, 250, 220};
    const double R = (double)plan->R, C = (double)plan->C;
    const size_t last = sizeof widths / sizeof widths[0] - 1;
    const double room = widths[plan->across - 1 < last ? plan->across - 1 : last];
    const double room_h = plan->count == 1 ? SINGLE_H : room;
    const double most = plan->count == 1 ? CELL_MOST : 44;
    double w = fmin(fmax(whole(room / C), 1), most), h = fmin(fmax(whole(room_h / R), 1), most);
    w = h = fmin(w, h);
    /* Few rows or columns beside many of the other: rectangles, not lines. */
    if (h * R < PLOT_LEAST)
        h = fmin(fmax(h, floor(PLOT_LEAST / R)), most);
    if (w * C < PLOT_LEAST)
        w = fmin(fmax(w, floor(PLOT_LEAST / C)), most);
    plan->cell_w = fmin(w, PLOT_MOST / C);
    plan->cell_h = fmin(h, PLOT_MOST / R);
}

static void size_values(attn_heat_plan *plan) {
    char text[32];
    const bool grows = plan->options->annotate && plan->R <= GROWN_MOST && plan->C <= GROWN_MOST;
    if (!plan->format[0] || (!grows && (plan->cell_w < 14 || plan->cell_h < 12)))
        return;
    double widest = 0;
    for (size_t p = 0; p < plan->count; p++)
        for (size_t i = 0; i < plan->R * plan->C; i++)
            if (plan->panels[p].state[i] == ATTN_CELL_SEEN) {
                attn_heat_value_text(plan, plan->panels[p].values[i], text);
                widest = fmax(widest, attn_svg_width(text, 1, false));
            }
    if (grows) {
        double need_w = ceil(9.5 * widest + 8), need_h = 20;
        bool square = plan->cell_w == plan->cell_h;
        plan->cell_w = fmax(plan->cell_w, need_w);
        plan->cell_h = fmax(plan->cell_h, square ? fmin(plan->cell_w, 36) : need_h);
    }
    double size = fmin(VALUE_MOST, 0.38 * plan->cell_h);
    size = fmin(size, (plan->cell_w - 6) / fmax(widest, 0.1));
    plan->value_size = size >= VALUE_LEAST ? floor(size * 2) / 2 : 0;
    plan->value_width = widest;
}

static bool titled(const attn_heat_plan *plan) {
    for (size_t i = 0; i < plan->count; i++)
        if (plan->panels[i].title)
            return true;
    return false;
}

static attn_status place(attn_heat_plan *plan, attn_error *err) {
    const attn_figure_options *o = plan->options;
    const double head = titled(plan) ? PANEL_HEAD : 0;
    attn_status status =
        attn_axis_plan_rows(&plan->rows, plan->cell_h, plan->arena, &plan->row_plan, err);
    if (!status)
        status = attn_axis_plan_cols(&plan->cols, plan->cell_w, o->tick_rotation, plan->arena,
                                     &plan->col_plan, err);
    if (status)
        return status;
    plan->gap = fmin(plan->cell_w, plan->cell_h) >= GAP_FROM ? 1 : 0;
    plan->plot_w = plan->cell_w * (double)plan->C;
    plan->plot_h = plan->cell_h * (double)plan->R;
    plan->pitch_x = plan->plot_w + PANEL_GAP;
    plan->pitch_y = plan->plot_h + PANEL_GAP + head;
    plan->left = ATTN_PAD + (o->y_label ? AXIS_NAME : 0) +
                 ceil(fmax(plan->row_plan.room, plan->col_plan.overhang));
    plan->content_w = plan->left + plan->pitch_x * (double)plan->across - PANEL_GAP +
                      attn_heat_bar_room(plan) + ATTN_PAD;
    return ATTN_OK;
}

static attn_status place_title(attn_heat_plan *plan, attn_error *err) {
    const attn_svg_face face = {.size = ATTN_HEAD_SIZE, .bold = true};
    const double room = fmax(plan->content_w, NARROWEST) - 2 * ATTN_PAD;
    const char *title = plan->options->title;
    plan->width = plan->content_w;
    plan->line_count =
        title ? attn_svg_lines(plan->arena, title, &face, room, plan->lines, ATTN_TITLE_LINES) : 0;
    if (plan->line_count < 0)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the title of a figure");
    for (int i = 0; i < plan->line_count; i++)
        plan->width =
            fmax(plan->width, 2 * ATTN_PAD + attn_svg_width(plan->lines[i], face.size, face.bold));
    return ATTN_OK;
}

attn_status attn_heat_plan_layout(attn_heat_plan *plan, attn_error *err) {
    place_panels(plan);
    plan->image =
        (double)plan->count * (double)plan->R * (double)plan->C > (double)ATTN_FIGURE_VECTOR_CELLS;
    size_cells(plan);
    size_values(plan);
    attn_status status = place(plan, err);
    if (!status)
        status = place_title(plan, err);
    if (status)
        return status;
    const double head = titled(plan) ? PANEL_HEAD : 0;
    plan->width = ceil(fmax(plan->width, NARROWEST));
    plan->top = ATTN_PAD + plan->line_count * ATTN_LINE + (plan->line_count ? 8 : 0) + head;
    double bottom = plan->top + plan->pitch_y * (double)plan->down - PANEL_GAP - head +
                    plan->col_plan.room + (plan->options->x_label ? AXIS_NAME : 0);
    plan->height = ceil(bottom + attn_heat_legend(NULL, plan, bottom, plan->width) + ATTN_PAD);
    return ATTN_OK;
}

void attn_heat_corner(const attn_heat_plan *plan, size_t i, double *x, double *y) {
    *x = plan->left + (double)(i % plan->across) * plan->pitch_x;
    *y = plan->top + (double)(i / plan->across) * plan->pitch_y;
}
