/* Draws heatmaps as SVG, from the plan that figure_plan.c makes. For each panel it writes the
 * cells, either as vectors (with values or marks) or as one image, and then labels, colour bar and
 * legends. Hatching of hidden cells stays visible in both cases: as a path among vectors, or below
 * transparent pixels of an image. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw/figure_parts.h"

/* --- the cells of a panel --- */

/* palette of an image: 0 … 253 colours of the scale, 254 NaN, 255 hidden */
#define HIDDEN_INDEX 255
#define NAN_INDEX    254
#define COLOURS      254

static attn_rgb colour_of(const attn_heat_plan *plan, const attn_panel *panel, size_t i) {
    if (panel->state[i] == ATTN_CELL_NAN)
        return attn_draw_palette_of(plan->options->theme)->nan;
    double t = plan->options->marks ? 0.45 : attn_draw_place(&panel->scale, panel->values[i]);
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
                attn_svg_put(s, "M");
                attn_svg_number(s, x + left);
                attn_svg_put(s, " ");
                attn_svg_number(s, y + up);
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

/* Moves (x, y) from the upper left corner of a panel to the middle of its cell i. */
static void middle(const attn_heat_plan *plan, size_t i, double *x, double *y) {
    const size_t r = i / plan->C, c = i % plan->C;
    *x += (attn_heat_x(plan, c) + attn_heat_x(plan, c + 1) - plan->gap) / 2;
    *y += (attn_heat_y(plan, r) + attn_heat_y(plan, r + 1) - plan->gap) / 2;
}

static void put_values(attn_svg *s, const attn_heat_plan *plan, const attn_panel *panel, double x,
                       double y) {
    attn_svg_face face = {.size = plan->value_size, .anchor = ATTN_ANCHOR_MIDDLE};
    char text[32];
    attn_svg_put(s, "<g class=\"values\">\n");
    for (size_t i = 0; i < plan->R * plan->C; i++) {
        if (panel->state[i] != ATTN_CELL_SEEN)
            continue;
        face.fill = attn_draw_ink(colour_of(plan, panel, i));
        attn_heat_value_text(plan, panel->values[i], text);
        double at[2] = {x, y};
        middle(plan, i, &at[0], &at[1]);
        attn_svg_text(s, at[0], at[1], &face, text);
    }
    attn_svg_put(s, "</g>\n");
}

/* Writes ✓ or ✗ into each cell, if cells are at least 14 pixels wide and high. */
static void put_marks(attn_svg *s, const attn_heat_plan *plan, const attn_panel *panel, double x,
                      double y) {
    const double least = fmin(plan->cell_w, plan->cell_h);
    attn_svg_face face = {.size = floor(fmin(18, 0.5 * least)), .anchor = ATTN_ANCHOR_MIDDLE};
    if (least < 14)
        return;
    attn_svg_put(s, "<g class=\"marks\">\n");
    for (size_t i = 0; i < plan->R * plan->C; i++) {
        const bool hidden = panel->state[i] == ATTN_CELL_HIDDEN;
        face.fill = hidden ? attn_draw_palette_of(plan->options->theme)->text
                           : attn_draw_ink(colour_of(plan, panel, i));
        double at[2] = {x, y};
        middle(plan, i, &at[0], &at[1]);
        attn_svg_text(s, at[0], at[1], &face, hidden ? "✗" : "✓");
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
    palette[NAN_INDEX] = attn_draw_palette_of(plan->options->theme)->nan;
}

static uint8_t index_of(const attn_heat_plan *plan, const attn_panel *panel, size_t i) {
    if (panel->state[i] != ATTN_CELL_SEEN)
        return panel->state[i] == ATTN_CELL_HIDDEN ? HIDDEN_INDEX : NAN_INDEX;
    double t = plan->options->marks ? 0.45 : attn_draw_place(&panel->scale, panel->values[i]);
    return (uint8_t)lrint(t * (COLOURS - 1));
}

/* Makes the image of a panel: palette indices [size[0], size[1]], each cell as many pixels as on
 * the page, at least one. Some programs (librsvg 2.54) blur pixels when they enlarge an image, so
 * an image with one pixel a cell would not do. Returns NULL if memory runs out. */
static uint8_t *paint(const attn_heat_plan *plan, const attn_panel *panel, size_t size[2]) {
    const bool tall = plan->cell_h >= 1, wide = plan->cell_w >= 1;
    size[0] = tall ? (size_t)plan->plot_h : plan->R;
    size[1] = wide ? (size_t)plan->plot_w : plan->C;
    uint8_t *pixels = attn_arena_zeroed(plan->arena, size[0], size[1]);
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
    attn_rgb palette[256];
    uint8_t alpha[256];
    size_t size[2];
    uint8_t *pixels = paint(plan, panel, size);
    if (!pixels) {
        s->t->failed = true;
        return;
    }
    fill_palette(plan, panel, palette, alpha);
    if (memchr(panel->state, ATTN_CELL_HIDDEN, plan->R * plan->C)) {
        attn_svg_rect(s, x, y, plan->plot_w, plan->plot_h);
        attn_svg_put(s, " class=\"hidden\" fill=\"url(#hatch)\"");
        attn_svg_end(s);
    }
    attn_svg_put(
        s, "<image class=\"cells\" preserveAspectRatio=\"none\" image-rendering=\"pixelated\"");
    attn_svg_at(s, "x", x);
    attn_svg_at(s, "y", y);
    attn_svg_at(s, "width", plan->plot_w);
    attn_svg_at(s, "height", plan->plot_h);
    attn_svg_put(s, " href=\"data:image/png;base64,");
    attn_png_index(s->t, pixels, size[0], size[1], palette, alpha);
    attn_svg_put(s, "\"/>\n");
}

static void put_cells(attn_svg *s, const attn_heat_plan *plan, size_t i) {
    const attn_panel *panel = &plan->panels[i];
    double x, y;
    attn_heat_corner(plan, i, &x, &y);
    if (plan->image) {
        put_image(s, plan, panel, x, y);
        return;
    }
    put_rectangles(s, plan, panel, x, y);
    put_hatching(s, plan, panel, x, y);
    if (plan->options->marks)
        put_marks(s, plan, panel, x, y);
    else if (plan->value_size > 0)
        put_values(s, plan, panel, x, y);
}

/* --- colour bar and legends, which explain colours, hatching, marks and the size of a cell --- */

#define BAR_GAP   20.0
#define BAR_WIDTH 13.0
#define BAR_MOST  480.0
#define BAR_PITCH 26.0 /* least distance of two ticks of the colour bar, pixels */
#define BAR_NAME  20.0
#define STOPS     33 /* the gradient has 32 intervals: a multiple of the 8 intervals of Blues */
#define ROW       22.0
#define NOTE_LINE 15.0
#define SWATCH    13.0

static bool has_bar(const attn_heat_plan *plan) {
    return plan->options->colorbar && !plan->options->marks && !plan->options->own_scales;
}

/* Writes the hatch pattern and the gradient of the colour bar, which other elements refer to by
 * id. */
static void put_definitions(attn_svg *s, const attn_heat_plan *plan) {
    const attn_draw_palette *p = attn_draw_palette_of(plan->options->theme);
    attn_svg_put(s, "<defs>\n");
    if (plan->hidden || plan->options->marks) {
        attn_svg_put(
            s, "<pattern id=\"hatch\" patternUnits=\"userSpaceOnUse\" width=\"6\" height=\"6\">");
        attn_svg_put(s, "<rect width=\"6\" height=\"6\"");
        attn_svg_fill(s, p->hatch_ground);
        attn_svg_put(s, "/><path d=\"M-1.5 1.5l3-3M0 6l6-6M4.5 7.5l3-3\"");
        attn_svg_stroke(s, p->hatch, 1);
        attn_svg_put(s, "/></pattern>\n");
    }
    if (has_bar(plan)) {
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

/* A tick of the colour bar: its position t in [0, 1] from bottom to top, and its text. */
typedef struct bar_tick {
    double t;
    char text[32];
} bar_tick;

static double to_two_digits(double v) {
    if (v == 0)
        return 0;
    double unit = pow(10, floor(log10(fabs(v))) - 1);
    return nearbyint(v / unit) * unit;
}

static double bar_height(const attn_heat_plan *plan) {
    return fmin(BAR_MOST, plan->pitch_y * (double)(plan->down - 1) + plan->plot_h) - plan->gap;
}

/* Finds the values of the ticks between the ends of the colour bar and returns their number. On a
 * linear scale these are evenly spaced round values. On a sqrt or log scale the positions are
 * evenly spaced, and the values there are rounded to two digits. */
static size_t inner_values(const attn_heat_plan *plan, double values[ATTN_TICKS]) {
    const attn_draw_scale *s = &plan->scale;
    const size_t most = (size_t)fmin(fmax(bar_height(plan) / BAR_PITCH, 2), 7);
    if (s->transform == ATTN_LINEAR)
        return attn_figure_ticks(s->low, s->high, most, values);
    const size_t n = most > 4 ? 3 : 1;
    for (size_t i = 0; i < n; i++)
        values[i] = to_two_digits(attn_draw_value(s, (double)(i + 1) / (double)(n + 1)));
    return n;
}

/* Makes the ticks of the colour bar and returns their number. The two ends always have ticks. An
 * inner value has one if it is at least a line of text away from the tick below and from the upper
 * end. */
static size_t bar_ticks(const attn_heat_plan *plan, bar_tick ticks[ATTN_TICKS + 2]) {
    const attn_draw_scale *s = &plan->scale;
    const double apart = (ATTN_TICK_SIZE + 2) / bar_height(plan);
    double values[ATTN_TICKS];
    const size_t count = inner_values(plan, values);
    const double step = count > 1 ? values[1] - values[0] : (s->high - s->low) / 4;
    size_t n = 1;
    snprintf(ticks[0].text, sizeof ticks[0].text, "%s%.3g", plan->below ? "≤ " : "", s->low + 0.0);
    ticks[0].t = 0;
    for (size_t i = 0; i < count; i++) {
        const double t = attn_draw_place(s, values[i]);
        if (t - ticks[n - 1].t < apart || 1 - t < apart)
            continue;
        if (s->transform == ATTN_LINEAR)
            attn_figure_tick_text(values[i], step, ticks[n].text);
        else
            snprintf(ticks[n].text, sizeof ticks[n].text, "%.2g", values[i]);
        ticks[n++].t = t;
    }
    snprintf(ticks[n].text, sizeof ticks[n].text, "%s%.3g", plan->above ? "≥ " : "", s->high + 0.0);
    ticks[n++].t = 1;
    return n;
}

/* Writes the name beside the colour bar: the client's label, and "sqrt scale" or "log scale" if the
 * scale is not linear. "" if there is neither. */
static void bar_name(const attn_heat_plan *plan, char name[160]) {
    static const char *const bent[] = {"", "sqrt scale", "log scale"};
    const char *label = plan->options->value_label, *how = bent[plan->scale.transform];
    const bool both = label && *label && *how;
    snprintf(name, 160, "%.120s%s%s%s", label ? label : "", both ? " (" : "", how, both ? ")" : "");
}

static double tick_room(const attn_heat_plan *plan) {
    bar_tick ticks[ATTN_TICKS + 2];
    double widest = 0;
    for (size_t i = bar_ticks(plan, ticks); i-- > 0;)
        widest = fmax(widest, attn_svg_width(ticks[i].text, ATTN_TICK_SIZE, false));
    return widest;
}

double attn_heat_bar_room(const attn_heat_plan *plan) {
    char name[160];
    if (!has_bar(plan))
        return 0;
    bar_name(plan, name);
    return ceil(BAR_GAP + BAR_WIDTH + 8 + tick_room(plan) + (*name ? BAR_NAME : 0));
}

static void put_bar(attn_svg *s, const attn_heat_plan *plan) {
    const attn_draw_palette *p = attn_draw_palette_of(plan->options->theme);
    bar_tick ticks[ATTN_TICKS + 2];
    char name[160];
    if (!has_bar(plan))
        return;
    const double x = plan->content_w - ATTN_PAD - attn_heat_bar_room(plan) + BAR_GAP, y = plan->top;
    const double height = bar_height(plan);
    const attn_svg_face face = {.size = ATTN_TICK_SIZE, .fill = p->muted};
    attn_svg_put(s, "<g class=\"scale\">\n");
    attn_svg_rect(s, x, y, BAR_WIDTH, height);
    attn_svg_put(s, " fill=\"url(#scale)\"");
    attn_svg_stroke(s, p->frame, 0.5);
    attn_svg_end(s);
    for (size_t i = bar_ticks(plan, ticks); i-- > 0;) {
        const double at = y + height * (1 - ticks[i].t);
        attn_svg_line(s, x + BAR_WIDTH, at, x + BAR_WIDTH + 4, at, p->frame, 1);
        attn_svg_text(s, x + BAR_WIDTH + 8, at, &face, ticks[i].text);
    }
    bar_name(plan, name);
    const attn_svg_face turned = {ATTN_NAME_SIZE, false, p->text, ATTN_ANCHOR_MIDDLE, -90};
    if (*name)
        attn_svg_text(s, x + BAR_WIDTH + 8 + tick_room(plan) + BAR_NAME - 8, y + height / 2,
                      &turned, attn_svg_label(s->t->arena, name, ATTN_NAME_SIZE, height + 90));
    attn_svg_put(s, "</g>\n");
}

typedef enum swatch { NO_SWATCH, VISIBLE, HIDDEN, NOT_A_NUMBER } swatch;

/* The position of the next legend item. Items are placed from left to right; when a line is full,
 * the next line begins below. */
typedef struct flow {
    attn_svg *s; /* NULL: measure only */
    const attn_heat_plan *plan;
    double x, y, width;
    bool any;
} flow;

static void put_swatch(flow *f, swatch kind) {
    const attn_draw_palette *p = attn_draw_palette_of(f->plan->options->theme);
    attn_svg_rect(f->s, f->x, f->y - SWATCH / 2, SWATCH, SWATCH);
    if (kind == HIDDEN)
        attn_svg_put(f->s, " fill=\"url(#hatch)\"");
    else
        attn_svg_fill(f->s, kind == VISIBLE ? attn_draw_colour(&f->plan->scale, 0.45) : p->nan);
    attn_svg_stroke(f->s, p->frame, 0.5);
    attn_svg_end(f->s);
}

static void item(flow *f, swatch kind, const char *text) {
    const attn_draw_palette *p = attn_draw_palette_of(f->plan->options->theme);
    const attn_svg_face face = {.size = ATTN_TICK_SIZE, .fill = p->muted};
    const double lead = kind == NO_SWATCH ? 0 : SWATCH + 6;
    const double width = lead + attn_svg_width(text, face.size, false);
    if (f->any && f->x + width > f->width - ATTN_PAD) {
        f->x = ATTN_PAD;
        f->y += ROW;
    }
    if (f->s && kind != NO_SWATCH)
        put_swatch(f, kind);
    if (f->s)
        attn_svg_text(f->s, f->x + lead, f->y, &face, text);
    f->x += width + 20;
    f->any = true;
}

/* Writes the note in lines of its own below the other items. */
static void put_note(flow *f, const char *note) {
    enum { MOST = 8 };
    const attn_draw_palette *p = attn_draw_palette_of(f->plan->options->theme);
    const attn_svg_face face = {.size = ATTN_TICK_SIZE, .fill = p->text};
    const char *lines[MOST];
    const int count =
        attn_svg_lines(f->plan->arena, note, &face, f->width - 2 * ATTN_PAD, lines, MOST);
    f->y += f->any ? ROW : 0;
    for (int i = 0; i < count; i++, f->y += NOTE_LINE)
        if (f->s)
            attn_svg_text(f->s, ATTN_PAD, f->y, &face, lines[i]);
    if (count > 0) {
        f->y -= NOTE_LINE;
        f->any = true;
    }
}

double attn_heat_legend(attn_svg *s, const attn_heat_plan *plan, double y, double width) {
    flow f = {.s = s, .plan = plan, .x = ATTN_PAD, .y = y + ROW, .width = width};
    char text[128];
    if (plan->options->marks)
        item(&f, VISIBLE, plan->pooled ? "some key visible" : "✓ visible: the query attends");
    if (plan->options->marks)
        item(&f, HIDDEN, plan->pooled ? "all hidden" : "✗ hidden by the mask");
    else if (plan->hidden)
        item(&f, HIDDEN, "hidden by the mask");
    if (plan->nan)
        item(&f, NOT_A_NUMBER, "not a number");
    if (plan->pooled) {
        snprintf(text, sizeof text, "a cell: %s %zu × %zu %s",
                 plan->options->marks ? "any of"
                 : plan->largest      ? "the largest of"
                                      : "the mean of",
                 plan->step[0], plan->step[1], plan->options->marks ? "pairs" : "values");
        item(&f, NO_SWATCH, text);
    }
    if (plan->options->note)
        put_note(&f, plan->options->note);
    return f.any ? f.y + ROW / 2 - y : 0;
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

static attn_status check(const attn_figure_heat *data, const attn_figure_options *o,
                         attn_error *err) {
    if (data->count == 0 || data->maps[0].shape[0] == 0 || data->maps[0].shape[1] == 0)
        return attn_fail(err, ATTN_ESHAPE, "",
                         "a figure needs at least one cell, found %zu panels of %zu x %zu",
                         data->count, data->count ? data->maps[0].shape[0] : 0,
                         data->count ? data->maps[0].shape[1] : 0);
    return attn_figure_check(o, err);
}

static void put_row_labels(attn_svg *s, const attn_heat_plan *plan, const attn_axis_plan *axis,
                           double x, double y) {
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    const attn_svg_face face = {.size = ATTN_TICK_SIZE, .fill = p->text, .anchor = ATTN_ANCHOR_END};
    attn_svg_put(s, "<g class=\"rows\">\n");
    for (size_t i = 0; i < axis->count; i++) {
        const double at = y + axis->at[i] * plan->cell_h - plan->gap / 2;
        if (axis->thinned)
            attn_svg_line(s, x - 4, at, x - 0.5, at, p->frame, 1);
        attn_svg_text(s, x - 7, at, &face, axis->labels[i]);
    }
    attn_svg_put(s, "</g>\n");
}

static void put_col_labels(attn_svg *s, const attn_heat_plan *plan, const attn_axis_plan *axis,
                           double x, double y) {
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    const bool upright = axis->turn == 0;
    const attn_svg_face face = {.size = ATTN_TICK_SIZE,
                                .fill = p->text,
                                .anchor = upright ? ATTN_ANCHOR_MIDDLE : ATTN_ANCHOR_END,
                                .turn = axis->turn};
    attn_svg_put(s, "<g class=\"columns\">\n");
    for (size_t i = 0; i < axis->count; i++) {
        const double at = x + axis->at[i] * plan->cell_w - plan->gap / 2;
        if (axis->thinned)
            attn_svg_line(s, at, y + 0.5, at, y + 4, p->frame, 1);
        attn_svg_text(s, at, y + (upright ? 7 + ATTN_TICK_SIZE / 2 : 7), &face, axis->labels[i]);
    }
    attn_svg_put(s, "</g>\n");
}

static void put_panel(attn_svg *s, const attn_heat_plan *plan, size_t i) {
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    const attn_svg_face head = {.size = ATTN_NAME_SIZE, .bold = true, .fill = p->text};
    double x, y;
    attn_heat_corner(plan, i, &x, &y);
    attn_svg_put(s, "<g class=\"panel\">\n");
    if (plan->panels[i].title)
        attn_svg_text(s, x, y - 12, &head,
                      attn_svg_label(s->t->arena,
                                     attn_svg_title(s->t->arena, plan->panels[i].title),
                                     head.size * 1.13, plan->plot_w));
    put_cells(s, plan, i);
    attn_svg_rect(s, x - 0.5, y - 0.5, plan->plot_w - plan->gap + 1, plan->plot_h - plan->gap + 1);
    attn_svg_put(s, " fill=\"none\"");
    attn_svg_stroke(s, p->frame, 1);
    attn_svg_end(s);
    const attn_panel *labelled = &plan->panels[plan->own ? i : 0];
    if (plan->own || i % plan->across == 0)
        put_row_labels(s, plan, &labelled->row_plan, x, y);
    if (plan->own || i + plan->across >= plan->count)
        put_col_labels(s, plan, &labelled->col_plan, x, y + plan->plot_h - plan->gap);
    attn_svg_put(s, "</g>\n");
}

/* Writes the title of the figure, and the names of the axes, centred on all panels. */
static void put_names(attn_svg *s, const attn_heat_plan *plan, double bottom) {
    const attn_figure_options *o = plan->options;
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    const attn_svg_face head = {.size = ATTN_HEAD_SIZE, .bold = true, .fill = p->text};
    attn_svg_face name = {.size = ATTN_NAME_SIZE, .fill = p->text, .anchor = ATTN_ANCHOR_MIDDLE};
    const double wide = plan->pitch_x * (double)(plan->across - 1) + plan->plot_w;
    const double high = plan->pitch_y * (double)(plan->down - 1) + plan->plot_h;
    for (int i = 0; i < plan->line_count; i++)
        attn_svg_text(s, ATTN_PAD, ATTN_PAD + ATTN_LINE * (i + 0.4), &head, plan->lines[i]);
    if (o->x_label)
        attn_svg_text(s, plan->left + wide / 2, bottom + 12, &name,
                      attn_svg_label(s->t->arena, attn_svg_title(s->t->arena, o->x_label),
                                     name.size, fmax(wide, 200)));
    name.turn = -90;
    if (o->y_label)
        attn_svg_text(s, plan->content_x + ATTN_PAD + 6, plan->top + high / 2, &name,
                      attn_svg_label(s->t->arena, attn_svg_title(s->t->arena, o->y_label),
                                     name.size, fmax(high, 100)));
}

static void describe(const attn_heat_plan *plan, attn_text *t) {
    size_t hidden = 0;
    for (size_t p = 0; p < plan->count; p++)
        for (size_t i = 0; i < plan->R * plan->C; i++)
            hidden += plan->panels[p].state[i] == ATTN_CELL_HIDDEN;
    attn_text_add(t, "%s of %zu rows and %zu columns%s", plan->options->marks ? "Mask" : "Heatmap",
                  plan->R, plan->C, plan->pooled ? " of pooled cells" : "");
    if (plan->count > 1)
        attn_text_add(t, ", %zu panels", plan->count);
    if (!plan->options->marks)
        attn_text_add(t, "; values from %.3g to %.3g", plan->low, plan->high);
    if (hidden)
        attn_text_add(t, "; %zu of %zu cells hidden", hidden, plan->count * plan->R * plan->C);
    attn_text_add(t, ".");
}

static void write(attn_svg *s, const attn_heat_plan *plan) {
    attn_text said = {.arena = s->t->arena};
    describe(plan, &said);
    attn_svg_open(s, plan->width, plan->height,
                  plan->options->title ? attn_svg_title(s->t->arena, plan->options->title)
                                       : "Heatmap",
                  said.data ? said.data : "");
    put_definitions(s, plan);
    double x, y;
    attn_heat_corner(plan, plan->count - 1, &x, &y);
    double bottom = y + plan->plot_h + plan->col_room;
    put_names(s, plan, bottom);
    for (size_t i = 0; i < plan->count && !s->t->failed; i++)
        put_panel(s, plan, i);
    put_bar(s, plan);
    attn_heat_legend(s, plan, bottom + (plan->options->x_label ? 24 : 0), plan->width);
    attn_svg_close(s);
}

attn_status attn_figure_heatmaps(attn_text *svg, const attn_figure_heat *data,
                                 const attn_figure_options *options, attn_error *err) {
    attn_heat_plan plan = {.options = options, .arena = svg->arena};
    attn_svg s = {svg, options->theme};
    attn_status status = check(data, options, err);
    if (!status)
        status = attn_heat_plan_data(&plan, data, err);
    if (!status)
        status = attn_heat_plan_layout(&plan, err);
    if (status)
        return status;
    write(&s, &plan);
    return svg->failed ? attn_fail(err, ATTN_ENOMEM, "", "no memory left for the figure") : ATTN_OK;
}
