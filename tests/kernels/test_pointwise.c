/* Functions of rows: every table of this processor gives the bytes of the plain one at odd sizes,
 * writes nothing behind the row, and is within its promise of libm in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "attn/rng.h"
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

enum { MOST = 133, ROOM = 4 * MOST + 8 };

typedef struct work {
    float x[ROOM], y[ROOM], z[ROOM], u[ROOM], v[ROOM];
} work;

static void fill(work *w) {
    float *all = (float *)w;
    for (size_t i = 0; i < sizeof *w / sizeof *all; i++)
        all[i] = (float)(3 * attn_rng_normal(4, i));
}

/* Everything of one table on rows of n. */
static void use(const attn_pointwise *p, work *w, size_t n) {
    float max;
    fill(w);
    attn_lstm_row row = {.gates = w->x,
                         .before = w->y,
                         .c = w->y + MOST,
                         .h = w->y + 2 * MOST,
                         .dh = w->z,
                         .dc = w->u};
    p->lstm_forward(&row, n);
    p->lstm_backward(&row, n);
    row.before = NULL;
    p->lstm_forward(&row, n);
    p->lstm_backward(&row, n);
    p->tanh(w->v, w->v, n);
    p->sigmoid(w->v + MOST, w->z, n);
    p->gelu(w->x, w->x, n);
    p->gelu_tanh(w->x + MOST, w->x + MOST, n);
    p->silu(w->x + 2 * MOST, w->x + 2 * MOST, n);
    p->multiply(w->x, w->z, n);
    w->u[ROOM - 1] = p->exponentials(w->v + 2 * MOST, w->z, n, &max);
    w->u[ROOM - 2] = max;
    attn_norm_row norm = {.x = w->z, .weight = w->z + MOST};
    p->norm_forward(w->z + 2 * MOST, &norm, w->z + 3 * MOST, 1e-5f, n);
    p->norm_backward(w->u + MOST, w->u + 2 * MOST, w->u + 3 * MOST, w->v, &norm, n);
    p->dropout(w->v + 3 * MOST, n, UINT64_C(1) << 51, 1.5f, 9, 12345);
    p->add(w->y, w->z, n);
    p->add_scaled(w->y, w->u, 0.3f, n);
    p->scale(w->y, 1.7f, n);
}

static void test_tables(void **state) {
    static work plain, other;
    for (size_t n = 1; n <= MOST; n += n < 40 ? 1 : 31) {
        use(&attn_pointwise_ref, &plain, n);
        for (int isa = ATTN_ISA_REF; isa <= ATTN_ISA_AVX512; isa++)
            if (attn_isa_available((attn_isa)isa)) {
                use(attn_pointwise_of((attn_isa)isa), &other, n);
                assert_memory_equal(&plain, &other, sizeof plain);
            }
    }
    (void)state;
}

static void adam(const attn_pointwise *p, work *w, size_t n) {
    const attn_adam_row step = {.keep = 0.1f,
                                .fade = 0.99f,
                                .fresh = 0.01f,
                                .epsilon = 1e-8f,
                                .root = 0.3f,
                                .step = 0.01f,
                                .shrink = 0.999f,
                                .decay = 0.02f};
    fill(w);
    for (size_t i = 0; i < n; i++)
        w->v[i] *= w->v[i];
    p->adam(w->x, w->y, w->u, w->v, n, &step);
}

/* One pass of Adam beside its formulas in double, and a dot product, in every table. */
static void test_adam(void **state) {
    static work plain, other;
    for (size_t n = 1; n <= MOST; n += n < 40 ? 1 : 31) {
        const double dot = attn_pointwise_ref.dot((fill(&plain), plain.x), plain.y, n);
        double sum = 0, size = 0;
        for (size_t i = 0; i < n; i++) {
            const double term = (double)plain.x[i] * plain.y[i];
            sum += term, size += fabs(term);
        }
        assert_true(fabs(sum - dot) <= 1e-12 * size);
        adam(&attn_pointwise_ref, &plain, n);
        fill(&other);
        for (size_t i = 0; i < n; i++) {
            const double value = 0.999 * other.x[i], gradient = other.y[i] + 0.02 * value;
            const double m = 0.9 * other.u[i] + 0.1 * gradient;
            const double v = 0.99 * other.v[i] * other.v[i] + 0.01 * gradient * gradient;
            const double want = value - 0.01 * m / (sqrt(v) / 0.3 + 1e-8);
            assert_true(fabs(plain.x[i] - want) < 1e-5);
            assert_true(fabs(plain.u[i] - m) < 1e-5 && fabs(plain.v[i] - v) < 1e-5 * (1 + v));
        }
        assert_true(plain.x[n] == other.x[n] && plain.u[n] == other.u[n]);
        for (int isa = ATTN_ISA_REF; isa <= ATTN_ISA_AVX512; isa++)
            if (attn_isa_available((attn_isa)isa)) {
                fill(&other);
                assert_true(attn_pointwise_of((attn_isa)isa)->dot(other.x, other.y, n) == dot);
                adam(attn_pointwise_of((attn_isa)isa), &other, n);
                assert_memory_equal(&plain, &other, sizeof plain);
            }
    }
    (void)state;
}

/* Cells of 8 to 64 numbers: the lanes of every table beside sums and maxima of each lane alone. */
static void test_pool(void **state) {
    static work w;
    attn_pool_lanes lanes[5];
    fill(&w);
    for (size_t width = POOL_LANES; width <= 64; width += POOL_LANES)
        for (int isa = ATTN_ISA_REF; isa <= ATTN_ISA_AVX512; isa++) {
            if (!attn_isa_available((attn_isa)isa))
                continue;
            memset(lanes, 0, sizeof lanes);
            for (int times = 0; times < 2; times++)
                attn_pointwise_of((attn_isa)isa)->pool(lanes, w.x, 4, width);
            for (size_t c = 0; c < 5; c++)
                for (size_t l = 0; l < POOL_LANES; l++) {
                    double sum = 0;
                    float max = 0;
                    for (size_t i = l; c < 4 && i < 2 * width; i += POOL_LANES) {
                        sum += (double)w.x[c * width + i % width];
                        max = fmaxf(max, w.x[c * width + i % width]);
                    }
                    assert_true(lanes[c].sum[l] == sum && lanes[c].max[l] == max);
                }
        }
    (void)state;
}

/* Fills a row of double with weights, of which every third is hidden. */
static void fill_weights(const work *w, double *p, float *weights, uint8_t *visible) {
    for (size_t i = 0; i < MOST; i++) {
        visible[i] = i % 3 != 1;
        weights[i] = visible[i] ? fabsf(w->x[i]) : 0;
        p[i] = fabs((double)w->y[i]);
    }
}

/* What a table makes of a row of double. */
typedef struct doubles {
    double sums[5], p[MOST], centered[MOST], q[MOST], received[MOST];
    uint64_t seen[MOST];
    size_t largest;
    bool hidden;
} doubles;

static void use_doubles(const attn_pointwise *t, size_t n, const double *x, const double *y,
                        const float *weights, const uint8_t *visible, doubles *out) {
    memset(out, 0, sizeof *out);
    out->sums[0] = t->sum(x, n);
    out->sums[1] = t->products(x, y, n);
    out->sums[2] = t->ramp(x, n, -7);
    out->sums[3] = t->xlnx(x, n);
    out->sums[4] = t->mix_xlnx(x, y, n);
    out->largest = t->largest(x, n);
    out->hidden = t->widen_visible(out->p, weights, visible, n);
    t->centre(out->centered, out->q, out->p, visible, 0.125, 3, n);
    t->tally(out->received, out->seen, out->p, visible, n);
    t->tally(out->received, out->seen, x, visible, n);
}

/* Rows of double beside plain loops, and every table beside the first. */
static void test_doubles(void **state) {
    static work w;
    static doubles plain, other;
    static double x[MOST], y[MOST];
    static float weights[MOST];
    static uint8_t visible[MOST];
    fill(&w);
    fill_weights(&w, y, weights, visible);
    for (size_t i = 0; i < MOST; i++)
        x[i] = i == 5 ? 0 : (double)fabsf(w.z[i]);
    for (size_t n = 1; n <= MOST; n += n < 80 ? 1 : 31) {
        double sums[5] = {0};
        size_t best = 0;
        use_doubles(&attn_pointwise_ref, n, x, y, weights, visible, &plain);
        for (size_t i = 0; i < n; i++) {
            const double mix = 0.5 * (x[i] + y[i]);
            const double terms[] = {x[i], x[i] * y[i], x[i] * ((double)i - 7),
                                    x[i] > 0 ? x[i] * log(x[i]) : 0, mix > 0 ? mix * log(mix) : 0};
            for (size_t k = 0; k < 5; k++)
                sums[k] += terms[k];
            best = x[i] > x[best] ? i : best;
            assert_true(plain.p[i] == (visible[i] ? (double)weights[i] : 0));
            assert_true(plain.centered[i] == (visible[i] ? plain.p[i] - 0.125 : 0));
            assert_true(plain.q[i] == plain.p[i] / 3);
            assert_true(plain.received[i] == plain.p[i] + x[i] && plain.seen[i] == 2u * visible[i]);
        }
        for (size_t k = 0; k < 5; k++)
            assert_true(fabs(sums[k] - plain.sums[k]) <= 1e-12 * (1 + fabs(sums[k])) * (double)n);
        assert_true(plain.largest == best && !plain.hidden);
        for (int isa = ATTN_ISA_REF; isa <= ATTN_ISA_AVX512; isa++)
            if (attn_isa_available((attn_isa)isa)) {
                use_doubles(attn_pointwise_of((attn_isa)isa), n, x, y, weights, visible, &other);
                assert_memory_equal(&plain, &other, sizeof plain);
            }
        weights[n - 1] = -0.0f; /* -0 on a hidden key is nothing, and every other number is */
        visible[n - 1] = 0;
        assert_false(attn_pointwise_ref.widen_visible(other.p, weights, visible, n));
        weights[n - 1] = 1e-40f;
        assert_true(attn_pointwise_ref.widen_visible(other.p, weights, visible, n));
        fill_weights(&w, y, weights, visible);
    }
    (void)state;
}

/* What a table finds in a row of logits, of which some are hidden, and of weights. */
typedef struct scans {
    attn_logit_scan logits;
    attn_weight_scan weights;
    attn_fall_sums fall;
    double spread, p[MOST];
    size_t places[2];
} scans;

static void scan_row(const attn_pointwise *t, size_t n, const float *weights, const float *logits,
                     scans *out) {
    memset(out, 0, sizeof *out);
    const attn_logit_scan s = t->scan_logits(logits, n);
    out->logits.seen = s.seen; /* member by member, since padding has no value */
    out->logits.most = s.most;
    out->logits.total = s.total;
    out->weights = t->scan_weights(out->p, weights, n, -7);
    t->add_fall(&out->fall, weights, logits, n, 9);
    out->spread = t->spread(logits, n, 0.5);
    out->places[0] = t->find_float(logits, n, s.most);
    out->places[1] = t->find_double(out->p, n, out->weights.most);
}

static bool is_near(double got, double want, size_t n) {
    return fabs(got - want) <= 1e-12 * (1 + fabs(want)) * (double)n;
}

/* Scans of rows beside plain loops, and every table beside the first. */
static void test_scans(void **state) {
    static work w;
    static scans plain, other;
    static float logits[MOST], weights[MOST];
    fill(&w);
    for (size_t i = 0; i < MOST; i++) {
        logits[i] = i % 5 == 2 ? -INFINITY : w.x[i];
        weights[i] = i % 5 == 2 ? 0 : fabsf(w.y[i]);
    }
    for (size_t n = 1; n <= MOST; n += n < 80 ? 1 : 31) {
        double total = 0, spread = 0, mass = 0, fall = 0, sums[4] = {0};
        size_t seen = 0, best = 0, top = 0;
        scan_row(&attn_pointwise_ref, n, weights, logits, &plain);
        for (size_t i = 0; i < n; i++) {
            const bool visible = logits[i] != -INFINITY;
            const double x = logits[i], p = weights[i], d = (double)i - 7;
            seen += visible;
            total += visible ? x : 0;
            spread += visible ? (x - 0.5) * (x - 0.5) : 0;
            mass += p > 0 ? p : 0;
            fall += p > 0 ? p * (9 - x) : 0;
            best = logits[i] > logits[best] ? i : best;
            top = p > (double)weights[top] ? i : top;
            const double terms[] = {p, p * p, p * d, p * fabs(d)};
            for (size_t k = 0; k < 4; k++)
                sums[k] += terms[k];
        }
        assert_true(plain.logits.seen == seen && plain.logits.most == logits[best]);
        assert_true(plain.places[0] == best && plain.places[1] == top);
        assert_true(is_near(plain.logits.total, total, n) && is_near(plain.spread, spread, n));
        assert_true(is_near(attn_join(plain.fall.mass), mass, n));
        assert_true(is_near(attn_join(plain.fall.fall), fall, n));
        const attn_weight_scan *s = &plain.weights;
        assert_true(is_near(s->mass, sums[0], n) && is_near(s->squares, sums[1], n) &&
                    is_near(s->ramp, sums[2], n) && is_near(s->reach, sums[3], n));
        for (int isa = ATTN_ISA_REF; isa <= ATTN_ISA_AVX512; isa++)
            if (attn_isa_available((attn_isa)isa)) {
                scan_row(attn_pointwise_of((attn_isa)isa), n, weights, logits, &other);
                assert_memory_equal(&plain, &other, sizeof plain);
            }
    }
    (void)state;
}

/* Rows of 1 to 9, columns around whole panels: beside sums in double, nothing written beside. */
static void test_product(void **state) {
    enum { K = 21, N = 50, LD = N + 3, LDX = K + 2, ROWS = 9 };
    static float panels[64 * K], x[ROWS * LDX], y[ROWS * LD], first[ROWS * LD];
    for (size_t n = 1; n <= N; n += n < 18 ? 1 : 16)
        for (size_t rows = 1; rows <= ROWS; rows++)
            for (int isa = ATTN_ISA_REF; isa <= ATTN_ISA_AVX512; isa++) {
                if (!attn_isa_available((attn_isa)isa))
                    continue;
                attn_rng_fill_normal(panels, 64 * K, 1, 0);
                attn_rng_fill_normal(x, ROWS * LDX, 2, 0);
                attn_rng_fill_normal(y, ROWS * LD, 3, 0);
                attn_pointwise_of((attn_isa)isa)->product(y, LD, x, LDX, rows, panels, n, K);
                for (size_t i = 0; i < ROWS * LD; i++) {
                    const size_t r = i / LD, j = i % LD;
                    double want = attn_rng_normal(3, i);
                    for (size_t k = 0; r < rows && j < n && k < K; k++)
                        want += (double)x[r * LDX + k] * panels[j / 16 * 16 * K + k * 16 + j % 16];
                    assert_true(fabs(y[i] - want) < 1e-5);
                }
                if (isa == ATTN_ISA_REF)
                    memcpy(first, y, sizeof y);
                assert_memory_equal(first, y, sizeof y);
            }
    (void)state;
}

static void near(double got, double want) {
    const double most = 3 * 0x1p-23 * fmax(fabs(want), 0.125);
    if (!(fabs(got - want) <= most))
        fail_msg("%.9g, expected %.9g", got, want);
}

static void near_times(double got, double x, double factor) {
    if (!(fabs(got - x * factor) <= 0x1p-22 * fabs(x)))
        fail_msg("%.9g at %.9g, expected %.9g", got, x, x * factor);
}

static void test_accuracy(void **state) {
    enum { N = 40001 };
    static float x[N], y[N];
    const attn_pointwise *p = attn_pointwise_current();
    float max;
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - N / 2) / 1000;
    p->tanh(y, x, N);
    for (int i = 0; i < N; i++)
        near(y[i], tanh(x[i]));
    p->sigmoid(y, x, N);
    for (int i = 0; i < N; i++)
        near(y[i], 1 / (1 + exp(-(double)x[i])));
    p->gelu(y, x, N);
    for (int i = 0; i < N; i++)
        near_times(y[i], x[i], 0.5 * erfc(-x[i] * sqrt(0.5)));
    p->gelu_tanh(y, x, N);
    for (int i = 0; i < N; i++)
        near_times(y[i], x[i], 0.5 * (1 + tanh(sqrt(2 / M_PI) * (x[i] + 0.044715 * pow(x[i], 3)))));
    p->silu(y, x, N);
    for (int i = 0; i < N; i++)
        near_times(y[i], x[i], 1 / (1 + exp(-(double)x[i])));
    double sum = 0;
    const float got = p->exponentials(y, x, N, &max);
    for (int i = 0; i < N; i++) {
        near(y[i], exp((double)x[i] - max));
        sum += exp((double)x[i] - max);
    }
    assert_true(max == x[N - 1] && fabs(got / sum - 1) < 1e-6);
    (void)state;
}

/* Beyond every range: no NaN from numbers, and a NaN stays one. */
static void test_extremes(void **state) {
    float x[5] = {-INFINITY, -1e30f, 1e30f, INFINITY, NAN}, y[5];
    const attn_pointwise *p = attn_pointwise_current();
    p->tanh(y, x, 5);
    assert_true(y[0] == -1 && y[1] == -1 && y[2] == 1 && y[3] == 1 && isnan(y[4]));
    p->sigmoid(y, x, 5);
    assert_true(y[0] < 1e-37f && y[1] < 1e-37f && y[2] == 1 && y[3] == 1 && isnan(y[4]));
    p->gelu(y, x, 5);
    assert_true(y[1] == 0 && y[2] == 1e30f && y[3] == INFINITY && isnan(y[4]));
    p->silu(y, x, 5);
    assert_true(fabsf(y[1]) < 1e-7f && y[2] == 1e30f && y[3] == INFINITY && isnan(y[4]));
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),   cmocka_unit_test(test_adam),
        cmocka_unit_test(test_pool),     cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_scans),    cmocka_unit_test(test_product),
        cmocka_unit_test(test_accuracy), cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
