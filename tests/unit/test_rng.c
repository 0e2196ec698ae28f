/* The generator against values worked out in Python from the formulas of rng.h (seed 1234567 is the
 * published test vector of SplitMix64), its moments, and its indifference to how work is split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "attn/rng.h"

static void test_bits_match_the_published_stream(void **state) {
    (void)state;
    assert_true(attn_rng_bits(1234567, 0) == 6457827717110365317u);
    assert_true(attn_rng_bits(1234567, 1) == 3203168211198807973u);
    assert_true(attn_rng_bits(0, 0) == 0xe220a8397b1dcdafu);
    assert_true(attn_rng_bits(0, (uint64_t)1 << 63) == 0x481ec0a212a9f3dbu);
    assert_true(attn_rng_bits(UINT64_MAX, 2) == 0x382ff84cb27281e9u);
}

static void test_normals_match_python(void **state) {
    (void)state;
    static const struct {
        uint64_t seed, index;
        double value;
    } known[] = {
        {0, 0, -1.8839083333524405},        {0, 1, 0.22760793546360525},
        {0, 2, -0.22143788059715477},       {7, 0, 0.9884743323187353},
        {7, 1, -1.8642558067312274},        {7, 3, -0.5292707004741914},
        {UINT64_MAX, 0, 1.806895942211186},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double got = attn_rng_normal(known[i].seed, known[i].index);
        assert_true(fabs(got - known[i].value) <= 4e-15);
    }
}

static void test_moments(void **state) {
    (void)state;
    enum { N = 200000 };
    double mean = 0, square = 0, cube = 0, uniform = 0, low = 1, high = 0;
    for (size_t i = 0; i < N; i++) {
        double v = attn_rng_normal(42, i), u = attn_rng_uniform(42, i);
        mean += v, square += v * v, cube += v * v * v, uniform += u;
        low = fmin(low, u), high = fmax(high, u);
    }
    assert_true(fabs(mean / N) < 0.01 && fabs(square / N - 1) < 0.02 && fabs(cube / N) < 0.05);
    assert_true(fabs(uniform / N - 0.5) < 0.005 && low >= 0 && low < 1e-4);
    assert_true(high < 1 && high > 0.9999);
}

static void test_fill_does_not_depend_on_the_split(void **state) {
    (void)state;
    float whole[101], parts[101];
    attn_rng_fill_normal(whole, 101, 9, 5);
    attn_rng_fill_normal(parts, 37, 9, 5);
    attn_rng_fill_normal(parts + 37, 64, 9, 42);
    assert_memory_equal(whole, parts, sizeof whole);
    assert_true(whole[3] == (float)attn_rng_normal(9, 8));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_match_the_published_stream),
        cmocka_unit_test(test_normals_match_python),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_fill_does_not_depend_on_the_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
