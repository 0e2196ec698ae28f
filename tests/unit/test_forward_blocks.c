/* Heads whose packed keys and values are more than a cache holds: outputs alone are computed some
 * blocks abreast, outputs with weights one block after the other. The same bytes, for any pool and
 * within the promised memory, whatever hides keys, is added to scores or is not finite. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "unit/normal_tensor.h"

enum { LIMIT = 1 << 28 };
static const unsigned alone = ATTN_WANT_OUTPUT | ATTN_WANT_LOGSUMEXP,
                      beside = ATTN_WANT_OUTPUT | ATTN_WANT_LOGSUMEXP | ATTN_WANT_WEIGHTS;

typedef struct shape {
    size_t Hq, Hkv, L, S, E, Ev;
    bool causal, windowed, biased, sinks, dropped, odd; /* odd: NaN, infinity and what overflows */
} shape;

static const shape shapes[] = {
    {2, 1, 450, 2600, 128, 128, false, false, false, false, false, false},
    {1, 1, 700, 3000, 130, 70, true, false, false, false, false, false},
    {1, 1, 300, 5000, 60, 64, false, true, false, true, false, false},
    {1, 1, 300, 2700, 128, 120, false, false, true, false, true, false},
    {1, 1, 517, 2600, 128, 128, true, false, false, false, false, true},
    {3, 3, 9, 2561, 128, 128, false, false, false, false, false, false},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static attn_inputs make_inputs(const shape *s, attn_arena *arena) {
    attn_inputs in = attn_attention_defaults();
    attn_mask_spec *m = &in.mask;
    in.query = NORMAL_TENSOR(arena, 1, 1, s->Hq, s->L, s->E);
    in.key = NORMAL_TENSOR(arena, 2, 1, s->Hkv, s->S, s->E);
    in.value = NORMAL_TENSOR(arena, 3, 1, s->Hkv, s->S, s->Ev);
    if (s->causal)
        m->layers[m->count++] = (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
    if (s->windowed)
        m->layers[m->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_WINDOW, .where = "window", .window = {900, 1000}};
    if (s->causal || s->windowed)
        m->offset = ATTN_OFFSET_END;
    if (s->biased)
        m->layers[m->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_BIAS,
                              .where = "attn_bias",
                              .values = NORMAL_TENSOR(arena, 4, 1, 1, s->L, s->S)};
    if (s->sinks) {
        in.sinks = NORMAL_TENSOR(arena, 5, 1, 1, 1, 1);
        in.sinks.rank = 1;
    }
    if (s->dropped) {
        in.dropout_p = 0.3;
        in.dropout_seed = 7;
    }
    if (s->odd) {
        float *q = in.query.data, *k = in.key.data, *v = in.value.data;
        in.allow_nonfinite = true;
        q[70 * s->E] = INFINITY;
        q[200 * s->E] = 3e38f;
        k[2200 * s->E + 3] = NAN;
        v[2500 * s->Ev] = -INFINITY;
    }
    return in;
}

/* In no more memory than the cost of this many slots says. */
static attn_results run(const attn_inputs *in, unsigned want, size_t slots, attn_arena *arena) {
    attn_error err = {.code = ATTN_OK};
    attn_pool *pool = attn_pool_new(slots);
    attn_attention *a;
    attn_cost cost;
    attn_results out;
    assert_non_null(pool);
    if (attn_attention_new(in, arena, &a, &err) != ATTN_OK ||
        attn_attention_cost(attn_attention_dims_of(a), want, slots, &cost, &err) != ATTN_OK)
        fail_msg("%s: %s", err.where, err.text);
    attn_arena_set_limit(arena, attn_arena_used(arena) + cost.work_bytes + cost.result_bytes +
                                    cost.fallback_bytes);
    if (attn_attention_run(a, want, ATTN_STAGE_PROBS, pool, NULL, arena, &out, &err) != ATTN_OK)
        fail_msg("%s: %s", err.where, err.text);
    attn_pool_free(pool);
    return out;
}

static void assert_same(const attn_tensor *a, const attn_tensor *b) {
    size_t n;
    assert_true(attn_tensor_count(a, &n) && n > 0);
    assert_memory_equal(a->data, b->data, n * sizeof(float));
}

static void test_abreast_or_one_by_one(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        attn_arena *inputs = attn_arena_new(LIMIT), *arena = attn_arena_new(LIMIT);
        assert_true(inputs && arena);
        const attn_inputs in = make_inputs(&shapes[i], inputs);
        const attn_results expected = run(&in, beside, 1, arena);
        for (size_t slots = 1; slots <= 3; slots += 2) {
            attn_arena *again = attn_arena_new(LIMIT);
            const attn_results got = run(&in, alone, slots, again);
            assert_same(&got.output, &expected.output);
            assert_same(&got.logsumexp, &expected.logsumexp);
            assert_int_equal(got.hidden_rows, expected.hidden_rows);
            attn_arena_free(again);
        }
        attn_arena_free(arena);
        attn_arena_free(inputs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abreast_or_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
