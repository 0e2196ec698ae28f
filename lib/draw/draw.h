/* What the files of the drawing room share: bytes into a text, and columns of UTF-8. */
#ifndef ATTN_DRAW_DRAW_H
#define ATTN_DRAW_DRAW_H

#include "attn/text.h"

/* n bytes as they are, and one character n times. */
void attn_draw_bytes(attn_text *t, const char *bytes, size_t n);
void attn_draw_repeat(attn_text *t, char c, size_t n);

/* The character that starts at p: its bytes into *size, its code point returned. A byte that is not
 * UTF-8 and a control character become U+FFFD of one byte, so that a label cannot move the cursor.
 */
unsigned attn_draw_decode(const char *p, size_t *size);
/* Columns a code point takes in a terminal: 0 (combining), 1 or 2 (East Asian wide, emoji).
 * Independent of the locale. */
size_t attn_draw_columns(unsigned code);
/* Columns of a NUL-terminated text. */
size_t attn_draw_width(const char *text);
/* The text, cut to `width` columns with "…" at the cut. */
void attn_draw_cut(attn_text *t, const char *text, size_t width);

#endif
