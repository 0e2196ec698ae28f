/* What an operation and its gradients cost is no less than what they take from their arena, and
 * what a pass costs is what it takes: random shapes, forms, positions, element types and wants, in
 * float and, where that overflows, once more in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "attention/forward.h"
#include "unit/normal_tensor.h"
#include "unit/trials.h"

enum { TRIALS = 60, LIMIT = 1 << 28, MOST_SLOTS = 3 };

typedef struct trial {
    attn_arena *inputs;
    attn_inputs in;
    uint64_t seed, next;
    size_t bias_elements;
} trial;

static size_t pick(trial *t, size_t n) {
    return (size_t)(attn_rng_bits(t->seed, t->next++) % n);
}

static attn_tensor normal(trial *t, int rank, const size_t *dims) {
    return normal_tensor(t->inputs, t->seed * 1000 + t->next++, rank, dims);
}

#define NORMAL(t, ...) normal(t, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))

static attn_tensor doubled(trial *t, attn_tensor x) {
    size_t count;
    assert_true(attn_tensor_count(&x, &count));
    double *data = attn_arena_zeroed(t->inputs, count, sizeof *data);
    assert_non_null(data);
    attn_widen_f64(data, x.data, x.dtype, 1, count);
    return attn_tensor_dense(data, ATTN_F64, x.rank, x.dims);
}

static void choose_score(trial *t, size_t E, size_t Ek) {
    const size_t A = 1 + pick(t, 40);
    attn_score *s = &t->in.score;
    s->kind = E != Ek ? ATTN_SCORE_additive : (attn_score_kind)pick(t, ATTN_SCORE_COUNT);
    if (s->kind == ATTN_SCORE_additive) {
        s->w_q = NORMAL(t, A, E);
        s->w_k = NORMAL(t, A, Ek);
        s->b = NORMAL(t, A);
    } else if (s->kind == ATTN_SCORE_concat) {
        s->w = NORMAL(t, A, E + Ek);
    } else if (s->kind == ATTN_SCORE_general) {
        s->w = NORMAL(t, Ek, E);
    }
    if (s->kind == ATTN_SCORE_additive || s->kind == ATTN_SCORE_concat)
        s->v = NORMAL(t, A);
}

static void choose_position(trial *t, size_t H, size_t E, size_t Ev) {
    attn_position *p = &t->in.position;
    const bool dot =
        t->in.score.kind == ATTN_SCORE_scaled_dot || t->in.score.kind == ATTN_SCORE_dot;
    p->kind = (attn_position_kind)pick(t, dot ? ATTN_POSITION_ROTARY + 1 : ATTN_POSITION_SHAW);
    const size_t width = 2 * pick(t, 600) + 1;
    if (p->kind == ATTN_POSITION_ALIBI)
        p->slopes = NORMAL(t, H);
    if (p->kind == ATTN_POSITION_T5)
        p->table = NORMAL(t, 32, H);
    if (p->kind == ATTN_POSITION_T5)
        p->max_distance = 100000;
    if (p->kind == ATTN_POSITION_RELATIVE)
        p->table = NORMAL(t, H, width);
    if (p->kind == ATTN_POSITION_SHAW) {
        p->key_table = NORMAL(t, width, E);
        p->value_table = NORMAL(t, H, width, Ev);
    }
    if (p->kind == ATTN_POSITION_DISENTANGLED) {
        p->key_table = NORMAL(t, 4 * width + 4, E);
        p->query_table = NORMAL(t, H, 4 * width + 4, E);
        p->max_distance = pick(t, 2) ? 100000 : 0;
    }
    p->rotary = ATTN_ROTARY_HALVES;
    if (p->kind == ATTN_POSITION_ROTARY && pick(t, 2))
        p->frequencies = NORMAL(t, E / 2);
    if (p->kind == ATTN_POSITION_ROTARY && pick(t, 2))
        t->in.score_position =
            (attn_position){.kind = ATTN_POSITION_RELATIVE, .table = NORMAL(t, H, width)};
}

static void mix_weights(trial *t, size_t Hq, size_t Hkv) {
    if (Hq % 2 == 0 && Hq / 2 % Hkv == 0 && pick(t, 2)) {
        t->in.subtract.lambda = NORMAL(t, 1);
        t->in.subtract.pairs = pick(t, 2) ? ATTN_PAIRS_ADJACENT : ATTN_PAIRS_HALVES;
    } else {
        t->in.mix.weights = NORMAL(t, Hkv * (1 + pick(t, 3)), Hq);
    }
}

static trial make_trial(uint64_t seed) {
    static const size_t groups[] = {1, 1, 2, 7, 20}, most[] = {9, 60, 300};
    trial t = {.inputs = attn_arena_new(LIMIT), .in = attn_attention_defaults(), .seed = seed};
    assert_non_null(t.inputs);
    const size_t B = 1 + pick(&t, 3), Hkv = 1 + pick(&t, 2), Hq = Hkv * groups[pick(&t, 5)];
    const size_t L = 1 + pick(&t, most[pick(&t, 3)]), past = pick(&t, 2) ? pick(&t, 50) : 0;
    const size_t n = 1 + pick(&t, L < 9 && !pick(&t, 4) ? 9000 : 200);
    const size_t E = 2 + 2 * pick(&t, 20), Ek = pick(&t, 5) ? E : E + 3, Ev = 1 + pick(&t, 40);
    t.in.query = NORMAL(&t, B, Hq, L, E);
    t.in.key = NORMAL(&t, pick(&t, 3) ? B : 1, Hkv, n, Ek);
    t.in.value = NORMAL(&t, B, Hkv, n, Ev);
    if (past) {
        t.in.past_key = NORMAL(&t, B, Hkv, past, Ek);
        t.in.past_value = NORMAL(&t, B, Hkv, past, Ev);
    }
    choose_score(&t, E, Ek);
    choose_position(&t, Hq, E, Ev);
    if (t.in.score.kind <= ATTN_SCORE_dot && t.in.position.kind != ATTN_POSITION_SHAW &&
        t.in.position.kind != ATTN_POSITION_DISENTANGLED && !pick(&t, 3))
        t.in.mix.logits = NORMAL(&t, Hq, Hq);
    if (!pick(&t, 3))
        t.in.normalizer.kind = (attn_normalizer_kind)pick(&t, ATTN_NORMALIZER_COUNT);
    if (t.in.normalizer.kind == ATTN_NORMALIZER_sigmoid)
        t.in.normalizer.bias = NORMAL(&t, pick(&t, 2) ? Hq : 1);
    const attn_normalizer_kind kind = t.in.normalizer.kind;
    if ((kind == ATTN_NORMALIZER_softmax || attn_normalizer_sums_to_1(kind)) && pick(&t, 2))
        t.in.sinks = NORMAL(&t, Hq);
    if (pick(&t, 2))
        t.in.dropout_p = 0.2;
    for (size_t l = pick(&t, 3); l > 0; l--) {
        const attn_tensor bias = NORMAL(&t, pick(&t, 2) ? Hq : 1, L, past + n);
        t.bias_elements += bias.dims[0] * L * (past + n);
        t.in.mask.layers[t.in.mask.count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_BIAS, .where = "bias", .values = bias};
    }
    if (!pick(&t, 4))
        t.in.value = doubled(&t, t.in.value);
    if (t.in.position.kind != ATTN_POSITION_SHAW && !pick(&t, 3))
        mix_weights(&t, Hq, Hkv);
    return t;
}

static void check_cost(const attn_cost *cost, size_t used, const char *what, uint64_t seed) {
    if (used > cost->work_bytes + cost->result_bytes + cost->fallback_bytes)
        fail_msg("%s of trial %llu: %zu bytes, beyond %zu + %zu + %zu", what,
                 (unsigned long long)seed, used, cost->work_bytes, cost->result_bytes,
                 cost->fallback_bytes);
}

/* A pass in which no row needs double takes the bytes of its plan, no more and no fewer. */
static void check_pass(const attn_attention_dims *d, unsigned want, size_t slots,
                       const attn_results *out, size_t used, uint64_t seed) {
    attn_plan plan;
    attn_forward_bytes bytes;
    attn_plan_make(d, want, slots, &plan);
    assert_true(attn_forward_count(&plan, &bytes));
    const bool any_double = memchr(out->stats.kind, ATTN_ROW_DOUBLE, d->B * d->Hq * d->L) != NULL;
    if (any_double ? used > bytes.work + bytes.results + bytes.fallback
                   : used != bytes.work + bytes.results)
        fail_msg("pass of trial %llu: %zu bytes, not %zu + %zu", (unsigned long long)seed, used,
                 bytes.work, bytes.results);
}

/* With a grad_output times `scale`, which may be too large for float. */
static void check_gradients(trial *t, attn_attention *a, const attn_results *out, size_t slots,
                            attn_pool *pool, attn_arena *arena, float scale) {
    attn_tensor grad = normal(t, out->output.rank, out->output.dims);
    attn_cost cost;
    attn_gradients gradients;
    attn_error err;
    size_t count;
    assert_true(attn_tensor_count(&grad, &count));
    for (size_t i = 0; i < count; i++)
        ((float *)grad.data)[i] *= scale;
    assert_int_equal(
        attn_gradients_cost(attn_attention_dims_of(a), 0, t->bias_elements, slots, &cost, &err),
        ATTN_OK);
    const size_t before = attn_arena_used(arena);
    attn_status status =
        attn_attention_backward(a, out, &grad, pool, NULL, arena, &gradients, &err);
    if (status != ATTN_OK && status != ATTN_ENONFINITE)
        fail_msg("trial %llu: %s: %s", (unsigned long long)t->seed, err.where, err.text);
    check_cost(&cost, attn_arena_used(arena) - before, "gradients", t->seed);
}

static void test_costs(void **state) {
    static const float scales[] = {1, 1e38f};
    (void)state;
    for (uint64_t seed = 0; seed < trials(TRIALS); seed++) {
        trial t = make_trial(seed);
        const size_t slots = 1 + pick(&t, MOST_SLOTS);
        const unsigned want = (unsigned)pick(&t, 64) | (pick(&t, 3) ? ATTN_WANT_OUTPUT : 0);
        attn_pool *pool = attn_pool_new(slots);
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_attention *a;
        attn_results out;
        attn_error err;
        attn_cost cost;
        assert_true(pool && arena);
        if (attn_attention_new(&t.in, arena, &a, &err))
            fail_msg("trial %llu: %s: %s", (unsigned long long)seed, err.where, err.text);
        const size_t before = attn_arena_used(arena);
        if (attn_attention_run(a, want, ATTN_STAGE_BIASED, pool, NULL, arena, &out, &err))
            fail_msg("trial %llu: %s: %s", (unsigned long long)seed, err.where, err.text);
        assert_int_equal(attn_attention_cost(attn_attention_dims_of(a), want, slots, &cost, &err),
                         ATTN_OK);
        check_cost(&cost, attn_arena_used(arena), "run", seed);
        check_pass(attn_attention_dims_of(a), want, slots, &out, attn_arena_used(arena) - before,
                   seed);
        for (size_t s = 0; (want & ATTN_WANT_OUTPUT) && s < 2; s++)
            check_gradients(&t, a, &out, slots, pool, arena, scales[s]);
        attn_arena_free(arena);
        attn_pool_free(pool);
        attn_arena_free(t.inputs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_costs)};
    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
