/* Shared by lib/draw: decodes UTF-8 and measures text in terminal columns. */
#ifndef ATTN_DRAW_DRAW_H
#define ATTN_DRAW_DRAW_H

#include "attn/text.h"

/* Decodes the character at p: returns its code point and stores its length in bytes in *size. A
 * byte that is not UTF-8 counts as one character, U+FFFD. Control characters become U+FFFD too, so
 * that a label cannot move the cursor. */
unsigned attn_draw_decode(const char *p, size_t *size);
/* Appends the character that attn_draw_decode has decoded at p: `size` bytes, or U+FFFD. */
void attn_draw_character(attn_text *t, unsigned code, const char *p, size_t size);
/* Returns the number of columns that a code point takes in a terminal: 0 (combining), 1, or 2 (East
 * Asian wide, emoji). The locale has no effect. */
size_t attn_draw_columns(unsigned code);
/* Returns the number of columns of a NUL-terminated text. */
size_t attn_draw_width(const char *text);
/* Appends the text. If the text is wider than `width` columns, appends its longest beginning that
 * fits together with a final "…". */
void attn_draw_cut(attn_text *t, const char *text, size_t width);

#endif
