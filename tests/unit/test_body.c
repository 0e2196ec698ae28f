/* Bodies on their way in. Their order: who is suspended and who goes on, with the library's two
 * calls replaced and sockets that hold what the tests say. The lines between chunks, where the data
 * behind them came in with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/before_1_0.h"
#include "http/exchange.h"
#include "load/budget.h"
#include "request/intake.h"

enum { CLIENTS = 4, BODY = 500000, PIECE = 1000 };

static srv_config config;
static srv_app app;
static srv_daemon daemon_under_test;
static srv_link links[CLIENTS];
static srv_exchange clients[CLIENTS];
static int ends[CLIENTS]; /* of the clients */
static bool asleep[CLIENTS];
static srv_task waiting_task;

static size_t index_of(struct MHD_Connection *connection) {
    return (size_t)((char *)connection - (char *)asleep);
}

void MHD_suspend_connection(struct MHD_Connection *connection) {
    assert_false(asleep[index_of(connection)]);
    asleep[index_of(connection)] = true;
}

void MHD_resume_connection(struct MHD_Connection *connection) {
    assert_true(asleep[index_of(connection)]);
    asleep[index_of(connection)] = false;
}

static int open_all(void **state) {
    (void)state;
    memset(&daemon_under_test, 0, sizeof daemon_under_test);
    memset(&waiting_task, 0, sizeof waiting_task);
    config = (srv_config){
        .in_place_bytes = 16384, .workers = 1, .min_rate_bytes = 1000, .max_body_bytes = 8 << 20};
    /* No thread takes a task out. */
    app = (srv_app){.config = &config,
                    .queue = srv_queue_new(&(srv_queue_plan){.threads = 0,
                                                             .long_threads = 1,
                                                             .long_ns = INT64_MAX / 2,
                                                             .length = 8,
                                                             .target_ns = INT64_MAX})};
    app.admission = srv_admission_new(&config);
    daemon_under_test.app = &app;
    pthread_mutex_init(&daemon_under_test.order.lock, NULL);
    for (size_t i = 0; i < CLIENTS; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
            return 1;
        ends[i] = pair[1];
        asleep[i] = false;
        links[i] = (srv_link){.daemon = &daemon_under_test, .fd = pair[0], .plain = true};
        clients[i] = (srv_exchange){.daemon = &daemon_under_test,
                                    .link = &links[i],
                                    .connection = (struct MHD_Connection *)(void *)&asleep[i],
                                    .head = {.length = BODY}};
        clients[i].req.app = &app;
        clients[i].req.content_type = "";
    }
    return !app.queue || !app.admission;
}

static int close_all(void **state) {
    (void)state;
    for (size_t i = 0; i < CLIENTS; i++) {
        srv_body_drop(&clients[i]);
        close(links[i].fd);
        close(ends[i]);
    }
    pthread_mutex_destroy(&daemon_under_test.order.lock);
    srv_queue_take(app.queue, &waiting_task);
    srv_queue_free(app.queue);
    srv_admission_free(app.admission);
    return 0;
}

/* Client i has more bytes on the way. */
static void arrive(size_t i) {
    assert_int_equal(send(ends[i], "x", 1, 0), 1);
}

/* The library reads a piece of client i, and all that there is of it in the kernel. */
static void read_piece(size_t i, bool more_behind) {
    char bytes[64];
    recv(links[i].fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (more_behind)
        arrive(i);
    static const char piece[PIECE];
    if (clients[i].body.state == SRV_BODY_NONE)
        assert_true(srv_body_begin(&clients[i]));
    assert_true(srv_body_take(&clients[i], piece, PIECE));
}

static void finish_body(size_t i) {
    static const char rest[BODY];
    assert_true(srv_body_take(&clients[i], rest, BODY - clients[i].body.incoming.received));
    assert_true(srv_body_end(&clients[i]));
    srv_body_pass_on(&clients[i]);
}

static void test_one_after_the_other(void **state) {
    (void)state;
    read_piece(0, true);
    read_piece(1, true);
    read_piece(2, true);
    assert_false(asleep[0]);
    assert_true(asleep[1] && asleep[2]);
    read_piece(0, true);
    assert_true(asleep[1] && asleep[2]);
    finish_body(0);
    assert_false(asleep[1]);
    assert_true(asleep[2]);
    finish_body(1);
    assert_false(asleep[2]);
}

static void test_who_pauses_loses_the_turn(void **state) {
    (void)state;
    read_piece(0, true);
    read_piece(1, true);
    read_piece(0, false);
    assert_false(asleep[0] || asleep[1]);
    read_piece(0, true); /* it is the other's now */
    assert_true(asleep[0]);
    finish_body(1);
    assert_false(asleep[0]);
}

static void test_nobody_waits_for_a_client_that_paused_before(void **state) {
    (void)state;
    read_piece(0, false);
    read_piece(1, true);
    assert_false(asleep[0] || asleep[1]);
    finish_body(1);
    read_piece(0, true);
    assert_false(asleep[0]);
}

/* Those without bytes are woken, too, as their next bytes have to be noticed. */
static void test_turn_passes_over_those_without_bytes(void **state) {
    (void)state;
    read_piece(0, true);
    read_piece(1, false);
    read_piece(2, true);
    read_piece(3, true);
    assert_true(asleep[1] && asleep[2] && asleep[3]);
    finish_body(0);
    assert_false(asleep[1] || asleep[2]);
    assert_true(asleep[3]);
}

static void test_backed_up_queue_keeps_bodies_out_for_a_while(void **state) {
    (void)state;
    assert_true(srv_queue_push(app.queue, &waiting_task, &(srv_task *){NULL}));
    read_piece(0, true);
    read_piece(1, true);
    assert_true(asleep[0] && asleep[1]);
    assert_true(srv_body_order_next(&daemon_under_test.order, &app));
    assert_true(asleep[0] && asleep[1]);
    clients[0].body.waits_ns -= 1000000000; /* as if that were long ago */
    assert_true(srv_body_order_next(&daemon_under_test.order, &app));
    assert_false(asleep[0]);
    assert_true(asleep[1]);
    finish_body(0);
    assert_true(asleep[1]);
    assert_true(srv_queue_take(app.queue, &waiting_task));
    assert_false(srv_body_order_next(&daemon_under_test.order, &app));
    assert_false(asleep[1]);
}

static void test_small_long_chunked_and_tls_bodies_take_no_turns(void **state) {
    (void)state;
    read_piece(0, true);
    clients[1].head.length = 16384;
    clients[2].head.length = 3 << 20;
    clients[3].head.chunked = true;
    for (size_t i = 1; i < CLIENTS; i++)
        read_piece(i, true);
    links[3].plain = clients[3].head.chunked = false;
    read_piece(3, true);
    for (size_t i = 0; i < CLIENTS; i++)
        assert_false(asleep[i]);
}

static void test_nobody_waits_at_the_end(void **state) {
    (void)state;
    read_piece(0, true);
    read_piece(1, true);
    read_piece(2, true);
    srv_body_order_end(&daemon_under_test.order);
    assert_false(asleep[1] || asleep[2]);
    read_piece(1, true);
    read_piece(0, true);
    assert_false(asleep[0] || asleep[1]);
}

/* A body that needs memory takes it from the one with the longest way to go, whose client is
 * answered at once and may go on for a while. */
static void test_who_gives_way_lingers(void **state) {
    (void)state;
    static const char piece[PIECE];
    char answer[1024] = "";
    size_t sent = 0;
    clients[0].head.length = 8 << 20;
    read_piece(0, false);
    assert_int_equal(clients[0].body.state, SRV_BODY_READING);
    /* All that bodies may hold, and the share of small ones, but for a few bytes. */
    srv_incoming rest = {.announced = 1, .received = 1, .since_ns = attn_now_ns()};
    char *block =
        srv_admission_take(app.admission, &rest, NULL, 0, (34 << 20) - 1000, attn_now_ns());
    assert_non_null(block);
    assert_int_equal(clients[0].body.state, SRV_BODY_LINGER);
    assert_true(srv_link_is_cut(&links[0]));
    assert_null(clients[0].body.block);
    assert_true(recv(ends[0], answer, sizeof answer - 1, 0) > 0);
    assert_int_equal(strncmp(answer, "HTTP/1.1 503 ", 13), 0);
    for (; sent < (16 << 20) - PIECE; sent += PIECE) /* what it still sends is dropped */
        assert_true(srv_body_take(&clients[0], piece, PIECE));
    assert_false(srv_body_take(&clients[0], piece, PIECE));
    srv_admission_drop(app.admission, &rest, block);
}

/* --- bodies that go to an intake --- */

/* An intake that counts, and suspends the connection when `full_at` bytes have come. */
typedef struct counting {
    srv_intake intake;
    size_t taken, full_at, drops;
    bool suspended, broken;
} counting;

static bool count_piece(srv_intake *intake, srv_request *req, const char *data, size_t size) {
    counting *c = (counting *)intake;
    (void)data;
    if (c->broken) {
        srv_problem(req, SRV_STORAGE_FULL, NULL, "full");
        return false;
    }
    c->taken += size;
    if (c->taken == c->full_at)
        c->suspended = intake->suspend(intake->sender);
    return true;
}

static void count_drop(srv_intake *intake) {
    ((counting *)intake)->drops++;
}

static counting countings[CLIENTS];

static counting *counting_new(size_t i) {
    clients[i].head.length = BODY;
    countings[i] = (counting){.intake = {.take = count_piece,
                                         .drop = count_drop,
                                         .most = BODY,
                                         .setting = "max_capture_bytes"},
                              .full_at = SIZE_MAX};
    clients[i].req.intake = &countings[i].intake;
    return &countings[i];
}

static void *resume_later(void *of) {
    counting *c = of;
    usleep(20000);
    c->intake.resume(c->intake.sender);
    return NULL;
}

/* Such a body takes no memory and no turn among the bodies in memory. */
static void test_an_intake_gets_the_pieces(void **state) {
    (void)state;
    counting *c = counting_new(1);
    read_piece(0, true);
    for (int i = 0; i < 3; i++)
        read_piece(1, true);
    assert_false(asleep[1]);
    assert_int_equal(c->taken, 3 * PIECE);
    assert_null(clients[1].body.block);
    srv_body_refuse(&clients[1]);
    assert_int_equal(c->drops, 1);
    assert_null(clients[1].req.intake);
}

static void test_an_intake_suspends_and_the_end_waits_for_it(void **state) {
    (void)state;
    counting *c = counting_new(0);
    pthread_t thread;
    c->full_at = 2 * PIECE;
    read_piece(0, true);
    assert_false(asleep[0]);
    read_piece(0, true);
    assert_true(asleep[0] && c->suspended);
    c->intake.resume(c->intake.sender);
    assert_false(asleep[0]);
    c->full_at = 3 * PIECE;
    read_piece(0, true);
    assert_true(asleep[0]);
    pthread_create(&thread, NULL, resume_later, c);
    srv_body_order_end(&daemon_under_test.order);
    assert_false(asleep[0]); /* it has waited */
    pthread_join(thread, NULL);
    c->full_at = 4 * PIECE;
    read_piece(0, true);
    assert_false(asleep[0] || c->suspended); /* nobody is suspended any more */
}

static void test_an_intake_refuses(void **state) {
    (void)state;
    counting *c = counting_new(0), *d = counting_new(1);
    read_piece(0, true);
    c->broken = true;
    read_piece(0, true);
    assert_true(srv_body_is_refused(&clients[0]));
    assert_int_equal(clients[0].req.reply.status, 507);
    assert_int_equal(c->drops, 1);
    d->intake.most = 2 * PIECE;
    read_piece(1, true);
    read_piece(1, true);
    assert_false(srv_body_is_refused(&clients[1]));
    read_piece(1, true);
    assert_int_equal(clients[1].req.reply.status, 413);
    assert_string_equal(clients[1].req.reply.setting, "max_capture_bytes");
    assert_int_equal(d->drops, 1);
    assert_int_equal(d->taken, 2 * PIECE);
}

/* --- lines between chunks --- */

#if MHD_VERSION < SRV_LIBRARY_STRICT /* a newer library checks these lines itself */

/* Is what came in before the data clean? */
static bool clean(const char *before) {
    return srv_old_line_is_clean(before, before + strlen(before));
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

#endif

#define UNIT(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(test_one_after_the_other),
        UNIT(test_who_pauses_loses_the_turn),
        UNIT(test_nobody_waits_for_a_client_that_paused_before),
        UNIT(test_turn_passes_over_those_without_bytes),
        UNIT(test_backed_up_queue_keeps_bodies_out_for_a_while),
        UNIT(test_small_long_chunked_and_tls_bodies_take_no_turns),
        UNIT(test_nobody_waits_at_the_end),
        UNIT(test_who_gives_way_lingers),
        UNIT(test_an_intake_gets_the_pieces),
        UNIT(test_an_intake_suspends_and_the_end_waits_for_it),
        UNIT(test_an_intake_refuses),
#if MHD_VERSION < SRV_LIBRARY_STRICT
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_data_before),
#endif
    };
    srv_budget_start(64 << 20);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
