/* Turns to read: who is suspended and who goes on, with the library's two calls replaced and
 * sockets that hold what the tests say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/turns.h"

enum { CLIENTS = 4, BODY = 500000 };

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
    config = (srv_config){.in_place_bytes = 16384, .workers = 1};
    /* No thread takes a task out. */
    app = (srv_app){.config = &config,
                    .queue = srv_queue_new(&(srv_queue_plan){.threads = 0,
                                                             .long_threads = 1,
                                                             .long_ns = INT64_MAX / 2,
                                                             .length = 8,
                                                             .target_ns = INT64_MAX})};
    daemon_under_test.app = &app;
    pthread_mutex_init(&daemon_under_test.turns.lock, NULL);
    for (size_t i = 0; i < CLIENTS; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
            return 1;
        ends[i] = pair[1];
        asleep[i] = false;
        links[i] = (srv_link){.fd = pair[0], .plain = true};
        clients[i] = (srv_exchange){.daemon = &daemon_under_test,
                                    .link = &links[i],
                                    .connection = (struct MHD_Connection *)(void *)&asleep[i],
                                    .facts = {.length = BODY}};
        clients[i].req.app = &app;
    }
    return !app.queue;
}

static int close_all(void **state) {
    (void)state;
    for (size_t i = 0; i < CLIENTS; i++) {
        close(links[i].fd);
        close(ends[i]);
    }
    pthread_mutex_destroy(&daemon_under_test.turns.lock);
    srv_queue_take(app.queue, &waiting_task);
    srv_queue_free(app.queue);
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
    clients[i].bytes_in += 1000;
    srv_turn_taken(&clients[i], 1000);
}

static void finish_body(size_t i) {
    clients[i].bytes_in = BODY;
    srv_turn_taken(&clients[i], 1000);
    srv_turn_over(&clients[i]);
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
    assert_true(srv_turn_next(&daemon_under_test));
    assert_true(asleep[0] && asleep[1]);
    clients[0].waits_ns -= 1000000000; /* as if that were long ago */
    assert_true(srv_turn_next(&daemon_under_test));
    assert_false(asleep[0]);
    assert_true(asleep[1]);
    finish_body(0);
    assert_true(asleep[1]);
    assert_true(srv_queue_take(app.queue, &waiting_task));
    assert_false(srv_turn_next(&daemon_under_test));
    assert_false(asleep[1]);
}

static void test_small_long_chunked_and_tls_bodies_take_no_turns(void **state) {
    (void)state;
    read_piece(0, true);
    clients[1].facts.length = 16384;
    clients[2].facts.length = 3 << 20;
    clients[3].facts.chunked = true;
    for (size_t i = 1; i < CLIENTS; i++)
        read_piece(i, true);
    links[3].plain = clients[3].facts.chunked = false;
    read_piece(3, true);
    for (size_t i = 0; i < CLIENTS; i++)
        assert_false(asleep[i]);
}

static void test_nobody_waits_at_the_end(void **state) {
    (void)state;
    read_piece(0, true);
    read_piece(1, true);
    read_piece(2, true);
    srv_turns_end(&daemon_under_test);
    assert_false(asleep[1] || asleep[2]);
    read_piece(1, true);
    read_piece(0, true);
    assert_false(asleep[0] || asleep[1]);
}

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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
