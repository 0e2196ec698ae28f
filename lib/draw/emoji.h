/* Lines of text with emoji in a PNG. librsvg (before 2.60) fills the outlines of all glyphs, so
 * glyphs of a colour bitmap font become silhouettes. Lines with emoji are therefore taken out of
 * the SVG, and Pango draws them over the picture that librsvg makes of the rest. */
#ifndef ATTN_EMOJI_H
#define ATTN_EMOJI_H

#include "draw/draw.h"

typedef struct attn_emoji_line attn_emoji_line;
typedef struct _cairo attn_emoji_context; /* what cairo's headers call a context */

/* Returns the lines with emoji of an SVG made by svg.c, in the arena. *rest becomes the SVG with
 * blanks in their place. NULL with *rest = the SVG: there are no such lines, or Pango cannot be
 * loaded. NULL with rest->failed: the arena is full. */
attn_emoji_line *attn_emoji_take(const attn_text *svg, attn_arena *arena, attn_text *rest);

/* Draws the lines, with `scale` pixels for each unit of length. NULL lines: draws nothing. */
void attn_emoji_draw(const attn_emoji_line *lines, attn_emoji_context *context, double scale);

#endif
