/* The run and the way back at once: the bytes, the errors and no more than the memory of the two
 * apart, on the chosen table, for one thread and three. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "attention/resolved.h"
#include "unit/normal_tensor.h"
#include "unit/trials.h"

enum { LIMIT = 1 << 29, TRIALS = 120 };

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_tensor grad_output;
    unsigned want;
    uint64_t seed, next;
    size_t bias_elements;
} trial;

static size_t pick(trial *t, size_t n) {
    return (size_t)(attn_rng_bits(t->seed, t->next++) % n);
}

#define NORMAL(t, ...) NORMAL_TENSOR((t)->arena, (t)->seed * 1000 + (t)->next++, __VA_ARGS__)

static void add_layer(trial *t, attn_mask_layer layer) {
    t->in.mask.layers[t->in.mask.count++] = layer;
}

static void add_edits(trial *t, size_t Hq, size_t L, size_t S) {
    static const attn_position_kind kinds[] = {ATTN_POSITION_NONE, ATTN_POSITION_NONE,
                                               ATTN_POSITION_ROTARY, ATTN_POSITION_ALIBI};
    if (pick(t, 3) == 0)
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"});
    if (pick(t, 4) == 0)
        add_layer(
            t, (attn_mask_layer){.kind = ATTN_LAYER_WINDOW, .where = "window", .window = {40, 7}});
    if (pick(t, 8) == 0) {
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_BIAS,
                                       .where = "attn_bias",
                                       .values = NORMAL(t, Hq, L, S)});
        t->bias_elements = Hq * L * S;
    }
    t->in.position.kind = kinds[pick(t, 4)];
    t->in.position.rotary = ATTN_ROTARY_HALVES;
    if (t->in.position.kind == ATTN_POSITION_ALIBI && pick(t, 2))
        t->in.position.slopes = NORMAL(t, Hq);
    if (pick(t, 8) == 0)
        t->in.softcap = 1.5;
    if (pick(t, 3) == 0)
        t->in.sinks = NORMAL(t, Hq);
    if (pick(t, 4) == 0) {
        t->in.dropout_p = 0.3;
        t->in.dropout_seed = t->seed;
    }
    if (pick(t, 5) == 0) {
        t->in.mask.fill = pick(t, 2) ? ATTN_FILL_ADD : ATTN_FILL_REPLACE;
        t->in.mask.fill_value = -3;
    }
}

/* What pieces do not do: rows out of range, what is not finite. */
static void spoil(trial *t) {
    float *q = t->in.query.data, *k = t->in.key.data, *grad = t->grad_output.data;
    t->in.allow_nonfinite = pick(t, 2);
    switch (pick(t, 16)) {
    case 0:
        q[3] = 1e20f;
        break;
    case 1:
        q[5] = 2e6f;
        break;
    case 2:
        k[7] = NAN;
        break;
    case 3:
        grad[2] = INFINITY;
        break;
    case 4:
        grad[2] = 3e38f;
        grad[3] = -3e38f;
        break;
    default:
        break;
    }
}

static trial make(uint64_t seed) {
    static const unsigned wants[] = {ATTN_WANT_OUTPUT, ATTN_WANT_OUTPUT | ATTN_WANT_LOGSUMEXP,
                                     ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS,
                                     ATTN_WANT_OUTPUT | ATTN_WANT_PRESENT,
                                     ATTN_WANT_OUTPUT | ATTN_WANT_SCORES};
    trial t = {.arena = attn_arena_new(LIMIT), .seed = seed, .in = attn_attention_defaults()};
    assert_non_null(t.arena);
    const size_t B = 1 + pick(&t, 3), Hkv = (8 + B - 1) / B + pick(&t, 2),
                 Hq = Hkv * (1 + pick(&t, 2));
    const size_t L = 1 + pick(&t, 160), S = 1 + pick(&t, seed % 4 ? 300 : 1000);
    const size_t E = 2 + 2 * pick(&t, 36), Ev = 1 + pick(&t, 70);
    t.want = wants[pick(&t, 5)];
    t.in.query = NORMAL(&t, B, Hq, L, E);
    t.in.key = NORMAL(&t, pick(&t, 6) ? B : 1, Hkv, S, E);
    t.in.value = NORMAL(&t, B, Hkv, S, Ev);
    t.grad_output = NORMAL(&t, B, Hq, L, Ev);
    add_edits(&t, Hq, L, S);
    spoil(&t);
    return t;
}

typedef struct found {
    attn_status status;
    attn_error err;
    attn_results results;
    attn_gradients gradients;
    bool packed; /* by the run, for all heads */
    attn_arena *arena;
} found;

static found apart(const trial *t) {
    found f = {.arena = attn_arena_new(LIMIT)};
    attn_attention *a;
    if (attn_attention_new(&t->in, f.arena, &a, &f.err))
        fail_msg("trial %llu: %s: %s", (unsigned long long)t->seed, f.err.where, f.err.text);
    f.status =
        attn_attention_run(a, t->want, ATTN_STAGE_RAW, NULL, NULL, f.arena, &f.results, &f.err);
    if (!f.status)
        f.status = attn_attention_backward(a, &f.results, &t->grad_output, NULL, NULL, f.arena,
                                           &f.gradients, &f.err);
    return f;
}

static found at_once(const trial *t, attn_pool *pool) {
    found f = {.arena = attn_arena_new(LIMIT)};
    const size_t slots = attn_pool_slots(pool);
    attn_attention *a;
    attn_cost run, back;
    if (attn_attention_new(&t->in, f.arena, &a, &f.err))
        fail_msg("trial %llu: %s: %s", (unsigned long long)t->seed, f.err.where, f.err.text);
    const attn_attention_dims *d = attn_attention_dims_of(a);
    assert_false(attn_attention_cost(d, t->want, slots, &run, &f.err));
    assert_false(attn_gradients_cost(d, t->bias_elements, slots, &back, &f.err));
    attn_arena_set_limit(f.arena, attn_arena_used(f.arena) + run.work_bytes + run.result_bytes +
                                      back.work_bytes + back.result_bytes);
    f.status = attn_attention_run_backward(a, t->want, ATTN_STAGE_RAW, &t->grad_output, pool, NULL,
                                           f.arena, &f.results, &f.gradients, &f.err);
    f.packed = a->packed != NULL;
    return f;
}

static void assert_same(const attn_tensor *x, const attn_tensor *y) {
    size_t n = 0;
    assert_int_equal(x->rank, y->rank);
    if (!x->rank)
        return;
    assert_memory_equal(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims);
    assert_true(attn_tensor_count(x, &n));
    assert_memory_equal(x->data, y->data, n * attn_dtype_size(x->dtype));
}

static void assert_same_all(const found *x, const found *y) {
    const attn_results *r = &x->results, *s = &y->results;
    const attn_gradients *g = &x->gradients, *h = &y->gradients;
    assert_int_equal(x->status, y->status);
    if (x->status) {
        assert_string_equal(x->err.where, y->err.where);
        assert_string_equal(x->err.text, y->err.text);
        return;
    }
    assert_same(&r->output, &s->output), assert_same(&r->weights, &s->weights);
    assert_same(&r->logsumexp, &s->logsumexp), assert_same(&r->scores, &s->scores);
    assert_same(&r->present_key, &s->present_key);
    assert_int_equal(r->hidden_rows, s->hidden_rows);
    assert_same(&g->query, &h->query), assert_same(&g->key, &h->key);
    assert_same(&g->value, &h->value), assert_same(&g->sinks, &h->sinks);
    assert_same(&g->slopes, &h->slopes);
    for (size_t l = 0; l < ATTN_MASK_LAYERS; l++)
        assert_same(&g->bias[l], &h->bias[l]);
}

static void test_same_as_apart(void **state) {
    attn_pool *pool = attn_pool_new(3);
    size_t at_once_count = 0, refused = 0;
    (void)state;
    assert_non_null(pool);
    for (uint64_t seed = 1; seed <= trials(TRIALS); seed++) {
        trial t = make(seed);
        found expected = apart(&t);
        for (int threads = 0; threads < 2; threads++) {
            found got = at_once(&t, threads ? pool : NULL);
            assert_same_all(&expected, &got);
            at_once_count += !got.status && !got.packed;
            refused += got.status != ATTN_OK;
            attn_arena_free(got.arena);
        }
        attn_arena_free(expected.arena);
        attn_arena_free(t.arena);
    }
    attn_pool_free(pool);
    print_message("%zu at once, %zu refused\n", at_once_count, refused);
    if (attn_isa_current() != ATTN_ISA_REF && trials(TRIALS) == TRIALS) /* ref: always apart */
        assert_true(at_once_count > TRIALS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_as_apart)};
    return cmocka_run_group_tests_name("backward_head", tests, NULL, NULL);
}
