/* Writes SVG: numbers, elements and text. It also makes labels and titles fit for display. */
#ifndef ATTN_DRAW_SVG_H
#define ATTN_DRAW_SVG_H

#include "draw/colour.h"
#include "draw/draw.h"

typedef enum attn_anchor { ATTN_ANCHOR_START = 0, ATTN_ANCHOR_MIDDLE, ATTN_ANCHOR_END } attn_anchor;

typedef struct attn_svg {
    attn_text *t;
    attn_theme theme;
} attn_svg;

/* Appends text unchanged. */
void attn_svg_put(attn_svg *s, const char *text);
/* Appends a number of at most two decimals: "12", "0.5", never "-0". It does not use printf, whose
 * decimal point depends on the locale. */
void attn_svg_number(attn_svg *s, double value);
/* Appends a blank and the attribute name="value". */
void attn_svg_at(attn_svg *s, const char *name, double value);
void attn_svg_fill(attn_svg *s, attn_rgb colour);
void attn_svg_stroke(attn_svg *s, attn_rgb colour, double width);

void attn_svg_open(attn_svg *s, double width, double height, const char *title,
                   const char *description);
void attn_svg_close(attn_svg *s);
/* Begins a rectangle. The caller may add attributes such as fill, then calls attn_svg_end. */
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
/* Writes one line of text, with the middle of its lower-case letters at y. The text is shown
 * unchanged. */
void attn_svg_text(attn_svg *s, double x, double y, const attn_svg_face *face, const char *text);

/* Returns a token as it is displayed, in the arena. White space at its ends, line ends and tabs
 * become visible glyphs, characters that cannot be drawn become U+FFFD, and an empty token becomes
 * "∅". A label wider than `width` pixels is cut and ends with "…". NULL: out of memory, or `token`
 * is NULL. */
const char *attn_svg_label(attn_arena *arena, const char *token, double size, double width);
/* Returns a title as it is displayed. Blanks stay, and line ends become blanks. */
const char *attn_svg_title(attn_arena *arena, const char *text);
/* Returns the width of a line in pixels, from the widths of DejaVu Sans. */
double attn_svg_width(const char *text, double size, bool bold);
/* Breaks a title at blanks into at most `most` lines of at most `width` pixels. If it is longer,
 * the last line is cut. Returns the number of lines; -1: out of memory. */
int attn_svg_lines(attn_arena *arena, const char *text, const attn_svg_face *face, double width,
                   const char **lines, int most);

#endif
