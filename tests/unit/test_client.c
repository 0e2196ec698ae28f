/* Who asks: networks, trusted proxies, addresses behind them, and the numbers of clients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/client.h"

static void test_networks(void **state) {
    static const char *const good[] = {"127.0.0.1",      "10.0.0.0/8",  "0.0.0.0/0",
                                       "192.168.1.7/32", "::1",         "2001:db8::/32",
                                       "::/0",           "fe80::1/128", "unix"};
    static const char *const bad[] = {
        "",       "localhost",   "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "::1/129",
        "::1/-1", "10.0.0.0/8x", "10.0.0.0/ 8", "unix:/x",   "[::1]",    "10.0.0.0/0008"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(srv_client_is_network(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(srv_client_is_network(bad[i]));
}

static char *entries[] = {"10.1.0.0/16", "192.168.0.9", "172.16.0.0/13", "2001:db8::/33", "unix"};
static const srv_texts proxies = {entries, 5};

static void test_proxies(void **state) {
    static const char *const in[] = {"10.1.2.3",    "192.168.0.9",       "172.23.255.255", "unix",
                                     "2001:db8::1", "::ffff:10.1.0.255", "2001:db8:7fff::"};
    static const char *const out[] = {"10.2.0.0", "192.168.0.8",     "172.24.0.0",  "127.0.0.1",
                                      "",         "2001:db8:8000::", "2001:db7::1", "::10.1.2.3"};
    const srv_texts none = {0};
    (void)state;
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
        assert_true(srv_client_is_proxy(&proxies, in[i]));
        assert_false(srv_client_is_proxy(&none, in[i]));
    }
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        assert_false(srv_client_is_proxy(&proxies, out[i]));
}

static void test_behind(void **state) {
    static const struct {
        const char *values[3]; /* of X-Forwarded-For */
        const char *wanted;
    } cases[] = {
        {{NULL}, "10.1.0.1"},
        {{"1.2.3.4"}, "1.2.3.4"},
        {{"6.6.6.6, 1.2.3.4"}, "1.2.3.4"}, /* whatever the client itself claims */
        {{"6.6.6.6", "1.2.3.4"}, "1.2.3.4"},
        {{"6.6.6.6, 1.2.3.4, 10.1.0.2"}, "1.2.3.4"},
        {{"1.2.3.4", "10.1.0.2", "192.168.0.9"}, "1.2.3.4"},
        {{"10.1.0.3,10.1.0.2"}, "10.1.0.3"}, /* proxies alone: the farthest of them asks */
        {{" 1.2.3.4\t"}, "1.2.3.4"},
        {{"1.2.3.4:5678"}, "1.2.3.4"},
        {{"[2001:db9::1]:443"}, "2001:db9::1"},
        {{"2001:DB9:0:0::1"}, "2001:db9::1"},
        {{"::ffff:1.2.3.4"}, "1.2.3.4"},
        {{"unknown"}, "10.1.0.1"},
        {{""}, "10.1.0.1"},
        {{"1.2.3.4,"}, "10.1.0.1"},
        {{"1.2.3.4, rubbish, 10.1.0.2"}, "10.1.0.2"},
        {{"1.2.3.4", "", "10.1.0.2"}, "10.1.0.2"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char address[SRV_CLIENT_TEXT] = "10.1.0.1";
        size_t count = 0;
        while (count < 3 && cases[i].values[count])
            count++;
        srv_client_behind(&proxies, cases[i].values, count, address);
        assert_string_equal(address, cases[i].wanted);
    }
}

/* An entry longer than any address is none. */
static void test_behind_a_long_entry(void **state) {
    char entry[4096], address[SRV_CLIENT_TEXT] = "10.1.0.1";
    const char *value = entry;
    (void)state;
    memset(entry, '1', sizeof entry - 1);
    entry[sizeof entry - 1] = 0;
    srv_client_behind(&proxies, &value, 1, address);
    assert_string_equal(address, "10.1.0.1");
}

static void test_numbers(void **state) {
    (void)state;
    assert_int_equal(srv_client_number("2001:db8::1"), srv_client_number("2001:db8::ffff:2"));
    assert_int_not_equal(srv_client_number("2001:db8::1"), srv_client_number("2001:db8:0:1::1"));
    assert_int_not_equal(srv_client_number("10.0.0.1"), srv_client_number("10.0.0.2"));
    assert_int_not_equal(srv_client_number("unix"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_networks), cmocka_unit_test(test_proxies),
        cmocka_unit_test(test_behind),   cmocka_unit_test(test_behind_a_long_entry),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
