/* Writing SVG: numbers, elements, text; and what is shown of a label. */
#ifndef ATTN_DRAW_SVG_H
#define ATTN_DRAW_SVG_H

#include "draw/colour.h"
#include "draw/draw.h"

typedef enum attn_anchor { ATTN_ANCHOR_START = 0, ATTN_ANCHOR_MIDDLE, ATTN_ANCHOR_END } attn_anchor;

typedef struct attn_svg {
    attn_text *t;
    attn_theme theme;
} attn_svg;

/* Text as it is. */
void attn_svg_put(attn_svg *s, const char *text);
/* A number of at most two decimals, "12", "0.5", never "-0": not the C library's, whose decimal
 * point follows the locale. */
void attn_svg_number(attn_svg *s, double value);
/* name="value" with a blank in front. */
void attn_svg_at(attn_svg *s, const char *name, double value);
void attn_svg_fill(attn_svg *s, attn_rgb colour);
void attn_svg_stroke(attn_svg *s, attn_rgb colour, double width);

void attn_svg_open(attn_svg *s, double width, double height, const char *title,
                   const char *description);
void attn_svg_close(attn_svg *s);
/* A rectangle without its end, so that fill and more can follow; then attn_svg_end. */
void attn_svg_rect(attn_svg *s, double x, double y, double width, double height);
void attn_svg_end(attn_svg *s); /* "/>" */
void attn_svg_line(attn_svg *s, double x1, double y1, double x2, double y2, attn_rgb colour,
                   double width);

typedef struct attn_svg_face {
    double size;
    bool bold;
    attn_rgb fill;
    attn_anchor anchor;
    double turn; /* degrees, clockwise, around the anchor */
} attn_svg_face;
/* One line whose middle of the lower-case letters is at y. `text` as it is to be seen. */
void attn_svg_text(attn_svg *s, double x, double y, const attn_svg_face *face, const char *text);

/* A token as it is to be seen, cut to `width` pixels with "…": white space at its ends, line ends
 * and tabs as visible glyphs, what cannot be drawn as U+FFFD, nothing at all as "∅". In the arena;
 * NULL when out of memory, and of NULL. */
const char *attn_svg_label(attn_arena *arena, const char *token, double size, double width);
/* The same for titles: blanks stay, line ends are blanks. */
const char *attn_svg_title(attn_arena *arena, const char *text);
/* Pixels a line takes, by DejaVu Sans's widths; wider than it comes out for other faces. */
double attn_svg_width(const char *text, double size, bool bold);
/* A title in lines of at most `width` pixels, broken at blanks, at most `most` lines, the last one
 * cut. Returns how many; -1 when out of memory. */
int attn_svg_lines(attn_arena *arena, const char *text, const attn_svg_face *face, double width,
                   const char **lines, int most);

#endif
