/* Images of kept answers: what was put in is found, the oldest give way, and no damaged byte is
 * taken for an answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/answers.h"

static const uint64_t print = 0x100c0ffee; /* of the run */

static srv_run_answer answer(const char *body, size_t size) {
    return (srv_run_answer){"text/plain", strlen("text/plain"), body, size};
}

/* Adds an answer and frees the image before. */
static void *add(void *image, size_t *size, const char *key, const srv_run_answer *a) {
    void *next = srv_answers_add(image, *size, print, key, a, size);
    attn_free(image);
    return next;
}

static void test_answers_are_found(void **state) {
    (void)state;
    const srv_run_answer a = answer("first", 5), b = answer("", 0), c = answer("third!", 6);
    srv_run_answer found;
    size_t size = 0;
    void *image = add(NULL, &size, "a", &a);
    image = add(image, &size, "b", &b);
    assert_true(srv_answers_are_whole(image, size, print));
    assert_false(srv_answers_are_whole(image, size, print + 1)); /* another run with the same id */
    assert_true(srv_answers_find(image, size, "a", &found));
    assert_int_equal(found.size, 5);
    assert_memory_equal(found.body, "first", 5);
    assert_int_equal(found.type_size, strlen("text/plain"));
    assert_true(srv_answers_find(image, size, "b", &found));
    assert_int_equal(found.size, 0);
    assert_false(srv_answers_find(image, size, "", &found));
    assert_false(srv_answers_find(image, size, "aa", &found));
    assert_false(srv_answers_find(NULL, 0, "a", &found));
    const size_t before = size;
    image = add(image, &size, "a", &c);
    assert_int_equal(size, before + 1); /* replaced, not added */
    assert_true(srv_answers_find(image, size, "a", &found));
    assert_memory_equal(found.body, "third!", 6);
    attn_free(image);
}

static void test_the_oldest_give_way(void **state) {
    (void)state;
    enum { EACH = 1 << 20 };
    char *body = calloc(1, EACH), key[8];
    const srv_run_answer each = answer(body, EACH);
    const srv_run_answer all = answer(body, SRV_RUN_ANSWERS);
    srv_run_answer found;
    void *image = NULL;
    size_t size = 0, other;
    for (int i = 0; i < 6; i++) {
        snprintf(key, sizeof key, "%d", i);
        image = add(image, &size, key, &each);
        assert_true(size <= SRV_RUN_ANSWERS && srv_answers_are_whole(image, size, print));
    }
    for (int i = 0; i < 6; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_int_equal(srv_answers_find(image, size, key, &found), i >= 3);
    }
    assert_null(srv_answers_add(image, size, print, "all", &all, &other));
    attn_free(image);
    free(body);
}

static void test_damage_is_noticed(void **state) {
    (void)state;
    const srv_run_answer a = answer("first", 5), b = answer("second", 6);
    size_t size = 0;
    unsigned char *image = add(NULL, &size, "a", &a);
    image = add(image, &size, "b", &b);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            image[i] ^= (unsigned char)(1 << bit);
            assert_false(srv_answers_are_whole(image, size, print));
            image[i] ^= (unsigned char)(1 << bit);
        }
    for (size_t n = 0; n < size; n++)
        assert_false(srv_answers_are_whole(image, n, print));
    assert_true(srv_answers_are_whole(image, size, print));
    attn_free(image);
}

/* Sizes that point beyond the image, with a right checksum. */
static void test_sizes_are_checked(void **state) {
    (void)state;
    const srv_run_answer a = answer("first", 5);
    size_t size = 0;
    char *image = add(NULL, &size, "a", &a);
    for (size_t field = 0; field < 3; field++)
        for (uint32_t step = 1; step; step <<= 4) {
            char copy[256];
            uint32_t value, sum;
            memcpy(copy, image, size);
            memcpy(&value, copy + SRV_ANSWERS_HEAD + 4 * field, sizeof value);
            value += step;
            memcpy(copy + SRV_ANSWERS_HEAD + 4 * field, &value, sizeof value);
            sum = attn_crc32c(attn_crc32c(0, &print, sizeof print), copy + SRV_ANSWERS_HEAD,
                              size - SRV_ANSWERS_HEAD);
            memcpy(copy + 12, &sum, sizeof sum);
            assert_false(srv_answers_are_whole(copy, size, print));
        }
    attn_free(image);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_found), cmocka_unit_test(test_the_oldest_give_way),
        cmocka_unit_test(test_damage_is_noticed), cmocka_unit_test(test_sizes_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
