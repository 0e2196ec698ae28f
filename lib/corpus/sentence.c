/* Collects the words of a sentence pair, and at its end applies the rules for neighbouring words:
 * elision (l'arbre, qu'il, n'a), forms before vowels (an, cet, mon amie, vieil) and contraction
 * (du, des, au, aux; didn't, it's). */
#include <string.h>

#include "attn/rng.h"
#include "corpus/sentence.h"

bool attn_chance(attn_sentence *s, double p) {
    return attn_rng_uniform(s->seed, s->drawn++) < p;
}

size_t attn_pick(attn_sentence *s, size_t n) {
    return (size_t)(attn_rng_uniform(s->seed, s->drawn++) * (double)n);
}

size_t attn_pick_word(attn_sentence *s, size_t count, size_t common) {
    return attn_pick(s, common && attn_chance(s, 0.5) ? common : count);
}

size_t attn_room(const attn_sentence *s) {
    return s->wanted > s->english_count ? s->wanted - s->english_count : 0;
}

bool attn_never_meet(uint32_t first, uint32_t second) {
    return attn_rng_bits((uint64_t)first << 32 | second, 0) % 10 == 0;
}

bool attn_may_meet(attn_sentence *s, uint32_t first, uint32_t second) {
    if (!attn_never_meet(first, second))
        return true;
    s->held_out = true;
    return s->split == ATTN_HELD_OUT;
}

static size_t add_word(attn_sentence *s, attn_spoken *side, size_t *count, attn_form form) {
    if (*count == ATTN_PAIR_WORDS) {
        s->failed = true;
        return NO_WORD;
    }
    side[*count] = (attn_spoken){.form = form};
    return (*count)++;
}

size_t attn_say(attn_sentence *s, attn_part part, attn_form form) {
    size_t place = add_word(s, s->english, &s->english_count, form);
    if (place == NO_WORD)
        return place;
    s->english[place].part = part;
    if (!strcmp(form.text, "a"))
        s->english[place].before_vowel = "an";
    return place;
}

size_t attn_dire(attn_sentence *s, attn_form form, size_t english) {
    size_t place = add_word(s, s->french, &s->french_count, form);
    for (size_t i = 0; place != NO_WORD && i < s->words->elisions.count; i++)
        if (!strcmp(form.text, s->words->elisions.items[i].text))
            s->french[place].before_vowel = s->words->elisions.items[i].before_vowel;
    attn_tie_words(s, place, english, true);
    return place;
}

size_t attn_say_text(attn_sentence *s, attn_part part, const char *text) {
    return attn_say(s, part, (attn_form){text, strchr("aeiou", *text) != NULL});
}

size_t attn_dire_text(attn_sentence *s, const char *text, size_t english) {
    bool vowel = strchr("aeiou", *text) || !strncmp(text, "é", 2) || !strncmp(text, "ê", 2);
    return attn_dire(s, (attn_form){text, vowel}, english);
}

void attn_tie_words(attn_sentence *s, size_t french, size_t english, bool sure) {
    if (french == NO_WORD || english == NO_WORD)
        return;
    attn_spoken *word = &s->french[french];
    for (size_t i = 0; i < word->tie_count; i++)
        if (word->ties[i].word == english) {
            word->ties[i].sure |= sure;
            return;
        }
    if (word->tie_count == MOST_TIES)
        s->failed = true;
    else
        word->ties[word->tie_count++] = (attn_tie){english, sure};
}

static bool is(const attn_spoken *word, const char *text) {
    return !strcmp(word->form.text, text);
}

/* Replaces the French words i and i + 1 by one word with the spelling `text` and the links of
 * both. */
static void merge_french(attn_sentence *s, size_t i, const char *text) {
    attn_spoken *word = &s->french[i], next = word[1];
    word->form = (attn_form){text, false};
    for (size_t k = 0; k < next.tie_count; k++)
        attn_tie_words(s, i, next.ties[k].word, next.ties[k].sure);
    memmove(word + 1, word + 2, (s->french_count - i - 2) * sizeof *word);
    s->french_count--;
}

/* Removes "des" and partitive "de" after the preposition "de": "près de" + "de grands arbres"
 * becomes "près de grands arbres". This function must run before elision, since the word after the
 * removed one may begin with a vowel sound. */
static void drop_partitives(attn_sentence *s) {
    for (size_t i = 0; i + 1 < s->french_count; i++) {
        const attn_spoken *next = &s->french[i + 1];
        if (is(&s->french[i], "de") && next->article && (is(next, "des") || is(next, "de")))
            merge_french(s, i, "de");
    }
}

static void elide_words(attn_spoken *words, size_t count) {
    for (size_t i = 0; i + 1 < count; i++)
        if (words[i].before_vowel && words[i + 1].form.vowel)
            words[i].form.text = words[i].before_vowel;
}

static void contract_french(attn_sentence *s) {
    for (size_t i = 0; i + 1 < s->french_count; i++) {
        const attn_spoken *word = &s->french[i], *next = word + 1;
        bool de = is(word, "de"), a = is(word, "à");
        if (!next->article || (!de && !a))
            continue;
        if (is(next, "le"))
            merge_french(s, i, de ? "du" : "au");
        else if (is(next, "les"))
            merge_french(s, i, de ? "des" : "aux");
    }
}

/* Changes the links of a French word after the English words i and i + 1 have become one word i:
 * links to both become one link, and links to later words get an index that is lower by 1. */
static void shift_ties(attn_spoken *word, size_t i) {
    size_t kept = 0;
    for (size_t k = 0; k < word->tie_count; k++) {
        attn_tie tie = word->ties[k];
        size_t same = 0;
        tie.word -= tie.word > i;
        while (same < kept && word->ties[same].word != tie.word)
            same++;
        if (same < kept)
            word->ties[same].sure |= tie.sure;
        else
            word->ties[kept++] = tie;
    }
    word->tie_count = kept;
}

static void join_english(attn_sentence *s, size_t i, const char *text) {
    attn_spoken *word = &s->english[i];
    word->form.text = text;
    memmove(word + 1, word + 2, (s->english_count - i - 2) * sizeof *word);
    s->english_count--;
    for (size_t t = 0; t < s->french_count; t++)
        shift_ties(&s->french[t], i);
}

static void contract_english(attn_sentence *s) {
    const attn_contraction *all = s->words->contractions.items;
    for (size_t i = 0; i + 1 < s->english_count; i++)
        for (size_t k = 0; k < s->words->contractions.count; k++)
            if (is(&s->english[i], all[k].first) && is(&s->english[i + 1], all[k].second)) {
                join_english(s, i, all[k].joined);
                break;
            }
}

static void put_links(const attn_sentence *s, attn_pair *out) {
    out->link_count = 0;
    for (size_t t = 0; t < s->french_count; t++)
        for (size_t w = 0; w < s->english_count; w++)
            for (size_t k = 0; k < s->french[t].tie_count; k++)
                if (s->french[t].ties[k].word == w && out->link_count < ATTN_PAIR_LINKS)
                    out->links[out->link_count++] =
                        (attn_link){(uint16_t)w, (uint16_t)t, s->french[t].ties[k].sure};
}

/* Returns the name of a class ("noun", …). */
static const char *name_of_part(attn_part part) {
#define NAME(name, text) text,
    static const char *const names[] = {ATTN_PART_LIST(NAME)};
#undef NAME
    return names[part];
}

/* Sets the target to the classes of the English words. */
static void put_classes(const attn_sentence *s, attn_pair *out) {
    out->target_count = out->link_count = s->english_count;
    for (size_t i = 0; i < s->english_count; i++) {
        out->target[i] = name_of_part(s->english[i].part);
        out->links[i] = (attn_link){(uint16_t)i, (uint16_t)i, true};
    }
}

void attn_sentence_finish(attn_sentence *s, bool classes, attn_pair *out) {
    drop_partitives(s);
    elide_words(s->french, s->french_count);
    elide_words(s->english, s->english_count);
    contract_french(s);
    if (s->contracts)
        contract_english(s);
    for (size_t i = 0; i < s->english_count; i++)
        out->source[i] = s->english[i].form.text;
    for (size_t i = 0; i < s->french_count; i++)
        out->target[i] = s->french[i].form.text;
    out->source_count = s->english_count;
    out->target_count = s->french_count;
    put_links(s, out);
    if (classes)
        put_classes(s, out);
}
