/* The lexicon of the English-French grammar: words with their inflected forms, made once from the
 * tables of lexicon_people.c and its neighbours. Everything lives in one arena.
 *
 * A row describes one word; blanks separate its cells. Marks in a row:
 *   +  at the start of a row: the word is also in the small lexicon
 *   /  separates irregular forms: plural of a noun, past of an English verb, feminine of an
 *      adjective
 *   *  before a French word: no elision before its h or y ("le hibou"); before an English word: the
 *      other article than its spelling suggests ("a university", "an honest man")
 *   |  in a French infinitive: the text after it names a row of endings
 * Kinds of nouns are p(erson), a(nimal), t(hing), f(ood), (p)l(ace), b(ook and other texts). Verbs
 * and adjectives list the kinds of nouns that they go with. */
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

/* One spelling of a word. `vowel` is true if the word begins with a vowel sound. */
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
    bool etre;                          /* the compound past takes être */
    const char *kinds;                  /* allowed kinds of its object */
    const char *english_to, *french_to; /* preposition of its object, or NULL */
    uint32_t id;
} attn_verb;

typedef struct attn_adverb {
    attn_form english, french;
    bool negative; /* takes "ne" in French, as "never" does */
} attn_adverb;

typedef struct attn_preposition {
    attn_form english, french;
    const char *second; /* second French word, such as "de" in "près de"; or NULL */
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

/* Reads the word tables. With `small` it reads only rows with "+". Errors: ATTN_ENOMEM; ATTN_EARG
 * (a malformed row, which the tests would find). */
attn_status attn_lexicon_read(attn_lexicon *out, bool small, attn_arena *arena, attn_error *err);

#endif
