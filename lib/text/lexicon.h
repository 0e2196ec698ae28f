/* The lexicon of the English-French grammar: words with all inflected forms. It is made once, in
 * one arena, from the tables of lexicon_people.c and the files beside it.
 *
 * A table has one word in a row. Blanks separate the cells of a row. Marks:
 *
 *   +  at the start of a row: the word is also in the small lexicon
 *   /  precedes an irregular form: plural of a noun, past of an English verb,
 *      feminine of an adjective
 *   *  before a French word: no elision before its h or y ("le hibou");
 *      before an English word: it takes the other article than its first letter suggests
 *      ("a university", "an honest man")
 *   |  in a French infinitive: the text after it selects a row of attn_lexicon_endings
 *
 * Letters for kinds of nouns: p person, a animal, t thing, f food, l place, b book or other text;
 * of mass nouns: f food, d drink, o other.
 * The kinds of a verb or an adjective are those of the nouns that it can go with. */
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

/* The additional words of the task en-fr-text (lexicon_text.c). A row replaces the row of the same
 * English word in the table of the same class above. */
extern const char attn_text_names[], attn_text_nouns[], attn_text_adjectives[], attn_text_acting[],
    attn_text_manner[], attn_text_mass[], attn_text_roles[], attn_text_postures[],
    attn_text_generic[], attn_text_partitive[];

/* One spelling of a word. `vowel`: it begins with a vowel sound. */
typedef struct attn_form {
    const char *text;
    bool vowel;
} attn_form;

enum { SINGULAR, PLURAL };
enum { MASCULINE, FEMININE };

typedef struct attn_noun {
    attn_form english[2], french[2]; /* [number], of SINGULAR and PLURAL */
    int gender;
    char kind;   /* letter of the kind; 'n' for names */
    uint32_t id; /* hash of the English word; 0 for names */
} attn_noun;

typedef struct attn_adjective {
    attn_form english;
    attn_form french[2][2]; /* [gender][number] */
    attn_form french_vowel; /* masculine singular before a vowel sound ("vieil") */
    bool before;            /* the French adjective precedes the noun */
    const char *kinds;      /* kinds of nouns that the adjective can describe */
    uint32_t id;
} attn_adjective;

typedef struct attn_verb {
    attn_form base, third, past;     /* forms such as eat, eats, ate */
    attn_form present[6], future[6]; /* [person]: je, tu, il, nous, vous, ils */
    attn_form participle[2][2];      /* [gender][number] */
    attn_form ing, imperfect[6];     /* eating; mangeais, … by person */
    attn_form infinitive;
    bool etre;                          /* the compound past is formed with être, not avoir */
    const char *kinds;                  /* kinds of nouns that its object can be */
    const char *english_to, *french_to; /* preposition before its object; NULL: none */
    uint32_t id;
} attn_verb;

typedef struct attn_adverb {
    attn_form english, french;
    bool negative; /* takes "ne" in French, as "never" does */
} attn_adverb;

typedef struct attn_preposition {
    attn_form english, french;
    /* second word of the French preposition, such as "de" in "près de"; NULL: none */
    const char *second;
    const char *kinds; /* kinds of nouns that can follow */
} attn_preposition;

/* A verb of posture: English has a verb, French être and an adjective ("sat": "était assis"). */
typedef struct attn_posture {
    attn_verb verb; /* its English forms */
    attn_adjective state;
} attn_posture;

/* A profession. French uses it without an article, in the gender of the person. */
typedef struct attn_role {
    attn_form english[2];   /* [number] */
    attn_form french[2][2]; /* [gender][number] */
} attn_role;

/* The words of a class. In the lexicon of en-fr-text the first `common` ones are drawn more often
 * than the others. */
#define ATTN_WORD_CLASS(type)                                                                      \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t count, common;                                                                      \
    }

typedef struct attn_lexicon {
    ATTN_WORD_CLASS(attn_noun) names, nouns;
    ATTN_WORD_CLASS(attn_adjective) adjectives;
    /* Verbs by what follows: an object, nothing, a place, a thing and a person, a clause. */
    ATTN_WORD_CLASS(attn_verb) acting, alone, going, giving, saying;
    ATTN_WORD_CLASS(attn_adverb) manner, often;
    ATTN_WORD_CLASS(attn_preposition) prepositions;
    attn_verb can, must, want, be, have;
    /* The rest is for the task en-fr-text, and empty for en-fr. */
    bool text;                       /* the lexicon of en-fr-text */
    ATTN_WORD_CLASS(attn_noun) mass; /* nouns without a plural: bread, music; kinds f, d, o */
    ATTN_WORD_CLASS(attn_role) roles;
    ATTN_WORD_CLASS(attn_posture) postures;
    /* Verbs whose object has no article in English, by the French article: "j'aime le pain", "je
     * mange du pain". */
    ATTN_WORD_CLASS(attn_verb) generic, partitive;
    ATTN_WORD_CLASS(attn_form) invented; /* names without a meaning, which are copied */
} attn_lexicon;

/* Makes the lexicon from the tables; with `small`, only from rows with "+". Errors: ATTN_ENOMEM;
 * ATTN_EARG if a row is malformed (tests exclude this). */
attn_status attn_lexicon_read(attn_lexicon *out, bool small, attn_arena *arena, attn_error *err);
/* Makes the lexicon of en-fr-text from all rows, those of lexicon_text.c included. Names and "I"
 * have capital letters. Errors as above. */
attn_status attn_lexicon_read_text(attn_lexicon *out, attn_arena *arena, attn_error *err);

#endif
