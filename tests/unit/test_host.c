/* Processors and memory from cgroup trees made for the test; the memory budget behind the hook. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "attn/memory.h"
#include "load/budget.h"
#include "system/host.h"

static char root[] = "/tmp/test_host_XXXXXX";

/* A file below the root, with the folders above it. */
static void put(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state) {
    (void)state;
    strcpy(root, "/tmp/test_host_XXXXXX");
    return !mkdtemp(root);
}

static int remove_root(void **state) {
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void test_no_cgroups(void **state) {
    (void)state;
    assert_true(srv_host_processors(root) >= 1);
    assert_true(srv_host_memory(root) > 1 << 20);
}

static void test_version_2(void **state) {
    (void)state;
    size_t all = srv_host_processors(root);
    put("/proc/self/cgroup", "0::/pod/box\n");
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/pod/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/pod/box/memory.max", "max\n");
    assert_int_equal(srv_host_processors(root), all);
    put("/sys/fs/cgroup/pod/box/cpu.max", "199999 100000\n");
    assert_int_equal(srv_host_processors(root), 1);
    put("/sys/fs/cgroup/pod/box/cpu.max", "10000 100000\n");
    assert_int_equal(srv_host_processors(root), 1);
    put("/sys/fs/cgroup/pod/box/memory.max", "50000000\n");
    assert_int_equal(srv_host_memory(root), 50000000);
    put("/sys/fs/cgroup/pod/memory.max", "40000000\n");
    assert_int_equal(srv_host_memory(root), 40000000);
}

static void test_parent_group_counts(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/pod/box\n");
    put("/sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/pod/cpu.max", "100000 100000\n");
    assert_int_equal(srv_host_processors(root), 1);
}

static void test_version_1(void **state) {
    (void)state;
    size_t all = srv_host_processors(root);
    put("/proc/self/cgroup", "5:memory:/box\n4:cpu,cpuacct:/box\n1:name=systemd:/x\n");
    put("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
    assert_int_equal(srv_host_processors(root), all);
    put("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(srv_host_processors(root), 1);
    put("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "70000000\n");
    assert_int_equal(srv_host_memory(root), 70000000);
    put("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(srv_host_memory(root) > 70000000);
}

static void test_group_at_the_root(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "60000000\n");
    assert_int_equal(srv_host_memory(root), 60000000);
}

static void test_read_file(void **state) {
    char path[64], *text = NULL;
    size_t size = 0;
    (void)state;
    char *large = malloc(100001);
    assert_non_null(large);
    memset(large, 'x', 100000);
    large[100000] = 0;
    put("/large", large);
    snprintf(path, sizeof path, "%s/large", root);
    assert_int_equal(srv_read_file(path, &text, &size), 0);
    assert_int_equal(size, 100000);
    assert_string_equal(text, large);
    free(text);
    free(large);
    assert_int_equal(srv_read_file(root, &text, &size), EISDIR);
    snprintf(path, sizeof path, "%s/absent", root);
    assert_int_equal(srv_read_file(path, &text, &size), ENOENT);
}

static void test_budget(void **state) {
    (void)state;
    srv_budget_start(1 << 20);
    size_t refusals = srv_budget_refusals();
    void *half = attn_alloc(1 << 19);
    assert_non_null(half);
    assert_true(srv_budget_used() >= 1 << 19);
    size_t left = srv_budget_free();
    assert_true(left >= (1 << 19) - 4096 && left <= 1 << 19);
    srv_budget_leave(1 << 18);
    assert_int_equal(srv_budget_free(), left - (1 << 18));
    assert_null(attn_alloc((1 << 18) + 64));
    srv_budget_leave(2 << 20);
    assert_int_equal(srv_budget_free(), 0);
    assert_null(attn_alloc(1));
    srv_budget_leave(0);
    assert_null(attn_alloc((1 << 19) + 1));
    assert_null(attn_alloc(SIZE_MAX));
    assert_null(attn_alloc(SIZE_MAX - ATTN_ALIGN));
    assert_int_equal(srv_budget_refusals() - refusals, 5);
    attn_arena *arena = attn_arena_new(1 << 20);
    assert_non_null(attn_arena_take(arena, 1 << 18));
    assert_null(attn_arena_take(arena, 1 << 19));
    attn_arena_free(arena);
    attn_free(half);
    assert_int_equal(srv_budget_used(), 0);
    attn_set_allocator(NULL, NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_no_cgroups),         TEST(test_version_2),         TEST(test_parent_group_counts),
        TEST(test_version_1),          TEST(test_group_at_the_root), TEST(test_read_file),
        cmocka_unit_test(test_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
