/* traceparent: a table of headers, each of which either goes on or starts a new trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "observe/log.h"

#define ID     "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static const uint64_t random_bits[3] = {0x0123456789abcdef, 0, 0xfedcba9876543210};

static const struct {
    const char *header;
    bool goes_on, sampled;
} rows[] = {
    {"00-" ID "-" PARENT "-01", true, true},
    {"00-" ID "-" PARENT "-00", true, false},
    {"00-" ID "-" PARENT "-ff", true, true},
    {"00-" ID "-" PARENT "-02", true, false},
    {"00-" ID "-" PARENT "-01 \t", true, true},
    {"01-" ID "-" PARENT "-01", true, true},
    {"cc-" ID "-" PARENT "-01-what-the-future-will-be-like", true, true},
    {"cc-" ID "-" PARENT "-01-", true, true},
    {"fe-" ID "-" PARENT "-00", true, false},
    {NULL, false, false},
    {"", false, false},
    {"00", false, false},
    {"00-" ID "-" PARENT "-0", false, false},
    {"00-" ID "-" PARENT "-", false, false},
    {"00-" ID "-" PARENT, false, false},
    {"00-" ID "-" PARENT "-01-", false, false},
    {"00-" ID "-" PARENT "-01-more", false, false},
    {"00-" ID "-" PARENT "-011", false, false},
    {"cc-" ID "-" PARENT "-01.what", false, false},
    {"cc-" ID "-" PARENT "-011", false, false},
    {"ff-" ID "-" PARENT "-01", false, false},
    {"0-" ID "-" PARENT "-01", false, false},
    {"000-" ID "-" PARENT "-01", false, false},
    {".0-" ID "-" PARENT "-01", false, false},
    {"0x-" ID "-" PARENT "-01", false, false},
    {"00-" ID "-" PARENT "-.1", false, false},
    {"00-" ID "-" PARENT "-0X", false, false},
    {"00-00000000000000000000000000000000-" PARENT "-01", false, false},
    {"00-" ID "-0000000000000000-01", false, false},
    {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01", false, false},
    {"00-" ID "-00F067AA0BA902B7-01", false, false},
    {"00-4bf92f3577b34da6a3ce929d0e0e473-" PARENT "-01", false, false},
    {"00-4bf92f3577b34da6a3ce929d0e0e47366-" PARENT "-01", false, false},
    {"00-4bf92f3577b34da6a3ce929d0e0e473g-" PARENT "-01", false, false},
    {"00-" ID "-00f067aa0ba902b-01", false, false},
    {"00-" ID "-00f067aa0ba902b77-01", false, false},
    {"00_" ID "-" PARENT "-01", false, false},
    {"00-" ID "_" PARENT "-01", false, false},
    {"00-" ID "-" PARENT "_01", false, false},
    {" 00-" ID "-" PARENT "-01", false, false},
    {"00-" ID "-" PARENT "-01,00-" ID "-" PARENT "-01", false, false},
};

static void test_table(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        srv_trace trace;
        char text[SRV_TRACE_TEXT + 1];
        srv_trace_begin(&trace, rows[i].header, random_bits);
        srv_trace_text(&trace, text);
        assert_int_equal(strlen(text), SRV_TRACE_TEXT);
        assert_string_equal(trace.span, "0123456789abcdef");
        if (!rows[i].goes_on && trace.parent[0])
            fail_msg("taken: %s", rows[i].header);
        if (rows[i].goes_on && !trace.parent[0])
            fail_msg("not taken: %s", rows[i].header);
        assert_string_equal(trace.parent, rows[i].goes_on ? PARENT : "");
        assert_string_equal(text, !rows[i].goes_on
                                      ? "00-0000000000000001fedcba9876543210-0123456789abcdef-00"
                                      : (rows[i].sampled ? "00-" ID "-0123456789abcdef-01"
                                                         : "00-" ID "-0123456789abcdef-00"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
