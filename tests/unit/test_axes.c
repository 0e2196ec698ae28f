/* Rotary positions on several axes, alone and beside ALiBi, against their definition in double, and
 * what is refused of axes and of two kinds of position. */
#include "unit/forms_case.h"

/* The pairs n and n + E/2 turn by the axis pairs[n]; -infinity: they do not. */
static double on_axes(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const attn_rotary_axes *x = &t->in.position.axes;
    const float *q = row_of(&t->in.query, b, h, i);
    const float *k = row_of(&t->in.key, b, h / (t->Hq / t->Hkv), j);
    const size_t pairs = x->pairs.dims[0];
    const float *of_queries = x->query_positions.data;
    const double *of_keys = x->key_positions.data;
    double sum = 0;
    for (size_t n = 0; n < pairs; n++) {
        const size_t axis = (size_t)((const int32_t *)x->pairs.data)[n];
        const double p = (double)of_queries[(axis * t->B + b) * t->L + i];
        const double s = of_keys[axis * t->S + j], rate = pow(10000, -(double)n / (double)pairs);
        const double theta = (isinf(s) ? 0 : s * rate) - (isinf(p) ? 0 : p * rate);
        const double a = (double)q[n], c = (double)q[n + pairs];
        const double d = (double)k[n], e = (double)k[n + pairs];
        sum += (a * d + c * e) * cos(theta) + (c * d - a * e) * sin(theta);
    }
    return sum;
}

/* Gives rotary positions three axes: queries by batch entry, keys that all entries share. */
static void give_axes(trial *t, uint64_t seed) {
    const size_t pairs = t->Eq / 2, axes = 3;
    int32_t *list = attn_arena_zeroed(t->arena, pairs, sizeof *list);
    float *q = attn_arena_zeroed(t->arena, axes * t->B * t->L, sizeof *q);
    double *k = attn_arena_zeroed(t->arena, axes * t->S, sizeof *k);
    for (size_t n = 0; n < pairs; n++)
        list[n] = (int32_t)pick(seed, 900 + n, axes);
    for (size_t n = 0; n < axes * t->B * t->L; n++)
        q[n] = pick(seed, 1000 + n, 9) ? 0.25f * (float)pick(seed, 2000 + n, 80) - 5 : -INFINITY;
    for (size_t n = 0; n < axes * t->S; n++)
        k[n] = pick(seed, 5000 + n, 9) ? (double)pick(seed, 6000 + n, 20) - 5 : -INFINITY;
    t->in.position.axes = (attn_rotary_axes){
        .pairs = attn_tensor_dense(list, ATTN_I32, 1, &pairs),
        .query_positions = attn_tensor_dense(q, ATTN_F32, 3, DIMS(axes, t->B, t->L)),
        .key_positions = attn_tensor_dense(k, ATTN_F64, 2, DIMS(axes, t->S)),
    };
}

static void test_axes(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(TRIALS); seed++) {
        const size_t E = 2 + 2 * pick(seed, 30, 20);
        trial t = begin(seed, E, E);
        t.in.position = (attn_position){.kind = ATTN_POSITION_ROTARY, .rotary = ATTN_ROTARY_HALVES};
        give_axes(&t, seed);
        run(&t);
        check(&t, on_axes, nothing, 1 / sqrt((double)E), 2e-5);
        t.in.score_position.kind = ATTN_POSITION_ALIBI;
        run(&t);
        check(&t, on_axes, alibi, 1 / sqrt((double)E), 2e-5);
        attn_arena_free(t.arena);
    }
}

static void test_axes_errors(void **state) {
    trial t = begin(4, 6, 6);
    attn_rotary_axes *x = &t.in.position.axes;
    (void)state;
    t.in.position = (attn_position){.kind = ATTN_POSITION_ROTARY, .rotary = ATTN_ROTARY_HALVES};
    give_axes(&t, 4);
    const attn_rotary_axes good = *x;
    ((int32_t *)x->pairs.data)[1] = 3;
    assert_int_equal(refused(&t, "position/axes/pairs/1"), ATTN_EVALUE);
    ((int32_t *)x->pairs.data)[1] = 0;
    x->pairs.dtype = ATTN_F32;
    assert_int_equal(refused(&t, "position/axes/pairs"), ATTN_ESHAPE);
    *x = good, x->query_positions.dims[0] = x->key_positions.dims[0] = 17;
    assert_int_equal(refused(&t, "position/axes"), ATTN_EARG);
    *x = good, x->key_positions.rank = 0;
    assert_int_equal(refused(&t, "position/axes/key_positions"), ATTN_ESHAPE);
    *x = good, x->query_positions.dims[2]++;
    assert_int_equal(refused(&t, "position/axes/query_positions"), ATTN_ESHAPE);
    *x = good, x->key_positions.dtype = ATTN_BOOL;
    assert_int_equal(refused(&t, "position/axes/key_positions"), ATTN_EDTYPE);
    *x = good, x->bases = NORMAL(&t, 2);
    assert_int_equal(refused(&t, "position/axes/bases"), ATTN_ESHAPE);
    x->bases = NORMAL(&t, 3), ((float *)x->bases.data)[2] = 0.5f;
    assert_int_equal(refused(&t, "position/axes/bases"), ATTN_EARG);
    *x = good, ((double *)x->key_positions.data)[t.S + 1] = NAN;
    assert_int_equal(refused(&t, "position/axes/key_positions/1/1"), ATTN_EVALUE);
    ((double *)x->key_positions.data)[t.S + 1] = 0;
    t.in.query_positions = NORMAL(&t, t.L);
    assert_int_equal(refused(&t, "query_positions"), ATTN_EARG);
    attn_arena_free(t.arena);
}

static void test_pair_errors(void **state) {
    trial t = begin(4, 6, 6);
    (void)state;
    t.in.position = (attn_position){.kind = ATTN_POSITION_ROTARY, .rotary = ATTN_ROTARY_HALVES};
    t.in.score_position.kind = ATTN_POSITION_SINUSOIDAL;
    assert_int_equal(refused(&t, "score_position/kind"), ATTN_EARG);
    t.in.score_position.kind = ATTN_POSITION_SHAW;
    assert_int_equal(refused(&t, "score_position/key_table"), ATTN_EARG);
    t.in.position.kind = ATTN_POSITION_ALIBI;
    assert_int_equal(refused(&t, "score_position/kind"), ATTN_EARG);
    attn_arena_free(t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_axes),
        cmocka_unit_test(test_axes_errors),
        cmocka_unit_test(test_pair_errors),
    };
    return cmocka_run_group_tests_name("axes", tests, NULL, NULL);
}
