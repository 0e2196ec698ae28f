/* Draws heatmaps as SVG, from the plan that figure_plan.c and figure_layout.c make. The cells of a
 * panel are either vectors (with values or marks) or one image. Hidden cells show hatching in both
 * cases: a path among the vectors, or a rectangle below transparent pixels of the image. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "draw/figure_parts.h"

/* --- the cells of a panel --- */

/* palette of an image: 0 … 253 colours of the scale, 254 NaN, 255 hidden */
#define HIDDEN_INDEX 255
#define NAN_INDEX    254
#define COLOURS      254
/* cells whose width and height are at least this many pixels have marks */
#define MARKED_FROM 14.0

static attn_rgb colour_of(const attn_heat_plan *plan, const attn_panel *panel, size_t i) {
    if (panel->state[i] == ATTN_CELL_NAN)
        return attn_draw_palette_of(plan->page.options->theme)->nan;
    double t = plan->page.options->marks ? 0.45 : attn_draw_place(&panel->scale, panel->values[i]);
    return attn_draw_colour(&panel->scale, t);
}

static void put_rectangles(attn_svg *s, const attn_heat_plan *plan, const attn_panel *panel,
                           double x, double y) {
    attn_svg_put(s, "<g class=\"cells\" shape-rendering=\"crispEdges\">\n");
    for (size_t r = 0; r < plan->R; r++)
        for (size_t c = 0; c < plan->C; c++) {
            const size_t i = r * plan->C + c;
            if (panel->state[i] == ATTN_CELL_HIDDEN)
                continue;
            const double left = attn_heat_x(plan, c), top = attn_heat_y(plan, r);
            attn_svg_rect(s, x + left, y + top, attn_heat_x(plan, c + 1) - left - plan->gap,
                          attn_heat_y(plan, r + 1) - top - plan->gap);
            attn_svg_fill(s, colour_of(plan, panel, i));
            attn_svg_end(s);
        }
    attn_svg_put(s, "</g>\n");
}

/* Writes the hatching: one rectangle for each sequence of hidden cells in a row. */
static void put_hatching(attn_svg *s, const attn_heat_plan *plan, const attn_panel *panel, double x,
                         double y) {
    if (!memchr(panel->state, ATTN_CELL_HIDDEN, plan->R * plan->C))
        return;
    attn_svg_put(s, "<path class=\"hidden\" fill=\"url(#hatch)\" d=\"");
    for (size_t r = 0; r < plan->R; r++) {
        const uint8_t *row = panel->state + r * plan->C;
        const double up = attn_heat_y(plan, r), down = attn_heat_y(plan, r + 1);
        for (size_t c = 0; c < plan->C;) {
            size_t to = c;
            while (to < plan->C && row[to] == ATTN_CELL_HIDDEN)
                to++;
            if (to > c) {
                const double left = attn_heat_x(plan, c);
                const double width = attn_heat_x(plan, to) - left - plan->gap;
                attn_svg_point(s, "M", x + left, y + up);
                attn_svg_put(s, "h");
                attn_svg_number(s, width);
                attn_svg_put(s, "v");
                attn_svg_number(s, down - up - plan->gap);
                attn_svg_put(s, "h");
                attn_svg_number(s, -width);
                attn_svg_put(s, "z");
            }
            c = to + (to == c);
        }
    }
    attn_svg_put(s, "\"/>\n");
}

/* Writes a text into the middle of cells. In the figure of a mask, each cell has ✓ or ✗. In other
 * figures, each cell that is neither hidden nor NaN has its value. */
static void put_texts(attn_svg *s, const attn_heat_plan *plan, const attn_panel *panel, double x,
                      double y) {
    const bool marks = plan->page.options->marks;
    attn_svg_face face = {.size = plan->value_size, .anchor = ATTN_ANCHOR_MIDDLE};
    char text[32];
    if (marks)
        face.size = floor(fmin(18, 0.5 * fmin(plan->cell_w, plan->cell_h)));
    attn_svg_put(s, marks ? "<g class=\"marks\">\n" : "<g class=\"values\">\n");
    for (size_t i = 0; i < plan->R * plan->C; i++) {
        const size_t r = i / plan->C, c = i % plan->C;
        const bool hidden = panel->state[i] == ATTN_CELL_HIDDEN;
        if (!marks && panel->state[i] != ATTN_CELL_SEEN)
            continue;
        face.fill = hidden ? attn_draw_palette_of(plan->page.options->theme)->text
                           : attn_draw_ink(colour_of(plan, panel, i));
        if (!marks)
            attn_heat_value_text(plan, panel->values[i], text);
        attn_svg_text(s, x + (attn_heat_x(plan, c) + attn_heat_x(plan, c + 1) - plan->gap) / 2,
                      y + (attn_heat_y(plan, r) + attn_heat_y(plan, r + 1) - plan->gap) / 2, &face,
                      !marks   ? text
                      : hidden ? "✗"
                               : "✓");
    }
    attn_svg_put(s, "</g>\n");
}

static void fill_palette(const attn_heat_plan *plan, const attn_panel *panel, attn_rgb palette[256],
                         uint8_t alpha[256]) {
    memset(palette, 0, 256 * sizeof *palette);
    memset(alpha, 255, 256);
    alpha[HIDDEN_INDEX] = 0;
    for (size_t i = 0; i < COLOURS; i++)
        palette[i] = attn_draw_colour(&panel->scale, (double)i / (COLOURS - 1));
    palette[NAN_INDEX] = attn_draw_palette_of(plan->page.options->theme)->nan;
}

static uint8_t index_of(const attn_heat_plan *plan, const attn_panel *panel, size_t i) {
    if (panel->state[i] != ATTN_CELL_SEEN)
        return panel->state[i] == ATTN_CELL_HIDDEN ? HIDDEN_INDEX : NAN_INDEX;
    double t = plan->page.options->marks ? 0.45 : attn_draw_place(&panel->scale, panel->values[i]);
    return (uint8_t)lrint(t * (COLOURS - 1));
}

/* Makes the image of a panel: palette indices [size[0], size[1]]. A cell has as many pixels in the
 * image as on the page, but at least one, because some programs (librsvg 2.54) blur an image that
 * they enlarge. Returns NULL if memory runs out. */
static uint8_t *paint_cells(const attn_heat_plan *plan, const attn_panel *panel, size_t size[2]) {
    const attn_page *page = &plan->page;
    const bool tall = plan->cell_h >= 1, wide = plan->cell_w >= 1;
    size[0] = tall ? (size_t)page->plot_h : plan->R;
    size[1] = wide ? (size_t)page->plot_w : plan->C;
    uint8_t *pixels = attn_arena_zeroed(page->arena, size[0], size[1]);
    for (size_t r = 0; pixels && r < plan->R; r++) {
        const size_t top = tall ? (size_t)attn_heat_y(plan, r) : r;
        const size_t end = tall ? (size_t)attn_heat_y(plan, r + 1) : r + 1;
        uint8_t *row = pixels + top * size[1];
        for (size_t c = 0; c < plan->C; c++) {
            const size_t left = wide ? (size_t)attn_heat_x(plan, c) : c;
            const size_t right = wide ? (size_t)attn_heat_x(plan, c + 1) : c + 1;
            memset(row + left, index_of(plan, panel, r * plan->C + c), right - left);
        }
        for (size_t k = top + 1; k < end; k++)
            memcpy(pixels + k * size[1], row, size[1]);
    }
    return pixels;
}

static void put_image(attn_svg *s, const attn_heat_plan *plan, const attn_panel *panel, double x,
                      double y) {
    const attn_page *page = &plan->page;
    attn_rgb palette[256];
    uint8_t alpha[256];
    size_t size[2];
    uint8_t *pixels = paint_cells(plan, panel, size);
    if (!pixels) {
        s->t->failed = true;
        return;
    }
    fill_palette(plan, panel, palette, alpha);
    if (memchr(panel->state, ATTN_CELL_HIDDEN, plan->R * plan->C)) {
        attn_svg_rect(s, x, y, page->plot_w, page->plot_h);
        attn_svg_put(s, " class=\"hidden\" fill=\"url(#hatch)\"");
        attn_svg_end(s);
    }
    attn_svg_put(
        s, "<image class=\"cells\" preserveAspectRatio=\"none\" image-rendering=\"pixelated\"");
    attn_svg_box(s, x, y, page->plot_w, page->plot_h);
    attn_svg_put(s, " href=\"data:image/png;base64,");
    attn_png_index(s->t, pixels, size[0], size[1], palette, alpha);
    attn_svg_put(s, "\"/>\n");
}

static void put_cells(attn_svg *s, const attn_heat_plan *plan, size_t i) {
    const attn_panel *panel = &plan->panels[i];
    double x, y;
    attn_page_corner(&plan->page, i, &x, &y);
    if (plan->image) {
        put_image(s, plan, panel, x, y);
        return;
    }
    put_rectangles(s, plan, panel, x, y);
    put_hatching(s, plan, panel, x, y);
    if (plan->page.options->marks ? fmin(plan->cell_w, plan->cell_h) >= MARKED_FROM
                                  : plan->value_size > 0)
        put_texts(s, plan, panel, x, y);
}

/* --- the page --- */

attn_figure_options attn_figure_defaults(void) {
    return (attn_figure_options){.vmin = NAN, .vmax = NAN, .colorbar = true, .tick_rotation = -1};
}

attn_status attn_figure_check(const attn_figure_options *o, attn_error *err) {
    const struct {
        const char *where;
        unsigned value, last;
    } choices[] = {{"colormap", o->colormap, ATTN_COLORMAP_CIVIDIS},
                   {"transform", o->transform, ATTN_LOG},
                   {"aspect", o->aspect, ATTN_ASPECT_STRETCHED},
                   {"theme", o->theme, ATTN_THEME_DARK}};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (choices[i].value > choices[i].last)
            return attn_fail(err, ATTN_EARG, choices[i].where, "there is no %s of the number %d",
                             choices[i].where, (int)choices[i].value);
    if (o->tick_rotation > 90)
        return attn_fail(err, ATTN_EARG, "tick_rotation", "expected 0 to 90 degrees, found %d",
                         o->tick_rotation);
    const bool wide = o->width >= 0 && o->width <= ATTN_FIGURE_MOST;
    if (wide && o->height >= 0 && o->height <= ATTN_FIGURE_MOST)
        return ATTN_OK;
    return attn_fail(err, ATTN_EARG, wide ? "height" : "width", "expected 0 to %.0f, found %g",
                     ATTN_FIGURE_MOST, wide ? o->height : o->width);
}

static attn_status check_shape(const attn_figure_heat *data, const attn_figure_options *o,
                               attn_error *err) {
    if (data->count == 0 || data->maps[0].shape[0] == 0 || data->maps[0].shape[1] == 0)
        return attn_fail(err, ATTN_ESHAPE, "",
                         "a figure needs at least one cell, found %zu panel%s of %zu x %zu",
                         data->count, attn_plural(data->count),
                         data->count ? data->maps[0].shape[0] : 0,
                         data->count ? data->maps[0].shape[1] : 0);
    return attn_figure_check(o, err);
}

#define STOPS 33 /* the gradient has 32 intervals: a multiple of the 8 intervals of Blues */

/* Writes the hatch pattern and the gradient of the colour bar. Other elements refer to them by
 * id. */
static void put_definitions(attn_svg *s, const attn_heat_plan *plan) {
    const attn_draw_palette *p = attn_draw_palette_of(plan->page.options->theme);
    attn_svg_put(s, "<defs>\n");
    if (plan->hidden || plan->page.options->marks) {
        attn_svg_put(
            s, "<pattern id=\"hatch\" patternUnits=\"userSpaceOnUse\" width=\"6\" height=\"6\">");
        attn_svg_put(s, "<rect width=\"6\" height=\"6\"");
        attn_svg_fill(s, p->hatch_ground);
        attn_svg_put(s, "/><path d=\"M-1.5 1.5l3-3M0 6l6-6M4.5 7.5l3-3\"");
        attn_svg_stroke(s, p->hatch, 1);
        attn_svg_put(s, "/></pattern>\n");
    }
    if (attn_heat_bar_room(plan) > 0) {
        attn_svg_put(s, "<linearGradient id=\"scale\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">");
        for (int i = 0; i < STOPS; i++) {
            attn_rgb c = attn_draw_colour(&plan->scale, (double)i / (STOPS - 1));
            attn_text_add(s->t, "<stop offset=\"%d.%03d%%\" stop-color=\"#%02x%02x%02x\"/>",
                          100 * i / (STOPS - 1), 100000 * i / (STOPS - 1) % 1000, c.r, c.g, c.b);
        }
        attn_svg_put(s, "</linearGradient>\n");
    }
    attn_svg_put(s, "</defs>\n");
}

/* Writes the labels of one side of a panel: of its columns, below the point (x, y), if `columns`,
 * or of its rows, left of this point. */
static void put_labels(attn_svg *s, const attn_heat_plan *plan, const attn_axis_plan *axis,
                       bool columns, double x, double y) {
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    const bool upright = columns && axis->turn == 0;
    const attn_svg_face face = {.size = ATTN_TICK_SIZE,
                                .fill = p->text,
                                .anchor = upright ? ATTN_ANCHOR_MIDDLE : ATTN_ANCHOR_END,
                                .turn = axis->turn};
    const double down = upright ? 7 + ATTN_TICK_SIZE / 2 : 7;
    attn_svg_put(s, columns ? "<g class=\"columns\">\n" : "<g class=\"rows\">\n");
    for (size_t i = 0; i < axis->count; i++) {
        const double at = (columns ? x : y) - plan->gap / 2 +
                          axis->at[i] * (columns ? plan->cell_w : plan->cell_h);
        if (axis->thinned && columns)
            attn_svg_line(s, at, y + 0.5, at, y + 4, p->frame, 1);
        else if (axis->thinned)
            attn_svg_line(s, x - 4, at, x - 0.5, at, p->frame, 1);
        attn_svg_text(s, columns ? at : x - 7, columns ? y + down : at, &face, axis->labels[i]);
    }
    attn_svg_put(s, "</g>\n");
}

static void put_panel(attn_svg *s, const attn_heat_plan *plan, size_t i) {
    const attn_page *page = &plan->page;
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    double x, y;
    attn_page_corner(page, i, &x, &y);
    attn_svg_put(s, "<g class=\"panel\">\n");
    if (plan->panels[i].title)
        attn_page_panel_title(s, page, x, y - 12, plan->panels[i].title);
    put_cells(s, plan, i);
    attn_svg_rect(s, x - 0.5, y - 0.5, page->plot_w - plan->gap + 1, page->plot_h - plan->gap + 1);
    attn_svg_put(s, " fill=\"none\"");
    attn_svg_stroke(s, p->frame, 1);
    attn_svg_end(s);
    const attn_panel *labelled = &plan->panels[plan->own ? i : 0];
    if (plan->own || i % page->across == 0)
        put_labels(s, plan, &labelled->row_plan, false, x, y);
    if (plan->own || i + page->across >= plan->count)
        put_labels(s, plan, &labelled->col_plan, true, x, y + page->plot_h - plan->gap);
    attn_svg_put(s, "</g>\n");
}

static void describe_figure(const attn_heat_plan *plan, attn_text *t) {
    size_t hidden = 0;
    for (size_t p = 0; p < plan->count; p++)
        for (size_t i = 0; i < plan->R * plan->C; i++)
            hidden += plan->panels[p].state[i] == ATTN_CELL_HIDDEN;
    attn_text_add(t, "%s of %zu row%s and %zu column%s%s",
                  plan->page.options->marks ? "Mask" : "Heatmap", plan->R, attn_plural(plan->R),
                  plan->C, attn_plural(plan->C), plan->pooled ? " of pooled cells" : "");
    if (plan->count > 1)
        attn_text_add(t, ", %zu panels", plan->count);
    if (!plan->page.options->marks)
        attn_text_add(t, "; values from %.3g to %.3g", plan->low, plan->high);
    if (hidden)
        attn_text_add(t, "; %zu of %zu cells hidden", hidden, plan->count * plan->R * plan->C);
    attn_text_add(t, ".");
}

static void write_figure(attn_svg *s, const attn_heat_plan *plan) {
    const attn_page *page = &plan->page;
    attn_text said = {.arena = s->t->arena};
    describe_figure(plan, &said);
    attn_page_open(s, page, "Heatmap", &said);
    put_definitions(s, plan);
    double x, y;
    attn_page_corner(page, plan->count - 1, &x, &y);
    double bottom = y + page->plot_h + plan->col_room;
    attn_page_names(s, page, plan->content_x + ATTN_PAD + 6, bottom + 12,
                    (const double[2]){200, 100});
    for (size_t i = 0; i < plan->count && !s->t->failed; i++)
        put_panel(s, plan, i);
    attn_heat_bar(s, plan);
    attn_heat_legend(s, plan, bottom + (page->options->x_label ? 24 : 0), page->width);
    attn_svg_close(s);
}

attn_status attn_figure_heatmaps(attn_text *svg, const attn_figure_heat *data,
                                 const attn_figure_options *options, attn_error *err) {
    attn_heat_plan plan = {.page = {.options = options, .arena = svg->arena}};
    attn_svg s = {svg, options->theme};
    ATTN_TRY(check_shape(data, options, err));
    ATTN_TRY(attn_heat_plan_data(&plan, data, err));
    ATTN_TRY(attn_heat_plan_layout(&plan, err));
    write_figure(&s, &plan);
    return svg->failed ? attn_no_memory(err, "the figure") : ATTN_OK;
}
