/* Heatmaps -> SVG: data and options become a plan (figure_data.c, figure_layout.c), the plan is
 * written down once from top to bottom. */
#include <math.h>
#include <string.h>

#include "draw/figure_parts.h"

attn_figure_options attn_figure_defaults(void) {
    return (attn_figure_options){.vmin = NAN, .vmax = NAN, .colour_bar = true, .tick_rotation = -1};
}

static void put(attn_svg *s, const char *text) {
    attn_draw_bytes(s->t, text, strlen(text));
}

attn_status attn_figure_check(const attn_figure_options *o, attn_error *err) {
    const struct {
        const char *where;
        unsigned value, last;
    } choices[] = {{"colormap", o->colormap, ATTN_COLORMAP_CIVIDIS},
                   {"transform", o->transform, ATTN_LOG},
                   {"theme", o->theme, ATTN_THEME_DARK}};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (choices[i].value > choices[i].last)
            return attn_fail(err, ATTN_EARG, choices[i].where, "there is no %s of the number %d",
                             choices[i].where, (int)choices[i].value);
    if (o->tick_rotation > 90)
        return attn_fail(err, ATTN_EARG, "tick_rotation", "expected 0 to 90 degrees, found %d",
                         o->tick_rotation);
    return ATTN_OK;
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

static void put_row_labels(attn_svg *s, const attn_heat_plan *plan, double x, double y) {
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    const attn_svg_face face = {.size = ATTN_TICK_SIZE, .fill = p->text, .anchor = ATTN_ANCHOR_END};
    const attn_axis_plan *axis = &plan->row_plan;
    put(s, "<g class=\"rows\">\n");
    for (size_t i = 0; i < axis->count; i++) {
        const double at = y + axis->at[i] * plan->cell_h - plan->gap / 2;
        if (axis->thinned)
            attn_svg_line(s, x - 4, at, x - 0.5, at, p->frame, 1);
        attn_svg_text(s, x - 7, at, &face, axis->labels[i]);
    }
    put(s, "</g>\n");
}

static void put_col_labels(attn_svg *s, const attn_heat_plan *plan, double x, double y) {
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    const attn_axis_plan *axis = &plan->col_plan;
    const bool upright = axis->turn == 0;
    const attn_svg_face face = {.size = ATTN_TICK_SIZE,
                                .fill = p->text,
                                .anchor = upright ? ATTN_ANCHOR_MIDDLE : ATTN_ANCHOR_END,
                                .turn = axis->turn};
    put(s, "<g class=\"columns\">\n");
    for (size_t i = 0; i < axis->count; i++) {
        const double at = x + axis->at[i] * plan->cell_w - plan->gap / 2;
        if (axis->thinned)
            attn_svg_line(s, at, y + 0.5, at, y + 4, p->frame, 1);
        attn_svg_text(s, at, y + (upright ? 7 + ATTN_TICK_SIZE / 2 : 7), &face, axis->labels[i]);
    }
    put(s, "</g>\n");
}

static void put_panel(attn_svg *s, const attn_heat_plan *plan, size_t i) {
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    const attn_svg_face head = {.size = ATTN_NAME_SIZE, .bold = true, .fill = p->text};
    double x, y;
    attn_heat_corner(plan, i, &x, &y);
    put(s, "<g class=\"panel\">\n");
    if (plan->panels[i].title)
        attn_svg_text(s, x, y - 12, &head,
                      attn_svg_label(s->t->arena,
                                     attn_svg_title(s->t->arena, plan->panels[i].title),
                                     head.size * 1.13, plan->plot_w));
    attn_heat_cells(s, plan, i);
    attn_svg_rect(s, x - 0.5, y - 0.5, plan->plot_w - plan->gap + 1, plan->plot_h - plan->gap + 1);
    put(s, " fill=\"none\"");
    attn_svg_stroke(s, p->frame, 1);
    attn_svg_end(s);
    if (i % plan->across == 0)
        put_row_labels(s, plan, x, y);
    if (i + plan->across >= plan->count)
        put_col_labels(s, plan, x, y + plan->plot_h - plan->gap);
    put(s, "</g>\n");
}

/* The figure's title, and the names of the axes in the middle of the panels. */
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
        attn_svg_text(s, ATTN_PAD + 6, plan->top + high / 2, &name,
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
    attn_heat_definitions(s, plan);
    double x, y;
    attn_heat_corner(plan, plan->count - 1, &x, &y);
    double bottom = y + plan->plot_h + plan->col_plan.room;
    put_names(s, plan, bottom);
    for (size_t i = 0; i < plan->count && !s->t->failed; i++)
        put_panel(s, plan, i);
    attn_heat_bar(s, plan);
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
