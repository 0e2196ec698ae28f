/* A text while a tokenizer processes it: its bytes, the part of the original text that each byte
 * comes from, and the pieces into which it has been divided so far. */
#ifndef ATTN_ALIGNED_H
#define ATTN_ALIGNED_H

#include "attn/memory.h"

/* Bytes [begin, end) of the original text. */
typedef struct attn_origin {
    uint32_t begin, end;
} attn_origin;

/* Bytes [begin, end) of an aligned text. */
typedef struct attn_piece {
    size_t begin, end;
    /* the added token that the piece is; -1: the piece has yet to be divided into tokens */
    int32_t id;
} attn_piece;

typedef struct attn_aligned {
    attn_arena *arena; /* holds all arrays below */
    char *text;
    attn_origin *origins; /* [size]: all bytes of a character have the same origin */
    size_t size, room;
    attn_piece *pieces; /* in the order of the text; no piece is empty */
    size_t count, piece_room;
    /* Arrays that are no longer in use; the next step writes its result into them. */
    char *spare_text;
    attn_origin *spare_origins;
    size_t spare_room;
    attn_piece *spare_pieces;
    size_t spare_piece_room;
} attn_aligned;

/* A character of a rewritten piece. change > 0: the character is inserted, and has the origin of
 * the character before it in the old text. Otherwise it replaces 1 - change characters of the old
 * text. */
typedef struct attn_change {
    int32_t c, change;
} attn_change;

/* All functions return false if memory runs out. */

/* Opens an aligned text with one piece, the whole text, which must be smaller than 4 GiB. An empty
 * text has no pieces. */
bool attn_aligned_open(attn_aligned *a, const char *text, size_t size, attn_arena *arena);
/* These functions append n bytes, or a character, with their origin, or a piece. An empty piece is
 * not appended. */
bool attn_aligned_bytes(attn_aligned *a, const char *bytes, size_t n, attn_origin origin);
bool attn_aligned_put(attn_aligned *a, int32_t c, attn_origin origin);
bool attn_aligned_piece(attn_aligned *a, size_t begin, size_t end, int32_t id);
/* Appends the bytes [begin, end) of another text with their origins. */
bool attn_aligned_copy(attn_aligned *a, const attn_aligned *from, size_t begin, size_t end);
/* Appends the new characters [0, count) of a piece of another text. */
bool attn_aligned_changes(attn_aligned *a, const attn_aligned *from, const attn_piece *piece,
                          const attn_change *changes, size_t count);

/* Divides each piece that is not a token. `divide` appends the pieces of bytes [begin, end). */
typedef bool attn_divide(attn_aligned *a, size_t begin, size_t end, const void *with);
bool attn_aligned_divide(attn_aligned *a, attn_divide *divide, const void *with);
/* Rewrites each piece that is not a token. `rewrite` appends the new text of a piece of `from` to
 * `to`. Pieces that become empty disappear. */
typedef bool attn_rewrite(attn_aligned *to, const attn_aligned *from, const attn_piece *piece,
                          const void *with);
bool attn_aligned_rewrite(attn_aligned *a, attn_rewrite *rewrite, const void *with);

#endif
