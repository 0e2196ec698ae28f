/* Names of tokens for people. Vocabularies mark in a token whether a blank precedes it: "▁cat" in those of
 * SentencePiece, "Ġcat" in those of GPT-2, whose tokens have a character for each byte ("Ġcaf" and "Ã©"). */
#ifndef ATTN_TOKEN_NAMES_H
#define ATTN_TOKEN_NAMES_H

#include "attn/tokens.h"

typedef enum attn_token_marks {
    ATTN_NO_MARKS,    /* a token is written as it is shown */
    ATTN_BLANK_MARKS, /* "▁" stands for a blank */
    ATTN_BYTE_MARKS   /* each character stands for a byte */
} attn_token_marks;

/* Returns the marks of the tokens of a text. Elements may be NULL. */
attn_token_marks attn_token_marks_of(const char *const *tokens, size_t count);

/* Returns the name of tokens[at]: a token that is a whole word is shown as the word, and a piece of a word
 * with the blank before it; a byte that is no character is shown as "<0xC3>". parts/join.ts of the page
 * names tokens alike. NULL: memory ran out, or the token is NULL. */
const char *attn_token_name(attn_token_marks marks, const char *const *tokens, size_t count,
                            size_t at, attn_arena *arena);

#endif
