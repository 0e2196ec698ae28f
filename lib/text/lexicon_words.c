/* Makes words of the rows of tables, with all their forms. This file has the rules of regular
 * inflection. The tables hold the irregular forms. */
#include <stdio.h>
#include <string.h>

#include "text/lexicon_words.h"

enum { MOST_LETTERS = 64 };

bool attn_row_next(const char **table, attn_row *out) {
    size_t length = strcspn(*table, "\n");
    if (!length)
        return false;
    out->small = **table == '+';
    const char *from = *table + out->small;
    size_t size = length - out->small;
    if (size >= sizeof out->text)
        size = sizeof out->text - 1;
    memcpy(out->text, from, size);
    out->text[size] = 0;
    *table += length + 1;
    out->count = 0;
    char *rest = out->text, *cell;
    while (out->count < ATTN_ROW_CELLS && (cell = strsep(&rest, " ")))
        out->cells[out->count++] = cell;
    return true;
}

size_t attn_rows_count(const char *table, bool small) {
    size_t count = 0;
    attn_row r;
    while (attn_row_next(&table, &r))
        count += r.small || !small;
    return count;
}

const char *attn_row_keep(attn_row_reader *in, const char *text) {
    char *copy = attn_arena_text(in->arena, text, strlen(text));
    in->failed |= !copy;
    return copy ? copy : "";
}

static const char *join(attn_row_reader *in, const char *stem, size_t length, const char *ending) {
    char text[2 * MOST_LETTERS];
    snprintf(text, sizeof text, "%.*s%s", (int)length, stem, strcmp(ending, "_") ? ending : "");
    return attn_row_keep(in, text);
}

static bool ends(const char *word, const char *ending) {
    size_t n = strlen(word), m = strlen(ending);
    return n >= m && !strcmp(word + n - m, ending);
}

static bool one_of(const char *word, const char *const *list) {
    for (; *list; list++)
        if (!strncmp(word, *list, strlen(*list)))
            return true;
    return false;
}

/* Returns the id of a word: an FNV-1a hash of its text. A word thus has the same id in the small
 * and the large lexicon. */
static uint32_t number(const char *text) {
    uint32_t hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

/* Makes an English word. Its first letter decides whether it begins with a vowel sound; a star
 * before the word inverts the decision. */
static attn_form english(attn_row_reader *in, const char *text) {
    bool star = *text == '*';
    text += star;
    return (attn_form){attn_row_keep(in, text), !strchr("aeiou", *text) == star};
}

static attn_form french(attn_row_reader *in, const char *text) {
    static const char *const vowels[] = {"a", "e", "i", "o", "u", "y", "h", "â", "à",
                                         "é", "è", "ê", "î", "ô", "û", "œ", NULL};
    bool star = *text == '*';
    text += star;
    return (attn_form){attn_row_keep(in, text), !star && one_of(text, vowels)};
}

static attn_form with(attn_row_reader *in, attn_form word, size_t letters, const char *ending) {
    return (attn_form){join(in, word.text, letters, ending), word.vowel};
}

/* Returns an English noun or verb with -s: cats, boxes, cities, washes, cries. */
static attn_form english_s(attn_row_reader *in, attn_form word) {
    size_t n = strlen(word.text);
    if (ends(word.text, "y") && n > 1 && !strchr("aeou", word.text[n - 2]))
        return with(in, word, n - 1, "ies");
    bool hisses = ends(word.text, "s") || ends(word.text, "x") || ends(word.text, "ch") ||
                  ends(word.text, "sh") || ends(word.text, "z") || ends(word.text, "go");
    return with(in, word, n, hisses ? "es" : "s");
}

static attn_form english_ed(attn_row_reader *in, attn_form word) {
    size_t n = strlen(word.text);
    if (ends(word.text, "y") && n > 1 && !strchr("aeou", word.text[n - 2]))
        return with(in, word, n - 1, "ied");
    return with(in, word, n, ends(word.text, "e") ? "d" : "ed");
}

static attn_form french_plural(attn_row_reader *in, attn_form word) {
    size_t n = strlen(word.text);
    if (ends(word.text, "s") || ends(word.text, "x") || ends(word.text, "z"))
        return word;
    if (ends(word.text, "al"))
        return with(in, word, n - 2, "aux");
    return with(in, word, n, ends(word.text, "eau") ? "x" : "s");
}

static attn_form french_feminine(attn_row_reader *in, attn_form word) {
    return ends(word.text, "e") ? word : with(in, word, strlen(word.text), "e");
}

/* Ends the text of the cell at its first "/". Returns the text after it, or NULL if there is
 * none. */
static char *split(char *cell) {
    char *slash = strchr(cell, '/');
    if (slash)
        *slash++ = 0;
    return slash;
}

bool attn_read_noun(attn_row_reader *in, attn_row *r, attn_noun *out) {
    if (r->count != 4)
        return false;
    char *plurals[2] = {split(r->cells[0]), split(r->cells[1])};
    out->english[SINGULAR] = english(in, r->cells[0]);
    out->english[PLURAL] =
        plurals[0] ? english(in, plurals[0]) : english_s(in, out->english[SINGULAR]);
    out->french[SINGULAR] = french(in, r->cells[1]);
    out->french[PLURAL] = plurals[1]
                              ? (attn_form){attn_row_keep(in, plurals[1]), out->french[0].vowel}
                              : french_plural(in, out->french[SINGULAR]);
    out->gender = *r->cells[2] == 'f' ? FEMININE : MASCULINE;
    out->kind = *r->cells[3];
    out->id = number(out->english[SINGULAR].text);
    return true;
}

bool attn_read_name(attn_row_reader *in, attn_row *r, attn_noun *out) {
    if (r->count != 3)
        return false;
    *out = (attn_noun){.gender = *r->cells[2] == 'f' ? FEMININE : MASCULINE, .kind = 'n'};
    out->english[0] = out->english[1] = english(in, r->cells[0]);
    out->french[0] = out->french[1] = french(in, r->cells[1]);
    return true;
}

bool attn_read_adjective(attn_row_reader *in, attn_row *r, attn_adjective *out) {
    if (r->count != 4)
        return false;
    char *feminine = split(r->cells[1]), *vowel = feminine ? split(feminine) : NULL;
    out->english = english(in, r->cells[0]);
    attn_form male = french(in, r->cells[1]);
    attn_form female = feminine ? french(in, feminine) : french_feminine(in, male);
    female.vowel = male.vowel;
    out->french[MASCULINE][SINGULAR] = male;
    out->french[MASCULINE][PLURAL] = french_plural(in, male);
    out->french[FEMININE][SINGULAR] = female;
    out->french[FEMININE][PLURAL] = french_plural(in, female);
    out->french_vowel = vowel ? french(in, vowel) : male;
    out->before = *r->cells[2] == 'b';
    out->kinds = attn_row_keep(in, r->cells[3]);
    out->id = number(out->english.text);
    return true;
}

/* Finds the row of endings named `key`, which is the part of an infinitive after the bar. */
static bool find_endings(const char *key, attn_row *out) {
    const char *table = attn_lexicon_endings;
    while (attn_row_next(&table, out))
        if (!strcmp(out->cells[0], key))
            return out->count == 9;
    return false;
}

static attn_form inflect(attn_row_reader *in, const char *stem, const char *ending,
                         bool no_elision) {
    char text[2 * MOST_LETTERS];
    snprintf(text, sizeof text, "%s%s%s", no_elision ? "*" : "", stem,
             strcmp(ending, "_") ? ending : "");
    return french(in, text);
}

/* Returns an English verb with -ing: eating, writing, running, lying. A short verb doubles its last
 * consonant, and so does a verb whose past does ("travelled"). */
static attn_form english_ing(attn_row_reader *in, const attn_verb *verb) {
    const char *base = verb->base.text;
    const size_t n = strlen(base);
    if (n > 2 && ends(base, "ie"))
        return (attn_form){join(in, join(in, base, n - 2, "y"), n - 1, "ing"), verb->base.vowel};
    if (n > 2 && ends(base, "e") && !strchr("eoy", base[n - 2]))
        return with(in, verb->base, n - 1, "ing");
    size_t vowels = 0;
    for (size_t i = 0; i < n; i++)
        vowels += strchr("aeiou", base[i]) != NULL;
    const bool closed = n > 2 && vowels == 1 && strchr("aeiou", base[n - 2]) &&
                        !strchr("aeiouwxy", base[n - 1]),
               doubled = strlen(verb->past.text) > n && !strncmp(verb->past.text, base, n) &&
                         verb->past.text[n] == base[n - 1] && base[n - 1] != 'e';
    if (!closed && !doubled)
        return with(in, verb->base, n, "ing");
    const char last[] = {base[n - 1], 'i', 'n', 'g', 0};
    return with(in, verb->base, n, last);
}

/* Makes the French imperfect from the present of nous: mangeons, mangeais, mangions. */
static void make_imperfect(attn_row_reader *in, attn_verb *out) {
    static const char *const endings[6] = {"ais", "ais", "ait", "ions", "iez", "aient"};
    const attn_form nous = out->present[3];
    if (!ends(nous.text, "ons"))
        return;
    const size_t n = strlen(nous.text) - 3;
    for (size_t i = 0; i < 6; i++) {
        const bool before_i = *endings[i] == 'i';
        if (before_i && n > 2 && !strncmp(nous.text + n - 2, "ge", 2))
            out->imperfect[i] = with(in, nous, n - 1, endings[i]);
        else if (before_i && n > 2 && !strncmp(nous.text + n - 2, "ç", 2))
            out->imperfect[i] = (attn_form){
                join(in, join(in, nous.text, n - 2, "c"), n - 1, endings[i]), nous.vowel};
        else
            out->imperfect[i] = with(in, nous, n, endings[i]);
    }
}

static bool conjugate(attn_row_reader *in, char *infinitive, attn_verb *out) {
    static const char *const future[6] = {"ai", "as", "a", "ons", "ez", "ont"};
    attn_row endings;
    bool no_elision = *infinitive == '*';
    char *stem = infinitive + no_elision, *bar = strchr(stem, '|'), text[MOST_LETTERS];
    if (!bar || !find_endings(bar + 1, &endings))
        return false;
    *bar = 0;
    for (size_t i = 0; i < 6; i++) {
        out->present[i] = inflect(in, stem, endings.cells[1 + i], no_elision);
        snprintf(text, sizeof text, "%.30s%.30s", endings.cells[8], future[i]);
        out->future[i] = inflect(in, stem, text, no_elision);
    }
    attn_form male = inflect(in, stem, endings.cells[7], no_elision);
    attn_form female = with(in, male, strlen(male.text), "e");
    /* The accent of dû is lost in due, dus and dues. This does not matter, since modal verbs have
     * no participles. */
    out->participle[MASCULINE][SINGULAR] = male;
    out->participle[MASCULINE][PLURAL] = french_plural(in, male);
    out->participle[FEMININE][SINGULAR] = female;
    out->participle[FEMININE][PLURAL] = with(in, female, strlen(female.text), "s");
    out->infinitive = inflect(in, stem, bar + 1, no_elision);
    return true;
}

static const char *preposition(attn_row_reader *in, const attn_row *r, size_t cell) {
    return r->count > cell && strcmp(r->cells[cell], "-") ? attn_row_keep(in, r->cells[cell])
                                                          : NULL;
}

bool attn_read_verb(attn_row_reader *in, attn_row *r, attn_verb *out) {
    if (r->count < 2)
        return false;
    char *past = split(r->cells[0]);
    out->base = english(in, r->cells[0]);
    bool have = !strcmp(out->base.text, "have");
    out->third = have ? english(in, "has") : english_s(in, out->base);
    out->past = past ? english(in, past) : english_ed(in, out->base);
    out->kinds = attn_row_keep(in, r->count > 2 ? r->cells[2] : "");
    out->english_to = preposition(in, r, 3);
    out->french_to = preposition(in, r, 4);
    out->etre = r->count == 3 && !strcmp(r->cells[2], "!");
    out->id = number(out->base.text);
    out->ing = english_ing(in, out);
    if (!conjugate(in, r->cells[1], out))
        return false;
    make_imperfect(in, out);
    return true;
}

bool attn_read_going(attn_row_reader *in, attn_row *r, attn_verb *out) {
    if (r->count != 4 || !attn_read_verb(in, r, out))
        return false;
    out->kinds = "l";
    out->english_to = preposition(in, r, 2);
    out->french_to = preposition(in, r, 3);
    out->etre = true;
    return true;
}

bool attn_read_adverb(attn_row_reader *in, attn_row *r, attn_adverb *out) {
    if (r->count < 2)
        return false;
    *out = (attn_adverb){english(in, r->cells[0]), french(in, r->cells[1]), r->count > 2};
    return true;
}

bool attn_read_preposition(attn_row_reader *in, attn_row *r, attn_preposition *out) {
    if (r->count < 3)
        return false;
    *out = (attn_preposition){english(in, r->cells[0]), french(in, r->cells[1]),
                              preposition(in, r, 3), attn_row_keep(in, r->cells[2])};
    return true;
}

bool attn_read_posture(attn_row_reader *in, attn_row *r, attn_posture *out) {
    if (r->count != 2)
        return false;
    char *past = split(r->cells[0]), *feminine = split(r->cells[1]);
    out->verb.base = english(in, r->cells[0]);
    out->verb.third = english_s(in, out->verb.base);
    out->verb.past = past ? english(in, past) : english_ed(in, out->verb.base);
    out->verb.ing = english_ing(in, &out->verb);
    const attn_form male = french(in, r->cells[1]);
    const bool fixed = feminine && !strcmp(feminine, r->cells[1]);
    const attn_form female = fixed ? male : french_feminine(in, male);
    out->state.french[MASCULINE][SINGULAR] = male;
    out->state.french[MASCULINE][PLURAL] = fixed ? male : french_plural(in, male);
    out->state.french[FEMININE][SINGULAR] = female;
    out->state.french[FEMININE][PLURAL] = fixed ? female : french_plural(in, female);
    return true;
}

bool attn_read_role(attn_row_reader *in, attn_row *r, attn_role *out) {
    if (r->count != 2)
        return false;
    char *feminine = split(r->cells[1]);
    const attn_form male = french(in, r->cells[1]),
                    female = feminine ? french(in, feminine) : french_feminine(in, male);
    out->english[SINGULAR] = english(in, r->cells[0]);
    out->english[PLURAL] = english_s(in, out->english[SINGULAR]);
    out->french[MASCULINE][SINGULAR] = male;
    out->french[MASCULINE][PLURAL] = french_plural(in, male);
    out->french[FEMININE][SINGULAR] = female;
    out->french[FEMININE][PLURAL] = french_plural(in, female);
    return true;
}

bool attn_read_proper(attn_row_reader *in, attn_row *r, attn_noun *out) {
    if (!attn_read_name(in, r, out))
        return false;
    char *texts[2] = {attn_arena_text(in->arena, r->cells[0], strlen(r->cells[0])),
                      attn_arena_text(in->arena, r->cells[1], strlen(r->cells[1]))};
    in->failed |= !texts[0] || !texts[1];
    for (size_t i = 0; !in->failed && i < 2; i++)
        *texts[i] = (char)(*texts[i] - 'a' + 'A');
    out->english[0].text = out->english[1].text = texts[0];
    out->french[0].text = out->french[1].text = texts[1];
    return true;
}
