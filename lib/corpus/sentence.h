/* A sentence pair while it is made. The grammar appends words to the English and the French side,
 * and links each French word to English words (attn_link). attn_sentence_finish then applies the
 * rules that depend on the next word: elision, contraction, a/an. */
#ifndef ATTN_CORPUS_SENTENCE_H
#define ATTN_CORPUS_SENTENCE_H

#include "corpus/corpus.h"
#include "corpus/lexicon.h"

enum {
    MOST_TIES = 6,             /* largest number of links of a French word */
    NO_WORD = ATTN_PAIR_WORDS, /* the index that stands for no word */
};

/* A link from a French word to an English word (attn_link). */
typedef struct attn_tie {
    size_t word; /* index of the English word */
    bool sure;
} attn_tie;

/* A word of the sentence, and the properties that the rules for neighbouring words read. */
typedef struct attn_spoken {
    attn_form form;
    const char *before_vowel; /* spelling before a vowel sound, such as "l'" and "cet", or NULL */
    attn_part part;           /* English: the class of the word in this sentence */
    bool article;             /* an article, with which de and à may merge ("du", "aux") */
    attn_tie ties[MOST_TIES];
    size_t tie_count;
} attn_spoken;

typedef struct attn_sentence {
    const attn_lexicon *words;
    uint64_t seed, drawn; /* the next random number is number `drawn` of this seed (attn/rng.h) */
    attn_split split;
    size_t wanted; /* number of English words to aim at */
    attn_spoken english[ATTN_PAIR_WORDS], french[ATTN_PAIR_WORDS];
    size_t english_count, french_count;
    bool contracts; /* en-fr-text: "did not" becomes "didn't" */
    /* en-fr-text: index of the English auxiliary of a question, until the verb group has used it;
     * else NO_WORD */
    size_t asked;
    bool told;     /* a clause is complete; "it" and "they" would now refer to its nouns */
    bool held_out; /* the sentence has a pair of words that training excludes */
    bool failed;   /* the sentence is too long, or no word fits; it must not be used */
} attn_sentence;

/* attn_chance draws true with probability p. attn_pick draws an integer from 0 to n - 1. */
bool attn_chance(attn_sentence *s, double p);
size_t attn_pick(attn_sentence *s, size_t n);
/* Draws the index of one of the `count` words of a class. If `common` is not 0, half of the draws
 * are from the first `common` words. ATTN_PICK returns the word. */
size_t attn_pick_word(attn_sentence *s, size_t count, size_t common);
#define ATTN_PICK(s, list)                                                                         \
    (&(s)->words->list.items[attn_pick_word((s), (s)->words->list.count, (s)->words->list.common)])
/* Returns how many English words are missing to the wanted length; 0 if none are. */
size_t attn_room(const attn_sentence *s);

/* Tells whether the split allows both words, given by their ids, in one sentence. In a held-out
 * sentence all pairs are allowed; if training excludes this pair, s->held_out is set. */
bool attn_may_meet(attn_sentence *s, uint32_t first, uint32_t second);
/* Tells whether training excludes the pair of words: one pair in ten, by a hash. */
bool attn_never_meet(uint32_t first, uint32_t second);

/* attn_say appends a word of class `part` to the English side. attn_dire appends a word to the
 * French side, with a sure link to English word `english` (NO_WORD: no link). Both return the index
 * of the new word. If the side is full, they return NO_WORD and set s->failed. */
size_t attn_say(attn_sentence *s, attn_part part, attn_form form);
size_t attn_dire(attn_sentence *s, attn_form form, size_t english);
/* Do the same for a text that is no word of the lexicon. The first letter decides whether it begins
 * with a vowel sound. */
size_t attn_say_text(attn_sentence *s, attn_part part, const char *text);
size_t attn_dire_text(attn_sentence *s, const char *text, size_t english);
/* Links French word `french` to English word `english`. Does nothing if either is NO_WORD. */
void attn_tie_words(attn_sentence *s, size_t french, size_t english, bool sure);

/* Tells whether a side of the pair is one of the sentences that textbooks on attention translate.
 * Upper case and the last full stop do not matter. The splits train and validation of en-fr-text
 * have no such pair, so these sentences test a model. */
bool attn_is_textbook(const attn_pair *pair);

/* Applies elision and contraction and copies the pair to *out. If `classes`, the target consists of
 * the classes of the English words instead. */
void attn_sentence_finish(attn_sentence *s, bool classes, attn_pair *out);

#endif
