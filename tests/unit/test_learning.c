/* The table of a training run's options has the library's names and defaults. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jobs/jobs.h"

static const srv_field *row(const char *name) {
    const srv_field *f = srv_job_fields;
    while (f->name && strcmp(f->name, name) != 0)
        f++;
    return f->name ? f : NULL;
}

static void test_names_are_those_of_the_library(void **state) {
    (void)state;
    assert_string_equal(row("task")->choices[ATTN_WORD_CLASSES], "word-classes");
    assert_string_equal(row("schedule")->choices[ATTN_CONSTANT], "constant");
    assert_string_equal(row("schedule")->choices[ATTN_INVERSE_ROOT], "inverse-root");
    assert_string_equal(row("schedule")->choices[ATTN_COSINE], "cosine");
}

static void test_defaults_are_within_their_ranges(void **state) {
    srv_train_options w;
    (void)state;
    srv_train_defaults(&w);
    for (const srv_field *f = srv_job_fields; f->offset < sizeof w; f++) {
        const char *place = (const char *)&w + f->offset;
        const double x = f->kind == SRV_INT    ? (double)*(const int64_t *)place
                         : f->kind == SRV_REAL ? *(const double *)place
                                               : f->min;
        if (f->offset == offsetof(srv_train_options, model.attention_dropout_p))
            assert_true(isnan(x)); /* that of dropout_p */
        else
            assert_true(x >= f->min && x <= f->max);
    }
}

static void test_what_decides_is_said(void **state) {
    srv_train_options w;
    char one[SRV_TRAIN_TEXT], two[SRV_TRAIN_TEXT];
    (void)state;
    srv_train_defaults(&w);
    srv_train_say(&w, one);
    w.num_scored_pairs = 7, w.loop.checkpoint_every = 9;
    srv_train_say(&w, two);
    assert_string_equal(one, two);
    assert_non_null(strstr(one, "task=en-fr large=false"));
    w.model.attention_dropout_p = 0;
    srv_train_say(&w, two);
    assert_non_null(strstr(two, " attention_dropout_p=0 "));
    w.loop.rate *= 1 + 1e-15;
    srv_train_say(&w, two);
    assert_string_not_equal(one, two);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_those_of_the_library),
        cmocka_unit_test(test_defaults_are_within_their_ranges),
        cmocka_unit_test(test_what_decides_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
