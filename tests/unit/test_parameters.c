/* Parameter sets: what they begin with, what is loaded into them, what is refused; and what layers
 * do without any: dropout, the check of ids. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "layers/layers.h"

/* Dropout by its definition, and what it keeps on average. */
static void test_dropout(void **state) {
    enum { N = 10007 };
    static float x[N];
    size_t dropped = 0;
    for (size_t i = 0; i < N; i++)
        x[i] = 3;
    attn_dropout(x, N, 0, 0.25, 99);
    for (size_t i = 0; i < N; i++) {
        const bool gone = attn_rng_uniform(99, i) < 0.25;
        assert_true(x[i] == (gone ? 0 : 3 * (float)(1 / 0.75)));
        dropped += gone;
    }
    assert_true(dropped > 2300 && dropped < 2700);
    attn_dropout(x, N, 0, 0, 99);
    (void)state;
}

/* What PyTorch starts from: bounds and spreads by kind of layer; the same seed, the same bytes. */
static void test_init(void **state) {
    attn_parameters *sets[2];
    attn_linear linear[2];
    attn_embedding embedding[2];
    for (int i = 0; i < 2; i++) {
        sets[i] = attn_parameters_new();
        attn_linear_declare(&linear[i], sets[i], "linear", 100, 50, true);
        attn_embedding_declare(&embedding[i], sets[i], "embedding", 60, 50, 1, 0, 7);
        assert_int_equal(attn_parameters_seal(sets[i], false, NULL), ATTN_OK);
        attn_parameters_init(sets[i], 11);
    }
    double most = 0, squares = 0;
    for (size_t e = 0; e < 5000; e++)
        most = fmax(most, fabs((double)linear[0].weight.value[e]));
    assert_true(most <= 0.1 && most > 0.0995);
    for (size_t e = 0; e < 3000; e++)
        squares += (double)embedding[0].weight.value[e] * embedding[0].weight.value[e];
    assert_true(fabs(squares / 2950 - 1) < 0.1);
    for (size_t e = 0; e < 50; e++)
        assert_true(embedding[0].weight.value[7 * 50 + e] == 0);
    const size_t size = attn_parameters_size(sets[0]);
    assert_memory_equal(attn_parameters_values(sets[0]), attn_parameters_values(sets[1]),
                        size * sizeof(float));
    assert_int_equal(attn_parameters_count(sets[0], "linear"), 5050);
    assert_int_equal(attn_parameters_count(sets[0], ""), 8050);
    assert_int_equal(attn_parameters_count(sets[0], "lin"), 0);
    attn_parameters_init(sets[1], 12);
    assert_memory_not_equal(attn_parameters_values(sets[0]), attn_parameters_values(sets[1]),
                            size * sizeof(float));
    for (int i = 0; i < 2; i++)
        attn_parameters_free(sets[i]);
    (void)state;
}

static void refuses(attn_parameters *set, const char *name, const attn_tensor *t, size_t count,
                    attn_status status, const char *where) {
    const char *names[2] = {"m.weight", name};
    const float zeros[6] = {0};
    const size_t dims[2] = {2, 3};
    attn_tensor tensors[2] = {attn_tensor_dense((void *)(uintptr_t)zeros, ATTN_F32, 2, dims), *t};
    attn_error err = {0};
    assert_int_equal(attn_parameters_load(set, count, names, tensors, NULL, &err), status);
    assert_string_equal(err.where, where);
}

static void test_loading(void **state) {
    attn_parameters *set = attn_parameters_new();
    attn_linear linear;
    float bias[3] = {1, 2, NAN};
    const size_t two = 2, three = 3;
    attn_tensor t = attn_tensor_dense(bias, ATTN_F32, 1, &two);
    attn_linear_declare(&linear, set, "m", 3, 2, true);
    assert_int_equal(attn_parameters_seal(set, false, NULL), ATTN_OK);
    linear.bias.value[0] = 5;
    refuses(set, "m.bias", &t, 1, ATTN_EARG, "m.bias");
    refuses(set, "m.other", &t, 2, ATTN_EARG, "m.other");
    t.dims[0] = three;
    refuses(set, "m.bias", &t, 2, ATTN_ESHAPE, "m.bias");
    t.dims[0] = two;
    t.data = bias + 1;
    refuses(set, "m.bias", &t, 2, ATTN_ENONFINITE, "m.bias");
    t.data = bias;
    t.dtype = ATTN_I32;
    refuses(set, "m.bias", &t, 2, ATTN_EDTYPE, "m.bias");
    assert_true(linear.bias.value[0] == 5);
    t.dtype = ATTN_F32;
    refuses(set, "m.bias", &t, 2, ATTN_OK, "");
    assert_true(linear.bias.value[0] == 1 && linear.bias.value[1] == 2);
    attn_parameters_free(set);
    set = attn_parameters_new();
    attn_linear_declare(&linear, set, "m", 3, 2, false);
    attn_linear_declare(&linear, set, "m", 3, 2, false);
    assert_int_equal(attn_parameters_seal(set, false, NULL), ATTN_EARG);
    attn_parameters_free(set);
    (void)state;
}

static void test_ids(void **state) {
    const int32_t ids[3] = {0, 4, -1};
    attn_error err = {0};
    assert_int_equal(attn_ids_check(ids, 2, 5, "source/1", &err), ATTN_OK);
    assert_int_equal(attn_ids_check(ids, 2, 4, "source/1", &err), ATTN_EVALUE);
    assert_string_equal(err.where, "source/1/1");
    assert_int_equal(attn_ids_check(ids, 3, 5, "source/1", &err), ATTN_EVALUE);
    assert_string_equal(err.where, "source/1/2");
    (void)state;
}

static void test_sets_that_cannot_be(void **state) {
    const size_t dims[4] = {2, 2, 2, 2};
    attn_weight weight, late;
    attn_error err;
    (void)state;
    attn_parameters *set = attn_parameters_new();
    attn_parameters_add(set, "deep", 4, dims, (attn_init){.kind = ATTN_INIT_CONSTANT}, &weight);
    assert_int_equal(attn_parameters_seal(set, true, &err), ATTN_EARG);
    assert_string_equal(err.where, "deep");
    attn_parameters_free(set);
    set = attn_parameters_new();
    attn_parameters_add(set, "flat", 2, dims, (attn_init){.kind = ATTN_INIT_CONSTANT}, &weight);
    assert_int_equal(attn_parameters_seal(set, true, &err), ATTN_OK);
    assert_int_equal(attn_parameters_seal(set, true, &err), ATTN_EARG);
    attn_parameters_add(set, "late", 2, dims, (attn_init){.kind = ATTN_INIT_CONSTANT}, &late);
    assert_null(late.value);
    attn_parameters_free(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets_that_cannot_be),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_loading),
        cmocka_unit_test(test_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
