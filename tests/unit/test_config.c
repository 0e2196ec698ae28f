/* The table of settings, its layers and its error texts; automatic values; the JSON that it prints.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

static int open_config(void **state) {
    srv_config *c = malloc(sizeof *c);
    *state = c;
    return !c || !srv_config_init(c, &(srv_config_error){.memory = false});
}

static int close_config(void **state) {
    srv_config_close(*state);
    free(*state);
    return 0;
}

static bool set(srv_config *c, const char *key, const char *text) {
    srv_config_error err = {.text = ""};
    bool ok = srv_config_set(c, key, text, "test", &err);
    assert_true(ok == !*err.text);
    return ok;
}

static void test_every_default_is_legal(void **state) {
    srv_config *c = *state;
    for (const srv_setting *row = srv_settings; row->key; row++) {
        assert_true(set(c, row->key, row->standard));
        assert_true(row->doc && *row->doc);
        for (const srv_setting *other = row + 1; other->key; other++)
            assert_string_not_equal(row->key, other->key);
    }
}

static void test_every_number_keeps_its_range(void **state) {
    srv_config *c = *state;
    for (const srv_setting *row = srv_settings; row->key; row++) {
        if (row->max == 0 || row->kind == SRV_SET_BOOL)
            continue;
        char text[64];
        double values[] = {row->min, row->max};
        for (int i = 0; i < 2; i++) {
            snprintf(text, sizeof text, "%.17g", values[i]);
            assert_true(set(c, row->key, text));
            assert_true(srv_setting_number(c, row) == values[i]);
        }
        snprintf(text, sizeof text, "%.17g", row->max * 2 + 1);
        assert_false(set(c, row->key, text));
        assert_true(srv_setting_number(c, row) == row->max);
        assert_false(set(c, row->key, "-1"));
    }
}

static void test_units(void **state) {
    srv_config *c = *state;
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"1000", 1000},        {"64KiB", 65536}, {"1.5MiB", 1572864},
                {"2 GiB", 2147483648}, {"5B", 5},        {"64K", 65536},
                {"3M", 3145728},       {"1G", 1 << 30},  {"1e6", 1000000}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(set(c, "max_body_bytes", good[i].text));
        assert_int_equal(c->max_body_bytes, good[i].bytes);
    }
    static const char *const bad[] = {"",   "MiB", "1MB", "1 MiB x", "0x10", " 5",
                                      "+5", "nan", "inf", "1e400",   "5,",   "1.3B"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(set(c, "max_body_bytes", bad[i]));
    assert_false(set(c, "drain_ms", "1KiB"));
    assert_int_equal(c->max_body_bytes, 1000000);
    srv_config_error err;
    assert_false(srv_config_set(c, "max_body_bytes", "1GB", "--max-body-bytes", &err));
    assert_non_null(strstr(err.text, "G or GiB"));
    assert_non_null(strstr(err.text, "1GB"));
}

static void test_unknown_key_names_the_nearest(void **state) {
    srv_config_error err;
    assert_false(srv_config_set(*state, "queue_lenght", "1", "--queue-lenght", &err));
    assert_non_null(strstr(err.text, "queue_length"));
    assert_non_null(strstr(err.text, "--queue-lenght"));
    assert_false(srv_config_set(*state, "zzzzzzzzzzzzzzzzzz", "1", "x", &err));
    assert_null(strstr(err.text, "did you mean"));
}

static void test_below_the_range_names_the_range(void **state) {
    srv_config_error err;
    assert_false(srv_config_set(*state, "workers", "-1", "--workers", &err));
    assert_string_equal(err.text, "--workers: \"workers\" must be between 0 and 1024, found -1");
    assert_false(srv_config_set(*state, "max_body_bytes", "-1K", "x", &err));
    assert_non_null(strstr(err.text, "between 1 and 9007199254740992,"));
}

static void test_lists(void **state) {
    srv_config *c = *state;
    assert_true(set(c, "cors_origins", " http://a , https://b:444,,null "));
    assert_int_equal(c->cors_origins.count, 3);
    assert_string_equal(c->cors_origins.items[0], "http://a");
    assert_string_equal(c->cors_origins.items[2], "null");
    assert_true(set(c, "cors_origins", ""));
    assert_int_equal(c->cors_origins.count, 0);
}

static void test_origins(void **state) {
    srv_config *c = *state;
    srv_config_error err;
    static const char *const good[] = {"http://localhost:8000",        "https://example.org",
                                       "https://a-b.example.org:8443", "http://127.0.0.1:1",
                                       "http://[2001:db8::1]:81",      "chrome-extension://abcdef",
                                       "https://example.org:80"};
    static const char *const bad[] = {"*",
                                      "localhost:8000",
                                      "example.org",
                                      "http://localhost:8000/",
                                      "https://example.org/app",
                                      "https://Example.org",
                                      "HTTPS://example.org",
                                      "https://*.example.org",
                                      "http://",
                                      "://a",
                                      "http://a:",
                                      "http://a:0",
                                      "http://a:65536",
                                      "http://a:80",
                                      "https://a:443",
                                      "http://u@a",
                                      "http://[::1",
                                      "http://a b"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(set(c, "cors_origins", good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(srv_config_set(c, "cors_origins", bad[i], "--cors-origins", &err));
        assert_non_null(strstr(err.text, bad[i]));
        assert_non_null(strstr(err.text, "http://localhost:8000"));
    }
    assert_string_equal(c->cors_origins.items[0], good[sizeof good / sizeof *good - 1]);
}

static bool read_json(srv_config *c, const char *text, srv_config_error *err) {
    return srv_config_json(c, text, strlen(text), "f.json", err);
}

static void test_json(void **state) {
    srv_config *c = *state;
    srv_config_error err;
    assert_true(
        read_json(c,
                  "{\"queue_length\":7,\"max_cells\":1e6,\"memory_bytes\":\"1GiB\","
                  "\"half_close_is_gone\":false,\"isa\":\"ref\",\"cors_origins\":[\"http://x\"]}",
                  &err));
    assert_int_equal(c->queue_length, 7);
    assert_true(c->max_cells == 1e6);
    assert_int_equal(c->memory_bytes, 1 << 30);
    assert_false(c->half_close_is_gone);
    assert_string_equal(srv_isa_choices[c->isa], "ref");
    assert_string_equal(c->cors_origins.items[0], "http://x");
    assert_false(read_json(c, "{\"queue_length\":null}", &err));
    assert_false(read_json(c, "{\"queue_length\":[1]}", &err));
    assert_false(read_json(c, "{\"listen\":7}", &err));
    assert_false(read_json(c, "{\n\"queue_length\":}", &err));
    assert_non_null(strstr(err.text, "f.json:2:"));
}

static void test_environment(void **state) {
    srv_config *c = *state;
    srv_config_error err;
    char *good[] = {"PATH=/bin",
                    "ATTND_QUEUE_LENGTH=9",
                    "ATTND_SERVICE_HOST=10.0.0.1",
                    "ATTND_SERVICE_PORT_HTTP=80",
                    "ATTND_PORT=tcp://10.0.0.1:80",
                    "ATTND_PORT_80_TCP_ADDR=10.0.0.1",
                    "ATTNDX=1",
                    NULL};
    char *bad[] = {"ATTND_QUEUE_LENGTH=many", NULL};
    char *near[] = {"ATTND_QUEUE_LENGHT=8", NULL};
    char *unknown[] = {"ATTND_FOO=1", NULL};
    assert_true(srv_config_environment(c, good, &err));
    assert_int_equal(c->queue_length, 9);
    assert_false(srv_config_environment(c, bad, &err));
    assert_non_null(strstr(err.text, "ATTND_QUEUE_LENGTH"));
    assert_false(srv_config_environment(c, near, &err));
    assert_non_null(strstr(err.text, "did you mean \"queue_length\"?"));
    assert_false(srv_config_environment(c, unknown, &err));
    assert_non_null(strstr(err.text, "ATTND_FOO: unknown setting \"foo\""));
}

static void test_automatic_values(void **state) {
    srv_config *c = *state;
    srv_config_error err;
    assert_true(srv_config_resolve(c, &err));
    assert_true(c->workers >= 1);
    assert_true(c->requests_running >= 4 && c->requests_running >= 2 * c->workers);
    assert_true(c->memory_bytes >= 64 << 20);
    assert_int_equal(c->max_request_bytes, c->memory_bytes / 2);
    assert_true(set(c, "workers", "3"));
    assert_true(srv_config_resolve(c, &err));
    assert_int_equal(c->workers, 3);
    assert_true(set(c, "memory_bytes", "2MiB"));
    assert_false(srv_config_resolve(c, &err));
    assert_non_null(strstr(err.text, "max_request_bytes"));
    assert_true(set(c, "memory_bytes", "1048575"));
    assert_false(srv_config_resolve(c, &err));
    assert_non_null(strstr(err.text, "\"memory_bytes\" must be at least 1048576"));
}

static char *printed(const srv_config *c) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    srv_config_print(c, out);
    fclose(out);
    return text;
}

static void test_what_is_printed_reads_back(void **state) {
    srv_config *c = *state;
    srv_config_error err;
    srv_config back;
    assert_true(set(c, "cors_origins", "https://a.example,http://[::1]:8000"));
    assert_true(set(c, "listen", "unix:/tmp/\001odd\"back\\slash"));
    assert_true(set(c, "max_cells", "12345678901234"));
    assert_true(set(c, "log", "off"));
    assert_true(set(c, "half_close_is_gone", "false"));
    char *first = printed(c);
    assert_true(srv_config_init(&back, &err));
    assert_true(read_json(&back, first, &err));
    char *second = printed(&back);
    assert_string_equal(first, second);
    assert_string_equal(back.listen, "unix:/tmp/\001odd\"back\\slash");
    srv_config_close(&back);
    free(first);
    free(second);
}

static void test_a_chosen_operations_port_is_remembered(void **state) {
    srv_config *c = *state;
    assert_false(c->ops_given);
    assert_true(set(c, "ops_listen", ""));
    assert_true(c->ops_given);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_config, close_config)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_every_default_is_legal),
        TEST(test_every_number_keeps_its_range),
        TEST(test_units),
        TEST(test_unknown_key_names_the_nearest),
        TEST(test_below_the_range_names_the_range),
        TEST(test_lists),
        TEST(test_origins),
        TEST(test_json),
        TEST(test_environment),
        TEST(test_automatic_values),
        TEST(test_what_is_printed_reads_back),
        TEST(test_a_chosen_operations_port_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
