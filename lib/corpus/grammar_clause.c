/* Verb groups, predicates, clauses and whole sentences of the grammar. A verb group is a verb with
 * its auxiliaries, negation, adverb of frequency and object pronoun. */
#include <string.h>

#include "attn/rng.h"
#include "corpus/grammar.h"

/* The imperfect of être by person. It translates English "was", instead of a compound past. */
static const char *const was[6] = {"étais", "étais", "était", "étions", "étiez", "étaient"};

/* Object pronouns and their properties. Only en-fr-text has the last pronoun. */
static const struct {
    const char *english, *french;
    attn_subject who;
} objects[7] = {
    {"me", "me", {MASCULINE, SINGULAR, JE, 'p', 0, 0, true}},
    {"him", "le", {MASCULINE, SINGULAR, IL, 'p', 0, 0, true}},
    {"her", "la", {FEMININE, SINGULAR, IL, 'p', 0, 0, true}},
    {"us", "nous", {MASCULINE, PLURAL, NOUS, 'p', 0, 0, true}},
    {"you", "vous", {MASCULINE, PLURAL, VOUS, 'p', 0, 0, true}},
    {"them", "les", {MASCULINE, PLURAL, ILS, 'p', 0, 0, true}},
    {"it", "le", {MASCULINE, SINGULAR, IL, 't', 0, 0, true}},
};

/* The English words of a verb group, as indices in the English sentence; NO_WORD if absent. */
typedef struct english_indices {
    size_t verb, aux, negation, often, object;
    size_t help; /* "do" before "want" */
    size_t to;   /* "to" after "want" */
    size_t at;   /* preposition, as in "look at" */
} english_indices;

static bool is_third(const attn_subject *subject) {
    return subject->person == IL;
}

static size_t say_be(attn_sentence *s, const attn_subject *who, attn_tense tense) {
    bool one = who->number == SINGULAR;
    if (tense == PAST)
        return attn_say_text(s, ATTN_AUXILIARY, one ? "was" : "were");
    return attn_say_text(s, ATTN_AUXILIARY, who->person == JE ? "am" : one ? "is" : "are");
}

static const english_indices no_indices = {NO_WORD, NO_WORD, NO_WORD, NO_WORD,
                                           NO_WORD, NO_WORD, NO_WORD, NO_WORD};

/* Returns the index of the auxiliary that began the question, and marks it as used. */
static size_t take_question_auxiliary(attn_sentence *s) {
    const size_t asked = s->asked;
    s->asked = NO_WORD;
    return asked;
}

/* Adds the English verb group of "be". A negated verb group of "be" has no "do". */
static english_indices say_being(attn_sentence *s, const attn_subject *who,
                                 const attn_verb_choice *w) {
    english_indices h = no_indices;
    const bool asks = s->asked != NO_WORD;
    if (w->tense == FUTURE)
        h.aux = asks ? take_question_auxiliary(s) : attn_say_text(s, ATTN_AUXILIARY, "will");
    else
        h.verb = asks ? take_question_auxiliary(s) : say_be(s, who, w->tense);
    if (w->negated)
        h.negation = attn_say_text(s, ATTN_PARTICLE, "not");
    if (w->often)
        h.often = attn_say(s, ATTN_ADVERB, w->often->english);
    if (w->tense == FUTURE)
        h.verb = attn_say_text(s, ATTN_AUXILIARY, "be");
    return h;
}

static void say_auxiliary(attn_sentence *s, const attn_subject *who, const attn_verb_choice *w,
                          english_indices *h) {
    const attn_lexicon *words = s->words;
    bool wants = w->modal == words->want, do_it = w->negated && (!w->modal || wants);
    if (w->progressive)
        h->aux = say_be(s, who, w->tense);
    else if (w->tense == FUTURE)
        h->aux = attn_say_text(s, ATTN_AUXILIARY, "will");
    else if (do_it)
        h->aux = attn_say_text(s, ATTN_AUXILIARY,
                               w->tense == PAST ? "did"
                               : is_third(who)  ? "does"
                                                : "do");
    if (w->modal && !wants)
        h->aux = attn_say(s, ATTN_AUXILIARY, w->modal->base);
    if (w->negated)
        h->negation = attn_say_text(s, ATTN_PARTICLE, "not");
    if (w->often)
        h->often = attn_say(s, ATTN_ADVERB, w->often->english);
    if (wants) {
        h->help = h->aux;
        h->aux =
            attn_say(s, ATTN_AUXILIARY, do_it || !is_third(who) ? w->modal->base : w->modal->third);
        h->to = attn_say_text(s, ATTN_PARTICLE, "to");
    }
}

static english_indices say_group(attn_sentence *s, const attn_subject *who,
                                 const attn_verb_choice *w) {
    if (w->verb == s->words->be)
        return say_being(s, who, w);
    english_indices h = no_indices;
    const bool asks = s->asked != NO_WORD;
    if (asks)
        h.aux = take_question_auxiliary(s);
    else
        say_auxiliary(s, who, w, &h);
    bool base = w->tense == FUTURE || w->modal || w->negated || asks;
    attn_form form = w->progressive     ? w->verb->ing
                     : base             ? w->verb->base
                     : w->tense == PAST ? w->verb->past
                     : is_third(who)    ? w->verb->third
                                        : w->verb->base;
    h.verb = attn_say(s, ATTN_VERB, form);
    if (w->verb->english_to) {
        size_t to = attn_say_text(s, ATTN_PREPOSITION, w->verb->english_to);
        if (!w->verb->french_to)
            h.at = to;
    }
    if (w->object >= 0)
        h.object = attn_say_text(s, ATTN_PRONOUN, objects[w->object].english);
    return h;
}

/* Returns the conjugated verb of the French verb group. In a compound past this is the
 * auxiliary. */
static attn_form conjugated_verb(const attn_sentence *s, const attn_subject *who,
                                 const attn_verb_choice *w) {
    const attn_lexicon *words = s->words;
    if (w->modal)
        return w->modal->present[who->person];
    if (w->tense == FUTURE)
        return w->verb->future[who->person];
    if (w->tense == PRESENT)
        return w->verb->present[who->person];
    if (w->verb == words->be || w->rests)
        return (attn_form){was[who->person], true};
    if (w->progressive)
        return w->verb->imperfect[who->person];
    return (w->verb->etre ? words->be : words->have)->present[who->person];
}

/* Returns the French participle. A participle after être agrees with the subject. A participle
 * after avoir agrees with the object if the object precedes it. */
static attn_form participle(const attn_subject *who, const attn_verb_choice *w) {
    const attn_subject *with = w->verb->etre    ? who
                               : w->object >= 0 ? &objects[w->object].who
                                                : w->before;
    return w->verb->participle[with ? with->gender : MASCULINE][with ? with->number : SINGULAR];
}

static void dire_object(attn_sentence *s, const attn_verb_choice *w, const english_indices *h) {
    if (w->object >= 0)
        attn_dire_text(s, objects[w->object].french, h->object);
}

static void dire_main(attn_sentence *s, attn_form form, const attn_subject *who,
                      const attn_verb_choice *w, const english_indices *h) {
    size_t place = attn_dire(s, form, h->verb);
    attn_tie_words(s, place, h->to, false);
    attn_tie_words(s, place, h->at, false);
    if (w->tense == PAST && !w->modal && w->verb->etre)
        attn_tie_words(s, place, who->head, false);
    if (w->tense == PAST && w->before)
        attn_tie_words(s, place, w->before->head, false);
}

static void dire_group(attn_sentence *s, const attn_subject *who, const attn_verb_choice *w,
                       const english_indices *h) {
    bool compound =
        w->tense == PAST && !w->modal && w->verb != s->words->be && !w->progressive && !w->rests;
    bool never = w->often && w->often->negative;
    if (w->negated || never)
        attn_dire_text(s, "ne", never ? h->often : h->negation);
    if (!w->modal)
        dire_object(s, w, h);
    size_t first = attn_dire(s, conjugated_verb(s, who, w), w->modal ? h->aux : h->verb);
    attn_tie_words(s, first, who->head, false);
    attn_tie_words(s, first, h->aux, w->modal || compound);
    attn_tie_words(s, first, h->help, false);
    if (w->negated)
        attn_dire_text(s, "pas", h->negation);
    if (w->often)
        attn_dire(s, w->often->french, h->often);
    if (w->modal)
        dire_object(s, w, h);
    if (w->modal)
        dire_main(s, w->verb->infinitive, who, w, h);
    else if (compound)
        dire_main(s, participle(who, w), who, w, h);
    else
        attn_tie_words(s, first, h->at, false);
}

size_t attn_verb_group(attn_sentence *s, const attn_subject *subject,
                       const attn_verb_choice *choice) {
    english_indices h = say_group(s, subject, choice);
    dire_group(s, subject, choice, &h);
    return h.verb;
}

static void say_clause(attn_sentence *s, attn_tense tense, int depth);

/* A verb gets a negation, an adverb of frequency, or neither. It gets a modal verb only in the
 * present tense, and a progressive form only without a modal verb. */
void attn_decorate(attn_sentence *s, attn_verb_choice *w) {
    const attn_lexicon *words = s->words;
    const attn_verb *modals[] = {words->can, words->must, words->want};
    w->object = -1;
    if (s->asked != NO_WORD)
        return; /* the verb of a question is not decorated */
    if (attn_chance(s, 0.18))
        w->negated = true;
    else if (attn_chance(s, 0.14))
        w->often = ATTN_PICK(s, often);
    if (w->tense == PRESENT && !w->often && w->verb != words->be && attn_chance(s, 0.15))
        w->modal = modals[attn_pick(s, 3)];
    w->progressive = words->text && !w->modal && w->tense != FUTURE && w->verb != words->be &&
                     attn_chance(s, 0.2);
}

attn_verb_choice attn_decorated_verb(attn_sentence *s, const attn_subject *subject,
                                     const attn_verb *verb, attn_tense tense) {
    attn_verb_choice w = {.verb = verb, .tense = tense};
    attn_decorate(s, &w);
    attn_verb_group(s, subject, &w);
    return w;
}

bool attn_is_negative(const attn_verb_choice *w) {
    return w->negated || (w->often && w->often->negative);
}

/* Draws an adverb of manner, adds it to the French side, right after the verb, and stores its
 * French index in *french. Returns the adverb, which say_manner adds to the English side after the
 * object; NULL: no adverb was drawn. */
static const attn_adverb *dire_manner(attn_sentence *s, size_t *french) {
    if (attn_room(s) < 4 || !attn_chance(s, 0.12))
        return NULL;
    const attn_adverb *how = ATTN_PICK(s, manner);
    *french = attn_dire(s, how->french, NO_WORD);
    return how;
}

static void say_manner(attn_sentence *s, const attn_adverb *how, size_t french) {
    if (how)
        attn_tie_words(s, french, attn_say(s, ATTN_ADVERB, how->english), true);
}

/* Adds the French preposition before the object, if the verb has one. The last word of the English
 * side is the English preposition, if the verb has one. */
static void dire_preposition(attn_sentence *s, const attn_verb *verb) {
    if (verb->french_to)
        attn_dire_text(s, verb->french_to, verb->english_to ? s->english_count - 1 : NO_WORD);
}

static void say_action(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    attn_verb_choice w = {.verb = ATTN_PICK(s, acting), .tense = tense};
    attn_decorate(s, &w);
    bool direct = !w.verb->french_to;
    if (direct && strchr(w.verb->kinds, 'p') && attn_chance(s, attn_room(s) < 4 ? 0.9 : 0.2)) {
        do
            w.object = (int)attn_pick(s, s->words->text ? 7 : 6);
        while ((w.object == 0 && who->person == JE) || (w.object == 3 && who->person == NOUS) ||
               (w.object == 4 && who->person == VOUS));
        attn_verb_group(s, who, &w);
        return;
    }
    size_t verb = attn_verb_group(s, who, &w), place = NO_WORD;
    const attn_adverb *how = direct ? dire_manner(s, &place) : NULL;
    if (w.verb->french_to && !w.verb->english_to)
        attn_dire_text(s, w.verb->french_to, verb);
    else
        dire_preposition(s, w.verb);
    attn_nouns(s, (attn_noun_choice){w.verb->kinds, w.verb, direct && attn_is_negative(&w),
                                     how ? DEEPEST : depth});
    say_manner(s, how, place);
}

static void say_action_alone(attn_sentence *s, const attn_subject *who, attn_tense tense,
                             int depth) {
    attn_decorated_verb(s, who, ATTN_PICK(s, alone), tense);
    size_t place = NO_WORD;
    const attn_adverb *how = dire_manner(s, &place);
    say_manner(s, how, place);
    if (attn_room(s) > 3 && attn_chance(s, 0.3))
        attn_preposition_phrase(s, depth + 1);
}

static void say_motion(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    const attn_verb_choice w = attn_decorated_verb(s, who, ATTN_PICK(s, going), tense);
    dire_preposition(s, w.verb);
    attn_noun_phrase(s, (attn_noun_choice){w.verb->kinds, w.verb, false, depth});
}

static void say_giving(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    const attn_verb_choice w = attn_decorated_verb(s, who, ATTN_PICK(s, giving), tense);
    attn_noun_phrase(s, (attn_noun_choice){w.verb->kinds, w.verb, attn_is_negative(&w), DEEPEST});
    attn_dire_text(s, "à", attn_say_text(s, ATTN_PREPOSITION, "to"));
    attn_noun_phrase(s, (attn_noun_choice){"p", NULL, false, depth});
}

static void say_that(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    attn_verb_choice w = {.verb = ATTN_PICK(s, saying), .tense = tense, .object = -1};
    attn_verb_group(s, who, &w);
    attn_dire_text(s, "que", attn_say_text(s, ATTN_CONJUNCTION, "that"));
    say_clause(s, tense, depth + 1);
}

void attn_say_degree(attn_sentence *s) {
    static const char *const english[] = {"very", "too", "quite"}, *const french[] = {
                                                                       "très", "trop", "assez"};
    const size_t i = s->words->text ? attn_pick(s, 3) : 0;
    attn_dire_text(s, french[i], attn_say_text(s, ATTN_ADVERB, english[i]));
}

size_t attn_say_adjective(attn_sentence *s, const attn_adjective *a, const attn_subject *who) {
    const size_t place =
        attn_dire(s, a->french[who->gender][who->number], attn_say(s, ATTN_ADJECTIVE, a->english));
    attn_tie_words(s, place, who->head, false);
    return place;
}

void attn_be(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    attn_decorated_verb(s, who, s->words->be, tense);
    const attn_adjective *a = attn_adjective_for(s, who->kind, who->noun);
    if (!a || (attn_room(s) > 4 && attn_chance(s, 0.2))) {
        attn_preposition_phrase(s, depth + 1);
        return;
    }
    if (attn_chance(s, 0.15))
        attn_say_degree(s);
    attn_say_adjective(s, a, who);
}

void attn_predicate(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    if (s->words->text && attn_chance(s, 0.25) && attn_text_predicate(s, who, tense, depth))
        return;
    if (!strchr("pa", who->kind) || attn_chance(s, 0.2))
        attn_be(s, who, tense, depth);
    else
        attn_do(s, who, tense, depth);
}

void attn_do(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    double u = (double)attn_pick(s, 1000) / 1000;
    if (attn_room(s) < 3)
        say_action_alone(s, who, tense, depth);
    else if (u < 0.1 && attn_room(s) > 6 && depth < DEEPEST && who->kind == 'p')
        say_that(s, who, tense, depth);
    else if (u < 0.2 && attn_room(s) > 6 && who->kind == 'p')
        say_giving(s, who, tense, depth);
    else if (u < 0.35)
        say_motion(s, who, tense, depth);
    else if (u < 0.5)
        say_action_alone(s, who, tense, depth);
    else
        say_action(s, who, tense, depth);
}

static attn_subject say_subject(attn_sentence *s, int depth) {
    static const char *const kinds[] = {"p", "pa", "pa", "tfblpa"};
    if (attn_chance(s, attn_room(s) < 5 ? 0.8 : 0.3))
        return attn_pronoun(s);
    return attn_nouns(s, (attn_noun_choice){.kinds = kinds[attn_pick(s, 4)], .depth = depth});
}

/* Adds a subject and its predicate. */
static void say_clause(attn_sentence *s, attn_tense tense, int depth) {
    attn_subject who = say_subject(s, depth);
    attn_predicate(s, &who, tense, depth);
}

/* Draws a verb whose direct object the noun can be. The split must allow the verb together with the
 * noun. NULL: no verb was found. */
static const attn_verb *verb_for(attn_sentence *s, const attn_subject *noun) {
    for (int i = 0; i < TRIES; i++) {
        const attn_verb *verb = ATTN_PICK(s, acting);
        if (!verb->french_to && !verb->english_to && strchr(verb->kinds, noun->kind) &&
            attn_may_meet(s, verb->id, noun->noun))
            return verb;
    }
    return NULL;
}

void attn_object_relative(attn_sentence *s, const attn_subject *noun) {
    attn_verb_choice w = {.verb = verb_for(s, noun), .tense = (attn_tense)attn_pick(s, 3)};
    if (!w.verb)
        return;
    attn_dire_text(s, "que", attn_say_text(s, ATTN_PRONOUN, "that"));
    attn_decorate(s, &w);
    w.before = noun;
    attn_subject who = attn_chance(s, 0.5)
                           ? attn_pronoun(s)
                           : attn_noun_phrase(s, (attn_noun_choice){"pa", NULL, false, DEEPEST});
    attn_verb_group(s, &who, &w);
}

static void say_time(attn_sentence *s, attn_tense tense) {
    static const char *const english[] = {"today", "yesterday", "tomorrow"}, *const french[] = {
                                                                                 "aujourd'hui",
                                                                                 "hier", "demain"};
    size_t place = attn_dire_text(s, french[tense], attn_say_text(s, ATTN_ADVERB, english[tense]));
    if (place != NO_WORD)
        s->french[place].form.vowel = tense == PRESENT;
    attn_dire_text(s, ",", attn_say_text(s, ATTN_MARK, ","));
}

/* Users do not always type whole sentences. A uniform random number in [0, 1) decides: below
 * PHRASES the sentence is only a noun phrase; from PHRASES to OPEN it lacks the full stop. The
 * index of this number is far above those of all others, so the other draws do not depend on it. */
static const double PHRASES = 0.04, OPEN = 0.16;
static const uint64_t FORM_INDEX = (uint64_t)1 << 40;

void attn_whole_sentence(attn_sentence *s) {
    const double form = attn_rng_uniform(s->seed, FORM_INDEX);
    if (form < PHRASES) {
        attn_nouns(s, (attn_noun_choice){.kinds = "patflb"});
        return;
    }
    static const char *const english[] = {"and", "but", "because", "while", "when", "so"},
                             *const french[] = {"et", "mais", "parce", "pendant", "quand", "donc"};
    attn_tense tense = (attn_tense)attn_pick(s, 3);
    if (s->wanted > 6 && attn_chance(s, 0.12))
        say_time(s, tense);
    s->wanted -= s->wanted > 1; /* one word is reserved for the full stop */
    const char *mark = s->words->text && attn_chance(s, 0.42) ? attn_text_sentence(s) : NULL;
    if (!mark)
        say_clause(s, tense, 0);
    s->told = true;
    while (attn_room(s) > 3 && !s->failed && !mark) {
        size_t i = attn_pick(s, 6), place = attn_say_text(s, ATTN_CONJUNCTION, english[i]);
        attn_dire_text(s, french[i], place);
        if (i == 2 || i == 3)
            attn_dire_text(s, "que", place);
        say_clause(s, attn_chance(s, 0.7) ? tense : (attn_tense)attn_pick(s, 3), 0);
    }
    if (!mark && s->words->text && attn_chance(s, 0.04))
        mark = "!";
    if (form >= OPEN)
        attn_dire_text(s, mark ? mark : ".", attn_say_text(s, ATTN_MARK, mark ? mark : "."));
}
