/* Checks of given weights: sums of rows, ranges, weights on padding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <attn/analysis.h>

static void test_sums_and_ranges(void **state) {
    (void)state;
    static const double rows[5][3] = {
        {0.5, 0.5, 0},       /* right */
        {0, 0, 0},           /* sees no key */
        {0.33, 0.33, 0.335}, /* rounded */
        {0.5, 0.4, 0},       /* sum 0.9 */
        {1.25, -0.5, 0.0},   /* outside twice, sum 0.75 */
    };
    attn_weights_faults f = {0};
    for (size_t i = 0; i < 3; i++)
        attn_weights_check(&f, i, rows[i], 3);
    assert_int_equal(f.sums, 0);
    assert_int_equal(f.outside, 0);
    for (size_t i = 3; i < 5; i++)
        attn_weights_check(&f, i, rows[i], 3);
    assert_int_equal(f.sums, 2);
    assert_int_equal(f.row, 4);
    assert_true(f.sum == 0.75);
    assert_int_equal(f.outside, 2);
    assert_int_equal(f.at_row, 4);
    assert_int_equal(f.at_key, 1); /* -0.5 is farther outside than 1.25 */
    assert_true(f.value == -0.5);
}

static void test_padding(void **state) {
    (void)state;
    static const size_t keys[2] = {3, 7};
    static const double rows[3][2] = {{0.25, 0}, {0, 0.5}, {0.125, 0.125}};
    attn_padding_mass p = {0};
    for (size_t i = 0; i < 3; i++)
        attn_padding_check(&p, 10 + i, rows[i], keys, 2);
    assert_true(p.mass == 1);
    assert_true(p.most == 0.5);
    assert_int_equal(p.rows, 3);
    assert_int_equal(p.row, 11);
    assert_int_equal(p.key, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_and_ranges),
        cmocka_unit_test(test_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
