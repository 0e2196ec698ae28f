/* Keys and values that no query sees leave no trace in any bit, whatever they hold: on the chosen
 * table in every precision, whichever way keys are packed, in outputs and in gradients. Nor does a
 * query in the rows of others. */
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

enum { LIMIT = 1 << 28, TRIALS = 24 };

static size_t pick(uint64_t seed, uint64_t at, size_t n) {
    return (size_t)(attn_rng_bits(seed, at) % n);
}

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_tensor grad_output;
    size_t heads, S, hidden; /* key/value heads; keys; the key that nobody sees */
    uint8_t *keep;
} trial;

/* One key is hidden by padding, by a boolean mask, by -infinity or by being behind all queries. */
static trial make(uint64_t seed) {
    static const size_t lengths[] = {1, 5, 40, 130};
    trial t = {.arena = attn_arena_new(LIMIT), .in = attn_attention_defaults()};
    const size_t H = 1 + pick(seed, 1, 9), L = lengths[pick(seed, 2, 4)];
    const size_t E = 1 + pick(seed, 3, 70), Ev = 1 + pick(seed, 4, 70);
    assert_non_null(t.arena);
    t.S = 2 + pick(seed, 5, pick(seed, 6, 2) ? 300 : 1500);
    t.heads = H;
    t.hidden = pick(seed, 7, t.S);
    t.in.precision = (attn_precision)pick(seed, 8, 3);
    t.in.query = NORMAL_TENSOR(t.arena, seed, 1, H, L, E);
    t.in.key = NORMAL_TENSOR(t.arena, seed + 1, 1, H, t.S, E);
    t.in.value = NORMAL_TENSOR(t.arena, seed + 2, 1, H, t.S, Ev);
    t.grad_output = NORMAL_TENSOR(t.arena, seed + 3, 1, H, L, Ev);
    t.keep = attn_arena_zeroed(t.arena, t.S, 1);
    assert_non_null(t.keep);
    memset(t.keep, 1, t.S);
    t.keep[t.hidden] = 0;
    attn_mask_layer *layer = &t.in.mask.layers[t.in.mask.count++];
    const size_t row[] = {1, t.S};
    *layer = (attn_mask_layer){.kind = ATTN_LAYER_PADDING,
                               .where = "key_padding_mask",
                               .semantics = ATTN_SEM_KEEP,
                               .values = attn_tensor_dense(t.keep, ATTN_BOOL, 2, row)};
    if (pick(seed, 9, 3) == 1)
        layer->kind = ATTN_LAYER_VALUES;
    if (pick(seed, 9, 3) == 2) {
        float *bias = attn_arena_zeroed(t.arena, t.S, sizeof *bias);
        assert_non_null(bias);
        bias[t.hidden] = -INFINITY;
        *layer = (attn_mask_layer){.kind = ATTN_LAYER_BIAS,
                                   .where = "attn_bias",
                                   .values = attn_tensor_dense(bias, ATTN_F32, 2, row)};
    }
    return t;
}

static void hide(trial *t, float x) {
    for (int side = 0; side < 2; side++) {
        const attn_tensor *rows = side ? &t->in.value : &t->in.key;
        const size_t width = rows->dims[3];
        for (size_t h = 0; h < t->heads; h++)
            for (size_t e = 0; e < width; e++)
                ((float *)rows->data)[(h * t->S + t->hidden) * width + e] = e % 2 ? -x : x;
    }
}

typedef struct found {
    attn_results results;
    attn_gradients gradients;
} found;

static found run(const trial *t) {
    const unsigned want = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP;
    found f = {0};
    attn_error err;
    attn_attention *a;
    attn_status status = attn_attention_new(&t->in, t->arena, &a, &err);
    if (!status && t->in.precision == ATTN_PRECISION_FP32)
        status = attn_attention_run_backward(a, want, ATTN_STAGE_RAW, &t->grad_output, NULL, NULL,
                                             t->arena, &f.results, &f.gradients, &err);
    else if (!status)
        status =
            attn_attention_run(a, want, ATTN_STAGE_RAW, NULL, NULL, t->arena, &f.results, &err);
    if (status)
        fail_msg("%s: %s", err.where, err.text);
    return f;
}

static void assert_same(const attn_tensor *x, const attn_tensor *y) {
    size_t n;
    if (!x->rank)
        return;
    assert_true(attn_tensor_count(x, &n));
    assert_memory_equal(x->data, y->data, n * sizeof(float));
}

static void test_no_trace(void **state) {
    static const float odd[] = {NAN, INFINITY, 3.4e38f, 1e30f, 1e25f, 1e-42f};
    (void)state;
    for (uint64_t seed = 1; seed <= trials(TRIALS); seed++) {
        trial t = make(seed * 10);
        hide(&t, 0);
        const found clean = run(&t);
        const attn_arena_mark mark = attn_arena_here(t.arena);
        for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
            hide(&t, odd[i]);
            const found got = run(&t);
            assert_same(&clean.results.output, &got.results.output);
            assert_same(&clean.results.weights, &got.results.weights);
            assert_same(&clean.results.logsumexp, &got.results.logsumexp);
            assert_same(&clean.gradients.query, &got.gradients.query);
            assert_same(&clean.gradients.key, &got.gradients.key);
            assert_same(&clean.gradients.value, &got.gradients.value);
            attn_arena_rewind(t.arena, &mark);
        }
        attn_arena_free(t.arena);
    }
}

static void assert_same_rows(const attn_tensor *x, const attn_tensor *y, size_t L, size_t but) {
    size_t n;
    assert_true(attn_tensor_count(x, &n));
    const size_t width = x->dims[x->rank - 1];
    for (size_t r = 0; r < n / width; r++)
        if (r % L != but)
            assert_memory_equal((float *)x->data + r * width, (float *)y->data + r * width,
                                width * sizeof(float));
}

static void test_neighbours(void **state) {
    static const float odd[] = {NAN, INFINITY, 3.4e38f, 1e30f, 1e25f, 1e-42f};
    (void)state;
    for (uint64_t seed = 1; seed <= trials(TRIALS); seed++) {
        trial t = make(seed * 10 + 5);
        const size_t L = t.in.query.dims[2], E = t.in.query.dims[3], row = pick(seed, 11, L);
        const unsigned want = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS;
        attn_results clean, got;
        attn_attention *a;
        t.in.allow_nonfinite = true;
        assert_int_equal(attn_attention_new(&t.in, t.arena, &a, NULL), ATTN_OK);
        assert_int_equal(
            attn_attention_run(a, want, ATTN_STAGE_RAW, NULL, NULL, t.arena, &clean, NULL),
            ATTN_OK);
        for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
            for (size_t h = 0; h < t.heads; h++)
                for (size_t e = 0; e < E; e++)
                    ((float *)t.in.query.data)[(h * L + row) * E + e] = e % 2 ? -odd[i] : odd[i];
            assert_int_equal(attn_attention_new(&t.in, t.arena, &a, NULL), ATTN_OK);
            assert_int_equal(
                attn_attention_run(a, want, ATTN_STAGE_RAW, NULL, NULL, t.arena, &got, NULL),
                ATTN_OK);
            assert_same_rows(&clean.output, &got.output, L, row);
            assert_same_rows(&clean.weights, &got.weights, L, row);
        }
        attn_arena_free(t.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_trace),
                                       cmocka_unit_test(test_neighbours)};
    return cmocka_run_group_tests_name("hidden", tests, NULL, NULL);
}
