/* Few queries over a long cache, whose keys are taken in parts: against a naive double computation,
 * cells bit for bit, the same bytes for any pool, within the promised memory, NaN in its place. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "unit/normal_tensor.h"

enum { E = 24, EV = 20, LIMIT = 1 << 28, SMALL = 1 << 18 };
static const unsigned wanted = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP;

typedef struct shape {
    size_t Hq, Hkv, L, S;
    int64_t window; /* keys to the left; -1: all */
    bool biased, sinks, capped;
    size_t hidden; /* keys from the first on that nobody sees */
} shape;

static const shape shapes[] = {
    {1, 1, 1, 4097, -1, false, false, false, 0},    {1, 1, 1, 13001, -1, true, false, false, 0},
    {4, 2, 3, 9000, -1, false, true, false, 0},     {6, 2, 8, 8500, 300, false, false, false, 0},
    {3, 3, 2, 12300, -1, false, false, true, 9000}, {2, 1, 5, 8300, -1, true, true, true, 8300},
    {64, 64, 1, 4200, -1, false, false, false, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct trial {
    attn_arena *inputs, *arena;
    attn_inputs in;
    attn_attention *a;
    attn_results out;
} trial;

static void add_masks(trial *t, const shape *s) {
    attn_mask_spec *m = &t->in.mask;
    if (s->window >= 0) {
        m->offset = ATTN_OFFSET_END;
        m->layers[m->count++] = (attn_mask_layer){
            .kind = ATTN_LAYER_WINDOW, .where = "window", .window = {s->window, 0}};
    }
    if (s->biased)
        m->layers[m->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_BIAS,
                              .where = "bias",
                              .values = NORMAL_TENSOR(t->inputs, 5, 1, 1, s->L, s->S)};
    if (s->hidden) {
        uint8_t *keep = attn_arena_take(t->inputs, s->S);
        assert_non_null(keep);
        memset(keep, 0, s->hidden);
        memset(keep + s->hidden, 1, s->S - s->hidden);
        m->layers[m->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_VALUES,
                              .where = "attn_mask",
                              .values = attn_tensor_dense(keep, ATTN_BOOL, 2, (size_t[]){1, s->S})};
    }
}

static trial make_trial(const shape *s) {
    trial t = {.inputs = attn_arena_new(LIMIT), .in = attn_attention_defaults()};
    assert_non_null(t.inputs);
    t.in.query = NORMAL_TENSOR(t.inputs, 1, 1, s->Hq, s->L, E);
    t.in.key = NORMAL_TENSOR(t.inputs, 2, 1, s->Hkv, s->S, E);
    t.in.value = NORMAL_TENSOR(t.inputs, 3, 1, s->Hkv, s->S, EV);
    for (size_t i = 0; i < s->Hq * s->L * E; i++)
        ((float *)t.in.query.data)[i] *= 4;
    if (s->capped)
        t.in.softcap = 3;
    if (s->sinks) {
        float *sinks = attn_arena_take(t.inputs, s->Hq * sizeof *sinks);
        assert_non_null(sinks);
        for (size_t h = 0; h < s->Hq; h++)
            sinks[h] = 9 + (float)h;
        t.in.sinks = attn_tensor_dense(sinks, ATTN_F32, 1, (size_t[]){s->Hq});
    }
    add_masks(&t, s);
    return t;
}

/* In no more memory than the cost of this many slots says. */
static attn_status run_trial(trial *t, size_t slots, attn_error *err) {
    attn_pool *pool = attn_pool_new(slots);
    attn_cost cost;
    t->arena = attn_arena_new(SMALL);
    assert_true(pool && t->arena);
    attn_status status = attn_attention_new(&t->in, t->arena, &t->a, err);
    if (status == ATTN_OK)
        status = attn_attention_cost(attn_attention_dims_of(t->a), wanted, slots, &cost, err);
    if (status == ATTN_OK) {
        attn_arena_set_limit(t->arena, attn_arena_used(t->arena) + cost.work_bytes +
                                           cost.result_bytes + cost.fallback_bytes);
        status =
            attn_attention_run(t->a, wanted, ATTN_STAGE_PROBS, pool, NULL, t->arena, &t->out, err);
    }
    attn_pool_free(pool);
    return status;
}

static void run_well(trial *t, size_t slots) {
    attn_error err = {.code = ATTN_OK};
    if (run_trial(t, slots, &err) != ATTN_OK)
        fail_msg("%s: %s", err.where, err.text);
}

static void trial_free(trial *t) {
    attn_arena_free(t->arena);
    attn_arena_free(t->inputs);
}

static const float *row_of(const attn_tensor *x, size_t h, size_t i) {
    return (const float *)x->data + (h * x->dims[2] + i) * x->dims[3];
}

/* Weights of one row in double; the sum that they were divided by. */
static double naive_row(const trial *t, const shape *s, size_t h, size_t i, double *weights) {
    const attn_mask *m = attn_attention_mask(t->a);
    const float *q = row_of(&t->in.query, h, i);
    uint8_t *keep = attn_arena_take(t->inputs, s->S);
    double *add = attn_arena_zeroed(t->inputs, s->S, sizeof *add);
    double max = s->sinks ? 9 + (double)h : -INFINITY, sum = 0;
    assert_true(keep && add);
    attn_mask_keep(m, 0, h, i, 0, s->S, keep);
    attn_mask_additive(m, 0, h, i, 0, s->S, add);
    for (size_t j = 0; j < s->S; j++) {
        const float *k = row_of(&t->in.key, h / (s->Hq / s->Hkv), j);
        double x = 0;
        for (size_t e = 0; e < E; e++)
            x += (double)q[e] * (double)k[e];
        x /= sqrt(E);
        x = (s->capped ? 3 * tanh(x / 3) : x) + add[j];
        weights[j] = keep[j] ? x : -INFINITY;
        max = fmax(max, weights[j]);
    }
    for (size_t j = 0; j < s->S; j++)
        sum += weights[j] = weights[j] == -INFINITY ? 0 : exp(weights[j] - max);
    sum += s->sinks ? exp(9 + (double)h - max) : 0;
    for (size_t j = 0; j < s->S && sum > 0; j++)
        weights[j] /= sum;
    return max + log(sum);
}

static void check_row(trial *t, const shape *s, size_t h, size_t i) {
    double *weights = attn_arena_zeroed(t->inputs, s->S, sizeof *weights);
    assert_non_null(weights);
    const double lse = naive_row(t, s, h, i, weights);
    const float *w = row_of(&t->out.weights, h, i), *o = row_of(&t->out.output, h, i);
    const double mine = (double)((const float *)t->out.logsumexp.data)[h * s->L + i];
    assert_true(mine == lse || fabs(mine - lse) < 1e-5 * fmax(1, fabs(lse)));
    for (size_t j = 0; j < s->S; j++)
        assert_true(fabs((double)w[j] - weights[j]) <= 2e-5 * weights[j] + 1e-12);
    for (size_t e = 0; e < EV; e++) {
        double sum = 0;
        for (size_t j = 0; j < s->S; j++)
            sum += weights[j] * (double)row_of(&t->in.value, h / (s->Hq / s->Hkv), j)[e];
        assert_true(fabs((double)o[e] - sum) < 1e-5);
    }
}

/* Cells asked for one stretch at a time are those of the weights. */
static void check_cells(trial *t, const shape *s) {
    attn_error err = {.code = ATTN_OK};
    float *cells = attn_arena_take(t->inputs, s->S * sizeof *cells);
    attn_arena_set_limit(t->arena, LIMIT);
    attn_cells_scratch *scratch = attn_cells_scratch_new(t->a, t->arena);
    assert_true(cells && scratch);
    for (size_t n = 0; n < 20; n++) {
        const size_t h = attn_rng_bits(7, n) % s->Hq, i = attn_rng_bits(8, n) % s->L;
        const size_t from = attn_rng_bits(9, n) % s->S,
                     count = 1 + attn_rng_bits(10, n) % (s->S - from);
        const attn_range r = {.head = h, .row = i, .rows = 1, .col = from, .cols = count};
        assert_int_equal(attn_attention_cells(t->a, &t->out.stats, &r, ATTN_STAGE_PROBS, cells,
                                              count, scratch, &err),
                         ATTN_OK);
        assert_memory_equal(cells, row_of(&t->out.weights, h, i) + from, count * sizeof *cells);
    }
}

static void test_parts(void **state) {
    (void)state;
    for (size_t n = 0; n < SHAPES; n++) {
        const shape *s = &shapes[n];
        trial t = make_trial(s);
        run_well(&t, 2);
        for (size_t h = 0; h<s->Hq; h += s->Hq> 8 ? 17 : 1)
            for (size_t i = 0; i < s->L; i++)
                check_row(&t, s, h, i);
        check_cells(&t, s);
        trial_free(&t);
    }
}

static void test_any_pool(void **state) {
    (void)state;
    for (size_t n = 0; n < SHAPES; n++) {
        trial one = make_trial(&shapes[n]), many = make_trial(&shapes[n]);
        const size_t rows = shapes[n].Hq * shapes[n].L;
        run_well(&one, 1);
        run_well(&many, 3);
        assert_memory_equal(one.out.output.data, many.out.output.data, rows * EV * sizeof(float));
        assert_memory_equal(one.out.weights.data, many.out.weights.data,
                            rows * shapes[n].S * sizeof(float));
        assert_memory_equal(one.out.logsumexp.data, many.out.logsumexp.data, rows * sizeof(float));
        assert_memory_equal(one.out.stats.sum, many.out.stats.sum, rows * sizeof(double));
        trial_free(&one), trial_free(&many);
    }
}

/* NaN in a hidden key changes nothing; in one that is seen it is refused, by its place. */
static void test_nan(void **state) {
    const shape *s = &shapes[4];
    attn_error err = {.code = ATTN_OK};
    trial clean = make_trial(s), t = make_trial(s);
    (void)state;
    run_well(&clean, 2);
    ((float *)t.in.key.data)[4500 * E] = NAN;
    ((float *)t.in.value.data)[100 * EV] = INFINITY;
    run_well(&t, 2);
    for (size_t i = 0; i < s->Hq * s->L * EV; i++)
        assert_true(fabs((double)((float *)t.out.output.data)[i] -
                         (double)((float *)clean.out.output.data)[i]) < 1e-6);
    attn_arena_free(t.arena);
    ((float *)t.in.key.data)[(s->S + 12000) * E + 3] = NAN;
    assert_int_equal(run_trial(&t, 2, &err), ATTN_ENONFINITE);
    assert_string_equal(err.where, "key/0/1/12000/3");
    trial_free(&clean), trial_free(&t);
}

/* What is not finite sends the run over packed keys, on the same lanes: several heads of a group at
 * once, each with the maxima of its own tiles. */
static void test_nan_any_pool(void **state) {
    const shape s = {8, 1, 1, 60000, -1, false, false, false, 100};
    trial one = make_trial(&s);
    (void)state;
    ((float *)one.in.key.data)[50 * E] = NAN;
    run_well(&one, 1);
    for (int n = 0; n < 5; n++) {
        trial many = make_trial(&s);
        ((float *)many.in.key.data)[50 * E] = NAN;
        run_well(&many, 3);
        assert_memory_equal(one.out.weights.data, many.out.weights.data,
                            s.Hq * s.S * sizeof(float));
        trial_free(&many);
    }
    trial_free(&one);
}

/* A score beyond a float table's reach in one part: the row is computed with care, in all of them.
 */
static void test_wide(void **state) {
    shape s = shapes[0];
    trial t = make_trial(&s);
    float *key = (float *)t.in.key.data + 4096 * E;
    (void)state;
    for (size_t e = 0; e < E; e++)
        key[e] = 1e6f * ((float *)t.in.query.data)[e];
    run_well(&t, 2);
    check_row(&t, &s, 0, 0);
    check_cells(&t, &s);
    trial_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts), cmocka_unit_test(test_any_pool),
        cmocka_unit_test(test_nan),   cmocka_unit_test(test_nan_any_pool),
        cmocka_unit_test(test_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
