/* Counters and histograms as text, and the counters under several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "observe/metrics.h"

static const char *const routes[] = {"/a", "/b/{id}"};
static srv_meters *meters;
static attn_arena *arena;

static int open_meters(void **state) {
    (void)state;
    static const char *const problems[] = {"queue_full", "draining", NULL};
    meters = srv_meters_new(routes, 2, problems);
    arena = attn_arena_new(1 << 20);
    return !meters || !arena;
}

static int close_meters(void **state) {
    (void)state;
    srv_meters_free(meters);
    attn_arena_free(arena);
    return 0;
}

static const char *print(void) {
    attn_text text = {.arena = arena};
    srv_gauges now = {.queue_waiting = 3, .memory_used = 4096, .isa = "ref"};
    srv_meters_print(meters, &now, &text);
    assert_false(text.failed);
    assert_int_equal(text.size, strlen(text.data));
    return text.data;
}

static void assert_line(const char *text, const char *line) {
    const char *at = strstr(text, line);
    if (!at || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n')
        fail_msg("no line \"%s\"", line);
}

static void test_requests(void **state) {
    (void)state;
    srv_meters_request(meters, 0, "GET", 200, 1000, -1);
    srv_meters_request(meters, 0, "GET", 200, 1000, -1);
    srv_meters_request(meters, 1, "POST", 503, 1000, 50);
    srv_meters_request(meters, 2, "BREW", 418, 1000, -1);
    srv_meters_request(meters, 99, "GET", 404, 1000, -1);
    const char *text = print();
    assert_line(text, "attnd_requests_total{route=\"/a\",method=\"GET\",code=\"200\"} 2");
    assert_line(text, "attnd_requests_total{route=\"/b/{id}\",method=\"POST\",code=\"503\"} 1");
    assert_line(text, "attnd_requests_total{route=\"none\",method=\"other\",code=\"other\"} 1");
    assert_line(text, "attnd_requests_total{route=\"none\",method=\"GET\",code=\"404\"} 1");
    assert_null(strstr(text, "BREW"));
    assert_line(text, "attnd_queue_duration_seconds_count 1");
    assert_line(text, "attnd_queue_waiting 3");
    assert_line(text, "attnd_memory_reserved_bytes 4096");
}

static void test_histogram(void **state) {
    (void)state;
    static const int64_t durations[] = {0, 100000, 100001, 1000000, 59000000000, 61000000000};
    for (size_t i = 0; i < 6; i++)
        srv_meters_request(meters, 0, "GET", 200, durations[i], -1);
    const char *text = print();
#define BUCKET "attnd_request_duration_seconds_bucket{route=\"/a\",le="
    assert_line(text, BUCKET "\"0.0001\"} 2");
    assert_line(text, BUCKET "\"0.00025\"} 3");
    assert_line(text, BUCKET "\"0.001\"} 4");
    assert_line(text, BUCKET "\"30\"} 4");
    assert_line(text, BUCKET "\"60\"} 5");
    assert_line(text, BUCKET "\"+Inf\"} 6");
    assert_line(text, "attnd_request_duration_seconds_count{route=\"/a\"} 6");
    assert_line(text, "attnd_request_duration_seconds_sum{route=\"/a\"} 120.0012");
    assert_line(text, "attnd_request_duration_seconds_count{route=\"/b/{id}\"} 0");
}

static void test_single_numbers(void **state) {
    (void)state;
    srv_meter_add(meters, SRV_IN_FLIGHT, 3);
    srv_meter_add(meters, SRV_IN_FLIGHT, -1);
    srv_meter_add(meters, SRV_BYTES_IN, (int64_t)1 << 40);
    assert_int_equal(srv_meter_read(meters, SRV_IN_FLIGHT), 2);
    const char *text = print();
    assert_line(text, "attnd_requests_in_flight 2");
    assert_line(text, "attnd_request_body_bytes_total 1099511627776");
}

static void test_spreads(void **state) {
    (void)state;
    static const double errors[] = {0, 1e-7, 1.0001e-7, 0.5, INFINITY, NAN};
    for (size_t i = 0; i < 6; i++)
        srv_meters_observe(meters, SRV_VERIFY_OUTPUT, errors[i]);
    srv_meters_observe(meters, SRV_RESERVED_BYTES, 3 << 20);
    const char *text = print();
#define ERROR "attnd_verify_output_error"
    assert_line(text, ERROR "_bucket{le=\"1e-16\"} 1");
    assert_line(text, ERROR "_bucket{le=\"1e-07\"} 2");
    assert_line(text, ERROR "_bucket{le=\"1e-06\"} 3");
    assert_line(text, ERROR "_bucket{le=\"0.01\"} 3");
    assert_line(text, ERROR "_bucket{le=\"+Inf\"} 6");
    assert_line(text, ERROR "_count 6");
    assert_non_null(strstr(text, ERROR "_sum 0.5000002"));
    assert_line(text, "attnd_request_reserved_bytes_bucket{le=\"1048576\"} 0");
    assert_line(text, "attnd_request_reserved_bytes_bucket{le=\"4194304\"} 1");
    assert_line(text, "attnd_request_reserved_bytes_sum 3145728");
    assert_line(text, "attnd_verify_logsumexp_error_count 0");
}

static void *count_many(void *argument) {
    (void)argument;
    for (int i = 0; i < 10000; i++) {
        srv_meters_request(meters, (size_t)i % 3, "POST", 200, i, i);
        srv_meter_add(meters, SRV_CLIENT_GONE, 1);
        srv_meters_observe(meters, SRV_RESERVED_BYTES, 1);
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    const char *text = print();
    assert_line(text, "attnd_requests_total{route=\"/a\",method=\"POST\",code=\"200\"} 13336");
    assert_line(text, "attnd_queue_duration_seconds_count 40000");
    assert_line(text, "attnd_client_gone_total 40000");
    assert_line(text, "attnd_request_reserved_bytes_sum 40000");
}

static void test_methods(void **state) {
    (void)state;
    assert_string_equal(srv_method_name("GET"), "GET");
    assert_string_equal(srv_method_name("PATCH"), "PATCH");
    assert_string_equal(srv_method_name("get"), "other");
    assert_string_equal(srv_method_name(""), "other");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_meters, close_meters)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_requests), TEST(test_histogram), TEST(test_single_numbers),
        TEST(test_threads),  TEST(test_spreads),   TEST(test_methods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
