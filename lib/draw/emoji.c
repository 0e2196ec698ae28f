/* Finds text lines with emoji in an SVG and draws them with Pango (emoji.h). Pango comes with
 * librsvg and is loaded at run time (library.h). */
#include "draw/emoji.h"

#include <math.h>
#include <pango/pangocairo.h>
#include <stdio.h>
#include <string.h>

#include "draw/library.h"

#define LIBRARY    "libpangocairo-1.0.so.0"
#define VARIATION  0xfe0f /* U+FE0F: the preceding symbol is shown as an emoji */
#define HALF_TURN  180.0
#define PI         3.14159265358979323846
#define FULL_COLOR 255.0

/* One <text> element of the SVG: its attributes in the SVG's units, and its text. */
struct attn_emoji_line {
    attn_emoji_line *next;
    double move_x, move_y, turn, x, y, size;
    /* How many half widths of the line lie left of x: 0 for text-anchor start, 1 for middle, 2 for
     * end. */
    int anchor;
    bool bold;
    unsigned fill[3];
    const char *markup; /* points into the SVG, so it is still escaped */
    int bytes;
    const char *family; /* font family of the SVG, without quotation marks */
};

/* The functions of Pango and cairo that this file calls. */
#define FUNCTIONS(ITEM)                                                                            \
    ITEM(create, pango_cairo_create_layout)                                                        \
    ITEM(show, pango_cairo_show_layout)                                                            \
    ITEM(set_options, pango_cairo_context_set_font_options)                                        \
    ITEM(context, pango_layout_get_context)                                                        \
    ITEM(changed, pango_layout_context_changed)                                                    \
    ITEM(set_font, pango_layout_set_font_description)                                              \
    ITEM(set_markup, pango_layout_set_markup)                                                      \
    ITEM(set_single, pango_layout_set_single_paragraph_mode)                                       \
    ITEM(get_size, pango_layout_get_size)                                                          \
    ITEM(get_baseline, pango_layout_get_baseline)                                                  \
    ITEM(font_new, pango_font_description_new)                                                     \
    ITEM(font_family, pango_font_description_set_family)                                           \
    ITEM(font_weight, pango_font_description_set_weight)                                           \
    ITEM(font_size, pango_font_description_set_absolute_size)                                      \
    ITEM(font_free, pango_font_description_free)                                                   \
    ITEM(unref, g_object_unref)                                                                    \
    ITEM(save, cairo_save)                                                                         \
    ITEM(restore, cairo_restore)                                                                   \
    ITEM(scale, cairo_scale)                                                                       \
    ITEM(translate, cairo_translate)                                                               \
    ITEM(rotate, cairo_rotate)                                                                     \
    ITEM(move, cairo_move_to)                                                                      \
    ITEM(colour, cairo_set_source_rgb)                                                             \
    ITEM(options_new, cairo_font_options_create)                                                   \
    ITEM(hint_metrics, cairo_font_options_set_hint_metrics)                                        \
    ITEM(hint_style, cairo_font_options_set_hint_style)                                            \
    ITEM(antialias, cairo_font_options_set_antialias)                                              \
    ITEM(options_free, cairo_font_options_destroy)

typedef struct typesetter {
    FUNCTIONS(ATTN_LIBRARY_MEMBER)
} typesetter;

static bool load(typesetter *to) {
    const attn_symbol symbols[] = {FUNCTIONS(ATTN_LIBRARY_SYMBOL)};
    return attn_library_load(LIBRARY, symbols, sizeof symbols / sizeof symbols[0]);
}

/* --- removing lines from the SVG --- */

/* Tells whether a code point may be an emoji. The ranges also contain other symbols. This is
 * harmless, because Pango draws these symbols as librsvg does. */
static bool is_emoji(unsigned code) {
    return code == VARIATION || (code >= 0x2300 && code < 0x2c00) ||
           (code >= 0x1f000 && code < 0x20000);
}

static bool has_emoji(const char *text, const char *end) {
    size_t bytes;
    for (; text < end; text += bytes)
        if (is_emoji(attn_draw_decode(text, &bytes)))
            return true;
    return false;
}

/* If the text at *p begins with `word`, moves *p behind `word` and returns true; else returns
 * false. */
static bool skip_word(const char **p, const char *word) {
    const size_t n = strlen(word);
    if (strncmp(*p, word, n) != 0)
        return false;
    *p += n;
    return true;
}

/* Reads the attributes that follow "<text", in the order in which attn_svg_text writes them.
 * Returns the start of the text, or NULL if the attributes have another form. */
static const char *read_line(const char *p, attn_emoji_line *line) {
    int used = 0;
    if (sscanf(p, " transform=\"translate(%lf %lf) rotate(%lf)\"%n", &line->move_x, &line->move_y,
               &line->turn, &used) == 3 &&
        used)
        p += used;
    used = 0;
    if (sscanf(p, " x=\"%lf\" y=\"%lf\" font-size=\"%lf\"%n", &line->x, &line->y, &line->size,
               &used) != 3 ||
        !used)
        return NULL;
    p += used;
    line->bold = skip_word(&p, " font-weight=\"bold\"");
    line->anchor = skip_word(&p, " text-anchor=\"middle\"") ? 1
                   : skip_word(&p, " text-anchor=\"end\"")  ? 2
                                                            : 0;
    used = 0;
    if (sscanf(p, " fill=\"#%2x%2x%2x\">%n", &line->fill[0], &line->fill[1], &line->fill[2],
               &used) != 3 ||
        !used)
        return NULL;
    return p + used;
}

/* Returns the value of the SVG's first font-family attribute, without quotation marks; "sans-serif"
 * if there is no such attribute or the arena is full. */
static const char *font_families(const attn_text *svg, attn_arena *arena) {
    static const char attribute[] = "font-family=\"";
    const char *from = strstr(svg->data, attribute), *end = NULL;
    if (from) {
        from += sizeof attribute - 1;
        end = strchr(from, '"');
    }
    char *list = end ? attn_arena_small(arena, (size_t)(end - from) + 1) : NULL;
    char *to = list;
    for (; list && from < end; from++)
        if (*from != '\'')
            *to++ = *from;
    if (list)
        *to = 0;
    return list ? list : "sans-serif";
}

/* Reads the text element whose "<text" ends at p. Returns NULL if the element contains no emoji, if
 * it does not have the form that svg.c writes, or if memory runs out. */
static attn_emoji_line *take_line(const char *p, attn_arena *arena) {
    attn_emoji_line line = {0};
    const char *text = read_line(p, &line), *end = text ? strchr(text, '<') : NULL;
    if (!end || strncmp(end, "</text>", 7) != 0 || !has_emoji(text, end))
        return NULL;
    line.markup = text;
    line.bytes = (int)(end - text);
    attn_emoji_line *out = attn_arena_zeroed(arena, 1, sizeof *out);
    if (out)
        *out = line;
    return out;
}

attn_emoji_line *attn_emoji_take(const attn_text *svg, attn_arena *arena, attn_text *rest) {
    attn_emoji_line *first = NULL, **last = &first;
    typesetter t;
    *rest = *svg;
    for (const char *p = svg->data; (p = strstr(p, "<text"));) {
        p += strlen("<text");
        *last = take_line(p, arena);
        last = *last ? &(*last)->next : last;
    }
    if (!first || !load(&t))
        return NULL;
    *rest = (attn_text){.data = attn_arena_take(arena, svg->size + 1), .size = svg->size};
    rest->failed = !rest->data;
    if (rest->failed)
        return NULL;
    memcpy(rest->data, svg->data, svg->size + 1);
    const char *family = font_families(svg, arena);
    for (attn_emoji_line *line = first; line; line = line->next) {
        line->family = family;
        memset(rest->data + (line->markup - svg->data), ' ', (size_t)line->bytes);
    }
    return first;
}

/* --- drawing --- */

static PangoLayout *lay_out(const typesetter *t, const attn_emoji_line *line, cairo_t *context) {
    PangoLayout *layout = t->create(context);
    PangoFontDescription *font = t->font_new();
    cairo_font_options_t *options = t->options_new(); /* equal to the options of librsvg */
    t->hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    t->hint_style(options, CAIRO_HINT_STYLE_NONE);
    t->antialias(options, CAIRO_ANTIALIAS_GRAY);
    t->set_options(t->context(layout), options);
    t->changed(layout);
    t->font_family(font, line->family);
    t->font_weight(font, line->bold ? PANGO_WEIGHT_BOLD : PANGO_WEIGHT_NORMAL);
    t->font_size(font, line->size * PANGO_SCALE);
    t->set_font(layout, font);
    t->set_single(layout, TRUE);
    t->set_markup(layout, line->markup, line->bytes);
    t->options_free(options);
    t->font_free(font);
    return layout;
}

static void draw_line(const typesetter *t, const attn_emoji_line *line, cairo_t *context) {
    int width = 0;
    t->save(context);
    t->translate(context, line->move_x, line->move_y);
    t->rotate(context, line->turn * PI / HALF_TURN);
    PangoLayout *layout = lay_out(t, line, context);
    t->get_size(layout, &width, NULL);
    t->move(context, line->x - line->anchor * 0.5 * width / PANGO_SCALE,
            line->y - (double)t->get_baseline(layout) / PANGO_SCALE);
    t->colour(context, line->fill[0] / FULL_COLOR, line->fill[1] / FULL_COLOR,
              line->fill[2] / FULL_COLOR);
    t->show(context, layout);
    t->unref(layout);
    t->restore(context);
}

void attn_emoji_draw(const attn_emoji_line *lines, attn_emoji_context *context, double scale) {
    typesetter t;
    if (!lines || !load(&t))
        return;
    t.save(context);
    t.scale(context, scale, scale);
    for (; lines; lines = lines->next)
        draw_line(&t, lines, context);
    t.restore(context);
}
