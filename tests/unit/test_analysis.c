/* Measures and distances of heads: the same bytes for any pool, clean failures, exact logarithms;
 * the memory that a full matrix would take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "analysis/sums.h"
#include "attn/analysis.h"
#include "attn/attn.h"
#include "unit/heatmap_source.h"
#include "unit/normal_tensor.h"

static attn_status analyse(matrix *m, attn_pool *pool, size_t limit, attn_measures *measures,
                           attn_head_distances **distances, attn_arena **arena) {
    const attn_weight_source source = source_of(m);
    const attn_measure_options options = attn_measure_defaults();
    attn_error err = {0};
    *arena = attn_arena_new(limit);
    assert_non_null(*arena);
    attn_status status = attn_measure_heads(&source, &options, pool, NULL, *arena, measures, &err);
    if (!status)
        status = attn_head_distances_measure(&source, NULL, NULL, NULL, pool, NULL, *arena,
                                             distances, &err);
    assert_true(!status || err.text[0]);
    return status;
}

static void test_any_pool(void **state) {
    (void)state;
    matrix m = matrix_new(2, 3, 700, 300, 0.3, 7);
    attn_measures first = {0}, again = {0};
    attn_head_distances *d1 = NULL, *d2 = NULL;
    attn_arena *a1, *a2;
    attn_pool *pool = attn_pool_new(3);
    assert_int_equal(analyse(&m, NULL, SIZE_MAX, &first, &d1, &a1), ATTN_OK);
    assert_int_equal(analyse(&m, pool, SIZE_MAX, &again, &d2, &a2), ATTN_OK);
    assert_int_equal(first.count, 6);
    for (size_t i = 0; i < first.count; i++) {
        assert_memory_equal(first.items[i].values, again.items[i].values,
                            sizeof first.items[i].values);
        assert_memory_equal(first.items[i].uniform, again.items[i].uniform,
                            sizeof first.items[i].uniform);
        assert_int_equal(first.items[i].rows + first.items[i].blind, 700);
    }
    for (size_t b = 0; b < 2; b++)
        assert_memory_equal(d1[b].js, d2[b].js, 9 * sizeof(double));
    attn_pool_free(pool);
    attn_arena_free(a1);
    attn_arena_free(a2);
    matrix_free(&m);
}

/* Every limit of memory gives ATTN_ENOMEM or the result. */
static void test_out_of_memory(void **state) {
    (void)state;
    matrix m = matrix_new(1, 3, 20, 30, 0.2, 3);
    size_t failed = 0;
    for (size_t limit = 1000;; limit += limit / 8) {
        attn_measures measures;
        attn_head_distances *distances;
        attn_arena *arena;
        attn_status status = analyse(&m, NULL, limit, &measures, &distances, &arena);
        attn_arena_free(arena);
        if (status == ATTN_OK)
            break;
        assert_int_equal(status, ATTN_ENOMEM);
        failed++;
    }
    assert_true(failed > 10);
    matrix_free(&m);
}

static void test_a_source_that_fails(void **state) {
    (void)state;
    matrix m = matrix_new(1, 2, 20, 30, 0, 3);
    attn_measures measures;
    attn_head_distances *distances;
    attn_arena *arena;
    m.fail_row = 13;
    assert_int_equal(analyse(&m, NULL, SIZE_MAX, &measures, &distances, &arena), ATTN_EVALUE);
    attn_arena_free(arena);
    matrix_free(&m);
}

static void test_logarithm(void **state) {
    (void)state;
    for (int e = -1021; e < 1023; e += 3)
        for (int k = 0; k < 50; k++) {
            double x = ldexp(1 + k / 50.0, e), want = log(x);
            assert_true(fabs(attn_ln(x) - want) <= 3e-14 * fmax(1, fabs(want)));
        }
    const double row[] = {0, 1, 0.25, 0};
    assert_true(fabs(attn_sum_xlnx(row, 4) - 0.25 * log(0.25)) < 1e-15);
}

/* 4,096 tokens and 12 heads: 768 MiB a layer; a quarter of the heads is not worth a word. */
static void test_memory_of_the_matrix(void **state) {
    (void)state;
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    for (size_t heads = 3; heads <= 12; heads += 9) {
        attn_head_measures *items = attn_arena_zeroed(arena, heads, sizeof *items);
        const attn_measures measures = {items, heads, 1, heads};
        const attn_diagnose_input in = {.measures = &measures, .layers = 1, .L = 4096, .S = 4096};
        attn_diagnoses out;
        assert_int_equal(attn_diagnose(&in, arena, &out, NULL), ATTN_OK);
        assert_int_equal(out.count, heads == 12 ? 1 : 0);
        if (heads == 3)
            continue;
        assert_string_equal(out.items[0].code, "memory");
        assert_non_null(strstr(out.items[0].text, "768 MiB a layer"));
        assert_true(out.items[0].numbers[0].value == 768.0 * 1024 * 1024);
    }
    attn_arena_free(arena);
}

static void test_segments_that_are_not_there(void **state) {
    (void)state;
    matrix m = matrix_new(1, 1, 4, 5, 0, 3);
    const uint32_t good[5] = {0, 1, 1, 0, 1}, bad[5] = {0, 1, 0, 0, 2};
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    attn_measure_options o = attn_measure_defaults();
    attn_measures out;
    attn_error err;
    const attn_weight_source source = source_of(&m);
    o.segment_count = 2;
    o.query_segments = o.key_segments = good;
    assert_int_equal(attn_measure_heads(&source, &o, NULL, NULL, arena, &out, &err), ATTN_OK);
    o.key_segments = bad;
    assert_int_equal(attn_measure_heads(&source, &o, NULL, NULL, arena, &out, &err), ATTN_EARG);
    assert_string_equal(err.where, "segments");
    attn_arena_free(arena);
    matrix_free(&m);
}

/* ||v W_o^h|| of two heads that share values, by the definition, within the memory that was counted,
 * for any pool. */
static void test_value_norms(void **state) {
    enum { S = 200, EV = 3, DO = 5 };
    (void)state;
    attn_arena *arena = attn_arena_new(1 << 26);
    attn_pool *pool = attn_pool_new(3);
    attn_inputs in = attn_attention_defaults();
    attn_attention *a;
    attn_error err;
    attn_cost cost;
    const double *norms, *again;
    in.query = NORMAL_TENSOR(arena, 1, 1, 2, 4, 6);
    in.key = NORMAL_TENSOR(arena, 2, 1, 1, S, 6);
    in.value = NORMAL_TENSOR(arena, 3, 1, 1, S, EV);
    const attn_tensor w_o = NORMAL_TENSOR(arena, 4, DO, 2 * EV);
    const float *v = in.value.data, *w = w_o.data;
    assert_int_equal(attn_attention_new(&in, arena, &a, &err), ATTN_OK);
    const attn_attention_dims *d = attn_attention_dims_of(a);
    assert_int_equal(attn_value_norms_cost(d, &w_o, 3, &cost, &err), ATTN_OK);
    const size_t before = attn_arena_used(arena);
    assert_int_equal(attn_value_norms(a, &w_o, pool, NULL, arena, &norms, &err), ATTN_OK);
    assert_true(attn_arena_used(arena) - before <=
                cost.work_bytes + cost.result_bytes + 8 * ATTN_ALIGN);
    for (size_t h = 0; h < 2; h++)
        for (size_t j = 0; j < S; j++) {
            double squares = 0;
            for (size_t o = 0; o < DO; o++) {
                double y = 0;
                for (size_t e = 0; e < EV; e++)
                    y += (double)v[j * EV + e] * (double)w[o * 2 * EV + h * EV + e];
                squares += y * y;
            }
            assert_true(fabs(norms[h * S + j] - sqrt(squares)) < 1e-12);
        }
    assert_int_equal(attn_value_norms(a, &w_o, NULL, NULL, arena, &again, &err), ATTN_OK);
    assert_memory_equal(norms, again, 2 * S * sizeof *norms);
    const attn_tensor narrow = NORMAL_TENSOR(arena, 4, DO, EV);
    assert_int_equal(attn_value_norms(a, &narrow, pool, NULL, arena, &again, &err), ATTN_ESHAPE);
    assert_string_equal(err.where, "projections/w_o");
    attn_arena *small = attn_arena_new(100);
    assert_int_equal(attn_value_norms(a, NULL, pool, NULL, small, &again, &err), ATTN_ENOMEM);
    attn_arena_free(small);
    attn_pool_free(pool);
    attn_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments_that_are_not_there),
        cmocka_unit_test(test_any_pool),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_a_source_that_fails),
        cmocka_unit_test(test_logarithm),
        cmocka_unit_test(test_memory_of_the_matrix),
        cmocka_unit_test(test_value_norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
