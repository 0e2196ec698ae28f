/* Writes SVG: numbers, attributes, elements and text. Also prepares labels and titles: makes
 * invisible characters visible, measures widths and shortens texts. Lengths are pixels. */
#ifndef ATTN_DRAW_SVG_H
#define ATTN_DRAW_SVG_H

#include "draw/colour.h"
#include "draw/draw.h"

typedef enum attn_anchor { ATTN_ANCHOR_START = 0, ATTN_ANCHOR_MIDDLE, ATTN_ANCHOR_END } attn_anchor;

/* An SVG that is being written: the text to which it is appended, and the theme of its colours. */
typedef struct attn_svg {
    attn_text *t;
    attn_theme theme;
} attn_svg;

/* Appends text unchanged. */
void attn_svg_put(attn_svg *s, const char *text);
/* Appends a number with at most two decimals, such as "12" or "0.5", never "-0". The number is not
 * written by printf, whose decimal point depends on the locale. */
void attn_svg_number(attn_svg *s, double value);
/* Appends a blank and the attribute name="value". */
void attn_svg_at(attn_svg *s, const char *name, double value);
/* Appends `before` and the numbers x and y with a blank between them, as in a path or a
 * transform. */
void attn_svg_point(attn_svg *s, const char *before, double x, double y);
/* Appends the attributes x, y, width and height. */
void attn_svg_box(attn_svg *s, double x, double y, double width, double height);
/* Append the attributes of fill colour, or of stroke colour and width. */
void attn_svg_fill(attn_svg *s, attn_rgb colour);
void attn_svg_stroke(attn_svg *s, attn_rgb colour, double width);

/* Begins the document with size, title, description and background. attn_svg_close ends it. */
void attn_svg_open(attn_svg *s, double width, double height, const char *title,
                   const char *description);
void attn_svg_close(attn_svg *s);
/* Begins a rectangle. The caller may then add attributes such as fill, and calls attn_svg_end. */
void attn_svg_rect(attn_svg *s, double x, double y, double width, double height);
void attn_svg_end(attn_svg *s); /* closes the element with "/>" */
void attn_svg_line(attn_svg *s, double x1, double y1, double x2, double y2, attn_rgb colour,
                   double width);

/* How a line of text is drawn. `size` is the font size in pixels. */
typedef struct attn_svg_face {
    double size;
    bool bold;
    attn_rgb fill;
    attn_anchor anchor;
    double turn; /* rotation around the anchor in degrees, clockwise */
} attn_svg_face;
/* Writes one line of text. y is the middle of the lower-case letters, not the base line. The text
 * is escaped, but otherwise shown as it is. */
void attn_svg_text(attn_svg *s, double x, double y, const attn_svg_face *face, const char *text);

/* Returns a token as it is displayed, in the arena. White space at the ends, line ends and tabs
 * become visible glyphs. Characters that cannot be drawn become U+FFFD. An empty token becomes "∅".
 * A label wider than `width` pixels at the font size `size` is cut and ends with "…". Returns NULL
 * if memory runs out or `token` is NULL. */
const char *attn_svg_label(attn_arena *arena, const char *token, double size, double width);
/* Returns a title as it is displayed, in the arena: line ends and tabs become blanks. NULL: out of
 * memory. */
const char *attn_svg_title(attn_arena *arena, const char *text);
/* Returns attn_svg_label of attn_svg_title(arena, text): a title that is cut to `width` pixels. */
const char *attn_svg_name(attn_arena *arena, const char *text, double size, double width);
/* Returns the width of a line in pixels at font size `size`, from a table of DejaVu Sans. */
double attn_svg_width(const char *text, double size, bool bold);
/* Breaks a title at its line ends, and at blanks, into at most `most` lines of at most `width`
 * pixels. The last line is cut if the rest of the title does not fit. Returns the number of lines,
 * or -1 if memory runs out. */
int attn_svg_lines(attn_arena *arena, const char *text, const attn_svg_face *face, double width,
                   const char **lines, int most);

#endif
