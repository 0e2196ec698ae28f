/* Words of a text, as byte ranges. */
#ifndef ATTN_TEXT_WORDS_H
#define ATTN_TEXT_WORDS_H

#include "attn/vocabulary.h"

typedef struct attn_word_cursor {
    const char *text;
    size_t size, at; /* at: where the search for the next word begins */
    attn_language language;
} attn_word_cursor;

/* Finds the bytes [*begin, *end) of the next word (attn_words_split) and moves the cursor behind
 * it. Returns false at the end of the text, then c->at == c->size, or at invalid UTF-8. */
bool attn_word_next(attn_word_cursor *c, size_t *begin, size_t *end);

/* Returns the size of the character at byte `at`; 0: at the end of the text or at invalid UTF-8. */
size_t attn_character_at(const char *text, size_t size, size_t at);

/* Returns a copy of a word with a capital letter at its beginning. NULL: memory ran out. */
const char *attn_word_capital(const char *word, attn_arena *arena);

#endif
