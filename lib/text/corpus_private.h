/* What a corpus holds. */
#ifndef ATTN_TEXT_CORPUS_PRIVATE_H
#define ATTN_TEXT_CORPUS_PRIVATE_H

#include "text/sentence.h"

struct attn_corpus {
    attn_corpus_options options;
    attn_lexicon words;
    const char **symbols;
};

/* The symbols of copy, reverse and sort; how many were made. */
size_t attn_symbols_new(attn_corpus *c, attn_arena *arena);
/* A pair of these tasks of s->wanted symbols. */
void attn_symbols_draw(const attn_corpus *c, attn_sentence *s, attn_pair *out);

#endif
