/* Draws the lines of text that contain emoji, for PNGs. librsvg before 2.60 draws glyphs of colour
 * fonts as silhouettes. So lines with emoji are removed from the SVG before librsvg draws the SVG.
 * Pango then draws these lines over the picture. */
#ifndef ATTN_EMOJI_H
#define ATTN_EMOJI_H

#include "draw/draw.h"

typedef struct attn_emoji_line attn_emoji_line;
typedef struct _cairo attn_emoji_context; /* cairo_t, as cairo's headers declare it */

/* Finds the text lines of an SVG (as svg.c writes it) that contain emoji.
 * - Lines found: returns a list of them in the arena. *rest is a copy of the SVG with blanks
 *   instead of the text of these lines. The list has pointers into `svg`.
 * - No such lines, or Pango cannot be loaded: returns NULL and *rest = *svg.
 * - Arena full: returns NULL, and rest->failed is true. */
attn_emoji_line *attn_emoji_take(const attn_text *svg, attn_arena *arena, attn_text *rest);

/* Draws the lines on a cairo context, with `scale` pixels for each unit of length of the SVG. Draws
 * nothing if `lines` is NULL. */
void attn_emoji_draw(const attn_emoji_line *lines, attn_emoji_context *context, double scale);

#endif
