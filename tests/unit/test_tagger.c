/* The experiments' small encoder: its gradients beside differences of the loss, for every kind of
 * positions; and it is causal. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "experiments/tagger.h"

enum { B = 2, T = 5, SYMBOLS = 6 };

static const int32_t ids[B * T] = {1, 3, 2, 5, 4, 2, 2, 0, 1, 5},
                             wanted[B * T] = {0, 1, 3, 2, 5, 0, 2, 2, 0, 1};

typedef struct kit {
    attn_lab lab;
    attn_experiment about;
    attn_setting seed;
    double value;
    attn_experiment_hooks hooks;
    attn_error err;
    attn_tagger tagger;
} kit;

static void open_kit(kit *k, attn_tagger_positions positions) {
    memset(k, 0, sizeof *k);
    k->seed = (attn_setting){.name = "seed"};
    k->about = (attn_experiment){.name = "test", .settings = &k->seed, .setting_count = 1};
    k->value = 5;
    k->lab = (attn_lab){.about = &k->about,
                        .values = &k->value,
                        .hooks = &k->hooks,
                        .work = attn_arena_new((size_t)1 << 26),
                        .scratch = attn_arena_new((size_t)1 << 26),
                        .err = &k->err};
    k->tagger = (attn_tagger){.symbols = SYMBOLS,
                              .width = 8,
                              .heads = 2,
                              .max_distance = 3,
                              .longest = 8,
                              .positions = positions};
    assert_true(attn_tagger_open(&k->lab, &k->tagger));
}

static void close_kit(kit *k) {
    attn_parameters_free(k->tagger.set);
    attn_arena_free(k->lab.scratch);
    attn_arena_free(k->lab.work);
}

static double loss_of(kit *k, bool learn) {
    attn_cross_entropy_loss loss;
    attn_lab_scratch(&k->lab);
    assert_true(attn_tagger_pass(&k->lab, &k->tagger, ids, wanted, B, T, learn, &loss, NULL));
    return loss.loss;
}

/* Along the gradient itself, and along random directions of each parameter. */
static void check_positions(attn_tagger_positions positions) {
    kit k;
    open_kit(&k, positions);
    attn_parameters *set = k.tagger.set;
    float *values = attn_parameters_values(set), *gradients = attn_parameters_gradients(set);
    attn_parameters_zero_gradients(set);
    loss_of(&k, true);
    for (size_t p = 0; p < attn_parameters_length(set); p++) {
        const attn_parameter *at = attn_parameters_at(set, p);
        double size = 0;
        for (size_t i = 0; i < at->count; i++)
            size += fabs((double)gradients[at->offset + i]);
        if (size < 1e-6)
            continue; /* biases of keys do not matter to a softmax */
        const float step = 0.01F / (float)sqrt((double)at->count);
        double slope = 0, change[2];
        for (int way = 0; way < 2; way++) {
            for (size_t i = 0; i < at->count; i++)
                values[at->offset + i] +=
                    (way ? -2 : 1) * step * (gradients[at->offset + i] < 0 ? -1 : 1);
            change[way] = loss_of(&k, false);
        }
        for (size_t i = 0; i < at->count; i++) {
            values[at->offset + i] += step * (gradients[at->offset + i] < 0 ? -1 : 1);
            slope += fabs((double)gradients[at->offset + i]);
        }
        const double found = (change[0] - change[1]) / (2 * (double)step);
        if (fabs(found - slope) > 0.02 * slope + 2e-3)
            fail_msg("%s: %g, by differences %g", at->name, slope, found);
    }
    close_kit(&k);
}

static void test_gradients(void **state) {
    (void)state;
    for (int p = 0; p < ATTN_TAGGER_POSITIONS; p++)
        check_positions((attn_tagger_positions)p);
}

static void test_no_place_sees_the_next(void **state) {
    (void)state;
    kit k;
    attn_cross_entropy_loss loss;
    const float *logits;
    float before[T * SYMBOLS];
    int32_t other[B * T];
    open_kit(&k, ATTN_TAGGER_SINUSOIDAL);
    attn_lab_scratch(&k.lab);
    assert_true(attn_tagger_pass(&k.lab, &k.tagger, ids, wanted, B, T, false, &loss, &logits));
    memcpy(before, logits, sizeof before);
    memcpy(other, ids, sizeof other);
    other[T - 1] = 1; /* the last symbol of the first sequence */
    attn_lab_scratch(&k.lab);
    assert_true(attn_tagger_pass(&k.lab, &k.tagger, other, wanted, B, T, false, &loss, &logits));
    for (size_t i = 0; i < (T - 1) * SYMBOLS; i++)
        assert_float_equal(logits[i], before[i], 1e-6);
    float most = 0;
    for (size_t i = (T - 1) * SYMBOLS; i < T * SYMBOLS; i++)
        most = fmaxf(most, fabsf(logits[i] - before[i]));
    assert_true(most > 1e-3F);
    close_kit(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_no_place_sees_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
