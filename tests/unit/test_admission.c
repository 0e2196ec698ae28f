/* Admission: who of the incoming bodies gets memory, what is refused from the header and from
 * shapes, and what Retry-After says. Time is what the tests say it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "load/admission.h"
#include "load/budget.h"
#include "load/queue.h"

enum { MB = 1 << 20, BUDGET = 64 * MB, BODIES = BUDGET / 2 };
static const int64_t S = 1000000000;

/* A body under test: incoming first, as its owner sees it. */
typedef struct body {
    srv_incoming incoming;
    char *block;
    bool gave_way;
} body;

static srv_config config;
static srv_app app;
static srv_admission *admission;
static srv_request req;

static void give_way(srv_incoming *incoming) {
    body *b = (body *)incoming;
    b->gave_way = true;
    srv_admission_drop(admission, incoming, b->block);
    b->block = NULL;
}

static int open_admission(void **state) {
    (void)state;
    srv_budget_start(BUDGET);
    assert_true(srv_config_init(&config, &(srv_config_error){.memory = false}));
    config.min_rate_bytes = 16384; /* a fair rate of 1 MiB a second */
    admission = srv_admission_new(&config);
    app = (srv_app){.config = &config,
                    .admission = admission,
                    .queue = srv_queue_new(&(srv_queue_plan){.threads = 1,
                                                             .long_threads = 1,
                                                             .long_ns = INT64_MAX / 2,
                                                             .length = 2,
                                                             .target_ns = INT64_MAX})};
    req = (srv_request){.app = &app, .id = "id", .body = "", .arena = attn_arena_new(BUDGET)};
    return !admission || !app.queue || !req.arena;
}

static int close_admission(void **state) {
    (void)state;
    attn_arena_free(req.arena);
    srv_queue_free(app.queue);
    srv_admission_free(admission);
    srv_config_close(&config);
    assert_int_equal(srv_budget_used(), 0);
    attn_set_allocator(NULL, NULL);
    return 0;
}

static void begin(body *b, uint64_t announced, int64_t now) {
    *b = (body){.incoming.give_way = give_way};
    srv_admission_open(admission, &b->incoming, announced, now);
}

static bool take(body *b, size_t used, size_t room, int64_t now) {
    char *block = srv_admission_take(admission, &b->incoming, b->block, used, room, now);
    b->block = block ? block : b->block;
    b->incoming.received = used;
    return block;
}

static void end(body *b) {
    srv_admission_close(admission, &b->incoming);
    srv_admission_drop(admission, &b->incoming, b->block);
}

static bool header(uint64_t length, int64_t now) {
    req.reply = (srv_reply){0};
    return srv_admission_check_length(admission, &req, 0, length, now);
}

static void assert_refused(int status, const char *setting) {
    assert_int_equal(req.reply.status, status);
    assert_non_null(strstr(req.reply.body, setting));
}

static void test_what_can_never_fit(void **state) {
    (void)state;
    assert_true(header(0, 0));
    assert_true(header(BODIES - 2 * ATTN_ALIGN, 0));
    assert_false(header(BODIES, 0));
    assert_refused(413, "memory_bytes");
    assert_non_null(strstr(req.reply.body, "33554432"));
    assert_false(header((uint64_t)1 << 40, 0));
    assert_refused(413, "max_body_bytes");
}

static void test_announcements_cost_nothing(void **state) {
    (void)state;
    enum { MANY = 1000 };
    body *silent = calloc(MANY, sizeof *silent), mine;
    size_t before = srv_budget_used();
    for (int i = 0; i < MANY; i++)
        begin(&silent[i], 30 * MB, 0);
    assert_int_equal(srv_budget_used(), before);
    assert_true(header(30 * MB, S));
    begin(&mine, 30 * MB, S);
    assert_true(take(&mine, 0, 65536, S));
    assert_true(take(&mine, 65536, 30 * MB, S));
    for (int i = 0; i < MANY; i++)
        end(&silent[i]);
    end(&mine);
    free(silent);
}

static void test_the_slowest_gives_way(void **state) {
    (void)state;
    body stalled, slow, quick, late;
    begin(&stalled, 10 * MB, 0);
    begin(&slow, 10 * MB, 0);
    begin(&quick, 10 * MB, 0);
    assert_true(take(&stalled, 0, 10 * MB, 0));
    assert_true(take(&slow, 0, 10 * MB, 0));
    assert_true(take(&quick, 0, 10 * MB, 0));
    stalled.incoming.received = 1000;
    slow.incoming.received = 1 * MB;
    quick.incoming.received = 9 * MB;
    assert_true(header(5 * MB, 4 * S));
    begin(&late, 5 * MB, 4 * S);
    assert_true(take(&late, 0, 5 * MB, 4 * S));
    assert_true(stalled.gave_way && !slow.gave_way && !quick.gave_way);
    assert_int_equal(stalled.incoming.held, 0);
    /* The next in line would be the slow one, but it is nearer to its end than a large newcomer. */
    body large;
    begin(&large, 31 * MB, 4 * S);
    assert_false(take(&large, 0, 31 * MB, 4 * S));
    assert_true(!slow.gave_way && !quick.gave_way && !late.gave_way);
    end(&stalled), end(&slow), end(&quick), end(&late), end(&large);
}

static void test_what_is_here_stays(void **state) {
    (void)state;
    body complete, mine;
    begin(&complete, 20 * MB, 0);
    assert_true(take(&complete, 0, 20 * MB, 0));
    srv_admission_close(admission, &complete.incoming);
    assert_false(header(20 * MB, 100 * S));
    assert_refused(503, "memory_bytes");
    assert_string_equal(req.reply.headers[0].name, "Retry-After");
    begin(&mine, 20 * MB, 100 * S);
    assert_false(take(&mine, 0, 20 * MB, 100 * S));
    assert_false(complete.gave_way);
    end(&complete), end(&mine);
}

static void test_those_on_their_way_are_let_finish(void **state) {
    (void)state;
    body going;
    begin(&going, 20 * MB, 0);
    assert_true(take(&going, 0, 65536, 0));
    going.incoming.received = 2 * MB; /* in a second */
    assert_true(header(20 * MB, S));
    going.incoming.received = 5 * MB;
    assert_false(header(20 * MB, S));
    assert_refused(503, "memory_budget");
    assert_true(header(12 * MB, S));
    assert_true(header(20 * MB, 15 * S)); /* it has stopped */
    end(&going);
}

static void test_small_bodies_have_a_share(void **state) {
    (void)state;
    body large, small;
    begin(&large, BODIES, 0);
    assert_true(take(&large, 0, BODIES, 0));
    large.incoming.received = BODIES - 1;
    /* and the rest of the budget is with requests that run */
    srv_budget_leave(srv_admission_spare(admission));
    char *work = attn_alloc(srv_budget_free() - 4096);
    assert_non_null(work);
    assert_null(attn_alloc(100000));
    srv_budget_leave(0);
    assert_true(header(16384, 0));
    begin(&small, 16384, 0);
    assert_true(take(&small, 0, 16384, 0));
    assert_false(large.gave_way);
    attn_free(work);
    end(&large), end(&small);
}

static void test_a_taken_block_keeps_what_came(void **state) {
    (void)state;
    body b;
    begin(&b, 1000, 0);
    assert_true(take(&b, 0, 100, 0));
    memcpy(b.block, "abc", 3);
    assert_true(take(&b, 3, 1000, 0));
    assert_memory_equal(b.block, "abc", 3);
    assert_int_equal(b.incoming.held, 1000);
    end(&b);
    srv_admission_close(admission, &b.incoming); /* twice is fine */
}

/* Bodies that jobs keep count as bodies, and all together have half of their share. */
static void test_kept_bodies(void **state) {
    (void)state;
    enum { HALF = BODIES / 2 };
    char *text = attn_alloc(10 * MB);
    srv_kept_body one, two;
    assert_non_null(text);
    memcpy(text + 3, "abc", 3);
    assert_true(srv_admission_may_keep(admission, HALF - 2 * ATTN_ALIGN));
    assert_false(srv_admission_may_keep(admission, HALF));
    assert_false(srv_admission_may_keep(admission, SIZE_MAX));
    assert_true(srv_admission_keep(admission, text + 3, 10 * MB - 3, &one));
    assert_memory_equal(one.body, "abc", 3);
    assert_int_equal((uintptr_t)one.body % ATTN_ALIGN, 3);
    assert_int_equal(one.body[one.size], 0);
    assert_false(srv_admission_keep(admission, text, 7 * MB, &two));
    assert_null(two.block);
    srv_admission_forget(admission, &two); /* nothing */
    assert_true(srv_admission_keep(admission, text, 5 * MB, &two));
    assert_false(header(BODIES - 15 * MB, 0)); /* they have more than 15 MiB */
    assert_refused(503, "memory_bytes");
    assert_true(header(BODIES - 16 * MB, 0));
    srv_admission_forget(admission, &one);
    assert_true(header(BODIES - 6 * MB, 0));
    srv_admission_forget(admission, &two);
    attn_free(text);
    assert_true(srv_admission_keep(admission, "", 0, &one));
    srv_admission_forget(admission, &one);
    srv_admission_forget(admission, &one); /* twice is fine */
    assert_true(header(BODIES - 2 * ATTN_ALIGN, 0));
}

static void test_work(void **state) {
    (void)state;
    size_t before = srv_budget_used();
    req.reply = (srv_reply){0};
    assert_true(srv_admission_work(&req, 0, 10 * MB));
    assert_true(srv_budget_used() >= before + 10 * MB);
    size_t held = srv_budget_used();
    for (int i = 0; i < 10; i++)
        assert_non_null(attn_arena_take(req.arena, 1 * MB));
    assert_int_equal(srv_budget_used(), held); /* it was there already */
    void *other = attn_alloc(20 * MB);
    assert_non_null(other);
    assert_false(srv_admission_work(&req, 0, 40 * MB));
    assert_refused(503, "memory_budget");
    attn_free(other);
    assert_false(srv_admission_work(&req, 0, 55 * MB)); /* it has 10 of 64 already */
    assert_refused(413, "max_request_bytes");
    assert_false(srv_admission_work(&req, 0, 61 * MB));
    assert_refused(413, "memory_bytes");
    assert_false(srv_admission_work(&req, 0, 1e30));
    assert_refused(413, "memory_bytes");
    req.in_place = true;
    assert_true(srv_admission_work(&req, 0, 55 * MB));
}

/* The same predicted seconds say what the HTTP thread does and what is long. They begin with the time
 * that the route states and follow what is measured on the route, and on no other one. */
static void test_brief_work(void **state) {
    (void)state;
    config.workers = 2;
    req.unit_ns = 10;
    assert_true(srv_admission_seconds(&req, 1e6, 1) == 1e-2);
    assert_true(srv_admission_seconds(&req, 1e6, 2) == 5e-3);
    assert_true(srv_admission_is_brief(&req, 2e4, 0) && !srv_admission_is_brief(&req, 3e4, 0));
    assert_true(!srv_admission_is_brief(&req, 2e4, 1 << 20)); /* the text takes time, too */
    req.operations = 1e4;                                     /* 0.1 ms, too short to be measured */
    srv_admission_learn(admission, &req, 1000000000);
    assert_true(srv_admission_is_brief(&req, 2e4, 0));
    req.operations = 1e6;
    srv_admission_learn(admission, &req, 50000000); /* 50 ns an operation: the mean becomes 20 */
    assert_true(srv_admission_seconds(&req, 1e6, 1) == 2e-2);
    assert_true(srv_admission_is_brief(&req, 1e4, 0) && !srv_admission_is_brief(&req, 2e4, 0));
    req.route++;
    assert_true(srv_admission_is_brief(&req, 2e4, 0));
    req.unit_ns = 0; /* an operation of the kernels */
    assert_true(srv_admission_is_brief(&req, 4e6, 0) && !srv_admission_is_brief(&req, 6e6, 0));
}

static void test_retry_after(void **state) {
    (void)state;
    unsigned last = 0;
    assert_int_equal(srv_admission_retry(0, 0), 1);
    assert_int_equal(srv_admission_retry(-5, 0), 1);
    assert_int_equal(srv_admission_retry(INT64_MAX, UINT64_MAX), 600);
    for (int64_t wait = 0; wait < 1000 * S; wait += 700000000) {
        unsigned least = 1000, most = 0;
        for (uint64_t bits = 0; bits < 2000; bits++) {
            unsigned seconds = srv_admission_retry(wait, bits);
            least = seconds < least ? seconds : least;
            most = seconds > most ? seconds : most;
        }
        assert_true(least >= 1 && least >= last && most <= 600);
        assert_true(least == 600 || most > least); /* jitter */
        assert_true(least == 600 || (int64_t)least * S >= wait);
        last = least;
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_admission, close_admission)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_what_can_never_fit),
        TEST(test_announcements_cost_nothing),
        TEST(test_the_slowest_gives_way),
        TEST(test_what_is_here_stays),
        TEST(test_those_on_their_way_are_let_finish),
        TEST(test_small_bodies_have_a_share),
        TEST(test_a_taken_block_keeps_what_came),
        TEST(test_kept_bodies),
        TEST(test_work),
        TEST(test_brief_work),
        TEST(test_retry_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
