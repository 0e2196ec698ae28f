/* Draws the colour bar of a heatmap and the legends of hatching, marks, NaN and the size of a cell.
 * Also computes, for the layout, the room that they need. */
#include <math.h>
#include <stdio.h>

#include "draw/figure_parts.h"

/* --- the colour bar --- */

#define BAR_GAP   20.0
#define BAR_WIDTH 13.0
#define BAR_MOST  480.0
#define BAR_PITCH 26.0 /* least distance of two ticks of the colour bar, pixels */
#define BAR_NAME  20.0
#define ROW       22.0
#define NOTE_LINE 15.0
#define SWATCH    13.0

static bool has_bar(const attn_heat_plan *plan) {
    const attn_page *page = &plan->page;
    return page->options->colorbar && !page->options->marks && !page->options->own_scales;
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
    const attn_page *page = &plan->page;
    return fmin(BAR_MOST, page->pitch_y * (double)(page->down - 1) + page->plot_h) - plan->gap;
}

/* Finds the values of the ticks between the ends of the colour bar and returns their number. On a
 * linear scale the values are round and evenly spaced. On a sqrt or log scale the positions are
 * evenly spaced, and the values at these positions are rounded to two digits. */
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
 * inner value has a tick if it is at least a line of text away from the tick below and from the
 * upper end. */
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

/* Writes the name beside the colour bar to `name`: the client's label, and "sqrt scale" or "log
 * scale" if the scale is not linear; "" if there is no label and the scale is linear. */
static void bar_name(const attn_heat_plan *plan, char name[160]) {
    static const char *const bent[] = {"", "sqrt scale", "log scale"};
    const char *label = plan->page.options->value_label, *how = bent[plan->scale.transform];
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

void attn_heat_bar(attn_svg *s, const attn_heat_plan *plan) {
    const attn_draw_palette *p = attn_draw_palette_of(plan->page.options->theme);
    bar_tick ticks[ATTN_TICKS + 2];
    char name[160];
    if (!has_bar(plan))
        return;
    const double x = plan->content_w - ATTN_PAD - attn_heat_bar_room(plan) + BAR_GAP,
                 y = plan->page.top;
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
    const attn_draw_palette *p = attn_draw_palette_of(f->plan->page.options->theme);
    attn_svg_rect(f->s, f->x, f->y - SWATCH / 2, SWATCH, SWATCH);
    if (kind == HIDDEN)
        attn_svg_put(f->s, " fill=\"url(#hatch)\"");
    else
        attn_svg_fill(f->s, kind == VISIBLE ? attn_draw_colour(&f->plan->scale, 0.45) : p->nan);
    attn_svg_stroke(f->s, p->frame, 0.5);
    attn_svg_end(f->s);
}

static void put_item(flow *f, swatch kind, const char *text) {
    const attn_draw_palette *p = attn_draw_palette_of(f->plan->page.options->theme);
    const attn_svg_face face = {.size = ATTN_TICK_SIZE, .fill = p->muted};
    const double lead = kind == NO_SWATCH ? 0 : SWATCH + 6;
    const char *cut =
        attn_svg_label(f->plan->page.arena, text, face.size, f->width - 2 * ATTN_PAD - lead);
    const char *label = cut ? cut : text;
    const double width = lead + attn_svg_width(label, face.size, false);
    if (f->any && f->x + width > f->width - ATTN_PAD) {
        f->x = ATTN_PAD;
        f->y += ROW;
    }
    if (f->s && kind != NO_SWATCH)
        put_swatch(f, kind);
    if (f->s)
        attn_svg_text(f->s, f->x + lead, f->y, &face, label);
    f->x += width + 20;
    f->any = true;
}

/* Writes the note in lines of its own below the other items. */
static void put_note(flow *f, const char *note) {
    enum { MOST = 8 };
    const attn_draw_palette *p = attn_draw_palette_of(f->plan->page.options->theme);
    const attn_svg_face face = {.size = ATTN_TICK_SIZE, .fill = p->text};
    const char *lines[MOST];
    const int count =
        attn_svg_lines(f->plan->page.arena, note, &face, f->width - 2 * ATTN_PAD, lines, MOST);
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
    const attn_page *page = &plan->page;
    flow f = {.s = s, .plan = plan, .x = ATTN_PAD, .y = y + ROW, .width = width};
    char text[128];
    if (page->options->marks)
        put_item(&f, VISIBLE, plan->pooled ? "some key visible" : "✓ visible: the query attends");
    if (page->options->marks)
        put_item(&f, HIDDEN, plan->pooled ? "all hidden" : "✗ hidden by the mask");
    else if (plan->hidden)
        put_item(&f, HIDDEN, "hidden by the mask");
    if (plan->nan)
        put_item(&f, NOT_A_NUMBER, "not a number");
    if (plan->pooled) {
        snprintf(text, sizeof text, "a cell: %s %zu × %zu %s",
                 page->options->marks ? "any of"
                 : plan->largest      ? "the largest of"
                                      : "the mean of",
                 plan->step[0], plan->step[1], page->options->marks ? "pairs" : "values");
        put_item(&f, NO_SWATCH, text);
    }
    if (page->options->note)
        put_note(&f, page->options->note);
    return f.any ? f.y + ROW / 2 - y : 0;
}
