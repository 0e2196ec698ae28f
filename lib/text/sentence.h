/* A sentence pair under construction. The grammar adds words to both sides and links each French
 * word to the English words that it translates. attn_sentence_finish applies the rules that depend
 * on the next word (elision, contraction, a/an). */
#ifndef ATTN_TEXT_SENTENCE_H
#define ATTN_TEXT_SENTENCE_H

#include "attn/corpus.h"
#include "text/lexicon.h"

enum { MOST_TIES = 6, NO_WORD = ATTN_PAIR_WORDS };

typedef struct attn_tie {
    size_t word; /* index of the English word */
    bool sure;
} attn_tie;

typedef struct attn_spoken {
    attn_form form;
    const char *before_vowel; /* its form before a vowel sound, or NULL */
    bool article;             /* le, les, des, or de instead of des: it merges with de and à */
    attn_tie ties[MOST_TIES];
    size_t tie_count;
} attn_spoken;

typedef struct attn_sentence {
    const attn_lexicon *words;
    uint64_t seed, drawn; /* the next random number has this seed and index (attn/rng.h) */
    attn_split split;
    size_t wanted; /* target length in English words */
    attn_spoken english[ATTN_PAIR_WORDS], french[ATTN_PAIR_WORDS];
    size_t english_count, french_count;
    bool held_out; /* has a pair that is excluded from training */
    bool failed;   /* too long, or no word fits; the sentence is discarded */
} attn_sentence;

/* attn_chance draws true with probability p. attn_pick draws a number from 0 to n - 1. */
bool attn_chance(attn_sentence *s, double p);
size_t attn_pick(attn_sentence *s, size_t n);
/* Returns the number of words left to the wanted length, at least 0. */
size_t attn_room(const attn_sentence *s);

/* Tells whether the split allows this pair of words, and records the use of a held-out pair. */
bool attn_may_meet(attn_sentence *s, uint32_t first, uint32_t second);
bool attn_never_meet(uint32_t first, uint32_t second);

/* Add a word to the English or the French sentence. Return its index, or NO_WORD if the sentence is
 * full. */
size_t attn_say(attn_sentence *s, attn_form form);
size_t attn_dire(attn_sentence *s, attn_form form, size_t english);
/* Adds a word of the grammar itself. The spelling decides whether it begins with a vowel sound. */
size_t attn_say_text(attn_sentence *s, const char *text);
size_t attn_dire_text(attn_sentence *s, const char *text, size_t english);
/* Adds a link from French word `french` to English word `english`. NO_WORD: does nothing. */
void attn_tie_words(attn_sentence *s, size_t french, size_t english, bool sure);

/* Applies elision and contraction and copies the pair to *out. */
void attn_sentence_finish(attn_sentence *s, attn_pair *out);

#endif
