/* Work that is not the operation's own ends at the deadline as well, or is not done at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include <attn/attn.h>

enum { LIMIT = 1 << 28 };
static const int64_t second = 1000000000;

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_attention *a;
    attn_results out;
    attn_error err;
} trial;

static attn_tensor column(attn_arena *arena, size_t rows, float value) {
    float *data = attn_arena_zeroed(arena, rows, sizeof *data);
    assert_non_null(data);
    for (size_t r = 0; r < rows; r++)
        data[r] = value;
    return attn_tensor_dense(data, ATTN_F32, 2, (size_t[]){rows, 1});
}

static trial make_trial(size_t L, size_t S, float key) {
    trial t = {.arena = attn_arena_new(LIMIT), .in = attn_attention_defaults()};
    assert_non_null(t.arena);
    t.in.query = column(t.arena, L, 1);
    t.in.key = column(t.arena, S, key);
    return t;
}

static attn_status run(trial *t, int64_t nanoseconds) {
    const attn_control control = {.deadline_ns = attn_now_ns() + nanoseconds};
    attn_status status = attn_attention_new(&t->in, t->arena, &t->a, &t->err);
    assert_int_equal(status, ATTN_OK);
    return attn_attention_run(t->a, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, NULL, &control, t->arena,
                              &t->out, &t->err);
}

/* Minutes of verification: between rows, and inside of a long one. */
static void test_verification(void **state) {
    static const size_t keys[] = {1000, 1000000}, rows[] = {100000000, 1};
    (void)state;
    for (size_t n = 0; n < 2; n++) {
        trial t = make_trial(1, keys[n], 1);
        attn_verification v;
        assert_int_equal(run(&t, 100 * second), ATTN_OK);
        const attn_control control = {.deadline_ns = attn_now_ns() + (n ? 1 : second / 50)};
        assert_int_equal(
            attn_attention_verify(t.a, &t.out, rows[n], 1, &control, t.arena, &v, &t.err),
            ATTN_EDEADLINE);
        attn_arena_free(t.arena);
    }
}

/* Keys of NaN behind every row's interval are not looked at. */
static void test_hidden_by_length(void **state) {
    trial t = make_trial(20000, 20000, NAN);
    int64_t none = 0;
    (void)state;
    t.in.mask.layers[t.in.mask.count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_LENGTHS,
                          .where = "key_lengths",
                          .values = attn_tensor_dense(&none, ATTN_I64, 1, (size_t[]){1})};
    assert_int_equal(run(&t, 2 * second), ATTN_OK);
    attn_arena_free(t.arena);
}

/* Those that bytes hide are, until the deadline. */
static void test_hidden_by_bytes(void **state) {
    enum { S = 20000, L = 400000 };
    trial t = make_trial(L, S, NAN);
    uint8_t keep[S] = {0};
    (void)state;
    t.in.mask.layers[t.in.mask.count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_VALUES,
                          .where = "attn_mask",
                          .values = attn_tensor_dense(keep, ATTN_BOOL, 2, (size_t[]){1, S})};
    const int64_t start = attn_now_ns();
    assert_int_equal(run(&t, second / 10), ATTN_EDEADLINE);
    assert_true(attn_now_ns() - start < second);
    keep[S - 1] = 1;
    t.in.query.dims[0] = 3;
    assert_int_equal(run(&t, 100 * second), ATTN_ENONFINITE);
    assert_string_equal(t.err.where, "key/19999/0");
    attn_arena_free(t.arena);
}

/* Cells of no width are cells. */
static void test_empty_vectors(void **state) {
    trial t = make_trial(100000, 100000, 1);
    (void)state;
    t.in.query.dims[1] = t.in.key.dims[1] = 0;
    const int64_t start = attn_now_ns();
    assert_int_equal(run(&t, second / 20), ATTN_EDEADLINE);
    assert_true(attn_now_ns() - start < second / 2);
    attn_arena_free(t.arena);
}

/* A piece of the way back that is all of it. */
static void test_gradients(void **state) {
    trial t = make_trial(100000, 100, 1);
    attn_gradients gradients;
    int64_t took[2];
    (void)state;
    t.in.softcap = 2; /* so that memory and packing are a small part of it */
    assert_int_equal(run(&t, 100 * second), ATTN_OK);
    for (int stopped = 0; stopped < 2; stopped++) {
        const attn_arena_mark mark = attn_arena_here(t.arena);
        const int64_t start = attn_now_ns();
        const attn_control control = {.deadline_ns =
                                          stopped ? start + took[0] / 50 : start + 100 * second};
        assert_int_equal(attn_attention_backward(t.a, &t.out, &t.out.output, NULL, &control,
                                                 t.arena, &gradients, &t.err),
                         stopped ? ATTN_EDEADLINE : ATTN_OK);
        took[stopped] = attn_now_ns() - start;
        attn_arena_rewind(t.arena, &mark);
    }
    assert_true(took[1] < took[0] / 2);
    attn_arena_free(t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verification),    cmocka_unit_test(test_hidden_by_length),
        cmocka_unit_test(test_hidden_by_bytes), cmocka_unit_test(test_empty_vectors),
        cmocka_unit_test(test_gradients),
    };
    return cmocka_run_group_tests_name("stopping", tests, NULL, NULL);
}
