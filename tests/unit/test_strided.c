/* The steps of a strided pattern (attention/strided.c): it gives the results of the
 * same visibility as a mask of booleans, which is computed in one pass, for all options that the two
 * halves read. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "unit/normal_tensor.h"
#include "unit/trials.h"

enum { TRIALS = 24, LIMIT = 1 << 28 };

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_attention *a;
    attn_results out;
    attn_gradients grad;
    uint64_t seed;
} trial;

static size_t pick(uint64_t seed, uint64_t at, size_t n) {
    return (size_t)(attn_rng_bits(seed, at) % n);
}

static void add_layer(trial *t, attn_mask_layer layer) {
    t->in.mask.layers[t->in.mask.count++] = layer;
}

/* Random shapes, of which most have strided steps, and layers that bound the keys of a row. */
static trial begin(uint64_t seed) {
    trial t = {.arena = attn_arena_new(LIMIT), .seed = 100 * seed};
    const size_t B = 1 + pick(seed, 0, 2), Hkv = 1 + pick(seed, 1, 2), group = 1 + pick(seed, 2, 2);
    const size_t L = 150 + pick(seed, 3, 300), S = 200 + pick(seed, 4, 300);
    const size_t E = 1 + pick(seed, 5, 40), Ev = 1 + pick(seed, 6, 40);
    assert_non_null(t.arena);
    t.in = attn_attention_defaults();
    t.in.query = NORMAL_TENSOR(t.arena, ++t.seed, B, Hkv * group, L, E);
    t.in.key = NORMAL_TENSOR(t.arena, ++t.seed, B, Hkv, S, E);
    t.in.value = NORMAL_TENSOR(t.arena, ++t.seed, B, Hkv, S, Ev);
    if (pick(seed, 7, 3) == 0)
        add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL});
    if (pick(seed, 8, 4) == 0)
        add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_WINDOW,
                                        .window = {(int64_t)pick(seed, 9, 200), -1}});
    if (pick(seed, 10, 4) == 0)
        add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_PATTERN,
                                        .pattern = {.kind = ATTN_PATTERN_BLOCK, .size = 170}});
    t.in.mask.offset = pick(seed, 11, 2) ? ATTN_OFFSET_END : ATTN_OFFSET_DEFAULT;
    return t;
}

static attn_pattern pattern_of(uint64_t seed) {
    return (attn_pattern){.kind = ATTN_PATTERN_STRIDED,
                          .stride = 2 + (int64_t)pick(seed, 20, 35),
                          .local = (int64_t)pick(seed, 21, 20)};
}

static void run(trial *t) {
    const unsigned want = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP;
    attn_error err = {.code = ATTN_OK};
    attn_status status = attn_attention_new(&t->in, t->arena, &t->a, &err);
    if (status == ATTN_OK)
        status =
            attn_attention_run(t->a, want, ATTN_STAGE_RAW, NULL, NULL, t->arena, &t->out, &err);
    if (status != ATTN_OK)
        print_error("%s: %s\n", err.where, err.text);
    assert_int_equal(status, ATTN_OK);
}

/* The same operation with the pattern as a layer of booleans, and its results. */
static trial masked(const trial *t, const attn_pattern *p) {
    trial m = *t;
    const attn_attention_dims *d = attn_attention_dims_of(t->a);
    uint8_t *keep = attn_arena_zeroed(t->arena, d->B * d->L * d->S, 1);
    assert_non_null(keep);
    for (size_t b = 0; b < d->B; b++)
        for (size_t i = 0; i < d->L; i++)
            for (size_t j = 0; j < d->S; j++) {
                const int64_t far =
                    (int64_t)j - (int64_t)i - attn_mask_offset(attn_attention_mask(t->a), b);
                keep[(b * d->L + i) * d->S + j] =
                    far % p->stride == 0 || (far <= p->local && -far <= p->local);
            }
    m.in.mask.layers[m.in.mask.count - 1] = (attn_mask_layer){
        .kind = ATTN_LAYER_VALUES,
        .values = attn_tensor_dense(keep, ATTN_BOOL, 4, DIMS(d->B, 1, d->L, d->S))};
    run(&m);
    return m;
}

static double number(const attn_tensor *x, size_t i) {
    return x->dtype == ATTN_F64 ? ((const double *)x->data)[i]
                                : (double)((const float *)x->data)[i];
}

static void check_equal(const attn_tensor *a, const attn_tensor *b, double tolerance) {
    size_t count;
    assert_true(attn_tensor_count(a, &count));
    for (size_t i = 0; i < count; i++) {
        const double x = number(a, i), y = number(b, i);
        assert_true(x == y || fabs(x - y) <= tolerance * fmax(1, fabs(y)));
    }
}

/* Each weight, computed alone, has the bits of the whole matrix. */
static void check_cells(const trial *t) {
    const attn_attention_dims *d = attn_attention_dims_of(t->a);
    attn_cells_scratch *scratch = attn_cells_scratch_new(t->a, t->arena);
    const size_t bytes = attn_dtype_size(d->result);
    attn_error err;
    assert_non_null(scratch);
    for (uint64_t n = 0; n < 20; n++) {
        const attn_range one = {pick(t->seed, 5 * n, d->B),     pick(t->seed, 5 * n + 1, d->Hq),
                                pick(t->seed, 5 * n + 2, d->L), 1,
                                pick(t->seed, 5 * n + 3, d->S), 1};
        const size_t at = ((one.batch * d->Hq + one.head) * d->L + one.row) * d->S + one.col;
        double cell;
        assert_int_equal(attn_attention_cells(t->a, &t->out.stats, &one, ATTN_STAGE_PROBS, &cell, 1,
                                              scratch, &err),
                         ATTN_OK);
        assert_memory_equal(&cell, (const char *)t->out.weights.data + at * bytes, bytes);
    }
}

static void compare(trial *t, const attn_pattern *p, bool strided, double tolerance) {
    add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_PATTERN, .pattern = *p});
    run(t);
    assert_int_equal(attn_attention_dims_of(t->a)->stride, strided ? p->stride : 0);
    const trial m = masked(t, p);
    check_equal(&t->out.output, &m.out.output, tolerance);
    check_equal(&t->out.logsumexp, &m.out.logsumexp, tolerance);
    check_equal(&t->out.weights, &m.out.weights, tolerance);
    assert_int_equal(t->out.hidden_rows, m.out.hidden_rows);
    check_cells(t);
}

/* Returns whether the shapes of a trial let the pass have strided steps. */
static bool has_strided_steps(const trial *t, const attn_pattern *p) {
    const double S =
        (double)(t->in.key.dims[2] + (t->in.past_key.rank ? t->in.past_key.dims[2] : 0));
    return t->in.query.dims[2] >= 4 * (size_t)p->stride &&
           2 * (S / (double)p->stride + 64 + 2 * (double)p->local) <= S;
}

static void test_random_shapes(void **state) {
    size_t strided = 0;
    (void)state;
    for (uint64_t seed = 0; seed < trials(TRIALS); seed++) {
        trial t = begin(seed);
        const attn_pattern p = pattern_of(seed);
        strided += has_strided_steps(&t, &p);
        compare(&t, &p, has_strided_steps(&t, &p), 2e-5);
        attn_arena_free(t.arena);
    }
    assert_true(strided > trials(TRIALS) / 2);
}

static const attn_pattern plain = {.kind = ATTN_PATTERN_STRIDED, .stride = 20, .local = 3};

/* A self-attention of 300 positions, which has strided steps. */
static trial square(uint64_t seed, size_t E) {
    trial t = {.arena = attn_arena_new(LIMIT), .seed = 100 * seed};
    assert_non_null(t.arena);
    t.in = attn_attention_defaults();
    t.in.query = NORMAL_TENSOR(t.arena, ++t.seed, 2, 2, 300, E);
    t.in.key = NORMAL_TENSOR(t.arena, ++t.seed, 2, 2, 300, E);
    t.in.value = NORMAL_TENSOR(t.arena, ++t.seed, 2, 2, 300, 11);
    return t;
}

static void test_options(void **state) {
    (void)state;
    for (int option = 0; option < 7; option++) {
        trial t = square(1000 + (uint64_t)option, 12);
        switch (option) {
        case 0:
            t.in.sinks = NORMAL_TENSOR(t.arena, ++t.seed, 2);
            break;
        case 1:
            t.in.softcap = 1.5;
            break;
        case 2:
            t.in.position =
                (attn_position){.kind = ATTN_POSITION_ROTARY, .rotary = ATTN_ROTARY_HALVES};
            break;
        case 3:
            t.in.score = (attn_score){.kind = ATTN_SCORE_additive,
                                      .w_q = NORMAL_TENSOR(t.arena, ++t.seed, 9, 12),
                                      .w_k = NORMAL_TENSOR(t.arena, ++t.seed, 9, 12),
                                      .v = NORMAL_TENSOR(t.arena, ++t.seed, 9)};
            break;
        case 4:
            t.in.past_key = NORMAL_TENSOR(t.arena, ++t.seed, 2, 2, 55, 12);
            t.in.past_value = NORMAL_TENSOR(t.arena, ++t.seed, 2, 2, 55, 11);
            break;
        case 5:
            t.in.precision = ATTN_PRECISION_FAST;
            break;
        case 6:
            t.in.precision = ATTN_PRECISION_BF16;
            break;
        }
        compare(&t, &plain, true, option == 5 ? 1e-4 : option == 6 ? 0.02 : 2e-5);
        attn_arena_free(t.arena);
    }
}

/* float64 is computed in double, and the layout [B, L, H, E] and bfloat16 need other strides. */
static void test_types_and_layouts(void **state) {
    (void)state;
    trial t = square(2000, 8);
    double *wide = attn_arena_zeroed(t.arena, 2 * 2 * 300 * 8, sizeof *wide);
    assert_non_null(wide);
    attn_widen_f64(wide, t.in.query.data, ATTN_F32, 1, 2 * 2 * 300 * 8);
    t.in.query = attn_tensor_dense(wide, ATTN_F64, 4, DIMS(2, 2, 300, 8));
    compare(&t, &plain, true, 1e-13);
    t.in.mask.count = 0;
    t.in.layout = ATTN_BLHE;
    t.in.query = NORMAL_TENSOR(t.arena, 1, 1, 300, 3, 8);
    t.in.key = NORMAL_TENSOR(t.arena, 2, 1, 300, 1, 8);
    t.in.value = NORMAL_TENSOR(t.arena, 3, 1, 300, 1, 5);
    compare(&t, &plain, true, 2e-5);
    attn_arena_free(t.arena);
}

/* A bias by distance, dropout, a second pattern and other layers leave the pass in one piece. */
static void test_one_pass(void **state) {
    (void)state;
    const attn_pattern global = {.kind = ATTN_PATTERN_GLOBAL, .num_keys = 2, .local = 90};
    for (int option = 0; option < 3; option++) {
        trial t = square(3000 + (uint64_t)option, 8);
        if (option == 0)
            t.in.position = (attn_position){.kind = ATTN_POSITION_ALIBI};
        else if (option == 1)
            t.in.dropout_p = 0.3;
        else
            add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_PATTERN, .pattern = global});
        compare(&t, &plain, false, 2e-5);
        attn_arena_free(t.arena);
    }
}

/* NaN in hidden keys and values changes nothing; a row with a huge query is computed in double. */
static void test_not_finite(void **state) {
    (void)state;
    trial t = square(4000, 8);
    add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL});
    for (size_t head = 0; head < 4; head++) {
        ((float *)t.in.value.data)[(head * 300 + 299) * 11] = NAN;
        ((float *)t.in.key.data)[(head * 300 + 298) * 8] = INFINITY;
        for (size_t i = 298; i < 300; i++)
            ((float *)t.in.query.data)[(head * 300 + i) * 8] = NAN;
    }
    t.in.allow_nonfinite = true;
    add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_PATTERN, .pattern = plain});
    run(&t);
    assert_int_equal(attn_attention_dims_of(t.a)->stride, plain.stride);
    const trial m = masked(&t, &plain);
    for (size_t row = 0; row < 4 * 300; row++)
        for (size_t e = 0; row % 300 < 298 && e < 11; e++)
            assert_true(fabs(number(&t.out.output, row * 11 + e) -
                             number(&m.out.output, row * 11 + e)) < 1e-5);
    attn_arena_free(t.arena);
    t = square(4001, 8);
    ((float *)t.in.query.data)[8 * 7] = 3e37f;
    compare(&t, &plain, true, 2e-5);
    attn_arena_free(t.arena);
}

static void backward(trial *t, const attn_tensor *grad_output) {
    attn_error err = {.code = ATTN_OK};
    assert_int_equal(attn_attention_new(&t->in, t->arena, &t->a, &err), ATTN_OK);
    attn_status status =
        attn_attention_run_backward(t->a, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, grad_output, NULL, NULL,
                                    t->arena, &t->out, &t->grad, &err);
    if (status != ATTN_OK)
        print_error("%s: %s\n", err.where, err.text);
    assert_int_equal(status, ATTN_OK);
}

static void test_gradients(void **state) {
    (void)state;
    trial t = square(5000, 8);
    const attn_tensor grad_output = NORMAL_TENSOR(t.arena, 9, 2, 2, 300, 11);
    add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_PATTERN, .pattern = plain});
    backward(&t, &grad_output);
    trial m = masked(&t, &plain);
    backward(&m, &grad_output);
    check_equal(&t.grad.query, &m.grad.query, 2e-5);
    check_equal(&t.grad.key, &m.grad.key, 2e-5);
    check_equal(&t.grad.value, &m.grad.value, 2e-5);
    attn_arena_free(t.arena);
}

/* The pass takes no more memory than the cost says, on one thread and on three, with equal bits. */
static void test_cost_and_threads(void **state) {
    (void)state;
    trial t = square(6000, 8), three;
    attn_error err = {.code = ATTN_OK};
    attn_pool *pool = attn_pool_new(3);
    attn_cost cost;
    assert_non_null(pool);
    add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_PATTERN, .pattern = plain});
    run(&t);
    three = t;
    for (size_t threads = 1; threads <= 3; threads += 2) {
        attn_pool *with = threads == 3 ? pool : NULL;
        const size_t before = attn_arena_used(t.arena);
        assert_int_equal(attn_attention_new(&three.in, t.arena, &three.a, &err), ATTN_OK);
        assert_int_equal(attn_attention_run(three.a, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, with, NULL,
                                            t.arena, &three.out, &err),
                         ATTN_OK);
        assert_int_equal(attn_attention_cost(attn_attention_dims_of(three.a), ATTN_WANT_OUTPUT,
                                             attn_pool_slots(with), &cost, &err),
                         ATTN_OK);
        assert_true(attn_arena_used(t.arena) - before <= cost.work_bytes + cost.result_bytes);
        assert_memory_equal(t.out.output.data, three.out.output.data,
                            sizeof(float) * 2 * 2 * 300 * 11);
    }
    attn_pool_free(pool);
    attn_arena_free(t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_shapes),     cmocka_unit_test(test_options),
        cmocka_unit_test(test_types_and_layouts), cmocka_unit_test(test_one_pass),
        cmocka_unit_test(test_not_finite),        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_cost_and_threads),
    };
    return cmocka_run_group_tests_name("strided", tests, NULL, NULL);
}
