/* Reads the tables of words and makes all forms of nouns, adjectives and verbs. This file has the
 * rules of regular inflection. The tables hold the irregular forms. */
#include <stdio.h>
#include <string.h>

#include "attn/rng.h"
#include "text/lexicon.h"

enum { MOST_CELLS = 10, MOST_LETTERS = 64 };

/* One row of a table: a copy of its text, divided into cells. */
typedef struct row {
    char text[128];
    char *cells[MOST_CELLS];
    size_t count;
    bool small; /* the row begins with "+": the word is in the small lexicon too */
} row;

typedef struct reader {
    attn_arena *arena;
    bool failed; /* memory ran out */
    bool small;  /* read only rows with "+" */
} reader;

static bool next_row(const char **table, row *out) {
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
    while (out->count < MOST_CELLS && (cell = strsep(&rest, " ")))
        out->cells[out->count++] = cell;
    return true;
}

static size_t count_rows(const char *table, bool small) {
    size_t count = 0;
    row r;
    while (next_row(&table, &r))
        count += r.small || !small;
    return count;
}

static const char *keep(reader *in, const char *text) {
    char *copy = attn_arena_text(in->arena, text, strlen(text));
    in->failed |= !copy;
    return copy ? copy : "";
}

static const char *join(reader *in, const char *stem, size_t length, const char *ending) {
    char text[2 * MOST_LETTERS];
    snprintf(text, sizeof text, "%.*s%s", (int)length, stem, strcmp(ending, "_") ? ending : "");
    return keep(in, text);
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
static attn_form english(reader *in, const char *text) {
    bool star = *text == '*';
    text += star;
    return (attn_form){keep(in, text), !strchr("aeiou", *text) == star};
}

static attn_form french(reader *in, const char *text) {
    static const char *const vowels[] = {"a", "e", "i", "o", "u", "y", "h", "â", "à",
                                         "é", "è", "ê", "î", "ô", "û", "œ", NULL};
    bool star = *text == '*';
    text += star;
    return (attn_form){keep(in, text), !star && one_of(text, vowels)};
}

static attn_form with(reader *in, attn_form word, size_t letters, const char *ending) {
    return (attn_form){join(in, word.text, letters, ending), word.vowel};
}

/* Returns an English noun or verb with -s: cats, boxes, cities, washes, cries. */
static attn_form english_s(reader *in, attn_form word) {
    size_t n = strlen(word.text);
    if (ends(word.text, "y") && n > 1 && !strchr("aeou", word.text[n - 2]))
        return with(in, word, n - 1, "ies");
    bool hisses = ends(word.text, "s") || ends(word.text, "x") || ends(word.text, "ch") ||
                  ends(word.text, "sh") || ends(word.text, "z") || ends(word.text, "go");
    return with(in, word, n, hisses ? "es" : "s");
}

static attn_form english_ed(reader *in, attn_form word) {
    size_t n = strlen(word.text);
    if (ends(word.text, "y") && n > 1 && !strchr("aeou", word.text[n - 2]))
        return with(in, word, n - 1, "ied");
    return with(in, word, n, ends(word.text, "e") ? "d" : "ed");
}

static attn_form french_plural(reader *in, attn_form word) {
    size_t n = strlen(word.text);
    if (ends(word.text, "s") || ends(word.text, "x") || ends(word.text, "z"))
        return word;
    if (ends(word.text, "al"))
        return with(in, word, n - 2, "aux");
    return with(in, word, n, ends(word.text, "eau") ? "x" : "s");
}

static attn_form french_feminine(reader *in, attn_form word) {
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

static bool read_noun(reader *in, row *r, attn_noun *out) {
    if (r->count != 4)
        return false;
    char *plurals[2] = {split(r->cells[0]), split(r->cells[1])};
    out->english[SINGULAR] = english(in, r->cells[0]);
    out->english[PLURAL] =
        plurals[0] ? english(in, plurals[0]) : english_s(in, out->english[SINGULAR]);
    out->french[SINGULAR] = french(in, r->cells[1]);
    out->french[PLURAL] = plurals[1] ? (attn_form){keep(in, plurals[1]), out->french[0].vowel}
                                     : french_plural(in, out->french[SINGULAR]);
    out->gender = *r->cells[2] == 'f' ? FEMININE : MASCULINE;
    out->kind = *r->cells[3];
    out->id = number(out->english[SINGULAR].text);
    return true;
}

static bool read_name(reader *in, row *r, attn_noun *out) {
    if (r->count != 3)
        return false;
    *out = (attn_noun){.gender = *r->cells[2] == 'f' ? FEMININE : MASCULINE, .kind = 'n'};
    out->english[0] = out->english[1] = english(in, r->cells[0]);
    out->french[0] = out->french[1] = french(in, r->cells[1]);
    return true;
}

static bool read_adjective(reader *in, row *r, attn_adjective *out) {
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
    out->kinds = keep(in, r->cells[3]);
    out->id = number(out->english.text);
    return true;
}

/* Finds the row of endings named `key`, which is the part of an infinitive after the bar. */
static bool find_endings(const char *key, row *out) {
    const char *table = attn_lexicon_endings;
    while (next_row(&table, out))
        if (!strcmp(out->cells[0], key))
            return out->count == 9;
    return false;
}

static attn_form inflect(reader *in, const char *stem, const char *ending, bool no_elision) {
    char text[2 * MOST_LETTERS];
    snprintf(text, sizeof text, "%s%s%s", no_elision ? "*" : "", stem,
             strcmp(ending, "_") ? ending : "");
    return french(in, text);
}

/* Returns an English verb with -ing: eating, writing, running, lying. A short verb doubles its last
 * consonant, and so does a verb whose past does ("travelled"). */
static attn_form english_ing(reader *in, const attn_verb *verb) {
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
static void make_imperfect(reader *in, attn_verb *out) {
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

static bool conjugate(reader *in, char *infinitive, attn_verb *out) {
    static const char *const future[6] = {"ai", "as", "a", "ons", "ez", "ont"};
    row endings;
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

static const char *preposition(reader *in, const row *r, size_t cell) {
    return r->count > cell && strcmp(r->cells[cell], "-") ? keep(in, r->cells[cell]) : NULL;
}

static bool read_verb(reader *in, row *r, attn_verb *out) {
    if (r->count < 2)
        return false;
    char *past = split(r->cells[0]);
    out->base = english(in, r->cells[0]);
    bool have = !strcmp(out->base.text, "have");
    out->third = have ? english(in, "has") : english_s(in, out->base);
    out->past = past ? english(in, past) : english_ed(in, out->base);
    out->kinds = keep(in, r->count > 2 ? r->cells[2] : "");
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

static bool read_going(reader *in, row *r, attn_verb *out) {
    if (r->count != 4 || !read_verb(in, r, out))
        return false;
    out->kinds = "l";
    out->english_to = preposition(in, r, 2);
    out->french_to = preposition(in, r, 3);
    out->etre = true;
    return true;
}

static bool read_adverb(reader *in, row *r, attn_adverb *out) {
    if (r->count < 2)
        return false;
    *out = (attn_adverb){english(in, r->cells[0]), french(in, r->cells[1]), r->count > 2};
    return true;
}

static bool read_preposition(reader *in, row *r, attn_preposition *out) {
    if (r->count < 3)
        return false;
    *out = (attn_preposition){english(in, r->cells[0]), french(in, r->cells[1]),
                              preposition(in, r, 3), keep(in, r->cells[2])};
    return true;
}

/* Tells whether the table `more` has a row of the same English word, which may have another case.
 * NULL is an empty table. */
static bool is_replaced(const row *r, const char *more) {
    row other;
    const char *word = r->cells[0] + (*r->cells[0] == '*');
    const size_t n = strcspn(word, "/");
    while (more && next_row(&more, &other)) {
        const char *same = other.cells[0] + (*other.cells[0] == '*');
        if (strcspn(same, "/") == n && (*same | 0x20) == *word &&
            !strncmp(same + 1, word + 1, n - 1))
            return true;
    }
    return false;
}

/* The rows that a pass over a table reads. */
typedef enum pass { ALL_ROWS, SMALL_ROWS, OTHER_ROWS } pass;

static bool is_wanted(const reader *in, const row *r, pass which, const char *more) {
    if (which == ALL_ROWS ? in->small && !r->small : r->small != (which == SMALL_ROWS))
        return false;
    return !is_replaced(r, more);
}

/* Appends the words of the rows that a pass reads to a list with enough space. */
#define FILL(list, table, read, which, more)                                                       \
    do {                                                                                           \
        const char *rest_ = (table);                                                               \
        for (row r_; !in->failed && next_row(&rest_, &r_);)                                        \
            if (is_wanted(in, &r_, (which), (more)) &&                                             \
                !read(in, &r_, &(list).items[(list).count++]))                                     \
                return attn_fail(err, ATTN_EARG, "lexicon", "a row does not read: %.80s",          \
                                 r_.text);                                                         \
    } while (0)

#define MAKE_ROOM(list, rows)                                                                      \
    do {                                                                                           \
        (list).items = attn_arena_zeroed(in->arena, (rows), sizeof *(list).items);                 \
        in->failed |= !(list).items;                                                               \
    } while (0)

#define READ(list, table, read)                                                                    \
    do {                                                                                           \
        MAKE_ROOM(list, count_rows((table), in->small));                                           \
        FILL(list, table, read, ALL_ROWS, NULL);                                                   \
    } while (0)

/* Reads a class of en-fr-text: the rows of `more`, which are common, then the other rows with "+",
 * which are common too, then the rest. */
#define READ_TEXT(list, table, more, read)                                                         \
    do {                                                                                           \
        MAKE_ROOM(list, count_rows((table), false) + count_rows((more), false));                   \
        FILL(list, more, read, ALL_ROWS, NULL);                                                    \
        FILL(list, table, read, SMALL_ROWS, more);                                                 \
        (list).common = (list).count;                                                              \
        FILL(list, table, read, OTHER_ROWS, more);                                                 \
    } while (0)

static const char *const noun_tables[] = {attn_lexicon_people, attn_lexicon_places,
                                          attn_lexicon_things};
enum { NOUN_TABLES = sizeof noun_tables / sizeof *noun_tables };

static attn_status read_nouns(attn_lexicon *out, reader *in, attn_error *err) {
    size_t count = 0;
    for (size_t i = 0; i < NOUN_TABLES; i++)
        count += count_rows(noun_tables[i], in->small);
    MAKE_ROOM(out->nouns, count);
    for (size_t i = 0; i < NOUN_TABLES; i++)
        FILL(out->nouns, noun_tables[i], read_noun, ALL_ROWS, NULL);
    return ATTN_OK;
}

static bool read_auxiliary(reader *in, const char *text, attn_verb *out) {
    row r;
    return next_row(&text, &r) && read_verb(in, &r, out);
}

static attn_status read_auxiliaries(attn_lexicon *out, reader *in, attn_error *err) {
    bool ok = read_auxiliary(in, "can/could |pouvoir\n", &out->can) &&
              read_auxiliary(in, "must |devoir\n", &out->must) &&
              read_auxiliary(in, "want |vouloir\n", &out->want) &&
              read_auxiliary(in, "be/was |être\n", &out->be) &&
              read_auxiliary(in, "have/had |avoir\n", &out->have);
    if (in->failed)
        return attn_fail(err, ATTN_ENOMEM, "lexicon", "no memory for the words");
    return ok ? ATTN_OK : attn_fail(err, ATTN_EARG, "lexicon", "an auxiliary does not read");
}

/* Reads the classes that both tasks take from the same tables. */
static attn_status read_shared(attn_lexicon *out, reader *in, attn_error *err) {
    READ(out->alone, attn_lexicon_alone, read_verb);
    READ(out->going, attn_lexicon_going, read_going);
    READ(out->giving, attn_lexicon_giving, read_verb);
    READ(out->saying, attn_lexicon_saying, read_verb);
    READ(out->often, attn_lexicon_often, read_adverb);
    READ(out->prepositions, attn_lexicon_prepositions, read_preposition);
    return read_auxiliaries(out, in, err);
}

attn_status attn_lexicon_read(attn_lexicon *out, bool small, attn_arena *arena, attn_error *err) {
    *out = (attn_lexicon){0};
    reader state = {.arena = arena, .small = small}, *in = &state;
    attn_status status = read_nouns(out, in, err);
    if (status)
        return status;
    READ(out->names, attn_lexicon_names, read_name);
    READ(out->adjectives, attn_lexicon_adjectives, read_adjective);
    READ(out->acting, attn_lexicon_acting, read_verb);
    READ(out->manner, attn_lexicon_manner, read_adverb);
    return read_shared(out, in, err);
}

/* --- the lexicon of en-fr-text --- */

static bool read_posture(reader *in, row *r, attn_posture *out) {
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

static bool read_role(reader *in, row *r, attn_role *out) {
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

/* Reads a name with a capital letter. */
static bool read_proper(reader *in, row *r, attn_noun *out) {
    if (!read_name(in, r, out))
        return false;
    char *texts[2] = {attn_arena_text(in->arena, r->cells[0], strlen(r->cells[0])),
                      attn_arena_text(in->arena, r->cells[1], strlen(r->cells[1]))};
    if (!texts[0] || !texts[1])
        return false;
    for (size_t i = 0; i < 2; i++)
        *texts[i] = (char)(*texts[i] - 'a' + 'A');
    out->english[0].text = out->english[1].text = texts[0];
    out->french[0].text = out->french[1].text = texts[1];
    return true;
}

/* Makes names that mean nothing, such as "Bratolin". A model that has to copy them learns to copy
 * names that it does not know. */
static attn_status invent_names(attn_lexicon *out, reader *in, attn_error *err) {
    static const char *const heads[] = {"b", "c", "d",  "f",  "g",  "h",  "j",  "k",  "l", "m",
                                        "n", "p", "r",  "s",  "t",  "v",  "w",  "z",  "y", "qu",
                                        "b", "d", "br", "ch", "kl", "st", "th", "tr", "s", "m"},
                             *const cores[] = {"a", "e", "i", "o", "u", "y", "ai", "ou", "ea", "o"},
                             *const tails[] = {"", "", "", "n", "r", "s", "l", "t", "ck", "x"};
    enum { NAMES = 8192 };
    MAKE_ROOM(out->invented, NAMES);
    for (size_t i = 0; !in->failed && i < NAMES; i++) {
        char text[32] = "";
        uint64_t bits = attn_rng_bits(i, 0);
        for (size_t left = 1 + bits % 3; left; left--) {
            bits = attn_rng_bits(bits, 1);
            strcat(text, heads[bits % 30]);
            strcat(text, cores[bits / 30 % 10]);
            strcat(text, tails[bits / 300 % 10]);
        }
        *text = (char)(*text - 'a' + 'A');
        out->invented.items[out->invented.count++] = (attn_form){keep(in, text), false};
    }
    return in->failed ? attn_fail(err, ATTN_ENOMEM, "lexicon", "no memory for names") : ATTN_OK;
}

static attn_status read_text_nouns(attn_lexicon *out, reader *in, attn_error *err) {
    size_t count = count_rows(attn_text_nouns, false);
    for (size_t i = 0; i < NOUN_TABLES; i++)
        count += count_rows(noun_tables[i], false);
    MAKE_ROOM(out->nouns, count);
    FILL(out->nouns, attn_text_nouns, read_noun, ALL_ROWS, NULL);
    for (pass which = SMALL_ROWS; which <= OTHER_ROWS; which++) {
        for (size_t i = 0; i < NOUN_TABLES; i++)
            FILL(out->nouns, noun_tables[i], read_noun, which, attn_text_nouns);
        if (which == SMALL_ROWS)
            out->nouns.common = out->nouns.count;
    }
    return ATTN_OK;
}

attn_status attn_lexicon_read_text(attn_lexicon *out, attn_arena *arena, attn_error *err) {
    *out = (attn_lexicon){.text = true};
    reader state = {.arena = arena}, *in = &state;
    attn_status status = read_text_nouns(out, in, err);
    if (!status)
        status = invent_names(out, in, err);
    if (status)
        return status;
    READ_TEXT(out->names, attn_lexicon_names, attn_text_names, read_proper);
    READ_TEXT(out->adjectives, attn_lexicon_adjectives, attn_text_adjectives, read_adjective);
    READ_TEXT(out->acting, attn_lexicon_acting, attn_text_acting, read_verb);
    READ_TEXT(out->manner, attn_lexicon_manner, attn_text_manner, read_adverb);
    READ(out->mass, attn_text_mass, read_noun);
    READ(out->roles, attn_text_roles, read_role);
    READ(out->postures, attn_text_postures, read_posture);
    READ(out->generic, attn_text_generic, read_verb);
    READ(out->partitive, attn_text_partitive, read_verb);
    return read_shared(out, in, err);
}
