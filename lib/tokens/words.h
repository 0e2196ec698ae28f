/* Finds the words of a text as ranges of bytes. */
#ifndef ATTN_TOKENS_WORDS_H
#define ATTN_TOKENS_WORDS_H

#include "attn/tokens.h"

typedef struct attn_word_cursor {
    const char *text;
    size_t size; /* size of the text in bytes */
    size_t at;   /* byte at which the search for the next word begins */
    attn_language language;
} attn_word_cursor;

/* Finds the bytes [*begin, *end) of the next word (tokens.h) and moves the cursor behind it.
 * Returns false at invalid UTF-8, or at the end of the text, where c->at equals c->size. */
bool attn_word_next(attn_word_cursor *c, size_t *begin, size_t *end);

/* Divides `size` bytes of UTF-8 into words. Their texts are in NFC and lower case, with ' for
 * U+2019; their ids are not set. *words [*count] are in the arena. Errors: ATTN_EVALUE (not UTF-8),
 * ATTN_ENOMEM. */
attn_status attn_words_split(const char *text, size_t size, attn_language language,
                             attn_arena *arena, attn_token **words, size_t *count, attn_error *err);
/* Joins words with blanks (tokens.h). The text is in the arena; NULL if memory runs out. */
const char *attn_words_join(const char *const *words, size_t count, attn_arena *arena);

/* Returns the size in bytes of the character at byte `at`; 0 at the end of the text or at invalid
 * UTF-8. */
size_t attn_character_at(const char *text, size_t size, size_t at);

/* Returns a copy of a word with a capital letter at its beginning. NULL: memory ran out. */
const char *attn_word_capital(const char *word, attn_arena *arena);

#endif
