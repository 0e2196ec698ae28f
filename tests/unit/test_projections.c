/* Projections and position tables against their definitions in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "attention/position_rule.h"
#include "unit/normal_tensor.h"

enum { LIMIT = 1 << 28 };

static double at(const attn_tensor *t, size_t i) {
    return (double)((const float *)t->data)[i];
}

/* y[r][o] = sum_i x[r][i] w[o][i] + b[o] */
static void check_product(const attn_tensor *x, const attn_tensor *w, const attn_tensor *b,
                          const attn_tensor *y) {
    size_t count;
    attn_tensor_count(x, &count);
    const size_t in = w->dims[1], out = w->dims[0], rows = count / in;
    assert_int_equal(y->dims[y->rank - 1], out);
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < out; o++) {
            double sum = b->rank ? at(b, o) : 0;
            for (size_t i = 0; i < in; i++)
                sum += at(x, r * in + i) * at(w, o * in + i);
            assert_true(fabs(at(y, r * out + o) - sum) < 1e-5);
        }
}

static void test_apply(void **state) {
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_pool *pool = attn_pool_new(2);
    attn_error err = {.code = ATTN_OK};
    attn_inputs in = attn_attention_defaults(), out;
    attn_tensor y;
    size_t parameters;
    attn_cost cost;
    (void)state;
    in.query = NORMAL_TENSOR(arena, 1, 2, 300, 6);
    in.key = NORMAL_TENSOR(arena, 2, 2, 5, 7);
    attn_projections p = {.w_q = NORMAL_TENSOR(arena, 3, 8, 6),
                          .b_q = NORMAL_TENSOR(arena, 4, 8),
                          .w_k = NORMAL_TENSOR(arena, 5, 8, 7),
                          .w_v = NORMAL_TENSOR(arena, 6, 12, 7),
                          .w_o = NORMAL_TENSOR(arena, 7, 3, 12),
                          .b_o = NORMAL_TENSOR(arena, 8, 3),
                          .num_heads = 4};
    const attn_tensor none = {.rank = 0};
    assert_int_equal(attn_projections_cost(&in, &p, &cost, &err), ATTN_OK);
    size_t before = attn_arena_used(arena);
    assert_int_equal(attn_projections_apply(&in, &p, pool, NULL, arena, &out, &err), ATTN_OK);
    check_product(&in.query, &p.w_q, &p.b_q, &out.query);
    check_product(&in.key, &p.w_k, &none, &out.key);
    check_product(&in.key, &p.w_v, &none, &out.value);
    assert_true(out.layout == ATTN_BLD && out.num_heads == 4 && out.num_kv_heads == 4);
    attn_attention_dims dims;
    assert_int_equal(attn_attention_shape(&out, &dims, &err), ATTN_OK);
    assert_true(dims.E == 2 && dims.Ev == 3 && dims.Hq == 4 && dims.L == 300 && dims.S == 5);
    attn_tensor fake = NORMAL_TENSOR(arena, 9, 2, 300, 12);
    assert_int_equal(attn_projections_output(&fake, &p, pool, NULL, arena, &y, &err), ATTN_OK);
    check_product(&fake, &p.w_o, &p.b_o, &y);
    assert_true(attn_arena_used(arena) - before <= cost.work_bytes + 600 * 12 * sizeof(float));
    assert_int_equal(attn_projections_shape(&in, &p, &out, &parameters, &err), ATTN_OK);
    assert_int_equal(parameters, 8 * 6 + 8 + 8 * 7 + 12 * 7 + 3 * 12 + 3);
    attn_pool_free(pool);
    attn_arena_free(arena);
}

/* The initial values of torch.nn.MultiheadAttention, and the bytes that they take. */
static void test_declared_and_drawn(void **state) {
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_pool *pool = attn_pool_new(2);
    attn_error err;
    attn_inputs in = attn_attention_defaults();
    attn_projections p = {.num_heads = 4, .seed = 7};
    attn_cost declared, drawn;
    (void)state;
    in.query = NORMAL_TENSOR(arena, 1, 3, 512);
    assert_int_equal(attn_projections_declare(&in, &p, &err), ATTN_OK);
    assert_int_equal(attn_projections_cost(&in, &p, &declared, &err), ATTN_OK);
    const size_t before = attn_arena_used(arena);
    assert_int_equal(attn_projections_draw(&p, pool, NULL, arena, &err), ATTN_OK);
    const size_t taken = attn_arena_used(arena) - before;
    assert_int_equal(attn_projections_cost(&in, &p, &drawn, &err), ATTN_OK);
    assert_true(taken <= declared.work_bytes - drawn.work_bytes && taken >= 4 * 512 * 512 * 4);
    for (size_t i = 0; i < 512 * 512; i++) {
        const double u = 2 * attn_rng_uniform(7, i) - 1, o = attn_rng_uniform(7, 3 * 512 * 512 + i);
        assert_true(fabs(at(&p.w_q, i) - sqrt(6.0 / 2048) * u) < 1e-8);
        assert_true(fabs(at(&p.w_o, i) - (2 * o - 1) / sqrt(512)) < 1e-8);
    }
    for (size_t i = 0; i < 512; i++)
        assert_true(at(&p.b_q, i) == 0 && at(&p.b_o, i) == 0);
    assert_int_equal(attn_projections_declare(&in, &p, &err), ATTN_EARG);
    assert_string_equal(err.where, "projections/w_q");
    attn_projections seven = {.num_heads = 7};
    assert_int_equal(attn_projections_declare(&in, &seven, &err), ATTN_ESHAPE);
    assert_string_equal(err.where, "projections/num_heads");
    attn_pool_free(pool);
    attn_arena_free(arena);
}

static void test_positions_are_added(void **state) {
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_error err;
    attn_inputs in = attn_attention_defaults(), out;
    double table[5 * 4];
    (void)state;
    in.query = NORMAL_TENSOR(arena, 1, 2, 5, 4);
    attn_projections p = {.num_heads = 2, .add_positions = true};
    assert_int_equal(attn_projections_apply(&in, &p, NULL, NULL, arena, &out, &err), ATTN_OK);
    assert_int_equal(attn_sinusoidal(table, NULL, 5, 4, ATTN_ENCODING_INTERLEAVED, NULL, &err),
                     ATTN_OK);
    for (size_t n = 0; n < 40; n++) {
        assert_true(at(&out.query, n) == (double)(float)(at(&in.query, n) + table[n % 20]));
        assert_true(at(&out.value, n) == at(&out.key, n));
    }
    attn_arena_free(arena);
}

static void expect_error(const attn_inputs *in, const attn_projections *p, const char *where) {
    attn_error err = {.code = ATTN_OK};
    attn_inputs out;
    assert_int_not_equal(attn_projections_shape(in, p, &out, NULL, &err), ATTN_OK);
    assert_string_equal(err.where, where);
}

static void test_errors(void **state) {
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_inputs in = attn_attention_defaults();
    (void)state;
    in.query = NORMAL_TENSOR(arena, 1, 2, 5, 6);
    expect_error(&in, &(attn_projections){.num_heads = 0}, "projections/num_heads");
    expect_error(&in, &(attn_projections){.num_heads = 4}, "query");
    expect_error(&in, &(attn_projections){.num_heads = 4, .w_q = NORMAL_TENSOR(arena, 2, 6, 6)},
                 "projections/w_q");
    expect_error(&in, &(attn_projections){.num_heads = 2, .w_q = NORMAL_TENSOR(arena, 2, 6, 5)},
                 "projections/w_q");
    expect_error(&in, &(attn_projections){.num_heads = 2, .b_k = NORMAL_TENSOR(arena, 2, 6)},
                 "projections/b_k");
    expect_error(&in, &(attn_projections){.num_heads = 2, .w_o = NORMAL_TENSOR(arena, 2, 6, 5)},
                 "projections/w_o");
    in.layout = ATTN_BLHE;
    expect_error(&in, &(attn_projections){.num_heads = 2}, "layout");
    attn_arena_free(arena);
}

static void test_tables(void **state) {
    double table[3 * 6], learned[4], bias[2 * 2 * 3], c[4], s[4];
    attn_error err = {.code = ATTN_OK};
    attn_arena *arena = attn_arena_new(LIMIT);
    (void)state;
    assert_non_null(arena);
    assert_int_equal(attn_sinusoidal(table, NULL, 3, 5, ATTN_ENCODING_HALVES, NULL, &err),
                     ATTN_EARG);
    assert_int_equal(attn_sinusoidal(table, NULL, 3, 6, ATTN_ENCODING_INTERLEAVED, NULL, &err),
                     ATTN_OK);
    assert_true(table[0] == 0 && table[1] == 1 && fabs(table[6] - sin(1.0)) < 1e-15);
    assert_true(fabs(table[6 + 3] - cos(pow(10000, -2.0 / 6))) < 1e-15);
    assert_int_equal(attn_sinusoidal(table, NULL, 3, 6, ATTN_ENCODING_HALVES, NULL, &err), ATTN_OK);
    assert_true(fabs(table[6 + 3] - cos(1.0)) < 1e-15);
    assert_int_equal(attn_learned(learned, NULL, 2, 2, 0.02, 5, NULL, &err), ATTN_OK);
    assert_true(learned[3] == 0.02 * attn_rng_normal(5, 3));
    attn_position p = {.kind = ATTN_POSITION_ALIBI};
    assert_int_equal(attn_position_table(&p, 2, NULL, NULL, 2, 3, 1, NULL, arena, bias, &err),
                     ATTN_OK);
    assert_true(bias[0] == -1.0 / 16 && bias[1] == 0 && bias[11] == 0);
    p.kind = ATTN_POSITION_SHAW;
    assert_int_equal(attn_position_table(&p, 2, NULL, NULL, 2, 3, 1, NULL, arena, bias, &err),
                     ATTN_EARG);
    double rows[2 * 4 * 1] = {0, 1, 2, 3, 10, 11, 12, 13}, vectors[2 * 3];
    assert_int_equal(attn_position_vectors(&p, 0, NULL, NULL, 2, 3, 1, NULL, arena, vectors, &err),
                     ATTN_EARG);
    p = (attn_position){.kind = ATTN_POSITION_DISENTANGLED,
                        .query_table = attn_tensor_dense(rows, ATTN_F64, 3, DIMS(2, 4, 1))};
    assert_int_equal(attn_position_vectors(&p, 2, NULL, NULL, 2, 3, 1, NULL, arena, vectors, &err),
                     ATTN_EARG);
    assert_string_equal(err.where, "head");
    assert_int_equal(attn_position_vectors(&p, 1, NULL, NULL, 2, 3, 1, NULL, arena, vectors, &err),
                     ATTN_OK);
    assert_true(vectors[0] == 13 && vectors[1] == 12 && vectors[2] == 11); /* 2 + 1 - j */
    assert_true(vectors[3] == 13 && vectors[4] == 13 && vectors[5] == 12);
    const int64_t at[] = {0, ATTN_NO_POSITION};
    assert_int_equal(attn_position_vectors(&p, 0, at, NULL, 2, 1, 0, NULL, arena, vectors, &err),
                     ATTN_OK);
    assert_true(vectors[0] == 2 && vectors[1] == 0);
    p.kind = ATTN_POSITION_ALIBI;
    assert_int_equal(attn_position_vectors(&p, 0, NULL, NULL, 2, 3, 1, NULL, arena, vectors, &err),
                     ATTN_EARG);
    p = (attn_position){.kind = ATTN_POSITION_ROTARY, .dims = 4};
    assert_int_equal(attn_rotary_table(&p, NULL, 2, c, s, NULL, arena, &err), ATTN_OK);
    assert_true(c[0] == 1 && s[1] == 0 && fabs(c[2] - cos(1.0)) < 1e-15 &&
                fabs(s[3] - sin(0.01)) < 1e-15);
    static const int64_t no_pairs[] = {3, 1, 0, -2};
    for (size_t i = 0; i < sizeof no_pairs / sizeof *no_pairs; i++) {
        p.dims = no_pairs[i];
        assert_int_equal(attn_rotary_table(&p, NULL, 2, c, s, NULL, arena, &err), ATTN_EARG);
        assert_string_equal(err.where, "dims");
    }
    attn_arena_free(arena);
}

/* Every distance finds its own bucket, and no bucket of the other ones takes memory: nothing grows
 * with max_distance. */
static void test_t5_buckets(void **state) {
    static const int64_t most[] = {17, 18, 128, 1000, 1 << 20};
    static const size_t buckets[] = {4, 6, 32};
    enum { FURTHEST = 1200 };
    (void)state;
    for (size_t n = 0; n < sizeof most / sizeof *most; n++)
        for (size_t c = 0; c < 2 * sizeof buckets / sizeof *buckets; c++) {
            attn_arena *tables = attn_arena_new(1 << 16), *all = attn_arena_new(LIMIT);
            attn_error err;
            attn_position p = {.kind = ATTN_POSITION_T5,
                               .max_distance = most[n],
                               .unidirectional = c % 2,
                               .table = NORMAL_TENSOR(all, n + 1, buckets[c / 2], 2)};
            double *biases = attn_arena_zeroed(all, (4 * FURTHEST + 2), sizeof *biases);
            assert_true(tables && biases);
            for (int64_t from = -most[n]; from <= most[n]; from += most[n]) {
                const int64_t first = from - FURTHEST;
                assert_int_equal(attn_position_table(&p, 2, NULL, NULL, 1, 2 * FURTHEST + 1, -first,
                                                     NULL, tables, biases, &err),
                                 ATTN_OK);
                for (size_t d = 0; d < 4 * FURTHEST + 2; d++) {
                    const size_t h = d / (2 * FURTHEST + 1), j = d % (2 * FURTHEST + 1);
                    const size_t bucket = attn_t5_bucket(first + (int64_t)j, buckets[c / 2],
                                                         most[n], p.unidirectional);
                    assert_true(biases[d] == (double)((const float *)p.table.data)[2 * bucket + h]);
                }
            }
            attn_arena_free(tables);
            attn_arena_free(all);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apply),
        cmocka_unit_test(test_declared_and_drawn),
        cmocka_unit_test(test_positions_are_added),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_t5_buckets),
    };
    return cmocka_run_group_tests_name("projections", tests, NULL, NULL);
}
