/* Uploads of runs with a disk that does not answer: the writer thread waits for the lock of the
 * directory, which the tests hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "request/shared.h"
#include "store/runs_upload.h"

enum { PIECE = 8192 };

static char folder[] = "/tmp/attnd-uploads-XXXXXX";
static srv_config config = {.runs_dir = folder,
                            .keys_file = "",
                            .runs_ttl_ms = 60000,
                            .runs_bytes = 64 << 20,
                            .max_capture_bytes = 64 << 20,
                            .connection_bytes = PIECE};
static srv_runs_dir dir;
static srv_uploads *uploads;
static atomic_int suspends, resumes;
static bool may_suspend;
static const char id[] = "0123456789abcdef0123456789abcdef";

static bool count_suspend(void *sender) {
    (void)sender;
    atomic_fetch_add(&suspends, may_suspend);
    return may_suspend;
}

static void count_resume(void *sender) {
    (void)sender;
    atomic_fetch_add(&resumes, 1);
}

static int open_all(void **state) {
    (void)state;
    suspends = resumes = 0;
    may_suspend = true;
    if (srv_runs_dir_open(&dir, &config))
        return 1;
    uploads = srv_uploads_new(&dir, &config);
    return !uploads;
}

static int close_all(void **state) {
    (void)state;
    srv_uploads_free(uploads);
    srv_runs_dir_close(&dir);
    return 0;
}

static srv_upload *begin(srv_request *req) {
    assert_true(srv_upload_begin(uploads, req, id, 0));
    req->intake->suspend = count_suspend;
    req->intake->resume = count_resume;
    return (srv_upload *)req->intake;
}

static bool take(srv_request *req, size_t size) {
    static const char bytes[PIECE];
    return req->intake->take(req->intake, req, bytes, size);
}

static bool exists(const char *suffix) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s.safetensors%s", folder, id, suffix);
    return !access(path, F_OK);
}

/* Takes halves of the largest piece until the connection is suspended, and returns the number of
 * bytes. */
static size_t fill(srv_request *req) {
    size_t bytes = 0;
    for (; !suspends; bytes += PIECE / 2)
        assert_true(take(req, PIECE / 2));
    return bytes;
}

/* libmicrohttpd passes on the other half, in chunks, although the connection is suspended. */
static void test_a_connection_is_suspended_once(void **state) {
    (void)state;
    srv_request req = {.path = ""};
    srv_upload *u = begin(&req);
    pthread_mutex_lock(&dir.lock);
    size_t bytes = fill(&req);
    for (int i = 0; i < 4; i++, bytes += PIECE / 8)
        assert_true(take(&req, PIECE / 8));
    assert_int_equal(suspends, 1);
    assert_int_equal(resumes, 0);
    pthread_mutex_unlock(&dir.lock);
    assert_int_equal(srv_upload_finish(u), 0);
    assert_int_equal(resumes, 1);
    assert_int_equal(u->written, bytes);
    assert_true(exists(".part") && !exists(""));
    req.intake = NULL;
    srv_upload_free(u);
    assert_false(exists(".part"));
    assert_int_equal(dir.arriving, 0);
}

static void test_what_is_given_up_leaves_nothing(void **state) {
    (void)state;
    srv_request req = {.path = ""};
    begin(&req);
    pthread_mutex_lock(&dir.lock);
    fill(&req);
    pthread_mutex_unlock(&dir.lock);
    while (!resumes)
        usleep(1000);
    assert_true(exists(".part"));
    req.intake->drop(req.intake);
    srv_uploads_free(uploads); /* waits for what the writer has to do */
    uploads = srv_uploads_new(&dir, &config);
    assert_false(exists(".part"));
    assert_int_equal(dir.arriving, 0);
}

/* A connection that cannot be suspended, because the service is shutting down, is refused when the
 * buffer is full. */
static void test_no_room_and_no_suspension(void **state) {
    (void)state;
    srv_request req = {.path = ""};
    size_t taken = 0;
    begin(&req);
    may_suspend = false;
    pthread_mutex_lock(&dir.lock);
    while (taken < 64 << 20 && take(&req, PIECE))
        taken += PIECE;
    assert_true(taken >= 1 << 20 && taken < 64 << 20);
    assert_int_equal(req.reply.status, 503);
    pthread_mutex_unlock(&dir.lock);
    req.intake->drop(req.intake);
}

static void test_a_run_that_has_no_room(void **state) {
    (void)state;
    srv_app app = {.config = &config};
    srv_request req = {.app = &app, .path = ""};
    srv_upload *u = begin(&req);
    dir.most = 100;
    assert_true(take(&req, 101));
    assert_int_equal(srv_upload_finish(u), ENOBUFS);
    assert_false(take(&req, 1));
    assert_int_equal(req.reply.status, 507);
    srv_upload_free(u);
    assert_int_equal(dir.arriving, 0);
}

/* Stores a run of so many bytes in the directory, under the id of so many equal digits. */
static int store(char digit, srv_owner owner, size_t size) {
    static const char bytes[1000];
    attn_run_piece piece = {bytes, size};
    char name[SRV_RUN_ID + 1] = "";
    memset(name, digit, SRV_RUN_ID);
    return srv_runs_dir_write(&dir, name, owner, &(attn_run_image){&piece, 1, size});
}

static void assert_runs(const char *digits) {
    for (char digit = 'a'; digit <= 'f'; digit++) {
        char name[SRV_RUN_ID + 1] = "";
        memset(name, digit, SRV_RUN_ID);
        assert_int_equal(srv_runs_dir_knows(&dir, name), strchr(digits, digit) != NULL);
    }
}

static void remove_runs(void) {
    for (char digit = 'a'; digit <= 'f'; digit++) {
        char name[SRV_RUN_ID + 1] = "", path[128];
        memset(name, digit, SRV_RUN_ID);
        srv_runs_dir_remove(&dir, name);
        snprintf(path, sizeof path, "%s/%s.gone", folder, name);
        unlink(path);
    }
}

static void test_room_is_made_by_whoever_has_most(void **state) {
    (void)state;
    dir.most = 1000;
    assert_int_equal(store('a', 1, 300) | store('b', 1, 300) | store('c', 2, 300), 0);
    assert_int_equal(store('d', 2, 700),
                     ENOBUFS); /* its own 300 are not enough, and the other has 600 */
    assert_runs("abc");
    assert_int_equal(store('d', 2, 300), 0); /* as many as the other has: its own run goes */
    assert_runs("abd");
    assert_int_equal(store('e', 3, 400), 0); /* from the one with 600 */
    assert_runs("bde");
    assert_int_equal(store('f', 4, 401), ENOBUFS); /* nobody has more */
    assert_runs("bde");
    remove_runs();
}

/* Neither here nor in another process, which knows the file alone. */
static void test_what_comes_in_removes_nothing(void **state) {
    (void)state;
    srv_app app = {.config = &config};
    srv_request req = {.app = &app, .path = ""};
    srv_runs_dir other;
    dir.most = 1000;
    assert_int_equal(store('a', 1, 400) | store('b', 1, 400), 0);
    srv_upload *u = begin(&req);
    u->owner = 2;
    assert_true(take(&req, 300));
    assert_int_equal(srv_upload_finish(u), 0);
    assert_runs("ab");
    assert_int_equal(srv_runs_dir_open(&other, &config), 0);
    other.most = 1000;
    srv_runs_dir_sweep(&other);
    srv_runs_dir_sweep(&dir);
    assert_int_equal(other.unfinished, 300);
    assert_runs("ab");
    assert_true(take(&req, 700));
    assert_int_equal(srv_upload_finish(u), ENOBUFS); /* 1000 bytes beside 800 */
    assert_runs("ab");
    srv_upload_free(u);
    srv_runs_dir_close(&other);
    remove_runs();
}

#define UNIT(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(test_a_connection_is_suspended_once),   UNIT(test_what_is_given_up_leaves_nothing),
        UNIT(test_no_room_and_no_suspension),        UNIT(test_a_run_that_has_no_room),
        UNIT(test_room_is_made_by_whoever_has_most), UNIT(test_what_comes_in_removes_nothing),
    };
    if (!mkdtemp(folder))
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
