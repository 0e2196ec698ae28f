/* The lexicon of the English-French grammar: words with their inflected forms, made once from the
 * tables of lexicon_people.c and its neighbours. Everything lives in one arena.
 *
 * A row is one word, a blank between cells. "+" in front: also in the small setting. "/" between
 * forms that no rule gives: plural of a noun, past of an English verb, feminine of an adjective.
 * "*" in front of a French word: its h or y takes no elision ("le hibou"); of an English word: it
 * takes the other article than its spelling says ("a university", "an honest man"). Kinds of nouns:
 * p(erson), a(nimal), t(hing), f(ood), (p)l(ace), b(ook and other texts); verbs and adjectives list
 * the kinds that they go with. "|" in a French verb: what follows it names a row of endings. */
#ifndef ATTN_TEXT_LEXICON_H
#define ATTN_TEXT_LEXICON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attn/memory.h"
#include "attn/status.h"

extern const char attn_lexicon_names[], attn_lexicon_people[], attn_lexicon_places[],
    attn_lexicon_things[], attn_lexicon_endings[], attn_lexicon_acting[], attn_lexicon_alone[],
    attn_lexicon_going[], attn_lexicon_giving[], attn_lexicon_saying[], attn_lexicon_adjectives[],
    attn_lexicon_manner[], attn_lexicon_often[], attn_lexicon_prepositions[];

/* One spelling: `vowel` says that the word begins with a vowel sound. */
typedef struct attn_form {
    const char *text;
    bool vowel;
} attn_form;

enum { SINGULAR, PLURAL };
enum { MASCULINE, FEMININE };

typedef struct attn_noun {
    attn_form english[2], french[2]; /* by number */
    int gender;
    char kind; /* 'n': a name */
    uint32_t id;
} attn_noun;

typedef struct attn_adjective {
    attn_form english;
    attn_form french[2][2]; /* by gender and number */
    attn_form french_vowel; /* masculine singular before a vowel sound */
    bool before;            /* stands before the French noun */
    const char *kinds;
    uint32_t id;
} attn_adjective;

typedef struct attn_verb {
    attn_form base, third, past;     /* eat eats ate */
    attn_form present[6], future[6]; /* je tu il nous vous ils */
    attn_form participle[2][2];      /* by gender and number */
    attn_form infinitive;
    bool etre;                          /* compound past with être */
    const char *kinds;                  /* of its object */
    const char *english_to, *french_to; /* preposition of its object, or NULL */
    uint32_t id;
} attn_verb;

typedef struct attn_adverb {
    attn_form english, french;
    bool negative; /* never: takes ne */
} attn_adverb;

typedef struct attn_preposition {
    attn_form english, french;
    const char *second; /* "près de": de; or NULL */
    const char *kinds;
} attn_preposition;

#define ATTN_WORD_CLASS(type)                                                                      \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t count;                                                                              \
    }

typedef struct attn_lexicon {
    ATTN_WORD_CLASS(attn_noun) names, nouns;
    ATTN_WORD_CLASS(attn_adjective) adjectives;
    ATTN_WORD_CLASS(attn_verb) acting, alone, going, giving, saying;
    ATTN_WORD_CLASS(attn_adverb) manner, often;
    ATTN_WORD_CLASS(attn_preposition) prepositions;
    attn_verb can, must, want, be, have;
} attn_lexicon;

/* Read the tables; small: only the rows with "+". Errors: ATTN_ENOMEM; ATTN_EARG for a row that
 * does not read (a fault of the tables, found by the tests). */
attn_status attn_lexicon_read(attn_lexicon *out, bool small, attn_arena *arena, attn_error *err);

#endif
