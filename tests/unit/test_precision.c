/* The precisions of products on the chosen table: what is rounded and what is not, cells bit for
 * bit, magnitudes that halves cannot hold, what hidden positions hold. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "kernels/bf16.h"
#include "unit/normal_tensor.h"
#include "unit/trials.h"

enum { CASES = 40, LIMIT = 1 << 28 };

static size_t pick(uint64_t seed, uint64_t at, size_t n) {
    return (size_t)(attn_rng_bits(seed, at) % n);
}

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_attention *a;
    attn_results out;
    size_t H, L, S, E, Ev;
} trial;

static trial make(uint64_t seed, attn_precision precision) {
    trial t = {.arena = attn_arena_new(LIMIT), .in = attn_attention_defaults()};
    assert_non_null(t.arena);
    attn_mask_spec *m = &t.in.mask;
    t.H = 2, t.L = 1 + pick(seed, 1, 70), t.S = 1 + pick(seed, 2, 300);
    t.E = 1 + pick(seed, 3, 100), t.Ev = 1 + pick(seed, 4, 100);
    t.in.precision = precision;
    t.in.query = NORMAL_TENSOR(t.arena, seed, 1, t.H, t.L, t.E);
    t.in.key = NORMAL_TENSOR(t.arena, seed + 1, 1, 1 + pick(seed, 5, 2), t.S, t.E);
    t.in.value = NORMAL_TENSOR(t.arena, seed + 2, 1, t.in.key.dims[1], t.S, t.Ev);
    if (pick(seed, 6, 2))
        t.in.softcap = 3;
    if (pick(seed, 7, 2))
        m->layers[m->count++] = (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
    if (pick(seed, 8, 2))
        m->layers[m->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_BIAS,
                              .where = "attn_bias",
                              .values = NORMAL_TENSOR(t.arena, seed, 1, t.H, t.L, t.S)};
    return t;
}

static void run(trial *t) {
    attn_error err = {.code = ATTN_OK};
    const unsigned want =
        ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP | ATTN_WANT_SCORES;
    attn_status status = attn_attention_new(&t->in, t->arena, &t->a, &err);
    if (status == ATTN_OK)
        status =
            attn_attention_run(t->a, want, ATTN_STAGE_BIASED, NULL, NULL, t->arena, &t->out, &err);
    if (status != ATTN_OK)
        print_error("%s: %s\n", err.where, err.text);
    assert_int_equal(status, ATTN_OK);
}

static const float *row_of(const attn_tensor *x, size_t h, size_t i) {
    return (const float *)x->data + (h % x->dims[1] * x->dims[2] + i) * x->dims[3];
}

static double part(float x, attn_precision precision) {
    return (double)(precision == ATTN_PRECISION_BF16 ? attn_bf16_round(x) : x);
}

/* Allowed error of a product, relative to the sum of its terms' magnitudes. */
static double product_error(attn_precision precision) {
    return precision == ATTN_PRECISION_FAST ? 0x3p-16 : 4e-6;
}

static void close_to(double got, double want, double bound) {
    if (!(fabs(got - want) <= bound)) {
        print_error("got %.9g, want %.9g +- %.3g\n", got, want, bound);
        fail();
    }
}

/* The scores of row i as the form makes them. */
static void raw_row(const trial *t, size_t h, size_t i, float *raw) {
    attn_cells_scratch *scratch = attn_cells_scratch_new(t->a, t->arena);
    const attn_range row = {.head = h, .row = i, .rows = 1, .cols = t->S};
    assert_non_null(scratch);
    assert_int_equal(
        attn_attention_cells(t->a, &t->out.stats, &row, ATTN_STAGE_RAW, raw, t->S, scratch, NULL),
        ATTN_OK);
}

static void check_raw_scores(const trial *t, attn_precision p, size_t h, size_t i) {
    float raw[400];
    raw_row(t, h, i, raw);
    for (size_t j = 0; j < t->S; j++) {
        const size_t hkv = h / (t->H / t->in.key.dims[1]);
        double sum = 0, size = 0;
        for (size_t e = 0; e < t->E; e++) {
            double x = part(row_of(&t->in.query, h, i)[e], p);
            double y = part(row_of(&t->in.key, hkv, j)[e], p);
            sum += x * y, size += fabs(x * y);
        }
        close_to((double)raw[j], sum, product_error(p) * size);
    }
}

/* The weights are those of the scores; the output is that of the weights, whose rounding for bf16
 * is 2^-8 of each. */
static void check_row(const trial *t, attn_precision p, size_t h, size_t i) {
    const float *s = row_of(&t->out.scores, h, i), *w = row_of(&t->out.weights, h, i);
    const size_t hkv = h / (t->H / t->in.key.dims[1]);
    double max = -INFINITY, sum = 0;
    for (size_t j = 0; j < t->S; j++)
        max = fmax(max, (double)s[j]);
    for (size_t j = 0; j < t->S; j++)
        sum += exp((double)s[j] - max);
    for (size_t j = 0; j < t->S; j++)
        close_to((double)w[j], exp((double)s[j] - max) / sum, 2e-6);
    for (size_t e = 0; e < t->Ev; e++) {
        double o = 0, size = 0;
        for (size_t j = 0; j < t->S; j++) {
            const double v = part(row_of(&t->in.value, hkv, j)[e], p);
            o += (double)w[j] * v, size += (double)w[j] * fabs(v);
        }
        const double bound = p == ATTN_PRECISION_BF16 ? 0x1.02p-8 : product_error(p);
        close_to((double)row_of(&t->out.output, h, i)[e], o, bound * size + 4e-6 * size);
    }
}

static void test_definition(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(CASES); seed++)
        for (int p = 0; p < ATTN_PRECISION_COUNT; p++) {
            trial t = make(seed * 100, (attn_precision)p);
            run(&t);
            for (size_t h = 0; h < t.H; h++)
                for (size_t i = 0; i < t.L; i += 7) {
                    check_raw_scores(&t, (attn_precision)p, h, i);
                    check_row(&t, (attn_precision)p, h, i);
                }
            attn_arena_free(t.arena);
        }
}

/* --- learned scores: v . tanh(W_q q + W_k k) --- */

static attn_tensor matrix(attn_arena *arena, int rank, size_t rows, size_t cols, uint64_t seed) {
    attn_tensor t = NORMAL_TENSOR(arena, seed, 1, 1, rows, cols);
    for (size_t i = 0; i < rows * cols; i++)
        ((float *)t.data)[i] *= 0.3f;
    return attn_tensor_dense(t.data, ATTN_F32, rank, (size_t[]){rows, cols});
}

static trial make_tanh(uint64_t seed, attn_precision precision) {
    trial t = make(seed, precision);
    const size_t A = 1 + pick(seed, 30, 40);
    t.in.score.kind = ATTN_SCORE_additive;
    t.in.score.w_q = matrix(t.arena, 2, A, t.E, seed + 30);
    t.in.score.w_k = matrix(t.arena, 2, A, t.E, seed + 31);
    t.in.score.v = matrix(t.arena, 1, A, 1, seed + 32);
    return t;
}

/* Element a of a mapped row. */
static double mapped(const attn_tensor *w, const float *row, size_t a) {
    const size_t E = w->dims[1];
    double sum = 0;
    for (size_t e = 0; e < E; e++)
        sum += (double)((const float *)w->data)[a * E + e] * (double)row[e];
    return sum;
}

/* The mapped number as it is scored; *slack grows where float's sum may round to its neighbour. */
static double scored(double x, attn_precision p, double *slack) {
    const double near = 2e-6 * (1 + fabs(x)), low = part((float)(x - near), p),
                 high = part((float)(x + near), p);
    *slack += p == ATTN_PRECISION_BF16 ? high - low : near;
    return part((float)x, p);
}

static void check_tanh_row(const trial *t, attn_precision p, size_t h, size_t i) {
    const attn_score *s = &t->in.score;
    const size_t hkv = h / (t->H / t->in.key.dims[1]);
    float raw[400];
    raw_row(t, h, i, raw);
    for (size_t j = 0; j < t->S; j++) {
        double sum = 0, bound = 1e-6;
        for (size_t a = 0; a < s->v.dims[0]; a++) {
            const double v = (double)((const float *)s->v.data)[a];
            double slack = 1e-6;
            const double q = scored(mapped(&s->w_q, row_of(&t->in.query, h, i), a), p, &slack);
            const double k = scored(mapped(&s->w_k, row_of(&t->in.key, hkv, j), a), p, &slack);
            sum += v * tanh(q + k);
            bound += fabs(v) * slack;
        }
        close_to((double)raw[j], sum, bound);
    }
}

static void test_tanh(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(CASES) / 4; seed++)
        for (int p = 0; p < ATTN_PRECISION_COUNT; p++) {
            trial t = make_tanh(seed * 100 + 3, (attn_precision)p);
            run(&t);
            for (size_t i = 0; i < t.L; i += 19) {
                check_tanh_row(&t, (attn_precision)p, seed % t.H, i);
                check_row(&t, (attn_precision)p, seed % t.H, i);
            }
            attn_arena_free(t.arena);
        }
}

/* Any part of the weights, asked for later, is bit for bit that of the matrix. */
static void test_cells(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(CASES); seed++)
        for (int p = 0; p < ATTN_PRECISION_COUNT; p++) {
            trial t = (seed % 4 ? make : make_tanh)(seed * 100 + 7, (attn_precision)p);
            run(&t);
            attn_cells_scratch *scratch = attn_cells_scratch_new(t.a, t.arena);
            for (uint64_t n = 0; n < 12; n++) {
                attn_range r = {.head = pick(seed, 40 + n, t.H),
                                .row = pick(seed, 60 + n, t.L),
                                .col = pick(seed, 80 + n, t.S)};
                float cells[70 * 300];
                r.rows = 1 + pick(seed, 100 + n, t.L - r.row);
                r.cols = 1 + pick(seed, 120 + n, t.S - r.col);
                assert_int_equal(attn_attention_cells(t.a, &t.out.stats, &r, ATTN_STAGE_PROBS,
                                                      cells, r.cols, scratch, NULL),
                                 ATTN_OK);
                for (size_t i = 0; i < r.rows; i++)
                    assert_memory_equal(cells + i * r.cols,
                                        row_of(&t.out.weights, r.head, r.row + i) + r.col,
                                        r.cols * sizeof(float));
            }
            attn_arena_free(t.arena);
        }
}

/* NaN in keys and values that the causal mask hides from the first rows changes nothing there. */
static void test_hidden_poison(void **state) {
    (void)state;
    for (int p = 0; p < ATTN_PRECISION_COUNT; p++) {
        trial clean = make(4, (attn_precision)p), dirty = make(4, (attn_precision)p);
        trial *both[] = {&clean, &dirty};
        for (int i = 0; i < 2; i++) {
            attn_mask_spec *m = &both[i]->in.mask;
            m->count = 0;
            m->layers[m->count++] =
                (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
            both[i]->in.allow_nonfinite = true;
        }
        const size_t last = clean.S < clean.L ? clean.S - 1 : clean.L - 1;
        assert_true(last > 3);
        ((float *)dirty.in.key.data)[last * dirty.E] = NAN;
        ((float *)dirty.in.value.data)[last * dirty.Ev] = INFINITY;
        run(&clean), run(&dirty);
        assert_memory_equal(clean.out.output.data, dirty.out.output.data,
                            last * clean.Ev * sizeof(float));
        assert_memory_equal(clean.out.weights.data, dirty.out.weights.data,
                            last * clean.S * sizeof(float));
        attn_arena_free(clean.arena), attn_arena_free(dirty.arena);
    }
}

/* Keys near the largest float and queries so small that their parts would vanish: both are left to
 * plain arithmetic, and exact. */
static void test_magnitudes(void **state) {
    (void)state;
    for (int p = 0; p < ATTN_PRECISION_COUNT; p++) {
        trial t = make(12, (attn_precision)p);
        t.in.mask.count = 0;
        t.in.softcap = 0;
        for (size_t i = 0; i < t.H * t.L * t.E; i++)
            ((float *)t.in.query.data)[i] *= 0x1p-120f;
        for (size_t i = 0; i < t.in.key.dims[1] * t.S * t.E; i++)
            ((float *)t.in.key.data)[i] *= 0x1p120f;
        run(&t);
        const size_t hkv = 1 / (t.H / t.in.key.dims[1]);
        for (size_t j = 0; j < t.S; j++) {
            double sum = 0;
            for (size_t e = 0; e < t.E; e++)
                sum += (double)row_of(&t.in.query, 1, 0)[e] * (double)row_of(&t.in.key, hkv, j)[e];
            close_to((double)row_of(&t.out.scores, 1, 0)[j], sum / sqrt((double)t.E), 1e-5);
        }
        attn_arena_free(t.arena);
    }
}

static void refused(trial *t, const char *where, attn_status code) {
    attn_error err = {.code = ATTN_OK};
    assert_int_equal(attn_attention_new(&t->in, t->arena, &t->a, &err), code);
    assert_string_equal(err.where, where);
    attn_arena_free(t->arena);
}

static void test_refusals(void **state) {
    trial t = make(0, (attn_precision)7);
    (void)state;
    refused(&t, "precision", ATTN_EARG);
    t = make(0, ATTN_PRECISION_FAST);
    t.in.value.dtype = ATTN_F64;
    refused(&t, "precision", ATTN_EARG);
    t = make(0, ATTN_PRECISION_BF16);
    t.in.kernel = "sse9";
    refused(&t, "kernel", ATTN_EUNSUPPORTED);

    t = make(0, ATTN_PRECISION_BF16);
    run(&t);
    attn_gradients g;
    attn_error err = {.code = ATTN_OK};
    const attn_tensor grad = t.out.output;
    assert_int_equal(attn_attention_backward(t.a, &t.out, &grad, NULL, NULL, t.arena, &g, &err),
                     ATTN_EUNSUPPORTED);
    assert_string_equal(err.where, "precision");
    attn_arena_free(t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition), cmocka_unit_test(test_tanh),
        cmocka_unit_test(test_cells),      cmocka_unit_test(test_hidden_poison),
        cmocka_unit_test(test_magnitudes), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("precision", tests, NULL, NULL);
}
