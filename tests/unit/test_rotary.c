/* Parameters of rotary positions: what is refused, and angles with known values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <attn/attn.h>

enum { PAIRS = 3, ROWS = 5 };

static attn_position usual(void) {
    return (attn_position){
        .kind = ATTN_POSITION_ROTARY, .rotary = ATTN_ROTARY_HALVES, .dims = 2 * PAIRS};
}

static attn_status make(const attn_position *p, double *cosines, double *sines, attn_error *err) {
    attn_arena *arena = attn_arena_new(1 << 20);
    assert_non_null(arena);
    const attn_status status = attn_rotary_table(p, NULL, ROWS, cosines, sines, NULL, arena, err);
    attn_arena_free(arena);
    return status;
}

static void refuses(const attn_position *p, attn_status code, const char *where) {
    double c[ROWS * PAIRS], s[ROWS * PAIRS];
    attn_error err = {.code = ATTN_OK};
    assert_int_equal(make(p, c, s, &err), code);
    assert_string_equal(err.where, where);
}

static attn_tensor list(float *numbers, size_t n) {
    return attn_tensor_dense(numbers, ATTN_F32, 1, &n);
}

static void test_refused(void **state) {
    float numbers[PAIRS] = {1, NAN, 2}, good[PAIRS] = {1, 2, 3};
    const double bad[] = {NAN, INFINITY, -1};
    attn_position p;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        p = usual(), p.factor = bad[i];
        refuses(&p, ATTN_EARG, "position/factor");
        p = usual(), p.base = bad[i];
        refuses(&p, ATTN_EARG, "position/base");
        p = usual(),
        p.scaling = (attn_rotary_scaling){.kind = ATTN_SCALING_LINEAR, .factor = bad[i]};
        refuses(&p, ATTN_EARG, "position/scaling/factor");
    }
    p = usual(), p.frequencies = list(numbers, PAIRS);
    refuses(&p, ATTN_ENONFINITE, "position/frequencies/1");
    p.frequencies = list(good, PAIRS - 1);
    refuses(&p, ATTN_ESHAPE, "position/frequencies");
    p.frequencies = list(good, PAIRS), p.scaling.kind = ATTN_SCALING_LINEAR;
    refuses(&p, ATTN_EARG, "position/scaling");
    p = usual(), p.scaling.kind = (attn_scaling_kind)(ATTN_SCALING_LONGROPE + 1);
    refuses(&p, ATTN_EARG, "position/scaling/kind");
    p.scaling.kind = ATTN_SCALING_LONGROPE;
    refuses(&p, ATTN_EARG, "position/scaling/original_max_position_embeddings");
    p.scaling.original_max_position_embeddings = 9;
    refuses(&p, ATTN_EARG, "position/scaling/short_factor");
    p.scaling.short_factor = list(good, PAIRS), p.scaling.long_factor = list(numbers, PAIRS);
    refuses(&p, ATTN_ENONFINITE, "position/scaling/long_factor/1");
}

/* Row 4, pair t, of a table with these frequencies and this factor. */
static void same(const attn_position *p, const double frequencies[PAIRS], double factor) {
    double c[ROWS * PAIRS], s[ROWS * PAIRS];
    attn_error err = {.code = ATTN_OK};
    assert_int_equal(make(p, c, s, &err), ATTN_OK);
    for (size_t t = 0; t < PAIRS; t++) {
        assert_true(fabs(c[4 * PAIRS + t] - factor * cos(4 * frequencies[t])) < 1e-6);
        assert_true(fabs(s[4 * PAIRS + t] - factor * sin(4 * frequencies[t])) < 1e-6);
    }
}

static void test_known(void **state) {
    float given[PAIRS] = {0.5f, 0, -2}, halves[PAIRS] = {2, 2, 2}, thirds[PAIRS] = {3, 3, 3};
    attn_position p = usual();
    attn_rotary_scaling *s = &p.scaling;
    (void)state;
    p.base = 1e6, p.factor = 2;
    same(&p, (const double[]){1, 0.01, 0.0001}, 2);
    p.base = 0, p.frequencies = list(given, PAIRS);
    same(&p, (const double[]){0.5, 0, -2}, 2);
    p = usual(), p.base = 1e6;
    *s = (attn_rotary_scaling){.kind = ATTN_SCALING_LINEAR, .factor = 4};
    same(&p, (const double[]){0.25, 0.0025, 0.000025}, 1);
    /* wavelengths are 6.28, 628 and 62832; between 471 and 942 is a mean */
    s->kind = ATTN_SCALING_LLAMA3, s->original_max_position_embeddings = 942;
    s->low_freq_factor = 1, s->high_freq_factor = 2;
    const double part = 942 * 0.01 / (2 * acos(-1)) - 1;
    const double middle = (1 - part) * 0.0025 + part * 0.01;
    same(&p, (const double[]){1, middle, 0.000025}, 1);
    *s = (attn_rotary_scaling){.kind = ATTN_SCALING_LONGROPE,
                               .factor = 8,
                               .original_max_position_embeddings = 8,
                               .short_factor = list(halves, PAIRS),
                               .long_factor = list(thirds, PAIRS)};
    same(&p, (const double[]){1.0 / 2, 0.01 / 2, 0.0001 / 2}, sqrt(2));
    s->original_max_position_embeddings = 4, s->attention_factor = 3;
    same(&p, (const double[]){1.0 / 3, 0.01 / 3, 0.0001 / 3}, 3);
    *s = (attn_rotary_scaling){.kind = ATTN_SCALING_DYNAMIC, .factor = 2};
    s->original_max_position_embeddings = 5;
    same(&p, (const double[]){1, 0.01, 0.0001}, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
