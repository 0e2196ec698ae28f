/* Lines between chunks, where the data behind them came in with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/chunks.h"

/* Is what came in before the data clean? */
static bool clean(const char *before) {
    return srv_chunk_line_is_clean(before, before + strlen(before));
}

static void test_lines(void **state) {
    (void)state;
    assert_true(clean("")); /* the line came in earlier */
    assert_true(clean("5\r\n"));
    assert_true(clean("5;name=value\r\n"));
    assert_true(clean("\r\n5\r\n")); /* behind a chunk whose data came in earlier */
    assert_true(clean("3\r\nabc\r\n5\r\n"));
    assert_false(clean("5\n"));
    assert_false(clean("\n"));
    assert_false(clean("5;a\n"));
    assert_false(clean("\n5\r\n"));
    assert_false(clean("abc\n5\r\n"));
    assert_false(clean("3\r\nabc\n5\r\n"));
    assert_false(clean("5;a\rb\r\n"));
    assert_false(clean("5;a\r\r\n"));
}

/* Data may hold anything, also what looks like lines: only the last line end before it counts. */
static void test_data_before(void **state) {
    (void)state;
    assert_true(clean("4\r\na\nb\r\r\n5\r\n"));
    assert_false(clean("4\r\na\nb\n5\r\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_data_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
