/* Noun phrases: determiner, adjectives before or after the noun, and complements. */
#include <string.h>

#include "corpus/grammar.h"

/* A determiner. "" means that the determiner has no form for this number. */
typedef struct determiner {
    const char *english[2];   /* [number] */
    const char *french[2][2]; /* [gender][number] */
    bool article;             /* the prepositions de and à may merge with the French form */
    bool negated;             /* the French form becomes "de" in a negated clause */
    double share;             /* probability of this determiner */
} determiner;

static const determiner determiners[] = {
    {{"the", "the"}, {{"le", "les"}, {"la", "les"}}, true, false, 0.42},
    {{"a", "some"}, {{"un", "des"}, {"une", "des"}}, true, true, 0.26},
    {{"this", "these"}, {{"ce", "ces"}, {"cette", "ces"}}, false, false, 0.07},
    {{"my", "my"}, {{"mon", "mes"}, {"ma", "mes"}}, false, false, 0.05},
    {{"his", "his"}, {{"son", "ses"}, {"sa", "ses"}}, false, false, 0.05},
    {{"our", "our"}, {{"notre", "nos"}, {"notre", "nos"}}, false, false, 0.04},
    {{"your", "your"}, {{"votre", "vos"}, {"votre", "vos"}}, false, false, 0.03},
    {{"their", "their"}, {{"leur", "leurs"}, {"leur", "leurs"}}, false, false, 0.03},
    {{"every", ""}, {{"chaque", ""}, {"chaque", ""}}, false, false, 0.02},
    {{"", "two"}, {{"", "deux"}, {"", "deux"}}, false, false, 0.01},
    {{"", "three"}, {{"", "trois"}, {"", "trois"}}, false, false, 0.01},
    {{"", "four"}, {{"", "quatre"}, {"", "quatre"}}, false, false, 0.005},
    {{"", "many"}, {{"", "beaucoup"}, {"", "beaucoup"}}, false, false, 0.005},
};
/* In en-fr-text, "her" replaces half of the determiners "his". French has the same forms for
 * both. */
static const determiner her = {{"her", "her"}, {{"son", "ses"}, {"sa", "ses"}}, false, false, 0};
enum { HIS = 4, DETERMINERS = sizeof determiners / sizeof *determiners };

/* The words of a noun phrase, drawn before they are added to the sentence. */
typedef struct plan {
    const attn_noun *noun;
    const determiner *det;
    int number;
    bool de; /* the noun phrase is in a negated clause, so its indefinite article becomes "de" */
    const attn_adjective *before, *after[2];
    bool very;
} plan;

static const attn_noun *pick_noun(attn_sentence *s, const attn_noun_choice *choice) {
    const attn_lexicon *words = s->words;
    for (int i = 0; i < 4 * TRIES; i++) {
        const attn_noun *noun = ATTN_PICK(s, nouns);
        if (strchr(choice->kinds, noun->kind) &&
            (!choice->verb || attn_may_meet(s, choice->verb->id, noun->id)))
            return noun;
    }
    s->failed = true;
    return words->nouns.items;
}

static void pick_determiner(attn_sentence *s, plan *p) {
    p->number = attn_chance(s, 0.35) ? PLURAL : SINGULAR;
    double left = (double)attn_pick(s, 1000) / 1000;
    size_t i = 0;
    for (; i + 1 < DETERMINERS && left >= determiners[i].share; i++)
        left -= determiners[i].share;
    p->det = s->words->text && i == HIS && attn_chance(s, 0.5) ? &her : &determiners[i];
    if (!*p->det->english[p->number])
        p->number = !p->number;
}

const attn_adjective *attn_adjective_for(attn_sentence *s, char kind, uint32_t noun) {
    for (int i = 0; i < TRIES; i++) {
        const attn_adjective *a = ATTN_PICK(s, adjectives);
        if (strchr(a->kinds, kind) && (!noun || attn_may_meet(s, a->id, noun)))
            return a;
    }
    return NULL;
}

static void pick_adjectives(attn_sentence *s, plan *p) {
    static const double shares[] = {0.42, 0.25, 0.15};
    size_t after = 0;
    for (size_t i = 0; i < 3 && attn_room(s) > 3 && attn_chance(s, shares[i]); i++) {
        const attn_adjective *a = attn_adjective_for(s, p->noun->kind, p->noun->id);
        if (!a || a == p->before || a == p->after[0])
            continue;
        if (a->before && !p->before)
            p->before = a;
        else if (!a->before && after < 2)
            p->after[after++] = a;
    }
    p->very = (p->before || p->after[0]) && attn_chance(s, 0.1);
}

/* Adds the French adjective in the form that agrees with its noun. Links it to the English
 * adjective `english` and the English noun `noun` (indices). */
static void dire_adjective(attn_sentence *s, const plan *p, const attn_adjective *a, size_t english,
                           size_t noun) {
    attn_form form = a->french[p->noun->gender][p->number];
    size_t place = attn_dire(s, form, english);
    attn_tie_words(s, place, noun, false);
    if (place != NO_WORD && a->before && p->noun->gender == MASCULINE && p->number == SINGULAR &&
        strcmp(a->french_vowel.text, form.text))
        s->french[place].before_vowel = a->french_vowel.text;
}

static void dire_determiner(attn_sentence *s, const plan *p, size_t english, size_t noun) {
    bool de = p->det->negated && (p->de || (p->number == PLURAL && p->before));
    size_t place =
        attn_dire_text(s, de ? "de" : p->det->french[p->noun->gender][p->number], english);
    attn_tie_words(s, place, noun, false);
    if (place != NO_WORD)
        s->french[place].article = p->det->article;
    if (!strcmp(p->det->english[PLURAL], "many"))
        attn_dire_text(s, "de", english);
}

/* Adds the noun phrase to both sides and returns the index of the noun in the English sentence. The
 * English order is: determiner, very, adjectives, noun. Adjectives after the French noun are in
 * reverse order: "a big red round ball" is "un gros ballon rond rouge". */
static size_t say_noun(attn_sentence *s, const plan *p) {
    size_t after[2] = {NO_WORD, NO_WORD}, very = NO_WORD, before = NO_WORD, det, noun;
    const char *article = p->det->english[p->number];
    det = attn_say_text(s, ATTN_DETERMINER,
                        p->de && p->number == PLURAL && p->det->negated ? "any" : article);
    if (p->very)
        very = attn_say_text(s, ATTN_ADVERB, "very");
    if (p->before)
        before = attn_say(s, ATTN_ADJECTIVE, p->before->english);
    for (size_t i = 0; i < 2 && p->after[i]; i++)
        after[i] = attn_say(s, ATTN_ADJECTIVE, p->after[i]->english);
    noun = attn_say(s, ATTN_NOUN, p->noun->english[p->number]);
    dire_determiner(s, p, det, noun);
    if (p->very && p->before)
        attn_dire_text(s, "très", very);
    if (p->before)
        dire_adjective(s, p, p->before, before, noun);
    attn_dire(s, p->noun->french[p->number], noun);
    for (size_t i = 2; i-- > 0;)
        if (p->after[i]) {
            if (p->very && !p->before && i == 0)
                attn_dire_text(s, "très", very);
            dire_adjective(s, p, p->after[i], after[i], noun);
        }
    return noun;
}

static attn_subject say_name(attn_sentence *s) {
    if (s->words->text && attn_chance(s, 0.35)) {
        const attn_form name = *ATTN_PICK(s, invented);
        const size_t head = attn_say(s, ATTN_NAME, name);
        attn_dire(s, name, head);
        return (attn_subject){MASCULINE, SINGULAR, IL, 'p', 0, head, false};
    }
    const attn_noun *name = ATTN_PICK(s, names);
    size_t head = attn_say(s, ATTN_NAME, name->english[0]);
    attn_dire(s, name->french[0], head);
    return (attn_subject){name->gender, SINGULAR, IL, 'p', 0, head, false};
}

static void say_complement(attn_sentence *s, const attn_subject *noun, int depth) {
    if (depth >= DEEPEST || attn_room(s) < 5)
        return;
    if (attn_chance(s, 0.16))
        attn_preposition_phrase(s, depth + 1);
    else if (attn_room(s) > 6 && attn_chance(s, 0.2)) {
        if (attn_chance(s, 0.5)) {
            size_t who = attn_say_text(s, ATTN_PRONOUN, noun->kind == 'p' ? "who" : "that");
            attn_dire_text(s, "qui", who);
            attn_predicate(s, noun, (attn_tense)attn_pick(s, 3), depth + 1);
        } else {
            attn_object_relative(s, noun);
        }
    }
}

attn_subject attn_noun_phrase(attn_sentence *s, attn_noun_choice choice) {
    if (strchr(choice.kinds, 'p') && attn_chance(s, 0.18))
        return say_name(s);
    plan p = {.noun = pick_noun(s, &choice), .de = choice.negated};
    pick_determiner(s, &p);
    pick_adjectives(s, &p);
    size_t head = say_noun(s, &p);
    attn_subject out = {p.noun->gender, p.number,   p.number == PLURAL ? ILS : IL,
                        p.noun->kind,   p.noun->id, head,
                        false};
    say_complement(s, &out, choice.depth);
    return out;
}

attn_subject attn_nouns(attn_sentence *s, attn_noun_choice choice) {
    attn_subject first = attn_noun_phrase(s, choice);
    if (attn_room(s) < 6 || choice.negated || !attn_chance(s, 0.1))
        return first;
    size_t and = attn_say_text(s, ATTN_CONJUNCTION, "and");
    attn_dire_text(s, "et", and);
    attn_subject second = attn_noun_phrase(s, choice);
    bool women = first.gender == FEMININE && second.gender == FEMININE;
    return (attn_subject){women ? FEMININE : MASCULINE, PLURAL, ILS, 'p', 0, first.head, false};
}

/* Subject pronouns. Only en-fr-text has the last pronoun; the other tasks write "i" for "I".
 * en-fr-text draws "they" and "it" only before a clause is complete: later these pronouns would
 * refer to a noun of the clause, whose gender would decide the French pronoun. */
static const struct {
    const char *english, *french;
    attn_subject who;
} pronouns[] = {
    {"I", "je", {MASCULINE, SINGULAR, JE, 'p', 0, 0, true}},
    {"you", "vous", {MASCULINE, PLURAL, VOUS, 'p', 0, 0, true}},
    {"he", "il", {MASCULINE, SINGULAR, IL, 'p', 0, 0, true}},
    {"she", "elle", {FEMININE, SINGULAR, IL, 'p', 0, 0, true}},
    {"we", "nous", {MASCULINE, PLURAL, NOUS, 'p', 0, 0, true}},
    {"they", "ils", {MASCULINE, PLURAL, ILS, 'p', 0, 0, true}},
    {"it", "il", {MASCULINE, SINGULAR, IL, 't', 0, 0, true}},
};
enum { PRONOUNS = sizeof pronouns / sizeof *pronouns };

static attn_subject say_pronoun(attn_sentence *s, size_t i) {
    attn_subject who = pronouns[i].who;
    who.head = attn_say_text(s, ATTN_PRONOUN, s->words->text || i ? pronouns[i].english : "i");
    attn_dire_text(s, pronouns[i].french, who.head);
    return who;
}

attn_subject attn_pronoun(attn_sentence *s) {
    const bool text = s->words->text;
    return say_pronoun(s, attn_pick(s, PRONOUNS - (text && s->told ? 2 : !text)));
}

attn_subject attn_pronoun_of(attn_sentence *s, const char *english) {
    size_t i = 0;
    while (i + 1 < PRONOUNS && strcmp(pronouns[i].english, english) != 0)
        i++;
    return say_pronoun(s, i);
}

void attn_preposition_with(attn_sentence *s, const attn_preposition *p, int depth) {
    size_t english = attn_say(s, ATTN_PREPOSITION, p->english);
    attn_dire(s, p->french, english);
    if (p->second)
        attn_dire_text(s, p->second, english);
    attn_noun_phrase(s, (attn_noun_choice){.kinds = p->kinds, .depth = depth});
}

void attn_preposition_phrase(attn_sentence *s, int depth) {
    attn_preposition_with(s, ATTN_PICK(s, prepositions), depth);
}
