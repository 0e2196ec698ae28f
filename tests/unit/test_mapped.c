/* Mapped files that are cut or changed while they are mapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/mapped.h"

enum { SIZE = 3 * 65536 + 1000 }; /* more than three pages of any size, and a part of one */

static char folder[] = "/tmp/attn-mapped-XXXXXX";
static int dir;

static void put_file(const char *name, size_t size) {
    static const char ones[SIZE] = {[0 ... SIZE - 1] = 1};
    const int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, ones, size), size);
    close(fd);
}

static void cut(const char *name, size_t size) {
    const int fd = openat(dir, name, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    close(fd);
}

static size_t sum(const srv_mapped *m) {
    const volatile char *p = srv_mapped_data(m);
    size_t all = 0;
    for (size_t i = 0; i < srv_mapped_size(m); i++)
        all += (size_t)p[i];
    return all;
}

static int begin(void **state) {
    (void)state;
    dir = mkdtemp(folder) ? open(folder, O_RDONLY | O_DIRECTORY) : -1;
    return dir < 0;
}

static int end(void **state) {
    (void)state;
    unlinkat(dir, "a", 0);
    unlinkat(dir, "b", 0);
    close(dir);
    return rmdir(folder);
}

static srv_mapped_state state_of(srv_mapped *m) {
    srv_mapped_times seen;
    return srv_mapped_check(m, &seen);
}

static srv_mapped *open_whole(void) {
    srv_mapped *m = NULL;
    srv_mapped_start(); /* in each test, because cmocka has its own handler of SIGBUS at its begin */
    put_file("a", SIZE);
    assert_int_equal(srv_mapped_open(dir, "a", false, &m), 0);
    assert_int_equal(srv_mapped_size(m), SIZE);
    assert_int_equal(sum(m), SIZE);
    assert_true(state_of(m) <= SRV_MAPPED_TOUCHED);
    return m;
}

static void test_a_cut_of_any_size_is_noticed(void **state) {
    static const size_t lost[] = {1, 10, 999, 1000, 1001, 65536, 2 * 65536 + 5, SIZE};
    (void)state;
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        srv_mapped *m = open_whole();
        cut("a", SIZE - lost[i]);
        assert_true(sum(m) < SIZE);
        assert_int_equal(state_of(m), SRV_MAPPED_HURT);
        assert_true(srv_mapped_is_hurt(m));
        cut("a", SIZE); /* what was read in between stays lost */
        assert_int_equal(state_of(m), SRV_MAPPED_HURT);
        srv_mapped_close(m);
    }
}

static void test_a_lost_page_needs_no_look(void **state) {
    (void)state;
    srv_mapped *m = open_whole();
    cut("a", 0);
    assert_false(srv_mapped_is_hurt(m));
    assert_true(sum(m) < SIZE);
    assert_true(srv_mapped_is_hurt(m));
    srv_mapped_close(m);
}

static void test_another_file_of_the_name_does_no_harm(void **state) {
    (void)state;
    srv_mapped *m = open_whole();
    put_file("b", 5);
    assert_int_equal(renameat(dir, "b", dir, "a"), 0);
    assert_int_equal(sum(m), SIZE);
    assert_int_equal(state_of(m), SRV_MAPPED_OTHER);
    srv_mapped_close(m);
    m = open_whole();
    assert_int_equal(unlinkat(dir, "a", 0), 0);
    assert_int_equal(sum(m), SIZE);
    assert_int_equal(state_of(m), SRV_MAPPED_SAME);
    srv_mapped_close(m);
}

static void test_a_longer_file_does_no_harm(void **state) {
    (void)state;
    srv_mapped *m = open_whole();
    cut("a", 2 * SIZE);
    assert_int_equal(sum(m), SIZE);
    assert_int_equal(state_of(m), SRV_MAPPED_WRITTEN);
    srv_mapped_close(m);
}

static void set_mtime(time_t seconds) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(dir, "a", times, 0), 0);
}

/* Waits until the file's time of change is not so near that a later change may have it too. */
static srv_mapped_times settle(srv_mapped *m) {
    srv_mapped_times seen;
    do
        srv_mapped_check(m, &seen);
    while (!seen.changed);
    srv_mapped_accept(m, &seen);
    return seen;
}

static void test_a_change_in_place_is_noticed(void **state) {
    (void)state;
    srv_mapped *m = open_whole();
    set_mtime(1000);
    assert_int_equal(state_of(m), SRV_MAPPED_WRITTEN);
    settle(m);
    assert_int_equal(state_of(m), SRV_MAPPED_SAME);
    set_mtime(2000);
    assert_int_equal(state_of(m), SRV_MAPPED_WRITTEN);
    set_mtime(1000); /* as cp -p and rsync -t do */
    assert_int_equal(state_of(m), SRV_MAPPED_TOUCHED);
    settle(m);
    assert_int_equal(state_of(m), SRV_MAPPED_SAME);
    srv_mapped_close(m);
}

/* A file that has just been written may change again within the tick of its time. */
static void test_a_young_file_is_never_called_the_same(void **state) {
    (void)state;
    srv_mapped_times seen;
    srv_mapped *m = open_whole();
    set_mtime(1000);
    srv_mapped_check(m, &seen);
    srv_mapped_accept(m, &seen);
    if (!seen.changed)
        assert_int_equal(state_of(m), SRV_MAPPED_TOUCHED);
    srv_mapped_close(m);
}

static void test_a_file_gets_a_name_later(void **state) {
    (void)state;
    srv_mapped *m;
    put_file("b", SIZE);
    const int fd = openat(dir, "b", O_RDONLY);
    assert_int_equal(srv_mapped_open_fd(fd, &m), 0);
    close(fd);
    cut("b", SIZE + 1);
    assert_int_equal(state_of(m), SRV_MAPPED_SAME);
    assert_true(srv_mapped_name(m, dir, "b"));
    assert_int_equal(state_of(m), SRV_MAPPED_WRITTEN);
    srv_mapped_close(m);
    assert_int_equal(unlinkat(dir, "b", 0), 0);
}

static void test_what_cannot_be_mapped(void **state) {
    srv_mapped *m = NULL;
    (void)state;
    put_file("a", 0);
    assert_int_equal(srv_mapped_open(dir, "a", false, &m), ENODATA);
    assert_int_equal(srv_mapped_open(dir, "none", false, &m), ENOENT);
    assert_int_equal(srv_mapped_open(dir, ".", false, &m), EISDIR);
    assert_int_equal(symlinkat("a", dir, "b"), 0);
    assert_int_equal(srv_mapped_open(dir, "b", false, &m), ELOOP);
    put_file("a", 1);
    assert_int_equal(srv_mapped_open(dir, "b", true, &m), 0);
    srv_mapped_close(m);
    assert_int_equal(unlinkat(dir, "b", 0), 0);
    srv_mapped_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cut_of_any_size_is_noticed),
        cmocka_unit_test(test_a_lost_page_needs_no_look),
        cmocka_unit_test(test_another_file_of_the_name_does_no_harm),
        cmocka_unit_test(test_a_longer_file_does_no_harm),
        cmocka_unit_test(test_a_change_in_place_is_noticed),
        cmocka_unit_test(test_a_young_file_is_never_called_the_same),
        cmocka_unit_test(test_a_file_gets_a_name_later),
        cmocka_unit_test(test_what_cannot_be_mapped),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
