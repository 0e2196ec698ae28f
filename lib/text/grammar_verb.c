/* Verb groups: tense, negation, adverbs of frequency, object pronouns, agreement of participles. */
#include <string.h>

#include "text/grammar.h"

/* being: was, in French the imperfect */
static const char *const was[6] = {"étais", "étais", "était", "étions", "étiez", "étaient"};

static const struct {
    const char *english, *french;
    attn_subject who;
} objects[6] = {
    {"me", "me", {MASCULINE, SINGULAR, JE, 'p', 0, 0, true}},
    {"him", "le", {MASCULINE, SINGULAR, IL, 'p', 0, 0, true}},
    {"her", "la", {FEMININE, SINGULAR, IL, 'p', 0, 0, true}},
    {"us", "nous", {MASCULINE, PLURAL, NOUS, 'p', 0, 0, true}},
    {"you", "vous", {MASCULINE, PLURAL, VOUS, 'p', 0, 0, true}},
    {"them", "les", {MASCULINE, PLURAL, ILS, 'p', 0, 0, true}},
};

/* Places of the English words of a group. */
typedef struct heard {
    size_t verb, aux, help, negation, often, to, at,
        object; /* help: do in "do not want"; at: in "look at" */
} heard;

static bool is_third(const attn_subject *subject) {
    return subject->person == IL;
}

static size_t say_be(attn_sentence *s, const attn_subject *who, attn_tense tense) {
    bool one = who->number == SINGULAR;
    if (tense == PAST)
        return attn_say_text(s, one ? "was" : "were");
    return attn_say_text(s, who->person == JE ? "am" : one ? "is" : "are");
}

static const heard silence = {NO_WORD, NO_WORD, NO_WORD, NO_WORD,
                              NO_WORD, NO_WORD, NO_WORD, NO_WORD};

/* To be is its own auxiliary. */
static heard say_being(attn_sentence *s, const attn_subject *who, const attn_verb_wish *w) {
    heard h = silence;
    if (w->tense == FUTURE)
        h.aux = attn_say_text(s, "will");
    else
        h.verb = say_be(s, who, w->tense);
    if (w->negated)
        h.negation = attn_say_text(s, "not");
    if (w->often)
        h.often = attn_say(s, w->often->english);
    if (w->tense == FUTURE)
        h.verb = attn_say_text(s, "be");
    return h;
}

static void say_auxiliary(attn_sentence *s, const attn_subject *who, const attn_verb_wish *w,
                          heard *h) {
    const attn_lexicon *words = s->words;
    bool wants = w->modal == &words->want, do_it = w->negated && (!w->modal || wants);
    if (w->tense == FUTURE)
        h->aux = attn_say_text(s, "will");
    else if (do_it)
        h->aux = attn_say_text(s, w->tense == PAST ? "did" : is_third(who) ? "does" : "do");
    if (w->modal && !wants)
        h->aux = attn_say(s, w->modal->base);
    if (w->negated)
        h->negation = attn_say_text(s, "not");
    if (w->often)
        h->often = attn_say(s, w->often->english);
    if (wants) {
        h->help = h->aux;
        h->aux = attn_say(s, do_it || !is_third(who) ? w->modal->base : w->modal->third);
        h->to = attn_say_text(s, "to");
    }
}

static heard say_group(attn_sentence *s, const attn_subject *who, const attn_verb_wish *w) {
    if (w->verb == &s->words->be)
        return say_being(s, who, w);
    heard h = silence;
    say_auxiliary(s, who, w, &h);
    bool base = w->tense == FUTURE || w->modal || w->negated;
    attn_form form = base               ? w->verb->base
                     : w->tense == PAST ? w->verb->past
                     : is_third(who)    ? w->verb->third
                                        : w->verb->base;
    h.verb = attn_say(s, form);
    if (w->verb->english_to) {
        size_t to = attn_say_text(s, w->verb->english_to);
        if (!w->verb->french_to)
            h.at = to;
    }
    if (w->object >= 0)
        h.object = attn_say_text(s, objects[w->object].english);
    return h;
}

/* The conjugated verb: of a compound past its auxiliary. */
static attn_form finite(const attn_sentence *s, const attn_subject *who, const attn_verb_wish *w) {
    const attn_lexicon *words = s->words;
    if (w->modal)
        return w->modal->present[who->person];
    if (w->tense == FUTURE)
        return w->verb->future[who->person];
    if (w->tense == PRESENT)
        return w->verb->present[who->person];
    if (w->verb == &words->be)
        return (attn_form){was[who->person], true};
    return (w->verb->etre ? &words->be : &words->have)->present[who->person];
}

/* With être the participle agrees with the subject, with avoir with an object that comes before. */
static attn_form participle(const attn_subject *who, const attn_verb_wish *w) {
    const attn_subject *with = w->verb->etre    ? who
                               : w->object >= 0 ? &objects[w->object].who
                                                : w->before;
    return w->verb->participle[with ? with->gender : MASCULINE][with ? with->number : SINGULAR];
}

static void dire_object(attn_sentence *s, const attn_verb_wish *w, const heard *h) {
    if (w->object >= 0)
        attn_dire_text(s, objects[w->object].french, h->object);
}

static void dire_main(attn_sentence *s, attn_form form, const attn_subject *who,
                      const attn_verb_wish *w, const heard *h) {
    size_t place = attn_dire(s, form, h->verb);
    attn_tie_words(s, place, h->to, false);
    attn_tie_words(s, place, h->at, false);
    if (w->tense == PAST && !w->modal && w->verb->etre)
        attn_tie_words(s, place, who->head, false);
    if (w->tense == PAST && w->before)
        attn_tie_words(s, place, w->before->head, false);
}

static void dire_group(attn_sentence *s, const attn_subject *who, const attn_verb_wish *w,
                       const heard *h) {
    bool compound = w->tense == PAST && !w->modal && w->verb != &s->words->be;
    bool never = w->often && w->often->negative;
    if (w->negated || never)
        attn_dire_text(s, "ne", never ? h->often : h->negation);
    if (!w->modal)
        dire_object(s, w, h);
    size_t first = attn_dire(s, finite(s, who, w), w->modal ? h->aux : h->verb);
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

size_t attn_verb_group(attn_sentence *s, const attn_subject *subject, const attn_verb_wish *wish) {
    heard h = say_group(s, subject, wish);
    dire_group(s, subject, wish, &h);
    return h.verb;
}
