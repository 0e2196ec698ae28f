/* Predicates, clauses and whole sentences. */
#include <string.h>

#include "attn/rng.h"
#include "text/grammar.h"

enum { TRIES = 24, DEEPEST = 3 };

#define PICK(s, list) (&(s)->words->list.items[attn_pick((s), (s)->words->list.count)])

/* not, or an adverb of frequency, or neither; can, must or want */
static void decorate(attn_sentence *s, attn_verb_wish *w) {
    const attn_lexicon *words = s->words;
    const attn_verb *modals[] = {&words->can, &words->must, &words->want};
    w->object = -1;
    if (attn_chance(s, 0.18))
        w->negated = true;
    else if (attn_chance(s, 0.14))
        w->often = PICK(s, often);
    if (w->tense == PRESENT && !w->often && w->verb != &words->be && attn_chance(s, 0.15))
        w->modal = modals[attn_pick(s, 3)];
}

static bool is_negative(const attn_verb_wish *w) {
    return w->negated || (w->often && w->often->negative);
}

/* A manner adverb: behind the English object, behind the French verb. `french` is its place. */
static const attn_adverb *dire_manner(attn_sentence *s, size_t *french) {
    if (attn_room(s) < 4 || !attn_chance(s, 0.12))
        return NULL;
    const attn_adverb *how = PICK(s, manner);
    *french = attn_dire(s, how->french, NO_WORD);
    return how;
}

static void say_manner(attn_sentence *s, const attn_adverb *how, size_t french) {
    if (how)
        attn_tie_words(s, french, attn_say(s, how->english), true);
}

/* "to the" of a verb's object, in French "à"; English has said its word already. */
static void dire_preposition(attn_sentence *s, const attn_verb *verb) {
    if (verb->french_to)
        attn_dire_text(s, verb->french_to, verb->english_to ? s->english_count - 1 : NO_WORD);
}

static void act(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    attn_verb_wish w = {.verb = PICK(s, acting), .tense = tense};
    decorate(s, &w);
    bool direct = !w.verb->french_to;
    if (direct && strchr(w.verb->kinds, 'p') && attn_chance(s, attn_room(s) < 4 ? 0.9 : 0.2)) {
        do
            w.object = (int)attn_pick(s, 6);
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
    attn_nouns(s, (attn_noun_wish){w.verb->kinds, w.verb, direct && is_negative(&w),
                                   how ? DEEPEST : depth});
    say_manner(s, how, place);
}

static void act_alone(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    attn_verb_wish w = {.verb = PICK(s, alone), .tense = tense};
    decorate(s, &w);
    attn_verb_group(s, who, &w);
    size_t place = NO_WORD;
    const attn_adverb *how = dire_manner(s, &place);
    say_manner(s, how, place);
    if (attn_room(s) > 3 && attn_chance(s, 0.3))
        attn_preposition_phrase(s, depth + 1);
}

static void go(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    attn_verb_wish w = {.verb = PICK(s, going), .tense = tense};
    decorate(s, &w);
    attn_verb_group(s, who, &w);
    dire_preposition(s, w.verb);
    attn_noun_phrase(s, (attn_noun_wish){w.verb->kinds, w.verb, false, depth});
}

static void give(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    attn_verb_wish w = {.verb = PICK(s, giving), .tense = tense};
    decorate(s, &w);
    attn_verb_group(s, who, &w);
    attn_noun_phrase(s, (attn_noun_wish){w.verb->kinds, w.verb, is_negative(&w), DEEPEST});
    attn_dire_text(s, "à", attn_say_text(s, "to"));
    attn_noun_phrase(s, (attn_noun_wish){"p", NULL, false, depth});
}

static void say_that(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    attn_verb_wish w = {.verb = PICK(s, saying), .tense = tense, .object = -1};
    attn_verb_group(s, who, &w);
    attn_dire_text(s, "que", attn_say_text(s, "that"));
    attn_clause(s, tense, depth + 1);
}

/* is old, is very old, is in the garden */
static void be(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    attn_verb_wish w = {.verb = &s->words->be, .tense = tense};
    decorate(s, &w);
    attn_verb_group(s, who, &w);
    const attn_adjective *a = attn_adjective_for(s, who->kind, who->noun);
    if (!a || (attn_room(s) > 4 && attn_chance(s, 0.2))) {
        attn_preposition_phrase(s, depth + 1);
        return;
    }
    if (attn_chance(s, 0.15))
        attn_dire_text(s, "très", attn_say_text(s, "very"));
    size_t place = attn_dire(s, attn_agree(a, who->gender, who->number), attn_say(s, a->english));
    attn_tie_words(s, place, who->head, false);
}

void attn_predicate(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    if (!strchr("pa", who->kind) || attn_chance(s, 0.2)) {
        be(s, who, tense, depth);
        return;
    }
    double u = (double)attn_pick(s, 1000) / 1000;
    if (attn_room(s) < 3)
        act_alone(s, who, tense, depth);
    else if (u < 0.1 && attn_room(s) > 6 && depth < DEEPEST && who->kind == 'p')
        say_that(s, who, tense, depth);
    else if (u < 0.2 && attn_room(s) > 6 && who->kind == 'p')
        give(s, who, tense, depth);
    else if (u < 0.35)
        go(s, who, tense, depth);
    else if (u < 0.5)
        act_alone(s, who, tense, depth);
    else
        act(s, who, tense, depth);
}

static attn_subject say_subject(attn_sentence *s, int depth) {
    static const char *const kinds[] = {"p", "pa", "pa", "tfblpa"};
    if (attn_chance(s, attn_room(s) < 5 ? 0.8 : 0.3))
        return attn_pronoun(s);
    return attn_nouns(s, (attn_noun_wish){.kinds = kinds[attn_pick(s, 4)], .depth = depth});
}

void attn_clause(attn_sentence *s, attn_tense tense, int depth) {
    attn_subject who = say_subject(s, depth);
    attn_predicate(s, &who, tense, depth);
}

/* A verb with a plain object that suits and may meet the noun, or NULL. */
static const attn_verb *verb_for(attn_sentence *s, const attn_subject *noun) {
    for (int i = 0; i < TRIES; i++) {
        const attn_verb *verb = PICK(s, acting);
        if (!verb->french_to && !verb->english_to && strchr(verb->kinds, noun->kind) &&
            attn_may_meet(s, verb->id, noun->noun))
            return verb;
    }
    return NULL;
}

void attn_object_relative(attn_sentence *s, const attn_subject *noun) {
    attn_verb_wish w = {.verb = verb_for(s, noun), .tense = (attn_tense)attn_pick(s, 3)};
    if (!w.verb)
        return;
    attn_dire_text(s, "que", attn_say_text(s, "that"));
    decorate(s, &w);
    w.before = noun;
    attn_subject who = attn_chance(s, 0.5)
                           ? attn_pronoun(s)
                           : attn_noun_phrase(s, (attn_noun_wish){"pa", NULL, false, DEEPEST});
    attn_verb_group(s, &who, &w);
}

static void say_time(attn_sentence *s, attn_tense tense) {
    static const char *const english[] = {"today", "yesterday", "tomorrow"}, *const french[] = {
                                                                                 "aujourd'hui",
                                                                                 "hier", "demain"};
    size_t place = attn_dire_text(s, french[tense], attn_say_text(s, english[tense]));
    if (place != NO_WORD)
        s->french[place].form.vowel = tense == PRESENT;
    attn_dire_text(s, ",", attn_say_text(s, ","));
}

/* What people type is not always a whole sentence: some end without their full stop, some are noun
 * phrases. That is drawn aside, so that the numbers of the others are what they would be. */
static const double PHRASES = 0.04, OPEN = 0.16;
static const uint64_t ASIDE = (uint64_t)1 << 40;

void attn_whole_sentence(attn_sentence *s) {
    const double form = attn_rng_uniform(s->seed, ASIDE);
    if (form < PHRASES) {
        attn_nouns(s, (attn_noun_wish){.kinds = "patflb"});
        return;
    }
    static const char *const english[] = {"and", "but", "because", "while", "when", "so"},
                             *const french[] = {"et", "mais", "parce", "pendant", "quand", "donc"};
    attn_tense tense = (attn_tense)attn_pick(s, 3);
    if (s->wanted > 6 && attn_chance(s, 0.12))
        say_time(s, tense);
    s->wanted -= s->wanted > 1; /* the full stop */
    attn_clause(s, tense, 0);
    while (attn_room(s) > 3 && !s->failed) {
        size_t i = attn_pick(s, 6), place = attn_say_text(s, english[i]);
        attn_dire_text(s, french[i], place);
        if (i == 2 || i == 3)
            attn_dire_text(s, "que", place);
        attn_clause(s, attn_chance(s, 0.7) ? tense : (attn_tense)attn_pick(s, 3), 0);
    }
    if (form >= OPEN)
        attn_dire_text(s, ".", attn_say_text(s, "."));
}
