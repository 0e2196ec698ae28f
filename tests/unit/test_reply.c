/* Replies as handlers set them (request.h): headers, and problems about memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "request/request.h"

static void headers_beyond_the_room_are_a_500(void **state) {
    (void)state;
    static const char *const names[] = {"A", "B", "C", "D", "E", "F", "G", "H", "I",
                                        "J", "K", "L", "M", "N", "O", "P", "Q"};
    srv_request req = {.path = "/"};
    srv_reply_set(&req, 200, "text/plain", "", 0);
    for (size_t i = 0; i < SRV_REPLY_HEADERS; i++)
        srv_reply_header(&req, names[i], "1");
    srv_reply_header(&req, "a", "2"); /* another value, not another header */
    assert_int_equal(req.reply.status, 200);
    assert_int_equal(req.reply.header_count, SRV_REPLY_HEADERS);
    assert_string_equal(req.reply.headers[0].value, "2");
    srv_reply_header(&req, names[SRV_REPLY_HEADERS], "1");
    assert_int_equal(req.reply.status, 500);
    assert_int_equal(req.reply.problem, 1 + SRV_INTERNAL);
}

static void a_used_up_arena_is_told_from_other_limits(void **state) {
    (void)state;
    srv_request req = {.path = "/"};
    srv_problem_memory(&req, NULL, "no memory is left");
    assert_true(srv_problem_is_memory(&req));
    srv_problem_limit(&req, SRV_TOO_LARGE, NULL, 1, "max_cells", "too many cells");
    assert_int_equal(req.reply.status, 413);
    assert_false(srv_problem_is_memory(&req));
    srv_problem(&req, SRV_QUEUE_FULL, NULL, "full");
    assert_false(srv_problem_is_memory(&req));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_beyond_the_room_are_a_500),
        cmocka_unit_test(a_used_up_arena_is_told_from_other_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
