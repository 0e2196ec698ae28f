/* Lines of text with emoji in a PNG. librsvg (before 2.60) fills the outlines of all glyphs, and
 * those of a font of colour bitmaps are silhouettes; so such lines are taken out of the SVG and
 * drawn by Pango, over what librsvg has drawn of the rest. */
#ifndef ATTN_EMOJI_H
#define ATTN_EMOJI_H

#include "draw/draw.h"

typedef struct attn_emoji_line attn_emoji_line;
typedef struct _cairo attn_emoji_context; /* what cairo's headers call a context */

/* The lines with emoji of an SVG of ours, in the arena, and *rest, the SVG with blanks in their
 * place. NULL: there are none, or Pango cannot be loaded, and *rest is the SVG; or
 * the arena is full, and rest->failed is set. */
attn_emoji_line *attn_emoji_take(const attn_text *svg, attn_arena *arena, attn_text *rest);

/* Draw them at `scale` pixels a unit; NULL: nothing. */
void attn_emoji_draw(const attn_emoji_line *lines, attn_emoji_context *context, double scale);

#endif
