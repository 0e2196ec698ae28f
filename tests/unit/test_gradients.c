/* Gradients on the chosen table: in float64 each agrees with finite differences of the forward pass
 * along a random direction; in float32 each agrees with the float64 one. Random layouts, masks,
 * forms and positions, odd sizes; and the bytes do not depend on the pool. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "unit/normal_tensor.h"

enum { LIMIT = 1 << 29, SLOTS = 20 };

/* An operation whose tensors are all of one type, from the same numbers. */
typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_tensor grad_output;
    uint64_t seed, next;
} trial;

static size_t pick(uint64_t seed, uint64_t at, size_t n) {
    return (size_t)(attn_rng_bits(seed, at) % n);
}

static attn_tensor normal(trial *t, double scale, int rank, const size_t *dims) {
    const attn_tensor x = normal_tensor(t->arena, t->seed * 1000 + t->next++, rank, dims);
    size_t count;
    assert_true(attn_tensor_count(&x, &count));
    for (size_t i = 0; i < count; i++)
        ((float *)x.data)[i] *= (float)scale;
    return x;
}

#define NORMAL(t, ...) normal(t, 1, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))

static attn_tensor doubled(attn_arena *arena, const attn_tensor *x) {
    attn_tensor y = attn_tensor_dense(NULL, ATTN_F64, x->rank, x->dims);
    size_t count;
    if (!x->rank)
        return y;
    assert_true(attn_tensor_count(x, &count));
    y.data = attn_arena_zeroed(arena, count, sizeof(double));
    assert_non_null(y.data);
    attn_widen_f64(y.data, x->data, x->dtype, 1, count);
    return y;
}

/* The tensors that have gradients, and these. */
typedef struct slots {
    const char *names[SLOTS];
    attn_tensor *inputs[SLOTS];
    const attn_tensor *grads[SLOTS];
    size_t count;
} slots;

static void add_slot(slots *s, const char *name, attn_tensor *input, const attn_tensor *grad) {
    if (!input->rank)
        return;
    s->names[s->count] = name;
    s->inputs[s->count] = input;
    s->grads[s->count++] = grad;
}

static slots slots_of(attn_inputs *in, const attn_gradients *g) {
    slots s = {.count = 0};
    for (const attn_input *row = attn_input_rows; row->name; row++)
        if (row->type == ATTN_INPUT_TENSOR)
            add_slot(&s, row->name, attn_tensor_at(in, row->offset),
                     attn_tensor_at(g, row->gradient));
    for (size_t l = 0; l < in->mask.count; l++)
        if (attn_layer_is_added(&in->mask.layers[l]))
            add_slot(&s, "bias", &in->mask.layers[l].values, &g->bias[l]);
    return s;
}

static trial in_double(const trial *t) {
    trial d = *t;
    attn_gradients none = {.score.kind = 0};
    slots s = slots_of(&d.in, &none);
    for (size_t i = 0; i < s.count; i++)
        *s.inputs[i] = doubled(t->arena, s.inputs[i]);
    d.grad_output = doubled(t->arena, &t->grad_output);
    return d;
}

static void fail_with(const attn_error *err) {
    print_error("%s: %s\n", err->where, err->text);
    fail();
}

/* Sum of output times grad_output, and of logsumexp times grad_logsumexp. */
static double loss(const trial *t) {
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_error err = {.code = ATTN_OK};
    attn_attention *a;
    attn_results out;
    double sum = 0;
    size_t count;
    if (attn_attention_new(&t->in, arena, &a, &err) ||
        attn_attention_run(a, ATTN_WANT_OUTPUT | ATTN_WANT_LOGSUMEXP, ATTN_STAGE_RAW, NULL, NULL,
                           arena, &out, &err))
        fail_with(&err);
    assert_true(attn_tensor_count(&out.output, &count));
    for (size_t i = 0; i < count; i++)
        sum += ((double *)out.output.data)[i] * ((double *)t->grad_output.data)[i];
    const double *rows = out.logsumexp.data;
    assert_true(attn_tensor_count(&out.logsumexp, &count));
    for (size_t i = 0; t->in.grad_logsumexp.rank && i < count; i++)
        if (isfinite(rows[i])) /* a hidden row has no gradient */
            sum += rows[i] * (double)((float *)t->in.grad_logsumexp.data)[i];
    attn_arena_free(arena);
    return sum;
}

static attn_gradients backward(trial *t, attn_pool *pool) {
    attn_error err = {.code = ATTN_OK};
    attn_attention *a;
    attn_results out;
    attn_gradients g;
    if (attn_attention_new(&t->in, t->arena, &a, &err) ||
        attn_attention_run(a, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, pool, NULL, t->arena, &out, &err))
        fail_with(&err);
    if (!t->grad_output.rank)
        t->grad_output = normal(t, 1, out.output.rank, out.output.dims);
    if (attn_attention_backward(a, &out, &t->grad_output, pool, NULL, t->arena, &g, &err))
        fail_with(&err);
    return g;
}

/* Central differences along a random direction. */
static void check_differences(trial *d, attn_gradients *g) {
    slots s = slots_of(&d->in, g);
    const double h = 1e-5, tolerance = 2e-6;
    for (size_t i = 0; i < s.count; i++) {
        attn_tensor *x = s.inputs[i];
        size_t count;
        double expected = 0, found, size = 0;
        assert_int_equal(s.grads[i]->rank, x->rank);
        assert_memory_equal(s.grads[i]->dims, x->dims, (size_t)x->rank * sizeof(size_t));
        assert_true(attn_tensor_count(x, &count));
        attn_tensor kept = doubled(d->arena, x), direction = normal(d, 1, x->rank, x->dims);
        const float *dir = direction.data;
        double *value = x->data, *was = kept.data, *grad = s.grads[i]->data;
        for (size_t n = 0; n < count; n++) {
            expected += grad[n] * (double)dir[n];
            size += fabs(grad[n] * (double)dir[n]);
            value[n] = was[n] + h * (double)dir[n];
        }
        found = loss(d);
        for (size_t n = 0; n < count; n++)
            value[n] = was[n] - h * (double)dir[n];
        found = (found - loss(d)) / (2 * h);
        memcpy(value, was, count * sizeof *value);
        if (!(fabs(found - expected) <= tolerance * (1 + size))) {
            print_error("trial %llu, %s: differences give %.9g, gradients %.9g\n",
                        (unsigned long long)d->seed, s.names[i], found, expected);
            fail();
        }
    }
}

/* float32 beside float64. */
static void check_single(trial *t, attn_gradients *single, trial *d, attn_gradients *twice) {
    slots s = slots_of(&t->in, single), w = slots_of(&d->in, twice);
    for (size_t i = 0; i < s.count; i++) {
        const float *x = s.grads[i]->data;
        const double *y = w.grads[i]->data;
        double error = 0, size = 1e-30;
        size_t count;
        assert_true(attn_tensor_count(s.grads[i], &count));
        for (size_t n = 0; n < count; n++) {
            error = fmax(error, fabs((double)x[n] - y[n]));
            size = fmax(size, fabs(y[n]));
        }
        /* The absolute part is for sums that cancel; tile products give statistics of their own. */
        if (!(error <= 3e-5 * size + 2e-5)) {
            print_error("trial %llu, %s: off by %.3g of %.3g\n", (unsigned long long)t->seed,
                        s.names[i], error, size);
            fail();
        }
    }
}

static void check(trial *t) {
    attn_gradients single = backward(t, NULL);
    trial d = in_double(t);
    attn_gradients twice = backward(&d, NULL);
    check_differences(&d, &twice);
    check_single(t, &single, &d, &twice);
    attn_arena_free(t->arena);
}

static void add_layer(trial *t, attn_mask_layer layer) {
    t->in.mask.layers[t->in.mask.count++] = layer;
}

/* Masks and edits by the trial's seed. */
static void add_edits(trial *t, size_t B, size_t H, size_t L, size_t S) {
    const uint64_t s = t->seed;
    if (pick(s, 10, 3) == 0)
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"});
    if (pick(s, 11, 4) == 0)
        add_layer(
            t, (attn_mask_layer){.kind = ATTN_LAYER_WINDOW, .where = "window", .window = {9, 5}});
    const size_t shapes[6][4] = {{B, H, L, S}, {1, 1, L, S}, {B, 1, 1, S},
                                 {1, H, L, 1}, {1, 1, 1, 1}, {1, H, L, S}};
    if (pick(s, 12, 2)) {
        const size_t *shape = shapes[pick(s, 13, 6)];
        const int skip = (int)pick(s, 14, 2) * (shape[0] == 1);
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_BIAS,
                                       .where = "attn_bias",
                                       .values = normal(t, 1, 4 - skip, shape + skip)});
    }
    if (pick(s, 26, 3) == 0) {
        const size_t *shape = shapes[pick(s, 27, 6)];
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_VALUES,
                                       .where = "attn_mask",
                                       .values = normal(t, 2, 4, shape)});
    }
    t->in.mask.offset = pick(s, 15, 2) ? ATTN_OFFSET_END : ATTN_OFFSET_DEFAULT;
    if (pick(s, 16, 3) == 0)
        t->in.softcap = 1.5;
    if (pick(s, 17, 3) == 0)
        t->in.sinks = pick(s, 29, 2) ? NORMAL(t, H) : NORMAL(t, H, L);
    if (pick(s, 30, 3) == 0)
        t->in.scales = pick(s, 31, 2) ? NORMAL(t, B, 1, L) : NORMAL(t, B, H, L);
    if (pick(s, 18, 4) == 0) {
        t->in.dropout_p = 0.3;
        t->in.dropout_seed = s;
    }
    if (pick(s, 19, 5) == 0) {
        t->in.mask.fill = pick(s, 20, 2) ? ATTN_FILL_ADD : ATTN_FILL_REPLACE;
        t->in.mask.fill_value = -3;
    }
    if (pick(s, 21, 3) == 0)
        t->in.scale = 0.7;
    if (pick(s, 28, 3) == 0)
        t->in.grad_logsumexp = NORMAL(t, B, H, L);
}

static attn_tensor laid_out(trial *t, size_t B, size_t H, size_t L, size_t E) {
    switch (t->in.layout) {
    case ATTN_BLHE:
        return NORMAL(t, B, L, H, E);
    case ATTN_BLD:
        return NORMAL(t, B, L, H * E);
    default:
        return NORMAL(t, B, H, L, E);
    }
}

static trial begin(uint64_t seed, size_t Eq, size_t Ek) {
    trial t = {.arena = attn_arena_new(LIMIT), .seed = seed};
    const size_t group = 1 + pick(seed, 1, 2), Hkv = 1 + pick(seed, 2, 2), H = Hkv * group;
    const size_t B = 1 + pick(seed, 3, 2), L = 1 + pick(seed, 4, seed % 3 ? 8 : 100);
    const size_t S = 1 + pick(seed, 5, seed % 3 ? 20 : 200), Ev = 1 + pick(seed, 6, 70);
    const size_t shared = pick(seed, 7, 3) == 0 ? 1 : B;
    assert_non_null(t.arena);
    t.in = attn_attention_defaults();
    t.in.layout = (attn_layout)pick(seed, 8, 3);
    t.in.num_heads = H, t.in.num_kv_heads = Hkv;
    if (t.in.layout != ATTN_BLD)
        t.in.num_heads = t.in.num_kv_heads = 0;
    t.in.query = laid_out(&t, B, H, L, Eq);
    t.in.key = laid_out(&t, shared, Hkv, S, Ek);
    t.in.value = laid_out(&t, shared, Hkv, S, Ev);
    size_t keys = S;
    if (pick(seed, 9, 4) == 0) {
        t.in.past_key = NORMAL(&t, B, Hkv, 5, Ek);
        t.in.past_value = NORMAL(&t, B, Hkv, 5, Ev);
        keys += 5;
    }
    add_edits(&t, B, H, L, keys);
    return t;
}

static void test_scaled_dot(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const size_t E = 1 + pick(seed, 30, 70);
        trial t = begin(seed, E, E);
        check(&t);
    }
}

static void test_learned_scores(void **state) {
    (void)state;
    for (uint64_t seed = 100; seed < 118; seed++) {
        const size_t Eq = 1 + pick(seed, 30, 20), Ek = 1 + pick(seed, 31, 20);
        const size_t A = 1 + pick(seed, 32, 40);
        trial t = begin(seed, Eq, Ek);
        attn_score *score = &t.in.score;
        switch (seed % 3) {
        case 0:
            score->kind = ATTN_SCORE_additive;
            score->w_q = NORMAL(&t, A, Eq), score->w_k = NORMAL(&t, A, Ek);
            score->v = NORMAL(&t, A);
            if (seed % 2)
                score->b = NORMAL(&t, A);
            break;
        case 1:
            score->kind = ATTN_SCORE_general;
            score->w = normal(&t, 0.2, 2, DIMS(Ek, Eq));
            break;
        default:
            score->kind = ATTN_SCORE_concat;
            score->w = NORMAL(&t, A, Ek + Eq), score->v = NORMAL(&t, A);
        }
        check(&t);
    }
}

static void test_positions(void **state) {
    (void)state;
    for (uint64_t seed = 200; seed < 225; seed++) {
        const size_t E = 2 + 2 * pick(seed, 30, 20);
        trial t = begin(seed, E, E);
        const attn_inputs *in = &t.in;
        attn_position *p = &t.in.position;
        const size_t H = in->layout == ATTN_BLD    ? in->num_heads
                         : in->layout == ATTN_BLHE ? in->query.dims[2]
                                                   : in->query.dims[1];
        const size_t Hkv = in->layout == ATTN_BLD ? in->num_kv_heads : 1;
        const size_t Ev = in->value.dims[in->value.rank - 1] / Hkv;
        p->kind = (attn_position_kind)(1 + seed % 6);
        p->rotary = seed % 2 ? ATTN_ROTARY_INTERLEAVED : ATTN_ROTARY_HALVES;
        if (p->kind == ATTN_POSITION_ROTARY && seed % 3)
            p->frequencies = normal(&t, 0.05, 1, DIMS(E / 2));
        if (p->kind == ATTN_POSITION_ALIBI)
            p->slopes = NORMAL(&t, H);
        if (p->kind == ATTN_POSITION_T5)
            p->table = NORMAL(&t, 8, H), p->max_distance = 20, p->unidirectional = seed % 4 == 0;
        if (p->kind == ATTN_POSITION_RELATIVE)
            p->table = NORMAL(&t, H, 13);
        if (p->kind == ATTN_POSITION_SHAW) {
            p->key_table = NORMAL(&t, 9, E);
            if (seed % 2)
                p->value_table = NORMAL(&t, H, 9, Ev);
        }
        if (p->kind == ATTN_POSITION_DISENTANGLED) {
            p->query_table = NORMAL(&t, H, 8, E);
            if (seed % 4 < 2)
                p->key_table = NORMAL(&t, 8, E), p->max_distance = 9;
        }
        check(&t);
    }
}

/* Absent keys and values: their gradients are part of the query's, or the key's. */
static void test_self_attention(void **state) {
    (void)state;
    for (uint64_t seed = 300; seed < 304; seed++) {
        trial t = begin(seed, 16, 16);
        t.in.past_key.rank = t.in.past_value.rank = 0;
        t.in.mask.count = 0;
        t.in.layout = ATTN_BHLE;
        t.in.num_heads = t.in.num_kv_heads = 0;
        t.in.sinks.rank = t.in.scales.rank = t.in.grad_logsumexp.rank = 0;
        t.in.query = NORMAL(&t, 2, 2, 30, 16);
        t.in.value.rank = 0;
        if (seed % 2)
            t.in.key.rank = 0;
        else
            t.in.key = NORMAL(&t, 2, 2, 30, 16);
        check(&t);
    }
}

static void check_same_bytes(trial *t, attn_pool *pool) {
    attn_gradients one = backward(t, NULL), many = backward(t, pool);
    slots a = slots_of(&t->in, &one), b = slots_of(&t->in, &many);
    for (size_t i = 0; i < a.count; i++) {
        size_t count;
        assert_true(attn_tensor_count(a.grads[i], &count));
        assert_memory_equal(a.grads[i]->data, b.grads[i]->data, count * sizeof(float));
    }
    attn_arena_free(t->arena);
}

static void test_same_bytes_for_any_pool(void **state) {
    attn_pool *pool = attn_pool_new(3);
    (void)state;
    assert_non_null(pool);
    for (uint64_t seed = 3; seed < 12; seed += 3) {
        trial t = begin(seed, 24, 24);
        check_same_bytes(&t, pool);
    }
    for (uint64_t seed = 12; seed < 18; seed++) { /* more heads than threads */
        trial t = begin(seed, 24, 24);
        t.in = attn_attention_defaults();
        t.grad_output = (attn_tensor){0};
        t.in.query = NORMAL(&t, 2, 10, 110, 24);
        t.in.key = NORMAL(&t, 2, 5, 150, 24), t.in.value = NORMAL(&t, 2, 5, 150, 33);
        add_edits(&t, 2, 10, 110, 150);
        check_same_bytes(&t, pool);
    }
    attn_pool_free(pool);
}

/* NaN where no query looks changes nothing. */
static void test_hidden_nan(void **state) {
    (void)state;
    trial t = begin(1, 8, 8);
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, 20, 8), t.in.key = NORMAL(&t, 30, 8), t.in.value = NORMAL(&t, 30, 4);
    add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"});
    attn_gradients clean = backward(&t, NULL);
    for (size_t j = 20; j < 30; j++) {
        ((float *)t.in.key.data)[j * 8 + j % 8] = NAN;
        ((float *)t.in.value.data)[j * 4 + j % 4] = INFINITY;
    }
    attn_gradients poisoned = backward(&t, NULL);
    assert_memory_equal(clean.query.data, poisoned.query.data, 20 * 8 * sizeof(float));
    assert_memory_equal(clean.key.data, poisoned.key.data, 30 * 8 * sizeof(float));
    assert_memory_equal(clean.value.data, poisoned.value.data, 30 * 4 * sizeof(float));
    attn_arena_free(t.arena);
}

/* Rows that float cannot hold are computed with care, gradients too. */
static void test_wide_scores(void **state) {
    (void)state;
    trial t = begin(1, 8, 8);
    t.in = attn_attention_defaults();
    t.in.query = normal(&t, 300, 2, DIMS(20, 8));
    t.in.key = normal(&t, 1000, 2, DIMS(30, 8));
    t.in.value = NORMAL(&t, 30, 4);
    attn_gradients single = backward(&t, NULL);
    trial d = in_double(&t);
    attn_gradients twice = backward(&d, NULL);
    check_single(&t, &single, &d, &twice);
    attn_arena_free(t.arena);
}

/* Gradients are proportional to grad_output, also where tiles could not hold its parts. */
static void test_far_grad_output(void **state) {
    (void)state;
    for (int power = -100; power <= 100; power += 200) {
        trial t = begin(1, 8, 8);
        t.in = attn_attention_defaults();
        t.in.query = NORMAL(&t, 2, 70, 40), t.in.key = NORMAL(&t, 2, 150, 40);
        t.in.value = NORMAL(&t, 2, 150, 40);
        attn_gradients near = backward(&t, NULL);
        float *grad = t.grad_output.data;
        for (size_t i = 0; i < (size_t)2 * 70 * 40; i++)
            grad[i] = ldexpf(grad[i], power);
        attn_gradients far = backward(&t, NULL);
        slots a = slots_of(&t.in, &near), b = slots_of(&t.in, &far);
        for (size_t s = 0; s < a.count; s++) {
            size_t count;
            assert_true(attn_tensor_count(a.grads[s], &count));
            for (size_t i = 0; i < count; i++) {
                const float want = ((const float *)a.grads[s]->data)[i];
                const float got = ((const float *)b.grads[s]->data)[i];
                assert_true(fabsf(ldexpf(got, -power) - want) <= 1e-5f);
            }
        }
        attn_arena_free(t.arena);
    }
}

/* Without grad_output the loss is one of the logsumexp alone. */
static void test_logsumexp_alone(void **state) {
    (void)state;
    trial t = begin(1, 8, 8);
    attn_error err = {.code = ATTN_OK};
    attn_attention *a;
    attn_results out;
    attn_gradients g, zeros;
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, 1, 2, 20, 8), t.in.key = NORMAL(&t, 1, 2, 30, 8);
    t.in.value = NORMAL(&t, 1, 2, 30, 4);
    t.in.sinks = NORMAL(&t, 2);
    t.in.grad_logsumexp = NORMAL(&t, 1, 2, 20);
    const attn_tensor none = {.rank = 0}, sent = NORMAL(&t, 1, 2, 20, 4);
    memset(sent.data, 0, (size_t)2 * 20 * 4 * sizeof(float));
    assert_int_equal(attn_attention_new(&t.in, t.arena, &a, &err), ATTN_OK);
    assert_int_equal(
        attn_attention_run(a, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, NULL, NULL, t.arena, &out, &err),
        ATTN_OK);
    assert_int_equal(attn_attention_backward(a, &out, &none, NULL, NULL, t.arena, &g, &err),
                     ATTN_OK);
    assert_int_equal(attn_attention_backward(a, &out, &sent, NULL, NULL, t.arena, &zeros, &err),
                     ATTN_OK);
    slots alone = slots_of(&t.in, &g), both = slots_of(&t.in, &zeros);
    for (size_t i = 0; i < alone.count; i++) {
        size_t count;
        assert_true(attn_tensor_count(alone.grads[i], &count));
        assert_memory_equal(alone.grads[i]->data, both.grads[i]->data, count * sizeof(float));
    }
    ((float *)t.in.grad_logsumexp.data)[25] = NAN;
    assert_int_equal(attn_attention_backward(a, &out, &none, NULL, NULL, t.arena, &g, &err),
                     ATTN_ENONFINITE);
    assert_string_equal(err.where, "grad_logsumexp");
    attn_arena_free(t.arena);
}

static void test_refusals(void **state) {
    (void)state;
    trial t = begin(1, 8, 8);
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, 20, 8), t.in.key = NORMAL(&t, 30, 8), t.in.value = NORMAL(&t, 30, 4);
    attn_error err;
    attn_attention *a;
    attn_results out;
    attn_gradients g;
    assert_int_equal(attn_attention_new(&t.in, t.arena, &a, &err), ATTN_OK);
    assert_int_equal(
        attn_attention_run(a, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, NULL, NULL, t.arena, &out, &err),
        ATTN_OK);
    attn_tensor wrong = NORMAL(&t, 20, 5), nan = NORMAL(&t, 20, 4);
    ((float *)nan.data)[7] = NAN;
    assert_int_equal(attn_attention_backward(a, &out, &wrong, NULL, NULL, t.arena, &g, &err),
                     ATTN_ESHAPE);
    assert_string_equal(err.where, "grad_output");
    assert_int_equal(attn_attention_backward(a, &out, &nan, NULL, NULL, t.arena, &g, &err),
                     ATTN_ENONFINITE);
    out.output.rank = 0;
    assert_int_equal(attn_attention_backward(a, &out, &nan, NULL, NULL, t.arena, &g, &err),
                     ATTN_EARG);
    attn_arena_free(t.arena);
}

/* What later calls get as their arena may go before the operation does. */
static void test_arenas_of_their_own(void **state) {
    (void)state;
    for (unsigned later = 0; later <= ATTN_WANT_CELLS; later += ATTN_WANT_CELLS) {
        trial t = begin(1, 8, 8);
        t.in = attn_attention_defaults();
        t.in.query = NORMAL(&t, 1, 9, 300, 16);
        const attn_tensor grad = NORMAL(&t, 1, 9, 300, 16);
        const attn_range range = {.rows = 300, .cols = 300};
        float *cells = attn_arena_zeroed(t.arena, 300 * 300, sizeof *cells);
        attn_attention *a;
        attn_results out, again;
        attn_gradients first, g;
        assert_int_equal(attn_attention_new(&t.in, t.arena, &a, NULL), ATTN_OK);
        assert_int_equal(attn_attention_run(a, ATTN_WANT_OUTPUT | later, ATTN_STAGE_RAW, NULL, NULL,
                                            t.arena, &out, NULL),
                         ATTN_OK);
        assert_int_equal(attn_attention_backward(a, &out, &grad, NULL, NULL, t.arena, &first, NULL),
                         ATTN_OK);
        for (int round = 0; round < 3; round++) {
            attn_arena *own = attn_arena_new(LIMIT);
            assert_int_equal(attn_attention_backward(a, &out, &grad, NULL, NULL, own, &g, NULL),
                             ATTN_OK);
            assert_memory_equal(g.query.data, first.query.data, 9 * 300 * 16 * sizeof(float));
            if (round == 1)
                assert_int_equal(attn_attention_run(a, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, NULL, NULL,
                                                    own, &again, NULL),
                                 ATTN_OK);
            attn_arena_free(own);
            attn_cells_scratch *scratch = attn_cells_scratch_new(a, t.arena);
            assert_int_equal(attn_attention_cells(a, &out.stats, &range, ATTN_STAGE_PROBS, cells,
                                                  300, scratch, NULL),
                             ATTN_OK);
        }
        attn_arena_free(t.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arenas_of_their_own), cmocka_unit_test(test_scaled_dot),
        cmocka_unit_test(test_learned_scores),      cmocka_unit_test(test_positions),
        cmocka_unit_test(test_self_attention),      cmocka_unit_test(test_same_bytes_for_any_pool),
        cmocka_unit_test(test_hidden_nan),          cmocka_unit_test(test_wide_scores),
        cmocka_unit_test(test_far_grad_output),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_logsumexp_alone),
    };
    return cmocka_run_group_tests_name("gradients", tests, NULL, NULL);
}
