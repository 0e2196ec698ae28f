/* The task en-fr-text: its sentences are checked from the outside, as texts and word by word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "corpus/corpus.h"
#include "corpus/sentence.h"
#include "trials.h"

#define PAIRS trials(12000)

static attn_pair pair; /* large for a stack */
static attn_arena *arena;
static attn_corpus *corpus;

static int open_corpus(void **state) {
    (void)state;
    attn_corpus_options options = attn_corpus_defaults();
    options.task = ATTN_EN_FR_TEXT;
    options.shortest = 2;
    options.longest = 24;
    arena = attn_arena_new(256 << 20);
    return attn_corpus_new(&options, arena, &corpus, NULL);
}

static int close_corpus(void **state) {
    (void)state;
    attn_arena_free(arena);
    return 0;
}

static void draw(attn_split split, uint64_t index) {
    attn_error err;
    if (attn_corpus_pair(corpus, split, index, &pair, &err))
        fail_msg("%s: %s", err.where, err.text);
}

static bool begins_with_vowel(const char *word) {
    static const char *const vowels[] = {"a", "e", "i", "o", "u", "é", "è", "ê", "î", "œ", "â"};
    for (size_t i = 0; i < sizeof vowels / sizeof *vowels; i++)
        if (!strncmp(word, vowels[i], strlen(vowels[i])))
            return true;
    return false;
}

static bool is(const char *a, const char *b) {
    return !strcmp(a, b);
}

/* No word that elides stands before a vowel, and "de le" and "à les" are contracted. */
static void test_elision(void **state) {
    (void)state;
    static const char *const elide[] = {"le", "la", "je", "me", "ne", "de", "que", "ce"};
    for (uint64_t i = 0; i < PAIRS; i++) {
        draw(ATTN_TRAIN, i);
        for (size_t t = 0; t + 1 < pair.target_count; t++) {
            const char *word = pair.target[t], *next = pair.target[t + 1];
            for (size_t k = 0; k < sizeof elide / sizeof *elide; k++)
                if (is(word, elide[k]) && begins_with_vowel(next))
                    fail_msg("pair %d: %s %s", (int)i, word, next);
            assert_false(is(word, "de") && is(next, "le"));
            assert_false(is(word, "à") && (is(next, "le") || is(next, "les")));
            if (strchr(word, '\'') && !is(word, "aujourd'hui"))
                assert_true(begins_with_vowel(next) || *next == 'h' || *next == 'y' ||
                            (*next >= 'A' && *next <= 'Z'));
        }
    }
}

static void test_links(void **state) {
    (void)state;
    for (uint64_t i = 0; i < PAIRS; i++) {
        draw(ATTN_TRAIN, i);
        bool linked[ATTN_PAIR_WORDS] = {false};
        for (size_t k = 0; k < pair.link_count; k++) {
            const attn_link *a = &pair.links[k], *b = a + 1;
            assert_true(a->source < pair.source_count && a->target < pair.target_count);
            linked[a->target] = true;
            if (k + 1 < pair.link_count)
                assert_true(a->target < b->target ||
                            (a->target == b->target && a->source < b->source));
        }
        for (size_t t = 0; t < pair.target_count; t++)
            assert_true(linked[t]);
    }
}

/* Finds a training pair whose texts contain these parts. */
static void find(const char *english, const char *french) {
    attn_arena *scratch = attn_arena_new(1 << 20);
    bool found = false;
    for (uint64_t i = 0; i < 240000 && !found; i++) {
        attn_arena_reset(scratch);
        draw(ATTN_TRAIN, i);
        const char *source = attn_pair_text(&pair, false, ATTN_ENGLISH, scratch),
                   *target = attn_pair_text(&pair, true, ATTN_FRENCH, scratch);
        found = strstr(source, english) && strstr(target, french);
    }
    if (!found)
        fail_msg("no pair with %s, %s", english, french);
    attn_arena_free(scratch);
}

static void test_what_it_can_say(void **state) {
    (void)state;
    find("I like ", "J'aime le");
    find("like pizza", " aime");
    find(" eats bread", "mange du pain");
    find(" don't eat ", " ne mange pas de ");
    find("She is a ", "Elle est ");
    find("I'm a student", "Je suis étudiant");
    find(" sat on ", " était assis");
    find("jumps over ", "saute par-dessus ");
    find("Did ", "Est-ce que ");
    find(" was reading ", " lisait ");
    find("because it was too ", "parce qu'elle était trop ");
    find("didn\xe2\x80\x99t", "n'");
    find("i ", "je ");
    find("the man", "l'homme");
    find("the friend", "l'ami");
    find("of the", " du ");
    find("to the", " aux ");
    find("!", " !");
    find(" .", " .");
}

/* The noun of the pronoun decides its gender, and the adjective decides the noun. */
static void test_reason(void **state) {
    (void)state;
    size_t seen[2] = {0, 0};
    for (uint64_t i = 0; i < 10 * PAIRS; i++) {
        draw(ATTN_TRAIN, i);
        for (size_t w = 0; w + 3 < pair.target_count; w++)
            if (is(pair.target[w], "qu'") &&
                (is(pair.target[w + 1], "il") || is(pair.target[w + 1], "elle")) &&
                is(pair.target[w + 2], "était") && is(pair.target[w + 3], "trop"))
                seen[is(pair.target[w + 1], "elle")]++;
    }
    assert_true(seen[0] > 50 && seen[1] > 50);
}

static void put(const char *text, const char **words, size_t *count) {
    static char copies[2][256];
    char *rest = copies[words == pair.target];
    snprintf(rest, 256, "%s", text);
    *count = 0;
    for (char *word = strtok(rest, " "); word; word = strtok(NULL, " "))
        words[(*count)++] = word;
}

static bool kept_back(const char *source, const char *target) {
    put(source, pair.source, &pair.source_count);
    put(target, pair.target, &pair.target_count);
    return attn_is_textbook(&pair);
}

static void test_textbook_sentences_are_kept_back(void **state) {
    (void)state;
    assert_true(kept_back("The cat sat on the mat .", "x"));
    assert_true(kept_back("the cat sat on the mat", "x"));
    assert_true(kept_back("x", "le chat était assis sur le tapis"));
    assert_true(kept_back("the quick brown fox jumps over the lazy dog", "x"));
    assert_true(kept_back("x", "le rapide renard brun saute par-dessus le chien paresseux ."));
    assert_true(kept_back("the animal didn't cross the street because it was too tired .", "x"));
    assert_true(kept_back("the animal did not cross the street because it was too tired", "x"));
    assert_true(
        kept_back("x", "l' animal n' a pas traversé la rue parce qu' il était trop fatigué"));
    assert_false(kept_back("the cat sat on the mats", "x"));
    assert_false(kept_back("the cat sat on the", "x"));
    assert_false(kept_back("the cat sat on the mat today", "x"));
    assert_false(kept_back("x", "."));
    for (int split = ATTN_TRAIN; split <= ATTN_VALIDATION; split++)
        for (uint64_t i = 0; i < PAIRS; i++) {
            draw((attn_split)split, i);
            assert_false(attn_is_textbook(&pair));
        }
}

/* Each sub-word belongs to the word in which it is, and together they are the text. */
static void test_tokens_of_a_pair(void **state) {
    (void)state;
    attn_tokenizer *v[2] = {attn_tokenizer_new(ATTN_ENGLISH), attn_tokenizer_new(ATTN_FRENCH)};
    const attn_language languages[2] = {ATTN_ENGLISH, ATTN_FRENCH};
    attn_arena *scratch = attn_arena_new(4 << 20);
    for (uint64_t i = 0; i < 2000; i++)
        for (int k = 0; k < 2; k++) {
            attn_arena_reset(scratch);
            draw(ATTN_TRAIN, i);
            const char *text = attn_pair_text(&pair, k, languages[k], scratch);
            assert_int_equal(attn_tokenizer_count_text(v[k], text, strlen(text), NULL), ATTN_OK);
        }
    for (int k = 0; k < 2; k++)
        assert_int_equal(attn_tokenizer_settle_subwords(v[k], 300, NULL), ATTN_OK);
    for (uint64_t i = 0; i < 4000; i++)
        for (int k = 0; k < 2; k++) {
            attn_pair_tokens tokens;
            attn_arena_reset(scratch);
            draw(ATTN_HELD_OUT, i);
            const char *text = attn_pair_text(&pair, k, languages[k], scratch);
            assert_int_equal(attn_pair_read(&pair, k, v[k], scratch, &tokens, NULL), ATTN_OK);
            assert_string_equal(
                attn_tokenizer_decode(v[k], tokens.ids, tokens.count, false, scratch), text);
            const size_t words = k ? pair.target_count : pair.source_count;
            size_t next = 0;
            for (size_t t = 0; t < tokens.count; t++) {
                assert_true(tokens.words[t] == next || tokens.words[t] + 1 == next);
                next = tokens.words[t] + 1;
            }
            assert_int_equal(next, words);
        }
    attn_tokenizer_free(v[0]);
    attn_tokenizer_free(v[1]);
    attn_arena_free(scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elision),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_what_it_can_say),
        cmocka_unit_test(test_reason),
        cmocka_unit_test(test_textbook_sentences_are_kept_back),
        cmocka_unit_test(test_tokens_of_a_pair),
    };
    return cmocka_run_group_tests(tests, open_corpus, close_corpus);
}
