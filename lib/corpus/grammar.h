/* The phrases of the English-French grammar. Each function draws words at random and appends them
 * to both sides of the sentence pair. "say" adds English words, "dire" French ones. */
#ifndef ATTN_CORPUS_GRAMMAR_H
#define ATTN_CORPUS_GRAMMAR_H

#include "corpus/sentence.h"

enum {
    TRIES = 24,  /* number of draws to find a word that fits */
    DEEPEST = 3, /* largest depth of clauses and phrases within each other */
};
enum { JE, TU, IL, NOUS, VOUS, ILS }; /* persons of a French conjugation, as indices */

/* The properties of a noun phrase that decide agreement and which verbs, adjectives and relative
 * clauses go with it. */
typedef struct attn_subject {
    int gender, number; /* values of lexicon.h */
    int person;         /* index of a conjugation (JE … ILS) */
    char kind;          /* kind of the noun (lexicon.txt); 'p' for pronouns and names */
    uint32_t noun;      /* hash of the noun; 0: a pronoun, a name or several nouns */
    size_t head;        /* index of the noun (or pronoun) in the English sentence */
    bool is_pronoun;
} attn_subject;

/* Conditions that a drawn noun phrase must meet. */
typedef struct attn_noun_choice {
    const char *kinds;     /* letters of the allowed kinds of nouns */
    const attn_verb *verb; /* the verb whose object the noun phrase is, or NULL */
    bool negated; /* in a negated clause: "de" instead of "un", "des"; "any" instead of "some" */
    int depth;    /* number of clauses and phrases around this one; limits nesting */
} attn_noun_choice;

typedef enum attn_tense { PRESENT, PAST, FUTURE } attn_tense;

/* attn_noun_phrase adds a noun phrase, attn_nouns adds one noun phrase or two joined with "and",
 * and attn_pronoun adds a subject pronoun. They return the properties of the added words. */
attn_subject attn_noun_phrase(attn_sentence *s, attn_noun_choice choice);
attn_subject attn_nouns(attn_sentence *s, attn_noun_choice choice);
attn_subject attn_pronoun(attn_sentence *s);
/* Add a phrase such as "in the garden", with a given preposition or with one that is drawn. */
void attn_preposition_with(attn_sentence *s, const attn_preposition *p, int depth);
void attn_preposition_phrase(attn_sentence *s, int depth);
/* Draws an adjective that can describe nouns of this kind. `noun` is the id of a noun with which
 * the split must allow the adjective; 0: none. NULL: no adjective was found. */
const attn_adjective *attn_adjective_for(attn_sentence *s, char kind, uint32_t noun);

/* Adds the pronoun "I", "you", "he", "she", "we", "they" or "it" as a subject. */
attn_subject attn_pronoun_of(attn_sentence *s, const char *english);
/* Adds the verb of the subject and what follows it: objects, adverbs, complements. */
void attn_predicate(attn_sentence *s, const attn_subject *subject, attn_tense tense, int depth);
/* Adds a predicate with "be": "is old", "is very old" or "is in the garden". */
void attn_be(attn_sentence *s, const attn_subject *subject, attn_tense tense, int depth);
/* Adds a predicate with another verb. */
void attn_do(attn_sentence *s, const attn_subject *subject, attn_tense tense, int depth);
/* Adds an adjective to the predicate. The French adjective agrees with the subject `who`. Returns
 * the index of the French adjective. */
size_t attn_say_adjective(attn_sentence *s, const attn_adjective *a, const attn_subject *who);
/* Adds an adverb before an adjective: "very", or in en-fr-text also "too" or "quite". */
void attn_say_degree(attn_sentence *s);
/* Adds a relative clause whose object is the noun before it: "that", subject, verb. */
void attn_object_relative(attn_sentence *s, const attn_subject *noun);
/* Makes a whole sentence. Most sentences end with a full stop (see grammar_clause.c). */
void attn_whole_sentence(attn_sentence *s);

/* A verb, and the conditions that decide its form and the words around it. */
typedef struct attn_verb_choice {
    const attn_verb *verb;
    attn_tense tense;
    const attn_verb *modal;   /* can, must or want, only in the present tense; or NULL */
    bool negated;             /* the verb is negated: "not", in French "ne … pas" */
    const attn_adverb *often; /* adverb of frequency such as often or never; or NULL */
    int object; /* index of the pronoun that is the object: 0 … 6 (me … them, it); -1: none */
    bool rests; /* a verb of posture of en-fr-text: French has être and an adjective */
    bool progressive; /* "is eating", "was eating" of en-fr-text; no modal, no future */
    /* in a relative clause: the noun that "que" stands for; else NULL */
    const attn_subject *before;
} attn_verb_choice;

/* Adds a verb group to both sides. Returns the index of the main verb in the English sentence. */
size_t attn_verb_group(attn_sentence *s, const attn_subject *subject,
                       const attn_verb_choice *choice);
/* Draws the form of a verb with attn_decorate and adds the verb group. Returns the drawn form. */
attn_verb_choice attn_decorated_verb(attn_sentence *s, const attn_subject *subject,
                                     const attn_verb *verb, attn_tense tense);
/* Tells whether French has "ne": English has "not" or an adverb such as never. */
bool attn_is_negative(const attn_verb_choice *choice);
/* Draws negation, adverb of frequency, modal verb and progressive form for w->verb and w->tense,
 * and sets w->object to -1. */
void attn_decorate(attn_sentence *s, attn_verb_choice *w);

/* Both functions draw a form that only en-fr-text has (grammar_text.c). attn_text_predicate adds a
 * verb and its complements; if the drawn form does not fit the subject, it adds no word and returns
 * false. attn_text_sentence adds a sentence without the mark at its end and returns this mark;
 * NULL: it added no word. */
bool attn_text_predicate(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth);
const char *attn_text_sentence(attn_sentence *s);

#endif
