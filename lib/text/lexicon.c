/* Reads the tables of words into the lists of a lexicon. */
#include <string.h>

#include "attn/rng.h"
#include "text/lexicon_words.h"

/* Tells whether the table `more` has a row of the same English word, which may have another case.
 * NULL is an empty table. */
static bool is_replaced(const attn_row *r, const char *more) {
    attn_row other;
    const char *word = r->cells[0] + (*r->cells[0] == '*');
    const size_t n = strcspn(word, "/");
    while (more && attn_row_next(&more, &other)) {
        const char *same = other.cells[0] + (*other.cells[0] == '*');
        if (strcspn(same, "/") == n && (*same | 0x20) == *word &&
            !strncmp(same + 1, word + 1, n - 1))
            return true;
    }
    return false;
}

/* The rows that a pass over a table reads. */
typedef enum pass { ALL_ROWS, SMALL_ROWS, OTHER_ROWS } pass;

static bool is_wanted(const attn_row_reader *in, const attn_row *r, pass which, const char *more) {
    if (which == ALL_ROWS ? in->small && !r->small : r->small != (which == SMALL_ROWS))
        return false;
    return !is_replaced(r, more);
}

/* Appends the words of the rows that a pass reads to a list with enough space. */
#define FILL(list, table, read, which, more)                                                       \
    do {                                                                                           \
        const char *rest_ = (table);                                                               \
        for (attn_row r_; !in->failed && attn_row_next(&rest_, &r_);)                              \
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
        MAKE_ROOM(list, attn_rows_count((table), in->small));                                      \
        FILL(list, table, read, ALL_ROWS, NULL);                                                   \
    } while (0)

/* Reads a class of en-fr-text: the rows of `more`, which are common, then the other rows with "+",
 * which are common too, then the rest. */
#define READ_TEXT(list, table, more, read)                                                         \
    do {                                                                                           \
        MAKE_ROOM(list, attn_rows_count((table), false) + attn_rows_count((more), false));         \
        FILL(list, more, read, ALL_ROWS, NULL);                                                    \
        FILL(list, table, read, SMALL_ROWS, more);                                                 \
        (list).common = (list).count;                                                              \
        FILL(list, table, read, OTHER_ROWS, more);                                                 \
    } while (0)

static const char *const noun_tables[] = {attn_lexicon_people, attn_lexicon_places,
                                          attn_lexicon_things};
enum { NOUN_TABLES = sizeof noun_tables / sizeof *noun_tables };

static attn_status read_nouns(attn_lexicon *out, attn_row_reader *in, attn_error *err) {
    size_t count = 0;
    for (size_t i = 0; i < NOUN_TABLES; i++)
        count += attn_rows_count(noun_tables[i], in->small);
    MAKE_ROOM(out->nouns, count);
    for (size_t i = 0; i < NOUN_TABLES; i++)
        FILL(out->nouns, noun_tables[i], attn_read_noun, ALL_ROWS, NULL);
    return ATTN_OK;
}

static bool read_auxiliary(attn_row_reader *in, const char *text, attn_verb *out) {
    attn_row r;
    return attn_row_next(&text, &r) && attn_read_verb(in, &r, out);
}

static attn_status read_auxiliaries(attn_lexicon *out, attn_row_reader *in, attn_error *err) {
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
static attn_status read_shared(attn_lexicon *out, attn_row_reader *in, attn_error *err) {
    READ(out->alone, attn_lexicon_alone, attn_read_verb);
    READ(out->going, attn_lexicon_going, attn_read_going);
    READ(out->giving, attn_lexicon_giving, attn_read_verb);
    READ(out->saying, attn_lexicon_saying, attn_read_verb);
    READ(out->often, attn_lexicon_often, attn_read_adverb);
    READ(out->prepositions, attn_lexicon_prepositions, attn_read_preposition);
    return read_auxiliaries(out, in, err);
}

attn_status attn_lexicon_read(attn_lexicon *out, bool small, attn_arena *arena, attn_error *err) {
    *out = (attn_lexicon){0};
    attn_row_reader state = {.arena = arena, .small = small}, *in = &state;
    attn_status status = read_nouns(out, in, err);
    if (status)
        return status;
    READ(out->names, attn_lexicon_names, attn_read_name);
    READ(out->adjectives, attn_lexicon_adjectives, attn_read_adjective);
    READ(out->acting, attn_lexicon_acting, attn_read_verb);
    READ(out->manner, attn_lexicon_manner, attn_read_adverb);
    return read_shared(out, in, err);
}

/* --- the lexicon of en-fr-text --- */

/* Makes names that mean nothing, such as "Bratolin". A model that has to copy them learns to copy
 * names that it does not know. */
static attn_status invent_names(attn_lexicon *out, attn_row_reader *in, attn_error *err) {
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
        out->invented.items[out->invented.count++] = (attn_form){attn_row_keep(in, text), false};
    }
    return in->failed ? attn_fail(err, ATTN_ENOMEM, "lexicon", "no memory for names") : ATTN_OK;
}

static attn_status read_text_nouns(attn_lexicon *out, attn_row_reader *in, attn_error *err) {
    size_t count = attn_rows_count(attn_text_nouns, false);
    for (size_t i = 0; i < NOUN_TABLES; i++)
        count += attn_rows_count(noun_tables[i], false);
    MAKE_ROOM(out->nouns, count);
    FILL(out->nouns, attn_text_nouns, attn_read_noun, ALL_ROWS, NULL);
    for (pass which = SMALL_ROWS; which <= OTHER_ROWS; which++) {
        for (size_t i = 0; i < NOUN_TABLES; i++)
            FILL(out->nouns, noun_tables[i], attn_read_noun, which, attn_text_nouns);
        if (which == SMALL_ROWS)
            out->nouns.common = out->nouns.count;
    }
    return ATTN_OK;
}

attn_status attn_lexicon_read_text(attn_lexicon *out, attn_arena *arena, attn_error *err) {
    *out = (attn_lexicon){.text = true};
    attn_row_reader state = {.arena = arena}, *in = &state;
    attn_status status = read_text_nouns(out, in, err);
    if (!status)
        status = invent_names(out, in, err);
    if (status)
        return status;
    READ_TEXT(out->names, attn_lexicon_names, attn_text_names, attn_read_proper);
    READ_TEXT(out->adjectives, attn_lexicon_adjectives, attn_text_adjectives, attn_read_adjective);
    READ_TEXT(out->acting, attn_lexicon_acting, attn_text_acting, attn_read_verb);
    READ_TEXT(out->manner, attn_lexicon_manner, attn_text_manner, attn_read_adverb);
    READ(out->mass, attn_text_mass, attn_read_noun);
    READ(out->roles, attn_text_roles, attn_read_role);
    READ(out->postures, attn_text_postures, attn_read_posture);
    READ(out->generic, attn_text_generic, attn_read_verb);
    READ(out->partitive, attn_text_partitive, attn_read_verb);
    return read_shared(out, in, err);
}
