/* The header Prefer: the examples of RFC 7240, and what is no preference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/prefer.h"

enum { NONE = -2 }; /* no wait was sent; -1: it was, and is no number */

static const struct {
    const char *values[3];
    bool async;
    int64_t wait;
} cases[] = {
    {{""}, false, NONE},
    {{"respond-async"}, true, NONE},
    {{"Respond-ASYNC"}, true, NONE},
    {{" ,, respond-async ,"}, true, NONE},
    {{"respond-async, wait=10"}, true, 10},
    {{"wait=10 , respond-async"}, true, 10},
    {{"respond-async", "wait=100"}, true, 100},
    {{"wait=1", "wait=2, wait=3"}, false, 1},
    {{"wait=x, wait=3"}, false, -1},
    {{"wait = 7"}, false, 7},
    {{"WAIT=\"7\""}, false, 7},
    {{"wait"}, false, -1},
    {{"wait=-1"}, false, -1},
    {{"wait=1234567890"}, false, -1},
    {{"respond-async=\"\""}, true, NONE},
    {{"respond-async="}, true, NONE},
    {{"respond-async=no"}, false, NONE},
    {{"foo; bar, respond-async"}, true, NONE},
    {{"respond-async; some-parameter"}, true, NONE},
    {{"respond-async ;; a=b ; c = \"d,;\\\"\" , wait=4"}, true, 4},
    {{"foo=\"bar, respond-async\""}, false, NONE},
    {{"foo=\"bar\\\", respond-async"}, false, NONE},
    {{"foo; wait=3, respond-async"}, true, NONE},
    {{"handling=lenient", "return=minimal; x", "respond-async"}, true, NONE},
    {{"respond-asynchronously, x-respond-async"}, false, NONE},
    {{"respond-async wait=3"}, true, NONE},
    {{"= , respond-async"}, false, NONE},
};

static void test_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        srv_prefer p = {0};
        for (size_t k = 0; k < 3 && cases[i].values[k]; k++)
            srv_prefer_read(cases[i].values[k], &p);
        if (p.respond_async != cases[i].async || (p.has_wait ? p.wait_s : NONE) != cases[i].wait)
            fail_msg("%s: async %d, wait %d", cases[i].values[0], p.respond_async,
                     p.has_wait ? (int)p.wait_s : NONE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
