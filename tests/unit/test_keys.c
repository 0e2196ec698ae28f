/* The list of keys: what a file may hold, digests, counting, and what happens to a held key when
 * the file changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/keys.h"
#include "config/owner.h"
#include "config/secret.h"

static char path[64];
static srv_config_error err;

static int make_path(void **state) {
    (void)state;
    strcpy(path, "/tmp/attnd-keys-XXXXXX");
    int fd = mkstemp(path); /* mode 0600 */
    return fd < 0 || close(fd);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static bool load(srv_keys *keys, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    memset(&err, 0, sizeof err);
    bool ok = srv_keys_load(keys, path, &err);
    assert_int_equal(ok, !*err.text);
    return ok;
}

static srv_key *find(srv_keys *keys, const char *text, bool *admin) {
    *admin = false;
    return srv_keys_find(keys, text, strlen(text), admin);
}

static void test_lines(void **state) {
    (void)state;
    srv_keys *keys = srv_keys_new();
    bool admin;
    assert_non_null(keys);
    assert_true(load(keys, "# none\n\n  a.b:0123456789abcdef admin concurrency=7 # why\r\n"
                           "0123456789ABCDEF\n\tx:-._~+/=0123456789"));
    assert_int_equal(srv_keys_count(keys), 3);
    srv_key *key = find(keys, "0123456789abcdef", &admin);
    assert_non_null(key);
    assert_true(admin);
    assert_string_equal(srv_key_name(key), "a.b");
    srv_keys_release(keys, key);
    key = find(keys, "0123456789ABCDEF", &admin);
    assert_non_null(key);
    assert_false(admin);
    assert_string_equal(srv_key_name(key), "key-29c6a28ed4c4d01b");
    srv_keys_release(keys, key);
    key = find(keys, "-._~+/=0123456789", &admin);
    assert_non_null(key);
    srv_keys_release(keys, key);
    const char *unknown[] = {"", "a.b", "0123456789abcde", "0123456789abcdef0",
                             "a.b:0123456789abcdef"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_null(find(keys, unknown[i], &admin));
    srv_keys_free(keys);
}

/* Whatever its line is, and whatever other names are like. */
static void test_a_key_without_a_name_is_named_by_itself(void **state) {
    (void)state;
    srv_keys *keys = srv_keys_new();
    bool admin;
    char first[SRV_OWNER_NAME + 1];
    assert_true(load(keys, "bbbbbbbbbbbbbbbb\naaaaaaaaaaaaaaaa\nline-2x:cccccccccccccccc\n"));
    srv_key *key = find(keys, "bbbbbbbbbbbbbbbb", &admin);
    strcpy(first, srv_key_name(key));
    srv_keys_release(keys, key);
    assert_true(load(keys, "# one line more\naaaaaaaaaaaaaaaa\nbbbbbbbbbbbbbbbb\n"));
    key = find(keys, "bbbbbbbbbbbbbbbb", &admin);
    assert_string_equal(srv_key_name(key), first);
    srv_key *other = find(keys, "aaaaaaaaaaaaaaaa", &admin);
    assert_string_not_equal(srv_key_name(other), first);
    srv_keys_release(keys, other);
    srv_keys_release(keys, key);
    srv_keys_free(keys);
}

/* A request that runs keeps the name, and the next one has the new one. */
static void test_names_that_change_places(void **state) {
    (void)state;
    srv_keys *keys = srv_keys_new();
    bool admin;
    assert_true(load(keys, "alice:aaaaaaaaaaaaaaaa\nbob:bbbbbbbbbbbbbbbb\n"));
    srv_key *held = find(keys, "aaaaaaaaaaaaaaaa", &admin);
    assert_true(load(keys, "bob:aaaaaaaaaaaaaaaa\nalice:bbbbbbbbbbbbbbbb\n"));
    srv_key *key = find(keys, "aaaaaaaaaaaaaaaa", &admin);
    assert_string_equal(srv_key_name(held), "alice");
    assert_string_equal(srv_key_name(key), "bob");
    srv_keys_release(keys, held);
    srv_keys_release(keys, key);
    key = find(keys, "aaaaaaaaaaaaaaaa", &admin);
    assert_string_equal(srv_key_name(key), "bob");
    srv_keys_release(keys, key);
    assert_int_equal(srv_keys_count(keys), 2);
    srv_keys_free(keys);
}

static void test_bad_files_change_nothing(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "no key"},
        {"0123456789abcde", "found 15"},
        {"0123456789abcdef\n0123456789abcdef", "line 1"},
        {"0123456789abcdef\n0123456789abcde!", ":2: a key consists of"},
        {"0123456789abcdef x", "has another word"},
        {"0123456789abcdef concurrency=1000000000", "concurrency=N"},
        {"name :0123456789abcdef", "found 4"},
        {"line-2:0123456789abcdef", "line-N"},
        {"key-0123456789abcdef:0123456789abcdef", "16 hexadecimal digits"},
    };
    srv_keys *keys = srv_keys_new();
    bool admin;
    assert_true(load(keys, "the-key-that-stays\n"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_false(load(keys, rows[i].text));
        if (!strstr(err.text, rows[i].says) || strstr(err.text, "0123456789"))
            fail_msg("%s: %s", rows[i].text, err.text);
    }
    assert_int_equal(chmod(path, 0604), 0);
    assert_false(srv_keys_load(keys, path, &err));
    assert_int_equal(chmod(path, 0600), 0);
    srv_key *key = find(keys, "the-key-that-stays", &admin);
    assert_non_null(key);
    srv_keys_release(keys, key);
    assert_int_equal(srv_keys_count(keys), 1);
    srv_keys_free(keys);
}

static void test_a_thousand_keys_and_no_more(void **state) {
    (void)state;
    enum { LINE = 21 };
    srv_keys *keys = srv_keys_new();
    bool admin;
    char *text = calloc(1002, LINE);
    assert_non_null(text);
    for (int i = 0; i < 1000; i++)
        sprintf(text + i * LINE, "key-number-%09d\n", i);
    assert_true(load(keys, text));
    for (int i = 0; i < 1000; i += 111) {
        char one[LINE];
        sprintf(one, "key-number-%09d", i);
        srv_key *key = find(keys, one, &admin);
        assert_non_null(key);
        srv_keys_release(keys, key);
    }
    strcat(text, "one-more-key-is-too-much\n");
    assert_false(load(keys, text));
    assert_int_equal(srv_keys_count(keys), 1000);
    free(text);
    srv_keys_free(keys);
}

static void test_running_requests_are_counted(void **state) {
    (void)state;
    srv_keys *keys = srv_keys_new();
    bool admin;
    size_t limit;
    assert_true(load(keys, "0123456789abcdef concurrency=2\nfedcba9876543210\n"));
    srv_key *two = find(keys, "0123456789abcdef", &admin);
    srv_key *any = find(keys, "fedcba9876543210", &admin);
    assert_true(srv_keys_start(keys, two, 100, &limit));
    assert_true(srv_keys_start(keys, two, 100, &limit));
    assert_false(srv_keys_start(keys, two, 100, &limit));
    assert_int_equal(limit, 2);
    srv_keys_finish(keys, two);
    assert_true(srv_keys_start(keys, two, 1, &limit));
    for (int i = 0; i < 1000; i++)
        assert_true(srv_keys_start(keys, any, 0, &limit));
    assert_false(srv_keys_start(keys, any, 3, &limit));
    assert_int_equal(limit, 3);
    srv_keys_release(keys, two);
    srv_keys_release(keys, any);
    srv_keys_free(keys);
}

static void test_a_held_key_outlives_its_line(void **state) {
    (void)state;
    srv_keys *keys = srv_keys_new();
    bool admin;
    size_t limit;
    assert_true(load(keys, "old:0123456789abcdef concurrency=1\n"));
    srv_key *held = find(keys, "0123456789abcdef", &admin);
    assert_true(srv_keys_start(keys, held, 0, &limit));
    assert_true(load(keys, "new:fedcba9876543210\n"));
    assert_null(find(keys, "0123456789abcdef", &admin));
    assert_string_equal(srv_key_name(held), "old");
    /* Back again, with other rights: the same entry, its count kept. */
    assert_true(load(keys, "old:0123456789abcdef admin concurrency=1\n"));
    srv_key *same = find(keys, "0123456789abcdef", &admin);
    assert_ptr_equal(same, held);
    assert_true(admin);
    assert_false(srv_keys_start(keys, same, 0, &limit));
    srv_keys_finish(keys, held);
    srv_keys_release(keys, held);
    assert_true(srv_keys_start(keys, same, 0, &limit));
    assert_true(load(keys, "new:fedcba9876543210\n"));
    srv_keys_finish(keys, same);
    srv_keys_release(keys, same); /* nobody holds it and no file lists it: freed here */
    assert_null(find(keys, "0123456789abcdef", &admin));
    srv_keys_free(keys);
}

static void test_digests(void **state) {
    (void)state;
    srv_digest salt, other, a, b;
    assert_true(srv_secret_salt(&salt) && srv_secret_salt(&other));
    assert_false(srv_secret_equal(&salt, &other));
    assert_true(srv_secret_digest(&salt, "key", 3, &a) && srv_secret_digest(&salt, "key", 3, &b));
    assert_true(srv_secret_equal(&a, &b));
    assert_true(srv_secret_digest(&other, "key", 3, &b));
    assert_false(srv_secret_equal(&a, &b));
    /* RFC 4231, test case 2: HMAC-SHA-256 under "Jefe". */
    static const srv_digest jefe = {{'J', 'e', 'f', 'e'}}; /* zeros behind a key change nothing */
    static const unsigned char wanted[4] = {0x5b, 0xdc, 0xc1, 0x46};
    assert_true(srv_secret_digest(&jefe, "what do ya want for nothing?", 28, &a));
    assert_memory_equal(a.bytes, wanted, sizeof wanted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_a_key_without_a_name_is_named_by_itself),
        cmocka_unit_test(test_names_that_change_places),
        cmocka_unit_test(test_bad_files_change_nothing),
        cmocka_unit_test(test_a_thousand_keys_and_no_more),
        cmocka_unit_test(test_running_requests_are_counted),
        cmocka_unit_test(test_a_held_key_outlives_its_line),
        cmocka_unit_test(test_digests),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
