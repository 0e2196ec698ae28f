/* What is put aside for a document suffices for whatever jansson makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/document.h"

#define ROOM (64u << 20)

/* `count` times `item` in a list or, with a number in front of each, in an object. */
static char *repeat(const char *item, size_t count, bool keys) {
    char *text = malloc(count * (strlen(item) + 16) + 3), *p = text;
    assert_non_null(text);
    *p++ = keys ? '{' : '[';
    for (size_t i = 0; i < count; i++) {
        p += keys ? sprintf(p, "%s\"%zx\":", i ? "," : "", i) : sprintf(p, "%s", i ? "," : "");
        p = stpcpy(p, item);
    }
    strcpy(p, keys ? "}" : "]");
    return text;
}

static void count(const json_t *v, size_t *values, size_t *containers) {
    const char *key;
    json_t *item;
    size_t i;
    ++*values;
    *containers += json_is_object(v) || json_is_array(v);
    json_object_foreach((json_t *)(uintptr_t)v, key, item) count(item, values, containers);
    json_array_foreach(v, i, item) count(item, values, containers);
}

static void check(char *text) {
    char *block = aligned_alloc(16, ROOM);
    size_t size = strlen(text), values = 0, containers = 0;
    srv_document document;
    json_error_t error;
    assert_non_null(block);
    srv_document_begin(&document, block, ROOM);
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    assert_non_null(root);
    count(root, &values, &containers);
    json_decref(root);
    size_t used = (size_t)(document.at - document.start);
    srv_document_end();
    size_t aside = srv_document_bytes(size, values, containers);
    if (used > aside)
        fail_msg("%.40s: %zu bytes were taken, %zu put aside", text, used, aside);
    free(block);
    free(text);
}

static void test_what_is_put_aside_suffices(void **state) {
    static const char *const items[] = {
        "1",        "-1.5e300",  "\"\"", "\"abcdefghijklmno\"", "{}",      "[]",
        "{\"\":0}", "[[[[1]]]]", "null", "\"\\u20ac\\n\"",      "[{},{}]", "{\"a\":{\"b\":[]}}"};
    static const size_t counts[] = {0, 1, 2, 3, 7, 8, 9, 17, 64, 65, 1000, 5000};
    (void)state;
    srv_document_start();
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
            for (int keys = 0; keys < 2; keys++)
                check(repeat(items[i], counts[n], keys));
}

static void test_long_tokens(void **state) {
    (void)state;
    srv_document_start();
    for (size_t size = 1; size < 300000; size = size * 3 / 2 + 1) {
        char *text = malloc(2 * size + 8);
        assert_non_null(text);
        memcpy(text, "{\"", 2);
        memset(text + 2, 'k', size);
        memcpy(text + 2 + size, "\":\"", 3);
        memset(text + 5 + size, 'v', size);
        strcpy(text + 5 + 2 * size, "\"}");
        check(text);
    }
}

static void test_more_than_can_be_counted(void **state) {
    (void)state;
    assert_int_equal(srv_document_bytes(SIZE_MAX, 1, 1), 0);
    assert_int_equal(srv_document_bytes(1, SIZE_MAX / 200, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_put_aside_suffices),
                                       cmocka_unit_test(test_long_tokens),
                                       cmocka_unit_test(test_more_than_can_be_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
