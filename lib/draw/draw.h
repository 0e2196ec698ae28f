/* Declarations shared by lib/draw: appending bytes to a text, and the width of UTF-8 in columns. */
#ifndef ATTN_DRAW_DRAW_H
#define ATTN_DRAW_DRAW_H

#include "attn/text.h"

/* Append n bytes unchanged, and one character n times. */
void attn_draw_bytes(attn_text *t, const char *bytes, size_t n);
void attn_draw_repeat(attn_text *t, char c, size_t n);

/* Returns the code point of the character at p and stores its number of bytes in *size. For a
 * control character or a byte that is not UTF-8, it returns U+FFFD and size 1, so that a label
 * cannot move the cursor. */
unsigned attn_draw_decode(const char *p, size_t *size);
/* Returns the columns that a code point takes in a terminal: 0 (combining), 1 or 2 (East Asian
 * wide, emoji). It does not depend on the locale. */
size_t attn_draw_columns(unsigned code);
/* Returns the columns of a NUL-terminated text. */
size_t attn_draw_width(const char *text);
/* Appends the text. If it is wider than `width` columns, it is cut and ends with "…". */
void attn_draw_cut(attn_text *t, const char *text, size_t width);

#endif
