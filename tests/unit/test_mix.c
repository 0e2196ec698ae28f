/* Mixing of heads before and after the softmax on the chosen table: raw scores against their definition in
 * double, weights and single cells with the bits of the matrix, gradients with the same bits on any pool,
 * what stops the mixing, and what is refused. */
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

enum { TRIALS = 30, LIMIT = 1 << 28 };

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    size_t Hq, Hkv, L, S, E;
} trial;

static size_t pick(uint64_t seed, uint64_t at, size_t n) {
    return 1 + (size_t)(attn_rng_bits(seed, at) % n);
}

#define NORMAL(t, seed, ...) NORMAL_TENSOR((t)->arena, seed, __VA_ARGS__)

static trial make(uint64_t seed) {
    trial t = {.arena = attn_arena_new(LIMIT),
               .in = attn_attention_defaults(),
               .Hkv = pick(seed, 0, 3),
               .L = pick(seed, 1, 60),
               .S = pick(seed, 2, 200),
               .E = pick(seed, 3, 20)};
    assert_non_null(t.arena);
    t.Hq = t.Hkv * pick(seed, 4, 3);
    t.in.query = NORMAL(&t, seed, 1, t.Hq, t.L, t.E);
    t.in.key = NORMAL(&t, seed + 1, 1, t.Hkv, t.S, t.E);
    t.in.value = NORMAL(&t, seed + 2, 1, t.Hkv, t.S, 3);
    t.in.mix.logits = NORMAL(&t, seed + 3, t.Hq, t.Hq);
    return t;
}

static double number(const attn_tensor *x, size_t i) {
    return (double)((const float *)x->data)[i];
}

/* The mixed raw score of query i and key j in head g. *size becomes the sum of the magnitudes. */
static double definition(const trial *t, size_t g, size_t i, size_t j, double *size) {
    double sum = 0;
    *size = 0;
    for (size_t h = 0; h < t->Hq; h++)
        for (size_t e = 0; e < t->E; e++) {
            const size_t kv = h / (t->Hq / t->Hkv);
            const double term = number(&t->in.mix.logits, g * t->Hq + h) *
                                number(&t->in.query, (h * t->L + i) * t->E + e) *
                                number(&t->in.key, (kv * t->S + j) * t->E + e);
            sum += term;
            *size += fabs(term);
        }
    return sum;
}

static void check_scores(const trial *t, const attn_tensor *scores) {
    for (size_t at = 0; at < t->Hq * t->L * t->S; at++) {
        double size;
        const double want = definition(t, at / t->S / t->L, at / t->S % t->L, at % t->S, &size);
        assert_true(fabs(number(scores, at) - want) <= 1e-6 * size);
    }
}

static void check_cells(const trial *t, const attn_attention *a, const attn_results *out) {
    attn_cells_scratch *scratch = attn_cells_scratch_new(a, t->arena);
    float *cells = attn_arena_zeroed(t->arena, t->L * t->S, sizeof *cells);
    assert_non_null(scratch);
    assert_non_null(cells);
    for (size_t h = 0; h < t->Hq; h++) {
        const attn_range all = {0, h, 0, t->L, 0, t->S};
        assert_int_equal(attn_attention_cells(a, &out->stats, &all, ATTN_STAGE_PROBS, cells, t->S,
                                              scratch, NULL),
                         ATTN_OK);
        assert_memory_equal(cells, (const float *)out->weights.data + h * t->L * t->S,
                            t->L * t->S * sizeof *cells);
    }
}

static void test_scores_and_cells(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(TRIALS); seed++) {
        const trial t = make(10 * seed);
        attn_attention *a;
        attn_results out;
        attn_error err = {.code = ATTN_OK};
        if (attn_attention_new(&t.in, t.arena, &a, &err) ||
            attn_attention_run(a, ATTN_WANT_SCORES | ATTN_WANT_WEIGHTS, ATTN_STAGE_RAW, NULL, NULL,
                               t.arena, &out, &err))
            fail_msg("%s: %s", err.where, err.text);
        check_scores(&t, &out.scores);
        check_cells(&t, a, &out);
        attn_arena_free(t.arena);
    }
}

/* Makes the operation on a pool, and runs it with its backward pass. */
static attn_gradients gradients_on(trial *t, attn_pool *pool, attn_attention **a) {
    attn_results out;
    attn_gradients grads;
    attn_error err = {.code = ATTN_OK};
    attn_tensor loss = NORMAL(t, 9, 1, t->Hq, t->L, 3);
    t->in.pool = pool;
    if (attn_attention_new(&t->in, t->arena, a, &err) ||
        attn_attention_run_backward(*a, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, &loss, pool, NULL,
                                    t->arena, &out, &grads, &err))
        fail_msg("%s: %s", err.where, err.text);
    return grads;
}

static void same_bytes(const attn_tensor *x, const attn_tensor *y) {
    size_t n;
    assert_true(x->rank > 0 && attn_tensor_count(x, &n));
    assert_memory_equal(x->data, y->data, n * attn_dtype_size(x->dtype));
}

static void test_pools(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(TRIALS) / 3; seed++) {
        trial t = make(10 * seed);
        attn_attention *a;
        attn_pool *pool = attn_pool_new(3);
        assert_non_null(pool);
        const attn_gradients one = gradients_on(&t, NULL, &a), many = gradients_on(&t, pool, &a);
        same_bytes(&one.query, &many.query);
        same_bytes(&one.key, &many.key);
        same_bytes(&one.mix_logits, &many.mix_logits);
        attn_pool_free(pool);
        attn_arena_free(t.arena);
    }
}

static void test_canceled(void **state) {
    (void)state;
    trial t = make(3);
    const attn_flag stop = 1;
    const attn_control canceled = {.cancel = &stop}, late = {.deadline_ns = 1};
    attn_attention *a;
    attn_error err;
    t.in.control = &canceled;
    assert_int_equal(attn_attention_new(&t.in, t.arena, &a, &err), ATTN_ECANCELED);
    t.in.control = &late;
    assert_int_equal(attn_attention_new(&t.in, t.arena, &a, &err), ATTN_EDEADLINE);
    attn_arena_free(t.arena);
}

/* --- mixed weights --- */

/* Makes a trial whose weights are mixed: by a matrix, or by subtraction over pairs of heads. */
static trial make_weights(uint64_t seed, bool pairs) {
    trial t = make(seed);
    const size_t heads = pairs ? 1 : pick(seed, 5, 3), G = heads * pick(seed, 6, 3);
    t.in.mix.logits = (attn_tensor){.rank = 0};
    if (pairs) {
        t.Hq = 2 * t.Hkv;
        t.in.query = NORMAL(&t, seed, 1, t.Hq, t.L, t.E);
        t.in.subtract.lambda = NORMAL(&t, seed + 4, t.Hkv);
        t.in.subtract.pairs = seed % 20 ? ATTN_PAIRS_ADJACENT : ATTN_PAIRS_HALVES;
    } else {
        t.in.mix.weights = NORMAL(&t, seed + 4, G, t.Hq);
    }
    t.in.value = NORMAL(&t, seed + 2, 1, pairs ? t.Hkv : heads, t.S, 3);
    return t;
}

static size_t head_of(const trial *t, size_t g, size_t n) {
    return t->in.subtract.pairs == ATTN_PAIRS_ADJACENT ? 2 * g + n
           : t->in.subtract.pairs                      ? g + n * t->Hq / 2
                                                       : n;
}

static double factor_of(const trial *t, size_t g, size_t n) {
    if (t->in.subtract.pairs)
        return n ? -number(&t->in.subtract.lambda, g) : 1;
    return number(&t->in.mix.weights, g * t->Hq + n);
}

/* The weights of all heads, and then of the mix, [heads, L, S]. */
static attn_results weights_of(trial *t, const attn_inputs *in, attn_attention **a) {
    attn_results out;
    attn_error err = {.code = ATTN_OK};
    if (attn_attention_new(in, t->arena, a, &err) ||
        attn_attention_run(*a, ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS, ATTN_STAGE_RAW, NULL, NULL,
                           t->arena, &out, &err))
        fail_msg("%s: %s", err.where, err.text);
    return out;
}

static void check_mix(trial *t) {
    attn_inputs apart = t->in;
    attn_attention *a, *heads;
    const attn_results out = weights_of(t, &t->in, &a);
    apart.mix.weights = apart.subtract.lambda = (attn_tensor){.rank = 0};
    apart.subtract.pairs = ATTN_PAIRS_UNSTATED;
    apart.value = NORMAL(t, 3, 1, t->Hkv, t->S, 3);
    const attn_results each = weights_of(t, &apart, &heads);
    const attn_attention_dims *d = attn_attention_dims_of(a);
    for (size_t g = 0; g < d->Ho; g++)
        for (size_t i = 0; i < t->L; i++) {
            double output[3] = {0}, size = 0;
            for (size_t j = 0; j < t->S; j++) {
                double want = 0;
                for (size_t n = 0; n < d->reads; n++)
                    want += factor_of(t, g, n) *
                            number(&each.weights, (head_of(t, g, n) * t->L + i) * t->S + j);
                const double got = number(&out.weights, (g * t->L + i) * t->S + j);
                assert_true(fabs(got - want) <= 1e-6);
                for (size_t e = 0; e < 3; e++)
                    output[e] +=
                        want * number(&t->in.value, (g / (d->Ho / d->Hv) * t->S + j) * 3 + e);
                size += 1 + fabs(want);
            }
            for (size_t e = 0; e < 3; e++)
                assert_true(fabs(number(&out.output, (g * t->L + i) * 3 + e) - output[e]) <=
                            1e-6 * size);
        }
    t->Hq = d->Ho; /* check_cells goes over the maps */
    check_cells(t, a, &out);
}

static void test_weights(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 2 * trials(TRIALS); seed++) {
        trial t = make_weights(10 * (seed / 2), seed % 2);
        check_mix(&t);
        attn_arena_free(t.arena);
    }
}

static void test_weights_on_pools(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        trial t = make_weights(10 * seed, seed % 2);
        attn_attention *a;
        attn_pool *pool = attn_pool_new(3);
        assert_non_null(pool);
        attn_attention_dims d;
        assert_int_equal(attn_attention_shape(&t.in, &d, NULL), ATTN_OK);
        const size_t heads = t.Hq;
        t.Hq = d.Ho; /* the loss has the shape of the output */
        const attn_gradients one = gradients_on(&t, NULL, &a), many = gradients_on(&t, pool, &a);
        t.Hq = heads;
        same_bytes(&one.query, &many.query);
        same_bytes(&one.value, &many.value);
        if (seed % 2)
            same_bytes(&one.subtract_lambda, &many.subtract_lambda);
        else
            same_bytes(&one.mix_weights, &many.mix_weights);
        attn_pool_free(pool);
        attn_arena_free(t.arena);
    }
}

static void refuse(trial *t, const char *where) {
    attn_attention_dims dims;
    attn_error err = {.code = ATTN_OK};
    assert_int_not_equal(attn_attention_shape(&t->in, &dims, &err), ATTN_OK);
    assert_string_equal(err.where, where);
}

static void test_refused(void **state) {
    (void)state;
    trial t = make(1), other = t;
    other.in.mix.logits = NORMAL(&t, 5, t.Hq, t.Hq + 1);
    refuse(&other, "mix/logits");
    other = t;
    other.in.mix.logits.dtype = ATTN_I32;
    refuse(&other, "mix/logits");
    other = t;
    other.in.score.kind = ATTN_SCORE_general;
    other.in.score.w = NORMAL(&t, 6, t.E, t.E);
    refuse(&other, "mix");
    other = t;
    other.in.position.kind = ATTN_POSITION_SHAW;
    other.in.position.key_table = NORMAL(&t, 7, 3, t.E);
    refuse(&other, "mix");
    other = t;
    other.in.mix.logits = (attn_tensor){.rank = 0};
    other.in.mix.weights = NORMAL(&t, 8, 2, t.Hq + 1);
    refuse(&other, "mix/weights");
    other.in.mix.weights = NORMAL(&t, 8, t.Hkv + 1, t.Hq);
    if (t.Hkv > 1)
        refuse(&other, "value");
    other.in.subtract.pairs = ATTN_PAIRS_HALVES;
    refuse(&other, "subtract");
    other.in.mix.weights = (attn_tensor){.rank = 0};
    other.in.subtract.pairs = ATTN_PAIRS_UNSTATED;
    other.in.subtract.lambda = NORMAL(&t, 9, 1);
    refuse(&other, "subtract/pairs");
    attn_arena_free(t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores_and_cells), cmocka_unit_test(test_pools),
        cmocka_unit_test(test_canceled),         cmocka_unit_test(test_weights),
        cmocka_unit_test(test_weights_on_pools), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
