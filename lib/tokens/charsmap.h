/* The characters map of SentencePiece (Kudo and Richardson 2018): a trie of texts (a double array,
 * as in Darts-clone), and the replacement of each text. */
#ifndef ATTN_CHARSMAP_H
#define ATTN_CHARSMAP_H

#include "attn/memory.h"
#include "attn/status.h"

typedef struct attn_charsmap {
    const uint32_t *units; /* [count] units of the trie */
    size_t count;
    const char *texts; /* the replacements in UTF-8, each with a NUL at its end */
    size_t size;       /* bytes of `texts` */
} attn_charsmap;

/* Reads a precompiled map from n characters of base64; its memory is in the arena. Errors:
 * ATTN_EVALUE at "precompiled_charsmap", ATTN_ENOMEM. */
attn_status attn_charsmap_read(const char *base64, size_t n, attn_arena *arena, attn_charsmap *map,
                               attn_error *err);

#endif
