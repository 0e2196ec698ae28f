/* Vocabularies and the words of a text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "attn/vocabulary.h"

static int32_t id_of(const attn_vocabulary *v, const char *word) {
    return attn_vocabulary_id(v, word, strlen(word));
}

static void add(attn_vocabulary *v, const char *word, int times) {
    while (times--)
        assert_int_equal(attn_vocabulary_add(v, word, strlen(word), NULL), ATTN_OK);
}

static void test_ids_go_by_count_then_bytes(void **state) {
    (void)state;
    attn_vocabulary *v = attn_vocabulary_new();
    add(v, "rare", 1), add(v, "b", 3), add(v, "a", 3), add(v, "often", 9), add(v, "é", 2);
    assert_int_equal(attn_vocabulary_settle(v, 2, 0, NULL), ATTN_OK);
    assert_int_equal(attn_vocabulary_size(v), 8);
    assert_int_equal(id_of(v, "often"), 4);
    assert_int_equal(id_of(v, "a"), 5);
    assert_int_equal(id_of(v, "b"), 6);
    assert_int_equal(id_of(v, "é"), 7);
    assert_int_equal(id_of(v, "rare"), ATTN_UNKNOWN);
    assert_int_equal(id_of(v, "<eos>"), ATTN_END);
    assert_null(attn_vocabulary_word(v, 8));
    attn_vocabulary_free(v);
}

static void test_text_and_back_with_many_words(void **state) {
    (void)state;
    attn_vocabulary *v = attn_vocabulary_new(), *again;
    attn_arena *arena = attn_arena_new(1 << 22);
    char word[16];
    for (int i = 0; i < 5000; i++) {
        snprintf(word, sizeof word, "w%d", i);
        add(v, word, 1 + i % 7);
    }
    const char *text;
    assert_int_equal(attn_vocabulary_settle(v, 1, 4000, NULL), ATTN_OK);
    assert_int_equal(attn_vocabulary_size(v), 4004);
    assert_int_equal(attn_vocabulary_write(v, arena, &text, NULL), ATTN_OK);
    assert_int_equal(attn_vocabulary_read(text, strlen(text), &again, NULL), ATTN_OK);
    assert_int_equal(attn_vocabulary_size(again), 4004);
    for (int32_t i = 0; i < 4004; i++) {
        assert_string_equal(attn_vocabulary_word(v, i), attn_vocabulary_word(again, i));
        assert_int_equal(id_of(again, attn_vocabulary_word(v, i)), i);
    }
    attn_vocabulary_free(v);
    attn_vocabulary_free(again);
    attn_arena_free(arena);
}

static void test_faulty_words_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *word;
        size_t size;
    } faulty[] = {{"", 0}, {"a\nb", 3}, {"a\0b", 3}, {"\0", 1}};
    static const char with_nul[] = "<pad>\n<bos>\n<eos>\n<unk>\na\0b\n";
    attn_vocabulary *v = attn_vocabulary_new(), *read = NULL;
    attn_error err;
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++)
        assert_int_equal(attn_vocabulary_add(v, faulty[i].word, faulty[i].size, &err), ATTN_EVALUE);
    assert_int_equal(attn_vocabulary_size(v), ATTN_SPECIALS);
    assert_int_equal(attn_vocabulary_read(with_nul, sizeof with_nul - 1, &read, &err), ATTN_EVALUE);
    assert_string_equal(err.text, "line 5 has a NUL");
    attn_vocabulary_free(v);
}

static void test_settled_ones_take_no_words(void **state) {
    (void)state;
    static const char text[] = "<pad>\n<bos>\n<eos>\n<unk>\na\n";
    attn_vocabulary *v[2] = {attn_vocabulary_new(), NULL};
    attn_error err;
    add(v[0], "a", 1);
    assert_int_equal(attn_vocabulary_settle(v[0], 1, 0, NULL), ATTN_OK);
    assert_int_equal(attn_vocabulary_read(text, sizeof text - 1, &v[1], NULL), ATTN_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(attn_vocabulary_add(v[i], "b", 1, &err), ATTN_EARG);
        assert_int_equal(attn_vocabulary_size(v[i]), ATTN_SPECIALS + 1);
        attn_vocabulary_free(v[i]);
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
        attn_vocabulary *v = NULL;
        assert_int_equal(attn_vocabulary_read(faulty[i], strlen(faulty[i]), &v, NULL), ATTN_EVALUE);
        assert_null(v);
    }
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
        cmocka_unit_test(test_words_of_a_text),
        cmocka_unit_test(test_no_utf8),
        cmocka_unit_test(test_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
