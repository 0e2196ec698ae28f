/* Results that are made of operands, on the chosen table: the operands themselves, weights times
 * values, sums of rows. Grouped queries over a cache, a causal mask, NaN in a hidden value. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "unit/normal_tensor.h"

enum { B = 2, HQ = 4, HKV = 2, L = 5, PAST = 3, S = 8, E = 4, EV = 6 };

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_attention *op;
    attn_results out;
} trial;

static void begin(trial *t) {
    attn_error err;
    *t = (trial){.arena = attn_arena_new(1 << 24), .in = attn_attention_defaults()};
    t->in.query = NORMAL_TENSOR(t->arena, 1, B, HQ, L, E);
    t->in.key = NORMAL_TENSOR(t->arena, 2, B, HKV, S - PAST, E);
    t->in.value = NORMAL_TENSOR(t->arena, 3, B, HKV, S - PAST, EV);
    t->in.past_key = NORMAL_TENSOR(t->arena, 4, B, HKV, PAST, E);
    t->in.past_value = NORMAL_TENSOR(t->arena, 5, B, HKV, PAST, EV);
    t->in.mask.layers[t->in.mask.count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
    assert_int_equal(attn_attention_new(&t->in, t->arena, &t->op, &err), ATTN_OK);
    assert_int_equal(attn_attention_run(t->op, ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS, ATTN_STAGE_RAW,
                                        NULL, NULL, t->arena, &t->out, &err),
                     ATTN_OK);
}

/* Returns row j of a head of `new` [B, HKV, S - PAST, width], behind the PAST rows of `past`. */
static const float *row_of(const attn_tensor *past, const attn_tensor *new, size_t head, size_t j,
                           size_t width) {
    return j < PAST ? (const float *)past->data + (head * PAST + j) * width
                    : (const float *)new->data + (head * (S - PAST) + j - PAST) * width;
}

static void test_operands(void **state) {
    (void)state;
    trial t;
    attn_tensor q, k, v;
    attn_error err;
    begin(&t);
    assert_int_equal(attn_attention_operands(t.op, t.arena, &q, &k, &v, &err), ATTN_OK);
    assert_true(q.rank == 4 && q.dims[1] == HQ && k.dims[1] == HKV && k.dims[2] == S);
    assert_true(v.dims[2] == S && v.dims[3] == EV);
    assert_memory_equal(q.data, t.in.query.data, B * HQ * L * E * sizeof(float));
    for (size_t head = 0; head < B * HKV; head++)
        for (size_t j = 0; j < S; j++) {
            assert_memory_equal((float *)k.data + (head * S + j) * E,
                                row_of(&t.in.past_key, &t.in.key, head, j, E), E * sizeof(float));
            assert_memory_equal((float *)v.data + (head * S + j) * EV,
                                row_of(&t.in.past_value, &t.in.value, head, j, EV),
                                EV * sizeof(float));
        }
    attn_arena_free(t.arena);
}

static void test_weighted_values(void **state) {
    (void)state;
    trial t;
    attn_tensor terms;
    attn_error err;
    begin(&t);
    /* key S - 1 is hidden from all rows but the last: its value counts nowhere else */
    float *last = (float *)t.in.value.data + (S - PAST - 1) * EV;
    last[0] = NAN;
    assert_int_equal(
        attn_attention_weighted_values(t.op, &t.out.weights, NULL, t.arena, &terms, &err), ATTN_OK);
    assert_true(terms.rank == 5 && terms.dims[3] == S && terms.dims[4] == EV);
    const float *w = t.out.weights.data, *term = terms.data, *output = t.out.output.data;
    for (size_t row = 0; row < B * HQ * L; row++)
        for (size_t e = 0; e < EV; e++) {
            const size_t head = row / (HQ * L) * HKV + row / L % HQ / (HQ / HKV);
            double sum = 0;
            for (size_t j = 0; j < S; j++) {
                const float x = row_of(&t.in.past_value, &t.in.value, head, j, EV)[e];
                const float is = term[(row * S + j) * EV + e];
                const float weight = w[row * S + j];
                assert_true(weight == 0 ? is == 0
                            : isnan(x)  ? isnan(is)
                                        : is == (float)((double)weight * (double)x));
                sum += (double)is;
            }
            assert_true(isnan(sum) || fabs(sum - (double)output[row * EV + e]) < 2e-6);
        }
    attn_arena_free(t.arena);
}

static void test_row_sums(void **state) {
    (void)state;
    trial t;
    attn_tensor sums;
    attn_error err;
    begin(&t);
    const attn_attention_dims *d = attn_attention_dims_of(t.op);
    assert_int_equal(attn_attention_row_sums(d, &t.out.weights, NULL, t.arena, &sums, &err),
                     ATTN_OK);
    assert_true(sums.rank == 3 && sums.dims[2] == L);
    for (size_t row = 0; row < B * HQ * L; row++)
        assert_true(fabs((double)((float *)sums.data)[row] - 1) < 1e-6);
    memset(t.out.weights.data, 0, S * sizeof(float));
    assert_int_equal(attn_attention_row_sums(d, &t.out.weights, NULL, t.arena, &sums, &err),
                     ATTN_OK);
    assert_true(((float *)sums.data)[0] == 0);
    attn_arena_free(t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_weighted_values),
        cmocka_unit_test(test_row_sums),
    };
    return cmocka_run_group_tests_name("operand results", tests, NULL, NULL);
}
