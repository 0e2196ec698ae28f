/* Losses of where heads look: gradients beside differences, one weight at a time, and the ends of
 * their ranges. Beside PyTorch: test_models.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "layers/layers.h"

enum { LOOKS_B = 2, LOOKS_H = 3, LOOKS_L = 3, LOOKS_S = 4 };
enum { LOOKS = LOOKS_B * LOOKS_H * LOOKS_L * LOOKS_S };

typedef struct site_case {
    float weights[LOOKS], gold[LOOKS_B * LOOKS_L * LOOKS_S];
    int64_t rows[LOOKS_B];
} site_case;

typedef double site_loss(const site_case *l, float *dweights, double amount);

static double aligned(const site_case *l, float *dweights, double amount) {
    return attn_alignment_loss(dweights, l->weights, l->gold, LOOKS_B, LOOKS_H, LOOKS_L, LOOKS_S,
                               amount);
}

static double alike(const site_case *l, float *dweights, double amount) {
    return attn_similarity_loss(dweights, l->weights, l->rows, LOOKS_B, LOOKS_H, LOOKS_L, LOOKS_S,
                                amount);
}

/* Rows that sum to 1; the second sequence has one row less, and a row without gold. */
static site_case draw_looks(void) {
    site_case l = {.rows = {LOOKS_L, LOOKS_L - 1}};
    for (size_t i = 0; i < LOOKS; i += LOOKS_S) {
        float sum = 0;
        for (size_t j = 0; j < LOOKS_S; j++)
            sum += l.weights[i + j] = (float)(0.1 + attn_rng_uniform(4, i + j));
        for (size_t j = 0; j < LOOKS_S; j++)
            l.weights[i + j] /= sum;
    }
    for (size_t i = 0; i < LOOKS_B * LOOKS_L - 1; i++) {
        l.gold[i * LOOKS_S + i % LOOKS_S] += 0.5f;
        l.gold[i * LOOKS_S + (i + i / 2) % LOOKS_S] += 0.5f;
    }
    return l;
}

static void check_looks(site_loss *loss, double amount) {
    site_case l = draw_looks();
    float gradient[LOOKS];
    const double h = 2e-4;
    for (size_t i = 0; i < LOOKS; i++)
        gradient[i] = 1; /* added to */
    assert_true(loss(&l, gradient, amount) == loss(&l, NULL, 0));
    for (size_t i = 0; i < LOOKS; i++) {
        const float kept = l.weights[i];
        l.weights[i] = (float)(kept + h);
        const double above = loss(&l, NULL, 0), to = l.weights[i];
        l.weights[i] = (float)(kept - h);
        const double found = amount * (above - loss(&l, NULL, 0)) / (to - l.weights[i]);
        l.weights[i] = kept;
        assert_float_equal(gradient[i] - 1, found, 1e-4);
    }
}

static void test_differences(void **state) {
    (void)state;
    check_looks(aligned, 0.7);
    check_looks(alike, 1.3);
}

/* Heads that look at the same keys, and heads that look at different ones. */
static void test_bounds_of_similarity(void **state) {
    (void)state;
    site_case l = draw_looks();
    for (size_t i = 0; i < LOOKS; i++)
        l.weights[i] = i % LOOKS_S == 1 ? 0.9f : 0.1f / (LOOKS_S - 1);
    assert_float_equal(alike(&l, NULL, 0), 1, 1e-6);
    for (size_t i = 0; i < LOOKS; i++)
        l.weights[i] = i % LOOKS_S == i / (LOOKS_L * LOOKS_S) % LOOKS_H;
    assert_float_equal(alike(&l, NULL, 0), 0, 1e-6);
    assert_true(attn_similarity_loss(NULL, l.weights, l.rows, LOOKS_B, 1, LOOKS_L, LOOKS_S, 0) ==
                0);
}

/* What is nowhere said costs nothing; what is missed entirely costs a bounded amount. */
static void test_bounds_of_alignment(void **state) {
    (void)state;
    site_case l = draw_looks();
    memset(l.gold, 0, sizeof l.gold);
    assert_true(aligned(&l, NULL, 0) == 0);
    l.gold[1] = 1, l.weights[1] = 0;
    assert_float_equal(aligned(&l, NULL, 0), log(1e6), 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_bounds_of_similarity),
        cmocka_unit_test(test_bounds_of_alignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
