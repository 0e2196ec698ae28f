/* The cells of a panel: vectors with values or marks in them, or one image. Hidden cells are never
 * painted over: their hatching is one path (vectors), or lies beneath where the image is
 * transparent. */
#include <math.h>
#include <string.h>

#include "draw/figure_parts.h"

#define HIDDEN_INDEX 255 /* of the image's palette; 254: not a number; below: the scale */
#define NAN_INDEX    254
#define COLOURS      254

static void put(attn_svg *s, const char *text) {
    attn_draw_bytes(s->t, text, strlen(text));
}

static attn_rgb colour_of(const attn_heat_plan *plan, const attn_panel *panel, size_t i) {
    if (panel->state[i] == ATTN_CELL_NAN)
        return attn_draw_palette_of(plan->options->theme)->nan;
    double t = plan->options->marks ? 0.45 : attn_draw_place(&plan->scale, panel->values[i]);
    return attn_draw_colour(&plan->scale, t);
}

static void put_rectangles(attn_svg *s, const attn_heat_plan *plan, const attn_panel *panel,
                           double x, double y) {
    put(s, "<g class=\"cells\" shape-rendering=\"crispEdges\">\n");
    for (size_t r = 0; r < plan->R; r++)
        for (size_t c = 0; c < plan->C; c++) {
            const size_t i = r * plan->C + c;
            if (panel->state[i] == ATTN_CELL_HIDDEN)
                continue;
            attn_svg_rect(s, x + (double)c * plan->cell_w, y + (double)r * plan->cell_h,
                          plan->cell_w - plan->gap, plan->cell_h - plan->gap);
            attn_svg_fill(s, colour_of(plan, panel, i));
            attn_svg_end(s);
        }
    put(s, "</g>\n");
}

/* One closed rectangle a run of hidden cells in a row. */
static void put_hatching(attn_svg *s, const attn_heat_plan *plan, const attn_panel *panel, double x,
                         double y) {
    if (!memchr(panel->state, ATTN_CELL_HIDDEN, plan->R * plan->C))
        return;
    put(s, "<path class=\"hidden\" fill=\"url(#hatch)\" d=\"");
    for (size_t r = 0; r < plan->R; r++) {
        const uint8_t *row = panel->state + r * plan->C;
        for (size_t c = 0; c < plan->C;) {
            size_t to = c;
            while (to < plan->C && row[to] == ATTN_CELL_HIDDEN)
                to++;
            if (to > c) {
                const double width = (double)(to - c) * plan->cell_w - plan->gap;
                put(s, "M");
                attn_svg_number(s, x + (double)c * plan->cell_w);
                put(s, " ");
                attn_svg_number(s, y + (double)r * plan->cell_h);
                put(s, "h");
                attn_svg_number(s, width);
                put(s, "v");
                attn_svg_number(s, plan->cell_h - plan->gap);
                put(s, "h");
                attn_svg_number(s, -width);
                put(s, "z");
            }
            c = to + (to == c);
        }
    }
    put(s, "\"/>\n");
}

static void put_values(attn_svg *s, const attn_heat_plan *plan, const attn_panel *panel, double x,
                       double y) {
    attn_svg_face face = {.size = plan->value_size, .anchor = ATTN_ANCHOR_MIDDLE};
    char text[32];
    put(s, "<g class=\"values\">\n");
    for (size_t i = 0; i < plan->R * plan->C; i++) {
        if (panel->state[i] != ATTN_CELL_SEEN)
            continue;
        face.fill = attn_draw_ink(colour_of(plan, panel, i));
        attn_heat_value_text(plan, panel->values[i], text);
        attn_svg_text(s, x + ((double)(i % plan->C) + 0.5) * plan->cell_w - plan->gap / 2,
                      y + ((double)(i / plan->C) + 0.5) * plan->cell_h - plan->gap / 2, &face,
                      text);
    }
    put(s, "</g>\n");
}

/* ✓ and ✗ where they fit. */
static void put_marks(attn_svg *s, const attn_heat_plan *plan, const attn_panel *panel, double x,
                      double y) {
    const double least = fmin(plan->cell_w, plan->cell_h);
    attn_svg_face face = {.size = floor(fmin(18, 0.5 * least)), .anchor = ATTN_ANCHOR_MIDDLE};
    if (least < 14)
        return;
    put(s, "<g class=\"marks\">\n");
    for (size_t i = 0; i < plan->R * plan->C; i++) {
        const bool hidden = panel->state[i] == ATTN_CELL_HIDDEN;
        face.fill = hidden ? attn_draw_palette_of(plan->options->theme)->text
                           : attn_draw_ink(colour_of(plan, panel, i));
        attn_svg_text(s, x + ((double)(i % plan->C) + 0.5) * plan->cell_w - plan->gap / 2,
                      y + ((double)(i / plan->C) + 0.5) * plan->cell_h - plan->gap / 2, &face,
                      hidden ? "✗" : "✓");
    }
    put(s, "</g>\n");
}

static void fill_palette(const attn_heat_plan *plan, attn_rgb palette[256], uint8_t alpha[256]) {
    memset(palette, 0, 256 * sizeof *palette);
    memset(alpha, 255, 256);
    alpha[HIDDEN_INDEX] = 0;
    for (size_t i = 0; i < COLOURS; i++)
        palette[i] = attn_draw_colour(&plan->scale, (double)i / (COLOURS - 1));
    palette[NAN_INDEX] = attn_draw_palette_of(plan->options->theme)->nan;
}

static uint8_t index_of(const attn_heat_plan *plan, const attn_panel *panel, size_t i) {
    if (panel->state[i] != ATTN_CELL_SEEN)
        return panel->state[i] == ATTN_CELL_HIDDEN ? HIDDEN_INDEX : NAN_INDEX;
    double t = plan->options->marks ? 0.45 : attn_draw_place(&plan->scale, panel->values[i]);
    return (uint8_t)lrint(t * (COLOURS - 1));
}

/* Each cell as large as it is on the page, since not every program keeps pixels apart when it
 * enlarges an image (librsvg 2.54 does not). NULL when out of memory. */
static uint8_t *paint(const attn_heat_plan *plan, const attn_panel *panel, size_t size[2]) {
    const size_t tall = plan->cell_h >= 1 ? (size_t)plan->cell_h : 1;
    const size_t wide = plan->cell_w >= 1 ? (size_t)plan->cell_w : 1;
    size[0] = plan->R * tall;
    size[1] = plan->C * wide;
    uint8_t *pixels = attn_arena_zeroed(plan->arena, size[0], size[1]);
    for (size_t r = 0; pixels && r < plan->R; r++) {
        uint8_t *row = pixels + r * tall * size[1];
        for (size_t c = 0; c < plan->C; c++)
            memset(row + c * wide, index_of(plan, panel, r * plan->C + c), wide);
        for (size_t k = 1; k < tall; k++)
            memcpy(row + k * size[1], row, size[1]);
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
    fill_palette(plan, palette, alpha);
    if (memchr(panel->state, ATTN_CELL_HIDDEN, plan->R * plan->C)) {
        attn_svg_rect(s, x, y, plan->plot_w, plan->plot_h);
        put(s, " class=\"hidden\" fill=\"url(#hatch)\"");
        attn_svg_end(s);
    }
    put(s, "<image class=\"cells\" preserveAspectRatio=\"none\" image-rendering=\"pixelated\"");
    attn_svg_at(s, "x", x);
    attn_svg_at(s, "y", y);
    attn_svg_at(s, "width", plan->plot_w);
    attn_svg_at(s, "height", plan->plot_h);
    put(s, " href=\"data:image/png;base64,");
    attn_png_index(s->t, pixels, size[0], size[1], palette, alpha);
    put(s, "\"/>\n");
}

void attn_heat_cells(attn_svg *s, const attn_heat_plan *plan, size_t i) {
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
