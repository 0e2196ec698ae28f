/* Normalisers other than softmax on the chosen table: weights against their definition in double,
 * rows that sum to 1, single cells with the bits of the matrix, NaN in hidden keys and values, and
 * shapes without keys. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "unit/normal_tensor.h"
#include "unit/trials.h"

enum { TRIALS = 30, LIMIT = 1 << 28, H = 2 };

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_attention *a;
    attn_results out;
    size_t L, S, Ev;
} trial;

static size_t pick(uint64_t seed, uint64_t at, size_t n) {
    return (size_t)(attn_rng_bits(seed, at) % n);
}

#define NORMAL(t, seed, ...) NORMAL_TENSOR((t)->arena, seed, __VA_ARGS__)

static attn_normalizer_kind kind_of(const trial *t) {
    return t->in.normalizer.kind;
}

/* The first S - S / 3 keys are visible. */
static trial make(uint64_t seed, size_t L, size_t S) {
    trial t = {.arena = attn_arena_new(LIMIT), .in = attn_attention_defaults(), .L = L, .S = S};
    assert_non_null(t.arena);
    const size_t E = 1 + pick(seed, 3, 40);
    t.Ev = 1 + pick(seed, 4, 40);
    t.in.query = NORMAL(&t, seed, 1, H, L, E);
    t.in.key = NORMAL(&t, seed + 1, 1, H, S, E);
    t.in.value = NORMAL(&t, seed + 2, 1, H, S, t.Ev);
    t.in.normalizer.kind = (attn_normalizer_kind)(1 + seed % (ATTN_NORMALIZER_COUNT - 1));
    if (kind_of(&t) == ATTN_NORMALIZER_sigmoid && pick(seed, 5, 2))
        t.in.normalizer.bias = NORMAL(&t, seed + 3, H);
    if (kind_of(&t) == ATTN_NORMALIZER_entmax && pick(seed, 5, 2))
        t.in.normalizer.alpha = 1.1;
    if (attn_normalizer_sums_to_1(kind_of(&t)) && pick(seed, 6, 2))
        t.in.sinks = NORMAL(&t, seed + 4, H);
    int64_t *length = attn_arena_zeroed(t.arena, 1, sizeof *length);
    assert_non_null(length);
    *length = (int64_t)(S - S / 3);
    t.in.mask.layers[t.in.mask.count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_LENGTHS,
                          .where = "key_lengths",
                          .values = attn_tensor_dense(length, ATTN_I64, 1, (size_t[]){1})};
    return t;
}

static void run(trial *t) {
    const unsigned want =
        ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP | ATTN_WANT_SCORES;
    attn_error err = {.code = ATTN_OK};
    if (attn_attention_new(&t->in, t->arena, &t->a, &err) ||
        attn_attention_run(t->a, want, ATTN_STAGE_BIASED, NULL, NULL, t->arena, &t->out, &err))
        fail_msg("%s: %s", err.where, err.text);
}

static float number(const attn_tensor *x, size_t i) {
    return ((const float *)x->data)[i];
}

/* The weight of a score in a row with the threshold t. */
static double weight(const trial *t, size_t h, size_t seen, double s, double threshold) {
    const attn_normalizer *z = &t->in.normalizer;
    const double alpha = z->kind == ATTN_NORMALIZER_sparsemax ? 2 : z->alpha != 0 ? z->alpha : 1.5;
    switch (z->kind) {
    case ATTN_NORMALIZER_sigmoid:
        return 1 / (1 + exp(-(s + (z->bias.rank ? (double)number(&z->bias, h) : 0))));
    case ATTN_NORMALIZER_relu:
        return fmax(0, s) / (double)seen;
    case ATTN_NORMALIZER_relu_squared:
        return pow(fmax(0, s), 2) / (double)seen;
    default:
        return pow(fmax(0, (alpha - 1) * (s - threshold)), 1 / (alpha - 1));
    }
}

/* Checks the weights of one row. The threshold of a row that sums to 1 is found by bisection. */
static void check_row(const trial *t, size_t h, size_t row) {
    const size_t first = row * t->S, seen = t->S - t->S / 3;
    double low = -1e4, high = 1e4, mass = 0;
    for (int step = 0; attn_normalizer_sums_to_1(kind_of(t)) && step < 200; step++) {
        const double middle = (low + high) / 2;
        double sum =
            t->in.sinks.rank ? weight(t, h, seen, (double)number(&t->in.sinks, h), middle) : 0;
        for (size_t j = 0; j < seen; j++)
            sum += weight(t, h, seen, (double)number(&t->out.scores, first + j), middle);
        if (sum > 1)
            low = middle;
        else
            high = middle;
    }
    for (size_t j = 0; j < t->S; j++) {
        const double found = (double)number(&t->out.weights, first + j);
        const double wanted =
            j < seen ? weight(t, h, seen, (double)number(&t->out.scores, first + j), low) : 0;
        assert_true(fabs(found - wanted) <= 1e-6 * fmax(1, wanted));
        mass += found;
    }
    if (attn_normalizer_sums_to_1(kind_of(t)))
        assert_true(t->in.sinks.rank ? mass <= 1 + 1e-6 : fabs(mass - 1) <= 1e-6);
    assert_true(isnan(number(&t->out.logsumexp, row)));
}

static void check_output(const trial *t, size_t h, size_t row) {
    for (size_t e = 0; e < t->Ev; e++) {
        double sum = 0, size = 1;
        for (size_t j = 0; j < t->S - t->S / 3; j++) {
            const double x = (double)number(&t->out.weights, row * t->S + j) *
                             (double)number(&t->in.value, (h * t->S + j) * t->Ev + e);
            sum += x;
            size += fabs(x);
        }
        assert_true(fabs((double)number(&t->out.output, row * t->Ev + e) - sum) <= 1e-5 * size);
    }
}

static void check_cells(const trial *t, uint64_t seed) {
    attn_cells_scratch *scratch = attn_cells_scratch_new(t->a, t->arena);
    assert_non_null(scratch);
    for (uint64_t n = 0; n < 12; n++) {
        const attn_range one = {.head = pick(seed, n, H),
                                .row = pick(seed, 20 + n, t->L),
                                .rows = 1,
                                .col = pick(seed, 40 + n, t->S),
                                .cols = 1};
        const size_t at = (one.head * t->L + one.row) * t->S + one.col;
        float cell;
        assert_int_equal(attn_attention_cells(t->a, &t->out.stats, &one, ATTN_STAGE_PROBS, &cell, 1,
                                              scratch, NULL),
                         ATTN_OK);
        assert_memory_equal(&cell, (const float *)t->out.weights.data + at, sizeof cell);
    }
}

static void test_weights(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(TRIALS); seed++) {
        trial t = make(seed, 1 + pick(seed, 1, 100), 1 + pick(seed, 2, 300));
        run(&t);
        for (size_t n = 0; n < H * t.L; n++) {
            check_row(&t, n / t.L, n);
            check_output(&t, n / t.L, n);
        }
        check_cells(&t, seed);
        attn_arena_free(t.arena);
    }
}

/* NaN in hidden keys and values changes no bit of the results. */
static void test_hidden(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(TRIALS); seed++) {
        trial t = make(seed, 1 + pick(seed, 1, 100), 3 + pick(seed, 2, 300));
        run(&t);
        const attn_results clean = t.out;
        attn_tensor *const sides[] = {&t.in.key, &t.in.value};
        for (size_t s = 0; s < 2; s++)
            for (size_t n = 0; n < H * t.S; n++)
                for (size_t e = 0; n % t.S >= t.S - t.S / 3 && e < sides[s]->dims[3]; e++)
                    ((float *)sides[s]->data)[n * sides[s]->dims[3] + e] = NAN;
        run(&t);
        assert_memory_equal(clean.output.data, t.out.output.data, H * t.L * t.Ev * sizeof(float));
        assert_memory_equal(clean.weights.data, t.out.weights.data, H * t.L * t.S * sizeof(float));
        attn_arena_free(t.arena);
    }
}

/* Without keys, rows have no weights and outputs of 0; without queries there is nothing. */
static void test_empty(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 2 * ATTN_NORMALIZER_COUNT; seed++) {
        trial t = make(seed, seed % 2 ? 5 : 0, seed % 2 ? 0 : 5);
        run(&t);
        for (size_t i = 0; i < H * t.L * t.Ev; i++)
            assert_true(number(&t.out.output, i) == 0);
        attn_arena_free(t.arena);
    }
}

/* Scores beyond the range of the kernel tables: rows are computed in double. A weight that float
 * cannot hold is refused with its query. */
static void test_range(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < ATTN_NORMALIZER_COUNT - 1; seed++) {
        trial t = make(seed, 7, 30);
        t.in.scale = 1e6;
        run(&t);
        for (size_t n = 0; n < H * t.L; n++)
            if (kind_of(&t) != ATTN_NORMALIZER_relu_squared)
                check_output(&t, n / t.L, n);
        attn_arena_free(t.arena);
    }
    trial t = make(ATTN_NORMALIZER_relu_squared - 1, 7, 30);
    attn_error err = {.code = ATTN_OK};
    t.in.scale = 1e25;
    assert_int_equal(attn_attention_new(&t.in, t.arena, &t.a, &err), ATTN_OK);
    assert_int_equal(attn_attention_run(t.a, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, NULL, NULL, t.arena,
                                        &t.out, &err),
                     ATTN_ENONFINITE);
    assert_memory_equal(err.where, "query/", 6);
    attn_arena_free(t.arena);
}

static attn_status refused(trial *t, const char *where) {
    attn_error err = {.code = ATTN_OK};
    const attn_status status = attn_attention_new(&t->in, t->arena, &t->a, &err);
    assert_string_equal(err.where, where);
    return status;
}

static void test_errors(void **state) {
    trial t = make(0, 3, 4);
    (void)state;
    t.in.normalizer = (attn_normalizer){.kind = ATTN_NORMALIZER_COUNT};
    assert_int_equal(refused(&t, "normalizer"), ATTN_EARG);
    t.in.normalizer = (attn_normalizer){.kind = ATTN_NORMALIZER_sigmoid, .bias = NORMAL(&t, 1, 3)};
    assert_int_equal(refused(&t, "normalizer/bias"), ATTN_ESHAPE);
    t.in.normalizer = (attn_normalizer){.kind = ATTN_NORMALIZER_relu, .divisor = -1};
    assert_int_equal(refused(&t, "normalizer/divisor"), ATTN_EARG);
    t.in.normalizer = (attn_normalizer){.kind = ATTN_NORMALIZER_entmax, .alpha = 1};
    assert_int_equal(refused(&t, "normalizer/alpha"), ATTN_EARG);
    t.in.normalizer = (attn_normalizer){.kind = ATTN_NORMALIZER_relu};
    t.in.sinks = NORMAL(&t, 1, H);
    assert_int_equal(refused(&t, "sinks"), ATTN_EARG);
    attn_arena_free(t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights), cmocka_unit_test(test_hidden), cmocka_unit_test(test_empty),
        cmocka_unit_test(test_range),   cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
