/* timeout_ms of a body that nobody has decoded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "wire/scan.h"

static int64_t timeout(const char *text) {
    return srv_scan_timeout(text, strlen(text));
}

static void test_found(void **state) {
    (void)state;
    assert_int_equal(timeout("{\"timeout_ms\":250}"), 250);
    assert_int_equal(timeout(" {\"query\":[[1,2]],\n \"timeout_ms\" : 7.0 , \"a\":1}"), 7);
    assert_int_equal(timeout("{\"a\":\"}]\\\"\",\"b\":{\"c\":[{}]},\"timeout_ms\":1e3}"), 1000);
}

static void test_not_there(void **state) {
    static const char *const texts[] = {
        "",
        "{}",
        "{",
        "\"timeout_ms\":5",
        "{\"timeout_m\":5}",
        "{\"timeout_ms\"",
        "{\"timeout_ms\":",
        "{\"timeout_ms\":\"5\"}",
        "{\"timeout_ms\":null}",
        "{\"timeout_ms\":0}",
        "{\"timeout_ms\":-5}",
        "{\"timeout_ms\":1e99}",
        "{\"a\":{\"timeout_ms\":5}}",
        "[{\"timeout_ms\":5}]",
        "{\"a\":\"timeout_ms\"}",
        "{\"a\":\"\\\"timeout_ms\\\":5\"}",
        "{\"a\\",
        "{\"timeout_ms",
        "}}}}\"timeout_ms\":5",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (timeout(texts[i]))
            fail_msg("%s: %ld", texts[i], (long)timeout(texts[i]));
}

static int64_t infer_timeout(const char *text) {
    return srv_scan_infer_timeout(text, strlen(text));
}

static void test_infer(void **state) {
    (void)state;
    assert_int_equal(infer_timeout("{\"parameters\":{\"timeout\":2500}}"), 2500);
    assert_int_equal(
        infer_timeout("{\"id\":\"a\",\"parameters\" : {\"b\":[1],\"timeout\" : 7},\"x\":1}"), 7);
    assert_int_equal(infer_timeout("{\"inputs\":[{\"parameters\":{\"timeout\":5}}]}"), 0);
    assert_int_equal(infer_timeout("{\"inputs\":{\"timeout\":5},\"timeout\":6}"), 0);
    assert_int_equal(infer_timeout("{\"parameters\":{},\"other\":{\"timeout\":5}}"), 0);
    assert_int_equal(infer_timeout("{\"parameters\":{\"timeout\":\"5\"}}"), 0);
    assert_int_equal(infer_timeout("{\"parameters\":{\"a\":{\"timeout\":5}}}"), 0);
    assert_int_equal(infer_timeout("{\"parameters\":{\"timeout\""), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found),
                                       cmocka_unit_test(test_not_there),
                                       cmocka_unit_test(test_infer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
