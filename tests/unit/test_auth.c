/* Who gets in: every access of the route table, on a service with and without keys, on loopback and
 * beyond, with no key, an unknown one, an ordinary one and an admin's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "api/common/route.h"
#include "http/auth.h"
#include "load/admission.h"

static srv_config config;
static srv_app app;
static srv_keys *keys;

static int open_keys(void **state) {
    (void)state;
    char path[] = "/tmp/attnd-auth-XXXXXX";
    srv_config_error err;
    int fd = mkstemp(path);
    keys = srv_keys_new();
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file || !keys || !srv_config_init(&config, &(srv_config_error){.memory = false}))
        return 1;
    fputs("an-ordinary-key-01\nan-admin-key-00001 admin\n", file);
    fclose(file);
    bool ok = srv_keys_load(keys, path, &err);
    unlink(path);
    app.config = &config;
    app.admission = srv_admission_new(&config);
    return !ok || !app.admission;
}

static int close_keys(void **state) {
    (void)state;
    srv_keys_free(keys);
    srv_admission_free(app.admission);
    srv_config_close(&config);
    return 0;
}

enum { NO_KEY, UNKNOWN, ORDINARY, ADMIN, KEY_KINDS };

static const char *const headers[KEY_KINDS] = {
    NULL, "Bearer a-key-of-nobody-01", "Bearer an-ordinary-key-01", "Bearer an-admin-key-00001"};

/* The status of the refusal, or 0; `route` NULL: an unknown path. */
static int judge(const srv_route *route, const char *method, const char *header, bool with_keys,
                 bool is_local, bool is_ops) {
    static struct srv_daemon daemon;
    srv_link link = {.daemon = &daemon};
    app.keys = with_keys ? keys : NULL;
    daemon.app = &app;
    daemon.is_local = is_local;
    daemon.is_ops = is_ops;
    srv_exchange *x = srv_exchange_new(&daemon, &link, "/");
    assert_non_null(x);
    x->req.method = method;
    x->req.path = "/";
    x->match.route = route;
    x->head.authorization = header;
    x->head.authorizations = header != NULL;
    const bool passes = srv_auth(x);
    int status = x->req.reply.status;
    bool challenge = false;
    for (size_t i = 0; i < x->req.reply.header_count; i++)
        challenge = challenge || !strcasecmp(x->req.reply.headers[i].name, "WWW-Authenticate");
    assert_int_equal(passes, status == 0);
    assert_int_equal(challenge, status == 401 || (status == 403 && x->key));
    if (x->key)
        srv_auth_end(x);
    assert_null(x->key);
    srv_exchange_drop(x);
    return status;
}

static void test_every_access(void **state) {
    (void)state;
    /* With keys: what each kind of key meets. */
    static const int wanted[][KEY_KINDS] = {
        [SRV_CLOSED] = {403, 403, 403, 403}, [SRV_OPEN] = {0, 0, 0, 0},
        [SRV_KEYED] = {401, 401, 0, 0},      [SRV_OWNER] = {401, 401, 0, 0},
        [SRV_ADMIN] = {401, 401, 403, 0},
    };
    for (srv_access access = SRV_CLOSED; access <= SRV_ADMIN; access++) {
        const srv_route route = {.method = "GET", .path = "/", .access = access};
        bool closed = access == SRV_CLOSED;
        for (int kind = 0; kind < KEY_KINDS; kind++) {
            const char *header = headers[kind];
            for (int local = 0; local < 2; local++) {
                assert_int_equal(judge(&route, "GET", header, true, local, false),
                                 wanted[access][kind]);
                int keyless = closed || (access >= SRV_OWNER && !local) ? 403 : 0;
                assert_int_equal(judge(&route, "GET", header, false, local, false), keyless);
                assert_int_equal(judge(&route, "GET", header, true, local, true), closed ? 403 : 0);
            }
        }
    }
}

static void test_what_is_in_no_row(void **state) {
    (void)state;
    for (int kind = 0; kind < KEY_KINDS; kind++) {
        int wanted = kind < ORDINARY ? 401 : 0;
        assert_int_equal(judge(NULL, "GET", headers[kind], true, true, false), wanted);
        assert_int_equal(judge(NULL, "BREW", headers[kind], true, true, false), wanted);
        assert_int_equal(judge(NULL, "OPTIONS", headers[kind], true, false, false), 0);
        assert_int_equal(judge(NULL, "GET", headers[kind], false, false, false), 0);
    }
}

static void test_a_row_without_a_statement_is_closed(void **state) {
    (void)state;
    const srv_route route = {.method = "POST", .path = "/v1/new"};
    assert_int_equal(judge(&route, "POST", NULL, false, true, false), 403);
    assert_int_equal(judge(&route, "POST", headers[ADMIN], true, true, false), 403);
    for (const srv_route *r = srv_routes; r->method; r++)
        assert_int_not_equal(r->access, SRV_CLOSED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_access),
        cmocka_unit_test(test_what_is_in_no_row),
        cmocka_unit_test(test_a_row_without_a_statement_is_closed),
    };
    return cmocka_run_group_tests(tests, open_keys, close_keys);
}
