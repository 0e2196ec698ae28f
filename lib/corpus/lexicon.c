/* Reads lexicon.txt. Each row gives a word with all its forms. The rules of regular inflection are
 * in this file, the irregular forms are in the rows. */
#include <stdio.h>
#include <string.h>

#include "attn/rng.h"
#include "base/try.h"
#include "corpus/lexicon.h"

enum { MOST_CELLS = 10, MOST_LETTERS = 64 };

/* A copy of a line, divided at blanks: the first word is `marks`, the others are cells. */
typedef struct row {
    char text[192];
    char *marks, *cells[MOST_CELLS];
    size_t count; /* number of cells */
} row;

typedef struct reader {
    attn_arena *arena;
    attn_lexicon *words; /* the classes that have been read so far */
    bool failed;         /* memory ran out */
} reader;

/* Reads the next line and moves *at behind it. Returns false at the end of the text, or if the line
 * is too long. */
static bool next_row(const char **at, row *out) {
    const size_t length = strcspn(*at, "\n");
    char *rest = out->text, *cell;
    out->marks = NULL;
    out->count = 0;
    if (!**at || length >= sizeof out->text)
        return false;
    memcpy(out->text, *at, length);
    out->text[length] = 0;
    *at += length + ((*at)[length] == '\n');
    while (out->count < MOST_CELLS && (cell = strsep(&rest, " ")))
        if (*cell && !out->marks)
            out->marks = cell;
        else if (*cell)
            out->cells[out->count++] = cell;
    return true;
}

/* --- forms of words --- */

/* Returns a copy of a text. If memory runs out, sets in->failed and returns "". */
static const char *keep_text(reader *in, const char *text) {
    const char *copy = attn_arena_text(in->arena, text, strlen(text));
    in->failed |= !copy;
    return copy ? copy : "";
}

static const char *join_texts(reader *in, const char *stem, size_t length, const char *ending) {
    char text[2 * MOST_LETTERS];
    snprintf(text, sizeof text, "%.*s%s", (int)length, stem, ending);
    return keep_text(in, text);
}

static bool ends_with(const char *word, const char *ending) {
    const size_t n = strlen(word), m = strlen(ending);
    return n >= m && !strcmp(word + n - m, ending);
}

/* Returns the id of a word: an FNV-1a hash of its text. A word thus has the same id in all
 * lexicons. */
static uint32_t id_of(attn_form word) {
    uint32_t hash = 2166136261u;
    for (const char *c = word.text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    return hash;
}

/* Makes an English word. Its first letter decides whether it begins with a vowel sound; a star
 * before the word inverts the decision. */
static attn_form english(reader *in, const char *text) {
    const bool star = *text == '*';
    text += star;
    return (attn_form){keep_text(in, text), !strchr("aeiou", *text) == star};
}

static attn_form french(reader *in, const char *text) {
    static const char *const vowels[] = {"a", "e", "i", "o", "u", "y", "h", "â",
                                         "à", "é", "è", "ê", "î", "ô", "û", "œ"};
    if (*text == '*')
        return (attn_form){keep_text(in, text + 1), false};
    bool vowel = false;
    for (size_t i = 0; i < sizeof vowels / sizeof *vowels; i++)
        vowel |= !strncmp(text, vowels[i], strlen(vowels[i]));
    return (attn_form){keep_text(in, text), vowel};
}

/* Returns the first `letters` bytes of a word, followed by an ending. */
static attn_form with_ending(reader *in, attn_form word, size_t letters, const char *ending) {
    return (attn_form){join_texts(in, word.text, letters, ending), word.vowel};
}

static bool ends_in_consonant_y(const char *word) {
    const size_t n = strlen(word);
    return ends_with(word, "y") && n > 1 && !strchr("aeou", word[n - 2]);
}

/* Returns an English noun or verb with -s: cats, boxes, cities, washes, cries. */
static attn_form english_s(reader *in, attn_form word) {
    static const char *const hissing[] = {"s", "x", "ch", "sh", "z", "go"};
    const size_t n = strlen(word.text);
    if (ends_in_consonant_y(word.text))
        return with_ending(in, word, n - 1, "ies");
    bool hisses = false;
    for (size_t i = 0; i < sizeof hissing / sizeof *hissing; i++)
        hisses |= ends_with(word.text, hissing[i]);
    return with_ending(in, word, n, hisses ? "es" : "s");
}

static attn_form english_ed(reader *in, attn_form word) {
    const size_t n = strlen(word.text);
    if (ends_in_consonant_y(word.text))
        return with_ending(in, word, n - 1, "ied");
    return with_ending(in, word, n, ends_with(word.text, "e") ? "d" : "ed");
}

/* Returns an English verb with -ing: eating, writing, running, lying. The last consonant is doubled
 * in a short verb, and in a verb whose past doubles it ("travelled"). */
static attn_form english_ing(reader *in, const attn_verb *verb) {
    const char *base = verb->base.text;
    const size_t n = strlen(base);
    if (n > 2 && ends_with(base, "ie"))
        return (attn_form){join_texts(in, join_texts(in, base, n - 2, "y"), n - 1, "ing"),
                           verb->base.vowel};
    if (n > 2 && ends_with(base, "e") && !strchr("eoy", base[n - 2]))
        return with_ending(in, verb->base, n - 1, "ing");
    size_t vowels = 0;
    for (size_t i = 0; i < n; i++)
        vowels += strchr("aeiou", base[i]) != NULL;
    const bool closed = n > 2 && vowels == 1 && strchr("aeiou", base[n - 2]) &&
                        !strchr("aeiouwxy", base[n - 1]),
               doubled = strlen(verb->past.text) > n && !strncmp(verb->past.text, base, n) &&
                         verb->past.text[n] == base[n - 1] && base[n - 1] != 'e';
    if (!closed && !doubled)
        return with_ending(in, verb->base, n, "ing");
    const char last[] = {base[n - 1], 'i', 'n', 'g', 0};
    return with_ending(in, verb->base, n, last);
}

static attn_form french_plural(reader *in, attn_form word) {
    const size_t n = strlen(word.text);
    if (ends_with(word.text, "s") || ends_with(word.text, "x") || ends_with(word.text, "z"))
        return word;
    if (ends_with(word.text, "al"))
        return with_ending(in, word, n - 2, "aux");
    return with_ending(in, word, n, ends_with(word.text, "eau") ? "x" : "s");
}

/* Ends the text of the cell at its first "/" and returns the text after the "/". NULL: the cell has
 * no "/". */
static char *split_cell(char *cell) {
    char *slash = strchr(cell, '/');
    if (slash)
        *slash++ = 0;
    return slash;
}

/* Makes the forms [gender][number] from a cell "masculine" or "masculine/feminine". If the feminine
 * is "=", all forms are equal. */
static void french_forms(reader *in, char *cell, attn_form out[2][2]) {
    const char *feminine = split_cell(cell);
    const attn_form male = french(in, cell);
    const bool fixed = feminine && !strcmp(feminine, "=");
    attn_form female = male;
    if (feminine && !fixed)
        female = french(in, feminine);
    else if (!fixed && !ends_with(male.text, "e"))
        female = with_ending(in, male, strlen(male.text), "e");
    female.vowel = male.vowel;
    out[MASCULINE][SINGULAR] = male, out[FEMININE][SINGULAR] = female;
    out[MASCULINE][PLURAL] = fixed ? male : french_plural(in, male);
    out[FEMININE][PLURAL] = fixed ? male : french_plural(in, female);
}

static attn_form french_form(reader *in, const char *stem, const char *ending, bool no_elision) {
    char text[2 * MOST_LETTERS];
    snprintf(text, sizeof text, "%s%s%s", no_elision ? "*" : "", stem,
             strcmp(ending, "_") ? ending : "");
    return french(in, text);
}

/* Makes the French imperfect from the present of nous: mangeons, mangeais, mangions. */
static void make_imperfect(reader *in, attn_verb *out) {
    static const char *const endings[6] = {"ais", "ais", "ait", "ions", "iez", "aient"};
    const attn_form nous = out->present[3];
    if (!ends_with(nous.text, "ons"))
        return;
    const size_t n = strlen(nous.text) - 3;
    for (size_t i = 0; i < 6; i++) {
        const bool before_i = *endings[i] == 'i';
        if (before_i && n > 2 && !strncmp(nous.text + n - 2, "ge", 2))
            out->imperfect[i] = with_ending(in, nous, n - 1, endings[i]);
        else if (before_i && n > 2 && !strncmp(nous.text + n - 2, "ç", 2))
            out->imperfect[i] = (attn_form){
                join_texts(in, join_texts(in, nous.text, n - 2, "c"), n - 1, endings[i]),
                nous.vowel};
        else
            out->imperfect[i] = with_ending(in, nous, n, endings[i]);
    }
}

static const attn_endings *find_endings(const reader *in, const char *key) {
    for (size_t i = 0; i < in->words->endings.count; i++)
        if (!strcmp(in->words->endings.items[i].key, key))
            return &in->words->endings.items[i];
    return NULL;
}

/* Makes the French forms of a verb from its infinitive "stem|key". Returns false if the lexicon has
 * no endings of this key. */
static bool conjugate(reader *in, char *infinitive, attn_verb *out) {
    static const char *const future[6] = {"ai", "as", "a", "ons", "ez", "ont"};
    const bool no_elision = *infinitive == '*';
    char *stem = infinitive + no_elision, *bar = strchr(stem, '|'), text[MOST_LETTERS];
    const attn_endings *endings = bar ? find_endings(in, bar + 1) : NULL;
    if (!endings)
        return false;
    *bar = 0;
    for (size_t i = 0; i < 6; i++) {
        out->present[i] = french_form(in, stem, endings->present[i], no_elision);
        snprintf(text, sizeof text, "%.30s%.30s", endings->future, future[i]);
        out->future[i] = french_form(in, stem, text, no_elision);
    }
    const attn_form male = french_form(in, stem, endings->participle, no_elision);
    const attn_form female = with_ending(in, male, strlen(male.text), "e");
    /* The accent of dû is lost in due, dus and dues. This does not matter, since modal verbs have
     * no participles. */
    out->participle[MASCULINE][SINGULAR] = male;
    out->participle[MASCULINE][PLURAL] = french_plural(in, male);
    out->participle[FEMININE][SINGULAR] = female;
    out->participle[FEMININE][PLURAL] = with_ending(in, female, strlen(female.text), "s");
    out->infinitive = french_form(in, stem, bar + 1, no_elision);
    make_imperfect(in, out);
    return true;
}

/* --- rows. lexicon.txt states which cells they have --- */

/* Reads a struct of `n` texts. */
static bool read_texts(reader *in, row *r, void *to, size_t n) {
    for (size_t i = 0; i < n && r->count == n; i++)
        ((const char **)to)[i] = keep_text(in, r->cells[i]);
    return r->count == n;
}

static int gender_of(const char *cell) {
    return *cell == 'f' ? FEMININE : MASCULINE;
}

static bool read_noun(reader *in, row *r, void *to) {
    attn_noun *out = to;
    if (r->count != 4)
        return false;
    const char *plurals[2] = {split_cell(r->cells[0]), split_cell(r->cells[1])};
    const attn_form one = english(in, r->cells[0]), un = french(in, r->cells[1]);
    out->english[SINGULAR] = one, out->french[SINGULAR] = un;
    out->english[PLURAL] = plurals[0] ? english(in, plurals[0]) : english_s(in, one);
    out->french[PLURAL] =
        plurals[1] ? (attn_form){keep_text(in, plurals[1]), un.vowel} : french_plural(in, un);
    out->gender = gender_of(r->cells[2]);
    out->kind = *r->cells[3];
    out->id = id_of(one);
    return true;
}

static bool read_name(reader *in, row *r, void *to) {
    attn_noun *out = to;
    if (r->count != 3)
        return false;
    attn_form words[2] = {english(in, r->cells[0]), french(in, r->cells[1])};
    for (size_t i = 0; in->words->text && i < 2; i++) {
        *r->cells[i] = (char)(*r->cells[i] - 'a' + 'A');
        words[i].text = keep_text(in, r->cells[i]);
    }
    *out = (attn_noun){.english = {words[0], words[0]},
                       .french = {words[1], words[1]},
                       .gender = gender_of(r->cells[2]),
                       .kind = 'n'};
    return true;
}

static bool read_adjective(reader *in, row *r, void *to) {
    attn_adjective *out = to;
    if (r->count != 4)
        return false;
    char *feminine = strchr(r->cells[1], '/'), *vowel = feminine ? split_cell(feminine + 1) : NULL;
    out->english = english(in, r->cells[0]);
    french_forms(in, r->cells[1], out->french);
    out->french_vowel = vowel ? french(in, vowel) : out->french[MASCULINE][SINGULAR];
    out->before = *r->cells[2] == 'b';
    out->kinds = keep_text(in, r->cells[3]);
    out->id = id_of(out->english);
    return true;
}

static bool read_role(reader *in, row *r, void *to) {
    attn_role *out = to;
    if (r->count != 2)
        return false;
    out->english[SINGULAR] = english(in, r->cells[0]);
    out->english[PLURAL] = english_s(in, out->english[SINGULAR]);
    french_forms(in, r->cells[1], out->french);
    return true;
}

static void read_english_verb(reader *in, char *cell, attn_verb *out) {
    const char *past = split_cell(cell);
    out->base = english(in, cell);
    out->third = strcmp(cell, "have") ? english_s(in, out->base) : english(in, "has");
    out->past = past ? english(in, past) : english_ed(in, out->base);
    out->ing = english_ing(in, out);
    out->id = id_of(out->base);
}

/* Returns the preposition in a cell; NULL if the row lacks the cell or the cell is "-". */
static const char *preposition(reader *in, const row *r, size_t cell) {
    return r->count > cell && strcmp(r->cells[cell], "-") ? keep_text(in, r->cells[cell]) : NULL;
}

static bool read_verb(reader *in, row *r, void *to) {
    attn_verb *out = to;
    if (r->count < 2)
        return false;
    read_english_verb(in, r->cells[0], out);
    out->kinds = keep_text(in, r->count > 2 ? r->cells[2] : "");
    out->etre = strchr(out->kinds, '!') != NULL;
    out->english_to = preposition(in, r, 3);
    out->french_to = preposition(in, r, 4);
    return conjugate(in, r->cells[1], out);
}

static bool read_posture(reader *in, row *r, void *to) {
    attn_posture *out = to;
    if (r->count != 2)
        return false;
    out->verb = *in->words->be;
    read_english_verb(in, r->cells[0], &out->verb);
    french_forms(in, r->cells[1], out->state);
    return true;
}

static bool read_adverb(reader *in, row *r, void *to) {
    if (r->count < 2)
        return false;
    *(attn_adverb *)to =
        (attn_adverb){english(in, r->cells[0]), french(in, r->cells[1]), r->count > 2};
    return true;
}

static bool read_preposition(reader *in, row *r, void *to) {
    if (r->count < 3)
        return false;
    *(attn_preposition *)to = (attn_preposition){english(in, r->cells[0]), french(in, r->cells[1]),
                                                 preposition(in, r, 3), keep_text(in, r->cells[2])};
    return true;
}

/* --- classes --- */

typedef ATTN_WORD_CLASS(void) word_list;

typedef struct word_class {
    const char *name; /* name of the class in lexicon.txt */
    size_t list;      /* offset of the class in attn_lexicon */
    size_t size;      /* bytes of a word of the class */
    /* NULL: a word is a struct that consists of texts */
    bool (*read)(reader *in, row *r, void *to);
} word_class;

#define CLASS(name, type, read)                                                                    \
    { "[" #name "]", offsetof(attn_lexicon, name), sizeof(type), read }
static const word_class classes[] = {
    CLASS(endings, attn_endings, NULL),
    CLASS(auxiliaries, attn_verb, read_verb),
    CLASS(names, attn_noun, read_name),
    CLASS(nouns, attn_noun, read_noun),
    CLASS(mass, attn_noun, read_noun),
    CLASS(roles, attn_role, read_role),
    CLASS(adjectives, attn_adjective, read_adjective),
    CLASS(manner, attn_adverb, read_adverb),
    CLASS(often, attn_adverb, read_adverb),
    CLASS(prepositions, attn_preposition, read_preposition),
    CLASS(acting, attn_verb, read_verb),
    CLASS(alone, attn_verb, read_verb),
    CLASS(going, attn_verb, read_verb),
    CLASS(giving, attn_verb, read_verb),
    CLASS(saying, attn_verb, read_verb),
    CLASS(generic, attn_verb, read_verb),
    CLASS(partitive, attn_verb, read_verb),
    CLASS(postures, attn_posture, read_posture),
    CLASS(elisions, attn_elision, NULL),
    CLASS(contractions, attn_contraction, NULL),
    CLASS(openings, attn_opening, NULL),
};
enum { CLASSES = sizeof classes / sizeof *classes };

static const word_class *find_class(const char *name) {
    for (size_t i = 0; i < CLASSES; i++)
        if (!strcmp(classes[i].name, name))
            return &classes[i];
    return NULL;
}

static word_list list_of(const reader *in, const word_class *class) {
    word_list list;
    memcpy(&list, (const char *)in->words + class->list, sizeof list);
    return list;
}

static void set_list(reader *in, const word_class *class, word_list list) {
    memcpy((char *)in->words + class->list, &list, sizeof list);
}

/* Appends the word of a row to the list of its class. If the list has no memory yet, only counts
 * the word. */
static bool append_word(reader *in, const word_class *class, row *r) {
    word_list list = list_of(in, class);
    void *to = list.items ? (char *)list.items + list.count * class->size : NULL;
    if (to && !(class->read ? class->read(in, r, to)
                            : read_texts(in, r, to, class->size / sizeof(char *))))
        return false;
    list.count++;
    set_list(in, class, list);
    return true;
}

/* Appends the words of all rows that have the mark, in the order of lexicon.txt. */
static attn_status read_rows(reader *in, const char *text, char mark, attn_error *err) {
    const word_class *class = NULL;
    const char *at = text;
    size_t line = 0;
    bool good = true;
    for (row r; good && next_row(&at, &r); line++) {
        if (!r.marks || *r.marks == '#')
            continue;
        if (*r.marks == '[')
            good = (class = find_class(r.marks)) != NULL;
        else if (!class || strspn(r.marks, "slct") != strlen(r.marks))
            good = false;
        else if (strchr(r.marks, mark))
            good = append_word(in, class, &r);
    }
    ATTN_TAKEN(!in->failed, "the words of the lexicon", err);
    return good && !*at ? ATTN_OK
                        : attn_fail(err, ATTN_EARG, "lexicon", "line %zu does not read", line);
}

/* Allocates the counted words, and sets the pointers to the auxiliaries, which have yet to be
 * read. */
static attn_status make_room(reader *in, attn_error *err) {
    attn_lexicon *words = in->words;
    const attn_verb **named[] = {&words->can, &words->must, &words->want, &words->be, &words->have};
    enum { NAMED = sizeof named / sizeof *named };
    if (words->auxiliaries.count != NAMED)
        return attn_fail(err, ATTN_EARG, "lexicon", "expected five auxiliaries");
    for (size_t i = 0; i < CLASSES; i++) {
        const size_t count = list_of(in, &classes[i]).count + 1;
        void *items = attn_arena_zeroed(in->arena, count, classes[i].size);
        ATTN_TAKEN(items, "the words of the lexicon", err);
        set_list(in, &classes[i], (word_list){.items = items});
    }
    for (size_t i = 0; i < NAMED; i++)
        *named[i] = &words->auxiliaries.items[i];
    return ATTN_OK;
}

/* Makes names that mean nothing, such as "Bratolin". From them a model learns to copy names that it
 * does not know. */
static attn_status invent_names(reader *in, attn_error *err) {
    static const char *const heads[] = {"b", "c", "d",  "f",  "g",  "h",  "j",  "k",  "l", "m",
                                        "n", "p", "r",  "s",  "t",  "v",  "w",  "z",  "y", "qu",
                                        "b", "d", "br", "ch", "kl", "st", "th", "tr", "s", "m"},
                             *const cores[] = {"a", "e", "i", "o", "u", "y", "ai", "ou", "ea", "o"},
                             *const tails[] = {"", "", "", "n", "r", "s", "l", "t", "ck", "x"};
    enum { NAMES = 8192 };
    attn_form *items = attn_arena_zeroed(in->arena, NAMES, sizeof *items);
    for (size_t i = 0; items && !in->failed && i < NAMES; i++) {
        char text[32] = "";
        uint64_t bits = attn_rng_bits(i, 0);
        for (size_t left = 1 + bits % 3; left; left--) {
            bits = attn_rng_bits(bits, 1);
            strcat(text, heads[bits % 30]);
            strcat(text, cores[bits / 30 % 10]);
            strcat(text, tails[bits / 300 % 10]);
        }
        *text = (char)(*text - 'a' + 'A');
        items[i] = (attn_form){keep_text(in, text), false};
    }
    in->words->invented.items = items, in->words->invented.count = NAMES;
    return items && !in->failed ? ATTN_OK
                                : attn_fail(err, ATTN_ENOMEM, "lexicon", "no memory for names");
}

attn_status attn_lexicon_read(attn_lexicon *out, const char *text, attn_lexicon_kind kind,
                              attn_arena *arena, attn_error *err) {
    /* For each kind of lexicon, the marks of its rows. The words with the first mark come first;
     * those with the mark "c" are the common words. */
    static const char *const marks[] = {"s", "l", "ct"};
    *out = (attn_lexicon){.text = kind == ATTN_TEXT_LEXICON};
    reader in = {.arena = arena, .words = out};
    for (const char *mark = marks[kind]; *mark; mark++)
        ATTN_TRY(read_rows(&in, text, *mark, err));
    ATTN_TRY(make_room(&in, err));
    for (const char *mark = marks[kind]; *mark; mark++) {
        ATTN_TRY(read_rows(&in, text, *mark, err));
        for (size_t i = 0; *mark == 'c' && i < CLASSES; i++) {
            word_list list = list_of(&in, &classes[i]);
            list.common = list.count;
            set_list(&in, &classes[i], list);
        }
    }
    return out->text ? invent_names(&in, err) : ATTN_OK;
}
