/* The memory budget: reserves of one thread's work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "load/budget.h"

enum { TOTAL = 1 << 22, MIB = 1 << 20 };

static void test_a_reserve_is_counted_and_bounds(void **state) {
    srv_reserve r;
    (void)state;
    const size_t before = srv_budget_used();
    assert_true(srv_budget_reserve(&r, 2 * MIB));
    assert_int_equal(srv_budget_used(), before + 2 * MIB);
    srv_budget_enter(&r);
    void *one = attn_alloc(MIB), *two = attn_alloc(MIB + 1);
    assert_non_null(one);
    assert_null(two); /* beyond the reserve, though the budget has it */
    assert_int_equal(srv_budget_used(), before + 2 * MIB);
    attn_free(one);
    assert_int_equal(r.used, 0);
    assert_true(r.peak >= MIB);
    srv_budget_enter(NULL);
    srv_budget_release(&r);
    assert_int_equal(srv_budget_used(), before);
}

static void test_what_outlives_it_is_anybodys(void **state) {
    srv_reserve r;
    (void)state;
    const size_t before = srv_budget_used();
    assert_true(srv_budget_reserve(&r, 2 * MIB));
    srv_budget_enter(&r);
    void *kept = attn_alloc(MIB);
    srv_budget_enter(NULL);
    srv_budget_release(&r);
    assert_int_equal(srv_budget_used(), before + attn_block_size(kept));
    attn_free(kept);
    assert_int_equal(srv_budget_used(), before);
}

static void test_what_is_not_there_cannot_be_reserved(void **state) {
    srv_reserve r, other;
    (void)state;
    assert_false(srv_budget_reserve(&r, TOTAL + 1));
    assert_false(srv_budget_reserve(&r, SIZE_MAX));
    assert_true(srv_budget_reserve(&r, 3 * MIB));
    assert_false(srv_budget_reserve(&other, 2 * MIB));
    assert_null(attn_alloc(2 * MIB));
    srv_budget_release(&r);
    srv_budget_leave(3 * MIB);
    assert_false(srv_budget_reserve(&r, 2 * MIB));
    srv_budget_leave(0);
    assert_true(srv_budget_reserve(&r, 2 * MIB));
    srv_budget_release(&r);
}

/* Both sizes at once would not fit. */
static void test_a_block_grows_within_it(void **state) {
    (void)state;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const size_t before = srv_budget_used();
    char *p = attn_alloc(5 * MIB / 2);
    p[5 * MIB / 2 - 1] = 'a';
    assert_null(srv_budget_grow(p, TOTAL + 1));
    assert_int_equal(srv_budget_used(), before + attn_block_size(p));
    p = srv_budget_grow(p, 7 * MIB / 2);
    assert_non_null(p);
    assert_int_equal(p[5 * MIB / 2 - 1], 'a');
    assert_int_equal(srv_budget_used(), before + attn_block_size(p));
    srv_budget_leave(MIB);
    assert_null(srv_budget_grow(p, 15 * MIB / 4));
    srv_budget_leave(0);
    attn_free(p);
    assert_int_equal(srv_budget_used(), before);
#else
    skip(); /* where nothing grows */
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_reserve_is_counted_and_bounds),
        cmocka_unit_test(test_what_outlives_it_is_anybodys),
        cmocka_unit_test(test_what_is_not_there_cannot_be_reserved),
        cmocka_unit_test(test_a_block_grows_within_it),
    };
    srv_budget_start(TOTAL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
