/* The forms that the task en-fr-text adds to the grammar of en-fr: verbs of posture, professions,
 * objects without an article in English, reasons whose pronoun refers to a noun before it, and
 * questions. */
#include <string.h>

#include "corpus/grammar.h"

/* --- predicates --- */

/* Adds the French article of an object whose English noun has no article. In a negated clause the
 * partitive article is "de". */
static void dire_article(attn_sentence *s, int gender, int number, bool partitive, bool negated,
                         size_t english) {
    static const char *const definite[2][2] = {{"le", "les"}, {"la", "les"}};
    if (partitive && negated) {
        attn_dire_text(s, "de", english);
        return;
    }
    if (partitive && number == SINGULAR)
        attn_dire_text(s, "de", english);
    const bool some = partitive && number == PLURAL;
    const size_t place = attn_dire_text(s, some ? "des" : definite[gender][number], english);
    if (place != NO_WORD)
        s->french[place].article = true;
}

/* Draws a noun that can be the object of the verb: a mass noun if `mass`, else a noun for use in
 * the plural. NULL: no noun was found. */
static const attn_noun *object_of(attn_sentence *s, const attn_verb *verb, bool mass) {
    for (int i = 0; i < 4 * TRIES; i++) {
        const attn_noun *noun = mass ? ATTN_PICK(s, mass) : ATTN_PICK(s, nouns);
        const char *kinds = mass ? verb->kinds : strchr(verb->kinds, 'o') ? "patfb" : "f";
        if (strchr(kinds, noun->kind) && attn_may_meet(s, verb->id, noun->id))
            return noun;
    }
    return NULL;
}

/* Adds "likes pizza" or "eats apples". */
static bool say_liking(attn_sentence *s, const attn_subject *who, attn_tense tense) {
    if (who->kind != 'p')
        return false;
    const bool partitive = attn_chance(s, 0.5);
    const attn_verb *verb = partitive ? ATTN_PICK(s, partitive) : ATTN_PICK(s, generic);
    const bool mass = attn_chance(s, 0.65) || !strchr(verb->kinds, 'f');
    const attn_noun *noun = object_of(s, verb, mass);
    if (!noun)
        return false;
    const int number = mass ? SINGULAR : PLURAL;
    const attn_verb_choice w = attn_decorated_verb(s, who, verb, tense);
    const size_t english = attn_say(s, ATTN_NOUN, noun->english[number]);
    dire_article(s, noun->gender, number, partitive, attn_is_negative(&w), english);
    attn_dire(s, noun->french[number], english);
    return true;
}

/* Adds "is a student". */
static bool say_profession(attn_sentence *s, const attn_subject *who, attn_tense tense) {
    if (who->kind != 'p')
        return false;
    const attn_role *role = ATTN_PICK(s, roles);
    attn_decorated_verb(s, who, s->words->be, tense);
    const size_t article =
                     who->number == SINGULAR ? attn_say_text(s, ATTN_DETERMINER, "a") : NO_WORD,
                 english = attn_say(s, ATTN_NOUN, role->english[who->number]),
                 french = attn_dire(s, role->french[who->gender][who->number], english);
    attn_tie_words(s, french, article, false);
    attn_tie_words(s, french, who->head, false);
    return true;
}

static void say_where(attn_sentence *s, int depth) {
    const attn_preposition *p = ATTN_PICK(s, prepositions);
    for (int i = 0; i < TRIES && strchr(p->kinds, 'p'); i++)
        p = ATTN_PICK(s, prepositions);
    attn_preposition_with(s, p, depth);
}

/* Adds "sat on the mat". French has être and an adjective that agrees with the subject. */
static bool say_posture(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    if (!strchr("pa", who->kind))
        return false;
    const attn_posture *posture = ATTN_PICK(s, postures);
    attn_verb_choice w = {.verb = &posture->verb, .tense = tense};
    attn_decorate(s, &w);
    w.rests = true;
    const size_t verb = attn_verb_group(s, who, &w);
    const size_t place = attn_dire(s, posture->state[who->gender][who->number], verb);
    attn_tie_words(s, place, who->head, false);
    if (attn_room(s) > 2 || attn_chance(s, 0.5))
        say_where(s, depth + 1);
    return true;
}

bool attn_text_predicate(attn_sentence *s, const attn_subject *who, attn_tense tense, int depth) {
    const double u = (double)attn_pick(s, 1000) / 1000;
    if (u < 0.45)
        return say_liking(s, who, tense);
    return u < 0.6 ? say_profession(s, who, tense) : say_posture(s, who, tense, depth);
}

/* --- sentences --- */

/* Adds the pronoun that stands for a noun: he, she, it or they. */
static attn_subject say_pronoun_for(attn_sentence *s, const attn_subject *to) {
    static const char *const french[2][2] = {{"il", "ils"}, {"elle", "elles"}};
    const char *english = to->number == PLURAL      ? "they"
                          : to->kind != 'p'         ? "it"
                          : to->gender == MASCULINE ? "he"
                                                    : "she";
    attn_subject who = *to;
    who.head = attn_say_text(s, ATTN_PRONOUN, english);
    const size_t place = attn_dire_text(s, french[to->gender][to->number], who.head);
    attn_tie_words(s, place, to->head, false);
    who.is_pronoun = true;
    return who;
}

/* Draws an adjective that fits the noun `fits` and not the noun `other`. NULL: no adjective was
 * found. */
static const attn_adjective *distinguishing_adjective(attn_sentence *s, const attn_subject *fits,
                                                      const attn_subject *other) {
    for (int i = 0; i < 2 * TRIES; i++) {
        const attn_adjective *a = attn_adjective_for(s, fits->kind, fits->noun);
        if (a && !strchr(a->kinds, other->kind))
            return a;
    }
    return NULL;
}

/* Adds "the animal didn't cross the street because it was too tired". The adjective decides which
 * noun the pronoun means. */
static bool say_reason(attn_sentence *s) {
    const attn_tense tense = attn_chance(s, 0.6) ? PAST : (attn_tense)attn_pick(s, 3);
    attn_verb_choice w = {.verb = ATTN_PICK(s, acting), .tense = tense, .object = -1};
    for (int i = 0; i < TRIES && (w.verb->french_to || !strpbrk(w.verb->kinds, "tlfb")); i++)
        w.verb = ATTN_PICK(s, acting);
    attn_subject who = attn_noun_phrase(
        s, (attn_noun_choice){attn_chance(s, 0.5) ? "a" : "pa", NULL, false, DEEPEST});
    attn_decorate(s, &w);
    attn_verb_group(s, &who, &w);
    attn_subject what = attn_noun_phrase(
        s, (attn_noun_choice){w.verb->kinds, w.verb, attn_is_negative(&w), DEEPEST});
    const size_t because = attn_say_text(s, ATTN_CONJUNCTION, "because");
    attn_dire_text(s, "parce", because);
    attn_dire_text(s, "que", because);
    const bool first = attn_chance(s, 0.5);
    const attn_subject *meant = first ? &who : &what;
    const attn_adjective *a = distinguishing_adjective(s, meant, first ? &what : &who);
    if (!a || who.kind == what.kind || (meant->kind == 'p' && !meant->noun)) {
        s->failed = true;
        return true;
    }
    const attn_subject it = say_pronoun_for(s, meant);
    const attn_verb_choice be = {.verb = s->words->be, .tense = tense, .object = -1};
    attn_verb_group(s, &it, &be);
    if (attn_chance(s, 0.8))
        attn_say_degree(s);
    attn_tie_words(s, attn_say_adjective(s, a, &it), meant->head, false);
    return true;
}

/* Adds a question. English begins with an auxiliary, which the verb group uses later; French begins
 * with "est-ce que". In the present the auxiliary must agree with the subject, so both are drawn
 * together, and the subject is a pronoun. */
static void say_question(attn_sentence *s) {
    const bool named = attn_chance(s, 0.25);
    const attn_tense tense = !named && attn_chance(s, 0.6) ? PRESENT
                             : attn_chance(s, 0.7)         ? PAST
                                                           : FUTURE;
    const attn_opening *opening = ATTN_PICK(s, openings);
    const char *auxiliary = tense == PRESENT ? opening->auxiliary : tense == PAST ? "did" : "will";
    const size_t asked = attn_say_text(s, ATTN_AUXILIARY, auxiliary);
    attn_dire(s, (attn_form){"est-ce", true}, asked);
    attn_dire_text(s, "que", asked);
    const attn_subject who =
        named ? attn_noun_phrase(s, (attn_noun_choice){"pa", NULL, false, DEEPEST})
              : attn_pronoun_of(s, opening->pronoun);
    s->asked = asked;
    if (*auxiliary == 'i' || *auxiliary == 'a')
        attn_be(s, &who, tense, DEEPEST);
    else if (who.kind != 'p' && who.kind != 'a')
        s->failed = true;
    else
        attn_do(s, &who, tense, DEEPEST);
}

const char *attn_text_sentence(attn_sentence *s) {
    if (attn_chance(s, 0.3)) {
        say_question(s);
        return "?";
    }
    if (attn_room(s) < 6)
        return NULL;
    say_reason(s);
    return ".";
}
