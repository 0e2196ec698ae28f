/* The lexicon of the English-French grammar: the words of lexicon.txt with all inflected forms. */
#ifndef ATTN_CORPUS_LEXICON_H
#define ATTN_CORPUS_LEXICON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attn/memory.h"
#include "attn/status.h"

/* One spelling of a word. */
typedef struct attn_form {
    const char *text;
    bool vowel; /* the word begins with a vowel sound */
} attn_form;

enum { SINGULAR, PLURAL };
enum { MASCULINE, FEMININE };

typedef struct attn_noun {
    attn_form english[2], french[2]; /* [number]: SINGULAR or PLURAL */
    int gender;
    char kind;   /* letter of the noun's kind (lexicon.txt); 'n' for names */
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
    const char *kinds;                  /* kinds of nouns that the object can be */
    const char *english_to, *french_to; /* preposition before the object; NULL: none */
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

/* A verb of posture. English has a verb, French has être and an adjective ("sat": "était
 * assis"). */
typedef struct attn_posture {
    attn_verb verb;        /* the English forms of the verb, and the French forms of être */
    attn_form state[2][2]; /* [gender][number] */
} attn_posture;

/* A profession. French uses it without an article, in the gender of the person. */
typedef struct attn_role {
    attn_form english[2];   /* [number] */
    attn_form french[2][2]; /* [gender][number] */
} attn_role;

/* Endings of a group of French verbs. `key` is the text after the bar of an infinitive. */
typedef struct attn_endings {
    const char *key, *present[6], *participle, *future;
} attn_endings;

/* A French word such as "le", and its form before a vowel sound ("l'"). */
typedef struct attn_elision {
    const char *text, *before_vowel;
} attn_elision;

/* English words that become one word in informal sentences. */
typedef struct attn_contraction {
    const char *first, *second, *joined;
} attn_contraction;

/* The auxiliary of a question in the present, and its subject. */
typedef struct attn_opening {
    const char *auxiliary, *pronoun;
} attn_opening;

/* The words of a class. In the lexicon of en-fr-text the first `common` ones are drawn more often
 * than the others. */
#define ATTN_WORD_CLASS(type)                                                                      \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t count, common;                                                                      \
    }

typedef struct attn_lexicon {
    ATTN_WORD_CLASS(attn_endings) endings;
    ATTN_WORD_CLASS(attn_verb) auxiliaries; /* the five verbs of the next line */
    const attn_verb *can, *must, *want, *be, *have;
    ATTN_WORD_CLASS(attn_noun) names, nouns;
    ATTN_WORD_CLASS(attn_adjective) adjectives;
    ATTN_WORD_CLASS(attn_verb) acting;   /* verbs with an object */
    ATTN_WORD_CLASS(attn_verb) alone;    /* verbs without an object */
    ATTN_WORD_CLASS(attn_verb) going;    /* verbs of going to a place */
    ATTN_WORD_CLASS(attn_verb) giving;   /* verbs of giving a thing to a person */
    ATTN_WORD_CLASS(attn_verb) saying;   /* verbs with a "that" clause */
    ATTN_WORD_CLASS(attn_adverb) manner; /* adverbs of manner */
    ATTN_WORD_CLASS(attn_adverb) often;  /* adverbs of frequency */
    ATTN_WORD_CLASS(attn_preposition) prepositions;
    ATTN_WORD_CLASS(attn_elision) elisions;
    /* The members below are for the task en-fr-text, and empty for the other tasks. */
    bool text;                       /* the lexicon of en-fr-text; names have capital letters */
    ATTN_WORD_CLASS(attn_noun) mass; /* nouns without a plural: bread, music; kinds f, d, o */
    ATTN_WORD_CLASS(attn_role) roles;
    ATTN_WORD_CLASS(attn_posture) postures;
    ATTN_WORD_CLASS(attn_contraction) contractions;
    ATTN_WORD_CLASS(attn_opening) openings;
    /* Verbs whose English object has no article, by the article of the French object. */
    ATTN_WORD_CLASS(attn_verb) generic;   /* definite article: "j'aime le pain" */
    ATTN_WORD_CLASS(attn_verb) partitive; /* partitive article: "je mange du pain" */
    ATTN_WORD_CLASS(attn_form) invented;  /* names without a meaning, which are copied */
} attn_lexicon;

typedef enum attn_lexicon_kind {
    ATTN_SMALL_LEXICON,
    ATTN_LARGE_LEXICON,
    ATTN_TEXT_LEXICON
} attn_lexicon_kind;

extern const char attn_lexicon_text[]; /* lexicon.txt, which the Makefile embeds */

/* Makes a lexicon in the arena, from a text in the format of lexicon.txt. Errors: ATTN_ENOMEM;
 * ATTN_EARG if a row is malformed (err->text names the line) or if there are not five
 * auxiliaries. */
attn_status attn_lexicon_read(attn_lexicon *out, const char *text, attn_lexicon_kind kind,
                              attn_arena *arena, attn_error *err);

#endif
