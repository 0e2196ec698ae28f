/* The router over a table of its own, and the choice of media types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "http/negotiate.h"
#include "http/router.h"

static const srv_route routes[] = {
    {.method = "GET", .path = "/"},
    {.method = "GET", .path = "/a"},
    {.method = "POST", .path = "/a"},
    {.method = "POST", .path = "/b"},
    {.method = "GET", .path = "/a/fixed"},
    {.method = "GET", .path = "/a/{id}"},
    {.method = "DELETE", .path = "/a/{id}"},
    {.method = "GET", .path = "/a/{id}/part/{name}"},
    {.method = NULL},
};

static srv_router router;
static char text[256];

static int open_router(void **state) {
    (void)state;
    return !srv_router_init(&router, routes);
}

static int close_router(void **state) {
    (void)state;
    srv_router_close(&router);
    return 0;
}

static srv_match find(const char *method, const char *path) {
    srv_match match;
    assert_true(strlen(path) < sizeof text);
    memset(text, '#', sizeof text);
    srv_router_find(&router, method, path, text, &match);
    assert_int_equal(text[strlen(path) + 1], '#');
    return match;
}

static void test_labels_are_the_distinct_templates(void **state) {
    (void)state;
    assert_int_equal(router.count, 8);
    assert_int_equal(router.label_count, 6);
    assert_int_equal(router.label_of[1], router.label_of[2]);
    assert_string_equal(router.labels[router.label_of[6]], "/a/{id}");
}

static void test_methods(void **state) {
    (void)state;
    assert_ptr_equal(find("GET", "/a").route, &routes[1]);
    assert_ptr_equal(find("HEAD", "/a").route, &routes[1]);
    assert_ptr_equal(find("POST", "/a").route, &routes[2]);
    assert_ptr_equal(find("DELETE", "/a/x").route, &routes[6]);
    srv_match none = find("PUT", "/a");
    assert_null(none.route);
    assert_string_equal(none.allow, "GET, HEAD, POST, OPTIONS");
    none = find("HEAD", "/b");
    assert_null(none.route);
    assert_string_equal(none.allow, "POST, OPTIONS");
    assert_string_equal(router.labels[none.label], "/b");
}

static void test_parameters(void **state) {
    (void)state;
    srv_match match = find("GET", "/a/one");
    assert_ptr_equal(match.route, &routes[5]);
    assert_string_equal(match.params[0], "one");
    assert_null(match.params[1]);
    match = find("GET", "/a/one/part/two");
    assert_ptr_equal(match.route, &routes[7]);
    assert_string_equal(match.params[0], "one");
    assert_string_equal(match.params[1], "two");
    match = find("GET", "/a/1/part/2");
    assert_string_equal(match.params[1], "2");
    match = find("GET", "/a/fixed");
    assert_ptr_equal(match.route, &routes[4]);
    assert_null(match.params[0]);
    match = find("GET", "/a/fixed2");
    assert_ptr_equal(match.route, &routes[5]);
}

static void test_unknown_paths(void **state) {
    (void)state;
    static const char *const paths[] = {"",           "a",    "/c",     "/a/",
                                        "//a",        "/a//", "/a/x/",  "/a/x/part",
                                        "/a/x/part/", "/A",   "/a/x/y", "/a/x/part/y/z"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        srv_match match = find("GET", paths[i]);
        assert_null(match.route);
        assert_int_equal(match.label, router.label_count);
        assert_string_equal(match.allow, "");
    }
}

static void test_accept(void **state) {
    (void)state;
    enum {
        J = SRV_ACCEPT_JSON,
        T = SRV_ACCEPT_TEXT,
        S = SRV_ACCEPT_SVG,
        P = SRV_ACCEPT_PNG,
        C = SRV_ACCEPT_CSV
    };
    static const struct {
        const char *accept;
        unsigned produces, chosen;
    } rows[] = {
        {NULL, J | T, J},
        {"", J | T, J},
        {"*/*", J | T, J},
        {"*/*", T, T},
        {"text/plain", J | T, T},
        {"text/plain", J, 0},
        {"text/*;q=0.5, application/json;q=0.4", J | T, T},
        {"application/json;q=0.001", J | T, J},
        {"application/json;q=0", J | T, 0},
        {"application/json;q=0.0, text/plain;q=0.000", J | T, 0},
        {"*/*;q=0.5, text/plain;q=0", J | T, J},
        {"text/plain;q=0, */*", T, 0},
        {"application/json;charset=utf-8;q=0.2, text/plain;q=0.1", J | T, J},
        {"application/*;q=0.9, text/plain;q=0.9", J | T, J},
        {" text/plain ; q=1.000 ,", J | T, T},
        {"text/plain;q=2", J | T, 0},
        {"text/plain;q=", J | T, 0},
        {"application/jsonx, application/jso", J | T, 0},
        {";;;,,,;q=1", J | T, 0},
        {"image/svg+xml", J | S | P, S},
        {"image/png", J | T, 0},
        {"image/*", J | S | P, P},
        {"image/*;q=0.8, image/svg+xml", J | S | P, S},
        {"text/csv", J | T | C, C},
        {"text/*", J | T | C, T},
        {"*/*", J | S | P | C, J},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (srv_accept_choose(rows[i].accept, rows[i].produces) != rows[i].chosen)
            fail_msg("Accept: %s", rows[i].accept);
}

static void test_content_types(void **state) {
    (void)state;
    assert_true(srv_type_is_json(""));
    assert_true(srv_type_is_json("application/json"));
    assert_true(srv_type_is_json("application/x-www-form-urlencoded"));
    assert_false(srv_type_is_json("text/plain"));
    assert_false(srv_type_is_json("application/jsonl"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_are_the_distinct_templates),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_unknown_paths),
        cmocka_unit_test(test_accept),
        cmocka_unit_test(test_content_types),
    };
    return cmocka_run_group_tests(tests, open_router, close_router);
}
