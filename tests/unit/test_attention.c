/* The operation in-process, on the chosen table: against a naive double computation, cells bit for
 * bit, any number of threads, rows at the edges of float. */
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

enum { CASES = 150, LIMIT = 1 << 28 };

static size_t pick(uint64_t seed, uint64_t at, size_t n) {
    return (size_t)(attn_rng_bits(seed, at) % n);
}

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_attention *a;
    attn_results out;
    size_t B, Hq, Hkv, L, S, E, Ev;
    unsigned want;
} trial;

static void add_masks(trial *t, uint64_t seed) {
    attn_mask_spec *m = &t->in.mask;
    if (pick(seed, 20, 3) == 0)
        m->layers[m->count++] = (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
    if (pick(seed, 21, 3) == 0)
        m->layers[m->count++] = (attn_mask_layer){
            .kind = ATTN_LAYER_WINDOW,
            .where = "window",
            .window = {(int64_t)pick(seed, 22, 6) - 1, (int64_t)pick(seed, 23, 6) - 1}};
    if (pick(seed, 24, 3) == 0) {
        attn_tensor v = NORMAL_TENSOR(t->arena, seed + 7, 1, t->Hq, t->L, t->S);
        m->layers[m->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_BIAS, .where = "attn_bias", .values = v};
    }
    if (pick(seed, 25, 3) == 0) {
        size_t dims[] = {t->L, t->S};
        uint8_t *keep = attn_arena_zeroed(t->arena, t->L * t->S, 1);
        for (size_t i = 0; i < t->L * t->S; i++)
            keep[i] = pick(seed + 9, i, 3) > 0;
        m->layers[m->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_VALUES,
                              .where = "attn_mask",
                              .values = attn_tensor_dense(keep, ATTN_BOOL, 2, dims)};
    }
    if (pick(seed, 26, 3) == 0)
        m->offset = ATTN_OFFSET_END;
    if (pick(seed, 27, 4) == 0) {
        m->fill = pick(seed, 28, 2) ? ATTN_FILL_ADD : ATTN_FILL_REPLACE;
        m->fill_value = -1e9;
    }
}

static trial make_trial(uint64_t seed, double gain) {
    trial t = {.arena = attn_arena_new(LIMIT)};
    assert_non_null(t.arena);
    const size_t group = 1 + pick(seed, 1, 3);
    t.B = 1 + pick(seed, 2, 2), t.Hkv = 1 + pick(seed, 3, 2), t.Hq = t.Hkv * group;
    t.L = 1 + pick(seed, 4, 70), t.S = 1 + pick(seed, 5, 300), t.E = 1 + pick(seed, 6, 80);
    t.Ev = 1 + pick(seed, 7, 80);
    t.in = attn_attention_defaults();
    t.in.query = NORMAL_TENSOR(t.arena, seed, t.B, t.Hq, t.L, t.E);
    t.in.key = NORMAL_TENSOR(t.arena, seed + 1, t.B, t.Hkv, t.S, t.E);
    t.in.value = NORMAL_TENSOR(t.arena, seed + 2, t.B, t.Hkv, t.S, t.Ev);
    for (size_t i = 0; i < t.B * t.Hq * t.L * t.E; i++)
        ((float *)t.in.query.data)[i] *= (float)gain;
    t.want = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP;
    if (pick(seed, 9, 2))
        t.want |= ATTN_WANT_CELLS;
    if (pick(seed, 8, 3) == 0)
        t.in.softcap = 2;
    add_masks(&t, seed);
    return t;
}

static void run_trial(trial *t, attn_pool *pool) {
    attn_error err = {.code = ATTN_OK};
    attn_status status = attn_attention_new(&t->in, t->arena, &t->a, &err);
    if (status == ATTN_OK)
        status = attn_attention_run(t->a, t->want, ATTN_STAGE_PROBS, pool, NULL, t->arena, &t->out,
                                    &err);
    if (status != ATTN_OK)
        print_error("%s: %s\n", err.where, err.text);
    assert_int_equal(status, ATTN_OK);
}

static const float *row_of(const attn_tensor *x, size_t b, size_t h, size_t i) {
    return (const float *)x->data + ((b * x->dims[1] + h) * x->dims[2] + i) * x->dims[3];
}

/* Edited scores of one row, in double, from the definition. */
static void naive_scores(const trial *t, size_t b, size_t h, size_t i, double *s) {
    const attn_mask *m = attn_attention_mask(t->a);
    const float *q = row_of(&t->in.query, b, h, i);
    uint8_t keep[400];
    double add[400];
    attn_mask_keep(m, b, h, i, 0, t->S, keep);
    attn_mask_additive(m, b, h, i, 0, t->S, add);
    for (size_t j = 0; j < t->S; j++) {
        const float *k = row_of(&t->in.key, b, h / (t->Hq / t->Hkv), j);
        double x = 0;
        for (size_t e = 0; e < t->E; e++)
            x += (double)q[e] * (double)k[e];
        x /= sqrt((double)t->E);
        if (t->in.softcap != 0)
            x = t->in.softcap * tanh(x / t->in.softcap);
        x += add[j];
        if (!keep[j])
            x = t->in.mask.fill == ATTN_FILL_ADD       ? (double)((float)x + (float)-1e9)
                : t->in.mask.fill == ATTN_FILL_REPLACE ? -1e9
                                                       : -INFINITY;
        s[j] = x;
    }
}

static void check_row(const trial *t, size_t b, size_t h, size_t i, double tolerance) {
    double s[400], max = -INFINITY, sum = 0;
    const float *w = row_of(&t->out.weights, b, h, i), *o = row_of(&t->out.output, b, h, i);
    naive_scores(t, b, h, i, s);
    for (size_t j = 0; j < t->S; j++)
        max = fmax(max, s[j]);
    for (size_t j = 0; j < t->S; j++)
        sum += s[j] = max == -INFINITY ? 0 : exp(s[j] - max);
    for (size_t j = 0; j < t->S; j++) {
        s[j] = sum > 0 ? s[j] / sum : 0;
        assert_true(fabs((double)w[j] - s[j]) <= tolerance);
    }
    for (size_t e = 0; e < t->Ev; e++) {
        double x = 0;
        for (size_t j = 0; j < t->S; j++)
            x += s[j] * (double)row_of(&t->in.value, b, h / (t->Hq / t->Hkv), j)[e];
        assert_true(fabs((double)o[e] - x) <= 8 * tolerance);
    }
    float lse = ((const float *)t->out.logsumexp.data)[(b * t->Hq + h) * t->L + i];
    double expected = sum > 0 ? max + log(sum) : -INFINITY;
    assert_true(lse == (float)expected ||
                fabs((double)lse - expected) <= 4 * tolerance * fmax(1, fabs(expected)));
}

static void test_against_naive(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(CASES); seed++) {
        trial t = make_trial(seed * 1000, 1);
        run_trial(&t, NULL);
        for (size_t b = 0; b < t.B; b++)
            for (size_t h = 0; h < t.Hq; h++)
                for (size_t i = 0; i < t.L; i++)
                    check_row(&t, b, h, i, 2e-6);
        attn_arena_free(t.arena);
    }
}

/* Any rectangle of weights equals the full matrix bit for bit; so do the two score stages around
 * it. */
static void test_cells_bitwise(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(CASES); seed++) {
        trial t = make_trial(seed * 1000 + 1, seed % 3 == 2 ? 1e5 : 1);
        attn_error err;
        run_trial(&t, NULL);
        attn_cells_scratch *scratch = attn_cells_scratch_new(t.a, t.arena);
        assert_non_null(scratch);
        for (uint64_t n = 0; n < 10; n++) {
            attn_range r = {pick(seed, 50 + n, t.B), pick(seed, 60 + n, t.Hq),
                            pick(seed, 70 + n, t.L), 0,
                            pick(seed, 80 + n, t.S), 0};
            r.rows = 1 + pick(seed, 90 + n, t.L - r.row);
            r.cols = 1 + pick(seed, 100 + n, t.S - r.col);
            float *cells = attn_arena_zeroed(t.arena, r.rows * r.cols, sizeof *cells);
            assert_int_equal(attn_attention_cells(t.a, &t.out.stats, &r, ATTN_STAGE_PROBS, cells,
                                                  r.cols, scratch, &err),
                             ATTN_OK);
            for (size_t i = 0; i < r.rows; i++)
                assert_memory_equal(cells + i * r.cols,
                                    row_of(&t.out.weights, r.batch, r.head, r.row + i) + r.col,
                                    r.cols * sizeof *cells);
        }
        attn_arena_free(t.arena);
    }
}

static void test_cells_of_another_object(void **state) {
    (void)state;
    trial t = make_trial(77, 1);
    attn_attention *fresh; /* no packed keys of a run: keys are packed on the way */
    attn_error err;
    run_trial(&t, NULL);
    assert_int_equal(attn_attention_new(&t.in, t.arena, &fresh, &err), ATTN_OK);
    attn_cells_scratch *scratch = attn_cells_scratch_new(fresh, t.arena);
    attn_range all = {0, 0, 0, t.L, 0, t.S};
    float *cells = attn_arena_zeroed(t.arena, t.L * t.S, sizeof *cells);
    assert_int_equal(attn_attention_cells(fresh, &t.out.stats, &all, ATTN_STAGE_PROBS, cells, t.S,
                                          scratch, &err),
                     ATTN_OK);
    assert_memory_equal(cells, t.out.weights.data, t.L * t.S * sizeof *cells);
    all.cols++;
    assert_int_equal(attn_attention_cells(fresh, &t.out.stats, &all, ATTN_STAGE_PROBS, cells, t.S,
                                          scratch, &err),
                     ATTN_EARG);
    attn_arena_free(t.arena);
}

static void test_threads_do_not_matter(void **state) {
    (void)state;
    attn_pool *pool = attn_pool_new(4);
    assert_non_null(pool);
    for (uint64_t seed = 0; seed < trials(30); seed++) {
        trial one = make_trial(seed * 1000 + 2, 1), many = make_trial(seed * 1000 + 2, 1);
        run_trial(&one, NULL);
        run_trial(&many, pool);
        size_t n;
        attn_tensor_count(&one.out.output, &n);
        assert_memory_equal(one.out.output.data, many.out.output.data, n * sizeof(float));
        attn_tensor_count(&one.out.weights, &n);
        assert_memory_equal(one.out.weights.data, many.out.weights.data, n * sizeof(float));
        attn_arena_free(one.arena);
        attn_arena_free(many.arena);
    }
    attn_pool_free(pool);
}

/* Keys packed head by head, or all of them first: the same bytes, whatever is not finite or near
 * overflow among them. */
static void test_packing_does_not_matter(void **state) {
    (void)state;
    const float odd[] = {NAN, INFINITY, 3e38f, 1e30f};
    for (uint64_t seed = 0; seed < trials(40); seed++) {
        trial t[2];
        size_t n;
        for (int way = 0; way < 2; way++) {
            t[way] = make_trial(seed * 1000 + 4, 1);
            const size_t rows = t[way].B * t[way].Hkv * t[way].S;
            float *key = t[way].in.key.data, *value = t[way].in.value.data;
            key[pick(seed, 40, rows) * t[way].E] = odd[seed % 4];
            value[pick(seed, 41, rows) * t[way].Ev] = odd[seed / 4 % 4];
            t[way].in.allow_nonfinite = true;
            t[way].want &= ~(unsigned)ATTN_WANT_CELLS;
            t[way].want |= way ? (unsigned)ATTN_WANT_CELLS : 0;
            run_trial(&t[way], NULL);
        }
        assert_int_equal(t[0].out.hidden_rows, t[1].out.hidden_rows);
        attn_tensor_count(&t[0].out.output, &n);
        assert_memory_equal(t[0].out.output.data, t[1].out.output.data, n * sizeof(float));
        attn_tensor_count(&t[0].out.weights, &n);
        assert_memory_equal(t[0].out.weights.data, t[1].out.weights.data, n * sizeof(float));
        attn_tensor_count(&t[0].out.logsumexp, &n);
        assert_memory_equal(t[0].out.logsumexp.data, t[1].out.logsumexp.data, n * sizeof(float));
        attn_arena_free(t[0].arena);
        attn_arena_free(t[1].arena);
    }
}

/* Output only, and output with weights: the same output. */
static void test_weights_do_not_change_output(void **state) {
    (void)state;
    trial t = make_trial(5000, 1);
    attn_results only;
    attn_error err;
    size_t n;
    run_trial(&t, NULL);
    assert_int_equal(attn_attention_run(t.a, ATTN_WANT_OUTPUT, ATTN_STAGE_PROBS, NULL, NULL,
                                        t.arena, &only, &err),
                     ATTN_OK);
    attn_tensor_count(&t.out.output, &n);
    assert_memory_equal(t.out.output.data, only.output.data, n * sizeof(float));
    assert_int_equal(only.weights.rank, 0);
    attn_arena_free(t.arena);
}

/* Logits far beyond ATTN_WIDE, near FLT_MAX and overflowing. */
static void test_wide_rows(void **state) {
    (void)state;
    float q[] = {1e6f, -1e6f, 3e5f, 1e-3f}, k[] = {1, 2, 2, -1.5f}, v[] = {1, 10, 100, 1000};
    size_t dims[] = {4, 1};
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_error err;
    attn_attention *a;
    attn_results out;
    attn_inputs in = attn_attention_defaults();
    in.query = attn_tensor_dense(q, ATTN_F32, 2, dims);
    in.key = attn_tensor_dense(k, ATTN_F32, 2, dims);
    in.value = attn_tensor_dense(v, ATTN_F32, 2, dims);
    assert_int_equal(attn_attention_new(&in, arena, &a, &err), ATTN_OK);
    assert_int_equal(attn_attention_run(a, ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS, ATTN_STAGE_PROBS,
                                        NULL, NULL, arena, &out, &err),
                     ATTN_OK);
    const float *w = out.weights.data, *o = out.output.data;
    const float expected[] = {0, .5f, .5f, 0, 0, 0, 0, 1, 0, .5f, .5f, 0};
    assert_memory_equal(w, expected, sizeof expected);
    assert_true(o[0] == 55 && o[1] == 1000 && o[2] == 55);
    q[0] = 3e38f;
    assert_int_equal(
        attn_attention_run(a, ATTN_WANT_OUTPUT, ATTN_STAGE_PROBS, NULL, NULL, arena, &out, &err),
        ATTN_ENONFINITE);
    assert_string_equal(err.where, "query/0");
    attn_arena_free(arena);
}

static void test_empty_axes(void **state) {
    (void)state;
    const size_t sizes[][4] = {
        {0, 3, 2, 2}, {3, 0, 2, 2}, {0, 0, 2, 2}, {2, 3, 0, 2}, {2, 3, 2, 0}};
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
        const size_t L = sizes[c][0], S = sizes[c][1], E = sizes[c][2], Ev = sizes[c][3];
        size_t q[] = {L, E}, k[] = {S, E}, v[] = {S, Ev}, n;
        float data[16] = {0};
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_error err = {.code = ATTN_OK};
        attn_attention *a;
        attn_results out;
        attn_inputs in = attn_attention_defaults();
        in.query = attn_tensor_dense(data, ATTN_F32, 2, q);
        in.key = attn_tensor_dense(data, ATTN_F32, 2, k);
        in.value = attn_tensor_dense(data, ATTN_F32, 2, v);
        assert_int_equal(attn_attention_new(&in, arena, &a, &err), ATTN_OK);
        assert_int_equal(
            attn_attention_run(a, ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP,
                               ATTN_STAGE_PROBS, NULL, NULL, arena, &out, &err),
            ATTN_OK);
        attn_tensor_count(&out.output, &n);
        assert_int_equal(n, L * Ev);
        for (size_t i = 0; i < n; i++)
            assert_true(((float *)out.output.data)[i] == 0);
        assert_int_equal(out.hidden_rows, S ? 0 : L);
        attn_arena_free(arena);
    }
}

/* Masks that no request can send: no batch entry, no tensor, no name, sizes beyond any sequence. */
static void test_odd_masks(void **state) {
    attn_arena *arena = attn_arena_new(1 << 20);
    const attn_layer_kind kinds[] = {ATTN_LAYER_VALUES,  ATTN_LAYER_BIAS, ATTN_LAYER_PADDING,
                                     ATTN_LAYER_LENGTHS, ATTN_LAYER_BITS, ATTN_LAYER_TOKENS};
    attn_mask_spec spec = {.count = 1};
    attn_mask_shape shape = {.batch_rank = 1, .batch = {0}, .H = 2, .L = 3, .S = 4};
    attn_mask *m;
    attn_error err;
    (void)state;
    assert_non_null(arena);
    spec.layers[0].kind = ATTN_LAYER_CAUSAL;
    assert_int_equal(attn_mask_new(&spec, &shape, arena, &m, &err), ATTN_OK);
    uint64_t visible = 1;
    assert_int_equal(attn_mask_visible(m, NULL, &visible, &err), ATTN_OK);
    assert_int_equal(visible, 0);
    shape.batch[0] = 1;
    for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++) {
        spec.layers[0].kind = kinds[n];
        spec.layers[0].semantics = ATTN_SEM_KEEP;
        assert_int_equal(attn_mask_new(&spec, &shape, arena, &m, &err), ATTN_ESHAPE);
        assert_string_equal(err.where, "mask");
    }
    spec.layers[0] = (attn_mask_layer){.kind = ATTN_LAYER_WINDOW, .window = {INT64_C(1) << 41, 0}};
    assert_int_equal(attn_mask_new(&spec, &shape, arena, &m, &err), ATTN_EARG);
    assert_non_null(strstr(err.text, "1099511627776"));
    spec.layers[0] =
        (attn_mask_layer){.kind = ATTN_LAYER_PATTERN,
                          .pattern = {.kind = ATTN_PATTERN_LOCAL, .radius = INT64_C(1) << 41}};
    assert_int_equal(attn_mask_new(&spec, &shape, arena, &m, &err), ATTN_EARG);
    assert_non_null(strstr(err.text, "1099511627776"));
    attn_arena_free(arena);
}

/* The cost function bounds what a run takes from its arena, and is not far above it. */
static void test_cost_bounds_memory(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(40); seed++) {
        trial t = make_trial(seed * 1000 + 3, 1);
        attn_error err;
        attn_cost cost;
        const unsigned want = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP;
        assert_int_equal(attn_attention_new(&t.in, t.arena, &t.a, &err), ATTN_OK);
        assert_int_equal(attn_attention_cost(attn_attention_dims_of(t.a), want, 1, &cost, &err),
                         ATTN_OK);
        size_t before = attn_arena_used(t.arena);
        assert_int_equal(
            attn_attention_run(t.a, want, ATTN_STAGE_PROBS, NULL, NULL, t.arena, &t.out, &err),
            ATTN_OK);
        size_t used = attn_arena_used(t.arena) - before,
               promised = cost.work_bytes + cost.result_bytes + cost.fallback_bytes;
        assert_true(used <= promised);
        attn_arena_free(t.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_naive),
        cmocka_unit_test(test_cells_bitwise),
        cmocka_unit_test(test_cells_of_another_object),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_packing_does_not_matter),
        cmocka_unit_test(test_weights_do_not_change_output),
        cmocka_unit_test(test_wide_rows),
        cmocka_unit_test(test_empty_axes),
        cmocka_unit_test(test_odd_masks),
        cmocka_unit_test(test_cost_bounds_memory),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
