/* Byte-pair encoding: what is learnt from worked counts, splitting, joining, and merges as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "attn/rng.h"
#include "attn/tokens.h"
#include "tokens/words.h"

enum { MOST = 4096 };

static void count(attn_tokenizer *v, const char *word, size_t times) {
    for (size_t i = 0; i < times; i++)
        assert_int_equal(attn_tokenizer_count(v, word, strlen(word), NULL), ATTN_OK);
}

/* The words of the example in Sennrich et al. (2016), figure 1, with their counts. */
static attn_tokenizer *paper_in(attn_language language, size_t merges) {
    attn_tokenizer *v = attn_tokenizer_new(language);
    count(v, "low", 5);
    count(v, "lower", 2);
    count(v, "newest", 6);
    count(v, "widest", 3);
    assert_int_equal(attn_tokenizer_settle_subwords(v, merges, NULL), ATTN_OK);
    return v;
}

static attn_tokenizer *paper(size_t merges) {
    return paper_in(ATTN_ENGLISH, merges);
}

/* Splits a text and writes its sub-words, separated by blanks. */
static size_t split(const attn_tokenizer *v, const char *text, int32_t *ids, char *names,
                    attn_arena *arena) {
    attn_token *tokens;
    size_t n;
    attn_error err = {0};
    if (attn_tokenizer_encode(v, text, strlen(text), arena, &tokens, &n, &err))
        fail_msg("%s: %s", err.where, err.text);
    assert_true(n < MOST);
    *names = 0;
    for (size_t i = 0; i < n; i++) {
        ids[i] = attn_tokenizer_id(v, tokens[i].text, tokens[i].size);
        assert_int_equal(ids[i], tokens[i].id);
        assert_int_not_equal(ids[i], attn_tokenizer_special(v, ATTN_SPECIAL_UNKNOWN));
        assert_true(tokens[i].begin <= tokens[i].end && tokens[i].end <= strlen(text));
        sprintf(names + strlen(names), "%s%s", i ? " " : "", tokens[i].text);
    }
    return n;
}

static void check(const attn_tokenizer *v, const char *text, const char *expected) {
    static char names[16 * MOST];
    int32_t ids[MOST];
    attn_arena *arena = attn_arena_new(16 << 20);
    const size_t n = split(v, text, ids, names, arena);
    if (expected)
        assert_string_equal(names, expected);
    const char *again = attn_tokenizer_decode(v, ids, n, false, arena);
    assert_non_null(again);
    assert_string_equal(again, text);
    attn_arena_free(arena);
}

/* The most frequent pairs by hand, with their counts: e-s 9, then es-t (the end of a word) 9, then
 * l-o 7; the counts of "lo" and "w" are less than those of n-e, e-w, w-est (6 each). */
static void test_learnt_by_hand(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_tokenizer *v = paper(3);
    const char *tokens, *merges;
    assert_int_equal(attn_tokenizer_write(v, arena, &tokens, &merges, NULL), ATTN_OK);
    assert_string_equal(merges, "e@@ s@@\nes@@ t\nl@@ o@@\n");
    assert_int_equal(attn_tokenizer_kind_of(v), ATTN_TOKENS_SUBWORDS);
    check(v, "lowest", "lo@@ w@@ est");
    check(v, "slow", "s@@ lo@@ w");
    check(v, "es", "e@@ s");
    attn_tokenizer_free(v);
    attn_arena_free(arena);
}

static void test_ends_without_pairs(void **state) {
    (void)state;
    attn_tokenizer *v = attn_tokenizer_new(ATTN_ENGLISH);
    count(v, "aa", 4);
    count(v, "xy", 1); /* a pair that occurs once is not merged */
    assert_int_equal(attn_tokenizer_settle_subwords(v, 1000, NULL), ATTN_OK);
    check(v, "aa xy aaaa", "aa x@@ y a@@ a@@ aa");
    attn_tokenizer_free(v);
}

static void test_blanks_and_marks(void **state) {
    (void)state;
    attn_tokenizer *v = paper(10), *french = paper_in(ATTN_FRENCH, 10);
    check(v, "low, lower.", "low , lo@@ w@@ e@@ r .");
    check(v, "low .", "low ␣ .");
    check(v, "low  low", "low ␣@@ ␣ low");
    check(v, "low\"", "low <join> \"");
    check(v, " low ", "␣ low ␣");
    check(french, "l'low ?", "l@@ ' low ?");
    check(french, "low?", "low <join> ?");
    check(v, "low ?", "low ␣ ?");
    check(v, "", "");
    check(v, "low\n", "low <0x0A> </w>");
    attn_tokenizer_free(french);
    attn_tokenizer_free(v);
}

static void test_characters_that_were_not_learnt(void **state) {
    (void)state;
    attn_tokenizer *v = paper(3);
    check(v, "\xc3\xa9t", "<0xC3> <0xA9> t");
    check(v, "t\xc3\xa9", "t@@ <0xC3> <0xA9> </w>");
    check(v, "<a@", "<0x3C> </w> <join> a <join> <0x40> </w>");
    check(v, "␣", "<0xE2> <0x90> <0xA3> </w>");
    attn_tokenizer_free(v);
}

static void test_offsets(void **state) {
    (void)state;
    static const size_t expected[][2] = {{0, 2}, {2, 2}, {2, 2}, {3, 5}, {5, 6}, {6, 6}, {6, 7}};
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_tokenizer *v = paper(3);
    attn_token *tokens;
    size_t n;
    assert_int_equal(attn_tokenizer_encode(v, "\xc3\xa9 low\"", 7, arena, &tokens, &n, NULL),
                     ATTN_OK);
    assert_int_equal(n, 7); /* é is two bytes and </w>; lo@@ w <join> " */
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(tokens[i].begin, expected[i][0]);
        assert_int_equal(tokens[i].end, expected[i][1]);
    }
    attn_tokenizer_free(v);
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
    attn_tokenizer *v = paper(20), *french = paper_in(ATTN_FRENCH, 20);
    char text[1024];
    for (uint64_t seed = 0; seed < 20000; seed++) {
        random_text(seed, text);
        check(seed % 2 ? french : v, text, NULL);
    }
    attn_tokenizer_free(french);
    attn_tokenizer_free(v);
}

/* A word of many thousand characters is divided, so its time grows with its length only. */
static void test_long_word(void **state) {
    (void)state;
    attn_tokenizer *v = paper(20);
    enum { SIZE = 1 << 20 };
    attn_arena *arena = attn_arena_new(512 << 20);
    char *text = attn_arena_take(arena, SIZE + 1);
    memset(text, 'e', SIZE);
    text[SIZE] = 0;
    attn_token *tokens;
    size_t n;
    assert_int_equal(attn_tokenizer_encode(v, text, SIZE, arena, &tokens, &n, NULL), ATTN_OK);
    assert_int_equal(n, SIZE);
    attn_arena_free(arena);
    attn_tokenizer_free(v);
}

/* Any ids give valid UTF-8, and with `open` more ids only append to the text. */
static void test_any_ids_join(void **state) {
    (void)state;
    attn_tokenizer *v = paper_in(ATTN_FRENCH, 20);
    attn_arena *arena = attn_arena_new(4 << 20);
    for (uint64_t seed = 0; seed < 2000; seed++) {
        int32_t ids[40];
        const char *before = "";
        attn_arena_reset(arena);
        for (size_t i = 0; i < 40; i++) {
            ids[i] = (int32_t)(attn_rng_bits(seed, i) % attn_tokenizer_size(v));
            attn_token *tokens;
            size_t n;
            const char *now = attn_tokenizer_decode(v, ids, i + 1, true, arena);
            assert_non_null(now);
            assert_memory_equal(now, before, strlen(before));
            assert_int_equal(
                attn_words_split(now, strlen(now), ATTN_FRENCH, arena, &tokens, &n, NULL), ATTN_OK);
            before = now;
        }
    }
    const int32_t none[] = {(int32_t)attn_tokenizer_size(v)};
    assert_null(attn_tokenizer_decode(v, none, 1, false, arena));
    attn_arena_free(arena);
    attn_tokenizer_free(v);
}

static void test_not_utf8(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_tokenizer *v = paper(3);
    attn_token *tokens;
    attn_error err;
    size_t n;
    assert_int_equal(attn_tokenizer_encode(v, "ab \xff", 4, arena, &tokens, &n, &err), ATTN_EVALUE);
    assert_non_null(strstr(err.text, "byte 3"));
    attn_tokenizer *counted = attn_tokenizer_new(ATTN_ENGLISH);
    assert_int_equal(attn_tokenizer_count_text(counted, "ab \xff", 4, &err), ATTN_EVALUE);
    attn_tokenizer_free(counted);
    attn_tokenizer_free(v);
    attn_arena_free(arena);
}

static attn_tokenizer *copy(const attn_tokenizer *v, attn_arena *arena) {
    const char *words, *merges;
    attn_tokenizer *out;
    assert_int_equal(attn_tokenizer_write(v, arena, &words, &merges, NULL), ATTN_OK);
    assert_int_equal(attn_tokenizer_read(words, strlen(words), ATTN_ENGLISH, &out, NULL), ATTN_OK);
    return out;
}

static void test_written_and_read(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_tokenizer *v = paper(12), *again = copy(v, arena);
    const char *tokens[2], *merges[2];
    assert_int_equal(attn_tokenizer_write(v, arena, &tokens[0], &merges[0], NULL), ATTN_OK);
    assert_int_equal(attn_tokenizer_kind_of(again), ATTN_TOKENS_WORDS);
    assert_int_equal(attn_tokenizer_read_merges(again, merges[0], strlen(merges[0]), NULL),
                     ATTN_OK);
    assert_int_equal(attn_tokenizer_write(again, arena, &tokens[1], &merges[1], NULL), ATTN_OK);
    assert_string_equal(tokens[0], tokens[1]);
    assert_string_equal(merges[0], merges[1]);
    check(again, "the newest, lowest! é", NULL);
    attn_tokenizer_free(again);
    attn_tokenizer_free(v);
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
    attn_tokenizer *v = paper(3), *again = copy(v, arena);
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++) {
        attn_error err = {0};
        assert_int_equal(attn_tokenizer_read_merges(again, faulty[i], strlen(faulty[i]), &err),
                         ATTN_EVALUE);
        assert_string_equal(err.where, "merges");
        assert_int_equal(attn_tokenizer_kind_of(again), ATTN_TOKENS_WORDS);
    }
    const char words[] = "<pad>\n<bos>\n<eos>\n<unk>\na@@\nb\nab\n";
    attn_tokenizer *few;
    assert_int_equal(attn_tokenizer_read(words, sizeof words - 1, ATTN_ENGLISH, &few, NULL),
                     ATTN_OK);
    assert_int_equal(attn_tokenizer_read_merges(few, "a@@ b\n", 6, NULL), ATTN_EVALUE);
    attn_tokenizer_free(few);
    attn_tokenizer_free(again);
    attn_tokenizer_free(v);
    attn_arena_free(arena);
}

static size_t left; /* blocks that may still be taken */

static void *take_some(size_t size) {
    return left ? left--, attn_block_take(size) : NULL;
}

/* Learns, writes, reads and splits. Returns the first error. */
static attn_status all_steps(void) {
    attn_error err;
    attn_tokenizer *v = attn_tokenizer_new(ATTN_ENGLISH), *again = NULL;
    attn_arena *arena = attn_arena_new(1 << 20);
    const char *words, *merges, *text = "low newest";
    attn_token *tokens;
    size_t n;
    attn_status status = v && arena ? ATTN_OK : ATTN_ENOMEM;
    for (size_t i = 0; !status && i < 3; i++)
        status = attn_tokenizer_count_text(v, text, strlen(text), &err);
    if (!status)
        status = attn_tokenizer_settle_subwords(v, 5, &err);
    if (!status)
        status = attn_tokenizer_write(v, arena, &words, &merges, &err);
    if (!status)
        status = attn_tokenizer_read(words, strlen(words), ATTN_ENGLISH, &again, &err);
    if (!status)
        status = attn_tokenizer_read_merges(again, merges, strlen(merges), &err);
    if (!status)
        status = attn_tokenizer_encode(again, text, strlen(text), arena, &tokens, &n, &err);
    attn_tokenizer_free(v);
    attn_tokenizer_free(again);
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

static void test_whole_words(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_tokenizer *v = attn_tokenizer_new(ATTN_ENGLISH);
    attn_token *tokens;
    size_t n;
    count(v, "red", 1);
    count(v, ".", 1);
    assert_int_equal(attn_tokenizer_settle(v, 1, 0, NULL), ATTN_OK);
    assert_int_equal(attn_tokenizer_encode(v, "The RED.", 8, arena, &tokens, &n, NULL), ATTN_OK);
    assert_int_equal(n, 3);
    assert_string_equal(tokens[1].text, "red");
    const int32_t ids[] = {attn_tokenizer_id(v, "red", 3), attn_tokenizer_id(v, ".", 1)};
    assert_string_equal(attn_tokenizer_decode(v, ids, 2, false, arena), "red.");
    attn_tokenizer_free(v);
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
