/* The English-French corpus: its grammar is checked from the outside, word by word with the
 * lexicon's tables, not by asking the generator what it did. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "attn/checksum.h"
#include "attn/tokens.h"
#include "corpus/bleu.h"
#include "corpus/corpus.h"
#include "corpus/sentence.h"
#include "trials.h"

#define PAIRS trials(6000)

typedef struct kit {
    attn_arena *arena;
    attn_lexicon words;
    attn_corpus *corpus;
} kit;

static attn_pair pair; /* large for a stack */

static kit open_kit(attn_corpus_options options) {
    kit k = {.arena = attn_arena_new(256 << 20)};
    assert_int_equal(attn_lexicon_read(&k.words, attn_lexicon_text,
                                       options.large ? ATTN_LARGE_LEXICON : ATTN_SMALL_LEXICON,
                                       k.arena, NULL),
                     ATTN_OK);
    assert_int_equal(attn_corpus_new(&options, k.arena, &k.corpus, NULL), ATTN_OK);
    return k;
}

static kit open_large(void) {
    attn_corpus_options options = attn_corpus_defaults();
    options.large = true;
    return open_kit(options);
}

static void draw(const kit *k, attn_split split, uint64_t index) {
    attn_error err;
    if (attn_corpus_pair(k->corpus, split, index, &pair, &err))
        fail_msg("%s: %s", err.where, err.text);
}

static bool is_in(const char *word, const char *list) {
    const char *at = list;
    size_t n = strlen(word);
    while ((at = strstr(at, word))) {
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
        at += n;
    }
    return false;
}

/* How many words of the open classes this English form may be. */
static int readings(const attn_lexicon *l, const char *word, const attn_noun **noun, int *number,
                    const attn_adjective **adjective, const attn_verb **verb) {
    int found = 0;
    for (size_t i = 0; i < l->nouns.count; i++)
        for (int n = 0; n < 2; n++)
            if (!strcmp(l->nouns.items[i].english[n].text, word))
                *noun = &l->nouns.items[i], *number = n, found++;
    for (size_t i = 0; i < l->adjectives.count; i++)
        if (!strcmp(l->adjectives.items[i].english.text, word))
            *adjective = &l->adjectives.items[i], found++;
    const attn_verb *lists[] = {l->acting.items, l->going.items, l->giving.items, l->saying.items,
                                l->alone.items};
    const size_t counts[] = {l->acting.count, l->going.count, l->giving.count, l->saying.count,
                             l->alone.count};
    for (size_t k = 0; k < 5; k++)
        for (size_t i = 0; i < counts[k]; i++) {
            const attn_verb *v = &lists[k][i];
            if (!strcmp(v->base.text, word) || !strcmp(v->third.text, word) ||
                !strcmp(v->past.text, word))
                *verb = v, found++;
        }
    return found;
}

typedef struct reading {
    const attn_noun *noun;
    const attn_adjective *adjective;
    const attn_verb *verb;
    int number;
} reading;

/* The only reading of a source word; empty when there are several. */
static reading read_word(const attn_lexicon *l, const char *word) {
    reading r = {0};
    if (readings(l, word, &r.noun, &r.number, &r.adjective, &r.verb) != 1)
        r = (reading){0};
    return r;
}

/* The noun that target word t takes its form from. */
static reading head_of(const kit *k, size_t t) {
    for (size_t i = 0; i < pair.link_count; i++)
        if (pair.links[i].target == t && !pair.links[i].sure) {
            reading r = read_word(&k->words, pair.source[pair.links[i].source]);
            if (r.noun)
                return r;
        }
    return (reading){0};
}

static const char *sure_source(size_t t) {
    for (size_t i = 0; i < pair.link_count; i++)
        if (pair.links[i].target == t && pair.links[i].sure)
            return pair.source[pair.links[i].source];
    return "";
}

static int check_article(size_t t, const char *english, const reading *noun) {
    static const char *const articles[][2][2] = {
        {{"le l' du au", "les des aux"}, {"la l'", "les des aux"}},
        {{"un de d'", "des de d'"}, {"une de d'", "des de d'"}},
        {{"ce cet", "ces"}, {"cette", "ces"}},
        {{"mon son notre votre leur", "mes ses nos vos leurs"},
         {"ma mon sa son notre votre leur", "mes ses nos vos leurs"}},
    };
    static const char *const says[] = {"the", "a an some any", "this these",
                                       "my his our your their"};
    for (size_t i = 0; i < 4; i++)
        if (is_in(english, says[i])) {
            if (!is_in(pair.target[t], articles[i][noun->noun->gender][noun->number]))
                fail_msg("%s for %s %s", pair.target[t], english, noun->noun->french[0].text);
            return 1;
        }
    return 0;
}

static int check_adjective(size_t t, const reading *adjective, const reading *noun) {
    const attn_adjective *a = adjective->adjective;
    bool same = !strcmp(pair.target[t], a->french[noun->noun->gender][noun->number].text);
    bool vowel = noun->noun->gender == MASCULINE && !noun->number &&
                 !strcmp(pair.target[t], a->french_vowel.text);
    if (!same && !vowel)
        fail_msg("%s with %s", pair.target[t], noun->noun->french[noun->number].text);
    return 1;
}

static void test_articles_and_adjectives_agree(void **state) {
    (void)state;
    kit k = open_large();
    uint64_t articles = 0, adjectives = 0;
    for (uint64_t i = 0; i < PAIRS / 3; i++) {
        draw(&k, (attn_split)(i % 3), i);
        bool and = false; /* a predicate of two nouns agrees with both */
        for (size_t s = 0; s < pair.source_count; s++)
            and |= !strcmp(pair.source[s], "and");
        for (size_t t = 0; t < pair.target_count && !and; t++) {
            reading noun = head_of(&k, t), word = read_word(&k.words, sure_source(t));
            if (noun.noun && word.adjective)
                adjectives += check_adjective(t, &word, &noun);
            else if (noun.noun)
                articles += check_article(t, sure_source(t), &noun);
        }
    }
    assert_true(articles > PAIRS / 4 && adjectives > PAIRS / 8);
    attn_arena_free(k.arena);
}

static bool begins_with_vowel(const char *word) {
    static const char *const hard[] = {"héros",   "hibou",    "hiboux", "homard",
                                       "homards", "hérisson", "haut",   "haricot",
                                       "yaourt",  "hache",    NULL};
    for (size_t i = 0; hard[i]; i++)
        if (!strncmp(word, hard[i], strlen(hard[i])))
            return false;
    static const char *const vowels[] = {"a", "e", "i", "o", "u", "h", "y", "â",
                                         "à", "é", "è", "ê", "î", "ô", "œ", NULL};
    for (size_t i = 0; vowels[i]; i++)
        if (!strncmp(word, vowels[i], strlen(vowels[i])))
            return true;
    return false;
}

static void test_french_elides_and_contracts(void **state) {
    (void)state;
    kit k = open_large();
    uint64_t elided = 0, contracted = 0;
    for (uint64_t i = 0; i < PAIRS; i++) {
        draw(&k, ATTN_TRAIN, i);
        for (size_t t = 0; t + 1 < pair.target_count; t++) {
            const char *word = pair.target[t], *next = pair.target[t + 1];
            bool vowel = begins_with_vowel(next);
            if (word[strlen(word) - 1] == '\''
                    ? !vowel
                    : vowel && is_in(word, "le la je me ne de que ce ma sa"))
                fail_msg("%s %s", word, next);
            if (is_in(word, "de à") && is_in(next, "le les des de") && strcmp(word, "à") != 0)
                fail_msg("%s %s", word, next);
            elided += word[strlen(word) - 1] == '\'';
            contracted += is_in(word, "du au aux");
        }
    }
    assert_true(elided > PAIRS && contracted > PAIRS / 10);
    attn_arena_free(k.arena);
}

static void test_negation_has_both_halves(void **state) {
    (void)state;
    kit k = open_large();
    uint64_t found = 0;
    for (uint64_t i = 0; i < PAIRS; i++) {
        draw(&k, ATTN_TRAIN, i);
        int english = 0, ne = 0, pas = 0;
        for (size_t s = 0; s < pair.source_count; s++)
            english += is_in(pair.source[s], "not never");
        for (size_t t = 0; t < pair.target_count; t++)
            ne += is_in(pair.target[t], "ne n'"), pas += is_in(pair.target[t], "pas jamais");
        assert_int_equal(ne, english);
        assert_int_equal(pas, english);
        found += english;
    }
    assert_true(found > PAIRS / 2);
    attn_arena_free(k.arena);
}

static void test_every_word_is_aligned(void **state) {
    (void)state;
    kit k = open_large();
    for (uint64_t i = 0; i < PAIRS; i++) {
        draw(&k, (attn_split)(i % 3), i);
        bool source[ATTN_PAIR_WORDS] = {false}, target[ATTN_PAIR_WORDS] = {false};
        for (size_t n = 0; n < pair.link_count; n++) {
            assert_true(pair.links[n].source < pair.source_count &&
                        pair.links[n].target < pair.target_count);
            source[pair.links[n].source] = true;
            target[pair.links[n].target] |= pair.links[n].sure;
        }
        for (size_t s = 0; s < pair.source_count; s++)
            if (!source[s])
                fail_msg("source word %s has no link", pair.source[s]);
        for (size_t t = 0; t < pair.target_count; t++)
            if (!target[t])
                fail_msg("target word %s has no sure link", pair.target[t]);
    }
    attn_arena_free(k.arena);
}

/* Pairs of an adjective with the noun it stands before, and of a verb with the noun behind it. */
static int held_out_pairs(const kit *k) {
    static const char determiners[] =
        "the a an some any this these my his our your their every two "
        "three four many very";
    const attn_adjective *adjectives[8];
    const attn_verb *verb = NULL;
    size_t count = 0;
    int found = 0;
    for (size_t s = 0; s < pair.source_count; s++) {
        const char *word = pair.source[s];
        reading r = read_word(&k->words, word);
        if (r.adjective && count < 8) {
            adjectives[count++] = r.adjective;
        } else if (r.noun) {
            for (size_t i = 0; i < count; i++)
                found += attn_never_meet(adjectives[i]->id, r.noun->id);
            found += verb && attn_never_meet(verb->id, r.noun->id);
            verb = NULL, count = 0;
        } else if (r.verb && *r.verb->kinds && *r.verb->kinds != '!') {
            verb = r.verb, count = 0;
        } else if (!is_in(word, determiners) &&
                   !(verb && verb->english_to && !strcmp(word, verb->english_to))) {
            verb = NULL, count = 0;
        }
    }
    return found;
}

static void test_training_never_has_what_is_held_out(void **state) {
    (void)state;
    kit k = open_large();
    uint64_t tested = 0;
    for (uint64_t i = 0; i < PAIRS; i++) {
        draw(&k, i % 4 ? ATTN_TRAIN : ATTN_VALIDATION, i);
        if (held_out_pairs(&k))
            fail_msg("training has a held-out pair");
        if (i % 4 == 0) {
            draw(&k, ATTN_HELD_OUT, i);
            tested += held_out_pairs(&k) > 0;
        }
    }
    /* the rest: predicates, coordinations, words with two readings */
    assert_true(tested > PAIRS / 4 * 6 / 10);
    attn_arena_free(k.arena);
}

static void test_a_pair_is_a_function_of_its_index(void **state) {
    (void)state;
    attn_corpus_options options = attn_corpus_defaults();
    kit k = open_kit(options), again = open_kit(options);
    options.seed = 1;
    kit other = open_kit(options);
    attn_pair *first = attn_arena_zeroed(k.arena, 1, sizeof *first);
    int equal = 0;
    for (uint64_t i = 0; i < 200; i++) {
        draw(&k, ATTN_TRAIN, i);
        *first = pair;
        draw(&again, ATTN_VALIDATION, 7);
        draw(&again, ATTN_TRAIN, i);
        assert_int_equal(first->source_count, pair.source_count);
        assert_int_equal(first->target_count, pair.target_count);
        for (size_t s = 0; s < pair.source_count; s++)
            assert_string_equal(first->source[s], pair.source[s]);
        for (size_t t = 0; t < pair.target_count; t++)
            assert_string_equal(first->target[t], pair.target[t]);
        assert_int_equal(first->link_count, pair.link_count);
        draw(&other, ATTN_TRAIN, i);
        equal += first->source_count == pair.source_count &&
                 !strcmp(first->source[0], pair.source[0]) &&
                 !strcmp(first->source[1], pair.source[1]);
    }
    assert_true(equal < 20);
    attn_arena_free(k.arena);
    attn_arena_free(again.arena);
    attn_arena_free(other.arena);
}

/* Words and links of 600 pairs of a split, as a checksum. */
static uint32_t checksum_of(const kit *k, attn_split split) {
    uint32_t sum = 0;
    for (uint64_t i = 0; i < 600; i++) {
        draw(k, split, i);
        for (size_t s = 0; s < pair.source_count; s++)
            sum = attn_crc32c(sum, pair.source[s], strlen(pair.source[s]) + 1);
        for (size_t t = 0; t < pair.target_count; t++)
            sum = attn_crc32c(sum, pair.target[t], strlen(pair.target[t]) + 1);
        for (size_t l = 0; l < pair.link_count; l++) {
            const uint16_t link[3] = {pair.links[l].source, pair.links[l].target,
                                      pair.links[l].sure};
            sum = attn_crc32c(sum, link, sizeof link);
        }
    }
    return sum;
}

/* Models that were trained once name their corpus by its options. Its sentences must stay. */
static void test_sentences_stay(void **state) {
    (void)state;
    static const struct {
        attn_task task;
        bool large;
        uint32_t sums[3]; /* [split] */
    } known[] = {
        {ATTN_EN_FR, false, {0xb670175d, 0x041e2bc8, 0xc8fdab8e}},
        {ATTN_EN_FR, true, {0x3c43707b, 0x39143a21, 0xa00c3d1b}},
        {ATTN_EN_FR_TEXT, false, {0x0ae27fc1, 0xd5cb2db0, 0x2a97bd58}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        attn_corpus_options options = attn_corpus_defaults();
        options.task = known[i].task, options.large = known[i].large, options.seed = 5;
        kit k = open_kit(options);
        for (int split = ATTN_TRAIN; split <= ATTN_HELD_OUT; split++)
            assert_int_equal(checksum_of(&k, (attn_split)split), known[i].sums[split]);
        attn_arena_free(k.arena);
    }
}

static void test_validation_sentences_are_not_those_of_training(void **state) {
    (void)state;
    attn_corpus_options options = attn_corpus_defaults();
    options.longest = 5;
    kit k = open_kit(options);
    attn_tokenizer *seen = attn_tokenizer_new(ATTN_ENGLISH);
    char text[1024];
    for (int split = ATTN_TRAIN; split <= ATTN_VALIDATION; split++) {
        for (uint64_t i = 0; i < 3000; i++) {
            draw(&k, (attn_split)split, i);
            *text = 0;
            for (size_t s = 0; s < pair.source_count; s++)
                strcat(strcat(text, pair.source[s]), " ");
            if (split == ATTN_TRAIN)
                attn_tokenizer_count(seen, text, strlen(text), NULL);
            else if (attn_tokenizer_id(seen, text, strlen(text)) !=
                     attn_tokenizer_special(seen, ATTN_SPECIAL_UNKNOWN))
                fail_msg("in both: %s", text);
        }
        attn_tokenizer_settle(seen, 1, 0, NULL);
    }
    assert_true(attn_tokenizer_size(seen) > 1000);
    attn_tokenizer_free(seen);
    attn_arena_free(k.arena);
}

static void test_lengths_and_forms(void **state) {
    (void)state;
    kit k = open_large();
    attn_tokenizer *sides[2] = {attn_tokenizer_new(ATTN_ENGLISH), attn_tokenizer_new(ATTN_ENGLISH)};
    size_t shortest = 99, longest = 0;
    for (uint64_t i = 0; i < 18000; i++) {
        draw(&k, ATTN_TRAIN, i);
        shortest = pair.source_count < shortest ? pair.source_count : shortest;
        longest = pair.source_count > longest ? pair.source_count : longest;
        for (size_t s = 0; s < pair.source_count; s++)
            attn_tokenizer_count(sides[0], pair.source[s], strlen(pair.source[s]), NULL);
        for (size_t t = 0; t < pair.target_count; t++)
            attn_tokenizer_count(sides[1], pair.target[t], strlen(pair.target[t]), NULL);
    }
    assert_int_equal(shortest, 3);
    assert_int_equal(longest, 60);
    for (int i = 0; i < 2; i++)
        attn_tokenizer_settle(sides[i], 1, 0, NULL);
    print_message("surface forms: %zu English, %zu French\n", attn_tokenizer_size(sides[0]),
                  attn_tokenizer_size(sides[1]));
    assert_true(attn_tokenizer_size(sides[0]) > 1800 && attn_tokenizer_size(sides[1]) > 4000);
    attn_tokenizer_free(sides[0]);
    attn_tokenizer_free(sides[1]);
    attn_arena_free(k.arena);
}

static void test_baselines_are_below_fifty(void **state) {
    (void)state;
    for (int large = 0; large < 2; large++) {
        attn_corpus_options options = attn_corpus_defaults();
        options.large = large;
        kit k = open_kit(options);
        attn_baselines b;
        assert_int_equal(attn_corpus_baselines(k.corpus, 4000, 500, k.arena, &b, NULL), ATTN_OK);
        print_message("BLEU on held-out sentences: dictionary %.1f, copy %.1f\n", b.dictionary,
                      b.copy);
        assert_true(b.dictionary > 1 && b.dictionary < 50 && b.copy < 10);
        attn_arena_free(k.arena);
    }
}

/* Fails unless the pair is this sentence with these classes. */
static void check_classes(const char *sentence, const char *classes) {
    char words[1024] = "", found[1024] = "";
    assert_int_equal(pair.source_count, pair.target_count);
    for (size_t i = 0; i < pair.source_count; i++) {
        strcat(strcat(words, i ? " " : ""), pair.source[i]);
        strcat(strcat(found, i ? " " : ""), pair.target[i]);
        assert_true(pair.links[i].source == i && pair.links[i].target == i && pair.links[i].sure);
    }
    assert_int_equal(pair.link_count, pair.source_count);
    assert_string_equal(words, sentence);
    assert_string_equal(found, classes);
}

/* Sentences of training whose words were classified by hand. Some words are of several classes:
 * train, answer, open, empty, to, that. */
static void test_classes_of_sentences_by_hand(void **state) {
    (void)state;
    static const struct {
        uint64_t index;
        const char *sentence, *classes;
    } known[] = {
        {464, "mary will train his young heavy crocodile .",
         "name auxiliary verb determiner adjective adjective noun mark"},
        {259, "the feather was secret and i did not empty our train .",
         "determiner noun auxiliary adjective conjunction pronoun auxiliary particle verb "
         "determiner noun mark"},
        {570, "you will answer the twin .", "pronoun auxiliary verb determiner noun mark"},
        {139, "your report will already be open .",
         "determiner noun auxiliary adverb auxiliary adjective mark"},
        {652, "they explain that she wants to kill emma .",
         "pronoun verb conjunction pronoun auxiliary particle verb name mark"},
        {61, "we did not go to the theatres .",
         "pronoun auxiliary particle verb preposition determiner noun mark"},
        {1816, "his badger watches them .", "determiner noun verb pronoun mark"},
        {1941, "the watch is noisy", "determiner noun auxiliary adjective"},
    };
    attn_corpus_options options = attn_corpus_defaults();
    options.task = ATTN_WORD_CLASSES, options.large = true, options.longest = 12;
    kit k = open_kit(options);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        draw(&k, ATTN_TRAIN, known[i].index);
        check_classes(known[i].sentence, known[i].classes);
    }
    attn_arena_free(k.arena);
}

/* The words of the closed classes that are of one class alone. */
static const char *closed_class(const char *word) {
    static const char *const lists[][2] = {
        {"name",
         "alice claire emma hugo irene john julia lucas martin mary oscar paul peter sophie"},
        {"pronoun", "he him i me she them they us we who you"},
        {"determiner", "a an any every his many my our some the their these this three two your"},
        {"auxiliary", "am are be did do does is was were will"},
        {"preposition",
         "against at behind for from in into near of on opposite under up with without"},
        {"conjunction", "and because but while"},
        {"particle", "not"},
        {"mark", ", ."}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (is_in(word, lists[i][1]))
            return lists[i][0];
    return NULL;
}

/* Each word with one reading has the class of the lexicon or of the closed list that has it. */
static void test_classes_are_those_of_the_grammar(void **state) {
    (void)state;
    attn_corpus_options options = attn_corpus_defaults();
    options.task = ATTN_WORD_CLASSES, options.large = true;
    kit k = open_kit(options);
    uint64_t open = 0, closed = 0, words = 0;
    for (uint64_t i = 0; i < PAIRS / 3; i++) {
        draw(&k, (attn_split)(i % 3), i);
        assert_int_equal(pair.source_count, pair.target_count);
        for (size_t s = 0; s < pair.source_count; s++) {
            const reading r = read_word(&k.words, pair.source[s]);
            const char *list = closed_class(pair.source[s]);
            const char *wanted = list          ? list
                                 : r.noun      ? "noun"
                                 : r.adjective ? "adjective"
                                 : r.verb      ? "verb"
                                               : NULL;
            open += wanted && !list, closed += list != NULL, words++;
            if (wanted && strcmp(pair.target[s], wanted))
                fail_msg("%s is %s, expected %s", pair.source[s], pair.target[s], wanted);
        }
    }
    assert_true(open > words / 4 && closed > words / 3);
    attn_arena_free(k.arena);
}

static void test_copy_reverse_and_sort(void **state) {
    (void)state;
    for (int task = ATTN_COPY; task <= ATTN_SORT; task++) {
        attn_corpus_options options = attn_corpus_defaults();
        options.task = (attn_task)task, options.shortest = 1, options.longest = 20;
        kit k = open_kit(options);
        for (uint64_t i = 0; i < 300; i++) {
            attn_split split = (attn_split)(i % 2 ? ATTN_TRAIN : ATTN_HELD_OUT);
            if (split == ATTN_HELD_OUT && attn_corpus_pair(k.corpus, split, i, &pair, NULL))
                fail();
            draw(&k, split, i);
            size_t n = pair.source_count, never = 0;
            assert_true(n == pair.target_count && n >= 1 && n <= 20);
            for (size_t t = 0; t < n; t++) {
                const char *right = task == ATTN_REVERSE ? pair.source[n - 1 - t] : pair.source[t];
                if (task != ATTN_SORT)
                    assert_string_equal(pair.target[t], right);
                int a, b;
                sscanf(pair.source[t], "%d", &a);
                if (t && sscanf(pair.source[t - 1], "%d", &b))
                    never += attn_never_meet((uint32_t)b + 1, (uint32_t)a + 1);
                sscanf(pair.target[t], "%d", &a);
                if (task == ATTN_SORT && t && sscanf(pair.target[t - 1], "%d", &b))
                    assert_true(b <= a);
                assert_string_equal(pair.source[pair.links[t].source], pair.target[t]);
            }
            assert_true(split == ATTN_TRAIN ? never == 0 : never > 0);
        }
        attn_arena_free(k.arena);
    }
}

static void test_options_are_checked(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 22);
    attn_corpus *corpus;
    for (int i = 0; i < 6; i++) {
        attn_corpus_options o = attn_corpus_defaults();
        if (i == 0)
            o.longest = 61;
        else if (i == 1)
            o.shortest = 0;
        else if (i == 2)
            o.shortest = 9, o.longest = 8;
        else if (i == 3)
            o.shortest = 1, o.longest = 2;
        else if (i == 4)
            o.symbols = 1;
        else
            o.skew = 0;
        assert_int_equal(attn_corpus_new(&o, arena, &corpus, NULL), ATTN_EVALUE);
    }
    attn_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_articles_and_adjectives_agree),
        cmocka_unit_test(test_french_elides_and_contracts),
        cmocka_unit_test(test_negation_has_both_halves),
        cmocka_unit_test(test_every_word_is_aligned),
        cmocka_unit_test(test_training_never_has_what_is_held_out),
        cmocka_unit_test(test_a_pair_is_a_function_of_its_index),
        cmocka_unit_test(test_sentences_stay),
        cmocka_unit_test(test_validation_sentences_are_not_those_of_training),
        cmocka_unit_test(test_lengths_and_forms),
        cmocka_unit_test(test_baselines_are_below_fifty),
        cmocka_unit_test(test_classes_of_sentences_by_hand),
        cmocka_unit_test(test_classes_are_those_of_the_grammar),
        cmocka_unit_test(test_copy_reverse_and_sort),
        cmocka_unit_test(test_options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
