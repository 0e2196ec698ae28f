/* The phrases of the English-French grammar. Each function adds its words to both sides. */
#ifndef ATTN_TEXT_GRAMMAR_H
#define ATTN_TEXT_GRAMMAR_H

#include "text/sentence.h"

enum { JE, TU, IL, NOUS, VOUS, ILS }; /* places in a conjugation */

/* The properties of a noun phrase that verbs, adjectives and relative clauses depend on. */
typedef struct attn_subject {
    int gender, number, person;
    char kind;     /* kind of the noun (lexicon.h); 'p' for pronouns and names */
    uint32_t noun; /* id of the noun; 0: a pronoun, a name or several nouns */
    size_t head;   /* index of the noun among the English words */
    bool is_pronoun;
} attn_subject;

typedef struct attn_noun_choice {
    const char *kinds;     /* allowed kinds of the noun */
    const attn_verb *verb; /* the verb whose object the noun is, or NULL */
    bool negated;          /* "de" instead of "un", "des"; "any" instead of "some" */
    int depth;             /* nesting depth of clauses and phrases */
} attn_noun_choice;

typedef enum attn_tense { PRESENT, PAST, FUTURE } attn_tense;

attn_subject attn_noun_phrase(attn_sentence *s, attn_noun_choice choice);
/* Adds one or two noun phrases. */
attn_subject attn_nouns(attn_sentence *s, attn_noun_choice choice);
attn_subject attn_pronoun(attn_sentence *s);
void attn_preposition_phrase(attn_sentence *s, int depth);
/* Draws an adjective that fits the noun and that the split allows with it, or NULL. */
const attn_adjective *attn_adjective_for(attn_sentence *s, char kind, uint32_t noun);
attn_form attn_agree(const attn_adjective *a, int gender, int number);

/* Adds the verb and everything after it. `tense` is the tense of the sentence. */
void attn_predicate(attn_sentence *s, const attn_subject *subject, attn_tense tense, int depth);
/* Adds a relative clause, "that" subject verb, whose object is the noun. */
void attn_object_relative(attn_sentence *s, const attn_subject *noun);
/* Makes a whole sentence with its full stop. */
void attn_whole_sentence(attn_sentence *s);

/* The form of a verb, with negation, adverbs and objects. */
typedef struct attn_verb_choice {
    const attn_verb *verb;
    attn_tense tense;
    const attn_verb *modal;     /* can, must, want, or NULL: present only */
    bool negated;               /* not */
    const attn_adverb *often;   /* often, never, …; or NULL */
    int object;                 /* a pronoun as the object: 0 to 5 (me … them), -1: none */
    const attn_subject *before; /* the object that "que" stands for, or NULL */
} attn_verb_choice;

#endif
