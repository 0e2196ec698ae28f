/* The JSON room of the library: the scanner within its bounds, trees, and the writer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_scan.h"
#include "json/json_tree.h"
#include "json/json_write.h"

/* Reads a tree from a block that ends with the text, so that a read behind it is an error of
 * AddressSanitizer. */
static attn_status read_tree(const char *text, attn_arena *arena, attn_json **out,
                             attn_error *err) {
    const size_t n = strlen(text);
    char *copy = malloc(n ? n : 1);
    memcpy(copy, text, n);
    const attn_status status = attn_json_read(copy, n, arena, out, err);
    free(copy);
    return status;
}

static void test_tree(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 20);
    attn_json *root, *list;
    attn_error err;
    int64_t integer;
    assert_int_equal(read_tree(" {\"a\" : [1, -2.5e1, true, null, \"\\u00e9\\ud83d\\ude00\\n\"],"
                               "\"x-y\": {}, \"b\": 7 } ",
                               arena, &root, &err),
                     ATTN_OK);
    list = attn_json_member(root, "a");
    assert_int_equal(list->count, 5);
    assert_true(list->first->next->number == -25);
    assert_true(list->first->next->next->truth);
    assert_string_equal(list->first->next->next->next->next->text, "\xC3\xA9\xF0\x9F\x98\x80\n");
    assert_string_equal(attn_json_unknown(root)->key, "b");
    assert_true(attn_json_integer(attn_json_member(root, "b"), 0, 7, &integer) && integer == 7);
    assert_null(attn_json_unknown(root));
    assert_null(attn_json_member(root, "c"));
    attn_arena_free(arena);
}

/* Each text is wrong at the byte. */
static void test_faults(void **state) {
    static const struct {
        const char *text;
        size_t byte;
        const char *said;
    } rows[] = {
        {"", 0, "a value, found its end"},
        {"[1 2]", 3, "',' or ']', found the number 2"},
        {"{\"a\":1,}", 7, "a string in double quotes, found '}'"},
        {"{\"a\":1,\"a\":2}", 7, "each member once"},
        {"\"a", 0, "not closed"},
        {"\"\\", 1, "stands for no character"},
        {"\"\\u12", 1, "stands for no character"},
        {"\"\\ud800\\u0041\"", 1, "stands for no character"},
        {"\"\\u0000\"", 1, "stands for no character"},
        {"\"\x1f\"", 1, "control character"},
        {"\"\xC3\"", 1, "UTF-8"},
        {"\"\xE2\x82", 1, "UTF-8"},
        {"nul", 0, "a value, found nul"},
        {"-", 0, "a value"},
        {"01", 0, "a value"},
        {"1e999", 0, "a value"},
        {"NaN", 0, "a value, found NaN"},
        {"[] []", 3, "the end of the text, found a list"},
        {"[[[[[[[[[[[[[[[[[", 16, "more than 16 deep"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        attn_arena *arena = attn_arena_new(1 << 20);
        attn_json *root;
        attn_error err = {.code = ATTN_OK};
        char place[64];
        snprintf(place, sizeof place, "the text at byte %zu: ", rows[i].byte);
        assert_int_equal(read_tree(rows[i].text, arena, &root, &err), ATTN_EARG);
        if (strncmp(err.text, place, strlen(place)) || !strstr(err.text, rows[i].said))
            fail_msg("%s: %s", rows[i].text, err.text);
        attn_arena_free(arena);
    }
}

/* An object of MANY members in time that does not grow with their square, and out of memory at
 * every limit of the arena. */
enum { MANY = 50000 };
static void test_many_members(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 26);
    attn_json_text j = {.arena = arena, .decimals = -1};
    attn_json *root;
    char key[32];
    attn_json_object(&j);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "token %d", i);
        attn_json_key(&j, key);
        attn_json_int(&j, i);
    }
    attn_json_object_end(&j);
    assert_false(j.failed);
    assert_int_equal(attn_json_read(j.data, j.size, arena, &root, NULL), ATTN_OK);
    assert_int_equal(root->count, MANY);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "token %d", i);
        assert_int_equal((int)attn_json_member(root, key)->number, i);
    }
    assert_null(attn_json_member(root, "token"));
    for (size_t limit = 1 << 12; limit < 1 << 22; limit *= 2) {
        attn_arena *small = attn_arena_new(limit);
        assert_int_equal(attn_json_read(j.data, j.size, small, &root, NULL), ATTN_ENOMEM);
        attn_arena_free(small);
    }
    attn_arena_free(arena);
}

/* In a buffer the text ends where the room does. */
static void test_buffer(void **state) {
    static const char expected[] = "{\"a\":[1,\"\\u0001\\n\"]}";
    (void)state;
    for (size_t room = 0; room < sizeof expected + 8; room++) {
        char buffer[sizeof expected + 8];
        attn_json_text j = {.data = buffer, .room = room, .decimals = -1};
        memset(buffer, '#', sizeof buffer);
        attn_json_object(&j);
        attn_json_key(&j, "a");
        assert_true(j.failed || attn_json_after_key(&j));
        attn_json_array(&j);
        attn_json_int(&j, 1);
        attn_json_string(&j, "\x01\n");
        attn_json_array_end(&j);
        attn_json_object_end(&j);
        for (size_t i = room; i < sizeof buffer; i++)
            assert_int_equal(buffer[i], '#');
        assert_true(j.failed ||
                    (j.size == sizeof expected - 1 && !memcmp(buffer, expected, j.size)));
        if (room == sizeof expected + 7)
            assert_false(j.failed);
    }
}

static void test_members(void **state) {
    static const char expected[] =
        "{\"o\":{\"s\":\"a\",\"n\":null,\"b\":true},\"a\":[{\"i\":-1,\"z\":2},[\"p\",\"q\"]],"
        "\"r\":0.5,\"f\":0.1,\"texts\":[\"p\",\"q\"],\"sizes\":[3,4],\"ints\":[-5]}";
    static const char *const texts[] = {"p", "q"};
    char buffer[1024];
    attn_json_text j = {.data = buffer, .room = sizeof buffer, .decimals = -1};
    (void)state;
    attn_json_object(&j);
    attn_json_key_object(&j, "o");
    attn_json_key_string(&j, "s", "a");
    attn_json_key_string(&j, "n", NULL);
    attn_json_key_bool(&j, "b", true);
    attn_json_object_end(&j);
    attn_json_key_array(&j, "a");
    attn_json_object(&j);
    attn_json_key_int(&j, "i", -1);
    attn_json_key_size(&j, "z", 2);
    attn_json_object_end(&j);
    attn_json_strings(&j, texts, 2);
    attn_json_array_end(&j);
    attn_json_key_real(&j, "r", 0.5);
    attn_json_key_float(&j, "f", 0.1f);
    attn_json_key_strings(&j, "texts", texts, 2);
    attn_json_key_sizes(&j, "sizes", (const size_t[]){3, 4}, 2);
    attn_json_key_ints(&j, "ints", (const int64_t[]){-5}, 1);
    attn_json_object_end(&j);
    assert_false(j.failed);
    assert_int_equal(j.size, sizeof expected - 1);
    assert_memory_equal(buffer, expected, j.size);
}

static void test_depth(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 20);
    for (int deep = ATTN_JSON_DEPTH; deep <= ATTN_JSON_DEPTH + 1; deep++) {
        attn_json_text j = {.arena = arena, .decimals = -1};
        for (int i = 0; i < deep; i++)
            attn_json_array(&j);
        assert_int_equal(j.failed, deep > ATTN_JSON_DEPTH);
    }
    attn_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),         cmocka_unit_test(test_faults),
        cmocka_unit_test(test_many_members), cmocka_unit_test(test_buffer),
        cmocka_unit_test(test_members),      cmocka_unit_test(test_depth)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
