/* A sentence pair while it is built: words are added to both sides as the grammar goes along, each
 * French word knowing the English words that it stands for. What depends on the next word (elision,
 * contraction, a/an) is settled at the end by attn_sentence_finish. */
#ifndef ATTN_TEXT_SENTENCE_H
#define ATTN_TEXT_SENTENCE_H

#include "attn/corpus.h"
#include "text/lexicon.h"

enum { MOST_TIES = 6, NO_WORD = ATTN_PAIR_WORDS };

typedef struct attn_tie {
    size_t word; /* English */
    bool sure;
} attn_tie;

typedef struct attn_spoken {
    attn_form form;
    const char *before_vowel; /* its form before a vowel sound, or NULL */
    bool article;             /* le, les, des, de for des: merges with de, à */
    attn_tie ties[MOST_TIES];
    size_t tie_count;
} attn_spoken;

typedef struct attn_sentence {
    const attn_lexicon *words;
    uint64_t seed, drawn; /* random numbers: the next is (seed, drawn) */
    attn_split split;
    size_t wanted; /* English words to aim at */
    attn_spoken english[ATTN_PAIR_WORDS], french[ATTN_PAIR_WORDS];
    size_t english_count, french_count;
    bool held_out; /* has a pair that training must not have */
    bool failed;   /* too long, or no word fits: to be thrown away */
} attn_sentence;

/* Random: true with probability p; 0 to n - 1. */
bool attn_chance(attn_sentence *s, double p);
size_t attn_pick(attn_sentence *s, size_t n);
/* Words still to come before the wanted length, not below 0. */
size_t attn_room(const attn_sentence *s);

/* May these two words meet in this split? Notes that a held-out pair was used. */
bool attn_may_meet(attn_sentence *s, uint32_t first, uint32_t second);
bool attn_never_meet(uint32_t first, uint32_t second);

/* Add a word; returns its place, NO_WORD when the sentence is full. */
size_t attn_say(attn_sentence *s, attn_form form);
size_t attn_dire(attn_sentence *s, attn_form form, size_t english);
/* The same for words of the grammar itself; the vowel sound goes by the spelling. */
size_t attn_say_text(attn_sentence *s, const char *text);
size_t attn_dire_text(attn_sentence *s, const char *text, size_t english);
/* The French word at `french` also stands for the English one. NO_WORD: nothing happens. */
void attn_tie_words(attn_sentence *s, size_t french, size_t english, bool sure);

/* Elide, contract and copy out. */
void attn_sentence_finish(attn_sentence *s, attn_pair *out);

#endif
