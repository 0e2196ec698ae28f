/* Byte-pair encoding: what is learnt from worked counts, splitting, joining, and merges as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "attn/rng.h"
#include "attn/vocabulary.h"
#include "corpus/corpus.h"

enum { MOST = 4096 };

static void count(attn_vocabulary *v, const char *word, size_t times) {
    for (size_t i = 0; i < times; i++)
        assert_int_equal(attn_vocabulary_add(v, word, strlen(word), NULL), ATTN_OK);
}

/* The words of the example in Sennrich et al. (2016), figure 1, with their counts. */
static attn_vocabulary *paper(size_t merges) {
    attn_vocabulary *v = attn_vocabulary_new();
    count(v, "low", 5);
    count(v, "lower", 2);
    count(v, "newest", 6);
    count(v, "widest", 3);
    assert_int_equal(attn_vocabulary_settle_subwords(v, merges, NULL), ATTN_OK);
    return v;
}

/* Splits a text and writes its sub-words, separated by blanks. */
static size_t split(const attn_vocabulary *v, const char *text, attn_language language,
                    int32_t *ids, char *names, attn_arena *arena) {
    attn_token *tokens;
    size_t n;
    attn_error err = {0};
    if (attn_vocabulary_split(v, text, strlen(text), language, arena, &tokens, &n, &err))
        fail_msg("%s: %s", err.where, err.text);
    assert_true(n < MOST);
    *names = 0;
    for (size_t i = 0; i < n; i++) {
        ids[i] = attn_vocabulary_id(v, tokens[i].text, tokens[i].size);
        assert_int_not_equal(ids[i], ATTN_UNKNOWN);
        assert_true(tokens[i].begin <= tokens[i].end && tokens[i].end <= strlen(text));
        sprintf(names + strlen(names), "%s%s", i ? " " : "", tokens[i].text);
    }
    return n;
}

static void check(const attn_vocabulary *v, const char *text, attn_language language,
                  const char *expected) {
    static char names[16 * MOST];
    int32_t ids[MOST];
    attn_arena *arena = attn_arena_new(16 << 20);
    const size_t n = split(v, text, language, ids, names, arena);
    if (expected)
        assert_string_equal(names, expected);
    const char *again = attn_vocabulary_join(v, ids, n, language, false, arena);
    assert_non_null(again);
    assert_string_equal(again, text);
    attn_arena_free(arena);
}

/* The most frequent pairs by hand, with their counts: e-s 9, then es-t (the end of a word) 9, then
 * l-o 7; the counts of "lo" and "w" are less than those of n-e, e-w, w-est (6 each). */
static void test_learnt_by_hand(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_vocabulary *v = paper(3);
    const char *text;
    assert_int_equal(attn_vocabulary_write_merges(v, arena, &text, NULL), ATTN_OK);
    assert_string_equal(text, "e@@ s@@\nes@@ t\nl@@ o@@\n");
    assert_true(attn_vocabulary_has_subwords(v));
    check(v, "lowest", ATTN_ENGLISH, "lo@@ w@@ est");
    check(v, "slow", ATTN_ENGLISH, "s@@ lo@@ w");
    check(v, "es", ATTN_ENGLISH, "e@@ s");
    attn_vocabulary_free(v);
    attn_arena_free(arena);
}

static void test_ends_without_pairs(void **state) {
    (void)state;
    attn_vocabulary *v = attn_vocabulary_new();
    count(v, "aa", 4);
    count(v, "xy", 1); /* a pair that occurs once is not merged */
    assert_int_equal(attn_vocabulary_settle_subwords(v, 1000, NULL), ATTN_OK);
    check(v, "aa xy aaaa", ATTN_ENGLISH, "aa x@@ y a@@ a@@ aa");
    attn_vocabulary_free(v);
}

static void test_blanks_and_marks(void **state) {
    (void)state;
    attn_vocabulary *v = paper(10);
    check(v, "low, lower.", ATTN_ENGLISH, "low , lo@@ w@@ e@@ r .");
    check(v, "low .", ATTN_ENGLISH, "low ␣ .");
    check(v, "low  low", ATTN_ENGLISH, "low ␣@@ ␣ low");
    check(v, "low\"", ATTN_ENGLISH, "low <join> \"");
    check(v, " low ", ATTN_ENGLISH, "␣ low ␣");
    check(v, "l'low ?", ATTN_FRENCH, "l@@ ' low ?");
    check(v, "low?", ATTN_FRENCH, "low <join> ?");
    check(v, "low ?", ATTN_ENGLISH, "low ␣ ?");
    check(v, "", ATTN_ENGLISH, "");
    check(v, "low\n", ATTN_ENGLISH, "low <0x0A> </w>");
    attn_vocabulary_free(v);
}

static void test_characters_that_were_not_learnt(void **state) {
    (void)state;
    attn_vocabulary *v = paper(3);
    check(v, "\xc3\xa9t", ATTN_ENGLISH, "<0xC3> <0xA9> t");
    check(v, "t\xc3\xa9", ATTN_ENGLISH, "t@@ <0xC3> <0xA9> </w>");
    check(v, "<a@", ATTN_ENGLISH, "<0x3C> </w> <join> a <join> <0x40> </w>");
    check(v, "␣", ATTN_ENGLISH, "<0xE2> <0x90> <0xA3> </w>");
    attn_vocabulary_free(v);
}

static void test_offsets(void **state) {
    (void)state;
    static const size_t expected[][2] = {{0, 2}, {2, 2}, {2, 2}, {3, 5}, {5, 6}, {6, 6}, {6, 7}};
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_vocabulary *v = paper(3);
    attn_token *tokens;
    size_t n;
    assert_int_equal(
        attn_vocabulary_split(v, "\xc3\xa9 low\"", 7, ATTN_ENGLISH, arena, &tokens, &n, NULL),
        ATTN_OK);
    assert_int_equal(n, 7); /* é is two bytes and </w>; lo@@ w <join> " */
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(tokens[i].begin, expected[i][0]);
        assert_int_equal(tokens[i].end, expected[i][1]);
    }
    attn_vocabulary_free(v);
    attn_arena_free(arena);
}

/* Writes a random text: characters of all planes, many of those that the rules treat apart. */
static size_t random_text(uint64_t seed, char *text) {
    static const char *const odd[] = {" ",  "  ", ".", ",",   "'",  "\xe2\x80\x99",
                                      "\"", "(",  ")", "?",   "\n", "\t",
                                      "@",  "<",  ">", "-",   "@@", "␣",
                                      "e",  "es", "t", "low", "l'", "\xc2\xa0"};
    size_t size = 0;
    const size_t characters = (size_t)(attn_rng_uniform(seed, 0) * 60);
    for (size_t i = 0; i < characters; i++) {
        const uint64_t bits = attn_rng_bits(seed, i + 1);
        if (bits % 3) {
            const char *part = odd[bits / 3 % (sizeof odd / sizeof *odd)];
            memcpy(text + size, part, strlen(part));
            size += strlen(part);
            continue;
        }
        uint32_t c = (uint32_t)(bits >> 8) % (bits % 2 ? 0x300 : 0x110000);
        c = c ? c : 'a';
        if (c >= 0xd800 && c < 0xe000)
            c = 0xfffd;
        if (c < 0x80) {
            text[size++] = (char)c;
        } else if (c < 0x800) {
            text[size++] = (char)(0xc0 | c >> 6);
        } else if (c < 0x10000) {
            text[size++] = (char)(0xe0 | c >> 12);
            text[size++] = (char)(0x80 | (c >> 6 & 0x3f));
        } else {
            text[size++] = (char)(0xf0 | c >> 18);
            text[size++] = (char)(0x80 | (c >> 12 & 0x3f));
            text[size++] = (char)(0x80 | (c >> 6 & 0x3f));
        }
        if (c >= 0x80)
            text[size++] = (char)(0x80 | (c & 0x3f));
    }
    text[size] = 0;
    return size;
}

static void test_any_text_comes_back(void **state) {
    (void)state;
    attn_vocabulary *v = paper(20);
    char text[1024];
    for (uint64_t seed = 0; seed < 20000; seed++) {
        random_text(seed, text);
        check(v, text, seed % 2 ? ATTN_FRENCH : ATTN_ENGLISH, NULL);
    }
    attn_vocabulary_free(v);
}

/* A word of many thousand characters is divided, so its time grows with its length only. */
static void test_long_word(void **state) {
    (void)state;
    attn_vocabulary *v = paper(20);
    enum { SIZE = 1 << 20 };
    attn_arena *arena = attn_arena_new(512 << 20);
    char *text = attn_arena_take(arena, SIZE + 1);
    memset(text, 'e', SIZE);
    text[SIZE] = 0;
    attn_token *tokens;
    size_t n;
    assert_int_equal(attn_vocabulary_split(v, text, SIZE, ATTN_ENGLISH, arena, &tokens, &n, NULL),
                     ATTN_OK);
    assert_int_equal(n, SIZE);
    attn_arena_free(arena);
    attn_vocabulary_free(v);
}

/* Any ids give valid UTF-8, and with `open` more ids only append to the text. */
static void test_any_ids_join(void **state) {
    (void)state;
    attn_vocabulary *v = paper(20);
    attn_arena *arena = attn_arena_new(4 << 20);
    for (uint64_t seed = 0; seed < 2000; seed++) {
        int32_t ids[40];
        const char *before = "";
        attn_arena_reset(arena);
        for (size_t i = 0; i < 40; i++) {
            ids[i] = (int32_t)(attn_rng_bits(seed, i) % attn_vocabulary_size(v));
            attn_token *tokens;
            size_t n;
            const char *now = attn_vocabulary_join(v, ids, i + 1, ATTN_FRENCH, true, arena);
            assert_non_null(now);
            assert_memory_equal(now, before, strlen(before));
            assert_int_equal(
                attn_words_split(now, strlen(now), ATTN_FRENCH, arena, &tokens, &n, NULL), ATTN_OK);
            before = now;
        }
    }
    const int32_t none[] = {(int32_t)attn_vocabulary_size(v)};
    assert_null(attn_vocabulary_join(v, none, 1, ATTN_FRENCH, false, arena));
    attn_arena_free(arena);
    attn_vocabulary_free(v);
}

static void test_not_utf8(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_vocabulary *v = paper(3);
    attn_token *tokens;
    attn_error err;
    size_t n;
    assert_int_equal(attn_vocabulary_split(v, "ab \xff", 4, ATTN_ENGLISH, arena, &tokens, &n, &err),
                     ATTN_EVALUE);
    assert_non_null(strstr(err.text, "byte 3"));
    attn_vocabulary *counted = attn_vocabulary_new();
    assert_int_equal(attn_vocabulary_add_text(counted, "ab \xff", 4, ATTN_ENGLISH, &err),
                     ATTN_EVALUE);
    attn_vocabulary_free(counted);
    attn_vocabulary_free(v);
    attn_arena_free(arena);
}

static attn_vocabulary *copy(const attn_vocabulary *v, attn_arena *arena) {
    const char *words;
    attn_vocabulary *out;
    assert_int_equal(attn_vocabulary_write(v, arena, &words, NULL), ATTN_OK);
    assert_int_equal(attn_vocabulary_read(words, strlen(words), &out, NULL), ATTN_OK);
    return out;
}

static void test_written_and_read(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_vocabulary *v = paper(12), *again = copy(v, arena);
    const char *merges, *more;
    assert_int_equal(attn_vocabulary_write_merges(v, arena, &merges, NULL), ATTN_OK);
    assert_false(attn_vocabulary_has_subwords(again));
    assert_int_equal(attn_vocabulary_read_merges(again, merges, strlen(merges), NULL), ATTN_OK);
    assert_int_equal(attn_vocabulary_write_merges(again, arena, &more, NULL), ATTN_OK);
    assert_string_equal(merges, more);
    check(again, "the newest, lowest! é", ATTN_ENGLISH, NULL);
    attn_vocabulary_free(again);
    attn_vocabulary_free(v);
    attn_arena_free(arena);
}

static void test_faulty_merges(void **state) {
    (void)state;
    static const char *const faulty[] = {
        "e@@\n",       "e@@ \n",          " s@@\n",
        "e s@@\n",     "e@@ s@@\n\n",     "e@@ s@@\ne@@ s@@\n",
        "q@@ q@@\n",   "zz@@ t\n",        "<pad> t\n",
        "e@@ s@@ t\n", "<0x41> <0x42>\n", "e@@ <0x42>\n",
        "e@@ </w>\n",
    };
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_vocabulary *v = paper(3), *again = copy(v, arena);
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++) {
        attn_error err = {0};
        assert_int_equal(attn_vocabulary_read_merges(again, faulty[i], strlen(faulty[i]), &err),
                         ATTN_EVALUE);
        assert_string_equal(err.where, "merges");
        assert_false(attn_vocabulary_has_subwords(again));
    }
    const char words[] = "<pad>\n<bos>\n<eos>\n<unk>\na@@\nb\nab\n";
    attn_vocabulary *few;
    assert_int_equal(attn_vocabulary_read(words, sizeof words - 1, &few, NULL), ATTN_OK);
    assert_int_equal(attn_vocabulary_read_merges(few, "a@@ b\n", 6, NULL), ATTN_EVALUE);
    attn_vocabulary_free(few);
    attn_vocabulary_free(again);
    attn_vocabulary_free(v);
    attn_arena_free(arena);
}

static size_t left; /* blocks that may still be taken */

static void *take_some(size_t size) {
    return left ? left--, attn_block_take(size) : NULL;
}

/* Learns, writes, reads and splits. Returns the first error. */
static attn_status all_steps(void) {
    attn_error err;
    attn_vocabulary *v = attn_vocabulary_new(), *again = NULL;
    attn_arena *arena = attn_arena_new(1 << 20);
    const char *words, *merges, *text = "low newest";
    attn_token *tokens;
    size_t n;
    attn_status status = v && arena ? ATTN_OK : ATTN_ENOMEM;
    for (size_t i = 0; !status && i < 3; i++)
        status = attn_vocabulary_add_text(v, text, strlen(text), ATTN_ENGLISH, &err);
    if (!status)
        status = attn_vocabulary_settle_subwords(v, 5, &err);
    if (!status)
        status = attn_vocabulary_write(v, arena, &words, &err);
    if (!status)
        status = attn_vocabulary_write_merges(v, arena, &merges, &err);
    if (!status)
        status = attn_vocabulary_read(words, strlen(words), &again, &err);
    if (!status)
        status = attn_vocabulary_read_merges(again, merges, strlen(merges), &err);
    if (!status)
        status = attn_vocabulary_split(again, text, strlen(text), ATTN_ENGLISH, arena, &tokens, &n,
                                       &err);
    attn_vocabulary_free(v);
    attn_vocabulary_free(again);
    attn_arena_free(arena);
    return status;
}

static void test_failing_allocations(void **state) {
    (void)state;
    attn_status status = ATTN_ENOMEM;
    attn_set_allocator(take_some, attn_block_give);
    for (size_t most = 0; status; most++) {
        left = most;
        status = all_steps();
        assert_true(!status || status == ATTN_ENOMEM);
        assert_true(most < 10000);
    }
    attn_set_allocator(NULL, NULL);
}

/* A vocabulary of words splits and joins as before. */
static void test_whole_words(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_vocabulary *v = attn_vocabulary_new();
    attn_token *tokens;
    size_t n;
    count(v, "red", 1);
    count(v, ".", 1);
    assert_int_equal(attn_vocabulary_settle(v, 1, 0, NULL), ATTN_OK);
    assert_int_equal(
        attn_vocabulary_split(v, "The RED.", 8, ATTN_ENGLISH, arena, &tokens, &n, NULL), ATTN_OK);
    assert_int_equal(n, 3);
    assert_string_equal(tokens[1].text, "red");
    const int32_t ids[] = {attn_vocabulary_id(v, "red", 3), attn_vocabulary_id(v, ".", 1)};
    assert_string_equal(attn_vocabulary_join(v, ids, 2, ATTN_ENGLISH, false, arena), "red.");
    attn_vocabulary_free(v);
    attn_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learnt_by_hand),
        cmocka_unit_test(test_ends_without_pairs),
        cmocka_unit_test(test_blanks_and_marks),
        cmocka_unit_test(test_characters_that_were_not_learnt),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_any_text_comes_back),
        cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_any_ids_join),
        cmocka_unit_test(test_not_utf8),
        cmocka_unit_test(test_written_and_read),
        cmocka_unit_test(test_faulty_merges),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_whole_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
