/* Tokenizers of words and of numbers, and the words of a text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "attn/tokens.h"
#include "tokens/words.h"

static int32_t id_of(const attn_tokenizer *v, const char *word) {
    return attn_tokenizer_id(v, word, strlen(word));
}

static void add(attn_tokenizer *v, const char *word, int times) {
    while (times--)
        assert_int_equal(attn_tokenizer_count(v, word, strlen(word), NULL), ATTN_OK);
}

static void test_ids_go_by_count_then_bytes(void **state) {
    (void)state;
    attn_tokenizer *v = attn_tokenizer_new(ATTN_ENGLISH);
    add(v, "rare", 1), add(v, "b", 3), add(v, "a", 3), add(v, "often", 9), add(v, "é", 2);
    assert_int_equal(attn_tokenizer_settle(v, 2, 0, NULL), ATTN_OK);
    assert_int_equal(attn_tokenizer_size(v), 8);
    assert_int_equal(id_of(v, "often"), 4);
    assert_int_equal(id_of(v, "a"), 5);
    assert_int_equal(id_of(v, "b"), 6);
    assert_int_equal(id_of(v, "é"), 7);
    assert_int_equal(id_of(v, "rare"), attn_tokenizer_special(v, ATTN_SPECIAL_UNKNOWN));
    assert_int_equal(id_of(v, "<eos>"), attn_tokenizer_special(v, ATTN_SPECIAL_END));
    assert_null(attn_tokenizer_token(v, 8));
    attn_tokenizer_free(v);
}

static void test_text_and_back_with_many_words(void **state) {
    (void)state;
    attn_tokenizer *v = attn_tokenizer_new(ATTN_ENGLISH), *again;
    attn_arena *arena = attn_arena_new(1 << 22);
    char word[16];
    for (int i = 0; i < 5000; i++) {
        snprintf(word, sizeof word, "w%d", i);
        add(v, word, 1 + i % 7);
    }
    const char *text, *merges;
    assert_int_equal(attn_tokenizer_settle(v, 1, 4000, NULL), ATTN_OK);
    assert_int_equal(attn_tokenizer_size(v), 4004);
    assert_int_equal(attn_tokenizer_write(v, arena, &text, &merges, NULL), ATTN_OK);
    assert_null(merges);
    assert_int_equal(attn_tokenizer_read(text, strlen(text), ATTN_ENGLISH, &again, NULL), ATTN_OK);
    assert_int_equal(attn_tokenizer_size(again), 4004);
    for (int32_t i = 0; i < 4004; i++) {
        assert_string_equal(attn_tokenizer_token(v, i), attn_tokenizer_token(again, i));
        assert_int_equal(id_of(again, attn_tokenizer_token(v, i)), i);
    }
    attn_tokenizer_free(v);
    attn_tokenizer_free(again);
    attn_arena_free(arena);
}

static void test_faulty_words_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *word;
        size_t size;
    } faulty[] = {{"", 0}, {"a\nb", 3}, {"a\0b", 3}, {"\0", 1}};
    static const char with_nul[] = "<pad>\n<bos>\n<eos>\n<unk>\na\0b\n";
    attn_tokenizer *v = attn_tokenizer_new(ATTN_ENGLISH), *read = NULL;
    attn_error err;
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++)
        assert_int_equal(attn_tokenizer_count(v, faulty[i].word, faulty[i].size, &err),
                         ATTN_EVALUE);
    assert_int_equal(attn_tokenizer_size(v), ATTN_SPECIALS);
    assert_int_equal(attn_tokenizer_read(with_nul, sizeof with_nul - 1, ATTN_ENGLISH, &read, &err),
                     ATTN_EVALUE);
    assert_string_equal(err.text, "line 5 has a NUL");
    attn_tokenizer_free(v);
}

static void test_settled_ones_take_no_words(void **state) {
    (void)state;
    static const char text[] = "<pad>\n<bos>\n<eos>\n<unk>\na\n";
    attn_tokenizer *v[2] = {attn_tokenizer_new(ATTN_ENGLISH), NULL};
    attn_error err;
    add(v[0], "a", 1);
    assert_int_equal(attn_tokenizer_settle(v[0], 1, 0, NULL), ATTN_OK);
    assert_int_equal(attn_tokenizer_read(text, sizeof text - 1, ATTN_ENGLISH, &v[1], NULL),
                     ATTN_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(attn_tokenizer_count(v[i], "b", 1, &err), ATTN_EARG);
        assert_int_equal(attn_tokenizer_settle(v[i], 1, 0, &err), ATTN_EARG);
        assert_int_equal(attn_tokenizer_settle_subwords(v[i], 1, &err), ATTN_EARG);
        assert_int_equal(attn_tokenizer_size(v[i]), ATTN_SPECIALS + 1);
        attn_tokenizer_free(v[i]);
    }
}

static void test_faulty_texts_are_refused(void **state) {
    (void)state;
    static const char *const faulty[] = {
        "",
        "<pad>\n",
        "<pad>\n<bos>\n<eos>\nunk\n",
        "<pad>\n<bos>\n<eos>\n<unk>\na\n\nb\n",
        "<pad>\n<bos>\n<eos>\n<unk>\na\na\n",
        "<pad>\n<bos>\n<eos>\n<unk>\n<pad>\n",
    };
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++) {
        attn_tokenizer *v = NULL;
        assert_int_equal(attn_tokenizer_read(faulty[i], strlen(faulty[i]), ATTN_ENGLISH, &v, NULL),
                         ATTN_EVALUE);
        assert_null(v);
    }
}

static void test_given_words(void **state) {
    (void)state;
    static const char *const words[] = {"l'", "eau", "."}, *const twice[] = {"a", "b", "a"};
    attn_arena *arena = attn_arena_new(1 << 16);
    attn_tokenizer *t = NULL, *none = NULL;
    attn_token *tokens;
    size_t count;
    attn_error err;
    assert_int_equal(attn_tokenizer_of(words, 3, ATTN_FRENCH, &t, NULL), ATTN_OK);
    assert_int_equal(attn_tokenizer_kind_of(t), ATTN_TOKENS_WORDS);
    assert_int_equal(attn_tokenizer_size(t), ATTN_SPECIALS + 3);
    assert_int_equal(attn_tokenizer_encode(t, "L'eau coule", 11, arena, &tokens, &count, NULL),
                     ATTN_OK);
    assert_int_equal(count, 3);
    assert_int_equal(tokens[1].id, ATTN_SPECIALS + 1);
    assert_int_equal(tokens[2].id, attn_tokenizer_special(t, ATTN_SPECIAL_UNKNOWN));
    assert_int_equal(tokens[2].begin, 6);
    const int32_t ids[] = {tokens[0].id, tokens[1].id, ATTN_SPECIALS + 2};
    assert_string_equal(attn_tokenizer_decode(t, ids, 3, false, arena), "l'eau.");
    assert_int_equal(attn_tokenizer_of(twice, 3, ATTN_FRENCH, &none, &err), ATTN_EVALUE);
    assert_string_equal(err.where, "2");
    assert_string_equal(err.text, "repeats the word at index 0: a");
    assert_null(none);
    attn_tokenizer_free(t);
    attn_arena_free(arena);
}

/* Ids of numbers are known, but have no texts. */
static void test_numbers(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 16);
    attn_tokenizer *t = attn_tokenizer_numbers(9, ATTN_FRENCH);
    attn_token *tokens;
    size_t count;
    const char *texts[2];
    const int32_t ids[] = {4};
    attn_error err;
    assert_int_equal(attn_tokenizer_size(t), 9);
    assert_false(attn_tokenizer_has_texts(t));
    assert_string_equal(attn_language_names[attn_tokenizer_language(t)], "french");
    for (int i = 0; i < ATTN_SPECIALS; i++)
        assert_int_equal(attn_tokenizer_special(t, (attn_special)i), i);
    assert_int_equal(attn_tokenizer_id(t, "a", 1), attn_tokenizer_special(t, ATTN_SPECIAL_UNKNOWN));
    assert_null(attn_tokenizer_token(t, 4));
    assert_null(attn_tokenizer_decode(t, ids, 1, false, arena));
    assert_null(attn_tokenizer_decode(t, ids, 0, false, arena));
    assert_int_equal(attn_tokenizer_encode(t, "a", 1, arena, &tokens, &count, &err), ATTN_EARG);
    assert_int_equal(attn_tokenizer_count(t, "a", 1, &err), ATTN_EARG);
    assert_int_equal(attn_tokenizer_settle(t, 1, 0, &err), ATTN_EARG);
    assert_int_equal(attn_tokenizer_read_merges(t, "", 0, &err), ATTN_EARG);
    assert_int_equal(attn_tokenizer_write(t, arena, &texts[0], &texts[1], &err), ATTN_EARG);
    attn_tokenizer_free(t);
    attn_arena_free(arena);
}

static void test_languages_have_names(void **state) {
    (void)state;
    attn_language language;
    assert_true(attn_language_parse("french", &language));
    assert_int_equal(language, ATTN_FRENCH);
    assert_false(attn_language_parse("klingon", &language));
    assert_null(attn_tokenizer_new((attn_language)2));
    assert_null(attn_tokenizer_numbers(9, (attn_language)-1));
}

/* Words, separated by |, and the bytes of the last one. */
static void check_split(const char *text, attn_language language, const char *expected,
                        size_t last) {
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_token *tokens;
    size_t count;
    char got[512] = "";
    assert_int_equal(attn_words_split(text, strlen(text), language, arena, &tokens, &count, NULL),
                     ATTN_OK);
    for (size_t i = 0; i < count; i++) {
        strcat(got, i ? "|" : "");
        strcat(got, tokens[i].text);
        assert_int_equal(tokens[i].size, strlen(tokens[i].text));
    }
    assert_string_equal(got, expected);
    if (count)
        assert_int_equal(tokens[count - 1].begin, last);
    attn_arena_free(arena);
}

static void test_words_of_a_text(void **state) {
    (void)state;
    check_split("The red car.", ATTN_ENGLISH, "the|red|car|.", 11);
    check_split("  I don't know,\tJohn-Paul! ", ATTN_ENGLISH, "i|don't|know|,|john-paul|!", 25);
    check_split("L'eau qu\xe2\x80\x99il a", ATTN_FRENCH, "l'|eau|qu'|il|a", 14);
    check_split("Aujourd'hui, j'\xc3\x89tudie", ATTN_FRENCH, "aujourd'hui|,|j'|étudie", 15);
    check_split("e\xcc\x81"
                "te",
                ATTN_FRENCH, "éte", 0); /* composed */
    check_split("'a' - b-", ATTN_ENGLISH, "'|a|'|-|b|-", 7);
    check_split("\xe7\x8c\xab 42", ATTN_ENGLISH, "猫|42", 4);
    check_split("", ATTN_ENGLISH, "", 0);
}

static void test_no_utf8(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 16);
    attn_token *tokens;
    size_t count;
    attn_error err;
    assert_int_equal(attn_words_split("ab \xff", 4, ATTN_ENGLISH, arena, &tokens, &count, &err),
                     ATTN_EVALUE);
    assert_non_null(strstr(err.text, "byte 3"));
    assert_int_equal(attn_words_split("ab\xc3", 3, ATTN_ENGLISH, arena, &tokens, &count, &err),
                     ATTN_EVALUE);
    attn_arena_free(arena);
}

static void test_join(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 16);
    const char *const words[] = {"l'",    "arbre", "n'",   "est",  "pas",
                                 "grand", ",",     "elle", "dort", "."};
    assert_string_equal(attn_words_join(words, 10, arena), "l'arbre n'est pas grand, elle dort.");
    assert_string_equal(attn_words_join(words, 0, arena), "");
    attn_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_go_by_count_then_bytes),
        cmocka_unit_test(test_text_and_back_with_many_words),
        cmocka_unit_test(test_faulty_words_are_refused),
        cmocka_unit_test(test_settled_ones_take_no_words),
        cmocka_unit_test(test_faulty_texts_are_refused),
        cmocka_unit_test(test_given_words),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_languages_have_names),
        cmocka_unit_test(test_words_of_a_text),
        cmocka_unit_test(test_no_utf8),
        cmocka_unit_test(test_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
