/* The parts that all figures have: the title, the grid of panels, and the names of the axes. */
#include <math.h>

#include "base/try.h"
#include "draw/figure_parts.h"

void attn_page_grid(attn_page *page, size_t across, size_t count) {
    if (page->options->columns)
        across = page->options->columns;
    page->across = across < count ? across : count;
    page->down = (count + page->across - 1) / page->across;
}

attn_status attn_page_title(attn_page *page, double width, attn_error *err) {
    const attn_svg_face face = {.size = ATTN_HEAD_SIZE, .bold = true};
    const char *title = page->options->title;
    page->line_count =
        title ? attn_svg_lines(page->arena, title, &face, width, page->lines, ATTN_TITLE_LINES) : 0;
    return page->line_count >= 0 ? ATTN_OK : attn_no_memory(err, "the title of a figure");
}

double attn_page_head(const attn_page *page) {
    return ATTN_PAD + page->line_count * ATTN_LINE + (page->line_count ? 8 : 0);
}

attn_status attn_page_share(double given, double rest, size_t panels, double least,
                            const char *side, double *plot, attn_error *err) {
    if (!(given > 0))
        return ATTN_OK;
    *plot = floor((given - rest) / (double)panels);
    if (*plot >= least)
        return ATTN_OK;
    return attn_fail(err, ATTN_EARG, side,
                     "expected a %s of at least %.0f, because labels and titles take %.0f and a "
                     "panel at least %.0f, found %.0f",
                     side, rest + (double)panels * least, rest, least, given);
}

void attn_page_corner(const attn_page *page, size_t i, double *x, double *y) {
    *x = page->left + (double)(i % page->across) * page->pitch_x;
    *y = page->top + (double)(i / page->across) * page->pitch_y;
}

void attn_page_open(attn_svg *s, const attn_page *page, const char *kind,
                    const attn_text *description) {
    const char *title = page->options->title;
    attn_svg_open(s, page->width, page->height, title ? attn_svg_title(page->arena, title) : kind,
                  description->data ? description->data : "");
}

void attn_page_panel_title(attn_svg *s, const attn_page *page, double x, double y,
                           const char *title) {
    const attn_svg_face face = {
        .size = ATTN_NAME_SIZE, .bold = true, .fill = attn_draw_palette_of(s->theme)->text};
    /* 1.13: bold letters are wider */
    attn_svg_text(s, x, y, &face,
                  attn_svg_name(page->arena, title, face.size * 1.13, page->plot_w));
}

void attn_page_names(attn_svg *s, const attn_page *page, double x, double y,
                     const double least[2]) {
    const attn_figure_options *o = page->options;
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    const attn_svg_face head = {.size = ATTN_HEAD_SIZE, .bold = true, .fill = p->text};
    attn_svg_face name = {.size = ATTN_NAME_SIZE, .fill = p->text, .anchor = ATTN_ANCHOR_MIDDLE};
    const double wide = page->pitch_x * (double)(page->across - 1) + page->plot_w;
    const double high = page->pitch_y * (double)(page->down - 1) + page->plot_h;
    for (int i = 0; i < page->line_count; i++)
        attn_svg_text(s, ATTN_PAD, ATTN_PAD + ATTN_LINE * (i + 0.4), &head, page->lines[i]);
    if (o->x_label)
        attn_svg_text(s, page->left + wide / 2, y, &name,
                      attn_svg_name(page->arena, o->x_label, name.size, fmax(wide, least[0])));
    name.turn = -90;
    if (o->y_label)
        attn_svg_text(s, x, page->top + high / 2, &name,
                      attn_svg_name(page->arena, o->y_label, name.size, fmax(high, least[1])));
}
