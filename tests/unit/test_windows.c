/* Pieces with windows (attention/forward_steps.c): if each query sees few keys, the results have
 * the bits of a pass over keys that are all packed first, with any number of threads, and are those
 * of the definition. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "attention/plan.h"
#include "unit/normal_tensor.h"
#include "unit/trials.h"

enum { TRIALS = 20, LIMIT = 1 << 28, WANT = ATTN_WANT_OUTPUT | ATTN_WANT_LOGSUMEXP };

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_results out;
    uint64_t seed;
} trial;

static size_t pick(const trial *t, uint64_t at, size_t n) {
    return (size_t)(attn_rng_bits(t->seed, at) % n);
}

static void add_pattern(trial *t, attn_pattern p) {
    t->in.mask.layers[t->in.mask.count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_PATTERN, .pattern = p};
}

/* A mask of which each query sees few keys, of one of six kinds. */
static void hide_most(trial *t) {
    const int64_t small = (int64_t)pick(t, 10, 80), size = 1 + (int64_t)pick(t, 11, 90);
    switch (t->seed % 6) {
    case 0:
        add_pattern(t, (attn_pattern){.kind = ATTN_PATTERN_LOCAL, .radius = small});
        break;
    case 1:
        add_pattern(t, (attn_pattern){.kind = ATTN_PATTERN_BLOCK, .size = size});
        break;
    case 2:
        add_pattern(t,
                    (attn_pattern){.kind = ATTN_PATTERN_GLOBAL, .num_keys = size, .local = small});
        break;
    case 3:
        add_pattern(t, (attn_pattern){
                           .kind = ATTN_PATTERN_STRIDED, .stride = 16 + size, .local = small / 2});
        break;
    case 4:
        t->in.mask.layers[t->in.mask.count++] = (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL};
        t->in.mask.layers[t->in.mask.count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_WINDOW, .window = {small, -1}};
        break;
    case 5: /* a global pattern whose keys another pattern hides in part */
        add_pattern(t, (attn_pattern){.kind = ATTN_PATTERN_GLOBAL, .num_keys = 9, .local = small});
        add_pattern(
            t, (attn_pattern){.kind = ATTN_PATTERN_STRIDED, .stride = 2 + size % 5, .local = 3});
        break;
    }
}

static trial begin(uint64_t seed) {
    trial t = {.arena = attn_arena_new(LIMIT), .seed = seed};
    const size_t B = 1 + pick(&t, 0, 2), Hkv = 1 + pick(&t, 1, 2), group = 1 + pick(&t, 2, 2);
    const size_t S = 1200 + pick(&t, 3, 300); /* more queries than keys: the first ones see none */
    const size_t L = (const size_t[]){S, 700 + pick(&t, 5, 300), S + 700}[pick(&t, 4, 3)];
    const size_t E = 1 + pick(&t, 6, 40), Ev = 1 + pick(&t, 7, 40);
    assert_non_null(t.arena);
    t.in = attn_attention_defaults();
    t.in.query = NORMAL_TENSOR(t.arena, 3 * seed + 1, B, Hkv * group, L, E);
    t.in.key = NORMAL_TENSOR(t.arena, 3 * seed + 2, B, Hkv, S, E);
    t.in.value = NORMAL_TENSOR(t.arena, 3 * seed + 3, B, Hkv, S, Ev);
    t.in.mask.offset = pick(&t, 8, 2) ? ATTN_OFFSET_END : ATTN_OFFSET_DEFAULT;
    t.in.softcap = pick(&t, 9, 4) ? 0 : 1.5;
    hide_most(&t);
    return t;
}

static attn_status try_run(trial *t, unsigned want, attn_pool *pool, attn_attention **a,
                           attn_error *err) {
    attn_status status = attn_attention_new(&t->in, t->arena, a, err);
    return status == ATTN_OK
               ? attn_attention_run(*a, want, ATTN_STAGE_RAW, pool, NULL, t->arena, &t->out, err)
               : status;
}

static attn_attention *run(trial *t, unsigned want, attn_pool *pool) {
    attn_attention *a;
    attn_error err = {.code = ATTN_OK};
    if (try_run(t, want, pool, &a, &err) != ATTN_OK)
        fail_msg("%s: %s", err.where, err.text);
    return a;
}

/* Returns whether the plan of the trial's pass has windows. */
static bool has_windows(const trial *t, unsigned want) {
    attn_attention_dims dims;
    attn_error err;
    attn_plan plan;
    assert_int_equal(attn_attention_shape(&t->in, &dims, &err), ATTN_OK);
    attn_plan_make(&dims, want, 1, &plan);
    return plan.main == ATTN_STEP_WINDOWS;
}

static size_t bytes_of(const attn_tensor *t) {
    size_t count;
    assert_true(attn_tensor_count(t, &count));
    return count * attn_dtype_size(t->dtype);
}

static void assert_same(const attn_results *a, const attn_results *b) {
    assert_memory_equal(a->output.data, b->output.data, bytes_of(&a->output));
    assert_memory_equal(a->logsumexp.data, b->logsumexp.data, bytes_of(&a->logsumexp));
    assert_int_equal(a->hidden_rows, b->hidden_rows);
}

/* Row i of head (b, h) by the definition, in double. */
static void check_row(const trial *t, const attn_attention *a, size_t b, size_t h, size_t i) {
    const attn_attention_dims *d = attn_attention_dims_of(a);
    const size_t kv = b * d->Hkv + h / (d->Hq / d->Hkv), row = (b * d->Hq + h) * d->L + i;
    const float *q = (const float *)t->in.query.data + row * d->E;
    const float *k = (const float *)t->in.key.data + kv * d->S * d->E;
    const float *v = (const float *)t->in.value.data + kv * d->S * d->Ev;
    uint8_t keep[2048];
    double sum = 0, out[64] = {0};
    attn_mask_keep(attn_attention_mask(a), b, h, i, 0, d->S, keep);
    for (size_t j = 0; j < d->S; j++) {
        double score = 0;
        for (size_t e = 0; e < d->E; e++)
            score += (double)q[e] * (double)k[j * d->E + e];
        score /= sqrt((double)d->E);
        if (t->in.softcap != 0)
            score = t->in.softcap * tanh(score / t->in.softcap);
        const double weight = keep[j] ? exp(score) : 0;
        sum += weight;
        for (size_t e = 0; e < d->Ev; e++)
            out[e] += weight * (double)v[j * d->Ev + e];
    }
    for (size_t e = 0; e < d->Ev; e++)
        assert_true(fabs((double)((float *)t->out.output.data)[row * d->Ev + e] -
                         (sum > 0 ? out[e] / sum : 0)) < 2e-5);
}

static void test_random_shapes(void **state) {
    attn_pool *pool = attn_pool_new(3);
    size_t windows = 0;
    (void)state;
    assert_non_null(pool);
    for (uint64_t seed = 0; seed < trials(TRIALS); seed++) {
        trial t = begin(seed);
        windows += has_windows(&t, WANT);
        assert_false(has_windows(&t, WANT | ATTN_WANT_CELLS));
        attn_attention *a = run(&t, WANT, NULL);
        const attn_attention_dims *d = attn_attention_dims_of(a);
        for (uint64_t n = 0; n < 30; n++)
            check_row(&t, a, pick(&t, 100 + 3 * n, d->B), pick(&t, 101 + 3 * n, d->Hq),
                      n < 10 ? n : pick(&t, 102 + 3 * n, d->L));
        const attn_results once = t.out;
        run(&t, WANT | ATTN_WANT_CELLS, NULL);
        assert_same(&once, &t.out);
        run(&t, WANT, pool);
        assert_same(&once, &t.out);
        attn_arena_free(t.arena);
    }
    assert_true(windows > trials(TRIALS) * 2 / 3);
    attn_pool_free(pool);
}

/* Weights that a pass with windows keeps have the bits of weights that are computed alone. */
static void test_weights(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        trial t = begin(seed);
        attn_error err;
        attn_attention *a = run(&t, WANT | ATTN_WANT_WEIGHTS, NULL);
        const attn_attention_dims *d = attn_attention_dims_of(a);
        attn_cells_scratch *scratch = attn_cells_scratch_new(a, t.arena);
        assert_true(has_windows(&t, WANT | ATTN_WANT_WEIGHTS) || d->isa == ATTN_ISA_REF);
        assert_non_null(scratch);
        for (uint64_t n = 0; n < 200; n++) {
            const size_t row = pick(&t, 200 + n, d->L);
            const size_t col = (row + pick(&t, 500 + n, 9)) % d->S;
            const attn_range one = {.row = row, .rows = 1, .col = col, .cols = 1};
            float cell;
            assert_int_equal(attn_attention_cells(a, &t.out.stats, &one, ATTN_STAGE_PROBS, &cell, 1,
                                                  scratch, &err),
                             ATTN_OK);
            assert_memory_equal(&cell, (float *)t.out.weights.data + row * d->S + col, sizeof cell);
        }
        attn_arena_free(t.arena);
    }
}

/* NaN in keys that no query sees changes no bit; a visible one is refused with its path; a huge
 * number is computed in double. */
static void test_not_finite(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        trial t = begin(seed);
        attn_attention *a;
        attn_error err;
        const size_t S = t.in.key.dims[2], E = t.in.key.dims[3];
        float *key = t.in.key.data;
        const int64_t length[] = {(int64_t)S - 3};
        t.in.mask.layers[t.in.mask.count++] = (attn_mask_layer){
            .kind = ATTN_LAYER_LENGTHS,
            .values = attn_tensor_dense((void *)(uintptr_t)length, ATTN_I64, 1, DIMS(1))};
        t.in.mask.offset = ATTN_OFFSET_DEFAULT;
        run(&t, WANT, NULL);
        const attn_results before = t.out;
        key[(S - 2) * E] = NAN;
        key[(S - 1) * E] = 3e38f;
        run(&t, WANT, NULL);
        assert_same(&before, &t.out);
        key[600 * E] = INFINITY;
        assert_int_equal(try_run(&t, WANT, NULL, &a, &err), ATTN_ENONFINITE);
        assert_string_equal(err.where, "key/0/0/600/0");
        key[600 * E] = 1e30f;
        a = run(&t, WANT, NULL);
        const attn_results once = t.out;
        run(&t, WANT | ATTN_WANT_CELLS, NULL);
        assert_same(&once, &t.out);
        attn_arena_free(t.arena);
    }
}

/* A pass takes no more memory than its cost says. */
static void test_cost(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        trial t = begin(seed);
        attn_cost cost;
        attn_error err;
        const size_t before = attn_arena_used(t.arena);
        attn_attention *a = run(&t, WANT, NULL);
        assert_int_equal(attn_attention_cost(attn_attention_dims_of(a), WANT, 1, &cost, &err),
                         ATTN_OK);
        assert_true(attn_arena_used(t.arena) - before <= cost.work_bytes + cost.result_bytes);
        attn_arena_free(t.arena);
    }
}

static attn_visits visits_of(trial *t) {
    attn_error err = {.code = ATTN_OK};
    attn_attention *a;
    assert_int_equal(attn_attention_new(&t->in, t->arena, &a, &err), ATTN_OK);
    return attn_attention_visited(attn_attention_dims_of(a), attn_attention_mask(a));
}

/* The counts of cells, and of those in tiles with hidden cells, by hand: under a causal mask the
 * block of rows i … i + n - 1 sees i + n keys, and all of its rows see the whole tiles before key
 * i + 1. A pattern of blocks of 12 blocks of the table's rows hides nothing inside. */
static void test_visits(void **state) {
    (void)state;
    trial t = begin(0);
    const size_t L = 1000, H = 3;
    t.in.query = t.in.key = t.in.value = NORMAL_TENSOR(t.arena, 1, 1, H, L, 20);
    t.in.mask = (attn_mask_spec){.count = 1, .layers = {{.kind = ATTN_LAYER_CAUSAL}}};
    attn_attention_dims dims;
    attn_error err;
    attn_plan plan;
    assert_int_equal(attn_attention_shape(&t.in, &dims, &err), ATTN_OK);
    attn_plan_make(&dims, WANT, 1, &plan);
    const size_t rows = plan.kernels->rows, keys = plan.kernels->keys;
    size_t cells = 0, edited = 0;
    for (size_t i = 0; i < L; i += rows) {
        const size_t n = L - i < rows ? L - i : rows, whole = (i + 1) / keys * keys;
        cells += H * n * (i + n);
        edited += H * n * (i + n - (i + 1 == L ? L : whole));
    }
    attn_visits visits = visits_of(&t);
    assert_true(visits.cells == (double)cells && visits.edited == (double)edited);
    t.in.mask.layers[0] = (attn_mask_layer){
        .kind = ATTN_LAYER_PATTERN,
        .pattern = {.kind = ATTN_PATTERN_BLOCK, .size = (int64_t)(12 * plan.kernels->rows)}};
    visits = visits_of(&t);
    assert_true(visits.edited == 0 && visits.cells < (double)(H * L * L));
    t.in.mask.count = 0;
    visits = visits_of(&t);
    assert_true(visits.edited == 0 && visits.cells == (double)(H * L * L));
    attn_arena_free(t.arena);
}

/* Queries before the first key see none, also in a block of rows of which the others see all keys
 * of a tile. */
static void test_rows_without_keys(void **state) {
    enum { S = 192, BEFORE = 100, L = S + BEFORE, E = 16 };
    (void)state;
    for (int64_t size = 64; size <= 2 * S; size += 64) {
        trial t = {.arena = attn_arena_new(LIMIT), .in = attn_attention_defaults()};
        attn_attention *a;
        attn_error err;
        t.in.query = NORMAL_TENSOR(t.arena, 1, L, E);
        t.in.key = NORMAL_TENSOR(t.arena, 2, S, E);
        t.in.value = NORMAL_TENSOR(t.arena, 3, S, E);
        t.in.mask.offset = ATTN_OFFSET_END;
        add_pattern(&t, (attn_pattern){.kind = ATTN_PATTERN_BLOCK, .size = size});
        assert_int_equal(try_run(&t, WANT, NULL, &a, &err), ATTN_OK);
        assert_int_equal(t.out.hidden_rows, BEFORE);
        const float *output = t.out.output.data, *lse = t.out.logsumexp.data;
        for (size_t i = 0; i < L; i++) {
            assert_true((isinf(lse[i]) != 0) == (i < BEFORE));
            for (size_t e = 0; i < BEFORE && e < E; e++)
                assert_true(output[i * E + e] == 0);
        }
        attn_arena_free(t.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_shapes), cmocka_unit_test(test_weights),
        cmocka_unit_test(test_not_finite),    cmocka_unit_test(test_cost),
        cmocka_unit_test(test_visits),        cmocka_unit_test(test_rows_without_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
